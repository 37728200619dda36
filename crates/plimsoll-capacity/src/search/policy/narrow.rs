//! Closing in: which load to measure next, and when the interval is as narrow as it is worth.
//!
//! The next load is the one whose verdict says most of the capacity, by the fit to all trials so far.
//! Every fourth trial is a short overload at a fixed load, the sentinel: it shows whether the server is
//! still the one that the others measured.

use plimsoll_model::trial::{Outcome, Phase};
use plimsoll_model::{Nanos, Rate};

use super::super::answer::Known;
use super::super::fit::Fit;
use super::super::levels::reading;
use super::super::settings::HIGHEST_PER_S;
use super::{CEILING_CELLS, OVERLOAD, OVERSHOOT_MAX, Policy, Unsettled, Want};

/// An interval that is so many standard deviations of the capacity wide is narrow enough: the next
/// trial's capacity differs by more.
const WIDTH_SPREADS: f64 = 2.0;
/// If the next verdict is foreseen so well, bits, further ones change nothing.
const INFORMATION_MIN: f64 = 0.05;
/// An interval that is wider, relative, is first made narrower.
const WIDE: f64 = 0.2;
/// From an interval of this relative width on trials are as long as a confirmation: shorter ones may miss what
/// such a run meets with.
const LONG_FROM: f64 = 0.3;
/// Confirmations are longer in modes with a large budget.
const LONG_CONFIRMATION: Nanos = Nanos::from_secs(30);
/// Verdicts between two sentinels.
const SENTINEL_EVERY: u32 = 3;
/// The sentinel's load over the upper bound; outside of this range it moves.
const ANCHOR_OVER: std::ops::Range<f64> = 1.08..1.5;
/// INVALID sentinels of one search: from then on the generator cannot make that load.
const SENTINELS_INVALID_MAX: u32 = 3;
/// Before the interval is so narrow nobody knows which load is an overload, and not a harmful one.
const ANCHOR_WIDTH_MAX: f64 = 0.35;
/// A verdict that was so unlikely asks for a sentinel at once.
const SURPRISE: f64 = 0.05;
/// Quantiles of the capacity at which the next load is looked for.
const PROBES: [f64; 13] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98];
/// Below the lowest load the first trials decide.
const FAILED_MAX: usize = 3;

/// When the next sentinel is due, and at which load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sentinel {
    pub(super) anchor: Option<f64>,
    /// Verdicts since the last one.
    verdicts: u32,
    pub(super) is_wanted: bool,
}

impl Sentinel {
    /// Counts a verdict; `expected` is how likely it was.
    pub(super) fn count_verdict(&mut self, expected: Option<f64>) {
        self.verdicts += 1;
        self.is_wanted |= expected.is_some_and(|p| p < SURPRISE);
    }

    /// A trial with random arrivals is as long as three of those that close in.
    pub(super) const fn count_safe(&mut self) {
        self.verdicts += SENTINEL_EVERY;
    }
}

impl Policy {
    /// The load of the sentinels, operations per second; 0 before the first.
    pub(in super::super) fn anchor(&self) -> f64 {
        self.sentinel.anchor.unwrap_or_default()
    }

    /// Another search has asked for a sentinel at this load.
    pub(in super::super) const fn set_anchor(&mut self, load: f64) {
        self.sentinel.anchor = Some(load);
    }

    /// Learns from a sentinel that has become evidence whether one more is needed at once.
    pub(in super::super) const fn learn_sentinel(&mut self, is_wanted: bool) {
        self.sentinel.verdicts = 0;
        self.sentinel.is_wanted = is_wanted;
    }

    pub(super) fn plan_measure(&mut self, known: &Known<'_>) -> Want {
        let limits = &known.task.limits;
        let narrow = |policy: &Self, load| {
            let length = policy.trial_length(known, load, limits.final_trial);
            (length, Want::Trial(Phase::Narrow, load, length))
        };
        if let Some(load) = known.guards.shadow.repeats(known.evidence) {
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
        let goal = goal + 2.0 * fit.blur;
        let (information, next) = self.most_telling(known, fit);
        let is_narrow = fit.width() <= goal + 1e-9 || information < INFORMATION_MIN;
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

    /// Highest load that may be offered while closing in.
    fn highest(&self, known: &Known<'_>) -> f64 {
        let ceiling = self.ceiling.as_ref().map_or(f64::INFINITY, |(ceiling, _)| {
            self.grid.step(*ceiling, -i64::from(CEILING_CELLS))
        });
        self.overload_max(known).min(ceiling)
    }

    /// More is never offered: overload can do harm.
    pub(super) fn overload_max(&self, known: &Known<'_>) -> f64 {
        known.task.cap().min(OVERSHOOT_MAX * self.first_bad)
    }

    /// An end of the interval beyond which nothing was measured: after a change of the server the
    /// overloads tell its capacity, but a bound is a load that was offered.
    fn unmeasured_end(&self, known: &Known<'_>, fit: &Fit) -> Option<f64> {
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
        Some(self.expand_again(known, good.unwrap_or(lowest).max(0.5 * highest)))
    }

    /// Back to expansion from a load that is GOOD after all.
    fn expand_again(&mut self, known: &Known<'_>, rate: f64) -> Want {
        self.first_bad = HIGHEST_PER_S;
        match self.expand_from(known, rate, None) {
            Some(outcome) => Want::Finish(outcome),
            None => self.plan(known),
        }
    }

    /// Returns the information of a verdict at the load that tells most, bits, and that load.
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
            let told = posterior.information(load.ln());
            if told > best.0 {
                best = (told, load);
            }
        }
        best
    }

    pub(super) fn plan_sentinel(&mut self, known: &Known<'_>, fit: &Fit) -> Option<Want> {
        // Where the speed changes within seconds a few more of them say little.
        let every = if fit.speeds.are_varied() { 2 * SENTINEL_EVERY } else { SENTINEL_EVERY };
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

    /// The load of the next overload: the one of those before if it still is one.
    pub(super) fn place_anchor(&mut self, known: &Known<'_>, fit: &Fit) -> Option<f64> {
        let upper = fit.upper.unwrap_or_else(|| self.grid.ceil(fit.posterior.quantile(0.95).exp()));
        // An overload also where the server is fast.
        let most = upper * fit.speeds.depth().exp();
        let fits = |anchor: &f64| ANCHOR_OVER.contains(&(anchor / most)) || self.sentinel.is_wanted;
        let anchor = self.sentinel.anchor.filter(fits).unwrap_or(OVERLOAD * most);
        let ceiling = self.ceiling.as_ref().map_or(f64::INFINITY, |(ceiling, _)| *ceiling);
        if anchor > self.overload_max(known).min(ceiling) {
            return None;
        }
        self.sentinel.anchor = Some(anchor);
        Some(anchor)
    }

    /// Returns the time for what is left once the interval is final. Until then, only its confirmation
    /// counts: what would describe it has nothing to describe.
    fn reserve(&self, known: &Known<'_>, fit: &Fit) -> Nanos {
        let limits = &known.task.limits;
        if fit.lower.is_none() || fit.upper.is_none() {
            return Nanos(limits.confirm_trial.0 * u64::from(limits.confirmations));
        }
        // As long as the interval is wide, a narrower one is worth more than a better safe load.
        let safe_trials = if fit.width() > WIDE { 1 } else { limits.safe_trials };
        // One of them may be BAD.
        let confirmations = u64::from(limits.confirmations + safe_trials) + 1;
        // A confirmation of a minute leaves time for more than one trial after the overload.
        let recoveries = if limits.confirm_trial > LONG_CONFIRMATION { 4 } else { 1 };
        Nanos(limits.confirm_trial.0 * confirmations) + self.reserve_after(known, recoveries)
    }

    /// The overload, and so many trials that ask whether the server came back.
    pub(super) fn reserve_after(&self, known: &Known<'_>, recoveries: u32) -> Nanos {
        let limits = &known.task.limits;
        let overload = Nanos(limits.confirm_trial.0 / 2);
        // Each rest is twice as long as the one before it.
        let rests = (2 << recoveries) - 1;
        overload
            + Nanos(limits.initial_trial.0 * u64::from(recoveries))
            + Nanos(rests * limits.rest.0)
    }

    /// Why the search ends without both bounds.
    pub(super) fn why_unbounded(&self, known: &Known<'_>, fit: &Fit) -> Unsettled {
        let length = known.task.limits.final_trial;
        if let Some(spent) = self.exhausted(known, length + self.reserve(known, fit)) {
            return spent.into();
        }
        let (low, high) = fit.ends;
        let end = if fit.lower.is_none() { low } else { high };
        Unsettled::NotOffered { near: Rate::per_second(end).unwrap_or_default() }
    }
}
