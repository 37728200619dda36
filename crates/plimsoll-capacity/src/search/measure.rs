//! Closing in: which load to measure next, and when the interval is as narrow as it is worth.
//!
//! The next load is the one whose verdict says most of the capacity, by the likelihood of all trials
//! so far. Every fourth trial is a short overload at a fixed load, the sentinel: it shows whether
//! the server is still the one that the others measured.

use std::rc::Rc;

use plimsoll_model::trial::{Confirmations, Outcome, Phase, TrialMeasurement, Unsettled};
use plimsoll_model::{Nanos, Rate};

use crate::stability::GROWTH_OPS_MIN;
use crate::validity::is_drifting;

use super::change::{Drift, drift, reading_sd};
use super::levels::{Levels, reading};
use super::likelihood::{Evidence, Posterior};
use super::trials::{FAR_BELOW, MissedBelow, Role, Trial, seconds};
use super::{CEILING_CELLS, OVERLOAD, OVERSHOOT_MAX, RateSearch, State, Want};

/// An interval that is so many standard deviations of the capacity wide is narrow enough: the next
/// trial's capacity differs by more.
const WIDTH_SPREADS: f64 = 2.0;
/// Where the next verdict is foreseen so well, bits, further ones change nothing.
const INFORMATION_MIN: f64 = 0.05;
/// Verdicts between two sentinels.
const SENTINEL_EVERY: u32 = 3;
/// The sentinel's load over the upper bound; outside of this range it moves.
const ANCHOR_OVER: std::ops::Range<f64> = 1.08..1.5;
/// INVALID sentinels of one search.
const SENTINELS_INVALID_MAX: u32 = 3;
/// Before the interval is so narrow nobody knows which load is an overload, and not a harmful one.
const ANCHOR_WIDTH_MAX: f64 = 0.35;
/// A verdict that was so unlikely asks for a sentinel at once.
const SURPRISE: f64 = 0.05;
/// Quantiles of the capacity at which the next load is looked for.
const PROBES: [f64; 13] = [0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98];
/// The load that is confirmed is met by so many of the trials, as far as is known.
const CONFIRMED_SHARE: f64 = 0.9;
/// A confirmation that drifts is followed by one of so many times its length.
const LONGER: u64 = 2;
/// A trial of a few seconds meets the objective up to so much above the capacity: its queue has no
/// time to grow, and nobody sees that it does.
const TOLERATED: f64 = 0.003;
/// The 95th percentile of a normal variable: ends of an interval of 90 %.
const NORMAL_90: f64 = 1.645;
/// Trials that ask whether what missed the objective far below the interval were accidents.
const BELOW_AGAIN_MAX: u32 = 8;
/// Below the lowest load the first trials decide.
const FAILED_MAX: usize = 3;

/// When the next sentinel is due, and at which load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sentinel {
    pub(super) anchor: Option<f64>,
    /// Verdicts since the last one.
    pub(super) verdicts: u32,
    pub(super) is_wanted: bool,
    /// How many were INVALID: from [`SENTINELS_INVALID_MAX`] on the generator cannot make that load.
    pub(super) invalid: u32,
}

/// A confirmation whose halves differ is repeated over more time, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Longer {
    /// Nothing asked for it.
    No,
    /// The next one is longer.
    Wanted,
    /// It was, or could not be had, and is not again.
    Had,
}

/// What all trials at the current level say together.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    pub(super) posterior: Posterior,
    pub(super) drift: Drift,
    /// How far the capacity goes within half of a longer trial, logarithmic.
    pub(super) blur: f64,
    /// See [`Posterior::surprise`].
    pub(super) surprise: f64,
    /// Ends of the interval, operations per second: loads that were measured, where the server did
    /// not drift.
    pub(super) lower: Option<f64>,
    pub(super) upper: Option<f64>,
    /// Where the ends would be, whatever was measured.
    pub(super) ends: (f64, f64),
}

impl Fit {
    pub(super) fn width(&self) -> f64 {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => upper / lower - 1.0,
            _ => f64::INFINITY,
        }
    }
}

impl RateSearch {
    /// What the trials at the current level say; `None` where there is no verdict among them.
    pub(super) fn fit(&self) -> Option<Rc<Fit>> {
        let mut known = self.known.borrow_mut();
        let trials = self.trials.count();
        if known.0 != trials {
            *known = (trials, self.fit_again().map(Rc::new));
        }
        known.1.clone()
    }

    /// What the verdicts alone say of the spread from trial to trial.
    fn spreads(&self) -> Vec<(f64, f64)> {
        let mut evidence = Evidence::default();
        for trial in self.trials.verdicts() {
            evidence.add(trial.load.ln(), trial.good);
        }
        Posterior::of(&evidence).map(|posterior| posterior.spreads()).unwrap_or_default()
    }

    fn fit_again(&self) -> Option<Fit> {
        let trials = self.levels.current(&self.trials);
        // What is left when the last of them ends.
        let now_s = trials.last().map(|trial| trial.at_s + 0.5 * trial.window_s)?;
        let readings: Vec<_> =
            trials.iter().filter(|t| t.saturated().is_some()).filter_map(reading).collect();
        let drift = match readings.len() {
            0 => Drift::default(),
            _ => drift(&readings, &self.spreads()),
        };
        let since = |at_s: f64| drift.per_min / 60.0 * (at_s - now_s);
        let mut evidence = Evidence::default();
        evidence.reading_sd = reading_sd(&readings);
        evidence.readings = readings.iter().map(|r| r.y - since(r.at_s)).collect();
        // An overload that was met is a verdict; any other was BAD on purpose.
        for trial in trials.iter().filter(|t| t.is_verdict() || t.good && t.is_overload()) {
            evidence.add(trial.load.ln() - since(trial.at_s), trial.good);
        }
        let posterior = Posterior::of(&evidence)?;
        let surprise = posterior.surprise(&evidence);
        let blur = if drift.is_seen { drift.per_min.abs() / 60.0 } else { 0.0 };
        let blur = blur * 0.5 * seconds(self.limits.confirm_trial);
        let mut fit =
            Fit { posterior, drift, blur, surprise, lower: None, upper: None, ends: (0.0, 0.0) };
        self.find_ends(&mut fit, &trials);
        Some(fit)
    }

    /// The interval: its ends are loads of the grid that were measured, where such are near.
    fn find_ends(&self, fit: &mut Fit, trials: &[Trial]) {
        let tail = 0.5 * (1.0 - self.settings.confidence);
        let loads = || trials.iter().filter(|t| t.is_verdict()).map(|t| t.load);
        // What the drift is off by moves what was measured in the middle of the trials.
        let half_s = trials.last().map_or(0.0, |t| t.at_s) - trials.first().map_or(0.0, |t| t.at_s);
        let unsure = NORMAL_90 * fit.drift.sd / 60.0 * 0.5 * half_s;
        let middle = fit.posterior.quantile(0.5);
        let low = middle - unsure.hypot(middle - fit.posterior.quantile(tail)) - fit.blur;
        let high = middle + unsure.hypot(fit.posterior.quantile(1.0 - tail) - middle) + fit.blur;
        let (low, high) = (low.exp() / (1.0 + self.tolerated(low.exp(), trials)), high.exp());
        fit.ends = (low, high);
        let (least, most) = (
            loads().reduce(f64::min).unwrap_or_default(),
            loads().reduce(f64::max).unwrap_or_default(),
        );
        if low >= least {
            let on_grid = self.grid.step(low, 0);
            let measured = loads().filter(|load| *load <= low).reduce(f64::max);
            let near = |load: &f64| *load > self.grid.step(on_grid, -2);
            fit.lower = Some(measured.filter(near).unwrap_or(on_grid));
        }
        if high <= most {
            let on_grid = self.grid.ceil(high);
            let measured = loads().filter(|load| *load >= high).reduce(f64::min);
            let near = |load: &f64| *load < self.grid.step(on_grid, 2);
            fit.upper = Some(measured.filter(near).unwrap_or(on_grid));
        }
    }

    /// How far above the capacity the trials at `load` and higher may have met the objective: where there
    /// are few operations a second, the queue that nobody notices takes long to grow.
    fn tolerated(&self, load: f64, trials: &[Trial]) -> f64 {
        let met = trials.iter().filter(|t| t.is_verdict() && t.good && t.load >= FAR_BELOW * load);
        let Some(longest_s) = met.map(|t| t.window_s).reduce(f64::max) else { return TOLERATED };
        let deadline_s = self.slo.deadline().map_or(f64::INFINITY, seconds);
        let unnoticed_ops = GROWTH_OPS_MIN.min(deadline_s * load);
        TOLERATED.max(unnoticed_ops / (load * longest_s))
    }

    /// What the server carried in the last overload, operations per second.
    fn carried(&self) -> f64 {
        let mut readings = self.trials.all().rev().filter_map(reading);
        readings.next().map_or_else(|| self.settings.lowest.get(), |reading| reading.y.exp())
    }

    /// Highest load that may be offered while closing in.
    fn highest(&self) -> f64 {
        let ceiling = self.ceiling.as_ref().map_or(f64::INFINITY, |(ceiling, _)| {
            self.grid.step(*ceiling, -i64::from(CEILING_CELLS))
        });
        self.overload_max().min(ceiling)
    }

    pub(super) fn plan_measure(&mut self) -> Want {
        if let Some(load) = self.aside.repeats() {
            return Want::Trial(
                Phase::Narrow,
                load,
                self.trial_length(load, self.limits.final_trial),
            );
        }
        let Some(fit) = self.fit() else {
            // The server has changed, and only its pace in overload is known.
            let load =
                self.grid.nearest(self.carried().clamp(self.settings.lowest.get(), self.highest()));
            let length = self.trial_length(load, self.limits.final_trial);
            return Want::Trial(Phase::Narrow, load, length);
        };
        if let Some(want) = self.plan_outside(&fit) {
            return want;
        }
        if let Some(want) = self.plan_sentinel(&fit) {
            return want;
        }
        let goal = self.limits.width_max.max(WIDTH_SPREADS * fit.posterior.spread());
        let goal = goal + 2.0 * fit.blur;
        let (information, next) = self.most_telling(&fit.posterior);
        let is_narrow = fit.width() <= goal + 1e-9 || information < INFORMATION_MIN;
        let next = if is_narrow { self.unmeasured_end(&fit) } else { Some(next) };
        let Some(next) = next else { return self.plan_confirm(&fit) };
        let length = self.trial_length(next, self.limits.final_trial);
        if !self.affords(length + self.reserve(&fit)) {
            return self.plan_confirm(&fit);
        }
        Want::Trial(Phase::Narrow, next, length)
    }

    /// An end of the interval beyond which nothing was measured: after a change of the server the
    /// overloads tell its capacity, but a bound is a load that was offered.
    fn unmeasured_end(&self, fit: &Fit) -> Option<f64> {
        let (low, high) = fit.ends;
        let end = match (fit.lower, fit.upper) {
            (None, _) => self.grid.step(low, 0),
            (_, None) => self.grid.ceil(high),
            _ => return None,
        };
        (self.settings.lowest.get()..=self.highest()).contains(&end).then_some(end)
    }

    /// The capacity lies outside of the loads that may be offered.
    fn plan_outside(&mut self, fit: &Fit) -> Option<Want> {
        let lowest = self.settings.lowest.get();
        if fit.posterior.quantile(0.95).exp() <= lowest
            && self.trials.at(lowest).filter(|t| !t.good).count() >= FAILED_MAX
        {
            return Some(match self.go_down() {
                true => self.plan(),
                false => Want::Finish(Outcome::FailsAtMinimum),
            });
        }
        let highest = self.highest();
        if fit.posterior.quantile(0.10).exp() < highest {
            return None;
        }
        if highest >= self.cap() {
            let cap = self.cap();
            let met = self.trials.at(cap).any(|t| t.good);
            return met.then(|| self.plan_capped(cap));
        }
        if let Some((_, why)) = self.ceiling.clone().filter(|_| highest < 2.0 * self.first_bad) {
            return Some(Want::Finish(Outcome::GeneratorLimited { why }));
        }
        // Expansion ended by bad luck.
        let from = self.trials.highest_good().filter(|load| *load < highest).unwrap_or(lowest);
        Some(self.expand_again(from.max(0.5 * highest)))
    }

    /// What a verdict at the load that tells most would say, bits, and that load.
    fn most_telling(&self, posterior: &Posterior) -> (f64, f64) {
        let (lowest, highest) = (self.settings.lowest.get(), self.highest());
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

    pub(super) fn plan_sentinel(&mut self, fit: &Fit) -> Option<Want> {
        let due = self.sentinel.is_wanted || self.sentinel.verdicts >= SENTINEL_EVERY;
        let is_out_of_reach = self.sentinel.invalid >= SENTINELS_INVALID_MAX;
        // Without regard to a drift, which only sentinels can rule out.
        let width = fit.posterior.quantile(0.95) - fit.posterior.quantile(0.05);
        if !due || is_out_of_reach || width > ANCHOR_WIDTH_MAX {
            return None;
        }
        let anchor = self.anchor(fit)?;
        let length = self.limits.sentinel_trial;
        if !self.affords(length) {
            return None;
        }
        Some(Want::Trial(Phase::Sentinel, anchor, length))
    }

    /// The load of the next overload: the one of those before where it still is one.
    pub(super) fn anchor(&mut self, fit: &Fit) -> Option<f64> {
        let upper = fit.upper.unwrap_or_else(|| self.grid.ceil(fit.posterior.quantile(0.95).exp()));
        let fits =
            |anchor: &f64| ANCHOR_OVER.contains(&(anchor / upper)) || self.sentinel.is_wanted;
        let anchor = self.sentinel.anchor.filter(fits).unwrap_or(OVERLOAD * upper);
        let ceiling = self.ceiling.as_ref().map_or(f64::INFINITY, |(ceiling, _)| *ceiling);
        if anchor > self.overload_max().min(ceiling) {
            return None;
        }
        self.sentinel.anchor = Some(anchor);
        Some(anchor)
    }

    /// More is never offered: overload can do harm.
    pub(super) fn overload_max(&self) -> f64 {
        self.cap().min(OVERSHOOT_MAX * self.first_bad)
    }

    /// What is left to do once the interval stands. As long as it does not, only its confirmation
    /// counts: what would describe it has nothing to describe.
    fn reserve(&self, fit: &Fit) -> Nanos {
        if fit.lower.is_none() || fit.upper.is_none() {
            return Nanos(self.limits.confirm_trial.0 * u64::from(self.limits.confirmations));
        }
        // One of them may be BAD.
        let confirmations = u64::from(self.limits.confirmations + self.limits.safe_trials) + 1;
        Nanos(self.limits.confirm_trial.0 * confirmations) + self.reserve_after(1)
    }

    /// The overload, and so many trials that ask whether the server came back.
    pub(super) fn reserve_after(&self, recoveries: u32) -> Nanos {
        let overload = Nanos(self.limits.confirm_trial.0 / 2);
        // Each rest is twice as long as the one before it.
        let rests = (2 << recoveries) - 1;
        overload
            + Nanos(self.limits.initial_trial.0 * u64::from(recoveries))
            + Nanos(rests * self.limits.rest.0)
    }

    pub(super) fn affords(&self, span: Nanos) -> bool {
        self.exhausted(span).is_none()
    }

    /// Why the search ends without both bounds.
    fn why_unbounded(&self, fit: &Fit) -> Unsettled {
        let length = self.limits.final_trial;
        if let Some(spent) = self.exhausted(length + self.reserve(fit)) {
            return spent.into();
        }
        let (low, high) = fit.ends;
        let end = if fit.lower.is_none() { low } else { high };
        Unsettled::NotOffered { near: Rate::per_second(end).unwrap_or_default() }
    }

    /// The interval is as narrow as it gets: is the load below it met for longer?
    fn plan_confirm(&mut self, fit: &Fit) -> Want {
        let (Some(lower), Some(_)) = (fit.lower, fit.upper) else {
            return Want::Finish(Outcome::Undecided { why: self.why_unbounded(fit) });
        };
        if let Some(why) = self.unsteady() {
            // Whatever is measured now holds for one level only; perhaps the other one returns.
            let length = self.limits.sentinel_trial;
            return match self.anchor(fit).filter(|_| self.affords(length)) {
                Some(anchor) => Want::Trial(Phase::Sentinel, anchor, length),
                None => Want::Finish(Outcome::Unstable { why }),
            };
        }
        if self.trials.fell().is_some() && !self.is_retested {
            // A burst that the server grants once, or a server that has become slower?
            self.is_retested = true;
            let length = self.limits.initial_trial;
            if self.affords(length) {
                return Want::Trial(Phase::Narrow, self.first_bad, length);
            }
        }
        if let Some(want) = self.plan_far_below(lower) {
            return want;
        }
        let target = self.confirmed_load(&fit.posterior, lower);
        let planned = self.limits.confirmations;
        let seen = self.confirmations_at(target);
        let is_confirmed = seen.good >= 2 * seen.bad && seen.good > 0;
        if is_confirmed && seen.good >= planned {
            return self.plan_longer(fit, target);
        }
        let usual = self.limits.confirm_trial;
        match self.exhausted(usual) {
            None => Want::Trial(Phase::Confirm, target, usual),
            Some(_) if is_confirmed => self.overload(fit, target),
            Some(_) => Want::Finish(Outcome::Undecided {
                why: Unsettled::NotConfirmed { good: seen.good, bad: seen.bad },
            }),
        }
    }

    /// What missed the objective far below the interval, at the level where the server is now.
    pub(super) fn missed_far_below(&self, lower: f64) -> Option<MissedBelow> {
        MissedBelow::of(&self.levels.current(&self.trials), lower)
    }

    /// It may have been accidents: some more trials there tell.
    fn plan_far_below(&mut self, lower: f64) -> Option<Want> {
        let load = self.missed_far_below(lower)?.highest;
        let length = self.trial_length(load, self.limits.final_trial);
        // The safe load may go without a trial for an interval.
        let confirmations = self.limits.confirm_trial.0 * u64::from(self.limits.confirmations);
        let reserve = Nanos(confirmations) + self.reserve_after(1);
        if self.below_again >= BELOW_AGAIN_MAX || !self.affords(length + reserve) {
            return None;
        }
        self.below_again += 1;
        Some(Want::Trial(Phase::Narrow, load, length))
    }

    /// GOOD on average, and perhaps not for long: a confirmation whose halves differ is followed by
    /// one over twice the time.
    fn plan_longer(&mut self, fit: &Fit, target: f64) -> Want {
        if self.longer == Longer::Wanted {
            let length = Nanos(self.limits.confirm_trial.0 * LONGER);
            match self.exhausted(length) {
                None => return Want::Trial(Phase::Confirm, target, length),
                Some(why) => {
                    self.note_drift(target, &format!("and {why} left no room for a longer trial"))
                }
            }
            self.longer = Longer::Had;
        }
        let more = self.plan_more_operations(fit, target).or_else(|| self.plan_safe(fit));
        more.unwrap_or_else(|| self.overload(fit, target))
    }

    pub(super) fn learn_confirm(&mut self, good: bool, measurement: &TrialMeasurement) {
        let drifts = good && is_drifting(measurement);
        self.longer = match self.longer {
            Longer::No if drifts => Longer::Wanted,
            Longer::Wanted => {
                if drifts {
                    let load = measurement.request.rate.get();
                    self.note_drift(load, "also over twice the time");
                }
                Longer::Had
            }
            state => state,
        };
    }

    fn note_drift(&mut self, load: f64, further: &str) {
        let rate = Rate::per_second(load).unwrap_or_default();
        self.notes.push(format!(
            "at {rate} the second half was unlike the first, {further}: the server is not steady \
             there"
        ));
    }

    /// No further confirmation is valid: what the valid ones say, if there were any.
    pub(super) fn confirm_no_more(&mut self, load: f64, why: String) {
        let seen = self.confirmations_at(load);
        if seen.good <= seen.bad {
            self.finish(Outcome::Unconfirmed { why });
            return;
        }
        if self.longer == Longer::Wanted {
            self.note_drift(load, "and no longer trial was valid");
        }
        self.notes.push(format!(
            "confirmed by {} of {} trials only; the others were INVALID ({why})",
            seen.good, self.limits.confirmations
        ));
        self.finish(Outcome::Regular);
    }

    /// The highest load of the grid that most trials meet, at most `lower`.
    fn confirmed_load(&self, posterior: &Posterior, lower: f64) -> f64 {
        let lowest = self.settings.lowest.get();
        let mut load = lower;
        while load > lowest && posterior.exceeds(load.ln()) < CONFIRMED_SHARE {
            load = self.grid.step(load, -1).max(lowest);
        }
        // A load just below that was confirmed already does as well.
        let near = load / (1.0 + self.limits.width_max)..load;
        let confirmed = self.trials.verdicts().filter(|t| t.role == Role::Confirmation && t.good);
        confirmed
            .map(|t| t.load)
            .filter(|known| near.contains(known))
            .reduce(f64::max)
            .unwrap_or(load)
    }

    /// A longer trial that met the objective confirms every lower load, one that missed it speaks
    /// against every higher one.
    pub(super) fn confirmations_at(&self, load: f64) -> Confirmations {
        let mut seen = Confirmations { invalid: self.confirmations_invalid, ..Default::default() };
        for trial in self.levels.current(&self.trials) {
            if trial.role == Role::Confirmation {
                seen.good += u32::from(trial.good && trial.load >= load * (1.0 - 1e-9));
                seen.bad += u32::from(!trial.good && trial.load <= load * (1.0 + 1e-9));
            }
        }
        seen
    }

    /// How likely this verdict was, by all trials before it.
    pub(super) fn expected(&self, load: f64, good: bool) -> Option<f64> {
        let fit = self.fit()?;
        let predicted = fit.posterior.predicts_good(load.ln());
        Some(if good { predicted } else { 1.0 - predicted })
    }

    /// Takes the trial in as evidence.
    pub(super) fn add(&mut self, trial: Trial) {
        if matches!(self.state, State::Measure) && trial.is_verdict() {
            let expected = self.expected(trial.load, trial.good);
            self.sentinel.verdicts += 1;
            self.sentinel.is_wanted |= expected.is_some_and(|p| p < SURPRISE);
        }
        // A trial with random arrivals is as long as three of those that close in.
        let is_safe = trial.role == Role::Safe;
        self.sentinel.verdicts += if is_safe { SENTINEL_EVERY } else { 0 };
        if self.trials.add(trial) {
            // What was taken for a change may have been the disturbance.
            self.levels = Levels::default();
        }
        if trial.role == Role::Sentinel {
            self.sentinel.verdicts = 0;
            let anchor = self.sentinel.anchor.unwrap_or_default();
            let spreads = self.spreads();
            self.sentinel.is_wanted = self.levels.observe(&self.trials, anchor, &spreads);
        }
    }

    /// The middle of a trial on the search's clock, which stands at its end.
    pub(super) fn middle_s(&self, window: Nanos) -> f64 {
        seconds(self.spent) - 0.5 * seconds(window)
    }
}
