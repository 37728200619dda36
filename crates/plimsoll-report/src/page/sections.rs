//! The parts of a page that are words and tables: the answer, figures, checks, trials, and how to do it again.

use maud::{Markup, html};
use plimsoll_model::compare::CompareSummary;
use plimsoll_model::hold::{Confidence, HoldSummary};
use plimsoll_model::result::RunResult;
use plimsoll_model::rfc9411::Rfc9411Summary;
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::{Check, Level, Outcome, Verdict, deciding};
use plimsoll_model::units::grouped;
use serde_json::Value;

use super::table::{Column, Rows, Table, Thin, Unit};
use crate::terminal::answer::{self, Answer, Badge};
use crate::terminal::layout::{Entry, bytes, cpu_percent, ms_text, per_s, percent, span};
use crate::terminal::{findings, hints, regime_lines};
use crate::view::View;
use crate::{reasons, slow};

/// The badge of a run.
fn badge(summary: &Summary) -> Markup {
    let Badge { word, class } = Badge::of(summary);
    html! { span class={ "badge " (class) } { (shape(class)) (word) } }
}

/// The mark of a verdict, as the charts have it.
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

/// The verdict, the sentence, what it was run against, and the key figures.
pub(super) fn answer(view: &View) -> Markup {
    let head = &view.head;
    let about = html! {
        p.quiet {
            "plimsoll " (head.command) " against " (head.target) ", " (head.started_at) ", version " (view.version)
        }
    };
    let Some(summary) = &view.summary else {
        return html! {
            div.answer {
                h1 { span class="badge plain" { (shape("")) "RUNNING" } "plimsoll " (head.command) ": " (head.target) }
                (about)
            }
        };
    };
    let answers = answer::answers(summary);
    let sentence = |answer: &Answer| {
        // The badge has said it.
        let lead =
            if answer.lead.ends_with(':') { format!("{} ", answer.lead) } else { String::new() };
        format!("{lead}{}", answer.text)
    };
    html! {
        div.answer {
            h1 {
                (badge(summary))
                @if let Some(first) = answers.first() { (sentence(first)) }
            }
            @for more in answers.iter().skip(1) { p { (sentence(more)) } }
            (about)
            (cut_off(view, summary))
            (why_invalid(summary))
        }
        (key_figures(summary))
    }
}

fn cut_off(view: &View, summary: &Summary) -> Markup {
    // The summary of a search has the seconds of its last trial.
    let last = view.seconds.get("t").and_then(Value::as_array).and_then(|t| t.last()?.as_f64());
    html! {
        @if summary.partial {
            p.banner {
                strong { "Cut off" } " after " (span(last.unwrap_or(summary.seconds)))
                ": everything below is what was seen until then."
            }
        }
    }
}

fn why_invalid(summary: &Summary) -> Markup {
    let failed: Vec<&Check> = match summary.verdict {
        Verdict::Invalid => deciding(summary.verdict, &summary.reasons).collect(),
        _ => Vec::new(),
    };
    html! {
        @if !failed.is_empty() {
            div.banner {
                p { strong { "INVALID" } ": what failed speaks against the measurement, not against the server." }
                ul { @for check in failed {
                    li { (findings::line(check)) @if let Some(hint) = check.id.hint() { "; " (hint) } }
                } }
            }
        }
    }
}

/// A key figure: what it is called, the figure, and a remark.
type Key = (&'static str, String, String);

fn key_figures(summary: &Summary) -> Markup {
    let keys = match &summary.result {
        RunResult::Compare { compare } => keys_of_comparison(summary, compare),
        RunResult::Rfc9411 { rfc9411 } => keys_of_case(summary, rfc9411),
        RunResult::Find { find } | RunResult::Connections { find, .. } => {
            keys_of_search(summary, find)
        }
        RunResult::Hold { hold } => keys_of_hold(summary, hold),
        RunResult::Load | RunResult::Sizing { .. } => keys_of_load(summary),
    };
    html! {
        dl.key { @for (name, figure, note) in &keys {
            div { dt { (name) } dd { (figure) @if !note.is_empty() { span.note { (note) } } } }
        } }
    }
}

fn keys_of_search(summary: &Summary, find: &FindSummary) -> Vec<Key> {
    let is_connections = find.connections.is_some();
    let load = |value: f64| if is_connections { grouped(value as u64) } else { per_s(value) };
    let mut keys: Vec<Key> = Vec::new();
    // The load to plan with comes first.
    if let Some(safe) = find.safe {
        keys.push(("Safe load", load(safe), "9 of 10 loads meet the SLO".to_owned()));
    }
    let bounds = match (find.lower, find.upper) {
        (Some(lower), Some(upper)) => format!("{} – {}", load(lower), load(upper)),
        (Some(lower), None) => format!("≥ {}", load(lower)),
        (None, Some(upper)) => format!("< {}", load(upper)),
        (None, None) => "none".to_owned(),
    };
    let sure = find
        .confidence
        .map_or_else(String::new, |sure| format!("{:.0} % confidence", sure * 100.0));
    let (name, note) = match &find.outcome {
        Outcome::Regular => ("Tipping point", sure),
        _ => ("Bounds seen", "without a confidence".to_owned()),
    };
    keys.push((name, bounds, note));
    if let Some(good) = find.conditional_throughput {
        keys.push(("Throughput", load(good), "good answers at the lower bound".to_owned()));
    }
    let of_speeds = regime_lines(find.axis, &find.regimes).into_iter();
    let known = find.regimes.iter().filter(|regime| regime.lower.or(regime.upper).is_some());
    keys.extend(of_speeds.zip(known).map(|(line, regime)| {
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
    let invalid = match find.invalid_trials {
        0 => String::new(),
        count => format!("{count} INVALID not counted"),
    };
    keys.push(("Trials", find.trials.to_string(), invalid));
    keys.push(("Length", span(find.search_s + find.confirm_s), String::new()));
    keys
}

fn keys_of_comparison(summary: &Summary, compare: &CompareSummary) -> Vec<Key> {
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0);
    let mut keys: Vec<Key> = Vec::new();
    if let Some(ratio) = compare.ratio {
        let interval = match (compare.ratio_low, compare.ratio_high) {
            (Some(low), Some(high)) => format!("{} to {}", percent(low), percent(high)),
            _ => String::new(),
        };
        keys.push(("B against A", percent(ratio), interval));
    }
    keys.push(("Compared", compare.metric.title().to_owned(), compare.unit.clone()));
    let invalid = match compare.rounds_invalid {
        0 => String::new(),
        count => format!("{count} INVALID not counted"),
    };
    keys.push((
        "Rounds",
        format!("{} of {}", compare.rounds_used, compare.rounds_planned),
        invalid,
    ));
    if let Some(noise) = &compare.noise {
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

fn keys_of_case(summary: &Summary, case: &Rfc9411Summary) -> Vec<Key> {
    let recommended = match case.shorter_than_recommended {
        true => format!("shorter than the {} of the RFC", span(case.sustain_recommended_s)),
        false => String::new(),
    };
    let mut keys: Vec<Key> = vec![
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

fn keys_of_hold(summary: &Summary, hold: &HoldSummary) -> Vec<Key> {
    let mut keys: Vec<Key> = vec![
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
    if let Some(cost) = hold.machine_bytes_per_connection {
        let ends = if hold.both_ends_here { "both ends" } else { "this end" };
        keys.push(("Memory each", bytes(cost.round() as u64), format!("of the machine, {ends}")));
    }
    let first =
        hold.projections.iter().filter(|one| one.ends_at.is_some()).min_by_key(|one| one.ends_at);
    if let Some(first) = first {
        let sure = match first.confidence {
            Confidence::Low => "low confidence",
            Confidence::Fair => "fair confidence",
            Confidence::Good => "good confidence",
            Confidence::Exact => "exact",
        };
        let ends = grouped(first.ends_at.unwrap_or_default());
        keys.push(("First limit", ends, format!("{}, {sure}", first.resource)));
    }
    keys.push(("Length", span(summary.seconds), String::new()));
    keys
}

fn keys_of_load(summary: &Summary) -> Vec<Key> {
    let latency = &summary.latency_ms;
    let failed = summary.errors + summary.unsent;
    vec![
        (
            "Rate",
            per_s(summary.rate.achieved_per_s),
            format!("of {} offered", per_s(summary.rate.offered_per_s)),
        ),
        (
            "p99, corrected",
            ms_text(latency.corrected.p99),
            format!("median {}", ms_text(latency.corrected.p50)),
        ),
        (
            "Good",
            format!("{} %", percent(summary.ok, summary.scheduled)),
            format!("of {} operations", grouped(summary.scheduled)),
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

/// What happened, with the numbers that the charts over time show.
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

/// What limits, and the evidence.
pub(super) fn cause(view: &View) -> Markup {
    let Some(summary) = &view.summary else {
        return html! {
            @if view.head.axis.is_some() { p.quiet { "The cause is looked for when the search has ended." } }
        };
    };
    let found = answer::cause(summary);
    html! {
        @if !found.is_empty() { (entries(&found)) }
        @else if summary.result.find().is_some() { p.quiet { "No cause was looked for in this run." } }
    }
}

/// Every check, the worst first.
pub(super) fn checks(view: &View) -> Markup {
    let reasons = view.summary.as_ref().map(|summary| &summary.reasons[..]).unwrap_or_default();
    html! {
        section aria-labelledby="checks" {
            h2 id="checks" { "Checks" }
            @if reasons.is_empty() {
                p.quiet { "The checks of a search are those of its trials; of a run that goes on, they are made at its end." }
            } @else {
                (check_table(reasons, "Every check that was made of the run, the worst first"))
            }
        }
    }
}

fn check_table(checks: &[Check], caption: &str) -> Markup {
    let level = |level: Level| match level {
        Level::Pass => ("passed", "good"),
        Level::Warn => ("warning", "invalid"),
        Level::Fail => ("FAILED", "bad"),
    };
    html! {
        div.scroll tabindex="0" role="region" aria-label=(caption) {
            table.sortable.all {
                caption { (caption) }
                thead { tr {
                    th scope="col" { "check" }
                    th scope="col" { "result" }
                    th scope="col" { "seen, and the limit" }
                    th scope="col" { "what it means" }
                } }
                tbody { @for check in checks {
                    @let (word, class) = level(check.level);
                    tr {
                        td { (check.id.name()) }
                        td class={ "verdict " (class) } data-sort=(check.level as u8) { (shape(class)) " " (word) }
                        td.words { (findings::seen_and_limit(check)) }
                        td.words { @if check.level != Level::Pass { (check.id.hint().unwrap_or_default()) } }
                    }
                } }
            }
        }
    }
}

const fn column(heading: &'static str, unit: Unit, path: &'static str) -> Column {
    Column { heading, unit, path, thin: Thin::Last }
}

/// A table that only some runs have: its heading and its rows.
const TABLES: [(&str, Rows); 4] = [
    (
        "Searches",
        Rows {
            source: "summary.repeat.searches",
            columns: &[
                column("search", Unit::Count, "number"),
                column("lower", Unit::Count, "lower"),
                column("upper", Unit::Count, "upper"),
                column("verdict", Unit::Verdict, "verdict"),
                column("trials", Unit::Count, "trials"),
                column("length", Unit::Seconds, "seconds"),
                column("archive", Unit::Text, "archive"),
            ],
        },
    ),
    (
        "Values of the settings",
        Rows {
            source: "summary.sizing.values",
            columns: &[
                column("value", Unit::Text, "name"),
                column("connections", Unit::Count, "connections"),
                column("good answers", Unit::PerS, "goodput_per_s"),
                column("against the first", Unit::Count, "goodput.ratio"),
                column("from", Unit::Count, "goodput.ratio_low"),
                column("to", Unit::Count, "goodput.ratio_high"),
                column("finding", Unit::Text, "goodput.finding"),
                column("for each CPU", Unit::PerS, "per_cpu_per_s"),
                column("busiest thread", Unit::Share, "sut_busiest_thread"),
            ],
        },
    ),
    (
        "Projected limits",
        Rows {
            source: "summary.hold.projections",
            columns: &[
                column("resource", Unit::Text, "resource"),
                column("each connection", Unit::Count, "per_connection"),
                column("limit", Unit::Count, "limit"),
                column("ends at", Unit::Count, "ends_at"),
                column("at least", Unit::Count, "ends_at_min"),
                column("confidence", Unit::Text, "confidence"),
            ],
        },
    ),
    (
        "Timeout probe",
        Rows {
            source: "summary.timers",
            columns: &[
                column("after", Unit::Text, "kind"),
                column("connections", Unit::Count, "connections"),
                column("ended after", Unit::Ms, "after_ms"),
                column("whose", Unit::Text, "owner"),
                column("name", Unit::Text, "label"),
                column("evidence", Unit::Text, "evidence"),
            ],
        },
    ),
];

/// The tables that only some runs have, and the criteria of RFC 9411.
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
const TRIALS: Rows = Rows {
    source: "trials",
    columns: &[
        column("#", Unit::Count, "number"),
        column("phase", Unit::Text, "phase"),
        column("load", Unit::Count, "load"),
        column("verdict", Unit::Verdict, "verdict"),
        column("p99", Unit::Ms, "quantiles.p99"),
        column("length", Unit::Seconds, "seconds"),
        column("p50", Unit::Ms, "quantiles.p50"),
        column("p99.9", Unit::Ms, "quantiles.p999"),
        column("good answers", Unit::PerS, "goodput"),
        column("bad", Unit::Share, "loss_ratio"),
        column("backlog", Unit::Count, "backlog"),
        column("why", Unit::Text, "why"),
    ],
};

/// Every trial of a search.
pub(super) fn trials(view: &View, json: &Value) -> Markup {
    html! {
        @if view.head.axis.is_some() || !view.trials.is_empty() {
            section aria-labelledby="trials" {
                h2 id="trials" { "Trials" }
                div.scroll tabindex="0" role="region" aria-label="Trials" {
                    (Table::of(json, &TRIALS).of_trials(TRIALS.columns, shape))
                }
                @for line in view.summary.iter().flat_map(|summary| slow::lines(&summary.slow)) {
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

/// The facts of the terminal's report, and its notes.
pub(super) fn facts(view: &View) -> Markup {
    let Some(summary) = &view.summary else { return html! {} };
    let found = answer::facts(summary);
    let notes = summary.result.find().map(|find| &find.notes[..]).unwrap_or_default();
    html! {
        section aria-labelledby="facts" {
            h2 id="facts" { "Facts" }
            (errors(summary))
            (entries(&found))
            @if !notes.is_empty() { h3 { "Notes" } ul.measure { @for note in notes { li { (note) } } } }
        }
    }
}

/// Error classes with what to do about each.
fn errors(summary: &Summary) -> Markup {
    let lost = summary.result.hold().map_or(&summary.lost_idle_classes, |hold| &hold.loss_classes);
    let classes: Vec<_> = [&summary.error_classes, &summary.connection_error_classes, lost]
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

/// The command line, versions and settings: what makes the same run again.
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
                @for (name, value) in &head.settings { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// The arguments as a shell takes them.
pub(super) fn shell_line(args: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,%@+".contains(c);
    let quoted = args.iter().map(|arg| match !arg.is_empty() && arg.chars().all(plain) {
        true => arg.clone(),
        false => format!("'{}'", arg.replace('\'', "'\\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn the_load_that_can_be_planned_with_is_the_first_key_figure() {
        let (summary, _) = fixtures::find_regular();
        let keys = keys_of_search(&summary, summary.result.find().expect("a search"));
        assert_eq!([keys[0].0, keys[1].0], ["Safe load", "Tipping point"]);
        let (summary, _) = fixtures::find_unstable();
        let keys = keys_of_search(&summary, summary.result.find().expect("a search"));
        assert_eq!(keys[0].0, "Bounds seen");
    }

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
