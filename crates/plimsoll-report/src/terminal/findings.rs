//! The words of a check, made here and nowhere else: its figures with their units, and its limits.
//!
//! `words` joins the measures of a [`Check`] into a value and a limit, unless the check came with its text from a
//! file. `seen`, `seen_and_limit` and `line` are the forms for reports; `worded` and `worded_summary` store the words
//! in records that are read without plimsoll. A figure stays a number with a [`Unit`] up to this module, and no words
//! are parsed back. Start reading at `words`.

use plimsoll_model::Nanos;
use plimsoll_model::result::RunResult;
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{Check, CheckId, CheckText, Judgement, Level, Measure, Unit};
use plimsoll_model::units::grouped;
use serde::Serialize;

use super::layout::{clean, per_s, trimmed};
use crate::reasons;

/// An entry of `checks` in JSON: the figure that decides, and the words.
#[derive(Debug, Serialize)]
pub(crate) struct CheckLine<'a> {
    id: &'a CheckId,
    value: Option<f64>,
    limit: Option<f64>,
    unit: Option<Unit>,
    level: Level,
    text: String,
}

impl<'a> CheckLine<'a> {
    pub(crate) fn of(check: &'a Check) -> Self {
        let figure = check.deciding();
        Self {
            id: &check.id,
            value: figure.map(|figure| figure.value),
            limit: figure.and_then(|figure| figure.at_most.or(figure.at_least)),
            unit: figure.map(|figure| figure.unit),
            level: check.level,
            text: seen_and_limit(check),
        }
    }
}

/// Returns value and limit in the words of the archive.
pub(crate) fn words(check: &Check) -> CheckText {
    check.text.clone().unwrap_or_else(|| {
        let seen = check.measures.iter().map(|one| named(one, &figure(one.value, one.unit)));
        let bounds = check.measures.iter().filter_map(|one| Some((one, bound(one)?)));
        let mut limits: Vec<_> = bounds.map(|(one, bound)| named(one, &bound)).collect();
        if let ([limit], Some(bound)) = (&mut limits[..], check.measures.first().and_then(bound)) {
            // There is only one that it can be of.
            *limit = bound;
        }
        let joined = |parts: Vec<String>| parts.join(", ");
        CheckText {
            value: joined(seen.chain(check.detail.clone()).collect()),
            limit: joined(limits),
        }
    })
}

/// Returns the measured figures: `busiest thread 97 %`.
pub(crate) fn seen(check: &Check) -> String {
    clean(&words(check).value)
}

/// Returns `busiest thread 97 % (limit: at most 90 %)`.
pub(crate) fn seen_and_limit(check: &Check) -> String {
    let CheckText { value, limit } = words(check);
    let limit = if limit.is_empty() { limit } else { format!(" (limit: {limit})") };
    clean(&format!("{value}{limit}"))
}

/// Returns the whole check in one line: `generator-cpu: busiest thread 97 % (limit: …)`.
pub fn line(check: &Check) -> String {
    format!("{}: {}", clean(&check.id.name()), seen_and_limit(check))
}

/// Puts the words beside the figures, for a file that others read without plimsoll.
fn put_words(checks: &mut [Check]) {
    checks.iter_mut().for_each(|check| check.text = Some(words(check)));
}

/// Returns a judgement with the words of its checks.
pub(crate) fn worded(judgement: &Judgement) -> Judgement {
    let mut judgement = judgement.clone();
    put_words(&mut judgement.reasons);
    judgement
}

/// Returns a summary with the words of its checks.
pub(crate) fn worded_summary(summary: &Summary) -> Summary {
    let mut summary = summary.clone();
    put_words(&mut summary.reasons);
    reasons::put_words(&mut summary);
    if let RunResult::Rfc9411 { rfc9411 } = &mut summary.result {
        for result in &mut rfc9411.results {
            put_words(&mut result.criteria);
            put_words(&mut result.checks);
        }
    }
    summary
}

fn named(measure: &Measure, text: &str) -> String {
    format!("{} {text}", measure.name).trim_start().to_owned()
}

/// Returns the allowed range of a figure; `None` if everything is allowed.
fn bound(measure: &Measure) -> Option<String> {
    let text = |value| figure(value, measure.unit);
    Some(match (measure.at_least, measure.at_most) {
        (None, None) => return None,
        (Some(least), Some(most)) => format!("{} to {}", text(least), text(most)),
        (None, Some(0.0)) => text(0.0),
        (None, Some(most)) => format!("at most {}", text(most)),
        (Some(least), None) => format!("at least {}", text(least)),
    })
}

fn figure(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Count if value.fract() != 0.0 => format!("{value:.1}"),
        Unit::Count => grouped(value as u64),
        Unit::Ratio => percent(value),
        Unit::Factor => trimmed(format!("{value:.2}")),
        Unit::Ms => Nanos((value * 1e6).round() as u64).to_string(),
        // Only a backlog falls.
        Unit::PerS if value < 0.0 => format!("{value:.1}/s"),
        Unit::PerS => per_s(value),
        Unit::Bytes => format!("{} B", grouped(value as u64)),
    }
}

/// Returns `1.24 %`, `0.1 %`, `0 %`; small shares with two digits: `0.0097 %`.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = match percent {
        small if small > 0.0 && small < 0.1 => (1 - small.log10().floor() as i32).clamp(0, 12),
        _ => 2,
    };
    format!("{} %", trimmed(format!("{percent:.0$}", decimals as usize)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_named_where_there_are_several() {
        let of = |name, ms: u64| Measure::span(name, Nanos::from_millis(ms)).at_most(5.0);
        let text = "p99 8.00 ms, p99.9 12.0 ms (limit: p99 at most 5.00 ms, p99.9 at most 5.00 ms)";
        assert_eq!(checked([of("p99", 8), of("p99.9", 12)]), text);
    }

    fn checked(measures: impl Into<Vec<Measure>>) -> String {
        seen_and_limit(&Check::new(CheckId::SendLag, Level::Fail, measures))
    }

    #[test]
    fn figures_have_their_units() {
        let lag = Measure::span("p99", Nanos::from_millis(8)).at_most(5.0);
        let tail = Measure::span("p99.9", Nanos::from_millis(12));
        assert_eq!(checked([lag, tail]), "p99 8.00 ms, p99.9 12.0 ms (limit: at most 5.00 ms)");
        let held = Measure::count("", 9_992).at_least(10_000.0);
        assert_eq!(checked([held]), "9,992 (limit: at least 10,000)");
        assert_eq!(checked([Measure::count("lost", 13).at_most(0.0)]), "lost 13 (limit: 0)");
        let small = Measure::ratio("", 0.000_097).at_most(1e-5);
        assert_eq!(checked([small]), "0.0097 % (limit: at most 0.001 %)");
        assert_eq!(
            checked([Measure::ratio("", 0.0233).at_most(0.01)]),
            "2.33 % (limit: at most 1 %)"
        );
        let spread = Measure::new("dispersion", 1.3, Unit::Factor).at_least(0.8).at_most(1.25);
        assert_eq!(checked([spread]), "dispersion 1.3 (limit: 0.8 to 1.25)");
        assert_eq!(checked([Measure::new("", -3.25, Unit::PerS)]), "-3.2/s");
        assert_eq!(percent(1.0), "100 %");
    }

    #[test]
    fn what_was_said_first_is_said_again() {
        let mut checks = vec![Check::failed(CheckId::Laboratory, "the supervisor was\u{7} killed")];
        assert_eq!(line(&checks[0]), "laboratory: the supervisor was? killed");
        put_words(&mut checks);
        checks[0].detail = None;
        assert_eq!(line(&checks[0]), "laboratory: the supervisor was? killed");
    }
}
