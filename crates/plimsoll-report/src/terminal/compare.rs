//! The report of a comparison: the difference in words, how sure it is, every round.

use std::io;
use std::io::Write;

use plimsoll_model::compare::{
    CompareSummary, Finding, MeasuredSummary, Metric, Order, RoundSummary,
};
use plimsoll_model::summary::Summary;

use super::layout::{Page, Style, Tone, clean, counted, ms, per_s, span, whole};
use super::sections;

/// Writes the report of `compare`.
pub fn render_compare(
    summary: &Summary,
    compare: &CompareSummary,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut page = Page::new(out, style);
    if summary.partial {
        page.hanging(
            Tone::Warn,
            "PARTIAL",
            "The comparison was cut short; all figures cover the time until then.",
        )?;
    }
    let (tone, lead, text) = headline(compare);
    page.hanging(tone, lead, &text)?;
    page.blank()?;
    facts(&mut page, compare)?;
    page.blank()?;
    round_table(&mut page, compare)?;
    explanations(&mut page, compare)?;
    if !summary.settings.is_empty() {
        page.blank()?;
    }
    sections::settings(&mut page, summary)?;
    sections::checks(&mut page, &summary.reasons)?;
    sections::archive(&mut page, summary)
}

fn headline(compare: &CompareSummary) -> (Tone, &'static str, String) {
    let title = compare.metric.title();
    let (Some(ratio), Some(low), Some(high)) =
        (compare.ratio, compare.ratio_low, compare.ratio_high)
    else {
        return (Tone::Warn, "Undecided:", undecided(compare));
    };
    let between = |from: f64, to: f64| whole(&format!("({} to {})", percent(from), percent(to)));
    let is_higher = compare.finding == Finding::Higher;
    match compare.finding {
        Finding::Higher | Finding::Lower => {
            let (size, range, word) = if is_higher {
                (ratio - 1.0, between(low - 1.0, high - 1.0), "higher")
            } else {
                (1.0 - ratio, between(1.0 - high, 1.0 - low), "lower")
            };
            let better = is_higher == compare.metric.more_is_better();
            let (tone, judged) = if better { (Tone::Good, "better") } else { (Tone::Bad, "worse") };
            let size = percent(size);
            let text = format!("B is {size} {word} {range} in {title}, which is {judged}.");
            (tone, "Difference:", text)
        }
        Finding::NoDifference => {
            let above = compare.difference_max.map_or_else(|| "?".to_owned(), percent);
            let text = format!(
                "none larger than {above} in {title}. B/A is {ratio:.3} {}.",
                whole(&format!("({low:.3} to {high:.3})"))
            );
            (Tone::Strong, "No difference:", text)
        }
        Finding::Undecided => (Tone::Warn, "Undecided:", undecided(compare)),
    }
}

fn undecided(compare: &CompareSummary) -> String {
    let stopped = compare.stopped.as_ref().map(|why| format!(" {}.", sentence(why)));
    let made = match compare.rounds.len() {
        0 => "no round was made".to_owned(),
        made => {
            format!("{} of {} can be used", compare.rounds_used, counted(made as u64, "round"))
        }
    };
    let stopped = stopped.unwrap_or_default();
    format!("{made}, and a statement needs at least six.{stopped}")
}

/// `text` as the beginning of a sentence.
fn sentence(text: &str) -> String {
    let text = clean(text);
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect::<String>())
}

/// A relative difference in percent with one decimal.
fn percent(relative: f64) -> String {
    whole(&format!("{:.1} %", relative * 100.0))
}

fn facts(page: &mut Page<'_>, compare: &CompareSummary) -> io::Result<()> {
    page.entry("A", &clean(&compare.a))?;
    page.entry("B", &clean(&compare.b))?;
    let (title, unit) = (compare.metric.title(), clean(&compare.unit));
    page.entry("Compared", &format!("{title}, {unit}; the median of B/A over the rounds"))?;
    let mut items = vec![format!("{} of {} used", compare.rounds_used, compare.rounds.len())];
    if compare.rounds_invalid > 0 {
        items.push(format!("{} INVALID and left out", compare.rounds_invalid));
    }
    if let Some(confidence) = compare.confidence {
        items.push(format!("interval {:.1} % sure", confidence * 100.0));
    }
    if let Some(p) = compare.p {
        items.push(format!("sign-flip p {p:.3}"));
    }
    page.entry_items("Rounds", &items)?;
    if let Some(noise) = &compare.noise {
        let mut items = vec![
            format!("A against itself, {}", counted(compare.same.len() as u64, "time")),
            format!("varies by {} (CV)", percent(noise.cv)),
            format!("differences below {} may not be detected", percent(noise.detectable)),
        ];
        if compare.threshold > 0.0 {
            items.push(format!("below {} ignored as asked", percent(compare.threshold)));
        }
        page.entry_items("A/A", &items)?;
    }
    if compare.resolution > 0.0 {
        let text = format!(
            "each search finds its bound to within {}, which widens the interval at both ends; \
             --mode strict finds it to within 1 %",
            percent(compare.resolution)
        );
        page.quiet(13, &text)?;
    }
    match &compare.stopped {
        Some(why) if compare.finding != Finding::Undecided => {
            page.quiet(13, &format!("{} rounds were planned: {}", compare.rounds_planned, why))
        }
        _ => Ok(()),
    }
}

/// A value in its unit, short enough for a column.
fn figure(metric: Metric, unit: &str, value: f64) -> String {
    match metric {
        // The unit of a rate stands above; `/s` keeps it from being read as a count.
        Metric::LowerBound | Metric::Throughput if unit.ends_with("/s") => per_s(value),
        Metric::LowerBound | Metric::Throughput => format!("{value:.1}"),
        Metric::P99 => format!("{} ms", ms(Some(value))),
        Metric::ClientCpu => format!("{value:.2} us"),
    }
}

fn cell(compare: &CompareSummary, measured: &MeasuredSummary) -> String {
    match measured.value {
        Some(value) => figure(compare.metric, &compare.unit, value),
        None => "INVALID".to_owned(),
    }
}

fn round_table(page: &mut Page<'_>, compare: &CompareSummary) -> io::Result<()> {
    if compare.rounds.is_empty() {
        return page.line("No round was finished.");
    }
    let columns = format!("{:>3} {:5} {:>12} {:>12} {:>7}", "#", "first", "A", "B", "B/A");
    page.heading(&columns)?;
    for round in &compare.rounds {
        let first = match round.order {
            Order::Ab => "A",
            Order::Ba => "B",
        };
        page.line(&format!(
            "{:>3} {first:5} {:>12} {:>12} {:>7}",
            round.number,
            cell(compare, &round.a),
            cell(compare, &round.b),
            round.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"))
        ))?;
    }
    let seconds: f64 = compare.rounds.iter().map(|round| round.a.seconds + round.b.seconds).sum();
    page.quiet(4, &format!("all rounds took {}", span(seconds)))
}

/// Why values are missing.
fn explanations(page: &mut Page<'_>, compare: &CompareSummary) -> io::Result<()> {
    let same = compare.same.iter().zip(1..).map(|(measured, n)| (format!("A/A {n}"), measured));
    let rounds = compare.rounds.iter().flat_map(|round| {
        [("A", &round.a), ("B", &round.b)]
            .map(|(name, measured)| (format!("{:>3} {name}", round.number), measured))
    });
    let missing: Vec<_> = same
        .chain(rounds)
        .filter_map(|(name, measured)| Some((name, measured.invalid.as_ref()?)))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    page.blank()?;
    for (name, why) in missing {
        page.hanging(Tone::Warn, &format!("{name} INVALID"), &clean(why))?;
    }
    Ok(())
}

/// One line for a measurement of A against itself, without a newline.
pub fn render_measured_line(
    metric: Metric,
    unit: &str,
    number: usize,
    of: usize,
    measured: &MeasuredSummary,
) -> String {
    format!("A/A {number} of {of}: {}", value_or_why(metric, unit, measured))
}

/// One line for a round that just ended, without a newline.
pub fn render_round_line(metric: Metric, unit: &str, of: u32, round: &RoundSummary) -> String {
    let a = format!("A {}", value_or_why(metric, unit, &round.a));
    let b = format!("B {}", value_or_why(metric, unit, &round.b));
    let (first, second) = if round.order == Order::Ab { (a, b) } else { (b, a) };
    let ratio = round.ratio.map(|ratio| format!(", B/A {ratio:.3}")).unwrap_or_default();
    format!("round {} of {of}: {first}, {second}{ratio}", round.number)
}

fn value_or_why(metric: Metric, unit: &str, measured: &MeasuredSummary) -> String {
    match (&measured.value, &measured.invalid) {
        (Some(value), _) => figure(metric, unit, *value),
        (None, Some(why)) => format!("INVALID ({})", clean(why)),
        (None, None) => "nothing".to_owned(),
    }
}
