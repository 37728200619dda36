//! The object that `--json` writes: `plimsoll.summary/1`.
//!
//! [`Summary::new`] computes the figures of a run from the whole [`Tally`] and a [`SummaryHead`] with everything that
//! the tally does not know; callers then fill causes, hosts and timers. Percentiles are taken here, after the last
//! merge. Field names are a contract: fields may be added, but none is renamed. The report, the archive and all
//! exports read this type. docs/reference/json.md describes the fields. Start reading at [`Summary`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::announced::AnnouncedLimits;
use crate::cause::Finding;
use crate::cliff::{Cliff, Horizon, ProbedTimer};
use crate::disruption::DisruptionSummary;
use crate::hold::ConnectionsFound;
use crate::host::HostSummary;
pub use crate::quantiles::{FullQuantiles, LagQuantiles, ShortQuantiles};
use crate::reason::{CountedReason, ErrorReasons, Reason};
use crate::repeat::RepeatSummary;
use crate::result::RunResult;
use crate::search::{Axis, Mode};
use crate::settings::Settings;
use crate::tally::{
    ByteCounts, ConnectionCounts, DeliveryCounts, HandshakeCounts, PingCounts, PushCounts,
    StampCounts, StreamCounts, Tally,
};
use crate::trial::{Check, Slow, TippingPoint, TrialRecord, TrialsAtLoad, Verdict};
use crate::{ErrorClass, Nanos, Rate};

/// The value of `schema`.
pub const SCHEMA: &str = "plimsoll.summary/1";

/// One run. Field names are a contract; more may be added, none renamed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct Summary {
    pub schema: String,
    pub command: String,
    pub target: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    pub seconds: f64,
    /// `true` if the run was cut short; its figures cover the time until then.
    pub partial: bool,
    #[serde(flatten)]
    pub operations: OperationSummary,
    #[serde(flatten)]
    pub answers: AnswerSummary,
    #[serde(flatten)]
    pub failures: FailureSummary,
    pub connections: ConnectionSummary,
    pub handshakes: HandshakeSummary,
    pub bytes: ByteCounts,
    pub generator: GeneratorSummary,
    pub settings: Settings,
    pub verdict: Verdict,
    pub reasons: Vec<Check>,
    #[serde(flatten)]
    pub result: RunResult,
    /// The limiting resources, the surest first; empty if none was found. `None`: not diagnosed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causes: Option<Vec<Finding>>,
    /// Events of the load, in order of their beginnings, and their effects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<DisruptionSummary>,
    #[serde(flatten)]
    pub machines: MachineSummary,
    #[serde(flatten)]
    pub timers: TimerSummary,
    /// Set by `--repeat` alone; the searches have summaries of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeat: Option<RepeatSummary>,
    /// Set where single operations were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowSummary>,
    /// Directory of the run's archive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<String>,
}

/// Operations: their counts, rates and times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct OperationSummary {
    pub scheduled: u64,
    pub ok: u64,
    pub errors: u64,
    pub late: u64,
    pub unsent: u64,
    pub rate: RateSummary,
    pub latency_ms: LatencySummary,
    pub connect_ms: ShortQuantiles,
    pub tls_ms: ShortQuantiles,
    pub ttfb_ms: ShortQuantiles,
    pub send_lag_ms: LagQuantiles,
    pub receive_lag_ms: LagQuantiles,
    pub stamps: StampSummary,
}

/// Answers and other messages of servers, and the limits that they announced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct AnswerSummary {
    pub status: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grpc_status: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ws_close: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pushed: Option<PushSummary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<DeliverySummary>,
    #[serde(default, skip_serializing_if = "PingCounts::is_none")]
    pub pings: PingCounts,
    #[serde(default, skip_serializing_if = "StreamCounts::is_none")]
    pub streams: StreamCounts,
    #[serde(default, skip_serializing_if = "AnnouncedLimits::is_none")]
    pub announced: AnnouncedLimits,
}

/// Failures and losses by class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct FailureSummary {
    pub error_classes: BTreeMap<String, u64>,
    pub connection_error_classes: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost_idle_classes: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lost_in_use_classes: BTreeMap<String, u64>,
    /// The first distinct reasons of each class.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub error_reasons: BTreeMap<String, Vec<ReasonSummary>>,
}

/// The hosts that took part.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineSummary {
    /// Trials that were slower than the others of a search, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<Slow>,
    /// Every host that was read, by name; empty without an archive.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostSummary>,
    /// The other hosts that made the load, by name; empty if this one made it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub load_hosts: BTreeMap<String, LoadHostSummary>,
}

/// Hidden timers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct TimerSummary {
    /// `None`: not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cliffs: Option<Vec<Cliff>>,
    /// `None`: there was no timeout probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "timers")]
    pub probed: Option<Vec<ProbedTimer>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_timer: Option<Horizon>,
}

/// Why operations or connections of one class failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReasonSummary {
    /// The reason.
    #[serde(flatten)]
    pub reason: Reason,
    /// Times that it occurred.
    pub count: u64,
    /// Seconds from the epoch of the run's first load to the first one.
    pub first_s: f64,
    /// This end's address of the first connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<String>,
    /// The sentence for it, and what to do; made in the report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

impl From<&CountedReason> for ReasonSummary {
    fn from(counted: &CountedReason) -> Self {
        Self {
            reason: counted.reason.clone(),
            count: counted.count,
            first_s: counted.first.as_secs_f64(),
            connection: counted.connection.map(|address| address.to_string()),
            text: String::new(),
        }
    }
}

/// Returns the reasons by the names of their classes.
pub fn reasons(reasons: &ErrorReasons) -> BTreeMap<String, Vec<ReasonSummary>> {
    let named = |(class, all): (ErrorClass, &[CountedReason])| {
        (class.name().to_owned(), all.iter().map(ReasonSummary::from).collect())
    };
    reasons.iter().map(named).collect()
}

/// Another host that made a part of the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadHostSummary {
    /// Worker threads: its part of the load is in proportion.
    pub threads: u32,
    /// Bound of the clock's error, milliseconds: loads started at the common instant within it; the worst of all loads.
    pub clock_bound_ms: f64,
    /// The round trip to it that this follows from.
    pub round_trip_ms: f64,
    /// Offset of its CLOCK_MONOTONIC from the one here.
    pub clock_offset_ms: f64,
    /// Drift of its clock in a load, besides what the bounds explain; the most of all loads.
    pub clock_drift_ms: f64,
    /// Time between the order to start and the instant of the start, the least of all loads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_margin_ms: Option<f64>,
    /// Ports of one of its addresses that connections may come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports_per_source: Option<u64>,
    /// Operations that were due there, in all loads.
    pub scheduled: u64,
    /// Operations that were answered well.
    pub ok: u64,
    /// CPU of its busiest thread in any second, 0 to 1.
    pub busiest_thread: f64,
    /// 99 % of its operations were sent within this of the instant at which they could be; the worst of all loads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send_lag_p99_ms: Option<f64>,
    /// The reason for its last loss.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<String>,
}

/// Offered and achieved operations per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct RateSummary {
    pub offered_per_s: f64,
    pub achieved_per_s: f64,
}

/// Operations whose answers the kernel stamped on arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct StampSummary {
    pub operations: u64,
    #[serde(flatten)]
    pub counts: StampCounts,
}

/// Messages that servers sent unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct PushSummary {
    #[serde(flatten)]
    pub counts: PushCounts,
    /// Messages of a server on the same clock.
    pub timed: u64,
    pub delay_ms: ShortQuantiles,
}

/// Messages that were published here and delivered here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct DeliverySummary {
    #[serde(flatten)]
    pub counts: DeliveryCounts,
    pub lost: u64,
    pub duplicated: u64,
    /// Messages that were published on the same host.
    pub timed: u64,
    pub latency_ms: DeliveryLatency,
}

/// Latency from the publish to its delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct DeliveryLatency {
    pub corrected: FullQuantiles,
    pub uncorrected: FullQuantiles,
}

/// Corrected and uncorrected latency, and what of it was on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct LatencySummary {
    pub corrected: FullQuantiles,
    pub uncorrected: FullQuantiles,
    pub wire: FullQuantiles,
}

/// Connections, counted on the client's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct ConnectionSummary {
    #[serde(flatten)]
    pub counts: ConnectionCounts,
    pub lost_idle: u64,
    pub lost_in_use: u64,
}

/// TLS handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct HandshakeSummary {
    #[serde(flatten)]
    pub counts: HandshakeCounts,
    pub per_s_max: u64,
}

/// Single operations that were recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct RowSummary {
    pub written: u64,
    pub every: u32,
    pub dropped: u64,
}

/// The cost of making the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct GeneratorSummary {
    pub processes: u32,
    pub threads: u32,
    pub cpu_user_s: f64,
    pub cpu_system_s: f64,
    pub busiest_thread: f64,
    pub rss_bytes_max: u64,
    pub user_bytes_per_connection: Option<f64>,
    pub kernel_bytes_per_connection: Option<f64>,
}

/// The answer of `find` and `lab`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct FindSummary {
    pub axis: Axis,
    pub slo: String,
    pub mode: Mode,
    /// Trial and rest time that the search may take; of connections all of its time.
    pub budget_s: Option<f64>,
    #[serde(flatten)]
    pub found: TippingPoint,
    /// Relative: upper / lower - 1.
    pub width: Option<f64>,
    pub search_s: f64,
    pub confirm_s: f64,
    /// Only of searches for rates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathSummary>,
    /// Only on the axis `connections`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<ConnectionsFound>,
}

/// The path to the SUT, at loads that the SUT does not feel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Summary")]
pub struct PathSummary {
    pub round_trip_ms: f64,
    /// `None` if the kernel does not say.
    pub sent_again_per_op: Option<f64>,
}

/// The settings and the duration of a search; its result is the tipping point.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "see Summary")]
pub struct FindHead {
    pub axis: Axis,
    pub slo: String,
    pub mode: Mode,
    pub search: Nanos,
    pub confirm: Nanos,
}

impl FindSummary {
    /// Returns the interval from slow stretches, of which the stated one is, to the server's usual speed, at which most
    /// was read of it.
    pub fn at_any_speed(&self) -> Option<(f64, f64)> {
        let TippingPoint { lower, upper, regimes, .. } = &self.found;
        let usual = regimes.iter().find(|regime| regime.is_usual());
        let fast = usual.and_then(|regime| regime.upper).map_or(0.0, Rate::get);
        Some(((*lower)?.get(), (*upper)?.get().max(fast)))
    }

    /// Returns the trials at the lower bound.
    pub fn at_lower_bound(&self, trials: &[TrialRecord]) -> Option<TrialsAtLoad> {
        TrialsAtLoad::at_lower_bound(trials, self.found.lower?)
    }

    /// Creates the summary of an answer.
    pub fn new(head: FindHead, found: TippingPoint) -> Self {
        Self {
            axis: head.axis,
            slo: head.slo,
            mode: head.mode,
            budget_s: None,
            width: found.width(),
            found: TippingPoint { outlook: None, ..found },
            search_s: head.search.as_secs_f64(),
            confirm_s: head.confirm.as_secs_f64(),
            path: None,
            connections: None,
        }
    }
}

/// The parts of a summary that are not in the tally.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "see Summary")]
pub struct SummaryHead {
    pub command: String,
    pub target: String,
    pub started_at: String,
    /// Time from the epoch to the end of the schedule, of the closed loop's duration, or of the last operation of a
    /// closed loop with a count; to the interrupt, if that came first.
    pub window: Nanos,
    pub partial: bool,
    pub settings: Settings,
    pub verdict: Verdict,
    pub reasons: Vec<Check>,
    pub result: RunResult,
    pub archive: Option<String>,
}

impl OperationSummary {
    /// The operations of a load whose window has this number of seconds.
    fn new(tally: &Tally, seconds: f64) -> Self {
        let spans = &tally.spans;
        let per_s = |ops: f64| if seconds > 0.0 { ops / seconds } else { 0.0 };
        Self {
            scheduled: tally.scheduled,
            ok: tally.ok,
            errors: tally.errors_total(),
            late: tally.late,
            unsent: tally.unsent,
            rate: RateSummary {
                offered_per_s: per_s(tally.scheduled_in_window()),
                achieved_per_s: per_s(tally.sent_in_window()),
            },
            latency_ms: LatencySummary {
                corrected: (&spans.corrected).into(),
                uncorrected: (&spans.uncorrected).into(),
                wire: (&spans.wire).into(),
            },
            connect_ms: (&spans.connect).into(),
            tls_ms: (&spans.tls).into(),
            ttfb_ms: (&spans.ttfb).into(),
            send_lag_ms: (&spans.send_lag).into(),
            receive_lag_ms: (&spans.receive_lag).into(),
            stamps: StampSummary { operations: spans.wire.count(), counts: tally.stamps },
        }
    }
}

impl From<&Tally> for AnswerSummary {
    fn from(tally: &Tally) -> Self {
        let (answers, spans) = (&tally.answers, &tally.spans);
        Self {
            status: answers.status.by_name(),
            grpc_status: answers.grpc_status.by_name(),
            ws_close: answers.ws_close.by_name(),
            pushed: (!answers.pushed.is_none()).then(|| PushSummary {
                counts: answers.pushed,
                timed: spans.pushed.count(),
                delay_ms: (&spans.pushed).into(),
            }),
            deliveries: (!answers.deliveries.is_none()).then(|| DeliverySummary {
                counts: answers.deliveries,
                lost: answers.deliveries.lost(),
                duplicated: answers.deliveries.duplicated(),
                timed: spans.delivery.count(),
                latency_ms: DeliveryLatency {
                    corrected: (&spans.delivery).into(),
                    uncorrected: (&spans.delivery_uncorrected).into(),
                },
            }),
            pings: answers.pings,
            streams: answers.streams,
            announced: answers.announced,
        }
    }
}

impl Summary {
    /// Returns the lost connections by class: all of a hold, or the ones of a load that were lost while idle.
    pub fn lost_classes(&self) -> &BTreeMap<String, u64> {
        self.result.hold().map_or(&self.failures.lost_idle_classes, |hold| &hold.loss_classes)
    }

    /// Creates the summary of a load whose whole tally is `tally`.
    pub fn new(head: SummaryHead, tally: &Tally) -> Self {
        let hold = head.result.hold();
        let seconds = head.window.as_secs_f64();
        Self {
            schema: SCHEMA.to_owned(),
            command: head.command,
            target: head.target,
            started_at: head.started_at,
            seconds,
            partial: head.partial,
            operations: OperationSummary::new(tally, seconds),
            answers: tally.into(),
            failures: FailureSummary {
                error_classes: tally.failures.operations.by_name(),
                connection_error_classes: tally.failures.attempts.by_name(),
                lost_idle_classes: tally.failures.lost_idle.by_name(),
                lost_in_use_classes: tally.failures.lost_in_use.by_name(),
                error_reasons: reasons(&tally.failures.reasons),
            },
            connections: ConnectionSummary {
                counts: tally.connections,
                lost_idle: tally.failures.lost_idle.total(),
                lost_in_use: tally.failures.lost_in_use.total(),
            },
            handshakes: HandshakeSummary {
                counts: tally.handshakes,
                per_s_max: tally.handshakes_per_s_max,
            },
            bytes: tally.bytes,
            generator: GeneratorSummary {
                processes: tally.generator.processes,
                threads: tally.generator.threads,
                cpu_user_s: tally.generator.cpu_user.as_secs_f64(),
                cpu_system_s: tally.generator.cpu_system.as_secs_f64(),
                busiest_thread: tally.generator.busiest_thread,
                rss_bytes_max: tally.generator.rss_bytes_max,
                user_bytes_per_connection: hold.and_then(|hold| hold.per_connection.user),
                kernel_bytes_per_connection: hold.and_then(|hold| hold.per_connection.kernel),
            },
            settings: head.settings,
            verdict: head.verdict,
            reasons: head.reasons,
            result: head.result,
            archive: head.archive,
            ..Self::default()
        }
    }

    /// Adds what is known of hidden timers; `timers` only if the timeout probe ran.
    #[must_use]
    pub fn with_timers(
        mut self,
        cliffs: &[Cliff],
        timers: Option<Vec<ProbedTimer>>,
        longest: Horizon,
    ) -> Self {
        self.timers = TimerSummary {
            cliffs: Some(cliffs.to_vec()),
            probed: timers,
            longest_timer: Some(longest),
        };
        self
    }
}
