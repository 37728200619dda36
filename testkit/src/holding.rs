//! A server whose memory ends: for searches over the number of held connections.

use fastrand::Rng;

use crate::sut::normal;

/// A server that holds connections until its memory is full.
#[derive(Clone, Debug)]
pub struct Holding {
    /// Resident memory without connections, bytes.
    pub base_bytes: u64,
    /// Memory per additional connection, bytes.
    pub connection_bytes: u64,
    /// Allocated in blocks of so many connections, as slabs and tables grow; at least 1.
    pub block: u64,
    /// Standard deviation of one reading of the resident memory, relative.
    pub reading_noise: f64,
    /// The limit of its cgroup, bytes: beyond it the server is killed.
    pub limit_bytes: u64,
    rng: Rng,
    held: u64,
    killed: bool,
}

/// The readings of the server on one plateau.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plateau {
    /// Connections that are really held.
    pub held: u64,
    /// Resident memory as read, bytes; 0 when the server has ended.
    pub resident_bytes: u64,
    /// `true` if the server still lives.
    pub alive: bool,
}

impl Holding {
    /// Creates a quiet server: 20 kB a connection, readings that are exact.
    pub fn with_limit(limit_bytes: u64, seed: u64) -> Self {
        Self {
            base_bytes: 30_000_000,
            connection_bytes: 20_000,
            block: 1,
            reading_noise: 0.0,
            limit_bytes,
            rng: Rng::with_seed(seed),
            held: 0,
            killed: false,
        }
    }

    /// Returns the number of connections that it holds at most: one more kills it.
    pub fn connections_max(&self) -> u64 {
        let block_bytes = self.connection_bytes * self.block.max(1);
        let blocks = self.limit_bytes.saturating_sub(self.base_bytes) / block_bytes.max(1);
        blocks * self.block.max(1)
    }

    fn resident(&self, connections: u64) -> u64 {
        let blocks = connections.div_ceil(self.block.max(1));
        self.base_bytes + blocks * self.block.max(1) * self.connection_bytes
    }

    /// Goes to so many connections, up or down. A killed server stays dead.
    pub fn hold(&mut self, connections: u64) -> Plateau {
        self.killed |= connections > self.connections_max();
        self.held = if self.killed { 0 } else { connections };
        let noise = 1.0 + self.reading_noise * normal(&mut self.rng).clamp(-3.0, 3.0);
        let resident = self.resident(self.held) as f64 * noise;
        Plateau {
            held: self.held,
            resident_bytes: if self.killed { 0 } else { resident as u64 },
            alive: !self.killed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_grows_by_the_connection_until_the_server_is_killed() {
        let mut server = Holding::with_limit(50_000_000, 1);
        assert_eq!(server.connections_max(), 1_000);
        let plateaus = [0, 500, 1_000].map(|connections| server.hold(connections));
        assert_eq!(plateaus.map(|p| p.resident_bytes), [30_000_000, 40_000_000, 50_000_000]);
        assert!(plateaus.iter().all(|plateau| plateau.alive));
        assert!(!server.hold(1_001).alive);
        // It does not restart.
        assert_eq!(server.hold(10), Plateau { held: 0, resident_bytes: 0, alive: false });
    }

    #[test]
    fn blocks_make_memory_grow_in_steps() {
        let mut server = Holding { block: 256, ..Holding::with_limit(50_000_000, 1) };
        assert_eq!(server.connections_max(), 768);
        assert_eq!(server.hold(1).resident_bytes, server.hold(256).resident_bytes);
        assert!(server.hold(257).resident_bytes > server.hold(256).resident_bytes);
    }
}
