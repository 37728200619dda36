//! The reports of searches, one file for each kind of load.

use std::io;
use std::io::Write;

use plimsoll_model::search::Axis;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::TrialRecord;

use super::answer::Answer;
use super::layout::{Page, Style};

mod bounds;
mod connections;
mod page;
mod rate;
mod repeat;

pub use bounds::render_answer_line;
pub(crate) use bounds::{load_text, regime_lines};
pub(crate) use connections::level_line;
pub(super) use page::{CUT_SHORT, TO_DO, verdict_word};
pub(super) use rate::at_shown_load;
pub use rate::render_trial_line;
pub use repeat::render_search_line;

/// Writes the report of `find` and `lab`.
pub(super) fn render(
    summary: &Summary,
    find: &FindSummary,
    trials: &[TrialRecord],
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    match (&summary.repeat, find.axis) {
        (Some(repeat), _) => repeat::render(summary, find, repeat, style, out),
        (None, Axis::Connections) => connections::render(summary, find, trials, style, out),
        (None, _) => rate::render(summary, find, trials, style, out),
    }
}

/// What stands at the top of such a report.
pub(super) fn answers(summary: &Summary, find: &FindSummary) -> Vec<Answer> {
    match &summary.repeat {
        Some(repeat) => vec![Answer::from(repeat::headline(find, repeat))],
        None if find.axis == Axis::Connections => {
            vec![Answer::from(connections::headline(summary, find))]
        }
        None => rate::answers(summary, find),
    }
}

/// What was searched and how sure it is.
pub(super) fn facts(page: &mut Page<'_>, summary: &Summary, find: &FindSummary) -> io::Result<()> {
    match (&summary.repeat, find.axis) {
        (Some(_), _) => Ok(()),
        (None, Axis::Connections) => connections::facts(page, summary, find),
        (None, _) => rate::facts(page, summary, find),
    }
}
