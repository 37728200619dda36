//! What the reports of all searches share: the line at the top, the words of a trial, notes.

use std::io;

use plimsoll_model::Rate;
use plimsoll_model::summary::{FindSummary, Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{CheckId, Phase, TrialRecord, Verdict};

use crate::terminal::findings;
use crate::terminal::layout::{Page, Tone, clean, counted, span};

/// What stands before the interval.
pub(super) const LEAD: &str = "Tipping point:";

/// Whether it was cut short, and the answer.
pub(super) fn top(
    page: &mut Page<'_>,
    summary: &Summary,
    (tone, lead, text): (Tone, &str, String),
) -> io::Result<()> {
    if summary.partial {
        let text = "The search was cut short; all figures cover the time until then.";
        page.hanging(Tone::Warn, "PARTIAL", text)?;
    }
    page.hanging(tone, lead, &text)?;
    page.blank()
}

/// How it was searched, how much was judged and how long that took; `unit` is what a trial is called.
pub(super) fn search_entry(page: &mut Page<'_>, find: &FindSummary, unit: &str) -> io::Result<()> {
    let invalid = match find.invalid_trials {
        0 => String::new(),
        n => format!(" and {n} INVALID"),
    };
    let mut items = vec![
        format!("axis {}", find.axis.name()),
        format!("mode {}", find.mode.name()),
        format!("{} judged{invalid}", counted(find.trials.into(), unit)),
    ];
    for (what, seconds) in [("searched", find.search_s), ("confirmed", find.confirm_s)] {
        if seconds > 0.0 {
            items.push(format!("{what} {}", span(seconds)));
        }
    }
    page.entry_items("Search", &items)
}

/// The trial that shows the SUT at the lower bound: a GOOD one at that load, a confirming one
/// before others, then the longest, then the latest.
pub fn trial_at_lower_bound(trials: &[TrialRecord], lower: Rate) -> Option<&TrialRecord> {
    trials
        .iter()
        .filter(|trial| trial.judgement.verdict == Verdict::Good)
        .filter(|trial| same_load(trial.measurement.request.rate, lower))
        .max_by_key(|trial| {
            let m = &trial.measurement;
            (m.request.phase == Phase::Confirm, m.window, m.request.number)
        })
}

/// Equal but for what arithmetic on bounds may have rounded.
fn same_load(a: Rate, b: Rate) -> bool {
    (a.get() - b.get()).abs() <= 1e-6 * a.get().max(b.get())
}

pub(super) const fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "GOOD",
        Verdict::Bad => "BAD",
        Verdict::Invalid => "INVALID",
    }
}

pub(super) const fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Qualify => "qualify",
        Phase::Expand => "expand",
        Phase::Narrow => "narrow",
        Phase::Confirm => "confirm",
        Phase::Sentinel => "sentinel",
        Phase::Safe => "safe",
        Phase::Overload => "over",
        Phase::Recover => "recover",
        Phase::Reramp => "reramp",
    }
}

/// The failed check that decided, and how many more: `held`, `p99 +1`.
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

/// `  6 BAD     answered: 731 (limit: at least 999)`.
pub(super) fn explanation(page: &mut Page<'_>, trial: &TrialRecord) -> io::Result<()> {
    let why: Vec<_> = trial.judgement.deciding().map(findings::line).collect();
    let verdict = trial.judgement.verdict;
    let lead = format!("{:>3} {:7}", trial.measurement.request.number, verdict_word(verdict));
    page.hanging(verdict.into(), &lead, &why.join("; "))
}

/// The summary that the trial alone would have had.
pub(super) fn view(summary: &Summary, trial: &TrialRecord, tally: &Tally) -> Summary {
    Summary::new(
        SummaryHead {
            command: summary.command.clone(),
            target: summary.target.clone(),
            started_at: summary.started_at.clone(),
            window: trial.measurement.window,
            partial: false,
            settings: summary.settings.clone(),
            verdict: trial.judgement.verdict,
            reasons: Vec::new(),
            find: None,
            hold: None,
            archive: None,
        },
        tally,
    )
}

/// The search's own notes and one `more`.
pub(super) fn notes(
    page: &mut Page<'_>,
    find: &FindSummary,
    more: Option<String>,
) -> io::Result<()> {
    let lines: Vec<_> = find.notes.iter().map(|note| clean(note)).chain(more).collect();
    if lines.is_empty() {
        return Ok(());
    }
    page.blank()?;
    page.heading("Notes")?;
    for line in &lines {
        page.hanging(Tone::Quiet, "  -", line)?;
    }
    Ok(())
}
