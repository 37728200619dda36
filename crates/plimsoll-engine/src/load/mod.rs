//! The client role: worker threads that make one load together.
//!
//! [`Load::prepare`] starts the threads, which open the pool; [`Load::start`] names the instant of
//! the first operation; [`Load::steer`] sets the target of a hold; [`Load::next_event`] yields
//! whole seconds, merged over the threads, until the load has ended. Nothing here decides whether
//! a result is good.
//!
//! Some subjects have two files. The file named by a noun (`storm`, `sweep`, `stamps`, `hold`, `deliveries`) has the
//! state and its rules; it does not import the worker and can be tested alone. The file named by an *-ing* form
//! (`storming`, `sweeping`, `stamping`, `holding`, `delivering`) is a part of `impl Worker` that connects this state
//! with sockets and timers.

use std::io;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use plimsoll_model::Nanos;
use plimsoll_model::event::LoadEvent;
use plimsoll_model::plan::{LoadPlan, Steer, TlsOptions, TlsState};
use plimsoll_proto::conversation::Traits;
use plimsoll_sys::{limits, thread};
use plimsoll_tls::ClientContext;

mod classify;
mod closed_loop;
mod conn;
mod conns;
mod control;
mod deliveries;
mod demand;
mod exchange;
mod handshake;
mod hold;
mod holding;
mod keep_alive;
mod lanes;
#[cfg(debug_assertions)]
mod ledgers;
mod listening;
mod losing;
mod merge;
mod meter;
mod open_loop;
mod opening;
mod origin;
mod pacer;
mod phases;
mod pinging;
mod pool;
mod prewarm;
mod proxy_headers;
mod reasons;
mod requests;
mod retrying;
mod rows;
mod segments;
mod sending;
mod session;
mod sleeping;
mod stamps;
mod starts;
mod storm;
mod storming;
mod streams;
mod sweep;
mod sweeping;
mod timers;
mod transport;
mod trim;
mod unrequested;
mod worker;

pub use control::Control;
use control::WorkerEvent;
use merge::Merge;
use worker::Worker;

/// Why a load could not begin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The TLS settings do not work.
    #[error("{0}")]
    Tls(#[from] plimsoll_tls::ConfigError),
    /// A worker could not be set up.
    #[error("cannot start a worker thread: {0}")]
    Worker(String),
    /// The plan has no target or no destination for one.
    #[error("the plan names no target")]
    NoTarget,
}

/// A load in progress.
#[derive(Debug)]
pub struct Load {
    control: Arc<Control>,
    events: Receiver<WorkerEvent>,
    workers: Vec<JoinHandle<()>>,
    merge: Merge,
}

impl Load {
    /// Starts the workers; they begin to open connections at once if the plan says so.
    pub fn prepare(plan: LoadPlan) -> Result<Self, LoadError> {
        if plan.targets.is_empty() || plan.destinations.is_empty() {
            return Err(LoadError::NoTarget);
        }
        limits::raise_descriptor_limit();
        let needs_tls = plan.destinations.iter().any(|destination| destination.tls.is_some());
        let tls = if needs_tls { Some(ClientContext::new(&tls_options(&plan))?) } else { None };
        let tls = tls.map(Arc::new);
        let plan = Arc::new(plan);
        let control = Arc::new(Control::new());
        let (sender, events) = mpsc::channel();
        let workers = start_threads(plan.threads.max(1), &control, |index| {
            let (plan, control) = (Arc::clone(&plan), Arc::clone(&control));
            let cpu = plan.cpus.get(index as usize % plan.cpus.len().max(1)).copied();
            let worker = Worker::new(plan, index, tls.clone(), control, sender.clone())?;
            thread::spawn(&format!("load-{index}"), cpu, move || worker.run())
        })
        .map_err(|error| LoadError::Worker(error.to_string()))?;
        let merge = Merge::new(workers.len());
        Ok(Self { control, events, workers, merge })
    }

    /// Names the instant of the first intended start, on CLOCK_MONOTONIC.
    pub fn start(&self, epoch: Nanos) {
        self.control.start(epoch);
    }

    /// Steers a hold; [`LoadEvent::Steered`] with the same `id` says that it is done. A
    /// stop ends what has begun, and so does the end of the load.
    pub fn steer(&self, id: u32, steer: Steer) {
        self.control.steer(id, steer);
    }

    /// Starts no more operations; what is in flight is waited for at most `grace`.
    pub fn stop(&self, grace: Nanos) {
        self.control.stop(grace);
    }

    /// Aborts everything in flight.
    pub fn stop_now(&self) {
        self.control.stop_now();
    }

    /// Returns the handle that starts, steers and stops the load from another thread.
    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    /// Waits for the next event; `None` after [`LoadEvent::Ended`].
    pub fn next_event(&mut self) -> Option<LoadEvent> {
        loop {
            if let Some(event) = self.merge.poll_event() {
                if let LoadEvent::Ended { .. } = event {
                    for worker in self.workers.drain(..) {
                        // A worker that panicked has already printed why; its counts are lost.
                        let _ = worker.join();
                    }
                }
                return Some(event);
            }
            if self.merge.done {
                return None;
            }
            match self.events.recv() {
                Ok(event) => self.merge.handle_event(event),
                // Every worker ended without an event: end rather than wait for ever.
                Err(_) => self.merge.handle_loss(),
            }
        }
    }
}

/// Starts `count` threads that heed `control`, or none.
fn start_threads(
    count: u32,
    control: &Control,
    start: impl FnMut(u32) -> io::Result<JoinHandle<()>>,
) -> io::Result<Vec<JoinHandle<()>>> {
    let mut threads = Vec::new();
    for started in (0..count).map(start) {
        match started {
            Ok(thread) => threads.push(thread),
            Err(error) => {
                control.stop_now();
                for thread in threads {
                    // One that panicked has already printed why.
                    let _ = thread.join();
                }
                return Err(error);
            }
        }
    }
    Ok(threads)
}

/// A connection that carries one operation is not worth making compact: the keys would cost
/// some 2 % of its handshake, and it is gone before memory matters.
fn tls_options(plan: &LoadPlan) -> TlsOptions {
    let state = if plan.keepalive { plan.tls.state } else { TlsState::Rustls };
    let offers_http2 = Traits::of(plan.protocol()).needs_alpn;
    TlsOptions { state, offers_http2, ..plan.tls.clone() }
}

#[cfg(test)]
mod tests;
