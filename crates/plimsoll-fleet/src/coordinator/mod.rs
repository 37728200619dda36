//! The coordinator's side of agents that make load or serve.

mod load_run;
mod local_agents;
mod outcome;
mod pilot;
mod server_group;
mod steering;

pub use local_agents::{LocalAgents, agents_needed};
pub use outcome::{LoadControl, LoadOutcome};
pub use pilot::{HoldView, Order, Pilot};
pub use server_group::{ServerGroup, ServerStatus};
