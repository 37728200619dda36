//! Everything a search has measured so far, in the order of time. Evidence is only appended to: which
//! trials are disturbed is derived from all of them.

use plimsoll_model::tally::{OUTSTANDING_SAMPLE, Tally};
use plimsoll_model::trial::{Disturbed, Phase, TrialMeasurement, TrialRequest, Verdict};
use plimsoll_model::{Nanos, Rate};

use crate::losses::{Context, Unloaded};
use crate::stats::{median_of, upper_median};

use super::conditions::starved;
use super::periodic::Periodic;
use super::rare::{Bad, BadOps};
use super::second::Second;
use super::trials::{Role, Trial};

/// A server that carries less than this share of what it carried in the first overloads has fallen.
const FELL: f64 = 0.75;
/// Others took the server's CPU if it waited for one in this much more of the time in which it
/// wanted one than it usually does with much to do.
const STARVED: f64 = 0.15;
/// Trials that carried this share of the most show what is usual.
const CARRIED_MOST: f64 = 0.9;
/// Others that take it for more than this share of the time are a part of the machine, from this time on, seconds.
const SHARED: f64 = 0.75;
const SHARED_AFTER_S: f64 = 60.0;
/// CPU times of a shorter trial are chance, seconds.
const STARVED_WINDOW_MIN_S: f64 = 0.5;

/// All trials of a search, the clock, and the counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// Valid trials in the order of time, disturbed ones included.
    trials: Vec<Trial>,
    /// The seconds of all trials, in the order of time.
    pub(crate) seconds: Vec<Second>,
    /// Pauses of the server.
    periodic: Periodic,
    /// Period of the server's pauses; `None` until it is known. From then on, only trials whose length is a multiple of
    /// it count.
    pub(crate) period: Option<Nanos>,
    /// Trial and rest time so far.
    pub(crate) spent: Nanos,
    /// The server's time without load, as far as it is known.
    pub(crate) context: Context,
    /// The share of its time without a CPU above which a server that missed the objective was disturbed:
    /// derived from `trials`; `None` as long as it is unknown.
    starved_most: Option<f64>,
    /// Others had the server's CPU for most of the time: it is how the machine is, and all trials count.
    is_shared: bool,
    /// Trials that were made.
    pub(crate) made: u32,
    pub(crate) judged: u32,
    pub(crate) invalid: u32,
    pub(crate) invalid_confirmations: u32,
    pub(crate) invalid_sentinels: u32,
    /// Trials with random arrivals, invalid ones included.
    pub(crate) safe_made: u32,
}

impl Evidence {
    /// Counts a trial of this search, and the time that it and the `rest` before it took.
    pub(crate) fn count(
        &mut self,
        request: &TrialRequest,
        measurement: &TrialMeasurement,
        rest: Nanos,
        verdict: Verdict,
    ) {
        self.pass(request.number, rest, measurement.window);
        self.safe_made += u32::from(request.phase == Phase::Safe);
        match verdict {
            Verdict::Invalid => {
                self.invalid += 1;
                self.invalid_confirmations += u32::from(request.phase == Phase::Confirm);
                self.invalid_sentinels += u32::from(request.phase == Phase::Sentinel);
            }
            Verdict::Good | Verdict::Bad => self.judged += 1,
        }
    }

    /// Advances the clock by the trial `number`. An aborted trial costs what it ran, any other one what was
    /// planned or a little more.
    pub(crate) fn pass(&mut self, number: u32, rest: Nanos, window: Nanos) {
        self.made = number;
        self.spent = self.spent + rest + window;
    }

    /// Appends a trial; returns whether that changed which of the others are disturbed.
    pub(crate) fn append(&mut self, trial: Trial) -> bool {
        let before = self.disturbed().count();
        self.trials.push(trial);
        self.starved_most = self.usually_starved().map(|usual| usual + STARVED);
        self.is_shared |= self.is_mostly_disturbed();
        if self.is_shared {
            self.starved_most = None;
        }
        self.disturbed().count() != before + usize::from(self.is_disturbed(&trial))
    }

    /// Appends the seconds of a trial that ends now.
    pub(crate) fn append_seconds(&mut self, measurement: &TrialMeasurement) {
        let (to_s, window_s) = (self.spent.as_secs_f64(), measurement.window.as_secs_f64());
        let from_s = to_s - window_s;
        let each = measurement.seconds.iter().enumerate();
        let request = &measurement.request;
        self.seconds.extend(each.map(|(index, seen)| {
            let at_s = index as f64;
            Second::of(request, from_s + at_s, window_s - at_s, seen)
        }));
        // The server's waits for a CPU are better evidence, if they are known.
        if request.phase.moves_bounds() && starved(measurement).is_none() {
            self.seconds.extend(Second::of_fall(measurement, to_s));
        }
    }

    /// Looks for pauses in a trial that ends now; their period if it was not known before.
    pub(crate) fn see_pauses(&mut self, measurement: &TrialMeasurement) -> Option<Nanos> {
        let is_looked_for = self.period.is_none() && measurement.request.phase.moves_bounds();
        // Others that come and go do not make the server pause.
        if !is_looked_for || self.is_starved(starved(measurement)) {
            return None;
        }
        let window = measurement.window;
        let began = measurement.observations.began;
        let ended = began.map_or(self.spent, |began| began + window);
        self.periodic.see(measurement, ended.as_secs_f64() - window.as_secs_f64());
        self.periodic.period()
    }

    /// Returns the length of a trial of `span` at least: with as many pauses as any other, or in whole samples.
    pub(crate) fn whole(&self, span: Nanos) -> Nanos {
        let step = self.period.unwrap_or(OUTSTANDING_SAMPLE);
        Nanos(span.0.div_ceil(step.0) * step.0)
    }

    /// Returns the highest load that a trial met, whatever its length.
    pub(crate) fn highest_good_ever(&self) -> Option<f64> {
        let met = self.trials.iter().filter(|trial| trial.good && trial.is_verdict());
        met.map(|trial| trial.load).reduce(f64::max)
    }

    /// Reports whether the trial met with as many pauses as any other of its length.
    fn is_whole(&self, trial: &Trial) -> bool {
        self.period
            .is_none_or(|period| trial.is_overload() || trial.planned.0.is_multiple_of(period.0))
    }

    /// Learns the server's own time, the shortest that was observed: the first trials may have met a server that was
    /// warming up.
    pub(crate) fn learn_unloaded(&mut self, tally: &Tally) {
        let known = self.context.unloaded;
        let seen = Unloaded::of(tally);
        let is_shorter = |seen: &Unloaded| known.is_none_or(|known| seen.mean < known.mean);
        self.context.unloaded = seen.filter(is_shorter).or(known);
    }

    /// Returns the middle of the last trial on the search's clock, seconds.
    pub(crate) fn last_s(&self) -> f64 {
        self.trials.iter().map(|trial| trial.at_s).fold(0.0, f64::max)
    }

    /// Reports whether others took the server's CPU, by the share of its time without one.
    pub(super) fn is_starved(&self, share: Option<f64>) -> bool {
        share.zip(self.starved_most).is_some_and(|(share, most)| share > most)
    }

    fn is_disturbed(&self, trial: &Trial) -> bool {
        !trial.good && self.is_starved(trial.conditions.starved)
    }

    /// Returns the trials that were not GOOD while others used the server's CPU.
    fn disturbed(&self) -> impl Iterator<Item = &Trial> {
        self.trials.iter().filter(|trial| self.is_disturbed(trial))
    }

    /// Returns the number of trials with random arrivals that were disturbed.
    pub(crate) fn safe_disturbed(&self) -> u32 {
        self.disturbed().filter(|trial| trial.role == Role::Safe).count() as u32
    }

    /// Reports whether others had the server's CPU for most of the time, from each trial to the next.
    fn is_mostly_disturbed(&self) -> bool {
        let pairs = || self.trials.windows(2);
        let span_s = |pair: &[Trial]| pair[1].at_s - pair[0].at_s;
        let all_s: f64 = pairs().map(span_s).sum();
        let disturbed_s: f64 = pairs().filter(|pair| self.is_disturbed(&pair[0])).map(span_s).sum();
        all_s >= SHARED_AFTER_S && disturbed_s > SHARED * all_s
    }

    /// Share of the time in which a server with much to do waits for a CPU: the median of the trials that carried
    /// most, in which others took least. `None` before the server was overloaded.
    fn usually_starved(&self) -> Option<f64> {
        let is_long = |trial: &&Trial| trial.window_s >= STARVED_WINDOW_MIN_S;
        let long = || self.trials.iter().filter(is_long);
        let most = long().filter_map(Trial::saturated).reduce(f64::max)?;
        let carried_most = |trial: &&Trial| trial.carried >= Some(CARRIED_MOST * most);
        median_of(long().filter(carried_most).filter_map(|trial| trial.conditions.starved))
    }

    /// Returns the disturbed trials; `None` if there were none.
    pub(crate) fn disturbance(&self) -> Option<Disturbed> {
        let waited =
            self.disturbed().filter_map(|trial| trial.conditions.starved).reduce(f64::max)?;
        let trials = self.disturbed().count() as u32;
        Some(Disturbed { trials, waited, usual: self.usually_starved()? })
    }

    /// Returns the number of trials, disturbed ones included.
    pub(crate) fn len(&self) -> usize {
        self.trials.len()
    }

    /// Returns the trials that count: not disturbed, and with as many pauses as others of their length.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Trial> + Clone {
        self.trials.iter().filter(|trial| !self.is_disturbed(trial) && self.is_whole(trial))
    }

    /// Returns the trials that show whether a load meets the objective.
    pub(crate) fn verdicts(&self) -> impl DoubleEndedIterator<Item = &Trial> + Clone {
        self.all().filter(|trial| trial.is_verdict())
    }

    pub(crate) fn at(&self, load: f64) -> impl Iterator<Item = &Trial> {
        self.verdicts().filter(move |trial| trial.load == load)
    }

    /// The loads with a verdict, ascending, with the balance of GOOD over BAD trials.
    fn balances(&self) -> Vec<(f64, i32)> {
        let mut loads: Vec<(f64, i32)> =
            self.verdicts().map(|t| (t.load, if t.good { 1 } else { -1 })).collect();
        loads.sort_by(|a, b| a.0.total_cmp(&b.0));
        loads.dedup_by(|next, first| {
            let same = next.0 == first.0;
            first.1 += if same { next.1 } else { 0 };
            same
        });
        loads
    }

    /// Returns the highest load at which no more trials were BAD than GOOD.
    pub(crate) fn highest_good(&self) -> Option<f64> {
        self.balances().into_iter().rev().find(|(_, balance)| *balance >= 0).map(|(load, _)| load)
    }

    /// Returns the highest load at which a trial met the objective, also one that was to overload the server.
    pub(crate) fn highest_met(&self) -> Option<f64> {
        let even = self.all().filter(|trial| trial.is_verdict() || trial.is_overload());
        even.filter(|trial| trial.good).map(|trial| trial.load).reduce(f64::max)
    }

    /// Returns the loads above `load` of trials that missed it.
    pub(crate) fn missed_above(&self, load: f64) -> impl Iterator<Item = f64> {
        let even = self.all().filter(|trial| trial.is_verdict() || trial.is_overload());
        even.filter(move |trial| !trial.good && trial.load > load).map(|trial| trial.load)
    }

    /// Returns the bounds for a search that ended early: the lowest load with more BAD trials, and the highest with no
    /// more of them below it.
    pub(crate) fn leaning_bounds(&self) -> (Option<Rate>, Option<Rate>) {
        let balances = self.balances();
        let upper = balances.iter().find(|(_, balance)| *balance < 0).map(|(load, _)| *load);
        let below = |load: f64| upper.is_none_or(|upper| load < upper);
        let lower = balances.iter().rev().find(|(load, balance)| *balance >= 0 && below(*load));
        (lower.and_then(|(load, _)| Rate::per_second(*load)), upper.and_then(Rate::per_second))
    }

    /// Returns the most that the server carried in the overloads up to `expanded_s`, and the most that it carried in
    /// any trial after them, if that is far less.
    pub(crate) fn fell(&self, expanded_s: f64) -> Option<(f64, f64)> {
        let then = || self.all().filter(|t| t.at_s <= expanded_s);
        let since = || self.all().filter(|t| t.at_s > expanded_s);
        let before = then().filter_map(Trial::saturated).reduce(f64::max)?;
        let carried = |t: &Trial| if t.good { Some(t.load) } else { t.carried };
        let after = since().filter_map(carried).reduce(f64::max)?;
        let is_saturated = since().any(|t| t.is_overload() && t.saturated().is_some());
        (is_saturated && after < FELL * before).then_some((before, after))
    }

    /// Returns the trials that met the objective, or missed it only on few operations; without overloads.
    fn served(&self) -> impl Iterator<Item = &Trial> {
        let is_served = |trial: &&Trial| match trial.role {
            Role::Undecided => true,
            _ => trial.is_verdict() && (trial.good || trial.rarely_missed),
        };
        self.all().filter(is_served)
    }

    /// Returns the bad operations by one goal and all operations of the trials up to `load`.
    pub(crate) fn bad_up_to(&self, load: f64, goal: usize) -> (BadOps, u64) {
        let mut sum = (BadOps::default(), 0);
        for trial in self.served().filter(|trial| trial.load <= load) {
            sum.0.add(&trial.bad[goal]);
            sum.1 += trial.scheduled;
        }
        sum
    }

    /// Returns the bad operations by every goal and all operations of the trials at `load`.
    pub(crate) fn rarely_bad(&self, load: f64) -> (Bad, u64) {
        let mut sum = (Bad::default(), 0);
        for trial in self.served().filter(|trial| trial.load == load) {
            sum.0.iter_mut().zip(&trial.bad).for_each(|(sum, bad)| sum.add(bad));
            sum.1 += trial.scheduled;
        }
        sum
    }

    /// Returns the number of trials at `load` that were inconclusive.
    pub(crate) fn inconclusive_at(&self, load: f64) -> usize {
        self.all().filter(|trial| trial.role == Role::Undecided && trial.load == load).count()
    }

    /// Returns the typical rate of good answers at `load` (the Conditional Throughput of RFC 9971 for a goal that half
    /// of the trials have to meet).
    pub(crate) fn conditional_throughput(&self, load: Rate) -> Option<Rate> {
        let load = load.get();
        let rates = self.at(load).map(|trial| load * (1.0 - trial.loss_ratio));
        upper_median(rates).and_then(Rate::per_second)
    }
}

#[cfg(test)]
mod tests {
    use super::super::conditions::Conditions;
    use super::*;

    fn overload(at_s: f64, good: bool, starved: f64) -> Trial {
        Trial {
            load: 2_000.0,
            good,
            at_s,
            window_s: 3.0,
            number: 1,
            planned: Nanos::from_secs(3),
            loss_ratio: 0.5,
            carried: Some(1_000.0 * (1.0 - starved)),
            bad: Bad::default(),
            rarely_missed: false,
            scheduled: 6_000,
            role: Role::Sentinel,
            conditions: Conditions::starved(starved),
        }
    }

    #[test]
    fn a_trial_in_which_others_took_the_cpu_is_no_evidence() {
        let mut evidence = Evidence::default();
        // What is usual is not known yet, and the others were there from the first trial on.
        assert!(!evidence.append(overload(1.0, false, 0.5)));
        assert_eq!((evidence.all().count(), evidence.disturbance()), (1, None));
        assert!(evidence.append(overload(2.0, false, 0.1)), "the first one was disturbed");
        assert!(!evidence.append(overload(3.0, false, 0.2)));
        assert!(!evidence.append(overload(4.0, false, 0.6)));
        assert!(!evidence.append(overload(5.0, true, 0.6)), "met all the same");
        let left: Vec<f64> = evidence.all().map(|trial| trial.at_s).collect();
        assert_eq!((left, evidence.len()), (vec![2.0, 3.0, 5.0], 5));
        let two = Disturbed { trials: 2, waited: 0.6, usual: 0.1 };
        assert_eq!(evidence.disturbance(), Some(two));
        // What lasts is how the machine is.
        let mut always = Evidence::default();
        for at_s in 0..9 {
            always.append(overload(f64::from(at_s), false, 0.5));
        }
        assert_eq!(always.all().count(), 9);
    }

    #[test]
    fn a_server_that_carries_far_less_than_at_first_has_fallen() {
        let carrying = |role: Role, at_s: f64, carried: f64| Trial {
            carried: Some(carried),
            role,
            ..overload(at_s, false, 0.0)
        };
        let mut evidence = Evidence::default();
        evidence.append(carrying(Role::Verdict, 1.0, 1_000.0));
        evidence.append(carrying(Role::Verdict, 5.0, 600.0));
        assert_eq!(evidence.fell(2.0), None, "no overload on purpose shows it");
        // A short search makes no sentinel, but the overload at its end.
        for role in [Role::Sentinel, Role::Overload] {
            let mut fallen = evidence.clone();
            fallen.append(carrying(role, 9.0, 600.0));
            assert_eq!(fallen.fell(2.0), Some((1_000.0, 600.0)), "{role:?}");
        }
    }

    #[test]
    fn others_that_come_and_go_are_left_out_each_time() {
        let mut evidence = Evidence::default();
        for _ in 0..9 {
            evidence.append(overload(1.0, false, 0.1));
            evidence.append(overload(2.0, false, 0.5));
            evidence.append(overload(3.0, false, 0.6));
        }
        assert!(evidence.all().all(|trial| trial.conditions == Conditions::starved(0.1)));
        assert_eq!(evidence.all().count(), 9);
    }

    #[test]
    fn others_that_are_there_for_most_of_the_time_are_how_the_machine_is() {
        // A compiler on both CPUs for most of a search: 49 of its 60 trials were left out.
        let mut evidence = Evidence::default();
        let seconds = (0..30).map(f64::from).map(|n| 3.0 * n);
        let left: Vec<usize> = seconds
            .map(|at_s| {
                evidence.append(overload(at_s, false, if at_s < 6.0 { 0.02 } else { 0.3 }));
                evidence.all().count()
            })
            .collect();
        assert_eq!((left[19], left[20], left[29]), (2, 21, 30));
        assert_eq!(evidence.disturbance(), None);
    }
}
