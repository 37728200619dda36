//! What the reports of all searches share: the line at the top, the words of a trial, notes.

use std::io;

use plimsoll_model::summary::{FindSummary, Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{CheckId, Outcome, Phase, TrialRecord, Verdict};
use plimsoll_model::{Nanos, Rate};

use crate::terminal::findings;
use crate::terminal::layout::{Page, Tone, clean, counted, span};
use crate::time_text::rounded;

/// What stands before the interval.
pub(super) const LEAD: &str = "Tipping point:";

/// The answer, and whether the search was cut short.
pub(super) fn top(
    page: &mut Page<'_>,
    summary: &Summary,
    (tone, lead, text): (Tone, &str, String),
) -> io::Result<()> {
    page.hanging(tone, lead, &text)?;
    if summary.partial {
        let text = "The search was cut short; all figures cover the time until then.";
        page.hanging(Tone::Warn, "PARTIAL", text)?;
    }
    page.blank()
}

/// Whether the longer trials confirm what is stated.
pub(super) const fn is_confirmed(find: &FindSummary) -> bool {
    !matches!(
        find.outcome,
        Outcome::Unconfirmed { .. } | Outcome::Unstable { .. } | Outcome::Undecided { .. }
    )
}

/// How it was searched, how much was judged and how long that took; `unit` is what a trial is called.
pub(super) fn search_entry(page: &mut Page<'_>, find: &FindSummary, unit: &str) -> io::Result<()> {
    let invalid = match find.invalid_trials {
        0 => String::new(),
        n => format!(" and {n} INVALID"),
    };
    let mut items = vec![
        format!("axis {}", find.axis.name()),
        match find.budget_s.map(Nanos::from_secs_f64) {
            Some(budget) => format!("budget {} (mode {})", rounded(budget), find.mode.name()),
            None => format!("mode {}", find.mode.name()),
        },
        format!("{} judged{invalid}", counted(find.trials.into(), unit)),
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

/// The highest load, at most `lower`, at which a trial met the objective: the ends of an interval are
/// loads that were measured or lie between such.
fn load_at_lower_bound(trials: &[TrialRecord], lower: Rate) -> Option<Rate> {
    let good = trials.iter().filter(|trial| trial.judgement.verdict == Verdict::Good);
    let loads = good.map(|trial| trial.measurement.request.rate);
    let below = loads.filter(|load| *load <= lower || same_load(*load, lower));
    below.max_by(|a, b| a.get().total_cmp(&b.get()))
}

/// The trial that shows the SUT at the lower bound: a GOOD one at that load, a confirming one
/// before others, then the longest, then the latest.
pub fn trial_at_lower_bound(trials: &[TrialRecord], lower: Rate) -> Option<&TrialRecord> {
    let load = load_at_lower_bound(trials, lower)?;
    trials
        .iter()
        .filter(|trial| trial.judgement.verdict == Verdict::Good)
        .filter(|trial| same_load(trial.measurement.request.rate, load))
        .max_by_key(|trial| {
            let m = &trial.measurement;
            (m.request.phase == Phase::Confirm, m.window, m.request.number)
        })
}

/// What the trials of one load saw together.
#[derive(Clone, Debug)]
pub struct TrialsAtLoad {
    /// Operations per second.
    pub load: Rate,
    /// How many.
    pub trials: usize,
    /// Their operations.
    pub tally: Tally,
    /// Their time.
    pub window: Nanos,
    /// CPU of the busiest SUT thread, 0 to 1: the most.
    pub sut_busiest_thread: Option<f64>,
}

impl TrialsAtLoad {
    /// Those at the lower bound, GOOD and BAD ones: what a load like it meets, and not the best of it.
    pub fn at_lower_bound(trials: &[TrialRecord], lower: Rate) -> Option<Self> {
        Some(Self::at(trials, load_at_lower_bound(trials, lower)?))
    }

    /// The valid trials at `load` that asked whether it meets the SLO in the search's own arrivals.
    pub(super) fn at(trials: &[TrialRecord], load: Rate) -> Self {
        let none = Nanos::ZERO;
        let mut all = Self {
            load,
            trials: 0,
            tally: Tally::default(),
            window: none,
            sut_busiest_thread: None,
        };
        for TrialRecord { measurement: m, judgement, .. } in trials {
            let is_one = same_load(m.request.rate, load)
                && judgement.verdict != Verdict::Invalid
                && m.request.phase.moves_bounds();
            if is_one {
                all.trials += 1;
                all.tally.merge_following(&m.tally);
                all.window = all.window + m.window;
                let busiest = [all.sut_busiest_thread, m.sut_busiest_thread];
                all.sut_busiest_thread = busiest.into_iter().flatten().reduce(f64::max);
            }
        }
        all
    }
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

/// Short enough for a column of the table.
pub(super) const fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Overload => "over",
        other => other.name(),
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

/// The summary that one trial, or some of them, would have had.
pub(super) fn view(summary: &Summary, tally: &Tally, window: Nanos, verdict: Verdict) -> Summary {
    let of_trials = Summary::new(
        SummaryHead {
            command: summary.command.clone(),
            target: summary.target.clone(),
            started_at: summary.started_at.clone(),
            window,
            partial: false,
            settings: summary.settings.clone(),
            verdict,
            reasons: Vec::new(),
            find: None,
            hold: None,
            archive: None,
        },
        tally,
    );
    Summary { load_hosts: summary.load_hosts.clone(), ..of_trials }
}

/// The search's own notes and one `more`.
pub(super) fn notes(
    page: &mut Page<'_>,
    find: &FindSummary,
    more: impl IntoIterator<Item = String>,
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
