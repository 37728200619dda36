//! One second of a trial as evidence.

use plimsoll_model::trial::{Phase, TrialRequest, TrialSecond};

/// A second of a valid trial; the last one of a trial may be cut short.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Second {
    /// The trial's number.
    pub(crate) trial: u32,
    /// On the search's clock, its middle.
    pub(crate) at_s: f64,
    /// Operations that were sent in it.
    pub(crate) sent: f64,
    /// Answers in it, late ones included.
    pub(crate) ok: f64,
    /// Whether the server was overloaded on purpose.
    pub(crate) is_overload: bool,
    /// CPU time of the yardstick's piece of work, microseconds.
    pub(crate) yardstick_us: Option<f64>,
}

impl Second {
    /// A second that began at `from_s` on the search's clock.
    pub(crate) fn of(request: &TrialRequest, from_s: f64, seen: &TrialSecond) -> Self {
        Self {
            trial: request.number,
            at_s: from_s + 0.5,
            sent: seen.sent as f64,
            ok: seen.ok as f64,
            is_overload: matches!(request.phase, Phase::Sentinel | Phase::Overload),
            yardstick_us: seen.yardstick.map(|work| 1e3 * work.as_millis_f64()),
        }
    }
}
