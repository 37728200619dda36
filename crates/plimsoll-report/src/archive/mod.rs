//! The run archive: one directory from which every report can be drawn again.
//!
//! ```text
//! manifest.json     what was run, where, with which settings
//! intervals.jsonl   one line per second of load, histograms without loss
//! hosts.jsonl       what the hosts did, a line for each reading
//! trials.jsonl      one line per judged trial of a search
//! events.jsonl      every other event: starts, drains, notes, the end of a search
//! rows.jsonl        single operations, a line for each second and thread, where they were asked for
//! summary.json      the run's summary; missing when the run was killed
//! ```
//!
//! A line is written with one write as soon as its event comes, so `kill -9` costs at most the
//! line being written.
//!
//! An archive holds only the fields of plans and command lines that `plan.rs`, and `flags/archived.rs` of the program,
//! list, so that no credential gets in. Only their owner can read the files: an answer may hold a credential, too.

mod files;
mod hosts;
mod loads;
mod manifest;
mod merge;
mod plan;
mod reader;
mod rebuild;
mod writer;

pub(crate) use hosts::readings;
pub use hosts::{HostWriter, has_readings, read_hosts, summarise_hosts};
pub(crate) use loads::{Loads, Place};
pub use manifest::{ArchivedHost, ClockPair, Manifest, MergedPart, SCHEMA, SearchHead};
pub use merge::Merge;
pub use plan::ArchivedPlan;
pub use reader::{Archive, IntervalLine, Lines};
pub use rebuild::redraw;
pub use writer::ArchiveWriter;

#[cfg(test)]
mod tests;
