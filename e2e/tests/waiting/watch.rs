//! The server's own count beside ours: HAProxy's statistics socket and nginx's stub_status page.

use std::fs;

use serde_json::Value;

use e2e::haproxy::Haproxy;
use e2e::nginx::Nginx;
use e2e::plimsoll::{Finished, Plimsoll, undisturbed};
use e2e::{port, wait};

const PONG: &str = "    http-request return status 200 content-type text/plain string pong";
/// Met by every load up to the cap, on a busy machine, too.
const SHORT: [&str; 6] = ["--min", "200", "--max", "400", "--slo", "p99<500ms,errors<1%"];

fn search(url: &str, watch: &str) -> Plimsoll {
    let flags = ["find", "rate", url, "--mode", "quick", "--no-ui", "--out", "run"];
    Plimsoll::new([&flags[..], &["--watch", watch], &SHORT].concat())
}

/// Returns the check `peer-counters` of every trial.
fn peer_counters(finished: &Finished) -> Vec<Value> {
    let trials = fs::read_to_string(finished.folder().join("run/trials.jsonl")).expect("archived");
    let of_trial = |line: &str| {
        let trial: Value = serde_json::from_str(line).expect("one JSON object in each line");
        let reasons = trial["judgement"]["reasons"].as_array().expect("a list").clone();
        reasons.into_iter().find(|reason| reason["check"] == "peer-counters").expect("checked")
    };
    trials.lines().map(of_trial).collect()
}

fn assert_agreed(finished: &Finished) {
    assert_eq!(finished.code, Some(0), "{}\n{}", finished.stderr, finished.stdout);
    let checks = peer_counters(finished);
    assert!(checks.len() >= 2, "{checks:?}");
    assert!(checks.iter().all(|check| check["level"] == "pass"), "{checks:?}");
}

#[test]
fn haproxy_counts_what_was_sent() {
    let haproxy = Haproxy::start("", PONG, "");
    let watch = format!("haproxy:{}", haproxy.stats_socket().display());
    let finished = undisturbed(|| search(&haproxy.url("http"), &watch).run());
    assert_agreed(&finished);
    // The archive has a reading of the host for each second.
    let hosts = fs::read_to_string(finished.folder().join("run/hosts.jsonl")).expect("archived");
    assert!(hosts.contains("haproxy_process_requests_total"), "{hosts}");
    assert!(hosts.lines().count() > 3, "{hosts}");
}

#[test]
fn loads_and_holds_watch_the_server() {
    let haproxy = Haproxy::start("", PONG, "");
    let (url, pid) = (haproxy.url("http"), format!("pid:{}", haproxy.pid()));
    let counts = format!("haproxy:{}", haproxy.stats_socket().display());
    let watch = ["--watch", &counts, "--watch", &pid, "--no-ui", "--out", "run", "--json", "-"];
    for how in [&["load", "--rate", "50", "-d", "3s"][..], &["hold", "-c", "20", "--for", "3s"]] {
        let words = [how, &watch, &[&url]].concat();
        let finished = undisturbed(|| Plimsoll::new(&words).run());
        let checks = finished.summary(0).at("checks").to_string();
        assert!(checks.contains("peer-counters") || how[0] == "hold", "{checks}");
        let hosts = fs::read_to_string(finished.folder().join("run/hosts.jsonl"));
        let hosts = hosts.expect("archived");
        for metric in ["haproxy_process_requests_total", "process_cpu_seconds_total"] {
            assert!(hosts.contains(metric), "{how:?} {metric}: {hosts}");
        }
    }
}

#[test]
fn a_server_that_ends_in_a_load_is_named_and_the_host_is_read_on() {
    let haproxy = Haproxy::start("", PONG, "");
    let (url, pid) = (haproxy.url("http"), format!("pid:{}", haproxy.pid()));
    let counts = format!("haproxy:{}", haproxy.stats_socket().display());
    let watch = ["--watch", &counts, "--watch", &pid, "--out", "run", "--json", "summary.json"];
    let load = ["load", &url, "--rate", "50", "-d", "4s"];
    let running = Plimsoll::new([&load[..], &watch].concat()).start();
    haproxy.wait_for("req_tot", 20);
    drop(haproxy);
    let finished = running.finish();
    let summary = fs::read_to_string(finished.folder().join("summary.json")).expect("written");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    let hosts = summary["hosts"].as_object().expect("hosts").values();
    let lost: Vec<&Value> =
        hosts.filter_map(|host| host["sources_lost"].as_array()).flatten().collect();
    let lost = |kind: &str| lost.iter().find(|source| source["kind"] == kind);
    let process = lost("process").unwrap_or_else(|| panic!("{summary}"));
    assert_eq!((&process["name"], process["ended"].is_null()), (&"haproxy".into(), false));
    assert!(lost("haproxy").is_some_and(|source| source["reason"].is_string()), "{summary}");
    assert!(finished.stdout.contains("Sources  "), "{}", finished.stdout);
    // The last reading has the network of the host, though the first process is gone.
    let hosts = fs::read_to_string(finished.folder().join("run/hosts.jsonl")).expect("archived");
    let lines: Vec<Value> =
        hosts.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let list = lines.iter().rev().find_map(|line| line["series"].as_array()).expect("a list");
    let at = list.iter().position(|series| series["metric"] == "tcp_established").expect("read");
    let last = lines.last().expect("lines");
    assert!(last["values"][at].is_number(), "{last}");
}

#[test]
fn nginx_counts_what_was_sent() {
    let status = port::free();
    let directives = format!("listen {status};\nlocation /status {{ stub_status; }}");
    let nginx = Nginx::start(false, &directives);
    let watch = format!("nginx:http://{status}/status");
    assert_agreed(&undisturbed(|| search(&nginx.url("http"), &watch).run()));
}

#[test]
fn somebody_elses_requests_make_a_search_invalid() {
    let haproxy = Haproxy::start("", PONG, "");
    let url = haproxy.url("http");
    let other = Plimsoll::new(["load", &url, "--rate", "100", "-d", "10m", "--no-ui"]).start();
    haproxy.wait_for("req_tot", 10);
    let watch = format!("haproxy:{}", haproxy.stats_socket().display());
    let finished = search(&url, &watch).run();
    assert_eq!(finished.code, Some(98), "{}\n{}", finished.stderr, finished.stdout);
    assert!(peer_counters(&finished).iter().all(|check| check["level"] == "fail"));
    other.signal("INT");
    other.finish();
}

#[test]
fn another_client_on_another_front_end_does_not_count() {
    let elsewhere = port::free();
    let other_frontend = format!("frontend other\n    bind {elsewhere}\n{PONG}");
    let haproxy = Haproxy::start("", PONG, &other_frontend);
    let theirs = format!("http://{elsewhere}/");
    let other = Plimsoll::new(["load", &theirs, "--rate", "100", "-d", "10m", "--no-ui"]).start();
    haproxy.wait_for_frontend("other", "req_tot", 10);
    let watch = format!("haproxy:{}", haproxy.stats_socket().display());
    assert_agreed(&undisturbed(|| search(&haproxy.url("http"), &watch).run()));
    other.signal("INT");
    other.finish();
}

#[test]
fn a_server_that_does_not_tell_is_refused_beforehand() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    for (watch, why) in [
        ("haproxy:nowhere.sock".to_owned(), "--watch haproxy:nowhere.sock: "),
        (format!("nginx:{url}"), "the answer is not nginx's stub_status page"),
    ] {
        let finished = search(&url, &watch).run();
        assert_eq!(finished.code, Some(1), "{}", finished.stderr);
        assert!(finished.stderr.contains(why), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
    // The questions themselves are all that it has served.
    wait::until("the log", || (nginx.log().len() == 1).then_some(()));
}
