//! The laboratory: a system under test (SUT) on this machine or another, its backends, the CPUs of each, and how
//! a SUT is watched, whether it was started here or named by the user.
//!
//! [`Laboratory::start`] starts everything that a [`LabPlan`] names, the SUT at a [`SutAddress`];
//! dropping the laboratory ends all of it, the SUT before its backends. [`WatchedServer`] is what an
//! experiment observes of a server besides its answers.
#![forbid(unsafe_code)]

/// Appends one line to a `String`, which cannot fail.
macro_rules! line {
    ($text:expr, $($arg:tt)*) => {{
        let _ = std::fmt::Write::write_fmt($text, format_args!("{}\n", format_args!($($arg)*)));
    }};
}

mod address;
mod backend_pool;
mod certificate;
mod control_group;
mod controls;
mod error;
mod far_sut;
mod installed;
mod isolated;
mod laboratory;
mod lever;
mod log_receiver;
mod mosquitto;
mod own_servers;
mod placement;
mod plan;
mod program;
mod proxy_plan;
mod running_sut;
#[cfg(test)]
mod scripted_haproxy;
mod settings;
mod sut;
mod sut_host;
mod watched;

pub use address::SutAddress;
pub use controls::{Controls, Ways};
pub use error::LabError;
pub use installed::Installed;
pub use isolated::{ClientHost, Isolated, IsolatedHost};
pub use laboratory::Laboratory;
pub use lever::{Lever, Moved, NewLimit};
pub use own_servers::OwnServers;
pub use placement::Placement;
pub use plan::{FarHosts, LabPlan};
pub use program::CheckError;
pub use settings::{ProxyConfiguration, SutSettings};
pub use sut::{Description, Sut, describe};
pub use sut_host::SutHost;
pub use watched::{HostView, NamedServer, ServerEnd, WatchedServer, processes_of};
