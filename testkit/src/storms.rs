//! A server that clients come back to after their connections were cut.
//!
//! It has one accept queue and makes handshakes one after another at a fixed rate. It makes the handshake of a client
//! that has left, too: so retries of clients without patience can keep the queue full for ever. With clients that try
//! again at once, the largest storm that ends within `t <= patience` cuts `t * handshakes_per_s` connections, and one
//! that cuts more than `2 * patience * handshakes_per_s` never ends: the next attempt of each client waits behind as
//! many dead entries.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fastrand::Rng;
use plimsoll_model::Nanos;
use plimsoll_model::storm::{Reconnect, StormCounts};

/// Pause of a client after it was refused.
const REFUSED_PAUSE: Nanos = Nanos::from_millis(100);

/// A server, and the conduct of its clients.
#[derive(Clone, Copy, Debug)]
pub struct StormServer {
    /// Handshakes that the server completes per second, one after another.
    pub handshakes_per_s: f64,
    /// Connections that wait in its accept queue; more are refused.
    pub queue_max: usize,
    /// Time after which a client gives up an attempt.
    pub patience: Nanos,
    /// The way in which clients come back: at once, or with a backoff.
    pub reconnect: Reconnect,
}

/// An attempt of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client tries, for the n-th time.
    Attempt { client: u32, attempt: u32 },
    /// A client gives up its attempt, unless it is back.
    GiveUp { client: u32, attempt: u32 },
}

/// One storm: it is followed from instant to instant.
#[derive(Clone, Debug)]
pub struct Storm {
    server: StormServer,
    /// Clients' current attempts; `None` once they are back.
    clients: Vec<Option<u32>>,
    events: BinaryHeap<Reverse<(Nanos, Event)>>,
    queue: VecDeque<(u32, u32)>,
    /// The handshake in progress ends at this instant.
    served_at: Option<Nanos>,
    counts: StormCounts,
    /// Clients that stop trying once their attempts have ended.
    leaving: u64,
    /// Handshakes that were made after the client had left.
    wasted: u64,
    rng: Rng,
}

impl StormServer {
    /// Returns a storm that cuts `cut` connections at the instant 0.
    pub fn storm(self, cut: u64, seed: u64) -> Storm {
        let mut storm = Storm {
            server: self,
            clients: vec![Some(0); cut as usize],
            events: BinaryHeap::new(),
            queue: VecDeque::new(),
            served_at: None,
            counts: StormCounts { cut, ..StormCounts::default() },
            leaving: 0,
            wasted: 0,
            rng: Rng::with_seed(seed),
        };
        for client in 0..cut as u32 {
            storm.plan(client, 0, Nanos::ZERO);
        }
        storm
    }

    /// Returns the largest storm that ends within `recover`, of those that cut up to `most`.
    pub fn largest(self, recover: Nanos, most: u64) -> u64 {
        bisect(most, |cut| {
            let mut storm = self.storm(cut, 0);
            storm.advance(recover);
            storm.is_over()
        })
    }
}

/// Returns the largest number up to `most` for which `holds` is true; it holds for those below, too.
fn bisect(most: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, most + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

impl Storm {
    /// Plans the n-th attempt of a client.
    fn plan(&mut self, client: u32, attempt: u32, from: Nanos) {
        if self.leaving > 0 {
            self.leaving -= 1;
            self.counts.withdrawn += 1;
            return;
        }
        let pause = self.server.reconnect.pause(attempt, self.rng.f64());
        self.events.push(Reverse((from + pause, Event::Attempt { client, attempt })));
    }

    /// Follows the storm up to the instant `until` after the cut.
    pub fn advance(&mut self, until: Nanos) {
        loop {
            let event = self.events.peek().map(|Reverse((at, _))| *at);
            let served = self.served_at;
            match (event, served) {
                (_, Some(at)) if at <= until && event.is_none_or(|event| at <= event) => {
                    self.serve(at);
                }
                (Some(at), _) if at <= until => {
                    if let Some(Reverse((at, event))) = self.events.pop() {
                        self.handle(event, at);
                    }
                }
                _ => return,
            }
        }
    }

    fn handle(&mut self, event: Event, now: Nanos) {
        match event {
            Event::Attempt { client, attempt } => {
                self.counts.attempts += 1;
                self.counts.retries += u64::from(attempt > 0);
                if self.queue.len() >= self.server.queue_max {
                    self.counts.refused += 1;
                    self.clients[client as usize] = Some(attempt + 1);
                    return self.plan(client, attempt + 1, now + REFUSED_PAUSE);
                }
                self.queue.push_back((client, attempt));
                let gives_up = now + self.server.patience;
                self.events.push(Reverse((gives_up, Event::GiveUp { client, attempt })));
                if self.served_at.is_none() {
                    self.begin(now);
                }
            }
            Event::GiveUp { client, attempt } => {
                if self.clients[client as usize] == Some(attempt) {
                    self.counts.gave_up += 1;
                    self.counts.gave_up_sent += 1;
                    self.clients[client as usize] = Some(attempt + 1);
                    self.plan(client, attempt + 1, now);
                }
            }
        }
    }

    fn begin(&mut self, now: Nanos) {
        let each = Nanos::from_secs_f64(1.0 / self.server.handshakes_per_s);
        self.served_at = (!self.queue.is_empty()).then_some(now + each);
    }

    /// Completes the handshake in progress.
    fn serve(&mut self, now: Nanos) {
        if let Some((client, attempt)) = self.queue.pop_front() {
            if self.clients[client as usize] == Some(attempt) {
                self.clients[client as usize] = None;
                self.counts.back += 1;
                self.counts.recovery.record(now);
            } else {
                self.wasted += 1;
            }
        }
        self.begin(now);
    }

    /// Stops all attempts; returns the time that the server needs to empty its queue.
    pub fn calm(&mut self) -> Nanos {
        self.events.clear();
        Nanos::from_secs_f64(self.queue.len() as f64 / self.server.handshakes_per_s)
    }

    /// Stops a share of the clients that are not back, once their attempts have ended.
    pub fn withdraw(&mut self, share: f64) {
        self.leaving +=
            (self.counts.trying().saturating_sub(self.leaving) as f64 * share).ceil() as u64;
    }

    /// Counts since the cut.
    pub const fn counts(&self) -> &StormCounts {
        &self.counts
    }

    /// Handshakes that the server made for clients that had left.
    pub const fn wasted(&self) -> u64 {
        self.wasted
    }

    /// Reports whether all clients are back, or have stopped trying.
    pub const fn is_over(&self) -> bool {
        self.counts.trying() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(patience_s: u64) -> StormServer {
        StormServer {
            handshakes_per_s: 400.0,
            queue_max: usize::MAX,
            patience: Nanos::from_secs(patience_s),
            reconnect: Reconnect::Immediate,
        }
    }

    #[test]
    fn the_largest_storm_is_the_rate_times_the_time() {
        let largest = server(10).largest(Nanos::from_secs(2), 10_000);
        assert!((799..=800).contains(&largest), "{largest}");
    }

    #[test]
    fn a_storm_of_more_than_two_patiences_never_ends() {
        let ends = server(1).largest(Nanos::from_secs(200), 10_000);
        assert!((780..=805).contains(&ends), "{ends}");
        let mut endless = server(1).storm(1_000, 0);
        endless.advance(Nanos::from_secs(100));
        let (before, wasted) = (endless.counts().missing(), endless.wasted());
        endless.advance(Nanos::from_secs(200));
        assert_eq!(endless.counts().missing(), before);
        assert!(before > 0 && endless.wasted() > wasted + 30_000, "{}", endless.wasted());
    }

    #[test]
    fn jitter_makes_a_storm_end_that_would_not() {
        let reconnect = "backoff:5s..20s,jitter".parse().expect("a policy");
        let calm = StormServer { reconnect, ..server(1) };
        let mut storm = calm.storm(1_000, 3);
        storm.advance(Nanos::from_secs(60));
        assert!(storm.is_over(), "{:?}", storm.counts().missing());
    }
}
