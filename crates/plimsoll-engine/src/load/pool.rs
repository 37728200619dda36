//! The connections to each destination by number, and the operations that wait for one.

use std::collections::VecDeque;

use plimsoll_model::pace::Shard;
use plimsoll_model::plan::LoadPlan;

use super::conn::Op;

/// Operations that may wait in one pool: 16 MB. Past it they end as unsent, so that a stalled
/// server cannot make the generator's memory grow without bound.
const WAITING_MAX: usize = 1 << 20;

/// One destination's share of a worker's connections.
#[derive(Default)]
pub(super) struct Pool {
    /// Most connections at once; at least 1.
    pub(super) cap: u32,
    /// Connections that exist, opening ones included; open <= cap.
    open: u32,
    /// Those of them that are not yet usable; opening <= open.
    pub(super) opening: u32,
    /// Tokens of connections that became idle, oldest first: every connection is used in turn.
    /// Each idle connection is in it once; those of connections that have closed since are stale.
    /// A new connection is opened only when it is empty or for one that was taken from it, so it
    /// never holds more than `cap`.
    pub(super) idle: VecDeque<u64>,
    /// Due operations without a connection, oldest first.
    waiting: VecDeque<Op>,
}

impl Pool {
    /// Whether another connection may be opened.
    pub(super) const fn has_room(&self) -> bool {
        self.open < self.cap
    }

    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether operations wait for which no connection is being opened.
    pub(super) fn lacks_openings(&self) -> bool {
        (self.opening as usize) < self.waiting.len()
    }
}

/// One worker's pools, by destination, and what is true of all of them together.
pub(super) struct Pools {
    all: Vec<Pool>,
    /// Usable connections.
    held: u64,
    /// Operations attached to a connection.
    in_flight: u64,
    /// Operations waiting in all pools.
    waiting: u64,
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
        let all = (0..destinations).map(pool).collect();
        Self { all, held: 0, in_flight: 0, waiting: 0 }
    }

    pub(super) fn of(&mut self, destination: u32) -> &mut Pool {
        &mut self.all[destination as usize]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.all.iter()
    }

    pub(super) const fn held(&self) -> u64 {
        self.held
    }

    pub(super) const fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Operations that came due and have not ended.
    pub(super) const fn outstanding(&self) -> u64 {
        self.waiting + self.in_flight
    }

    // ---- connections

    pub(super) fn begin_opening(&mut self, destination: u32) {
        let pool = self.of(destination);
        pool.open += 1;
        pool.opening += 1;
    }

    /// A connection that was being opened can carry requests.
    pub(super) fn hold(&mut self, destination: u32) {
        self.of(destination).opening -= 1;
        self.held += 1;
    }

    /// A connection is closed, `held` if it was usable.
    pub(super) fn close(&mut self, destination: u32, held: bool) {
        let pool = self.of(destination);
        pool.open -= 1;
        pool.opening -= u32::from(!held);
        self.held -= u64::from(held);
    }

    // ---- operations

    /// An operation is attached to a connection.
    pub(super) const fn attach(&mut self) {
        self.in_flight += 1;
    }

    /// The operation of a connection has ended.
    pub(super) const fn detach(&mut self) {
        self.in_flight -= 1;
    }

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

    /// The next of all operations that wait, to be given up.
    pub(super) fn drop_waiting(&mut self) -> Option<Op> {
        let op = self.all.iter_mut().find_map(|pool| pool.waiting.pop_front())?;
        self.waiting -= 1;
        Some(op)
    }
}
