//! Overloads on purpose: a sentinel, a short overload at a fixed load, shows whether the server is still the one that
//! the other trials measured.

use plimsoll_model::trial::Phase;

use super::super::answer::Known;
use super::super::fit::Fit;
use super::memory::{Policy, SENTINEL_EVERY, Want};

/// Loads above this multiple of the first BAD one are never offered: overload can do harm.
pub(in super::super) const OVERSHOOT_MAX: f64 = 2.0;
/// Distance from a load that the generator cannot make within which the search looks for a BAD one.
pub(super) const CEILING_CELLS: u32 = 2;
/// The overload on purpose, relative to the upper bound.
pub(super) const OVERLOAD: f64 = 1.2;
/// The sentinel's load over the upper bound; outside of this range it moves.
const ANCHOR_OVER: std::ops::Range<f64> = 1.08..1.5;
/// INVALID sentinels of one search: from then on the generator cannot make that load.
const SENTINELS_INVALID_MAX: u32 = 3;
/// While the interval is wider, it is not known which load is an overload without being a harmful one.
const ANCHOR_WIDTH_MAX: f64 = 0.35;

impl Policy {
    /// Returns the load of the sentinels, operations per second; 0 before the first.
    pub(in super::super) fn anchor(&self) -> f64 {
        self.sentinel.anchor.unwrap_or_default()
    }

    /// Sets the load of a sentinel that another search has asked for.
    pub(in super::super) const fn set_anchor(&mut self, load: f64) {
        self.sentinel.anchor = Some(load);
    }

    /// Learns from a sentinel that has become evidence whether one more is needed at once.
    pub(in super::super) const fn learn_sentinel(&mut self, is_wanted: bool) {
        self.sentinel.verdicts = 0;
        self.sentinel.is_wanted = is_wanted;
    }

    /// Returns the highest load that may be offered while closing in.
    pub(super) fn highest(&self, known: &Known<'_>) -> f64 {
        let ceiling = self.ceiling.as_ref().map_or(f64::INFINITY, |(ceiling, _)| {
            self.grid.step(*ceiling, -i64::from(CEILING_CELLS))
        });
        self.overload_max(known).min(ceiling)
    }

    /// Returns the highest load that is ever offered: overload can do harm.
    pub(super) fn overload_max(&self, known: &Known<'_>) -> f64 {
        known.task.cap().min(OVERSHOOT_MAX * self.first_bad)
    }

    pub(super) fn plan_sentinel(&mut self, known: &Known<'_>, fit: &Fit) -> Option<Want> {
        // If the speed changes within seconds a few more of them say little.
        let every =
            if fit.speeds.have_slow_seconds() { 2 * SENTINEL_EVERY } else { SENTINEL_EVERY };
        let due = self.sentinel.is_wanted || self.sentinel.verdicts >= every;
        let is_out_of_reach = known.evidence.invalid_sentinels >= SENTINELS_INVALID_MAX;
        // Without regard to a drift, which only sentinels can rule out.
        let width = fit.posterior.quantile(0.95) - fit.posterior.quantile(0.05);
        // One that is asked for is made at the load of those before, which did no harm.
        let is_placed = self.sentinel.is_wanted && self.sentinel.anchor.is_some();
        if !due || is_out_of_reach || width > ANCHOR_WIDTH_MAX && !is_placed {
            return None;
        }
        let anchor = self.place_anchor(known, fit)?;
        let length = known.task.limits.sentinel_trial;
        self.affords(known, length).then_some(Want::Trial(Phase::Sentinel, anchor, length))
    }

    /// Returns the load of the next overload: the previous one if it still is an overload.
    pub(super) fn place_anchor(&mut self, known: &Known<'_>, fit: &Fit) -> Option<f64> {
        let upper = fit.upper.unwrap_or_else(|| self.grid.ceil(fit.posterior.quantile(0.95).exp()));
        // An overload also if the server is fast.
        let most = upper * fit.speeds.depth.exp();
        let fits = |anchor: &f64| ANCHOR_OVER.contains(&(anchor / most)) || self.sentinel.is_wanted;
        let anchor = self.sentinel.anchor.filter(fits).unwrap_or(OVERLOAD * most);
        let ceiling = self.ceiling.as_ref().map_or(f64::INFINITY, |(ceiling, _)| *ceiling);
        if anchor > self.overload_max(known).min(ceiling) {
            return None;
        }
        self.sentinel.anchor = Some(anchor);
        Some(anchor)
    }
}
