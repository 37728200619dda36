//! All limits for one shape: whether it can run, and the table of limits.

use std::fmt::Write;

use plimsoll_model::units::grouped;
use plimsoll_probe::limits::HostLimits;

use super::limits;
use super::need::{CONNECTIONS_MAX, Need, Setting, Verdict};
use super::shape::{Part, Shape, descriptors_per_process};

/// Widths of the columns.
const WORD_WIDTH: usize = 9;
const LIMIT_WIDTH: usize = 35;
const NUMBER_WIDTH: usize = 11;

/// Processes of a part.
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
    /// New connections per second besides, which leave ports in TIME_WAIT.
    pub opened_per_s: u64,
    /// One line for each limit.
    pub lines: Vec<Need>,
    /// One for each part.
    pub processes: Vec<PartProcesses>,
}

impl Needs {
    /// Computes the needs of `shape` on a host with `limits`.
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
            opened_per_s: shape.opened_per_s,
            lines: limits::lines(shape, limits),
            processes: shape.started().map(processes).collect(),
        }
    }

    /// Reports whether no limit is too low.
    pub fn are_met(&self) -> bool {
        self.short().next().is_none()
    }

    /// Returns the limits that are too low.
    pub fn short(&self) -> impl Iterator<Item = &Need> {
        self.lines.iter().filter(|line| line.verdict == Verdict::Short)
    }

    /// Returns the most connections that the host can hold, which may be more than were asked for. Limits
    /// that fail no connection do not count.
    pub fn fits(&self) -> u64 {
        let hard = |line: &&Need| matches!(line.verdict, Verdict::Ok | Verdict::Short);
        self.lines.iter().filter(hard).map(|line| line.fits).min().unwrap_or(CONNECTIONS_MAX)
    }

    /// Returns the lines, those first that stop the fewest connections, then those that only slow them down.
    pub fn worst_first(&self) -> Vec<&Need> {
        let rank = |need: &&Need| match need.verdict {
            Verdict::Short => (0, need.fits),
            Verdict::Warn => (1, 0),
            Verdict::Unknown => (2, 0),
            Verdict::Ok => (3, need.fits),
        };
        let mut lines: Vec<&Need> = self.lines.iter().collect();
        lines.sort_by_key(rank);
        lines
    }

    /// Returns plain text, each line ended: the answer, then every limit, the worst first, with what raises it
    /// now and what keeps it.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let asked = grouped(self.connections);
        let besides = match self.opened_per_s {
            0 => String::new(),
            new => format!(" with {} new ones per second", grouped(new)),
        };
        // A String takes any text.
        let _ = if self.are_met() {
            writeln!(text, "This host can hold {asked} connections{besides}.")
        } else {
            let fits = grouped(self.fits());
            writeln!(
                text,
                "This host cannot hold {asked} connections{besides}; it can hold {fits}{besides}."
            )
        };
        for part in &self.processes {
            let (processes, descriptors) = (grouped(part.processes), grouped(part.descriptors));
            let plural = if part.processes == 1 { "process" } else { "processes" };
            let _ = writeln!(
                text,
                "  {}: {processes} {plural} with {descriptors} open files each",
                part.part
            );
        }
        let _ = writeln!(text);
        for need in self.worst_first() {
            let (needed, have) = (need.need_text(), need.have_text());
            let (word, limit) = (word(need), &need.limit);
            let line = format!(
                "{word:WORD_WIDTH$}{limit:LIMIT_WIDTH$}{needed:>NUMBER_WIDTH$} needed{have:>NUMBER_WIDTH$} present"
            );
            let _ = writeln!(text, "{line}");
            let Some(fix) = &need.fix else { continue };
            let _ = writeln!(text, "{:WORD_WIDTH$}now   {}", "", fix.now);
            for (file, line) in fix.settings.iter().map(Setting::kept) {
                let _ = writeln!(text, "{:WORD_WIDTH$}keep  {file}: {line}", "");
            }
        }
        text
    }
}

fn word(need: &Need) -> &'static str {
    match need.verdict {
        Verdict::Ok => "enough",
        Verdict::Warn => "slows",
        Verdict::Short => "STOPS",
        Verdict::Unknown => "unknown",
    }
}
