//! The successive levels of a server's capacity. Trials count as if they had been made at the slowest level, by the
//! server's rate in overload; trials between two levels do not count, nor do trials of a server that was warming up.

use plimsoll_model::Rate;

use crate::stats::median_of;

use super::change::{Change, Reading, change};
use super::evidence::Evidence;
use super::trials::{Role, Trial};

/// Levels that differ by less are one, logarithmic.
const SAME: f64 = 0.04;
/// Readings at a higher level from which on it is the server's.
const STAYED: usize = 3;
/// Levels kept apart in one search; from then on all is one muddle.
const LEVELS_MAX: usize = 8;

/// A stretch of time in which the capacity was at one level.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    from_s: f64,
    to_s: f64,
}

impl Level {
    fn has(&self, at_s: f64) -> bool {
        (self.from_s..self.to_s).contains(&at_s)
    }
}

/// The rate that the server carries at each level.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Paces {
    each: Vec<(Level, f64)>,
    slowest: Option<f64>,
}

impl Paces {
    /// Returns the excess of the server's rate at an instant over its slowest level: a logarithm.
    pub(crate) fn over_slowest(&self, at_s: f64) -> f64 {
        let level = self.each.iter().find(|(level, _)| level.has(at_s));
        let over = level.zip(self.slowest).map(|((_, y), slowest)| y - slowest);
        over.filter(|over| *over >= SAME).unwrap_or(0.0)
    }

    /// Distances of the levels that differ from the slowest one, ascending, each with the time spent there
    /// among `trials`, seconds.
    pub(crate) fn regimes(&self, trials: &[Trial]) -> Vec<(f64, f64)> {
        let mut regimes: Vec<(f64, f64)> = Vec::new();
        for (level, y) in &self.each {
            let over = y - self.slowest.unwrap_or(*y);
            let spent = |t: &&Trial| level.has(t.at_s);
            let spent_s: f64 = trials.iter().filter(spent).map(|t| t.window_s).sum();
            match regimes.iter_mut().find(|(known, _)| (known - over).abs() < SAME) {
                Some((_, all_s)) => *all_s += spent_s,
                None => regimes.push((over, spent_s)),
            }
        }
        regimes.sort_by(|a, b| a.0.total_cmp(&b.0));
        regimes
    }
}

/// All of them, the last one open.
#[derive(Clone, Debug)]
pub(crate) struct Levels(Vec<Level>);

impl Default for Levels {
    fn default() -> Self {
        Self(vec![Level { from_s: f64::NEG_INFINITY, to_s: f64::INFINITY }])
    }
}

impl Levels {
    fn last(&self) -> Level {
        self.0[self.0.len() - 1]
    }

    /// Looks at the readings at `anchor` since the last change; whether one more is needed at once.
    pub(crate) fn observe(
        &mut self,
        evidence: &Evidence,
        anchor: f64,
        spreads: &[(f64, f64)],
    ) -> bool {
        let last = self.last();
        let readings: Vec<Reading> = evidence
            .all()
            .filter(|t| t.load == anchor && last.has(t.at_s))
            .filter_map(reading)
            .collect();
        match change(&readings, spreads) {
            Change::None => false,
            Change::Suspected => true,
            Change::At(index) => {
                let end = self.0.len() - 1;
                if self.0.len() < LEVELS_MAX {
                    self.0[end].to_s = readings[index - 1].at_s + 1e-6;
                    self.0.push(Level { from_s: readings[index].at_s, to_s: f64::INFINITY });
                }
                false
            }
        }
    }

    /// Returns the rate of a level in overload.
    fn carries(level: Level, evidence: &Evidence) -> Option<f64> {
        let at_level = |t: &&Trial| level.has(t.at_s);
        let saturated = evidence.all().filter(at_level).filter(|t| t.saturated().is_some());
        median_of(saturated.filter_map(reading).map(|reading| reading.y))
    }

    /// Returns the trials that count. Trials between two levels do not, because they may have met either; of a server
    /// that has only warmed up, only later trials do.
    pub(crate) fn counted(&self, evidence: &Evidence) -> Vec<Trial> {
        let levels = self.that_count(evidence);
        let is_at_one = |t: &&Trial| levels.iter().any(|level| level.has(t.at_s));
        evidence.all().filter(is_at_one).copied().collect()
    }

    /// Returns the server's rate in overload at the level of each instant: logarithms. The capacity is the slowest
    /// level's.
    pub(crate) fn paces(&self, evidence: &Evidence) -> Paces {
        let carries = |level: &Level| Some((*level, Self::carries(*level, evidence)?));
        let each: Vec<_> = self.that_count(evidence).iter().filter_map(carries).collect();
        let slowest = each.iter().map(|(_, y)| *y).reduce(f64::min);
        Paces { each, slowest }
    }

    /// Returns the last level of a server that has only warmed up, and all levels of any other.
    fn that_count(&self, evidence: &Evidence) -> &[Level] {
        if self.rose(evidence) { &self.0[self.0.len() - 1..] } else { &self.0 }
    }

    /// The capacity only rose, and has stayed since: the server had to warm up, or somebody left.
    fn rose(&self, evidence: &Evidence) -> bool {
        let carries = |level: &Level| Self::carries(*level, evidence);
        let is_rise = |pair: &[Level]| {
            carries(&pair[0]).zip(carries(&pair[1])).is_some_and(|(before, after)| before < after)
        };
        let last = self.last();
        let at_level = evidence.all().filter(|t| last.has(t.at_s));
        self.0.windows(2).all(is_rise) && at_level.filter_map(reading).count() >= STAYED
    }

    /// Describes every change in the order of time; `None` if there was none.
    pub(crate) fn describe(&self, evidence: &Evidence) -> Option<String> {
        let rate = |level| Self::carries(level, evidence).and_then(|y| Rate::per_second(y.exp()));
        let words = |pair: &[Level]| {
            let minutes = |at_s: f64| format!("{:.1}", at_s.max(0.0) / 60.0);
            let when =
                format!("between minute {} and {}", minutes(pair[0].to_s), minutes(pair[1].from_s));
            match (rate(pair[0]), rate(pair[1])) {
                (Some(from), Some(to)) => {
                    let word = if to < from { "fell" } else { "rose" };
                    let percent = (to.get() / from.get() - 1.0).abs() * 100.0;
                    format!("{word} {percent:.0} % {when} ({from} to {to} in overload)")
                }
                _ => format!("rose {when}"),
            }
        };
        let changes: Vec<String> = self.0.windows(2).map(words).collect();
        (!changes.is_empty()).then(|| format!("capacity {}", changes.join(", then ")))
    }
}

/// Returns a sentinel's reading of the capacity.
pub(crate) fn reading(trial: &Trial) -> Option<Reading> {
    let carried = trial.carried.filter(|_| trial.role == Role::Sentinel)?;
    Some(Reading { at_s: trial.at_s, y: carried.ln(), count: carried * trial.window_s })
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;

    use super::super::conditions::Conditions;
    use super::*;

    const ANCHOR: f64 = 2_000.0;

    /// Overloads at one load, a minute apart, that carried so much; the levels that they show.
    fn levels_of(carried: &[f64]) -> (Levels, Evidence) {
        let (mut levels, mut evidence) = (Levels::default(), Evidence::default());
        for (index, carried) in carried.iter().enumerate() {
            evidence.append(Trial {
                load: ANCHOR,
                good: false,
                at_s: 60.0 * index as f64,
                window_s: 3.0,
                number: 1,
                planned: Nanos::from_secs(3),
                loss_ratio: 0.5,
                carried: Some(*carried),
                bad: Default::default(),
                scheduled: 6_000,
                rarely_missed: false,
                role: Role::Sentinel,
                conditions: Conditions::default(),
            });
            levels.observe(&evidence, ANCHOR, &[(0.002, 0.5), (0.01, 0.5)]);
        }
        (levels, evidence)
    }

    /// Returns the excess of each overload's rate over the slowest level, whole percent; nothing
    /// for those that do not count.
    fn over_slowest(carried: &[f64]) -> Vec<Option<i64>> {
        let (levels, evidence) = levels_of(carried);
        let (paces, counted) = (levels.paces(&evidence), levels.counted(&evidence));
        let over = |at_s: f64| (100.0 * (paces.over_slowest(at_s).exp() - 1.0)).round() as i64;
        let counts = |at_s: f64| counted.iter().any(|trial| trial.at_s == at_s);
        let each = (0..carried.len()).map(|index| 60.0 * index as f64);
        each.map(|at_s| counts(at_s).then(|| over(at_s))).collect()
    }

    #[test]
    fn trials_at_every_level_count_but_those_of_a_server_that_was_warming_up() {
        let of = over_slowest;
        assert_eq!(of(&[1_000.0, 1_001.0, 999.0]), [Some(0); 3]);
        let (slow, fast, none) = (Some(0), Some(43), None);
        let rose = [700.0, 701.0, 1_000.0, 1_001.0];
        assert_eq!(of(&rose), [slow, slow, fast, fast], "not for long enough");
        let (levels, evidence) = levels_of(&rose);
        let text = levels.describe(&evidence).expect("a change");
        assert!(text.contains("rose 43 % between minute 1.0 and 2.0"), "{text}");
        let warm = [700.0, 701.0, 1_000.0, 1_001.0, 1_000.0];
        assert_eq!(of(&warm), [none, none, slow, slow, slow], "those before are measured again");
        assert_eq!(of(&[1_000.0, 1_001.0, 700.0, 701.0, 700.0]), [fast, fast, slow, slow, slow]);
    }
}
