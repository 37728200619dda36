//! Counters and histograms of one stretch of a load, merged over threads, agents and seconds.
//!
//! [`Tally`] is the unit of all reports: every thread fills one per second. [`Tally::merge_parallel`] adds the same
//! stretch of another thread or agent, [`Tally::merge_following`] the next stretch. Both share `merge_sums`; they
//! differ in gauges such as held connections and the busiest thread. Once a load has ended, `scheduled = ok + errors +
//! unsent` ([`Tally::balances`]). Start reading at [`Tally`]; a new counter must be added to one of the merge
//! functions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::announced::AnnouncedLimits;
use crate::ending::Endings;
use crate::reason::ErrorReasons;
use crate::segments::SegmentCounts;
use crate::spans::Spans;
use crate::starts::StartCounts;
use crate::storm::StormCounts;
use crate::{ErrorClass, Fault, Nanos};

/// Failed operations by class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "BTreeMap<ErrorClass, u64>", into = "BTreeMap<ErrorClass, u64>")]
pub struct ErrorCounts([u64; ErrorClass::COUNT]);

impl ErrorCounts {
    /// Counts one failed operation.
    pub fn count(&mut self, class: ErrorClass) {
        self.add(class, 1);
    }

    /// Counts `ops` failed operations.
    pub fn add(&mut self, class: ErrorClass, ops: u64) {
        self.0[class.index()] += ops;
    }

    /// Returns the number of operations in `class`.
    pub fn get(&self, class: ErrorClass) -> u64 {
        self.0[class.index()]
    }

    /// Returns the number of operations in the classes of this fault.
    pub fn by(&self, fault: Fault) -> u64 {
        let of_fault = self.iter().filter(|(class, _)| class.fault() == fault);
        of_fault.map(|(_, ops)| ops).sum()
    }

    /// Returns the number of operations in all classes.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns the classes that occurred, by their names.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        self.iter().map(|(class, count)| (class.name().to_owned(), count)).collect()
    }

    /// Returns the classes that occurred, in fixed order.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorClass, u64)> + '_ {
        ErrorClass::ALL.iter().map(|class| (*class, self.get(*class))).filter(|(_, ops)| *ops > 0)
    }
}

impl Default for ErrorCounts {
    fn default() -> Self {
        Self([0; ErrorClass::COUNT])
    }
}

impl From<BTreeMap<ErrorClass, u64>> for ErrorCounts {
    fn from(map: BTreeMap<ErrorClass, u64>) -> Self {
        let mut counts = Self::default();
        for (class, ops) in map {
            counts.add(class, ops);
        }
        counts
    }
}

impl From<ErrorCounts> for BTreeMap<ErrorClass, u64> {
    fn from(counts: ErrorCounts) -> Self {
        counts.iter().collect()
    }
}

/// Answers by HTTP status code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StatusCounts(BTreeMap<u16, u64>);

impl StatusCounts {
    /// Counts `answers` with `status`.
    pub fn add(&mut self, status: u16, answers: u64) {
        *self.0.entry(status).or_insert(0) += answers;
    }

    /// Returns the answers with `status`.
    pub fn get(&self, status: u16) -> u64 {
        self.0.get(&status).copied().unwrap_or_default()
    }

    /// Reports whether none was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the codes that occurred, as text.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        self.iter().map(|(status, answers)| (status.to_string(), answers)).collect()
    }

    /// Returns the codes that occurred, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.0.iter().map(|(status, answers)| (*status, *answers))
    }
}

/// The parts of a closed loop's operations that lie after the end of its window, in millionths of an operation. An
/// operation that takes 50 ms and starts 20 ms before the end has 600,000 of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AfterWindow {
    /// Parts per million of operations that ended well.
    pub ok_ppm: u64,
    /// Parts per million of operations that failed.
    pub failed_ppm: u64,
}

impl AfterWindow {
    /// Counts one operation, from `began` to `ended`, of a load whose window ends at `window_ends`.
    pub fn count(&mut self, is_ok: bool, began: Nanos, ended: Nanos, window_ends: Nanos) {
        let (lasted, after) = (ended.since(began), ended.since(began.max(window_ends)));
        let share = after.0 as f64 / lasted.0.max(1) as f64;
        let ppm = (share.min(1.0) * 1e6).round() as u64;
        match is_ok {
            true => self.ok_ppm += ppm,
            false => self.failed_ppm += ppm,
        }
    }

    /// Reports whether no operation reached past the window.
    pub const fn is_none(&self) -> bool {
        self.ok_ppm == 0 && self.failed_ppm == 0
    }
}

/// Messages of WebSocket that answer nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushCounts {
    /// Messages.
    pub messages: u64,
    /// Messages that cannot be distinguished from answers: more messages came than were sent. In loads only.
    pub surplus: u64,
    /// Payload bytes of the messages.
    pub bytes: u64,
}

impl PushCounts {
    /// Reports whether there was none.
    pub const fn is_none(&self) -> bool {
        self.messages == 0
    }
}

/// Pings of MQTT that are no operations: they keep connections alive between operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingCounts {
    /// PINGREQ packets sent.
    pub sent: u64,
    /// PINGRESP packets received.
    pub answered: u64,
    /// The shortest Server Keep Alive that a broker of MQTT 5 states, s; 0 for none.
    pub server_keep_alive_s: u16,
}

impl PingCounts {
    /// Reports whether nothing was counted.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Notes the Server Keep Alive that a broker states; 0 turns keep-alive off.
    pub const fn note_stated(&mut self, keep_alive_s: u16) {
        if keep_alive_s > 0
            && (self.server_keep_alive_s == 0 || keep_alive_s < self.server_keep_alive_s)
        {
            self.server_keep_alive_s = keep_alive_s;
        }
    }

    const fn merge(&mut self, other: &Self) {
        add_fields!(self, other, sent, answered);
        self.note_stated(other.server_keep_alive_s);
    }
}

/// Messages of MQTT that the load itself published, as they were delivered to its own subscriptions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryCounts {
    /// Subscriptions that the acknowledged publishes match: deliveries that must come. At QoS 0 of those that are
    /// sent.
    pub expected: u64,
    /// Deliveries of something for the first time.
    pub delivered: u64,
    /// Deliveries of something that was delivered before.
    pub repeated: u64,
    /// Deliveries behind a message that was published later on the same connection.
    pub reordered: u64,
    /// Deliveries so far behind that it is not known whether they were first or repeated.
    pub unclassified: u64,
    /// Deliveries that publishes may have led to which were sent and not acknowledged, or refused.
    pub unknown: u64,
    /// Deliveries of what others published, another run of the same command included.
    pub foreign: u64,
}

impl DeliveryCounts {
    /// Reports whether nothing was counted.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the least number of deliveries that must have come and did not.
    pub const fn lost(&self) -> u64 {
        self.expected.saturating_sub(self.delivered + self.unclassified)
    }

    /// Returns the repeated deliveries. First deliveries beyond the expected number are among them: another member of a
    /// group of shared subscriptions received the same message.
    pub const fn duplicated(&self) -> u64 {
        self.repeated + self.delivered.saturating_sub(self.expected + self.unknown)
    }

    const fn merge(&mut self, other: &Self) {
        add_fields!(self, other, expected, delivered, repeated, reordered);
        add_fields!(self, other, unclassified, unknown, foreign);
    }
}

/// Operations that share connections, streams of HTTP/2 and publishes of MQTT: how many there may be, and what ended
/// them other than answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamCounts {
    /// Most operations at once on one connection, if the server allows as many; 0 if connections
    /// are not shared.
    pub each: u32,
    /// The fewest that a server allowed on a connection, if that is less; it may be 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed: Option<u32>,
    /// GOAWAY frames received.
    pub goaways: u64,
    /// Streams that the server reset.
    pub resets_received: u64,
    /// Streams that we gave up.
    pub resets_sent: u64,
    /// Times that an operation was sent again which the server had not begun, by GOAWAY or
    /// REFUSED_STREAM. Its intended start stays.
    pub requeued: u64,
    /// Operations given up whose body waited for the server's flow-control windows.
    pub blocked: u64,
}

impl StreamCounts {
    /// Reports whether connections were not shared.
    pub const fn is_none(&self) -> bool {
        self.each == 0 && !self.has_ended()
    }

    /// Reports whether something other than an answer has ended one.
    const fn has_ended(&self) -> bool {
        self.goaways + self.resets_received + self.resets_sent + self.requeued + self.blocked > 0
    }

    fn merge(&mut self, other: &Self) {
        self.each = self.each.max(other.each);
        self.allowed = [self.allowed, other.allowed].into_iter().flatten().min();
        add_fields!(self, other, goaways, resets_received, resets_sent, requeued, blocked);
    }
}

/// Counts of connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// Usable for requests: TCP and, if asked, TLS established.
    pub opened: u64,
    /// Ended before they were usable.
    pub failed: u64,
    /// Ended by the peer's RST after they were usable.
    pub reset_by_peer: u64,
    /// Ended by the peer's FIN or close_notify after they were usable.
    pub closed_by_peer: u64,
    /// Ended by the peer within 100 ms after they were usable and before it answered on them; within
    /// `closed_by_peer` and `reset_by_peer`.
    pub closed_at_once: u64,
    /// Usable at the end of the stretch.
    pub held_end: u64,
    /// Most usable at once; merged over agents as a sum, so an upper bound.
    pub held_max: u64,
    /// Opened in the place of one that was lost or could not be opened; within `opened`.
    pub replaced: u64,
    /// Sessions that had an answer and were closed by FIN from both ends, ours first.
    pub finished: u64,
}

/// Counts of TLS handshakes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandshakeCounts {
    /// Completed with a certificate.
    pub full: u64,
    /// Full ones whose certificate has an RSA key, which costs the server more than an ECDSA key; within `full`.
    pub rsa: u64,
    /// Completed from a ticket.
    pub resumed: u64,
    /// Begun and not completed.
    pub failed: u64,
}

/// TLS messages after the handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsMessageCounts {
    /// Session tickets received, those kept for resumption and those discarded.
    pub tickets: u64,
    /// KeyUpdate messages received.
    pub key_updates_received: u64,
    /// KeyUpdate messages sent, on request or to stay within a key's limit.
    pub key_updates_sent: u64,
}

/// Bytes on the wire side of the sockets, TLS overhead included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteCounts {
    /// Accepted by the kernel for sending.
    pub sent: u64,
    /// Read from the kernel.
    pub received: u64,
}

/// Ok operations whose answers the kernel stamped on arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampCounts {
    /// About one of `every` operations was to be stamped; 0 if the kernel refuses. The largest
    /// number over threads.
    pub every: u32,
    /// Answers that were to be stamped and were not, or not reliably.
    pub missing: u64,
    /// Seconds, over threads, in which somebody set the host's clock: their stamps are not used.
    pub clock_set: u32,
}

impl StampCounts {
    const fn is_none(&self) -> bool {
        self.every == 0 && self.missing == 0
    }

    fn merge(&mut self, other: Self) {
        self.every = self.every.max(other.every);
        add_fields!(self, other, missing, clock_set);
    }
}

/// CPU and memory of the processes that made the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorUse {
    /// User CPU of all agents.
    pub cpu_user: Nanos,
    /// System CPU of all agents.
    pub cpu_system: Nanos,
    /// CPU time of the busiest worker thread over the stretch's wall time, 0 to 1.
    pub busiest_thread: f64,
    /// Most resident memory, summed over agents.
    pub rss_bytes_max: u64,
    /// Worker threads over all agents.
    pub threads: u32,
    /// Agents.
    pub processes: u32,
    /// Waiting share of the thread that waited most: time that it was ready and did not run, over the wall time since
    /// the epoch. `None` if the kernel does not report it.
    pub waited: Option<f64>,
    /// The longest mean of such a wait, over threads.
    pub wait_mean: Option<Nanos>,
}

/// Failures and losses by class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FailureCounts {
    /// Failed operations.
    pub operations: ErrorCounts,
    /// Failed connection attempts, whether or not an operation waited for them.
    pub attempts: ErrorCounts,
    /// Usable connections that ended without our doing while no operation was open on them. One that the server closed
    /// as its answer announced is not among them.
    pub lost_idle: ErrorCounts,
    /// Usable connections that ended without our doing while an operation was open on them.
    pub lost_in_use: ErrorCounts,
    /// Connections of a hold that ended without our doing after they were usable.
    pub lost_held: ErrorCounts,
    /// The first distinct reasons of each class.
    #[serde(default, skip_serializing_if = "ErrorReasons::is_empty")]
    pub reasons: ErrorReasons,
}

impl FailureCounts {
    fn merge(&mut self, other: &Self) {
        for (into, from) in [
            (&mut self.operations, &other.operations),
            (&mut self.attempts, &other.attempts),
            (&mut self.lost_idle, &other.lost_idle),
            (&mut self.lost_in_use, &other.lost_in_use),
            (&mut self.lost_held, &other.lost_held),
        ] {
            from.iter().for_each(|(class, count)| into.add(class, count));
        }
        self.reasons.merge(&other.reasons, Nanos::ZERO);
    }
}

/// Answers and other messages of servers, and the limits that they announced.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerCounts {
    /// Complete answers by status, whatever it was.
    pub status: StatusCounts,
    /// Answers to calls of gRPC by their own status.
    #[serde(default, skip_serializing_if = "StatusCounts::is_empty")]
    pub grpc_status: StatusCounts,
    /// Close frames of WebSocket that servers sent, by their code; 1005 without one.
    #[serde(default, skip_serializing_if = "StatusCounts::is_empty")]
    pub ws_close: StatusCounts,
    /// Messages that servers sent unasked, if they can be distinguished from answers.
    #[serde(default, skip_serializing_if = "PushCounts::is_none")]
    pub pushed: PushCounts,
    /// Deliveries of what was published.
    #[serde(default, skip_serializing_if = "DeliveryCounts::is_none")]
    pub deliveries: DeliveryCounts,
    /// Pings beside operations.
    #[serde(default, skip_serializing_if = "PingCounts::is_none")]
    pub pings: PingCounts,
    /// Ends of streams of HTTP/2 other than answers.
    #[serde(default, skip_serializing_if = "StreamCounts::is_none")]
    pub streams: StreamCounts,
    /// Limits that servers announced.
    #[serde(default, skip_serializing_if = "AnnouncedLimits::is_none")]
    pub announced: AnnouncedLimits,
}

impl AnswerCounts {
    fn merge(&mut self, other: &Self) {
        for (into, from) in [
            (&mut self.status, &other.status),
            (&mut self.grpc_status, &other.grpc_status),
            (&mut self.ws_close, &other.ws_close),
        ] {
            from.iter().for_each(|(status, count)| into.add(status, count));
        }
        add_fields!(self, other, pushed.messages, pushed.surplus, pushed.bytes);
        self.deliveries.merge(&other.deliveries);
        self.pings.merge(&other.pings);
        self.streams.merge(&other.streams);
        self.announced.merge(&other.announced);
    }
}

/// One stretch of a load, from one thread, one agent or all of them.
///
/// `scheduled = ok + errors + unsent` holds once the load has ended; while it runs, the difference
/// is what is waiting or in flight.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Operations that came due (closed loop: that were started).
    pub scheduled: u64,
    /// Complete answers with status below 400, late ones included.
    pub ok: u64,
    /// The ok ones that came after the deadline.
    pub late: u64,
    /// Came due and never sent, because no connection was free in time.
    pub unsent: u64,
    /// The unsent requests of sweeps whose connection was lost before their turn.
    #[serde(default, skip_serializing_if = "none_was_lost")]
    pub unsent_lost: u64,
    /// Closed loops: the parts of operations that lie after the end of the window.
    #[serde(default, skip_serializing_if = "AfterWindow::is_none")]
    pub after_window: AfterWindow,
    /// Failures and losses by class.
    pub failures: FailureCounts,
    /// Answers and other messages of servers.
    pub answers: AnswerCounts,
    /// Clients of a storm.
    #[serde(default, skip_serializing_if = "StormCounts::is_none")]
    pub storm: StormCounts,
    /// Connections.
    pub connections: ConnectionCounts,
    /// Handshakes.
    pub handshakes: HandshakeCounts,
    /// Most handshakes completed in one second; filled in when seconds are merged into a run.
    pub handshakes_per_s_max: u64,
    /// TLS messages after the handshake.
    pub tls_messages: TlsMessageCounts,
    /// Bytes.
    pub bytes: ByteCounts,
    /// Segments of the sockets that closed.
    #[serde(default, skip_serializing_if = "SegmentCounts::is_none")]
    pub segments: SegmentCounts,
    /// Latencies.
    pub spans: Spans,
    /// Durations of operations, attempts and connections that ended early.
    #[serde(default, skip_serializing_if = "Endings::is_empty")]
    pub endings: Endings,
    /// Operations due but not finished (waiting or in flight), sampled every 100 ms
    /// ([`OUTSTANDING_SAMPLE`]); merged over threads and agents as sums.
    pub outstanding: Vec<u32>,
    /// Actual starts of operations beside their due times; open loops only.
    #[serde(default, skip_serializing_if = "StartCounts::is_empty")]
    pub starts: StartCounts,
    /// Arrivals that the kernel stamped.
    #[serde(default, skip_serializing_if = "StampCounts::is_none")]
    pub stamps: StampCounts,
    /// Times a pool had every connection busy and at its cap while an operation was due.
    pub pool_exhausted: u64,
    /// CPU and memory.
    pub generator: GeneratorUse,
}

/// Loads that are no holds do not have the field.
const fn none_was_lost(unsent_lost: &u64) -> bool {
    *unsent_lost == 0
}

/// Spacing of [`Tally::outstanding`].
pub const OUTSTANDING_SAMPLE: Nanos = Nanos::from_millis(100);

impl Tally {
    /// Errors over all classes.
    pub fn errors_total(&self) -> u64 {
        self.failures.operations.total()
    }

    /// Returns the usable connections that ended without our doing. A hold counts them by class, and by who ended them
    /// if that was the peer.
    pub fn lost(&self) -> u64 {
        let by_peer = self.connections.reset_by_peer + self.connections.closed_by_peer;
        by_peer.max(self.failures.lost_held.total())
    }

    /// Returns the memory of its histograms, bytes.
    pub fn histogram_bytes(&self) -> u64 {
        let endings = self.endings.iter().map(|(_, series)| series.durations.memory_bytes());
        self.spans.memory_bytes() + self.storm.recovery.memory_bytes() + endings.sum::<u64>()
    }

    /// Returns the number of operations failed by the peer or by a timer of ours; a fault of this host is no loss of
    /// the SUT.
    pub fn failed_by_peer(&self) -> u64 {
        self.errors_total() - self.failures.operations.by(Fault::Local)
    }

    /// Returns the number of late, failed and unsent operations.
    pub fn bad(&self) -> u64 {
        self.late + self.errors_total() + self.unsent
    }

    /// Returns the number of operations that ended well, as far as they lie in the load's window.
    pub fn ok_in_window(&self) -> f64 {
        (self.ok as f64 - self.after_window.ok_ppm as f64 / 1e6).max(0.0)
    }

    /// Returns the number of operations that were sent, as far as they lie in the load's window.
    pub fn sent_in_window(&self) -> f64 {
        self.in_window(self.scheduled.saturating_sub(self.unsent))
    }

    /// Returns the number of operations that came due or were started, as far as they lie in the load's window.
    pub fn scheduled_in_window(&self) -> f64 {
        self.in_window(self.scheduled)
    }

    fn in_window(&self, operations: u64) -> f64 {
        let AfterWindow { ok_ppm, failed_ppm } = self.after_window;
        (operations as f64 - (ok_ppm + failed_ppm) as f64 / 1e6).max(0.0)
    }

    /// Forgets everything, keeps the memory of the histograms.
    pub fn clear(&mut self) {
        let mut spans = std::mem::take(&mut self.spans);
        spans.clear();
        *self = Self { spans, ..Self::default() };
    }

    /// Returns the most operations that may have been in flight at once: one per connection, or one per stream.
    pub fn slots_max(&self) -> u64 {
        let StreamCounts { each, allowed, .. } = self.answers.streams;
        // A server that allows none at first may allow more later.
        let most = allowed.filter(|allowed| *allowed > 0).map_or(each, |allowed| allowed.min(each));
        self.connections.held_max * u64::from(most.max(1))
    }

    /// Operations that were scheduled and have not ended; negative if more ended, which earlier seconds scheduled.
    pub fn unended(&self) -> i64 {
        self.scheduled as i64 - (self.ok + self.errors_total() + self.unsent) as i64
    }

    /// Reports whether every scheduled operation ended in exactly one class.
    pub fn balances(&self) -> bool {
        self.unended() == 0
    }

    /// Adds the same stretch of time of another thread or agent.
    pub fn merge_parallel(&mut self, other: &Self) {
        self.merge_sums(other);
        add_fields!(self.connections, other.connections, held_end, held_max);
        add_fields!(self, other, handshakes_per_s_max);
        if self.outstanding.len() < other.outstanding.len() {
            self.outstanding.resize(other.outstanding.len(), 0);
        }
        for (into, from) in self.outstanding.iter_mut().zip(&other.outstanding) {
            *into = into.saturating_add(*from);
        }
        let (ours, theirs) = (&mut self.generator, &other.generator);
        ours.busiest_thread = ours.busiest_thread.max(theirs.busiest_thread);
        add_fields!(ours, theirs, rss_bytes_max, threads, processes);
        ours.waited = [ours.waited, theirs.waited].into_iter().flatten().reduce(f64::max);
        ours.wait_mean = ours.wait_mean.max(theirs.wait_mean);
    }

    /// Adds the stretch that follows this one. `busiest_thread` becomes the larger of the two.
    pub fn merge_following(&mut self, other: &Self) {
        self.merge_sums(other);
        self.connections.held_end = other.connections.held_end;
        self.connections.held_max = self.connections.held_max.max(other.connections.held_max);
        // A second by itself has no figure yet.
        let most = match other.handshakes_per_s_max {
            0 => other.handshakes.full + other.handshakes.resumed,
            most => most,
        };
        self.handshakes_per_s_max = self.handshakes_per_s_max.max(most);
        self.outstanding.extend_from_slice(&other.outstanding);
        let (ours, theirs) = (&mut self.generator, &other.generator);
        ours.busiest_thread = ours.busiest_thread.max(theirs.busiest_thread);
        ours.rss_bytes_max = ours.rss_bytes_max.max(theirs.rss_bytes_max);
        ours.threads = ours.threads.max(theirs.threads);
        ours.processes = ours.processes.max(theirs.processes);
        // Both count from the epoch.
        ours.waited = theirs.waited.or(ours.waited);
        ours.wait_mean = theirs.wait_mean.or(ours.wait_mean);
    }

    fn merge_sums(&mut self, other: &Self) {
        add_fields!(self, other, scheduled, ok, late, unsent, unsent_lost, pool_exhausted);
        add_fields!(self, other, after_window.ok_ppm, after_window.failed_ppm);
        let (ours, theirs) = (&mut self.connections, &other.connections);
        add_fields!(ours, theirs, opened, failed, replaced, finished);
        add_fields!(ours, theirs, reset_by_peer, closed_by_peer, closed_at_once);
        let (ours, theirs) = (&mut self.tls_messages, &other.tls_messages);
        add_fields!(ours, theirs, tickets, key_updates_received, key_updates_sent);
        add_fields!(self.handshakes, other.handshakes, full, rsa, resumed, failed);
        add_fields!(self.bytes, other.bytes, sent, received);
        self.failures.merge(&other.failures);
        self.answers.merge(&other.answers);
        self.storm.merge(&other.storm);
        self.segments.merge(other.segments);
        self.spans.merge(&other.spans);
        self.endings.merge(&other.endings);
        self.starts.merge(&other.starts);
        self.stamps.merge(other.stamps);
        self.generator.cpu_user = self.generator.cpu_user + other.generator.cpu_user;
        self.generator.cpu_system = self.generator.cpu_system + other.generator.cpu_system;
    }
}

/// One second of a load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Seconds since the load's epoch, whole; the last one may be longer or shorter than a second.
    /// Second 0 has the events before the epoch as well: the opening of the pool.
    pub second: u32,
    /// Counts of the second. Operations are counted where they ended.
    pub tally: Tally,
}

#[cfg(test)]
mod tests {
    use crate::ending::{Closer, Stretch};

    use super::*;

    #[test]
    fn operations_count_by_the_part_that_is_in_the_window() {
        let ms = Nanos::from_millis;
        let mut tally = Tally { scheduled: 5, ok: 4, unsent: 0, ..Tally::default() };
        tally.failures.operations.count(ErrorClass::Timeout);
        for (is_ok, began, ended) in
            [(true, 20, 70), (true, 90, 110), (true, 120, 130), (false, 60, 140)]
        {
            tally.after_window.count(is_ok, ms(began), ms(ended), ms(100));
        }
        // 1, 1, one half, none; of the failed one also half.
        assert_eq!(tally.after_window, AfterWindow { ok_ppm: 1_500_000, failed_ppm: 500_000 });
        assert_eq!((tally.ok_in_window(), tally.sent_in_window()), (2.5, 3.0));
        tally.after_window.count(true, ms(1), ms(200), Nanos::MAX);
        assert_eq!(tally.ok_in_window(), 2.5);
    }

    #[test]
    fn the_worst_wait_of_all_threads_is_that_of_the_last_second() {
        let waited = |share, mean| {
            let mut tally = Tally::default();
            (tally.generator.waited, tally.generator.wait_mean) = (share, mean);
            tally
        };
        let mut second = waited(Some(0.1), Some(Nanos(5)));
        second.merge_parallel(&waited(Some(0.3), Some(Nanos(4))));
        second.merge_parallel(&waited(None, None));
        assert_eq!(
            (second.generator.waited, second.generator.wait_mean),
            (Some(0.3), Some(Nanos(5)))
        );
        second.merge_following(&waited(Some(0.2), Some(Nanos(3))));
        second.merge_following(&waited(None, None));
        assert_eq!(
            (second.generator.waited, second.generator.wait_mean),
            (Some(0.2), Some(Nanos(3)))
        );
    }

    #[test]
    fn what_came_too_often_is_no_loss_of_something_else() {
        let expected = DeliveryCounts { expected: 10, ..DeliveryCounts::default() };
        let missing = DeliveryCounts { delivered: 7, repeated: 2, unclassified: 1, ..expected };
        assert_eq!((missing.lost(), missing.duplicated()), (2, 2));
        // An open publish is neither.
        let open = DeliveryCounts { delivered: 11, unknown: 1, ..expected };
        assert_eq!((open.lost(), open.duplicated()), (0, 0));
        let elsewhere = DeliveryCounts { delivered: 12, ..expected };
        assert_eq!((elsewhere.lost(), elsewhere.duplicated()), (0, 2));
        let mut sum = missing;
        sum.merge(&elsewhere);
        assert_eq!((sum.expected, sum.delivered, sum.lost()), (20, 19, 0));
    }

    #[test]
    fn a_server_bounds_what_is_on_its_way_on_a_connection() {
        let of = |each, allowed| {
            let mut tally = Tally::default();
            tally.connections.held_max = 3;
            (tally.answers.streams.each, tally.answers.streams.allowed) = (each, allowed);
            tally
        };
        let slots = [of(0, None), of(50, None), of(50, Some(20)), of(50, Some(0))];
        assert_eq!(slots.map(|tally| tally.slots_max()), [3, 150, 60, 150]);
        let mut both = of(50, None);
        both.merge_following(&of(50, Some(20)));
        both.merge_following(&of(50, Some(30)));
        assert_eq!(both.answers.streams.allowed, Some(20));
    }

    #[test]
    fn most_handshakes_are_of_one_second_however_seconds_are_merged() {
        let second = |full, resumed| {
            let handshakes = HandshakeCounts { full, resumed, ..HandshakeCounts::default() };
            Tally { handshakes, ..Tally::default() }
        };
        let mut load = Tally::default();
        load.merge_following(&second(30, 10));
        load.merge_following(&second(50, 0));
        let mut run = Tally::default();
        run.merge_following(&load);
        run.merge_following(&load);
        assert_eq!((run.handshakes.full, run.handshakes_per_s_max), (160, 50));
    }

    #[test]
    fn lost_connections_are_counted_once() {
        let mut tally = Tally::default();
        tally.connections.reset_by_peer = 2;
        tally.connections.closed_by_peer = 1;
        assert_eq!(tally.lost(), 3);
        tally.failures.lost_held.add(ErrorClass::ResetByPeer, 2);
        tally.failures.lost_held.add(ErrorClass::ClosedByPeer, 1);
        tally.failures.lost_held.add(ErrorClass::AgentLost, 5);
        assert_eq!(tally.lost(), 8);
    }

    fn one_end(now: u64) -> Tally {
        let mut tally = Tally::default();
        let (lasted, now) = (Nanos::from_secs(3), Nanos(now));
        tally.endings.record(Stretch::Idle, Closer::PeerFin, lasted, 2, now);
        tally
    }

    #[test]
    fn endings_are_summed_over_threads_and_seconds() {
        let mut whole = one_end(5);
        whole.merge_parallel(&one_end(9));
        whole.merge_following(&one_end(7));
        let series = whole.endings.get(Stretch::Idle, Closer::PeerFin).expect("counted");
        assert_eq!(series.durations.count(), 3);
        assert_eq!((series.first, series.last), (Nanos(5), Nanos(9)));
    }
}
