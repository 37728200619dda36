//! Whether hidden timers are found, at the right value and with the right owner: timers of 3 to
//! 120 s placed in plimsoll's own flags, in a real HAProxy, and in what stands behind it. All loads
//! run at once: they wait, and need next to no CPU.

mod mute;
mod proxy;

use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::Bench;
use crate::bench::claim::Claim;
use crate::bench::page::Section;
use crate::bench::process::Guarded;
use proxy::Servers;

/// The timers, in seconds.
const TIMERS_S: [u32; 5] = [3, 17, 30, 60, 120];
/// How exactly each must be found.
const EXACT: f64 = 0.02;
/// Beyond its timer, what a run may take: its load, its trials, its end.
const SPARE: Duration = Duration::from_secs(90);

/// Where a timer is, and how it is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// `--linger`, met by a load.
    Client,
    /// HAProxy's `timeout server`, met by a load.
    Haproxy,
    /// The backend closes, met by a load.
    Backend,
    /// HAProxy's `timeout http-keep-alive`, met by the timeout probe.
    HaproxyProbed,
    /// `plimsoll serve --request-timeout`, behind HAProxy, met by the timeout probe.
    BackendProbed,
}

impl Place {
    const ALL: [Self; 5] =
        [Self::Client, Self::Haproxy, Self::Backend, Self::HaproxyProbed, Self::BackendProbed];

    const fn name(self) -> &'static str {
        match self {
            Self::Client => "plimsoll's own --linger, in a load",
            Self::Haproxy => "HAProxy timeout server, in a load",
            Self::Backend => "a backend that closes, in a load",
            Self::HaproxyProbed => "HAProxy timeout http-keep-alive, by the probe",
            Self::BackendProbed => "the backend's --request-timeout, by the probe",
        }
    }

    const fn owner(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Haproxy | Self::HaproxyProbed => "sut",
            Self::Backend | Self::BackendProbed => "backend",
        }
    }

    /// Where the summary has it: the list, and its entry by one field.
    const fn entry(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Client => ("cliffs", "closer", "own-timer"),
            Self::Haproxy => ("cliffs", "closer", "status-504"),
            Self::Backend => ("cliffs", "closer", "status-502"),
            Self::HaproxyProbed => ("timers", "kind", "answered"),
            Self::BackendProbed => ("timers", "kind", "half-body"),
        }
    }
}

/// One run of plimsoll, which looks for the timers of some places.
struct Run {
    places: &'static [Place],
    timer_s: u32,
    words: String,
}

/// A timer that was looked for.
#[derive(Debug)]
struct Found {
    place: Place,
    timer_s: u32,
    at_s: Option<f64>,
    owner: String,
    others: usize,
}

impl Found {
    fn is_right(&self) -> bool {
        let near = |at: f64| (at / f64::from(self.timer_s) - 1.0).abs() <= EXACT;
        self.at_s.is_some_and(near) && self.owner == self.place.owner() && self.others == 0
    }
}

/// Measures all timers up to `--seconds` (default: all) and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let longest_s = bench.settings.seconds_or(TIMERS_S[TIMERS_S.len() - 1]);
    let timers: Vec<u32> = TIMERS_S.into_iter().filter(|timer| *timer <= longest_s).collect();
    section.method = method();
    let folder = bench.scratch.join("cliffs");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let servers = Servers::start(&bench.tools.plimsoll, &folder, &timers)?;
    let runs: Vec<Run> = timers.iter().flat_map(|timer| runs(*timer, &servers)).collect();
    println!("cliffs: {} runs at once, the longest for {longest_s} s and more", runs.len());
    let outcomes = thread::scope(|scope| {
        let plimsoll = &bench.tools.plimsoll;
        let folder = &folder;
        let start = |(index, run)| {
            let folder = folder.join(format!("run-{index}"));
            scope.spawn(move || self::run(plimsoll, &folder, run))
        };
        let threads: Vec<_> = runs.iter().enumerate().map(start).collect();
        let ended = threads.into_iter().map(thread::ScopedJoinHandle::join);
        ended.map(|outcome| outcome.unwrap_or_else(|_| bail!("panicked"))).collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for (run, outcome) in runs.iter().zip(outcomes) {
        section.note_command(format!("plimsoll {}", run.words));
        match outcome {
            Ok(summary) => all.extend(run.places.iter().map(|place| found(*place, run, &summary))),
            Err(error) => section.fail(format!("plimsoll {}: {error:#}", run.words)),
        }
    }
    section.claims.extend(Place::ALL.map(|place| claim(place, &timers, &all)));
    section.figures = figures(&all);
    Ok(())
}

/// Loads of 40 operations that no server answers in time, and a search beside its probe.
fn runs(timer_s: u32, servers: &Servers) -> Vec<Run> {
    let load = |url: &str, rest: String| format!("load {url} -r 10 -d 4s -c 50 -t 1 {rest}");
    let sleep = "-H sleep-fixed:600000";
    let load_run = |places, words| Run { places, timer_s, words };
    vec![
        load_run(&[Place::Client], load(&servers.sleeper, format!("{sleep} --linger {timer_s}s"))),
        load_run(
            &[Place::Haproxy],
            load(&servers.impatient(timer_s), format!("{sleep} --linger 200s")),
        ),
        load_run(&[Place::Backend], load(&servers.muted(timer_s), "--linger 200s".to_owned())),
        load_run(
            &[Place::HaproxyProbed, Place::BackendProbed],
            format!(
                "find rate {} --mode quick --min 20 --max 40 -c 4 -t 1 --slo p99<5s,errors<50% \
                 --probe-timeouts {}s --out run",
                servers.probed(timer_s),
                timer_s + timer_s / 10 + 1
            ),
        ),
    ]
}

/// One run to its end; its summary.
fn run(plimsoll: &Path, folder: &Path, run: &Run) -> Result<Value> {
    // An archive is a new folder; that none was there is no error.
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    let output = File::create(folder.join("output.txt"))?;
    let mut command = Command::new(plimsoll);
    command.args(run.words.split(' ')).args(["--no-ui", "--json", "summary.json"]);
    command.current_dir(folder).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output);
    let mut process = Guarded::start(&mut command)?;
    let limit = Duration::from_secs(run.timer_s.into()) + SPARE;
    if process.wait_until(Instant::now() + limit)?.is_none() {
        bail!("not done after {limit:?}, and killed");
    }
    // Bad verdicts are results; only a run without a summary is an error.
    let summary = fs::read_to_string(folder.join("summary.json")).context("no summary")?;
    Ok(serde_json::from_str(&summary)?)
}

fn found(place: Place, run: &Run, summary: &Value) -> Found {
    let (list, field, value) = place.entry();
    let entries = summary[list].as_array().map(Vec::as_slice).unwrap_or_default();
    let entry = entries.iter().find(|entry| entry[field] == value);
    let at_ms = entry.and_then(|entry| {
        entry.get("at_ms").or_else(|| entry.get("after_ms")).and_then(Value::as_f64)
    });
    let owner = entry.and_then(|entry| entry["owner"].as_str()).unwrap_or("none");
    // A load has met one timer, and shows no other.
    let others = if list == "cliffs" { entries.len() - usize::from(entry.is_some()) } else { 0 };
    Found {
        place,
        timer_s: run.timer_s,
        at_s: at_ms.map(|ms| ms / 1e3),
        owner: owner.to_owned(),
        others,
    }
}

fn claim(place: Place, timers: &[u32], all: &[Found]) -> Claim {
    let texts: Vec<String> = timers.iter().map(u32::to_string).collect();
    let what = format!("{}: timers of {} s", place.name(), texts.join(", "));
    let aim = format!("each within 2 %, ascribed to {}, and no other", place.owner());
    let here: Vec<_> = all.iter().filter(|found| found.place == place).collect();
    if here.is_empty() {
        return Claim::not_measured(what, aim, "no figures");
    }
    let right = here.iter().filter(|found| found.is_right()).count();
    Claim::new(what, aim, format!("{right} of {}", timers.len()), right == timers.len())
}

fn figures(all: &[Found]) -> String {
    let mut text = String::from(
        "| where | timer, s | found, s | off, % | ascribed to | others found |\n\
         |---|---|---|---|---|---|\n",
    );
    for Found { place, timer_s, at_s, owner, others } in all {
        let at = at_s.map_or_else(|| "-".to_owned(), |at| format!("{at:.3}"));
        let off = |at: f64| format!("{:+.2}", (at / f64::from(*timer_s) - 1.0) * 100.0);
        let off = at_s.map_or_else(|| "-".to_owned(), off);
        let name = place.name();
        let _ = writeln!(text, "| {name} | {timer_s} | {at} | {off} | {owner} | {others} |");
    }
    text
}

fn method() -> String {
    "Each timer has a run of its own, all at the same time. A load starts 40 operations in 4 s, none \
     of which is\nanswered in time; a search has its timeout probe. plimsoll is told nothing of \
     HAProxy and its backends: `load`\nand `find` are given a URL. The backend that closes is a \
     server of another make.\n"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::bench::claim::Outcome;

    use super::*;

    #[test]
    fn a_timer_must_be_near_ascribed_and_alone() {
        let run = Run { places: &[Place::Haproxy], timer_s: 30, words: String::new() };
        let cliff = |at_ms: f64, owner: &str, closer: &str| json!({"at_ms": at_ms, "owner": owner, "closer": closer});
        for (cliffs, right) in [
            (json!([cliff(30_200.0, "sut", "status-504")]), true),
            (json!([cliff(30_700.0, "sut", "status-504")]), false), // 2.3 % off
            (json!([cliff(30_000.0, "backend", "status-504")]), false),
            (json!([cliff(30_000.0, "sut", "status-502")]), false),
            (json!([]), false),
            (json!([cliff(30_000.0, "sut", "status-504"), cliff(9.0, "sut", "peer-fin")]), false),
        ] {
            let found = [found(Place::Haproxy, &run, &json!({"cliffs": cliffs}))];
            let claim = claim(Place::Haproxy, &[30], &found);
            assert_eq!(claim.outcome == Outcome::Reached, right, "{found:?}");
        }
        let missing = claim(Place::Client, &[30], &[]);
        assert_eq!(missing.outcome, Outcome::NotMeasured);
    }
}
