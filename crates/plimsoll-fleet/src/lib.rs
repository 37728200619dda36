//! Coordinator and agents: one load, or one server, spread over several processes.
//!
//! A coordinator starts agents, sends them commands in frames over stdin and stdout, and adds up
//! exactly what they report. An agent runs on this host, or on another one behind ssh or the like
//! ([`hosts`]). What an agent does is an [`Executor`], which the caller supplies; this
//! crate never touches measured traffic. Everything that is started here ends: on command, when its
//! coordinator is done, and when its coordinator is killed.
#![forbid(unsafe_code)]

pub mod agent;
mod agent_set;
pub mod bodies;
pub mod coordinator;
pub mod error;
pub mod frame;
pub mod hosts;
pub mod joined;
pub mod kubernetes;
mod link;
pub mod message;
mod programs;
pub mod relay;
pub mod supervisor;
mod tail;

pub use agent::Executor;
pub use agent_set::{AgentCommand, AgentSpec};
pub use coordinator::{LoadAgents, ServerGroup};
pub use error::FleetError;
pub use link::ReadingSink;
pub use message::{FromAgent, ToAgent};
pub use programs::supervise;
pub use supervisor::Supervisor;
