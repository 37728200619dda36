//! A percentile distribution as HdrHistogram's `outputPercentileDistribution` prints it, which plotters read.

use std::io::Write;

use plimsoll_model::spans::Span;
use plimsoll_model::tally::Tally;
use plimsoll_model::{Histogram, Nanos};

use super::run::ExportedRun;
use crate::error::Result;

/// Quantiles from each one to half way to 1.
const TICKS: u32 = 5;

pub(super) fn write(run: &ExportedRun<'_>, span: Span, out: &mut dyn Write) -> Result<()> {
    let tally = shown(run)?;
    Ok(distribution(tally.spans.of(span), out)?)
}

/// Returns the operations that the summary's figures are of: the trials at the lower bound, or the whole load.
fn shown(run: &ExportedRun<'_>) -> Result<Tally> {
    let find = run.summary.result.find();
    if let Some(at) = find.and_then(|find| find.at_lower_bound(&run.archive.trials)) {
        return Ok(at.tally);
    }
    let mut whole = Tally::default();
    for line in run.archive.intervals()? {
        whole.merge_following(&line?.interval.tally);
    }
    Ok(whole)
}

fn distribution(hist: &Histogram, out: &mut dyn Write) -> std::io::Result<()> {
    let ms = |span: Option<Nanos>| span.map_or(0.0, Nanos::as_millis_f64);
    writeln!(
        out,
        "{:>12} {:>14} {:>10} {:>14}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    )?;
    for step in hist.quantile_steps(TICKS) {
        let value = step.value.as_millis_f64();
        write!(out, "{value:>12.3} {:.12} {:>10}", step.quantile, step.count)?;
        if step.quantile < 1.0 {
            write!(out, " {:>14.2}", 1.0 / (1.0 - step.quantile))?;
        }
        writeln!(out)?;
    }
    let (mean, deviation) = (ms(hist.mean()), ms(hist.deviation()));
    writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {deviation:>12.3}]")?;
    let (max, count) = (ms(hist.max()), hist.count());
    writeln!(out, "#[Max     = {max:>12.3}, Total count    = {count:>12}]")?;
    let (buckets, parts) = (hist.bucket_count(), Histogram::SUB_BUCKETS);
    writeln!(out, "#[Buckets = {buckets:>12}, SubBuckets     = {parts:>12}]")
}
