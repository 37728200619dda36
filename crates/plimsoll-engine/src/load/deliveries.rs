//! Deliveries of messages that the load itself publishes: whether each came, how often, in which order, and how late.
//!
//! Each payload begins with a stamp that names the publisher's connection and counts its publishes. The plan determines
//! the expected deliveries: the subscriptions of the load that match the topic. A subscription of one thread may get
//! what another thread or another agent publishes, so that only sums show losses.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{LoadPlan, MqttPlan};
use plimsoll_model::tally::DeliveryCounts;
use plimsoll_model::target::{Filling, Filters};

use crate::slots::slot_mut;

/// Pairs of a publisher and a subscriber that one worker follows: about 200 MB. What further ones deliver is counted
/// as unclassified.
const PAIRS_MAX: usize = 1 << 22;
/// Distance from the newest message of its publisher within which a delivery is distinguished from a repeated one.
const BEHIND_MAX: u32 = u64::BITS;
/// Once nothing is published any more, the wait for deliveries ends when none has come for this time.
pub(super) const QUIET: Nanos = Nanos::from_secs(5);
/// A number of subscriptions that is not known yet.
const UNKNOWN: u32 = u32::MAX;

/// One worker's part in it.
pub(super) struct Deliveries {
    /// Number in the stamps of the load's own messages.
    run: u32,
    pub(super) shard: Shard,
    /// The threads whose clock is read here, too.
    on_host: std::ops::Range<u32>,
    mqtt: MqttPlan,
    topic: String,
    filters: Filters,
    /// By slot of a connection.
    publishers: Vec<Publisher>,
    seen: HashMap<u64, Seen, BuildHasherDefault<PairHasher>>,
    /// Deliveries that are still to come, as far as this worker knows; of others it may get more than that.
    pub(super) missing: i64,
    /// Time of the latest message.
    pub(super) came: Nanos,
    /// Time at which the wait for deliveries ends; set once nothing more is published.
    pub(super) settles_by: Option<Nanos>,
}

/// A connection that publishes.
#[derive(Clone, Copy, Debug)]
struct Publisher {
    /// Number of its next publish.
    next: u32,
    /// Subscriptions that its topic matches.
    subscriptions: u32,
}

impl Deliveries {
    /// Creates the state, boxed, because few loads have it; `None` for loads that do not count deliveries.
    pub(super) fn new(plan: &LoadPlan, shard: Shard) -> Option<Box<Self>> {
        let mqtt = plan.mqtt.as_ref()?;
        let run = mqtt.deliveries?.run;
        let publish = plan.targets.first()?.publish.as_ref()?;
        Some(Box::new(Self {
            run: of_load(run, plan.seed),
            shard,
            on_host: plan.part.on_host.clone().unwrap_or(0..shard.of),
            topic: publish.topic.clone(),
            filters: mqtt.filters(plan.connections),
            mqtt: mqtt.clone(),
            publishers: Vec::new(),
            seen: HashMap::default(),
            missing: 0,
            came: Nanos::ZERO,
            settles_by: None,
        }))
    }

    fn publisher(&mut self, slot: u32) -> &mut Publisher {
        let fresh = || Publisher { next: 0, subscriptions: UNKNOWN };
        slot_mut(&mut self.publishers, slot, fresh)
    }

    /// Numbers a publish of the connection in a slot.
    pub(super) fn number(&mut self, slot: u32) -> u32 {
        let publisher = self.publisher(slot);
        let number = publisher.next;
        publisher.next = number.wrapping_add(1);
        number
    }

    /// Returns the number of subscriptions that receive the publishes of the connection in a slot.
    fn subscriptions(&mut self, slot: u32) -> u32 {
        let known = self.publisher(slot).subscriptions;
        if known != UNKNOWN {
            return known;
        }
        let topic = self.mqtt.filled(&self.topic, number_of(slot, self.shard).into());
        let matching = u32::try_from(self.filters.matching(&topic)).unwrap_or(UNKNOWN - 1);
        self.publisher(slot).subscriptions = matching;
        matching
    }

    /// Expects the deliveries of an acknowledged publish of the connection in a slot.
    pub(super) fn expect(&mut self, slot: u32, counts: &mut DeliveryCounts) {
        let subscriptions = self.subscriptions(slot);
        counts.expected += u64::from(subscriptions);
        self.missing += i64::from(subscriptions);
    }

    /// Counts a publish of the connection in a slot that was sent and not acknowledged, or refused: it may be
    /// delivered.
    pub(super) fn lose_sight(&mut self, slot: u32, counts: &mut DeliveryCounts) {
        counts.unknown += u64::from(self.subscriptions(slot));
    }

    /// Counts a message for the connection in a slot that begins with this stamp. Returns whether it is timed: it came
    /// for the first time, and was published on this host.
    pub(super) fn take(
        &mut self,
        slot: u32,
        stamp: Option<Filling>,
        counts: &mut DeliveryCounts,
    ) -> bool {
        let Some(stamp) = stamp.filter(|stamp| stamp.run == self.run) else {
            counts.foreign += 1;
            return false;
        };
        let subscriber = number_of(slot, self.shard);
        let pair = u64::from(subscriber) << 32 | u64::from(stamp.connection);
        let is_full = self.seen.len() >= PAIRS_MAX && !self.seen.contains_key(&pair);
        let arrival = match is_full {
            true => Arrival::Unclassified,
            false => self.seen.entry(pair).or_default().note(stamp.operation),
        };
        match arrival {
            Arrival::First => {}
            Arrival::Behind => counts.reordered += 1,
            Arrival::Repeated => {
                counts.repeated += 1;
                return false;
            }
            Arrival::Unclassified => {
                counts.unclassified += 1;
                self.missing -= 1;
                return false;
            }
        }
        counts.delivered += 1;
        self.missing -= 1;
        self.on_host.contains(&(stamp.connection % self.shard.of.max(1)))
    }
}

/// Returns the number that distinguishes a load from others of the same run: each load of a search has its own seed.
pub(super) const fn of_load(run: u32, seed: u64) -> u32 {
    run.wrapping_add(seed as u32)
}

/// Returns the number of the connection in a slot: no other connection of the load has it at the same time. Slots are
/// dense in each worker, and so are these numbers in the load.
pub(super) const fn number_of(slot: u32, shard: Shard) -> u32 {
    slot.wrapping_mul(shard.of).wrapping_add(shard.index)
}

/// The messages received by one subscriber from one publisher.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// Bit n: the one n before `newest` has come. None of them before the first.
    before: u64,
    newest: u32,
}

const _: () = assert!(size_of::<Seen>() == 16);

/// The kind of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrival {
    First,
    /// For the first time, behind a later one.
    Behind,
    Repeated,
    /// So far behind that it may be first or repeated.
    Unclassified,
}

impl Seen {
    fn note(&mut self, number: u32) -> Arrival {
        if self.before == 0 {
            *self = Self { before: 1, newest: number };
            return Arrival::First;
        }
        // Numbers begin again behind the last.
        let ahead = number.wrapping_sub(self.newest);
        if ahead as i32 > 0 {
            self.before = self.before.checked_shl(ahead).unwrap_or(0) | 1;
            self.newest = number;
            return Arrival::First;
        }
        let behind = ahead.wrapping_neg();
        if behind >= BEHIND_MAX {
            return Arrival::Unclassified;
        }
        let bit = 1 << behind;
        if self.before & bit != 0 {
            return Arrival::Repeated;
        }
        self.before |= bit;
        Arrival::Behind
    }
}

/// Spreads pairs of small numbers (splitmix64's last step); no outsider chooses them.
#[derive(Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, pair: u64) {
        let mixed = (pair ^ pair >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 29;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn messages_are_told_apart_by_their_numbers() {
        use Arrival::{Behind, First, Repeated, Unclassified};
        let mut seen = Seen::default();
        let notes = [5, 6, 6, 9, 7, 7, 4, 5, 80, 16, 17, 16, 80].map(|number| seen.note(number));
        let expected = [
            First,
            First,
            Repeated,
            First,
            Behind,
            Repeated,
            Behind,
            Repeated,
            First,
            Unclassified,
            Behind,
            Unclassified,
            Repeated,
        ];
        assert_eq!(notes, expected);
        let mut wrapping = Seen::default();
        assert_eq!(
            [u32::MAX, 0, u32::MAX, 1].map(|number| wrapping.note(number)),
            [First, First, Repeated, First]
        );
    }

    proptest! {
        #[test]
        fn within_the_window_every_message_is_counted_once(
            numbers in prop::collection::vec(0u32..60, 1..200),
        ) {
            let mut seen = Seen::default();
            let mut known = std::collections::HashSet::new();
            for number in numbers {
                let arrival = seen.note(number);
                prop_assert_eq!(arrival == Arrival::Repeated, !known.insert(number));
                prop_assert_ne!(arrival, Arrival::Unclassified);
            }
        }
    }
}
