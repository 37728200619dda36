//! Coordinator and agents: one load, or one server, spread over several processes.
//!
//! A coordinator starts agents, tells them in frames over stdin and stdout what to do, and adds up
//! exactly what they report. What an agent *does* comes from outside, as an [`Executor`]; this
//! crate never touches measured traffic. Whatever is started here ends: when it is told to, when
//! its coordinator is done, and when its coordinator is killed.
#![forbid(unsafe_code)]

pub mod agent;
pub mod coordinator;
mod crew;
pub mod error;
pub mod frame;
mod guard;
mod link;
pub mod message;
mod tail;
pub mod warden;

pub use agent::Executor;
pub use coordinator::{LocalAgents, ServerGroup};
pub use crew::{AgentCommand, AgentSpec};
pub use error::FleetError;
pub use message::{FromAgent, ToAgent};
pub use warden::Warden;
