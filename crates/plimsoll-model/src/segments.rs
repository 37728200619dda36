//! TCP segments that a load sent.

use serde::{Deserialize, Serialize};

/// TCP segments that the load's own sockets sent, counted when they closed. If many close in a second, a sample of them
/// represents all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentCounts {
    /// All of them, SYNs and acknowledgements included.
    pub sent: u64,
    /// Segments that were retransmitted.
    pub sent_again: u64,
}

impl SegmentCounts {
    /// Reports whether none was counted.
    pub const fn is_none(&self) -> bool {
        self.sent == 0
    }

    /// Returns the share of segments that had been sent before; 0 if none was counted.
    pub fn sent_again_ratio(&self) -> f64 {
        self.sent_again as f64 / self.sent.max(self.sent_again).max(1) as f64
    }

    /// Adds the counts of other sockets.
    pub const fn merge(&mut self, other: Self) {
        self.sent += other.sent;
        self.sent_again += other.sent_again;
    }
}
