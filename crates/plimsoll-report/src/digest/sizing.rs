//! The answer of a sweep over settings: the best value, where one is better than the first.

use plimsoll_model::compare::{Difference, Finding};
use plimsoll_model::sizing::{SizingSummary, SizingValue};

use super::Answer;
use crate::terminal::layout::{Tone, clean, whole};

/// Returns the value that carries most for each CPU, where one is better than the first.
pub(super) fn answer(sizing: &SizingSummary) -> Answer {
    if sizing.is_cut_short() {
        let made = sizing.rounds_made;
        let text = format!("{made} rounds were made, and a statement needs at least eight.");
        return Answer::warn("Undecided:", text);
    }
    let gain = |value: &SizingValue| {
        let higher = |found: Option<Difference>| found.filter(|one| one.finding == Finding::Higher);
        higher(value.goodput)
            .into_iter()
            .chain(higher(value.per_cpu))
            .map(|one| one.ratio)
            .fold(0.0, f64::max)
    };
    let best = sizing.values.iter().max_by(|one, other| gain(one).total_cmp(&gain(other)));
    let Some(best) = best.filter(|best| gain(best) > 0.0) else {
        let text = "no value carries more than the first.".to_owned();
        return Answer::new(Tone::Strong, "Nothing to gain:", text);
    };
    let mut parts = Vec::new();
    if let Some(found) = best.goodput.filter(differs) {
        parts.push(format!("{} {}", change(&found), clean(&sizing.unit)));
    }
    if let Some(found) = best.per_cpu.filter(differs) {
        parts.push(format!("{} per CPU", change(&found)));
    }
    let first = sizing.values.first().map_or("", |value| &value.name);
    let text = format!("{}: {}, against {}.", clean(&best.name), parts.join(", "), clean(first));
    Answer::good("Best:", text)
}

fn differs(found: &Difference) -> bool {
    found.finding != Finding::NoDifference
}

fn change(found: &Difference) -> String {
    whole(&format!("{} %", bare(found.ratio - 1.0)))
}

pub(crate) fn bare(relative: f64) -> String {
    let percent = relative * 100.0;
    if percent.abs() < 100.0 { format!("{percent:+.1}") } else { format!("{percent:+.0}") }
}
