//! Every valid trial by load, and the bounds they make.

use plimsoll_model::Rate;

use crate::classify::{LoadClass, TrialOutcome};

/// What was seen at one load.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Operations per second.
    pub(crate) load: f64,
    pub(crate) trials: Vec<TrialOutcome>,
    /// What else was seen, one for each trial.
    pub(crate) seen: Vec<Seen>,
    /// Failed its confirmation: an upper bound whatever the sums say.
    pub(crate) condemned: bool,
}

/// What a trial shows beside its verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    /// It was BAD and began soon after another BAD one.
    pub(crate) shadowed: bool,
    /// Answers per second under overload, of a BAD trial that ran for long enough.
    pub(crate) carried_per_s: Option<f64>,
}

impl Entry {
    fn seconds(&self, good: bool) -> f64 {
        self.trials
            .iter()
            .filter(|trial| trial.good == good)
            .map(|trial| trial.duration.as_secs_f64())
            .sum()
    }

    /// More good than bad time. One trial is enough to lean.
    pub(crate) fn leans_good(&self) -> bool {
        let good = self.seconds(true);
        !self.condemned && good > 0.0 && good >= self.seconds(false)
    }

    /// More bad than good time.
    pub(crate) fn leans_bad(&self) -> bool {
        self.condemned || self.seconds(false) > self.seconds(true)
    }
}

/// Loads in ascending order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Vec<Entry>);

impl Ledger {
    fn entry(&mut self, load: f64) -> &mut Entry {
        let index = match self.0.binary_search_by(|entry| entry.load.total_cmp(&load)) {
            Ok(index) => index,
            Err(index) => {
                self.0.insert(
                    index,
                    Entry { load, trials: Vec::new(), seen: Vec::new(), condemned: false },
                );
                index
            }
        };
        &mut self.0[index]
    }

    pub(crate) fn add(&mut self, load: f64, trial: TrialOutcome, seen: Seen) {
        let entry = self.entry(load);
        entry.trials.push(trial);
        entry.seen.push(seen);
    }

    /// Forgets every BAD trial that began soon after another one: the server had not come back.
    pub(crate) fn forget_shadowed(&mut self) {
        for entry in &mut self.0 {
            let mut seen = entry.seen.iter();
            entry.trials.retain(|_| !seen.next().is_some_and(|seen| seen.shadowed));
            entry.seen.retain(|seen| !seen.shadowed);
        }
        self.0.retain(|entry| !entry.trials.is_empty());
    }

    /// Every trial: its load, whether it was GOOD, and what else it shows.
    pub(crate) fn all(&self) -> impl Iterator<Item = (f64, bool, Seen)> + '_ {
        self.0.iter().flat_map(|entry| {
            entry.trials.iter().zip(&entry.seen).map(|(t, seen)| (entry.load, t.good, *seen))
        })
    }

    pub(crate) fn condemn(&mut self, load: f64) {
        self.entry(load).condemned = true;
    }

    pub(crate) fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.0.iter()
    }

    pub(crate) fn trials(&self, load: f64) -> &[TrialOutcome] {
        self.0.iter().find(|entry| entry.load == load).map_or(&[], |entry| &entry.trials)
    }

    /// The bounds by what each load leans to, for a search that ended early: the lowest bad load,
    /// and the highest good one below it.
    pub(crate) fn leaning_bounds(&self) -> (Option<Rate>, Option<Rate>) {
        let rate = |entry: &Entry| Rate::per_second(entry.load);
        let upper = self.entries().find(|entry| entry.leans_bad());
        let below = |entry: &&Entry| upper.is_none_or(|upper| entry.load < upper.load);
        let lower = self.entries().rev().filter(below).find(|entry| entry.leans_good());
        (lower.and_then(rate), upper.and_then(rate))
    }

    /// Loads at which the verdicts were not all the same.
    pub(crate) fn mixed(&self) -> usize {
        let mixed = |entry: &&Entry| {
            entry.trials.iter().any(|t| t.good) && entry.trials.iter().any(|t| !t.good)
        };
        self.0.iter().filter(mixed).count()
    }

    /// Findings where a load is worse than a higher one, as `classes` sees them.
    pub(crate) fn inversions(&self, class: impl Fn(&Entry) -> LoadClass) -> Option<(f64, f64)> {
        let bad = self.entries().find(|entry| class(entry) == LoadClass::Upper)?;
        let good = self.entries().rev().find(|entry| class(entry) == LoadClass::Lower)?;
        (good.load > bad.load).then_some((bad.load, good.load))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;

    use super::*;

    fn ledger(verdicts: &[(f64, &str)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (load, trials) in verdicts {
            for verdict in trials.bytes() {
                let good = verdict == b'G';
                let duration = Nanos::from_secs(5);
                let trial = TrialOutcome { duration, good, loss_ratio: 0.0 };
                ledger.add(*load, trial, Seen::default());
            }
        }
        ledger
    }

    fn bounds(verdicts: &[(f64, &str)]) -> (Option<f64>, Option<f64>) {
        let (lower, upper) = ledger(verdicts).leaning_bounds();
        (lower.map(Rate::get), upper.map(Rate::get))
    }

    #[test]
    fn the_lower_bound_lies_below_the_lowest_bad_load() {
        assert_eq!(bounds(&[]), (None, None));
        assert_eq!(bounds(&[(10.0, "G"), (20.0, "G")]), (Some(20.0), None));
        assert_eq!(bounds(&[(20.0, "BGG"), (10.0, "G"), (30.0, "B")]), (Some(20.0), Some(30.0)));
        // Inversion: 40 was good, but 30 was not.
        let inverted = [(10.0, "G"), (30.0, "B"), (40.0, "G"), (50.0, "B")];
        assert_eq!(bounds(&inverted), (Some(10.0), Some(30.0)));
        assert_eq!(bounds(&[(10.0, "B")]), (None, Some(10.0)));
    }

    #[test]
    fn a_condemned_load_is_bad_whatever_its_trials_said() {
        let mut ledger = ledger(&[(10.0, "GG"), (20.0, "GG")]);
        ledger.condemn(20.0);
        let (lower, upper) = ledger.leaning_bounds();
        assert_eq!((lower.map(Rate::get), upper.map(Rate::get)), (Some(10.0), Some(20.0)));
    }
}
