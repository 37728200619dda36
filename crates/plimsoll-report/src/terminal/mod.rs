//! The final report as text for a terminal or a mail: the answer first, then its evidence.
//!
//! Everything is drawn from a summary and trial records, so a report drawn again from an archive
//! is the same text.

use std::io;
use std::io::Write;

use plimsoll_model::result::RunResult;
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{TrialRecord, Verdict};

mod announced;
pub(crate) mod answer;
mod brief;
mod causes;
mod compare;
mod confirmation;
pub mod findings;
mod gate;
pub(crate) mod hints;
mod hold;
mod job_log;
pub(crate) mod layout;
mod load;
pub(crate) mod rfc9411;
mod search;
mod sections;
mod sizing;
mod timers;

pub use compare::render_round_line;
pub use confirmation::{render_confirmation_pair, render_confirmation_plan, render_remedy_plan};
pub use gate::{GateLine, GateReport, render_gate};
pub(crate) use hold::plateau_line;
pub use job_log::JobLog;
use job_log::github_line;
pub(crate) use layout::counted;
pub use layout::{Style, clean};
pub(crate) use search::{level_line, load_text, regime_lines};
pub use search::{render_answer_line, render_search_line, render_trial_line};

/// Writes the report of a run: on one screen, unless details are asked for.
pub fn render(
    summary: &Summary,
    trials: &[TrialRecord],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    match &summary.result {
        _ if !style.details => brief::render(summary, trials, style, out)?,
        RunResult::Load => load::render(summary, style, out)?,
        RunResult::Find { find } => search::render(summary, find, trials, style, out)?,
        RunResult::Connections { find, .. } => search::render(summary, find, trials, style, out)?,
        RunResult::Hold { hold } => hold::render(summary, hold, style, out)?,
        RunResult::Compare { compare } => compare::render(summary, compare, style, out)?,
        RunResult::Sizing { sizing } => sizing::render(summary, sizing, style, out)?,
        RunResult::Rfc9411 { rfc9411 } => rfc9411::render(summary, rfc9411, style, out)?,
    }
    match style.log {
        Some(JobLog::GitHub) => annotate(summary, trials, out),
        Some(JobLog::GitLab { .. }) | None => Ok(()),
    }
}

/// Writes the answer beside a job of GitHub Actions, where it is not a good one: one line, as ten of a step are shown.
fn annotate(summary: &Summary, trials: &[TrialRecord], out: &mut dyn Write) -> io::Result<()> {
    let (level, title) = match summary.verdict {
        _ if summary.partial => ("warning", "interrupted"),
        Verdict::Good => return Ok(()),
        Verdict::Bad => ("error", "BAD"),
        Verdict::Invalid => ("warning", "INVALID"),
    };
    let title = format!("plimsoll {}, {title}", summary.command);
    writeln!(out, "{}", github_line(level, &title, &headline(summary, trials)))
}

/// The answer in words: the first paragraph of the report, in one line.
pub fn headline(summary: &Summary, trials: &[TrialRecord]) -> String {
    let mut text = Vec::new();
    // Memory can be written to.
    let _ = render(summary, trials, Style::default(), &mut text);
    let text = String::from_utf8_lossy(&text);
    let words = text.lines().take_while(|line| !line.trim().is_empty());
    words.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
