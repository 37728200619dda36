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

/// Returns `low confidence`, `exact`.
pub(crate) fn sure(confidence: Confidence) -> String {
    match confidence {
        Confidence::Exact => confidence.name().to_owned(),
        _ => format!("{} confidence", confidence.name()),
    }
}

pub(super) fn head_word(summary: &Summary) -> (&'static str, Tone) {
    match summary.verdict {
        _ if summary.partial => ("PARTIAL", Tone::Warn),
        Verdict::Good => ("HELD", Tone::Good),
        verdict => (verdict_word(verdict), verdict.into()),
    }
}

pub(super) fn sentence(summary: &Summary, hold: &HoldSummary) -> String {
    let (held, asked) = (grouped(hold.held), grouped(hold.asked));
    let target = clean(&summary.target);
    if hold.end == HoldEnd::NothingHeld {
        return format!("Not one of {asked} connections to {target} could be held.");
    }
    let asked = whole(&format!("{asked} connections"));
    let how = match (&hold.end, &hold.cycles) {
        (HoldEnd::Unfinished, _) => " when it was cut short".to_owned(),
        (_, Some(cycles)) => format!(", in each of {} cycles", grouped(cycles.count)),
        (_, None) => format!(", held for {}", span(hold.hold_s)),
    };
    let lost = match hold.lost {
        0 => "none was lost".to_owned(),
        lost => format!("some were lost ({})", grouped(lost)),
    };
    let swept = hold.last_sweep.filter(|swept| swept.connections > 0);
    let answered =
        swept.map_or_else(String::new, |swept| match swept.connections - swept.answered {
            0 => ", and every one answered at the end".to_owned(),
            silent => format!(", and {} did not answer at the end", grouped(silent)),
        });
    let held = format!("{held} of {asked} to {target}{how}; {lost}{answered}.");
    let end = match &hold.end {
        HoldEnd::CutShort { why } => Some(format!("This host cannot hold more: {}.", clean(why))),
        HoldEnd::ServerFailed { why } => {
            Some(format!("The server failed: {}.", stopped::failure(why)))
        }
        HoldEnd::ServerFull { resource, unit, used, limit } => {
            let amount = |amount: u64| match unit {
                Unit::Bytes => bytes(amount),
                _ => grouped(amount),
            };
            let (used, limit, resource) =
                (amount(*used), amount(*limit), clean(&resource.to_string()));
            Some(format!(
                "The server is at a limit of its own, {resource}: {used} of {limit} in use. Raise it \
                 to hold more."
            ))
        }
        HoldEnd::Complete | HoldEnd::NothingHeld | HoldEnd::Unfinished => None,
    };
    let cycles = hold.cycles.as_ref().map(cycles::sentence);
    let sentences = [Some(held), end, timers::of_losses(summary), cycles];
    sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
}
