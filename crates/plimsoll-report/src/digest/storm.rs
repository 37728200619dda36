//! The answers of a search for the largest storm.
//!
//! [`answers`] returns the sentences in their order: safe storm, interval, endless storm, jitter, and one for each
//! remedy that was searched with. [`figures()`] returns the key figures. [`interval`] and [`remedy`] match on the
//! [`Outcome`], so that each end of a search has its sentence. The size of a storm is a number of connections cut at
//! once, shown with its share of all. Start reading at [`answers`].

use plimsoll_model::confirmation::Remedied;
use plimsoll_model::storm::{EndsBelow, Jitter, StormSummary, StormTrial};
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{Outcome, Verdict};
use plimsoll_model::units::grouped;

use super::Answer;
use super::figures::{self, KeyFigure};
use super::search::{ending, percent};
use crate::terminal::confirmation;
use crate::terminal::layout::{Tone, counted, ms_text, span, whole};
use crate::terminal::search::bounds::sure;

const LEAD: &str = "Largest storm:";
/// Confidence in a safe storm, whatever the confidence of the interval is.
const SAFE_CONFIDENCE: f64 = 0.9;

/// Returns the answers: the safe storm, the interval, and the storm that does not end by itself.
pub(super) fn answers(
    summary: &Summary,
    find: &FindSummary,
    storm: Option<&StormSummary>,
) -> Vec<Answer> {
    let safe = find.found.safe.map(|safe| {
        let text = format!(
            "{} ({} confidence): 9 of 10 storms of this size end in time.",
            size(safe.get(), storm),
            sure(SAFE_CONFIDENCE)
        );
        Answer::good("Safe storm:", text)
    });
    let mut answers: Vec<_> = safe.into_iter().chain([interval(summary, find, storm)]).collect();
    if let Some(storm) = storm {
        answers.extend(endless(storm).into_iter().chain(jitter(storm)));
        answers.extend(storm.remedies.iter().filter_map(|tried| remedy(tried, find, storm)));
    }
    answers
}

/// Returns the interval of the search, or the reason why there is none.
fn interval(summary: &Summary, find: &FindSummary, storm: Option<&StormSummary>) -> Answer {
    let recover = storm.map_or_else(|| "the time asked for".to_owned(), |s| span(s.recover_s));
    let why = ending(&find.found.outcome).1.unwrap_or_default();
    let known = bounds(find.found.bounds(), storm);
    match &find.found.outcome {
        Outcome::Regular => {
            let sure = find
                .found
                .confidence
                .map(|confidence| format!(" ({} confidence)", sure(confidence)));
            let sure = sure.unwrap_or_default();
            let text = format!(
                "{known}{sure} may be cut at once: all are back within {recover}, and the others keep the SLO."
            );
            Answer::good(LEAD, text)
        }
        Outcome::NotReached { .. } => Answer::good(
            "Largest storm not reached:",
            format!("{known}: all were back within {recover}, and the others kept the SLO; {why}."),
        ),
        Outcome::FailsAtMinimum => Answer::bad(
            "No storm is survived:",
            format!(
                "{known}. Even the smallest storm failed; see the storms, then raise --recover or \
                     loosen --slo."
            ),
        ),
        Outcome::Unfinished { .. } if summary.verdict == Verdict::Bad => {
            Answer::bad("FAILED:", format!("{why}. Until then: {known}."))
        }
        Outcome::Unfinished { .. } => {
            Answer::warn("Stopped:", format!("{known} so far; the search stopped early ({why})."))
        }
        Outcome::GeneratorLimited { .. }
        | Outcome::NetworkLimited { .. }
        | Outcome::Unconfirmed { .. } => {
            Answer::warn(LEAD, format!("{known}: this host was the limit ({why})."))
        }
        Outcome::Bounds { .. } | Outcome::Unstable { .. } | Outcome::Undecided { .. } => {
            Answer::warn(LEAD, format!("{known}; no confidence is stated, because {why}."))
        }
    }
}

/// Returns `between 760 and 830 of 2,000 connections (38 to 42 %)`, or what is known of it.
fn bounds(of: (Option<f64>, Option<f64>), storm: Option<&StormSummary>) -> String {
    match of {
        (Some(lower), Some(upper)) => {
            let share = storm.map(|storm| {
                let of = |cut: f64| 100.0 * cut / storm.connections.max(1) as f64;
                let shares = whole(&format!("{:.0} to {:.0} %", of(lower), of(upper)));
                format!(" of {} ({shares})", grouped(storm.connections))
            });
            let share = share.unwrap_or_default();
            format!("between {} and {}{share}", grouped(lower as u64), grouped(upper as u64))
        }
        (Some(lower), None) => format!("at least {}", size(lower, storm)),
        (None, Some(upper)) => format!("fewer than {}", size(upper, storm)),
        (None, None) => "no storm was judged".to_owned(),
    }
}

/// Returns `760 of 2,000 connections (38 %)`.
fn size(cut: f64, storm: Option<&StormSummary>) -> String {
    match storm {
        Some(storm) => of_all(cut as u64, storm.connections),
        None => whole(&counted(cut as u64, "connection")),
    }
}

fn of_all(cut: u64, connections: u64) -> String {
    let share = percent(cut as f64 / connections.max(1) as f64);
    format!("{} of {} ({share})", grouped(cut), whole(&counted(connections, "connection")))
}

/// Returns the verdict on a storm that does not end.
fn endless(storm: &StormSummary) -> Option<Answer> {
    let (trial, endless) = storm.endless()?;
    let retries = whole(&format!("{} per second", grouped(endless.retries_per_s.round() as u64)));
    let missing = grouped(endless.missing);
    let ended = storm.as_asked().filter(|one| one.endless.is_none() && one.cut < trial.cut);
    let ended = ended.filter(|one| one.verdict != Verdict::Invalid).map(|one| one.cut).max();
    let ended = ended
        .map_or_else(String::new, |cut| format!(" A storm of {} ended by itself.", grouped(cut)));
    let below = ends_below(storm).unwrap_or_default();
    let text = format!(
        "a storm of {} does not end by itself: after {}, {missing} clients were not back and no longer came back; \
         their retries, {retries}, kept it going until they stopped.{below}{ended}",
        of_all(trial.cut, storm.connections),
        span(endless.watched_s),
    );
    Some(Answer::bad("Endless:", text))
}

/// Returns ` It went on with 503 clients for 10.0 s, and ended with 377.`
fn ends_below(storm: &StormSummary) -> Option<String> {
    let EndsBelow { ended_with, lasted_with, watched_s, .. } = storm.ends_below?;
    let ended = ended_with.map(|clients| format!(", and ended with {}", grouped(clients)));
    let (lasted, ended) = (counted(lasted_with, "client"), ended.unwrap_or_default());
    Some(format!(" It went on with {lasted} for {}{ended}.", span(watched_s)))
}

/// Returns the jitter that makes the largest storm safe.
fn jitter(storm: &StormSummary) -> Option<Answer> {
    let Jitter { cut, enough_s, missed_s, survived } = storm.jitter?;
    let all = of_all(cut, storm.connections);
    let Some(enough) = enough_s else {
        let longest =
            missed_s.map_or_else(String::new, |missed| format!(" of up to {}", span(missed)));
        let text = format!("no jitter{longest} was enough for a storm of {all}.");
        return Some(Answer::warn("Jitter:", text));
    };
    let missed =
        missed_s.map_or_else(String::new, |missed| format!("; {} was not enough", span(missed)));
    let text = format!(
        "a storm of {all} is survived if each client waits a random time of up to {} before an attempt: all were \
         back within {} ({}{missed}).",
        span(enough),
        span(enough + storm.recover_s),
        counted(survived.into(), "storm"),
    );
    Some(Answer::good("Jitter:", text))
}

/// Returns the largest storm with one thing changed; `None` if that could not be.
fn remedy(tried: &Remedied, find: &FindSummary, storm: &StormSummary) -> Option<Answer> {
    let outcome = tried.outcome.as_ref()?;
    let known = bounds((tried.lower, tried.upper), Some(storm));
    let why = ending(outcome).1.unwrap_or_default();
    let (lower, upper) = find.found.bounds();
    let (tone, result) = match (outcome, tried.ratio) {
        (Outcome::Regular, Some(ratio)) => {
            let (tone, size) = if tried.lower > upper {
                (Tone::Good, confirmation::percent(ratio))
            } else if tried.upper < lower {
                (Tone::Warn, confirmation::percent(ratio))
            } else {
                (Tone::Warn, "the interval without it overlaps".to_owned())
            };
            (tone, format!("{known} may be cut at once ({size})"))
        }
        (Outcome::NotReached { .. }, _) => (Tone::Good, format!("{known} may be cut at once")),
        (Outcome::FailsAtMinimum, _) => {
            (Tone::Warn, "storms of the former lower bound failed".to_owned())
        }
        (
            Outcome::GeneratorLimited { .. }
            | Outcome::NetworkLimited { .. }
            | Outcome::Unconfirmed { .. },
            _,
        ) => (Tone::Warn, format!("{known}: this host was the limit ({why})")),
        _ => (Tone::Warn, format!("{known}; no confidence is stated, because {why}")),
    };
    let change = confirmation::change(tried.intervention, tried.from, tried.to);
    Some(Answer::new(tone, "Remedy:", format!("{change}: {result}.")))
}

/// Returns the key figures.
pub(super) fn figures(
    summary: &Summary,
    find: &FindSummary,
    storm: Option<&StormSummary>,
) -> Vec<KeyFigure> {
    let count = |value: f64| grouped(value as u64);
    let mut keys: Vec<KeyFigure> = Vec::new();
    if let Some(safe) = find.found.safe {
        keys.push(("Safe storm", count(safe.get()), "9 of 10 end in time".to_owned()));
    }
    let sure = find.found.confidence.map(|sure| format!("{:.0} % confidence", sure * 100.0));
    let note = sure.unwrap_or_else(|| "without a confidence".to_owned());
    keys.push(("Largest storm", figures::bounds(find, count), note));
    if let Some(storm) = storm {
        let held = format!("{} asked for", grouped(storm.connections));
        keys.push(("Held", grouped(storm.held), held));
        keys.push(("Recover within", span(storm.recover_s), String::new()));
        if let Some(largest) = largest(storm) {
            let note = format!("a storm of {}", grouped(largest.cut));
            keys.push(("Recovered after", recovered(largest), note));
        }
        if let Some((trial, endless)) = storm.endless() {
            let note = format!("{:.0} retries per second", endless.retries_per_s);
            keys.push(("Does not end from", grouped(trial.cut), note));
        }
        if let Some(Jitter { cut, enough_s: Some(enough), .. }) = storm.jitter {
            let note = format!("a storm of {}", grouped(cut));
            keys.push(("Safe with jitter of", span(enough), note));
        }
        keys.push(("p99 before", ms_text(storm.base_p99_ms), "no storm".to_owned()));
    }
    keys.push(("Storms", find.found.trials.to_string(), String::new()));
    keys.push(("Length", span(summary.seconds), String::new()));
    keys
}

/// Returns the largest storm that was survived.
pub(crate) fn largest(storm: &StormSummary) -> Option<&StormTrial> {
    let good = storm.as_asked().filter(|one| one.verdict == Verdict::Good);
    good.max_by_key(|one| one.cut)
}

/// Returns `1.9 s`, or `-`.
pub(crate) fn recovered(trial: &StormTrial) -> String {
    trial.recovered_s.map_or_else(|| "-".to_owned(), span)
}
