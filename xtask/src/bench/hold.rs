//! The big runs: so many TLS connections with both ends on this machine, held and asked. Only when
//! they are asked for, because they take all of its memory.

mod record;
mod witness;

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::claim::Claim;
use crate::bench::invocation::Invocation;
use crate::bench::page::Section;
use crate::bench::settings::{Part, Sut};
use crate::bench::{Bench, footprint, machine, page};
use record::Record;
use witness::Witness;

/// A run that takes much longer than it may is killed; the limits themselves are judged below this.
const LIMIT: Duration = Duration::from_secs(3_600);
const HEADING: &str = "\
| through | asked | held | answered | lost | ramp, s | client, kB each | SUT, kB each | kernel, kB each | \
machine, GB | measured on |\n|---|---|---|---|---|---|---|---|---|---|---|\n";

/// Makes each run and fills the section; runs of other sizes keep their rows.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    section.method = METHOD.to_owned();
    let page = fs::read_to_string(&bench.settings.out).unwrap_or_default();
    let old = page::section_of(&page, Part::Hold).unwrap_or_default();
    let mut rows: Vec<(Key, String)> = old.lines().filter_map(old_row).collect();
    let sut = bench.settings.sut;
    for size in bench.settings.sizes_or(&[]) {
        match hold(bench, sut, size, section) {
            Ok(record) => {
                let claims = record.readings().into_iter();
                claims.for_each(|reading| section.read(reading));
                // Through HAProxy it is asked for more than memory allows, to see how far it gets.
                if sut == Sut::Embedded {
                    section.claims.push(all_held(&record));
                }
                rows.retain(|(key, _)| *key != record.key());
                rows.push((record.key(), format!("{} {} |", record.row(), machine::today())));
            }
            Err(error) => section.fail(format!("{size} connections: {error:#}")),
        }
    }
    rows.sort();
    section.figures = HEADING.to_owned();
    for (_, row) in rows {
        let _ = writeln!(section.figures, "{row}");
    }
    Ok(())
}

/// What tells runs apart: the SUT, and the connections asked for.
type Key = (String, u64);

/// A row of an earlier day.
fn old_row(line: &str) -> Option<(Key, String)> {
    let mut cells = line.strip_prefix("| ")?.split(" | ");
    let (sut, asked) = (cells.next()?, cells.next()?.parse().ok()?);
    Some(((sut.to_owned(), asked), line.to_owned()))
}

fn hold(bench: &Bench, sut: Sut, size: u32, section: &mut Section) -> Result<Record> {
    let pace = pace(sut, size);
    let words = format!("lab hold -k --sut {} --connections {size} {pace}", sut.name());
    let invocation = Invocation::new(&words, None);
    section.note_command(invocation.shown());
    let before_bytes = footprint::available_bytes()?;
    let running = invocation.start(bench, LIMIT)?;
    let witness = Witness::start()?;
    let finished = running.finish();
    let least_bytes = witness.end()?;
    let used_bytes = before_bytes.saturating_sub(least_bytes);
    let finished = finished?;
    let record = Record::of(sut, size.into(), used_bytes, &finished.summary);
    let record = record.context("its summary says nothing of what it held")?;
    println!("hold: {}", record.row());
    Ok(record)
}

/// A ramp below six minutes for a million, and heartbeats that leave two cores time for the ramp: a
/// handshake costs both ends 200 to 600 us together, a heartbeat on a connection that has long been
/// cold 50 to 150. Each level asks every connection anyway.
fn pace(sut: Sut, size: u32) -> String {
    let rate_per_s = match sut {
        Sut::Embedded => 6_000,
        // It takes 1,000 new ones a second, and fell silent when half a million were asked at 4,000/s.
        Sut::Haproxy => 2_500,
    };
    let heartbeat_min = size.div_ceil(50_000).max(1);
    format!("--rate {rate_per_s} --heartbeat {heartbeat_min}m")
}

fn all_held(record: &Record) -> Claim {
    let (sut, asked) = record.key();
    Claim::new(
        format!("{asked} connections through the {sut} SUT"),
        "all held, all answering, none lost",
        record.fate(),
        record.is_whole(),
    )
}

const METHOD: &str = "\
`plimsoll lab hold`: TLS 1.3, both ends on this machine, each connection asked once at the top and
answering. The clients check no certificate and no signature (`-k`), as those of wrk, ab and h2load.
Memory of the machine is what `MemAvailable`, less the inodes and dentries of open sockets, lost from
before the run to its least, read every 0.1 s by the benchmark; the figures per connection are
plimsoll's own.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_earlier_days_are_known_again() {
        let row =
            "| embedded | 1000000 | 1000000 | 1000000 | 0 | 301 | 0.41 | 0.52 | 8.2 | 9.6 | x |";
        let expected = (("embedded".to_owned(), 1_000_000), row.to_owned());
        assert_eq!(old_row(row), Some(expected));
        assert!(HEADING.lines().all(|line| old_row(line).is_none()));
        assert_eq!(old_row("| CPU | 2 x some |"), None);
    }
}
