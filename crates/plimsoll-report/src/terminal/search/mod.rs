//! The reports of searches, one file for each kind of load.

use plimsoll_model::search::Axis;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{CheckId, TrialRecord};

use super::causes;
use super::layout::{Page, clean};

pub(crate) mod bounds;
mod connections;
mod page;
mod rate;
mod repeat;
pub(crate) mod storm;

pub(super) use bounds::load_text;
pub(crate) use bounds::{answer_line, bounds_line};
pub(super) use rate::at_shown_load;
pub use repeat::render_search_line;

/// Returns one line for a trial that just ended, without colours and without a newline.
pub fn render_trial_line(trial: &TrialRecord) -> String {
    if is_storm(trial) { storm::line(trial) } else { rate::trial_line(trial) }
}

fn is_storm(trial: &TrialRecord) -> bool {
    let mut checks = trial.judgement.reasons.iter();
    checks.any(|check| matches!(check.id, CheckId::Recovered | CheckId::BaseLine))
}

/// Returns one line for a level of connections, or a storm, that just ended, without colours and without a newline.
pub(crate) fn level_line(trial: &TrialRecord) -> String {
    if is_storm(trial) { storm::line(trial) } else { connections::level_line(trial) }
}

/// Writes the report of `find` and `lab`.
pub(super) fn render(
    page: &mut Page,
    summary: &Summary,
    find: &FindSummary,
    trials: &[TrialRecord],
) {
    if let Some(repeat) = &summary.repeat {
        return repeat::render(page, summary, find, repeat);
    }
    facts(page, summary, find);
    causes::section(page, summary);
    match find.axis {
        Axis::Connections => connections::render(page, summary, find, trials),
        Axis::Storm => storm::render(page, summary, find, trials),
        _ => rate::render(page, summary, find, trials),
    }
}

/// Writes the settings and the confidence of the search.
pub(super) fn facts(page: &mut Page, summary: &Summary, find: &FindSummary) {
    if summary.repeat.is_some() {
        return;
    }
    page.entry("Target", &clean(&summary.target));
    match find.axis {
        Axis::Connections => connections::facts(page, summary, find),
        Axis::Storm => storm::facts(page, summary, find),
        _ => rate::facts(page, summary, find),
    }
}
