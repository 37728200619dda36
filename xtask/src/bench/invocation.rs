//! One run of plimsoll that leaves a summary: how it is called, waited for and read.

use std::fs;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::process::Guarded;
use crate::bench::{Bench, process};

const SUMMARY: &str = "summary.json";
/// What plimsoll said, kept for the case that it fails.
const OUTPUT: &str = "output.txt";
/// So many of its last lines.
const LINES_KEPT: usize = 3;

/// A command line.
pub(crate) struct Invocation {
    arguments: Vec<String>,
    cpu: Option<u32>,
}

impl Invocation {
    /// `plimsoll WORDS`, where words are separated by single blanks. On `cpu`, if one is given.
    pub(crate) fn new(words: &str, cpu: Option<u32>) -> Self {
        Self { arguments: words.split(' ').map(str::to_owned).collect(), cpu }
    }

    /// Adds one argument that may hold blanks.
    pub(crate) fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// The command as a reader would type it.
    pub(crate) fn shown(&self) -> String {
        let pin = self.cpu.map(|cpu| format!("taskset -c {cpu} ")).unwrap_or_default();
        let quoted = self.arguments.iter().map(|argument| {
            if argument.contains(' ') { format!("'{argument}'") } else { argument.clone() }
        });
        let quoted: Vec<String> = quoted.collect();
        format!("{pin}plimsoll {} --no-ui --json {SUMMARY}", quoted.join(" "))
    }

    /// Starts it. It is killed when it takes longer than `limit`.
    pub(crate) fn start(&self, bench: &Bench, limit: Duration) -> Result<Running> {
        let folder = bench.scratch.clone();
        // A summary of an earlier run must not pass for this one's.
        let _ = fs::remove_file(folder.join(SUMMARY));
        let output = File::create(folder.join(OUTPUT)).context(OUTPUT)?;
        let plimsoll = &bench.tools.plimsoll;
        let mut command = match self.cpu {
            Some(cpu) => process::pinned(cpu, plimsoll),
            None => Command::new(plimsoll),
        };
        command.args(&self.arguments).args(["--no-ui", "--json", SUMMARY]);
        command.current_dir(&folder).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        let began = Instant::now();
        let process = Guarded::start(&mut command)?;
        Ok(Running { process, began, limit, folder, shown: self.shown() })
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, bench: &Bench, limit: Duration) -> Result<Finished> {
        self.start(bench, limit)?.finish()
    }
}

/// It runs.
pub(crate) struct Running {
    pub(crate) process: Guarded,
    began: Instant,
    limit: Duration,
    folder: PathBuf,
    shown: String,
}

impl Running {
    /// Its summary. Bad verdicts are results; only a run without a summary is an error.
    pub(crate) fn finish(mut self) -> Result<Finished> {
        let Self { process, began, limit, folder, shown } = &mut self;
        let Some(status) = process.wait_until(*began + *limit)? else {
            bail!("{shown}: not done after {limit:?}, and killed");
        };
        let seconds = began.elapsed().as_secs_f64();
        let read = |name| fs::read_to_string(folder.join(name));
        let said = || {
            let output = read(OUTPUT).unwrap_or_default();
            let lines: Vec<&str> = output.lines().collect();
            let last = &lines[lines.len().saturating_sub(LINES_KEPT)..];
            format!("{shown}: {status}, no summary\n{}", last.join("\n"))
        };
        let summary = read(SUMMARY).with_context(said)?;
        let summary = serde_json::from_str(&summary).with_context(said)?;
        Ok(Finished { summary, seconds })
    }
}

/// It ran.
#[derive(Clone, Debug)]
pub(crate) struct Finished {
    pub(crate) summary: Value,
    /// From its start to its end.
    pub(crate) seconds: f64,
}

impl Finished {
    /// The checks by which it called itself INVALID, each with what it saw; `None` if it did not.
    pub(crate) fn invalid(&self) -> Option<String> {
        if self.summary["verdict"] != "invalid" {
            return None;
        }
        let reasons = self.summary["reasons"].as_array();
        let failed = reasons.into_iter().flatten().filter(|reason| reason["level"] == "fail");
        let word = |reason: &Value, key: &str| reason[key].as_str().unwrap_or("?").to_owned();
        let said =
            failed.map(|reason| format!("{} {}", word(reason, "check"), word(reason, "value")));
        Some(said.collect::<Vec<_>>().join("; "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_are_shown_as_typed() {
        let invocation = Invocation::new("load http://x/", Some(0)).argument("-H");
        let shown = invocation.argument("sleep: 50").shown();
        let expected = "taskset -c 0 plimsoll load http://x/ -H 'sleep: 50' --no-ui --json \
                        summary.json";
        assert_eq!(shown, expected);
        assert!(Invocation::new("lab", None).shown().starts_with("plimsoll lab "));
    }

    #[test]
    fn invalid_runs_say_why() {
        let reasons = json!([
            {"check": "send-lag", "level": "fail", "value": "p99 12 ms"},
            {"check": "own-cpu", "level": "warn", "value": "80 %"},
        ]);
        let run = |verdict| {
            let summary = json!({"verdict": verdict, "reasons": reasons});
            Finished { summary, seconds: 1.0 }
        };
        assert_eq!(run("invalid").invalid().as_deref(), Some("send-lag p99 12 ms"));
        assert_eq!(run("bad").invalid(), None);
    }
}
