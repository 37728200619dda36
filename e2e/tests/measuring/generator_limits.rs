//! A generator that is the limit says so, with the right reason, and never blames the server: a
//! busy core, too few descriptors or ports, and a host that stalls.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::nginx::Nginx;
use e2e::plimsoll::{Finished, Plimsoll, Running};
use e2e::process::{Guarded, Process};
use e2e::summary::Summary;
use e2e::{namespace, process, program, wait};

const AGENT: &str = "plimsoll-agent";
/// With so many rivals a thread has a thirteenth of its core, far less than the loads below need.
const RIVALS: usize = 12;
const SLO: &str = "p99<50ms,errors<1%";

/// The validity checks that failed.
fn failed(summary: &Summary) -> Vec<String> {
    let reasons = summary.at("reasons").as_array().expect("a list").clone();
    let of = |reason: serde_json::Value| reason["check"].as_str().expect("a name").to_owned();
    let failed = reasons.into_iter().filter(|reason| reason["level"] == "fail").map(of);
    failed.filter(|check| !check.contains('<') && check != "stable").collect()
}

/// Checks that the run called itself INVALID, for one of these reasons.
fn assert_invalid(finished: &Finished, reasons: &[&str]) {
    let summary = finished.summary(98);
    assert_eq!(summary.text("verdict"), "invalid");
    let failed = failed(&summary);
    assert!(
        failed.iter().any(|check| reasons.contains(&check.as_str())),
        "{failed:?}\n{summary:?}"
    );
}

/// Programs that do nothing but keep CPU 0 busy.
fn rivals() -> Vec<Guarded> {
    let rival = |_| {
        let mut command = Command::new(program::installed("taskset"));
        command.args(["-c", "0"]).arg(program::installed("bash"));
        command.args(["-c", "while :; do :; done"]).stdin(Stdio::null());
        Guarded::start(&mut command)
    };
    (0..RIVALS).map(rival).collect()
}

/// Moves a server, with its workers, away from the rivals: what they took from it would be its own
/// time.
fn aside(nginx: &Nginx) {
    let workers = process::descendants(nginx.pid()).into_iter().map(|worker| worker.pid);
    for pid in workers.chain([nginx.pid()]) {
        let mut command = Command::new(program::installed("taskset"));
        let command = command.args(["-acp", "1", &pid.to_string()]);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
        assert!(status.expect("an installed program can be run").success());
    }
}

/// plimsoll on CPU 0 alone.
fn pinned(arguments: &[&str]) -> Plimsoll {
    Plimsoll::after("taskset -cp 0 $$ > /dev/null", arguments)
}

fn agents(running: &Running) -> Vec<Process> {
    wait::until("the agents", || Some(running.named(AGENT)).filter(|agents| !agents.is_empty()))
}

/// Waits until the server has seen `count` requests.
fn wait_for_requests(nginx: &Nginx, count: usize) {
    wait::until("requests", || (nginx.log().len() >= count).then_some(()));
}

#[test]
fn a_load_on_a_busy_core_is_invalid() {
    let nginx = Nginx::start(false, "access_log off;");
    aside(&nginx);
    let url = nginx.url("http");
    let _rivals = rivals();
    for goals in [&["--slo", SLO][..], &[]] {
        let flags = ["load", &url, "--json", "-", "-t", "1", "-r", "30000", "-d", "3s"];
        let finished = pinned(&[&flags[..], goals].concat()).run();
        let summary = finished.summary(98);
        // Without goals the figures are all there is, and how busy the generator was spoils them.
        let reasons: &[&str] = match goals {
            [] => &["send-lag", "scheduling", "arrivals"],
            _ => &["own-delay", "send-lag", "arrivals"],
        };
        assert_invalid(&finished, reasons);
        assert!(summary.count("stamps.operations") > 0, "{summary:?}");
    }
}

#[test]
fn a_search_on_a_busy_core_never_blames_the_server() {
    let nginx = Nginx::start(false, "access_log off;");
    aside(&nginx);
    let url = nginx.url("http");
    let _rivals = rivals();
    let flags = ["find", "rate", &url, "--mode", "quick", "-t", "1", "--json", "-", "--no-ui"];
    let finished = pinned(&[&flags[..], &["--min", "30000", "--max", "60000"]].concat()).run();
    let summary = finished.summary(98);
    let why = summary.text("find.outcome.generator-limited.why");
    let reasons = ["own-delay", "send-lag", "arrivals", "pool"];
    assert!(reasons.iter().any(|reason| why.contains(reason)), "{why}");
    assert_eq!(summary.count("find.trials"), 0, "a trial was judged: {summary:?}");
}

#[test]
fn a_load_whose_agents_are_stopped_for_a_second_is_invalid() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    let flags = ["load", &url, "--json", "-", "-r", "500", "-d", "4s", "--slo", SLO];
    let running = Plimsoll::new(flags).start();
    wait_for_requests(&nginx, 500);
    let agents = agents(&running);
    let signal = |name| {
        agents.iter().for_each(|agent| process::send_signal(name, &agent.pid.to_string()));
    };
    signal("STOP");
    let stopped = Instant::now();
    wait::until("a second", || (stopped.elapsed() > Duration::from_secs(1)).then_some(()));
    signal("CONT");
    let finished = running.finish();
    assert_invalid(&finished, &["own-delay", "send-lag"]);
    let summary = finished.summary(98);
    let reasons = summary.at("reasons").as_array().expect("a list").clone();
    let arrivals = reasons.iter().find(|check| check["check"] == "arrivals").expect("checked");
    assert_ne!(arrivals["level"], "pass", "{arrivals}");
    // The second was ours, and the server's time knows nothing of it.
    assert!(summary.number("latency_ms.corrected.p99") > 500.0);
    assert!(summary.number("latency_ms.wire.p90") < 50.0, "{:?}", summary.at("latency_ms.wire"));
}

/// From now on each agent may have so many open files.
fn limit_files(running: &Running, most: u32) {
    for agent in agents(running) {
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
    let running = Plimsoll::new([&flags[..], &["--slo", SLO]].concat()).start();
    wait_for_requests(&nginx, 100);
    limit_files(&running, 3);
    let finished = running.finish();
    assert_invalid(&finished, &["local-errors"]);
    assert!(finished.summary(98).counts("connection_error_classes").contains_key("local-files"));
}

#[test]
fn a_search_starts_processes_where_descriptors_run_out() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    // Connections of one process do not fit into 100 files, those of three do.
    let flags = ["find", "rate", &url, "--mode", "quick", "--json", "-", "--no-ui", "-c", "100"];
    let range = ["--min", "40", "--max", "80", "--slo", "p99<2s,errors<1%"];
    let running = Plimsoll::new([&flags[..], &range].concat()).start();
    limit_files(&running, 100);
    let finished = running.finish();
    let summary = finished.summary(0);
    assert!(notes(&summary).contains("agents 1 -> 3, because"), "{summary:?}");
    // What failed before the remedy says nothing of the server.
    assert!(summary.at("find.outcome").get("not-reached").is_some(), "{summary:?}");
}

/// What the search did, and what it noticed.
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
    assert_invalid(&finished, &["local-errors"]);
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
    let Some(finished) = namespace::with_a_server(FEW_PORTS, &search) else {
        eprintln!("not tested: no privilege to make a network namespace");
        return;
    };
    let summary = finished.summary(0);
    assert!(notes(&summary).contains("source addresses 1 -> "), "{summary:?}");
    assert!(summary.at("find.outcome").get("not-reached").is_some(), "{summary:?}");
    // Addresses that were asked for stay as they are.
    let fixed = [&search[..], &["--source", "127.0.0.1"]].concat();
    let finished = namespace::with_a_server(FEW_PORTS, &fixed).expect("it could be made before");
    let summary = finished.summary(98);
    assert_eq!(summary.text("find.outcome.generator-limited.why"), "local-errors, local-ports");
}

/// Drops one packet in fifty, in both directions.
const LOSS: &str = "nft add table inet loss \
                    && nft 'add chain inet loss in { type filter hook input priority 0; }' \
                    && nft add rule inet loss in tcp dport 8080 numgen random mod 50 == 0 drop \
                    && nft add rule inet loss in tcp sport 8080 numgen random mod 50 == 0 drop";

#[test]
fn a_path_that_loses_packets_is_not_the_server() {
    if !namespace::can(LOSS) {
        eprintln!("not tested: no privilege, or no nft, to drop packets in a network namespace");
        return;
    }
    let flags = ["find", "rate", namespace::URL, "--mode", "quick", "--json", "-", "--no-ui"];
    let load = ["--min", "100", "--max", "200", "--slo", SLO];
    let run = namespace::with_a_server(LOSS, &[&flags[..], &load].concat());
    let finished = run.expect("it could be made before");
    let summary = finished.summary(98);
    let why = summary.text("find.outcome.network-limited.why");
    assert!(why.contains("until TCP sent a lost segment again"), "{why}");
    assert!(summary.number("find.path.sent_again_per_op") > 0.01, "{summary:?}");
}
