//! Was it the path? A lost segment is sent again after 200 ms or more, whatever the server does, and
//! the share of them does not depend on the load.

use plimsoll_model::Nanos;
use plimsoll_model::slo::Goal;
use plimsoll_model::trial::{Check, CheckId, Level, Measure};

use super::subject::Subject;
use crate::cliffs::retransmitted;

/// Segments sent again for each operation: with fewer, nothing was lost that matters.
const LOSS_MIN: f64 = 0.000_5;
/// Share of the operations that is worth a warning.
const WAITED_WARN: f64 = 0.001;
/// Late operations for each segment that was observed to be retransmitted, at most. The server's retransmissions are
/// not visible from here, and chance doubles small numbers.
const LATE_PER_SEGMENT: f64 = 4.0;
/// No segment is sent again sooner.
const TIMEOUT_MIN: Nanos = Nanos::from_millis(199);
/// Share of the late answers that came right after the first timeout; answers of a slow server come at any time.
const CLUSTERED_MIN: f64 = 0.5;

/// Checks that no latency goal is missed only because segments were lost, as they are at low loads, too.
pub(super) fn path_loss(subject: &Subject<'_>) -> Option<Check> {
    let unloaded = subject.observations.loss_unloaded?;
    let waited = waited(subject, unloaded);
    let is_explained = |goal: &Goal| match goal {
        Goal::Latency { limit, .. } if *limit <= TIMEOUT_MIN => {
            !subject.losses.misses(goal, subject.losses.share(waited))
        }
        _ => false,
    };
    let missed = |goal: &&Goal| subject.losses.misses(goal, 0.0);
    let mut missed = subject.goals().iter().filter(missed).peekable();
    let decides = waited > 0 && missed.peek().is_some() && missed.all(is_explained);
    let loses = subject.losses.share(waited) > WAITED_WARN;
    let measures = [
        Measure::ratio("late only because of the path", subject.losses.share(waited)),
        Measure::ratio("segments sent again per operation, at low load", unloaded)
            .at_most(LOSS_MIN),
    ];
    Some(Check::new(CheckId::PathLoss, Level::of(decides, loses), measures))
}

/// Answers that were late because a segment had to be sent again.
fn waited(subject: &Subject<'_>, unloaded: f64) -> u64 {
    if unloaded < LOSS_MIN {
        return 0;
    }
    let spans = &subject.tally.spans;
    let late = subject.deadline.map_or(0, |limit| spans.uncorrected.count_above(limit));
    if (retransmitted(spans) as f64) < CLUSTERED_MIN * late as f64 {
        return 0;
    }
    let most = LATE_PER_SEGMENT * unloaded * subject.tally.scheduled as f64;
    spans.uncorrected.count_above(TIMEOUT_MIN).min(most as u64)
}
