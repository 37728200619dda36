//! The answers of a search.
//!
//! [`answers`] distinguishes repeated searches, searches for connections, and searches with one SLO or several.
//! [`of_slo`] makes the answers for one SLO: safe load and interval, trials that are not counted, and advice.
//! [`of_rate`] and [`of_connections`] have a sentence for each [`Outcome`], and [`title`] words it for a chart. A
//! bound is a rate or a number of connections, by the [`Axis`]. Start reading at [`of_rate`].

use plimsoll_model::Rate;
use plimsoll_model::repeat::RepeatSummary;
use plimsoll_model::search::Axis;
use plimsoll_model::slo::Slo;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{
    Disturbed, Outcome, Regime, SafeMissing, SloFound, TippingPoint, Verdict,
};
use plimsoll_model::units::grouped;

use super::answer::{Answer, Role};
use crate::stopped;
use crate::terminal::layout::{Tone, clean, whole};
use crate::terminal::search::bounds::{bounds_text, load_text, sure, with_safe};
use crate::terminal::{hints, timers};
use crate::unsettled::{advice, reason, safe_missing};

const LEAD: &str = "Tipping point:";
/// A range with a ratio of its ends above this is explained by speeds.
const WIDE: f64 = 1.2;
/// A speed below this share of the usual one is named.
const SLOW: f64 = 0.95;

/// Returns the end of a search in a few words, and its reason, if its outcome states one.
pub(crate) fn ending(outcome: &Outcome) -> (&'static str, Option<String>) {
    match outcome {
        Outcome::Regular => ("interval", None),
        Outcome::Bounds { why } => ("no interval", Some(reason(why))),
        Outcome::NotReached { cap } => ("not reached", Some(clean(cap))),
        Outcome::FailsAtMinimum => ("the SLO is missed even at the lowest load", None),
        Outcome::GeneratorLimited { why } => (hints::obstacle(why), Some(clean(why))),
        Outcome::NetworkLimited { why } => ("the path was the limit", Some(clean(why))),
        Outcome::Unconfirmed { why } => ("not confirmed", Some(clean(why))),
        Outcome::Unstable { why } => ("unstable", Some(reason(why))),
        Outcome::Undecided { why } => ("undecided", Some(reason(why))),
        Outcome::Unfinished { why } => ("stopped early", Some(stopped::reason(why))),
    }
}

/// Returns the answers of a search, SLO by SLO.
pub(super) fn answers(summary: &Summary, find: &FindSummary) -> Vec<Answer> {
    if let Some(repeat) = &summary.repeat {
        return vec![of_repeated(find, repeat)];
    }
    if find.axis == Axis::Connections {
        return vec![of_connections(summary, find)];
    }
    if find.found.goals.is_empty() {
        return of_slo(summary, find);
    }
    let of_goal = |goal: &SloFound| {
        let mut answers = of_slo(summary, &alone(find, goal));
        for answer in &mut answers {
            answer.slo = Some(clean(&goal.slo));
        }
        answers
    };
    find.found.goals.iter().flat_map(of_goal).collect()
}

/// Returns the answers for one SLO: the safe load, which is for planning, if it is known; the interval; the reason why
/// there is no safe load, and a remedy.
fn of_slo(summary: &Summary, find: &FindSummary) -> Vec<Answer> {
    let mut answers = vec![of_rate(summary, find)];
    answers.extend(safe_load(find));
    if find.found.safe.is_some() {
        answers.reverse();
    }
    answers.extend(find.found.disturbed.as_ref().map(left_out));
    answers.extend(find.found.outcome.unsettled().map(|why| {
        let advice = Answer::new(Tone::Strong, "What to do:", advice(why));
        Answer { role: Role::Advice, ..advice }
    }));
    answers
}

/// Returns the interval of a search for a rate, or the reason why there is none.
fn of_rate(summary: &Summary, find: &FindSummary) -> Answer {
    let (between, at_least) = (between(find.axis, find.found.bounds()), at_least(find));
    let bounds = bounds_text(find.axis, &find.found);
    let so_far = with_safe(find.axis, &find.found);
    let (observed, claimed) = match find.found.has_bounds() {
        true => (format!("{so_far}; "), "not one number"),
        false => (String::new(), "no interval is claimed"),
    };
    let why = ending(&find.found.outcome).1.unwrap_or_default();
    match &find.found.outcome {
        Outcome::Regular => Answer::good(LEAD, format!("{between}{}", how_sure(find))),
        Outcome::NotReached { .. } => Answer::warn(
            "Tipping point not reached:",
            format!("{at_least}. The server met the SLO at every load up to the cap: {why}."),
        ),
        Outcome::FailsAtMinimum
            if summary.operations.ok == 0 && summary.answers.status.is_empty() =>
        {
            let text =
                "not one operation was answered, even at the lowest load; see the errors below.";
            Answer::bad("No tipping point:", text.to_owned())
        }
        Outcome::FailsAtMinimum => Answer::bad(
            "No tipping point:",
            format!(
                "{between}. The server missed the SLO even at the lowest load; see the first \
                 trials, then loosen --slo or fix the server."
            ),
        ),
        Outcome::GeneratorLimited { why: checks } => Answer::warn(
            LEAD,
            format!(
                "{at_least}: {} ({why}). What the server can take beyond that was not measured. {}",
                hints::obstacle(checks),
                hints::remedy(checks)
            ),
        ),
        Outcome::NetworkLimited { .. } => Answer::warn(
            LEAD,
            format!(
                "{at_least}: the path was the limit ({why}), at low loads, too. What the server can take \
                 was not measured. Search over a path without loss, or with a limit above 200 ms."
            ),
        ),
        Outcome::Unconfirmed { why: checks } => unconfirmed(&between, checks),
        Outcome::Bounds { .. } if find.found.confidence.is_some() => {
            Answer::good(LEAD, format!("{between}{}; a range, because {why}.", how_sure(find)))
        }
        Outcome::Bounds { .. } => {
            Answer::good(LEAD, format!("{bounds}; no confidence is stated, because {why}."))
        }
        Outcome::Unstable { .. } => {
            Answer::warn("Unstable:", format!("{observed}{claimed}, because {why}."))
        }
        Outcome::Undecided { .. } => {
            Answer::warn("Undecided:", format!("{observed}{claimed}, because {why}."))
        }
        Outcome::Unfinished { .. } if summary.verdict == Verdict::Bad => {
            Answer::bad("Server lost:", format!("{why}. Until then: {so_far}."))
        }
        Outcome::Unfinished { .. } => {
            Answer::warn("Stopped:", format!("{so_far}; the search stopped early ({why})."))
        }
    }
}

fn unconfirmed(between: &str, checks: &str) -> Answer {
    Answer::warn(
        "Tipping point not confirmed:",
        format!(
            "{between} as far as the search measured; every longer trial at the lower bound was \
             INVALID, because {} ({}). {}",
            hints::obstacle(checks),
            clean(checks),
            hints::remedy(checks)
        ),
    )
}

/// Returns the answer as the title of a chart, whose axes show the bounds.
pub(crate) fn title(find: &FindSummary) -> String {
    let slo = find.slo.parse::<Slo>().ok();
    let goal = slo.as_ref().and_then(Slo::latency);
    let goal = goal.map(|(goal, _, limit)| (goal.metric(), whole(&limit.to_string())));
    let load = |bound: Option<Rate>| {
        bound.map_or_else(|| "no load".to_owned(), |bound| load_text(find.axis, bound.get()))
    };
    let (lower, upper) = (load(find.found.lower), load(find.found.upper));
    let (how, why) = ending(&find.found.outcome);
    let why = why.unwrap_or_default();
    let leaves = |range: &str| {
        let confidence =
            find.found.confidence.map(|confidence| whole(&format!(" ({})", sure(confidence))));
        let confidence = confidence.unwrap_or_default();
        let between = format!("between {lower} and {upper}{confidence}{range}");
        match &goal {
            Some((name, limit)) => format!("{name} leaves {limit} {between}"),
            None => format!("The server stops meeting {} {between}", clean(&find.slo)),
        }
    };
    match &find.found.outcome {
        Outcome::Regular => leaves(""),
        Outcome::Bounds { .. } if find.found.confidence.is_some() => {
            leaves(&format!("; a range, because {why}"))
        }
        Outcome::NotReached { .. } => {
            let below = goal.map_or_else(
                || "The SLO was met".to_owned(),
                |(name, limit)| format!("{name} stays below {limit}"),
            );
            format!("{below} up to {lower}, the highest load tried")
        }
        Outcome::FailsAtMinimum => format!("The SLO was missed at the lowest load, {upper}"),
        Outcome::GeneratorLimited { .. } | Outcome::NetworkLimited { .. } => {
            format!("Above {lower} {how}; the server's end was not seen")
        }
        Outcome::Unconfirmed { why: checks } => format!(
            "No longer trial confirmed that {lower} are served: {}",
            hints::obstacle(checks)
        ),
        Outcome::Bounds { .. } | Outcome::Unstable { .. } | Outcome::Undecided { .. } => {
            match find.found.has_bounds() {
                true => format!(
                    "{lower} met the SLO and {upper} missed it, without a confidence: {why}"
                ),
                false => format!("No interval is claimed: {why}"),
            }
        }
        Outcome::Unfinished { .. } => format!("The search stopped early: {why}"),
    }
}

/// Returns the answer for one of several SLOs, as if it had been the only one.
fn alone(find: &FindSummary, goal: &SloFound) -> FindSummary {
    FindSummary { found: goal.found.clone(), ..find.clone() }
}

/// Describes the interval in one line.
fn how_sure(find: &FindSummary) -> String {
    let Some(confidence) = find.found.confidence else { return wide(find.found.bounds()) };
    let what = by_speed(find.axis, &find.found).unwrap_or_else(|| {
        ": the most that the server takes in even arrivals and meets the SLO".to_owned()
    });
    format!(" ({} confidence){what}", sure(confidence))
}

/// Names the speed that the interval is of, and what the server takes at the usual one, if its speed changed. A range
/// spans the speeds; both are stated where it is wide.
fn by_speed(axis: Axis, found: &TippingPoint) -> Option<String> {
    let (lower, upper) = (found.lower?.get(), found.upper?.get());
    let of = |regime: &Regime| {
        let bound = |rate: Option<Rate>| Some(load_text(axis, rate?.get()));
        Some(format!("{} to {}", bound(regime.lower)?, bound(regime.upper)?))
    };
    let slowest = found.regimes.first().filter(|regime| regime.speed < SLOW)?;
    let usual = found.regimes.iter().find(|regime| regime.is_usual())?;
    let (share, usual) = (slowest.share * 100.0, of(usual)?);
    if found.outcome == Outcome::Regular {
        return Some(format!(
            " in slow stretches ({share:.0} % of the time); at the usual speed {usual}"
        ));
    }
    (upper > WIDE * lower).then_some(())?;
    let slow = of(slowest)?;
    Some(format!(
        "; its speed changed: {slow} in slow stretches ({share:.0} % of the time), {usual} at the usual speed"
    ))
}

/// Returns the load that can be offered, or why it is not known.
fn safe_load(find: &FindSummary) -> Option<Answer> {
    // What was stopped has all in one line.
    if matches!(find.found.outcome, Outcome::Unfinished { .. }) {
        return None;
    }
    let Some(safe) = find.found.safe else {
        let why = find.found.safe_missing.as_ref()?;
        let text = match (why, find.found.outcome.unsettled()) {
            (SafeMissing::SetAside { why }, Some(said)) if why == said => {
                "none: the trials with random arrivals do not count, for the same reason".to_owned()
            }
            _ => format!("none: {}", safe_missing(why)),
        };
        return Some(Answer::warn("Safe load:", text));
    };
    let runs =
        find.found.run.map_or_else(String::new, |run| format!(" of {} s", run.as_secs_f64()));
    let text = format!(
        "{} ({} confidence): 9 of 10 loads{runs} meet the SLO in random arrivals",
        load_text(find.axis, safe.get()),
        sure(find.found.confidence?)
    );
    Some(Answer::good("Safe load:", text))
}

/// Returns the trials that do not count, because others had the server's CPU.
fn left_out(disturbed: &Disturbed) -> Answer {
    let Disturbed { trials, waited, usual } = disturbed;
    let (waited, usual) = (percent(*waited), percent(*usual));
    let many = if *trials == 1 { "trial" } else { "trials" };
    let text = format!(
        "{trials} {many} that missed the SLO while other programs had the server's CPU: it waited for one in up to {waited} \
         of a second's work, usually in {usual}. While they run it takes less than is stated here."
    );
    Answer::warn("Not counted:", text)
}

/// Returns the interval of a search for held connections, or the reason why there is none.
fn of_connections(summary: &Summary, find: &FindSummary) -> Answer {
    let (between, at_least) = (between(find.axis, find.found.bounds()), at_least(find));
    let why = ending(&find.found.outcome).1.unwrap_or_default();
    match &find.found.outcome {
        Outcome::Regular => Answer::good(LEAD, format!("{between}{}", wide(find.found.bounds()))),
        Outcome::NotReached { .. } => Answer::warn(
            "Tipping point not reached:",
            format!("{at_least} are held and answer. More were not tried: {why}."),
        ),
        Outcome::FailsAtMinimum if summary.connections.counts.opened == 0 => Answer::bad(
            "No tipping point:",
            "not one connection could be opened; see the errors below.".to_owned(),
        ),
        Outcome::FailsAtMinimum => Answer::bad(
            "No tipping point:",
            match timers::of_losses(summary) {
                Some(timer) => {
                    format!("{between}. The server failed at the lowest level. {timer}")
                }
                None => format!(
                    "{between}. The server failed at the lowest level; see the levels, then \
                     lower --min, loosen --slo or fix the server."
                ),
            },
        ),
        Outcome::Unconfirmed { why: checks } => unconfirmed(&between, checks),
        Outcome::GeneratorLimited { .. } | Outcome::NetworkLimited { .. } => Answer::warn(
            LEAD,
            format!(
                "{at_least}: this host was the limit ({why}). What the server can hold beyond that \
                 was not measured."
            ),
        ),
        Outcome::Unfinished { .. } => {
            let timer = timers::of_losses(summary).map(|timer| format!(" {timer}"));
            let text = format!("{between} so far; the search stopped early ({why}).");
            Answer::warn("Stopped:", text + &timer.unwrap_or_default())
        }
        Outcome::Bounds { .. } | Outcome::Unstable { .. } | Outcome::Undecided { .. } => {
            Answer::warn("Tipping point not found:", format!("{between} so far; {why}."))
        }
    }
}

/// Returns the interval over repeated searches.
fn of_repeated(find: &FindSummary, repeat: &RepeatSummary) -> Answer {
    if repeat.used == 0 {
        let text = match find.found.lower {
            None => "no search ended with an interval; see below.".to_owned(),
            Some(_) => {
                format!(
                    "{} in each search; none ended with an interval, see below.",
                    at_least(find)
                )
            }
        };
        return Answer::warn("No tipping point:", text);
    }
    let tone = if repeat.used == repeat.asked { Tone::Good } else { Tone::Warn };
    let sure = repeat.confidence.map_or_else(
        || ", by a single search".to_owned(),
        |confidence| format!(", {} confidence", percent(confidence)),
    );
    Answer::new(tone, LEAD, format!("{}{sure}", interval(find.axis, find.found.bounds())))
}

/// Returns `between 18,200/s and 18,900/s`, or what is known of it.
fn between(axis: Axis, bounds: (Option<f64>, Option<f64>)) -> String {
    let load = |value| load_text(axis, value);
    match bounds {
        (Some(lower), Some(upper)) if axis == Axis::Connections => {
            format!("between {} and {}", grouped(lower as u64), load(upper))
        }
        (Some(lower), Some(upper)) => format!("between {} and {}", load(lower), load(upper)),
        (Some(lower), None) => format!("at least {}", load(lower)),
        (None, Some(upper)) => format!("below {}", load(upper)),
        (None, None) => "unknown".to_owned(),
    }
}

fn at_least(find: &FindSummary) -> String {
    let lower =
        find.found.lower.map(|lower| format!("at least {}", load_text(find.axis, lower.get())));
    lower.unwrap_or_else(|| "no figure".to_owned())
}

/// Returns ` (3.8 % wide)`; nothing if an end is missing.
fn wide((lower, upper): (Option<f64>, Option<f64>)) -> String {
    let width = lower.zip(upper).map(|(lower, upper)| (upper / lower - 1.0) * 100.0);
    width.map_or_else(String::new, |width| whole(&format!(" ({width:.1} % wide)")))
}

/// Returns `between 18,200/s and 18,900/s (3.8 % wide)`.
pub(crate) fn interval(axis: Axis, bounds: (Option<f64>, Option<f64>)) -> String {
    between(axis, bounds) + &wide(bounds)
}

/// Returns `97 %`, in one piece.
pub(crate) fn percent(share: f64) -> String {
    whole(&format!("{:.0} %", share * 100.0))
}

#[cfg(test)]
mod tests {
    use plimsoll_model::trial::Unsettled;

    use super::*;
    use crate::fixtures;
    use crate::json::write_summary;
    use crate::schema::assert_described;

    #[test]
    fn trials_that_do_not_count_are_named_and_described() {
        let disturbed = Some(Disturbed { trials: 9, waited: 0.52, usual: 0.01 });
        let find = fixtures::find(TippingPoint { disturbed, ..fixtures::tipping_point() });
        let summary = Summary { result: find.clone().into(), ..fixtures::load_good() };
        let mut written = Vec::new();
        write_summary(&summary, &mut written).expect("memory");
        assert_described("summary", &serde_json::from_slice(&written).expect("JSON"));
        let answers = of_slo(&summary, &find);
        let said = answers.last().expect("three").text.replace('\u{a0}', " ");
        assert_eq!(
            said,
            "9 trials that missed the SLO while other programs had the server's CPU: it waited for one in up to 52 % of \
             a second's work, usually in 1 %. While they run it takes less than is stated here."
        );
    }

    #[test]
    fn an_interval_is_of_slow_stretches_and_a_wide_range_of_both_speeds() {
        let rate = Rate::per_second;
        let regime = |share, speed, (lower, upper)| Regime {
            share,
            speed,
            lower: rate(lower),
            upper: rate(upper),
        };
        let slow = regime(0.28, 0.8, (27_574.0, 34_884.0));
        let usual = regime(0.72, 1.0, (34_262.0, 43_346.0));
        let tip = TippingPoint { regimes: vec![slow, usual], ..fixtures::tipping_point() };
        let said = |found: &TippingPoint| {
            by_speed(Axis::Rate, found).map(|text| text.replace('\u{a0}', " "))
        };
        assert_eq!(
            said(&tip).expect("two speeds"),
            " in slow stretches (28 % of the time); at the usual speed 34,262/s to 43,346/s"
        );
        let why = Unsettled::Wide { width: 0.7 };
        let narrow = TippingPoint { outcome: Outcome::Bounds { why }, ..tip };
        assert_eq!(said(&narrow), None);
        let wide = TippingPoint { lower: rate(27_574.0), upper: rate(48_148.0), ..narrow };
        assert_eq!(
            said(&wide).expect("two speeds"),
            "; its speed changed: 27,574/s to 34,884/s in slow stretches (28 % of the time), 34,262/s to \
             43,346/s at the usual speed"
        );
        let steady = TippingPoint { regimes: Vec::new(), ..wide };
        assert_eq!(said(&steady), None);
    }
}
