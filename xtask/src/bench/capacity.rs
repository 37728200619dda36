//! Searches of servers whose capacity is known, because it was set: the truth must lie in every
//! interval. Two makes of server: a real HAProxy, and the reference server of std alone.

use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};

use crate::bench::claim::{Claim, Outcome};
use crate::bench::invocation::Invocation;
use crate::bench::page::Section;
use crate::bench::process::Guarded;
use crate::bench::reference::{Reference, Service};
use crate::bench::search::Search;
use crate::bench::target::{Reading, Target};
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU, process, search, server};
use crate::packages;

const CONFIG: &str = "haproxy.cfg";

/// A server that takes so much and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limited {
    /// HAProxy's `rate-limit sessions`: connections accepted per second.
    Haproxy { per_s: u32 },
    /// The reference server's token bucket: requests answered per second.
    Bucket { per_s: u32 },
    /// A token bucket that an overload slows down until it is left alone for some seconds.
    Metastable { per_s: u32 },
    /// The reference server, which closes every connection above so many.
    Connections { count: u32 },
}

const SERVERS: [Limited; 6] = [
    Limited::Haproxy { per_s: 450 },
    Limited::Bucket { per_s: 700 },
    Limited::Bucket { per_s: 2_300 },
    Limited::Bucket { per_s: 9_100 },
    Limited::Metastable { per_s: 1_000 },
    Limited::Connections { count: 731 },
];

impl Limited {
    fn truth(self) -> f64 {
        match self {
            Self::Haproxy { per_s } | Self::Bucket { per_s } | Self::Metastable { per_s } => {
                per_s.into()
            }
            Self::Connections { count } => count.into(),
        }
    }

    fn name(self) -> String {
        match self {
            Self::Haproxy { per_s } => format!("HAProxy, `rate-limit sessions {per_s}`"),
            Self::Bucket { per_s } => format!("token bucket, {per_s}/s"),
            Self::Metastable { per_s } => format!("metastable server, {per_s}/s"),
            Self::Connections { count } => format!("server that keeps {count} connections"),
        }
    }

    /// What is searched: axis and flags around the URL.
    fn find(self, url: &str) -> String {
        let (axis, flags) = match self {
            // A session is a connection, so that each request needs one of its own.
            Self::Haproxy { .. } => ("rate", " --no-keepalive"),
            Self::Bucket { .. } | Self::Metastable { .. } => ("rate", ""),
            Self::Connections { .. } => ("connections", " --max 2k"),
        };
        format!("find {axis} {url} --mode quick --out {}{flags}", search::ARCHIVE)
    }
}

/// Searches of one server.
struct Known {
    server: Limited,
    searches: Vec<Search>,
}

impl Known {
    /// How many intervals hold the truth.
    fn right(&self) -> usize {
        self.searches.iter().filter(|search| self.holds(search)).count()
    }

    /// A search that stopped early has not promised its bounds.
    fn holds(&self, search: &Search) -> bool {
        let is_settled = search.is_regular();
        is_settled && search.interval.is_some_and(|interval| interval.contains(self.server.truth()))
    }

    fn claim(&self) -> Claim {
        let what = format!("{}: what it takes", self.server.name());
        let aim = format!("{} in each interval", self.server.truth());
        if self.searches.is_empty() {
            return Claim::not_measured(what, aim, "no figures");
        }
        let found = self.searches.iter().map(|search| match search.interval {
            Some(interval) if search.is_regular() => interval.to_string(),
            _ => format!("no interval: {}", search.outcome),
        });
        let found: Vec<String> = found.collect();
        Claim::new(what, aim, found.join("; "), self.right() == self.searches.len())
    }
}

impl Known {
    /// A server that an overload slows down comes back after a while, and the search must see both.
    fn recovery(&self) -> Option<Claim> {
        let Limited::Metastable { .. } = self.server else { return None };
        let what = format!("{}: how it recovers from an overload", self.server.name());
        if self.searches.is_empty() {
            return Some(Claim::not_measured(what, "after a while", "no figures"));
        }
        let seen: Vec<&str> = self.searches.iter().map(|search| &*search.recovers).collect();
        let is_right = seen.iter().all(|recovers| *recovers == "after");
        Some(Claim::new(what, "after a while", seen.join("; "), is_right))
    }
}

/// Searches each server `--rounds` times (once unless asked), and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let rounds = bench.settings.rounds_or(1);
    section.method = method();
    let mut all = Vec::new();
    for server in SERVERS {
        let mut known = Known { server, searches: Vec::new() };
        for round in 1..=rounds {
            println!("capacity, {}, search {round} of {rounds}", server.name());
            match find(bench, server, section) {
                Ok(search) => {
                    println!("capacity, {}: {}", server.name(), search.line());
                    known.searches.push(search);
                }
                Err(error) => section.fail(format!("{}: {error:#}", server.name())),
            }
        }
        section.claims.push(known.claim());
        section.claims.extend(known.recovery());
        all.push(known);
    }
    section.read(reading(&all));
    section.figures = table(&all);
    Ok(())
}

fn reading(all: &[Known]) -> Reading {
    let searches: usize = all.iter().map(|known| known.searches.len()).sum();
    let right: usize = all.iter().map(Known::right).sum();
    let missing = all.iter().filter(|known| known.searches.is_empty()).count();
    if searches == 0 {
        return Reading::not_measured(Target::KnownCapacity, "no figures");
    }
    let missing_text = match missing {
        0 => String::new(),
        missing => format!("; {missing} of {} servers not measured", all.len()),
    };
    let outcome = match (right == searches, missing) {
        (true, 0) => Outcome::Reached,
        (true, _) => Outcome::NotMeasured,
        (false, _) => Outcome::NotReached,
    };
    Reading {
        ours: format!("{right} of {searches}{missing_text}"),
        outcome,
        ..Reading::not_measured(Target::KnownCapacity, "")
    }
}

fn find(bench: &Bench, server: Limited, section: &mut Section) -> Result<Search> {
    match server {
        Limited::Haproxy { per_s } => {
            let (_haproxy, url) = start_haproxy(&bench.scratch, per_s)?;
            section.note_command(format!(
                "taskset -c {SERVER_CPU} haproxy -db -f {CONFIG}  # {}",
                frontend(per_s).join("; ")
            ));
            run(bench, server, &url, section)
        }
        Limited::Bucket { per_s } => refer(bench, server, Service::Bucket { per_s }, section),
        Limited::Metastable { per_s } => {
            refer(bench, server, Service::Metastable { per_s }, section)
        }
        Limited::Connections { count } => {
            refer(bench, server, Service::Connections { max: count }, section)
        }
    }
}

fn refer(
    bench: &Bench,
    server: Limited,
    service: Service,
    section: &mut Section,
) -> Result<Search> {
    let reference = Reference::start(service, 1)?;
    section.note_command(Reference::shown(service, 1));
    run(bench, server, &reference.0.url, section)
}

fn run(bench: &Bench, server: Limited, url: &str, section: &mut Section) -> Result<Search> {
    let find = Invocation::new(&server.find(url), Some(CLIENT_CPU));
    section.note_command(find.shown());
    Search::make(bench, &find)
}

fn start_haproxy(folder: &Path, per_s: u32) -> Result<(Guarded, String)> {
    let haproxy = packages::find("haproxy").context("haproxy: apt-get install haproxy")?;
    let [address] = server::free_addresses()?;
    let config = format!(
        "global\n  nbthread 1\n  maxconn 4000\n\
         defaults\n  timeout connect 5s\n  timeout client 60s\n  timeout server 60s\n\
         frontend limited\n  bind {address}\n  {}\n",
        frontend(per_s).join("\n  ")
    );
    fs::write(folder.join(CONFIG), config).context(CONFIG)?;
    let mut command = process::pinned(SERVER_CPU, &haproxy);
    command.args(["-db", "-f", CONFIG]).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Guarded::start(&mut command)?;
    process.wait_until_ready(address)?;
    Ok((process, format!("http://{address}/")))
}

/// The frontend's lines that matter to its capacity.
fn frontend(per_s: u32) -> [String; 3] {
    let limit = format!("rate-limit sessions {per_s}");
    ["mode http".to_owned(), limit, "http-request return status 200".to_owned()]
}

/// Every search, for the page.
fn table(all: &[Known]) -> String {
    let columns = search::COLUMNS.join(" | ");
    let mut text = format!(
        "| server | {columns} | truth inside |\n|---|---|---|---|---|---|---|---|---|---|\n"
    );
    for known in all {
        for search in &known.searches {
            let inside = if known.holds(search) { "yes" } else { "no" };
            let _ = writeln!(text, "| {} | {} | {inside} |", known.server.name(), search.cells());
        }
    }
    text
}

fn method() -> String {
    "`plimsoll find` in quick mode on servers whose capacity was set: an HAProxy that accepts so \
     many sessions per\nsecond, and a reference server of another make. Its token bucket fills at \
     exactly the rate named, holds\n10 ms of it, and lets requests wait that find it empty; it \
     sleeps for none that does not. The metastable kind\nworks at a tenth of its pace once a request \
     had to wait for 80 ms, until nothing has come for 4 s. The\nlast kind closes each connection \
     above the number named. Client on CPU 0, server on CPU 1.\n"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::bench::invocation::Finished;

    use super::*;

    fn known(lower: &serde_json::Value, upper: &serde_json::Value) -> Known {
        let find = json!({"outcome": "regular", "lower": lower, "upper": upper, "trials": 9});
        let finished = Finished { summary: json!({"find": find}), seconds: 90.0 };
        let server = Limited::Haproxy { per_s: 450 };
        Known { server, searches: vec![Search::of(&finished).unwrap()] }
    }

    #[test]
    fn the_truth_must_lie_between_the_bounds() {
        for (lower, upper, outcome) in [
            (json!(440.0), json!(460.0), Outcome::Reached),
            (json!(450.0), json!(470.0), Outcome::Reached), // a bound counts
            (json!(451.0), json!(470.0), Outcome::NotReached),
            (json!(440.0), json!(null), Outcome::NotReached),
        ] {
            let known = known(&lower, &upper);
            assert_eq!(known.claim().outcome, outcome, "{:?}", known.searches);
            assert_eq!(reading(&[known]).outcome, outcome);
        }
    }

    #[test]
    fn a_search_that_stopped_early_holds_nothing() {
        let mut known = known(&json!(440.0), &json!(460.0));
        "generator-limited: send-lag".clone_into(&mut known.searches[0].outcome);
        let claim = known.claim();
        assert_eq!(claim.outcome, Outcome::NotReached);
        assert_eq!(claim.found, "no interval: generator-limited: send-lag");
    }

    #[test]
    fn only_a_metastable_server_must_need_a_while() {
        let mut known = known(&json!(440.0), &json!(460.0));
        assert_eq!(known.recovery(), None);
        known.server = Limited::Metastable { per_s: 450 };
        assert_eq!(known.recovery().unwrap().outcome, Outcome::NotReached);
        "after".clone_into(&mut known.searches[0].recovers);
        assert_eq!(known.recovery().unwrap().outcome, Outcome::Reached);
        known.searches.clear();
        assert_eq!(known.recovery().unwrap().outcome, Outcome::NotMeasured);
    }

    #[test]
    fn every_search_counts_and_a_server_without_one_is_told() {
        let mut twice = known(&json!(440.0), &json!(460.0));
        twice.searches.extend(known(&json!(451.0), &json!(470.0)).searches);
        let claim = twice.claim();
        assert_eq!(claim.found, "[440.0, 460.0]; [451.0, 470.0]");
        assert_eq!(claim.outcome, Outcome::NotReached);
        assert_eq!(reading(&[twice]).ours, "1 of 2");
        let none = || Known { server: Limited::Bucket { per_s: 700 }, searches: Vec::new() };
        let some = reading(&[known(&json!(440.0), &json!(460.0)), none()]);
        assert_eq!(some.ours, "1 of 1; 1 of 2 servers not measured");
        assert_eq!(some.outcome, Outcome::NotMeasured);
        assert_eq!(reading(&[none()]).outcome, Outcome::NotMeasured);
        assert_eq!(none().claim().outcome, Outcome::NotMeasured);
    }
}
