//! Which of our crates may import which, and who may use a heavy library directly. The table below
//! is the only place where an edge is allowed; ARCHITECTURE.md prints it.

use std::fs;

use anyhow::Result;

use crate::metadata;
use crate::metadata::{Depth, Package};

/// One crate, what it may import of ours, and what it promises in return.
struct Floor {
    name: &'static str,
    may_import: &'static [&'static str],
    promise: &'static str,
}

/// Imports go down only: a crate may import what stands above it in this list.
const FLOORS: &[Floor] = &[
    Floor {
        name: "plimsoll-model",
        may_import: &[],
        promise: "pure: no clock, no chance of the system, no I/O, no threads",
    },
    Floor {
        name: "plimsoll-sys",
        may_import: &[],
        promise: "every system call and the only `unsafe`; mechanism, no policy",
    },
    Floor {
        name: "plimsoll-proto",
        may_import: &["plimsoll-model"],
        promise: "sans-IO; bounded memory; no bytes from a peer make it panic",
    },
    Floor {
        name: "plimsoll-tls",
        may_import: &["plimsoll-model"],
        promise: "bytes to bytes; the only direct user of rustls",
    },
    Floor {
        name: "plimsoll-capacity",
        may_import: &["plimsoll-model"],
        promise: "pure judgement: the same records give the same verdict",
    },
    Floor {
        name: "plimsoll-engine",
        may_import: &["plimsoll-model", "plimsoll-sys", "plimsoll-proto", "plimsoll-tls"],
        promise: "one thread per core; no locks, no async, no allocation in steady state",
    },
    Floor {
        name: "plimsoll-report",
        may_import: &["plimsoll-model"],
        promise: "sinks only: nothing flows back",
    },
    Floor {
        name: "plimsoll-probe",
        // sys: it reads the host's ports, and there is one reader of them.
        may_import: &["plimsoll-model", "plimsoll-sys"],
        promise: "read only; a missing value stays missing",
    },
    Floor {
        name: "plimsoll-backend",
        // sys: it opens its own listeners and pins its own threads.
        may_import: &[
            "plimsoll-model",
            "plimsoll-sys",
            "plimsoll-proto",
            "plimsoll-tls",
            "plimsoll-engine",
        ],
        promise: "the server half; never the only judge of our client",
    },
    Floor {
        name: "plimsoll-tune",
        // probe: what a load needs is compared with what the host has.
        may_import: &["plimsoll-model", "plimsoll-sys", "plimsoll-probe"],
        promise: "the only crate that will change a host: plan, journal, revert",
    },
    Floor {
        name: "plimsoll-fleet",
        // sys: agents are child processes whose death it must see and cause.
        may_import: &["plimsoll-model", "plimsoll-sys"],
        promise: "coordinator and agents; control traffic only, never measured traffic",
    },
    Floor {
        name: "plimsoll-lab",
        // fleet: every process is started by it; tls: it makes the SUT's certificate; tune: what a
        // process needs besides its connections.
        may_import: &[
            "plimsoll-model",
            "plimsoll-sys",
            "plimsoll-tls",
            "plimsoll-probe",
            "plimsoll-tune",
            "plimsoll-fleet",
        ],
        promise: "the server under test; what it starts, it stops, in every case",
    },
    Floor {
        name: "plimsoll",
        may_import: &[
            "plimsoll-model",
            "plimsoll-sys",
            "plimsoll-proto",
            "plimsoll-tls",
            "plimsoll-capacity",
            "plimsoll-engine",
            "plimsoll-report",
            "plimsoll-backend",
            "plimsoll-probe",
            "plimsoll-tune",
            "plimsoll-fleet",
            "plimsoll-lab",
        ],
        promise: "the binary: flags, the only dispatcher of events, exit codes",
    },
    Floor {
        name: "testkit",
        may_import: &[
            "plimsoll-model",
            "plimsoll-proto",
            "plimsoll-tls",
            "plimsoll-capacity",
            "plimsoll-engine",
        ],
        promise: "a simulated world from a seed; for tests only",
    },
    Floor { name: "xtask", may_import: &[], promise: "developer commands; ships nothing" },
    Floor { name: "e2e", may_import: &[], promise: "drives the built binary from outside" },
];

/// Libraries that only the named crates may depend on directly, tests aside.
const DIRECT_USERS: &[(&str, &[&str])] = &[
    ("anyhow", &["plimsoll", "xtask"]),
    ("aws-lc-rs", &["plimsoll-tls"]),
    ("clap", &["plimsoll"]),
    ("libc", &["plimsoll-sys"]),
    ("procfs-core", &["plimsoll-probe"]),
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
        }
    }
    crate::verdict("edges that xtask/src/floors.rs does not allow", &offences)
}

/// The table of ARCHITECTURE.md.
pub(crate) fn table() -> String {
    let mut text = "| crate | may import | promise |\n|---|---|---|\n".to_owned();
    for floor in FLOORS {
        let imports: Vec<_> =
            floor.may_import.iter().map(|name| name.trim_start_matches("plimsoll-")).collect();
        let imports = if imports.is_empty() { "-".to_owned() } else { imports.join(", ") };
        text.push_str(&format!("| `{}` | {imports} | {} |\n", floor.name, floor.promise));
    }
    text
}

fn check_edges(package: &Package, offences: &mut Vec<String>) {
    let name = &package.name;
    let Some(floor) = FLOORS.iter().find(|floor| floor.name == name) else {
        offences.push(format!("{name} has no floor: give it a line, with its promise"));
        return;
    };
    for dependency in &package.dependencies {
        let import = dependency.name.as_str();
        let is_ours = FLOORS.iter().any(|floor| floor.name == import);
        let is_test_use = dependency.is_dev && import == TEST_CRATE;
        if is_ours && !is_test_use && !floor.may_import.contains(&import) {
            offences.push(format!("{name} imports {import}"));
        }
        let users = DIRECT_USERS.iter().find(|(library, _)| *library == import);
        if let Some((_, users)) = users
            && !dependency.is_dev
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
    package.targets.iter().filter(move |target| is_root(&target.kinds)).map(|target| &target.root)
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
                .map(|&(name, is_dev)| Dependency { name: name.to_owned(), is_dev })
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
        for (index, floor) in FLOORS.iter().enumerate() {
            for import in floor.may_import {
                let at = FLOORS.iter().position(|floor| floor.name == *import);
                assert!(at.is_some_and(|at| at < index), "{} imports {import}", floor.name);
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
