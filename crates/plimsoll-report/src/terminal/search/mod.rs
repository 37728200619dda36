//! The reports of searches, one file for each kind of load.

use plimsoll_model::search::Axis;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::TrialRecord;

use super::layout::Page;

pub(crate) mod bounds;
mod connections;
mod page;
mod rate;
mod repeat;

pub(super) use bounds::load_text;
pub use bounds::render_answer_line;
pub(crate) use connections::level_line;
pub(super) use rate::at_shown_load;
pub use rate::render_trial_line;
pub use repeat::render_search_line;

/// Writes the report of `find` and `lab`.
pub(super) fn render(
    page: &mut Page,
    summary: &Summary,
    find: &FindSummary,
    trials: &[TrialRecord],
) {
    match (&summary.repeat, find.axis) {
        (Some(repeat), _) => repeat::render(page, summary, find, repeat),
        (None, Axis::Connections) => connections::render(page, summary, find, trials),
        (None, _) => rate::render(page, summary, find, trials),
    }
}

/// Writes the settings and the confidence of the search.
pub(super) fn facts(page: &mut Page, summary: &Summary, find: &FindSummary) {
    match (&summary.repeat, find.axis) {
        (Some(_), _) => {}
        (None, Axis::Connections) => connections::facts(page, summary, find),
        (None, _) => rate::facts(page, summary, find),
    }
}
