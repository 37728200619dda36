//! Closing in: which load to measure next, and when the interval is as narrow as it is worth.
//!
//! The next load is the one whose verdict says most of the capacity, by the fit to all trials so far.
//! Every fourth trial is a short overload at a fixed load, the sentinel: it shows whether the server is
//! still the one that the others measured.

use plimsoll_model::trial::{Outcome, Phase};

use super::super::answer::Known;
use super::super::fit::Fit;
use super::super::levels::reading;
use super::super::settings::HIGHEST_PER_S;
use super::memory::{Policy, Want};

/// An interval that is this number of standard deviations of the capacity wide is narrow enough: the next trial's
/// capacity differs by more.
const WIDTH_SPREADS: f64 = 2.0;
/// If the next verdict is foreseen so well, bits, further ones change nothing.
const INFORMATION_MIN: f64 = 0.05;
/// Relative width of the interval from which on trials are as long as a confirmation: shorter ones may miss slow
/// stretches that such a run meets.
const LONG_FROM: f64 = 0.3;
/// Quantiles of the capacity at which the next load is looked for.
const PROBES: [f64; 13] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98];
/// Below the lowest load the first trials decide.
const FAILED_MAX: usize = 3;

impl Policy {
    pub(super) fn plan_measure(&mut self, known: &Known<'_>) -> Want {
        let limits = &known.task.limits;
        let narrow = |policy: &Self, load| {
            let length = policy.trial_length(known, load, limits.final_trial);
            (length, Want::Trial(Phase::Narrow, load, length))
        };
        if let Some(load) = known.guards.shadow.repeat {
            return narrow(self, load).1;
        }
        let Some(fit) = known.fit else {
            // The server has changed, and only its pace in overload is known.
            let carried = self.carried(known).clamp(self.lowest(), self.highest(known));
            return narrow(self, self.grid.nearest(carried)).1;
        };
        if let Some(want) = self.plan_outside(known, fit) {
            return want;
        }
        if let Some(want) = self.plan_sentinel(known, fit) {
            return want;
        }
        let goal = limits.width_max.max(WIDTH_SPREADS * fit.posterior.spread());
        let goal = goal + 2.0 * fit.drift_error;
        let (information, next) = self.most_telling(known, fit);
        // An end that was not measured is no reason to go on between the two.
        let unmeasured = fit.ends.1 / fit.ends.0 - 1.0;
        let width = if fit.width().is_finite() { fit.width() } else { unmeasured };
        let is_narrow = width <= goal + 1e-9 || information < INFORMATION_MIN;
        let next = if is_narrow { self.unmeasured_end(known, fit) } else { Some(next) };
        let Some(next) = next else { return self.plan_confirm(known, fit) };
        let (length, want) = narrow(self, next);
        let reserve = self.reserve(known, fit);
        let long = length.max(limits.confirm_trial);
        let is_near = fit.width() <= LONG_FROM;
        if (is_near || fit.speeds.misses(length)) && self.affords(known, long + reserve) {
            return Want::Trial(Phase::Narrow, next, long);
        }
        if !self.affords(known, length + reserve) {
            return self.plan_confirm(known, fit);
        }
        want
    }

    /// Returns the rate that the server carried in the last overload, operations per second.
    fn carried(&self, known: &Known<'_>) -> f64 {
        let mut readings = known.evidence.all().rev().filter_map(reading);
        readings.next().map_or_else(|| self.lowest(), |reading| reading.y.exp())
    }

    /// Returns an end of the interval beyond which no load was measured: after a change of the server the overloads
    /// show its capacity, but a bound is a load that was offered.
    pub(super) fn unmeasured_end(&self, known: &Known<'_>, fit: &Fit) -> Option<f64> {
        let (low, high) = fit.ends;
        let end = match (fit.lower, fit.upper) {
            (None, _) => self.grid.step(low, 0),
            (_, None) => self.grid.ceil(high),
            _ => return None,
        };
        (self.lowest()..=self.highest(known)).contains(&end).then_some(end)
    }

    /// The capacity lies outside of the loads that may be offered.
    fn plan_outside(&mut self, known: &Known<'_>, fit: &Fit) -> Option<Want> {
        let lowest = self.lowest();
        if fit.posterior.quantile(0.95).exp() <= lowest
            && known.evidence.at(lowest).filter(|t| !t.good).count() >= FAILED_MAX
        {
            return Some(match self.go_down(known) {
                true => self.plan(known),
                false => Want::Finish(Outcome::FailsAtMinimum),
            });
        }
        let highest = self.highest(known);
        if fit.posterior.quantile(0.10).exp() < highest {
            return None;
        }
        let cap = known.task.cap();
        if highest >= cap {
            let met = known.evidence.at(cap).any(|t| t.good);
            return met.then(|| self.plan_capped(known, cap));
        }
        if let Some((_, why)) = self.ceiling.as_ref().filter(|_| highest < 2.0 * self.first_bad) {
            return Some(Want::Finish(Outcome::GeneratorLimited { why: why.clone() }));
        }
        // Expansion ended by bad luck.
        let good = known.evidence.highest_good().filter(|load| *load < highest);
        self.first_bad = HIGHEST_PER_S;
        let outcome = self.expand_from(known, good.unwrap_or(lowest).max(0.5 * highest), None);
        Some(outcome.map_or_else(|| self.plan(known), Want::Finish))
    }

    /// Returns the highest information of a verdict at any load, in bits, and that load.
    fn most_telling(&self, known: &Known<'_>, fit: &Fit) -> (f64, f64) {
        let posterior = &fit.posterior;
        let (lowest, highest) = (self.lowest(), self.highest(known));
        let mut best = (f64::NEG_INFINITY, lowest);
        let mut last = 0.0;
        for q in PROBES {
            let load = self.grid.nearest(posterior.quantile(q).exp()).clamp(lowest, highest);
            if load == last {
                continue;
            }
            last = load;
            let bits = posterior.information(load.ln());
            if bits > best.0 {
                best = (bits, load);
            }
        }
        best
    }
}
