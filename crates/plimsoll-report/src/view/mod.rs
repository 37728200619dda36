//! The view of a run, as one document: `plimsoll.view/1`, which the report page draws.
//!
//! The document is made in one pass over the events and readings of a run, so that the live page of a run and the
//! page of its archive are made by the same code. Percentiles come from merged histograms, numbers have four
//! significant digits, and `null` is what was not measured.

use std::collections::BTreeMap;

use plimsoll_model::result::RunKind;
use plimsoll_model::search::Axis;
use plimsoll_model::settings::Settings;
use plimsoll_model::summary::Summary;
use serde::Serialize;
use serde_json::Value;

use crate::archive::ArchivedHost;

mod archived;
mod builder;
mod columns;
mod heat;
mod hosts;
mod number;
mod seconds;
mod spectrum;
mod trials;

pub use crate::digest::Badge;
pub use builder::ViewBuilder;
pub use heat::{Cells, Heat};
pub use hosts::{HostColumns, HostPoint, Limit, Panel};
pub(crate) use hosts::{link, panel_of};
pub use seconds::{HeatColumn, Lag, Quantiles, Second};
pub use spectrum::{Point, Spectrum};
pub use trials::TrialRow;

/// The value of [`View::schema`].
pub const SCHEMA: &str = "plimsoll.view/1";

/// The document. docs/reference/json.md describes its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct View {
    /// Always [`SCHEMA`].
    pub schema: &'static str,
    /// Name of the archive.
    pub run: String,
    /// Version of the plimsoll that made the run.
    pub version: String,
    /// Number of the last patch that is in it.
    pub seq: u64,
    /// Facts of the run.
    pub head: Head,
    /// Summary of the run; `None` while it runs.
    pub summary: Option<Summary>,
    /// The run in a word.
    pub badge: Badge,
    /// Seconds of one column of [`Self::seconds`] and [`Self::heat`].
    pub column_s: f64,
    /// A list for each field of [`Second`].
    pub seconds: Value,
    /// Operations by latency, column by column.
    pub heat: Heat,
    /// One for each trial.
    pub trials: Vec<TrialRow>,
    /// The distribution of latency: of a search at its lower bound, else of the whole run.
    pub spectrum: Spectrum,
    /// By name.
    pub hosts: BTreeMap<String, HostColumns>,
    /// `[seconds, answers per second, late ones included]` of the overloads that a search repeats.
    pub sentinels: Vec<(f64, f64)>,
    /// The levels of a hold: when each was reached.
    pub plateaus: Vec<Level>,
    /// Events by time.
    pub events: Vec<Happened>,
    /// Lines for the reader.
    pub notes: Vec<String>,
    /// Rate that the generator reaches alone, operations per second, where it was measured.
    pub ceiling_per_s: Option<f64>,
    /// The answer of a search that runs, in one line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
}

/// The facts of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "as in the manifest of an archive")]
pub struct Head {
    pub command: String,
    pub kind: RunKind,
    pub target: String,
    pub started_at: String,
    pub args: Vec<String>,
    pub settings: Settings,
    pub host: ArchivedHost,
    /// Axis of a search.
    pub axis: Option<Axis>,
    /// The objective of a search or a load, as `--slo` spells it.
    pub slo: Option<String>,
    pub deadline_ms: Option<f64>,
}

/// Something with its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Happened {
    /// Seconds since the run's first second.
    pub t: f64,
    /// One line.
    pub text: String,
}

/// A level of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Level {
    /// The end of its last second.
    pub t: f64,
    /// Connections.
    pub held: u64,
    /// Answered ones among them.
    pub answered: Option<u64>,
}

/// A change of the document during a run; a page applies each change once, in order.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Patch {
    /// A value for each list of `seconds`, and a column of `heat`.
    Second(Box<Second>),
    /// A value for each list of a host.
    Host {
        /// Name of the host.
        host: String,
        /// The values.
        #[serde(flatten)]
        row: Box<HostPoint>,
    },
    /// One more of `trials`.
    Trial(Box<TrialRow>),
    /// One more of `events`.
    Step(Happened),
    /// Adds one to `notes`.
    Note(Happened),
    /// The answer of a search after its last trial.
    Answer {
        /// One line.
        text: String,
    },
    /// The run is over.
    End {
        /// The summary.
        summary: Box<Summary>,
        /// The run in a word.
        badge: Badge,
    },
}

impl Patch {
    /// Returns `second`, `host`, `trial`, `step`, `note`, `answer`, `end`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Second(_) => "second",
            Self::Host { .. } => "host",
            Self::Trial(_) => "trial",
            Self::Step(_) => "step",
            Self::Note(_) => "note",
            Self::Answer { .. } => "answer",
            Self::End { .. } => "end",
        }
    }
}

#[cfg(test)]
mod tests;
