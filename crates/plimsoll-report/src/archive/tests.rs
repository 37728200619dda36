//! Archives on disk: round trips, killed runs, damage, failures.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use plimsoll_model::event::Event;
use plimsoll_model::hold::HoldEnd;
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::summary::Summary;
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::trial::{
    CheckId, Outcome, Outlook, Phase, Stopped, TippingPoint, TrialRecord, Verdict,
};
use plimsoll_model::{ErrorClass, Nanos};
use proptest::prelude::*;

use super::hosts::HOSTS;
use super::manifest::{EVENTS, INTERVALS, MANIFEST, ROWS, SUMMARY, TRIALS};
use super::*;
use crate::error::ReportError;
use crate::fixtures::{manifest, manifest_of};
use crate::terminal::Style;
use crate::view::View;
use crate::{fixtures, terminal};

mod secrets;

fn interval(second: u32, tally: &Tally) -> Event {
    Event::Interval(Box::new(Interval { second, tally: tally.clone() }))
}

fn load_started() -> Event {
    Event::LoadStarted { trial: None, planned: Some(Nanos::from_secs(10)), epoch: Nanos::ZERO }
}

/// Returns a load of two seconds, `parts`, and its summary.
fn write_load(dir: &Path, parts: &[Tally]) -> ArchiveWriter {
    let mut writer = ArchiveWriter::create(dir, &manifest(false)).unwrap();
    writer.handle_event(&load_started()).unwrap();
    for (second, part) in (0..).zip(parts) {
        writer.handle_event(&interval(second, part)).unwrap();
    }
    writer.handle_event(&Event::Note("a note".to_owned())).unwrap();
    writer
}

fn summary_of(parts: &[Tally]) -> Summary {
    let mut whole = Tally::default();
    parts.iter().for_each(|part| whole.merge_following(part));
    let head = plimsoll_model::summary::SummaryHead {
        command: "load".to_owned(),
        target: "https://127.0.0.1:8443/".to_owned(),
        started_at: "2026-11-21T02:15:30Z".to_owned(),
        window: Nanos::from_secs(parts.len() as u64),
        partial: false,
        settings: fixtures::settings(&fixtures::plan()),
        verdict: Verdict::Good,
        reasons: Vec::new(),
        result: RunResult::Load,
        archive: Some("somewhere".to_owned()),
    };
    Summary::new(head, &whole)
}

fn write_search(dir: &Path, trials: &[TrialRecord]) -> ArchiveWriter {
    let mut writer = ArchiveWriter::create(dir, &manifest(true)).unwrap();
    for trial in trials {
        let m = &trial.measurement;
        let (planned, epoch) = (Some(m.window), Nanos::from_secs(10 * u64::from(m.request.number)));
        let started = Event::LoadStarted { trial: Some(m.request), planned, epoch };
        writer.handle_event(&started).unwrap();
        writer.handle_event(&interval(0, &m.tally)).unwrap();
        writer.handle_event(&Event::TrialEnded(Box::new(trial.clone()))).unwrap();
    }
    writer
}

fn drawn(summary: &Summary, trials: &[TrialRecord], style: Style) -> String {
    terminal::render(summary, trials, style)
}

/// A report that was drawn again, with the disagreements that it warns about.
struct Redrawn {
    summary: Summary,
    disagreements: Vec<String>,
}

fn redrawn(dir: &Path, style: Style) -> (String, Redrawn) {
    let (text, summary) = redraw(&Archive::open(dir).unwrap(), &|_| None, style).unwrap();
    let warning = "WARNING: the archive disagrees with itself: ";
    let disagreements = text.lines().filter_map(|line| line.strip_prefix(warning));
    let disagreements = disagreements.map(str::to_owned).collect();
    (text, Redrawn { summary, disagreements })
}

fn every_file(dir: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(dir).unwrap() {
        text.push_str(&fs::read_to_string(entry.unwrap().path()).unwrap());
    }
    text
}

#[test]
fn a_load_drawn_again_is_the_same_text() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [fixtures::tally(1_000, 900, 1), fixtures::tally(1_100, 1_900, 1)];
    let summary = summary_of(&parts);
    write_load(dir.path(), &parts).finish(&summary).unwrap();
    for color in [false, true] {
        let style = Style { color, ..Style::default() };
        let (text, redrawn) = redrawn(dir.path(), style);
        assert_eq!(text, drawn(&summary, &[], style));
        assert_eq!(redrawn.disagreements, Vec::<String>::new());
        assert_eq!(redrawn.summary, summary);
    }
}

/// The intervals of a storm also count the requests that were open when it cut their connections.
#[test]
fn a_storm_drawn_again_agrees_with_its_intervals() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [fixtures::tally(1_000, 900, 1), fixtures::tally(1_100, 1_900, 1)];
    let storm = fixtures::find_storm().result;
    let summary = Summary { result: storm, ..summary_of(&parts) };
    let [first, mut second] = parts;
    second.scheduled += 7;
    second.failures.operations.add(ErrorClass::Interrupted, 7);
    write_load(dir.path(), &[first, second]).finish(&summary).unwrap();
    let (_, redrawn) = redrawn(dir.path(), Style::default());
    assert_eq!(redrawn.disagreements, Vec::<String>::new());
}

/// The checks of this archive have no figures, only words.
#[test]
fn an_archive_that_was_stored_is_drawn() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/archive/stored_run");
    let (text, redrawn) = redrawn(&dir, Style::default());
    assert_eq!(redrawn.disagreements, Vec::<String>::new());
    assert!(text.starts_with("Tipping point not reached: at least 40 connections"), "{text}");
    let checks = &redrawn.summary.reasons;
    let send_lag = checks.iter().find(|check| check.id == CheckId::SendLag).expect("checked");
    assert!(terminal::findings::line(send_lag).starts_with("send-lag: p99 "), "{send_lag:?}");
    let unknown: Vec<_> = Archive::open(&dir)
        .unwrap()
        .trials
        .iter()
        .flat_map(|trial| trial.judgement.reasons.clone())
        .filter(|check| matches!(check.id, CheckId::Other(_)) || check.text.is_none())
        .collect();
    assert_eq!(unknown, Vec::new());
}

#[test]
fn a_search_drawn_again_is_the_same_text() {
    let dir = tempfile::tempdir().unwrap();
    let (summary, mut trials) = fixtures::find_regular();
    let mut writer = write_search(dir.path(), &trials);
    let tip = Box::new(fixtures::tipping_point());
    writer.handle_event(&Event::SearchEnded(tip)).unwrap();
    writer.finish(&summary).unwrap();
    let (text, redrawn) = redrawn(dir.path(), Style::default());
    assert_eq!(text, drawn(&summary, &trials, Style::default()));
    assert_eq!(redrawn.disagreements, Vec::<String>::new());
    for trial in &mut trials {
        trial.judgement = terminal::findings::worded(&trial.judgement);
    }
    assert!(Archive::open(dir.path()).unwrap().trials == trials);
}

#[test]
fn no_secret_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [fixtures::tally(10, 900, 1)];
    write_load(dir.path(), &parts).finish(&summary_of(&parts)).unwrap();
    let text = every_file(dir.path());
    assert!(text.contains(r#""headers": 4"#));
    assert!(!text.contains(fixtures::SECRET));
}

#[test]
fn a_summary_that_the_intervals_do_not_confirm_is_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [fixtures::tally(1_000, 900, 1)];
    let mut summary = summary_of(&parts);
    summary.operations.ok -= 1;
    summary.operations.errors += 1;
    write_load(dir.path(), &parts).finish(&summary).unwrap();
    let (text, redrawn) = redrawn(dir.path(), Style::default());
    assert_eq!(redrawn.disagreements.len(), 2);
    assert!(text.contains("WARNING") && text.contains("ok is 999 in the summary, 1,000"), "{text}");
}

#[test]
fn a_trial_whose_intervals_are_missing_is_warned_about() {
    let dir = tempfile::tempdir().unwrap();
    let (summary, trials) = fixtures::find_regular();
    let mut writer = write_search(dir.path(), &trials[..7]);
    writer.handle_event(&Event::TrialEnded(Box::new(trials[7].clone()))).unwrap();
    writer.finish(&summary).unwrap();
    let (_, redrawn) = redrawn(dir.path(), Style::default());
    assert_eq!(redrawn.disagreements, ["trial 8 has no intervals"]);
}

#[test]
fn a_killed_load_is_rebuilt_as_far_as_it_was_seen() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = fixtures::tally(1_100, 1_900, 1);
    last.scheduled += 40;
    let parts = [fixtures::tally(1_000, 900, 1), last];
    drop(write_load(dir.path(), &parts));
    // The third second was being written when the kill came.
    let path = dir.path().join(INTERVALS);
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(br#"{"trial":null,"interval":{"second":2,"ta"#).unwrap();

    let summary = Archive::open(dir.path()).unwrap().rebuild_summary().unwrap();
    assert!(summary.partial);
    assert_eq!(
        (summary.operations.scheduled, summary.operations.ok, summary.operations.errors),
        (2_140, 2_100, 40)
    );
    assert_eq!(summary.failures.error_classes.get(ErrorClass::Interrupted.name()), Some(&40));
    assert_eq!(summary.seconds, 2.0);
    let (text, _) = redrawn(dir.path(), Style::default());
    assert!(text.starts_with("PARTIAL"), "{text}");
    assert!(text.contains("killed"), "{text}");
    assert!(!text.contains("The generator, not the server"), "{text}");
}

#[test]
fn a_killed_hold_is_drawn_as_a_hold() {
    let dir = tempfile::tempdir().unwrap();
    let manifest = manifest_of(&fixtures::hold_plan(), false);
    let mut writer = ArchiveWriter::create(dir.path(), &manifest).unwrap();
    let empty = fixtures::plateau(0, None).memory;
    let level = fixtures::plateau(1_000, Some(1_000));
    let mut second = Tally { scheduled: 1_010, ok: 1_000, ..Tally::default() };
    second.connections.held_end = 1_200;
    for event in [
        Event::LoadStarted { trial: None, planned: None, epoch: Nanos::from_secs(70) },
        Event::Memory(Box::new(empty)),
        Event::Memory(Box::new(level.memory)),
        Event::PlateauEnded(Box::new(level)),
        interval(0, &second),
    ] {
        writer.handle_event(&event).unwrap();
    }
    drop(writer);
    let summary = Archive::open(dir.path()).unwrap().rebuild_summary().unwrap();
    let hold = summary.result.hold().unwrap();
    assert_eq!((hold.asked, hold.held, &hold.end), (10_000, 1_200, &HoldEnd::Unfinished));
    assert_eq!(hold.per_connection.user, Some(449.0));
    assert_eq!(hold.heartbeat_s, Some(60.0));
    assert!(hold.both_ends_here);
    let (text, _) = redrawn(dir.path(), Style::default());
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("PARTIAL  1,200 of 10,000 connections"), "{text}");
    assert!(text.contains("449 B") && text.contains("killed"), "{text}");
    assert!(!text.contains("RST"), "{text}");
}

#[test]
fn a_killed_search_keeps_its_trials_and_bounds() {
    let dir = tempfile::tempdir().unwrap();
    let trials = fixtures::trials();
    drop(write_search(dir.path(), &trials[..6]));
    let archive = Archive::open(dir.path()).unwrap();
    let summary = archive.rebuild_summary().unwrap();
    let find = summary.result.find().unwrap();
    assert_eq!(find.found.bounds(), (Some(16_000.0), Some(18_900.0)));
    assert_eq!((find.found.trials, find.found.invalid_trials), (5, 1));
    let (text, _) = redrawn(dir.path(), Style::default());
    assert!(
        text.starts_with(
            "Stopped: between 16,000/s, which met the SLO, and 18,900/s, which missed it"
        ),
        "{text}"
    );
}

#[test]
fn a_killed_case_or_comparison_is_no_search_and_no_hold() {
    for (kind, plan) in [
        (RunKind::Rfc9411, fixtures::plan()),
        (RunKind::Compare, fixtures::hold_plan()),
        (RunKind::Sizing, fixtures::plan()),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let manifest = Manifest { kind, ..manifest_of(&plan, true) };
        drop(ArchiveWriter::create(dir.path(), &manifest).unwrap());
        let archive = Archive::open(dir.path()).unwrap();
        let summary = archive.rebuild_summary().unwrap();
        assert_eq!(summary.result, RunResult::Load, "{kind:?}");
        assert_eq!(View::of_archive(&archive, &summary).unwrap().head.kind, kind);
    }
}

#[test]
fn a_killed_search_keeps_its_last_answer() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = write_search(dir.path(), &fixtures::trials()[..7]);
    let lower = plimsoll_model::Rate::per_second(17_900.0);
    let outlook = Outlook { left: Nanos::from_secs(70), width: None, further: Nanos::ZERO };
    let answer = TippingPoint { lower, outlook: Some(outlook), ..fixtures::tipping_point() };
    let nothing = TippingPoint { lower: None, upper: None, ..answer.clone() };
    for answer in [answer, nothing] {
        writer.handle_event(&Event::Answer(Box::new(answer))).unwrap();
    }
    drop(writer);
    let summary = Archive::open(dir.path()).unwrap().rebuild_summary().unwrap();
    let found = &summary.result.find().unwrap().found;
    let load = |bound: Option<plimsoll_model::Rate>| bound.map(plimsoll_model::Rate::get);
    assert_eq!(
        (load(found.lower), found.confidence, load(found.safe)),
        (Some(17_900.0), Some(0.9), Some(17_300.0))
    );
    assert_eq!(found.outcome, Outcome::Unfinished { why: Stopped::Killed });
    let (text, _) = redrawn(dir.path(), Style::default());
    let bounds = "Stopped: between 17,900/s and 18,900/s (90 % confidence)";
    assert!(text.starts_with(bounds) && text.contains("killed"), "{text}");
}

#[test]
fn trials_of_a_killed_search_that_contradict_each_other_bound_it_from_above() {
    let dir = tempfile::tempdir().unwrap();
    let trials = [(200, Verdict::Good), (100, Verdict::Bad)];
    let trials = trials.map(|(load, is)| fixtures::trial(load as u32, Phase::Narrow, load, 1, is));
    drop(write_search(dir.path(), &trials));
    let summary = Archive::open(dir.path()).unwrap().rebuild_summary().unwrap();
    let bounds = summary.result.find().unwrap().found.bounds();
    assert_eq!(bounds, (None, Some(100.0)));
}

#[test]
fn a_search_killed_after_its_end_keeps_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let trials = fixtures::trials();
    let mut writer = write_search(dir.path(), &trials);
    let tip = fixtures::tipping_point();
    writer.handle_event(&Event::TimersProbed(fixtures::timers())).unwrap();
    writer.handle_event(&Event::SearchEnded(Box::new(tip.clone()))).unwrap();
    drop(writer);
    let summary = Archive::open(dir.path()).unwrap().rebuild_summary().unwrap();
    // Cliffs were not looked for, but the probe had reported its findings.
    assert_eq!((summary.timers.cliffs, summary.timers.probed), (None, Some(fixtures::timers())));
    let find = summary.result.find().unwrap();
    assert_eq!((&find.found.outcome, &find.found.notes), (&tip.outcome, &tip.notes));
}

#[test]
fn damage_is_named_by_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    let trials = fixtures::trials();
    drop(write_search(dir.path(), &trials[..2]));
    let path = dir.path().join(TRIALS);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"verdict\":\"good\"", "\"verdict\":\"fine\"", 2)).unwrap();
    let error = Archive::open(dir.path()).unwrap_err().to_string();
    let newer = "trials.jsonl:1: unknown variant `fine`: another version of plimsoll wrote it";
    assert!(error.contains(newer), "{error}");

    let lines: Vec<_> = text.lines().collect();
    fs::write(&path, format!("{}\nnonsense\n{}\n", lines[0], lines[1])).unwrap();
    let error = Archive::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("trials.jsonl:2: damaged"), "{error}");
    // Control characters of a file do not reach the terminal.
    fs::write(dir.path().join(EVENTS), "{\"load-started\":{\"trial\":\"\\u001b[2J\\n\"}}\n")
        .unwrap();
    fs::write(&path, "").unwrap();
    let error = Archive::open(dir.path()).unwrap_err().to_string();
    assert!(!error.contains(char::is_control), "{error:?}");
}

/// Each file of an archive replaced by what is no file of ours.
#[test]
fn no_file_of_an_archive_is_waited_for_or_read_without_end() {
    let parts = [fixtures::tally(1_000, 900, 1)];
    for name in [MANIFEST, INTERVALS, TRIALS, EVENTS, SUMMARY, ROWS, HOSTS] {
        let dir = tempfile::tempdir().unwrap();
        write_load(dir.path(), &parts).finish(&summary_of(&parts)).unwrap();
        let path = dir.path().join(name);
        let error = || {
            let read = || {
                let archive = Archive::open(dir.path())?;
                archive.interval_count()?;
                archive.intervals()?.try_for_each(|line| line.map(drop))?;
                archive.rows()?.into_iter().flatten().try_for_each(|line| line.map(drop))?;
                read_hosts(dir.path()).map(drop)
            };
            let error: ReportError = read().unwrap_err();
            error.to_string()
        };
        let _ = fs::remove_file(&path);
        // It would be read for minutes, and takes up no space.
        fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let large = error();
        let is_named = |error: &str| error.contains(name) && error.contains("it has more than ");
        assert!(is_named(&large), "{large}");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        let device = error();
        assert!(device.contains(name) && device.contains("not a regular file"), "{device}");
        fs::remove_file(&path).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        let fifo = error();
        assert!(fifo.contains(name) && fifo.contains("not a regular file"), "{fifo}");
    }
}

#[test]
fn what_is_no_archive_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Archive::open(dir.path()), Err(ReportError::NotAnArchive { .. })));
    let missing = dir.path().join("missing");
    assert!(matches!(Archive::open(&missing), Err(ReportError::Read { .. })));
    fs::write(dir.path().join(MANIFEST), r#"{"schema":"plimsoll.archive/9"}"#).unwrap();
    assert!(matches!(Archive::open(dir.path()), Err(ReportError::ArchiveSchema { .. })));
    let newer = r#"{"schema":"plimsoll.archive/9","plimsoll_version":"7.1.0"}"#;
    fs::write(dir.path().join(MANIFEST), newer).unwrap();
    let error = Archive::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("plimsoll.archive/9") && error.contains("plimsoll 7.1.0"), "{error}");
    let error = Archive::open(&dir.path().join(MANIFEST)).unwrap_err().to_string();
    assert!(error.contains("manifest.json is a file"), "{error}");
    fs::write(dir.path().join(MANIFEST), r#"{"schema":"plimsoll.arch"#).unwrap();
    let error = Archive::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("manifest.json:1: damaged"), "{error}");
}

#[test]
fn records_of_a_newer_version_are_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [fixtures::tally(1_000, 900, 1)];
    write_load(dir.path(), &parts).finish(&summary_of(&parts)).unwrap();
    let path = dir.path().join(EVENTS);
    let text = fs::read_to_string(&path).unwrap();
    let newer = "{\"moon-phase\":{\"full\":true}}\n\"eclipse\"\n{\"hold-step\":\"waltz\"}\n";
    fs::write(&path, format!("{newer}{text}")).unwrap();
    let archive = Archive::open(dir.path()).unwrap();
    assert_eq!(archive.events.len(), text.lines().count());
    let line = archive.newer_records().unwrap();
    assert!(line.starts_with("written by plimsoll 0.1.0: 3 records are newer"), "{line}");
    let (drawn, _) = redrawn(dir.path(), Style::default());
    assert!(drawn.ends_with(&format!("WARNING: {line}\n")), "{drawn}");
    // What is known and does not fit is damage, not news.
    fs::write(&path, "{\"note\":7}\n").unwrap();
    let error = Archive::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("events.jsonl:1: damaged"), "{error}");
}

#[test]
fn nothing_is_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let fresh = dir.path().join("a/b");
    drop(ArchiveWriter::create(&fresh, &manifest(false)).unwrap());
    let again = ArchiveWriter::create(&fresh, &manifest(false));
    assert!(matches!(again, Err(ReportError::NotEmpty { .. })));
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert!(ArchiveWriter::create(&file, &manifest(false)).is_err());
}

#[test]
fn a_vanished_directory_is_one_error_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let parts = [fixtures::tally(10, 900, 1)];
    let mut writer = write_load(&path, &parts);
    fs::remove_dir_all(&path).unwrap();
    writer.handle_event(&interval(1, &parts[0])).unwrap();
    let error = writer.finish(&summary_of(&parts)).unwrap_err().to_string();
    assert!(error.contains("summary.json"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_error() {
    let dir = tempfile::tempdir().unwrap();
    let parts = [fixtures::tally(10, 900, 1)];
    let mut writer = write_load(dir.path(), &parts);
    // Linux's device that is always full stands in for the disk.
    writer.replace_intervals_for_test(Path::new("/dev/full"));
    let error = writer.handle_event(&interval(1, &parts[0])).unwrap_err().to_string();
    assert!(error.contains("cannot write"), "{error}");
    writer.handle_event(&interval(2, &parts[0])).unwrap();
    writer.finish(&summary_of(&parts)).unwrap();
    let archive = Archive::open(dir.path()).unwrap();
    assert_eq!(archive.intervals().unwrap().count(), 1);
}

fn any_tally() -> impl Strategy<Value = Tally> {
    let counts = prop::array::uniform6(0u64..1_000_000);
    let spans = prop::collection::vec(0u64..4_000_000_000_000, 0..20);
    let statuses = prop::collection::btree_map(100u16..600, 1u64..1_000, 0..4);
    let classes = prop::collection::vec((0..ErrorClass::COUNT, 1u64..1_000), 0..4);
    (counts, spans, statuses, classes, any::<f64>(), prop::collection::vec(any::<u32>(), 0..12))
        .prop_map(|(counts, spans, statuses, classes, share, outstanding)| {
            let [ok, late, unsent, bytes, opened, cpu] = counts;
            let mut tally = Tally { ok, late, unsent, outstanding, ..Tally::default() };
            for span in spans {
                tally.spans.corrected.record(Nanos(span));
                tally.spans.send_lag.record(Nanos(span / 1_000));
            }
            statuses.into_iter().for_each(|(code, count)| tally.answers.status.add(code, count));
            for (class, count) in classes {
                tally.failures.operations.add(ErrorClass::ALL[class], count);
                tally.failures.attempts.add(ErrorClass::ALL[class], count);
            }
            tally.scheduled = ok + unsent + tally.errors_total();
            tally.bytes.sent = bytes;
            tally.connections.opened = opened;
            tally.generator.cpu_user = Nanos(cpu);
            tally.generator.busiest_thread = if share.is_finite() { share } else { 0.0 };
            tally
        })
}

proptest! {
    // Each case writes and reads about a megabyte of histograms per second of load.
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_was_written_is_read_back(
        parts in prop::collection::vec(any_tally(), 1..4),
        notes in prop::collection::vec(".{0,40}", 0..3),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = write_load(dir.path(), &parts);
        let notes: Vec<_> = notes.into_iter().map(Event::Note).collect();
        for note in &notes {
            writer.handle_event(note).unwrap();
        }
        let summary = summary_of(&parts);
        writer.finish(&summary).unwrap();

        let archive = Archive::open(dir.path()).unwrap();
        prop_assert_eq!(&archive.manifest, &manifest(false));
        prop_assert_eq!(archive.summary.as_ref(), Some(&summary));
        prop_assert_eq!(&archive.events[2..], notes);
        let read: Vec<_> =
            archive.intervals().unwrap().map(|line| line.unwrap().interval.tally).collect();
        prop_assert_eq!(read, parts);
        let (_, redrawn) = redrawn(dir.path(), Style::default());
        prop_assert_eq!(redrawn.disagreements, Vec::<String>::new());
    }

    #[test]
    fn an_archive_cut_anywhere_still_opens(cut in 0.0f64..1.0) {
        let dir = tempfile::tempdir().unwrap();
        let parts = [fixtures::tally(100, 900, 1), fixtures::tally(110, 950, 1)];
        drop(write_load(dir.path(), &parts));
        let path = dir.path().join(INTERVALS);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..(text.len() as f64 * cut) as usize]).unwrap();
        let summary = Archive::open(dir.path()).unwrap().rebuild_summary().unwrap();
        prop_assert!([0, 100, 210].contains(&summary.operations.scheduled));
    }
}
