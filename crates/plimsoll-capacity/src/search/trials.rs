//! Every valid trial of a search in the order of time, and what they say at first sight.

use plimsoll_model::trial::Phase;
use plimsoll_model::{Nanos, Rate};

use crate::median::median_of;

use super::rare::{Bad, BadOps};
use super::seen::Seen;

/// A server that carries more than this share of the load may be able to carry all of it, too late.
const SATURATED: f64 = 0.98;

/// Loads below this share of a bound are far below it: what is missed there does not depend on the load.
pub(super) const FAR_BELOW: f64 = 0.9;
/// Where so many trials, and this share, miss the objective far below a bound, that is no bound; and
/// where so many break down.
const MISSED_MIN: usize = 2;
const MISSED: f64 = 0.2;
/// A server that carries less than this share of a load that it met before has broken down.
const BROKE_DOWN: f64 = 0.8;
/// The same of what it carried in the first overloads.
const FELL: f64 = 0.75;
/// Others took the server's CPU where it waited for one in this much more of the time in which it
/// wanted one than it usually does under overload.
const STARVED: f64 = 0.15;
/// CPU times of a shorter trial are chance, seconds.
const STARVED_WINDOW_MIN_S: f64 = 0.5;

/// What a trial is evidence of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Whether its load meets the objective.
    Verdict,
    /// The same, over a confirmation's length.
    Confirmation,
    /// Whether its load meets the objective with random arrivals.
    Safe,
    /// BAD for a few operations that may as well be chance: no verdict.
    Untold,
    /// How much the server carries in a short overload.
    Sentinel,
    /// The same over another length, at the end of the search: not compared with sentinels, because
    /// some servers carry less the longer they are overloaded.
    Overload,
}

impl Role {
    /// Of a trial that was asked for in `phase`.
    pub(crate) const fn of(phase: Phase) -> Self {
        match phase {
            Phase::Sentinel => Self::Sentinel,
            Phase::Overload => Self::Overload,
            Phase::Safe => Self::Safe,
            Phase::Confirm => Self::Confirmation,
            _ => Self::Verdict,
        }
    }
}

/// One valid trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trial {
    /// Operations per second.
    pub(crate) load: f64,
    pub(crate) good: bool,
    /// Its middle, on the clock of trial and rest time, seconds.
    pub(crate) at_s: f64,
    /// How long it took, seconds.
    pub(crate) window_s: f64,
    /// Late, failed and unsent over scheduled operations, 0 to 1.
    pub(crate) loss_ratio: f64,
    /// Good answers, operations per second, where the trial was long enough to tell.
    pub(crate) carried: Option<f64>,
    /// Bad operations by the goals on few of them.
    pub(crate) bad: Bad,
    pub(crate) scheduled: u64,
    /// It missed goals on few operations, and nothing else.
    pub(crate) rarely_missed: bool,
    pub(crate) role: Role,
    pub(crate) seen: Seen,
}

impl Trial {
    /// What the server carried when it could not carry all.
    pub(crate) fn saturated(&self) -> Option<f64> {
        self.carried.filter(|carried| !self.good && *carried < SATURATED * self.load)
    }

    /// Whether the server was overloaded on purpose.
    pub(crate) const fn is_overload(&self) -> bool {
        matches!(self.role, Role::Sentinel | Role::Overload)
    }

    /// Whether it tells if its load meets the objective.
    pub(crate) const fn is_verdict(&self) -> bool {
        matches!(self.role, Role::Verdict | Role::Confirmation)
    }
}

/// Trials at loads far below an interval that missed the objective, and all of those trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MissedBelow {
    pub(crate) bad: usize,
    pub(crate) all: usize,
    /// The highest load that was missed.
    pub(crate) highest: f64,
}

impl MissedBelow {
    /// Of `trials`, below `lower`; `None` where no more missed it than accidents explain.
    pub(crate) fn of(trials: &[Trial], lower: f64) -> Option<Self> {
        let below = || trials.iter().filter(|t| t.is_verdict() && t.load < FAR_BELOW * lower);
        let highest = below().filter(|t| !t.good).map(|t| t.load).reduce(f64::max)?;
        let (bad, all) = (below().filter(|t| !t.good).count(), below().count());
        let is_more = bad >= MISSED_MIN && bad as f64 > MISSED * all as f64;
        is_more.then_some(Self { bad, all, highest })
    }
}

/// Trials in which the server carried far less than it was offered, though it met that load in
/// others or carries more in a deeper overload, and the most that it carried in one of them; `None`
/// where there are no more than accidents explain.
pub(crate) fn breakdowns(trials: &[Trial]) -> Option<(usize, f64)> {
    let verdicts = || trials.iter().filter(|t| t.is_verdict());
    let met = verdicts().filter(|t| t.good).map(|t| t.load).fold(0.0, f64::max);
    let sentinels = trials.iter().filter(|t| t.role == Role::Sentinel);
    let deep = median_of(sentinels.filter_map(Trial::saturated)).unwrap_or_default();
    let broke = || {
        verdicts().filter_map(|t| {
            let able = if t.load <= met { deep.max(t.load) } else { deep };
            t.saturated().filter(|carried| *carried < BROKE_DOWN * able)
        })
    };
    let times = broke().count();
    let is_more = times >= MISSED_MIN && times as f64 > MISSED * verdicts().count() as f64;
    is_more.then(|| (times, broke().fold(0.0, f64::max)))
}

/// Trials in the order of time, and how many of them expansion took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trials {
    /// Those that are evidence.
    evidence: Vec<Trial>,
    /// Those that were not GOOD while others took the server's CPU.
    disturbed: Vec<Trial>,
    /// When expansion ended, on the clock of [`Trial::at_s`].
    expanded_s: f64,
}

impl Trials {
    /// Takes one more in; whether other trials than before are disturbed by what is known now.
    pub(crate) fn add(&mut self, trial: Trial) -> bool {
        self.evidence.push(trial);
        let before = self.disturbed.len();
        let most = self.usually_starved().map_or(f64::INFINITY, |usual| usual + STARVED);
        let all = self.evidence.drain(..).chain(self.disturbed.drain(..));
        let is_disturbed = |t: &Trial| !t.good && t.seen.starved.is_some_and(|share| share > most);
        (self.disturbed, self.evidence) = all.partition(is_disturbed);
        self.evidence.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        self.disturbed.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let is_new = self.disturbed.last().is_some_and(|last| last.at_s == trial.at_s);
        self.disturbed.len() != before + usize::from(is_new)
    }

    /// Share of the time in which an overloaded server waits for a CPU: the lower quartile. A
    /// disturbance that lasts for most of the search is how the machine is.
    fn usually_starved(&self) -> Option<f64> {
        let told = |t: &&Trial| t.saturated().is_some() && t.window_s >= STARVED_WINDOW_MIN_S;
        let all = self.evidence.iter().chain(&self.disturbed).filter(told);
        let mut shares: Vec<f64> = all.filter_map(|t| t.seen.starved).collect();
        shares.sort_by(f64::total_cmp);
        shares.get(shares.len() / 4).copied()
    }

    /// How many trials were disturbed, and how long the server waited for a CPU in them and usually,
    /// in words; `None` where none was.
    pub(crate) fn disturbance(&self) -> Option<String> {
        let shares = self.disturbed.iter().filter_map(|t| t.seen.starved);
        let worst = shares.reduce(f64::max)?;
        let usual = self.usually_starved()?;
        Some(format!(
            "others took the server's CPU in {} trials, which count for nothing: it waited for one in \
             up to {:.0} % of the time in which it wanted one, usually in {:.0} %",
            self.disturbed.len(),
            100.0 * worst,
            100.0 * usual
        ))
    }

    /// Expansion has ended.
    pub(crate) fn end_expansion(&mut self) {
        let all = self.evidence.iter().chain(&self.disturbed);
        self.expanded_s = all.map(|trial| trial.at_s).fold(0.0, f64::max);
    }

    /// How many there are, disturbed ones included.
    pub(crate) fn count(&self) -> usize {
        self.evidence.len() + self.disturbed.len()
    }

    /// Those that were not disturbed.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Trial> + Clone {
        self.evidence.iter()
    }

    /// Those that tell whether a load meets the objective.
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

    /// The highest load at which no more trials were BAD than GOOD.
    pub(crate) fn highest_good(&self) -> Option<f64> {
        self.balances().into_iter().rev().find(|(_, balance)| *balance >= 0).map(|(load, _)| load)
    }

    /// The highest load at which a trial met the objective, also one that was to overload the server.
    pub(crate) fn highest_met(&self) -> Option<f64> {
        let even = self.evidence.iter().filter(|trial| trial.is_verdict() || trial.is_overload());
        even.filter(|trial| trial.good).map(|trial| trial.load).reduce(f64::max)
    }

    /// The loads above `load` of trials that missed it.
    pub(crate) fn missed_above(&self, load: f64) -> impl Iterator<Item = f64> {
        let even = self.evidence.iter().filter(|trial| trial.is_verdict() || trial.is_overload());
        even.filter(move |trial| !trial.good && trial.load > load).map(|trial| trial.load)
    }

    /// The bounds for a search that ended early: the lowest load with more BAD trials, and the
    /// highest with no more of them below it.
    pub(crate) fn leaning_bounds(&self) -> (Option<Rate>, Option<Rate>) {
        let balances = self.balances();
        let upper = balances.iter().find(|(_, balance)| *balance < 0).map(|(load, _)| *load);
        let below = |load: f64| upper.is_none_or(|upper| load < upper);
        let lower = balances.iter().rev().find(|(load, balance)| *balance >= 0 && below(*load));
        (lower.and_then(|(load, _)| Rate::per_second(*load)), upper.and_then(Rate::per_second))
    }

    /// What the server carried in the first overloads, and the most that it carried in any trial
    /// after them, where that is far less.
    pub(crate) fn fell(&self) -> Option<(f64, f64)> {
        let then = || self.all().filter(|t| t.at_s <= self.expanded_s);
        let since = || self.all().filter(|t| t.at_s > self.expanded_s);
        let before = then().filter_map(Trial::saturated).reduce(f64::max)?;
        let carried = |t: &Trial| if t.good { Some(t.load) } else { t.carried };
        let after = since().filter_map(carried).reduce(f64::max)?;
        let is_saturated = since().any(|t| t.role == Role::Sentinel && t.saturated().is_some());
        (is_saturated && after < FELL * before).then_some((before, after))
    }

    /// Trials that served their load, but for few operations, as far as they tell: overloads aside.
    fn served(&self) -> impl Iterator<Item = &Trial> {
        let is_served = |trial: &&Trial| match trial.role {
            Role::Untold => true,
            _ => trial.is_verdict() && (trial.good || trial.rarely_missed),
        };
        self.all().filter(is_served)
    }

    /// Bad operations by one goal and all operations of the trials up to `load`.
    pub(crate) fn bad_up_to(&self, load: f64, goal: usize) -> (BadOps, u64) {
        let mut sum = (BadOps::default(), 0);
        for trial in self.served().filter(|trial| trial.load <= load) {
            sum.0.add(&trial.bad[goal]);
            sum.1 += trial.scheduled;
        }
        sum
    }

    /// The same by every goal of those at `load`.
    pub(crate) fn rarely_bad(&self, load: f64) -> (Bad, u64) {
        let mut sum = (Bad::default(), 0);
        for trial in self.served().filter(|trial| trial.load == load) {
            sum.0.iter_mut().zip(&trial.bad).for_each(|(sum, bad)| sum.add(bad));
            sum.1 += trial.scheduled;
        }
        sum
    }

    /// Trials at `load` that told nothing.
    pub(crate) fn untold_at(&self, load: f64) -> usize {
        self.all().filter(|trial| trial.role == Role::Untold && trial.load == load).count()
    }

    /// The typical rate of good answers at `load` (the Conditional Throughput of RFC 9971 for a
    /// goal that half of the trials have to meet).
    pub(crate) fn conditional_throughput(&self, load: Rate) -> Option<Rate> {
        let mut losses: Vec<f64> = self.at(load.get()).map(|trial| trial.loss_ratio).collect();
        losses.sort_by(f64::total_cmp);
        let typical = losses.get(losses.len().checked_sub(1)? / 2)?;
        Rate::per_second(load.get() * (1.0 - typical))
    }
}

/// Seconds on the search's clock.
pub(crate) fn seconds(span: Nanos) -> f64 {
    span.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overload(at_s: f64, good: bool, starved: f64) -> Trial {
        Trial {
            load: 2_000.0,
            good,
            at_s,
            window_s: 3.0,
            loss_ratio: 0.5,
            carried: Some(1_000.0),
            bad: Bad::default(),
            rarely_missed: false,
            scheduled: 6_000,
            role: Role::Sentinel,
            seen: Seen::starved(starved),
        }
    }

    #[test]
    fn a_trial_in_which_others_took_the_cpu_is_no_evidence() {
        let mut trials = Trials::default();
        // What is usual is not known yet, and the others were there from the first trial on.
        assert!(!trials.add(overload(1.0, false, 0.5)));
        assert_eq!((trials.all().count(), trials.disturbance()), (1, None));
        assert!(trials.add(overload(2.0, false, 0.1)), "the first one was disturbed");
        assert!(!trials.add(overload(3.0, false, 0.2)));
        assert!(!trials.add(overload(4.0, false, 0.6)));
        assert!(!trials.add(overload(5.0, true, 0.6)), "met all the same");
        let left: Vec<f64> = trials.all().map(|trial| trial.at_s).collect();
        assert_eq!((left, trials.count()), (vec![2.0, 3.0, 5.0], 5));
        let text = trials.disturbance().expect("two");
        assert!(text.contains("in 2 trials") && text.contains("up to 60 %"), "{text}");
        // What lasts is how the machine is.
        let mut always = Trials::default();
        for at_s in 0..9 {
            always.add(overload(f64::from(at_s), false, 0.5));
        }
        assert_eq!(always.all().count(), 9);
    }

    fn verdict(load: f64, carried: f64) -> Trial {
        let good = carried >= load;
        Trial {
            load,
            good,
            carried: Some(carried),
            role: Role::Verdict,
            ..overload(1.0, false, 0.0)
        }
    }

    #[test]
    fn one_trial_in_five_may_miss_the_objective_or_break_down_by_accident() {
        let usual = [verdict(400.0, 400.0), verdict(800.0, 800.0), verdict(980.0, 980.0)];
        let of = |odd: &[Trial], repeats: usize| {
            let all: Vec<Trial> = odd.iter().copied().chain(usual.repeat(repeats)).collect();
            (MissedBelow::of(&all, 1_000.0), breakdowns(&all))
        };
        let below = [verdict(700.0, 690.0), verdict(600.0, 590.0)];
        let (missed, broke) = of(&below, 3);
        assert_eq!(missed, Some(MissedBelow { bad: 2, all: 8, highest: 700.0 }));
        assert_eq!(broke, None);
        // Two of ten.
        assert_eq!(of(&below, 4), (None, None));
        let broken = [verdict(980.0, 500.0), verdict(960.0, 450.0)];
        assert_eq!(of(&broken, 2), (None, Some((2, 500.0))));
        assert_eq!(of(&broken, 3), (None, None));
    }
}
