//! `plimsoll watch` beside a real HAProxy and a real nginx.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use serde_json::Value;

use e2e::haproxy::Haproxy;
use e2e::nginx::Nginx;
use e2e::plimsoll::{Plimsoll, Running};
use e2e::{port, wait};

const PONG: &str = "    http-request return status 200 content-type text/plain string pong";

/// Returns one request on its own connection; empty while nothing listens.
fn fetch(address: SocketAddr, path: &str) -> String {
    let mut answer = String::new();
    if let Ok(mut stream) = TcpStream::connect(address) {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_string(&mut answer);
    }
    answer
}

/// Returns the value of the series that `line` begins with.
fn metric(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(series))?;
    line.split_once("} ")?.1.parse().ok()
}

fn json_lines(running: &Running) -> Vec<Value> {
    let text = fs::read_to_string(running.folder().join("watch.json")).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn servers_and_their_processes_are_seen() {
    let haproxy = Haproxy::start("", PONG, "");
    let status = port::free();
    let nginx = Nginx::start(false, &format!("listen {status};\nlocation /s {{ stub_status; }}"));
    let metrics = port::free();
    let socket = haproxy.stats_socket().display().to_string();
    let page = format!("http://{status}/s");
    let (metrics_flag, nginx_pid) = (metrics.to_string(), nginx.pid().to_string());
    let mut watch = Plimsoll::new([
        "watch",
        "--interval",
        "100ms",
        "--haproxy",
        &socket,
        "--nginx",
        &page,
        "--pid",
        &nginx_pid,
        "--prometheus",
        &metrics_flag,
        "--json",
        "watch.json",
        "--out",
        "seen",
    ])
    .start();
    let url = haproxy.url("http");
    let load = Plimsoll::new(["load", &url, "--rate", "0", "-n", "20", "--no-ui"]).run();
    assert_eq!(load.code, Some(0), "{}", load.stderr);
    // Prometheus gets cumulative counters, by the process that the statistics socket named.
    let text = wait::until("HAProxy's requests in the metrics", || {
        let text = fetch(metrics, "/metrics");
        let requests = metric(&text, "plimsoll_haproxy_process_requests_total")?;
        (requests >= 20.0).then_some(text)
    });
    for series in [
        "plimsoll_process_cpu_seconds_total",
        "plimsoll_nginx_http_requests_total",
        "plimsoll_tcp_established",
        "plimsoll_cpu_seconds_total",
        "plimsoll_listen_queue_limit",
    ] {
        assert!(metric(&text, series).is_some(), "{series} in {text}");
    }
    assert!(text.contains("process=\"haproxy\"") && text.contains("process=\"nginx\""), "{text}");
    let lines = wait::until("JSON lines", || {
        let lines = json_lines(&watch);
        (lines.len() >= 2).then_some(lines)
    });
    assert_eq!(lines[0]["schema"], "plimsoll.watch/1");
    assert!(lines[0]["values"]["haproxy_process_current_connections{process=\"0\"}"].is_number());
    // A server that ends is named, and the rest goes on.
    drop(haproxy);
    wait::until("the end of HAProxy", || {
        let named = |line: &Value| line["missing"].to_string().contains("haproxy:");
        json_lines(&watch).last().filter(|line| named(line)).map(|_| ())
    });
    assert!(!watch.has_ended());
    watch.signal("INT");
    let finished = watch.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stdout.lines().count() >= 2, "{}", finished.stdout);
    let archived =
        fs::read_to_string(finished.folder().join("seen/hosts.jsonl")).expect("archived");
    assert!(archived.lines().count() >= 3, "{archived}");
}

#[test]
fn a_process_that_ends_takes_no_figure_of_the_host_with_it() {
    let mut shell = Command::new("sh");
    let mut shell =
        shell.args(["-c", "read line; exit 3"]).stdin(Stdio::piped()).spawn().expect("a shell");
    let metrics = port::free();
    let (pid, metrics_flag) = (shell.id().to_string(), metrics.to_string());
    let mut watch = Plimsoll::new([
        "watch",
        "--interval",
        "100ms",
        "--pid",
        &pid,
        "--haproxy",
        "no.sock",
        "--prometheus",
        &metrics_flag,
        "--json",
        "watch.json",
    ])
    .start();
    let scraped = |state: &str| {
        let up = format!("kind=\"process\",source=\"sh\"}} {state}");
        wait::until("the state of the shell", || {
            let text = fetch(metrics, "/metrics");
            text.contains(&up).then_some(text)
        })
    };
    let names = |text: &str| -> BTreeSet<String> {
        let series = text.lines().filter(|line| line.starts_with("plimsoll_"));
        let name = |line: &str| line.split(['{', ' ']).next().unwrap_or_default().to_owned();
        let is_own = |name: &String| name.contains("_process_") || name.contains("_cgroup_");
        series.map(name).filter(|name| !is_own(name)).collect()
    };
    let before = scraped("1");
    assert!(before.contains("kind=\"haproxy\",source=\"haproxy:no.sock\"} 0"), "{before}");
    drop(shell.stdin.take());
    shell.wait().expect("it ends with its input");
    let after = scraped("0");
    assert_eq!(names(&before).difference(&names(&after)).next(), None);
    assert!(!watch.has_ended());
    watch.signal("INT");
    let finished = watch.finish();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let last = finished.stdout.lines().last().expect("lines");
    // On a busy machine it also says how long ago.
    let end = last.split("; ").find(|part| part.starts_with(&format!("process sh ({pid}) ended")));
    assert!(end.is_some_and(|end| end.ends_with(": exit status 3")), "{last}");
    assert!(last.contains("haproxy:no.sock not read for "), "{last}");
    assert!(last.contains(" established; "), "{last}");
    let json = fs::read_to_string(finished.folder().join("watch.json")).expect("written");
    let json: Value = serde_json::from_str(json.lines().last().expect("lines")).expect("JSON");
    let sources = json["sources"].as_array().expect("a list");
    let ended = sources.iter().find(|source| source["name"] == "sh").expect("listed");
    assert_eq!(ended["state"], "ended");
    // The kernel tells nobody but the parent before Linux 6.15, unless it was read before that.
    let status = &ended["status"];
    assert!(status["exited"] == 3 || status == "unknown", "{ended}");
}

#[test]
fn an_output_that_is_full_is_named_and_the_others_go_on() {
    let full = ["--json", "/dev/full", "--out", "seen", "--no-ui"];
    let watch = ["watch", "--interval", "100ms", "--duration", "500ms"];
    let finished = Plimsoll::new([&watch[..], &full].concat()).run();
    assert_eq!(finished.code, Some(1), "{}", finished.stderr);
    assert!(
        finished.stderr.contains("cannot write /dev/full: No space left"),
        "{}",
        finished.stderr
    );
    let archived =
        fs::read_to_string(finished.folder().join("seen/hosts.jsonl")).expect("archived");
    assert!(archived.lines().count() >= 5, "{archived}");
    let page = Plimsoll::new(["report", "seen", "--html", "page.html"]).within(&finished.folder());
    let refused = page.run();
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("seen is what `watch` has archived"), "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
}

#[test]
fn what_serve_sends_over_statsd_is_received() {
    let statsd = port::free().to_string();
    let watch = Plimsoll::new([
        "watch",
        "--interval",
        "100ms",
        "--statsd-listen",
        &statsd,
        "--json",
        "watch.json",
        "--no-ui",
    ])
    .start();
    wait::until("the first line", || (!json_lines(&watch).is_empty()).then_some(()));
    let serve = e2e::serve::Serve::start(&["--http", "0", "--statsd", &statsd], 1);
    let load = Plimsoll::new(["load", serve.url(), "--rate", "0", "-n", "20", "--no-ui"]).run();
    assert_eq!(load.code, Some(0), "{}", load.stderr);
    serve.stop();
    wait::until("the requests that serve counted", || {
        let grew = |line: &Value| {
            let rates = line["per_second"].as_object()?;
            rates.get("statsd_count_total{name=\"plimsoll.requests\"}")?.as_f64()
        };
        let lines = json_lines(&watch);
        let sum: f64 = lines.iter().filter_map(grew).sum();
        (sum > 0.0).then_some(())
    });
    watch.signal("TERM");
    assert_eq!(watch.finish().code, Some(0));
}

#[test]
fn what_cannot_be_watched_is_one_line() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    for (flags, code, why) in [
        (&["--pid", "4194305"][..], 1, "--pid 4194305: this host has no such process"),
        (&["--prometheus", &taken], 1, "--prometheus: cannot listen on"),
        (&["--interval", "1ms"], 2, "--interval"),
        (&["--nginx", "https://x/"], 2, "stub_status over plain HTTP"),
    ] {
        let finished = Plimsoll::new([&["watch"], flags].concat()).run();
        assert_eq!(finished.code, Some(code), "{flags:?} {}", finished.stderr);
        assert!(finished.stderr.contains(why), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    }
}
