//! Gates: the largest allowed change of a figure between a baseline and a run, and the finding for it.
//!
//! A [`Gate`] is parsed from text such as `p99>10%`; [`Gate::is_violated_by`] tests one change. [`GateFinding::new`]
//! tests the interval of the change: FAIL if all of it violates the gate, WARN if only the estimate does, else PASS.
//! Runs without comparable figures yield an [`Incomparable`]. Changes are relative; changes of error shares are
//! differences. `plimsoll-capacity` estimates the changes. Start reading at [`GateFinding::new`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::slo::trim_float;
use crate::trial::Unsettled;
use crate::units::ParseError;

named! {
    /// A figure that two runs can be compared by.
    pub enum GateMetric {
        /// The safe load of a search.
        Safe = "safe",
        /// The tipping point of a search.
        TippingPoint = "tipping-point",
        /// A quantile of the corrected latency of a load: failed and unsent operations count as slower than any.
        P50 = "p50",
        /// 90th percentile, as [`Self::P50`].
        P90 = "p90",
        /// 99th percentile, as [`Self::P50`].
        P99 = "p99",
        /// 99.9th percentile, as [`Self::P50`].
        P999 = "p99.9",
        /// Failed and unsent operations of a load over all; compared in percentage points.
        Errors = "errors",
        /// Answers in time per second of a load.
        Goodput = "goodput",
        /// Memory of the machine for a held connection.
        MachineBytes = "machine-bytes-per-connection",
        /// Memory of the server's processes for one.
        SutBytes = "sut-bytes-per-connection",
        /// Memory of the kernel for one.
        KernelBytes = "kernel-bytes-per-connection",
        /// Memory of the clients' processes for one.
        UserBytes = "user-bytes-per-connection",
    }
}

impl GateMetric {
    /// Returns the quantile, if the metric is one.
    pub const fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            _ => None,
        }
    }

    /// Reports whether its change is a difference in percentage points, not a ratio.
    pub const fn is_in_points(self) -> bool {
        matches!(self, Self::Errors)
    }

    fn named(text: &str) -> Option<Self> {
        let text = match text {
            "p999" => "p99.9",
            "bytes-per-connection" => "machine-bytes-per-connection",
            text => text,
        };
        Self::ALL.iter().copied().find(|metric| metric.name() == text)
    }
}

/// A change that must not be: `safe<-5%`, `p99>10%`, `errors>0.1pp`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// The figure that is compared.
    pub metric: GateMetric,
    /// `true` if changes below the limit violate it; otherwise those above.
    pub is_below: bool,
    /// The change, relative to the baseline; a difference of shares if the metric is in points.
    pub limit: f64,
}

impl Gate {
    /// Reports whether a change violates it.
    pub fn is_violated_by(&self, change: f64) -> bool {
        if self.is_below { change < self.limit } else { change > self.limit }
    }
}

const EXPECTED: &str = "a change that must not be, such as safe<-5%, tipping-point<-3%, p99>10%, \
                        errors>0.1pp, goodput<-5% or bytes-per-connection>5%";

const POINTS_EXPECTED: &str = "in percentage points: a share of errors may be 0, of which nothing is a percentage; \
                               write errors>0.1pp";

impl FromStr for Gate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = |expected| ParseError { text: text.trim().to_owned(), expected };
        let at = text.find(['<', '>']).ok_or_else(|| error(EXPECTED))?;
        let (name, rest) = text.split_at(at);
        let metric = GateMetric::named(name.trim()).ok_or_else(|| error(EXPECTED))?;
        let is_below = rest.starts_with('<');
        let number = rest[1..].trim();
        let (unit, expected) =
            if metric.is_in_points() { ("pp", POINTS_EXPECTED) } else { ("%", EXPECTED) };
        let percent = number.strip_suffix(unit).ok_or_else(|| error(expected))?.trim();
        let is_plain = percent.chars().all(|c| c.is_ascii_digit() || "+-.".contains(c));
        let value: f64 = percent.parse().map_err(|_| error(EXPECTED))?;
        let limit = value / 100.0;
        if !is_plain || !limit.is_finite() || (is_below && limit <= -1.0) {
            return Err(error("a change that can be: above -100 %, as in safe<-5%"));
        }
        Ok(Self { metric, is_below, limit })
    }
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_below { '<' } else { '>' };
        let unit = if self.metric.is_in_points() { "pp" } else { "%" };
        let number = trim_float(self.limit * 100.0);
        write!(f, "{}{sign}{number}{unit}", self.metric.name())
    }
}

/// A figure with the interval that it lies in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The stated figure.
    pub value: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval; may be infinite.
    pub high: f64,
}

/// The source of the interval of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateMethod {
    /// The intervals that both runs state, from edge to edge.
    Stated,
    /// The test of Mann and Whitney over the given number of stretches of each run.
    Stretches {
        /// Stretches of each run.
        count: u32,
    },
    /// Slopes between levels of held connections, from edge to edge.
    Slopes,
}

/// One of the two runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The run that is compared with.
    Baseline,
    /// The run that is compared.
    Run,
}

/// Why two runs cannot be compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Incomparable {
    /// A property without which the figures are not of the same thing.
    Differs {
        /// Name of the property.
        what: String,
        /// In the baseline.
        baseline: String,
        /// In the run.
        run: String,
    },
    /// Settings without which the figures are not of the same thing, of the baseline and of the run.
    Settings([Box<Settings>; 2]),
    /// The figure has no interval in a run.
    NoInterval {
        /// The run.
        side: Side,
        /// The figure.
        metric: GateMetric,
        /// Why.
        why: &'static str,
    },
    /// The generator shaped a run's result.
    Invalid {
        /// The run.
        side: Side,
    },
    /// A search ended without an interval because its trials contradict each other, or its time was over.
    Unsettled {
        /// The run.
        side: Side,
        /// The evidence that the interval lacks.
        why: Unsettled,
    },
}

impl Incomparable {
    /// Creates the reason that a run does not state the uncertainty of its figure.
    pub const fn no_interval(side: Side, metric: GateMetric) -> Self {
        Self::NoInterval { side, metric, why: "it states no interval of it" }
    }
}

/// The end of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GateResult {
    /// The figures do not violate it.
    Pass,
    /// The figures do, and the interval of their difference does not rule out that it is chance.
    Warn,
    /// The whole interval violates it.
    Fail,
}

/// The effect of the speed of the server's host on the change of a figure that depends on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HostEffect {
    /// The speed was measured in both runs, and the change is the one at like speed.
    Measured {
        /// The speed in the run over the speed in the baseline.
        speed: f64,
        /// `true` if the two speeds differ by more than they vary within the runs.
        is_distinct: bool,
        /// The change of the figures as they are.
        observed: f64,
    },
    /// The speed was not measured in both runs.
    Unmeasured {
        /// Distance by which each end of the interval was moved, relative.
        widened: f64,
    },
}

/// The finding for a gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateFinding {
    /// The change that must not be.
    pub gate: Gate,
    /// The baseline's figure.
    pub baseline: f64,
    /// The run's figure.
    pub run: f64,
    /// The change, in the gate's unit.
    pub change: Estimate,
    /// The source of its interval.
    pub method: GateMethod,
    /// The effect of the speed of the server's host; `None` if the figure does not depend on it.
    pub host: Option<HostEffect>,
    /// The end of the gate.
    pub result: GateResult,
    /// The smallest change in the gate's direction, from none, that this pair could have shown; `None` if none is
    /// large enough.
    pub smallest: Option<f64>,
}

impl GateFinding {
    /// Creates the finding that follows from a change.
    pub fn new(gate: Gate, figures: (f64, f64), change: Estimate, method: GateMethod) -> Self {
        let nearest = if gate.is_below { change.high } else { change.low };
        let result = if gate.is_violated_by(nearest) {
            GateResult::Fail
        } else if gate.is_violated_by(change.value) {
            GateResult::Warn
        } else {
            GateResult::Pass
        };
        let (baseline, run) = figures;
        let smallest = smallest(gate.metric, change.value, nearest);
        Self { gate, baseline, run, change, method, host: None, result, smallest }
    }

    /// Returns the finding on the same figures that follows from another change.
    #[must_use]
    pub fn with_change(&self, change: Estimate) -> Self {
        Self::new(self.gate, (self.baseline, self.run), change, self.method)
    }
}

/// The change whose interval, as wide as this one, would just not hold none; `nearest` is the end of this one that is
/// nearest to none.
fn smallest(metric: GateMetric, value: f64, nearest: f64) -> Option<f64> {
    let shift = match metric.is_in_points() {
        true => value - nearest,
        false => (1.0 + value) / (1.0 + nearest) - 1.0,
    };
    (shift.is_finite() && shift > -1.0).then_some(shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_come_back_as_they_were_written() {
        for text in [
            "safe<-5%",
            "tipping-point<-2.5%",
            "p99>10%",
            "p99.9>0%",
            "errors>0.1pp",
            "goodput<-5%",
            "machine-bytes-per-connection>5%",
        ] {
            assert_eq!(text.parse::<Gate>().map(|gate| gate.to_string()), Ok(text.to_owned()));
        }
        for (text, meant) in [
            (" p999 > +10 % ", "p99.9>10%"),
            ("bytes-per-connection>5%", "machine-bytes-per-connection>5%"),
        ] {
            assert_eq!(text.parse::<Gate>().map(|gate| gate.to_string()), Ok(meant.to_owned()));
        }
        for text in [
            "",
            "safe",
            "safe<",
            "safe<-5",
            "safe=-5%",
            "speed<-5%",
            "safe<-100%",
            "safe<x%",
            "errors>0.1%",
            "p99>infinity%",
            "p99>1e3%",
        ] {
            assert!(text.parse::<Gate>().is_err(), "{text}");
        }
        let said = "errors>1%".parse::<Gate>().map_err(|error| error.to_string());
        assert!(said.is_err_and(|said| said.contains("errors>0.1pp")));
    }

    fn found(text: &str, value: f64, low: f64, high: f64) -> GateFinding {
        let gate = text.parse().expect("a gate");
        GateFinding::new(gate, (1.0, 1.0), Estimate { value, low, high }, GateMethod::Stated)
    }

    #[test]
    fn only_an_interval_that_violates_it_as_a_whole_fails() {
        for (text, value, low, high, result) in [
            ("safe<-5%", -0.12, -0.15, -0.06, GateResult::Fail),
            ("safe<-5%", -0.12, -0.15, -0.05, GateResult::Warn),
            ("safe<-5%", -0.04, -0.15, 0.05, GateResult::Pass),
            ("p99>10%", 0.3, 0.11, 0.5, GateResult::Fail),
            ("p99>10%", 0.3, 0.09, 0.5, GateResult::Warn),
            ("p99>10%", 0.05, -0.2, 0.5, GateResult::Pass),
            ("p99>10%", f64::INFINITY, 0.5, f64::INFINITY, GateResult::Fail),
            ("errors>0.1pp", 0.002, 0.0011, 0.003, GateResult::Fail),
            // Fails unless it became better by so much.
            ("goodput<5%", 0.04, 0.03, 0.049, GateResult::Fail),
        ] {
            assert_eq!(found(text, value, low, high).result, result, "{text} {value} {low} {high}");
        }
    }

    #[test]
    fn the_smallest_change_that_could_have_been_shown() {
        let near = |found: GateFinding, expected: f64| {
            let smallest = found.smallest.expect("there is one");
            assert!((smallest - expected).abs() < 1e-9, "{smallest} {expected}");
        };
        // Of two alike runs: what lies a little below 1 / 1.25 is shown.
        near(found("safe<-5%", 0.0, -0.2, 0.25), -0.2);
        near(found("safe>5%", 0.0, -0.2, 0.25), 0.25);
        near(found("errors>0.1pp", 0.001, -0.001, 0.003), 0.002);
        assert_eq!(found("safe<-5%", 0.0, -0.2, f64::INFINITY).smallest, None);
        assert_eq!(found("p99>5%", 0.0, -1.0, 1.0).smallest, None);
    }
}
