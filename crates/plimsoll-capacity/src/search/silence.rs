//! A server that is gone. A trial in which not one operation was answered is put aside, and the
//! lowest load is offered instead: whoever answers that was only overloaded, and the trial counts
//! as BAD. Whoever does not answer again and again is gone, and then the bounds are those of the
//! time when it last met the objective.

use plimsoll_model::trial::{Judgement, Outcome, TippingPoint, TrialMeasurement};
use plimsoll_model::{Nanos, Rate};

use super::{RateSearch, State};

/// Trials at the lowest load before the server is said to be gone. In the rests between them a
/// supervisor has started most servers again.
const CHECKS_MAX: u32 = 4;

/// What is known of a server that may be gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence {
    /// The first trial without an answer, put aside.
    aside: Option<Box<(TrialMeasurement, Judgement)>>,
    /// Trials without an answer after that one.
    checks: u32,
    /// Bounds when the objective was last met.
    known: (Option<Rate>, Option<Rate>),
    is_over: bool,
}

impl Silence {
    /// Whether the next trial asks if the server is still there.
    pub(super) const fn is_suspected(&self) -> bool {
        self.aside.is_some()
    }

    /// The rest before that trial, twice as long each time.
    pub(super) fn rest(&self, rest: Nanos, rest_max: Nanos) -> Nanos {
        Nanos(rest.0.saturating_mul(1 << self.checks.min(8)).min(rest_max.0))
    }

    /// What the search knew while the server was there, once it is gone.
    pub(super) fn known(&self) -> Option<(Option<Rate>, Option<Rate>)> {
        self.is_over.then_some(self.known)
    }
}

impl RateSearch {
    /// Whether the server stopped answering and did not come back.
    pub fn is_sut_gone(&self) -> bool {
        self.silence.is_over
    }

    /// Whether the trial was put aside, or was one that asked for a sign of life.
    pub(super) fn is_about_silence(
        &mut self,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
    ) -> bool {
        if let Some(first) = self.silence.aside.take() {
            self.learn_check(first, measurement);
            return true;
        }
        // Before the first answer there is no server to miss, and after an overload on purpose
        // its silence is what was asked for.
        let expected = measurement.request.phase.moves_bounds();
        let was_there = !matches!(self.state, State::Qualify);
        if expected && was_there && is_unanswered(measurement) {
            self.silence.checks = 0;
            self.silence.aside = Some(Box::new((measurement.clone(), judgement.clone())));
            return true;
        }
        false
    }

    fn learn_check(
        &mut self,
        first: Box<(TrialMeasurement, Judgement)>,
        measurement: &TrialMeasurement,
    ) {
        if !is_unanswered(measurement) {
            // It is there: the trial that was put aside was an overload.
            let (missed, judgement) = *first;
            self.learn_verdict(&missed, &judgement);
            return;
        }
        self.silence.checks += 1;
        if self.silence.checks < CHECKS_MAX {
            self.silence.aside = Some(first);
            return;
        }
        self.silence.is_over = true;
        let request = &first.0.request;
        let why = format!(
            "the server stopped answering: not one operation was answered in trial {} at {} ({}), \
             nor in {CHECKS_MAX} trials at {} after it",
            request.number,
            request.rate,
            what_came(measurement),
            self.settings.lowest
        );
        self.finish(Outcome::Unfinished { why });
    }

    /// Remembers the bounds as they are while the server is surely there.
    pub(super) fn remember_bounds(&mut self) {
        self.silence.known = match &self.state {
            State::Done(tipping) => {
                let TippingPoint { lower, upper, .. } = **tipping;
                (lower, upper)
            }
            _ => self.trials.leaning_bounds(),
        };
    }
}

/// Whether no operation was answered, well or badly.
pub(super) fn is_unanswered(measurement: &TrialMeasurement) -> bool {
    let tally = &measurement.tally;
    // A handshake has no status.
    tally.scheduled > 0 && tally.ok == 0 && tally.status.iter().next().is_none()
}

/// The most frequent class of errors, or that nothing came at all.
fn what_came(measurement: &TrialMeasurement) -> &'static str {
    let errors = measurement.tally.errors.iter();
    errors.max_by_key(|(_, count)| *count).map_or("no answer", |(class, _)| class.name())
}
