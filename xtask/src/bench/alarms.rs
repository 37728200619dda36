//! Whether healthy loads are left in peace: short runs at moderate rates against real servers on a
//! CPU of their own. Each one that calls itself INVALID is a false alarm.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;

use crate::bench::claim::Claim;
use crate::bench::invocation::{Finished, Invocation};
use crate::bench::page::Section;
use crate::bench::server::{Server, ServerKind};
use crate::bench::spread::Spread;
use crate::bench::stolen::stolen_during;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU};

/// Rounds over all kinds of load: 24 each, so 120 runs.
const ROUNDS: u32 = 5;
const SECONDS: u32 = 3;
const RATES_PER_S: [u32; 3] = [500, 2_000, 5_000];
/// A run that takes much longer than its load is killed.
const SPARE: Duration = Duration::from_secs(30);
/// A machine is quiet while no more than this share of its CPU time goes to others. Half of what makes
/// a run INVALID: the two clocks do not start together.
const QUIET: f64 = 0.05;
/// So many runs, at most, for each that must be quiet.
const TRIES: usize = 4;
/// False alarms must be fewer than one in so many.
const RUNS_PER_ALARM: usize = 100;

/// One kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    server: ServerKind,
    is_tls: bool,
    rate_per_s: u32,
    has_goal: bool,
}

impl Kind {
    fn of(server: ServerKind) -> impl Iterator<Item = Self> {
        let rates = RATES_PER_S.into_iter();
        rates.flat_map(move |rate_per_s| {
            [(false, true), (true, true), (false, false), (true, false)]
                .map(|(is_tls, has_goal)| Self { server, is_tls, rate_per_s, has_goal })
        })
    }

    fn invocation(self, url: &str, seconds: u32, seed: u32) -> Invocation {
        let words = format!(
            "load {url} --insecure -r {} -d {seconds}s -c 50 -t 1 --seed {seed}",
            self.rate_per_s
        );
        let invocation = Invocation::new(&words, Some(CLIENT_CPU));
        match self.has_goal {
            true => invocation.argument("--slo").argument("p99<50ms,errors<0.1%"),
            false => invocation,
        }
    }

    fn name(self) -> String {
        format!(
            "{}, {}, {}/s, {}",
            self.server.name(),
            if self.is_tls { "TLS" } else { "plain" },
            self.rate_per_s,
            if self.has_goal { "p99<50ms" } else { "no goal" }
        )
    }
}

/// What was seen of one kind.
#[derive(Debug, Default)]
struct Row {
    /// Runs on a quiet machine.
    runs: usize,
    verdicts: BTreeMap<String, usize>,
    warnings: BTreeMap<String, usize>,
    /// What quiet runs said that called themselves INVALID.
    alarms: Vec<String>,
    /// The p99 latencies of quiet runs that stand by their figures, in ms.
    p99_ms: Vec<f64>,
    /// Runs from which the hypervisor took more than [`QUIET`].
    disturbed: usize,
    /// The p99 latencies of those of them that called themselves INVALID, in ms.
    disturbed_invalid_p99_ms: Vec<f64>,
}

impl Row {
    /// Takes in a run from which the hypervisor took the share `stolen`.
    fn add(&mut self, finished: &Finished, stolen: f64) {
        let p99_ms = finished.summary["latency_ms"]["corrected"]["p99"].as_f64();
        let why = finished.invalid();
        if stolen > QUIET {
            self.disturbed += 1;
            self.disturbed_invalid_p99_ms.extend(p99_ms.filter(|_| why.is_some()));
            return;
        }
        self.runs += 1;
        let verdict = finished.summary["verdict"].as_str().unwrap_or("none");
        *self.verdicts.entry(verdict.to_owned()).or_default() += 1;
        let reasons = finished.summary["reasons"].as_array();
        for reason in reasons.into_iter().flatten().filter(|reason| reason["level"] == "warn") {
            let name = reason["check"].as_str().unwrap_or("?");
            *self.warnings.entry(name.to_owned()).or_default() += 1;
        }
        self.p99_ms.extend(p99_ms.filter(|_| why.is_none()));
        self.alarms.extend(why);
    }

    /// By how much the latencies that disturbed runs called INVALID were off.
    fn errors(&self) -> impl Iterator<Item = f64> {
        let usual_ms = Spread::of(self.p99_ms.iter().copied()).median;
        let errors = self.disturbed_invalid_p99_ms.iter().map(move |p99_ms| p99_ms / usual_ms);
        errors.filter(|error| error.is_finite())
    }
}

/// Measures all rounds and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let rounds = bench.settings.rounds_or(ROUNDS) as usize;
    let seconds = bench.settings.seconds_or(SECONDS);
    section.method = method(rounds, seconds);
    let mut rows: Vec<(Kind, Row)> = Vec::new();
    for server in [ServerKind::Nginx, ServerKind::Haproxy] {
        let running = Server::start(server, &bench.tools.plimsoll, &bench.scratch)?;
        for kind in Kind::of(server) {
            let mut row = Row::default();
            for seed in 1..=(rounds * TRIES) as u32 {
                if row.runs == rounds {
                    break;
                }
                let invocation = kind.invocation(&running.url(kind.is_tls), seconds, seed);
                section.note_command(invocation.shown());
                let limit = Duration::from_secs(seconds.into()) + SPARE;
                let (stolen, finished) = stolen_during(|| invocation.run(bench, limit));
                match finished {
                    Ok(finished) => row.add(&finished, stolen),
                    Err(error) => section.fail(format!("{}: {error:#}", kind.name())),
                }
            }
            println!("{}: {:?}, {} disturbed", kind.name(), row.verdicts, row.disturbed);
            rows.push((kind, row));
        }
    }
    section.claims.push(claim(&rows));
    section.figures = figures(&rows);
    Ok(())
}

fn claim(rows: &[(Kind, Row)]) -> Claim {
    let what = "healthy loads on a quiet machine that called themselves INVALID";
    let aim = format!("less than 1 in {RUNS_PER_ALARM}");
    let runs: usize = rows.iter().map(|(_, row)| row.runs).sum();
    let alarms: usize = rows.iter().map(|(_, row)| row.alarms.len()).sum();
    if runs < RUNS_PER_ALARM {
        return Claim::not_measured(what, aim, format!("{alarms} of only {runs} runs"));
    }
    Claim::new(what, aim, format!("{alarms} of {runs}"), alarms * RUNS_PER_ALARM < runs)
}

fn figures(rows: &[(Kind, Row)]) -> String {
    let mut text =
        String::from("| load | runs | verdicts | warnings | disturbed |\n|---|---|---|---|---|\n");
    let listed = |counts: &BTreeMap<String, usize>| {
        let items: Vec<String> = counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
        if items.is_empty() { "-".to_owned() } else { items.join(", ") }
    };
    for (kind, row) in rows {
        let (name, verdicts, warnings) =
            (kind.name(), listed(&row.verdicts), listed(&row.warnings));
        let _ = writeln!(
            text,
            "| {name} | {} | {verdicts} | {warnings} | {} |",
            row.runs, row.disturbed
        );
    }
    for (kind, row) in rows {
        for alarm in &row.alarms {
            let _ = writeln!(text, "\nFalse alarm: {}: {alarm}", kind.name());
        }
    }
    text + &disturbances(rows)
}

/// What became of the runs that a neighbour on the same host disturbed.
fn disturbances(rows: &[(Kind, Row)]) -> String {
    let disturbed: usize = rows.iter().map(|(_, row)| row.disturbed).sum();
    if disturbed == 0 {
        return String::new();
    }
    let errors = Spread::of(rows.iter().flat_map(|(_, row)| row.errors()));
    let invalid: usize = rows.iter().map(|(_, row)| row.disturbed_invalid_p99_ms.len()).sum();
    let mut text =
        format!("\nDisturbed runs: {disturbed}, of which {invalid} called themselves INVALID");
    if !errors.median.is_nan() {
        let _ = write!(text, ", whose\np99 was {errors} times that of the same load's quiet runs");
    }
    text + ".\n"
}

fn method(rounds: usize, seconds: u32) -> String {
    format!(
        "{rounds} runs of {seconds} s of each kind of load, one after the other, Poisson arrivals \
         over 50 keep-alive connections,\nclient on CPU {CLIENT_CPU}, server on CPU {SERVER_CPU}, \
         another seed in each run; with a goal that a healthy server meets, and\nwithout one, where \
         every check of the generator counts. A run from which the hypervisor took more than {:.0} % \
         of all CPU time\n(steal in /proc/stat, read by the benchmark) is disturbed: it is no healthy \
         load, and is done again, {TRIES} times at most.\n",
        100.0 * QUIET
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::claim::Outcome;

    const KIND: Kind =
        Kind { server: ServerKind::Nginx, is_tls: false, rate_per_s: 500, has_goal: false };

    fn run(verdict: &str, p99_ms: f64) -> Finished {
        let summary = json!({
            "verdict": verdict,
            "latency_ms": {"corrected": {"p99": p99_ms}},
            "reasons": [
                {"check": "co-location", "level": "warn"},
                {"check": "x", "level": if verdict == "invalid" { "fail" } else { "pass" }},
            ],
        });
        Finished { summary, seconds: 3.0 }
    }

    #[test]
    fn one_false_alarm_in_a_hundred_is_too_many() {
        let outcome = |runs, alarms| {
            let row = Row { runs, alarms: vec!["x".to_owned(); alarms], ..Row::default() };
            claim(&[(KIND, row)]).outcome
        };
        assert_eq!(outcome(120, 0), Outcome::Reached);
        assert_eq!(outcome(120, 1), Outcome::Reached);
        assert_eq!(outcome(100, 1), Outcome::NotReached);
        assert_eq!(outcome(24, 0), Outcome::NotMeasured);
    }

    #[test]
    fn disturbed_runs_are_told_and_do_not_count() {
        let mut row = Row::default();
        for p99_ms in [0.4, 0.5, 0.6] {
            row.add(&run("good", p99_ms), 0.02);
        }
        row.add(&run("invalid", 5.0), 0.16);
        row.add(&run("good", 1.0), 0.07);
        assert_eq!((row.runs, row.alarms.len(), row.disturbed), (3, 0, 2));
        assert_eq!((row.verdicts["good"], row.warnings["co-location"]), (3, 3));
        assert_eq!(row.errors().collect::<Vec<_>>(), [10.0]);
        // A quiet one that is INVALID counts.
        row.add(&run("invalid", 0.5), 0.02);
        assert_eq!((row.runs, row.alarms.len()), (4, 1));
        let text = figures(&[(KIND, row)]);
        assert!(text.contains("Disturbed runs: 2, of which 1 called themselves INVALID"), "{text}");
        assert!(text.contains("p99 was 10.00 (10.00 - 10.00) times"), "{text}");
    }

    #[test]
    fn every_kind_is_run_with_and_without_a_goal() {
        let kinds: Vec<Kind> = Kind::of(ServerKind::Nginx).collect();
        assert_eq!(kinds.len(), 12);
        assert_eq!(kinds.iter().filter(|kind| kind.has_goal && kind.is_tls).count(), 3);
    }
}
