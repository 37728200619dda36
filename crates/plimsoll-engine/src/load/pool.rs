//! The connections to one destination, and the operations that wait for one.

use std::collections::VecDeque;

use super::conn::Op;

/// Operations that may wait in one pool: 16 MB. Past it they end as unsent, so that a stalled
/// server cannot make the generator's memory grow without bound.
pub(crate) const WAITING_MAX: usize = 1 << 20;

/// One destination's share of a worker's connections.
#[derive(Default)]
pub(crate) struct Pool {
    /// Most connections at once; at least 1.
    pub(crate) cap: u32,
    /// Connections that exist, opening ones included; open <= cap.
    pub(crate) open: u32,
    /// Those of them that are not yet usable; opening <= open.
    pub(crate) opening: u32,
    /// Tokens of connections that became idle, oldest first: every connection is used in turn.
    /// Each idle connection is in it once; those of connections that have closed since are stale.
    /// A new connection is opened only when it is empty or for one that was taken from it, so it
    /// never holds more than `cap`.
    pub(crate) idle: VecDeque<u64>,
    /// Due operations without a connection, oldest first.
    pub(crate) waiting: VecDeque<Op>,
}

impl Pool {
    /// Whether another connection may be opened.
    pub(crate) const fn has_room(&self) -> bool {
        self.open < self.cap
    }
}
