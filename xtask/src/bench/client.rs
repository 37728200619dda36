//! The tools that make load, run and counted: their CPU time, and the operations that each reports
//! of itself.

pub(crate) mod count;
pub(crate) mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::tool::Tool;
use crate::bench::{CLIENT_CPU, footprint};
use crate::packages;
use words::SUMMARY;

/// The size of a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) connections: u32,
    pub(crate) seconds: u32,
}

/// The use of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// Each serves one request after the other.
    Kept,
    /// A new one for each request, by a full handshake.
    PerRequest,
    /// A new one for each request, by a resumed session.
    Resumed,
    /// A new one by a full handshake, and no request.
    HandshakeOnly,
}

/// The kind of load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) is_tls: bool,
    pub(crate) connection: Connection,
}

/// The tools of this machine.
pub(crate) struct Tools {
    pub(crate) plimsoll: PathBuf,
    /// In the order of `Tool::PEERS`.
    peers: Vec<Option<PathBuf>>,
    scratch: PathBuf,
}

impl Tools {
    pub(crate) fn find(plimsoll: PathBuf, scratch: PathBuf) -> Self {
        let peers = Tool::PEERS.map(|tool| packages::find(tool.name())).to_vec();
        Self { plimsoll, peers, scratch }
    }

    pub(crate) fn path(&self, tool: Tool) -> Option<&PathBuf> {
        match Tool::PEERS.iter().position(|peer| *peer == tool) {
            Some(index) => self.peers[index].as_ref(),
            None => Some(&self.plimsoll),
        }
    }

    pub(crate) fn has(&self, tool: Tool) -> bool {
        self.path(tool).is_some()
    }

    /// Returns a closed loop of `tool` over a fixed number of connections; `None` if it has none.
    pub(crate) fn job(&self, tool: Tool, url: &str, extent: Extent, load: Load) -> Option<Job> {
        let words = words::saturate(tool, url, extent, load)?;
        Some(self.job_of(tool, url, words, load, extent.connections))
    }

    /// Returns a job of plimsoll with these arguments, without TLS.
    pub(crate) fn plimsoll_job(&self, words: &str) -> Job {
        let words = format!("{words} --json {SUMMARY}");
        let load = Load { is_tls: false, connection: Connection::Kept };
        self.job_of(Tool::Plimsoll, "", words, load, 0)
    }

    /// Returns the summary of plimsoll with these arguments.
    pub(crate) fn summary(&self, words: &str) -> Result<Value> {
        let job = self.plimsoll_job(words);
        job.execute()?;
        serde_json::from_str(&job.file(SUMMARY)?).context(SUMMARY)
    }

    fn job_of(&self, tool: Tool, url: &str, words: String, load: Load, connections: u32) -> Job {
        Job {
            connections,
            tool,
            program: self.path(tool).cloned().unwrap_or_else(|| tool.name().into()),
            words,
            url: url.to_owned(),
            load,
            folder: self.scratch.clone(),
        }
    }
}

/// One measurement to make.
pub(crate) struct Job {
    tool: Tool,
    program: PathBuf,
    /// Words of its command line, without its name.
    words: String,
    url: String,
    load: Load,
    /// Connections at once, at most.
    connections: u32,
    folder: PathBuf,
}

/// One measurement made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    /// User and system time of the client and all its children, seconds.
    pub(crate) cpu_s: f64,
    /// Operations that succeeded.
    pub(crate) ops: u64,
    /// Operations that did not.
    pub(crate) failed: u64,
}

impl Sample {
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_s * 1e6 / self.ops as f64
    }
}

impl Job {
    /// Returns the command as a reader would type it.
    pub(crate) fn shown(&self) -> String {
        shown(self.tool, &self.words)
    }

    /// Runs it and counts.
    pub(crate) fn run(&self) -> Result<Sample> {
        Ok(self.run_and_report()?.0)
    }

    /// Runs wrk and counts; also the requests per second that it saw.
    pub(crate) fn run_wrk(&self) -> Result<(Sample, f64)> {
        let (sample, report) = self.run_and_report()?;
        let rate_per_s = count::wrk_rate_per_s(&report);
        Ok((sample, rate_per_s.with_context(|| format!("{}: no rate", self.shown()))?))
    }

    /// Runs it and counts; also what it reported.
    fn run_and_report(&self) -> Result<(Sample, String)> {
        words::prepare(self.tool, &self.url, &self.folder)?;
        let before = footprint::accepted()?;
        let (output, cpu_s) = self.execute()?;
        let accepted = footprint::accepted()? - before;
        let report = self.report(&output)?;
        if self.tool == Tool::Plimsoll {
            let summary = serde_json::from_str(&report).context(SUMMARY)?;
            check_handshakes(&summary, self.load, self.connections)
                .with_context(|| self.shown())?;
        }
        let counted = count::count(self.tool, &report).filter(|(ops, _)| *ops > 0);
        let (ops, failed) = counted
            .with_context(|| format!("{}: no operations counted\n{report}", self.shown()))?;
        if self.load.connection == Connection::PerRequest && accepted < ops {
            bail!("{}: {accepted} connections for {ops} requests", self.shown());
        }
        Ok((Sample { cpu_s, ops, failed }, report))
    }

    /// Returns the source of the counts: a file, or the output.
    fn report(&self, output: &Output) -> Result<String> {
        match self.tool {
            Tool::Plimsoll => self.file(SUMMARY),
            Tool::K6 => self.file(words::K6_SUMMARY),
            Tool::Vegeta => {
                let output = Command::new(&self.program)
                    .args(["report", "-type=json", words::VEGETA_RESULTS])
                    .current_dir(&self.folder)
                    .output()
                    .context("vegeta report")?;
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            _ => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        }
    }

    fn file(&self, name: &str) -> Result<String> {
        fs::read_to_string(self.folder.join(name))
            .with_context(|| format!("{}: {name}", self.shown()))
    }

    fn execute(&self) -> Result<(Output, f64)> {
        execute(&self.program, &self.words, &self.folder).with_context(|| self.shown())
    }
}

/// Runs a client in `folder`: its output, and its CPU seconds. bash's `time` adds up all children that were
/// waited for.
pub(crate) fn execute(program: &Path, words: &str, folder: &Path) -> Result<(Output, f64)> {
    // Figures of an earlier job must not pass for this one's.
    for file in [SUMMARY, words::K6_SUMMARY, words::VEGETA_RESULTS] {
        let _ = fs::remove_file(folder.join(file));
    }
    let output = Command::new("bash")
        .args(["-c", "TIMEFORMAT='%3U %3S'; time \"$@\"", "bench", "taskset", "-c"])
        .arg(CLIENT_CPU.to_string())
        .arg(program)
        .args(words::arguments(words)?)
        .current_dir(folder)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .context("cannot run bash")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    // plimsoll calls a run INVALID (98) or its SLO missed (99); both have measured.
    if !matches!(output.status.code(), Some(0 | 98 | 99)) {
        bail!("{}\n{stderr}", output.status);
    }
    let cpu_s = cpu_seconds(&stderr).with_context(|| format!("no CPU time in\n{stderr}"))?;
    Ok((output, cpu_s))
}

/// Returns a tool's command as a reader would type it, with what it reads from a file behind it.
pub(crate) fn shown(tool: Tool, words: &str) -> String {
    let note = match tool {
        Tool::Vegeta => "  # vegeta.txt: GET and the URL",
        Tool::K6 => "  # k6.js: http.get(URL) by each virtual user",
        _ => "",
    };
    format!("taskset -c {CLIENT_CPU} {} {words}{note}", tool.name())
}

/// Returns the sum of the two numbers on the last line.
fn cpu_seconds(stderr: &str) -> Option<f64> {
    let (user, system) = stderr.lines().last()?.split_once(' ')?;
    Some(user.parse::<f64>().ok()? + system.parse::<f64>().ok()?)
}

/// Reports whether the handshakes of a plimsoll summary were of the kind that was asked for: otherwise a
/// cheaper or dearer thing was measured.
fn check_handshakes(summary: &Value, load: Load, connections: u32) -> Result<()> {
    let handshakes = &summary["handshakes"];
    let count = |kind: &str| handshakes[kind].as_u64().unwrap_or(0);
    let ok = summary["ok"].as_u64().unwrap_or(0);
    match load.connection {
        Connection::PerRequest | Connection::HandshakeOnly
            if load.is_tls && (count("resumed") > 0 || count("full") < ok) =>
        {
            bail!("fewer full handshakes than operations");
        }
        // The first connections have no session to resume; of the others, one in a hundred may not.
        Connection::Resumed if (count("resumed") + u64::from(connections)) * 100 < ok * 99 => {
            bail!("only {} of {ok} operations resumed a session", count("resumed"));
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cpu_time_is_the_last_line() {
        assert_eq!(cpu_seconds("warning: x\n1.500 0.250\n"), Some(1.75));
        assert_eq!(cpu_seconds("bash: taskset: command not found"), None);
        assert_eq!(cpu_seconds(""), None);
    }

    #[test]
    fn other_handshakes_than_asked_for_are_noticed() {
        for (connection, ok, full, resumed, expected) in [
            (Connection::PerRequest, 7, 9, 0, true), // two more than answers: cut off at the end
            (Connection::PerRequest, 7, 7, 0, true),
            (Connection::PerRequest, 7, 1, 0, false), // kept alive
            (Connection::PerRequest, 7, 7, 1, false), // resumed
            (Connection::HandshakeOnly, 7, 6, 1, false), // resumed
            (Connection::Resumed, 1_000, 40, 960, true), // 30 first ones, and one in a hundred
            (Connection::Resumed, 1_000, 41, 959, false),
            (Connection::Kept, 1_000, 10, 0, true),
        ] {
            let json = json!({"ok": ok, "handshakes": {"full": full, "resumed": resumed}});
            let checked = check_handshakes(&json, Load { is_tls: true, connection }, 30);
            assert_eq!(checked.is_ok(), expected, "{connection:?} {json}");
        }
        let plain = Load { is_tls: false, connection: Connection::PerRequest };
        assert!(check_handshakes(&json!({"ok": 7}), plain, 1).is_ok());
    }

    #[test]
    fn a_jobs_cpu_time_is_its_childrens() {
        let script = "for i in $(seq 20000); do :; done; (for i in $(seq 20000); do :; done)";
        let words = format!("-c '{script}'");
        let job = Job {
            tool: Tool::Wrk,
            program: "bash".into(),
            words,
            url: String::new(),
            load: Load { is_tls: false, connection: Connection::Kept },
            connections: 1,
            folder: std::env::temp_dir(),
        };
        let (_, cpu_s) = job.execute().unwrap();
        assert!(cpu_s > 0.0, "{cpu_s}");
    }
}
