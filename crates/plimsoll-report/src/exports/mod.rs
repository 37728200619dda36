//! A run in the formats of other programs: seconds for spreadsheets, histograms for HdrHistogram's
//! programs, checks for CI servers. What each holds is described in docs/reference/exports.md.
//!
//! Every writer is a pure function of what an archive holds: the same archive gives the same bytes.

use std::io::Write;

pub use plimsoll_model::spans::Span;

use crate::error::Result;

mod comma_separated;
mod hgrm;
mod hlog;
mod junit;
mod markdown;
mod ndjson;
mod run;
mod seconds;
#[cfg(test)]
mod tests;
mod vegeta;
mod xml;

pub use run::{ExportedRun, SPANS};
pub use vegeta::{RowFormat, RowHead, RowLatency, RowTarget, write_rows};

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// A line for each second, with a header: RFC 4180.
    Csv,
    /// An object for each second.
    Ndjson,
    /// The percentile distribution of a span.
    Hgrm(Span),
    /// The histograms of each second and span: HdrHistogram's interval log.
    Hlog,
    /// Goals and checks as test cases.
    Junit,
    /// A summary for a pull request.
    Markdown,
    /// Single operations as vegeta writes them.
    Vegeta(RowFormat, RowLatency),
}

/// Writes `run` as `export`.
pub fn write_export(export: Export, run: &ExportedRun<'_>, out: &mut dyn Write) -> Result<()> {
    match export {
        Export::Csv => comma_separated::write(run, out),
        Export::Ndjson => ndjson::write(run, out),
        Export::Hgrm(span) => hgrm::write(run, span, out),
        Export::Hlog => hlog::write(run, out),
        Export::Junit => junit::write(run, out),
        Export::Markdown => markdown::write(run, out),
        Export::Vegeta(format, latency) => vegeta::write(run.archive, format, latency, out),
    }
}
