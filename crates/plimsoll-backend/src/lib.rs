//! The backend simulator: answers `pong` when and as large as the request's headers ask.
//!
//! | header | effect |
//! |---|---|
//! | `sleep: MS` | waits a uniform random time in [0, MS] before the answer |
//! | `sleep-fixed: MS` | waits exactly so long; wins over `sleep` |
//! | `times: N` | a chunked answer: one piece and N further ones, each after its own wait |
//! | `push: MS` | a WebSocket gets a message of that size every MS ms, at least 32 bytes, which begins with a stamp |
//! | `size: BYTES` | the size of each piece instead of `pong`'s 4 |
//!
//! It runs on our own engine, so it is never the only judge of our own client.
#![forbid(unsafe_code)]

mod behaviour;
mod statsd;

use plimsoll_engine::server;
use plimsoll_engine::server::ServerHandle;
use plimsoll_model::plan::{Listener, ServePlan};

pub use plimsoll_engine::server::{Counters, ServeError};

use behaviour::Pong;
use statsd::Flusher;

/// A running backend. Dropping it stops it.
#[derive(Debug)]
pub struct Backend {
    /// Absent only while being joined or dropped.
    server: Option<ServerHandle>,
    addresses: Vec<Listener>,
    flusher: Option<Flusher>,
}

/// Starts a backend; every port is bound when this returns.
pub fn start(plan: &ServePlan) -> Result<Backend, ServeError> {
    let server = server::start(plan, |worker| Pong::new(plan.seed, worker))?;
    let flusher = plan.statsd.map(|remote| statsd::start(remote, server.counter_reader()));
    let flusher = flusher.transpose().map_err(ServeError::Start)?;
    let addresses = server.addresses().to_vec();
    Ok(Backend { server: Some(server), addresses, flusher })
}

impl Backend {
    /// Returns the listening addresses, in the plan's order, with the real ports.
    pub fn addresses(&self) -> &[Listener] {
        &self.addresses
    }

    /// Returns the counters so far.
    pub fn counters(&self) -> Counters {
        self.server.as_ref().map(ServerHandle::counters).unwrap_or_default()
    }

    /// Signals it to close everything and end. Does not wait.
    pub fn stop(&self) {
        if let Some(server) = &self.server {
            server.stop();
        }
    }

    /// Waits for its end, which without [`Self::stop`] only a failure brings.
    pub fn join(mut self) -> Result<(), ServeError> {
        self.server.take().map_or(Ok(()), ServerHandle::join)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // Ends the workers, so that the flusher's last word is complete.
        drop(self.server.take());
        if let Some((alive, thread)) = self.flusher.take() {
            drop(alive);
            // A panic there lost metrics, nothing else.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
