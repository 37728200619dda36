//! The answer of one load: a verdict in words, then what it rests on.

use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{Check, CheckId, Family, Level, Verdict, deciding};
use plimsoll_model::units::grouped;

use super::answer::verdict_word;
use crate::terminal::layout::{Tone, clean, ms_text, per_s, percent, span, whole};
use crate::terminal::{findings, hints, sections};

fn has_goals(summary: &Summary) -> bool {
    summary.reasons.iter().any(is_goal)
}

fn is_goal(check: &Check) -> bool {
    check.id.family() == Family::Goal
}

pub(super) fn head_word(summary: &Summary) -> (&'static str, Tone) {
    if summary.partial {
        return ("PARTIAL", Tone::Warn);
    }
    match summary.verdict {
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
    let mut text = String::new();
    if summary.partial {
        text.push_str(&format!(
            "Cut short after {}; all figures cover the time until then. ",
            span(summary.seconds)
        ));
    }
    if nothing_ok(summary) {
        text.push_str(&failure(summary));
    } else {
        text.push_str(&pace(summary));
        text.push_str(&answers(summary));
    }
    text.push_str(&judgement(summary));
    text
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

/// Why not one of the operations was ok; a rate would read as if they had been.
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
    if summary.operations.ok < summary.operations.scheduled {
        format!("; {ok}, p99 of those {p99}.{faults}")
    } else {
        format!("; {ok}, p99 {p99}.{faults}")
    }
}

/// Returns the faults of deliveries of acknowledged messages; empty if each came once.
fn delivery_faults(summary: &Summary) -> String {
    let counts = summary.answers.deliveries.unwrap_or_default();
    let faults: Vec<_> = [(counts.lost, "did not come"), (counts.duplicated, "came again")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", grouped(count)))
        .collect();
    match faults.is_empty() {
        true => String::new(),
        false => format!(" Of {} deliveries {}.", grouped(counts.expected), faults.join(", ")),
    }
}

fn judgement(summary: &Summary) -> String {
    if summary.reasons.iter().any(|check| check.id == CheckId::RunComplete) {
        return " The run was killed, so nothing was judged.".to_owned();
    }
    if summary.verdict == Verdict::Invalid {
        let failed: Vec<_> = deciding(summary.verdict, &summary.reasons).map(seen).collect();
        let why =
            if failed.is_empty() { String::new() } else { format!(": {}", failed.join(", ")) };
        let first = deciding(summary.verdict, &summary.reasons).next();
        let other = first.filter(|check| !hints::is_of_generator(&check.id));
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
    let goals = || summary.reasons.iter().filter(|check| is_goal(check));
    let missed: Vec<_> = deciding(summary.verdict, &summary.reasons)
        .filter(|check| check.id != CheckId::Answers)
        .map(seen)
        .collect();
    let met: Vec<_> =
        goals().filter(|goal| goal.level != Level::Fail).map(|goal| goal.id.name()).collect();
    let so_far = if summary.partial { " until then" } else { "" };
    let mut text = String::new();
    for (verb, goals) in [("Missed", missed.join(", ")), ("Met", met.join(", "))] {
        if !goals.is_empty() {
            text.push_str(&format!(" {verb}{so_far}: {goals}."));
        }
    }
    text
}

/// A check with what it saw: `errors<0.1% (2.58 % failed)`.
fn seen(check: &Check) -> String {
    format!("{} ({})", clean(&check.id.name()), findings::seen(check))
}
