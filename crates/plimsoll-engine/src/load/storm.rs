//! The clients of a storm: those whose connections were cut, and when each tries to come back.
//!
//! ```text
//! cut -> waiting (its policy) -> attempt -> back
//!           ^                       |
//!           +---- refused, or its patience has ended
//! ```
//!
//! It knows no sockets. A client that waits is an entry in a heap, and one that tries is a slot of the slab.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;
use plimsoll_model::storm::{Reconnect, StormClients};

use super::pacer::Pacer;
use super::rows::mixed;
use super::transport::LeftOpen;
use crate::slots::slot_mut;

/// Pause after an attempt that was refused at once: without one, a client of a server that is full would try thousands
/// of times per second.
const REFUSED_PAUSE: Nanos = Nanos::from_millis(100);

/// One worker's part of a storm.
pub(super) struct StormRun {
    pub(super) id: u32,
    pub(super) clients: StormClients,
    /// Connections still to be cut, and the slot from which on all have been checked; `None` before the first one.
    pub(super) to_cut: u64,
    pub(super) cursor: Option<u32>,
    /// The instant of the cut.
    pub(super) began: Nanos,
    /// Clients whose connections were cut; `back` counts the ones that are back.
    cut: u64,
    back: u64,
    /// Clients that stop trying when their current attempts end.
    leaving: u64,
    /// Clients that wait for an attempt: when it is due, and how many they have made.
    waiting: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// Attempts that the client of each slot has made, and when the latest began.
    tries: Vec<(u32, Nanos)>,
    /// Attempts of all clients together, for a policy that bounds their rate.
    pacer: Option<Pacer>,
    /// State of the random numbers.
    random: u64,
    /// Attempts that the client being opened has made.
    pub(super) opening: u32,
    /// Sockets that silent clients left open, until the storm has ended.
    pub(super) left: Vec<LeftOpen>,
}

impl StormRun {
    /// Creates the part of `shard` in a storm that cuts `cut` of its connections at `began`.
    pub(super) fn new(
        id: u32,
        clients: StormClients,
        cut: u64,
        began: Nanos,
        shard: Shard,
        seed: u64,
    ) -> Self {
        let pacer = match clients.reconnect {
            Reconnect::Rate(per_s) => Some(Pacer::new(began, per_s, shard)),
            Reconnect::Immediate | Reconnect::Backoff { .. } => None,
        };
        let mixed = (u64::from(id) << 32) | u64::from(shard.index);
        Self {
            id,
            clients,
            to_cut: cut,
            cursor: None,
            began,
            cut: 0,
            back: 0,
            leaving: 0,
            waiting: BinaryHeap::new(),
            tries: Vec::new(),
            pacer,
            random: seed ^ mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15),
            opening: 0,
            left: Vec::new(),
        }
    }

    /// Adds the client of a connection that was cut: it waits for its first attempt.
    pub(super) fn add_client(&mut self, now: Nanos) {
        self.to_cut -= 1;
        self.cut += 1;
        self.wait(0, now);
    }

    /// Makes a client that has made `attempts` wait for the next one.
    fn wait(&mut self, attempts: u32, from: Nanos) {
        let share = self.next_share();
        let pause = self.clients.reconnect.pause(attempts, share);
        self.waiting.push(Reverse((from + pause, attempts)));
    }

    /// Returns the next random number, 0 to 1: SplitMix64.
    fn next_share(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        (mixed(self.random) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns the next client that tries to come back now: when its attempt was due. A pace has no such instant.
    pub(super) fn poll_attempt(&mut self, now: Nanos) -> Option<Nanos> {
        let Some(Reverse((due, attempts))) = self.waiting.peek().copied() else {
            self.pacer.iter_mut().for_each(Pacer::rest);
            return None;
        };
        if due > now || self.pacer.as_mut().is_some_and(|pacer| !pacer.poll_open(now, true)) {
            return None;
        }
        self.waiting.pop();
        self.opening = attempts;
        Some(if self.pacer.is_some() { now } else { due })
    }

    /// Begins the attempt of the client being opened, in the slot `index`.
    pub(super) fn begin_attempt(&mut self, index: u32, now: Nanos) {
        let tried = slot_mut(&mut self.tries, index, || (0, Nanos::ZERO));
        *tried = (self.opening + 1, now);
    }

    /// Returns the time at which the attempt of the client in the slot `index` began.
    pub(super) fn attempt_began(&self, index: u32) -> Nanos {
        self.tries.get(index as usize).map_or(Nanos::ZERO, |(_, began)| *began)
    }

    /// Ends a failed attempt of the client in the slot, or of the one being opened. `is_refused` if the client's
    /// patience was not the cause. Returns whether the client stops trying.
    pub(super) fn end_attempt(&mut self, index: Option<u32>, is_refused: bool, now: Nanos) -> bool {
        if self.leaving > 0 {
            self.leaving -= 1;
            self.cut -= 1;
            return true;
        }
        let opening = (self.opening + 1, now);
        let tried = index.and_then(|index| self.tries.get(index as usize).copied());
        let (attempts, _) = tried.unwrap_or(opening);
        self.wait(attempts, if is_refused { now + REFUSED_PAUSE } else { now });
        false
    }

    /// Makes a share of the clients that are not back stop trying. Returns the number of waiting clients that stopped;
    /// the others finish their attempts first.
    pub(super) fn withdraw(&mut self, share: f64) -> u64 {
        let trying = self.cut.saturating_sub(self.back + self.leaving);
        let leaving = (trying as f64 * share).ceil() as u64;
        let waited = leaving.min(self.waiting.len() as u64);
        for _ in 0..waited {
            self.waiting.pop();
        }
        self.cut -= waited;
        self.leaving += leaving - waited;
        waited
    }

    /// Counts a client that is back; returns the time since the cut.
    pub(super) fn count_back(&mut self, now: Nanos) -> Nanos {
        self.back += 1;
        now.since(self.began)
    }

    /// Handles the loss of the connection of a client that was back.
    pub(super) fn lose_again(&mut self, now: Nanos) {
        self.back -= 1;
        self.wait(0, now + REFUSED_PAUSE);
    }

    /// Reports whether all clients are back.
    pub(super) const fn is_over(&self) -> bool {
        self.to_cut == 0 && self.back == self.cut
    }

    /// Returns the time at which the cut is due, or at which [`Self::poll_attempt`] may have a client next.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        if self.to_cut > 0 {
            return Some(self.began);
        }
        let Reverse((due, _)) = self.waiting.peek()?;
        let paced = self.pacer.as_ref().and_then(Pacer::next_due).unwrap_or(Nanos::ZERO);
        Some((*due).max(paced))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storm(policy: &str, cut: u64) -> StormRun {
        let reconnect = policy.parse().expect("a policy");
        let clients = StormClients { reconnect, ..StormClients::default() };
        let mut storm = StormRun::new(1, clients, cut, Nanos::from_secs(1), Shard::WHOLE, 7);
        for _ in 0..cut {
            storm.add_client(Nanos::from_secs(1));
        }
        storm
    }

    fn attempts(storm: &mut StormRun, now: Nanos) -> usize {
        std::iter::from_fn(|| storm.poll_attempt(now)).count()
    }

    #[test]
    fn immediate_clients_come_at_once_and_again_when_their_patience_ends() {
        let mut storm = storm("immediate", 3);
        let now = Nanos::from_secs(1);
        for index in 0..3 {
            assert_eq!(storm.poll_attempt(now), Some(now));
            storm.begin_attempt(index, now);
        }
        assert_eq!((storm.poll_attempt(now), storm.next_due()), (None, None));
        // One comes back, one leaves after 5 s, and one is refused.
        let later = now + Nanos::from_secs(5);
        assert_eq!(storm.count_back(later), Nanos::from_secs(5));
        storm.end_attempt(Some(1), false, later);
        storm.end_attempt(Some(2), true, later);
        assert_eq!(attempts(&mut storm, later), 1);
        assert_eq!(storm.next_due(), Some(later + REFUSED_PAUSE));
        assert!(!storm.is_over());
        for _ in 0..2 {
            storm.count_back(later);
        }
        assert!(storm.is_over());
        storm.lose_again(later);
        assert!(!storm.is_over());
    }

    #[test]
    fn clients_that_withdraw_leave_when_they_wait_or_at_the_end_of_their_attempt() {
        let mut storm = storm("immediate", 8);
        let now = Nanos::from_secs(1);
        for index in 0..6 {
            storm.poll_attempt(now);
            storm.begin_attempt(index, now);
        }
        storm.count_back(now);
        // Four of seven: two wait, and two leave with the next attempts that fail.
        assert_eq!(storm.withdraw(0.5), 2);
        let ends: Vec<bool> =
            (1..6).map(|index| storm.end_attempt(Some(index), false, now)).collect();
        assert_eq!(ends, [true, true, false, false, false]);
        for _ in 0..3 {
            assert!(!storm.is_over());
            storm.count_back(now);
        }
        assert!(storm.is_over());
    }

    #[test]
    fn a_rate_bounds_all_attempts_together() {
        let mut storm = storm("rate:10/s", 100);
        assert_eq!(attempts(&mut storm, Nanos::from_secs(1)), 1);
        assert_eq!(attempts(&mut storm, Nanos::from_secs(3)), 20);
        assert!(storm.next_due() > Some(Nanos::from_secs(3)));
    }

    #[test]
    fn jitter_spreads_the_first_attempts_evenly() {
        let mut storm = storm("backoff:10s..60s,jitter", 1_000);
        let firsts: Vec<usize> =
            (1..=10u64).map(|second| attempts(&mut storm, Nanos::from_secs(1 + second))).collect();
        assert_eq!(firsts.iter().sum::<usize>(), 1_000);
        assert!(firsts.iter().all(|count| (60..=140).contains(count)), "{firsts:?}");
    }
}
