//! Whether the search is fast enough, narrow enough, repeatable, and right where the truth is known.

mod capacity;
mod interval;
mod search;

use std::time::Duration;

use anyhow::Result;
use anyhow::bail;

use crate::bench::Bench;
use crate::bench::invocation::Invocation;
use crate::bench::page::Section;
use crate::packages;
use search::Search;

/// A search that takes much longer than it may is killed; the limit itself is judged below this.
const LIMIT: Duration = Duration::from_secs(600);

/// Measures the lab, then the known capacities, and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let repeats = bench.settings.repeats;
    section.method = method(repeats);
    if packages::find("haproxy").is_none() {
        bail!("haproxy: missing (apt-get install haproxy)");
    }
    let lab = Invocation::new("lab --mode quick --sut haproxy --out lab-run", None);
    section.note_command(lab.shown());
    let mut searches = Vec::new();
    for run in 0..=repeats {
        println!("lab, search {} of {}", run + 1, repeats + 1);
        match search_once(bench, &lab) {
            Ok(search) => {
                println!("lab, search {}: {}", run + 1, search.line());
                searches.push(search);
            }
            Err(error) => section.fail(format!("lab, search {}: {error:#}", run + 1)),
        }
    }
    section.claims.extend(search::claims(&searches));
    let known = capacity::measure(bench, section);
    section.figures = search::table(&searches, &known);
    Ok(())
}

/// Makes one search, whose archive replaces the one before.
fn search_once(bench: &Bench, invocation: &Invocation) -> Result<Search> {
    // An archive is a new folder; that it was not there is no error.
    let _ = std::fs::remove_dir_all(bench.scratch.join("lab-run"));
    Search::of(&invocation.run(bench, LIMIT)?)
}

fn method(repeats: u32) -> String {
    format!(
        "`plimsoll lab --mode quick` with the real HAProxy, TLS in front, once and then {repeats} \
         times more; the lab\npins its clients and its SUT by itself. Then `plimsoll find rate` on \
         servers whose capacity is known:\nan HAProxy that accepts so many sessions per second, and \
         a reference server of another make, which\nserves one request at a time and each for \
         exactly the same time.\n"
    )
}
