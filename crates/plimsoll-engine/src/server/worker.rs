//! One worker thread of a server: the loop, and accepting. What happens on a connection is in the
//! `exchange` module.

use std::sync::Arc;

use plimsoll_model::Nanos;
use plimsoll_model::plan::Spoken;
use plimsoll_sys::poll::{Poller, Ready};
use plimsoll_sys::socket::ListenSocket;
use plimsoll_sys::{Errno, affinity};
use plimsoll_tls::ServerContext;

use super::exchange::Exchange;
use super::service::Service;
use super::stop::Stop;

/// Events per wait.
const EVENT_BATCH: usize = 256;
/// Events between two checks of the timers, so that a burst of handshakes (about 0.3 ms each) does not make sleeping
/// answers late by more than a few of them.
const EVENTS_PER_TIMER_CHECK: usize = 4;
/// Connections accepted per event of a listener; the poller repeats the event for the rest.
const ACCEPT_BATCH: usize = 32;
/// Pause of accepting when descriptors or memory have run out; ends early when a connection
/// closes.
const ACCEPT_PAUSE: Nanos = Nanos::from_millis(100);
/// After this many connections, and a pause of [`TIDY_PAUSE`] without a new one, the heap that their handshakes needed
/// is handed back to the kernel. After [`TIDY_KEYS_MIN`] keys, and such a pause without any event, the keys are.
/// Tidying takes about a millisecond, so it must be worth it.
const TIDY_CONNS_MIN: u64 = 512;
const TIDY_KEYS_MIN: usize = 1024;
const TIDY_PAUSE: Nanos = Nanos::from_secs(1);

const TOKEN_STOP: u64 = u64::MAX;
/// Listeners have tokens from here on. A connection's would need a slab of 4 billion to be one.
const TOKEN_LISTENERS: u64 = u64::MAX << 16;

pub(super) struct WorkerListener {
    pub(super) socket: ListenSocket,
    pub(super) tls: bool,
    pub(super) spoken: Spoken,
}

pub(super) struct Worker<S: Service> {
    exchange: Exchange<S>,
    tls: Option<ServerContext>,
    listeners: Vec<WorkerListener>,
    accept_paused_until: Option<Nanos>,
    /// Connections accepted since the heap was tidied, and when the last one was.
    accepted_untidied: u64,
    accepted_last: Nanos,
    /// Time of the poller's latest event.
    events_last: Nanos,
    stop: Arc<Stop>,
    poller: Poller,
}

impl<S: Service> Worker<S> {
    pub(super) fn new(
        exchange: Exchange<S>,
        listeners: Vec<WorkerListener>,
        tls: Option<ServerContext>,
        stop: Arc<Stop>,
    ) -> Result<Self, Errno> {
        let poller = Poller::new(EVENT_BATCH)?;
        poller.add_listener(&stop.waker, TOKEN_STOP)?;
        Ok(Self {
            exchange,
            tls,
            listeners,
            accept_paused_until: Some(Nanos::ZERO),
            accepted_untidied: 0,
            accepted_last: Nanos::ZERO,
            events_last: Nanos::ZERO,
            stop,
            poller,
        })
    }

    /// Serves until it is stopped; an error is one of the poller.
    pub(super) fn run(mut self) -> Result<(), Errno> {
        affinity::prefer_latency();
        while !self.stop.is_set() {
            self.exchange.conns.read_clock();
            self.resume_accepting();
            let count = self.poller.wait(self.poll_timeout())?;
            for index in 0..count {
                let Some(ready) = self.poller.event(index) else { break };
                self.exchange.conns.read_clock();
                if index % EVENTS_PER_TIMER_CHECK == 0 {
                    self.exchange.handle_timers();
                }
                self.handle_ready(ready);
                self.events_last = self.now();
            }
            self.exchange.handle_turns();
            self.tidy_heap();
        }
        Ok(())
    }

    /// Returns the time until the next timer.
    fn poll_timeout(&self) -> Option<u64> {
        let waits = [self.exchange.poll_timeout(), self.accept_paused_until, self.tidies_at()];
        waits.into_iter().flatten().min().map(|at| at.since(self.now()).0)
    }

    fn handle_ready(&mut self, ready: Ready) {
        if ready.token >= TOKEN_LISTENERS {
            // The stop flag is looked at by the loop itself.
            if ready.token != TOKEN_STOP && self.accept_paused_until.is_none() {
                self.accept((ready.token - TOKEN_LISTENERS) as usize);
            }
            return;
        }
        self.exchange.handle_ready(ready);
    }

    /// Returns the time of the current event or timer.
    const fn now(&self) -> Nanos {
        self.exchange.conns.now
    }

    // ---- accepting

    fn accept(&mut self, listener: usize) {
        for _ in 0..ACCEPT_BATCH {
            let Some(WorkerListener { socket, tls, spoken }) = self.listeners.get(listener) else {
                return;
            };
            let spoken = *spoken;
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
                        self.exchange.counters.tls_failed.add(1);
                        continue;
                    }
                },
                _ => None,
            };
            self.accepted_untidied += 1;
            self.accepted_last = self.now();
            let index = self.exchange.begin(socket, session, spoken);
            let slab = &self.exchange.conns.slab;
            let added = match &slab[index].socket {
                Some(socket) => self.poller.add(socket, slab.token(index)),
                None => Err(Errno::BADF),
            };
            if added.is_err() {
                // ENOSPC: fs.epoll.max_user_watches is used up.
                self.exchange.close(index);
                return self.pause_accepting();
            }
        }
    }

    fn pause_accepting(&mut self) {
        self.exchange.counters.accepts_paused.add(1);
        self.exchange.has_closed = false;
        self.accept_paused_until = Some(self.now() + ACCEPT_PAUSE);
        for listener in &self.listeners {
            // Fails if it was not watched, which is as well.
            let _ = self.poller.delete(&listener.socket);
        }
    }

    /// Watches the listeners once the pause has ended, or a connection has closed; a worker begins with a pause that
    /// has ended.
    fn resume_accepting(&mut self) {
        let is_over = |until| until <= self.now() || self.exchange.has_closed;
        if !self.accept_paused_until.is_some_and(is_over) {
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
        let conns = (self.accepted_untidied >= TIDY_CONNS_MIN).then_some(self.accepted_last);
        let keys = (self.exchange.pump.keys() >= TIDY_KEYS_MIN).then_some(self.events_last);
        conns.into_iter().chain(keys).min().map(|last| last + TIDY_PAUSE)
    }

    fn tidy_heap(&mut self) {
        if self.tidies_at().is_some_and(|at| at <= self.now()) {
            self.accepted_untidied = 0;
            self.exchange.pump.free_unused();
        }
    }
}
