//! On what and with which versions a benchmark ran: without it the figures mean nothing.

use std::fs;
use std::process::Command;

use crate::bench::client::Tools;
use crate::bench::tool::Tool;
use crate::packages;

/// Rows of name and value for the report.
pub(crate) fn describe(tools: &Tools) -> Vec<(String, String)> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or("unknown").to_owned();
    let mut rows = vec![
        ("measured on".to_owned(), today()),
        ("load average before, 1 min".to_owned(), load),
        ("CPU".to_owned(), format!("{cpus} x {}", value(&cpuinfo, "model name"))),
        ("memory".to_owned(), memory(&value(&meminfo, "MemTotal"))),
        ("kernel".to_owned(), format!("Linux {}", release.trim())),
    ];
    for tool in [Tool::Plimsoll].into_iter().chain(Tool::PEERS) {
        let version = match (tools.path(tool), tool.version_flag()) {
            (None, _) => format!("missing; {}", tool.advice()),
            (Some(_), None) => "present; it tells no version".to_owned(),
            (Some(path), Some(flag)) => first_line(Command::new(path).arg(flag)),
        };
        rows.push((tool.name().to_owned(), version));
    }
    for (name, flag) in [("haproxy", "-v"), ("nginx", "-v"), ("openssl", "version")] {
        let version = packages::find(name).map(|path| first_line(Command::new(path).arg(flag)));
        rows.push((name.to_owned(), version.unwrap_or_else(|| "missing".to_owned())));
    }
    rows
}

/// The day, UTC, as `2026-11-21`.
pub(crate) fn today() -> String {
    first_line(Command::new("date").args(["-u", "+%F"]))
}

/// What follows the colon on the line of `name`.
fn value(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.split_once(':'));
    line.map_or_else(|| "unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

/// `8154888 kB` as `7.8 GiB`.
fn memory(total: &str) -> String {
    let kib = total.strip_suffix(" kB").and_then(|kib| kib.parse::<f64>().ok());
    kib.map_or_else(|| total.to_owned(), |kib| format!("{:.1} GiB", kib / 1_048_576.0))
}

/// The first line a program writes, to either stream.
fn first_line(command: &mut Command) -> String {
    let text = command.output().map(|output| [output.stdout, output.stderr].concat());
    let text = text.unwrap_or_default();
    String::from_utf8_lossy(&text).lines().next().unwrap_or("unknown").trim().to_owned()
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
}
