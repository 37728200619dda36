//! Archives of real runs, one of each command and as short as it can be, for whatever reads archives. Longer
//! and stranger ones are made of these: `stretched`.
//!
//! The results of these runs do not matter here, nor whether the machine was quiet enough for them.

mod stretched;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::plimsoll::{Finished, Plimsoll};
use crate::serve::Serve;
use crate::summary::Summary;
use crate::wait;

pub use stretched::HOSTILE;

/// The archive of a run.
#[derive(Debug)]
pub struct Run {
    /// Name of the example.
    pub name: &'static str,
    folder: TempDir,
}

impl Run {
    /// Creates a copy of an archive.
    pub fn of(name: &'static str, archive: &Path) -> Self {
        let run = Self::empty(name);
        copy(archive, &run.archive());
        run
    }

    /// Copies the archive to a folder, which it makes.
    pub fn copy_to(&self, folder: &Path) {
        fs::create_dir_all(folder).expect("the folder can be made");
        copy(&self.archive(), folder);
    }

    fn empty(name: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let run = Self { name, folder };
        fs::create_dir(run.archive()).expect("an own folder is writable");
        run
    }

    /// Returns the archive that a run left as `run` in its folder.
    pub fn of_finished(name: &'static str, finished: &Finished) -> Self {
        let archive = finished.folder().join("run");
        assert!(archive.join("manifest.json").is_file(), "{name}: {finished:?}");
        Self::of(name, &archive)
    }

    /// Returns the archive's folder.
    pub fn archive(&self) -> PathBuf {
        self.folder.path().join("run")
    }

    /// Writes its report as a file, by this name.
    pub fn html(&self, name: &str) -> PathBuf {
        self.html_with(&[], name)
    }

    /// Returns the report of it and others, laid over each other.
    pub fn html_with(&self, others: &[&Self], name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let archives = [self].into_iter().chain(others.iter().copied()).map(Self::archive);
        let words: Vec<_> = archives.chain(["--html".into(), path.clone()]).collect();
        let words = words.iter().map(|word| word.to_str().expect("a plain name"));
        let drawn = Plimsoll::new(["report"].into_iter().chain(words)).run();
        assert_eq!(drawn.code, Some(0), "{}: {}", self.name, drawn.stderr);
        path
    }

    /// Returns its report as text.
    pub fn report(&self) -> String {
        let archive = self.archive();
        Plimsoll::new(["report", archive.to_str().expect("a plain name")]).run().stdout
    }

    /// Returns its summary, which is rebuilt from the archive if the run was killed.
    pub fn summary(&self) -> Summary {
        let archive = self.archive();
        let archive = archive.to_str().expect("a plain name");
        Summary::parse(&Plimsoll::new(["report", archive, "--json", "-"]).run().stdout)
    }

    /// Returns its trials as the archive has them.
    pub fn trials(&self) -> Vec<Value> {
        self.lines("trials.jsonl")
    }

    fn lines(&self, file: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.archive().join(file)).expect("the archive is whole");
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}

fn copy(archive: &Path, to: &Path) {
    for entry in fs::read_dir(archive).expect("the run has an archive") {
        let entry = entry.expect("a readable folder");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("disk space");
    }
}

/// One run of each command and axis, and some that failed or were cut off, made at the same time.
pub fn each() -> Vec<Run> {
    let make: [fn() -> Run; 10] = [
        load,
        failing,
        killed,
        find_rate,
        find_handshakes,
        find_connections,
        without_trials,
        hold,
        compare,
        rfc9411,
    ];
    thread::scope(|scope| {
        let making: Vec<_> = make.into_iter().map(|make| scope.spawn(make)).collect();
        making.into_iter().map(|made| made.join().expect("a run is made")).collect()
    })
}

fn run(name: &'static str, arguments: &[&str], flags: &[&str]) -> Run {
    let own = ["--out", "run", "--no-ui"];
    Run::of_finished(name, &Plimsoll::new([arguments, &own, flags].concat()).run())
}

/// `load`, three seconds of it.
pub fn load() -> Run {
    let serve = Serve::plain();
    let flags = ["--rate", "300", "-d", "3s", "-H", "sleep-fixed: 2", "--slo", "p99<1s,errors<1%"];
    run("load", &["load", serve.url()], &flags)
}

/// A `load` whose operations all fail.
fn failing() -> Run {
    // No server listens on port 1.
    run("failing", &["load", "http://127.0.0.1:1/"], &["--rate", "100", "-d", "2s"])
}

/// A `load` that was cut off by `kill -9`.
fn killed() -> Run {
    let serve = Serve::plain();
    let flags = ["load", serve.url(), "--rate", "200", "-d", "10m", "--out", "run", "--no-ui"];
    killed_once("killed", Plimsoll::new(flags), "intervals.jsonl", 3)
}

/// A search that was cut off in its first trial.
fn without_trials() -> Run {
    let serve = Serve::plain();
    let flags = ["find", "rate", serve.url(), "--out", "run", "--no-ui"];
    killed_once("without-trials", Plimsoll::new(flags), "intervals.jsonl", 1)
}

/// Makes a run that is killed once a file of its archive has `lines` lines.
fn killed_once(name: &'static str, plimsoll: Plimsoll, file: &str, lines: usize) -> Run {
    let running = plimsoll.start();
    let path = running.folder().join("run").join(file);
    wait::until("the run's records", || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        (text.matches('\n').count() >= lines).then_some(())
    });
    running.signal("KILL");
    Run::of_finished(name, &running.finish())
}

/// A search for the rate whose every load is met.
pub fn find_rate() -> Run {
    let serve = Serve::plain();
    let flags = ["--min", "200", "--max", "400", "--slo", "p99<500ms,errors<1%", "--mode", "quick"];
    run("find-rate", &["find", "rate", serve.url()], &flags)
}

/// A search for the rate of handshakes whose every load is met.
fn find_handshakes() -> Run {
    let serve = Serve::start(&["--https", "127.0.0.1:0"], 1);
    let flags =
        ["-k", "--mode", "quick", "--min", "20", "--max", "40", "--slo", "p99<2s,errors<1%"];
    run("find-handshakes", &["find", "handshakes", serve.url()], &flags)
}

/// A search for held connections.
fn find_connections() -> Run {
    let serve = Serve::plain();
    let goals = ["--slo", "p99<1s,errors<0.1%", "--mode", "quick", "--max", "600"];
    let waits = ["--linger", "1s", "--for", "1s", "--rate", "1k"];
    run("find-connections", &["find", "connections", serve.url()], &[&goals[..], &waits].concat())
}

/// A `hold` of 300 connections.
fn hold() -> Run {
    let serve = Serve::plain();
    let flags = ["-c", "300", "--rate", "2k", "--for", "1s", "--heartbeat", "1s"];
    run("hold", &["hold", serve.url()], &flags)
}

/// A comparison of two servers, one of which sleeps twice as long.
fn compare() -> Run {
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--http", "127.0.0.1:0"], 2);
    let sleeping = |url: &str, ms: u32| format!("{url} -H 'sleep-fixed: {ms}'");
    let (a, b) = (sleeping(&serve.urls[0], 10), sleeping(&serve.urls[1], 20));
    let load = ["--", "--rate", "100", "--duration", "300ms", "--slo", "errors<1%"];
    run("compare", &["compare", &a, &b, "--rounds", "8"], &load)
}

/// A case of RFC 9411 with two objects.
fn rfc9411() -> Run {
    let flags = ["--sut", "embedded", "--target", "60", "--object-size", "1KB,16KB"];
    run("rfc9411", &["lab", "rfc9411", "--case", "7.2", "--sustain", "2s"], &flags)
}
