//! The page that a benchmark writes. Medians stand beside their spread; a tool that was not there
//! is named as missing, never left out.

use std::fmt::Write;

use crate::bench::CLIENT_CPU;
use crate::bench::SERVER_CPU;
use crate::bench::Settings;
use crate::bench::client::PaceSample;
use crate::bench::client::Sample;
use crate::bench::client::Tool;

/// All rounds of one scenario.
pub(crate) struct Comparison {
    name: &'static str,
    peer: Tool,
    peer_is_here: bool,
    commands: Vec<(Tool, String)>,
    ours: Vec<Sample>,
    theirs: Vec<Sample>,
}

impl Comparison {
    pub(crate) const fn new(name: &'static str, peer: Tool, peer_is_here: bool) -> Self {
        Self {
            name,
            peer,
            peer_is_here,
            commands: Vec::new(),
            ours: Vec::new(),
            theirs: Vec::new(),
        }
    }

    /// Remembers how a tool was called; the first time counts.
    pub(crate) fn note_command(&mut self, tool: Tool, command: String) {
        if !self.commands.iter().any(|(known, _)| *known == tool) {
            self.commands.push((tool, command));
        }
    }

    /// Adds one round; `theirs` is missing when the peer is.
    pub(crate) fn add(&mut self, ours: Sample, theirs: Option<Sample>) {
        self.ours.push(ours);
        self.theirs.extend(theirs);
    }

    fn row(&self) -> String {
        let ours = Spread::of(self.ours.iter().map(Sample::cpu_us_per_op));
        let failed: u64 = self.ours.iter().chain(&self.theirs).map(|sample| sample.failed).sum();
        let peer = self.peer.name();
        if !self.peer_is_here {
            let advice = self.peer.advice();
            return format!(
                "| {} | {ours} | {peer}: missing ({advice}) | - | {failed} |",
                self.name
            );
        }
        let theirs = Spread::of(self.theirs.iter().map(Sample::cpu_us_per_op));
        // Each round's own ratio: what slowed both tools in a round cancels out.
        let pairs = self.ours.iter().zip(&self.theirs);
        let ratio = Spread::of(pairs.map(|(a, b)| a.cpu_us_per_op() / b.cpu_us_per_op()));
        format!("| {} | {ours} | {peer}: {theirs} | {ratio} | {failed} |", self.name)
    }
}

/// All rounds of the pace test.
pub(crate) struct Pace {
    rate_per_s: u32,
    command: String,
    samples: Vec<PaceSample>,
}

impl Pace {
    pub(crate) const fn new(rate_per_s: u32) -> Self {
        Self { rate_per_s, command: String::new(), samples: Vec::new() }
    }

    /// Adds one round, and how it was run.
    pub(crate) fn add(&mut self, sample: PaceSample, command: String) {
        self.command = command;
        self.samples.push(sample);
    }
}

/// Median, least and greatest of some figures.
#[derive(Debug, PartialEq)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
    decimals: usize,
}

impl Spread {
    fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let half = sorted.len() / 2;
        let is_even = sorted.len().is_multiple_of(2);
        let median = if is_even && half > 0 { (at(half - 1) + at(half)) / 2.0 } else { at(half) };
        Self { median, min: at(0), max: at(sorted.len().saturating_sub(1)), decimals: 2 }
    }

    const fn decimals(mut self, decimals: usize) -> Self {
        self.decimals = decimals;
        self
    }
}

/// `7.30 (7.10 - 7.55)`: the median, then the range.
impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { median, min, max, decimals } = self;
        write!(f, "{median:.decimals$} ({min:.decimals$} - {max:.decimals$})")
    }
}

/// The whole page.
pub(crate) fn page(
    settings: &Settings,
    machine: &[(String, String)],
    comparisons: &[Comparison],
    pace: &Pace,
) -> String {
    let mut text = String::from(
        "# Benchmarks\n\nWritten by `cargo xtask bench`; run it again instead of editing this.\n",
    );
    method(settings, &mut text);
    text.push_str("\n## Machine and versions\n\n| what | |\n|---|---|\n");
    for (name, value) in machine {
        let _ = writeln!(text, "| {name} | {value} |");
    }
    text.push_str(
        "\n## Client CPU\n\nUser and system time of the client and its children, in microseconds \
         per successful operation;\na ratio below 1 means that plimsoll needs less.\n\n\
         | per | plimsoll, us | peer, us | ratio | failed |\n|---|---|---|---|---|\n",
    );
    for comparison in comparisons {
        text.push_str(&comparison.row());
        text.push('\n');
    }
    pace_section(settings, pace, &mut text);
    text.push_str("\n## Commands\n\n```\n");
    for (_, command) in comparisons.iter().flat_map(|comparison| &comparison.commands) {
        text.push_str(command);
        text.push('\n');
    }
    text.push_str(&pace.command);
    text.push_str("\n```\n");
    text
}

fn method(settings: &Settings, text: &mut String) {
    let Settings { rounds, seconds, connections, server, .. } = settings;
    let _ = write!(
        text,
        "\nEach figure is the median over {rounds} rounds of {seconds} s, with the range in brackets.\n\
         The tools take turns within each round, and who goes first alternates.\n\
         The server ({}) is one process on CPU {SERVER_CPU}; the client runs on CPU {CLIENT_CPU} with \
         {connections} connections, as fast as it can.\n\
         TLS is 1.3 with an ECDSA P-256 certificate that no client verifies.\n\
         nginx resumes no session, so every handshake is a full one.\n",
        server.name(),
    );
}

fn pace_section(settings: &Settings, pace: &Pace, text: &mut String) {
    let ratio = pace.samples.iter().map(|sample| sample.achieved_ratio * 100.0);
    let lag = pace.samples.iter().map(|sample| sample.send_lag_ms_p99);
    let _ = write!(
        text,
        "\n## Pace\n\nplimsoll alone, {} operations/s over {} plain keep-alive connections.\n\n\
         | what | | aim |\n|---|---|---|\n\
         | achieved of offered, % | {} | 99.5 to 100.5 |\n\
         | send lag p99, ms | {} | below 1 |\n",
        pace.rate_per_s,
        settings.connections,
        Spread::of(ratio),
        Spread::of(lag).decimals(3),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu_s: f64) -> Sample {
        Sample { cpu_s, ops: 1_000_000, failed: 1 }
    }

    #[test]
    fn spreads() {
        for (figures, shown) in [
            (vec![3.0, 1.0, 2.0], "2.00 (1.00 - 3.00)"), // unsorted
            (vec![1.0, 2.0, 4.0, 9.0], "3.00 (1.00 - 9.00)"), // between the middle two
            (vec![5.0], "5.00 (5.00 - 5.00)"),
            (vec![], "NaN (NaN - NaN)"), // never a number that was not measured
        ] {
            assert_eq!(Spread::of(figures.into_iter()).to_string(), shown);
        }
    }

    #[test]
    fn ratios_are_paired_by_round() {
        let mut comparison = Comparison::new("request", Tool::Wrk, true);
        // The second round was slow for both; the ratio does not show it.
        comparison.add(sample(6.0), Some(sample(8.0)));
        comparison.add(sample(12.0), Some(sample(16.0)));
        let expected = "| request | 9.00 (6.00 - 12.00) | wrk: 12.00 (8.00 - 16.00) \
                        | 0.75 (0.75 - 0.75) | 4 |";
        assert_eq!(comparison.row(), expected);
    }

    #[test]
    fn a_missing_peer_is_named() {
        let mut comparison = Comparison::new("request", Tool::Oha, false);
        comparison.add(sample(6.0), None);
        let expected =
            "| request | 6.00 (6.00 - 6.00) | oha: missing (cargo install oha) | - | 1 |";
        assert_eq!(comparison.row(), expected);
    }

    #[test]
    fn commands_are_kept_once_per_tool() {
        let mut comparison = Comparison::new("request", Tool::Wrk, true);
        comparison.note_command(Tool::Wrk, "first".to_owned());
        comparison.note_command(Tool::Wrk, "second".to_owned());
        assert_eq!(comparison.commands, [(Tool::Wrk, "first".to_owned())]);
    }
}
