//! The final report as text for a terminal or a mail: the answer first, then its evidence.
//!
//! Everything is drawn from a summary and trial records, so a report drawn again from an archive
//! is the same text.

use plimsoll_model::result::RunResult;
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{Standing, TrialRecord};

use crate::digest::Digest;
use layout::{Page, Tone};

mod announced;
mod brief;
mod causes;
mod compare;
pub(crate) mod confirmation;
mod events;
pub(crate) mod facts;
pub mod findings;
mod gate;
pub(crate) mod hints;
mod hold;
mod job_log;
pub(crate) mod layout;
mod load;
mod paired;
pub(crate) mod rfc9411;
pub(crate) mod search;
pub(crate) mod sections;
mod sizing;
pub(crate) mod timers;

pub use compare::render_round_line;
pub use confirmation::{render_confirmation_pair, render_confirmation_plan, render_remedy_plan};
pub use gate::{GateLine, GateReport, render_gate};
pub(crate) use hold::plateau_line;
pub use job_log::JobLog;
use job_log::github_line;
pub(crate) use layout::counted;
pub use layout::{Style, clean};
pub(crate) use search::{answer_line, bounds_line, level_line};
pub use search::{render_search_line, render_trial_line};
pub use sizing::render_sizing_table;

/// Returns the report of a run: on one screen, unless details are asked for.
pub fn render(summary: &Summary, trials: &[TrialRecord], style: Style) -> String {
    let digest = Digest::of(summary);
    let text = match style.details {
        true => Page::text(style, |page| detailed(page, summary, &digest, trials)),
        false => brief::render(summary, &digest, trials, style),
    };
    match style.log {
        Some(JobLog::GitHub) => text + &annotation(summary, &digest),
        Some(JobLog::GitLab { .. }) | None => text,
    }
}

fn detailed(page: &mut Page, summary: &Summary, digest: &Digest, trials: &[TrialRecord]) {
    let by_slo = digest.answers.chunk_by(|one, other| one.slo == other.slo);
    for (answers, number) in by_slo.zip(1..) {
        if let Some(slo) = &answers[0].slo {
            page.heading(&format!("SLO {number}: {slo}"));
        }
        for answer in answers {
            page.hanging(answer.tone, &answer.lead, &answer.text);
        }
        if let Some(text) = &digest.cut_short {
            page.hanging(Tone::Warn, "PARTIAL", text);
        }
        page.blank();
    }
    match &summary.result {
        RunResult::Load => load::render(page, summary),
        RunResult::Find { find }
        | RunResult::Connections { find, .. }
        | RunResult::Storm { find, .. } => search::render(page, summary, find, trials),
        RunResult::Hold { hold } => hold::render(page, summary, hold),
        RunResult::Compare { compare } => compare::render(page, summary, compare),
        RunResult::Sizing { sizing } => sizing::render(page, summary, sizing),
        RunResult::Rfc9411 { rfc9411 } => rfc9411::render(page, summary, rfc9411),
    }
    sections::archive(page, summary)
}

/// Returns the answer beside a job of GitHub Actions, if it is not a good one: one line, as ten of a step are shown.
fn annotation(summary: &Summary, digest: &Digest) -> String {
    let level = match summary.standing() {
        _ if summary.partial => "warning",
        Standing::Met => return String::new(),
        Standing::Missed => "error",
        Standing::Invalid | Standing::Open => "warning",
    };
    let title = format!("plimsoll {}, {}", summary.command, digest.badge.word);
    github_line(level, &title, &digest.sentence()) + "\n"
}

#[cfg(test)]
mod tests;
