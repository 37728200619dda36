//! The server role: HTTP/1.1 and HTTP/2 over TCP and TLS, answered by a [`Service`]; WebSocket, whose messages are sent
//! back; and MQTT, whose publishes are acknowledged and delivered to the publisher if it subscribed to them.
//!
//! Every worker thread has its own listening sockets on every port (SO_REUSEPORT), its own
//! connections and its own service; nothing is shared while it runs but a stop flag. What an
//! answer means is the service's business; here it is only due at some instant and some bytes long.

mod acknowledgements;
mod answering;
mod conn;
mod connections;
mod counters;
mod exchange;
mod messages;
mod packets;
mod service;
mod stop;
mod streams;
mod worker;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use thiserror::Error;

use plimsoll_model::plan::{Listener, ServePlan};
use plimsoll_sys::socket::ListenSocket;
use plimsoll_sys::{Errno, thread};
use plimsoll_tls::{ConfigError, ServerContext};

pub use counters::Counters;
pub use service::{Answer, Body, Service};

use counters::WorkerCounters;
use exchange::Exchange;
use stop::Stop;
use worker::{Worker, WorkerListener};

/// Asked of the kernel, which caps it at net.core.somaxconn.
const BACKLOG: i32 = 65_535;
/// Listening sockets per worker.
const LISTENERS_MAX: usize = 65_535;

/// Why a server could not start, or ended early.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A port that cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Bind {
        /// The address from the plan.
        address: SocketAddr,
        /// The system's reason and what to do.
        reason: String,
    },
    /// The plan has nothing to serve, or more than can be served.
    #[error(
        "a server needs 1 to 65535 listeners and at least 1 thread; the plan has {listeners} and {threads}"
    )]
    Size {
        /// Listeners in the plan.
        listeners: usize,
        /// Threads in the plan.
        threads: u32,
    },
    /// A TLS listener without a certificate.
    #[error("{address} is to speak TLS, but there is no certificate; give --cert and --key")]
    NoIdentity {
        /// The address from the plan.
        address: SocketAddr,
    },
    /// A certificate that cannot be used.
    #[error(transparent)]
    Identity(#[from] ConfigError),
    /// The system refused a poller or a thread.
    #[error("cannot start a server worker: {0}; raise the limits on files and threads")]
    Start(io::Error),
    /// A worker's poller failed while it ran.
    #[error("a server worker failed: {0}")]
    Poller(Errno),
    /// A worker panicked: a bug.
    #[error("a server worker ended by a bug; please report it")]
    Panicked,
}

/// Reads a server's counters, also after its end.
#[derive(Clone, Debug, Default)]
pub struct CounterReader(Vec<Arc<WorkerCounters>>);

impl CounterReader {
    /// Returns the counts of all workers so far. Cheap, but not one instant: workers continue meanwhile.
    pub fn read(&self) -> Counters {
        let mut sum = Counters::default();
        for worker in &self.0 {
            worker.add_to(&mut sum);
        }
        sum
    }
}

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct ServerHandle {
    addresses: Vec<Listener>,
    counters: CounterReader,
    stop: Arc<Stop>,
    workers: Vec<JoinHandle<Result<(), Errno>>>,
}

impl ServerHandle {
    /// Returns the listening addresses, in the plan's order, with the real ports.
    pub fn addresses(&self) -> &[Listener] {
        &self.addresses
    }

    /// Returns the counts of all workers so far.
    pub fn counters(&self) -> Counters {
        self.counters.read()
    }

    /// Returns a reader that may go to another thread and outlive the server.
    pub fn counter_reader(&self) -> CounterReader {
        self.counters.clone()
    }

    /// Signals the workers to close everything and end. Does not wait.
    pub fn stop(&self) {
        self.stop.set();
    }

    /// Waits until all workers have ended, which without [`Self::stop`] is never, unless one
    /// fails: then the rest are stopped.
    pub fn join(mut self) -> Result<(), ServeError> {
        self.join_all()
    }

    fn join_all(&mut self) -> Result<(), ServeError> {
        let mut outcome = Ok(());
        for worker in self.workers.drain(..) {
            let ended = match worker.join() {
                Ok(Ok(())) => Ok(()),
                Ok(Err(errno)) => Err(ServeError::Poller(errno)),
                Err(_) => Err(ServeError::Panicked),
            };
            if ended.is_err() {
                self.stop.set();
                outcome = outcome.and(ended);
            }
        }
        outcome
    }
}

impl Drop for ServerHandle {
    fn drop(&mut self) {
        self.stop.set();
        // `join` reports a worker's failure.
        let _ = self.join_all();
    }
}

/// Starts serving `plan`. Every port is bound when this returns; `make_service` is called once per
/// worker, with its index.
pub fn start<S: Service>(
    plan: &ServePlan,
    make_service: impl Fn(u32) -> S,
) -> Result<ServerHandle, ServeError> {
    if plan.threads == 0 || plan.listeners.is_empty() || plan.listeners.len() > LISTENERS_MAX {
        let (listeners, threads) = (plan.listeners.len(), plan.threads);
        return Err(ServeError::Size { listeners, threads });
    }
    let tls = match (&plan.identity, plan.listeners.iter().find(|listener| listener.tls)) {
        (_, None) => None,
        (Some(identity), Some(_)) => {
            let context = ServerContext::new(identity, plan.tls_state)?;
            Some(match &plan.ticket_key {
                Some(key) => context.with_ticket_key(key)?,
                None => context,
            })
        }
        (None, Some(listener)) => {
            return Err(ServeError::NoIdentity { address: listener.address });
        }
    };
    let start_error = |errno: Errno| ServeError::Start(errno.into());
    let stop = Arc::new(Stop::new().map_err(start_error)?);
    let (addresses, sockets) = bind_all(&plan.listeners, plan.threads)?;
    // From here on an early return drops the handle, which stops what has started.
    let mut handle = ServerHandle {
        addresses,
        counters: CounterReader::default(),
        stop: Arc::clone(&stop),
        workers: vec![],
    };
    for (index, listeners) in (0..).zip(sockets) {
        let counters = Arc::new(WorkerCounters::default());
        let exchange = Exchange::new(make_service(index), plan, Arc::clone(&counters));
        let worker = Worker::new(exchange, listeners, tls.clone(), Arc::clone(&stop));
        let worker = worker.map_err(start_error)?;
        let cpu = plan.cpus.get(index as usize % plan.cpus.len().max(1)).copied();
        let name = format!("serve-{index}");
        handle.counters.0.push(counters);
        handle
            .workers
            .push(thread::spawn(&name, cpu, move || worker.run()).map_err(ServeError::Start)?);
    }
    Ok(handle)
}

/// One set of listening sockets per worker, all on the same ports.
fn bind_all(
    listeners: &[Listener],
    workers: u32,
) -> Result<(Vec<Listener>, Vec<Vec<WorkerListener>>), ServeError> {
    let mut addresses = listeners.to_vec();
    let mut sets = Vec::new();
    for _ in 0..workers {
        let mut set = Vec::new();
        for listener in &mut addresses {
            let bind = ListenSocket::bind(listener.address, BACKLOG).and_then(|socket| {
                // The first worker settles which port 0 is.
                Ok((socket.local_address()?, socket))
            });
            let (address, socket) = bind.map_err(|errno| ServeError::Bind {
                address: listener.address,
                reason: bind_reason(errno),
            })?;
            listener.address = address;
            set.push(WorkerListener { socket, tls: listener.tls, spoken: listener.spoken });
        }
        sets.push(set);
    }
    Ok((addresses, sets))
}

fn bind_reason(errno: Errno) -> String {
    match errno {
        Errno::ADDRINUSE => "another program uses the port; stop it or use another port".into(),
        Errno::ACCESS => "ports below 1024 need root or CAP_NET_BIND_SERVICE".into(),
        Errno::ADDRNOTAVAIL => "this host does not have the address".into(),
        Errno::MFILE | Errno::NFILE => {
            "too many open files; use fewer ports or threads, or raise ulimit -n".into()
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
