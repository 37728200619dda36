//! The description of a run in its archive, written before anything is measured.

use plimsoll_model::Nanos;
use plimsoll_model::result::RunKind;
use plimsoll_model::search::{Axis, Mode};
use plimsoll_model::settings::Settings;
use serde::{Deserialize, Serialize};

use super::plan::ArchivedPlan;

/// The value of `schema` in a manifest.
pub const SCHEMA: &str = "plimsoll.archive/1";

pub(super) const MANIFEST: &str = "manifest.json";
pub(super) const INTERVALS: &str = "intervals.jsonl";
pub(super) const TRIALS: &str = "trials.jsonl";
pub(super) const EVENTS: &str = "events.jsonl";
pub(super) const ROWS: &str = "rows.jsonl";
pub(super) const SUMMARY: &str = "summary.json";

/// One instant on two clocks of the coordinator's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockPair {
    /// On CLOCK_MONOTONIC, which the instants of an archive are counted on.
    pub monotonic: Nanos,
    /// On CLOCK_REALTIME: ns since 1970, UTC.
    pub unix_ns: u64,
}

impl ClockPair {
    /// Returns the wall clock's time at an instant of CLOCK_MONOTONIC: ns since 1970, UTC.
    pub const fn unix_ns_at(&self, at: Nanos) -> u64 {
        self.unix_ns.saturating_add(at.0).saturating_sub(self.monotonic.0)
    }
}

/// One of the runs that a merged run was made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MergedPart {
    /// Directory of its archive, without the path.
    pub run: String,
    /// Start of the run: RFC 3339, UTC.
    pub started_at: String,
    /// Clocks at that instant, which no other run shares.
    pub clock: ClockPair,
    /// Seconds from the first start of load among all to its own, by the wall clocks.
    pub offset_s: f64,
    /// Operations that came due.
    pub scheduled: u64,
}

/// The host that made the load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedHost {
    /// Kernel name and release.
    pub kernel: String,
    /// CPUs that this process may use.
    pub cpus: u32,
    /// Name of the CPU, where it is known.
    pub cpu_model: Option<String>,
}

/// The settings of a search.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchHead {
    /// Axis of the search.
    pub axis: Axis,
    /// The objective, as `--slo` spells it.
    pub slo: String,
    /// Thoroughness of the search.
    pub mode: Mode,
}

/// `manifest.json`. Nothing of a plan gets in that [`ArchivedPlan`] does not name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Version of the plimsoll that wrote the archive.
    pub plimsoll_version: String,
    /// The command: `load`, `find`, `lab`.
    pub command: String,
    /// The kind of the run.
    pub kind: RunKind,
    /// The command line as it may be shown.
    pub command_line: Vec<String>,
    /// Target in reports, as it may be shown.
    pub target: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// The clocks when the run began.
    pub clock: ClockPair,
    /// The host that made the load.
    pub host: ArchivedHost,
    /// Random seed.
    pub seed: u64,
    /// Settings that shape the measurement, as in the summary.
    pub settings: Settings,
    /// Settings of the search.
    pub search: Option<SearchHead>,
    /// The plan of the load, or of a search's first load.
    pub plan: ArchivedPlan,
    /// The runs that this one was merged from; none for a run that was measured as one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub merged_from: Vec<MergedPart>,
}
