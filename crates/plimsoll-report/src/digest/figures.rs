//! The key figures of a run: name, figure and remark of each.
//!
//! One function per kind of result returns its [`KeyFigure`]s in the order in which reports show them;
//! `digest/mod.rs` selects the function, and storms have theirs in `digest/storm.rs`. Figures are texts with their
//! units, made from the summary alone. A figure that is unknown is omitted or says so, and is never shown as zero.
//! Start reading at [`of_search`].

use plimsoll_model::compare::{CompareSummary, Difference};
use plimsoll_model::hold::HoldSummary;
use plimsoll_model::rfc9411::Rfc9411Summary;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::Outcome;
use plimsoll_model::units::grouped;

use super::hold;
use crate::terminal::layout::{bytes, cpu_percent, ms_text, per_s, percent, span};
use crate::terminal::search::bounds::regime_lines;

/// The name of a figure, the figure, and a remark.
pub(crate) type KeyFigure = (&'static str, String, String);

pub(super) fn of_search(summary: &Summary, find: &FindSummary) -> Vec<KeyFigure> {
    let is_connections = find.connections.is_some();
    let load = |value: f64| if is_connections { grouped(value as u64) } else { per_s(value) };
    let mut keys: Vec<KeyFigure> = Vec::new();
    // The load to plan with comes first.
    if let Some(safe) = find.found.safe {
        keys.push(("Safe load", load(safe.get()), "9 of 10 loads meet the SLO".to_owned()));
    }
    let sure = find
        .found
        .confidence
        .map_or_else(String::new, |sure| format!("{:.0} % confidence", sure * 100.0));
    let (name, note) = match (&find.found.outcome, find.found.confidence) {
        (Outcome::Regular, _) | (_, Some(_)) => ("Tipping point", sure),
        _ => ("Observed bounds", "without a confidence".to_owned()),
    };
    keys.push((name, bounds(find, load), note));
    if let Some(good) = find.found.conditional_throughput {
        keys.push(("Throughput", load(good.get()), "good answers at the lower bound".to_owned()));
    }
    let mut known = find.found.regimes.clone();
    known.retain(|regime| regime.lower.or(regime.upper).is_some());
    // The interval is of the slowest.
    known.retain(|regime| regime.lower != find.found.lower);
    let of_speeds = regime_lines(find.axis, &known);
    keys.extend(of_speeds.into_iter().zip(known).map(|(line, regime)| {
        let bounds = [regime.lower, regime.upper].into_iter().flatten();
        let figure = bounds.map(|bound| load(bound.get())).collect::<Vec<_>>().join(" – ");
        ("At one speed", figure, line)
    }));
    // With spaces, so that it breaks between goals.
    keys.push(("SLO", find.slo.replace(',', ", "), String::new()));
    if let Some(cause) = summary.causes.as_ref().and_then(|causes| causes.first()) {
        keys.push((
            "Limited by",
            cause.cause.name().to_owned(),
            format!("{:?}", cause.grade).to_lowercase(),
        ));
    }
    keys.push(("Trials", find.found.trials.to_string(), not_counted(find.found.invalid_trials)));
    keys.push(("Length", span(find.search_s + find.confirm_s), String::new()));
    keys
}

/// Returns `18,200/s – 18,900/s`, or the end that is known.
pub(super) fn bounds(find: &FindSummary, load: impl Fn(f64) -> String) -> String {
    let (lower, upper) = find.found.bounds();
    match (lower.map(&load), upper.map(&load)) {
        (Some(lower), Some(upper)) => format!("{lower} – {upper}"),
        (Some(lower), None) => format!("≥ {lower}"),
        (None, Some(upper)) => format!("< {upper}"),
        (None, None) => "none".to_owned(),
    }
}

fn not_counted(invalid: u32) -> String {
    match invalid {
        0 => String::new(),
        count => format!("{count} INVALID not counted"),
    }
}

pub(super) fn of_comparison(summary: &Summary, compare: &CompareSummary) -> Vec<KeyFigure> {
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let mut keys: Vec<KeyFigure> = Vec::new();
    if let Some(found) = &compare.difference {
        let interval = format!("{} to {}", percent(found.ratio_low), percent(found.ratio_high));
        keys.push(("B against A", percent(found.ratio), interval));
    }
    keys.push(("Compared", compare.metric.title().to_owned(), compare.unit.clone()));
    let rounds = format!("{} of {}", compare.rounds_used, compare.rounds_planned);
    keys.push(("Rounds", rounds, not_counted(compare.rounds_invalid)));
    if let Some(Difference { noise, .. }) = &compare.difference {
        let text = format!("{:.1} %", noise.detectable * 100.0);
        keys.push(("Smallest difference", text, "that could have been seen".to_owned()));
        if let Some(floor) = noise.floor {
            let text = format!("±{:.1} %", floor * 100.0);
            keys.push(("A against A", text, "the noise floor".to_owned()));
        }
    }
    keys.push(("Length", span(summary.seconds), String::new()));
    keys
}

pub(super) fn of_case(summary: &Summary, case: &Rfc9411Summary) -> Vec<KeyFigure> {
    let recommended = match case.shorter_than_recommended {
        true => format!("shorter than the {} of the RFC", span(case.sustain_recommended_s)),
        false => String::new(),
    };
    let mut keys: Vec<KeyFigure> = vec![
        ("Case", case.case.to_string(), String::new()),
        ("Objects", case.results.len().to_string(), String::new()),
        ("Sustain phase", span(case.sustain_s), recommended),
    ];
    if let [only] = &case.results[..] {
        let load = only.load.map_or_else(|| "none".to_owned(), |load| format!("{load:.1}"));
        keys.push(("Load", load, only.unit.clone()));
    }
    keys.push(("Length", span(summary.seconds), String::new()));
    keys
}

pub(super) fn of_hold(summary: &Summary, hold: &HoldSummary) -> Vec<KeyFigure> {
    let mut keys: Vec<KeyFigure> = vec![
        ("Held", grouped(hold.held), format!("of {}", grouped(hold.asked))),
        ("Lost", grouped(hold.lost), String::new()),
    ];
    if let Some(swept) = hold.last_sweep.filter(|swept| swept.connections > 0) {
        keys.push((
            "Answered at the end",
            grouped(swept.answered),
            format!("of {}", grouped(swept.connections)),
        ));
    }
    if let Some(cost) = hold.per_connection.machine {
        let ends = if hold.both_ends_here { "both ends" } else { "this end" };
        keys.push(("Memory each", bytes(cost.round() as u64), format!("of the machine, {ends}")));
    }
    let first =
        hold.projections.iter().filter(|one| one.ends_at.is_some()).min_by_key(|one| one.ends_at);
    if let Some(first) = first {
        let sure = hold::sure(first.confidence);
        let ends = grouped(first.ends_at.unwrap_or_default());
        keys.push(("First limit", ends, format!("{}, {sure}", first.resource)));
    }
    keys.push(("Length", span(summary.seconds), String::new()));
    keys
}

pub(super) fn of_load(summary: &Summary) -> Vec<KeyFigure> {
    let latency = &summary.operations.latency_ms;
    let failed = summary.operations.errors + summary.operations.unsent;
    vec![
        (
            "Rate",
            per_s(summary.operations.rate.achieved_per_s),
            format!("of {} offered", per_s(summary.operations.rate.offered_per_s)),
        ),
        (
            "p99, corrected",
            ms_text(latency.corrected.p99),
            format!("median {}", ms_text(latency.corrected.p50)),
        ),
        (
            "Good",
            format!("{} %", percent(summary.operations.ok, summary.operations.scheduled)),
            format!("of {} operations", grouped(summary.operations.scheduled)),
        ),
        ("Failed or unsent", grouped(failed), String::new()),
        (
            "Busiest generator thread",
            format!("{} %", cpu_percent(summary.generator.busiest_thread)),
            String::new(),
        ),
        ("Length", span(summary.seconds), String::new()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn the_load_that_can_be_planned_with_is_the_first_key_figure() {
        let (summary, _) = fixtures::find_regular();
        let keys = of_search(&summary, summary.result.find().expect("a search"));
        assert_eq!([keys[0].0, keys[1].0], ["Safe load", "Tipping point"]);
        let (summary, _) = fixtures::find_unstable();
        let keys = of_search(&summary, summary.result.find().expect("a search"));
        assert_eq!(keys[0].0, "Observed bounds");
    }
}
