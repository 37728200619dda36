//! Results of a part of the benchmark, as written to its JSON file.
//!
//! [`Results`] belongs to one part: its rows for the page, all single figures, and the failures and commands. A
//! [`Row`] is one figure beside its best peer and its target, and its id identifies it in all runs. [`Results::keep`]
//! merges the file of an earlier run: rows that were not measured again stay, with their dates. [`Spread`] has the
//! median and the range of samples, and is NaN without any. Start with [`Results`].

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bench::machine;

/// One figure of the page, beside its best peer and its target. Cells without a value hold `-`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// Names the figure in all runs.
    pub(crate) id: String,
    pub(crate) figure: String,
    pub(crate) ours: String,
    /// The best peer with its range, then the medians of the others.
    pub(crate) peers: String,
    /// Ours over the best peer's.
    pub(crate) ratio: String,
    pub(crate) target: String,
    pub(crate) outcome: Outcome,
    pub(crate) date: String,
    pub(crate) command: String,
}

impl Row {
    /// Creates the row of a figure without a peer.
    pub(crate) fn alone(
        id: &str,
        figure: &str,
        ours: String,
        target: &str,
        outcome: Outcome,
    ) -> Self {
        Self {
            id: id.to_owned(),
            figure: figure.to_owned(),
            ours,
            peers: "-".to_owned(),
            ratio: "-".to_owned(),
            target: target.to_owned(),
            outcome,
            date: String::new(),
            command: String::new(),
        }
    }
}

/// The verdict on a target. The greater, the worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Outcome {
    #[serde(rename = "reached")]
    Reached,
    /// A tool or a figure is missing.
    #[serde(rename = "not measured")]
    NotMeasured,
    #[serde(rename = "not reached")]
    NotReached,
}

impl Outcome {
    pub(crate) const fn of(is_reached: bool) -> Self {
        if is_reached { Self::Reached } else { Self::NotReached }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::NotMeasured => "not measured",
            Self::NotReached => "not reached",
        }
    }
}

/// Everything that one part measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) schema: String,
    pub(crate) part: String,
    pub(crate) date: String,
    /// Method of the measurement.
    pub(crate) method: String,
    pub(crate) rows: Vec<Row>,
    /// Every figure of every program: objects whose `what` names the quantity.
    pub(crate) figures: Vec<Value>,
    /// One minute's, before the part began.
    pub(crate) load_average_before: Option<f64>,
    /// CPU time that the hypervisor gave to other machines meanwhile.
    pub(crate) stolen_percent: Option<f64>,
    /// CPU, memory, kernel and versions.
    pub(crate) machine: BTreeMap<String, String>,
    /// Tools that were not installed.
    pub(crate) missing: Vec<String>,
    pub(crate) failures: Vec<String>,
    pub(crate) commands: Vec<String>,
}

impl Results {
    pub(crate) fn new(part: &str, machine: BTreeMap<String, String>) -> Self {
        Self {
            schema: "plimsoll.bench/1".to_owned(),
            part: part.to_owned(),
            date: machine::today(),
            method: String::new(),
            rows: Vec::new(),
            figures: Vec::new(),
            load_average_before: machine::load_average(),
            stolen_percent: None,
            machine,
            missing: Vec::new(),
            failures: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Says what could not be measured, here and on the terminal.
    pub(crate) fn fail(&mut self, what: String) {
        eprintln!("{}: {what}", self.part);
        self.failures.push(what);
    }

    /// Adds a row of the page, measured today by this part with these flags.
    pub(crate) fn row(&mut self, row: Row, flags: &str) {
        let (date, part) = (self.date.clone(), &self.part);
        let command = format!("cargo xtask bench --part {part}{flags}");
        self.rows.push(Row { date, command, ..row });
    }

    /// Keeps a command once.
    pub(crate) fn note_command(&mut self, command: String) {
        if !self.commands.contains(&command) {
            self.commands.push(command);
        }
    }

    /// Keeps the rows of `old` that were not measured again, and in the same way the figures of a
    /// part that measures one size at a time.
    pub(crate) fn keep(&mut self, old: Self) {
        let ids: Vec<String> = self.rows.iter().map(|row| row.id.clone()).collect();
        self.rows.extend(old.rows.into_iter().filter(|row| !ids.contains(&row.id)));
        if self.part == "hold" {
            let names: Vec<Value> = self.figures.iter().map(|of| of["what"].clone()).collect();
            let others = old.figures.into_iter().filter(|of| !names.contains(&of["what"]));
            self.figures.extend(others);
        }
    }

    /// Writes `to` for `from` wherever a program's own words were kept.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        for text in self.failures.iter_mut().chain(&mut self.commands) {
            *text = text.replace(from, to);
        }
    }

    /// Returns one line for the terminal.
    pub(crate) fn summary(&self) -> String {
        let reached = self.rows.iter().filter(|row| row.outcome == Outcome::Reached).count();
        let (all, failures) = (self.rows.len(), self.failures.len());
        format!("{reached} of {all} targets reached, {failures} failures")
    }
}

/// Median, least and greatest of some figures; NaN when there were none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    #[serde(skip)]
    decimals: usize,
}

impl Spread {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let half = sorted.len() / 2;
        let is_even = sorted.len().is_multiple_of(2);
        let median =
            if is_even && half > 0 { f64::midpoint(at(half - 1), at(half)) } else { at(half) };
        Self { median, min: at(0), max: at(sorted.len().saturating_sub(1)), decimals: 2 }
    }

    /// Sets the number of decimals that are shown.
    pub(crate) const fn decimals(mut self, decimals: usize) -> Self {
        self.decimals = decimals;
        self
    }

    /// Returns the median alone, as shown.
    pub(crate) fn middle(&self) -> String {
        format!("{:.*}", self.decimals, self.median)
    }
}

/// `7.30 (7.10 - 7.55)`: the median, then the range.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { min, max, decimals, .. } = self;
        write!(f, "{} ({min:.decimals$} - {max:.decimals$})", self.middle())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spreads() {
        for (figures, shown) in [
            (vec![3.0, 1.0, 2.0], "2.00 (1.00 - 3.00)"), // unsorted
            (vec![1.0, 2.0, 4.0, 9.0], "3.00 (1.00 - 9.00)"), // between the middle two
            (vec![5.0], "5.00 (5.00 - 5.00)"),
            (vec![], "NaN (NaN - NaN)"), // never a number that was not measured
        ] {
            assert_eq!(Spread::of(figures).to_string(), shown);
        }
    }

    #[test]
    fn only_what_was_measured_again_is_replaced() {
        let results = |part: &str, ours: &str, sizes: &[u32]| {
            let mut results = Results::new(part, BTreeMap::new());
            for size in sizes {
                let id = format!("{part}-{size}");
                results.row(Row::alone(&id, "x", ours.to_owned(), "1", Outcome::Reached), "");
                results.figures.push(json!({"what": id, "held": ours}));
            }
            results
        };
        let mut hold = results("hold", "new", &[2]);
        hold.keep(results("hold", "old", &[1, 2]));
        let ours: Vec<_> = hold.rows.iter().map(|row| (&*row.id, &*row.ours)).collect();
        assert_eq!(ours, [("hold-2", "new"), ("hold-1", "old")]);
        assert_eq!(hold.figures.len(), 2);
        let mut cost = results("cost", "new", &[2]);
        cost.keep(results("cost", "old", &[1, 2]));
        assert_eq!((cost.rows.len(), cost.figures.len()), (2, 1));
        assert_eq!(cost.rows[0].command, "cargo xtask bench --part cost");
        assert_eq!(cost.summary(), "2 of 2 targets reached, 0 failures");
    }
}
