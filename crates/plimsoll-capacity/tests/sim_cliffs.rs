//! The cliff detector on durations from seeds: timers of known value among smooth ones, and smooth
//! ones alone.

use fastrand::Rng;
use plimsoll_capacity::cliffs;
use plimsoll_capacity::cliffs::{Load, SlowAnswers};
use plimsoll_model::Nanos;
use plimsoll_model::cliff::{Cliff, Owner};
use plimsoll_model::ending::{Closer, Stretch};
use plimsoll_model::tally::{Interval, Tally};

/// The values of the timers that must be found, in seconds.
const TIMERS_S: [f64; 5] = [3.0, 17.0, 30.0, 60.0, 120.0];
/// Relative error that is allowed.
const EXACT: f64 = 0.02;

/// A law of service times, in seconds.
#[derive(Clone, Copy, Debug)]
enum Law {
    Exponential {
        mean: f64,
    },
    Lognormal {
        median: f64,
        sigma: f64,
    },
    /// Two lognormal humps, the second with this share and width.
    Bimodal {
        fast: f64,
        slow: f64,
        share: f64,
        sigma: f64,
    },
    /// Sharp edges, which are no piles.
    Uniform {
        from: f64,
        to: f64,
    },
}

fn normal(rng: &mut Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.f64()).cos()
}

impl Law {
    fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Exponential { mean } => -mean * (1.0 - rng.f64()).ln(),
            Self::Lognormal { median, sigma } => median * (sigma * normal(rng)).exp(),
            Self::Bimodal { fast, slow, share, sigma } => {
                let is_slow = rng.f64() < share;
                let (median, sigma) = if is_slow { (slow, sigma) } else { (fast, 0.1) };
                median * (sigma * normal(rng)).exp()
            }
            Self::Uniform { from, to } => from + (to - from) * rng.f64(),
        }
    }

    /// Some law, with medians from 1 ms to 3 s.
    fn any(rng: &mut Rng) -> Self {
        let median = 10f64.powf(3.5 * rng.f64() - 3.0);
        match rng.u8(0..4) {
            0 => Self::Exponential { mean: median },
            1 => Self::Lognormal { median, sigma: 0.1 + 1.4 * rng.f64() },
            2 => Self::Bimodal {
                fast: median,
                slow: median * (2.0 + 30.0 * rng.f64()),
                share: 0.02 + 0.4 * rng.f64(),
                // A second path of steady work; no timer is noticed so unsteadily.
                sigma: 0.018 + 0.2 * rng.f64(),
            },
            _ => Self::Uniform { from: median, to: median * (1.1 + 20.0 * rng.f64().powi(3)) },
        }
    }
}

/// Finds the cliffs of one second of a load.
fn find(tally: &Tally) -> Vec<Cliff> {
    let mut slow = SlowAnswers::default();
    slow.handle_second(&Interval { second: 0, tally: tally.clone() });
    cliffs::find(&[Load { tally, slow: &slow, rate: None, sent_again: None }], &[])
}

fn span(seconds: f64) -> Nanos {
    Nanos::from_secs_f64(seconds)
}

/// Good answers of `law`, a share of which some timer held up for `timer` seconds; it fires up to
/// 0.5 % late.
fn held_up(rng: &mut Rng, law: Law, ops: u32, timer: f64, share: f64) -> Tally {
    let mut tally = Tally::default();
    for _ in 0..ops {
        let lasted =
            if rng.f64() < share { timer * (1.0 + 0.005 * rng.f64()) } else { law.draw(rng) };
        tally.spans.uncorrected.record(span(lasted));
    }
    tally
}

/// Answers of `law` cut off at `timer`: what would have taken longer ends in `closer`.
fn cut_off(rng: &mut Rng, law: Law, ops: u32, timer: f64, closer: Closer) -> Tally {
    let mut tally = Tally::default();
    for i in 0..ops {
        let lasted = law.draw(rng);
        if lasted < timer {
            tally.spans.uncorrected.record(span(lasted));
        } else {
            let lasted = span(timer * (1.0 + 0.005 * rng.f64()));
            let now = Nanos(u64::from(i) * 1_000_000);
            tally.endings.record(Stretch::Operation, closer, lasted, 0, now);
        }
    }
    tally
}

fn is_near(cliff: &Cliff, timer: f64) -> bool {
    (cliff.at.as_secs_f64() / timer - 1.0).abs() <= EXACT
}

#[test]
fn timers_among_smooth_durations_are_found_and_nothing_else() {
    let laws = [
        Law::Exponential { mean: 0.02 },
        Law::Exponential { mean: 0.3 },
        Law::Lognormal { median: 0.05, sigma: 0.8 },
        Law::Bimodal { fast: 0.01, slow: 0.25, share: 0.1, sigma: 0.1 },
    ];
    for seed in 0..30 {
        for timer in TIMERS_S {
            for law in laws {
                let mut rng = Rng::with_seed(0xC11F_F000 + seed);
                let tally = held_up(&mut rng, law, 3_000, timer, 0.05);
                let found = find(&tally);
                // If the law's own tail is most of what is slow, the share may be too small;
                // these laws leave the timer the most of it.
                assert_eq!(found.len(), 1, "seed {seed}, {timer} s in {law:?}: {found:?}");
                assert!(is_near(&found[0], timer), "seed {seed}, {timer} s: {found:?}");
                assert_eq!(found[0].owner, Owner::Backend);
            }
        }
    }
}

#[test]
fn timers_that_cut_off_a_long_tail_are_found_and_ascribed() {
    let closers = [
        (Closer::OwnTimer, Owner::Client),
        (Closer::Status(504), Owner::Sut),
        (Closer::Status(502), Owner::Backend),
        (Closer::PeerFin, Owner::Sut),
    ];
    for seed in 0..30 {
        for timer in TIMERS_S {
            for (closer, owner) in closers {
                let mut rng = Rng::with_seed(0xC07_0FF0 + seed);
                // 7 % of the answers would take longer than the timer.
                let law = Law::Lognormal { median: timer / 4.5, sigma: 1.0 };
                let tally = cut_off(&mut rng, law, 2_000, timer, closer);
                let found = find(&tally);
                assert_eq!(found.len(), 1, "seed {seed}, {timer} s, {closer}: {found:?}");
                assert!(is_near(&found[0], timer), "seed {seed}, {timer} s: {found:?}");
                assert_eq!(found[0].owner, owner, "{closer}");
            }
        }
    }
}

#[test]
fn no_cliff_is_seen_in_a_thousand_smooth_loads() {
    for seed in 0..1_000 {
        let mut rng = Rng::with_seed(0x500_7000 + seed);
        let law = Law::any(&mut rng);
        let ops = 10f64.powf(2.0 + 2.0 * rng.f64()) as u32;
        // The same law among good answers, among failures and among ages.
        let mut tally = Tally::default();
        for i in 0..ops {
            let now = Nanos(u64::from(i) * 1_000_000);
            tally.spans.uncorrected.record(span(law.draw(&mut rng)));
            let endings = &mut tally.endings;
            let lasted = span(law.draw(&mut rng));
            endings.record(Stretch::Operation, Closer::Status(503), lasted, 0, now);
            let lasted = span(law.draw(&mut rng));
            endings.record(Stretch::Lifetime, Closer::PeerFin, lasted, i, now);
        }
        let found = find(&tally);
        assert_eq!(found, [], "seed {seed}: {ops} of {law:?}");
    }
}
