//! A server as a queue: workers, a service time, and a way to fail under overload.
//!
//! [`Sut`] describes the server; `Serving` is its state in one trial. `Serving::handle_request` takes arrivals in the
//! order of time, gives each to the worker that is free first, and returns the end of the request and its fate at
//! once: nothing waits in real time. [`Overload`] decides the fate of a request that finds too many in the server. A
//! noise factor and a pause are drawn once per trial. Start with [`Sut`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;

use plimsoll_model::{ErrorClass, Nanos};

/// The distribution of service times around their mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Service {
    /// Always the mean; with one worker this is also a token bucket.
    Fixed,
    /// Exponential.
    Exponential,
}

/// The fate of a request that finds a long queue.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Overload {
    /// It waits.
    Queue,
    /// It is answered with 503 at once when so many are in the server.
    Reject(usize),
    /// It is dropped without a word when so many are in the server: a hidden loss.
    Drop(usize),
}

/// Pauses of the whole server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stalls {
    /// Share of trials with one, 0 to 1.
    pub trials_share: f64,
    /// Length of the pause.
    pub length: Nanos,
}

/// A server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sut {
    /// Requests per second that all workers together complete.
    pub capacity_per_s: f64,
    /// Workers; at least 1.
    pub workers: u32,
    /// Spread of service times.
    pub service: Service,
    /// Part of the latency that uses no worker: network, backend.
    pub base: Nanos,
    /// Standard deviation of the capacity from trial to trial, relative.
    pub noise: f64,
    /// Pauses.
    pub stalls: Option<Stalls>,
    /// Under overload.
    pub overload: Overload,
}

impl Sut {
    /// Creates a quiet server with one worker, fixed service times and 0.5 ms of its own.
    pub fn with_capacity(capacity_per_s: f64) -> Self {
        Self {
            capacity_per_s,
            workers: 1,
            service: Service::Fixed,
            base: Nanos(500_000),
            noise: 0.0,
            stalls: None,
            overload: Overload::Queue,
        }
    }

    /// Makes the server a little faster or slower in every trial.
    #[must_use]
    pub fn noise(self, noise: f64) -> Self {
        Self { noise, ..self }
    }
}

/// The end of a request at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Answered,
    Failed(ErrorClass),
}

/// The server in one trial.
pub(crate) struct Serving {
    sut: Sut,
    capacity_per_s: f64,
    /// When each worker is free, ns.
    workers: BinaryHeap<Reverse<u64>>,
    /// When each request in the server leaves it, ns; kept only where overload looks at it.
    inside: BinaryHeap<Reverse<u64>>,
    stall: Option<(u64, u64)>,
    busy_ns: u64,
}

/// Returns a standard normal value (Box-Muller).
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Returns a log-normal factor with median 1. Three standard deviations are the most: no trial finds half
/// a server.
pub(crate) fn factor(sd: f64, rng: &mut Rng) -> f64 {
    (normal(rng).clamp(-3.0, 3.0) * sd).exp()
}

impl Serving {
    pub(crate) fn new(sut: Sut, duration: Nanos, rng: &mut Rng) -> Self {
        let noise = factor(sut.noise, rng);
        let stall = sut.stalls.filter(|stalls| rng.f64() < stalls.trials_share).map(|stalls| {
            let at = rng.u64(0..duration.0.max(1));
            (at, at + stalls.length.0)
        });
        Self {
            sut,
            capacity_per_s: sut.capacity_per_s * noise,
            workers: (0..sut.workers.max(1)).map(|_| Reverse(0)).collect(),
            inside: BinaryHeap::new(),
            stall,
            busy_ns: 0,
        }
    }

    /// Handles a request that arrives at `now`; arrivals never go back in time. Returns when the
    /// client sees its end, and which; a dropped request ends never.
    pub(crate) fn handle_request(&mut self, now: u64, rng: &mut Rng) -> (u64, Fate) {
        if let Overload::Reject(queue_max) | Overload::Drop(queue_max) = self.sut.overload {
            while self.inside.peek().is_some_and(|Reverse(leaves)| *leaves <= now) {
                self.inside.pop();
            }
            if self.inside.len() >= queue_max {
                return match self.sut.overload {
                    Overload::Drop(_) => (u64::MAX, Fate::Failed(ErrorClass::Timeout)),
                    _ => (now + self.sut.base.0, Fate::Failed(ErrorClass::Status5xx)),
                };
            }
        }
        let Reverse(free) = self.workers.pop().unwrap_or_default();
        let mut start = now.max(free);
        if let Some((from, to)) = self.stall
            && (from..to).contains(&start)
        {
            start = to;
        }
        let mean_ns = 1e9 * f64::from(self.sut.workers.max(1)) / self.capacity_per_s;
        let service_ns = match self.sut.service {
            Service::Fixed => mean_ns,
            Service::Exponential => -(1.0 - rng.f64()).ln() * mean_ns,
        } as u64;
        self.busy_ns += service_ns;
        let leaves = start + service_ns;
        self.workers.push(Reverse(leaves));
        if self.sut.overload != Overload::Queue {
            self.inside.push(Reverse(leaves));
        }
        (leaves + self.sut.base.0, Fate::Answered)
    }

    /// Returns the share of the trial in which a worker was busy, 0 to 1.
    pub(crate) fn busiest(&self, duration: Nanos) -> f64 {
        let workers = f64::from(self.sut.workers.max(1));
        (self.busy_ns as f64 / workers / duration.0.max(1) as f64).min(1.0)
    }
}
