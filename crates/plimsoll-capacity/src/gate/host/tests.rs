//! Gates on closed loops of one server, on a host that is 16 % slower for stretches of 2 to 8 s. The share of slow time
//! differs from run to run, which the stretches within a run do not show.

use fastrand::Rng;
use plimsoll_model::Nanos;
use plimsoll_model::gate::{GateFinding, GateResult, HostEffect};
use plimsoll_model::settings::Starts;
use plimsoll_model::summary::Summary;
use plimsoll_model::tally::Tally;

use super::super::tests::{head, normal};
use super::super::{GateRun, RunSpeed, Stretches, judge};

const PAIRS: u64 = 200;
const SECONDS: usize = 120;
/// The server's speed on the slow host.
const SLOW: f64 = 0.84;
/// Parts of the host's speed that servers feel.
const FELT: [f64; 4] = [0.3, 0.5, 0.7, 1.0];

/// A closed loop whose server has `capacity`, and the yardstick beside it.
fn run(rng: &mut Rng, capacity: f64, slow_share: f64, felt: f64) -> (Stretches, RunSpeed) {
    let (mut stretches, mut pieces) = (Stretches::new(SECONDS as f64), Vec::new());
    while pieces.len() < SECONDS {
        let speed = if rng.f64() < slow_share { SLOW } else { 1.0 };
        for _ in 0..rng.usize(2..=8) {
            let ok = (capacity * speed * (0.02 * normal(rng)).exp()) as u64;
            let tally = Tally { scheduled: ok, ok, ..Tally::default() };
            if pieces.len() < SECONDS {
                stretches.add(pieces.len(), &tally);
            }
            let piece = speed.powf(-1.0 / felt) * (0.05 * normal(rng)).exp();
            pieces.push(Nanos::from_secs_f64(1e-3 * piece));
        }
    }
    (stretches, RunSpeed::of(&pieces).expect("enough seconds"))
}

fn closed_loop() -> Summary {
    let mut summary = Summary::new(head("load"), &Tally::default());
    summary.settings.load.as_mut().expect("a load").arrivals = Starts::Closed;
    summary
}

/// The known speeds of the host.
#[derive(Clone, Copy)]
enum Speeds {
    Measured,
    /// Treats both speeds as equal.
    Ignored,
    Unknown,
}

/// A gate on two runs, of which the second has `factor` of the capacity.
fn found(
    text: &str,
    seed: u64,
    (felt, factor): (f64, f64),
    shares: [f64; 2],
    speeds: Speeds,
) -> GateFinding {
    let mut rng = Rng::with_seed(seed);
    let summary = closed_loop();
    let before = run(&mut rng, 1_000.0, shares[0], felt);
    let now = run(&mut rng, 1_000.0 * factor, shares[1], felt);
    let of = |stretches, speed| GateRun { summary: &summary, stretches, speed };
    let [a, b] = match speeds {
        Speeds::Measured => [Some(before.1), Some(now.1)],
        Speeds::Ignored => [Some(before.1); 2],
        Speeds::Unknown => [None; 2],
    };
    judge(text.parse().expect("a gate"), of(&before.0, a), of(&now.0, b)).expect("comparable")
}

/// The share of pairs that fail, whose shares of slow time are drawn.
fn failing(text: &str, felt: f64, factor: f64, speeds: Speeds) -> f64 {
    let fails = |seed: &u64| {
        let mut rng = Rng::with_seed(1_000 + seed);
        let shares = [rng.f64(), rng.f64()];
        found(text, *seed, (felt, factor), shares, speeds).result == GateResult::Fail
    };
    (0..PAIRS).filter(fails).count() as f64 / PAIRS as f64
}

#[test]
fn alike_servers_fail_seldom_whatever_part_of_the_speed_they_feel() {
    for felt in FELT {
        let ignored = failing("goodput<-1%", felt, 1.0, Speeds::Ignored);
        assert!(ignored >= 0.1, "{felt}: {ignored}");
        // Without a yardstick, the wider interval holds most of it.
        for (speeds, most) in [(Speeds::Measured, 0.02), (Speeds::Unknown, 0.06)] {
            let fails = failing("goodput<-1%", felt, 1.0, speeds);
            assert!(fails <= most, "{felt}: {fails}");
        }
    }
}

#[test]
fn worse_servers_still_fail() {
    for felt in FELT {
        // Most pairs at whatever speeds, and nearly all at like speeds.
        let fails = failing("goodput<-5%", felt, 0.8, Speeds::Measured);
        assert!(fails >= 0.6, "{felt}: {fails}");
        let alike = |seed: &u64| {
            let found = found("goodput<-5%", *seed, (felt, 0.8), [0.3; 2], Speeds::Measured);
            found.result == GateResult::Fail
        };
        let fails = (0..PAIRS).filter(alike).count() as f64 / PAIRS as f64;
        assert!(fails >= 0.9, "{felt}, alike: {fails}");
    }
    let fails = failing("goodput<-5%", 0.5, 0.8, Speeds::Unknown);
    assert!(fails >= 0.6, "unknown: {fails}");
}

#[test]
fn the_speeds_of_the_hosts_are_stated() {
    let half = (0.5, 1.0);
    let slower = found("goodput<-5%", 1, half, [0.0, 1.0], Speeds::Measured);
    let Some(HostEffect::Measured { speed, is_distinct, observed }) = slower.host else {
        panic!("{slower:?}");
    };
    assert!(is_distinct && (speed / SLOW.powi(2) - 1.0).abs() < 0.03, "{speed}");
    assert!((observed - (SLOW - 1.0)).abs() < 0.01, "{observed}");
    assert!(slower.change.value.abs() < 0.03 && slower.result == GateResult::Pass, "{slower:?}");
    let same = found("goodput<-5%", 1, half, [0.0; 2], Speeds::Measured);
    assert!(matches!(same.host, Some(HostEffect::Measured { is_distinct: false, .. })), "{same:?}");
    let unknown = found("goodput<-5%", 1, half, [0.0; 2], Speeds::Unknown);
    let Some(HostEffect::Unmeasured { widened }) = unknown.host else { panic!("{unknown:?}") };
    let widest = 1.0 + widened;
    assert!((unknown.change.low / same.change.low).abs() > 1.0 && widest > 1.0, "{unknown:?}");
}

#[test]
fn what_does_not_follow_the_speed_is_left_alone() {
    let pieces = |ms| RunSpeed::of(&[Nanos::from_millis(ms); 60]);
    let mut stretches = Stretches::new(60.0);
    let tally = Tally { scheduled: 100, ok: 100, ..Tally::default() };
    (0..60).for_each(|second| stretches.add(second, &tally));
    let mut open = closed_loop();
    open.settings.load.as_mut().expect("a load").arrivals = Starts::Poisson;
    (open.operations.scheduled, open.operations.ok) = (6_000, 6_000);
    let of = |summary, speed| GateRun { summary, stretches: &stretches, speed };
    let host = |text: &str, summary| {
        let (before, now) = (of(summary, pieces(1)), of(summary, pieces(2)));
        judge(text.parse().expect("a gate"), before, now).expect("comparable").host
    };
    // A load with a rate that the server keeps up with has this rate for its goodput.
    assert_eq!(host("goodput<-5%", &open), None);
    assert_eq!(host("errors>1pp", &open), None);
    assert!(host("goodput<-5%", &closed_loop()).is_some());
}

#[test]
fn a_few_seconds_are_no_speed() {
    assert_eq!(RunSpeed::of(&[Nanos::from_millis(1); 9]), None);
    assert_eq!(RunSpeed::of(&[Nanos::ZERO; 60]), None);
}
