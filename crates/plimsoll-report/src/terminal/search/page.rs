//! The common parts of the reports of all searches: the line at the top, the words of a trial, notes.

use plimsoll_model::Nanos;
use plimsoll_model::summary::{FindSummary, MachineSummary, Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{CheckId, Outcome, Phase, Standing, TrialRecord, Verdict};

use crate::digest::verdict_word;
use crate::terminal::findings;
use crate::terminal::layout::{Page, clean, counted, span};
use crate::time_text::rounded;

/// Reports whether the longer trials confirm what is stated.
pub(super) fn is_confirmed(find: &FindSummary) -> bool {
    let is_open = find.found.outcome.standing() == Some(Standing::Open);
    !is_open && !matches!(find.found.outcome, Outcome::Unconfirmed { .. })
}

/// Writes the mode, the number of trials and their duration; `unit` is the word for a trial.
pub(super) fn search_entry(page: &mut Page, find: &FindSummary, unit: &str) {
    let invalid = match find.found.invalid_trials {
        0 => String::new(),
        n => format!(" and {n} INVALID"),
    };
    let mut items = vec![
        format!("axis {}", find.axis.name()),
        match find.budget_s.map(Nanos::from_secs_f64) {
            Some(budget) => format!("budget {} (mode {})", rounded(budget), find.mode.name()),
            None => format!("mode {}", find.mode.name()),
        },
        format!("{} judged{invalid}", counted(find.found.trials.into(), unit)),
    ];
    let longer = if is_confirmed(find) { "confirmed" } else { "longer trials" };
    for (what, seconds) in [("searched", find.search_s), (longer, find.confirm_s)] {
        // The steps between two trials take microseconds.
        if seconds >= 0.001 {
            items.push(format!("{what} {}", span(seconds)));
        }
    }
    page.entry_items("Search", &items)
}

/// Returns a word for a phase that fits a column of the table.
pub(super) const fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Overload => "over",
        other => other.name(),
    }
}

/// Returns `BAD (held)`: the verdict on a trial, and why.
pub(super) fn verdict_and_why(trial: &TrialRecord) -> String {
    let verdict = verdict_word(trial.judgement.verdict);
    match why(trial) {
        why if why.is_empty() => verdict.to_owned(),
        why => format!("{verdict} ({why})"),
    }
}

/// Returns the failed check that decided, and how many more: `held`, `p99 +1`.
pub(super) fn why(trial: &TrialRecord) -> String {
    let mut names = trial.judgement.deciding().map(|check| match &check.id {
        CheckId::Goal(goal) => goal.metric(),
        // The name of what was wanted would read as praise.
        CheckId::Stable => "unstable".to_owned(),
        other => clean(&other.name()),
    });
    let first = names.next().unwrap_or_default();
    match names.count() {
        0 => first,
        more => format!("{first} +{more}"),
    }
}

/// Writes `  6 BAD     answered: 731 (limit: at least 999)`.
pub(super) fn explanation(page: &mut Page, trial: &TrialRecord) {
    let why: Vec<_> = trial.judgement.deciding().map(findings::line).collect();
    let verdict = trial.judgement.verdict;
    let lead = format!("{:>3} {:7}", trial.measurement.request.number, verdict_word(verdict));
    page.hanging(verdict.into(), &lead, &why.join("; "))
}

/// Returns the summary that one trial, or some of them, would have had.
pub(super) fn view(summary: &Summary, tally: &Tally, window: Nanos, verdict: Verdict) -> Summary {
    let of_trials = Summary::new(
        SummaryHead {
            command: summary.command.clone(),
            target: summary.target.clone(),
            started_at: summary.started_at.clone(),
            window,
            settings: summary.settings.clone(),
            verdict,
            ..SummaryHead::default()
        },
        tally,
    );
    let load_hosts = summary.machines.load_hosts.clone();
    Summary { machines: MachineSummary { load_hosts, ..of_trials.machines }, ..of_trials }
}
