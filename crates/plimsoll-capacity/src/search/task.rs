//! The task of a search: its settings and its objective.

use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::trial::{Outcome, Phase, TrialRequest};
use plimsoll_model::{Nanos, Rate};

use crate::validity::REFERENCE_FAIL;

use super::settings::{HIGHEST_PER_S, Limits, SearchSettings};
use super::trials::CARRIED_WINDOW_MIN;

/// A trial is ended early only when the goal is missed by so much: what is late is counted by the
/// agents at their clocks, and the verdict is computed from histograms.
const ABORT_MARGIN: f64 = 1.25;
const ABORT_MARGIN_OPS: f64 = 10.0;

/// Confirmations that must fit into the budget, or trials do not become longer.
const STRETCHED_MAX: u64 = 6;

/// The task of a search.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) settings: SearchSettings,
    pub(super) limits: Limits,
    pub(super) slo: Slo,
}

impl Task {
    pub(super) fn new(settings: SearchSettings, slo: Slo) -> Self {
        Self { limits: Limits::within(settings.budget), settings, slo }
    }

    /// Makes the lengths of trials multiples of `period`; `false` if no confirmation of it fits.
    pub(super) fn stretch(&mut self, period: Nanos) -> bool {
        let limits = &mut self.limits;
        let stretched = |span: Nanos| Nanos(span.0.div_ceil(period.0) * period.0);
        if stretched(limits.confirm_trial) > Nanos(limits.budget.0 / STRETCHED_MAX) {
            return false;
        }
        for span in [&mut limits.initial_trial, &mut limits.final_trial, &mut limits.confirm_trial]
        {
            *span = stretched(*span);
        }
        true
    }

    /// Returns the first load, operations per second.
    pub(super) fn first(&self) -> f64 {
        let first = self.settings.lowest.get().clamp(1e-3, HIGHEST_PER_S);
        self.settings.cap.map_or(first, |cap| first.min(cap.get().max(1e-3)))
    }

    /// Returns the highest load that may be offered, operations per second.
    pub(super) fn cap(&self) -> f64 {
        self.asked_cap().min(self.generator_cap())
    }

    fn asked_cap(&self) -> f64 {
        self.settings.cap.map_or(HIGHEST_PER_S, Rate::get)
    }

    /// Above it a missed goal would not speak against the server.
    fn generator_cap(&self) -> f64 {
        self.settings.reference.map_or(f64::INFINITY, |alone| alone.get() * REFERENCE_FAIL)
    }

    /// Returns the outcome that the SLO is met up to the cap.
    pub(super) fn met_at_cap(&self) -> Outcome {
        if self.generator_cap() < self.asked_cap()
            && let Some(alone) = self.settings.reference
        {
            let share = REFERENCE_FAIL * 100.0;
            return Outcome::GeneratorLimited {
                why: format!(
                    "reference: {share:.0} % of the {alone} that the generator reaches alone"
                ),
            };
        }
        let cap = match self.settings.cap {
            Some(cap) => format!("{} ({cap})", self.settings.cap_reason),
            None => "the highest rate plimsoll offers".to_owned(),
        };
        Outcome::NotReached { cap }
    }

    /// Returns the count of bad operations (late at the strictest deadline, failed or unsent) above which `request` can
    /// only be BAD; `u64::MAX` if no such count exists.
    pub(super) fn abort_bad_ops(&self, request: &TrialRequest) -> u64 {
        // Overloads are there to be looked at until the end.
        if !request.phase.moves_bounds() && request.phase != Phase::Safe {
            return u64::MAX;
        }
        let ops = request.rate.get() * request.duration.as_secs_f64();
        let deadline = self.slo.deadline();
        // Goals with a longer limit, or on errors alone, cannot be judged by that count.
        let ratio = self
            .slo
            .goals
            .iter()
            .filter(|goal| matches!(goal, Goal::Latency { limit, .. } if Some(*limit) == deadline))
            .map(Goal::bad_ratio_max)
            .min_by(f64::total_cmp);
        // And what is carried in too short a time says nothing of the capacity.
        let least = request.rate.get() * CARRIED_WINDOW_MIN.as_secs_f64();
        let most = |ratio: f64| (ops * ratio * ABORT_MARGIN + ABORT_MARGIN_OPS).max(least) as u64;
        ratio.map_or(u64::MAX, most)
    }
}
