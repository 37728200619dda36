//! The allowed imports among our crates, and the crates that may use a heavy library directly. The table below
//! is the only place where an edge is allowed; `cargo xtask layers --table` prints it.

use std::fs;

use anyhow::Result;

use crate::metadata::{Depth, Package};
use crate::{circles, metadata};

/// Each crate, the crates of ours that it may import, and its promise in return. A crate may import only crates above
/// it in this table.
///
/// sys is imported for files that others wrote and for output files (report), ports (probe), listeners and pinning
/// (backend), and child processes (fleet); lab has fleet start every process, tls make the SUT's certificate, and tune
/// say what a process needs.
const LAYERS: &str = "\
plimsoll-model | | pure: no clock, no chance of the system, no I/O, no threads
plimsoll-sys | | every system call and the only `unsafe`; mechanism, no policy
plimsoll-proto | model | sans-IO; bounded memory; no bytes from a peer make it panic
plimsoll-tls | model | bytes to bytes; the only direct user of rustls
plimsoll-capacity | model | pure judgement: the same records give the same verdict
plimsoll-engine | model sys proto tls | one thread per core; no locks, no async, no allocation in steady state
plimsoll-report | model sys | sinks only: nothing flows back
plimsoll-probe | model sys | read only; a missing value stays missing
plimsoll-backend | model sys proto tls engine | the server half; never the only judge of our client
plimsoll-tune | model sys probe | the only crate that will change a host: plan, journal, revert
plimsoll-fleet | model sys tls | coordinator and agents; control traffic only, never measured traffic
plimsoll-lab | model sys tls probe tune fleet | the server under test; what it starts, it stops, in every case
plimsoll | model sys proto tls capacity engine report backend probe tune fleet lab | \
the binary: flags, the only dispatcher of events, exit codes
testkit | model proto tls capacity engine | a simulated world from a seed; for tests only
xtask | | developer commands; ships nothing
e2e | testkit | drives the built binary from outside
";

/// One line of the table.
struct Layer {
    name: &'static str,
    /// Without `plimsoll-`.
    may_import: Vec<&'static str>,
    promise: &'static str,
}

fn layers() -> Vec<Layer> {
    let layer = |line: &'static str| {
        let mut cells = line.split('|').map(str::trim);
        let mut cell = || cells.next().unwrap_or_default();
        let (name, imports) = (cell(), cell());
        Layer {
            name,
            may_import: imports.split(' ').filter(|one| !one.is_empty()).collect(),
            promise: cell(),
        }
    };
    LAYERS.lines().map(layer).collect()
}

/// Returns a crate's name as the table's second column has it.
fn short(name: &str) -> &str {
    name.strip_prefix("plimsoll-").unwrap_or(name)
}

/// Libraries that only the named crates may depend on directly, tests aside.
const DIRECT_USERS: &[(&str, &[&str])] = &[
    ("anyhow", &["plimsoll", "xtask"]),
    ("aws-lc-rs", &["plimsoll-tls"]),
    ("clap", &["plimsoll"]),
    ("libc", &["plimsoll-sys"]),
    ("rustix", &["plimsoll-sys"]),
    ("rustls", &["plimsoll-tls"]),
    ("tokio", &["plimsoll-fleet", "plimsoll-report"]),
];

/// Crates that may hold `unsafe` code.
const MAY_BE_UNSAFE: &[&str] = &["plimsoll-sys"];

/// Every crate may import this one for its tests.
const TEST_CRATE: &str = "testkit";

/// Checks the workspace.
pub(crate) fn run() -> Result<()> {
    let metadata = metadata::read(&crate::root(), Depth::Ours)?;
    let mut offences = Vec::new();
    for package in &metadata.packages {
        check_edges(package, &mut offences);
        for root in crate_roots(package) {
            check_unsafe(&package.name, &fs::read_to_string(root)?, &mut offences);
            circles::check(&package.name, root, &mut offences)?;
        }
    }
    crate::verdict("imports that xtask/src/layers.rs or circles.rs does not allow", &offences)
}

/// Returns the table with a header, in Markdown.
pub(crate) fn table() -> String {
    let mut text = "| crate | may import | promise |\n|---|---|---|\n".to_owned();
    for layer in layers() {
        let imports = layer.may_import.join(", ");
        let imports = if imports.is_empty() { "-" } else { &imports };
        text.push_str(&format!("| `{}` | {imports} | {} |\n", layer.name, layer.promise));
    }
    text
}

fn check_edges(package: &Package, offences: &mut Vec<String>) {
    let name = &package.name;
    let layers = layers();
    let Some(layer) = layers.iter().find(|layer| layer.name == name) else {
        offences.push(format!("{name} has no layer: give it a line, with its promise"));
        return;
    };
    for dependency in &package.dependencies {
        let import = dependency.name.as_str();
        let is_ours = layers.iter().any(|layer| layer.name == import);
        let is_test_use = dependency.is_dev() && import == TEST_CRATE;
        if is_ours && !is_test_use && !layer.may_import.contains(&short(import)) {
            offences.push(format!("{name} imports {import}"));
        }
        let users = DIRECT_USERS.iter().find(|(library, _)| *library == import);
        if let Some((_, users)) = users
            && !dependency.is_dev()
            && !users.contains(&name.as_str())
        {
            let users = users.join(" and ");
            offences.push(format!("{name} uses {import} directly, which only {users} may"));
        }
    }
}

fn check_unsafe(name: &str, root_text: &str, offences: &mut Vec<String>) {
    if !MAY_BE_UNSAFE.contains(&name) && !root_text.contains("#![forbid(unsafe_code)]") {
        offences.push(format!("{name} does not say #![forbid(unsafe_code)] in its root file"));
    }
}

fn crate_roots(package: &Package) -> impl Iterator<Item = &std::path::PathBuf> {
    let is_root = |kinds: &[String]| kinds.iter().any(|kind| kind == "lib" || kind == "bin");
    package
        .targets
        .iter()
        .filter(move |target| is_root(&target.kind))
        .map(|target| &target.src_path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Dependency;

    fn offences(name: &str, dependencies: &[(&str, bool)]) -> Vec<String> {
        let package = Package {
            name: name.to_owned(),
            dependencies: dependencies
                .iter()
                .map(|&(name, is_dev)| Dependency {
                    name: name.to_owned(),
                    kind: is_dev.then(|| "dev".to_owned()),
                })
                .collect(),
            ..Package::default()
        };
        let mut offences = Vec::new();
        check_edges(&package, &mut offences);
        offences
    }

    #[test]
    fn edges_are_judged_by_the_table() {
        let none: &[&str] = &[];
        assert_eq!(offences("plimsoll-proto", &[("plimsoll-model", false)]), none);
        assert_eq!(offences("plimsoll-proto", &[("testkit", true), ("rustls", true)]), none);
        assert_eq!(offences("plimsoll-sys", &[("libc", false)]), none);
        assert_eq!(
            offences("plimsoll-report", &[("plimsoll-engine", false)]),
            ["plimsoll-report imports plimsoll-engine"]
        );
        // A test needs an allowed edge too, or the engine creeps into the sinks' tests.
        assert_eq!(offences("plimsoll-report", &[("plimsoll-engine", true)]).len(), 1);
        assert_eq!(
            offences("plimsoll-engine", &[("rustls", false)]),
            ["plimsoll-engine uses rustls directly, which only plimsoll-tls may"]
        );
        assert_eq!(offences("plimsoll-misc", &[]).len(), 1);
    }

    #[test]
    fn the_table_only_goes_down() {
        let layers = layers();
        for (index, layer) in layers.iter().enumerate() {
            for import in &layer.may_import {
                let at = layers.iter().position(|layer| short(layer.name) == *import);
                assert!(at.is_some_and(|at| at < index), "{} imports {import}", layer.name);
            }
        }
    }

    #[test]
    fn unsafe_has_one_address() {
        let mut offences = Vec::new();
        check_unsafe("plimsoll-sys", "", &mut offences);
        check_unsafe("plimsoll-tls", "#![forbid(unsafe_code)]\n", &mut offences);
        assert!(offences.is_empty());
        check_unsafe("plimsoll-tls", "", &mut offences);
        assert_eq!(offences.len(), 1);
    }
}
