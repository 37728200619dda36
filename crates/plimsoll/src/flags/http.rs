//! Which version of HTTP is spoken. What was typed, not what it means.

use clap::Args;

use super::values::{HttpFlag, streams};

/// The version of HTTP, and how connections of HTTP/2 are shared.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq)]
#[command(next_help_heading = "Request")]
pub(crate) struct HttpFlags {
    /// HTTP version: 1.1, or 2 (ALPN on https, prior knowledge on http) [default: 1.1]
    #[arg(long, value_name = "VERSION", hide_possible_values = true)]
    pub(crate) http: Option<HttpFlag>,

    /// With HTTP/2, requests at once on one connection, if the server allows that many [default: 10]
    #[arg(short = 'm', long, value_name = "N", value_parser = streams, help_heading = "Connections")]
    pub(crate) streams: Option<u32>,
}
