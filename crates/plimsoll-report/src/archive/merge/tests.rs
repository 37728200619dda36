//! Merged runs: nothing is lost or counted twice, and what is not one load is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use plimsoll_model::host::Reading;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::result::RunResult;
use plimsoll_model::settings::RateStep;
use plimsoll_model::summary::FullQuantiles;
use proptest::prelude::*;

use super::*;
use crate::archive::{HostWriter, read_hosts};
use crate::{fixtures, settings};

const BEGAN: u64 = 1_795_227_330_000_000_000;

/// A run of `load` on a machine that booted `boot_s` before, whose load began at `began_ns` after [`BEGAN`].
struct Machine<'a> {
    name: &'a str,
    boot_s: u64,
    began_ns: u64,
    plan: LoadPlan,
}

impl Machine<'_> {
    fn new(name: &str) -> Machine<'_> {
        let boot_s = 1_000 * name.bytes().map(u64::from).sum::<u64>();
        Machine { name, boot_s, began_ns: 0, plan: fixtures::plan() }
    }

    fn write(&self, root: &Path, seconds: &[Tally]) -> PathBuf {
        let dir = root.join(self.name);
        let clock = ClockPair { monotonic: Nanos::from_secs(self.boot_s), unix_ns: BEGAN - 7 };
        let manifest = Manifest {
            clock,
            settings: Settings {
                rate: vec![RateStep { per_s: 1_000.0, within_s: 0.0 }],
                ..fixtures::settings(&self.plan)
            },
            ..fixtures::manifest_of(&self.plan, false)
        };
        let mut writer = ArchiveWriter::create(&dir, &manifest).unwrap();
        let epoch = Nanos(clock.monotonic.0 + 7 + self.began_ns);
        let planned = Some(Nanos::from_secs(seconds.len() as u64));
        writer.handle_event(&Event::LoadStarted { trial: None, planned, epoch }).unwrap();
        for (second, tally) in (0..).zip(seconds) {
            let interval = Interval { second, tally: tally.clone() };
            writer.handle_event(&Event::Interval(Box::new(interval))).unwrap();
        }
        let reading =
            Reading { begin: clock.monotonic, end: clock.monotonic, ..Reading::default() };
        HostWriter::create(&dir).unwrap().push("vm", &reading).unwrap();
        let summary = Summary::new(head(self.name, seconds.len()), &whole(seconds));
        writer.finish(&summary).unwrap();
        dir
    }
}

fn head(run: &str, seconds: usize) -> SummaryHead {
    SummaryHead {
        command: "load".to_owned(),
        target: "https://127.0.0.1:8443/".to_owned(),
        started_at: "2026-11-21T02:15:30Z".to_owned(),
        window: Nanos::from_secs(seconds as u64),
        partial: false,
        settings: Settings::default(),
        verdict: Verdict::Good,
        reasons: Vec::new(),
        result: RunResult::Load,
        archive: Some(run.to_owned()),
    }
}

fn whole(seconds: &[Tally]) -> Tally {
    let mut whole = Tally::default();
    seconds.iter().for_each(|second| whole.merge_following(second));
    whole
}

fn good(_: &Tally, _: Nanos) -> Judgement {
    Judgement::of(Vec::new(), 0.0)
}

fn merged(dirs: &[PathBuf], out: &Path) -> Result<Summary> {
    let archives: Vec<_> = dirs.iter().map(|dir| Archive::open(dir).unwrap()).collect();
    Merge::of(&archives)?.write(out, &good)
}

fn refusal(dirs: &[PathBuf]) -> String {
    let out = dirs[0].with_file_name("out");
    let error = merged(dirs, &out).unwrap_err().to_string();
    assert!(!out.exists());
    assert_eq!(error.lines().count(), 1);
    error
}

fn tallies(spans_us: &[Vec<u64>]) -> Vec<Tally> {
    let second = |spans: &Vec<u64>| {
        let mut tally = Tally::default();
        for us in spans {
            tally.scheduled += 1;
            tally.ok += 1;
            tally.answers.status.add(200, 1);
            tally.spans.corrected.record(Nanos(us * 1_000));
            tally.spans.uncorrected.record(Nanos(us * 700));
        }
        tally
    };
    spans_us.iter().map(second).collect()
}

#[test]
fn a_run_whose_seconds_are_missing_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let seconds = tallies(&[vec![1_000; 5], vec![2_000; 5]]);
    let dirs = ["a", "b"].map(|name| Machine::new(name).write(root.path(), &seconds));
    fs::write(dirs[1].join("intervals.jsonl"), "").unwrap();
    let error = refusal(&dirs);
    let why = "b disagrees with itself: scheduled is 10 in the summary, 0 in the intervals";
    assert!(error.ends_with(why), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is split into the runs of three machines is what their merged run holds, in any order and grouping.
    #[test]
    fn splitting_and_merging_changes_nothing(
        operations in prop::collection::vec(
            prop::collection::vec((0_usize..3, 1_u64..5_000_000), 0..40), 1..5),
        order in Just(vec![0_usize, 1, 2]).prop_shuffle(),
    ) {
        let root = tempfile::tempdir().unwrap();
        let all: Vec<Vec<u64>> =
            operations.iter().map(|ops| ops.iter().map(|op| op.1).collect()).collect();
        let dirs: Vec<_> = (0..3).map(|machine| {
            let own: Vec<Vec<u64>> = operations.iter()
                .map(|ops| ops.iter().filter(|op| op.0 == machine).map(|op| op.1).collect())
                .collect();
            let name = format!("m{machine}");
            Machine::new(&name).write(root.path(), &tallies(&own))
        }).collect();
        let [a, b, c] = [0, 1, 2].map(|at| dirs[order[at]].clone());
        let at_once = merged(&[a.clone(), b.clone(), c.clone()], &root.path().join("all")).unwrap();
        merged(&[a, b], &root.path().join("two")).unwrap();
        let in_turn = merged(&[root.path().join("two"), c], &root.path().join("turn")).unwrap();
        let recorded = whole(&tallies(&all));
        for (summary, dir) in [(&at_once, "all"), (&in_turn, "turn")] {
            prop_assert_eq!(summary.operations.scheduled, recorded.scheduled);
            prop_assert_eq!(&summary.answers.status.values().sum::<u64>(), &recorded.ok);
            prop_assert_eq!(summary.operations.latency_ms.corrected, FullQuantiles::from(&recorded.spans.corrected));
            prop_assert_eq!(summary.operations.latency_ms.uncorrected, FullQuantiles::from(&recorded.spans.uncorrected));
            let archive = Archive::open(&root.path().join(dir)).unwrap();
            let seconds: Vec<_> = archive.intervals().unwrap().map(|line| line.unwrap().interval.tally).collect();
            prop_assert_eq!(whole(&seconds).spans, recorded.spans.clone());
            prop_assert_eq!(archive.manifest.merged_from.len(), 3);
            prop_assert_eq!(archive.summary.as_ref(), Some(summary));
        }
    }
}

#[test]
fn rates_and_shares_are_added() {
    let root = tempfile::tempdir().unwrap();
    let seconds = [fixtures::tally(1_000, 900, 1), fixtures::tally(1_000, 900, 1)];
    let dirs = ["a", "b"].map(|name| {
        let began_ns = if name == "b" { 30_000_000 } else { 0 };
        Machine { began_ns, ..Machine::new(name) }.write(root.path(), &seconds)
    });
    let summary = merged(&dirs, &root.path().join("out")).unwrap();
    assert_eq!((summary.seconds, summary.operations.rate.offered_per_s), (2.0, 2_000.0));
    let archive = Archive::open(&root.path().join("out")).unwrap();
    assert_eq!(archive.manifest.merged_from[1].offset_s, 0.03);
    let all = &archive.manifest.settings;
    let rows = settings::rows(all);
    let (one, other) = rows["connections"].split_once(" + ").expect("two shares");
    assert_eq!(one, other);
    let connections = |settings: &Settings| settings.load.as_ref().expect("a load").connections;
    assert_eq!(connections(all), 2 * connections(&all.parts[0]));
    assert_eq!((all.rate[0].per_s, rows["rate"].as_str()), (2_000.0, "1000/s + 1000/s"));
    let notes = format!("{:?}", archive.events);
    assert!(notes.contains("merged: b, 2,000 operations, began 0.030 s after"), "{notes}");
    assert!(notes.contains("the same seed"), "{notes}");
    let (text, _) = crate::redraw(&archive, &|_| None, crate::Style::default()).unwrap();
    assert!(!text.contains("disagrees"), "{text}");
}

#[test]
fn hosts_stay_hosts() {
    let root = tempfile::tempdir().unwrap();
    let seconds = [fixtures::tally(1_000, 900, 1)];
    let dirs = ["a", "b"].map(|name| Machine::new(name).write(root.path(), &seconds));
    let out = root.path().join("out");
    merged(&dirs, &out).unwrap();
    let hosts = read_hosts(&out).unwrap();
    // Two machines of one name, and what they did at one instant is at one instant.
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["vm", "vm-2"]);
    assert_eq!(hosts["vm"], hosts["vm-2"]);

    // One machine made two runs: it is there once.
    let twin = Machine { boot_s: Machine::new("a").boot_s, ..Machine::new("c") };
    let twin = Machine { plan: LoadPlan { seed: 9, ..fixtures::plan() }, ..twin };
    let mut dirs = vec![dirs[0].clone()];
    let dir = twin.write(root.path(), &seconds);
    let manifest = fs::read_to_string(dir.join("manifest.json")).unwrap();
    let later = manifest.replace("1795227329999999993", "1795227329999999994");
    assert_ne!(manifest, later);
    fs::write(dir.join("manifest.json"), later).unwrap();
    dirs.push(dir);
    let out = root.path().join("same-host");
    merged(&dirs, &out).unwrap();
    assert_eq!(read_hosts(&out).unwrap().len(), 1);
    let events = fs::read_to_string(out.join("events.jsonl")).unwrap();
    assert!(events.contains("vm is the host of a and of c"), "{events}");
}

#[test]
fn what_is_not_one_load_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let seconds = [fixtures::tally(1_000, 900, 1), fixtures::tally(1_000, 900, 1)];
    let a = Machine::new("a").write(root.path(), &seconds);
    let copy = root.path().join("copy");
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(&a).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    assert!(refusal(&[a.clone(), copy]).ends_with("copy hold the same run"));

    let late = Machine { began_ns: 1_000_000_000, ..Machine::new("late") };
    let error = refusal(&[a.clone(), late.write(root.path(), &seconds)]);
    assert!(error.contains("together for 1.0 s of 2.0 s"), "{error}");

    let mut other = Machine::new("other");
    other.plan.targets[0].url.path = "/other".to_owned();
    let error = refusal(&[a.clone(), other.write(root.path(), &seconds)]);
    assert!(error.contains("plan.targets[0].url is") && error.contains("/other"), "{error}");

    // Of which each machine has its own.
    let mut own = Machine::new("own");
    own.plan = LoadPlan { seed: 7, connections: 3, threads: 9, ..own.plan };
    let dir = own.write(root.path(), &seconds);
    merged(&[a, dir], &root.path().join("fine")).unwrap();
}

#[test]
fn an_invalid_or_killed_part_makes_the_whole_invalid() {
    let root = tempfile::tempdir().unwrap();
    let seconds = [fixtures::tally(1_000, 900, 1)];
    let dirs = ["a", "b"].map(|name| Machine::new(name).write(root.path(), &seconds));
    fs::remove_file(dirs[1].join("summary.json")).unwrap();
    let summary = merged(&dirs, &root.path().join("out")).unwrap();
    assert_eq!((summary.verdict, summary.partial), (Verdict::Invalid, true));
    assert_eq!(summary.reasons[0].id, CheckId::RunComplete);
    assert_eq!(summary.operations.scheduled, 2_000);
}

#[test]
fn nothing_is_left_of_a_merge_that_fails() {
    let root = tempfile::tempdir().unwrap();
    let seconds = [fixtures::tally(1_000, 900, 1)];
    let dirs = ["a", "b"].map(|name| Machine::new(name).write(root.path(), &seconds));
    let path = dirs[1].join("hosts.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(path, format!("{text}nonsense\n")).unwrap();
    let error = refusal(&dirs);
    assert!(error.contains("hosts.jsonl:2: damaged"), "{error}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2);
    fs::create_dir(root.path().join("out")).unwrap();
    fs::write(root.path().join("out/x"), "").unwrap();
    assert!(matches!(merged(&dirs, &root.path().join("out")), Err(ReportError::NotEmpty { .. })));
}

#[test]
fn a_merge_takes_no_directory_that_was_there_and_is_for_its_owner_alone() {
    let root = tempfile::tempdir().unwrap();
    let seconds = [fixtures::tally(1_000, 900, 1)];
    let dirs = ["a", "b"].map(|name| Machine::new(name).write(root.path(), &seconds));
    let planted = root.path().join("out.part");
    fs::create_dir(&planted).unwrap();
    fs::write(planted.join("theirs"), "kept").unwrap();
    let out = root.path().join("out");
    merged(&dirs, &out).unwrap();
    assert_eq!(fs::read_to_string(planted.join("theirs")).unwrap(), "kept");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&out), 0o700);
    for entry in fs::read_dir(&out).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}
