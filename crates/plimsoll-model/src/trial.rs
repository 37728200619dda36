//! Trials: one load offered for a fixed time, the verdict on it, and the answer of a search.
//!
//! A search issues a [`TrialRequest`]. The run returns a [`TrialMeasurement`], which `plimsoll-capacity` turns into a
//! list of checks. [`Judgement::of`] derives the verdict from the failed checks alone: INVALID if one blames the
//! generator, else BAD, else GOOD. Both form a [`TrialRecord`], the line of the archive. The answer is a
//! [`TippingPoint`] with an [`Outcome`]. Rates are operations per second, shares 0 to 1. Start reading at [`Phase`].

use serde::{Deserialize, Serialize};

use crate::observation::Observations;
use crate::tally::Tally;
use crate::{Fault, Nanos, Rate};

mod at_load;
mod check;
mod recovery;
mod second;
mod speed;
mod stopped;
mod unsettled;

pub use at_load::{TrialsAtLoad, trial_at_lower_bound};
pub use check::{Check, CheckId, CheckText, Family, Level, Measure, Unit};
pub use recovery::Recovery;
pub use second::TrialSecond;
pub use speed::{Slow, SlowSeconds, Slower};
pub use stopped::{BaseProperty, NotRecovered, Stopped};
pub use unsettled::{Contrast, Unsettled, Witness};

named! {
    /// The purpose of a trial within its search.
    pub enum Phase {
        /// The lowest load, which the SUT has to meet first.
        Qualify = "qualify",
        /// Growing steps from below until the first BAD.
        Expand = "expand",
        /// Closing in on the interval.
        Narrow = "narrow",
        /// Longer trials at the load that most trials are expected to meet, at most the lower bound.
        Confirm = "confirm",
        /// A short overload in between, always at the same load: is the server still what it was?
        Sentinel = "sentinel",
        /// Runs as long as a confirmation, with random arrivals, that find the safe load.
        Safe = "safe",
        /// On purpose too much: 1.2 times the upper bound.
        Overload = "overload",
        /// Half the lower bound, right after the overload: does the SUT come back?
        Recover = "recover",
        /// The lower bound of held connections once more, from none.
        Reramp = "reramp",
        /// A load that the search did not try, for how much of each resource it uses; its verdict changes nothing.
        Usage = "usage",
    }
}

impl Phase {
    /// Reports whether the search proper has ended: later phases confirm and describe its answer.
    pub const fn is_after_search(self) -> bool {
        !matches!(self, Self::Qualify | Self::Expand | Self::Narrow | Self::Sentinel)
    }

    /// Reports whether the verdict narrows the tipping point. Trials that are meant to overload the
    /// SUT, or to see how it gets over that, do not.
    pub const fn moves_bounds(self) -> bool {
        matches!(self, Self::Qualify | Self::Expand | Self::Narrow | Self::Confirm)
    }
}

/// The highest load that was GOOD and the lowest that was BAD, of trials as they end. Trials may contradict each
/// other: then `good_max` is above `bad_min`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TrialBounds {
    /// Operations per second.
    pub good_max: Option<Rate>,
    /// Operations per second.
    pub bad_min: Option<Rate>,
}

impl TrialBounds {
    /// Adds a trial that has ended. Those whose phase moves no bound leave them as they are.
    pub fn add(&mut self, record: &TrialRecord) {
        let TrialRequest { rate, phase, .. } = record.measurement.request;
        if !phase.moves_bounds() {
            return;
        }
        match record.judgement.verdict {
            Verdict::Good if self.good_max.is_none_or(|good| good < rate) => {
                self.good_max = Some(rate);
            }
            Verdict::Bad if self.bad_min.is_none_or(|bad| bad > rate) => self.bad_min = Some(rate),
            Verdict::Good | Verdict::Bad | Verdict::Invalid => {}
        }
    }
}

/// The next trial of a search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRequest {
    /// 1 for the first trial of a search.
    pub number: u32,
    /// Why.
    pub phase: Phase,
    /// Offered load.
    pub rate: Rate,
    /// Planned measured window.
    pub duration: Nanos,
    /// Factor on the usual number of threads or processes that the same load is spread over: 1, or more in a split
    /// test, which shows whether the generator was the limit. If the trial was not split, [`TrialMeasurement::split`]
    /// says so.
    pub split: u32,
}

/// Measurements of one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialMeasurement {
    /// The requested trial.
    pub request: TrialRequest,
    /// Wall time from the epoch to the end of sending.
    pub window: Nanos,
    /// `true` if the trial was ended early because its verdict was fixed.
    pub aborted: bool,
    /// All agents and seconds.
    pub tally: Tally,
    /// CPU of the busiest SUT thread over the window, 0 to 1, if it could be observed.
    pub sut_busiest_thread: Option<f64>,
    /// Over how many times the usual threads or processes the load was really spread.
    pub split: u32,
    /// Observations beside the tally.
    pub observations: Observations,
    /// The seconds of the window, in order; empty if they were not counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seconds: Vec<TrialSecond>,
}

impl TrialMeasurement {
    /// Creates the measurement of a trial that was observed by nothing but its counts.
    pub fn of(request: TrialRequest, window: Nanos, tally: Tally) -> Self {
        Self {
            request,
            window,
            aborted: false,
            tally,
            sut_busiest_thread: None,
            split: 1,
            observations: Observations::default(),
            seconds: Vec::new(),
        }
    }

    /// Answers per second that an overloaded server really gave: a hint where its capacity is. It only
    /// says where to look, because an overload may also cost capacity.
    pub fn carried_per_s(&self) -> f64 {
        let tally = &self.tally;
        let window_s = self.window.as_secs_f64().max(1e-3);
        if self.aborted {
            // The first answer needs its own time.
            let own = tally.spans.corrected.min().unwrap_or_default().as_secs_f64();
            return tally.ok as f64 / (window_s - own).max(1e-3);
        }
        let open = u64::from(tally.outstanding.last().copied().unwrap_or_default());
        let given_up = tally.failures.operations.by(Fault::OwnTimer);
        // What was open at the end of the window may have been given up afterwards.
        let lost = tally.errors_total() - given_up + open.max(given_up + tally.unsent);
        tally.scheduled.saturating_sub(lost) as f64 / window_s
    }
}

named! {
    /// Three-valued verdict.
    #[derive(Default)]
    pub enum Verdict {
        /// Every goal met.
        Good = "good",
        /// At least one goal missed, by the SUT.
        Bad = "bad",
        /// The generator, not the SUT, shaped the result, or the trial was not judged.
        #[default]
        Invalid = "invalid",
    }
}

/// A verdict with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Every check that was made, the worst first.
    pub reasons: Vec<Check>,
    /// Late, failed and unsent operations over scheduled ones: MLRsearch's Trial Loss Ratio.
    pub loss_ratio: f64,
}

impl Judgement {
    /// Judges by `checks`, given in the order that equal ones keep: INVALID if one failed that speaks against the
    /// generator, BAD if another one failed, else GOOD.
    pub fn of(mut checks: Vec<Check>, loss_ratio: f64) -> Self {
        let fails = |is_ours: bool| {
            let mut failed = checks.iter().filter(|check| check.level == Level::Fail);
            failed.any(|check| (check.id.fault() == Fault::Local) == is_ours)
        };
        let verdict = match (fails(true), fails(false)) {
            (true, _) => Verdict::Invalid,
            (false, true) => Verdict::Bad,
            (false, false) => Verdict::Good,
        };
        checks.sort_by_key(|check| std::cmp::Reverse(check.level));
        Self { verdict, reasons: checks, loss_ratio }
    }

    /// Returns the failed checks that determine the verdict; of an INVALID trial not its goals, which have no meaning.
    pub fn deciding(&self) -> impl Iterator<Item = &Check> {
        deciding(self.verdict, &self.reasons)
    }

    /// Returns the names of the deciding checks, `send-lag, generator-cpu`, and of the classes of `local-errors`.
    pub fn why(&self) -> String {
        let names = self.deciding().flat_map(|check| {
            let is_local = check.id == CheckId::LocalErrors;
            let classes = check.measures.iter().filter(move |_| is_local);
            [check.id.name()].into_iter().chain(classes.map(|class| class.name.clone()))
        });
        let mut once = Vec::new();
        // A class may have failed operations and connections.
        names.for_each(|name| {
            if !once.contains(&name) {
                once.push(name);
            }
        });
        once.join(", ")
    }
}

/// Returns the checks that failed and determine `verdict`.
pub fn deciding(verdict: Verdict, checks: &[Check]) -> impl Iterator<Item = &Check> {
    checks.iter().filter(move |check| {
        let is_ours = check.id.fault() == Fault::Local;
        check.level == Level::Fail && (is_ours || verdict != Verdict::Invalid)
    })
}

/// A trial with its verdict: a line of the iteration table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// The measurement.
    pub measurement: TrialMeasurement,
    /// The judgement.
    pub judgement: Judgement,
    /// Verdicts by the further SLOs of the search, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub further: Vec<Verdict>,
}

/// The end of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// An interval was found, and its lower end confirmed.
    Regular,
    /// No one capacity explains the trials, but a load met the SLO in every stretch of a longer trial. With a
    /// confidence the bounds are a range that spans the speeds that were met; without one, what was observed.
    Bounds {
        /// The evidence that an interval lacks.
        why: Unsettled,
    },
    /// No load up to the cap was BAD: at least `lower`.
    NotReached {
        /// The reason for the cap.
        cap: String,
    },
    /// Even the lowest load was BAD.
    FailsAtMinimum,
    /// The generator was the limit: at least `lower`.
    GeneratorLimited {
        /// The checks that failed.
        why: String,
    },
    /// No confirmation of the lower bound was valid: the generator, or the machine it runs on, was the limit by then.
    Unconfirmed {
        /// The checks that failed.
        why: String,
    },
    /// The path was the limit: at least `lower`.
    NetworkLimited {
        /// The effect on the operations.
        why: String,
    },
    /// The trials contradict each other beyond chance, or the capacity changed during the search: no
    /// interval is claimed.
    Unstable {
        /// The evidence, and its time.
        why: Unsettled,
    },
    /// The time budget ended before an interval was found and confirmed: none is claimed.
    Undecided {
        /// The missing evidence.
        why: Unsettled,
    },
    /// Stopped before the bounds were close enough.
    Unfinished {
        /// By what.
        why: Stopped,
    },
}

/// The statement of a search's outcome, or of a whole run, about the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A load met the SLO, or nothing was to be met.
    Met,
    /// The SLO was missed; by a search, even at the lowest load.
    Missed,
    /// No answer: the generator or the path was the limit.
    Invalid,
    /// No answer: the trials are too few, or contradict each other.
    Open,
}

impl Default for Outcome {
    /// A search before its first trial.
    fn default() -> Self {
        Self::Unfinished { why: Stopped::default() }
    }
}

impl Outcome {
    /// Returns its statement about the server; `None` if the search was stopped.
    pub const fn standing(&self) -> Option<Standing> {
        Some(match self {
            Self::Regular | Self::Bounds { .. } | Self::NotReached { .. } => Standing::Met,
            Self::FailsAtMinimum => Standing::Missed,
            Self::GeneratorLimited { .. }
            | Self::NetworkLimited { .. }
            | Self::Unconfirmed { .. } => Standing::Invalid,
            Self::Unstable { .. } | Self::Undecided { .. } => Standing::Open,
            Self::Unfinished { .. } => return None,
        })
    }

    /// Returns the reason for which no confidence is stated; `None` if one is, or if the search did not come so far.
    pub const fn unsettled(&self) -> Option<&Unsettled> {
        match self {
            Self::Bounds { why } | Self::Unstable { why } | Self::Undecided { why } => Some(why),
            _ => None,
        }
    }
}

/// Longer trials after the search, by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmations {
    /// Met the SLO.
    pub good: u32,
    /// Missed it.
    pub bad: u32,
    /// Shaped by the generator: neither for nor against the bound.
    pub invalid: u32,
}

/// Evidence that a load met the SLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Met {
    /// Trials that met it, at the load or between it and the lowest one that was missed.
    pub trials: u32,
    /// The longest of them.
    #[serde(rename = "longest_s", with = "crate::time::seconds")]
    pub longest: Nanos,
}

/// A speed at which the server, or its host, stayed for stretches of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regime {
    /// Share of the observed seconds, 0 to 1.
    pub share: f64,
    /// Capacity relative to the regime with the greatest share.
    pub speed: f64,
    /// Ends of the interval that holds the capacity in this regime with the answer's confidence;
    /// requests per second.
    pub lower: Option<Rate>,
    /// Upper end.
    pub upper: Option<Rate>,
}

impl Regime {
    /// Reports whether the server was at this speed more than at any other.
    pub fn is_usual(&self) -> bool {
        (self.speed - 1.0).abs() < 0.005
    }
}

/// Why no safe load is stated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum SafeMissing {
    /// The budget left no time for trials with random arrivals.
    NoTime,
    /// No trial with random arrivals met the SLO.
    NoneMet {
        /// The number of these trials.
        trials: u32,
        /// The lowest load of them.
        lowest: Rate,
    },
    /// Trials with random arrivals met the SLO, but they do not count.
    SetAside {
        /// The evidence against them.
        why: Unsettled,
    },
}

/// The value of more time, while a search runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outlook {
    /// Budget of trial and rest time that is left.
    pub left: Nanos,
    /// Relative width that the interval is expected to have after [`Self::further`]; `None` as long as
    /// there is no interval.
    pub width: Option<f64>,
    /// At most what is left.
    pub further: Nanos,
}

/// Trials that missed the SLO while other programs had the server's CPU, and do not count.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Disturbed {
    /// Number of such trials.
    pub trials: u32,
    /// Share of the time in which the server wanted a CPU that others had it: of the worst second, 0 to 1.
    pub waited: f64,
    /// The usual value of that share.
    pub usual: f64,
}

/// The tipping point: the answer of a search, at its end or while it runs. The default one is empty.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TippingPoint {
    /// Outcome of the search.
    pub outcome: Outcome,
    /// Lower end of the interval that holds the capacity with [`Self::confidence`]; without that,
    /// the highest load that met the SLO.
    pub lower: Option<Rate>,
    /// Upper end; without a confidence, the lowest load above it that did not.
    pub upper: Option<Rate>,
    /// Confidence in the interval, 0 to 1, if it is one.
    pub confidence: Option<f64>,
    /// The load of which it is 90 % sure that 9 of 10 runs meet the SLO in random arrivals.
    pub safe: Option<Rate>,
    /// Length of the runs that interval and safe load apply to: the length of a confirmation. `None` on axes without
    /// runs.
    #[serde(rename = "run_s", with = "crate::time::seconds::option")]
    pub run: Option<Nanos>,
    /// Why `safe` is `None`; `None` if there is a safe load, or if the search did not look for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub safe_missing: Option<SafeMissing>,
    /// Evidence that `lower` met the SLO, if trials were made at it.
    pub met: Option<Met>,
    /// The speeds at which the server was observed, the slowest first; empty if there was one. The interval is for the
    /// slowest.
    pub regimes: Vec<Regime>,
    /// Trials that do not count, because others had the server's CPU; `None` if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<Disturbed>,
    /// The value of more time; `None` once the search has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlook: Option<Outlook>,
    /// Deviation of the capacity from trial to trial, relative: a standard deviation.
    pub spread: Option<f64>,
    /// Drift of the capacity, relative, per minute; 0 if none was observed.
    pub drift_per_min: Option<f64>,
    /// Typical rate of good answers at the lower bound (MLRsearch's Conditional Throughput).
    pub conditional_throughput: Option<Rate>,
    /// Trials judged GOOD or BAD.
    pub trials: u32,
    /// Trials judged INVALID.
    pub invalid_trials: u32,
    /// The load that longer trials were made at: the highest that 9 of 10 trials are expected to meet,
    /// at most `lower`, which only half of them may meet.
    pub confirmed: Option<Rate>,
    /// Longer trials that met the SLO there, or did not.
    pub confirmations: Confirmations,
    /// Deviation of the capacity from trial to trial, relative (a standard deviation), if
    /// the verdicts showed it; the interval is then about twice as wide.
    pub noise: Option<f64>,
    /// The SUT's return after an overload, if that was tried.
    #[serde(flatten, with = "recovery")]
    pub recovery: Option<Recovery>,
    /// Findings worth a line, such as a loss inversion.
    pub notes: Vec<String>,
    /// The answer for each SLO, this one first; empty if there was only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goals: Vec<SloFound>,
}

/// The answer for one of several SLOs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SloFound {
    /// Value of `--slo`.
    pub slo: String,
    /// The answer, without goals.
    #[serde(flatten)]
    pub found: TippingPoint,
}

impl TippingPoint {
    /// Reports whether a load is known to meet the SLO or to miss it.
    pub const fn has_bounds(&self) -> bool {
        self.lower.is_some() || self.upper.is_some()
    }

    /// Returns the lower and the upper end as numbers.
    pub fn bounds(&self) -> (Option<f64>, Option<f64>) {
        (self.lower.map(Rate::get), self.upper.map(Rate::get))
    }

    /// Returns the relative width `upper / lower - 1`.
    pub fn width(&self) -> Option<f64> {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) if lower.get() > 0.0 => {
                Some(upper.get() / lower.get() - 1.0)
            }
            _ => None,
        }
    }
}
