//! The offset between this host's clock and another one's, from pings over the pipe.
//!
//! Four times of CLOCK_MONOTONIC make a sample: sent and received here, received and answered there. The
//! true offset lies within half of what the round trip took besides the answering, whatever the path. So
//! the sample with the shortest round trip has the smallest bound.

use std::collections::VecDeque;

use plimsoll_model::Nanos;

/// Samples that are enough for a start.
pub(crate) const SAMPLES_NEEDED: u32 = 8;
/// A sample counts for so long: rates of two clocks differ.
const AGE_MAX: Nanos = Nanos::from_secs(60);
/// More are never kept; they come once a second.
const SAMPLES_MAX: usize = 128;

/// One round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Lead of the clock there over the one here.
    pub(crate) offset_ns: i64,
    /// Round trip without the time that the answer took there.
    pub(crate) round_trip: Nanos,
    pub(crate) at: Nanos,
}

impl Sample {
    /// Returns the largest error of the offset.
    pub(crate) const fn bound(&self) -> Nanos {
        Nanos(self.round_trip.0.div_ceil(2))
    }

    /// Converts an instant of the clock there to the clock here.
    pub(crate) const fn here(&self, there: Nanos) -> Nanos {
        Nanos(there.0.saturating_add_signed(self.offset_ns.saturating_neg()))
    }

    /// Converts an instant of the clock here to the clock there.
    pub(crate) const fn there(&self, here: Nanos) -> Nanos {
        Nanos(here.0.saturating_add_signed(self.offset_ns))
    }
}

/// The clock of one host.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostClock {
    samples: VecDeque<Sample>,
    /// Pings that were answered.
    answered: u32,
}

impl HostClock {
    /// Adds an answered ping: sent and received at these times here, received and answered at those there.
    pub(crate) fn add(&mut self, sent: Nanos, there: (Nanos, Nanos), received: Nanos) {
        self.answered += 1;
        // The first one has waited for the process to start.
        if self.answered == 1 {
            return;
        }
        let (arrived, left) = there;
        let outward = i128::from(arrived.0) - i128::from(sent.0);
        let homeward = i128::from(left.0) - i128::from(received.0);
        let offset_ns = i64::try_from((outward + homeward) / 2).unwrap_or(0);
        let round_trip = Nanos(received.since(sent).0.saturating_sub(left.since(arrived).0));
        let oldest = received.since(AGE_MAX);
        self.samples.retain(|sample| sample.at >= oldest);
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { offset_ns, round_trip, at: received });
    }

    /// Reports whether there were enough pings to trust the best.
    pub(crate) const fn is_settled(&self) -> bool {
        self.answered > SAMPLES_NEEDED
    }

    /// Returns the best sample of the last minute.
    pub(crate) fn best(&self) -> Option<Sample> {
        self.samples.iter().copied().min_by_key(|sample| sample.round_trip)
    }

    /// Returns the longest round trip of the last minute.
    pub(crate) fn longest_round_trip(&self) -> Nanos {
        self.samples.iter().map(|sample| sample.round_trip).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: u64 = 5_000_000_000_000;

    /// Adds a ping after `at` with these times on the way, to a host whose clock differs by `offset`.
    fn ping(clock: &mut HostClock, at: u64, offset: i64, out: u64, answer: u64, home: u64) {
        let sent = Nanos(HERE + at);
        let arrived = Nanos((sent.0 + out).saturating_add_signed(offset));
        let left = Nanos(arrived.0 + answer);
        clock.add(sent, (arrived, left), Nanos(sent.0 + out + answer + home));
    }

    #[test]
    fn the_first_ping_does_not_count_and_the_shortest_round_trip_does() {
        let mut clock = HostClock::default();
        // Nothing else is so short.
        ping(&mut clock, 0, 1_000_000, 1, 1, 1);
        assert_eq!(clock.best(), None);
        for (at, out, home) in [(1, 900_000, 10), (2, 300, 100), (3, 10, 400_000)] {
            ping(&mut clock, at * 1_000_000, -3_000_000, out, 7_000, home);
        }
        let best = clock.best().unwrap();
        assert_eq!((best.round_trip, best.bound()), (Nanos(400), Nanos(200)));
        // Wrong by half of the difference of the two ways.
        assert_eq!(best.there(Nanos(HERE)), Nanos(HERE - 3_000_000 + 100));
        assert_eq!(best.here(best.there(Nanos(HERE))), Nanos(HERE));
        assert_eq!(clock.longest_round_trip(), Nanos(900_010));
        assert!(!clock.is_settled());
    }

    #[test]
    fn old_samples_are_dropped() {
        let mut clock = HostClock::default();
        for second in 0..200u64 {
            // Ever slower.
            ping(&mut clock, second * 1_000_000_000, 0, 1_000 + second, 1, 1_000);
        }
        assert!(clock.is_settled());
        let best = clock.best().unwrap();
        assert_eq!(best.round_trip, Nanos(2_000 + 199 - 59));
    }

    proptest! {
        #[test]
        fn the_bound_holds_whatever_the_path(
            offset in -1_000_000_000_000i64..1_000_000_000_000,
            ways in prop::collection::vec((1u64..1_000_000, 0u64..1_000_000, 1u64..1_000_000), 2..20),
        ) {
            let mut clock = HostClock::default();
            for (number, (out, answer, home)) in ways.iter().enumerate() {
                ping(&mut clock, number as u64 * 4_000_000, offset, *out, *answer, *home);
            }
            let best = clock.best().unwrap();
            let seen = best.there(Nanos(HERE)).0 as i128 - i128::from(HERE);
            prop_assert!((seen - i128::from(offset)).unsigned_abs() <= u128::from(best.bound().0) + 1);
        }
    }
}
