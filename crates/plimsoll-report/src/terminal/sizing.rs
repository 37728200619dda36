//! The report of a sweep over settings: a table with a line for each value.

use std::io;
use std::io::Write;

use plimsoll_model::compare::Finding;
use plimsoll_model::sizing::{SizingDifference, SizingSummary, SizingValue};
use plimsoll_model::summary::Summary;
use plimsoll_model::units::grouped;

use super::layout::{Page, Style, Tone, clean, span, whole};
use super::sections;

/// The longest name of a value that stands beside its figures.
const NAME_COLUMNS_MAX: usize = 11;

/// Writes the report of `lab sweep`.
pub(super) fn render(
    summary: &Summary,
    sizing: &SizingSummary,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut page = Page::new(out, style);
    if summary.partial {
        let text = "The sweep was cut short; all figures cover the time until then.";
        page.hanging(Tone::Warn, "PARTIAL", text)?;
    }
    let (tone, lead, text) = headline(sizing);
    page.hanging(tone, lead, &text)?;
    page.blank()?;
    table(&mut page, sizing)?;
    page.blank()?;
    page.quiet(
        0,
        &format!(
            "Each value was saturated for {} in each of {} rounds, in turn. Per CPU: answers for each \
             second of CPU time of the server, which counts where the clients or the backends are the \
             slower part. Differences are from the first value, with their interval (98 % or more).",
            span(sizing.block_s),
            sizing.rounds_made
        ),
    )?;
    if let Some(why) = &sizing.stopped {
        page.quiet(0, &format!("{} rounds were planned: {}", sizing.rounds_planned, clean(why)))?;
    }
    page.blank()?;
    sections::settings(&mut page, summary)?;
    sections::checks(&mut page, &summary.reasons)?;
    sections::archive(&mut page, summary)
}

/// The value that carries most for each CPU, where one is better than the first.
pub(super) fn headline(sizing: &SizingSummary) -> (Tone, &'static str, String) {
    if sizing.is_cut_short() {
        let made = sizing.rounds_made;
        let text = format!("{made} rounds were made, and a statement needs at least eight.");
        return (Tone::Warn, "Undecided:", text);
    }
    let gain = |value: &SizingValue| {
        let higher =
            |found: Option<SizingDifference>| found.filter(|one| one.finding == Finding::Higher);
        higher(value.goodput)
            .into_iter()
            .chain(higher(value.per_cpu))
            .map(|one| one.ratio)
            .fold(0.0, f64::max)
    };
    let best = sizing.values.iter().max_by(|one, other| gain(one).total_cmp(&gain(other)));
    let Some(best) = best.filter(|best| gain(best) > 0.0) else {
        let text = "no value carries more than the first.".to_owned();
        return (Tone::Strong, "Nothing to gain:", text);
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
    (Tone::Good, "Best:", text)
}

pub(super) fn table(page: &mut Page<'_>, sizing: &SizingSummary) -> io::Result<()> {
    page.heading(&format!(
        "{:>12} {:>22} {:>8} {:>22}  value",
        clean(&sizing.unit),
        "difference, %",
        "per CPU",
        "difference, %"
    ))?;
    for value in &sizing.values {
        let whole_number = |figure: Option<f64>| {
            figure.map_or_else(|| "-".to_owned(), |figure| grouped(figure.round() as u64))
        };
        let figures = format!(
            "{:>12} {:>22} {:>8} {:>22}",
            whole_number(value.goodput_per_s),
            interval(value.goodput),
            whole_number(value.per_cpu_per_s),
            interval(value.per_cpu),
        );
        let name = clean(&value.name);
        if name.chars().count() <= NAME_COLUMNS_MAX {
            page.line(&format!("{figures}  {name}"))?;
        } else {
            page.line(figures.trim_end())?;
            page.line(&format!("  {name}"))?;
        }
    }
    Ok(())
}

/// `+12.0 (+10.1 to +14.2)`, percent.
fn interval(found: Option<SizingDifference>) -> String {
    found.map_or_else(String::new, |found| {
        format!(
            "{} ({} to {})",
            bare(found.ratio - 1.0),
            bare(found.ratio_low - 1.0),
            bare(found.ratio_high - 1.0)
        )
    })
}

fn differs(found: &SizingDifference) -> bool {
    found.finding != Finding::NoDifference
}

fn change(found: &SizingDifference) -> String {
    whole(&format!("{} %", bare(found.ratio - 1.0)))
}

fn bare(relative: f64) -> String {
    let percent = relative * 100.0;
    if percent.abs() < 100.0 { format!("{percent:+.1}") } else { format!("{percent:+.0}") }
}
