//! Sources that cannot be read, in words.

use plimsoll_model::Nanos;
use plimsoll_model::host::{Reading, Source, SourceState};

use crate::terminal::layout::{clean, span};

/// The sources that a line names; the others are counted.
const NAMED_MAX: usize = 3;
/// Returns the sources of `reading` that could not be read, a sentence each: `process haproxy (4711) ended 3.00 s ago:
/// killed by SIGKILL`.
pub(crate) fn sources_down(reading: &Reading) -> Vec<String> {
    let down = reading.sources_down();
    down.map(|source| state(source, &ago(source, reading.begin))).collect()
}

/// Returns the sources that the reading before `reading` still had, in the same words.
pub(crate) fn sources_lost(reading: &Reading) -> Vec<String> {
    let lost = reading.sources_down().filter(|source| source.since() == Some(reading.begin));
    lost.map(|source| state(source, "")).collect()
}

/// Returns [`sources_down`], the first few of them.
pub(super) fn first_sources_down(reading: &Reading) -> Vec<String> {
    let mut lines = sources_down(reading);
    let more = lines.len().saturating_sub(NAMED_MAX);
    lines.truncate(NAMED_MAX);
    match more {
        0 => {}
        1 => lines.push("1 more source is missing".to_owned()),
        more => lines.push(format!("{more} more sources are missing")),
    }
    lines
}

/// Returns a source of a run that was lost, with the time since the first reading of its host.
pub(crate) fn source_lost(source: &Source) -> String {
    let seconds = source.since().map_or(0.0, Nanos::as_secs_f64);
    let after = match &source.state {
        SourceState::Missing { .. } if seconds == 0.0 => String::new(),
        SourceState::Missing { .. } => format!(" from {} on", span(seconds)),
        _ => format!(" after {}", span(seconds)),
    };
    state(source, &after)
}

/// Returns `ended ago: how`, `not read when: why`.
fn state(source: &Source, when: &str) -> String {
    let name = source.to_string();
    clean(&match &source.state {
        SourceState::Reading => name,
        SourceState::Missing { reason, .. } => format!("{name} not read{when}: {reason}"),
        SourceState::Ended { status, .. } => format!("{name} ended{when}: {status}"),
    })
}

fn ago(source: &Source, now: Nanos) -> String {
    let seconds = source.since().map_or(0.0, |since| now.since(since).as_secs_f64());
    match &source.state {
        _ if seconds < 0.05 => String::new(),
        SourceState::Ended { .. } => format!(" {} ago", span(seconds)),
        _ => format!(" for {}", span(seconds)),
    }
}
