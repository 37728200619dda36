//! Figures that are published while a command runs.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};

use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use e2e::{port, wait};

/// Returns the body of the answer; `None` while no server listens.
fn scrape(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer.split_once("\r\n\r\n")?.1.to_owned())
}

/// Returns the value of the series `name`.
fn metric(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?.parse().ok()
}

/// Runs Prometheus' own checker.
fn check(text: &str) {
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs; if not: apt-get install prometheus");
    promtool.stdin.take().expect("a pipe").write_all(text.as_bytes()).expect("it reads");
    let checked = promtool.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(checked.status.success() && said.is_empty(), "{said}");
}

#[test]
fn the_rules_for_prometheus_raise_what_they_should() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/prometheus");
    for words in [["check", "rules", "rules.yml"], ["test", "rules", "rules_test.yml"]] {
        let checked = Command::new("promtool").args(words).current_dir(folder).output();
        let checked = checked.expect("promtool runs; if not: apt-get install prometheus");
        assert!(checked.status.success(), "{words:?}: {checked:?}");
    }
}

#[test]
fn the_last_metrics_are_those_of_the_summary() {
    let serve = Serve::start(&["--http", "0"], 1);
    let metrics = port::free();
    let address = metrics.to_string();
    let flags = ["--rate", "200", "-d", "2s", "--deadline", "900ms", "--prometheus", &address];
    let running = Plimsoll::load(serve.url(), &flags).start();
    let finished =
        || scrape(metrics).filter(|text| metric(text, "plimsoll_run_finished") == Some(1.0));
    let text = wait::until("the last metrics", finished);
    check(&text);
    // The command ends when they were scraped twice, by itself.
    assert!(finished().is_some());
    let summary = running.finish().summary(0);
    let ok = summary.count("ok");
    assert_eq!(metric(&text, "plimsoll_operations_total{outcome=\"ok\"}"), Some(ok as f64));
    assert_eq!(metric(&text, "plimsoll_latency_seconds_count"), Some(ok as f64));
    // The deadline is its own edge.
    assert!(metric(&text, "plimsoll_latency_seconds_bucket{le=\"0.9\"}").is_some(), "{text}");
}

#[test]
fn an_address_that_is_taken_starts_nothing() {
    let holder = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = holder.local_addr().expect("an address").to_string();
    for (command, flag) in [
        (["load", "http://127.0.0.1:9/"], "--prometheus"),
        (["lab", "--no-ui"], "--prometheus"),
        (["load", "http://127.0.0.1:9/"], "--live"),
        (["lab", "--no-ui"], "--live"),
    ] {
        let finished = Plimsoll::new([&command[..], &[flag, &taken]].concat()).run();
        assert_eq!(finished.code, Some(1), "{}", finished.stderr);
        let line = format!("plimsoll: {flag}: cannot listen on {taken}: ");
        assert!(finished.stderr.starts_with(&line), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
        finished.assert_no_scratch();
    }
}

#[test]
fn a_page_for_other_machines_has_a_token_that_is_kept_nowhere() {
    let serve = Serve::start(&["--http", "0"], 1);
    let flags = ["--rate", "100", "-d", "1s", "--out", "run", "--live", "0.0.0.0:0"];
    let finished = Plimsoll::load(serve.url(), &flags).run();
    let line = finished.stderr.lines().find(|line| line.starts_with("live page at http://"));
    let token = line.and_then(|line| line.split('/').nth(3)).expect("an address").to_owned();
    assert_eq!(token.len(), 32, "{}", finished.stderr);
    assert!(finished.stderr.contains("anyone on the network path can read it"));
    for file in fs::read_dir(finished.folder().join("run")).expect("an archive") {
        let path = file.expect("a file").path();
        let text = fs::read_to_string(&path).expect("text");
        assert!(!text.contains(&token), "{}", path.display());
    }
    finished.summary(0);
}
