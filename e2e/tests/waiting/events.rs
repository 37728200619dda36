//! Events of loads and holds: each one is carried out, and its effects are stated.

use std::fs;
use std::net::TcpStream;
use std::process::Command;

use e2e::plimsoll::{Finished, Plimsoll};
use e2e::process::Guarded;
use e2e::serve::Serve;
use e2e::{port, wait};
use serde_json::Value;

/// The events of a run that may have ended in any way.
fn events(finished: &Finished) -> Vec<Value> {
    let written = fs::read_to_string(finished.folder().join("out.json"));
    let written = written.unwrap_or_else(|_| panic!("{}", finished.stderr));
    let summary: Value = serde_json::from_str(&written).expect("JSON");
    summary["events"].as_array().expect("a list").clone()
}

#[test]
fn a_freeze_is_seen_in_latency_and_its_end_is_waited_for() {
    let address = port::free();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fault"));
    let server = Guarded::start(command.args([&address.to_string(), "keep", "0"]));
    wait::until("the server listens", || TcpStream::connect(address).ok());
    let (url, watch) = (format!("http://{address}/"), format!("pid:{}", server.pid()));
    let finished = Plimsoll::new([
        "load",
        &url,
        "--rate",
        "200",
        "--duration",
        "12s",
        "--watch",
        &watch,
        "--event",
        "freeze:1s@4s",
        "--deadline",
        "300ms",
        "--json",
        "out.json",
        "--out",
        "run",
    ])
    .run();
    // On a busy machine the load itself may be INVALID.
    let events = events(&finished);
    let [freeze] = &events[..] else { panic!("{events:?}") };
    assert_eq!(freeze["what"], "freeze of 1 s");
    assert_eq!(freeze["errors"], 0);
    let number = |value: &Value| value.as_f64().expect("a number");
    assert!((4.0..6.0).contains(&number(&freeze["at_s"])), "{freeze}");
    assert!(number(&freeze["took_s"]) >= 1.0, "{freeze}");
    assert!(number(&freeze["p99_ms"]["during"]) > 500.0, "{freeze}");
    assert!(number(&freeze["disturbed_s"]) >= 1.0, "{freeze}");
    assert!(finished.stdout.contains("freeze of 1 s at"), "{}", finished.stdout);
}

#[test]
fn a_reload_of_haproxy_under_held_connections() {
    let finished = Plimsoll::new([
        "lab",
        "hold",
        "--sut",
        "haproxy",
        "-c",
        "200",
        "--rate",
        "1k",
        "--for",
        "12s",
        "--heartbeat",
        "1s",
        "--event",
        "reload@3s",
        "--event",
        "reconnect:30%@7s",
        "--json",
        "out.json",
    ])
    .run();
    finished.assert_no_scratch();
    let events = events(&finished);
    let whats: Vec<_> = events.iter().map(|event| &event["what"]).collect();
    assert_eq!(whats, ["reload", "reconnect of 30 %"], "{events:?}");
    assert!(events.iter().all(|event| event.get("failed").is_none()), "{events:?}");
    // The old worker was there a second after the reload, or had ended by itself.
    let old = events[0]["old_processes"].as_array().expect("a list");
    assert_eq!(old.len(), 1, "{events:?}");
}

#[test]
fn a_reload_of_haproxy_keeps_connections_of_tcp_in_its_old_worker() {
    let finished = Plimsoll::new([
        "lab",
        "hold",
        "--sut",
        "haproxy",
        "--protocol",
        "tcp",
        "-c",
        "200",
        "--rate",
        "1k",
        "--for",
        "9s",
        "--heartbeat",
        "1s",
        "--event",
        "reload@3s",
        "--json",
        "out.json",
    ])
    .run();
    finished.assert_no_scratch();
    let events = events(&finished);
    let [reload] = &events[..] else { panic!("{events:?}") };
    assert_eq!(reload["lost"], 0, "{reload}");
    let [old] = &reload["old_processes"].as_array().expect("a list")[..] else {
        panic!("{reload}")
    };
    assert_eq!(old["ended_after_s"], Value::Null, "{reload}");
    // A socket to each client, and one to a backend for it.
    assert!(old["open_files"].as_u64() >= Some(400), "{reload}");
    assert_eq!(finished.written(0).count("hold.lost"), 0);
}

#[test]
fn events_that_cannot_be_made_are_refused_before_anything_starts() {
    let serve = Serve::plain();
    let refused = |flags: &[&str]| {
        let finished = Plimsoll::new(flags).run();
        assert_eq!(finished.code, Some(2), "{flags:?}: {}", finished.stderr);
        finished.stderr
    };
    let url = serve.url();
    let load = ["load", url, "-n", "1", "--event"];
    assert!(refused(&[&load[..], &["reload@1s"]].concat()).contains("--on-reload"));
    assert!(refused(&[&load[..], &["freeze:1s@1s"]].concat()).contains("--watch pid:PID"));
    assert!(refused(&[&load[..], &["reconnect:10%@1s"]].concat()).contains("held connections"));
    assert!(refused(&[&load[..], &["burn@1s"]].concat()).contains("reload@30s"));
    assert!(
        refused(&["lab", "hold", "--sut", "embedded", "--event", "reload@1s"])
            .contains("--on-reload")
    );
}
