//! A generator that runs out of descriptors or ports says so and never blames the server; a search adds processes and
//! addresses. `measuring/generator_limits.rs` has a busy core and a host that stalls.

use std::process::Command;

use e2e::nginx::Nginx;
use e2e::plimsoll::{Plimsoll, Running, undisturbed};
use e2e::summary::Summary;
use e2e::{namespace, program};

/// Limits each agent to `most` open files from now on.
fn limit_files(running: &Running, most: u32) {
    for agent in running.agents() {
        let pid = agent.pid.to_string();
        let mut command = Command::new(program::installed("prlimit"));
        let status = command.args(["--pid", &pid, &format!("--nofile={most}:{most}")]).status();
        assert!(status.expect("an installed program can be run").success());
    }
}

#[test]
fn a_load_that_runs_out_of_descriptors_is_invalid() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    let flags = ["load", &url, "--json", "-", "-r", "300", "-d", "3s", "--no-keepalive"];
    let running = Plimsoll::new([&flags[..], &["--slo", "p99<50ms,errors<1%"]].concat()).start();
    nginx.wait_for_requests(100);
    limit_files(&running, 3);
    let finished = running.finish();
    finished.assert_invalid(&["local-errors"]);
    assert!(finished.summary(98).counts("connection_error_classes").contains_key("local-files"));
}

#[test]
fn a_search_starts_processes_where_descriptors_run_out() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    // Connections of one process do not fit into 100 files, those of three do.
    let flags = ["find", "rate", &url, "--mode", "quick", "--json", "-", "--no-ui", "-c", "100"];
    let range = ["--min", "40", "--max", "80", "--slo", "p99<2s,errors<1%"];
    let finished = undisturbed(|| {
        let running = Plimsoll::new([&flags[..], &range].concat()).start();
        limit_files(&running, 100);
        running.finish()
    });
    let summary = finished.summary(0);
    assert!(notes(&summary).contains("agents 1 -> 3, because"), "{summary:?}");
    // What failed before the remedy says nothing of the server.
    assert!(summary.at("find.outcome").get("not-reached").is_some(), "{summary:?}");
}

/// Returns the notes of the search.
fn notes(summary: &Summary) -> String {
    let notes = summary.at("find.notes").as_array().cloned().unwrap_or_default();
    notes.iter().filter_map(|note| note.as_str()).collect::<Vec<_>>().join("\n")
}

/// Ten ports for each source address.
const FEW_PORTS: &str = "echo 50000 50009 > /proc/sys/net/ipv4/ip_local_port_range";

#[test]
fn a_load_that_runs_out_of_ports_is_invalid() {
    let flags = ["load", namespace::URL, "--json", "-", "-r", "100", "-d", "3s"];
    let few = ["--no-keepalive", "-H", "sleep-fixed: 500", "--source", "127.0.0.1", "-c", "60"];
    let goals = ["--slo", "p99<2s,errors<1%"];
    let run = namespace::with_a_server(FEW_PORTS, &[&flags[..], &few, &goals].concat());
    let Some(finished) = run else {
        eprintln!("not tested: no privilege to make a network namespace");
        return;
    };
    finished.assert_invalid(&["local-errors"]);
    let summary = finished.summary(98);
    assert!(summary.counts("connection_error_classes").contains_key("local-ports"), "{summary:?}");
}

#[test]
fn a_search_adds_source_addresses_where_ports_run_out() {
    let flags = ["find", "rate", namespace::URL, "--mode", "quick", "--json", "-", "--no-ui"];
    // Each connection leaves its port in TIME_WAIT, and no address has 40 of them.
    let load = ["-c", "5", "--requests-per-connection", "1", "--min", "40", "--max", "80"];
    let goals = ["--slo", "p99<2s,errors<1%"];
    let search = [&flags[..], &load, &goals].concat();
    if !namespace::can(FEW_PORTS) {
        eprintln!("not tested: no privilege to make a network namespace");
        return;
    }
    let run = |flags: &[&str]| {
        let run = || namespace::with_a_server(FEW_PORTS, flags).expect("it could be made before");
        undisturbed(run)
    };
    let summary = run(&search).summary(0);
    assert!(notes(&summary).contains("source addresses 1 -> "), "{summary:?}");
    assert!(summary.at("find.outcome").get("not-reached").is_some(), "{summary:?}");
    // Addresses that were asked for stay as they are.
    let fixed = [&search[..], &["--source", "127.0.0.1"]].concat();
    let summary = run(&fixed).summary(98);
    assert_eq!(summary.text("find.outcome.generator-limited.why"), "local-errors, local-ports");
}

#[test]
fn a_host_without_proc_is_named_in_one_line() {
    let script = "mount -t tmpfs none /proc && exec \"$0\" \"$@\"";
    let url = "http://127.0.0.1:9/";
    for arguments in [
        &["load", url, "-n", "1"][..],
        &["find", "rate", url],
        &["serve", "--http", "127.0.0.1:0"],
        &["watch"],
        &["doctor", "--connections", "10"],
    ] {
        let finished = Plimsoll::unshared("-m", script, arguments).run();
        assert_eq!(finished.code, Some(1), "{arguments:?}: {}", finished.stderr);
        assert!(finished.stderr.contains("/proc is not mounted"), "{}", finished.stderr);
        assert_eq!((finished.stderr.lines().count(), &*finished.stdout), (1, ""), "{arguments:?}");
    }
}
