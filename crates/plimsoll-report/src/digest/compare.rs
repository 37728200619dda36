//! The answer of a comparison: the difference in words, and how sure it is.

use plimsoll_model::compare::{CompareSummary, Difference, Finding, Metric};

use super::Answer;
use crate::terminal::layout::{Tone, clean, counted, whole};

pub(super) fn answer(compare: &CompareSummary) -> Answer {
    let Some(found) = &compare.difference else {
        return Answer::warn("Undecided:", undecided(compare));
    };
    let Difference { ratio, ratio_low: low, ratio_high: high, .. } = *found;
    let seen = format!(
        "; the smallest difference this comparison could have seen is {}",
        percent(found.noise.detectable)
    );
    let sure = whole(&format!("{:.0} % interval ", found.confidence * 100.0));
    let is_higher = found.finding == Finding::Higher;
    match found.finding {
        Finding::Higher | Finding::Lower => {
            let (size, from, to) = if is_higher {
                (ratio - 1.0, low - 1.0, high - 1.0)
            } else {
                (1.0 - ratio, 1.0 - high, 1.0 - low)
            };
            let better = is_higher == compare.metric.more_is_better();
            let range = whole(&format!("{} to {}", bare_percent(from), percent(to)));
            let text = format!(
                "{} ({sure}{range}){seen}.",
                differs(compare.metric, is_higher, &percent(size))
            );
            if better { Answer::good("Better:", text) } else { Answer::bad("Worse:", text) }
        }
        Finding::NoDifference => {
            let range = whole(&format!("{} to {}", signed(low - 1.0), signed(high - 1.0)));
            let ratio = whole(&format!("{:.1} %", ratio * 100.0));
            let title = compare.metric.title();
            let text =
                format!("none seen in {title}; B's is {ratio} of A's ({sure}{range}){seen}.");
            Answer::new(Tone::Strong, "No difference:", text)
        }
    }
}

/// Returns `B is 3.1 % slower than A at saturation`.
fn differs(metric: Metric, is_higher: bool, size: &str) -> String {
    let (more, less) = if is_higher { ("higher", "faster") } else { ("lower", "slower") };
    match metric {
        Metric::Goodput => format!("B is {size} {less} than A at saturation"),
        Metric::ServerCpu if is_higher => {
            format!("B is slower than A: it needs {size} more CPU time per answer")
        }
        Metric::ServerCpu => {
            format!("B is faster than A: it needs {size} less CPU time per answer")
        }
        _ => format!("B is {size} {more} than A in {}", metric.title()),
    }
}

fn undecided(compare: &CompareSummary) -> String {
    let stopped = compare.stopped.as_ref().map(|why| format!(" {}.", capitalised(why)));
    let made = match compare.rounds.len() {
        0 => "no round was made".to_owned(),
        made => {
            format!("{} of {} can be used", compare.rounds_used, counted(made as u64, "round"))
        }
    };
    let stopped = stopped.unwrap_or_default();
    format!("{made}, and a statement needs at least eight.{stopped}")
}

/// Returns `text` as the beginning of a sentence.
pub(crate) fn capitalised(text: &str) -> String {
    let text = clean(text);
    let mut letters = text.chars();
    letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
}

/// Returns a relative difference in percent with one decimal.
pub(crate) fn percent(relative: f64) -> String {
    whole(&format!("{} %", bare_percent(relative)))
}

fn bare_percent(relative: f64) -> String {
    format!("{:.1}", relative * 100.0)
}

/// Formats a relative change with its sign.
pub(crate) fn signed(relative: f64) -> String {
    whole(&format!("{:+.1} %", relative * 100.0))
}
