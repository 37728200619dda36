//! The levels that a server's capacity was at, one after the other, and which trials belong to the
//! level it is at now. Trials from before a change are not averaged with those after it; a level
//! that the server returned to is one level with what it was before.

use plimsoll_model::trial::LevelChange;
use plimsoll_model::{Nanos, Rate};

use crate::median::median_of;

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
            .filter(|t| t.load == anchor && (last.from_s..last.to_s).contains(&t.at_s))
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

    /// What a level carries in overload.
    fn carries(level: Level, evidence: &Evidence) -> Option<f64> {
        let at_level = |t: &&Trial| (level.from_s..level.to_s).contains(&t.at_s);
        let saturated = evidence.all().filter(at_level).filter(|t| t.saturated().is_some());
        median_of(saturated.filter_map(reading).map(|reading| reading.y))
    }

    fn is_same(&self, level: Level, evidence: &Evidence) -> bool {
        if level == self.last() {
            return true;
        }
        match (Self::carries(level, evidence), Self::carries(self.last(), evidence)) {
            (Some(then), Some(now)) => (then - now).abs() < SAME,
            _ => false,
        }
    }

    /// The trials at the level where the server is now.
    pub(crate) fn current(&self, evidence: &Evidence) -> Vec<Trial> {
        let same: Vec<Level> =
            self.0.iter().copied().filter(|level| self.is_same(*level, evidence)).collect();
        let is_current = |t: &&Trial| same.iter().any(|l| (l.from_s..l.to_s).contains(&t.at_s));
        evidence.all().filter(is_current).copied().collect()
    }

    /// The changes of a capacity that is at another level than at first, or was at many; `None` if it is
    /// steady.
    pub(crate) fn unsteady(&self, evidence: &Evidence) -> Option<Vec<LevelChange>> {
        let settled = self.0.len() == 1 || (self.0.len() <= 3 && self.is_same(self.0[0], evidence));
        (!settled && !self.rose(evidence)).then(|| self.changes(evidence))
    }

    /// The capacity only rose, and has stayed since: the server had to warm up, or somebody left.
    fn rose(&self, evidence: &Evidence) -> bool {
        let carries = |level: &Level| Self::carries(*level, evidence);
        let is_rise = |pair: &[Level]| {
            carries(&pair[0]).zip(carries(&pair[1])).is_some_and(|(before, after)| before < after)
        };
        let last = self.last();
        let at_level = evidence.all().filter(|t| (last.from_s..last.to_s).contains(&t.at_s));
        self.0.windows(2).all(is_rise) && at_level.filter_map(reading).count() >= STAYED
    }

    /// Every change, in the order of time.
    fn changes(&self, evidence: &Evidence) -> Vec<LevelChange> {
        let instant = |s: f64| Nanos::from_secs_f64(s.max(0.0));
        let rate = |level| Self::carries(level, evidence).and_then(|y| Rate::per_second(y.exp()));
        let change = |pair: &[Level]| LevelChange {
            after: instant(pair[0].to_s),
            before: instant(pair[1].from_s),
            from: rate(pair[0]),
            to: rate(pair[1]),
        };
        self.0.windows(2).map(change).collect()
    }

    /// Every change, in words; `None` where there was none.
    pub(crate) fn told(&self, evidence: &Evidence) -> Option<String> {
        let words = |change: &LevelChange| {
            let minutes = |at: Nanos| format!("{:.1}", at.as_secs_f64() / 60.0);
            let when =
                format!("between minute {} and {}", minutes(change.after), minutes(change.before));
            match (change.from, change.to) {
                (Some(from), Some(to)) => {
                    let word = if to < from { "fell" } else { "rose" };
                    let percent = (to.get() / from.get() - 1.0).abs() * 100.0;
                    format!("{word} {percent:.0} % {when} ({from} to {to} in overload)")
                }
                _ => format!("rose {when}"),
            }
        };
        let changes: Vec<String> = self.changes(evidence).iter().map(words).collect();
        (!changes.is_empty()).then(|| format!("capacity {}", changes.join(", then ")))
    }
}

/// What a sentinel says of the capacity.
pub(crate) fn reading(trial: &Trial) -> Option<Reading> {
    let carried = trial.carried.filter(|_| trial.role == Role::Sentinel)?;
    Some(Reading { at_s: trial.at_s, y: carried.ln(), count: carried * trial.window_s })
}

#[cfg(test)]
mod tests {
    use super::super::seen::Seen;
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
                loss_ratio: 0.5,
                carried: Some(*carried),
                bad: Default::default(),
                scheduled: 6_000,
                rarely_missed: false,
                role: Role::Sentinel,
                seen: Seen::default(),
            });
            levels.observe(&evidence, ANCHOR, &[(0.002, 0.5), (0.01, 0.5)]);
        }
        (levels, evidence)
    }

    fn unsteady(carried: &[f64]) -> Option<Vec<LevelChange>> {
        let (levels, evidence) = levels_of(carried);
        levels.unsteady(&evidence)
    }

    #[test]
    fn a_capacity_that_rose_and_stayed_is_the_servers_and_one_that_fell_is_not() {
        assert_eq!(unsteady(&[1_000.0, 1_001.0, 999.0]), None);
        let (levels, evidence) = levels_of(&[700.0, 701.0, 1_000.0, 1_001.0]);
        let rose = levels.unsteady(&evidence).expect("not for long enough");
        assert_eq!(rose.len(), 1);
        assert_eq!(rose[0].before, Nanos::from_secs(120));
        assert!(rose[0].from < rose[0].to, "{rose:?}");
        let text = levels.told(&evidence).expect("a change");
        assert!(text.contains("rose 43 % between minute 1.0 and 2.0"), "{text}");
        let warm = [700.0, 701.0, 1_000.0, 1_001.0, 1_000.0];
        assert_eq!(unsteady(&warm), None);
        let (levels, evidence) = levels_of(&warm);
        let current: Vec<f64> = levels.current(&evidence).iter().map(|trial| trial.at_s).collect();
        assert_eq!(current, [120.0, 180.0, 240.0], "those before are measured again");
        assert!(unsteady(&[1_000.0, 1_001.0, 700.0, 701.0, 700.0]).is_some());
        let back = [1_000.0, 1_001.0, 700.0, 701.0, 1_000.0, 1_001.0];
        assert_eq!(unsteady(&back), None, "as at first");
    }
}
