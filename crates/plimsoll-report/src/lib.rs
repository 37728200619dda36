//! Sinks of the event stream: the terminal report, JSON, the run archive and live progress.
//!
//! Sinks show and store; they never feed back into a run, never read a clock (time comes in as
//! an argument) and write only to the writer or directory they are given. Nothing is judged here:
//! verdicts come with the records.
#![forbid(unsafe_code)]

/// A table of texts: a pattern for what is explained, and one text or several of it.
macro_rules! table {
    ($of:expr; $($row:pat $(if $guard:expr)? => $($text:expr);+,)+) => {
        match $of { $($row $(if $guard)? => ($($text),+),)+ }
    };
}

pub mod archive;
mod digest;
pub mod error;
pub mod explain;
pub mod exports;
pub mod json;
pub mod live;
mod metrics;
pub mod page;
pub mod progress;
mod reasons;
pub mod schema;
pub mod settings;
mod slow;
mod state;
mod stopped;
pub mod terminal;
pub mod time_text;
pub mod tui;
mod unsettled;
pub mod view;
pub mod watch;

pub use archive::{Archive, ArchiveWriter, redraw};
pub use error::ReportError;
pub use progress::Progress;
pub use terminal::{JobLog, Style, clean, findings};

#[cfg(test)]
mod fixtures;
