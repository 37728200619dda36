//! The tools that make load: their command lines, their CPU time, and the count of operations that
//! each reports of itself.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;
use std::process::Stdio;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;
use serde_json::Value;

use crate::bench::CLIENT_CPU;
use crate::packages;

/// A program that makes load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Plimsoll,
    Wrk,
    Oha,
}

impl Tool {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plimsoll => "plimsoll",
            Self::Wrk => "wrk",
            Self::Oha => "oha",
        }
    }

    /// How a missing one is installed.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Plimsoll => "cargo build --release",
            Self::Wrk => "apt-get install wrk",
            Self::Oha => "cargo install oha",
        }
    }
}

/// How much is asked of every client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extent {
    pub(crate) connections: u32,
    pub(crate) seconds: u32,
}

/// What is asked of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) is_tls: bool,
    /// Otherwise each request opens a connection of its own.
    pub(crate) is_kept_alive: bool,
}

/// The tools of this machine.
pub(crate) struct Tools {
    pub(crate) plimsoll: PathBuf,
    wrk: Option<PathBuf>,
    oha: Option<PathBuf>,
    scratch: PathBuf,
}

impl Tools {
    pub(crate) fn find(plimsoll: PathBuf, scratch: PathBuf) -> Self {
        Self { plimsoll, wrk: packages::find("wrk"), oha: packages::find("oha"), scratch }
    }

    pub(crate) fn path(&self, tool: Tool) -> Option<&PathBuf> {
        match tool {
            Tool::Plimsoll => Some(&self.plimsoll),
            Tool::Wrk => self.wrk.as_ref(),
            Tool::Oha => self.oha.as_ref(),
        }
    }

    pub(crate) fn has(&self, tool: Tool) -> bool {
        self.path(tool).is_some()
    }

    /// `tool` as fast as it can over a fixed number of connections.
    pub(crate) fn job(&self, tool: Tool, url: &str, extent: Extent, load: &Load) -> Job {
        let arguments = match tool {
            Tool::Plimsoll => return self.plimsoll_job(url, extent, "0", load),
            Tool::Wrk => format!("-t1 -c{} -d{}s", extent.connections, extent.seconds),
            Tool::Oha => {
                let reuse = if load.is_kept_alive { "" } else { " --disable-keepalive" };
                format!(
                    "--no-tui --output-format json --insecure -c {} -z {}s{reuse}",
                    extent.connections, extent.seconds
                )
            }
        };
        let mut arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        arguments.push(url.to_owned());
        self.finish(tool, arguments, false)
    }

    /// plimsoll on a schedule, over plain keep-alive connections.
    pub(crate) fn plimsoll_pace(&self, url: &str, extent: Extent, rate_per_s: u32) -> Job {
        let load = Load { is_tls: false, is_kept_alive: true };
        self.plimsoll_job(url, extent, &rate_per_s.to_string(), &load)
    }

    fn plimsoll_job(&self, url: &str, extent: Extent, rate: &str, load: &Load) -> Job {
        let Extent { connections, seconds } = extent;
        let flags = format!(
            "load {url} --rate {rate} --connections {connections} --duration {seconds}s \
             --threads 1 --processes 1 --no-ui --json summary.json"
        );
        let mut arguments: Vec<String> = flags.split(' ').map(str::to_owned).collect();
        if load.is_tls {
            arguments.push("--insecure".to_owned());
        }
        if !load.is_kept_alive {
            arguments.push("--no-keepalive".to_owned());
        }
        self.finish(Tool::Plimsoll, arguments, load.is_tls && !load.is_kept_alive)
    }

    fn finish(&self, tool: Tool, arguments: Vec<String>, wants_handshakes: bool) -> Job {
        let program = self.path(tool).cloned().unwrap_or_else(|| tool.name().into());
        Job { tool, program, arguments, wants_handshakes, folder: self.scratch.clone() }
    }
}

/// One measurement to make.
pub(crate) struct Job {
    tool: Tool,
    program: PathBuf,
    arguments: Vec<String>,
    /// Every operation must have made a full handshake of its own.
    wants_handshakes: bool,
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
    pub(crate) fn cpu_us_per_op(&self) -> f64 {
        self.cpu_s * 1e6 / self.ops as f64
    }
}

/// How well a schedule was kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PaceSample {
    /// Achieved over offered; 1 is perfect.
    pub(crate) achieved_ratio: f64,
    pub(crate) send_lag_ms_p99: f64,
}

impl Job {
    /// The command as a reader would type it.
    pub(crate) fn shown(&self) -> String {
        format!("taskset -c {CLIENT_CPU} {} {}", self.tool.name(), self.arguments.join(" "))
    }

    /// Runs it and counts.
    pub(crate) fn run(&self) -> Result<Sample> {
        let (output, cpu_s) = self.execute()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let counted = match self.tool {
            Tool::Plimsoll => {
                let summary = self.summary()?;
                if self.wants_handshakes && !all_handshakes_are_full(&summary) {
                    bail!("{}: fewer full handshakes than requests", self.shown());
                }
                count_plimsoll(&summary)
            }
            Tool::Wrk => count_wrk(&text),
            Tool::Oha => serde_json::from_str(&text).ok().and_then(|json| count_oha(&json)),
        };
        let (ops, failed) = counted
            .filter(|(ops, _)| *ops > 0)
            .with_context(|| format!("{}: no operations counted\n{text}", self.shown()))?;
        Ok(Sample { cpu_s, ops, failed })
    }

    /// Runs it and looks at its schedule.
    pub(crate) fn run_pace(&self) -> Result<PaceSample> {
        self.execute()?;
        pace(&self.summary()?).with_context(|| format!("{}: no pace in the summary", self.shown()))
    }

    fn summary(&self) -> Result<Value> {
        let path = self.folder.join("summary.json");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// The tool's output and CPU seconds. bash's `time` adds up all children that were waited for.
    fn execute(&self) -> Result<(Output, f64)> {
        // A summary of an earlier job must not pass for this one's.
        let _ = fs::remove_file(self.folder.join("summary.json"));
        let output = Command::new("bash")
            .args(["-c", "TIMEFORMAT='%3U %3S'; time \"$@\"", "bench", "taskset", "-c"])
            .arg(CLIENT_CPU.to_string())
            .arg(&self.program)
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .context("cannot run bash")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        // plimsoll calls a run INVALID (98) or its SLO missed (99); both have measured.
        if !matches!(output.status.code(), Some(0 | 98 | 99)) {
            bail!("{}: {}\n{stderr}", self.shown(), output.status);
        }
        let cpu_s = cpu_seconds(&stderr)
            .with_context(|| format!("{}: no CPU time in\n{stderr}", self.shown()))?;
        Ok((output, cpu_s))
    }
}

/// The sum of the two numbers on the last line.
fn cpu_seconds(stderr: &str) -> Option<f64> {
    let (user, system) = stderr.lines().last()?.split_once(' ')?;
    Some(user.parse::<f64>().ok()? + system.parse::<f64>().ok()?)
}

/// Succeeded and failed operations of a plimsoll summary.
fn count_plimsoll(summary: &Value) -> Option<(u64, u64)> {
    Some((summary["ok"].as_u64()?, summary["errors"].as_u64()?))
}

/// Whether each operation had a full handshake: otherwise a cheaper thing was measured.
fn all_handshakes_are_full(summary: &Value) -> bool {
    let handshakes = &summary["handshakes"];
    handshakes["resumed"] == 0 && handshakes["full"].as_u64() >= summary["ok"].as_u64()
}

fn pace(summary: &Value) -> Option<PaceSample> {
    let rate = &summary["rate"];
    let offered = rate["offered_per_s"].as_f64().filter(|offered| *offered > 0.0)?;
    Some(PaceSample {
        achieved_ratio: rate["achieved_per_s"].as_f64()? / offered,
        send_lag_ms_p99: summary["send_lag_ms"]["p99"].as_f64()?,
    })
}

/// Succeeded and failed operations of wrk's report.
fn count_wrk(text: &str) -> Option<(u64, u64)> {
    let all = text.lines().find_map(|line| line.trim().split_once(" requests in "))?;
    let all: u64 = all.0.parse().ok()?;
    let after = |mark: &str| text.lines().find_map(|line| Some(line.split_once(mark)?.1));
    // "Socket errors: connect 0, read 3, write 0, timeout 1"
    let socket: u64 = after("Socket errors:").map_or(0, |counts| {
        counts.split(|at: char| !at.is_ascii_digit()).filter_map(|n| n.parse::<u64>().ok()).sum()
    });
    let status: u64 = match after("Non-2xx or 3xx responses:") {
        Some(count) => count.trim().parse().ok()?,
        None => 0,
    };
    Some((all.checked_sub(status)?, socket + status))
}

/// Succeeded and failed operations of oha's JSON. What its clock cut off is neither.
fn count_oha(json: &Value) -> Option<(u64, u64)> {
    let status = json["statusCodeDistribution"].as_object()?;
    let ok = status.get("200").and_then(Value::as_u64).unwrap_or(0);
    let answered: u64 = status.values().filter_map(Value::as_u64).sum();
    let errors = json["errorDistribution"].as_object();
    let broken: u64 = errors
        .into_iter()
        .flatten()
        .filter(|(name, _)| *name != "aborted due to deadline")
        .filter_map(|(_, count)| count.as_u64())
        .sum();
    Some((ok, answered - ok + broken))
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
    fn wrk_counts() {
        let clean =
            "Running 1s test @ http://x/\n  2 threads\n  1234 requests in 1.00s, 1.5MB read\n";
        assert_eq!(count_wrk(clean), Some((1234, 0)));
        let broken = format!(
            "{clean}  Socket errors: connect 0, read 3, write 0, timeout 1\n  Non-2xx or 3xx responses: 34\n"
        );
        assert_eq!(count_wrk(&broken), Some((1200, 38)));
        assert_eq!(count_wrk("unable to connect"), None);
    }

    #[test]
    fn oha_counts() {
        let json = json!({
            "statusCodeDistribution": {"200": 900, "503": 10},
            "errorDistribution": {"aborted due to deadline": 100, "connection refused": 5},
        });
        assert_eq!(count_oha(&json), Some((900, 15)));
        assert_eq!(count_oha(&json!({})), None);
    }

    #[test]
    fn plimsoll_counts_and_pace() {
        let json = json!({
            "ok": 7, "errors": 2, "send_lag_ms": {"p99": 0.5},
            "rate": {"offered_per_s": 5000.0, "achieved_per_s": 4990.0},
        });
        assert_eq!(count_plimsoll(&json), Some((7, 2)));
        let expected = PaceSample { achieved_ratio: 0.998, send_lag_ms_p99: 0.5 };
        assert_eq!(pace(&json), Some(expected));
        assert_eq!(pace(&json!({"rate": {"offered_per_s": 0.0}})), None);
    }

    #[test]
    fn cheaper_handshakes_are_noticed() {
        for (full, resumed, expected) in [
            (9, 0, true), // two more than answers: cut off at the end
            (7, 0, true),
            (1, 0, false), // kept alive
            (7, 1, false), // resumed
        ] {
            let json = json!({"ok": 7, "handshakes": {"full": full, "resumed": resumed}});
            assert_eq!(all_handshakes_are_full(&json), expected, "{json}");
        }
        assert!(!all_handshakes_are_full(&json!({"ok": 7})));
    }

    #[test]
    fn a_jobs_cpu_time_is_its_childrens() {
        let folder = std::env::temp_dir();
        let script = "for i in $(seq 20000); do :; done; (for i in $(seq 20000); do :; done)";
        let job = Job {
            tool: Tool::Wrk,
            program: "bash".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            wants_handshakes: false,
            folder,
        };
        let (_, cpu_s) = job.execute().unwrap();
        assert!(cpu_s > 0.0, "{cpu_s}");
    }
}
