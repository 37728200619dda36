//! The answer of a hold: what was held, and why not all.

use plimsoll_model::hold::{Confidence, HoldEnd, HoldSummary};
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{Unit, Verdict};
use plimsoll_model::units::grouped;

use super::answer::verdict_word;
use super::cycles;
use crate::stopped;
use crate::terminal::layout::{Tone, bytes, clean, span, whole};
use crate::terminal::timers;

/// `low confidence`, `exact`.
pub(crate) fn sure(confidence: Confidence) -> String {
    match confidence {
        Confidence::Exact => confidence.name().to_owned(),
        _ => format!("{} confidence", confidence.name()),
    }
}

pub(super) fn head_word(summary: &Summary) -> (&'static str, Tone) {
    if summary.partial {
        return ("PARTIAL", Tone::Warn);
    }
    match summary.verdict {
        Verdict::Good => ("HELD", Tone::Good),
        verdict => (verdict_word(verdict), verdict.into()),
    }
}

pub(super) fn sentence(summary: &Summary, hold: &HoldSummary) -> String {
    let (held, asked) = (grouped(hold.held), grouped(hold.asked));
    let target = clean(&summary.target);
    let mut text = format!("{held} of {} to {target}", whole(&format!("{asked} connections")));
    match &hold.end {
        HoldEnd::NothingHeld => {
            return format!("Not one of {asked} connections to {target} could be held.");
        }
        HoldEnd::Unfinished => text.push_str(" when it was cut short"),
        HoldEnd::Complete
        | HoldEnd::CutShort { .. }
        | HoldEnd::ServerFailed { .. }
        | HoldEnd::ServerFull { .. } => {
            text.push_str(&match &hold.cycles {
                Some(cycles) => format!(", in each of {} cycles", grouped(cycles.count)),
                None => format!(", held for {}", span(hold.hold_s)),
            });
        }
    }
    text.push_str(match hold.lost {
        0 => "; none was lost",
        _ => "; some were lost",
    });
    if hold.lost > 0 {
        text.push_str(&format!(" ({})", grouped(hold.lost)));
    }
    if let Some(swept) = hold.last_sweep.filter(|swept| swept.connections > 0) {
        let answered = match swept.connections - swept.answered {
            0 => ", and every one answered at the end".to_owned(),
            silent => format!(", and {} did not answer at the end", grouped(silent)),
        };
        text.push_str(&answered);
    }
    text.push('.');
    match &hold.end {
        HoldEnd::CutShort { why } => {
            text.push_str(&format!(" This host cannot hold more: {}.", clean(why)));
        }
        HoldEnd::ServerFailed { why } => {
            text.push_str(&format!(" The server failed: {}.", stopped::failure(why)));
        }
        HoldEnd::ServerFull { resource, unit, used, limit } => {
            let amount = |amount: u64| match unit {
                Unit::Bytes => bytes(amount),
                _ => grouped(amount),
            };
            let (used, limit, resource) =
                (amount(*used), amount(*limit), clean(&resource.to_string()));
            text.push_str(&format!(
                " The server is at a limit of its own, {resource}: {used} of {limit} in use. Raise \
                 it to hold more."
            ));
        }
        HoldEnd::Complete | HoldEnd::NothingHeld | HoldEnd::Unfinished => {}
    }
    if let Some(timer) = timers::of_losses(summary) {
        text.push_str(&format!(" {timer}"));
    }
    if let Some(cycles) = &hold.cycles {
        text.push_str(&format!(" {}", cycles::sentence(cycles)));
    }
    text
}
