//! The parts of a page that are words and tables: answer, figures, checks, trials, and the command to repeat.
//!
//! Each function returns the markup of one part of a [`View`], and `page/mod.rs` puts the parts in order. The words
//! come from [`Digest`], `terminal::facts` and `terminal::findings`, so the page and the terminal report agree.
//! [`TABLES`] has the tables that only some runs have, as paths into the JSON of the view; a table without figures is
//! omitted. A running page has no summary, and each function handles that. Start reading at [`answer`].

use maud::{Markup, html};
use plimsoll_model::result::RunResult;
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{Check, Level};
use plimsoll_model::units::grouped;
use serde_json::Value;

use super::table::{Rows, Table, rows};
use crate::digest::{Answer, Digest, Role};
use crate::terminal::layout::Entry;
use crate::terminal::{facts, findings, hints};
use crate::view::View;
use crate::{reasons, settings, slow};

/// Returns the mark of a verdict, as the charts have it.
fn shape(class: &str) -> Markup {
    html! {
        svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="2" {
            @match class {
                "good" => { circle cx="7" cy="7" r="5" fill="currentColor" {} },
                "bad" => { path d="M2,2L12,12M2,12L12,2" {} },
                "invalid" => { path d="M7,1L13,7L7,13L1,7Z" stroke-dasharray="2 2" {} },
                _ => { rect x="2" y="2" width="10" height="10" {} },
            }
        }
    }
}

/// Returns the verdict, the sentence, what it was run against, and the key figures.
pub(super) fn answer(view: &View) -> Markup {
    let head = &view.head;
    let about = html! {
        p.quiet {
            "plimsoll " (head.command) " against " (head.target) ", " (head.started_at) ", version " (view.version)
        }
    };
    let badge = html! { span class={ "badge " (view.badge.class) } { (shape(view.badge.class)) (view.badge.word) } };
    let Some(summary) = &view.summary else {
        return html! {
            div.answer { h1 { (badge) "plimsoll " (head.command) ": " (head.target) } (about) }
        };
    };
    let Digest { answers, cut_short, figures, warnings, .. } = Digest::of(summary);
    let sentence = |answer: &Answer| match answer.role {
        // The badge has said it.
        Role::Verdict => answer.text.clone(),
        Role::Found | Role::Advice => format!("{} {}", answer.lead(), answer.text),
    };
    html! {
        div.answer {
            h1 {
                (badge)
                @if let Some(first) = answers.first() { (sentence(first)) }
            }
            @for more in answers.iter().skip(1) { p { (sentence(more)) } }
            (about)
            @if let Some(text) = &cut_short { p.banner { (text) } }
            @if !warnings.is_empty() {
                ul.banner { @for warning in &warnings { li { strong { (warning.id) } ": " (warning.text) } } }
            }
        }
        dl.key { @for (name, figure, note) in &figures {
            div { dt { (name) } dd { (figure) @if !note.is_empty() { span.note { (note) } } } }
        } }
    }
}

/// Draws the events, with the numbers that the charts over time show.
pub(super) fn events(view: &View) -> Markup {
    html! {
        @if !view.events.is_empty() {
            details {
                summary { "What happened (" (view.events.len()) ")" }
                ol { @for event in &view.events { li { (format!("{:.1} s: ", event.t)) (event.text) } } }
            }
        }
    }
}

fn entries(entries: &[Entry]) -> Markup {
    html! {
        dl.facts { @for entry in entries {
            dt { (entry.label) }
            dd { @for line in &entry.lines { div { (line) } } }
        } }
    }
}

/// Draws the limiting resource, and the evidence.
pub(super) fn cause(view: &View) -> Markup {
    let Some(summary) = &view.summary else {
        return html! {
            @if view.head.axis.is_some() { p.quiet { "The cause is looked for when the search has ended." } }
        };
    };
    let found = facts::cause(summary);
    html! {
        @if !found.is_empty() { (entries(&found)) }
        @else if summary.result.find().is_some() { p.quiet { "No cause was looked for in this run." } }
    }
}

/// Returns every check, the worst first.
pub(super) fn checks(view: &View) -> Markup {
    let reasons = view.summary.as_ref().map(|summary| &summary.reasons[..]).unwrap_or_default();
    html! {
        section aria-labelledby="checks" {
            h2 id="checks" { "Checks" }
            @if reasons.is_empty() {
                p.quiet { "A search is checked trial by trial; a run in progress is checked at its end." }
            } @else {
                (check_table(reasons, "Every check that was made of the run, the worst first"))
            }
        }
    }
}

fn check_table(checks: &[Check], caption: &str) -> Markup {
    let level = |level: Level| match level {
        Level::Pass => (0, "passed", "good"),
        Level::Warn => (1, "warning", "invalid"),
        Level::Fail => (2, "FAILED", "bad"),
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.sortable.all {
                caption { (caption) }
                thead { tr {
                    th scope="col" { "check" }
                    th scope="col" { "result" }
                    th scope="col" { "observed, and the limit" }
                    th scope="col" { "what it means" }
                } }
                tbody { @for check in checks {
                    @let (severity, word, class) = level(check.level);
                    tr {
                        td { (check.id.name()) }
                        td class={ "verdict " (class) } data-sort=(severity) { (shape(class)) " " (word) }
                        td.words { (findings::seen_and_limit(check)) }
                        td.words { @if check.level != Level::Pass { (check.id.hint().unwrap_or_default()) } }
                    }
                } }
            }
        }
    }
}

/// A table that only some runs have: its heading and its rows.
const TABLES: [(&str, Rows); 4] = [
    (
        "Searches",
        rows!("summary.repeat.searches":
            "search" Count "number", "lower" Count "lower", "upper" Count "upper",
            "verdict" Verdict "verdict", "trials" Count "trials", "length" Seconds "seconds",
            "archive" Text "archive"),
    ),
    (
        "Values of the settings",
        rows!("summary.sizing.values":
            "value" Text "name", "connections" Count "connections",
            "good answers" PerS "goodput_per_s", "against the first" Count "goodput.ratio",
            "from" Count "goodput.ratio_low", "to" Count "goodput.ratio_high",
            "finding" Text "goodput.finding", "for each CPU" PerS "per_cpu_per_s",
            "busiest thread" Share "sut_busiest_thread"),
    ),
    (
        "Projected limits",
        rows!("summary.hold.projections":
            "resource" Text "resource", "each connection" Count "per_connection",
            "limit" Count "limit", "ends at" Count "ends_at", "at least" Count "ends_at_min",
            "confidence" Text "confidence"),
    ),
    (
        "Timeout probe",
        rows!("summary.timers":
            "after" Text "kind", "connections" Count "connections", "ended after" Ms "after_ms",
            "whose" Text "owner", "name" Text "label", "evidence" Text "evidence"),
    ),
];

/// Returns the tables that only some runs have, and the criteria of RFC 9411.
pub(super) fn tables(view: &View, json: &Value) -> Markup {
    let found = TABLES.iter().map(|(name, rows)| (name, Table::of(json, rows)));
    let results = match view.summary.as_ref().map(|summary| &summary.result) {
        Some(RunResult::Rfc9411 { rfc9411 }) => &rfc9411.results[..],
        _ => &[],
    };
    html! {
        @for (name, table) in found.filter(|(_, table)| table.has_figures()) {
            section aria-label=(name) {
                h2 { (name) }
                div.scroll tabindex="0" role="region" aria-label=(name) { (table.markup(name)) }
            }
        }
        @for result in results {
            section aria-label={ "Criteria of " (result.object) } {
                h2 { "Criteria: " (result.object) @if let Some(number) = result.scenario { ", scenario " (number) } }
                (check_table(&result.criteria, "Criteria of RFC 9411 at the load that the case reports"))
            }
        }
    }
}

/// The columns of the table of trials; the first five stay on a narrow screen.
const TRIALS: Rows = rows!("trials":
    "#" Count "number", "phase" Text "phase", "load" Count "load", "verdict" Verdict "verdict",
    "p99" Ms "quantiles.p99", "length" Seconds "seconds", "p50" Ms "quantiles.p50",
    "p99.9" Ms "quantiles.p999", "good answers" PerS "goodput", "bad" Share "loss_ratio",
    "backlog" Count "backlog", "why" Text "why");

/// Returns every trial of a search.
pub(super) fn trials(view: &View, json: &Value) -> Markup {
    html! {
        @if view.head.axis.is_some() || !view.trials.is_empty() {
            section aria-labelledby="trials" {
                h2 id="trials" { "Trials" }
                div.scroll tabindex="0" role="region" aria-label="Trials" {
                    (Table::of(json, &TRIALS).of_trials(TRIALS.columns, shape))
                }
                @for line in view.summary.iter().flat_map(|summary| slow::lines(&summary.machines.slow)) {
                    p.measure { (line) "." }
                }
                p.quiet.measure {
                    "Latency from the intended start, of good answers. bad: late, failed or not sent. backlog: most operations due and \
                     not finished at once. INVALID: the generator or the path, not the server, shaped that trial; it counts neither for \
                     nor against the server."
                }
            }
        }
    }
}

/// Returns the facts of the terminal's report, and its notes.
pub(super) fn facts(view: &View) -> Markup {
    let Some(summary) = &view.summary else { return html! {} };
    let found = facts::of(summary);
    let notes = summary.result.find().map(|find| &find.found.notes[..]).unwrap_or_default();
    html! {
        section aria-labelledby="facts" {
            h2 id="facts" { "Facts" }
            (errors(summary))
            (entries(&found))
            @if !notes.is_empty() { h3 { "Notes" } ul.measure { @for note in notes { li { (note) } } } }
        }
    }
}

/// Returns error classes with what to do about each.
fn errors(summary: &Summary) -> Markup {
    let classes: Vec<_> = [
        &summary.failures.error_classes,
        &summary.failures.connection_error_classes,
        summary.lost_classes(),
    ]
    .into_iter()
    .zip(["operation", "attempt to connect", "open connection"])
    .flat_map(|(classes, of)| classes.iter().map(move |(name, count)| (of, name, *count)))
    .collect();
    html! {
        @if !classes.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Errors" {
                table.sortable.all {
                    caption { "Errors by class" }
                    thead { tr {
                        th scope="col" { "class" } th scope="col" { "of" } th.n scope="col" { "count" }
                        th scope="col" { "whose fault" } th scope="col" { "reasons, and what to do" }
                    } }
                    tbody { @for (of, name, count) in classes {
                        @let known = hints::class_named(name);
                        tr {
                            td { (name) } td { (of) } td.n data-sort=(count) { (grouped(count)) }
                            td { (known.map_or("", hints::fault)) }
                            td.words { @for text in reasons::paragraphs(name, summary) { p { (text) } } }
                        }
                    } }
                }
            }
        }
    }
}

/// Returns the command line, versions and settings: what makes the same run again.
pub(super) fn repeat(view: &View) -> Markup {
    let head = &view.head;
    let command = shell_line(&head.args);
    html! {
        section aria-labelledby="repeat" {
            h2 id="repeat" { "Repeat it" }
            pre.command id="command" data-copy="" { (command) }
            dl.facts {
                dt { "plimsoll" } dd { (view.version) }
                dt { "Target" } dd { (head.target) }
                dt { "Started" } dd { (head.started_at) }
                dt { "Kernel" } dd { (head.host.kernel) }
                dt { "CPUs" } dd { (head.host.cpus) @if let Some(model) = &head.host.cpu_model { ", " (model) } }
                dt { "Archive" } dd { (view.run) ", " (view.schema) }
                @for (name, value) in settings::rows(&head.settings) { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// Returns the arguments as a shell takes them.
pub(crate) fn shell_line(args: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%@+".contains(c);
    let shown = args.iter().map(|arg| arg.chars().filter(|c| !c.is_control()).collect::<String>());
    let quoted = shown.map(|arg| match !arg.is_empty() && arg.chars().all(plain) {
        true => arg,
        false => format!("'{}'", arg.replace('\'', "'\\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_is_quoted_for_a_shell() {
        let args = ["plimsoll", "load", "http://a/?x=1&y", "--slo", "p99<50ms", "it's", ""];
        let args = args.map(str::to_owned);
        assert_eq!(
            shell_line(&args),
            "plimsoll load 'http://a/?x=1&y' --slo 'p99<50ms' 'it'\\''s' ''"
        );
    }
}
