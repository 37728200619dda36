//! Ways to search: ours, and the two that people write themselves.

use plimsoll_capacity::search::Limits;
use plimsoll_capacity::{Context, Mode, RateSearch, SearchSettings, SearchStep, judge};
use plimsoll_model::slo::Slo;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{
    CheckId, Level, Outcome, Phase, Stopped, TippingPoint, TrialMeasurement, TrialRecord,
    TrialRequest,
};
use plimsoll_model::{Nanos, Rate};
use testkit::{Fluid, World};

/// A server with its generator and its chance.
pub(crate) enum Sut {
    /// Followed as curves: equal gaps between starts.
    Fluid(Box<Fluid>),
    /// Followed operation by operation: random arrivals.
    World(Box<World>),
}

impl Sut {
    pub(crate) fn run(
        &mut self,
        request: TrialRequest,
        abort_bad_ops: Option<u64>,
    ) -> TrialMeasurement {
        match self {
            Self::Fluid(fluid) => fluid.run(request, abort_bad_ops),
            Self::World(world) => world.run(request, abort_bad_ops),
        }
    }

    /// Returns the age of the server; a server that is followed operation by operation does not age.
    pub(crate) fn age(&self) -> Nanos {
        match self {
            Self::Fluid(fluid) => fluid.age(),
            Self::World(_) => Nanos::ZERO,
        }
    }

    pub(crate) fn idle(&mut self, span: Nanos) {
        if let Self::Fluid(fluid) = self {
            fluid.idle(span);
        }
    }

    pub(crate) fn recycle(&mut self, tally: Tally) {
        if let Self::Fluid(fluid) = self {
            fluid.recycle(tally);
        }
    }
}

/// The result of a search.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) lower: Option<f64>,
    pub(crate) upper: Option<f64>,
    pub(crate) trials: u32,
    /// Trial and rest time.
    pub(crate) spent: Nanos,
    /// Only ours says how it ended.
    pub(crate) tipping: Option<TippingPoint>,
}

impl Found {
    /// Lower and upper end, if an interval is stated with a confidence: a method without verdicts
    /// states every interval so.
    pub(crate) fn interval(&self) -> Option<(f64, f64)> {
        let is_sure = self.tipping.as_ref().is_none_or(|tipping| tipping.confidence.is_some());
        self.lower.zip(self.upper).filter(|_| is_sure)
    }

    /// The safe load; only ours states one.
    pub(crate) fn safe(&self) -> Option<Rate> {
        self.tipping.as_ref().and_then(|tipping| tipping.safe)
    }

    /// Reports whether the search says that the server, and nothing else, set the upper bound.
    pub(crate) fn blames_the_server(&self) -> bool {
        match &self.tipping {
            Some(tipping) => {
                matches!(tipping.outcome, Outcome::Regular | Outcome::FailsAtMinimum)
            }
            None => self.upper.is_some(),
        }
    }
}

/// A method of searching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Plimsoll(Mode),
    /// Ours in quick mode, with another budget of trial and rest time.
    Within(Nanos),
    /// Ours in quick mode, stopped by its user at a random instant of its usual time.
    Stopped,
    /// Doubling until the first miss, then halving to the mode's width; each load once.
    Bisection(Mode),
    /// Doubling until the first miss, then equal steps from the last load that passed, until one
    /// misses; as many trials as given.
    Staircase(Mode, u32),
}

/// Returns another grid for every seed, so that no truth lies on it by accident.
pub(crate) fn lowest_of(seed: u64) -> f64 {
    let scrambled = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    100.0 * (1.0 + scrambled as f64 / (1u64 << 24) as f64)
}

/// Returns the usual duration of a search.
pub(crate) fn usual(mode: Mode) -> Nanos {
    Nanos::from_secs(match mode {
        Mode::Quick => 150,
        Mode::Standard => 600,
        Mode::Strict => 2_700,
    })
}

impl Method {
    pub(crate) fn mode(self) -> Mode {
        match self {
            Self::Plimsoll(mode) | Self::Bisection(mode) | Self::Staircase(mode, _) => mode,
            Self::Within(_) | Self::Stopped => Mode::Quick,
        }
    }

    /// The lengths of its trials.
    pub(crate) fn limits(self) -> Limits {
        match self {
            Self::Within(budget) => Limits::within(budget),
            _ => *self.mode().limits(),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plimsoll(_) | Self::Within(_) | Self::Stopped => "plimsoll",
            Self::Bisection(_) => "bisection",
            Self::Staircase(..) => "staircase",
        }
    }

    pub(crate) fn search(self, world: &mut Sut, seed: u64, slo: &Slo) -> Found {
        match self {
            Self::Plimsoll(mode) => plimsoll(world, mode, seed, slo, &mut |_| ()),
            Self::Within(budget) => {
                let usual = SearchSettings::new(Mode::Quick);
                // A budget that was asked for is never extended.
                let settings = SearchSettings { budget, extension: Nanos::ZERO, ..usual };
                searched(world, settings, seed, slo, Nanos::MAX, &mut |_| ())
            }
            Self::Stopped => {
                let settings = SearchSettings::new(Mode::Quick);
                let share = fastrand::Rng::with_seed(seed ^ 0x570F).f64();
                let stop = Nanos::from_secs_f64(share * usual(Mode::Quick).as_secs_f64());
                searched(world, settings, seed, slo, stop, &mut |_| ())
            }
            Self::Bisection(mode) => by_hand(world, mode, seed, slo, None),
            Self::Staircase(mode, trials) => by_hand(world, mode, seed, slo, Some(trials)),
        }
    }
}

/// Our search, trial by trial as the command drives it.
pub(crate) fn plimsoll(
    world: &mut Sut,
    mode: Mode,
    seed: u64,
    slo: &Slo,
    see: &mut dyn FnMut(&TrialRecord),
) -> Found {
    searched(world, SearchSettings::new(mode), seed, slo, Nanos::MAX, see)
}

fn searched(
    world: &mut Sut,
    settings: SearchSettings,
    seed: u64,
    slo: &Slo,
    stop: Nanos,
    see: &mut dyn FnMut(&TrialRecord),
) -> Found {
    let found = |tipping: TippingPoint, trials, spent| Found {
        lower: tipping.lower.map(Rate::get),
        upper: tipping.upper.map(Rate::get),
        trials,
        spent,
        tipping: Some(tipping),
    };
    let lowest = Rate::per_second(lowest_of(seed)).expect("finite");
    let settings = SearchSettings { lowest, ..settings };
    let mut search = RateSearch::new(settings, slo.clone());
    let (mut trials, mut spent) = (0, Nanos::ZERO);
    loop {
        match search.next_step() {
            SearchStep::Trial(_) if spent >= stop => {
                let stopped = search.handle_stop(Stopped::Interrupted);
                return found(stopped, trials, spent);
            }
            SearchStep::Trial(request) => {
                world.idle(search.rest());
                let measurement = world.run(request, Some(search.abort_bad_ops(&request)));
                trials += 1;
                spent = spent + search.rest() + measurement.window;
                let record = search.handle_result(measurement);
                see(&record);
                world.recycle(record.measurement.tally);
            }
            SearchStep::Done(tipping) => return found(tipping, trials, spent),
        }
    }
}

/// A search without repeats, confirmation or validity: a missed goal is the server's.
fn by_hand(world: &mut Sut, mode: Mode, seed: u64, slo: &Slo, staircase: Option<u32>) -> Found {
    let limits = mode.limits();
    let (mut trials, mut spent) = (0, Nanos::ZERO);
    let mut passes = |per_s: f64| {
        let request = TrialRequest {
            number: trials + 1,
            phase: Phase::Narrow,
            rate: Rate::per_second(per_s).expect("finite"),
            duration: limits.final_trial,
            split: 1,
        };
        let measurement = world.run(request, None);
        trials += 1;
        spent = spent + limits.rest + measurement.window;
        world.idle(limits.rest);
        let judgement = judge(&measurement, slo, &Context::default());
        world.recycle(measurement.tally);
        let is_goal = |id: &CheckId| matches!(id, CheckId::Goal(_));
        !judgement.reasons.iter().any(|c| c.level == Level::Fail && is_goal(&c.id))
    };
    let (mut low, mut high) = (None, lowest_of(seed));
    let mut used = 1;
    while passes(high) {
        low = Some(high);
        high *= 2.0;
        used += 1;
        if used > 20 {
            return Found { lower: low, upper: None, trials, spent, tipping: None };
        }
    }
    let Some(mut low) = low else {
        return Found { lower: None, upper: Some(high), trials, spent, tipping: None };
    };
    if let Some(budget) = staircase {
        let steps = budget.saturating_sub(used).max(1);
        let step = (high - low) / f64::from(steps + 1);
        while low + step < high - 1e-6 {
            if passes(low + step) { low += step } else { high = low + step }
        }
    } else {
        while high / low > 1.0 + limits.width_max {
            let middle = (low * high).sqrt();
            if passes(middle) { low = middle } else { high = middle }
        }
    }
    Found { lower: Some(low), upper: Some(high), trials, spent, tipping: None }
}
