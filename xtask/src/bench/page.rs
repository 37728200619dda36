//! `docs/explanation/benchmarks.md`, rendered from the JSON files of `docs/benchmarks`; the remarks in it are written
//! by hand and stay.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::bench::results::{Outcome, Results};
use crate::bench::settings::Part;

const PAGE: &str = "explanation/benchmarks.md";
const FOLDER: &str = "benchmarks";
const REMARKS: &str = "## Remarks\n";
const HEAD: &str = "\
# Benchmarks

`cargo xtask bench` measures and writes this page; only the remarks are written by hand. Every figure
of every program, how it was measured, and the exact commands are in [benchmarks/](../benchmarks).

- A figure is the median of several rounds, with the range in brackets. A ratio is ours over that of
  the peer named first, round by round: below 1, plimsoll needs less.
- Programs take turns within each round. Clients run on one CPU, servers on the other. Server and peers
  use one thread each. TLS is 1.3 with an ECDSA P-256 certificate that no client verifies.
- kB are 1,000 bytes, GB are 10^9 bytes. CPU is user plus system time.
";

/// Writes the results of a part beside the page, and the page.
pub(crate) fn add(docs: &Path, mut results: Results) -> Result<()> {
    let folder = docs.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let path = folder.join(format!("{}.json", results.part));
    if path.exists() {
        results.keep(read(&path)?);
    }
    let text = serde_json::to_string_pretty(&results)? + "\n";
    fs::write(&path, text).with_context(|| path.display().to_string())?;
    write(docs)
}

/// Renders the page from all files.
pub(crate) fn write(docs: &Path) -> Result<()> {
    let folder = docs.join(FOLDER);
    let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    let mut all = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
    // What the nightly tests found comes last.
    let place = |part: &str| Part::ALL.iter().position(|of| of.name() == part);
    all.sort_by_key(|results| place(&results.part).unwrap_or(Part::ALL.len()));
    let page = docs.join(PAGE);
    let old = fs::read_to_string(&page).unwrap_or_default();
    let remarks = old.split_once(REMARKS).map_or("", |(_, remarks)| remarks);
    page.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::write(&page, rendered(&all, remarks)).with_context(|| page.display().to_string())
}

fn read(path: &Path) -> Result<Results> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

fn rendered(all: &[Results], remarks: &str) -> String {
    format!("{HEAD}\n{}\n{}\n{REMARKS}{remarks}", machine(all), figures(all))
}

/// Returns the machine and the versions of all parts. Where parts differ, every value is shown.
fn machine(all: &[Results]) -> String {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, value) in all.iter().flat_map(|results| &results.machine) {
        let known = values.entry(name).or_default();
        if !known.contains(&value.as_str()) {
            known.push(value);
        }
    }
    let mut text = String::from("## Machine\n\n| what | |\n|---|---|\n");
    let is_tool = |name: &str| !["CPU", "memory", "kernel"].contains(&name);
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by_key(|(name, _)| is_tool(name));
    for (name, values) in values {
        // A tool that one part found was there.
        let present: Vec<&str> =
            values.iter().copied().filter(|value| !value.starts_with("missing")).collect();
        let shown = if present.is_empty() { values } else { present };
        let _ = writeln!(text, "| {name} | {} |", shown.join("; "));
    }
    text
}

/// Returns the rows of all parts.
fn figures(all: &[Results]) -> String {
    let mut text = String::from(
        "## Figures\n\n| figure | plimsoll | peers | ratio | target | | date | command |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for row in all.iter().flat_map(|results| &results.rows) {
        let outcome = match row.outcome {
            Outcome::Reached => row.outcome.name().to_owned(),
            Outcome::NotMeasured | Outcome::NotReached => format!("**{}**", row.outcome.name()),
        };
        let cells = [
            &row.figure,
            &row.ours,
            &row.peers,
            &row.ratio,
            &row.target,
            &outcome,
            &row.date,
            &format!("`{}`", row.command),
        ];
        // What would end a cell early.
        let cells = cells.map(|cell| cell.replace(['|', '\n'], " "));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::Row;

    fn results(part: &str, ours: &str, machine: &[(&str, &str)]) -> Results {
        let machine = machine.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let mut results = Results::new(part, machine.collect());
        results.date = "2026-01-02".to_owned();
        let row = Row::alone(part, "a | b", ours.to_owned(), "1 or less", Outcome::NotReached);
        results.row(row, "");
        results
    }

    #[test]
    fn parts_of_other_days_and_remarks_stay() {
        let docs = std::env::temp_dir().join(format!("plimsoll-page-{}", std::process::id()));
        fs::create_dir_all(docs.join(PAGE).parent().unwrap()).unwrap();
        fs::write(docs.join(PAGE), format!("old\n{REMARKS}\nBy hand.\n")).unwrap();
        add(&docs, results("cost", "1.5", &[("kernel", "6.1"), ("oha", "1.16")])).unwrap();
        add(&docs, results("memory", "2.5", &[("kernel", "6.1"), ("oha", "missing; x")])).unwrap();
        add(&docs, results("cost", "1.7", &[("kernel", "6.2"), ("oha", "1.16")])).unwrap();
        let page = fs::read_to_string(docs.join(PAGE)).unwrap();
        for part in [
            "| a   b | 1.7 | - | - | 1 or less | **not reached** | 2026-01-02 | `cargo xtask bench --part cost` |\n",
            "| a   b | 2.5 |",
            "| kernel | 6.1; 6.2 |\n| oha | 1.16 |\n",
            "\n## Remarks\n\nBy hand.\n",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains("1.5") && !page.contains("old"), "{page}");
        write(&docs).unwrap();
        assert_eq!(fs::read_to_string(docs.join(PAGE)).unwrap(), page);
        fs::remove_dir_all(&docs).unwrap();
    }
}
