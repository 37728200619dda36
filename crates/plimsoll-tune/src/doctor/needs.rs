//! All limits for one shape: whether it can run, and the table that says so.

use std::fmt::Write;

use plimsoll_model::units::grouped;
use plimsoll_probe::limits::HostLimits;

use super::limits;
use super::need::{CONNECTIONS_MAX, Need, Verdict};
use super::shape::{Part, Shape, descriptors_per_process};

/// Widths of all columns but the last, which is as long as it is.
const LIMIT_WIDTH: usize = 36;
const NUMBER_WIDTH: usize = 15;
const VERDICT_WIDTH: usize = 7;

/// How many processes a part will have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartProcesses {
    /// The part's name.
    pub part: String,
    /// Processes.
    pub processes: u64,
    /// Descriptors that each of them needs.
    pub descriptors: u64,
}

/// All limits for one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The connections asked for.
    pub connections: u64,
    /// One line for each limit.
    pub lines: Vec<Need>,
    /// One for each part.
    pub processes: Vec<PartProcesses>,
}

impl Needs {
    /// What `shape` needs of a host with `limits`.
    pub fn of(shape: &Shape, limits: &HostLimits) -> Self {
        let descriptors = descriptors_per_process(limits);
        let processes = |part: &Part| {
            let processes = part.processes_for(shape.connections, descriptors);
            PartProcesses {
                part: part.name.clone(),
                processes,
                descriptors: part.descriptors_for(shape.connections, processes),
            }
        };
        Self {
            connections: shape.connections,
            lines: limits::lines(shape, limits),
            processes: shape.started().map(processes).collect(),
        }
    }

    /// Whether no limit is too low.
    pub fn are_met(&self) -> bool {
        self.short().next().is_none()
    }

    /// The limits that are too low.
    pub fn short(&self) -> impl Iterator<Item = &Need> {
        self.lines.iter().filter(|line| line.verdict == Verdict::Short)
    }

    /// The most connections that the host can hold, which may be more than were asked for. Limits
    /// that fail no connection do not count.
    pub fn fits(&self) -> u64 {
        let hard = |line: &&Need| matches!(line.verdict, Verdict::Ok | Verdict::Short);
        self.lines.iter().filter(hard).map(|line| line.fits).min().unwrap_or(CONNECTIONS_MAX)
    }

    /// The table `limit | need | have | fix`, plain text, each line ended.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "for {} connections:", grouped(self.connections));
        for part in &self.processes {
            let (processes, descriptors) = (grouped(part.processes), grouped(part.descriptors));
            let plural = if part.processes == 1 { "process" } else { "processes" };
            let _ = writeln!(
                text,
                "  {}: {processes} {plural} with {descriptors} open files each",
                part.part
            );
        }
        row(&mut text, ["limit", "need", "have", "", "fix"]);
        for need in &self.lines {
            let fix = need.fix.as_deref().unwrap_or_default();
            let (needed, have) = (need.need_text(), need.have_text());
            row(&mut text, [&need.limit, &needed, &have, word(need), fix]);
        }
        if !self.are_met() {
            let _ = writeln!(text, "this host can hold {} connections", grouped(self.fits()));
        }
        text
    }
}

fn row(text: &mut String, [limit, need, have, verdict, fix]: [&str; 5]) {
    let line = format!(
        "  {limit:LIMIT_WIDTH$}{need:>NUMBER_WIDTH$}{have:>NUMBER_WIDTH$}  \
         {verdict:VERDICT_WIDTH$}{fix}"
    );
    let _ = writeln!(text, "{}", line.trim_end());
}

fn word(need: &Need) -> &'static str {
    match need.verdict {
        Verdict::Ok => "ok",
        Verdict::Warn => "warn",
        Verdict::Short => "LOW",
        Verdict::Unknown => "?",
    }
}
