//! On what and with which versions a benchmark ran: without it the figures mean nothing.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::bench::client::Tools;
use crate::bench::tool::Tool;
use crate::packages;

/// Returns the facts that the figures depend on, by name.
pub(crate) fn describe(tools: &Tools) -> BTreeMap<String, String> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let mut rows = vec![
        ("CPU".to_owned(), format!("{cpus} x {}", value(&cpuinfo, "model name"))),
        ("memory".to_owned(), memory(&value(&meminfo, "MemTotal"))),
        ("kernel".to_owned(), format!("Linux {}", release.trim())),
    ];
    for tool in [Tool::Plimsoll].into_iter().chain(Tool::PEERS) {
        let version = match (tools.path(tool), tool.version_flag()) {
            (None, _) => format!("missing; {}", tool.advice()),
            (Some(_), None) => "installed; prints no version".to_owned(),
            (Some(path), Some(flag)) => first_line(Command::new(path).arg(flag)),
        };
        rows.push((tool.name().to_owned(), version));
    }
    for (name, flag) in [("haproxy", "-v"), ("nginx", "-v"), ("openssl", "version")] {
        let version = packages::find(name).map(|path| first_line(Command::new(path).arg(flag)));
        rows.push((name.to_owned(), version.unwrap_or_else(|| "missing".to_owned())));
    }
    rows.into_iter().collect()
}

/// Returns the day, UTC, as `2026-11-21`.
pub(crate) fn today() -> String {
    first_line(Command::new("date").args(["-u", "+%F"]))
}

/// Returns the load average of the last minute.
pub(crate) fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Returns the text after the colon on the line of `name`.
fn value(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
    line.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

/// Formats `8154888 kB` as `7.8 GiB`.
fn memory(total: &str) -> String {
    let kib = total.strip_suffix(" kB").and_then(|kib| kib.parse::<f64>().ok());
    kib.map_or_else(|| total.to_owned(), |kib| format!("{:.1} GiB", kib / 1_048_576.0))
}

/// Returns the first line a program writes, to either stream.
fn first_line(command: &mut Command) -> String {
    let text = command.output().map(|output| [output.stdout, output.stderr].concat());
    let text = text.unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("unknown").trim().to_owned()
}

/// The first line holds the sum over all CPUs, in ticks:
/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`.
const STAT: &str = "/proc/stat";
/// Fields of a CPU line that count: the time of guests is in `user` already.
const FIELDS: usize = 8;
const STEAL: usize = 7;

/// The counters of CPU time as they stood, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuTime {
    stolen: u64,
    all: u64,
}

impl CpuTime {
    /// Reads the present times; returns `None` if they cannot be read.
    pub(crate) fn now() -> Option<Self> {
        Self::read(&fs::read_to_string(STAT).ok()?)
    }

    fn read(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let ticks: Vec<u64> = fields.take(FIELDS).map_while(|field| field.parse().ok()).collect();
        Some(Self { stolen: *ticks.get(STEAL)?, all: ticks.iter().sum() })
    }

    /// Returns the share of all CPU time from `self` to `later` that went to other machines, 0.0 to 1.0.
    pub(crate) fn stolen_until(self, later: Self) -> f64 {
        let all = later.all.saturating_sub(self.all).max(1);
        later.stolen.saturating_sub(self.stolen) as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_read() {
        let text = "processor\t: 0\nmodel name\t: Some CPU\n";
        assert_eq!(value(text, "model name"), "Some CPU");
        assert_eq!(value(text, "absent"), "unknown");
        assert_eq!(memory("8154888 kB"), "7.8 GiB");
        assert_eq!(memory("unknown"), "unknown");
    }

    #[test]
    fn versions_are_first_lines() {
        assert_eq!(first_line(Command::new("echo").arg("one\ntwo")), "one");
        assert_eq!(first_line(&mut Command::new("a-program-that-nobody-has")), "unknown");
    }

    #[test]
    fn stolen_is_a_share_of_all_time() {
        let before = CpuTime::read("cpu  100 0 50 800 0 0 10 40 7 0\ncpu0 1 2\n").unwrap();
        assert_eq!(before, CpuTime { stolen: 40, all: 1_000 });
        let after = CpuTime::read("cpu  150 0 60 1600 0 0 10 180 9 0\n").unwrap();
        assert!((before.stolen_until(after) - 0.14).abs() < 1e-9);
        assert_eq!(after.stolen_until(before), 0.0);
    }

    #[test]
    fn kernels_that_do_not_say_give_nothing() {
        for text in ["", "intr 1 2\n", "cpu  1 2 3\n", "cpu  1 2 3 4 5 6 7 x\n"] {
            assert_eq!(CpuTime::read(text), None, "{text:?}");
        }
    }
}
