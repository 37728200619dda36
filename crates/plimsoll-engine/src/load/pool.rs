//! The number of connections to each destination, and the operations that wait for one.
//!
//! [`Pools`] has one [`Pool`] per destination: counts of connections (`opening <= open <= cap`), a ring of idle
//! connections and a queue of due operations. Idle connections are used oldest first; tokens of closed ones remain in
//! the ring and are stale. At most 2^20 operations wait in a pool. Futile attempts to connect are followed by pauses
//! from 10 ms up to 1 s. Start reading at [`Pool`].

use std::collections::VecDeque;

use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::LoadPlan;

use super::conn::Op;
use super::prewarm::Prewarm;

/// Operations that may wait in one pool: 16 MB. Past it they end as unsent, so that a stalled
/// server cannot make the generator's memory grow without bound.
const WAITING_MAX: usize = 1 << 20;

/// Pauses between attempts to connect, while the server ends connections before it has answered anything on them: the
/// first one, doubled with each attempt up to the last one. A server that is full is asked about ten times in
/// the first three seconds, and then once per second.
const PAUSE_MIN: Nanos = Nanos::from_millis(10);
const PAUSE_MAX: Nanos = Nanos::from_secs(1);

/// One destination's share of a worker's connections.
#[derive(Default)]
pub(super) struct Pool {
    /// Most connections at once; at least 1.
    pub(super) cap: u32,
    /// Connections that exist, opening ones included; open <= cap, except in holds.
    pub(super) open: u32,
    /// Connections of `open` that are not yet usable; opening <= open.
    pub(super) opening: u32,
    /// Tokens of connections that became idle, oldest first: every connection is used in turn. Each idle connection is
    /// in it once; tokens of connections that have closed since are stale. A new connection is opened only when the
    /// queue is empty or for a connection that was removed from it, so it never holds more than `cap`.
    pub(super) idle: VecDeque<u64>,
    /// Due operations without a connection, oldest first.
    pub(super) waiting: VecDeque<Op>,
    /// Pause after the next futile attempt; zero while the server answers on new connections.
    pause: Nanos,
    /// No connection is opened before this instant.
    paused_until: Nanos,
}

impl Pool {
    /// Reports whether another connection may be opened.
    pub(super) const fn has_room(&self) -> bool {
        self.open < self.cap
    }

    /// Returns the time at which the next connection may be opened, if that is later than `now`.
    pub(super) fn paused(&self, now: Nanos) -> Option<Nanos> {
        (now < self.paused_until).then_some(self.paused_until)
    }

    /// Reports whether attempts have been futile for long enough that pauses grow no more.
    pub(super) fn pauses_longest(&self) -> bool {
        self.pause == PAUSE_MAX
    }

    /// Notes an attempt to connect. After a futile one, the next may follow only after a pause.
    pub(super) fn note_attempt(&mut self, now: Nanos) {
        if self.pause > Nanos::ZERO {
            self.pause_from(now);
        }
    }

    /// Notes that an attempt failed, or that a connection ended before the server answered on it. Attempts that
    /// were made together count once.
    pub(super) fn note_futile(&mut self, now: Nanos) {
        if self.paused(now).is_none() {
            self.pause_from(now);
        }
    }

    fn pause_from(&mut self, now: Nanos) {
        let pause = self.pause.max(PAUSE_MIN);
        self.paused_until = now + pause;
        self.pause = (pause + pause).min(PAUSE_MAX);
    }

    /// Notes the first answer on a connection; returns whether attempts were pausing.
    pub(super) fn note_answered(&mut self) -> bool {
        self.paused_until = Nanos::ZERO;
        std::mem::take(&mut self.pause) > Nanos::ZERO
    }

    /// Reports whether fewer operations wait than the connections would carry at `each`.
    pub(super) fn waits_for_fewer_than(&self, each: u32) -> bool {
        (self.waiting.len() as u64) < u64::from(self.open) * u64::from(each)
    }

    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Reports whether operations wait for which no connection is being opened.
    pub(super) fn lacks_openings(&self) -> bool {
        (self.opening as usize) < self.waiting.len()
    }
}

/// One worker's pools, by destination, and what is true of all of them together.
pub(super) struct Pools {
    pub(super) all: Vec<Pool>,
    /// Usable connections.
    pub(super) held: u64,
    /// Operations attached to a connection.
    pub(super) in_flight: u64,
    /// Operations waiting in all pools.
    pub(super) waiting: u64,
    /// `true` if a connection was usable.
    pub(super) has_opened: bool,
    /// End of the first pause between attempts to connect; [`Nanos::MAX`] for none.
    pub(super) retry_due: Nanos,
    pub(super) prewarm: Prewarm,
}

impl Pools {
    /// This shard's share of the plan's connections, split evenly over the destinations.
    pub(super) fn new(plan: &LoadPlan, shard: Shard) -> Self {
        let destinations = plan.destinations.len().max(1) as u32;
        let mine = shard.share(plan.connections);
        let pool = |index| {
            let share = Shard { index, of: destinations }.share(mine).max(1);
            Pool { cap: u32::try_from(share).unwrap_or(u32::MAX), ..Pool::default() }
        };
        let all: Vec<_> = (0..destinations).map(pool).collect();
        Self {
            prewarm: Prewarm::new(plan, &all),
            all,
            held: 0,
            in_flight: 0,
            waiting: 0,
            has_opened: false,
            retry_due: Nanos::MAX,
        }
    }

    pub(super) fn of(&mut self, destination: u32) -> &mut Pool {
        &mut self.all[destination as usize]
    }

    /// Returns the number of operations that came due and have not ended.
    pub(super) const fn outstanding(&self) -> u64 {
        self.waiting + self.in_flight
    }

    // ---- connections

    pub(super) fn begin_opening(&mut self, destination: u32) {
        let pool = self.of(destination);
        pool.open += 1;
        pool.opening += 1;
    }

    /// Counts a connection as usable that was being opened.
    pub(super) fn hold(&mut self, destination: u32) {
        self.of(destination).opening -= 1;
        self.held += 1;
        self.has_opened = true;
    }

    /// Counts a closed connection, `held` if it was usable.
    pub(super) fn close(&mut self, destination: u32, held: bool) {
        let pool = self.of(destination);
        pool.open -= 1;
        pool.opening -= u32::from(!held);
        self.held -= u64::from(held);
    }

    // ---- pauses between attempts to connect

    /// Returns whether no connection may be opened yet; it is then tried again after the pause.
    pub(super) fn must_pause(&mut self, destination: u32, now: Nanos) -> bool {
        let Some(until) = self.of(destination).paused(now) else { return false };
        self.retry_due = self.retry_due.min(until);
        true
    }

    /// Notes the first answer of the server on a new connection.
    pub(super) fn note_first_answer(&mut self, destination: u32, now: Nanos) {
        if self.of(destination).note_answered() {
            self.retry_due = now;
        }
    }

    // ---- operations

    /// Queues an operation; false where too many wait.
    pub(super) fn push_waiting(&mut self, destination: u32, op: Op) -> bool {
        let waiting = &mut self.of(destination).waiting;
        if waiting.len() >= WAITING_MAX {
            return false;
        }
        waiting.push_back(op);
        self.waiting += 1;
        true
    }

    /// Queues an operation before all others.
    pub(super) fn push_waiting_first(&mut self, destination: u32, op: Op) {
        self.of(destination).waiting.push_front(op);
        self.waiting += 1;
    }

    pub(super) fn take_waiting(&mut self, destination: u32) -> Option<Op> {
        let op = self.of(destination).waiting.pop_front()?;
        self.waiting -= 1;
        Some(op)
    }

    /// Removes the next waiting operation of all, to be given up.
    pub(super) fn drop_waiting(&mut self) -> Option<Op> {
        let op = self.all.iter_mut().find_map(|pool| pool.waiting.pop_front())?;
        self.waiting -= 1;
        Some(op)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second_and_end_with_an_answer() {
        let mut pool = Pool::default();
        let (mut now, mut pauses) = (Nanos::from_secs(1), Vec::new());
        for _ in 0..10 {
            assert_eq!(pool.paused(now), None);
            // Two attempts together, both in vain.
            pool.note_futile(now);
            pool.note_futile(now);
            let until = pool.paused(now).unwrap();
            pauses.push(until.since(now).0 / 1_000_000);
            now = until;
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000]);
        assert!(pool.note_answered() && !pool.note_answered());
        assert_eq!(pool.paused(Nanos::ZERO), None);
        // Then attempts follow each other again.
        pool.note_attempt(now);
        assert_eq!(pool.paused(now), None);
    }
}
