//! The spellings of rates, durations, sizes and counts that flags and scenario files accept.
//!
//! One function per kind ([`parse_duration`], [`parse_rate`], [`parse_size`], [`parse_count`]) splits a number from
//! its unit and returns a checked value; a [`ParseError`] states the expected form. Durations need a unit and are at
//! most 100 years, rates are at most 10 million per second, sizes and counts at most 2^53, so that later arithmetic
//! cannot overflow. [`grouped`] formats counts. Start reading at [`parse_duration`].

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::Nanos;

/// Operations per second, finite and never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Rate(f64);

impl Rate {
    /// A rate of 0.
    pub const ZERO: Self = Self(0.0);

    /// Creates a rate of `per_s` operations per second; `None` if negative or not finite.
    pub fn per_second(per_s: f64) -> Option<Self> {
        (per_s.is_finite() && per_s >= 0.0).then_some(Self(per_s))
    }

    /// Returns the operations per second.
    pub const fn get(self) -> f64 {
        self.0
    }
}

/// `812/s`, `12,400/s`, `3.5/s`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= 100.0 {
            write!(f, "{}/s", grouped(self.0.round() as u64))
        } else {
            write!(f, "{:.1}/s", self.0)
        }
    }
}

/// Formats a count with thousands separators.
///
/// ```
/// use plimsoll_model::units::grouped;
///
/// assert_eq!(grouped(999), "999");
/// assert_eq!(grouped(1_234_567), "1,234,567");
/// ```
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Why a spelling was not accepted; completes *invalid value: …*.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{text:?} is not {expected}")]
pub struct ParseError {
    /// The text.
    pub text: String,
    /// The expected form, with examples.
    pub expected: &'static str,
}

fn error(text: &str, expected: &'static str) -> ParseError {
    ParseError { text: text.to_owned(), expected }
}

/// Splits `12.5ms` into `12.5` and `ms`. The number is plain decimal: no sign, no exponent.
fn split_number(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse::<f64>().ok()?, unit.trim_start()))
}

/// Parses a span such as `250ms`, `10s`, `1m30s`, `1.5h`; a bare number other than `0` is refused, because peers
/// disagree on what it would mean.
///
/// ```
/// use plimsoll_model::Nanos;
/// use plimsoll_model::units::parse_duration;
///
/// assert_eq!(parse_duration("250ms"), Ok(Nanos::from_millis(250)));
/// assert_eq!(parse_duration("1m30s"), Ok(Nanos::from_secs(90)));
/// let error = parse_duration("90").expect_err("no unit");
/// assert_eq!(error.expected, "a duration such as 250ms, 10s, 5m, 1h or 1m30s");
/// ```
pub fn parse_duration(text: &str) -> Result<Nanos, ParseError> {
    const EXPECTED: &str = "a duration such as 250ms, 10s, 5m, 1h or 1m30s";
    let trimmed = text.trim();
    if trimmed == "0" {
        return Ok(Nanos::ZERO);
    }
    let mut rest = trimmed;
    let mut total_ns = 0.0;
    while !rest.is_empty() {
        let (value, tail) = split_number(rest).ok_or_else(|| error(text, EXPECTED))?;
        let unit_len = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, after) = tail.split_at(unit_len);
        total_ns += value
            * match unit {
                "ns" => 1.0,
                "us" | "µs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "m" | "min" => 60e9,
                "h" => 3600e9,
                "d" => 86_400e9,
                _ => return Err(error(text, EXPECTED)),
            };
        rest = after;
    }
    // 100 years bound every duration, so that sums of them cannot overflow.
    if trimmed.is_empty() || total_ns > 100.0 * 365.0 * 86_400e9 {
        return Err(error(text, EXPECTED));
    }
    Ok(Nanos(total_ns.round() as u64))
}

/// Parses a rate such as `500`, `500/s`, `30/m`, `2k/s`.
///
/// ```
/// use plimsoll_model::units::parse_rate;
///
/// assert_eq!(parse_rate("2k/s").map(|rate| rate.get()), Ok(2_000.0));
/// assert_eq!(parse_rate("30/m").map(|rate| rate.to_string()), Ok("0.5/s".to_owned()));
/// ```
pub fn parse_rate(text: &str) -> Result<Rate, ParseError> {
    const EXPECTED: &str = "a rate such as 500, 500/s, 30/m or 2k/s";
    let trimmed = text.trim();
    let (number, per) = trimmed.split_once('/').unwrap_or((trimmed, "s"));
    let seconds = match per.trim() {
        "s" | "1s" | "sec" => 1.0,
        "m" | "min" | "1m" => 60.0,
        "h" | "1h" => 3600.0,
        _ => return Err(error(text, EXPECTED)),
    };
    if number.ends_with('m') {
        // Both could be meant: minutes in a duration, and the million that some programs write so.
        return Err(error(text, "1M/s for a million per second, 1/m for one per minute"));
    }
    let value = parse_scaled(number.trim()).ok_or_else(|| error(text, EXPECTED))?;
    // Ten million a second is beyond any single-host target; it also bounds a schedule's size.
    match Rate::per_second(value / seconds) {
        Some(rate) if rate.get() <= 1e7 => Ok(rate),
        _ => Err(error(text, "a rate of at most 10M/s")),
    }
}

/// Parses a size in bytes such as `512`, `4KiB`, `1MB`.
pub fn parse_size(text: &str) -> Result<u64, ParseError> {
    const EXPECTED: &str = "a size such as 512, 4KiB or 1MB";
    let (value, unit) = split_number(text.trim()).ok_or_else(|| error(text, EXPECTED))?;
    let factor = match unit {
        "" | "B" => 1.0,
        "k" | "kB" | "KB" => 1e3,
        "M" | "MB" => 1e6,
        "G" | "GB" => 1e9,
        "Ki" | "KiB" => 1024.0,
        "Mi" | "MiB" => 1024.0 * 1024.0,
        "Gi" | "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(error(text, EXPECTED)),
    };
    whole(value * factor).ok_or_else(|| error(text, EXPECTED))
}

/// Parses a count such as `100`, `20k`, `2M`.
pub fn parse_count(text: &str) -> Result<u64, ParseError> {
    const EXPECTED: &str = "a whole number such as 100, 20k or 2M";
    let expected = match text.trim_end().ends_with('m') {
        true => "a whole number, where two million are 2M",
        false => EXPECTED,
    };
    parse_scaled(text.trim()).and_then(whole).ok_or_else(|| error(text, expected))
}

fn parse_scaled(text: &str) -> Option<f64> {
    let (value, unit) = split_number(text)?;
    match unit {
        "" => Some(value),
        "k" | "K" => Some(value * 1e3),
        "M" => Some(value * 1e6),
        "G" => Some(value * 1e9),
        _ => None,
    }
}

fn whole(value: f64) -> Option<u64> {
    // 2^53: every whole number up to here is exact in an f64.
    (value.fract() == 0.0 && value <= 9_007_199_254_740_992.0).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, ns) in [
            ("250ms", 250_000_000),
            ("10s", 10_000_000_000),
            ("5m", 300_000_000_000),
            ("1h", 3_600_000_000_000),
            ("1m30s", 90_000_000_000),
            ("0", 0),
            ("1.5s", 1_500_000_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Nanos(ns)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1e3s", "10 parsecs", "1s2", "99999999d"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rates() {
        for (text, per_s) in [("500/s", 500.0), ("30/m", 0.5), ("500", 500.0), ("2k/s", 2000.0)] {
            assert_eq!(parse_rate(text).map(Rate::get), Ok(per_s), "{text}");
        }
        for text in
            ["", "-5", "5/fortnight", "NaN", "inf", "11M", "5/", "1m", "1m/s", "1 m", "1M/x"]
        {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_and_counts() {
        assert_eq!(parse_size("4KiB"), Ok(4096));
        assert_eq!(parse_size("1MB"), Ok(1_000_000));
        assert!(parse_size("1.5").is_err());
        assert_eq!(parse_count("20k"), Ok(20_000));
        assert_eq!(parse_count("2M"), Ok(2_000_000));
        for text in ["1.5", "2m", "k", "2kk", "2MB"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
        // Neither is a unit of bytes.
        assert!(parse_size("1m").is_err() && parse_size("1mb").is_err());
    }

    #[test]
    fn grouping() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(12), "12");
        assert_eq!(Rate::per_second(12_400.4).map(|r| r.to_string()), Some("12,400/s".to_owned()));
    }
}
