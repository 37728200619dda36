//! The report of a sweep over settings: a table with a line for each value.

use plimsoll_model::compare::Difference;
use plimsoll_model::sizing::SizingSummary;
use plimsoll_model::summary::Summary;
use plimsoll_model::units::grouped;

use super::layout::{Page, Style, clean, span};
use super::sections;
use crate::digest::sizing::bare;

/// The longest name of a value that stands beside its figures.
const NAME_COLUMNS_MAX: usize = 11;

/// Writes the report of `lab sweep`.
pub(super) fn render(page: &mut Page, summary: &Summary, sizing: &SizingSummary) {
    table(page, sizing);
    page.blank();
    page.quiet(
        0,
        &format!(
            "Each value was saturated for {} in each of {} rounds, in turn. Per CPU: answers for each \
             second of CPU time of the server, which counts where the clients or the backends are the \
             slower part. Differences are from the first value, with their interval (98 % or more).",
            span(sizing.block_s),
            sizing.rounds_made
        ),
    );
    if let Some(why) = &sizing.stopped {
        page.quiet(0, &format!("{} rounds were planned: {}", sizing.rounds_planned, clean(why)));
    }
    page.blank();
    sections::settings(page, summary);
    sections::checks(page, &summary.reasons)
}

/// The table of a sweep, without colours.
pub fn render_sizing_table(sizing: &SizingSummary) -> String {
    Page::text(Style::default(), |page| table(page, sizing))
}

pub(super) fn table(page: &mut Page, sizing: &SizingSummary) {
    page.heading(&format!(
        "{:>12} {:>22} {:>8} {:>22}  value",
        clean(&sizing.unit),
        "difference, %",
        "per CPU",
        "difference, %"
    ));
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
            page.line(&format!("{figures}  {name}"));
        } else {
            page.line(figures.trim_end());
            page.line(&format!("  {name}"));
        }
    }
}

/// `+12.0 (+10.1 to +14.2)`, percent.
fn interval(found: Option<Difference>) -> String {
    found.map_or_else(String::new, |found| {
        format!(
            "{} ({} to {})",
            bare(found.ratio - 1.0),
            bare(found.ratio_low - 1.0),
            bare(found.ratio_high - 1.0)
        )
    })
}
