//! The titles of charts: each states what the chart shows of this run.
//!
//! Each function makes the title of one chart from the [`Summary`] or a part of it; `page/figures.rs` calls them once
//! the run has ended and shows a fixed subject before that. A title states figures and verdicts that are in the
//! summary and judges nothing. Text of a peer, a host or a file passes through [`clean`]. Start reading at
//! [`latency`].

use plimsoll_model::hold::{Confidence, HoldEnd, HoldSummary, Projection};
use plimsoll_model::host::HostSummary;
use plimsoll_model::result::RunResult;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{Family, Level};
use plimsoll_model::units::grouped;

use crate::digest::compare::capitalised;
use crate::digest::{Digest, hold};
use crate::terminal::layout::{bytes, clean, counted, cpu_percent, ms_text, per_s, span, whole};
use crate::watch::source_lost;

/// Describes the course of a search.
pub(super) fn course(find: &FindSummary) -> String {
    let trials = counted(u64::from(find.found.trials), "trial");
    let invalid = match find.found.invalid_trials {
        0 => String::new(),
        count => format!(", {count} INVALID not counted"),
    };
    let drift = match find.found.drift_per_min {
        None => String::new(),
        Some(0.0) => "; no drift of the capacity was observed".to_owned(),
        Some(drift) => {
            let word = if drift < 0.0 { "fell" } else { "rose" };
            whole(&format!("; the capacity {word} {:.1} % a minute", drift.abs() * 100.0))
        }
    };
    format!("{trials} judged{invalid}{drift}")
}

/// Describes latency over time, and its distribution.
pub(super) fn latency(summary: &Summary) -> String {
    let Some(p99) = summary.operations.latency_ms.corrected.p99 else {
        return "No operation was answered".to_owned();
    };
    let at = match summary.result.hold() {
        Some(_) => String::new(),
        None => format!(" at {}", per_s(summary.operations.rate.offered_per_s)),
    };
    let mut goals = summary.reasons.iter().filter(|check| check.id.family() == Family::Goal);
    let verdict = match goals.clone().find(|goal| goal.level == Level::Fail) {
        Some(missed) => format!("; missed {}", clean(&missed.id.name())),
        None => goals
            .next()
            .map_or_else(String::new, |goal| format!("; met {}", clean(&goal.id.name()))),
    };
    format!("p99 was {}{at}{verdict}", ms_text(Some(p99)))
}

/// Describes the distribution of latency.
pub(super) fn percentiles(summary: &Summary) -> String {
    let both = &summary.operations.latency_ms;
    let Some(p99) = both.corrected.p99 else { return "No operation was answered".to_owned() };
    let uncorrected = match both.uncorrected.p99 {
        Some(other) if other * 1.5 < p99 => {
            format!("; uncorrected, {} would hide what waited to be sent", ms_text(Some(other)))
        }
        _ => String::new(),
    };
    format!("99 % of the good answers came within {}{uncorrected}", ms_text(Some(p99)))
}

/// Describes the rate over time.
pub(super) fn rate(summary: &Summary) -> String {
    let (offered, sent) =
        (summary.operations.rate.offered_per_s, summary.operations.rate.achieved_per_s);
    format!("{} of {} offered were sent", per_s(sent), per_s(offered))
}

/// Describes errors over time.
pub(super) fn errors(summary: &Summary) -> String {
    let failed = summary.operations.errors + summary.operations.unsent;
    if failed == 0 {
        return "No operation failed".to_owned();
    }
    let most = summary.failures.error_classes.iter().max_by_key(|(_, count)| **count);
    let most = most.map_or_else(String::new, |(name, _)| format!(", most of them {}", clean(name)));
    let unsent = match summary.operations.unsent {
        0 => String::new(),
        unsent => format!("; {} were not sent", grouped(unsent)),
    };
    let of = grouped(summary.operations.scheduled);
    format!("{} of {of} operations failed{most}{unsent}", grouped(summary.operations.errors))
}

/// Describes held connections over time.
pub(super) fn connections(summary: &Summary) -> String {
    let Some(hold) = summary.result.hold() else {
        let seen = &summary.connections.counts;
        return format!(
            "At most {} held at once, {} opened",
            whole(&counted(seen.held_max, "connection")),
            grouped(seen.opened)
        );
    };
    if hold.end == HoldEnd::NothingHeld {
        return format!("Not one of {} connections was held", grouped(hold.asked));
    }
    let lost = match hold.lost {
        0 => "none lost".to_owned(),
        lost => format!("{} lost", grouped(lost)),
    };
    let swept = hold.last_sweep.filter(|swept| swept.connections > 0);
    let answered = swept.map_or_else(String::new, |swept| {
        match swept.connections - swept.answered.min(swept.connections) {
            0 => ", every one answered".to_owned(),
            silent => format!(", {} did not answer", grouped(silent)),
        }
    });
    let span = match hold.hold_s > 0.0 {
        true => format!(" for {}", span(hold.hold_s)),
        false => String::new(),
    };
    format!("{} held{span}, {lost}{answered}", whole(&counted(hold.held, "connection")))
}

/// Describes memory against connections.
pub(super) fn memory(hold: &HoldSummary) -> String {
    let ends = hold.projections.iter().filter(|one| one.ends_at.is_some());
    let first = ends.min_by_key(|one| one.ends_at);
    let cost = hold.per_connection.machine.map(|cost| bytes(cost.round() as u64));
    match (first, cost) {
        (Some(first), _) => projected(first),
        (None, Some(cost)) => format!("Each connection takes {cost} of the machine's memory"),
        (None, None) => "Memory could not be read at any level".to_owned(),
    }
}

fn projected(first: &Projection) -> String {
    let word = hold::sure(first.confidence);
    let resource = capitalised(&first.resource.to_string());
    let end = grouped(first.ends_at.unwrap_or_default());
    let cautious = match first.ends_at_min.filter(|_| first.confidence != Confidence::Exact) {
        Some(least) => format!(", cautious end {}", grouped(least)),
        None => String::new(),
    };
    format!("{resource} is the first limit, at {end} connections ({word}{cautious})")
}

/// Describes one host.
pub(super) fn host(name: &str, host: Option<&HostSummary>) -> String {
    let mut parts = Vec::new();
    if let Some(host) = host {
        if let Some(cpu) = host.cpu_max {
            parts.push(whole(&format!("CPU at most {} %", cpu_percent(cpu))));
        }
        if let Some(established) = host.established_max {
            parts.push(format!("at most {} connections established", grouped(established as u64)));
        }
        if let Some(speed) = host.speed {
            let percent = cpu_percent(speed.min);
            parts.push(whole(&format!("CPU speed at least {percent} % of the median")));
        }
        parts.extend(host.sources_lost.iter().map(|lost| source_lost(&lost.source())));
    }
    let roles = host.map_or_else(String::new, |host| host.roles.join(", "));
    let roles = if roles.is_empty() { roles } else { format!(" ({})", clean(&roles)) };
    match parts.is_empty() {
        true => format!("Host {}{roles}", clean(name)),
        false => format!("Host {}{roles}: {}", clean(name), parts.join(", ")),
    }
}

/// Describes hidden timers.
pub(super) fn cliffs(summary: &Summary) -> String {
    let found = summary.timers.cliffs.as_deref().unwrap_or_default();
    let probed =
        summary.timers.probed.iter().flatten().filter(|timer| timer.after_ms.is_some()).count();
    match (found.first(), probed) {
        (None, 0) => "No hidden timer was met".to_owned(),
        (None, probed) => format!("The timeout probe met {}", counted(probed as u64, "timer")),
        (Some(first), _) => {
            let label = first
                .label
                .as_ref()
                .map_or_else(String::new, |label| format!(", {}", clean(label)));
            let more = match found.len() + probed - 1 {
                0 => String::new(),
                more => format!("; {more} more"),
            };
            format!("A hidden timer of {}{label}{more}", span(first.at.as_secs_f64()))
        }
    }
}

/// Describes a comparison with a finding: the first lines of its report.
pub(super) fn comparison(summary: &Summary) -> Option<String> {
    let RunResult::Compare { compare } = &summary.result else { return None };
    compare.difference?;
    Some(Digest::of(summary).sentence())
}
