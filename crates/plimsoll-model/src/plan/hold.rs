//! Holds: the ramp of their connections, and the orders to a running one.

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::storm::StormClients;

/// The ramp of a hold. [`LoadPlan::connections`](super::LoadPlan::connections) is the highest number of connections
/// held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HoldPlan {
    /// New connections per second over the whole load.
    pub connections_per_s: f64,
    /// Most connections that are being opened (TCP or TLS) at once over the whole load.
    pub opening_max: u32,
    /// One request on each held connection in every such period, spread evenly; `None` is silence.
    pub heartbeat: Option<Nanos>,
    /// Open another connection for each one that was lost or could not be opened.
    pub replace: bool,
}

/// An order to a running hold. Each is acknowledged once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steer {
    /// Open connections at the plan's rate until the whole load has attempted this many, earlier ramps included. Done
    /// when none is being opened any more.
    Ramp {
        /// Connections of the whole load; a shard opens its part.
        connections: u64,
    },
    /// Give up what is being opened and close, by RST, what is held beyond this many. What is held
    /// then counts as tried, and nothing else. Done when it is closed.
    Trim {
        /// Connections of the whole load; a shard keeps its share at most.
        connections: u64,
    },
    /// Cut this many of the held connections at one instant, and let their clients reconnect. The clients send no
    /// heartbeats until all are back, which ends the storm. A trim ends it earlier. No other connection is opened
    /// meanwhile.
    Storm {
        /// Connections of the whole load that are cut.
        cut: u64,
        /// The instant, from the start of the load; one that has passed is now.
        at: Nanos,
        /// Conduct of their clients.
        clients: StormClients,
    },
    /// Have a share of a storm's clients that are not back stop trying, each once its current attempt has ended. Done
    /// at once.
    Withdraw {
        /// Part of those clients, 0 to 1.
        share: f64,
    },
    /// One request on every connection that is held now, spread evenly. Done when each has ended.
    Sweep {
        /// From the first request to the last.
        over: Nanos,
    },
    /// The load continues with another number of threads, which determines shares and pace. Held connections stay open.
    /// A ramp in progress pauses until it is ordered again. Done at once.
    Spread {
        /// All threads of the load.
        of: u32,
    },
}
