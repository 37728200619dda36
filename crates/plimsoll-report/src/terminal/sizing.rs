//! The report of a sweep over settings: a table with a line for each value.

use plimsoll_model::compare::Difference;
use plimsoll_model::sizing::SizingSummary;
use plimsoll_model::summary::Summary;
use plimsoll_model::units::grouped;

use super::layout::{Page, Style, clean, span};
use super::sections;
use crate::digest::sizing::bare;

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

/// Returns the table of a sweep, without colours.
pub fn render_sizing_table(sizing: &SizingSummary) -> String {
    Page::text(Style::default(), |page| table(page, sizing))
}

pub(super) fn table(page: &mut Page, sizing: &SizingSummary) {
    let rows = sizing.values.iter().map(|value| {
        let figures = [(value.goodput_per_s, value.goodput), (value.per_cpu_per_s, value.per_cpu)];
        let figures = figures.map(|(figure, found)| {
            let per_s = figure.map(|figure| grouped(figure.round() as u64));
            [per_s.unwrap_or_else(|| "-".to_owned()), interval(found)]
        });
        (figures.concat(), clean(&value.name))
    });
    let unit = clean(&sizing.unit);
    page.table(&[unit.as_str(), "difference, %", "per CPU", "difference, %", "value"], rows)
}

/// Returns `+12.0 (+10.1 to +14.2)`, percent.
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
