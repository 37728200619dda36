//! Tests that readers of each format read what is written.

use std::fs;
use std::path::{Path, PathBuf};

use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use plimsoll_model::event::Event;
use plimsoll_model::gate::{Estimate, GateFinding, GateMethod, HostEffect, Incomparable, Side};
use plimsoll_model::host::{Label, Metric, Reading};
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::result::RunResult;
use plimsoll_model::row::{Row, RowBatch, RowEnd, RowPlan};
use plimsoll_model::summary::Summary;
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::trial::{
    Check, CheckId, Family, Level, Measure, Outcome, Standing, TrialRecord, Unit, Unsettled,
    Verdict,
};
use plimsoll_model::{ErrorClass, Nanos};
use serde_json::Value;

use super::*;
use crate::Archive;
use crate::archive::{ArchiveWriter, ClockPair, HostWriter, Manifest};
use crate::digest::Badge;
use crate::fixtures;
use crate::fixtures::golden;
use crate::terminal::{GateLine, GateReport, JobLog, Style};

/// On CLOCK_MONOTONIC, when the first operation is due.
const EPOCH: Nanos = Nanos::from_secs(70);

/// An archive that is called `run`, below a directory that lasts as long.
struct Made {
    dir: tempfile::TempDir,
    summary: Summary,
}

impl Made {
    fn place(dir: &tempfile::TempDir) -> PathBuf {
        dir.path().join("run")
    }

    fn write(plan: &LoadPlan, events: &[Event], summary: Summary) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let args = ["plimsoll", "load", "--slo", "p99<50ms", "http://a/?x=1&y='2'"];
        let manifest = Manifest {
            command: summary.command.clone(),
            command_line: args.map(str::to_owned).to_vec(),
            target: summary.target.clone(),
            started_at: summary.started_at.clone(),
            // The run began one second before the first operation was due.
            clock: ClockPair {
                monotonic: Nanos::from_secs(69),
                unix_ns: 1_795_000_000_250_000_000,
            },
            ..fixtures::manifest_of(plan, false)
        };
        let mut writer = ArchiveWriter::create(&Self::place(&dir), &manifest).unwrap();
        events.iter().for_each(|event| writer.handle_event(event).unwrap());
        writer.finish(&summary).unwrap();
        Self { dir, summary }
    }

    fn export(&self, export: Export) -> String {
        self.export_with(export, None)
    }

    fn export_with(&self, export: Export, gate: Option<&GateReport>) -> String {
        let archive = Archive::open(&Self::place(&self.dir)).unwrap();
        let run = ExportedRun { archive: &archive, summary: &self.summary, gate };
        let mut out = Vec::new();
        write_export(export, &run, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }
}

fn started() -> Event {
    Event::LoadStarted { trial: None, planned: Some(Nanos::from_secs(3)), epoch: EPOCH }
}

fn interval(second: u32, tally: Tally) -> Event {
    Event::Interval(Box::new(Interval { second, tally }))
}

/// Returns a load of three seconds, of which the second one has a failure and the last no answer.
fn load() -> Made {
    let mut failing = fixtures::tally(900, 1_900, 1);
    failing.scheduled += 2;
    failing.failures.operations.add(ErrorClass::ResetByPeer, 2);
    failing.late = 7;
    failing.connections.reset_by_peer = 2;
    let silent = Tally { scheduled: 5, unsent: 5, ..Tally::default() };
    let seconds = [fixtures::tally(1_000, 900, 1), failing, silent];
    let events: Vec<_> = std::iter::once(started())
        .chain((0..).zip(seconds).map(|(second, tally)| interval(second, tally)))
        .collect();
    Made::write(&fixtures::plan(), &events, fixtures::load_bad())
}

/// Adds two readings of a host, at the end of the first second and of the third.
fn add_host(made: &Made, name: &str) {
    let mut writer = HostWriter::create(&Made::place(&made.dir)).unwrap();
    for (second, bytes) in [(70u64, 1_000.0), (71, 5_000.0), (73, 9_000.0)] {
        let at = Nanos::from_secs(second);
        let mut reading = Reading { begin: at, end: at, ..Reading::default() };
        reading.add(Metric::TcpEstablished, &[], second as f64);
        let labels = [(Label::Device, "eth0"), (Label::Direction, "receive")];
        reading.add(Metric::NetworkBytes, &labels, bytes);
        reading.sort();
        writer.push(name, &reading).unwrap();
    }
}

#[test]
fn the_page_lists_every_column_in_its_order() {
    let page = include_str!("../../../../docs/reference/exports.md");
    assert!(page.contains(&format!("\n{}\n", seconds::COLUMNS.map(|(name, _)| name).join(","))));
}

#[test]
fn seconds_are_read_back_from_csv_and_ndjson() {
    let made = load();
    add_host(&made, "web,1");
    let text = made.export(Export::Csv);
    golden("export_csv", &text.replace("\r\n", "\n"));
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let names: Vec<String> = reader.headers().unwrap().iter().map(str::to_owned).collect();
    let rows: Vec<Vec<String>> =
        reader.records().map(|row| row.unwrap().iter().map(str::to_owned).collect()).collect();
    assert_eq!(rows.len(), 3);
    let ndjson = made.export(Export::Ndjson);
    for (row, line) in rows.iter().zip(ndjson.lines()) {
        let object: Value = serde_json::from_str(line).unwrap();
        assert_eq!(object.as_object().unwrap().len(), names.len());
        for (name, field) in names.iter().zip(row) {
            match &object[name] {
                Value::Null => assert_eq!(field, "", "{name}"),
                Value::String(text) => assert_eq!(field, text, "{name}"),
                number => {
                    let field: f64 = field.parse().unwrap();
                    assert_eq!(Some(field), number.as_f64(), "{name}");
                }
            }
        }
    }
    let column = |name: &str| names.iter().position(|known| known == name).unwrap();
    let of = |row: usize, name: &str| rows[row][column(name)].as_str();
    assert_eq!(of(0, "wall"), "2026-11-18T11:06:41.250Z");
    assert_eq!((of(1, "t"), of(1, "errors"), of(1, "lost"), of(1, "late")), ("1", "2", "2", "7"));
    assert_eq!((of(2, "count"), of(2, "p99_ms"), of(2, "unsent")), ("0", "", "5"));
    // 4,000 bytes in the first second, and as many in the two after it.
    assert_eq!(of(0, "host.web,1.bytes_in_per_s"), "4000");
    assert_eq!(of(1, "host.web,1.established"), "");
    assert_eq!(of(2, "host.web,1.bytes_in_per_s"), "2000");
}

#[test]
fn text_that_begins_like_a_formula_is_none() {
    for (text, field) in [
        ("run", "run"),
        ("=1+1", "'=1+1"),
        ("@a,b", "\"'@a,b\""),
        ("a\"b", "\"a\"\"b\""),
        ("-5", "'-5"),
    ] {
        assert_eq!(comma_separated::text(text), field);
    }
}

#[test]
fn trials_lie_where_they_were_in_time() {
    let requests = fixtures::trials();
    let mut events = Vec::new();
    for (trial, epoch) in requests.iter().take(3).zip([70u64, 100, 200]) {
        let request = trial.measurement.request;
        let (planned, epoch) = (None, Nanos::from_secs(epoch));
        events.push(Event::LoadStarted { trial: Some(request), planned, epoch });
        // The second one was stopped before it delivered anything.
        if request.number != 2 {
            events.push(interval(0, fixtures::tally(10, 900, 1)));
            events.push(interval(1, fixtures::tally(10, 900, 1)));
        }
    }
    let made = Made::write(&fixtures::plan(), &events, fixtures::load_good());
    let lines = made.export(Export::Ndjson);
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let seen: Vec<_> =
        lines.iter().map(|line| (line["t"].clone(), line["trial"].clone())).collect();
    let expected = [(0.0, 1), (1.0, 1), (130.0, 3), (131.0, 3)];
    assert_eq!(seen, expected.map(|(t, trial)| (Value::from(t), Value::from(trial))));
}

#[test]
fn a_percentile_distribution_is_that_of_hdrhistogram() {
    let made = load();
    let text = made.export(Export::Hgrm(Span::Corrected));
    golden("export_hgrm", &text);
    let mut whole = fixtures::tally(1_000, 900, 1);
    whole.merge_following(&fixtures::tally(900, 1_900, 1));
    // The same by the crate's own printer's rules, from its own encoding.
    let bytes = {
        use base64::Engine as _;
        let text = whole.spans.corrected.encode();
        base64::engine::general_purpose::STANDARD_NO_PAD.decode(text).unwrap()
    };
    let hdr: hdrhistogram::Histogram<u64> =
        Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
    let rows: Vec<Vec<f64>> = text
        .lines()
        .skip(2)
        .take_while(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().map(|field| field.parse().unwrap()).collect())
        .collect();
    let mut count = 0;
    let mut steps = 0;
    for (row, step) in rows.iter().zip(hdr.iter_quantiles(5)) {
        count += step.count_since_last_iteration();
        steps += 1;
        assert!((row[0] - step.value_iterated_to() as f64 / 1e6).abs() < 0.0006, "{row:?}");
        assert!((row[1] - step.quantile_iterated_to()).abs() < 1e-12, "{row:?}");
        assert_eq!(row[2] as u64, count, "{row:?}");
    }
    assert_eq!((steps, count), (rows.len(), 1_900));
    assert_eq!(rows.last().map(Vec::len), Some(3));
    // A span that nothing was measured of.
    let empty = made.export(Export::Hgrm(Span::Tls));
    assert!(empty.contains("Total count"), "{empty}");
}

#[test]
fn an_interval_log_is_read_by_hdrhistogram() {
    let made = load();
    let text = made.export(Export::Hlog);
    let mut sums = std::collections::BTreeMap::<String, u64>::new();
    let mut start = None;
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        match entry.unwrap() {
            LogEntry::StartTime(at) => start = Some(at),
            LogEntry::BaseTime(_) => panic!("there is none"),
            LogEntry::Interval(line) => {
                use base64::Engine as _;
                let encoded = line.encoded_histogram();
                assert!(encoded.starts_with("HISTF"), "{encoded}");
                let bytes = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
                let hist: hdrhistogram::Histogram<u64> =
                    Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
                assert!((line.max() - hist.max() as f64 / 1e6).abs() < 0.001);
                *sums.entry(line.tag().unwrap().as_str().to_owned()).or_default() += hist.len();
            }
        }
    }
    assert_eq!(start.map(|at| at.as_millis()), Some(1_795_000_001_250));
    assert_eq!((sums["corrected"], sums["uncorrected"], sums["tls"]), (1_900, 1_900, 200));
}

/// Text that is markup everywhere.
const HOSTILE: &str = "<b>&\"'`|]]> [x](y) @all *a* \u{1b}[31m\n=1\u{0}";

fn hostile() -> Summary {
    let mut summary = fixtures::load_bad();
    summary.target = HOSTILE.to_owned();
    summary.reasons.push(Check::failed(CheckId::Laboratory, HOSTILE));
    summary.reasons.push(Check::failed(CheckId::Other(HOSTILE.to_owned()), HOSTILE));
    summary
}

fn gates() -> GateReport {
    let gate = "p99>10%".parse().unwrap();
    let change = Estimate { value: 0.305, low: 0.12, high: 0.52 };
    let method = GateMethod::Stretches { count: 6 };
    let slower = HostEffect::Measured { speed: 0.88, is_distinct: true, observed: 0.48 };
    let found = GateFinding {
        host: Some(slower),
        ..GateFinding::new(gate, (0.0101, 0.013_2), change, method)
    };
    let errors = "errors>0.1pp".parse().unwrap();
    let change = Estimate { value: 0.002, low: -0.000_1, high: 0.004 };
    let warned = GateFinding::new(errors, (0.0, 0.002), change, method);
    let slower = "p99.9<-5%".parse().unwrap();
    let change = Estimate { value: f64::INFINITY, low: 3.0, high: f64::INFINITY };
    let infinite = GateFinding {
        host: Some(HostEffect::Unmeasured { widened: 0.145 }),
        ..GateFinding::new(slower, (0.02, f64::INFINITY), change, method)
    };
    let safe = "safe<-5%".parse().unwrap();
    let why = Incomparable::Differs {
        what: "SLO".to_owned(),
        baseline: "p99<50ms".to_owned(),
        run: HOSTILE.to_owned(),
    };
    let (side, metric) = (Side::Baseline, found.gate.metric);
    let none = Incomparable::NoInterval { side, metric, why: "it was cut short" };
    GateReport {
        baseline: "runs/main".to_owned(),
        notes: vec!["A note.".to_owned()],
        lines: vec![
            GateLine::of(&gate, &Ok(found)),
            GateLine::of(&errors, &Ok(warned)),
            GateLine::of(&slower, &Ok(infinite)),
            GateLine::of(&safe, &Err(why)),
            GateLine::of(&safe, &Err(none)),
        ],
    }
}

#[test]
fn gates_in_words() {
    golden("gates", &crate::terminal::render_gate(&gates(), Style::default()));
}

#[test]
fn junit_is_xml_with_what_is_wrong_as_content() {
    let made = Made::write(&fixtures::plan(), &[started()], hostile());
    let text = made.export_with(Export::Junit, Some(&gates()));
    let document = roxmltree::Document::parse(&text).unwrap();
    let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
    let cases: Vec<_> = suite.children().filter(|node| node.has_tag_name("testcase")).collect();
    let number = |name: &str| suite.attribute(name).unwrap().parse::<usize>().unwrap();
    let with = |name: &str| {
        cases.iter().filter(|case| case.children().any(|node| node.has_tag_name(name))).count()
    };
    assert_eq!(number("tests"), cases.len());
    for (attribute, element) in
        [("failures", "failure"), ("errors", "error"), ("skipped", "skipped")]
    {
        assert_eq!(number(attribute), with(element), "{element}");
    }
    assert!(with("failure") >= 3 && with("error") >= 2, "{text}");
    for case in &cases {
        let inner = case.first_element_child().unwrap();
        if ["failure", "error", "skipped"].contains(&inner.tag_name().name()) {
            // GitLab shows only the content.
            assert_eq!(inner.attribute("message"), inner.text());
        }
    }
    let by_name = |name: &str| {
        let case = cases.iter().find(|case| case.attribute("name") == Some(name)).unwrap();
        let inner = case.first_element_child().unwrap();
        (inner.tag_name().name().to_owned(), inner.attribute("type").map(str::to_owned))
    };
    assert_eq!(by_name("p99<50ms"), ("failure".to_owned(), Some("slo".to_owned())));
    assert_eq!(by_name("laboratory"), ("error".to_owned(), Some("generator".to_owned())));
    assert_eq!(by_name("p99>10%"), ("failure".to_owned(), Some("baseline".to_owned())));
    assert_eq!(by_name("errors>0.1pp").0, "system-out");
    assert_eq!(by_name("safe<-5%").0, "error");
}

#[test]
fn names_of_cases_are_those_of_another_run() {
    let names = |summary: Summary| {
        let text = Made::write(&fixtures::plan(), &[started()], summary).export(Export::Junit);
        let document = roxmltree::Document::parse(&text).unwrap();
        let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
        let name = |case: roxmltree::Node<'_, '_>| {
            format!("{} {}", case.attribute("classname").unwrap(), case.attribute("name").unwrap())
        };
        cases.map(name).collect::<std::collections::BTreeSet<_>>()
    };
    let checked = |lag_us, level, verdict| {
        let mut summary = fixtures::load_good();
        summary.reasons = vec![fixtures::send_lag(lag_us, level)];
        summary.verdict = verdict;
        summary
    };
    let good = names(checked(12, Level::Pass, Verdict::Good));
    assert_eq!(good, names(checked(8_000, Level::Fail, Verdict::Invalid)));
    assert_eq!(good.first().unwrap(), "plimsoll.load.generator send-lag");
}

#[test]
fn an_invalid_run_says_nothing_of_its_goals() {
    let text = Made::write(
        &fixtures::plan(),
        &[started()],
        Summary { verdict: Verdict::Invalid, ..fixtures::load_bad() },
    )
    .export(Export::Junit);
    let document = roxmltree::Document::parse(&text).unwrap();
    let skipped = document.descendants().filter(|node| node.has_tag_name("skipped")).count();
    assert_eq!(skipped, 2, "{text}");
    assert!(!text.contains("<failure"), "{text}");
}

#[test]
fn a_search_is_a_case_of_its_own() {
    let ending = |outcome: Outcome| {
        let (mut summary, _) = fixtures::find_regular();
        summary.result.find_mut().unwrap().found.outcome = outcome;
        let text = Made::write(&fixtures::plan(), &[started()], summary).export(Export::Junit);
        let document = roxmltree::Document::parse(&text).unwrap();
        let mut cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
        let case = cases.find(|case| case.attribute("name") == Some("tipping-point")).unwrap();
        assert_eq!(case.attribute("classname"), Some("plimsoll.find.rate.search"));
        let inner = case.first_element_child().unwrap();
        let kind = inner.attribute("type").unwrap_or_default().to_owned();
        (inner.tag_name().name().to_owned(), kind)
    };
    let why = || "seen".to_owned();
    for (outcome, element, kind) in [
        (Outcome::Regular, "system-out", ""),
        (Outcome::Bounds { why: Unsettled::OneBound }, "system-out", ""),
        (Outcome::FailsAtMinimum, "failure", "slo"),
        (Outcome::Unstable { why: Unsettled::OneBound }, "error", "undecided"),
        (Outcome::Undecided { why: Unsettled::OneBound }, "error", "undecided"),
        (Outcome::GeneratorLimited { why: why() }, "error", "generator"),
    ] {
        assert_eq!(ending(outcome), (element.to_owned(), kind.to_owned()));
    }
}

/// Returns every kind of run, and those whose parts could be read in two ways, with what they state.
fn stated() -> Vec<(&'static str, Summary, Vec<TrialRecord>, Standing)> {
    let why = || Unsettled::OneBound;
    let mut first_open = fixtures::find_several();
    if let Some(find) = first_open.0.result.find_mut() {
        find.found.outcome = Outcome::Unstable { why: why() };
        find.found.goals[0].found.outcome = find.found.outcome.clone();
        find.found.goals[1].found.outcome = Outcome::FailsAtMinimum;
    }
    first_open.0.verdict = Verdict::Bad;
    let mut storm = fixtures::find_storm();
    if let Some(find) = storm.result.find_mut() {
        find.found.outcome = Outcome::Undecided { why: why() };
    }
    storm.verdict = Verdict::Invalid;
    let mut compared = fixtures::compare_undecided();
    if let RunResult::Compare { compare } = &mut compared.result {
        compare.rounds_invalid = 0;
    }
    let mut sized = fixtures::sizing_better();
    if let RunResult::Sizing { sizing } = &mut sized.result {
        sizing.values[1].goodput = None;
    }
    sized.verdict = Verdict::Invalid;
    let mut lost = fixtures::find_unstable();
    lost.0.reasons = vec![Check::failed(CheckId::Laboratory, "killed")];
    let mut stopped = fixtures::find_unfinished();
    (stopped.0.partial, stopped.0.verdict) = (false, Verdict::Good);
    let of_fixtures = fixtures::all().into_iter().map(|(name, summary, trials)| {
        let standing = match name {
            "find_unstable" | "find_several" => Standing::Open,
            _ => match summary.verdict {
                Verdict::Good => Standing::Met,
                Verdict::Bad => Standing::Missed,
                Verdict::Invalid => Standing::Invalid,
            },
        };
        (name, summary, trials, standing)
    });
    let made = [
        ("first open, second missed", first_open, Standing::Missed),
        ("storm undecided", (storm, Vec::new()), Standing::Open),
        ("comparison cut short", (compared, Vec::new()), Standing::Open),
        ("sweep cut short", (sized, Vec::new()), Standing::Open),
        ("laboratory lost", lost, Standing::Invalid),
        ("search stopped", stopped, Standing::Met),
    ];
    of_fixtures
        .chain(made.map(|(name, (summary, trials), standing)| (name, summary, trials, standing)))
        .collect()
}

#[test]
fn badge_cases_and_annotation_state_the_same() {
    for (name, summary, trials, standing) in stated() {
        assert_eq!(summary.standing(), standing, "{name}");
        let Badge { word, class } = Badge::of(&summary);
        let (words, level): (&[&str], _) = match standing {
            _ if summary.partial => (&["PARTIAL"], Some("warning")),
            Standing::Met => (&["GOOD", "HELD", "DONE", "COMPARED"], None),
            Standing::Missed => (&["BAD", "FAILED"], Some("error")),
            Standing::Invalid => (&["INVALID"], Some("warning")),
            Standing::Open => (&["UNSTABLE", "UNDECIDED"], Some("warning")),
        };
        assert!(words.contains(&word), "{name}: {word}");
        assert_eq!(class == "bad", words.contains(&"BAD"), "{name}: {class}");
        assert_eq!(class == "invalid", words.contains(&"INVALID"), "{name}: {class}");
        let style = Style { log: Some(JobLog::GitHub), ..Style::default() };
        let log = crate::terminal::render(&summary, &trials, style);
        let mut annotations = log.lines().filter(|line| line.contains(" title=plimsoll "));
        let annotation = annotations.next();
        let shown =
            level.map(|level| format!("::{level} title=plimsoll {}, {word}::", summary.command));
        assert_eq!(annotation.is_some(), shown.is_some(), "{name}: {log}");
        let agrees = annotation.zip(shown).is_none_or(|(line, begin)| line.starts_with(&begin));
        assert!(agrees, "{name}: {annotation:?}");
        let partial = summary.partial;
        let text = Made::write(&fixtures::plan(), &[started()], summary).export(Export::Junit);
        let has = |element: &str| text.contains(&format!("<{element} "));
        let (failure, error) = (has("failure"), has("error"));
        match standing {
            _ if partial => assert!(error, "{name}: {text}"),
            Standing::Met => assert!(!failure && !error, "{name}: {text}"),
            Standing::Missed => assert!(failure, "{name}: {text}"),
            Standing::Invalid | Standing::Open => assert!(error && !failure, "{name}: {text}"),
        }
    }
}

#[test]
fn each_slo_of_a_search_is_a_case() {
    let (summary, _) = fixtures::find_several();
    let text = Made::write(&fixtures::plan(), &[started()], summary).export(Export::Junit);
    let document = roxmltree::Document::parse(&text).unwrap();
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    let cases =
        cases.filter(|case| case.attribute("classname") == Some("plimsoll.find.rate.search"));
    let found: Vec<_> = cases
        .map(|case| {
            let element = case.first_element_child().unwrap().tag_name().name().to_owned();
            (case.attribute("name").unwrap(), element)
        })
        .collect();
    assert_eq!(
        found,
        [
            ("tipping-point p99<50ms,errors<0.1%", "system-out".to_owned()),
            ("tipping-point p99.9<200ms,errors<1%", "error".to_owned()),
        ]
    );
}

#[test]
fn markdown_shows_text_as_text() {
    let made = Made::write(&fixtures::plan(), &[started()], hostile());
    let text = made.export_with(Export::Markdown, Some(&gates()));
    golden("export_markdown", &text);
    // Once, as the name of a check, in the font of code.
    for markup in ["<b>", "@all", " *a* "] {
        assert_eq!(text.matches(markup).count(), 1, "{markup}: {text}");
    }
    assert!(!text.contains('\u{1b}') && !text.contains('\u{0}'), "{text}");
}

#[test]
fn markdown_has_the_cause_in_the_words_of_the_terminal() {
    let (summary, _) = fixtures::find_correlated();
    let made = Made::write(&fixtures::plan(), &[started()], summary);
    let text = made.export(Export::Markdown);
    assert!(text.contains("<br>not predicted: the limit of the backends was not read;"), "{text}");
    golden("export_markdown_search", &text);
}

#[test]
fn the_badge_says_good_only_if_an_slo_was_judged() {
    let badge = |summary: Summary| {
        let made = Made::write(&fixtures::plan(), &[started()], summary);
        let text = made.export(Export::Markdown);
        text.lines().next().expect("a title").to_owned()
    };
    assert_eq!(badge(fixtures::load_good()), "### plimsoll `load`: ● GOOD");
    let mut unjudged = fixtures::load_good();
    unjudged.reasons.retain(|check| check.id.family() != Family::Goal);
    assert_eq!(badge(unjudged), "### plimsoll `load`: ○ DONE");
    let partial = Summary { partial: true, ..fixtures::load_good() };
    assert_eq!(badge(partial), "### plimsoll `load`: ○ PARTIAL");
}

#[test]
fn markdown_stays_below_what_is_shown() {
    let (mut summary, trials) = fixtures::find_regular();
    summary.reasons = (0..500)
        .map(|index| {
            let long = "&".repeat(5_000);
            Check { detail: Some(long), ..Check::failed(CheckId::Other(format!("{index}")), "") }
        })
        .collect();
    let mut events = vec![started()];
    for number in 1..=300 {
        let mut trial: TrialRecord = trials[number as usize % trials.len()].clone();
        trial.measurement.request.number = number;
        events.push(Event::TrialEnded(Box::new(trial)));
    }
    let text = Made::write(&fixtures::plan(), &events, summary).export(Export::Markdown);
    assert!(text.len() < 60_000, "{}", text.len());
    assert!(text.contains("| Tipping point | 18,200/s – 18,900/s |"), "{text}");
    assert!(text.contains("The last trials (40 of 300)"), "{text}");
}

fn row(intended_ms: u64, sent_ms: Option<u64>, ended_ms: u64, status: u16, end: RowEnd) -> Row {
    let ms = Nanos::from_millis;
    let (intended, sent, ended) = (ms(intended_ms), sent_ms.map(ms), ms(ended_ms));
    Row {
        intended,
        sent,
        ended,
        status,
        end,
        body_bytes: if status > 0 { 4 } else { 0 },
        target: 0,
    }
}

fn recorded() -> Made {
    let batches = [
        vec![
            row(30, Some(31), 35, 200, RowEnd::Ok),
            row(10, Some(12), 40, 503, RowEnd::Failed(ErrorClass::Status5xx)),
        ],
        vec![
            row(50, Some(50), 60, 0, RowEnd::Failed(ErrorClass::ResetByPeer)),
            row(40, None, 1_000, 0, RowEnd::Unsent),
        ],
    ];
    let mut events = vec![started()];
    events.extend(batches.map(|rows| Event::Rows(RowBatch { rows, dropped: 0 })));
    let mut plan = LoadPlan { rows: Some(RowPlan { every: 7 }), ..fixtures::plan() };
    plan.targets[0].url.path = format!("/a?token={}&b=1", fixtures::SECRET);
    Made::write(&plan, &events, fixtures::load_good())
}

#[test]
fn rows_are_vegetas() {
    let made = recorded();
    let rows = |format, latency| made.export(Export::Vegeta(format, latency));
    let text = rows(RowFormat::Csv, RowLatency::Corrected);
    golden("export_vegeta_csv", &text);
    golden("export_vegeta_json", &rows(RowFormat::Json, RowLatency::Corrected));
    assert!(!text.contains(fixtures::SECRET), "{text}");
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let records: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert!(records.iter().all(|record| record.len() == 12));
    let column = |at: usize| records.iter().map(|record| record[at].to_owned()).collect::<Vec<_>>();
    assert_eq!(column(8), ["0", "1", "2", "3"]);
    assert!(column(0).is_sorted());
    assert_eq!(column(5), ["503 Service Unavailable", "", "unsent", "reset-by-peer"]);
    assert_eq!(column(2), ["30000000", "5000000", "960000000", "10000000"]);
    // From the actual send: what was never sent counts from when it was due.
    let text = rows(RowFormat::Csv, RowLatency::Uncorrected);
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    let latencies: Vec<_> = reader.records().map(|record| record.unwrap()[2].to_owned()).collect();
    assert_eq!(latencies, ["28000000", "4000000", "960000000", "10000000"]);
    for line in rows(RowFormat::Json, RowLatency::Corrected).lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&object["sampled"], &object["attack"]), (&7.into(), &"run (1 in 7)".into()));
    }
}

#[test]
fn an_archive_without_rows_says_how_to_record_some() {
    let made = load();
    let archive = Archive::open(&Made::place(&made.dir)).unwrap();
    let run = ExportedRun { archive: &archive, summary: &made.summary, gate: None };
    let export = Export::Vegeta(RowFormat::Csv, RowLatency::Corrected);
    let error = write_export(export, &run, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains("--rows FILE"), "{error}");
}

#[test]
fn an_archive_that_was_stored_is_exported() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/archive/stored_run");
    let archive = Archive::open(&dir).unwrap();
    let summary = archive.summary.clone().unwrap();
    let run = ExportedRun { archive: &archive, summary: &summary, gate: None };
    for export in [
        Export::Csv,
        Export::Ndjson,
        Export::Hgrm(Span::Corrected),
        Export::Hlog,
        Export::Junit,
        Export::Markdown,
    ] {
        let mut out = Vec::new();
        write_export(export, &run, &mut out).unwrap();
        let mut again = Vec::new();
        write_export(export, &run, &mut again).unwrap();
        assert_eq!(out, again, "{export:?}");
    }
    let mut out = Vec::new();
    write_export(Export::Csv, &run, &mut out).unwrap();
    let mut reader = csv::Reader::from_reader(out.as_slice());
    let times: Vec<f64> = reader.records().map(|row| row.unwrap()[1].parse().unwrap()).collect();
    assert_eq!(
        times.len(),
        fs::read_to_string(dir.join("intervals.jsonl")).unwrap().lines().count()
    );
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn a_measure_without_a_limit_is_a_case_that_passed() {
    let mut summary = fixtures::load_good();
    let measure = Measure::new("all CPUs", 0.5, Unit::Ratio);
    summary.reasons = vec![Check::new(CheckId::HostCpu, Level::Warn, [measure])];
    let text = Made::write(&fixtures::plan(), &[started()], summary).export(Export::Junit);
    assert!(text.contains("<system-out>warning: all CPUs 50 %"), "{text}");
}
