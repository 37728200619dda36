//! The load that is examined, with all observations of it.

use plimsoll_model::observation::Observations;
use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::tally::Tally;
use plimsoll_model::{Nanos, Rate};

use crate::losses::{Context, Losses};

use super::own_delay::OwnDelay;

/// The subject of the checks.
pub(crate) struct Subject<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) observations: &'a Observations,
    /// Wall time of sending.
    pub(crate) window: Nanos,
    /// The load that was asked for, if it was one rate.
    pub(crate) rate: Option<Rate>,
    pub(crate) losses: &'a Losses<'a>,
    pub(crate) slo: Option<&'a Slo>,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) aborted: bool,
    /// Operations come on a schedule.
    pub(crate) open: bool,
    /// Operations that the plan puts into the window, if that is known.
    pub(crate) planned_ops: Option<f64>,
    /// `true` if a goal was missed.
    pub(crate) missed: bool,
    /// Operations by which the backlog has grown, if that counts as missed; else 0.
    pub(crate) backlog_growth: f64,
    pub(crate) context: Context,
}

impl<'a> Subject<'a> {
    /// Creates a load on a schedule of which nothing else is known; it has met its goals.
    pub(crate) fn of(
        tally: &'a Tally,
        losses: &'a Losses<'a>,
        observations: &'a Observations,
        slo: Option<&'a Slo>,
    ) -> Self {
        Self {
            tally,
            observations,
            window: Nanos::ZERO,
            rate: None,
            losses,
            slo,
            deadline: slo.and_then(Slo::deadline),
            aborted: false,
            open: true,
            planned_ops: None,
            missed: false,
            backlog_growth: 0.0,
            context: Context::default(),
        }
    }
}

impl Subject<'_> {
    /// Returns the goals, none without an SLO.
    pub(super) fn goals(&self) -> &[Goal] {
        self.slo.map_or(&[], |slo| &slo.goals)
    }

    /// Reports whether what makes latency worse can have decided: a closed loop, or a load that met its
    /// goals, is allowed to use all it can get; and no server fails a request because of a busy
    /// client. A load without goals has nothing but its figures, and those are spoiled.
    pub(super) fn decides(&self) -> bool {
        let Some(slo) = self.slo else { return self.open };
        let fails =
            |goal: &Goal| matches!(goal, Goal::Errors { .. }) && self.losses.misses(goal, 0.0);
        self.open && self.missed && !slo.goals.iter().any(fails)
    }

    /// Reports whether [`Self::decides`] holds and the effect of our delay on the operations is unknown: then the load
    /// of the generator has to decide.
    pub(super) fn decides_unmeasured(&self) -> bool {
        self.decides() && self.own_delay() == OwnDelay::Unknown
    }
}
