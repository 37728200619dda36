//! Whether healthy loads are left in peace: short runs at moderate rates against real servers on a
//! CPU of their own. Each one that calls itself INVALID is a false alarm.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;

use crate::bench::Bench;
use crate::bench::CLIENT_CPU;
use crate::bench::SERVER_CPU;
use crate::bench::claim::Claim;
use crate::bench::invocation::Finished;
use crate::bench::invocation::Invocation;
use crate::bench::page::Section;
use crate::bench::server::Server;
use crate::bench::server::ServerKind;

/// Rounds over all kinds of load: 24 each, so 120 runs.
const ROUNDS: u32 = 5;
const SECONDS: u32 = 3;
const RATES_PER_S: [u32; 3] = [500, 2_000, 5_000];
/// A run that takes much longer than its load is killed.
const SPARE: Duration = Duration::from_secs(30);
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
    runs: usize,
    verdicts: BTreeMap<String, usize>,
    warnings: BTreeMap<String, usize>,
}

impl Row {
    fn add(&mut self, finished: &Finished) {
        self.runs += 1;
        let verdict = finished.summary["verdict"].as_str().unwrap_or("none");
        *self.verdicts.entry(verdict.to_owned()).or_default() += 1;
        let reasons = finished.summary["reasons"].as_array();
        for reason in reasons.into_iter().flatten().filter(|reason| reason["level"] == "warn") {
            let name = reason["check"].as_str().unwrap_or("?");
            *self.warnings.entry(name.to_owned()).or_default() += 1;
        }
    }
}

/// Measures all rounds and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let rounds = bench.settings.rounds_or(ROUNDS);
    let seconds = bench.settings.seconds_or(SECONDS);
    section.method = method(rounds, seconds);
    let mut rows: Vec<(Kind, Row)> = Vec::new();
    let mut alarms = Vec::new();
    for server in [ServerKind::Nginx, ServerKind::Haproxy] {
        let running = Server::start(server, &bench.tools.plimsoll, &bench.scratch)?;
        for kind in Kind::of(server) {
            let mut row = Row::default();
            for round in 1..=rounds {
                let invocation = kind.invocation(&running.url(kind.is_tls), seconds, round);
                section.note_command(invocation.shown());
                match invocation.run(bench, Duration::from_secs(seconds.into()) + SPARE) {
                    Ok(finished) => {
                        row.add(&finished);
                        let why = finished.invalid();
                        alarms.extend(why.map(|why| format!("{}: {why}", kind.name())));
                    }
                    Err(error) => section.fail(format!("{}: {error:#}", kind.name())),
                }
            }
            println!("{}: {:?}", kind.name(), row.verdicts);
            rows.push((kind, row));
        }
    }
    section.claims.push(claim(rows.iter().map(|(_, row)| row.runs).sum(), &alarms));
    section.figures = figures(&rows, &alarms);
    Ok(())
}

fn claim(runs: usize, alarms: &[String]) -> Claim {
    let what = "healthy loads that called themselves INVALID";
    let aim = format!("less than 1 in {RUNS_PER_ALARM}");
    if runs < RUNS_PER_ALARM {
        return Claim::not_measured(what, aim, format!("{} of only {runs} runs", alarms.len()));
    }
    let found = format!("{} of {runs}", alarms.len());
    Claim::new(what, aim, found, alarms.len() * RUNS_PER_ALARM < runs)
}

fn figures(rows: &[(Kind, Row)], alarms: &[String]) -> String {
    let mut text = String::from("| load | runs | verdicts | warnings |\n|---|---|---|---|\n");
    let listed = |counts: &BTreeMap<String, usize>| {
        let items: Vec<String> = counts.iter().map(|(name, n)| format!("{n} {name}")).collect();
        if items.is_empty() { "-".to_owned() } else { items.join(", ") }
    };
    for (kind, row) in rows {
        let (name, verdicts, warnings) =
            (kind.name(), listed(&row.verdicts), listed(&row.warnings));
        let _ = writeln!(text, "| {name} | {} | {verdicts} | {warnings} |", row.runs);
    }
    for alarm in alarms {
        let _ = writeln!(text, "\nFalse alarm: {alarm}");
    }
    text
}

fn method(rounds: u32, seconds: u32) -> String {
    format!(
        "{rounds} runs of {seconds} s of each kind of load, one after the other, Poisson arrivals \
         over 50 keep-alive connections,\nclient on CPU {CLIENT_CPU}, server on CPU {SERVER_CPU}, \
         another seed in each run; with a goal that a healthy server meets, and\nwithout one, where \
         every check of the generator counts.\n"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::claim::Outcome;

    #[test]
    fn one_false_alarm_in_a_hundred_is_too_many() {
        let alarm = || vec!["x".to_owned()];
        assert_eq!(claim(120, &[]).outcome, Outcome::Reached);
        assert_eq!(claim(120, &alarm()).outcome, Outcome::Reached);
        assert_eq!(claim(100, &alarm()).outcome, Outcome::NotReached);
        assert_eq!(claim(24, &[]).outcome, Outcome::NotMeasured);
    }

    #[test]
    fn every_kind_is_run_with_and_without_a_goal() {
        let kinds: Vec<Kind> = Kind::of(ServerKind::Nginx).collect();
        assert_eq!(kinds.len(), 12);
        assert_eq!(kinds.iter().filter(|kind| kind.has_goal && kind.is_tls).count(), 3);
        let mut row = Row::default();
        let reasons =
            json!([{"check": "co-location", "level": "warn"}, {"check": "x", "level": "pass"}]);
        row.add(&Finished {
            summary: json!({"verdict": "good", "reasons": reasons}),
            seconds: 3.0,
        });
        assert_eq!((row.runs, row.verdicts["good"], row.warnings.len()), (1, 1, 1));
    }
}
