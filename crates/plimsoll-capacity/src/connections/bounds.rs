//! The bounds of the tipping point, and the next level between them.
//!
//! [`Bounds::of`] replays the judged levels in order, without INVALID ones; `good < bad` always holds. A level with
//! one verdict of each kind is repeated, and so is a first miss of goals or opening times alone. A loss of half of
//! the connections is a [`Collapse`]. [`Bounds::next`] tries the number of connections that the server kept, else a
//! step just above a full server, else the geometric middle. Start reading at [`Bounds::handle_level`].

use plimsoll_model::hold::ServerFailure;
use plimsoll_model::trial::{Phase, Verdict};

use super::level::JudgedLevel;
use super::settings::ConnectionSettings;

/// Losing this share of the held connections is a collapse, not a limit to narrow down.
pub(super) const COLLAPSE: f64 = 0.5;

/// The bounds so far; good < bad.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    /// Levels that were held, ascending.
    good: Vec<u64>,
    /// The lowest level that was not.
    pub(super) bad: Option<u64>,
    /// Connections that the server kept of a level that failed: perhaps its limit.
    kept: Option<u64>,
    /// The highest good level was all that the server had kept.
    is_full: bool,
    votes: Votes,
    /// The server has lost half of its connections; no further level is tried.
    pub(super) collapse: Option<Collapse>,
}

/// Verdicts on one level, which is repeated if they are not enough.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    good: u32,
    bad: u32,
}

/// The loss of half of the connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Collapse {
    /// Connections at which the server failed.
    pub(super) at: u64,
    pub(super) why: ServerFailure,
    /// The search was asked to continue until the server fails, and had held a level.
    pub(super) is_sought: bool,
}

/// Share of the width that is tried above a server that is full.
const ABOVE_FULL: f64 = 0.8;

impl Bounds {
    /// Returns the bounds that `levels` show.
    pub(super) fn of(levels: &[JudgedLevel], settings: &ConnectionSettings) -> Self {
        let mut bounds = Self::default();
        for level in levels.iter().filter(|level| level.verdict() != Verdict::Invalid) {
            match level.phase {
                Phase::Confirm => bounds.handle_soak(level, settings),
                Phase::Reramp => {}
                _ => bounds.handle_level(level, settings),
            }
        }
        bounds
    }

    fn handle_level(&mut self, level: &JudgedLevel, settings: &ConnectionSettings) {
        let (target, answered) = (level.target, level.answered);
        if self.has_collapsed(level) {
            let (at, good) = (level.held_max, self.good().unwrap_or(0));
            let is_sought = settings.push && good > 0;
            // At no more connections than it held before, their number was not the cause.
            if at > good || is_sought {
                self.handle_collapse(at + 1);
            }
            let why = ServerFailure::Lost { count: level.lost, held: at };
            self.collapse = Some(Collapse { at, why, is_sought });
            return;
        }
        match level.verdict() {
            Verdict::Good => self.votes.good += 1,
            Verdict::Bad | Verdict::Invalid => self.votes.bad += 1,
        }
        let Votes { good, bad } = self.votes;
        let is_good = (good > 0 && bad == 0) || good > 1;
        // One slow moment of this host or of the server is no limit.
        let is_doubtful = (level.only_goals || level.only_slow) && bad == 1;
        if !is_good && (is_doubtful || (good, bad) == (1, 1)) {
            return;
        }
        self.votes = Votes::default();
        match is_good {
            // If a few may be missing, what was there counts.
            true => self.handle_good(target, answered),
            false => self.handle_bad(target, answered),
        }
    }

    fn handle_soak(&mut self, level: &JudgedLevel, settings: &ConnectionSettings) {
        self.votes = Votes::default();
        if level.verdict() == Verdict::Good {
            return;
        }
        self.handle_unconfirmed(level.target);
        if self.has_collapsed(level) {
            let why = ServerFailure::LostInSoak { count: level.lost, soak: settings.limits.soak };
            self.collapse = Some(Collapse { at: level.target, why, is_sought: false });
        }
    }

    fn has_collapsed(&self, level: &JudgedLevel) -> bool {
        let before = level.held_before.max(self.good().unwrap_or(0));
        let half = before as f64 * COLLAPSE;
        before > 0 && level.answered as f64 <= half && level.lost as f64 >= half
    }

    /// Reports whether the last level needs another verdict.
    pub(super) const fn is_undecided(&self) -> bool {
        self.votes.good + self.votes.bad > 0
    }

    /// Returns the highest level that was held.
    pub(super) fn good(&self) -> Option<u64> {
        self.good.last().copied()
    }

    /// Handles the level `target`, which was held; `answered` of its connections answered.
    pub(super) fn handle_good(&mut self, target: u64, answered: u64) {
        self.is_full = self.kept.take() == Some(target);
        let level = answered.min(target).max(1);
        self.good.retain(|good| *good < level);
        self.good.push(level);
    }

    /// Handles the level `target`, which was not held; `answered` connections remain.
    pub(super) fn handle_bad(&mut self, target: u64, answered: u64) {
        self.set_bad(target);
        let above_good = answered > self.good().unwrap_or(0);
        self.kept = Some(answered).filter(|_| above_good && answered < target);
        // It keeps what was good, and nothing of what came on top.
        let good = self.good().unwrap_or(0);
        self.is_full = answered == good || (self.is_full && answered > good);
    }

    /// Handles a level `target` below which no further levels are informative, because the server collapsed.
    pub(super) fn handle_collapse(&mut self, target: u64) {
        self.set_bad(target.max(self.good().unwrap_or(0) + 1));
        self.kept = None;
    }

    /// Handles a good level that was not confirmed.
    pub(super) fn handle_unconfirmed(&mut self, target: u64) {
        self.set_bad(target);
        self.kept = None;
        self.is_full = false;
    }

    fn set_bad(&mut self, target: u64) {
        let bad = self.bad.map_or(target, |bad| bad.min(target));
        self.bad = Some(bad);
        self.good.retain(|good| *good < bad);
    }

    /// Reports whether the bounds are as close as `width` asks, or neighbours.
    pub(super) fn is_narrow(&self, width: f64) -> bool {
        match (self.good(), self.bad) {
            (Some(good), Some(bad)) => bad - good <= 1 || bad as f64 <= good as f64 * (1.0 + width),
            _ => false,
        }
    }

    /// Returns the next level between the bounds; `None` when they are close enough, or there is none.
    pub(super) fn next(&self, width: f64) -> Option<u64> {
        let bad = self.bad?;
        if self.is_narrow(width) || bad <= 1 {
            return None;
        }
        let good = self.good();
        if let Some(kept) = self.kept.filter(|kept| *kept < bad && good.is_none_or(|g| *kept > g)) {
            return Some(kept);
        }
        // The lowest level failed, and the server kept none: lower ones are not what was asked for.
        let good = good?;
        let step = (good as f64 * width * ABOVE_FULL) as u64;
        let middle = (good as f64 * bad as f64).sqrt().round() as u64;
        let next = if self.is_full { good + step.max(1) } else { middle };
        Some(next.clamp(good + 1, bad - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a server that keeps `takes` connections; returns the interval and the levels.
    fn search(first_good: u64, first_bad: u64, takes: u64, width: f64) -> (u64, u64, u32) {
        let mut bounds = Bounds::default();
        bounds.handle_good(first_good, first_good);
        bounds.handle_bad(first_bad, takes);
        let mut levels = 0;
        while let Some(level) = bounds.next(width) {
            levels += 1;
            assert!(levels < 40 && level > bounds.good().unwrap() && level < bounds.bad.unwrap());
            if level <= takes {
                bounds.handle_good(level, level);
            } else {
                bounds.handle_bad(level, takes);
            }
        }
        (bounds.good().unwrap(), bounds.bad.unwrap(), levels)
    }

    #[test]
    fn a_full_server_is_found_in_two_levels() {
        assert_eq!(search(500, 1_000, 731, 0.05), (731, 760, 2));
        assert_eq!(search(500, 1_000, 731, 0.01), (731, 736, 2));
        // Neighbours are as close as it gets.
        assert_eq!(search(2, 8, 5, 0.01), (5, 6, 2));
        assert_eq!(search(731, 732, 731, 0.01), (731, 732, 0));
    }

    #[test]
    fn where_the_server_keeps_all_and_is_slow_the_middle_is_tried() {
        let mut bounds = Bounds::default();
        bounds.handle_good(1_000, 1_000);
        bounds.handle_bad(2_000, 2_000);
        assert_eq!(bounds.next(0.05), Some(1_414));
        bounds.handle_bad(1_414, 1_414);
        assert_eq!(bounds.next(0.05), Some(1_189));
        bounds.handle_good(1_189, 1_189);
        assert_eq!(bounds.next(0.05), Some(1_297));
        bounds.handle_unconfirmed(1_189);
        assert_eq!((bounds.good(), bounds.bad), (Some(1_000), Some(1_189)));
    }

    #[test]
    fn without_a_good_level_only_what_was_kept_is_tried() {
        let mut bounds = Bounds::default();
        bounds.handle_bad(100, 0);
        assert_eq!(bounds.next(0.05), None);
        bounds.handle_bad(100, 37);
        assert_eq!(bounds.next(0.05), Some(37));
        bounds.handle_good(37, 37);
        assert_eq!(bounds.next(0.05), Some(38));
    }
}
