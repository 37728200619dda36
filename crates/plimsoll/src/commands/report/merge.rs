//! `plimsoll report --merge`: runs of one load that several machines made, joined.

use std::path::{Path, PathBuf};

use plimsoll_capacity::judge_load;
use plimsoll_model::Nanos;
use plimsoll_model::observation::Observations;
use plimsoll_model::tally::Tally;
use plimsoll_report::archive::Merge;
use plimsoll_report::{Archive, ReportError};

use crate::exit::{Result, Stop};

/// Writes the archive of the merged run and returns its directory.
pub(super) fn merge(runs: &[PathBuf], out: &Path) -> Result<PathBuf> {
    refuse_if!(runs.len() < 2; "--merge joins runs, and one was named"; "name two or more");
    let usage = |error: ReportError| Stop::Usage(error.to_string());
    let archives: Vec<_> =
        runs.iter().map(|dir| Archive::open(dir)).collect::<Result<_, _>>().map_err(usage)?;
    let merge = Merge::of(&archives).map_err(usage)?;
    let manifest = merge.manifest();
    let is_open = manifest.plan.pointer("/pacing/open").is_some();
    // What was observed of the hosts has been judged in each run.
    let judge = |tally: &Tally, window: Nanos| {
        judge_load(tally, window, manifest.settings.slo.as_ref(), is_open, &Observations::default())
    };
    merge.write(out, &judge).map_err(|error| match error {
        ReportError::NotEmpty { .. } => usage(error),
        error => super::stopped(&error),
    })?;
    Ok(out.to_owned())
}
