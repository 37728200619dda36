//! Holding connections: the steps of a hold, the readings at each level, and the result.
//!
//! A controller issues one [`HoldStep`] after another. Each level on the way up becomes a [`Plateau`] with a
//! [`MemoryReading`] taken while the connections are idle and a sweep of one request per connection ([`Swept`]).
//! [`HoldSummary::new`] derives bytes per connection from the highest level, relative to the baseline without
//! connections. A [`Projection`] states at how many connections a resource runs out; `plimsoll-capacity` computes it.
//! Start reading at [`HoldStep`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::cycles::CyclesSummary;
use crate::host::LimitId;
use crate::tally::{ErrorCounts, Tally, TlsMessageCounts};
use crate::trial::Unit;

/// Returns the bytes of `total_bytes` of memory to be kept free: below them the kernel reclaims pages, and measurements
/// show nothing else. 3 %, at least 512 MiB, at most 5 %: the kernel's own watermarks grow slower than memory does.
pub fn memory_reserve_bytes(total_bytes: u64) -> u64 {
    const LEAST: u64 = 512 << 20;
    LEAST.max(total_bytes / 100 * 3).min(total_bytes / 20)
}

/// Memory and counters of this host at one instant. What could not be read is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryReading {
    /// Private memory of the agents that hold the connections.
    pub client_bytes: Option<u64>,
    /// Private memory of the SUT's processes, if they run here.
    pub sut_bytes: Option<u64>,
    /// The kernel's slab: sockets, inodes, files, epoll entries.
    pub kernel_bytes: Option<u64>,
    /// Memory in the buffers of TCP sockets.
    pub socket_buffer_bytes: Option<u64>,
    /// Memory that programs can still get without swapping: MemAvailable, less the inodes and dentries of
    /// open sockets.
    pub available_bytes: Option<u64>,
    /// All memory of the host: MemTotal.
    pub total_bytes: Option<u64>,
    /// TCP sockets in use, IPv4 and IPv6, both ends of what is local.
    pub tcp_sockets: Option<u64>,
    /// Open files of the whole host.
    pub open_files: Option<u64>,
}

/// The next step of a hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoldStep {
    /// Opens connections until the given number has been attempted in total.
    Ramp {
        /// Connections of the whole hold.
        connections: u64,
        /// New ones per second.
        per_s: f64,
    },
    /// Closes connections until the given number is held.
    Trim {
        /// Connections of the whole hold.
        connections: u64,
    },
    /// Opens none until somebody lets the ramp go on; lost ones are still replaced.
    Pause,
    /// Lets what the ramp stirred up calm down, then reads memory.
    #[default]
    Settle,
    /// Cuts connections at once, and waits until all of their clients are back.
    Storm {
        /// Connections of the whole hold that are cut.
        cut: u64,
        /// The longest random wait of a client before an attempt, if the storm tries jitter.
        #[serde(skip_serializing_if = "Option::is_none")]
        jitter: Option<Nanos>,
    },
    /// One request on every connection.
    Sweep {
        /// Connections held when it began.
        connections: u64,
        /// From the first request to the last.
        over: Nanos,
    },
    /// Holds, with heartbeats if they were asked for.
    Hold {
        /// Length of the hold.
        span: Nanos,
    },
}

impl HoldStep {
    /// Returns the number of connections that it is to reach; `None` if it changes none.
    pub const fn aim(self) -> Option<u64> {
        match self {
            Self::Ramp { connections, .. } | Self::Trim { connections } => Some(connections),
            Self::Pause
            | Self::Settle
            | Self::Storm { .. }
            | Self::Sweep { .. }
            | Self::Hold { .. } => None,
        }
    }
}

/// The result of one request on every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Connections held when it began.
    pub connections: u64,
    /// Connections that answered.
    pub answered: u64,
}

impl Swept {
    /// Creates the result of a sweep over `connections` from two tallies of the same hold. An answer with a bad status
    /// is an answer; heartbeats that failed meanwhile count as well, because their connections failed.
    pub fn between(before: &Tally, after: &Tally, connections: u64) -> Self {
        let since = |of: fn(&Tally) -> u64| of(after).saturating_sub(of(before));
        let failed = since(|tally| unanswered(&tally.failures.operations))
            .max(since(|t| t.failures.lost_held.total()));
        let answers = since(|tally| tally.ok + bad_statuses(&tally.failures.operations));
        Self { connections, answered: connections.saturating_sub(failed).min(answers) }
    }
}

/// Returns the number of complete answers with a status of 400 or above.
pub fn bad_statuses(errors: &ErrorCounts) -> u64 {
    use crate::ErrorClass::{Status4xx, Status5xx};
    errors.get(Status4xx) + errors.get(Status5xx)
}

/// Returns the number of operations that got no complete answer.
pub fn unanswered(errors: &ErrorCounts) -> u64 {
    errors.total() - bad_statuses(errors)
}

/// One level on the way up.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plateau {
    /// Connections to try, in all.
    pub asked: u64,
    /// Connections held once the ramp was over.
    pub held: u64,
    /// Duration of the ramp to this level.
    pub ramp: Nanos,
    /// Read before the sweep, while the connections were idle.
    pub memory: MemoryReading,
    /// The sweep; `None` when the hold ended before it.
    pub swept: Option<Swept>,
}

named! {
    /// The confidence in a projection.
    pub enum Confidence {
        /// Two levels only, or more that disagree.
        Low = "low",
        /// Three levels in rough agreement, or an extrapolation to more than four times the last one.
        Fair = "fair",
        /// Four levels or more whose slopes agree within 10 %.
        Good = "good",
        /// Not fitted: each connection needs a known part of a known total.
        Exact = "exact",
    }
}

/// The side that owns a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The clients': no limit of the server.
    Generator,
    /// The server's.
    Server,
    /// Everybody's on this host.
    Host,
}

/// The way in which connections are closed at the end of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClosedBy {
    /// By RST, which leaves no TIME_WAIT.
    Rst,
}

/// The number of connections at which one resource runs out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Projection {
    /// The resource.
    pub resource: LimitId,
    /// Unit of the figures.
    pub unit: Unit,
    /// Units of the resource per additional connection.
    pub per_connection: f64,
    /// The most that may be used, without any reserve.
    pub limit: f64,
    /// Connections at which the limit is reached; `None` when nothing grows.
    pub ends_at: Option<u64>,
    /// The cautious end of the confidence interval of `ends_at`.
    pub ends_at_min: Option<u64>,
    /// Levels that were fitted, the empty one included.
    pub points: u32,
    /// The confidence in the figure.
    pub confidence: Confidence,
    /// The last levels needed more per connection than the first ones.
    pub superlinear: bool,
}

/// The end of a hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HoldEnd {
    /// The hold ran to completion.
    Complete,
    /// This host cannot hold more; what was reached was held and swept.
    CutShort {
        /// The resource that runs out.
        why: String,
    },
    /// The server refused, lost or did not answer connections; more were not tried.
    ServerFailed {
        /// The failure.
        why: ServerFailure,
    },
    /// Connections were missing or silent at a level that exceeds a limit of the server.
    ServerFull {
        /// The limit.
        resource: LimitId,
        /// Unit of the figures.
        unit: Unit,
        /// Units in use at that level.
        used: u64,
        /// The most that may be used.
        limit: u64,
    },
    /// No connection could be held.
    NothingHeld,
    /// The user stopped it, or the agents were lost.
    Unfinished,
}

/// The failure of a server that holds connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum ServerFailure {
    /// No connection could be opened.
    NoneOpened {
        /// Attempts that failed.
        failed: u64,
    },
    /// The server accepted no more connections.
    AcceptsNoMore,
    /// Connections were missing at a level.
    Missing {
        /// Connections that were missing.
        count: u64,
        /// Connections of the level.
        asked: u64,
    },
    /// Connections of a level did not answer.
    Silent {
        /// Connections that did not answer.
        count: u64,
        /// Connections of the level.
        asked: u64,
    },
    /// The server lost at least half of its connections on the way to a level.
    Lost {
        /// Connections lost.
        count: u64,
        /// Most connections held at once.
        held: u64,
    },
    /// The server lost at least half of its connections during a soak.
    LostInSoak {
        /// Connections lost.
        count: u64,
        /// Length of the soak.
        #[serde(rename = "soak_s", with = "crate::time::seconds")]
        soak: Nanos,
    },
}

/// The answer of `hold` and `lab hold`: `hold` of the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct HoldSummary {
    pub asked: u64,
    pub held: u64,
    pub end: HoldEnd,
    pub ramp_s: f64,
    pub ramp_per_s: f64,
    pub hold_s: f64,
    pub paused_s: f64,
    pub heartbeat_s: Option<f64>,
    pub lost: u64,
    pub loss_classes: BTreeMap<String, u64>,
    pub replaced: u64,
    pub beats: BeatSummary,
    pub last_sweep: Option<Swept>,
    #[serde(flatten)]
    pub per_connection: ConnectionBytes,
    pub both_ends_here: bool,
    pub baseline: MemoryReading,
    pub plateaus: Vec<PlateauSummary>,
    pub projections: Vec<Projection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<CyclesSummary>,
    pub sources: u64,
    pub ports_per_source: u64,
    pub closed_by: ClosedBy,
    #[serde(flatten)]
    pub tls_messages: TlsMessageCounts,
}

/// The parts of a hold's summary that are not in the tally.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "see HoldSummary")]
pub struct HoldHead {
    pub asked: u64,
    pub held: u64,
    pub end: HoldEnd,
    /// Wall time of the last stretch at the top, sweeps apart.
    pub hold: Nanos,
    /// Wall time in which ramps were paused by a key.
    pub paused: Nanos,
    pub heartbeat: Option<Nanos>,
    pub baseline: MemoryReading,
    pub plateaus: Vec<Plateau>,
    pub projections: Vec<Projection>,
    pub cycles: Option<CyclesSummary>,
    pub last_sweep: Option<Swept>,
    pub both_ends_here: bool,
    pub sources: u64,
    pub ports_per_source: u64,
}

impl HoldSummary {
    /// Creates the summary of a hold whose whole tally is `tally`.
    pub fn new(head: HoldHead, tally: &Tally) -> Self {
        let HoldHead { baseline, .. } = head;
        let plateaus: Vec<_> =
            head.plateaus.iter().map(|plateau| PlateauSummary::new(plateau, &baseline)).collect();
        let ramp_s: f64 = plateaus.iter().map(|plateau| plateau.ramp_s).sum();
        // Each cycle opens its connections afresh; each level only those above the last one.
        let ramped = match head.cycles {
            Some(_) => plateaus.iter().map(|plateau| plateau.held).sum(),
            None => plateaus.last().map_or(0, |plateau| plateau.held),
        };
        // The highest level: the fixed cost of each process weighs least there.
        let full = plateaus.iter().max_by_key(|plateau| plateau.held);
        Self {
            asked: head.asked,
            held: head.held,
            end: head.end,
            ramp_s,
            ramp_per_s: if ramp_s > 0.0 { ramped as f64 / ramp_s } else { 0.0 },
            hold_s: head.hold.as_secs_f64(),
            paused_s: head.paused.as_secs_f64(),
            heartbeat_s: head.heartbeat.map(Nanos::as_secs_f64),
            lost: tally.failures.lost_held.total(),
            loss_classes: tally.failures.lost_held.by_name(),
            replaced: tally.connections.replaced,
            beats: BeatSummary::of(tally),
            last_sweep: head.last_sweep,
            per_connection: full.map_or_else(Default::default, |plateau| plateau.per_connection),
            both_ends_here: head.both_ends_here,
            baseline,
            plateaus,
            projections: head.projections,
            cycles: head.cycles,
            sources: head.sources,
            ports_per_source: head.ports_per_source,
            closed_by: ClosedBy::Rst,
            tls_messages: tally.tls_messages,
        }
    }
}

/// Findings of a search for the most connections beside its bounds: `find.connections`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see HoldSummary")]
pub struct ConnectionsFound {
    /// Connections held at the level whose soak was passed; `None` without one.
    pub soak_held: Option<u64>,
    pub soak_s: f64,
    /// The resource that runs out first, of those that were watched.
    pub first_limit: Option<Projection>,
    /// The side that owns it.
    pub first_limit_of: Option<Side>,
    /// The resource whose projection ended the search; `None` if something else did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<Projection>,
    pub failed_at: Option<FailedAt>,
}

/// The level at which the server failed, and the prediction for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see HoldSummary")]
pub struct FailedAt {
    /// Most connections held at once on the way there.
    pub at: u64,
    pub why: ServerFailure,
    /// The resource that was projected to run out first before the last levels.
    pub predicted: Option<Projection>,
    /// The projection over `at`, less 1.
    pub predicted_off: Option<f64>,
}

/// Requests on held connections: heartbeats, and requests of sweeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see HoldSummary")]
pub struct BeatSummary {
    pub sent: u64,
    pub answered: u64,
    pub late: u64,
    pub unsent: u64,
    pub lost: u64,
}

impl BeatSummary {
    /// Creates the summary of the requests in a hold's tally.
    pub fn of(tally: &Tally) -> Self {
        Self {
            sent: tally.scheduled.saturating_sub(tally.unsent),
            answered: tally.ok + bad_statuses(&tally.failures.operations),
            late: tally.late,
            unsent: tally.unsent.saturating_sub(tally.unsent_lost),
            lost: tally.unsent_lost,
        }
    }
}

/// Memory per held connection, bytes: what it grew by since none was held, over the connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConnectionBytes {
    /// The processes that hold the connections.
    #[serde(rename = "user_bytes_per_connection")]
    pub user: Option<f64>,
    /// The processes of the SUT, if it is on this host.
    #[serde(rename = "sut_bytes_per_connection")]
    pub sut: Option<f64>,
    /// The kernel's sockets and slabs.
    #[serde(rename = "kernel_bytes_per_connection")]
    pub kernel: Option<f64>,
    /// All that the machine has less of.
    #[serde(rename = "machine_bytes_per_connection")]
    pub machine: Option<f64>,
}

/// A level with its costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see HoldSummary")]
pub struct PlateauSummary {
    pub asked: u64,
    pub held: u64,
    pub ramp_s: f64,
    #[serde(flatten)]
    pub per_connection: ConnectionBytes,
    pub available_bytes: Option<u64>,
    pub answered: Option<u64>,
}

impl PlateauSummary {
    /// Computes the costs per connection of `plateau` above `baseline`, which held none.
    pub fn new(plateau: &Plateau, baseline: &MemoryReading) -> Self {
        let per_connection = |now: Option<u64>, before: Option<u64>| {
            let grown = now? as f64 - before? as f64;
            (plateau.held > 0).then(|| (grown / plateau.held as f64).max(0.0))
        };
        let memory = &plateau.memory;
        let used = |at: &MemoryReading| Some(at.total_bytes?.saturating_sub(at.available_bytes?));
        Self {
            asked: plateau.asked,
            held: plateau.held,
            ramp_s: plateau.ramp.as_secs_f64(),
            per_connection: ConnectionBytes {
                user: per_connection(memory.client_bytes, baseline.client_bytes),
                sut: per_connection(memory.sut_bytes, baseline.sut_bytes),
                kernel: per_connection(memory.kernel_bytes, baseline.kernel_bytes),
                machine: per_connection(used(memory), used(baseline)),
            },
            available_bytes: memory.available_bytes,
            answered: plateau.swept.map(|swept| swept.answered),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorClass;

    fn tally(ok: u64, errors: &[(ErrorClass, u64)], lost: u64) -> Tally {
        let mut tally = Tally { ok, ..Tally::default() };
        errors.iter().for_each(|(class, count)| tally.failures.operations.add(*class, *count));
        tally.failures.lost_held.add(ErrorClass::ClosedByPeer, lost);
        tally
    }

    #[test]
    fn the_reserve_is_a_share_of_small_and_of_large_memories() {
        let gib = 1 << 30;
        assert_eq!(memory_reserve_bytes(0), 0);
        assert_eq!(memory_reserve_bytes(1_000), 50);
        assert_eq!(memory_reserve_bytes(8 * gib), 8 * gib / 20);
        assert_eq!(memory_reserve_bytes(12 * gib), gib / 2);
        assert_eq!(memory_reserve_bytes(100 * gib), 3 * gib);
    }

    #[test]
    fn a_sweep_counts_the_connections_that_answered() {
        let before = tally(100, &[(ErrorClass::Timeout, 3)], 1);
        for (ok, errors, lost, answered) in [
            // Every one, while heartbeats went on beside the sweep.
            (160, vec![(ErrorClass::Timeout, 3)], 1, 50),
            // Two did not answer in time, and a third was lost while idle.
            (148, vec![(ErrorClass::Timeout, 5)], 4, 47),
            // A bad status is an answer all the same.
            (100, vec![(ErrorClass::Timeout, 3), (ErrorClass::Status5xx, 50)], 1, 50),
            // Without answers nothing counts as answered.
            (100, vec![(ErrorClass::Timeout, 3)], 1, 0),
        ] {
            let swept = Swept::between(&before, &tally(ok, &errors, lost), 50);
            assert_eq!(swept, Swept { connections: 50, answered }, "{errors:?}");
        }
    }

    #[test]
    fn a_request_whose_connection_was_lost_is_lost() {
        let tally = Tally { scheduled: 9, ok: 4, unsent: 5, unsent_lost: 3, ..Tally::default() };
        let beats = BeatSummary::of(&tally);
        assert_eq!((beats.sent, beats.answered, beats.unsent, beats.lost), (4, 4, 2, 3));
    }

    #[test]
    fn names_in_json_stay() {
        let end = HoldEnd::ServerFailed { why: ServerFailure::AcceptsNoMore };
        let text = serde_json::to_string(&end).expect("serialises");
        assert_eq!(text, r#"{"server-failed":{"why":{"reason":"accepts-no-more"}}}"#);
        let failed =
            r#"{"at":5,"why":{"reason":"accepts-no-more"},"predicted":null,"predicted_off":0.5}"#;
        let text = format!(
            r#"{{"soak_held":4,"soak_s":1.5,"first_limit":null,"first_limit_of":"host","failed_at":{failed}}}"#
        );
        let found: ConnectionsFound = serde_json::from_str(&text).expect("fields of the contract");
        assert_eq!(found.first_limit_of, Some(Side::Host));
        assert_eq!(serde_json::to_string(&found).expect("serialises"), text);
    }

    #[test]
    fn costs_are_growth_over_held() {
        let baseline = MemoryReading {
            client_bytes: Some(1_000),
            kernel_bytes: Some(9_000),
            total_bytes: Some(1_000_000),
            available_bytes: Some(900_000),
            ..MemoryReading::default()
        };
        let memory = MemoryReading {
            client_bytes: Some(5_000),
            kernel_bytes: Some(8_000),
            available_bytes: Some(860_000),
            ..baseline
        };
        let plateau = Plateau { asked: 12, held: 10, ramp: Nanos::ZERO, memory, swept: None };
        let costs = PlateauSummary::new(&plateau, &baseline);
        assert_eq!(costs.per_connection.user, Some(400.0));
        assert_eq!(costs.per_connection.machine, Some(4_000.0));
        // Others gave memory back meanwhile: that is no negative cost.
        assert_eq!(costs.per_connection.kernel, Some(0.0));
        assert_eq!(costs.per_connection.sut, None);
        let none = PlateauSummary::new(&Plateau { held: 0, ..plateau }, &baseline);
        assert_eq!(none.per_connection.user, None);
    }
}
