//! Warnings during a load. The load is judged as a whole at its end; a user who watches it can end it, or other work of
//! this host, before.

use plimsoll_capacity::verdict::failed_in_second;
use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::trial::CheckId;
use plimsoll_report::findings;

/// Checks each second of one load, and says of each check once that it failed.
pub(super) struct Warnings {
    deadline: Option<Nanos>,
    is_open: bool,
    is_draining: bool,
    given: Vec<CheckId>,
}

impl Warnings {
    pub(super) fn of(plan: &LoadPlan) -> Self {
        Self {
            deadline: plan.timeouts.deadline,
            is_open: matches!(plan.pacing, Pacing::Open { .. }),
            is_draining: false,
            given: Vec::new(),
        }
    }

    /// Returns the warnings that an event gives rise to.
    pub(super) fn handle_event(&mut self, event: &Event) -> Vec<Event> {
        self.is_draining |= matches!(event, Event::Draining { .. });
        // What is not sent after that has a reason.
        let Event::Interval(second) = event else { return Vec::new() };
        if self.is_draining {
            return Vec::new();
        }
        let mut failed = failed_in_second(&second.tally, self.deadline, self.is_open);
        failed.retain(|check| !self.given.contains(&check.id));
        self.given.extend(failed.iter().map(|check| check.id.clone()));
        let text = |check| format!("in second {}: {}", second.second + 1, findings::line(check));
        failed.iter().map(|check| Event::Note(text(check))).collect()
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::ErrorClass;
    use plimsoll_model::tally::{Interval, Tally};

    use super::*;
    use crate::plan::tests::load_job;

    fn second(second: u32, lag_ms: u64, unsent: u64) -> Event {
        let mut tally = Tally { scheduled: 100, ok: 100 - unsent, unsent, ..Tally::default() };
        tally.spans.send_lag.record_n(Nanos::from_millis(lag_ms), 100);
        Event::Interval(Box::new(Interval { second, tally }))
    }

    #[test]
    fn each_check_is_warned_of_once_and_not_after_sending() {
        let mut warnings = Warnings::of(&load_job(&["http://127.0.0.1:9/"]).plan);
        let mut of = |event| -> Vec<String> {
            let notes = warnings.handle_event(&event);
            notes.iter().map(|note| format!("{note:?}")).collect()
        };
        assert_eq!(of(second(0, 0, 0)), [""; 0]);
        let late = of(second(1, 200, 0));
        assert!(
            late.len() == 1 && late[0].contains("in second 2: send-lag: p99 200 ms"),
            "{late:?}"
        );
        assert_eq!(of(second(2, 200, 0)), [""; 0]);
        let unsent = of(second(3, 200, 20));
        assert!(
            unsent.len() == 1 && unsent[0].contains("in second 4: rate-fidelity: "),
            "{unsent:?}"
        );
        assert_eq!(of(Event::Draining { in_flight: 3 }), [""; 0]);
        let mut tally = Tally::default();
        tally.failures.operations.add(ErrorClass::LocalPorts, 1);
        assert_eq!(of(Event::Interval(Box::new(Interval { second: 5, tally }))), [""; 0]);
    }
}
