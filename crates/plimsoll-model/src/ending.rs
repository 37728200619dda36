//! Durations of operations, attempts and connections that ended early; hidden timers show in them.
//!
//! A timer that fires makes durations pile up at its value. Which durations, and who ended them,
//! is counted here; what a peak means is decided in `capacity`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{ErrorClass, Histogram, Nanos};

/// Statuses of timeouts and full queues, and 500, which applications send for both. Durations of
/// other failures show no timers.
const TIMED_STATUSES: [u16; 8] = [408, 429, 500, 502, 503, 504, 522, 524];

named! {
    /// Over what a duration was measured.
    #[derive(PartialOrd, Ord)]
    pub enum Stretch {
        /// The actual send of an operation to its end.
        Operation = "operation",
        /// The SYN to the end of the attempt.
        Opening = "opening",
        /// Usable to closed.
        Lifetime = "lifetime",
        /// The last answer (or usable, if there was none) to closed, with nothing asked in between.
        Idle = "idle",
    }
}

/// The end that ended a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Closer {
    /// The event ended well: an answer below 400, an established connection.
    Success,
    /// The peer's FIN or close_notify.
    PeerFin,
    /// The peer's RST.
    PeerReset,
    /// The peer answered and closed: with `Connection: close`, or without a request.
    PeerAnswer,
    /// A TLS alert of the peer.
    TlsAlert,
    /// A complete answer with this status.
    Status(u16),
    /// One of plimsoll's own timers.
    OwnTimer,
    /// This host's kernel gave up: no answer to the SYN.
    Kernel,
    /// plimsoll, and no timer.
    Us,
}

/// Every closer but the statuses, with its name.
const NAMED: [(Closer, &str); 8] = [
    (Closer::Success, "success"),
    (Closer::PeerFin, "peer-fin"),
    (Closer::PeerReset, "peer-reset"),
    (Closer::PeerAnswer, "peer-answer"),
    (Closer::TlsAlert, "tls-alert"),
    (Closer::OwnTimer, "own-timer"),
    (Closer::Kernel, "kernel"),
    (Closer::Us, "us"),
];

impl Closer {
    /// Returns the closer of an operation or an opening that failed in `class`; `None` if the duration
    /// has nothing to do with a timer.
    pub const fn of_class(class: ErrorClass) -> Option<Self> {
        match class {
            ErrorClass::Timeout => Some(Self::OwnTimer),
            ErrorClass::ConnectTimeout => Some(Self::Kernel),
            ErrorClass::ClosedByPeer | ErrorClass::KeepaliveRace | ErrorClass::TlsClosed => {
                Some(Self::PeerFin)
            }
            ErrorClass::ResetByPeer | ErrorClass::ConnectReset => Some(Self::PeerReset),
            ErrorClass::TlsAlert | ErrorClass::TlsRecord => Some(Self::TlsAlert),
            _ => None,
        }
    }

    /// Returns the closer of an operation that was answered with a failing `status`; `None` as above.
    pub fn of_status(status: u16) -> Option<Self> {
        TIMED_STATUSES.contains(&status).then_some(Self::Status(status))
    }

    /// Reports whether the peer ended it.
    pub const fn is_peer(self) -> bool {
        !matches!(self, Self::Success | Self::OwnTimer | Self::Kernel | Self::Us)
    }
}

impl fmt::Display for Closer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Status(status) = self {
            return write!(f, "status-{status}");
        }
        let named = NAMED.iter().find(|(closer, _)| closer == self);
        f.write_str(named.map_or("", |(_, name)| name))
    }
}

written_as_text!(Closer, SeriesKey);

/// The text names no closer, or no series.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} names nothing that ends a connection or an operation")]
pub struct UnknownName(String);

impl FromStr for Closer {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        if let Some(status) = text.strip_prefix("status-") {
            return status.parse().map(Self::Status).map_err(|_| UnknownName(text.to_owned()));
        }
        let named = NAMED.iter().find(|(_, name)| *name == text);
        named.map(|(closer, _)| *closer).ok_or_else(|| UnknownName(text.to_owned()))
    }
}

/// Key of a series: a stretch and who ended it. Written `idle/peer-fin`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SeriesKey {
    /// Over what.
    pub stretch: Stretch,
    /// Ended by whom.
    pub closer: Closer,
}

impl fmt::Display for SeriesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stretch.name(), self.closer)
    }
}

impl FromStr for SeriesKey {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let unknown = || UnknownName(text.to_owned());
        let (stretch, closer) = text.split_once('/').ok_or_else(unknown)?;
        let stretch = Stretch::ALL.into_iter().find(|s| s.name() == stretch).ok_or_else(unknown)?;
        Ok(Self { stretch, closer: closer.parse()? })
    }
}

/// The durations of one series, and figures that distinguish a timer from one event that ended many at once, or from a
/// limit on requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Lengths of the stretches.
    pub durations: Histogram,
    /// CLOCK_MONOTONIC of the first end.
    pub first: Nanos,
    /// CLOCK_MONOTONIC of the last end.
    pub last: Nanos,
    /// Fewest operations that a connection had had; 0 if connections are not what ended.
    pub ops_min: u32,
    /// Most operations that a connection had had.
    pub ops_max: u32,
}

impl Default for Series {
    fn default() -> Self {
        Self {
            durations: Histogram::new(),
            first: Nanos::MAX,
            last: Nanos::ZERO,
            ops_min: u32::MAX,
            ops_max: 0,
        }
    }
}

impl Series {
    /// Counts one duration that ended `now`, on a connection that had had `ops` operations.
    pub fn record(&mut self, lasted: Nanos, ops: u32, now: Nanos) {
        self.durations.record(lasted);
        self.first = self.first.min(now);
        self.last = self.last.max(now);
        self.ops_min = self.ops_min.min(ops);
        self.ops_max = self.ops_max.max(ops);
    }

    fn merge(&mut self, other: &Self) {
        self.durations.merge(&other.durations);
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.ops_min = self.ops_min.min(other.ops_min);
        self.ops_max = self.ops_max.max(other.ops_max);
    }
}

/// Durations by series. Empty until something ends that may have been ended by a timer, and then
/// about 200 kB for each series; never more than 4 stretches times 16 closers of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Endings(BTreeMap<SeriesKey, Series>);

impl Endings {
    /// Counts one duration; see [`Series::record`].
    pub fn record(
        &mut self,
        stretch: Stretch,
        closer: Closer,
        lasted: Nanos,
        ops: u32,
        now: Nanos,
    ) {
        self.0.entry(SeriesKey { stretch, closer }).or_default().record(lasted, ops, now);
    }

    /// Adds every count of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (key, series) in &other.0 {
            self.0.entry(*key).or_default().merge(series);
        }
    }

    /// Returns the series that have values, in fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (SeriesKey, &Series)> {
        self.0.iter().map(|(key, series)| (*key, series))
    }

    /// Returns one series, if it has values.
    pub fn get(&self, stretch: Stretch, closer: Closer) -> Option<&Series> {
        self.0.get(&SeriesKey { stretch, closer })
    }

    /// Reports whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn closers() -> impl Iterator<Item = Closer> {
        let classes = ErrorClass::ALL.iter().filter_map(|class| Closer::of_class(*class));
        let statuses = TIMED_STATUSES.into_iter().filter_map(Closer::of_status);
        classes.chain(statuses).chain([Closer::Success, Closer::PeerAnswer, Closer::Us])
    }

    #[test]
    fn names_round_trip_and_others_are_refused() {
        for closer in closers() {
            assert_eq!(closer.to_string().parse(), Ok(closer));
            for stretch in Stretch::ALL {
                let key = SeriesKey { stretch, closer };
                assert_eq!(SeriesKey::try_from(key.to_string()), Ok(key));
            }
        }
        for text in ["", "status-", "status-x", "peer", "idle", "idle/", "nap/us"] {
            assert!(text.parse::<Closer>().is_err(), "{text}");
            assert!(SeriesKey::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn failures_of_this_machine_and_refusals_are_no_series() {
        let none = |class| assert_eq!(Closer::of_class(class), None, "{class:?}");
        [ErrorClass::LocalFiles, ErrorClass::ConnectRefused, ErrorClass::AgentLost]
            .into_iter()
            .for_each(none);
        assert_eq!(Closer::of_status(404), None);
        assert_eq!(Closer::of_status(504), Some(Closer::Status(504)));
    }

    fn ends() -> impl Strategy<Value = Vec<(usize, u64, u32, u64)>> {
        prop::collection::vec((0usize..8, 1u64..1 << 40, 0u32..9, 0u64..1 << 40), 0..40)
    }

    proptest! {
        #[test]
        fn merging_the_parts_equals_counting_the_whole(left in ends(), right in ends()) {
            let all: Vec<Closer> = closers().collect();
            let mut whole = Endings::default();
            let mut parts = [Endings::default(), Endings::default()];
            for (part, ends) in parts.iter_mut().zip([&left, &right]) {
                for &(which, lasted, ops, now) in ends {
                    let (stretch, closer) = (Stretch::ALL[which % 4], all[which % all.len()]);
                    part.record(stretch, closer, Nanos(lasted), ops, Nanos(now));
                    whole.record(stretch, closer, Nanos(lasted), ops, Nanos(now));
                }
            }
            let [mut merged, other] = parts;
            merged.merge(&other);
            prop_assert_eq!(&merged, &whole);
        }
    }
}
