//! Flags of `--mode rfc9411`, for `find` and `lab`. What was typed, not what it means.

use clap::Args;
use plimsoll_model::rfc9411::{Case, Object};
use plimsoll_model::units::{ParseError, parse_duration, parse_rate, parse_size};
use plimsoll_model::{Nanos, Rate};

use super::values::positive_rate;

/// The target of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TargetLoad {
    /// In the case's unit.
    Units(Rate),
    /// Inspected Throughput.
    BitsPerSecond(f64),
}

/// What a case of RFC 9411 needs to know.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "RFC 9411 (with --mode rfc9411)")]
pub(crate) struct Rfc9411Flags {
    /// Case of its section 7: 7.1 to 7.9
    #[arg(long, value_name = "CASE")]
    pub(crate) case: Option<Case>,

    /// Target of the case: connections/s (7.2, 7.6), transactions/s or a throughput such as
    /// 10Gbit/s (7.1, 7.3, 7.7), connections (7.5, 7.9) [default: what a closed loop reaches]
    #[arg(long, value_name = "LOAD", value_parser = target_load)]
    pub(crate) target: Option<TargetLoad>,

    /// Length of the sustain phase [default: 300s, the least that the RFC recommends]
    #[arg(long, value_name = "DURATION", value_parser = sustain)]
    pub(crate) sustain: Option<Nanos>,

    /// Only these of the case's objects, such as 1KB,64KB or mixed
    #[arg(long, value_name = "SIZE,...", value_delimiter = ',', value_parser = object)]
    pub(crate) object_size: Vec<Object>,

    /// Connections/s that the SUT reached in 7.2 (7.6), one for each object: 7.4, 7.5, 7.8 and 7.9
    /// then do not measure them first
    #[arg(long, value_name = "RATE,...", value_delimiter = ',', value_parser = positive_rate)]
    pub(crate) measured_cps: Vec<Rate>,

    /// Transactions/s that the SUT reached in 7.3 (7.7), one for each object, likewise for 7.4
    /// and 7.8
    #[arg(long, value_name = "RATE,...", value_delimiter = ',', value_parser = positive_rate)]
    pub(crate) measured_tps: Vec<Rate>,
}

impl Rfc9411Flags {
    /// The first of them that was typed.
    pub(crate) fn first_typed(&self) -> Option<&'static str> {
        let typed = [
            ("--case", self.case.is_some()),
            ("--target", self.target.is_some()),
            ("--sustain", self.sustain.is_some()),
            ("--object-size", !self.object_size.is_empty()),
            ("--measured-cps", !self.measured_cps.is_empty()),
            ("--measured-tps", !self.measured_tps.is_empty()),
        ];
        typed.iter().find(|(_, given)| *given).map(|(flag, _)| *flag)
    }
}

/// `5k`, `5000/s`, `10Gbit/s`.
fn target_load(text: &str) -> Result<TargetLoad, ParseError> {
    let refused = || ParseError {
        text: text.to_owned(),
        expected: "a load above 0 such as 5k, 5000/s or 10Gbit/s",
    };
    let units = [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)];
    let scaled = units
        .iter()
        .find_map(|(unit, factor)| text.strip_suffix(unit).map(|number| (number.trim(), factor)));
    match scaled {
        Some((number, factor)) => {
            let bits = number.parse::<f64>().map_err(|_| refused())? * factor;
            let sound = bits.is_finite() && bits > 0.0 && bits <= 1e15;
            if sound { Ok(TargetLoad::BitsPerSecond(bits)) } else { Err(refused()) }
        }
        None => match parse_rate(text) {
            Ok(rate) if rate > Rate::ZERO => Ok(TargetLoad::Units(rate)),
            _ => Err(refused()),
        },
    }
}

/// Whole seconds: the samples are a second each.
fn sustain(text: &str) -> Result<Nanos, ParseError> {
    const MAX: Nanos = Nanos::from_secs(24 * 3600);
    match parse_duration(text) {
        Ok(span) if span.0 > 0 && span.0 % 1_000_000_000 == 0 && span <= MAX => Ok(span),
        _ => Err(ParseError {
            text: text.to_owned(),
            expected: "whole seconds from 1s to 24h, such as 300s",
        }),
    }
}

/// `16KB`, `mixed`.
fn object(text: &str) -> Result<Object, ParseError> {
    /// What our own backend serves at most.
    const MAX: u64 = 1 << 30;
    match (text, parse_size(text)) {
        ("mixed", _) => Ok(Object::Mixed),
        (_, Ok(bytes @ 1..=MAX)) => Ok(Object::Bytes(bytes)),
        _ => Err(ParseError {
            text: text.to_owned(),
            expected: "an object size such as 1KB, 64KB or mixed",
        }),
    }
}
