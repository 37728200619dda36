//! Searches on servers whose capacity is known: the truth must lie in the interval.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use anyhow::Context;
use anyhow::Result;

use crate::bench::Bench;
use crate::bench::CLIENT_CPU;
use crate::bench::SERVER_CPU;
use crate::bench::claim::Claim;
use crate::bench::invocation::Invocation;
use crate::bench::lab;
use crate::bench::lab::search::Search;
use crate::bench::page::Section;
use crate::bench::process;
use crate::bench::process::Guarded;
use crate::bench::reference::Reference;
use crate::bench::reference::Service;
use crate::bench::server;
use crate::packages;

const CONFIG: &str = "haproxy.cfg";

/// A server that takes so many operations per second and no more.
#[derive(Clone, Copy, Debug)]
enum Limited {
    /// HAProxy, by `rate-limit sessions`.
    Haproxy { per_s: u32 },
    /// The reference server, by its service time.
    Queue { per_s: u32 },
}

const SERVERS: [Limited; 3] = [
    Limited::Haproxy { per_s: 450 },
    Limited::Queue { per_s: 700 },
    Limited::Queue { per_s: 2_300 },
];

impl Limited {
    const fn per_s(self) -> u32 {
        match self {
            Self::Haproxy { per_s } | Self::Queue { per_s } => per_s,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Haproxy { per_s } => format!("HAProxy, `rate-limit sessions {per_s}`"),
            Self::Queue { per_s } => format!("reference server, {per_s}/s"),
        }
    }
}

/// A search on a server of known capacity.
pub(super) struct Known {
    pub(super) name: String,
    pub(super) search: Search,
    pub(super) holds_truth: bool,
}

/// Searches each server's capacity; claims and failures go to the section.
pub(super) fn measure(bench: &Bench, section: &mut Section) -> Vec<Known> {
    let mut known = Vec::new();
    for server in SERVERS {
        println!("lab, known capacity: {}", server.name());
        let what = format!("{}: its capacity, 1/s", server.name());
        let aim = format!("{} in the interval", server.per_s());
        match search(bench, server, section) {
            Ok(search) => {
                println!("lab, {}: {}", server.name(), search.line());
                section.claims.push(claim(what, aim, &search, server.per_s()));
                let holds_truth = holds(&search, server.per_s());
                known.push(Known { name: server.name(), search, holds_truth });
            }
            Err(error) => {
                section.claims.push(Claim::not_measured(what, aim, "no figures"));
                section.fail(format!("{}: {error:#}", server.name()));
            }
        }
    }
    known
}

fn holds(search: &Search, per_s: u32) -> bool {
    search.interval.is_some_and(|interval| interval.contains(per_s.into()))
}

fn claim(what: String, aim: String, search: &Search, per_s: u32) -> Claim {
    let found = search.interval.map_or_else(
        || format!("no interval: {}", search.outcome),
        |interval| format!("[{:.1}, {:.1}]", interval.lower, interval.upper),
    );
    Claim::new(what, aim, found, holds(search, per_s))
}

fn search(bench: &Bench, server: Limited, section: &mut Section) -> Result<Search> {
    match server {
        Limited::Haproxy { per_s } => {
            let (_haproxy, url) = start_haproxy(&bench.scratch, per_s)?;
            section.note_command(format!(
                "taskset -c {SERVER_CPU} haproxy -db -f {CONFIG}  # {}",
                frontend(per_s).join("; ")
            ));
            // A session is a connection, so that each request needs one of its own.
            find(bench, &url, " --no-keepalive", section)
        }
        Limited::Queue { per_s } => {
            let service = Service::Queue { per_s };
            let reference = Reference::start(service, 1)?;
            section.note_command(Reference::shown(service, 1));
            find(bench, &reference.0.url, "", section)
        }
    }
}

fn find(bench: &Bench, url: &str, flags: &str, section: &mut Section) -> Result<Search> {
    let words = format!("find rate {url} --mode quick --out lab-run{flags}");
    let find = Invocation::new(&words, Some(CLIENT_CPU));
    section.note_command(find.shown());
    lab::search_once(bench, &find)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::bench::claim::Outcome;
    use crate::bench::invocation::Finished;

    use super::*;

    #[test]
    fn the_truth_must_lie_between_the_bounds() {
        for (lower, upper, outcome) in [
            (json!(440.0), json!(460.0), Outcome::Reached),
            (json!(450.0), json!(470.0), Outcome::Reached), // a bound counts
            (json!(451.0), json!(470.0), Outcome::NotReached),
            (json!(440.0), json!(null), Outcome::NotReached),
        ] {
            let find = json!({"outcome": "regular", "lower": lower, "upper": upper, "trials": 9});
            let finished = Finished { summary: json!({"find": find}), seconds: 90.0 };
            let search = Search::of(&finished).unwrap();
            let claim = claim("capacity".to_owned(), "450".to_owned(), &search, 450);
            assert_eq!(claim.outcome, outcome, "{search:?}");
        }
    }
}
