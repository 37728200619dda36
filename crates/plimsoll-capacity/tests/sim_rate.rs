//! Whole rate searches against simulated servers whose tipping point is known.

use plimsoll_capacity::{Context, Mode, RateSearch, SearchSettings, SearchStep, judge};
use plimsoll_model::slo::Slo;
use plimsoll_model::trial::{Outcome, Phase, TippingPoint, TrialRequest, Verdict};
use plimsoll_model::{Nanos, Rate};
use testkit::{Overload, Service, Stalls, Sut, World};

/// Searches against each kind of server. They follow every operation, random arrivals and service
/// times included; `sim_quality` runs many more, of curves.
const SEEDS: u64 = 8;

fn rate(per_s: f64) -> Rate {
    Rate::per_second(per_s).expect("finite")
}

/// One search and what it cost.
struct Found {
    tipping: TippingPoint,
    trials: u32,
    /// Trial and rest time.
    spent: Nanos,
}

impl Found {
    fn bounds(&self) -> Option<(f64, f64)> {
        Some((self.tipping.lower?.get(), self.tipping.upper?.get()))
    }

    fn overlaps_or_touches(&self, other: &Self) -> bool {
        let (Some(a), Some(b)) = (self.bounds(), other.bounds()) else { return false };
        // Touching loads come from the same grid, so they are equal but for rounding.
        a.0 <= b.1 * (1.0 + 1e-9) && b.0 <= a.1 * (1.0 + 1e-9)
    }
}

fn search(world: &mut World, mode: Mode, lowest: f64, abort: bool) -> Found {
    let settings = SearchSettings { lowest: rate(lowest), ..SearchSettings::new(mode) };
    let mut search = RateSearch::new(settings, Slo::default());
    let (mut trials, mut spent) = (0, Nanos::ZERO);
    loop {
        match search.next_step() {
            SearchStep::Trial(request) => {
                let abort_bad_ops = abort.then(|| search.abort_bad_ops(&request));
                let measurement = world.run(request, abort_bad_ops);
                trials += 1;
                spent = spent + search.rest() + measurement.window;
                search.handle_result(measurement);
            }
            SearchStep::Done(tipping) => return Found { tipping, trials, spent },
        }
    }
}

/// The rate at which half of the trials of `trial` against the quiet server are GOOD.
fn tipping_rate(sut: Sut, trial: Nanos) -> f64 {
    let quiet = Sut { noise: 0.0, stalls: None, ..sut };
    let mostly_good = |per_s: f64| {
        let request = TrialRequest {
            number: 1,
            phase: Phase::Narrow,
            rate: rate(per_s),
            duration: trial,
            split: 1,
        };
        let good = (0..11).filter(|seed| {
            let measurement = World::new(quiet, 0xA11_0000 + seed).run(request, None);
            let judgement = judge(&measurement, &Slo::default(), &Context::default());
            judgement.verdict == Verdict::Good
        });
        good.count() >= 6
    };
    let (mut low, mut high) = (0.7 * sut.capacity_per_s, 1.1 * sut.capacity_per_s);
    while high / low > 1.004 {
        let middle = (low * high).sqrt();
        if mostly_good(middle) { low = middle } else { high = middle }
    }
    (low * high).sqrt()
}

/// A longer trial meets longer excursions of the queue, so its tipping point lies a little lower: the truth of a search
/// lies between the ones of its final and of its confirmation trials.
fn truth(sut: Sut) -> (f64, f64) {
    let limits = Mode::Quick.limits();
    (tipping_rate(sut, limits.confirm_trial), tipping_rate(sut, limits.final_trial))
}

/// Returns another grid for every seed, so that no truth lies on it by accident.
fn lowest_of(seed: u64) -> f64 {
    let scrambled = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    60.0 * (1.0 + scrambled as f64 / (1u64 << 24) as f64)
}

/// Many searches against one kind of server.
#[derive(Default)]
struct Score {
    hits: usize,
    regular: usize,
    limited: usize,
    trials: Vec<u32>,
    spent: Vec<Nanos>,
}

impl Score {
    fn of(sut: Sut, seeds: u64) -> Self {
        let truth = truth(sut);
        let mut score = Self::default();
        for seed in 0..seeds {
            let mut world = World::new(sut, seed);
            score.add(&search(&mut world, Mode::Quick, lowest_of(seed), true), truth);
        }
        score.trials.sort_unstable();
        score.spent.sort_unstable();
        score
    }

    fn add(&mut self, found: &Found, truth: (f64, f64)) {
        self.trials.push(found.trials);
        self.spent.push(found.spent);
        self.regular += usize::from(found.tipping.outcome == Outcome::Regular);
        let limited = matches!(found.tipping.outcome, Outcome::GeneratorLimited { .. });
        self.limited += usize::from(limited);
        let hit = found.bounds().is_some_and(|(lower, upper)| {
            let width = upper / lower;
            lower <= truth.1 * width && truth.0 <= upper * width
        });
        self.hits += usize::from(hit);
    }

    fn text(&self) -> String {
        let searches = self.trials.len();
        format!(
            "{} of {searches} within a width, {} regular, {} generator-limited; median {} trials \
             and {}, at most {} and {}",
            self.hits,
            self.regular,
            self.limited,
            self.trials[searches / 2],
            self.spent[searches / 2],
            self.trials[searches - 1],
            self.spent[searches - 1],
        )
    }

    /// The promises of the quick mode against a steady server: an interval nearly always, hardly
    /// ever a wrong one, within the budget.
    fn check(&self, name: &str) {
        let searches = self.trials.len();
        let text = self.text();
        assert!(self.hits >= self.regular, "{name}: {text}");
        assert!(self.regular + 1 >= searches, "{name}: {text}");
        assert_eq!(self.limited, 0, "{name}: {text}");
        // With its extension.
        assert!(self.spent[searches - 1] < Nanos::from_secs(275), "{name}: {text}");
        // Up to four trials with random arrivals, and an overload after each.
        assert!(self.spent[searches / 2] < Nanos::from_secs(205), "{name}: {text}");
    }
}

fn plain() -> Sut {
    Sut::with_capacity(1_000.0)
}

fn exponential() -> Sut {
    Sut { service: Service::Exponential, workers: 4, ..plain() }
}

fn stalling() -> Sut {
    let stalls = Stalls { trials_share: 0.05, length: Nanos::from_millis(200) };
    Sut { stalls: Some(stalls), ..plain() }
}

#[test]
fn a_fixed_rate_is_found() {
    for noise in [0.01, 0.05] {
        Score::of(plain().noise(noise), SEEDS).check(&format!("fixed, noise {noise}"));
    }
}

#[test]
fn random_service_times_are_no_obstacle() {
    for noise in [0.01, 0.05] {
        Score::of(exponential().noise(noise), SEEDS).check(&format!("exponential, noise {noise}"));
    }
}

#[test]
fn a_server_that_rejects_or_drops_under_load_is_judged_by_its_errors() {
    for overload in [Overload::Reject(20), Overload::Drop(20)] {
        for noise in [0.01, 0.05] {
            let sut = Sut { overload, ..plain() };
            Score::of(sut.noise(noise), SEEDS).check(&format!("{overload:?}, noise {noise}"));
        }
    }
}

#[test]
fn a_pause_in_one_trial_of_twenty_does_not_move_the_bounds() {
    for noise in [0.01, 0.05] {
        Score::of(stalling().noise(noise), SEEDS).check(&format!("stalls, noise {noise}"));
    }
}

#[test]
fn ten_percent_noise_still_ends_in_time_and_near_the_truth() {
    let score = Score::of(plain().noise(0.10), SEEDS);
    assert!(score.hits >= 6, "{}", score.text());
    assert_eq!(score.limited, 0, "{}", score.text());
    assert!(score.spent[SEEDS as usize - 1] < Nanos::from_secs(225), "{}", score.text());
}

#[test]
fn a_second_run_overlaps_or_touches_the_first() {
    for (name, sut) in [("fixed", plain()), ("exponential", exponential())] {
        for noise in [0.01, 0.02] {
            let pairs = 10_u32;
            let (mut stated, mut overlapping) = (0, 0);
            for seed in 0..pairs {
                // The world continues, so the second run has other arrivals and other noise.
                let mut world = World::new(sut.noise(noise), seed.into());
                let [first, second] =
                    [(); 2].map(|()| search(&mut world, Mode::Quick, lowest_of(seed.into()), true));
                stated += u32::from(first.bounds().is_some() && second.bounds().is_some());
                overlapping += u32::from(first.overlaps_or_touches(&second));
            }
            let text = format!("{name}, noise {noise}: {overlapping} of {stated} of {pairs}");
            assert!(stated + 2 >= pairs && overlapping + 1 >= stated, "{text}");
        }
    }
}

/// Share of 5 s trials at `load` times the capacity that the backlog check alone calls BAD.
fn backlog_share(sut: Sut, load: f64) -> f64 {
    // So loose that only a growing backlog shows.
    let slo: Slo = "p99<10s".parse().expect("an objective");
    let request = TrialRequest {
        number: 1,
        phase: Phase::Narrow,
        rate: rate(sut.capacity_per_s * load),
        duration: Nanos::from_secs(5),
        split: 1,
    };
    let bad = (0..300).filter(|seed| {
        let mut world = World::new(sut, 0xBAC_0000 + seed);
        world.generator.connections = usize::MAX;
        world.deadline = Nanos::from_secs(10);
        let judgement = judge(&world.run(request, None), &slo, &Context::default());
        judgement.verdict == Verdict::Bad
    });
    bad.count() as f64 / 300.0
}

#[test]
fn a_loose_limit_does_not_hide_overload_and_busy_is_not_overload() {
    let random = Sut { workers: 1, ..exponential() };
    for load in [0.9, 0.97, 0.99] {
        for sut in [plain(), random] {
            let share = backlog_share(sut, load);
            assert!(share <= 0.01, "{share} of trials at {load} called overload: {sut:?}");
        }
    }
    for sut in [plain(), random] {
        let share = backlog_share(sut, 1.10);
        assert!(share >= 0.95, "only {share} of trials at 110 % called overload: {sut:?}");
    }
}

#[test]
fn without_early_aborts_the_time_still_holds() {
    for seed in 0..8 {
        let mut world = World::new(plain().noise(0.05), seed);
        let found = search(&mut world, Mode::Quick, lowest_of(seed), false);
        assert!(found.spent < Nanos::from_secs(225), "{} in seed {seed}", found.spent);
    }
}

#[test]
fn the_standard_mode_is_narrower_and_as_true() {
    let sut = Sut { noise: 0.005, ..plain() };
    let (low, high) = {
        let limits = Mode::Standard.limits();
        (tipping_rate(sut, limits.confirm_trial), tipping_rate(sut, limits.final_trial))
    };
    for seed in 0..4 {
        let found = search(&mut World::new(sut, seed), Mode::Standard, lowest_of(seed), true);
        assert_eq!(found.tipping.outcome, Outcome::Regular, "seed {seed}");
        let (lower, upper) = found.bounds().expect("both bounds");
        // With random arrivals verdicts near the truth are drawn by lot.
        assert!(upper / lower <= 1.06, "seed {seed}: {:?}", found.tipping);
        let near = lower <= high * 1.02 && low <= upper * 1.02;
        assert!(near, "seed {seed}: [{lower}, {upper}], truth {low} to {high}");
    }
}

/// The lower limit and the reason of a search that the generator ended.
fn limited(found: &Found, seed: u64) -> (f64, String) {
    let Outcome::GeneratorLimited { why } = &found.tipping.outcome else {
        panic!("seed {seed}: {:?}", found.tipping)
    };
    assert_eq!(found.tipping.upper, None, "seed {seed}: nothing is known above");
    (found.tipping.lower.expect("something was GOOD").get(), why.clone())
}

#[test]
fn a_generator_that_is_the_limit_is_never_taken_for_the_server() {
    for seed in 0..12 {
        let mut slow = World::new(Sut::with_capacity(1_400.0).noise(0.01), seed);
        slow.generator.capacity_per_s = 1_000.0;
        let (lower, why) = limited(&search(&mut slow, Mode::Quick, lowest_of(seed), true), seed);
        assert!((700.0..1_050.0).contains(&lower), "seed {seed}: {lower}");
        assert!(why.contains("send-lag") && why.contains("generator-cpu"), "{why}");

        let mut short = World::new(Sut::with_capacity(1_400.0), seed);
        short.generator.offers_per_s_max = 600.0;
        let (lower, why) = limited(&search(&mut short, Mode::Quick, lowest_of(seed), true), seed);
        assert!((400.0..620.0).contains(&lower), "seed {seed}: {lower}");
        assert_eq!(why.split(", ").next(), Some("rate-fidelity"), "{why}");

        // Five connections and 10 ms per answer: less than 500/s.
        let sut = Sut { base: Nanos::from_millis(10), ..Sut::with_capacity(10_000.0) };
        let mut small = World::new(sut, seed);
        small.generator.connections = 5;
        let (lower, why) = limited(&search(&mut small, Mode::Quick, lowest_of(seed), true), seed);
        assert!((250.0..500.0).contains(&lower), "seed {seed}: {lower}");
        assert_eq!(why.split(", ").next(), Some("pool"), "{why}");
    }
}

#[test]
fn a_server_that_is_the_limit_is_never_excused_by_the_generator() {
    let mut score = Score::default();
    let sut = Sut::with_capacity(8_000.0).noise(0.01);
    let truth = truth(sut);
    for seed in 0..12 {
        let mut world = World::new(sut, seed);
        // Not far above the server, and descheduled for a moment in one trial of ten.
        world.generator.capacity_per_s = 12_000.0;
        world.generator.pauses_share = 0.1;
        world.generator.pause = Nanos::from_millis(30);
        score.add(&search(&mut world, Mode::Quick, lowest_of(seed), true), truth);
    }
    score.trials.sort_unstable();
    score.spent.sort_unstable();
    assert!(score.limited == 0 && score.hits >= 11, "{}", score.text());
}

#[test]
fn an_observed_idle_server_is_reached_in_fewer_trials() {
    let trials = |observed| {
        let mut world = World::new(Sut::with_capacity(20_000.0), 1);
        world.observed = observed;
        let found = search(&mut world, Mode::Quick, 100.0, true);
        let (lower, upper) = found.bounds().expect("both bounds");
        assert!(lower <= 20_100.0 && 19_500.0 <= upper, "[{lower}, {upper}]");
        found.trials
    };
    assert!(trials(true) < trials(false));
}
