//! One second of a trial as evidence.

use plimsoll_model::trial::{Phase, TrialRequest, TrialSecond};

use super::trials::Trial;

/// A trial ends within its last second: one of which so much is missing is no whole one.
const PART_MIN: f64 = 0.95;

/// A second of a valid trial; the last one of a trial may be cut short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Second {
    /// The trial's number.
    pub(crate) trial: u32,
    /// On the search's clock, its middle.
    pub(crate) at_s: f64,
    /// Share of the second that lies in the trial: less than 1 if it was cut short.
    pub(crate) part: f64,
    /// Answers in it, late ones included.
    pub(crate) ok: f64,
    /// Whether the server was overloaded on purpose for a short time: some carry less the longer they are.
    pub(crate) is_overload: bool,
}

impl Second {
    /// A second that began at `from_s` on the search's clock, in a trial that ended `left_s` later.
    pub(crate) fn of(request: &TrialRequest, from_s: f64, left_s: f64, seen: &TrialSecond) -> Self {
        Self {
            trial: request.number,
            at_s: from_s + 0.5,
            part: left_s.min(1.0),
            ok: seen.ok as f64,
            is_overload: request.phase == Phase::Sentinel,
        }
    }

    /// Reports whether all of it shows what an overloaded server carries.
    fn is_reading(&self) -> bool {
        self.is_overload && self.ok > 0.0 && self.part > PART_MIN
    }
}

/// Returns the seconds that show what an overloaded server carries, of the trials that count.
pub(super) fn readings(seconds: &[Second], trials: &[Trial]) -> impl Iterator<Item = Second> {
    let is_counted = |second: &Second| trials.iter().any(|trial| trial.number == second.trial);
    seconds.iter().copied().filter(Second::is_reading).filter(is_counted)
}
