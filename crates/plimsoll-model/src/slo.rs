//! Service-level objectives: `p99<50ms,errors<0.1%`.
//!
//! An [`Slo`] is one to eight [`Goal`]s, each of another metric, which must all be met. A latency goal is a budget of
//! bad operations: at most `1 - quantile` of all may be late, failed or unsent ([`Goal::bad_ratio_max`]). The
//! strictest limit is the deadline of each operation ([`Slo::deadline`]). Text is the serialised form, too, and
//! reads back as the same objective. Start reading at [`Goal`].

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
            Self::Latency { quantile, .. } => format!("p{}", percent(*quantile)),
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
                    Some(percent) => ratio(percent.trim().parse().map_err(|_| error())?),
                    None => limit.parse::<f64>().map_err(|_| error())?,
                };
                if !(0.0..=1.0).contains(&ratio) {
                    return Err(refused("errors below 0 % to 100 %, such as errors<0.1%"));
                }
                Ok(Self::Errors { ratio_max: ratio })
            }
            metric => {
                let digits = metric.strip_prefix('p').ok_or_else(error)?;
                let quantile = ratio(match digits {
                    "999" => 99.9,
                    "9999" => 99.99,
                    digits => digits.parse().map_err(|_| error())?,
                });
                // A subnormal quantile has no percentage that reads back as it.
                if !(quantile.is_normal() && (0.0..1.0).contains(&quantile)) {
                    return Err(error());
                }
                let limit = parse_duration(limit).map_err(|_| error())?;
                if limit == Nanos::ZERO {
                    return Err(refused("a limit above zero, such as p99<50ms"));
                }
                Ok(Self::Latency { quantile, limit })
            }
        }
    }
}

/// The spelling that reads back as the goal: usually with at most four decimals.
impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}<", self.metric())?;
        match *self {
            Self::Latency { limit, .. } => {
                let ms = format!("{}ms", trim_float(limit.as_millis_f64()));
                match parse_duration(&ms) == Ok(limit) {
                    true => f.write_str(&ms),
                    false => write!(f, "{}ns", limit.0),
                }
            }
            Self::Errors { ratio_max } => {
                let percent = percent(ratio_max);
                match is_percent_of(&percent, ratio_max) {
                    true => write!(f, "{percent}%"),
                    false => write!(f, "{ratio_max}"),
                }
            }
        }
    }
}

/// The ratio that is nearest to a percentage as it is written: 0.7 % is 0.007, which `0.7 / 100.0` is not.
fn ratio(percent: f64) -> f64 {
    format!("{percent}e-2").parse().unwrap_or(f64::NAN)
}

fn is_percent_of(text: &str, of: f64) -> bool {
    text.parse().is_ok_and(|percent| ratio(percent) == of)
}

/// The percentage of a ratio, with more than four decimals if fewer would read back as another ratio.
fn percent(of: f64) -> String {
    let percent = of * 100.0;
    let short = trim_float(percent);
    let exact = [percent, percent.next_up(), percent.next_down()].map(|near| near.to_string());
    let reads_back = |text: &&String| is_percent_of(text, of);
    let all = std::iter::once(&short).chain(&exact).filter(reads_back);
    all.min_by_key(|text| text.len()).unwrap_or(&short).clone()
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
    use proptest::prelude::*;

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
    fn small_goals_keep_every_digit() {
        for text in ["errors<0.00001%", "p99<40ns", "p99<1234560ns", "p99.99999<5ms", "errors<0.7%"]
        {
            assert_eq!(text.parse::<Slo>().map(|slo| slo.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("errors<0.007".parse::<Slo>(), "errors<0.7%".parse());
        assert_eq!("errors<0.7%".parse(), Ok(Goal::Errors { ratio_max: 0.007 }));
        // They are two metrics.
        assert!("p99.99999<5ms,p99.99998<4ms".parse::<Slo>().is_ok());
    }

    proptest! {
        #[test]
        fn an_objective_reads_back_as_itself(
            bits: [u64; 3], share in 0.0..=1.0f64, percent in 0.0..=100.0f64, span in 0.0..1e4f64,
        ) {
            let [any, limit, errors] = bits.map(f64::from_bits);
            let shortened = format!("{percent:.7}");
            for text in [
                format!("errors<{share}"),
                format!("errors<{percent}%"),
                format!("errors<{errors}"),
                format!("errors<{errors}%"),
                format!("errors<{shortened}%"),
                format!("p{percent}<{span}ms"),
                format!("p{shortened}<{span}d"),
                format!("p{any}<{limit}us"),
                format!("p{}<{}ns,errors<{percent:.3}%", 100.0 - percent / 1e6, bits[0] >> 2),
            ] {
                if let Ok(slo) = text.parse::<Slo>() {
                    prop_assert_eq!(slo.to_string().parse(), Ok(slo), "{}", text);
                }
            }
        }
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
