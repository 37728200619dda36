//! Service-level objectives: `p99<50ms,errors<0.1%`.
//!
//! An [`Slo`] is one to eight [`Goal`]s, each of another metric, which must all be met. A latency goal is a budget of
//! bad operations: at most `1 - quantile` of all may be late, failed or unsent ([`Goal::bad_ratio_max`]). The
//! strictest limit is the deadline of each operation ([`Slo::deadline`]). Text is the serialised form, too. Start
//! reading at [`Goal`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::units::{ParseError, parse_duration};

/// One condition of an objective.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// The share of operations that are late, failed or unsent may be at most `1 - quantile`.
    Latency {
        /// 0 < quantile < 1; p99 is 0.99.
        quantile: f64,
        /// An answer after this is late.
        #[serde(rename = "limit_ms", with = "crate::time::ms")]
        limit: Nanos,
    },
    /// Failed operations over scheduled ones.
    Errors {
        /// 0 <= limit <= 1.
        ratio_max: f64,
    },
}

impl Goal {
    /// Returns the largest share of bad operations that still meets the goal.
    pub fn bad_ratio_max(&self) -> f64 {
        match *self {
            Self::Latency { quantile, .. } => 1.0 - quantile,
            Self::Errors { ratio_max } => ratio_max,
        }
    }

    /// Returns the limited figure: `p99`, `errors`.
    pub fn metric(&self) -> String {
        match self {
            Self::Latency { quantile, .. } => format!("p{}", trim_float(quantile * 100.0)),
            Self::Errors { .. } => "errors".to_owned(),
        }
    }
}

/// Goals joined by AND; never averaged.
///
/// ```
/// use plimsoll_model::Nanos;
/// use plimsoll_model::slo::{Goal, Slo};
///
/// let slo: Slo = "p99<50ms,errors<0.1%".parse().expect("two goals");
/// assert_eq!(slo.goals[0], Goal::Latency { quantile: 0.99, limit: Nanos::from_millis(50) });
/// assert_eq!(slo.goals[1].metric(), "errors");
/// assert!("p99<50ms,p99<20ms".parse::<Slo>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Slo {
    /// At least one goal, at most [`Slo::GOALS_MAX`], each of another metric.
    pub goals: Vec<Goal>,
}

impl Slo {
    /// Goals of one objective.
    pub const GOALS_MAX: usize = 8;

    /// Returns the first goal about latency, with its quantile and its limit.
    pub fn latency(&self) -> Option<(&Goal, f64, Nanos)> {
        self.goals.iter().find_map(|goal| match goal {
            Goal::Latency { quantile, limit } => Some((goal, *quantile, *limit)),
            Goal::Errors { .. } => None,
        })
    }

    /// Returns the strictest latency limit: the deadline of a single operation.
    pub fn deadline(&self) -> Option<Nanos> {
        self.goals
            .iter()
            .filter_map(|goal| match goal {
                Goal::Latency { limit, .. } => Some(*limit),
                Goal::Errors { .. } => None,
            })
            .min()
    }
}

impl Default for Slo {
    /// `p99<50ms,errors<0.1%`: what `find` and `lab` use and print when none is given.
    fn default() -> Self {
        Self {
            goals: vec![
                Goal::Latency { quantile: 0.99, limit: Nanos::from_millis(50) },
                Goal::Errors { ratio_max: 0.001 },
            ],
        }
    }
}

impl FromStr for Slo {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = |expected| ParseError { text: text.trim().to_owned(), expected };
        let mut goals: Vec<Goal> = Vec::new();
        for part in text.split(',') {
            let goal: Goal = part.parse()?;
            match goals.iter().find(|known| known.metric() == goal.metric()) {
                Some(known) if *known != goal => {
                    return Err(error("goals with one limit for each metric"));
                }
                Some(_) => {}
                None if goals.len() == Self::GOALS_MAX => {
                    return Err(error("at most 8 goals"));
                }
                None => goals.push(goal),
            }
        }
        Ok(Self { goals })
    }
}

impl FromStr for Goal {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refused = |expected| ParseError { text: text.trim().to_owned(), expected };
        let error = || refused("a goal such as p99<50ms, p99.9<200ms or errors<0.1%");
        let (metric, limit) = text.split_once('<').ok_or_else(error)?;
        let limit = limit.trim_start_matches('=').trim();
        match metric.trim() {
            "errors" => {
                let ratio = match limit.strip_suffix('%') {
                    Some(percent) => percent.trim().parse::<f64>().map_err(|_| error())? / 100.0,
                    None => limit.parse::<f64>().map_err(|_| error())?,
                };
                if !(0.0..=1.0).contains(&ratio) {
                    return Err(refused("errors below 0 % to 100 %, such as errors<0.1%"));
                }
                Ok(Self::Errors { ratio_max: ratio })
            }
            metric => {
                let digits = metric.strip_prefix('p').ok_or_else(error)?;
                let percent = match digits {
                    "999" => 99.9,
                    "9999" => 99.99,
                    digits => digits.parse::<f64>().map_err(|_| error())?,
                };
                if !(percent > 0.0 && percent < 100.0) {
                    return Err(error());
                }
                let limit = parse_duration(limit).map_err(|_| error())?;
                if limit == Nanos::ZERO {
                    return Err(refused("a limit above zero, such as p99<50ms"));
                }
                Ok(Self::Latency { quantile: percent / 100.0, limit })
            }
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latency { limit, .. } => {
                write!(f, "{}<{}ms", self.metric(), trim_float(limit.as_millis_f64()))
            }
            Self::Errors { ratio_max } => {
                write!(f, "{}<{}%", self.metric(), trim_float(ratio_max * 100.0))
            }
        }
    }
}

/// Writes a number with up to four decimals, none of them a zero at the end.
pub(crate) fn trim_float(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl fmt::Display for Slo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let goals: Vec<_> = self.goals.iter().map(Goal::to_string).collect();
        f.write_str(&goals.join(","))
    }
}

written_as_text!(Slo);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        for text in ["p99<50ms,errors<0.1%", "p99.9<200ms", "p50<1.5ms,p99<10ms", "errors<0%"] {
            assert_eq!(text.parse::<Slo>().map(|slo| slo.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("p999<1s".parse::<Slo>().map(|s| s.to_string()), Ok("p99.9<1000ms".to_owned()));
        assert_eq!(Slo::default().deadline(), Some(Nanos::from_millis(50)));
    }

    #[test]
    fn goals_that_contradict_each_other_are_refused() {
        let said =
            |text: &str| text.parse::<Slo>().map(|slo| slo.to_string()).map_err(|e| e.to_string());
        let contradictory = "is not goals with one limit for each metric";
        for text in ["p99<10ms,p99<20ms", "errors<1%,p50<1ms,errors<2%", "p999<1s,p99.9<2s"] {
            assert_eq!(said(text), Err(format!("{text:?} {contradictory}")));
        }
        // Said twice, or with more than is needed, is no contradiction.
        assert_eq!(said("p99<10ms,p99<10ms").as_deref(), Ok("p99<10ms"));
        assert_eq!(said("p50<20ms,p99<10ms").as_deref(), Ok("p50<20ms,p99<10ms"));
        let many: Vec<_> = (50..59).map(|p| format!("p{p}<1s")).collect();
        assert!(said(&many.join(",")).is_err_and(|said| said.contains("at most 8 goals")));
        assert!(said("p99<0ms").is_err_and(|said| said.contains("above zero")));
    }

    #[test]
    fn refuses_what_has_no_meaning() {
        for text in ["", "p99", "p99>5ms", "p0<5ms", "p100<5ms", "errors<101%", "p99<5", "x<5ms"] {
            assert!(text.parse::<Slo>().is_err(), "{text}");
        }
    }
}
