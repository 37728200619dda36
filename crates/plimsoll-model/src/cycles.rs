//! Cycles of a hold (fill, hold, drain, settle, repeat), and the memory that the server retains after each.
//!
//! After each cycle a [`CycleReading`] stores one value per part of the server's use ([`KeptPart`]: processes, pools,
//! files, …) in a map by name. `plimsoll-capacity` fits the [`Growth`] per cycle with a 90 % interval, over the
//! cycles after the caches have filled, and gives a [`CyclesVerdict`]; [`CyclesSummary`] is the result in JSON.
//! [`GrowthLimit`] parses the limit that fails a run. Start reading at [`CyclesSummary`].

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::trial::Unit;
use crate::units::{ParseError, parse_size};

named! {
    /// A part of what a server uses, also after its connections were closed.
    pub enum KeptPart {
        /// Private memory of all its processes.
        Processes = "processes",
        /// Private memory of one of its processes.
        Process = "process",
        /// Memory in use within HAProxy's pools.
        PoolsUsed = "pools-used",
        /// Memory allocated by HAProxy's pools: in use, and free for reuse.
        PoolsAllocated = "pools-allocated",
        /// Open files of its processes.
        OpenFiles = "open-files",
        /// Threads of its processes.
        Threads = "threads",
        /// The kernel's objects, on the whole host.
        Slab = "slab",
        /// Buffers of TCP sockets, on the whole host.
        SocketBuffers = "socket-buffers",
    }
}

impl KeptPart {
    /// Returns the unit of the part's values.
    pub const fn unit(self) -> Unit {
        match self {
            Self::OpenFiles | Self::Threads => Unit::Count,
            _ => Unit::Bytes,
        }
    }

    /// Returns the name of the part for one process.
    pub fn of_process(pid: u32) -> String {
        format!("{}-{pid}", Self::Process.name())
    }

    /// Finds the part of this name.
    pub fn named(name: &str) -> Option<Self> {
        let is_process =
            name.strip_prefix(Self::Process.name()).is_some_and(|rest| rest.starts_with('-'));
        match is_process {
            true => Some(Self::Process),
            false => Self::ALL.into_iter().find(|part| part.name() == name),
        }
    }
}

/// Readings of a server at one instant, by the name of the part: `processes`, `process-1234`.
pub type Kept = BTreeMap<String, u64>;

/// One cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleReading {
    /// Number of the cycle, from 1.
    pub cycle: u64,
    /// Connections that were held.
    pub held: u64,
    /// Memory of the server's processes while they were held, bytes.
    pub full_bytes: Option<u64>,
    /// Read after the connections were closed and the server has settled.
    #[serde(flatten)]
    pub kept: Kept,
}

/// Growth per cycle with its interval of 90 %, in the unit of its part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "ends and middle of the interval")]
pub struct Growth {
    pub low: f64,
    pub mid: f64,
    pub high: f64,
}

named! {
    /// The verdict on a server that may keep more memory after each cycle.
    pub enum CyclesVerdict {
        /// Memory grows, by an amount that matters.
        Grows = "grows",
        /// Memory does not grow: growth above `growth.high` is excluded.
        NoGrowth = "no-growth",
        /// The cycles are too few for either.
        Undecided = "undecided",
        /// The server's memory could not be read.
        Unmeasured = "unmeasured",
    }
}

/// One part over all cycles.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptSeries {
    /// The unit of `growth`.
    pub unit: Unit,
    /// The first cycle of the stretch that `growth` is measured over, from 1: those before it filled pools and caches.
    pub settled_from: u64,
    /// Per cycle; `None` for fewer than three cycles.
    pub growth: Option<Growth>,
    /// `true` if it grows by an amount that matters.
    pub grows: bool,
}

/// The result of cycles: `hold.cycles` of the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CyclesSummary {
    /// Cycles that were completed.
    pub count: u64,
    /// Cycles that were asked for.
    pub asked: u64,
    /// Connections of each, on average.
    pub connections: f64,
    /// The verdict on the server's memory after each cycle.
    pub verdict: CyclesVerdict,
    /// Growth of the memory of its processes.
    pub growth_bytes_per_cycle: Option<Growth>,
    /// The first cycle that it is measured over, from 1.
    pub settled_from: u64,
    /// Cycles to make beside these; set while undecided.
    pub more_cycles: Option<u64>,
    /// Memory of the server's processes while connections were held, in the median cycle.
    pub full_bytes: Option<u64>,
    /// Each cycle.
    pub readings: Vec<CycleReading>,
    /// Each part that was read after every cycle, by name.
    pub parts: BTreeMap<String, KeptSeries>,
}

/// The most that memory may grow by per cycle: `growth>1MB` fails above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrowthLimit {
    /// Bytes per cycle.
    pub bytes: u64,
}

impl FromStr for GrowthLimit {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refused = || ParseError {
            text: text.trim().to_owned(),
            expected: "memory per cycle that must not be exceeded, such as growth>1MB",
        };
        let size = text.trim().strip_prefix("growth").ok_or_else(refused)?;
        let size = size.trim_start().strip_prefix('>').ok_or_else(refused)?;
        parse_size(size).map(|bytes| Self { bytes }).map_err(|_| refused())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_growth_are_parsed() {
        for text in ["growth>1MB", " growth > 1000 kB"] {
            assert_eq!(text.parse(), Ok(GrowthLimit { bytes: 1_000_000 }), "{text}");
        }
        for text in ["", "growth", "growth<1MB", "growth>5%", "p99>1MB"] {
            assert!(text.parse::<GrowthLimit>().is_err(), "{text}");
        }
    }

    #[test]
    fn parts_have_names() {
        assert_eq!(KeptPart::named(&KeptPart::of_process(7)), Some(KeptPart::Process));
        assert_eq!(KeptPart::named("processes"), Some(KeptPart::Processes));
        assert_eq!(KeptPart::named("pools"), None);
        let text = r#"{"cycle":1,"held":9,"full_bytes":null,"process-7":5,"processes":5}"#;
        let reading: CycleReading = serde_json::from_str(text).expect("fields of the contract");
        assert_eq!(reading.kept.len(), 2);
        assert_eq!(serde_json::to_string(&reading).expect("serialises"), text);
    }
}
