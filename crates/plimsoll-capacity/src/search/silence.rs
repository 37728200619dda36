//! Detection of a server that is gone. A trial in which not one operation was answered is deferred, and the lowest load
//! is offered instead. A server that answers it was only overloaded, and the trial counts as BAD. A server that
//! repeatedly does not answer is gone, and the bounds are the ones from when it last met the objective.

use plimsoll_model::trial::{Judgement, Stopped, TrialMeasurement};
use plimsoll_model::{ErrorClass, Nanos, Rate};

/// Trials at the lowest load before the server is said to be gone. In the rests between them a
/// supervisor has started most servers again.
const CHECKS_MAX: u32 = 4;

/// A trial with its verdict.
pub(super) type JudgedTrial = (TrialMeasurement, Judgement);

/// The guard against a server that is gone.
#[derive(Clone, Debug, Default)]
pub(super) struct Silence {
    /// The first trial without an answer, deferred.
    deferred: Option<Box<JudgedTrial>>,
    /// Trials without an answer after that one, and their load.
    checks: u32,
    checked_at: Rate,
    /// Bounds when the objective was last met.
    known: (Option<Rate>, Option<Rate>),
    /// `true` if the server stopped answering and did not come back.
    pub(super) is_over: bool,
}

/// The guard's verdict on a trial.
#[derive(Clone, Debug)]
pub(super) enum Presence {
    /// The trial is one like any other.
    Present,
    /// No operation was answered in this trial, which is deferred, or in a check after it.
    Suspected,
    /// The server is there: the trial that was deferred was an overload, and counts.
    Returned(Box<JudgedTrial>),
    /// The server is gone.
    Gone(Stopped),
}

impl Silence {
    /// Reports whether the next trial asks if the server is still there.
    pub(super) const fn is_suspected(&self) -> bool {
        self.deferred.is_some()
    }

    /// Returns the rest before that trial, twice as long each time.
    pub(super) fn rest(&self, rest: Nanos, rest_max: Nanos) -> Nanos {
        Nanos(rest.0.saturating_mul(1 << self.checks.min(8)).min(rest_max.0))
    }

    /// Returns the bounds from the time before the server was gone, once it is.
    pub(super) fn known(&self) -> Option<(Option<Rate>, Option<Rate>)> {
        self.is_over.then_some(self.known)
    }

    /// Remembers the bounds as they are while the server is surely there.
    pub(super) const fn remember(&mut self, bounds: (Option<Rate>, Option<Rate>)) {
        self.known = bounds;
    }

    /// Looks at a valid trial. `was_there`: the server has answered before.
    pub(super) fn observe(
        &mut self,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
        was_there: bool,
    ) -> Presence {
        if let Some(first) = self.deferred.take() {
            return self.check(first, measurement);
        }
        // Before the first answer there is no server to miss, and after an overload on purpose
        // its silence is what was asked for.
        let expected = measurement.request.phase.moves_bounds();
        if expected && was_there && is_unanswered(measurement) {
            self.checks = 0;
            self.deferred = Some(Box::new((measurement.clone(), judgement.clone())));
            return Presence::Suspected;
        }
        Presence::Present
    }

    fn check(&mut self, first: Box<JudgedTrial>, measurement: &TrialMeasurement) -> Presence {
        if !is_unanswered(measurement) {
            return Presence::Returned(first);
        }
        self.checks += 1;
        self.checked_at = measurement.request.rate;
        if self.checks < CHECKS_MAX {
            self.deferred = Some(first);
            return Presence::Suspected;
        }
        Presence::Gone(self.gone(&first.0))
    }

    /// Ends the wait when there is no time for another check: the server is gone if it was suspected to be.
    pub(super) fn give_up(&mut self) -> Option<Stopped> {
        self.deferred.take().map(|first| self.gone(&first.0))
    }

    /// Ends the guard: the server answered neither in the `first` trial nor in the checks after it.
    fn gone(&mut self, first: &TrialMeasurement) -> Stopped {
        self.is_over = true;
        Stopped::Silent {
            trial: first.request.number,
            load: first.request.rate,
            class: most_frequent(first),
            checks: self.checks,
            checks_load: self.checked_at,
        }
    }
}

/// Reports whether no operation was answered, well or badly.
pub(super) fn is_unanswered(measurement: &TrialMeasurement) -> bool {
    let tally = &measurement.tally;
    // A handshake has no status.
    tally.scheduled > 0 && tally.ok == 0 && tally.answers.status.is_empty()
}

/// Returns the most frequent class of errors.
fn most_frequent(measurement: &TrialMeasurement) -> Option<ErrorClass> {
    let errors = measurement.tally.failures.operations.iter();
    errors.max_by_key(|(_, count)| *count).map(|(class, _)| class)
}
