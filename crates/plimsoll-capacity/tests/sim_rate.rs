//! Whole rate searches against simulated servers whose tipping point is known.

use plimsoll_capacity::Context;
use plimsoll_capacity::Mode;
use plimsoll_capacity::RateSearch;
use plimsoll_capacity::SearchSettings;
use plimsoll_capacity::Step;
use plimsoll_capacity::judge;
use plimsoll_model::Nanos;
use plimsoll_model::Rate;
use plimsoll_model::slo::Slo;
use plimsoll_model::trial::Outcome;
use plimsoll_model::trial::Phase;
use plimsoll_model::trial::TippingPoint;
use plimsoll_model::trial::TrialRequest;
use plimsoll_model::trial::Verdict;
use testkit::Overload;
use testkit::Service;
use testkit::Stalls;
use testkit::Sut;
use testkit::World;

fn rate(per_s: f64) -> Rate {
    Rate::per_second(per_s).expect("finite")
}

/// One search and what it cost.
struct Found {
    tipping: TippingPoint,
    trials: u32,
    /// Trial and rest time as planned, aborted trials in full.
    planned: Nanos,
    /// Trial and rest time as it was.
    spent: Nanos,
}

fn search(world: &mut World, mode: Mode, lowest: f64) -> Found {
    let slo = Slo::default();
    let settings = SearchSettings { lowest: rate(lowest), ..SearchSettings::new(mode) };
    let mut search = RateSearch::new(settings, slo);
    let (mut trials, mut planned, mut spent) = (0, Nanos::ZERO, Nanos::ZERO);
    loop {
        match search.next_step() {
            Step::Trial(request) => {
                let abort = search.abort_bad_ops(&request);
                let measurement = world.run(request, Some(abort));
                trials += 1;
                planned = planned + search.rest() + request.duration;
                spent = spent + search.rest() + measurement.window;
                let record = search.handle_result(measurement);
                if std::env::var_os("SIM_TRACE").is_some() {
                    let why: Vec<_> = record.judgement.reasons.iter().take(2).collect();
                    eprintln!("{request:?} {:?} {why:?}", record.judgement.verdict);
                }
            }
            Step::Done(tipping) => return Found { tipping, trials, planned, spent },
        }
    }
}

/// The rate at which half of the final trials of a quiet server are GOOD.
fn truth(sut: Sut, trial: Nanos) -> f64 {
    let quiet = Sut { noise: 0.0, stalls: None, ..sut };
    let share_good = |per_s: f64| {
        let good = (0..15).filter(|seed| {
            let mut world = World::new(quiet, 0xA11_0000 + seed);
            let request =
                TrialRequest { number: 1, phase: Phase::Narrow, rate: rate(per_s), duration: trial };
            let measurement = world.run(request, None);
            judge(&measurement, &Slo::default(), &Context::default()).verdict == Verdict::Good
        });
        good.count()
    };
    let (mut low, mut high) = (0.5 * sut.capacity_per_s, 1.5 * sut.capacity_per_s);
    while high / low > 1.002 {
        let middle = (low * high).sqrt();
        if share_good(middle) >= 8 { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

/// A different grid for every seed, so that no truth sits well by chance.
fn lowest_of(seed: u64) -> f64 {
    60.0 + (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as f64 / (1u64 << 24) as f64 * 60.0
}

#[derive(Default)]
struct Score {
    searches: u32,
    hit: u32,
    regular: u32,
    limited: u32,
    trials: Vec<u32>,
    errors: Vec<f64>,
    planned_max: Nanos,
    spent_max: Nanos,
    spent: Vec<f64>,
    outcomes: std::collections::BTreeMap<String, u32>,
}

impl Score {
    fn add(&mut self, found: &Found, truth: (f64, f64), width: f64) {
        self.searches += 1;
        self.trials.push(found.trials);
        self.planned_max = self.planned_max.max(found.planned);
        self.spent_max = self.spent_max.max(found.spent);
        self.spent.push(found.spent.as_secs_f64());
        let outcome = format!("{:?}", found.tipping.outcome);
        *self.outcomes.entry(outcome.chars().take(60).collect()).or_default() += 1;
        self.regular += u32::from(found.tipping.outcome == Outcome::Regular);
        self.limited +=
            u32::from(matches!(found.tipping.outcome, Outcome::GeneratorLimited { .. }));
        let (Some(lower), Some(upper)) = (found.tipping.lower, found.tipping.upper) else { return };
        let inside = lower.get() / (1.0 + width) <= truth.1 && truth.0 <= upper.get() * (1.0 + width);
        self.hit += u32::from(inside);
        self.errors.push((lower.get() * upper.get()).sqrt() / (truth.0 * truth.1).sqrt() - 1.0);
    }

    fn text(&mut self) -> String {
        self.trials.sort_unstable();
        self.spent.sort_by(f64::total_cmp);
        let bias = self.errors.iter().sum::<f64>() / self.errors.len().max(1) as f64;
        format!(
            "{}/{} within a width, {} regular, {} generator-limited, median {} trials, median {:.0} s, \
             most {} (planned {}), bias {:+.2} %, {:?}",
            self.hit,
            self.searches,
            self.regular,
            self.limited,
            self.trials[self.trials.len() / 2],
            self.spent[self.spent.len() / 2],
            self.spent_max,
            self.planned_max,
            bias * 100.0,
            self.outcomes,
        )
    }
}

fn kinds() -> Vec<(&'static str, Sut)> {
    let plain = Sut::with_capacity(1_000.0);
    vec![
        ("fixed", plain),
        ("fixed-fast", Sut::with_capacity(5_000.0)),
        ("exp", Sut { service: Service::Exponential, ..plain }),
        ("exp-4", Sut { service: Service::Exponential, workers: 4, ..plain }),
        ("reject", Sut { overload: Overload::Reject(20), ..plain }),
        ("drop", Sut { overload: Overload::Drop(20), ..plain }),
        ("stalls", Sut { stalls: Some(Stalls { trials_share: 0.05, length: Nanos::from_millis(200) }), ..plain }),
    ]
}

#[test]
fn explore() {
    for (name, sut) in kinds() {
        let (a, b) = (truth(sut, Nanos::from_secs(5)), truth(sut, Nanos::from_secs(15))); let t = (a.min(b), a.max(b));
        for noise in [0.01, 0.05] {
            let mut score = Score::default();
            let mut overlaps = 0;
            let mut pairs = 0;
            for seed in 0..200 {
                let mut world = World::new(sut.noise(noise), seed);
                let lowest = lowest_of(seed);
                let found = search(&mut world, Mode::Quick, lowest);
                score.add(&found, t, 0.05);
                let again = search(&mut world, Mode::Quick, lowest);
                if let (Some(l1), Some(u1), Some(l2), Some(u2)) = (found.tipping.lower, found.tipping.upper, again.tipping.lower, again.tipping.upper) {
                    pairs += 1;
                    overlaps += u32::from(l1.get() <= u2.get() * 1.000001 && l2.get() <= u1.get() * 1.000001);
                }
            }
            eprintln!("{name} truth {:.0}-{:.0} noise {noise}: overlap {overlaps}/{pairs}; {}", t.0, t.1, score.text());
        }
    }
}
