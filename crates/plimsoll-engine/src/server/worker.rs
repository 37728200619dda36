//! One worker thread of a server: the loop, accepting, timers. What happens on a connection is in
//! the `exchange` module.

use std::sync::Arc;

use plimsoll_model::Nanos;
use plimsoll_sys::poll::{Poller, Ready};
use plimsoll_sys::socket::ListenSocket;
use plimsoll_sys::{Errno, affinity, clock, memory};
use plimsoll_tls::{ServerContext, Workbench};

use super::conn::{Active, BLOCKED, Phase, QUEUED, READ_TO_END, READABLE, Slab};
use super::counters::WorkerCounters;
use super::{Service, Stop};
use crate::wheel::Wheel;

/// Events per wait.
const EVENT_BATCH: usize = 256;
/// Timers are looked at after so many events, so that a burst of handshakes (about 0.3 ms each)
/// does not make sleeping answers late by more than a few of them.
const EVENTS_PER_TIMER_CHECK: usize = 4;
/// Connections taken per event of a listener; the poller brings the event again for the rest.
const ACCEPT_BATCH: usize = 32;
/// How long accepting rests when descriptors or memory have run out; ends early when a connection
/// closes.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);
/// One read takes at most this much.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Body bytes written at a time: one TLS record.
pub(super) const FILL_BYTES: usize = 16 * 1024;
/// Active parts kept for reuse; those beyond it are freed.
const SPARE_MAX: usize = 256;
/// A buffer that has grown past this is not kept for reuse.
const SPARE_BUFFER_BYTES_MAX: usize = 16 * 1024;
/// The wheel counts 78 hours from its epoch, and no sleep is longer than 24: each day it is
/// replaced by a new one.
const WHEEL_AGE_MAX: Nanos = Nanos::from_secs(24 * 3600);

/// After so many connections, once none has come for so long, the heap that their handshakes needed
/// is handed back. It takes about a millisecond, so it must be worth it.
const TIDY_CONNS_MIN: u64 = 4096;
const TIDY_PAUSE: Nanos = Nanos::from_secs(1);

const TOKEN_STOP: u64 = u64::MAX;
/// Listeners have tokens from here on. A connection's would need a slab of 4 billion to be one.
const TOKEN_LISTENERS: u64 = u64::MAX << 16;

pub(super) struct WorkerListener {
    pub(super) socket: ListenSocket,
    pub(super) tls: bool,
}

pub(super) struct Timeouts {
    pub(super) request: Nanos,
    pub(super) idle: Nanos,
}

pub(super) struct Worker<S: Service> {
    pub(super) service: S,
    pub(super) timeouts: Timeouts,
    pub(super) counters: Arc<WorkerCounters>,
    tls: Option<ServerContext>,
    listeners: Vec<WorkerListener>,
    accept_paused_until: Option<Nanos>,
    /// Connections accepted since the heap was tidied, and when the last one was.
    accepted_untidied: u64,
    accepted_last: Nanos,
    stop: Arc<Stop>,
    poller: Poller,
    wheel: Wheel,
    wheel_made: Nanos,
    /// The time of the event or timer in hand.
    pub(super) now: Nanos,
    pub(super) slab: Slab<S::Notes>,
    /// Tokens of connections that used up their turn and have more to do.
    queue: Vec<u64>,
    queue_spare: Vec<u64>,
    spare: Vec<Box<Active<S::Notes>>>,
    // ---- scratch, empty between connections
    pub(super) read_buffer: Box<[u8]>,
    pub(super) plaintext: Vec<u8>,
    /// Answer bytes of the connection in hand, before encryption.
    pub(super) out: Vec<u8>,
    /// How many bytes at the end of `out` are body bytes that can be made again.
    pub(super) out_tail_body: usize,
    pub(super) wire: Vec<u8>,
    pub(super) bench: Workbench,
    /// The service's pattern, repeated over FILL_BYTES and one pattern more.
    pub(super) fill: Box<[u8]>,
}

impl<S: Service> Worker<S> {
    pub(super) fn new(
        service: S,
        listeners: Vec<WorkerListener>,
        tls: Option<ServerContext>,
        timeouts: Timeouts,
        counters: Arc<WorkerCounters>,
        stop: Arc<Stop>,
    ) -> Result<Self, Errno> {
        let poller = Poller::new(EVENT_BATCH)?;
        poller.add_listener(&stop.waker, TOKEN_STOP)?;
        let now = Nanos(clock::monotonic_ns());
        let fill = S::PATTERN.iter().copied().cycle().take(FILL_BYTES + S::PATTERN.len()).collect();
        Ok(Self {
            service,
            timeouts,
            counters,
            tls,
            listeners,
            accept_paused_until: Some(Nanos::ZERO),
            accepted_untidied: 0,
            accepted_last: now,
            stop,
            poller,
            wheel: Wheel::new(now),
            wheel_made: now,
            now,
            slab: Slab::new(),
            queue: Vec::new(),
            queue_spare: Vec::new(),
            spare: Vec::new(),
            read_buffer: vec![0; READ_BUFFER_BYTES].into_boxed_slice(),
            plaintext: Vec::new(),
            out: Vec::new(),
            out_tail_body: 0,
            wire: Vec::new(),
            // Clients may open any number of connections.
            bench: Workbench::new(u64::MAX),
            fill,
        })
    }

    /// Serves until told to stop; an error is a poller that does not work.
    pub(super) fn run(mut self) -> Result<(), Errno> {
        affinity::prefer_latency();
        while !self.stop.is_set() {
            self.read_clock();
            self.resume_accepting();
            let count = self.poller.wait(self.poll_timeout())?;
            for index in 0..count {
                let Some(ready) = self.poller.event(index) else { break };
                self.read_clock();
                if index % EVENTS_PER_TIMER_CHECK == 0 {
                    self.handle_timers();
                }
                self.handle_ready(ready);
            }
            self.read_clock();
            self.handle_timers();
            self.handle_queue();
            self.renew_wheel();
            self.tidy_heap();
        }
        Ok(())
    }

    pub(super) fn read_clock(&mut self) {
        self.now = Nanos(clock::monotonic_ns());
    }

    /// How long nothing needs to be done by itself.
    fn poll_timeout(&self) -> Option<u64> {
        if !self.queue.is_empty() {
            return Some(0);
        }
        let waits = [self.wheel.poll_timeout(), self.accept_paused_until, self.tidies_at()];
        waits.into_iter().flatten().min().map(|at| at.since(self.now).0)
    }

    fn handle_ready(&mut self, ready: Ready) {
        if ready.token >= TOKEN_LISTENERS {
            // The stop flag is looked at by the loop itself.
            if ready.token != TOKEN_STOP && self.accept_paused_until.is_none() {
                self.accept((ready.token - TOKEN_LISTENERS) as usize);
            }
            return;
        }
        let Some(index) = self.slab.index_of(ready.token) else { return };
        let conn = &mut self.slab[index];
        if ready.is_broken() && conn.phase == Phase::Sleeping {
            // Nobody is left to wait for the answer.
            self.counters.conns_reset.add(1);
            self.close(index);
            return;
        }
        if ready.is_readable() {
            conn.flags.set(READABLE);
        }
        if ready.is_closing() {
            conn.flags.set(READ_TO_END);
        }
        if ready.is_writable() {
            conn.flags.clear(BLOCKED);
        }
        self.drive(index);
    }

    fn handle_queue(&mut self) {
        let mut queue = std::mem::replace(&mut self.queue, std::mem::take(&mut self.queue_spare));
        for token in queue.drain(..) {
            if let Some(index) = self.slab.index_of(token) {
                self.slab[index].flags.clear(QUEUED);
                self.read_clock();
                self.drive(index);
            }
        }
        self.queue_spare = queue;
    }

    /// Gives the connection another turn after the others had theirs.
    pub(super) fn enqueue(&mut self, index: u32) {
        if !self.slab[index].flags.has(QUEUED) {
            self.slab[index].flags.set(QUEUED);
            self.queue.push(self.slab.token(index));
        }
    }

    // ---- accepting

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPT_BATCH {
            let Some(WorkerListener { socket, tls }) = self.listeners.get(listener) else { return };
            let socket = match socket.accept() {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return,
                // Out of descriptors or memory; or something unknown, which must not make us spin.
                Err(_) => return self.pause_accepting(),
            };
            let session = match (tls, &self.tls) {
                (true, Some(context)) => match context.session() {
                    Ok(session) => Some(session),
                    Err(_) => {
                        self.counters.tls_failed.add(1);
                        continue;
                    }
                },
                _ => None,
            };
            let handshaking = session.is_some();
            let index = self.slab.insert(socket, session);
            self.counters.conns_accepted.add(1);
            self.accepted_untidied += 1;
            self.accepted_last = self.now;
            self.counters.conns_open.add(1);
            let (phase, timeout) = match handshaking {
                true => (Phase::Handshaking, self.timeouts.request),
                false => (Phase::Idle, self.timeouts.idle),
            };
            self.slab[index].phase = phase;
            let token = self.slab.token(index);
            let added = match &self.slab[index].socket {
                Some(socket) => self.poller.add(socket, token),
                None => Err(Errno::BADF),
            };
            if added.is_err() {
                // ENOSPC: fs.epoll.max_user_watches is used up.
                self.close(index);
                return self.pause_accepting();
            }
            self.set_deadline(index, timeout);
        }
    }

    fn pause_accepting(&mut self) {
        self.counters.accepts_paused.add(1);
        self.accept_paused_until = Some(self.now + ACCEPT_PAUSE);
        for listener in &self.listeners {
            // Fails where it was not watched, which is as well.
            let _ = self.poller.delete(&listener.socket);
        }
    }

    /// Watches the listeners once the pause is over; a worker begins with a pause that is.
    fn resume_accepting(&mut self) {
        if self.accept_paused_until.is_none_or(|until| until > self.now) {
            return;
        }
        self.accept_paused_until = None;
        let mut listeners = self.listeners.iter().zip(TOKEN_LISTENERS..);
        if listeners.any(|(listener, token)| {
            // ENOSPC or ENOMEM: the connections that exist go on, new ones have to wait.
            self.poller.add_listener(&listener.socket, token).is_err()
        }) {
            self.pause_accepting();
        }
    }

    fn tidies_at(&self) -> Option<Nanos> {
        (self.accepted_untidied >= TIDY_CONNS_MIN).then(|| self.accepted_last + TIDY_PAUSE)
    }

    fn tidy_heap(&mut self) {
        if self.tidies_at().is_some_and(|at| at <= self.now) {
            self.accepted_untidied = 0;
            memory::give_back_unused();
        }
    }

    // ---- timers

    /// Ends the connection's phase after `span`, unless something else does before.
    pub(super) fn set_deadline(&mut self, index: u32, span: Nanos) {
        let conn = &mut self.slab[index];
        conn.deadline = self.now + span;
        if conn.deadline < conn.armed {
            conn.armed = conn.deadline;
            self.wheel.arm(index, conn.deadline);
        }
    }

    fn handle_timers(&mut self) {
        // What comes due meanwhile has to wait until events had their turn.
        let until = self.now;
        while let Some(index) = self.wheel.poll_expired(until) {
            let conn = &mut self.slab[index];
            conn.armed = Nanos::MAX;
            if conn.deadline > self.now {
                conn.armed = conn.deadline;
                self.wheel.arm(index, conn.deadline);
            } else {
                self.handle_deadline(index);
            }
        }
    }

    fn renew_wheel(&mut self) {
        if self.now.since(self.wheel_made) < WHEEL_AGE_MAX {
            return;
        }
        self.wheel = Wheel::new(self.now);
        self.wheel_made = self.now;
        for index in self.slab.indices() {
            let conn = &mut self.slab[index];
            if conn.phase != Phase::Free {
                conn.armed = conn.deadline;
                self.wheel.arm(index, conn.deadline);
            }
        }
    }

    // ---- the end of a connection

    pub(super) fn close(&mut self, index: u32) {
        self.wheel.cancel(index);
        self.counters.conns_open.subtract(1);
        if let Some(active) = self.slab.remove(index) {
            self.put_back(active);
        }
        if let Some(until) = &mut self.accept_paused_until {
            *until = self.now;
        }
    }

    pub(super) fn take_active(&mut self, index: u32) -> Box<Active<S::Notes>> {
        match self.slab[index].active.take() {
            Some(active) => active,
            None => self.spare.pop().unwrap_or_default(),
        }
    }

    pub(super) fn put_back(&mut self, mut active: Box<Active<S::Notes>>) {
        if self.spare.len() >= SPARE_MAX {
            return;
        }
        if !active.is_spare() {
            *active = Active::default();
        }
        for buffer in [&mut active.stash, &mut active.unsent] {
            if buffer.capacity() > SPARE_BUFFER_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
        active.notes = S::Notes::default();
        self.spare.push(active);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::http1::Request;
    use plimsoll_sys::poll::Waker;
    use plimsoll_sys::socket::Socket;

    use super::super::Answer;
    use super::*;

    struct Silent;

    impl Service for Silent {
        type Notes = ();

        const PATTERN: &'static [u8] = b"x";

        fn handle_header(&mut self, _notes: &mut (), _name: &str, _value: &[u8]) {}

        fn handle_request(&mut self, _notes: &(), _request: &Request) -> Answer {
            Answer::Refusal { status: 500, text: String::new() }
        }

        fn next_delay(&mut self, _token: u64) -> Nanos {
            Nanos::ZERO
        }
    }

    /// A worker without listeners, and one sleeping connection of it.
    fn worker() -> (Worker<Silent>, ListenSocket, u32) {
        let timeouts = Timeouts { request: Nanos::from_secs(1), idle: Nanos::from_secs(1) };
        let stop = Arc::new(Stop { flag: false.into(), waker: Waker::new().unwrap() });
        let counters = Arc::new(WorkerCounters::default());
        let mut worker = Worker::new(Silent, vec![], None, timeouts, counters, stop).unwrap();
        let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let (socket, _) = Socket::connect(listener.local_address().unwrap(), None).unwrap();
        let index = worker.slab.insert(socket, None);
        worker.slab[index].phase = Phase::Sleeping;
        (worker, listener, index)
    }

    #[test]
    fn a_deadline_that_is_pushed_back_is_not_met_early() {
        let (mut worker, _listener, index) = worker();
        let begun = worker.now;
        worker.set_deadline(index, Nanos::from_secs(10));
        worker.set_deadline(index, Nanos::from_secs(30));
        worker.now = begun + Nanos::from_secs(29);
        worker.handle_timers();
        assert_eq!(worker.slab[index].phase, Phase::Sleeping);
        worker.now = begun + Nanos::from_secs(31);
        worker.handle_timers();
        assert_ne!(worker.slab[index].phase, Phase::Sleeping);
    }

    #[test]
    fn timers_live_on_when_the_wheel_is_renewed() {
        let (mut worker, _listener, index) = worker();
        let begun = worker.now;
        // Longer than one wheel can count, in days.
        for day in 1..6 {
            worker.set_deadline(index, Nanos::from_secs(23 * 3600));
            worker.now = begun + Nanos::from_secs(day * 22 * 3600);
            worker.handle_timers();
            worker.renew_wheel();
            assert_eq!(worker.slab[index].phase, Phase::Sleeping, "day {day}");
        }
        assert!(worker.wheel_made > begun);
        worker.now = worker.now + Nanos::from_secs(2 * 3600);
        worker.handle_timers();
        assert_ne!(worker.slab[index].phase, Phase::Sleeping);
    }
}
