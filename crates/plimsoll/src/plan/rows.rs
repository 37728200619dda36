//! `--rows`: the operations of a load that are recorded, and the place of their rows.
//!
//! [`plan`] chooses a number N and records one of N operations. N keeps the rows below about 1,000 per second and 2
//! million in all; `--rows-all` sets N to 1 and allows 20 million. N shares no factor with the number of requests,
//! because these are sent in turn and each of them must appear in the sample. The name of the file states N, and its
//! extension chooses CSV or JSON. Start with [`plan`].

use std::path::{Path, PathBuf};

use plimsoll_model::Rate;
use plimsoll_model::plan::Pacing;
use plimsoll_model::units::grouped;
use plimsoll_report::exports::RowFormat;

use crate::exit::Result;
use crate::flags::RowFlags;
use crate::flags::values::OutputFile;

/// Rows per second that are written unless all are asked for.
const ROWS_PER_S_MAX: f64 = 1_000.0;
/// Rows of a whole load, likewise: 300 MB of text.
const ROWS_SAMPLED_MAX: u64 = 2_000_000;
/// Rows that are kept at all, 1 GB of memory until the load is over.
pub(crate) const ROWS_MAX: u64 = 20_000_000;
/// Operations per second that are assumed of a closed loop, which has no rate before it runs.
const CLOSED_LOOP_PER_S: f64 = 50_000.0;
/// Text of a row, roughly.
const ROW_BYTES: u64 = 150;

/// The output of rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowJob {
    pub(crate) place: OutputFile,
    pub(crate) format: RowFormat,
    /// The name of the run in the file.
    pub(crate) name: String,
    /// One of `every` operations has a row.
    pub(crate) every: u32,
    /// Note before the load.
    pub(crate) note: String,
}

/// Returns the rows of a load of `targets` requests; `None` if none are asked for.
pub(super) fn plan(flags: &RowFlags, pacing: &Pacing, targets: usize) -> Result<Option<RowJob>> {
    let Some(place) = &flags.rows else { return Ok(None) };
    let (per_s, ops) = expected(pacing);
    let every = if flags.rows_all { 1 } else { apart(sampled(per_s, ops), targets as u64) };
    let every = u32::try_from(every).unwrap_or(u32::MAX);
    let rows = ops.map(|ops| ops / u64::from(every));
    if let Some(rows) = rows.filter(|rows| *rows > ROWS_MAX) {
        refuse!("--rows-all would write {} rows", grouped(rows);
            "drop it, or plan at most {} operations", grouped(ROWS_MAX));
    }
    let (place, stem) = named(place, every);
    let format = format_of(&place);
    let name = stem.unwrap_or_else(|| "plimsoll".to_owned());
    let note = note(&place, every, rows);
    Ok(Some(RowJob { place, format, name, every, note }))
}

/// Returns the operations of a load per second, and in all, as far as known before it runs.
fn expected(pacing: &Pacing) -> (f64, Option<u64>) {
    match pacing {
        Pacing::Open { profile, .. } => {
            let rates = profile.stages.iter().flat_map(|stage| [stage.from, stage.to]);
            (rates.map(Rate::get).fold(0.0, f64::max), Some(profile.ops_total))
        }
        Pacing::Closed { ops_total, .. } => (CLOSED_LOOP_PER_S, *ops_total),
        Pacing::Hold(_) => (0.0, None),
    }
}

/// Returns N if one of N operations has a row.
fn sampled(per_s: f64, ops: Option<u64>) -> u64 {
    // As few as there are cannot be too many in a second.
    let few = ops.is_some_and(|ops| ops as f64 <= ROWS_PER_S_MAX);
    let by_rate = if few { 1 } else { (per_s / ROWS_PER_S_MAX).ceil() as u64 };
    let by_count = ops.unwrap_or(0).div_ceil(ROWS_SAMPLED_MAX);
    by_rate.max(by_count).max(1)
}

/// Returns the next number from `every` on that has no factor in common with the number of requests: they are sent in
/// turn, and each of them is to have its share of the rows.
fn apart(every: u64, targets: u64) -> u64 {
    const fn common(a: u64, b: u64) -> u64 {
        if b == 0 { a } else { common(b, a % b) }
    }
    (every..).find(|every| *every == 1 || common(*every, targets.max(1)) == 1).unwrap_or(every)
}

/// Returns the file with the sampling in its name, `rows.1-in-7.csv`, and what comes before that.
fn named(place: &OutputFile, every: u32) -> (OutputFile, Option<String>) {
    let OutputFile::File(path) = place else { return (place.clone(), None) };
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    // A pipe or a device has its name already.
    let is_special = path.exists() && !path.is_file();
    let place = if every == 1 || is_special { path.clone() } else { with_sampling(path, every) };
    (OutputFile::File(place), stem)
}

fn with_sampling(path: &Path, every: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}.1-in-{every}.{}", extension.to_string_lossy()),
        None => format!("{stem}.1-in-{every}"),
    };
    path.with_file_name(name)
}

fn format_of(place: &OutputFile) -> RowFormat {
    let OutputFile::File(path) = place else { return RowFormat::Csv };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json" | "ndjson" | "jsonl") => RowFormat::Json,
        _ => RowFormat::Csv,
    }
}

fn note(place: &OutputFile, every: u32, rows: Option<u64>) -> String {
    let place = match place {
        OutputFile::Stdout => "standard output".to_owned(),
        OutputFile::File(path) => path.display().to_string(),
    };
    let which =
        if every == 1 { "every operation".to_owned() } else { format!("one operation in {every}") };
    let size = rows.map_or_else(String::new, |rows| {
        let megabytes = (rows * ROW_BYTES).div_ceil(1_000_000);
        format!(", about {} rows ({} MB)", grouped(rows), grouped(megabytes))
    });
    format!("rows: {which} is recorded in {place}{size}")
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;
    use plimsoll_model::pace::{Arrivals, Profile};

    use super::*;

    fn open(per_s: f64, seconds: u64) -> Pacing {
        let rate = Rate::per_second(per_s).unwrap();
        let profile = Profile::constant(rate, Nanos::from_secs(seconds));
        Pacing::Open { profile, arrivals: Arrivals::Poisson }
    }

    fn planned(file: &str, rows_all: bool, pacing: &Pacing, targets: usize) -> RowJob {
        let rows = Some(crate::flags::values::output_file(file).unwrap());
        plan(&RowFlags { rows, rows_all }, pacing, targets).unwrap().unwrap()
    }

    #[test]
    fn as_many_are_recorded_as_a_second_may_have() {
        for (per_s, seconds, targets, every) in [
            (1_000.0, 60, 1, 1),
            (1_001.0, 60, 1, 2),
            (20_000.0, 60, 1, 20),
            // In turn with 10 requests, one in 20 would always be the same one.
            (20_000.0, 60, 10, 21),
            (100_000.0, 1_800, 1, 100),
            (900.0, 86_400, 1, 39),
        ] {
            let job = planned("rows.csv", false, &open(per_s, seconds), targets);
            assert_eq!(job.every, every, "{per_s} for {seconds} s, {targets}");
        }
        let closed = |ops_total| Pacing::Closed { duration: None, ops_total };
        assert_eq!(planned("a.csv", false, &closed(None), 1).every, 50);
        assert_eq!(planned("a.csv", false, &closed(Some(900)), 1).every, 1);
    }

    #[test]
    fn the_name_says_that_rows_are_sampled() {
        let job = planned("/tmp/a/rows.json", false, &open(20_000.0, 60), 1);
        assert_eq!(job.place, OutputFile::File("/tmp/a/rows.1-in-20.json".into()));
        assert_eq!((job.format, job.name.as_str()), (RowFormat::Json, "rows"));
        assert!(job.note.contains("one operation in 20 is recorded in /tmp/a/rows.1-in-20.json"));
        let all = planned("rows", true, &open(20_000.0, 60), 1);
        assert_eq!(all.place, OutputFile::File("rows".into()));
        assert!(all.note.contains("about 1,200,000 rows (180 MB)"), "{}", all.note);
        let device = planned("/dev/null", false, &open(20_000.0, 60), 1);
        assert_eq!(device.place, OutputFile::File("/dev/null".into()));
        let (rows, rows_all) = (Some(OutputFile::Stdout), true);
        let refused = plan(&RowFlags { rows, rows_all }, &open(1e6, 60), 1).unwrap_err();
        assert_eq!(refused.code(), 2);
    }
}
