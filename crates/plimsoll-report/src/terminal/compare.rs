//! The report of a comparison: its facts, further metrics, and every round.
//!
//! [`render`] writes the facts, the metrics beside the compared one, a table of rounds, and the reason for each
//! INVALID side. The sentence about the difference comes from `digest/compare.rs`. A ratio is always B/A, and its
//! interval is shown as a pair of signed changes; [`figure`] shows a value in the unit of its metric.
//! [`render_round_line`] is the progress line of a round. Start reading at [`facts`].

use plimsoll_model::compare::{
    Arm, BlockSummary, CompareSummary, Difference, MeasuredSummary, Metric, RoundSummary,
};
use plimsoll_model::stats::upper_median;
use plimsoll_model::summary::Summary;

use super::layout::{Page, Tone, clean, counted, ms, per_s, span};
use super::sections;
use crate::digest::compare::{percent, signed};

/// Waiting for a CPU is mentioned from this fraction on.
const WAITED_MIN: f64 = 0.1;

/// Writes the report of `compare`.
pub(super) fn render(page: &mut Page, summary: &Summary, compare: &CompareSummary) {
    facts(page, compare);
    page.blank();
    others(page, compare);
    round_table(page, compare);
    explanations(page, compare);
    page.blank();
    sections::settings(page, summary);
    sections::checks(page, &summary.reasons)
}

pub(super) fn facts(page: &mut Page, compare: &CompareSummary) {
    page.entry("A", &clean(&compare.a));
    page.entry("B", &clean(&compare.b));
    let (title, unit) = (compare.metric.title(), clean(&compare.unit));
    page.entry("Compared", &format!("{title}, {unit}; B/A over the rounds"));
    let mut items = vec![format!("{} of {} used", compare.rounds_used, compare.rounds.len())];
    if compare.rounds_invalid > 0 {
        items.push(format!("{} INVALID and left out", compare.rounds_invalid));
    }
    if let Some(Difference { p, noise, .. }) = &compare.difference {
        items.push(format!("signed-rank p {p:.3}"));
        items.push(format!("one side varies by {} (CV)", percent(noise.cv)));
        items.extend(noise.floor.map(|floor| format!("A against A: ±{}", percent(floor))));
    }
    if compare.threshold > 0.0 {
        items.push(format!("up to {} ignored as asked", percent(compare.threshold)));
    }
    page.entry_items("Rounds", &items);
    if let Some(load) = &compare.load {
        let items = [
            format!(
                "{} s saturated by {}",
                load.saturated_s,
                counted(load.connections, "connection")
            ),
            format!("{:.1} s at {}", load.equal_s, per_s(load.equal_per_s)),
        ];
        page.entry_items("Each block", &items);
    }
    if let Some(observed) = compare.difference.and_then(|found| found.ratio_observed) {
        let text = format!(
            "B/A {observed:.3} as measured; the figures compared are those at like speed of the host, which a \
             fixed piece of work timed in every block"
        );
        page.entry("Host speed", &text);
    }
    if compare.duet {
        let text = "both at the same time, each in one half of the CPUs; they swap CPU sets ten times per second, \
                    and a figure is the geometric mean of two blocks that start in different halves";
        page.entry("Duet", text);
    }
    if let Some(waited) = waited(compare).filter(|waited| *waited >= WAITED_MIN) {
        let text = format!(
            "threads of the servers were ready but not running for {} of their time: on a quieter \
             host smaller differences are found",
            percent(waited)
        );
        page.quiet(13, &text);
    }
    if let Some(why) = &compare.stopped
        && compare.difference.is_some()
    {
        page.quiet(13, &format!("{} rounds were planned: {why}", compare.rounds_planned))
    }
}

/// Returns the median of how long threads of the servers waited for a CPU.
fn waited(compare: &CompareSummary) -> Option<f64> {
    upper_median(compare.blocks.iter().filter_map(|block| block.sut_waited))
}

/// Writes the figures beside the one that decides.
fn others(page: &mut Page, compare: &CompareSummary) {
    if compare.others.is_empty() {
        return;
    }
    let rows = compare.others.iter().map(|other| {
        let figure = |value| figure(other.metric, value);
        let Difference { a, b, ratio, ratio_low, ratio_high, .. } = other.difference;
        let range = format!("{} to {}", signed(ratio_low - 1.0), signed(ratio_high - 1.0));
        let name = other.metric.title().to_owned();
        (vec![name, figure(a), figure(b), format!("{ratio:.3}")], range)
    });
    page.table(&["<also measured", "A", "B", "B/A", "interval"], rows);
    page.blank()
}

/// Returns a value in its unit, short enough for a column.
fn figure(metric: Metric, value: f64) -> String {
    match metric {
        // The unit of a rate is in the heading; `/s` keeps it from being read as a count.
        Metric::Goodput | Metric::Throughput => per_s(value),
        Metric::P50 | Metric::P99 => format!("{} ms", ms(Some(value))),
        Metric::ServerCpu | Metric::ClientCpu => format!("{value:.2} us"),
    }
}

fn cell(compare: &CompareSummary, measured: &MeasuredSummary) -> String {
    match measured.value {
        Some(value) => figure(compare.metric, value),
        None => "INVALID".to_owned(),
    }
}

fn round_table(page: &mut Page, compare: &CompareSummary) {
    if compare.rounds.is_empty() {
        return page.line("No round was finished.");
    }
    let latencies = compare.blocks.iter().any(|block| block.p99_ms.is_some())
        && matches!(compare.metric, Metric::Goodput | Metric::ServerCpu);
    let rows = compare.rounds.iter().map(|round| {
        let ratio = round.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
        let (a, b) = (cell(compare, &round.a), cell(compare, &round.b));
        let mut row = vec![round.number.to_string(), round.first.name().to_string(), a, b, ratio];
        if latencies {
            row.extend(latency_cells(compare, round.number));
        }
        (row, String::new())
    });
    let heads: &[&str] = match latencies {
        true => &["  #", "<first", "A", "B", "B/A", "A p50", "A p99", "B p50", "B p99", "ms"],
        false => &["  #", "<first", "A", "B", "B/A", ""],
    };
    page.table(heads, rows);
    let of_round = |round: &RoundSummary| {
        let both = round.a.seconds + round.b.seconds;
        if compare.duet { both / 2.0 } else { both }
    };
    let seconds: f64 = compare.rounds.iter().map(of_round).sum();
    page.quiet(4, &format!("all rounds took {}", span(seconds)))
}

/// Returns p50 and p99 of A's blocks of a round, then p50 and p99 of B's.
fn latency_cells(compare: &CompareSummary, round: u32) -> [String; 4] {
    let of = |arm: Arm, figure: fn(&BlockSummary) -> Option<f64>| {
        ms(BlockSummary::figure_of_round(&compare.blocks, round, arm, figure))
    };
    let (p50, p99) = (|block: &BlockSummary| block.p50_ms, |block: &BlockSummary| block.p99_ms);
    [of(Arm::A, p50), of(Arm::A, p99), of(Arm::B, p50), of(Arm::B, p99)]
}

/// Writes the reasons why values are missing.
fn explanations(page: &mut Page, compare: &CompareSummary) {
    let rounds = compare.rounds.iter().flat_map(|round| {
        [("A", &round.a), ("B", &round.b)]
            .map(|(name, measured)| (format!("{:>3} {name}", round.number), measured))
    });
    let missing: Vec<_> =
        rounds.filter_map(|(name, measured)| Some((name, measured.invalid.as_ref()?))).collect();
    if missing.is_empty() {
        return;
    }
    page.blank();
    for (name, why) in missing {
        page.hanging(Tone::Warn, &format!("{name} INVALID"), &clean(why));
    }
}

/// Returns one line for a round that just ended, without a newline.
pub fn render_round_line(metric: Metric, of: u32, round: &RoundSummary) -> String {
    let a = format!("A {}", value_or_why(metric, &round.a));
    let b = format!("B {}", value_or_why(metric, &round.b));
    let (first, second) = if round.first == Arm::A { (a, b) } else { (b, a) };
    let ratio = round.ratio.map(|ratio| format!(", B/A {ratio:.3}")).unwrap_or_default();
    format!("round {} of {of}: {first}, {second}{ratio}", round.number)
}

fn value_or_why(metric: Metric, measured: &MeasuredSummary) -> String {
    match (&measured.value, &measured.invalid) {
        (Some(value), _) => figure(metric, *value),
        (None, Some(why)) => format!("INVALID ({})", clean(why)),
        (None, None) => "nothing".to_owned(),
    }
}
