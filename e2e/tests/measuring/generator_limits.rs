//! A generator that is the limit says so, with the right reason, and never blames the server: a
//! busy core, a host that stalls, and a path that loses packets. `waiting/local_limits.rs` has too few descriptors and
//! ports.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use e2e::nginx::Nginx;
use e2e::plimsoll::Plimsoll;
use e2e::process::Guarded;
use e2e::turn::{alone, beside_others};
use e2e::{namespace, process, program, wait};

/// Rival threads on a core: with them a thread has a thirteenth of its core, far less than the loads below need.
const RIVALS: usize = 12;
const SLO: &str = "p99<50ms,errors<1%";

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

#[test]
fn a_load_on_a_busy_core_is_invalid() {
    let _machine = alone();
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
        finished.assert_invalid(reasons);
        assert!(summary.count("stamps.operations") > 0, "{summary:?}");
    }
}

#[test]
fn a_search_on_a_busy_core_never_blames_the_server() {
    let _machine = alone();
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
    let _machine = alone();
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    let flags = ["load", &url, "--json", "-", "-r", "500", "-d", "4s", "--slo", SLO];
    let running = Plimsoll::new(flags).start();
    nginx.wait_for_requests(500);
    let agents = running.agents();
    let signal = |name| {
        agents.iter().for_each(|agent| process::send_signal(name, &agent.pid.to_string()));
    };
    signal("STOP");
    let stopped = Instant::now();
    wait::until("a second", || (stopped.elapsed() > Duration::from_secs(1)).then_some(()));
    signal("CONT");
    let finished = running.finish();
    finished.assert_invalid(&["own-delay", "send-lag"]);
    let summary = finished.summary(98);
    let reasons = summary.at("reasons").as_array().expect("a list").clone();
    let arrivals = reasons.iter().find(|check| check["check"] == "arrivals").expect("checked");
    assert_ne!(arrivals["level"], "pass", "{arrivals}");
    // The second was ours, and the server's time knows nothing of it.
    assert!(summary.number("latency_ms.corrected.p99") > 500.0);
    assert!(summary.number("latency_ms.wire.p90") < 50.0, "{:?}", summary.at("latency_ms.wire"));
}

/// Drops one packet in fifty, in both directions.
const LOSS: &str = "nft add table inet loss \
                    && nft 'add chain inet loss in { type filter hook input priority 0; }' \
                    && nft add rule inet loss in tcp dport 8080 numgen random mod 50 == 0 drop \
                    && nft add rule inet loss in tcp sport 8080 numgen random mod 50 == 0 drop";

#[test]
fn a_path_that_loses_packets_is_not_the_server() {
    let _machine = beside_others();
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
