//! The table of limits, as text.

use std::fmt;
use std::fmt::Write;

use plimsoll_model::units::grouped;

use super::{Need, Needs, Unit, Verdict};

/// Widths of all columns but the last, which is as long as it is.
const LIMIT_WIDTH: usize = 36;
const NUMBER_WIDTH: usize = 15;
const VERDICT_WIDTH: usize = 7;
/// What the kernel reports for "no limit" is above this.
const UNLIMITED: u64 = 1 << 60;

/// `name: needs 5, has 4; how to raise it`.
impl fmt::Display for Need {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (need, have) = (amount(self.need, self.unit), have(self));
        write!(formatter, "{}: needs {need}, has {have}", self.limit)?;
        self.fix.iter().try_for_each(|fix| write!(formatter, "; {fix}"))
    }
}

pub(super) fn table(needs: &Needs) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "for {} connections:", grouped(needs.connections));
    for part in &needs.processes {
        let (processes, descriptors) = (grouped(part.processes), grouped(part.descriptors));
        let plural = if part.processes == 1 { "process" } else { "processes" };
        let _ = writeln!(
            text,
            "  {}: {processes} {plural} with {descriptors} open files each",
            part.part
        );
    }
    row(&mut text, ["limit", "need", "have", "", "fix"]);
    for need in &needs.lines {
        let fix = need.fix.as_deref().unwrap_or_default();
        row(&mut text, [&need.limit, &amount(need.need, need.unit), &have(need), word(need), fix]);
    }
    if !needs.are_met() {
        let _ = writeln!(text, "this host can hold {} connections", grouped(needs.fits()));
    }
    text
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

fn have(need: &Need) -> String {
    need.have.map_or_else(|| "?".to_owned(), |have| amount(have, need.unit))
}

fn amount(count: u64, unit: Unit) -> String {
    match unit {
        _ if count >= UNLIMITED => "unlimited".to_owned(),
        Unit::Count => grouped(count),
        Unit::Bytes if count >= 1_000_000_000 => format!("{:.1} GB", count as f64 / 1e9),
        Unit::Bytes => format!("{:.0} MB", count as f64 / 1e6),
    }
}
