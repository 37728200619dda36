//! The report as one HTML page: complete without a program but for the pictures, which the reader's browser draws.
//!
//! Text, tables and titles are written here; `assets/` has the programs that draw, and the policy lets the page run
//! these and nothing else. The same document gives the same bytes.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, GzBuilder};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use serde_json::Value;

use crate::view::View;
use assets::Place;
use figures::{Figure, HOST, Section};
use table::Table;

mod assets;
mod figures;
mod overlay;
mod sections;
mod sentences;
mod table;

pub(crate) use sections::shell_line;

/// Returns the page of a run in one file, which asks for nothing.
pub fn render(view: &View) -> String {
    let json = json(view);
    let body = report(view, &json);
    let data = html! { (embedded_view(&json)) (columns(view)) };
    document(Place::File, &title(view), &body, &data)
}

/// Renders the page of a run in progress. It holds no data: the page fetches them.
pub fn render_live(view: &View) -> String {
    let body = report(view, &json(view));
    document(Place::Live, &title(view), &body, &columns(view))
}

/// Returns the policy of that page as a header, which can also keep it out of frames.
pub fn live_policy() -> String {
    format!("{}; frame-ancestors 'none'", assets::policy(Place::Live, &assets::program()))
}

/// Returns several runs over each other, in one file.
pub fn render_overlay(views: &[View]) -> String {
    let documents: Vec<Value> = views.iter().map(json).collect();
    let body = overlay::report(views, &documents);
    let figures = figures::OVERLAY.iter().map(|(_, figure)| figure);
    let data = html! {
        (embedded_view(&Value::Array(documents)))
        (json_block("columns", &figures::tables(figures)))
    };
    document(Place::File, "plimsoll: several runs", &body, &data)
}

/// Serializes a view, in which all keys are texts and all numbers finite.
fn json(view: &View) -> Value {
    serde_json::to_value(view).unwrap_or(Value::Null)
}

fn title(view: &View) -> String {
    format!("plimsoll {}: {}", view.head.command, view.head.target)
}

fn columns(view: &View) -> Markup {
    let figures = figures::figures(view).iter().map(|(_, figure)| figure).chain([&HOST]);
    json_block("columns", &figures::tables(figures))
}

/// Returns the page without its shell.
fn report(view: &View, json: &Value) -> Markup {
    let summary = view.summary.as_ref();
    let figures = figures::figures(view);
    let of = |wanted: Section| {
        html! {
            @for (_, one) in figures.iter().filter(|(section, _)| *section == wanted) {
                (figure(one, None, &figures::title(one, summary), one.rows.map(|rows| Table::of(json, &rows))))
            }
        }
    };
    let count = |wanted: Section| figures.iter().filter(|(section, _)| *section == wanted).count();
    let has = |wanted: Section| count(wanted) > 0;
    let is_pair = count(Section::Main) > 1;
    html! {
        (sections::answer(view))
        @if has(Section::Main) {
            section aria-label="Main charts" { div.charts.main[is_pair] { (of(Section::Main)) } }
        }
        @if has(Section::Time) {
            section aria-labelledby="over-time" {
                h2 id="over-time" { "Over time" }
                (sections::events(view))
                div.charts { (of(Section::Time)) }
            }
        }
        @if has(Section::Distribution) {
            section aria-labelledby="distribution" {
                h2 id="distribution" { "Distribution of latency" }
                div.charts { (of(Section::Distribution)) }
            }
        }
        section aria-labelledby="hosts" {
            h2 id="hosts" { "Hosts" }
            div.charts { (hosts(view, json)) }
        }
        @if has(Section::Cause) {
            section aria-labelledby="cause" {
                h2 id="cause" { "Cause and hidden timers" }
                (sections::cause(view))
                div.charts { (of(Section::Cause)) }
            }
        }
        (sections::tables(view, json))
        (sections::checks(view))
        (sections::trials(view, json))
        (sections::facts(view))
        (sections::repeat(view))
        section aria-labelledby="data" {
            h2 id="data" { "Data" }
            p.measure id="download" { "Everything that this page shows, as one object (" code { "plimsoll.view/1" } "). " }
        }
    }
}

fn hosts(view: &View, json: &Value) -> Markup {
    let summaries = view.summary.as_ref().map(|summary| &summary.machines.hosts);
    let names: Vec<&String> = match json.get("hosts") {
        Some(Value::Object(hosts)) => hosts.keys().collect(),
        _ => Vec::new(),
    };
    html! {
        @for name in &names {
            @let known = summaries.and_then(|hosts| hosts.get(*name));
            (figure(&HOST, Some(name), &sentences::host(name, known), HOST.rows.map(|rows| rows.of_key(json, name))))
        }
        @if names.is_empty() { p.measure.quiet id="no-hosts" { "No host was read: only runs with an archive read their hosts." } }
    }
}

/// Returns a figure with its title, its place to draw, and the table behind it.
fn figure(figure: &Figure, host: Option<&str>, title: &str, table: Option<Table<'_>>) -> Markup {
    let id = match host {
        None => format!("chart-{}", figure.chart),
        Some(host) => format!("chart-{}-{}", figure.chart, anchor(host)),
    };
    let is_empty = table.as_ref().is_some_and(|table| !table.has_figures());
    html! {
        figure.chart id=(id) data-chart=(figure.chart) data-host=[host] {
            figcaption {
                h3 id={ "title-" (id) } { (title) }
                p.subtitle id={ "about-" (id) } { (figure.about) }
            }
            @for (name, values) in figure.choices {
                div.group.controls hidden data-choice=(name) role="group" aria-label={ (name) " of the chart" } {
                    @for (index, value) in values.iter().enumerate() {
                        button type="button" value=(value) aria-pressed=(index == 0) { (value) }
                    }
                }
            }
            p.nodata hidden[!is_empty] { (figure.missing) }
            div.drawing tabindex="0" role="group" aria-labelledby={ "title-" (id) } aria-describedby="keys" {}
            div.tools {
                @if let Some(table) = table.filter(Table::has_figures) {
                    details.data {
                        summary { "Data" }
                        div.scroll tabindex="0" role="region" aria-label={ "Data: " (title) } {
                            (table.thinned().markup(title))
                        }
                    }
                }
            }
        }
    }
}

/// Returns a name as part of an id.
fn anchor(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn document(place: Place, title: &str, body: &Markup, data: &Markup) -> String {
    let program = assets::program();
    let policy = assets::policy(place, &program);
    html! {
        (DOCTYPE)
        html lang="en" data-live[place == Place::Live] {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(assets::STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the report" }
                header.top {
                    span.brand { "plimsoll" }
                    div.controls {
                        @if place == Place::Live {
                            span id="live-state" role="status" { "connecting" }
                            button id="pause" type="button" aria-pressed="false" { "Pause" }
                        }
                        div.group data-choice="theme" role="group" aria-label="Theme" {
                            @for (index, theme) in ["system", "light", "dark"].iter().enumerate() {
                                button type="button" value=(theme) aria-pressed=(index == 0) { (theme) }
                            }
                        }
                    }
                }
                noscript {
                    p.banner {
                        "This page draws its charts with a program in it, which this viewer does not run. Everything else is here: \
                         each chart has its table under \u{201c}Data\u{201d}."
                    }
                }
                main id="main" { (body) }
                footer {
                    p.quiet { "Drawn by plimsoll " (env!("CARGO_PKG_VERSION")) ". Another version may draw the same data differently." }
                    details {
                        summary { "Licences" }
                        @for (name, licence) in assets::LICENCES {
                            h3 { (name) }
                            pre { (licence) }
                        }
                    }
                }
                p.visually-hidden id="status" role="status" {}
                p.visually-hidden id="keys" {
                    "Left and right arrow keys read the points; Page Up and Page Down move by ten; up and down choose a value; Escape ends."
                }
                (data)
                @for library in assets::LIBRARIES { script { (PreEscaped(library)) } }
                script { (PreEscaped(&program)) }
            }
        }
    }
    .into_string()
}

/// Returns the document: compressed, so that 30 minutes of three hosts fit into a mail.
fn embedded_view(json: &Value) -> Markup {
    let text = json.to_string();
    // No time and no name of a system in the header: the same data are the same bytes.
    let mut gzip = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    let packed = gzip.write_all(text.as_bytes()).and_then(|()| gzip.finish()).unwrap_or_default();
    html! {
        script type="application/json" id="view" data-encoding="gzip;base64" { (PreEscaped(STANDARD.encode(packed))) }
    }
}

/// Returns a small block of data that is read as it is.
fn json_block(id: &str, value: &impl Serialize) -> Markup {
    // A text in it must not end the element.
    let text = serde_json::to_string(value).unwrap_or_default().replace('<', "\\u003c");
    html! { script type="application/json" id=(id) { (PreEscaped(text)) } }
}

#[cfg(test)]
mod tests;
