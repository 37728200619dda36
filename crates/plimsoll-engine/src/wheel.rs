//! Timer wheel of one worker: arm and cancel in constant time, no memory per pending wait.
//!
//! It is independent of connections: it links slots of a table that its user indexes in
//! parallel, and returns their indices. Hierarchical and hashed, as in Varghese and Lauck 1987:
//!
//! ```text
//! level  slots  one slot      whole level
//!   0     256      65.5 us        16.8 ms
//!   1     256      16.8 ms         4.3 s
//!   2     256       4.3 s         18.3 min
//!   3     256      18.3 min       78.2 h
//! ```

use plimsoll_model::Nanos;

use crate::slots::slot_mut;

/// One tick is 2^16 ns = 65.5 us: a 1 ms sleep is exact to 7 %, and a u32 of ticks lasts 78 hours.
const TICK_SHIFT: u32 = 16;
const LEVELS: usize = 4;
const SLOTS: usize = 256;
const NONE: u32 = u32::MAX;
/// A wheel counts 78 hours from its epoch: at this age its user replaces it by a new one, and arms what waits again.
const AGE_MAX: Nanos = Nanos::from_secs(24 * 3600);

/// The links of one timer; one per table slot.
#[derive(Clone, Copy, Debug)]
struct Links {
    /// Neighbours in the bucket; `NONE` at its ends.
    next: u32,
    prev: u32,
    /// Tick at which the timer is due.
    tick: u32,
    /// The timer's bucket: level * SLOTS + slot, or `IDLE`.
    bucket: u16,
}

const IDLE: u16 = u16::MAX;
/// 64 MB of addresses; a table that grows past it is moved.
const SLOTS_RESERVED_MAX: u64 = 1 << 22;
const _: () = assert!(LEVELS * SLOTS < IDLE as usize);
const _: () = assert!(size_of::<Links>() == 16);

/// Timers keyed by table index, at most one pending per index.
#[derive(Debug)]
pub struct Wheel {
    links: Vec<Links>,
    heads: Box<[u32; LEVELS * SLOTS]>,
    /// Bit n of word w: bucket 64 * w + n is not empty.
    occupied: [u64; LEVELS * SLOTS / 64],
    /// All ticks before this one have been handed out.
    now: u32,
    epoch: Nanos,
    pending: u32,
}

impl Wheel {
    /// Creates an empty wheel; times before `epoch` count as `epoch`.
    pub fn new(epoch: Nanos) -> Self {
        Self::with_capacity(epoch, 0)
    }

    /// Creates a wheel like [`Self::new`], with addresses reserved for the timers of `slots` slots, so that they are
    /// not moved while the table grows. Memory is used as slots are.
    pub fn with_capacity(epoch: Nanos, slots: u64) -> Self {
        Self {
            links: Vec::with_capacity(slots.min(SLOTS_RESERVED_MAX) as usize),
            heads: Box::new([NONE; LEVELS * SLOTS]),
            occupied: [0; LEVELS * SLOTS / 64],
            now: 0,
            epoch,
            pending: 0,
        }
    }

    /// Reports whether the wheel must be replaced soon, because it cannot count much longer.
    pub fn is_old(&self, now: Nanos) -> bool {
        now.since(self.epoch) >= AGE_MAX
    }

    /// Timers pending.
    pub const fn pending(&self) -> u32 {
        self.pending
    }

    /// Timers that are linked into a bucket; as many as are pending.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn linked(&self) -> u32 {
        self.links.iter().filter(|links| links.bucket != IDLE).count() as u32
    }

    /// Arms the timer of `index`, replacing the one it had. It fires at `at` or up to one tick
    /// later, never before.
    pub fn arm(&mut self, index: u32, at: Nanos) {
        self.cancel(index);
        let tick = self.tick_after(at).max(self.now);
        let idle = || Links { next: NONE, prev: NONE, tick: 0, bucket: IDLE };
        slot_mut(&mut self.links, index, idle).tick = tick;
        self.link(index);
        self.pending += 1;
    }

    /// Disarms the timer of `index`, if it has one.
    pub fn cancel(&mut self, index: u32) {
        if self.links.get(index as usize).is_some_and(|links| links.bucket != IDLE) {
            self.unlink(index);
            self.pending -= 1;
        }
    }

    /// Hands out one timer that is due at `now`; `None` when there is none (left).
    pub fn poll_expired(&mut self, now: Nanos) -> Option<u32> {
        if self.pending == 0 {
            self.now = self.now.max(self.tick_before(now));
            return None;
        }
        let until = self.tick_before(now);
        loop {
            // Level 0 holds the current turn only: what hangs under `now` is due at `now`.
            let index = self.heads[(self.now as usize) % SLOTS];
            if index != NONE && self.now <= until {
                self.unlink(index);
                self.pending -= 1;
                return Some(index);
            }
            if self.now >= until {
                return None;
            }
            self.advance(until);
        }
    }

    /// Returns a lower bound of the next instant at which [`Self::poll_expired`] may return something or should be
    /// called again; `None` when nothing is pending.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        if self.pending == 0 {
            return None;
        }
        Some(self.epoch + Nanos(u64::from(self.next_stop()) << TICK_SHIFT))
    }

    /// Returns the first tick after `at`, so that nothing fires early.
    fn tick_after(&self, at: Nanos) -> u32 {
        let ns = at.since(self.epoch).0;
        let tick = (ns >> TICK_SHIFT) + u64::from(ns & ((1 << TICK_SHIFT) - 1) != 0);
        u32::try_from(tick).unwrap_or(u32::MAX - 1)
    }

    fn tick_before(&self, now: Nanos) -> u32 {
        u32::try_from(now.since(self.epoch).0 >> TICK_SHIFT).unwrap_or(u32::MAX - 1)
    }

    /// Returns the tick at which something is due or a higher level must be spread out.
    fn next_stop(&self) -> u32 {
        let slot = (self.now as usize) % SLOTS;
        match self.next_occupied(0, slot) {
            Some(next) => self.now - slot as u32 + next as u32,
            // Nothing left in this turn of level 0: the next turn begins with a cascade.
            None => self.turn_after(),
        }
    }

    /// Returns the first tick of the next turn of level 0 that has anything to spread out.
    fn turn_after(&self) -> u32 {
        for level in 1..LEVELS {
            let shift = 8 * level as u32;
            let slot = (self.now >> shift) as usize % SLOTS;
            if let Some(next) = self.next_occupied(level, slot + 1) {
                return (((self.now >> shift) - slot as u32) + next as u32) << shift;
            }
        }
        // Unreachable while anything is pending: a tick differs from `now` in one of its 32 bits.
        u32::MAX
    }

    /// Returns the first non-empty slot of `level` at or after `from`.
    fn next_occupied(&self, level: usize, from: usize) -> Option<usize> {
        let words = &self.occupied[level * SLOTS / 64..(level + 1) * SLOTS / 64];
        let mut word = from / 64;
        let mut bits = words.get(word)? & (u64::MAX << (from % 64));
        loop {
            if bits != 0 {
                return Some(word * 64 + bits.trailing_zeros() as usize);
            }
            word += 1;
            bits = *words.get(word)?;
        }
    }

    /// Moves to the next stop, or to `until` if that comes first. Between the two nothing is due
    /// and no bucket begins, so no tick is lost by the leap.
    fn advance(&mut self, until: u32) {
        let stop = self.next_stop();
        if stop > until {
            self.now = until;
            return;
        }
        self.now = stop;
        self.cascade();
    }

    /// Spreads the buckets that `now` has reached over the levels below.
    fn cascade(&mut self) {
        for level in (1..LEVELS).rev() {
            let slot = (self.now >> (8 * level as u32)) as usize % SLOTS;
            let bucket = level * SLOTS + slot;
            let mut index = std::mem::replace(&mut self.heads[bucket], NONE);
            self.occupied[bucket / 64] &= !(1 << (bucket % 64));
            while index != NONE {
                let next = self.links[index as usize].next;
                self.link(index);
                index = next;
            }
        }
    }

    fn link(&mut self, index: u32) {
        let tick = self.links[index as usize].tick.max(self.now);
        // The lowest level whose current turn contains the tick.
        let differing = tick ^ self.now;
        let level = ((31 - (differing | 1).leading_zeros()) / 8) as usize;
        let slot = (tick >> (8 * level as u32)) as usize % SLOTS;
        let bucket = level * SLOTS + slot;
        let head = self.heads[bucket];
        let links = &mut self.links[index as usize];
        links.next = head;
        links.prev = NONE;
        links.bucket = bucket as u16;
        if head != NONE {
            let first = &mut self.links[head as usize];
            debug_assert_eq!(first.prev, NONE, "one is before the first timer of a bucket");
            first.prev = index;
        }
        self.heads[bucket] = index;
        self.occupied[bucket / 64] |= 1 << (bucket % 64);
    }

    fn unlink(&mut self, index: u32) {
        let Links { next, prev, bucket, .. } = self.links[index as usize];
        let bucket = usize::from(bucket);
        let before = if prev == NONE { self.heads[bucket] } else { self.links[prev as usize].next };
        debug_assert_eq!(before, index, "the timer before {index} links to another");
        if prev == NONE {
            self.heads[bucket] = next;
            if next == NONE {
                self.occupied[bucket / 64] &= !(1 << (bucket % 64));
            }
        } else {
            self.links[prev as usize].next = next;
        }
        if next != NONE {
            let behind = &mut self.links[next as usize];
            debug_assert_eq!(behind.prev, index, "the timer behind {index} links to another");
            behind.prev = prev;
        }
        self.links[index as usize].bucket = IDLE;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Arm(u32, u64),
        Cancel(u32),
        Advance(u64),
    }

    fn span() -> impl Strategy<Value = u64> {
        // All levels, with the near ones often.
        prop_oneof![0u64..200_000, 0u64..50_000_000, 0u64..20_000_000_000, 0u64..9_000_000_000_000]
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u32..40, span()).prop_map(|(index, after)| Step::Arm(index, after)),
            1 => (0u32..40).prop_map(Step::Cancel),
            3 => span().prop_map(Step::Advance),
        ]
    }

    proptest! {
        #[test]
        fn fires_exactly_what_is_due(steps in prop::collection::vec(step(), 1..120)) {
            let epoch = Nanos(1_000);
            let mut wheel = Wheel::new(epoch);
            let mut model: BTreeMap<u32, u64> = BTreeMap::new();
            let mut now = epoch.0;
            for step in steps {
                match step {
                    Step::Arm(index, after) => {
                        wheel.arm(index, Nanos(now + after));
                        model.insert(index, now + after);
                    }
                    Step::Cancel(index) => {
                        wheel.cancel(index);
                        model.remove(&index);
                    }
                    Step::Advance(span) => {
                        now += span;
                        while let Some(index) = wheel.poll_expired(Nanos(now)) {
                            let due = model.remove(&index);
                            prop_assert!(due.is_some_and(|due| due <= now), "{index} early");
                        }
                        // Nothing stays that was due a tick ago.
                        let overdue = model.values().any(|due| due + (1 << TICK_SHIFT) <= now);
                        prop_assert!(!overdue, "missed one of {model:?} at {now}");
                    }
                }
                prop_assert_eq!(wheel.pending() as usize, model.len());
                prop_assert_eq!(wheel.linked(), wheel.pending());
                if let (Some(hint), Some(first)) = (wheel.poll_timeout(), model.values().min()) {
                    prop_assert!(hint.0 <= first + (1 << TICK_SHIFT), "hint past the first timer");
                }
            }
        }
    }

    #[test]
    fn polling_by_the_hint_reaches_a_far_timer_in_few_steps() {
        let mut wheel = Wheel::new(Nanos::ZERO);
        wheel.arm(3, Nanos::from_secs(3600));
        let mut polls = 0;
        loop {
            let hint = wheel.poll_timeout().expect("one timer is pending");
            polls += 1;
            if wheel.poll_expired(hint).is_some() {
                break;
            }
            assert!(polls < 10, "the hint does not make progress");
        }
    }
}
