//! Several runs over each other: what differs between them, and their charts in one. Runs that were not interleaved are
//! only shown: nothing is found.

use maud::{Markup, html};
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::units::grouped;
use serde_json::Value;

use super::figures::{Figure, OVERLAY, Section, title};
use super::sections::shell_line;
use super::table::Table;
use crate::digest::Digest;
use crate::digest::compare::signed;
use crate::settings::{Rows, rows};
use crate::terminal::layout::{ms_text, per_s};
use crate::view::View;

/// The most runs that are drawn over each other; more are in the tables only.
pub(super) const DRAWN_MAX: usize = 4;

/// Returns `A`, `B`, …
fn letter(index: usize) -> char {
    char::from(b'A' + u8::try_from(index % 26).unwrap_or_default())
}

/// Returns the page but its shell.
pub(super) fn report(views: &[View], documents: &[Value]) -> Markup {
    let letters: Vec<String> = (0..views.len()).map(|index| letter(index).to_string()).collect();
    let named: Vec<_> = letters.iter().map(String::as_str).zip(documents).collect();
    let table = |figure: &Figure| figure.rows.map(|rows| Table::of_several(&named, &rows));
    let figures = |wanted: Section| {
        html! { @for (_, figure) in OVERLAY.iter().filter(|(section, _)| *section == wanted) {
            (super::figure(figure, None, &title(figure, None), table(figure)))
        } }
    };
    html! {
        div.answer {
            h1 { span class="badge plain" { "OVERLAY" } (names(views.len())) ", not interleaved: differences may be the machine's" }
            p {
                "These runs were made one after another, so this page shows them and claims no finding. To find out whether one is \
                 faster, measure them in turn: " code { "plimsoll compare" } "."
            }
            @if views.len() > DRAWN_MAX {
                p.quiet { "The charts show the first " (DRAWN_MAX) " runs; the tables have all." }
            }
        }
        (runs(views))
        (differences(views))
        section aria-label="Tipping points" { div.charts { (figures(Section::Main)) } }
        section aria-labelledby="over-time" { h2 id="over-time" { "Over time" } div.charts { (figures(Section::Time)) } }
        section aria-labelledby="distribution" {
            h2 id="distribution" { "Distribution of latency" }
            div.charts { (figures(Section::Distribution)) }
        }
        (settings(views))
        section aria-labelledby="data" {
            h2 id="data" { "Data" }
            p.measure id="download" { "Everything that this page shows, as a list of objects (" code { "plimsoll.view/1" } "). " }
        }
    }
}

/// Returns `A and B`, `A, B and C`.
fn names(count: usize) -> String {
    let letters: Vec<String> = (0..count).map(|index| letter(index).to_string()).collect();
    match letters.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => letters.concat(),
    }
}

/// Draws the answer of each run by itself.
fn runs(views: &[View]) -> Markup {
    html! {
        section aria-labelledby="runs" {
            h2 id="runs" { "The runs" }
            div.scroll tabindex="0" role="region" aria-label="The runs" {
                table.all {
                    caption { "What each run says by itself" }
                    thead { tr {
                        th scope="col" { "run" } th scope="col" { "command" } th scope="col" { "answer" }
                        th.n scope="col" { "p99" } th.n scope="col" { "rate" } th scope="col" { "started" }
                    } }
                    tbody { @for (index, view) in views.iter().enumerate() {
                        @let summary = view.summary.as_ref();
                        tr {
                            th scope="row" { (letter(index)) }
                            td { (view.head.command) " against " (view.head.target) }
                            td.words { @for answer in summary.map(|summary| Digest::of(summary).answers).unwrap_or_default() {
                                div { (answer.lead()) " " (answer.text) }
                            } }
                            td.n { (ms_text(summary.and_then(|summary| summary.operations.latency_ms.corrected.p99))) }
                            td.n { (summary.map_or_else(String::new, |summary| per_s(summary.operations.rate.achieved_per_s))) }
                            td { (view.head.started_at) }
                        }
                    } }
                }
            }
        }
    }
}

/// Two intervals of a tipping point: what can be said of their difference without pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Difference {
    /// `B.lower / A.upper - 1`: the least that fits both.
    least: f64,
    /// `B.upper / A.lower - 1`: the most.
    most: f64,
}

impl Difference {
    fn of(a: &FindSummary, b: &FindSummary) -> Option<Self> {
        let (a_low, a_high) = interval(a)?;
        let (b_low, b_high) = interval(b)?;
        (a_low > 0.0).then(|| Self { least: b_low / a_high - 1.0, most: b_high / a_low - 1.0 })
    }

    fn sentence(self) -> String {
        let Self { least, most } = self;
        let range = format!("{} to {}", signed(least), signed(most));
        if least > 0.0 || most < 0.0 {
            format!("the intervals do not overlap: {range}")
        } else {
            format!("the intervals overlap; differences from {range} remain possible")
        }
    }
}

/// Returns an interval that is claimed.
fn interval(find: &FindSummary) -> Option<(f64, f64)> {
    find.found.confidence?;
    Some((find.found.lower?.get(), find.found.upper?.get()))
}

/// Draws the answers of both runs of a pair, and the difference between them.
fn differences(views: &[View]) -> Markup {
    let found: Vec<(usize, String)> = views
        .iter()
        .enumerate()
        .skip(1)
        .flat_map(|(index, view)| {
            let texts = match (views[0].summary.as_ref(), view.summary.as_ref()) {
                (Some(a), Some(b)) => pair(a, b),
                _ => Vec::new(),
            };
            texts.into_iter().map(move |text| (index, text))
        })
        .collect();
    html! {
        section aria-labelledby="differences" {
            h2 id="differences" { "Differences" }
            @if found.is_empty() {
                p.measure { "No figure has an interval in both runs, so no difference is stated." }
            } @else {
                dl.facts { @for (index, text) in &found {
                    dt { (letter(*index)) " against A" } dd { (text) }
                } }
            }
        }
    }
}

fn pair(a: &Summary, b: &Summary) -> Vec<String> {
    let mut texts = Vec::new();
    if let (Some(one), Some(other)) = (a.result.find(), b.result.find()) {
        match (one.axis == other.axis && one.slo == other.slo, Difference::of(one, other)) {
            (false, _) => {
                texts.push("tipping point: another axis or another SLO, not compared".to_owned())
            }
            (true, Some(difference)) => {
                texts.push(format!("tipping point: {}", difference.sentence()))
            }
            (true, None) => {}
        }
        if let (Some(safe), Some(other)) = (one.found.safe, other.found.safe) {
            let [safe, other] = [safe, other].map(|load| grouped(load.get().round() as u64));
            texts.push(format!("safe load: {other}/s against {safe}/s; it has no upper end, so no interval is stated"));
        }
    }
    texts
}

/// Draws the differences of the runs' settings, and the equal ones.
fn settings(views: &[View]) -> Markup {
    let each: Vec<Rows> = views.iter().map(described).collect();
    let mut names: Vec<&str> = each.iter().flat_map(Rows::keys).copied().collect();
    names.sort();
    names.dedup();
    let value = |map: &Rows, name: &str| map.get(name).cloned().unwrap_or_else(|| "–".to_owned());
    let is_same = |name: &&str| each.iter().all(|map| map.get(name) == each[0].get(name));
    let (same, other): (Vec<&str>, Vec<&str>) = names.into_iter().partition(is_same);
    html! {
        section aria-labelledby="settings" {
            h2 id="settings" { "How they were made" }
            div.scroll tabindex="0" role="region" aria-label="What differs" {
                table.all {
                    caption { "What differs" }
                    thead { tr { th scope="col" { "" } @for index in 0..views.len() { th scope="col" { (letter(index)) } } } }
                    tbody { @for name in other { tr {
                        th scope="row" { (name) }
                        @for map in &each { td.words { (value(map, name)) } }
                    } } }
                }
            }
            details {
                summary { "What is the same" }
                dl.facts { @for name in same { dt { (name) } dd { (value(&each[0], name)) } } }
            }
        }
    }
}

fn described(view: &View) -> Rows {
    let head = &view.head;
    let mut rows = rows(&head.settings);
    rows.extend([
        ("command line", shell_line(&head.args)),
        ("target", head.target.clone()),
        ("started", head.started_at.clone()),
        ("plimsoll", view.version.clone()),
        ("kernel", head.host.kernel.clone()),
        ("CPUs", head.host.cpus.to_string()),
        ("archive", view.run.clone()),
    ]);
    rows.extend(head.slo.clone().map(|slo| ("SLO", slo)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_stated_only_as_far_as_the_intervals_allow() {
        let apart = Difference { least: 0.052, most: 0.137 };
        assert!(apart.sentence().contains("do not overlap"), "{}", apart.sentence());
        let near = Difference { least: -0.02, most: 0.06 };
        let text = near.sentence().replace('\u{a0}', " ");
        assert_eq!(
            text,
            "the intervals overlap; differences from -2.0 % to +6.0 % remain possible"
        );
        assert_eq!(names(3), "A, B and C");
    }
}
