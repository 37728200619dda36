//! The histograms of each second as an interval log of HdrHistogram, version 1.3. Its programs in Java, C and Python
//! merge them without loss.

use std::io::Write;

use plimsoll_model::Nanos;

use super::run::{ExportedRun, SPANS};
use super::seconds::start_unix_ns;
use crate::archive::Loads;
use crate::error::Result;
use crate::time_text;

pub(super) fn write(run: &ExportedRun<'_>, out: &mut dyn Write) -> Result<()> {
    let start = Nanos(start_unix_ns(run.archive)).as_secs_f64();
    writeln!(out, "#[Histogram log format version 1.3]")?;
    let whole_s = time_text::rfc3339(start as u64);
    writeln!(out, "#[StartTime: {start:.3} (seconds since epoch), {whole_s}]")?;
    writeln!(
        out,
        "\"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\""
    )?;
    let mut loads = Loads::of(&run.archive.events);
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
