//! What a load needs of a host, and HAProxy and nginx for the laboratory: their configurations,
//! rendered from a plan and checked by the programs themselves.
//!
//! Comparing and rendering are pure. Only `check` and `version` run a program, and only to ask it something; the
//! proxies themselves are started and stopped elsewhere, with the arguments that `argv` gives.
#![forbid(unsafe_code)]

/// Appends one line to a `String`, which cannot fail.
macro_rules! line {
    ($text:expr, $($arg:tt)*) => {{
        let _ = std::fmt::Write::write_fmt($text, format_args!("{}\n", format_args!($($arg)*)));
    }};
}

pub mod haproxy;
pub mod needs;
pub mod nginx;
pub mod plan;
mod program;

pub use plan::ProxyPlan;
pub use program::CheckError;
