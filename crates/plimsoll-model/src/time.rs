//! Time as a number: nanoseconds since an epoch that the caller chose.
//!
//! [`Nanos`] is used for instants and for spans alike, because layers 0 and 1 read no clock and receive `now` as an
//! argument. Addition and [`Nanos::since`] saturate, so that neither panics nor wraps. In frames a value is an
//! integer; the modules `seconds` and `ms` serialise it for JSON as a float in those units. Start reading at
//! [`Nanos`].

use std::fmt;
use std::ops::Add;

use serde::{Deserialize, Serialize};

/// Nanoseconds since an epoch, or a span of nanoseconds. Range: 584 years.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The epoch itself, or an empty span.
    pub const ZERO: Self = Self(0);
    /// Further away than any run.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a span of whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// Creates a span of whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// Creates a span in seconds; negative and not-a-number become zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Self((s * 1e9) as u64)
    }

    /// Returns the span in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the span in milliseconds.
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Returns the span from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Returns `self + span`, without wrapping.
    #[must_use]
    pub const fn saturating_add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// A span in JSON as seconds.
pub(crate) mod seconds {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Nanos;

    pub(crate) fn serialize<S: Serializer>(span: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
        span.as_secs_f64().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        f64::deserialize(from).map(of)
    }

    fn of(s: f64) -> Nanos {
        Nanos((s * 1e9).round() as u64)
    }

    /// A span that may be `null`.
    pub(crate) mod option {
        use super::{Deserialize, Deserializer, Nanos, Serialize, Serializer, of};

        pub(crate) fn serialize<S: Serializer>(
            span: &Option<Nanos>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            span.map(Nanos::as_secs_f64).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Nanos>, D::Error> {
            Option::<f64>::deserialize(from).map(|s| s.map(of))
        }
    }
}

/// A span in JSON as milliseconds.
pub(crate) mod ms {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Nanos;

    pub(crate) fn serialize<S: Serializer>(span: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
        span.as_millis_f64().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Nanos, D::Error> {
        f64::deserialize(from).map(|ms| Nanos((ms * 1e6).round() as u64))
    }
}

impl Add for Nanos {
    type Output = Self;

    fn add(self, span: Self) -> Self {
        self.saturating_add(span)
    }
}

impl From<std::time::Duration> for Nanos {
    fn from(span: std::time::Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for std::time::Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

/// Writes the value in the largest unit that gives at least 1, with at least three significant digits:
/// `1.25 ms`, `32.0 s`, `2400 s`. Nanoseconds are whole: `870 ns`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = self.0 as f64;
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ns", self.0),
            1_000..1_000_000 => (ns / 1e3, "us"),
            1_000_000..1_000_000_000 => (ns / 1e6, "ms"),
            _ => (ns / 1e9, "s"),
        };
        let decimals = if value < 9.995 {
            2
        } else if value < 99.95 {
            1
        } else {
            0
        };
        write!(f, "{value:.decimals$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_keeps_three_digits() {
        for (ns, text) in [
            (870, "870 ns"),
            (1_250_000, "1.25 ms"),
            (12_500_000, "12.5 ms"),
            (125_000_000, "125 ms"),
            (32_000_000_000, "32.0 s"),
            (1_999_000, "2.00 ms"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }

    #[test]
    fn since_never_wraps() {
        assert_eq!(Nanos(3).since(Nanos(5)), Nanos::ZERO);
    }
}
