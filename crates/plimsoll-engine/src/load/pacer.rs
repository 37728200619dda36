//! The schedule of a hold's connections: they are opened evenly, and never in a burst.
//!
//! ```text
//! all workers   | | | | | | | | | | | | | |     one connection every 1/rate
//! worker 0      |     |     |     |     |       its share: every workers/rate, by turns
//! worker 1        |     |     |  ######   |  |  held back (#) while too many are being opened:
//!                                               its schedule begins anew with the next one
//! ```
//!
//! The pacer knows no sockets: the caller decides whether there is room.

use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;

/// Slower than this is slower than any hold; it keeps the gap finite.
const PER_S_MIN: f64 = 1e-6;

/// The instants at which one worker opens connections.
#[derive(Debug)]
pub(super) struct Pacer {
    /// The instant of step 0.
    base: Nanos,
    gap_ns: f64,
    step: u64,
    /// Something was due and could not be opened.
    is_held_back: bool,
    /// `true` if nothing was wanted, so that instants have passed unused.
    is_resting: bool,
}

impl Pacer {
    /// This shard's part of `per_s` connections per second; shards that were given the same
    /// `epoch` take turns.
    pub(super) fn new(epoch: Nanos, per_s: f64, shard: Shard) -> Self {
        let per_s = per_s.max(PER_S_MIN);
        Self {
            base: epoch + Nanos::from_secs_f64(f64::from(shard.index) / per_s),
            gap_ns: 1e9 * f64::from(shard.of) / per_s,
            step: 0,
            is_held_back: false,
            is_resting: true,
        }
    }

    /// Reports whether to open one now. `has_room` is whether one more may be under way.
    pub(super) fn poll_open(&mut self, now: Nanos, has_room: bool) -> bool {
        if self.is_resting {
            self.is_resting = false;
            self.skip_to(now);
        }
        if self.at(self.step) > now {
            return false;
        }
        if !has_room {
            self.is_held_back = true;
            return false;
        }
        if self.is_held_back {
            self.is_held_back = false;
            self.base = now;
            self.step = 0;
        }
        self.step += 1;
        true
    }

    /// Notes that no connection is wanted for now: instants that pass meanwhile are not made up for.
    pub(super) const fn rest(&mut self) {
        self.is_resting = true;
    }

    /// Returns the time at which [`Self::poll_open`] may open next; `None` if that depends on room.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        (!self.is_held_back).then(|| self.at(self.step))
    }

    fn at(&self, step: u64) -> Nanos {
        self.base + Nanos((step as f64 * self.gap_ns) as u64)
    }

    /// Leaves out the instants before `now`, and keeps this worker's turn among the others.
    fn skip_to(&mut self, now: Nanos) {
        self.is_held_back = false;
        let passed = (now.since(self.base).0 as f64 / self.gap_ns).ceil() as u64;
        self.step = self.step.max(passed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The instants at which `pacer` opens within `span_ns` if it is asked every `tick_ns`.
    fn opens(pacer: &mut Pacer, from: u64, span_ns: u64, tick_ns: u64, room: bool) -> Vec<u64> {
        let mut opened = Vec::new();
        for now in (from..from + span_ns).step_by(tick_ns as usize) {
            while pacer.poll_open(Nanos(now), room) {
                opened.push(now);
            }
        }
        opened
    }

    #[test]
    fn workers_take_turns() {
        // 1000/s over 4 workers: one each millisecond, by turns, exactly 25 each in 100 ms.
        let mut all = Vec::new();
        for index in 0..4 {
            let mut pacer = Pacer::new(Nanos(5), 1000.0, Shard { index, of: 4 });
            let mine = opens(&mut pacer, 5, 100_000_000, 1_000, true);
            assert_eq!(mine.len(), 25, "worker {index}");
            all.extend(mine);
        }
        all.sort_unstable();
        let expected: Vec<u64> = (0..100).map(|step| 5 + step * 1_000_000).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn what_was_held_back_is_not_made_up_for() {
        let mut pacer = Pacer::new(Nanos::ZERO, 1000.0, Shard::WHOLE);
        assert_eq!(opens(&mut pacer, 0, 10_000_000, 1_000, true).len(), 10);
        assert_eq!(opens(&mut pacer, 10_000_000, 10_000_000, 1_000, false).len(), 0);
        assert_eq!(pacer.next_due(), None);
        // The worker is 0.3 ms late for its own grid, and continues from here.
        let resumed = opens(&mut pacer, 20_300_000, 10_000_000, 1_000, true);
        let expected: Vec<u64> = (0..10).map(|step| 20_300_000 + step * 1_000_000).collect();
        assert_eq!(resumed, expected);
    }

    #[test]
    fn after_a_rest_it_takes_its_turn_again() {
        let mut pacer = Pacer::new(Nanos::ZERO, 1000.0, Shard { index: 1, of: 2 });
        assert_eq!(opens(&mut pacer, 0, 4_000_000, 1_000, true), [1_000_000, 3_000_000]);
        pacer.rest();
        let resumed = opens(&mut pacer, 100_500_000, 4_000_000, 1_000, true);
        assert_eq!(resumed, [101_000_000, 103_000_000]);
    }

    proptest! {
        /// However coarsely it is asked and however room comes and goes, no stretch of time sees
        /// more openings than the rate allows, plus what one late call makes up for.
        #[test]
        fn never_faster_than_the_rate(
            per_s in 1.0f64..100_000.0,
            steps in prop::collection::vec((0u64..5_000_000, any::<bool>()), 1..200),
        ) {
            let mut pacer = Pacer::new(Nanos::ZERO, per_s, Shard::WHOLE);
            let mut now = 0;
            let mut opened = 0u64;
            for (span, has_room) in steps {
                now += span;
                // A caller opens until there is no more room: here for three.
                let mut room = if has_room { 3 } else { 0 };
                while pacer.poll_open(Nanos(now), room > 0) {
                    opened += 1;
                    room -= 1;
                }
                let allowed = now as f64 * per_s / 1e9 + 1.0;
                prop_assert!(opened as f64 <= allowed + 1e-6, "{opened} > {allowed} at {now}");
            }
        }
    }
}
