//! The histograms of each second as an interval log of HdrHistogram, version 1.3. Its programs in Java, C and Python
//! merge them without loss.

use std::io::Write;

use plimsoll_model::Nanos;

use super::exported_run::{ExportedRun, SPANS};
use crate::archive::Loads;
use crate::error::Result;
use crate::time_text;

pub(super) fn write(run: &ExportedRun<'_>, out: &mut dyn Write) -> Result<()> {
    let start = start_unix_s(run);
    writeln!(out, "#[Histogram log format version 1.3]")?;
    let whole_s = time_text::rfc3339(start as u64);
    writeln!(out, "#[StartTime: {start:.3} (seconds since epoch), {whole_s}]")?;
    writeln!(
        out,
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
    )?;
    let mut loads = Loads::of(run.archive.events());
    for line in run.archive.intervals()? {
        let line = line?;
        let begin = loads.place(&line).since_begin.as_secs_f64();
        for span in SPANS {
            let hist = line.interval.tally.spans.of(span);
            let Some(max) = hist.max() else { continue };
            let name = span.name();
            let (max, encoded) = (max.as_millis_f64(), hist.encode_for_log());
            writeln!(out, "Tag={name},{begin:.3},1.000,{max:.3},{encoded}")?;
        }
    }
    Ok(())
}

/// When the first operation was due, as far as the archive says.
fn start_unix_s(run: &ExportedRun<'_>) -> f64 {
    let manifest = run.archive.manifest();
    match Loads::of(run.archive.events()).epoch(0) {
        Some(epoch) => Nanos(manifest.clock.unix_ns_at(epoch)).as_secs_f64(),
        None => time_text::unix_seconds(&manifest.started_at).unwrap_or(0) as f64,
    }
}
