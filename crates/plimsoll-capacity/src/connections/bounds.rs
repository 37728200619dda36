//! The tipping point as far as the levels show it, and the level to try next between the bounds.

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
}

/// Share of the width that is tried above a server that is full.
const ABOVE_FULL: f64 = 0.8;

impl Bounds {
    /// The highest level that was held.
    pub(super) fn good(&self) -> Option<u64> {
        self.good.last().copied()
    }

    /// The level `target` was held; of its connections, so many answered.
    pub(super) fn handle_good(&mut self, target: u64, answered: u64) {
        self.is_full = self.kept.take() == Some(target);
        let level = answered.min(target).max(1);
        self.good.retain(|good| *good < level);
        self.good.push(level);
    }

    /// The level `target` was not held; `answered` connections remain.
    pub(super) fn handle_bad(&mut self, target: u64, answered: u64) {
        self.set_bad(target);
        let above_good = answered > self.good().unwrap_or(0);
        self.kept = Some(answered).filter(|_| above_good && answered < target);
        // It keeps what was good, and nothing of what came on top.
        let good = self.good().unwrap_or(0);
        self.is_full = answered == good || (self.is_full && answered > good);
    }

    /// `target` is too much, and nothing is to be learned below it.
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

    /// The next level between the bounds; `None` when they are close enough, or there is none.
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
