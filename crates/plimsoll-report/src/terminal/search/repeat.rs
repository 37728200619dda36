//! The report of repeated searches: the interval over them, then each of them.

use plimsoll_model::repeat::{RepeatSummary, RepeatedSearch};
use plimsoll_model::search::Axis;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::Outcome;

use crate::digest::search::{ending, interval, percent};
use crate::terminal::layout::{Page, clean, counted, per_s, span};

/// Number of searches from which the interval has the usual confidence.
const SEARCHES_FOR_95: u32 = 6;

/// Writes the report.
pub(super) fn render(
    page: &mut Page,
    summary: &Summary,
    find: &FindSummary,
    repeat: &RepeatSummary,
) {
    page.entry("Target", &clean(&summary.target));
    page.entry("SLO", &clean(&find.slo));
    page.entry_items("Search", &asked(find, repeat));
    if let Some(text) = meaning(repeat) {
        page.entry("Interval", &text);
    }
    page.blank();
    table(page, find, repeat)
}

fn asked(find: &FindSummary, repeat: &RepeatSummary) -> Vec<String> {
    let made = repeat.searches.len() as u64;
    let of = match u64::from(repeat.asked) {
        asked if asked > made => format!(" of {asked}"),
        _ => String::new(),
    };
    let mut items = vec![
        format!("{made}{of} {}", if repeat.asked == 1 { "search" } else { "searches" }),
        format!("axis {}", find.axis.name()),
        format!("mode {}", find.mode.name()),
        format!("{} judged", counted(find.found.trials.into(), "trial")),
        format!("took {}", span(repeat.searches.iter().map(|search| search.seconds).sum())),
    ];
    if repeat.fresh_sut {
        items.push("server started afresh for each".to_owned());
    }
    items
}

/// Returns the meaning of the interval, and the way to narrow it.
fn meaning(repeat: &RepeatSummary) -> Option<String> {
    let confidence = percent(repeat.confidence?);
    let ends = match repeat.left_out {
        0 => "the lowest lower bound to the highest upper bound".to_owned(),
        n => format!("the lower and upper bounds, without the {n} outermost at each end,"),
    };
    let (used, made) = (repeat.used, repeat.searches.len());
    let of = if used as usize == made { String::new() } else { format!(" of {made}") };
    let more = if used < SEARCHES_FOR_95 { "; 6 searches give 97 %" } else { "" };
    Some(format!(
        "{ends} of {used}{of} searches. The median of all such searches lies in it with \
         {confidence} confidence{more}"
    ))
}

fn table(page: &mut Page, find: &FindSummary, repeat: &RepeatSummary) {
    let rows = repeat.searches.iter().map(|search| {
        let bounds = [search.lower, search.upper].map(|bound| {
            bound.map_or_else(|| "-".to_owned(), |value| per_s(value).replace("/s", ""))
        });
        let width = search.lower.zip(search.upper).filter(|(lower, _)| *lower > 0.0);
        let width = width.map(|(lower, upper)| format!("{:.1}", (upper / lower - 1.0) * 100.0));
        let width = width.unwrap_or_else(|| "-".to_owned());
        let cost = [width, search.trials.to_string(), span(search.seconds)];
        ([&[search.number.to_string()][..], &bounds, &cost].concat(), outcome(search))
    });
    page.table(&["  #", "lower", "upper", "width %", "trials", "took", "outcome"], rows);
    let unit = match find.axis {
        Axis::Connections => "lower, upper: connections",
        Axis::Handshakes => "lower, upper: new TLS connections per second",
        Axis::Deliveries => "lower, upper: deliveries per second",
        _ => "lower, upper: requests per second",
    };
    page.quiet(4, unit)
}

/// Returns the end of a search, in words.
fn outcome(search: &RepeatedSearch) -> String {
    let counted = if search.outcome == Outcome::Regular { "" } else { "not counted: " };
    let (how, why) = ending(&search.outcome);
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    format!("{counted}{how}{why}")
}

/// Returns one line for a search that just ended, without colours and without a newline.
pub fn render_search_line(axis: Axis, search: &RepeatedSearch, asked: u32) -> String {
    format!(
        "search {} of {asked}: {}; {}",
        search.number,
        interval(axis, (search.lower, search.upper)),
        outcome(search)
    )
    .replace('\u{a0}', " ")
}
