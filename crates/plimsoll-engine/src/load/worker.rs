//! One worker thread: the loop, its phases, and the end of the load.
//!
//! [`Worker::run`] alternates between [`Worker::advance`] (timers, the phase, orders of the owner, the end of a
//! second) and the events of the poller. Phases are prewarming, ready, running and draining. Operations that come due
//! meanwhile start between two events, so reading delays the schedule by one event at most. The thread ends when
//! draining leaves nothing outstanding and deliveries have settled. Other files of this folder extend [`Worker`] by
//! subject. Start reading at [`Worker::run`].

use std::sync::Arc;
use std::sync::mpsc::Sender;

use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::row::RowEnd;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::conversation::Traits;
use plimsoll_sys::{Errno, affinity};
use plimsoll_tls::ClientContext;

use super::conn::Op;
use super::conns::Conns;
use super::control::{Control, Owner, Stop, WorkerEvent};
use super::demand::Demand;
use super::keep_alive::KeepAlive;
use super::meter::Meter;
use super::origin;
use super::phases::{Phase, Phases};
use super::pool::Pools;
use super::proxy_headers::ProxyHeaders;
use super::requests::Requests;
use super::streams::Streams;
use super::transport::Transport;
use super::unrequested::Unrequested;

/// Period in which an idle worker looks for a start or a stop.
const CONTROL_PERIOD: Nanos = Nanos::from_millis(50);
const CONTROL_PERIOD_BEFORE_START: Nanos = Nanos::from_millis(2);
/// Operations still waiting when the schedule ends are sent for this long when no deadline says
/// otherwise; later they could only be answered late.
const SEND_GRACE: Nanos = Nanos::from_secs(1);

/// Bytes that are reused from operation to operation.
#[derive(Default)]
pub(super) struct Buffers {
    /// Bytes to be sent at once in answer to the server; empty between events.
    pub(super) reply: Vec<u8>,
    /// Bytes of an operation that has its own; empty between operations.
    pub(super) own_bytes: Vec<u8>,
    /// Scratch memory for pieces of large messages.
    pub(super) scratch: Vec<u8>,
}

/// Connections that wait for a later turn.
#[derive(Default)]
pub(super) struct Later {
    /// Tokens of connections whose operation ends with its sending; ended at the next turn.
    pub(super) unanswered: Vec<u64>,
    /// Tokens of connections on which more could be sent than one turn allows.
    pub(super) unpushed: Vec<u64>,
    /// Answers to servers that wait for the end of a request, by the token of the connection.
    pub(super) postponed: Vec<(u64, Vec<u8>)>,
}

pub(super) struct Worker {
    pub(super) plan: Arc<LoadPlan>,
    pub(super) protocol: &'static Traits,
    pub(super) meter: Meter,
    pub(super) phases: Phases,
    pub(super) requests: Requests,
    pub(super) buffers: Buffers,
    pub(super) later: Later,
    pub(super) streams: Streams,
    pub(super) unrequested: Unrequested,
    pub(super) keep_alive: KeepAlive,
    pub(super) conns: Conns,
    pub(super) proxy_headers: ProxyHeaders,
    pub(super) pools: Pools,
    pub(super) demand: Demand,
    /// Handshake-only: connections are closed by RST.
    pub(super) resets_handshakes: bool,
    pub(super) owner: Owner,
}

impl Worker {
    pub(super) fn new(
        plan: Arc<LoadPlan>,
        index: u32,
        tls: Option<Arc<ClientContext>>,
        control: Arc<Control>,
        events: Sender<WorkerEvent>,
    ) -> Result<Self, Errno> {
        let now = Transport::now();
        let shard = plan.shard_of_thread(index);
        let conns = Conns::new(&plan, shard, tls, now)?;
        Ok(Self {
            meter: Meter::new(&plan, shard, conns.transport.has_stamps(), now),
            phases: Phases::new(),
            requests: Requests::new(&plan, shard),
            buffers: Buffers::default(),
            later: Later::default(),
            streams: Streams::new(&plan),
            unrequested: Unrequested::new(&plan),
            keep_alive: KeepAlive::new(&plan, now),
            conns,
            proxy_headers: ProxyHeaders::new(shard),
            pools: Pools::new(&plan, shard),
            demand: Demand::new(&plan, shard),
            resets_handshakes: origin::must_reset(&plan),
            protocol: Traits::of(plan.protocol()),
            plan,
            owner: Owner { control, worker: index, events, steers_read: 0 },
        })
    }

    pub(super) fn run(mut self) {
        affinity::prefer_latency();
        loop {
            let now = Transport::now();
            if !self.advance(now) {
                break;
            }
            let timeout = self.next_deadline().since(Transport::now());
            match self.conns.transport.wait(timeout) {
                Ok(()) => self.handle_events(),
                Err(errno) => {
                    self.give_up(errno);
                    break;
                }
            }
        }
        self.end();
    }

    /// Handles the poller's events, and reads once more from each connection with data left.
    fn handle_events(&mut self) {
        let turns = self.conns.transport.unread();
        while let Some(ready) = self.conns.transport.next_ready() {
            let now = self.start_overdue();
            if let Some(index) = self.conns.slab.index_of(ready.token) {
                self.handle_ready(index, ready, now);
                self.flush_streams(now);
            }
        }
        for _ in 0..turns {
            let Some(ready) = self.conns.transport.next_unread() else { break };
            let now = self.start_overdue();
            if let Some(index) = self.conns.slab.index_of(ready.token) {
                self.read(index, ready, now);
                self.flush_streams(now);
            }
        }
    }

    /// Starts the operations that came due while events were handled; returns the time.
    fn start_overdue(&mut self) -> Nanos {
        let now = Transport::now();
        if self.phases.is_due(now) {
            self.start_due(now);
            self.flush_streams(now);
        }
        now
    }

    /// Starts due operations and handles timers and phases; `false` when the load has ended.
    fn advance(&mut self, now: Nanos) -> bool {
        while let Some(index) = self.conns.next_expired(now) {
            self.handle_timer(index, now);
        }
        self.push_on(now);
        self.end_unanswered(now);
        self.renew_timers(now);
        match self.phases.now_in {
            Phase::Prewarming => self.fill_pools(now),
            Phase::Ready => self.look_for_start(now),
            Phase::Running => self.start_due(now),
            Phase::Draining => {}
        }
        self.retry_openings(now);
        self.look_for_stop(now);
        self.look_for_steers(now);
        if self.phases.is(Phase::Running) {
            let is_spent = self.demand.closed().is_some_and(|closed| closed.ops_left == 0);
            if is_spent || now >= self.phases.window_ends {
                self.begin_draining(now, self.plan.timeouts.deadline.unwrap_or(SEND_GRACE));
            }
        }
        if self.phases.is_sending_over(now) {
            self.drop_waiting(now);
        }
        self.flush_streams(now);
        let outstanding = self.pools.outstanding();
        if self.phases.is(Phase::Draining) && outstanding == 0 {
            // With a count of operations, the last one ends the window.
            self.phases.end_window(now);
        }
        if self.meter.ends_second(now) {
            self.end_second();
            #[cfg(debug_assertions)]
            self.compare_ledgers();
        }
        self.meter.advance(now, outstanding, self.pools.held, &self.owner);
        !(self.phases.is(Phase::Draining)
            && outstanding == 0
            && self.meter.have_deliveries_settled(&self.plan, &self.owner.control, now)
            && self.have_messages_settled(now))
    }

    /// Takes over the counts of the present second that other parts have made.
    fn end_second(&mut self) {
        self.streams.end_second(self.meter.tally());
        self.conns.end_second(self.meter.tally());
    }

    fn next_deadline(&self) -> Nanos {
        let now = Transport::now();
        if !self.later.unanswered.is_empty() || !self.later.unpushed.is_empty() {
            return now;
        }
        let control = match self.phases.now_in {
            Phase::Prewarming | Phase::Ready => CONTROL_PERIOD_BEFORE_START,
            Phase::Running | Phase::Draining => CONTROL_PERIOD,
        };
        (now + control)
            .min(self.meter.next_deadline())
            .min(self.conns.next_timer())
            .min(self.phases.next_deadline())
            .min(self.pools.retry_due)
    }

    // ---- the start

    fn fill_pools(&mut self, now: Nanos) {
        while let Some(destination) = self.pools.prewarm.next(&self.pools.all) {
            self.open(destination, None, now);
        }
        if self.pools.prewarm.is_done(&self.pools.all) {
            self.end_prewarming();
        }
    }

    fn end_prewarming(&mut self) {
        self.phases.now_in = Phase::Ready;
        let prewarm = &mut self.pools.prewarm;
        let (opened, failed) = (prewarm.opened, prewarm.failed);
        let first_error = prewarm.first_error.take();
        self.owner.send(WorkerEvent::Ready { opened, failed, first_error });
    }

    fn look_for_start(&mut self, now: Nanos) {
        let Some(epoch) = self.owner.control.epoch() else { return };
        let window = match &self.plan.pacing {
            Pacing::Open { profile, .. } => Some(profile.duration()),
            Pacing::Closed { duration, .. } => *duration,
            Pacing::Hold(_) => None,
        };
        self.phases.start(epoch, window);
        self.meter.start(epoch, window);
        match &mut self.demand {
            Demand::Open(_) => self.advance_schedule(),
            // The first operations; the others follow from their answers.
            Demand::Closed(_) => self.phases.next_due = Some(epoch),
            Demand::Hold(hold) => hold.start(epoch),
        }
        self.start_due(now);
    }

    /// Starts every operation whose time has come.
    pub(super) fn start_due(&mut self, now: Nanos) {
        if !self.phases.is(Phase::Running) {
            return;
        }
        match &self.demand {
            Demand::Open(_) => self.start_scheduled(now),
            Demand::Closed(_) if now < self.phases.epoch => {}
            Demand::Closed(_) => {
                self.phases.next_due = None;
                self.fill_closed_loop(now);
            }
            Demand::Hold(_) => self.advance_hold(now),
        }
    }

    // ---- the owner

    fn look_for_stop(&mut self, now: Nanos) {
        let stop = self.owner.control.asked_to_stop(now);
        if stop == Stop::No {
            return;
        }
        if !self.phases.is(Phase::Draining) {
            self.phases.end_window(now);
            self.begin_draining(now, Nanos::ZERO);
            self.drop_waiting(now);
        }
        if stop == Stop::Now {
            self.abandon_in_flight(ErrorClass::Interrupted, now);
        }
    }

    /// Handles new steers. Other loads than holds have nothing to steer, and report them as done.
    fn look_for_steers(&mut self, now: Nanos) {
        if matches!(self.phases.now_in, Phase::Prewarming | Phase::Ready) {
            return;
        }
        for (id, steer) in self.owner.take_steers() {
            match self.phases.now_in {
                Phase::Running if self.demand.is_hold() => self.handle_steer(id, steer, now),
                _ => self.report_steered(id),
            }
        }
    }

    /// Reports a steer as done: its effects are in the seconds up to the present one.
    pub(super) fn report_steered(&self, id: u32) {
        let tried = self.demand.hold().map_or(0, |hold| hold.tried);
        self.owner.send(WorkerEvent::Steered { id, second: self.meter.second(), tried });
    }

    // ---- the end

    /// Ends the load after the kernel refused to report ready sockets. Current operations fail; waiting and future ones
    /// are unsent.
    pub(super) fn give_up(&mut self, errno: Errno) {
        if self.phases.is(Phase::Prewarming) {
            let first_error = format!("{}: {errno}", ErrorClass::LocalOther.name());
            self.pools.prewarm.first_error.get_or_insert(first_error);
            self.end_prewarming();
        }
        let tally = self.meter.tally();
        tally.failures.attempts.count(ErrorClass::LocalOther);
        if !self.phases.is(Phase::Draining) {
            let now = Transport::now();
            if self.phases.next_due.is_none() {
                self.advance_schedule();
            }
            while let Some(due) = self.phases.next_due.filter(|_| self.demand.is_open()) {
                let is_recorded = self.meter.rows.choose();
                let target = self.requests.take();
                let op = Op { intended: due, target, is_recorded, again: 0 };
                let tally = self.meter.tally();
                tally.scheduled += 1;
                tally.unsent += 1;
                // It would have been given up when it was due.
                self.meter.record_unattached(op, RowEnd::Unsent, now.max(due));
                self.advance_schedule();
            }
            self.phases.end_window(now);
            self.begin_draining(now, Nanos::ZERO);
        }
        let now = Transport::now();
        self.drop_waiting(now);
        self.abandon_in_flight(ErrorClass::LocalOther, now);
    }

    fn begin_draining(&mut self, now: Nanos, send_for: Nanos) {
        self.phases.begin_draining(now, send_for);
        self.end_steers();
        self.owner.send(WorkerEvent::Draining { in_flight: self.pools.in_flight });
    }

    fn drop_waiting(&mut self, now: Nanos) {
        while let Some(op) = self.pools.drop_waiting() {
            if op.again > 0 {
                // It was sent, and each time the server did not begin it.
                self.meter.count_error(ErrorClass::H2Refused);
                self.meter.record_unattached(op, RowEnd::Failed(ErrorClass::H2Refused), now);
            } else {
                self.meter.tally().unsent += 1;
                self.meter.record_unattached(op, RowEnd::Unsent, now);
            }
        }
    }

    fn abandon_in_flight(&mut self, class: ErrorClass, now: Nanos) {
        for index in 0..self.conns.slab.len() as u32 {
            if self.conns[index].has_op {
                self.fail_op(index, class, now);
                match self.conns.slab.is_lane(index) {
                    true => self.drop_lane(index),
                    false => self.close(index, true),
                }
            }
        }
    }

    fn end(mut self) {
        let held = self.pools.held;
        self.close_all();
        #[cfg(debug_assertions)]
        self.compare_ledgers();
        debug_assert_eq!(self.pools.outstanding(), 0, "operations outlive their load");
        let now = Transport::now();
        self.end_second();
        self.meter.hand_over(now, held, &self.owner);
        let window = self.phases.window(now);
        self.owner.send(WorkerEvent::Ended { worker: self.owner.worker, window });
    }
}
