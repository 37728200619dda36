//! Pages of a small run: what is in them, what is not, and that names of others stay text.

use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use plimsoll_model::Rate;
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::search::Axis;
use serde_json::Value;

use super::figures::{OVERLAY, figures};
use super::*;
use crate::archive::Archive;
use crate::digest::Digest;
use crate::fixtures;
use crate::view::Head;

/// Returns a stored run, which has trials and no host.
fn search() -> View {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/archive/stored_run");
    let archive = Archive::open(&dir).unwrap();
    View::of_archive(&archive, archive.summary.as_ref().unwrap()).unwrap()
}

/// Returns the text between two others.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).unwrap_or_else(|| panic!("no {from}")) + from.len();
    &text[start..start + text[start..].find(to).unwrap_or_else(|| panic!("no {to}"))]
}

fn embedded(page: &str) -> Value {
    let packed = between(page, "data-encoding=\"gzip;base64\">", "<");
    let mut text = String::new();
    let packed = STANDARD.decode(packed).unwrap();
    GzDecoder::new(packed.as_slice()).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn one_document_is_one_page_and_carries_all_of_it() {
    let view = search();
    let page = render(&view);
    assert_eq!(page, render(&view));
    assert_eq!(embedded(&page), json(&view));
    assert!(page.len() < 2_000_000, "{}", page.len());
}

#[test]
fn the_page_asks_for_nothing() {
    let page = render(&search());
    for forbidden in [" src=", "<link", "<img", "<iframe", "<form", " style=", " onclick", "url("] {
        // Programs build what they draw; the page itself has none of these.
        let markup = page.split("<script>").next().unwrap();
        assert!(!markup.contains(forbidden), "{forbidden}");
    }
    let policy = between(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
    assert!(policy.contains("default-src 'none'"), "{policy}");
    assert_eq!(policy.matches("sha256-").count(), 5, "three scripts, our style and that of Plot");
}

#[test]
fn answer_checks_and_trials_are_there_without_a_program() {
    let view = search();
    let page = render(&view);
    let markup = page.split("<script>").next().unwrap();
    for answer in Digest::of(view.summary.as_ref().unwrap()).answers {
        assert!(markup.contains(answer.text.split('.').next().unwrap()), "{}", answer.text);
    }
    let rows = between(markup, "id=\"trials-table\"", "</table>").matches("<tr>").count();
    assert_eq!(rows, view.trials.len() + 1);
    assert!(markup.contains("<noscript>"));
    assert!(markup.contains("This page draws its charts with a program"));
}

#[test]
fn the_safe_load_is_the_first_key_figure() {
    let mut view = search();
    let find = view.summary.as_mut().unwrap().result.find_mut().unwrap();
    find.found.safe = Rate::per_second(1_234.0);
    let page = render(&view);
    let first = between(&page, "<dl class=\"key\">", "</dl>");
    assert!(first.starts_with("<div><dt>Safe load</dt>"), "{first}");
}

#[test]
fn what_a_correlated_cause_lacks_is_on_the_page() {
    let mut view = search();
    let summary = view.summary.as_mut().unwrap();
    *summary = fixtures::find_correlated().0;
    let markup = render(&view);
    let markup = markup.split("<script>").next().unwrap();
    let lines = crate::terminal::facts::cause(view.summary.as_ref().unwrap());
    let lacks = lines
        .iter()
        .flat_map(|entry| &entry.lines)
        .find(|line| line.starts_with("not predicted: "));
    assert!(markup.contains(lacks.expect("it lacks something")), "{lacks:?}");
}

#[test]
fn a_live_page_has_no_data_and_may_ask_its_own_server_for_it() {
    let page = render_live(&search());
    assert!(!page.contains("id=\"view\""));
    assert!(page.contains("connect-src &#39;self&#39;") || page.contains("connect-src 'self'"));
    assert!(page.contains("id=\"pause\"") && page.contains("id=\"trials-table\""));
}

#[test]
fn what_others_named_stays_text() {
    let mut view = search();
    let name = "https://x/</script><script>alert(1)</script><!--";
    view.head.target = name.to_owned();
    if let Some(summary) = &mut view.summary {
        summary.target = name.to_owned();
    }
    for page in [render(&view), render_overlay(&[view.clone(), view])] {
        let markup = page.split("<script>").next().unwrap();
        assert!(!markup.contains("<script>alert") && !markup.contains("<!--"));
        assert!(markup.contains("&lt;/script&gt;"));
    }
}

#[test]
fn several_runs_claim_no_finding() {
    let view = search();
    let page = render_overlay(&[view.clone(), view]);
    assert!(page.contains("A and B, not interleaved: differences may be the machine's"));
    assert!(page.contains("claims no finding"));
    assert_eq!(embedded(&page).as_array().map(Vec::len), Some(2));
    for word in ["Better:", "Worse:"] {
        assert!(!page.split("<script>").next().unwrap().contains(word));
    }
}

#[test]
fn the_top_of_a_page_is_the_digest_of_the_run() {
    for (name, summary, _) in fixtures::all() {
        let digest = Digest::of(&summary);
        let page = render(&View { badge: digest.badge, summary: Some(summary), ..search() });
        let top = page.split("<dl class=\"key\">").next().unwrap();
        let has = |text: &str| top.contains(&html! { (text) }.into_string());
        assert!(has(digest.badge.word), "{name}: {top}");
        assert!(digest.answers.iter().all(|answer| has(&answer.text)), "{name}: {top}");
        assert!(digest.cut_short.iter().all(|text| has(text)), "{name}: {top}");
        assert!(digest.warnings.iter().all(|warning| has(&warning.text)), "{name}: {top}");
    }
}

#[test]
fn every_figure_has_a_program_and_every_program_a_figure() {
    let program = assets::program();
    let mut connections = fixtures::find_regular().0;
    let find = connections.result.find().cloned().map(Box::new).unwrap();
    connections.result = RunResult::Connections { find, hold: None };
    connections.result.find_mut().unwrap().axis = Axis::Connections;
    let views = [
        fixtures::load_good(),
        fixtures::find_regular().0,
        connections,
        fixtures::hold_bad(),
        fixtures::hold_cycles(),
        fixtures::find_storm(),
        fixtures::compare_saturated(),
        fixtures::sizing_better(),
        crate::terminal::rfc9411::tests::summary(),
    ]
    .map(|summary| {
        let axis = summary.result.find().map(|find| find.axis);
        let head = Head { kind: summary.result.kind(), axis, ..search().head };
        View { summary: Some(summary), head, ..search() }
    });
    let charts = views.iter().flat_map(figures).chain(&OVERLAY);
    let mut names: Vec<_> = charts.map(|(_, figure)| figure.chart).collect();
    names.push(HOST.chart);
    names.sort_unstable();
    names.dedup();
    let mut drawn: Vec<_> = program
        .lines()
        .filter_map(|line| line.strip_prefix("CHARTS.")?.split_once(" = "))
        .map(|(name, _)| name)
        .collect();
    drawn.sort_unstable();
    assert_eq!(names, drawn);
}

#[test]
fn a_run_that_has_not_ended_has_the_figures_of_its_plan() {
    let main = |kind, axis| {
        let head = Head { kind, axis, ..search().head };
        figures(&View { summary: None, head, ..search() })[0].1.chart
    };
    assert_eq!(main(RunKind::Load, None), "latency");
    assert_eq!(main(RunKind::Hold, None), "connections");
    assert_eq!(main(RunKind::Search, Some(Axis::Connections)), "tipping");
    assert_eq!(main(RunKind::Search, Some(Axis::Storm)), "storms");
    assert_eq!(main(RunKind::Compare, None), "forest");
    assert_eq!(main(RunKind::Sizing, None), "rate");
    assert_eq!(main(RunKind::Rfc9411, Some(Axis::ConnectionsPerS)), "kpis");
    assert_eq!(main(RunKind::Rfc9411, Some(Axis::Connections)), "kpis");
}
