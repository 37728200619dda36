//! One search of plimsoll: how it is run, and what it came to.

mod interval;

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bench::Bench;
use crate::bench::invocation::{Finished, Invocation};

pub(crate) use interval::Interval;

/// Where each search has its archive, below the folder that all share.
pub(crate) const ARCHIVE: &str = "search-run";
/// The columns of [`Search::cells`].
pub(crate) const COLUMNS: [&str; 8] =
    ["seconds", "lower", "upper", "width, %", "trials", "INVALID trials", "outcome", "recovers"];
/// A search that takes much longer than it may is killed; the limit itself is judged below this.
const LIMIT: Duration = Duration::from_secs(600);

/// The outcome of a search that went its whole way.
const REGULAR: &str = "regular";

/// One search.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Search {
    pub(crate) seconds: f64,
    /// None when a bound is missing; the outcome says why.
    pub(crate) interval: Option<Interval>,
    /// `regular`, or what else happened.
    pub(crate) outcome: String,
    pub(crate) trials: u64,
    pub(crate) invalid_trials: u64,
    /// Whether the server came back after an overload: `yes`, `after`, `no`; `-` if not tried.
    pub(crate) recovers: String,
}

impl Search {
    /// Makes one, whose archive replaces that of the one before.
    pub(crate) fn make(bench: &Bench, invocation: &Invocation) -> Result<Self> {
        // An archive is a new folder; that it was not there is no error.
        let _ = fs::remove_dir_all(bench.scratch.join(ARCHIVE));
        Self::of(&invocation.run(bench, LIMIT)?)
    }

    /// Reads a summary.
    pub(crate) fn of(finished: &Finished) -> Result<Self> {
        let find = finished.summary.get("find").context("the summary has no `find`")?;
        let bounds = find["lower"].as_f64().zip(find["upper"].as_f64());
        Ok(Self {
            seconds: finished.seconds,
            interval: bounds.map(|(lower, upper)| Interval { lower, upper }),
            outcome: outcome(&find["outcome"]),
            trials: find["trials"].as_u64().context("the summary counts no trials")?,
            invalid_trials: find["invalid_trials"].as_u64().unwrap_or(0),
            recovers: find["recovers"].as_str().unwrap_or("-").to_owned(),
        })
    }

    /// Whether it went its whole way.
    pub(crate) fn is_regular(&self) -> bool {
        self.outcome == REGULAR
    }

    /// One line for the terminal.
    pub(crate) fn line(&self) -> String {
        let interval =
            self.interval.map_or_else(|| "no interval".to_owned(), |interval| interval.to_string());
        let Self { seconds, trials, outcome, recovers, .. } = self;
        format!("{interval} in {seconds:.0} s, {trials} trials, {outcome}, recovers: {recovers}")
    }

    /// Cells of a row, see [`COLUMNS`].
    pub(crate) fn cells(&self) -> String {
        let bounds = self.interval.map_or_else(
            || "- | - | -".to_owned(),
            |interval| {
                let Interval { lower, upper } = interval;
                format!("{lower:.1} | {upper:.1} | {:.2}", interval.width() * 100.0)
            },
        );
        let Self { seconds, trials, invalid_trials, outcome, recovers, .. } = self;
        format!("{seconds:.0} | {bounds} | {trials} | {invalid_trials} | {outcome} | {recovers}")
    }
}

/// `regular`, or `not-reached: why`.
fn outcome(value: &Value) -> String {
    if let Some(name) = value.as_str() {
        return name.to_owned();
    }
    let variant = value.as_object().and_then(|variants| variants.iter().next());
    let Some((name, fields)) = variant else { return "unknown".to_owned() };
    let why = fields.as_object().and_then(|fields| fields.values().next()?.as_str());
    format!("{name}: {}", why.unwrap_or("no reason given"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_missing_bound_is_no_interval() {
        let finished = |find| Finished { summary: json!({"find": find}), seconds: 60.4 };
        let open = json!({"outcome": {"not-reached": {"cap": "--max"}}, "lower": 5.0, "upper": null,
                          "trials": 3, "invalid_trials": 1});
        let open = Search::of(&finished(open)).unwrap();
        assert_eq!(open.cells(), "60 | - | - | - | 3 | 1 | not-reached: --max | -");
        assert!(Search::of(&finished(json!({}))).is_err());
        let whole = json!({"outcome": "regular", "lower": 100.0, "upper": 104.0, "trials": 3});
        let whole = Search::of(&finished(whole)).unwrap();
        assert_eq!(whole.line(), "[100.0, 104.0] in 60 s, 3 trials, regular, recovers: -");
        assert_eq!(whole.cells().split(" | ").count(), COLUMNS.len());
    }
}
