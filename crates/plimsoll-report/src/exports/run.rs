//! The run that an export writes.

use plimsoll_model::spans::Span;
use plimsoll_model::summary::Summary;

use crate::archive::Archive;
use crate::terminal::GateReport;

/// The spans that are written, in the order of the lines of the log.
pub const SPANS: [Span; 7] = [
    Span::Corrected,
    Span::Uncorrected,
    Span::Wire,
    Span::Ttfb,
    Span::Connect,
    Span::Tls,
    Span::SendLag,
];

/// A run to be written.
#[derive(Clone, Copy, Debug)]
pub struct ExportedRun<'a> {
    /// Archive of the run.
    pub archive: &'a Archive,
    /// Summary of the run, rebuilt if the archive has none.
    pub summary: &'a Summary,
    /// Findings against a baseline, if the run was compared with one.
    pub gate: Option<&'a GateReport>,
}
