//! One second of a trial as evidence.

use plimsoll_model::tally::OUTSTANDING_SAMPLE;
use plimsoll_model::trial::{Phase, TrialMeasurement, TrialRequest, TrialSecond};

use crate::pauses::GROWTH_MIN;

use super::trials::Trial;

/// Part of a second that a trial must cover for the second to count as whole: a trial ends within its last second.
const PART_MIN: f64 = 0.95;
/// A server became slower if it served a load for at least this time, seconds, and then carries less than this share of
/// it.
const SERVED_MIN_S: f64 = 1.0;
const FELL_MAX: f64 = 0.8;
/// Samples of open operations that show how fast they grow.
const FELL_SAMPLES: usize = 2;

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
    /// `true` if the server was overloaded on purpose for a short time: some carry less the longer they are.
    pub(crate) is_overload: bool,
    /// `true` at the end of a trial whose load the server had served: it became slower within the trial.
    pub(crate) is_fall: bool,
}

impl Second {
    /// Creates a second that began at `from_s` on the search's clock, in a trial that ended `left_s` later.
    pub(crate) fn of(request: &TrialRequest, from_s: f64, left_s: f64, seen: &TrialSecond) -> Self {
        Self {
            trial: request.number,
            at_s: from_s + 0.5,
            part: left_s.min(1.0),
            ok: seen.ok as f64,
            is_overload: request.phase == Phase::Sentinel,
            is_fall: false,
        }
    }

    /// Returns the rate that the server carried at the end of a trial that ended at `to_s` on the search's clock, by
    /// the growth of the open operations. `None` unless it had served the load before, and answered less then, but did
    /// answer.
    pub(crate) fn of_fall(measurement: &TrialMeasurement, to_s: f64) -> Option<Self> {
        let request = &measurement.request;
        let open = &measurement.tally.outstanding;
        let pairs = open.windows(2).rev();
        let grown: Vec<u32> =
            pairs.map_while(|p| p[1].checked_sub(p[0])).take_while(|n| *n > 0).collect();
        let step_s = OUTSTANDING_SAMPLE.as_secs_f64();
        let served_s = (open.len() - grown.len()) as f64 * step_s;
        if grown.len() < FELL_SAMPLES || served_s < SERVED_MIN_S {
            return None;
        }
        let load = request.rate.get();
        let steepest = grown.iter().copied().max().map_or(0.0, f64::from) / step_s;
        let fell_s = grown.len() as f64 * step_s;
        let ok = load - f64::from(grown.iter().sum::<u32>()) / fell_s;
        let at_s = to_s - 0.5 * fell_s;
        let is_fall = ok < FELL_MAX * load && steepest < GROWTH_MIN * load;
        is_fall.then_some(Self {
            trial: request.number,
            at_s,
            part: 1.0,
            ok,
            is_overload: true,
            is_fall,
        })
    }

    /// Reports whether all of it was counted.
    pub(crate) fn is_whole(&self) -> bool {
        !self.is_fall && self.part > PART_MIN
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

#[cfg(test)]
mod tests {
    use plimsoll_model::tally::Tally;
    use plimsoll_model::{Nanos, Rate};

    use super::super::tests::measured;
    use super::*;

    /// The rate at the end of a trial at 1,000/s whose open operations end so.
    fn fall(end: &[u32]) -> Option<f64> {
        let tally = Tally { outstanding: [&[1; 20][..], end].concat(), ..Tally::default() };
        let request = TrialRequest {
            number: 1,
            phase: Phase::Narrow,
            rate: Rate::per_second(1_000.0).expect("finite"),
            duration: Nanos::from_secs(5),
            split: 1,
        };
        Second::of_fall(&measured(request, tally), 9.0).map(|second| second.ok.round())
    }

    #[test]
    fn a_queue_that_grows_at_the_end_shows_what_was_carried_then() {
        assert_eq!(fall(&[51, 101, 151]), Some(500.0));
        assert_eq!(fall(&[11, 21, 31]), None, "nearly all of it");
        assert_eq!(fall(&[51, 151, 251]), None, "a pause");
        assert_eq!(fall(&[51]), None, "too short");
        assert_eq!(fall(&[51, 101, 90]), None, "it came back");
        assert_eq!(fall(&[]), None);
    }
}
