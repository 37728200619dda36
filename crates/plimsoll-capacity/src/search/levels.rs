//! The levels that a server's capacity was at, one after the other, and which trials belong to the
//! level it is at now. Trials from before a change are not averaged with those after it; a level
//! that the server returned to is one level with what it was before.

use plimsoll_model::Rate;

use super::change::{Change, Reading, change};
use super::trials::{Role, Trial, Trials};

/// Levels that differ by less are one, logarithmic.
const SAME: f64 = 0.04;
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
    pub(crate) fn observe(&mut self, trials: &Trials, anchor: f64, spreads: &[(f64, f64)]) -> bool {
        let last = self.last();
        let readings: Vec<Reading> = trials
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
    fn carries(level: Level, trials: &Trials) -> Option<f64> {
        let mut readings: Vec<f64> = trials
            .all()
            .filter(|t| t.saturated().is_some() && (level.from_s..level.to_s).contains(&t.at_s))
            .filter_map(|t| reading(t).map(|r| r.y))
            .collect();
        readings.sort_by(f64::total_cmp);
        readings.get(readings.len() / 2).copied()
    }

    fn is_same(&self, level: Level, trials: &Trials) -> bool {
        if level == self.last() {
            return true;
        }
        match (Self::carries(level, trials), Self::carries(self.last(), trials)) {
            (Some(then), Some(now)) => (then - now).abs() < SAME,
            _ => false,
        }
    }

    /// The trials at the level where the server is now.
    pub(crate) fn current(&self, trials: &Trials) -> Vec<Trial> {
        let same: Vec<Level> =
            self.0.iter().copied().filter(|level| self.is_same(*level, trials)).collect();
        let is_current = |t: &&Trial| same.iter().any(|l| (l.from_s..l.to_s).contains(&t.at_s));
        trials.all().filter(is_current).copied().collect()
    }

    /// What to say of a capacity that is at another level than at first, or was at many.
    pub(crate) fn unsteady(&self, trials: &Trials) -> Option<String> {
        let settled = self.0.len() == 1 || (self.0.len() <= 3 && self.is_same(self.0[0], trials));
        if settled { None } else { self.told(trials) }
    }

    /// Every change, in words; `None` where there was none.
    pub(crate) fn told(&self, trials: &Trials) -> Option<String> {
        let changes: Vec<String> = self
            .0
            .windows(2)
            .map(|pair| {
                let [before, after] = [0, 1].map(|i| Self::carries(pair[i], trials));
                let minutes = |s: f64| format!("{:.1}", s / 60.0);
                let when = format!(
                    "between minute {} and {}",
                    minutes(pair[0].to_s),
                    minutes(pair[1].from_s)
                );
                match (before, after) {
                    (Some(before), Some(after)) => {
                        let rate = |y: f64| Rate::per_second(y.exp()).unwrap_or_default();
                        let word = if after < before { "fell" } else { "rose" };
                        format!(
                            "{word} {:.0} % {when} ({} to {} in overload)",
                            ((after - before).exp() - 1.0).abs() * 100.0,
                            rate(before),
                            rate(after)
                        )
                    }
                    _ => format!("rose {when}"),
                }
            })
            .collect();
        (!changes.is_empty()).then(|| format!("capacity {}", changes.join(", then ")))
    }
}

/// What a sentinel says of the capacity.
pub(crate) fn reading(trial: &Trial) -> Option<Reading> {
    let carried = trial.carried.filter(|_| trial.role == Role::Sentinel)?;
    Some(Reading { at_s: trial.at_s, y: carried.ln(), count: carried * trial.window_s })
}
