//! `plimsoll find storm` and `plimsoll lab storm`: held connections that are cut at once. What was typed, not what it
//! means.

use clap::Args;
use plimsoll_model::slo::Slo;
use plimsoll_model::storm::{Cut, Reconnect};
use plimsoll_model::{Nanos, Rate};

use super::search::SearchLoadFlags;
use super::values::{
    ModeFlag, confidence, connections, positive_duration, positive_rate, search_budget,
};

/// A search for the largest storm.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Storm")]
pub(crate) struct StormFlags {
    /// Connections to hold [default: 2k for lab storm]
    #[arg(short = 'c', long, value_name = "N", value_parser = connections)]
    pub(crate) connections: Option<u64>,

    /// Time in which all clients must be back
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive_duration)]
    pub(crate) recover: Nanos,

    /// End of the old connections: rst, fin or silent
    ///
    /// With silent the server is not notified: it holds both connections of a client until the storm is over.
    #[arg(long, value_name = "HOW", default_value = "rst")]
    pub(crate) cut: Cut,

    /// Policy of the clients: immediate, rate:R, backoff:MIN..MAX or backoff:MIN..MAX,jitter
    ///
    /// A client is back when its new connection has answered a request. It gives up an attempt after --connect-timeout
    /// and tries again: at once, in its turn, or after twice the last pause. After a refusal it waits 100 ms more.
    #[arg(long, value_name = "POLICY", default_value = "immediate")]
    pub(crate) reconnect: Reconnect,

    /// Try what makes larger storms safe, too: jitter, resumption, ECDSA, accept queue, limit on new connections
    ///
    /// First storms of --max with jitter: each client waits a random part of it before each attempt, and all must be
    /// back within --recover after that. Then the search is made again with one change at a time: sessions of TLS that
    /// are resumed, clients that ask for an ECDSA certificate, and in a laboratory twice the accept queue and the limit
    /// on new connections. Each takes as much time again at most.
    #[arg(long)]
    pub(crate) try_remedies: bool,

    /// Smallest storm to try, connections [default: 1]
    #[arg(long, value_name = "N", value_parser = connections)]
    pub(crate) min: Option<u64>,

    /// Largest storm to try, connections [default: all that are held]
    #[arg(long, value_name = "N", value_parser = connections)]
    pub(crate) max: Option<u64>,

    /// Goals of connections that are not cut [default: p99<50ms,errors<0.1%]
    #[arg(long, value_name = "GOALS")]
    pub(crate) slo: Option<Slo>,

    /// Budget by name: quick (about 5 min), standard (30) or strict (90) [default: find standard, lab quick]
    #[arg(long, value_name = "MODE", hide_possible_values = true)]
    pub(crate) mode: Option<ModeFlag>,

    /// Time for all storms and the returns between them, 30s to 24h [default: set by --mode]
    #[arg(long, value_name = "DURATION", value_parser = search_budget)]
    pub(crate) budget: Option<Nanos>,

    /// Confidence of the interval to contain the largest storm: more than 0.5, less than 0.999
    #[arg(long, value_name = "SHARE", default_value = "0.9", value_parser = confidence)]
    pub(crate) confidence: f64,

    /// New connections per second before the first storm, and when missing ones are opened between storms
    #[arg(short = 'r', long, value_name = "RATE", default_value = "2k")]
    #[arg(value_parser = positive_rate)]
    pub(crate) rate: Rate,

    /// Period in which each connection sends one request
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = positive_duration)]
    pub(crate) heartbeat: Nanos,

    #[command(flatten)]
    pub(crate) load: SearchLoadFlags,
}

/// The consent to a storm against a server on another host.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq)]
#[command(next_help_heading = "Storm")]
pub(crate) struct RemoteFlags {
    /// Make storms against a server that is not on this host
    #[arg(long)]
    pub(crate) yes_storm_remote: bool,
}
