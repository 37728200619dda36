//! The page that a benchmark writes: one section per part, each complete in itself, so that parts
//! can be measured on different days. What was not there is named as missing, never left out.

use std::fmt::Write;

use crate::bench::claim::{Claim, Outcome};
use crate::bench::settings::Part;
use crate::bench::target::Reading;
use crate::bench::{claim, target};

const HEAD: &str =
    "# Benchmarks\n\nWritten by `cargo xtask bench`; run it again instead of editing this.\n";
/// What people have to say of the figures stands between these marks and is never touched.
const BY_HAND: (&str, &str) = ("<!-- begin by hand -->\n", "<!-- end by hand -->\n");

/// One part's section.
pub(crate) struct Section {
    part: Part,
    machine: Vec<(String, String)>,
    /// How it was measured.
    pub(crate) method: String,
    /// The promises and how they fared.
    pub(crate) claims: Vec<Claim>,
    /// The figures behind them, as tables.
    pub(crate) figures: String,
    readings: Vec<Reading>,
    missing: Vec<String>,
    failures: Vec<String>,
    commands: Vec<String>,
}

impl Section {
    pub(crate) const fn new(part: Part, machine: Vec<(String, String)>) -> Self {
        Self {
            part,
            machine,
            method: String::new(),
            claims: Vec::new(),
            figures: String::new(),
            readings: Vec::new(),
            missing: Vec::new(),
            failures: Vec::new(),
            commands: Vec::new(),
        }
    }

    /// Says what could not be measured, here and on the terminal.
    pub(crate) fn fail(&mut self, what: String) {
        eprintln!("{}: {what}", self.part.name());
        self.failures.push(what);
    }

    /// A target's reading is a claim of the section and a row of the page's table.
    pub(crate) fn read(&mut self, reading: Reading) {
        self.claims.push(reading.claim());
        self.readings.push(reading);
    }

    /// Names a tool that is not on this machine. That is no failure.
    pub(crate) fn note_missing(&mut self, what: String) {
        self.missing.push(what);
    }

    /// Adds to what is said of the machine.
    pub(crate) fn note_machine(&mut self, what: &str, value: String) {
        self.machine.push((what.to_owned(), value));
    }

    /// Keeps a command; the first of its kind counts.
    pub(crate) fn note_command(&mut self, command: String) {
        if !self.commands.contains(&command) {
            self.commands.push(command);
        }
    }

    /// The worst of its claims; never better than not measured when something went wrong.
    pub(crate) fn outcome(&self) -> Outcome {
        let is_whole = self.failures.is_empty() && !self.claims.is_empty();
        let least = if is_whole { Outcome::Reached } else { Outcome::NotMeasured };
        self.claims.iter().map(|claim| claim.outcome).fold(least, Outcome::max)
    }

    /// Writes `to` for `from` wherever a program's own words were kept.
    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        for text in self.failures.iter_mut().chain(&mut self.commands) {
            *text = text.replace(from, to);
        }
    }

    fn verdict(&self) -> String {
        let missed = self.claims.iter().filter(|claim| claim.outcome != Outcome::Reached).count();
        let (outcome, all) = (self.outcome().name(), self.claims.len());
        match missed {
            0 => format!("**Verdict: {outcome}** ({all} of {all})."),
            _ => format!("**Verdict: {outcome}** ({} of {all} reached).", all - missed),
        }
    }

    fn text(&self) -> String {
        let mut text = format!("\n## {}\n\n{}\n", self.part.title(), self.verdict());
        let claims =
            if self.claims.is_empty() { String::new() } else { claim::table(&self.claims) };
        for paragraph in [&self.method, &claims, &self.figures] {
            if !paragraph.is_empty() {
                let _ = write!(text, "\n{}\n", paragraph.trim_end());
            }
        }
        if !self.missing.is_empty() {
            text.push_str("\nNot on the machine, and so not measured:\n\n");
            for what in &self.missing {
                let _ = writeln!(text, "- {what}");
            }
        }
        if !self.failures.is_empty() {
            text.push_str("\n### What could not be measured\n\n");
            for failure in &self.failures {
                let _ = writeln!(text, "- {}", failure.trim().replace('\n', "\n  "));
            }
        }
        if !self.commands.is_empty() {
            let _ = write!(text, "\n### Commands\n\n```\n{}\n```\n", self.commands.join("\n"));
        }
        text.push_str("\n### Machine and versions\n\n| what | |\n|---|---|\n");
        for (name, value) in &self.machine {
            let _ = writeln!(text, "| {name} | {value} |");
        }
        for reading in &self.readings {
            text.push_str(&reading.comment());
        }
        text
    }
}

/// The page `old` with this section in its place, and the targets as they stand now; sections of
/// other parts stay as they are, and so do readings of this part that were not taken again, and
/// what was written by hand.
pub(crate) fn with_section(old: &str, section: &Section) -> String {
    let mut sections = String::new();
    for part in Part::ALL {
        let (begin, end) = marks(part);
        let old = section_of(old, part);
        let text = if part == section.part {
            let kept = target::comments_but(old.unwrap_or_default(), &section.readings);
            Some(section.text() + &kept)
        } else {
            old.map(str::to_owned)
        };
        if let Some(text) = text {
            let _ = write!(sections, "\n{begin}{text}{end}");
        }
    }
    let (begin, end) = BY_HAND;
    let remarks = between(old, begin, end)
        .map(|remarks| format!("\n{begin}{remarks}{end}"))
        .unwrap_or_default();
    format!("{HEAD}\n{}{remarks}{sections}", target::table(&sections))
}

/// The text of one part's section on the page.
pub(crate) fn section_of(page: &str, part: Part) -> Option<&str> {
    let (begin, end) = marks(part);
    between(page, &begin, &end)
}

fn marks(part: Part) -> (String, String) {
    let name = part.name();
    (format!("<!-- begin {name} -->\n"), format!("<!-- end {name} -->\n"))
}

fn between<'a>(text: &'a str, begin: &str, end: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(begin)?;
    rest.split_once(end).map(|(inner, _)| inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(part: Part, aim: &str) -> Section {
        let mut section = Section::new(part, vec![("CPU".to_owned(), "2".to_owned())]);
        section.claims.push(Claim::new("speed", aim, "7", true));
        section
    }

    #[test]
    fn sections_replace_their_own_and_stay_in_order() {
        let lab = with_section("", &section(Part::Lab, "old"));
        let both = with_section(&lab, &section(Part::Cost, "first"));
        assert!(both.starts_with(HEAD));
        assert!(both.find("## Cost and pace").unwrap() < both.find("## The lab").unwrap());
        let renewed = with_section(&both, &section(Part::Lab, "new"));
        assert_eq!(renewed, both.replace("| old |", "| new |"));
        // A page of another make gives nothing.
        assert_eq!(with_section("# Benchmarks\n\nold text\n", &section(Part::Lab, "old")), lab);
    }

    #[test]
    fn remarks_outlive_every_measurement() {
        let page = with_section("", &section(Part::Lab, "old"));
        let (begin, end) = BY_HAND;
        let remarks = format!("{begin}\n## What is not reached\n\nAnd why.\n{end}");
        let remarked = format!("{page}\n{remarks}");
        let renewed = with_section(&remarked, &section(Part::Lab, "new"));
        assert!(renewed.find(&remarks).unwrap() < renewed.find("## The lab").unwrap());
        assert_eq!(with_section(&renewed, &section(Part::Lab, "new")), renewed);
    }

    #[test]
    fn a_section_is_as_good_as_its_worst_claim() {
        let mut section = section(Part::Lab, "1");
        assert_eq!(section.outcome(), Outcome::Reached);
        section.claims.push(Claim::not_measured("width", "2", "no figure"));
        assert_eq!(section.outcome(), Outcome::NotMeasured);
        section.claims.push(Claim::new("time", "3", "4", false));
        assert_eq!(section.outcome(), Outcome::NotReached);
        assert!(section.text().contains("**Verdict: not reached** (1 of 3 reached)."));
    }

    #[test]
    fn what_went_wrong_is_said_and_spoils_the_verdict() {
        let mut section = section(Part::Truth, "1");
        section.note_missing("wrk: missing (apt-get install wrk)".to_owned());
        assert_eq!(section.outcome(), Outcome::Reached);
        section.fail("/some/where/x: gone\nat once".to_owned());
        section.rename("/some/where", "target/bench");
        assert_eq!(section.outcome(), Outcome::NotMeasured);
        let text = section.text();
        let expected = "### What could not be measured\n\n- target/bench/x: gone\n  at once\n";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("\n- wrk: missing (apt-get install wrk)\n"), "{text}");
        assert_eq!(Section::new(Part::Lab, Vec::new()).outcome(), Outcome::NotMeasured);
    }
}
