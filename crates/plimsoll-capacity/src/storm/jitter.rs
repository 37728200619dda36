//! The jitter that makes the largest storm safe: the longest random wait of each client before an attempt.
//!
//! A server that serves `lower` clients within the time for recovery R serves n clients that come evenly over J if J >=
//! R * (n / lower - 1): clients that still wait at the end of J are served within R. The search begins there, and
//! storms decide.

use plimsoll_model::Nanos;
use plimsoll_model::storm::Jitter;
use plimsoll_model::trial::Verdict;

/// Above the predicted one, since jitter is not even.
const PREDICTED: f64 = 1.1;
/// The shortest jitter, and the longest.
const LEAST: Nanos = Nanos::from_millis(100);
const MOST: Nanos = Nanos::from_secs(600);
/// A jitter that suffices and one that does not, this far apart, are near enough.
const WIDTH: f64 = 1.25;
/// Storms that must be survived at the jitter that is stated.
const REPEATS: usize = 2;
/// Storms in all.
const STORMS_MAX: usize = 12;

/// The storms with jitter so far, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct JitterSearch {
    storms: Vec<(Nanos, bool)>,
    /// The first storm, on the search's clock.
    pub(super) began: Option<Nanos>,
    /// One was INVALID: this program cannot make such storms.
    is_invalid: bool,
}

impl JitterSearch {
    pub(super) fn add(&mut self, jitter: Nanos, verdict: Verdict) {
        match verdict {
            Verdict::Invalid => self.is_invalid = true,
            Verdict::Good | Verdict::Bad => self.storms.push((jitter, verdict == Verdict::Good)),
        }
    }

    /// Returns the next jitter to try for a storm of `cut`, of which `lower` are served within `recover`; `None` once
    /// it is known, or cannot be.
    pub(super) fn next(&self, cut: u64, lower: u64, recover: Nanos) -> Option<Nanos> {
        if self.storms.len() >= STORMS_MAX || self.is_invalid {
            return None;
        }
        let next = match (self.enough(), self.missed()) {
            (None, None) => {
                let over = cut as f64 / lower.max(1) as f64 - 1.0;
                Nanos::from_secs_f64(PREDICTED * over * recover.as_secs_f64())
            }
            (None, Some(missed)) if missed >= MOST => return None,
            (None, Some(missed)) => Nanos(2 * missed.0),
            (Some(enough), missed) => {
                let missed = missed.unwrap_or(Nanos(enough.0 / 4)).max(Nanos(LEAST.0 / 2));
                if enough.0 as f64 <= WIDTH * missed.0 as f64 || enough <= LEAST {
                    return (self.survived(enough) < REPEATS).then_some(enough);
                }
                Nanos(((enough.0 as f64) * (missed.0 as f64)).sqrt() as u64)
            }
        };
        Some(next.clamp(LEAST, MOST))
    }

    /// Returns the longest jitter that did not suffice.
    fn missed(&self) -> Option<Nanos> {
        self.storms.iter().filter(|(_, good)| !good).map(|(jitter, _)| *jitter).max()
    }

    /// Returns the shortest jitter that sufficed, above all that did not.
    fn enough(&self) -> Option<Nanos> {
        let missed = self.missed();
        let good = self.storms.iter().filter(|(jitter, good)| *good && Some(*jitter) > missed);
        good.map(|(jitter, _)| *jitter).min()
    }

    /// Returns the number of storms that were survived with this jitter.
    fn survived(&self, jitter: Nanos) -> usize {
        self.storms.iter().filter(|storm| **storm == (jitter, true)).count()
    }

    /// Returns the answer for storms of `cut`; `None` if none was made.
    pub(super) fn answer(&self, cut: u64) -> Option<Jitter> {
        let enough = self.enough();
        (!self.storms.is_empty()).then(|| Jitter {
            cut,
            enough_s: enough.map(Nanos::as_secs_f64),
            missed_s: self.missed().map(Nanos::as_secs_f64),
            survived: enough.map_or(0, |enough| self.survived(enough)) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_jitter_that_suffices_is_found_from_either_side() {
        let recover = Nanos::from_secs(2);
        for needed_ms in [50, 400, 3_000, 5_000, 40_000] {
            let mut search = JitterSearch::default();
            while let Some(jitter) = search.next(2_000, 800, recover) {
                let is_enough = jitter >= Nanos::from_millis(needed_ms);
                search.add(jitter, if is_enough { Verdict::Good } else { Verdict::Bad });
            }
            let found = search.answer(2_000).expect("storms were made");
            let enough = found.enough_s.expect("some jitter suffices");
            let needed = (needed_ms as f64 / 1_000.0).max(LEAST.as_secs_f64());
            assert!((needed..=WIDTH * needed).contains(&enough), "{needed}: {found:?}");
            assert_eq!(found.survived, REPEATS as u32, "{found:?}");
        }
    }

    #[test]
    fn a_storm_that_no_jitter_helps_ends_the_search() {
        let mut search = JitterSearch::default();
        while let Some(jitter) = search.next(2_000, 800, Nanos::from_secs(2)) {
            search.add(jitter, Verdict::Bad);
        }
        let found = search.answer(2_000).expect("storms were made");
        assert_eq!((found.enough_s, found.missed_s), (None, Some(MOST.as_secs_f64())));
    }
}
