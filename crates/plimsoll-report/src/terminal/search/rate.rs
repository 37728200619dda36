//! The report of a search for a rate: the tipping point in words, every trial, latency at the lower
//! bound.

use plimsoll_model::Nanos;
use plimsoll_model::search::Axis;
use plimsoll_model::settings::Operation;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{Recovery, TrialRecord, TrialsAtLoad, Verdict};
use plimsoll_model::units::grouped;

use super::bounds::{load_text, regime_lines};
use super::page::{explanation, is_confirmed, phase_word, search_entry, view, why};
use crate::digest::verdict_word;
use crate::terminal::layout::{
    Page, clean, counted, cpu_percent, ms, per_s, percent, ratio_percent, span,
};
use crate::terminal::{findings, sections, timers};
use crate::{settings, slow};

/// Writes the report.
pub(super) fn render(
    page: &mut Page,
    summary: &Summary,
    find: &FindSummary,
    trials: &[TrialRecord],
) {
    page.blank();
    page.folded("Trials", |page| {
        trial_table(page, trials, find.found.goals.len());
        explanations(page, trials)
    });
    evidence(page, summary, find, trials);
    timers::longest(page, summary);
    let more = unsteady(trials).into_iter().chain(slow::lines(&summary.machines.slow));
    sections::notes(page, find.found.notes.iter().cloned().chain(more));
    timers::probe(page, summary);
    timers::cliffs_of_search(page, summary);
    sections::checks(page, &summary.reasons);
    sections::passed_by_trials(page, trials)
}

pub(super) fn facts(page: &mut Page, summary: &Summary, find: &FindSummary) {
    let slo = clean(&find.slo);
    let first = match find.found.goals.len() {
        0 => "",
        _ => "; what follows is about this first one",
    };
    page.entry("SLO", &format!("{slo} (late, failed and unsent operations all count){first}"));
    if let Some(load) = &summary.settings.load
        && let Some(name) = settings::operation(load)
    {
        let text = match load.operation {
            Operation::TlsHandshake => {
                "one new TLS connection, closed once established; nothing is sent"
            }
            Operation::MqttConnect => "one new connection, closed after CONNACK",
            Operation::ScriptOpening => {
                "one new connection, closed after the opening of its script"
            }
            _ => &name,
        };
        page.entry("Operation", text);
    }
    search_entry(page, find, "trial");
    path_entry(page, find);
    after_search(page, find);
    if let Some(rate) = find.found.conditional_throughput {
        let rate = load_text(find.axis, rate.get());
        page.entry("Throughput", &format!("{rate} of good answers, typical at the lower bound"));
    }
}

/// Writes the path to the server.
fn path_entry(page: &mut Page, find: &FindSummary) {
    let Some(path) = &find.path else { return };
    let mut items = vec![format!("round trip {}", span(path.round_trip_ms / 1e3))];
    if let Some(again) = path.sent_again_per_op {
        let again = ratio_percent(again);
        items.push(format!("segments sent again for {again} % of the operations, at low load"));
    }
    page.entry_items("Path", &items)
}

/// Writes the confidence in the bounds, and the trials after them.
fn after_search(page: &mut Page, find: &FindSummary) {
    let seen = find.found.confirmations;
    let tried = seen.good + seen.bad + seen.invalid;
    if tried > 0 {
        let invalid = match seen.invalid {
            0 => String::new(),
            n => format!(", {n} INVALID"),
        };
        let good =
            format!("{} of {} GOOD{invalid}", seen.good, counted(tried.into(), "longer trial"));
        let at = find.found.confirmed.map(|at| load_text(find.axis, at.get()));
        let text = match at {
            Some(at) if !is_confirmed(find) => format!("{at}: {good}"),
            Some(at) => format!("{at}, which 9 of 10 trials are expected to meet: {good}"),
            // The search ended before its interval was confirmed.
            None => good,
        };
        page.entry(if is_confirmed(find) { "Confirmed" } else { "Long trials" }, &text);
    }
    if let Some(spread) = find.found.spread.or(find.found.noise) {
        let text = format!(
            "{:.1} % (standard deviation of the capacity from trial to trial)",
            spread * 100.0
        );
        page.entry("Spread", &text);
    }
    for line in regime_lines(find.axis, &find.found.regimes) {
        page.entry("Speed", &line);
    }
    if let Some(drift) = find.found.drift_per_min.filter(|drift| *drift != 0.0) {
        let word = if drift < 0.0 { "fell" } else { "rose" };
        let text = format!(
            "the capacity {word} by {:.1} % a minute; the interval is that at the end",
            drift.abs() * 100.0
        );
        page.entry("Drift", &text);
    }
    let waited = |waited: Nanos| span(waited.as_secs_f64());
    let text = match find.found.recovery {
        Some(Recovery::Yes) => "yes, at once after an overload".to_owned(),
        Some(Recovery::After(after)) => format!("{} after an overload", waited(after)),
        Some(Recovery::No(after)) => {
            format!("no: half the lower bound is not served {} after an overload", waited(after))
        }
        None => return,
    };
    page.entry("Recovers", &text)
}

/// Writes every trial; with several SLOs there is a verdict by each.
fn trial_table(page: &mut Page, trials: &[TrialRecord], slos: usize) {
    if trials.is_empty() {
        return page.line("No trial was finished.");
    }
    let further: String = (2..=slos).map(|slo| format!("SLO {slo:<4}")).collect();
    page.heading(&format!(
        "{:>3} {:7} {:>9} {:>5} {:7} {further}{:>5} {:>6} {:>7} {:>6} {:>7} why",
        "#",
        "phase",
        "offered/s",
        "sec",
        "verdict",
        "bad %",
        "p50 ms",
        "p99 ms",
        "sent %",
        "backlog"
    ));
    trials.iter().for_each(|trial| trial_row(page, trial));
    if slos > 1 {
        page.quiet(4, "verdict, bad % and why: by SLO 1.");
    }
    page.quiet(
        4,
        "bad %: late, failed or unsent. p50, p99: from the intended start, of ok answers. \
         sent %: of what came due. backlog: most operations due and not finished at once.",
    )
}

fn trial_row(page: &mut Page, trial: &TrialRecord) {
    let m = &trial.measurement;
    let tally = &m.tally;
    let spans = &tally.spans.corrected;
    let quantile = |q| ms(spans.quantile(q).map(|span| span.as_millis_f64()));
    let sent = tally.scheduled.saturating_sub(tally.unsent);
    let backlog = tally.outstanding.iter().max().copied().unwrap_or(0);
    let further: String = trial
        .further
        .iter()
        .map(|verdict| page.paint((*verdict).into(), &format!("{:7} ", verdict_word(*verdict))))
        .collect();
    page.line(&format!(
        "{:>3} {:7} {:>9} {:>5} {} {further}{:>5} {:>6} {:>7} {:>6} {:>7} {}",
        m.request.number,
        phase_word(m.request.phase),
        per_s(m.request.rate.get()).trim_end_matches("/s"),
        format!("{:.1}", m.window.as_secs_f64()),
        sections::verdict_cell(page, trial.judgement.verdict),
        ratio_percent(trial.judgement.loss_ratio),
        quantile(0.5),
        quantile(0.99),
        percent(sent, tally.scheduled),
        grouped(backlog.into()),
        short_why(trial),
    ))
}

/// Returns `p99`, `unstable`, `p99 +1`.
fn short_why(trial: &TrialRecord) -> String {
    match trial.judgement.verdict {
        Verdict::Invalid => "below".to_owned(),
        _ => why(trial),
    }
}

/// Writes the reasons of INVALID trials; the limits of goals stand above the table already.
fn explanations(page: &mut Page, trials: &[TrialRecord]) {
    let is_invalid = |trial: &&TrialRecord| trial.judgement.verdict == Verdict::Invalid;
    let invalid: Vec<_> = trials.iter().filter(is_invalid).collect();
    if invalid.is_empty() {
        return;
    }
    page.blank();
    invalid.iter().for_each(|trial| explanation(page, trial));
    page.quiet(
        4,
        "INVALID: not the server, but the generator or the path, shaped that trial; it counts \
         neither for nor against the server.",
    );
}

/// Returns the load whose figures are shown, with the words for where it is: that of the lower bound, else the lowest
/// that failed.
fn shown_load(
    find: &FindSummary,
    trials: &[TrialRecord],
) -> Option<(TrialsAtLoad, Verdict, &'static str)> {
    let (at, verdict, place) = match find.found.lower {
        Some(lower) => {
            let at = TrialsAtLoad::at_lower_bound(trials, lower);
            let is_below = at.as_ref().is_some_and(|at| at.load.get() < 0.999 * lower.get());
            let place = if is_below { "just below the lower bound" } else { "at the lower bound" };
            (at, Verdict::Good, place)
        }
        // Nothing was GOOD: the lowest load that failed says how.
        None => {
            let bad = trials.iter().filter(|trial| trial.judgement.verdict == Verdict::Bad);
            let loads = bad.map(|trial| trial.measurement.request.rate);
            let lowest = loads.min_by(|a, b| a.get().total_cmp(&b.get()));
            let at = lowest.map(|load| TrialsAtLoad::at(trials, load));
            (at, Verdict::Bad, "at the lowest load that failed")
        }
    };
    Some((at.filter(|at| at.trials > 0)?, verdict, place))
}

/// Returns the figures of that load as a summary of their own, and where it is: ` at the lower bound, 33,779/s`.
pub(in crate::terminal) fn at_shown_load(
    summary: &Summary,
    trials: &[TrialRecord],
) -> Option<(String, Summary)> {
    let find = summary.result.find().filter(|find| find.axis != Axis::Connections)?;
    let (at, verdict, place) = shown_load(find, trials)?;
    let place = format!(" {place}, {}", load_text(find.axis, at.load.get()));
    Some((place, view(summary, &at.tally, at.window, verdict)))
}

/// Writes the measurements at the load that the answer rests on.
fn evidence(page: &mut Page, summary: &Summary, find: &FindSummary, trials: &[TrialRecord]) {
    let Some((at, verdict, place)) = shown_load(find, trials) else { return };
    let view = view(summary, &at.tally, at.window, verdict);
    page.blank();
    let title = format!(
        "Latency in ms {place}, {} ({}, {})",
        load_text(find.axis, at.load.get()),
        counted(at.trials as u64, "trial"),
        at.window
    )
    .replace('\u{a0}', " ");
    sections::latency(page, &title, &view);
    page.blank();
    sections::operations(page, &view);
    sections::errors(page, &view);
    sections::server_side(page, &view);
    sections::generator(page, &view);
    if let Some(share) = at.sut_busiest_thread {
        page.entry("Server", &format!("busiest thread {} % of a CPU", cpu_percent(share)));
    }
    sections::settings(page, &view)
}

/// Loads that were GOOD in one trial and BAD in another before the figures are called unsteady:
/// one, right at the tipping point, is as it should be.
const UNSTEADY_LOADS_MIN: usize = 2;

/// Returns a line when trials of several loads contradict each other.
fn unsteady(trials: &[TrialRecord]) -> Option<String> {
    let load = |trial: &TrialRecord| trial.measurement.request.rate.get();
    let mut trials: Vec<_> = trials.iter().collect();
    trials.sort_by(|a, b| load(a).total_cmp(&load(b)));
    let has = |trials: &[&TrialRecord], verdict| {
        trials.iter().any(|trial| trial.judgement.verdict == verdict)
    };
    let loads = trials.chunk_by(|a, b| load(a) == load(b));
    let both = loads.filter(|trials| has(trials, Verdict::Good) && has(trials, Verdict::Bad));
    let both: Vec<_> = both.map(|trials| per_s(load(trials[0]))).collect();
    (both.len() >= UNSTEADY_LOADS_MIN).then(|| {
        format!(
            "GOOD in one trial and BAD in another: {}. Something besides the load changed; is \
             other work running on these machines? Stop it and run again",
            both.join(", ")
        )
    })
}

/// Returns one line for a trial that just ended, without colours and without a newline.
pub(super) fn trial_line(trial: &TrialRecord) -> String {
    let m = &trial.measurement;
    let verdict = trial.judgement.verdict;
    let mut line = format!(
        "trial {:>2} {:7} {:>9} {:>6}  {:7} ",
        m.request.number,
        phase_word(m.request.phase),
        per_s(m.request.rate.get()),
        m.window.to_string(),
        verdict_word(verdict),
    );
    let why = trial.judgement.deciding().next();
    if verdict == Verdict::Invalid {
        // Its latency says nothing about the server.
        line.push_str(&why.map_or_else(
            || "the generator was the limit".to_owned(),
            |check| format!("{}: {}", clean(&check.id.name()), findings::seen(check)),
        ));
    } else {
        let p99 = m.tally.spans.corrected.quantile(0.99).map(|span| span.as_millis_f64());
        let bad = ratio_percent(trial.judgement.loss_ratio);
        line.push_str(&format!("p99 {:>7} ms, {bad} % bad", ms(p99)));
        if let Some(check) = why.filter(|_| verdict == Verdict::Bad) {
            line.push_str(&format!(" ({})", clean(&check.id.name())));
        }
    }
    if m.aborted {
        line.push_str(", ended early");
    }
    line
}
