//! The report of a search for held connections: the tipping point, every level, what a connection
//! costs, and the projected limit of each resource.

use plimsoll_model::hold::FailedAt;
use plimsoll_model::search::Axis;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{CheckId, Recovery, TrialRecord, Verdict, trial_at_lower_bound};
use plimsoll_model::units::grouped;

use super::bounds::load_text;
use super::page::{explanation, phase_word, search_entry, verdict_and_why, view, why};
use crate::stopped;
use crate::terminal::layout::{Page, clean, ms, span};
use crate::terminal::{hold, sections, timers};

/// Writes the report of `find connections` and `lab --find connections`.
pub(super) fn render(
    page: &mut Page,
    summary: &Summary,
    find: &FindSummary,
    trials: &[TrialRecord],
) {
    page.blank();
    page.folded("Levels", |page| {
        levels(page, trials);
        explanations(page, trials)
    });
    if let Some(held) = summary.result.hold() {
        page.blank();
        hold::costs(page, held);
        hold::projections(page, held);
    }
    at_lower_bound(page, summary, find, trials);
    page.blank();
    sections::errors(page, summary);
    sections::server_side(page, summary);
    if let Some(held) = summary.result.hold() {
        hold::closing(page, summary, held);
    }
    sections::generator(page, summary);
    sections::settings(page, summary);
    timers::longest(page, summary);
    sections::notes(page, &find.found.notes);
    timers::probe(page, summary);
    timers::cliffs_of_search(page, summary);
    sections::checks(page, &summary.reasons)
}

pub(super) fn facts(page: &mut Page, summary: &Summary, find: &FindSummary) {
    page.entry("SLO", &clean(&find.slo));
    page.entry(
        "A level",
        "is GOOD when all its connections are held, each one answers a request, and the answers \
         meet the SLO; as many may be missing as the SLO allows errors",
    );
    search_entry(page, find, "level");
    let Some(found) = &find.connections else { return };
    if let Some(held) = found.soak_held {
        let (held, soak) = (load_text(find.axis, held as f64), span(found.soak_s));
        page.entry("Soak test", &format!("passed: {held} held for {soak} and polled repeatedly"));
    }
    match find.found.recovery {
        Some(Recovery::Yes) => page.entry("Re-ramp", "from zero: passed"),
        Some(_) => page.entry("Re-ramp", "from zero: FAILED, the level was not GOOD"),
        None => {}
    }
    let Some(failed_at) = &found.failed_at else { return };
    let load = load_text(find.axis, failed_at.at as f64);
    // A timer ends connections however many there are, so that no limit was predicted for it.
    let more = timers::of_losses(summary).or_else(|| predicted(failed_at));
    let more = more.map_or_else(String::new, |more| format!(". {more}"));
    page.entry("Failed at", &format!("{load}: {}{more}", stopped::failure(&failed_at.why)))
}

/// Returns the point of failure that was predicted, and the error of the prediction.
fn predicted(failed_at: &FailedAt) -> Option<String> {
    let (predicted, off) = (failed_at.predicted.as_ref()?, failed_at.predicted_off?);
    let apart = match off {
        // A share above 100 % is read as a factor.
        _ if off > 1.0 => format!("{} times as many", grouped((off + 1.0).round() as u64)),
        _ if off < 0.0 => format!("{:.1} % less", -off * 100.0),
        _ => format!("{:.1} % more", off * 100.0),
    };
    let resource = clean(&predicted.resource.to_string());
    let end = load_text(Axis::Connections, predicted.ends_at? as f64);
    Some(format!("Predicted: {resource} runs out at about {end}, {apart}"))
}

fn levels(page: &mut Page, trials: &[TrialRecord]) {
    if trials.is_empty() {
        return page.line("No level was finished.");
    }
    page.heading(&format!(
        "{:>3} {:7} {:>9} {:>9} {:>9} {:>7} {:>7} {:7} why",
        "#", "phase", "asked", "held", "answered", "open", "p99 ms", "verdict"
    ));
    trials.iter().for_each(|trial| level_row(page, trial));
    page.quiet(
        4,
        "open: p99 in ms of TCP connect and TLS handshake, each, of the level's new connections. \
         p99: of the answers to one request on every connection.",
    )
}

fn level_row(page: &mut Page, trial: &TrialRecord) {
    let m = &trial.measurement;
    let spans = &m.tally.spans;
    let p99 = |hist: &plimsoll_model::Histogram| hist.quantile(0.99).map(|at| at.as_millis_f64());
    let open = [p99(&spans.connect), p99(&spans.tls)].into_iter().flatten().reduce(f64::max);
    page.line(&format!(
        "{:>3} {:7} {:>9} {:>9} {:>9} {:>7} {:>7} {} {}",
        m.request.number,
        phase_word(m.request.phase),
        grouped(m.request.rate.get() as u64),
        count_of(trial, &CheckId::Held),
        count_of(trial, &CheckId::Answered),
        ms(open),
        ms(p99(&spans.corrected)),
        sections::verdict_cell(page, trial.judgement.verdict),
        why(trial),
    ))
}

/// Returns the count that a check observed.
fn count_of(trial: &TrialRecord, id: &CheckId) -> String {
    let check = trial.judgement.reasons.iter().find(|check| check.id == *id);
    let count = check.and_then(|check| check.measures.first());
    count.map_or_else(|| "-".to_owned(), |count| grouped(count.value as u64))
}

/// Writes the failures of the levels that were not GOOD.
fn explanations(page: &mut Page, trials: &[TrialRecord]) {
    let not_good = trials.iter().filter(|trial| trial.judgement.verdict != Verdict::Good);
    for (index, trial) in not_good.enumerate() {
        if index == 0 {
            page.blank();
        }
        explanation(page, trial)
    }
}

/// Writes the latency of the level on which the answer is based.
fn at_lower_bound(page: &mut Page, summary: &Summary, find: &FindSummary, trials: &[TrialRecord]) {
    let Some(trial) = find.found.lower.and_then(|lower| trial_at_lower_bound(trials, lower)) else {
        return;
    };
    let m = &trial.measurement;
    page.blank();
    let title = format!(
        "Latency in ms at the lower bound, {} (level {}, {})",
        load_text(find.axis, m.request.rate.get()),
        m.request.number,
        phase_word(m.request.phase)
    );
    let view = view(summary, &m.tally, m.window, trial.judgement.verdict);
    sections::latency(page, &title.replace('\u{a0}', " "), &view)
}

/// Returns one line for a level that just ended, without colours and without a newline.
pub(super) fn level_line(trial: &TrialRecord) -> String {
    let m = &trial.measurement;
    let p99 = m.tally.spans.corrected.quantile(0.99).map(|at| at.as_millis_f64());
    format!(
        "level {:>2} {:7} {:>9} asked, {} held, {} answered, p99 {} ms  {}",
        m.request.number,
        phase_word(m.request.phase),
        grouped(m.request.rate.get() as u64),
        count_of(trial, &CheckId::Held),
        count_of(trial, &CheckId::Answered),
        ms(p99),
        verdict_and_why(trial),
    )
}
