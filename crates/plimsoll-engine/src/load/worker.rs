//! One worker thread: the loop, the schedule, and the end of the load.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;

use plimsoll_model::pace::{Schedule, Shard};
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::starts::lag_tolerance;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::http1::encode;
use plimsoll_sys::poll::{Poller, Ready};
use plimsoll_sys::{Errno, affinity, clock};
use plimsoll_tls::ClientContext;

use super::conn::{Op, Slab, State};
use super::hold::Hold;
use super::meter::Meter;
use super::origin::Origins;
use super::pool::{Pool, WAITING_MAX};
use super::starts::StartMeter;
use super::{Control, Stop, WorkerEvent, handshake};
use crate::transport::Pump;
use crate::wheel::Wheel;

/// Events per wait. Between two of them the schedule is looked at, so this bounds only how often
/// the poller is asked.
const EVENT_BATCH: usize = 256;
/// One read takes at most this much; a small answer never needs a second read.
pub(super) const READ_BUFFER_BYTES: usize = 64 * 1024;
/// How often a worker with nothing to do looks for a start or a stop.
const CONTROL_PERIOD: Nanos = Nanos::from_millis(50);
const CONTROL_PERIOD_BEFORE_START: Nanos = Nanos::from_millis(2);
/// Connections that one worker opens at once before the start: enough to keep a server's core
/// busy, little enough that none of them waits long.
const PREWARM_AT_ONCE: u32 = 32;
/// After a failed attempt a closed loop waits this long, or it would spin on a dead server.
const CLOSED_LOOP_BACKOFF: Nanos = Nanos::from_millis(50);
/// Operations still waiting when the schedule ends are sent for this long when no deadline says
/// otherwise; later they could only be answered late.
const SEND_GRACE: Nanos = Nanos::from_secs(1);

/// What a target needs to be sent.
pub(super) struct Prepared {
    pub(super) request: Arc<[u8]>,
    pub(super) destination: u32,
    pub(super) head_method: bool,
}

/// How far the load has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Prewarming,
    Ready,
    Running,
    /// Nothing new is started; what is waiting may still be sent until the grace ends.
    Draining,
}

pub(super) struct Worker {
    pub(super) plan: Arc<LoadPlan>,
    pub(super) tls: Option<Arc<ClientContext>>,
    index: u32,
    control: Arc<Control>,
    events: Sender<WorkerEvent>,
    pub(super) meter: Meter,
    pub(super) poller: Poller,
    pub(super) wheel: Wheel,
    pub(super) wheel_made: Nanos,
    pub(super) slab: Slab,
    pub(super) pools: Vec<Pool>,
    pub(super) prepared: Vec<Prepared>,
    pub(super) read_buffer: Box<[u8]>,
    /// Events of connections with more to read than one turn allows; at most one of each.
    pub(super) unread: VecDeque<Ready>,
    pub(super) pump: Pump,
    /// Usable connections.
    pub(super) held: u64,
    /// Operations attached to a connection.
    pub(super) in_flight: u64,
    /// Operations waiting in all pools.
    pub(super) waiting: u64,
    pub(super) phase: Phase,
    pub(super) epoch: Nanos,
    /// When no operation is started any more.
    pub(super) window_ends: Nanos,
    /// When waiting operations are given up as unsent; set once draining.
    sending_ends: Nanos,
    pub(super) schedule: Option<Schedule>,
    starts: StartMeter,
    pub(super) next_due: Option<Nanos>,
    next_target: u32,
    /// Closed loop: operations that may still be started.
    pub(super) ops_left: u64,
    /// What a hold is doing; `None` in other loads.
    pub(super) hold: Option<Box<Hold>>,
    /// How many of the control's steers have been taken.
    steers_taken: usize,
    pub(super) backoff_until: Nanos,
    // Prewarming.
    prewarm_left: Vec<u32>,
    prewarm_opened: u64,
    prewarm_failed: u64,
    first_error: Option<String>,
    pub(super) origins: Origins,
    pub(super) resume_credit: f64,
    /// Handshake-only: connections are closed by RST.
    pub(super) resets_handshakes: bool,
}

impl Worker {
    pub(super) fn new(
        plan: Arc<LoadPlan>,
        index: u32,
        tls: Option<Arc<ClientContext>>,
        control: Arc<Control>,
        events: Sender<WorkerEvent>,
    ) -> Result<Self, Errno> {
        let now = Nanos(clock::monotonic_ns());
        let shard = plan.shard.split(index, plan.threads.max(1));
        let pools = pools(&plan, shard);
        let warm = plan.prewarm && plan.keepalive && !matches!(plan.pacing, Pacing::Hold(_));
        let prewarm_left = pools.iter().map(|pool| if warm { pool.cap } else { 0 }).collect();
        let prepared = plan
            .targets
            .iter()
            .zip(&plan.target_destination)
            .map(|(target, destination)| Prepared {
                // A session's client ends it, so no request asks the server to.
                request: encode::request(target, plan.keepalive || plan.session.is_some()).into(),
                destination: *destination,
                head_method: target.method == "HEAD",
            })
            .collect();
        let (schedule, ops_left) = match &plan.pacing {
            Pacing::Open { profile, arrivals } => {
                let profile = Arc::new(profile.clone());
                (Some(Schedule::new(profile, *arrivals, shard, plan.seed)), 0)
            }
            Pacing::Closed { ops_total, .. } => {
                (None, ops_total.map_or(u64::MAX, |total| shard.share(total)))
            }
            Pacing::Hold(_) => (None, 0),
        };
        let hold = match &plan.pacing {
            Pacing::Hold(hold) => Some(Box::new(Hold::new(*hold, shard, plan.connections))),
            Pacing::Open { .. } | Pacing::Closed { .. } => None,
        };
        let conns_max = shard.share(plan.connections);
        Ok(Self {
            meter: Meter::new(index, events.clone(), now),
            poller: Poller::new(EVENT_BATCH)?,
            wheel: Wheel::with_capacity(now, conns_max),
            wheel_made: now,
            slab: Slab::with_capacity(conns_max),
            prewarm_left,
            pools,
            prepared,
            read_buffer: vec![0; READ_BUFFER_BYTES].into_boxed_slice(),
            unread: VecDeque::new(),
            pump: Pump::new(busy_sessions(&plan, conns_max), READ_BUFFER_BYTES),
            held: 0,
            in_flight: 0,
            waiting: 0,
            phase: Phase::Prewarming,
            epoch: Nanos::MAX,
            window_ends: Nanos::MAX,
            sending_ends: Nanos::MAX,
            schedule,
            starts: StartMeter::new(lag_tolerance(plan.deadline)),
            hold,
            steers_taken: 0,
            next_due: None,
            next_target: shard.index % plan.targets.len().max(1) as u32,
            ops_left,
            backoff_until: Nanos::ZERO,
            prewarm_opened: 0,
            prewarm_failed: 0,
            first_error: None,
            origins: Origins::new(&plan, shard),
            resume_credit: 0.0,
            resets_handshakes: handshake::must_reset(&plan),
            plan,
            tls,
            index,
            control,
            events,
        })
    }

    pub(super) fn run(mut self) {
        affinity::prefer_latency();
        loop {
            let now = Nanos(clock::monotonic_ns());
            if !self.advance(now) {
                break;
            }
            let timeout = match self.unread.is_empty() {
                true => self.next_deadline().since(Nanos(clock::monotonic_ns())),
                false => Nanos::ZERO,
            };
            match self.poller.wait(Some(timeout.0)) {
                Ok(count) => self.handle_events(count),
                Err(errno) => {
                    self.give_up(errno);
                    break;
                }
            }
        }
        self.end();
    }

    /// Handles the poller's events, and a turn of each connection that has more to read.
    fn handle_events(&mut self, count: usize) {
        let turns = self.unread.len();
        for event in 0..count {
            let Some(ready) = self.poller.event(event) else { break };
            let now = self.start_overdue();
            if let Some(index) = self.slab.index_of(ready.token) {
                self.handle_ready(index, ready, now);
            }
        }
        for _ in 0..turns {
            let Some(ready) = self.unread.pop_front() else { break };
            let now = self.start_overdue();
            if let Some(index) = self.slab.index_of(ready.token) {
                self.read(index, ready, now);
            }
        }
    }

    /// Starts what came due while events were handled; returns the time.
    fn start_overdue(&mut self) -> Nanos {
        let now = Nanos(clock::monotonic_ns());
        if self.next_due.is_some_and(|due| due <= now) {
            self.start_due(now);
        }
        now
    }

    /// The kernel refuses to say what is ready: nothing more can be done here. Operations in hand
    /// fail, those that wait and those still to come are unsent.
    pub(super) fn give_up(&mut self, errno: Errno) {
        if self.phase == Phase::Prewarming {
            self.first_error = Some(format!("{}: {errno}", ErrorClass::LocalOther.name()));
            self.end_prewarming();
        }
        let tally = &mut self.meter.tally.tally;
        tally.connection_errors.count(ErrorClass::LocalOther);
        if self.phase != Phase::Draining {
            if let Some(schedule) = &mut self.schedule {
                let coming = u64::from(self.next_due.is_some()) + schedule.count() as u64;
                tally.scheduled += coming;
                tally.unsent += coming;
            }
            self.window_ends = Nanos(clock::monotonic_ns()).min(self.window_ends);
            self.begin_draining(self.window_ends, Nanos::ZERO);
        }
        self.drop_waiting();
        self.abandon_in_flight(ErrorClass::LocalOther);
    }

    /// Does everything that time asks for; false when the load is over.
    fn advance(&mut self, now: Nanos) -> bool {
        while let Some(index) = self.wheel.poll_expired(now) {
            self.handle_timer(index, now);
        }
        self.renew_wheel(now);
        match self.phase {
            Phase::Prewarming => self.prewarm(now),
            Phase::Ready => self.look_for_start(now),
            Phase::Running => self.start_due(now),
            Phase::Draining => {}
        }
        self.look_for_stop(now);
        self.look_for_steers(now);
        if self.phase == Phase::Running {
            if self.is_closed_loop() && self.ops_left == 0 {
                self.window_ends = now;
            }
            if now >= self.window_ends {
                self.begin_draining(now, self.plan.deadline.unwrap_or(SEND_GRACE));
            }
        }
        if self.phase == Phase::Draining && now >= self.sending_ends {
            self.drop_waiting();
        }
        self.meter.count_tls_messages(self.pump.take_messages());
        self.meter.advance(now, self.waiting + self.in_flight, self.held);
        !(self.phase == Phase::Draining && self.waiting == 0 && self.in_flight == 0)
    }

    fn next_deadline(&self) -> Nanos {
        let now = Nanos(clock::monotonic_ns());
        let control = match self.phase {
            Phase::Prewarming | Phase::Ready => CONTROL_PERIOD_BEFORE_START,
            Phase::Running | Phase::Draining => CONTROL_PERIOD,
        };
        let mut next = (now + control).min(self.meter.next_deadline());
        for candidate in [self.wheel.poll_timeout(), self.next_due] {
            next = next.min(candidate.unwrap_or(Nanos::MAX));
        }
        if self.phase == Phase::Running {
            next = next.min(self.window_ends);
        }
        next
    }

    // ---- before the start

    fn prewarm(&mut self, now: Nanos) {
        for pool in 0..self.pools.len() {
            while self.prewarm_left[pool] > 0 && self.pools[pool].opening < PREWARM_AT_ONCE {
                self.prewarm_left[pool] -= 1;
                self.open(pool as u32, None, now);
            }
        }
        let opening: u32 = self.pools.iter().map(|pool| pool.opening).sum();
        let left: u32 = self.prewarm_left.iter().sum();
        if opening == 0 && left == 0 {
            self.end_prewarming();
        }
    }

    fn end_prewarming(&mut self) {
        self.phase = Phase::Ready;
        let (opened, failed) = (self.prewarm_opened, self.prewarm_failed);
        let first_error = self.first_error.take();
        let _ = self.events.send(WorkerEvent::Ready { opened, failed, first_error });
    }

    fn look_for_start(&mut self, now: Nanos) {
        let epoch = Nanos(self.control.epoch_ns.load(Ordering::Acquire));
        if epoch == Nanos::ZERO {
            return;
        }
        let window = match &self.plan.pacing {
            Pacing::Open { profile, .. } => Some(profile.duration()),
            Pacing::Closed { duration, .. } => *duration,
            Pacing::Hold(_) => None,
        };
        self.epoch = epoch;
        self.window_ends = window.map_or(Nanos::MAX, |window| epoch + window);
        self.meter.start(epoch, window);
        self.phase = Phase::Running;
        self.advance_schedule();
        if let Some(hold) = &mut self.hold {
            hold.start(epoch);
        } else if self.schedule.is_none() {
            // The closed loop's first operations; the others follow from their answers.
            self.next_due = Some(epoch);
        }
        self.start_due(now);
    }

    pub(super) fn advance_schedule(&mut self) {
        self.next_due = self.schedule.as_mut().and_then(Schedule::next).map(|at| self.epoch + at);
    }

    // ---- operations come due

    /// Starts every operation whose time has come.
    pub(super) fn start_due(&mut self, mut now: Nanos) {
        if self.phase != Phase::Running {
            return;
        }
        if self.hold.is_some() {
            return self.advance_hold(now);
        }
        if self.schedule.is_none() {
            self.next_due = None;
            self.fill_closed_loop(now);
            return;
        }
        while let Some(due) = self.next_due {
            if due > now {
                break;
            }
            let op = Op { intended: due, target: self.take_target() };
            let tally = &mut self.meter.tally.tally;
            tally.scheduled += 1;
            self.starts.count(due.since(self.epoch), now.since(self.epoch), &mut tally.starts);
            self.start_op(op, now);
            self.advance_schedule();
            if self.next_due.is_some_and(|due| due <= now) {
                // Starting takes time, by which the next one of a backlog is later still.
                now = Nanos(clock::monotonic_ns());
            }
        }
    }

    /// Targets are taken in turn; shards begin at different ones and step over each other's.
    pub(super) fn take_target(&mut self) -> u32 {
        let targets = self.prepared.len() as u32;
        let target = self.next_target;
        let step = self.plan.shard.of.wrapping_mul(self.plan.threads.max(1)) % targets;
        self.next_target = (target + if step == 0 { 1 } else { step }) % targets;
        target
    }

    fn start_op(&mut self, op: Op, now: Nanos) {
        let destination = self.prepared[op.target as usize].destination;
        let pool = &mut self.pools[destination as usize];
        if !self.plan.keepalive {
            if pool.has_room() && pool.waiting.is_empty() {
                self.meter.tally.tally.spans.send_lag.record(now.since(op.intended));
                self.open(destination, Some(op), now);
                return;
            }
        } else if pool.waiting.is_empty()
            && let Some(index) = self.take_idle(destination)
        {
            let free_since = self.slab.hot[index as usize].since;
            self.send_op(index, op, free_since, now);
            return;
        }
        self.wait_for_connection(destination, op, now);
    }

    /// The idle connection whose turn it is.
    pub(super) fn take_idle(&mut self, destination: u32) -> Option<u32> {
        let idle = &mut self.pools[destination as usize].idle;
        while let Some(token) = idle.pop_front() {
            if let Some(index) = self.slab.index_of(token) {
                debug_assert_eq!(self.slab.hot[index as usize].state, State::Idle);
                return Some(index);
            }
        }
        None
    }

    fn wait_for_connection(&mut self, destination: u32, op: Op, now: Nanos) {
        let pool = &mut self.pools[destination as usize];
        if pool.waiting.len() >= WAITING_MAX {
            self.meter.tally.tally.unsent += 1;
            return;
        }
        pool.waiting.push_back(op);
        self.waiting += 1;
        if pool.has_room() {
            self.open_for_waiting(destination, now);
        } else {
            self.meter.tally.tally.pool_exhausted += 1;
        }
    }

    /// Opens connections for operations that wait without one coming.
    pub(super) fn open_for_waiting(&mut self, destination: u32, now: Nanos) {
        loop {
            let pool = &mut self.pools[destination as usize];
            if !pool.has_room() || pool.waiting.is_empty() {
                return;
            }
            if self.plan.keepalive {
                if pool.opening as usize >= pool.waiting.len() {
                    return;
                }
                self.open(destination, None, now);
            } else if let Some(op) = self.take_waiting(destination) {
                // It waited for a place in the pool, not for us.
                self.meter.tally.tally.spans.send_lag.record(Nanos::ZERO);
                self.open(destination, Some(op), now);
            }
        }
    }

    /// Replaces a connection of a warm pool that ended with an answer. Left to demand, the pool
    /// would drain to nothing and then be opened at once, again and again. Connections that end
    /// otherwise are replaced on demand only: a server that drops them all must not be hammered.
    pub(super) fn keep_pool_full(&mut self, destination: u32, now: Nanos) {
        let open_loop = self.schedule.is_some() && self.phase == Phase::Running;
        if open_loop
            && self.plan.keepalive
            && self.plan.prewarm
            && self.pools[destination as usize].has_room()
        {
            self.open(destination, None, now);
        }
    }

    pub(super) fn take_waiting(&mut self, destination: u32) -> Option<Op> {
        let op = self.pools[destination as usize].waiting.pop_front()?;
        self.waiting -= 1;
        Some(op)
    }

    // ---- openings that fail

    /// A connection could not be opened, or was lost while opening, for `class`.
    pub(super) fn handle_open_failure(
        &mut self,
        destination: u32,
        op: Option<Op>,
        class: ErrorClass,
        detail: &dyn std::fmt::Display,
        now: Nanos,
    ) {
        let tally = &mut self.meter.tally.tally;
        tally.connections.failed += 1;
        tally.connection_errors.count(class);
        if self.first_error.is_none() && matches!(self.phase, Phase::Prewarming) {
            self.first_error = Some(format!("{}: {detail}", class.name()));
        }
        if self.phase == Phase::Prewarming {
            self.prewarm_failed += 1;
            if matches!(class, ErrorClass::Timeout | ErrorClass::ConnectTimeout) {
                // Each of the others would wait as long, and the start with it.
                self.prewarm_left[destination as usize] = 0;
            }
            return;
        }
        if self.hold.is_some() {
            return;
        }
        if self.schedule.is_none() {
            if self.phase == Phase::Running {
                self.backoff_until = now + CLOSED_LOOP_BACKOFF;
                self.next_due = Some(self.backoff_until);
            }
            let failed_op = op.is_some() || self.take_closed_op(now).is_some();
            if failed_op {
                self.meter.count_error(class);
            }
            return;
        }
        // The operation at the head of the queue is the one that the attempt was made for.
        if op.is_some() || self.take_waiting(destination).is_some() {
            self.meter.count_error(class);
        }
    }

    pub(super) fn is_prewarming(&self) -> bool {
        self.phase == Phase::Prewarming
    }

    pub(super) fn count_prewarmed(&mut self) {
        if self.phase == Phase::Prewarming {
            self.prewarm_opened += 1;
        }
    }

    // ---- the end

    fn look_for_stop(&mut self, now: Nanos) {
        let stop = self.control.stop.load(Ordering::Acquire);
        if stop == Stop::No as u8 {
            return;
        }
        if self.phase != Phase::Draining {
            if matches!(self.phase, Phase::Prewarming | Phase::Ready) {
                self.epoch = now;
            }
            self.window_ends = now.min(self.window_ends);
            self.begin_draining(now, Nanos::ZERO);
            self.drop_waiting();
        }
        let grace_ends = Nanos(self.control.grace_ends_ns.load(Ordering::Acquire));
        if stop == Stop::Now as u8 || now >= grace_ends {
            self.abandon_in_flight(ErrorClass::Interrupted);
        }
    }

    /// Takes what the owner told a hold since the last look; other loads have nothing to steer, and
    /// say so by being done at once.
    fn look_for_steers(&mut self, now: Nanos) {
        if matches!(self.phase, Phase::Prewarming | Phase::Ready)
            || self.control.steers_given.load(Ordering::Acquire) == self.steers_taken
        {
            return;
        }
        for (id, steer) in self.control.steers_from(self.steers_taken) {
            self.steers_taken += 1;
            match self.phase {
                Phase::Running if self.hold.is_some() => self.handle_steer(id, steer, now),
                _ => self.say_steered(id),
            }
        }
    }

    /// What the steer did is in the seconds up to the present one.
    pub(super) fn say_steered(&self, id: u32) {
        let second = self.meter.tally.second;
        let _ = self.events.send(WorkerEvent::Steered { id, second });
    }

    fn begin_draining(&mut self, now: Nanos, send_for: Nanos) {
        self.phase = Phase::Draining;
        self.end_steers();
        self.next_due = None;
        self.sending_ends = now + send_for;
        let _ = self.events.send(WorkerEvent::Draining { in_flight: self.in_flight });
    }

    fn drop_waiting(&mut self) {
        for pool in &mut self.pools {
            self.meter.tally.tally.unsent += pool.waiting.len() as u64;
            pool.waiting.clear();
        }
        self.waiting = 0;
    }

    fn abandon_in_flight(&mut self, class: ErrorClass) {
        for index in 0..self.slab.hot.len() as u32 {
            if self.slab.hot[index as usize].has_op {
                self.meter.count_error(class);
                self.slab.hot[index as usize].has_op = false;
                self.in_flight -= 1;
                self.close(index, true);
            }
        }
    }

    fn end(mut self) {
        let held = self.held;
        self.close_all();
        let now = Nanos(clock::monotonic_ns());
        self.meter.count_tls_messages(self.pump.take_messages());
        self.meter.hand_over(now, held);
        let window = self.window_ends.min(now).since(self.epoch);
        let _ = self.events.send(WorkerEvent::Ended { worker: self.index, window });
    }
}

/// TLS sessions whose expanded keys a worker keeps. Those of a hold are idle nearly always, and
/// their keys are made anew when they are not; short connections are gone when keys have gathered.
fn busy_sessions(plan: &LoadPlan, conns_max: u64) -> u64 {
    match plan.pacing {
        Pacing::Hold(_) => 32,
        _ if !plan.keepalive => conns_max.min(512),
        Pacing::Open { .. } | Pacing::Closed { .. } => conns_max,
    }
}

/// This worker's share of the connections, split evenly over the destinations.
fn pools(plan: &LoadPlan, shard: Shard) -> Vec<Pool> {
    let destinations = plan.destinations.len().max(1) as u32;
    let mine = shard.share(plan.connections);
    (0..destinations)
        .map(|index| {
            let share = Shard { index, of: destinations }.share(mine).max(1);
            Pool { cap: u32::try_from(share).unwrap_or(u32::MAX), ..Pool::default() }
        })
        .collect()
}
