//! `find rfc9411` and `lab rfc9411`: one test case of the RFC. What was typed, not what it means.

use clap::Args;
use plimsoll_model::rfc9411::{Case, Object};
use plimsoll_model::units::{ParseError, parse_duration, parse_rate, parse_size};
use plimsoll_model::{Nanos, Rate};

use super::search::{ArrivalsFlags, TrialFlags};
use super::shared::{ClientFlags, HandshakeFlags};
use super::values::{connections, positive_count, positive_rate, refuse};

/// The target of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TargetLoad {
    /// In the case's unit.
    Units(Rate),
    /// Inspected Throughput.
    BitsPerSecond(f64),
}

/// Flags of a case of RFC 9411, wherever the server is.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "RFC 9411")]
pub(crate) struct Rfc9411Flags {
    /// Test case, by its section in the RFC: 7.1 to 7.9
    #[arg(long, value_name = "CASE", required = true)]
    pub(crate) case: Case,

    /// Target load of the case [default: what a closed loop reaches]
    ///
    /// Connections/s (7.2, 7.6), transactions/s or a throughput such as 10Gbit/s (7.1, 7.3, 7.7), connections (7.5,
    /// 7.9).
    #[arg(long, value_name = "LOAD", value_parser = target_load)]
    pub(crate) target: Option<TargetLoad>,

    /// Length of the sustain phase; the RFC recommends at least 300s
    #[arg(long, value_name = "DURATION", default_value = "300s", value_parser = sustain)]
    pub(crate) sustain: Nanos,

    /// Test only these object sizes of the case, such as 1KB,64KB or mixed
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = object)]
    pub(crate) object_size: Vec<Object>,

    /// Connections/s that the server reached in 7.2 (7.6), one per object size; without this, 7.4,
    /// 7.5, 7.8 and 7.9 measure them first
    #[arg(long, value_name = "RATE,...", value_delimiter = ',', value_parser = positive_rate)]
    pub(crate) measured_cps: Vec<Rate>,

    /// Transactions/s that the server reached in 7.3 (7.7), one per object size; without this, 7.4
    /// and 7.8 measure them first
    #[arg(long, value_name = "RATE,...", value_delimiter = ',', value_parser = positive_rate)]
    pub(crate) measured_tps: Vec<Rate>,

    #[command(flatten)]
    pub(crate) arrivals: ArrivalsFlags,

    #[command(flatten, next_help_heading = "Search")]
    pub(crate) trial: TrialFlags,

    /// Sessions that may be open at once [default: 1000]
    #[arg(short = 'c', long, value_name = "N", value_parser = connections)]
    #[arg(help_heading = "Connections")]
    pub(crate) connections: Option<u64>,

    /// Transactions on each connection (7.1 only) [default: 10]
    #[arg(long, value_name = "N", value_parser = positive_count, help_heading = "Connections")]
    pub(crate) requests_per_connection: Option<u64>,

    #[command(flatten)]
    pub(crate) client: ClientFlags,

    #[command(flatten)]
    pub(crate) handshake: HandshakeFlags,
}

/// Parses `5k`, `5000/s`, `10Gbit/s`.
fn target_load(text: &str) -> Result<TargetLoad, ParseError> {
    const BITS_MAX: f64 = 1e15;
    let units = [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
    let bits = units.iter().find_map(|(unit, factor)| {
        Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * factor)
    });
    let load = match bits {
        Some(bits) => (bits > 0.0 && bits <= BITS_MAX).then_some(TargetLoad::BitsPerSecond(bits)),
        None => parse_rate(text).ok().filter(|rate| *rate > Rate::ZERO).map(TargetLoad::Units),
    };
    load.ok_or_else(|| refuse(text, "a load above 0 such as 5k, 5000/s or 10Gbit/s"))
}

/// Parses a time in whole seconds, the length of a sample. At least two are needed, because one sample has no
/// deviation.
fn sustain(text: &str) -> Result<Nanos, ParseError> {
    const MIN: Nanos = Nanos::from_secs(2);
    const MAX: Nanos = Nanos::from_secs(24 * 3600);
    match parse_duration(text) {
        Ok(span) if span.0 % 1_000_000_000 == 0 && (MIN..=MAX).contains(&span) => Ok(span),
        _ => Err(refuse(text, "whole seconds from 2s to 24h, such as 300s")),
    }
}

/// Parses `16KB`, `mixed`.
fn object(text: &str) -> Result<Object, ParseError> {
    /// The largest object that our own backend serves.
    const MAX: u64 = 1 << 30;
    match (text, parse_size(text)) {
        ("mixed", _) => Ok(Object::Mixed),
        (_, Ok(bytes @ 1..=MAX)) => Ok(Object::Bytes(bytes)),
        _ => Err(refuse(text, "an object size such as 1KB, 64KB or mixed")),
    }
}
