//! The coordinator's side of agents that make load or serve.

mod above;
mod far_servers;
mod hold_controller;
mod load_agents;
mod load_run;
mod outcome;
mod server_group;
mod steering;

pub use far_servers::FarServers;
pub use hold_controller::{HoldController, HoldView, Order};
pub use load_agents::{LoadAgents, agents_needed};
pub use outcome::{LoadControl, LoadOutcome, Newcomers, SurveyedHost};
pub use server_group::{ServerGroup, ServerStatus};

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::load_run::tests::plan;
}
