//! The answer of one load: a verdict in words, then its grounds.
//!
//! [`head_word`] is the word before the sentence: the verdict, or DONE, FAILED or PARTIAL if no goal was judged or
//! the run was cut short. [`sentence`] joins three parts: the pace, or why no operation was ok; the share of ok
//! answers with p99; and [`judgement`], the goals that were met and missed or the reason for INVALID. The verdict
//! comes with the summary. Start reading at [`sentence`].

use plimsoll_model::summary::{DeliverySummary, Summary};
use plimsoll_model::trial::{Check, CheckId, Family, Level, Verdict, deciding};
use plimsoll_model::units::grouped;

use super::answer::verdict_word;
use crate::terminal::layout::{Tone, clean, ms_text, occurred, per_s, percent, span, whole};
use crate::terminal::{findings, hints, sections};

fn has_goals(summary: &Summary) -> bool {
    summary.reasons.iter().any(is_goal)
}

fn is_goal(check: &Check) -> bool {
    check.id.family() == Family::Goal
}

pub(super) fn head_word(summary: &Summary) -> (&'static str, Tone) {
    match summary.verdict {
        _ if summary.partial => ("PARTIAL", Tone::Warn),
        // Without a goal nothing was judged, and "good" would praise a load full of errors.
        Verdict::Good if !has_goals(summary) && nothing_ok(summary) => ("DONE", Tone::Warn),
        Verdict::Good if !has_goals(summary) => ("DONE", Tone::Strong),
        Verdict::Bad if !has_goals(summary) => ("FAILED", Tone::Bad),
        verdict => (verdict_word(verdict), verdict.into()),
    }
}

fn nothing_ok(summary: &Summary) -> bool {
    summary.operations.scheduled > 0 && summary.operations.ok == 0
}

/// Returns the answer in words.
pub(super) fn sentence(summary: &Summary) -> String {
    if summary.partial && summary.operations.scheduled == 0 {
        return format!(
            "Cut short before any operation of the load to {} was counted.",
            clean(&summary.target)
        );
    }
    let cut = match summary.partial {
        true => {
            let after = span(summary.seconds);
            format!("Cut short after {after}; all figures cover the time until then. ")
        }
        false => String::new(),
    };
    let found = match nothing_ok(summary) {
        true => failure(summary),
        false => pace(summary) + &answers(summary),
    };
    format!("{cut}{found}{}", judgement(summary))
}

fn pace(summary: &Summary) -> String {
    let target = clean(&summary.target);
    let took = span(summary.seconds);
    let achieved = per_s(summary.operations.rate.achieved_per_s);
    if let Some(load) = &summary.settings.load
        && summary.settings.is_closed_loop()
    {
        let connections = whole(&format!("{} connections", grouped(load.connections)));
        return format!(
            "{achieved} over {connections} for {took} to {target} \
             (closed loop: the server set the pace)"
        );
    }
    let offered = per_s(summary.operations.rate.offered_per_s);
    format!("{achieved} of {offered} offered for {took} to {target}")
}

/// Returns the reason why no operation was ok; a rate would read as if operations had succeeded.
fn failure(summary: &Summary) -> String {
    let mut why = sections::most_first(&summary.failures.error_classes);
    if summary.operations.unsent > 0 {
        why.push(("unsent", summary.operations.unsent));
    }
    let why: Vec<_> = why
        .into_iter()
        .map(|(name, count)| format!("{} {}", grouped(count), clean(name)))
        .collect();
    format!(
        "Not one of {} operations in {} to {} was ok: {}.",
        grouped(summary.operations.scheduled),
        span(summary.seconds),
        clean(&summary.target),
        why.join(", ")
    )
}

fn answers(summary: &Summary) -> String {
    if summary.operations.scheduled == 0 {
        return "; nothing came due.".to_owned();
    }
    let ok =
        whole(&format!("{} % ok", percent(summary.operations.ok, summary.operations.scheduled)));
    let p99 = ms_text(summary.operations.latency_ms.corrected.p99);
    let faults = delivery_faults(summary);
    let is_all = summary.operations.ok >= summary.operations.scheduled;
    let of = if is_all { "" } else { " of those" };
    format!("; {ok}, p99{of} {p99}.{faults}")
}

/// Returns the faults of deliveries of acknowledged messages; empty if each came once.
fn delivery_faults(summary: &Summary) -> String {
    let DeliverySummary { counts, lost, duplicated, .. } =
        summary.answers.deliveries.unwrap_or_default();
    let faults = [(lost, "did not come"), (duplicated, "came again")];
    let faults: Vec<_> = occurred(faults).collect();
    match faults.is_empty() {
        true => String::new(),
        false => format!(" Of {} deliveries {}.", grouped(counts.expected), faults.join(", ")),
    }
}

fn judgement(summary: &Summary) -> String {
    if summary.reasons.iter().any(|check| check.id == CheckId::RunComplete) {
        return " The run was killed, so nothing was judged.".to_owned();
    }
    let deciding = || deciding(summary.verdict, &summary.reasons);
    if summary.verdict == Verdict::Invalid {
        let failed: Vec<_> = deciding().map(seen).collect();
        let why =
            if failed.is_empty() { String::new() } else { format!(": {}", failed.join(", ")) };
        let other = deciding().next().filter(|check| !hints::is_of_generator(&check.id));
        let text = match other.and_then(|check| check.id.hint()) {
            None => format!(" The generator, not the server, shaped this result{why}."),
            Some(hint) => {
                let end = if hint.ends_with('?') { "" } else { "." };
                format!(" This result is not valid{why}: {hint}{end}")
            }
        };
        return format!("{text} It counts neither for nor against the server.");
    }
    if !has_goals(summary) && summary.verdict == Verdict::Bad {
        return " There was nothing to measure.".to_owned();
    }
    if !has_goals(summary) {
        return " No SLO was set (--slo), so nothing was judged.".to_owned();
    }
    let missed = deciding().filter(|check| check.id != CheckId::Answers);
    let missed: Vec<_> = missed.map(seen).collect();
    let met = summary.reasons.iter().filter(|check| is_goal(check) && check.level != Level::Fail);
    let met: Vec<_> = met.map(|goal| goal.id.name().into_owned()).collect();
    let so_far = if summary.partial { " until then" } else { "" };
    let said =
        [("Missed", missed), ("Met", met)].into_iter().filter(|(_, goals)| !goals.is_empty());
    said.map(|(verb, goals)| format!(" {verb}{so_far}: {}.", goals.join(", "))).collect()
}

/// Returns a check with what it saw: `errors<0.1% (2.58 % failed)`.
fn seen(check: &Check) -> String {
    format!("{} ({})", clean(&check.id.name()), findings::seen(check))
}
