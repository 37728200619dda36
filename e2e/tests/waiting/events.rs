//! Events of loads and holds: each one is carried out, and its effects are stated.

use std::fs;
use std::net::TcpStream;
use std::process::Command;

use e2e::haproxy::Haproxy;
use e2e::namespace::is_privileged;
use e2e::nginx::Nginx;
use e2e::plimsoll::{Finished, Plimsoll};
use e2e::process::Guarded;
use e2e::serve::Serve;
use e2e::{port, wait};
use serde_json::Value;

/// Returns the events of a run that may have ended in any way.
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

/// Holds 200 connections in a laboratory with these flags.
fn lab_hold(flags: &str) -> Plimsoll {
    let always = "lab hold -c 200 --rate 1k --json out.json";
    Plimsoll::new(always.split(' ').chain(flags.split(' ')))
}

/// Runs such a hold; returns its events, none of which has failed, and everything else.
fn held(flags: &str) -> (Vec<Value>, Finished) {
    let finished = lab_hold(flags).run();
    finished.assert_no_scratch();
    let events = events(&finished);
    assert!(events.iter().all(|event| event.get("failed").is_none()), "{events:?}");
    (events, finished)
}

#[test]
fn a_reload_of_haproxy_under_held_connections() {
    let flags = "--sut haproxy --for 12s --heartbeat 1s --event reload@3s --event reconnect:30%@7s";
    let (events, _) = held(flags);
    let whats: Vec<_> = events.iter().map(|event| &event["what"]).collect();
    assert_eq!(whats, ["reload", "reconnect of 30 %"], "{events:?}");
    // The old worker was there a second after the reload, or had ended by itself.
    let old = events[0]["old_processes"].as_array().expect("a list");
    assert_eq!(old.len(), 1, "{events:?}");
}

#[test]
fn a_reload_of_haproxy_keeps_connections_of_tcp_in_its_old_worker() {
    let flags = "--sut haproxy --protocol tcp --for 9s --heartbeat 1s --event reload@3s";
    let (events, finished) = held(flags);
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
fn a_reload_of_caddy_closes_idle_connections_and_goes_on() {
    let flags = "--sut caddy --for 10s --heartbeat 1s --replace --event reload@3s";
    let (events, finished) = held(flags);
    let [reload] = &events[..] else { panic!("{events:?}") };
    // Go's server closes those that are idle, cleanly, and the same process serves those that come again.
    let count = |name: &str| reload[name].as_u64().expect("a count");
    assert!(count("finished") >= 150, "{reload}");
    assert!(count("moved") >= 150, "{reload}");
    assert_eq!(reload["old_processes"].as_array().map_or(0, Vec::len), 0, "{reload}");
    assert_eq!(finished.written(99).count("hold.held"), 200);
}

#[test]
fn a_restart_ends_every_connection_and_the_server_is_there_again() {
    for sut in ["haproxy", "nginx", "caddy"] {
        // The deadline is the limit of p99, which does not depend on the speed of the host.
        let flags = "--for 10s --heartbeat 1s --deadline 5s --replace --event restart@3s";
        let (events, finished) = held(&format!("--sut {sut} {flags}"));
        let [restart] = &events[..] else { panic!("{events:?}") };
        assert_eq!(restart["what"], "restart");
        let count = |name: &str| restart[name].as_u64().expect("a count");
        assert!(count("lost") >= 200, "{restart}");
        // The last of them may come after the disturbed seconds.
        assert!(count("moved") >= 190, "{restart}");
        assert!(count("finished") + count("reset") >= 190, "{restart}");
        assert!(restart["disturbed_s"].is_number(), "{restart}");
        let summary = finished.written(99);
        assert_eq!(summary.count("hold.held"), 200, "{sut}");
    }
}

#[test]
fn haproxy_notices_backends_that_end_and_come_back() {
    let flags = "--sut haproxy --backends 3 --for 22s --heartbeat 1s \
                 --event backend-down:2@3s --event backend-up@13s";
    let (events, _) = held(flags);
    let [down, up] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&down["what"], &up["what"]), (&"backend-down of 2".into(), &"backend-up".into()));
    // After a second the checks have failed, and no request goes there.
    assert!(down["disturbed_s"].as_f64().is_some_and(|seconds| seconds < 9.0), "{down}");
    assert_eq!(up["errors"], 0, "{up}");
}

#[test]
fn a_backend_that_ends_takes_connections_of_tcp_with_it() {
    let flags = "--sut haproxy --protocol tcp --backends 2 --for 8s --heartbeat 1s --event backend-down:1@3s";
    let (events, finished) = held(flags);
    let [down] = &events[..] else { panic!("{events:?}") };
    let lost = down["lost"].as_u64().expect("a count");
    assert!((50..=150).contains(&lost), "{down}");
    assert_eq!(finished.written(99).count("hold.lost"), lost);
}

#[test]
fn a_drained_backend_loses_nothing() {
    let flags = "--sut haproxy --protocol tcp --backends 2 --for 8s --heartbeat 1s --event drain:1@2s \
                 --event reconnect:50%@4s";
    let (events, finished) = held(flags);
    let [drain, reconnect] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&drain["lost"], &drain["errors"]), (&0.into(), &0.into()), "{drain}");
    assert_eq!((&reconnect["lost"], &reconnect["errors"]), (&0.into(), &0.into()), "{reconnect}");
    assert_eq!(finished.written(0).count("hold.lost"), 0);
}

#[test]
fn a_link_that_is_cut_delays_answers_and_loses_nothing() {
    if !is_privileged() {
        return;
    }
    let (events, finished) =
        held("--sut haproxy --for 12s --heartbeat 500ms --event link-down:2s@3s");
    let [cut] = &events[..] else { panic!("{events:?}") };
    assert_eq!((&cut["what"], &cut["lost"]), (&"link-down of 2 s".into(), &0.into()), "{cut}");
    assert!(cut["took_s"].as_f64() >= Some(2.0), "{cut}");
    assert!(cut["p99_ms"]["during"].as_f64() >= Some(1_500.0), "{cut}");
    assert!(cut["disturbed_s"].is_number(), "{cut}");
    assert_eq!(finished.written(0).count("hold.lost"), 0);
}

#[test]
fn new_connections_get_the_exchanged_certificate() {
    for (sut, old) in [("haproxy", 1), ("nginx", 1), ("caddy", 0)] {
        let flags =
            "--for 10s --heartbeat 1s --replace --event certificate@2s --event reconnect:50%@5s";
        let (events, _) = held(&format!("--sut {sut} {flags}"));
        let [certificate, reconnect] = &events[..] else { panic!("{events:?}") };
        assert_eq!(certificate["what"], "certificate");
        assert_eq!(certificate["old_processes"].as_array().map_or(0, Vec::len), old, "{sut}");
        // Clients trust the second one as well.
        assert_eq!(reconnect["errors"], 0, "{reconnect}");
    }
}

/// Checks that the only old process of a reload ended after this time. A busy host ends it later.
fn assert_old_worker_lived(reload: &Value, seconds: f64) {
    let old = reload["old_processes"].as_array().expect("a list");
    let [old] = &old[..] else { panic!("{reload}") };
    let life = old["ended_after_s"].as_f64().unwrap_or_else(|| panic!("{reload}"));
    assert!((seconds - 0.1..seconds + 3.0).contains(&life), "{reload}");
}

#[test]
fn an_old_worker_of_nginx_lives_until_its_shutdown_timeout() {
    let server = Serve::plain();
    let nginx = Nginx::start_with(
        "worker_shutdown_timeout 3s;",
        &format!(
            "location /ws {{ proxy_pass http://{}; proxy_http_version 1.1; \
             proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }}",
            server.address()
        ),
    );
    let (url, watch) = (format!("ws://{}/ws", nginx.address), format!("pid:{}", nginx.pid()));
    let reload = format!("kill -HUP {}", nginx.pid());
    let flags = format!(
        "hold {url} -c 100 --for 10s --heartbeat 1s --event reload@2s --json out.json --watch {watch}"
    );
    let words = flags.split(' ').chain(["--on-reload", &reload]);
    let finished = Plimsoll::new(words).run();
    let events = events(&finished);
    let [reload] = &events[..] else { panic!("{events:?}") };
    assert_old_worker_lived(reload, 3.0);
    assert_eq!(reload["lost"], 100, "{reload}");
}

#[test]
fn an_old_worker_of_haproxy_lives_until_its_hard_stop() {
    let backend = Serve::start(&["--tcp", "127.0.0.1:0"], 1);
    let haproxy = Haproxy::start(
        "",
        "    mode tcp\n    default_backend echo",
        &format!(
            "backend echo\n    mode tcp\n    server s {}\n\
             global\n    master-worker\n    hard-stop-after 3s",
            backend.address()
        ),
    );
    let url = haproxy.url("tcp");
    let watch = format!("pid:{}", haproxy.pid());
    let reload = format!("kill -USR2 {}", haproxy.pid());
    let flags = format!(
        "hold {url} -c 100 --for 10s --heartbeat 1s --echo 64 --event reload@2s --json out.json --watch {watch}"
    );
    let words = flags.split(' ').chain(["--on-reload", &reload]);
    let finished = Plimsoll::new(words).run();
    let events = events(&finished);
    let [reload] = &events[..] else { panic!("{events:?}") };
    assert_old_worker_lived(reload, 3.0);
    assert_eq!(reload["lost"], 100, "{reload}");
}

#[test]
fn however_a_hold_ends_meanwhile_nothing_is_left_of_its_events() {
    let flags = "--sut haproxy --backends 3 --for 60s --heartbeat 1s --out run \
                 --event backend-down:1@1s --event drain:1@2s --event backend-up@3s \
                 --event link-down:50s@4s";
    let (flags, last) = match is_privileged() {
        true => (flags, "event: link-down"),
        false => {
            (flags.split(" --event link").next().expect("the first part"), "event: backend-up")
        }
    };
    for signal in ["INT", "KILL"] {
        let mut running = lab_hold(flags).start();
        let notes = running.folder().join("run/events.jsonl");
        // The levels of a laboratory take some seconds each.
        let began = wait::within(2 * wait::PATIENCE, &mut || {
            assert!(!running.has_ended(), "the hold ended too soon");
            fs::read_to_string(&notes).ok().filter(|text| text.contains(last))
        });
        assert!(began.is_some(), "the last event did not begin");
        running.signal(signal);
        wait::until("the end", || running.has_ended().then_some(()));
        running.assert_nothing_left();
        running.assert_no_scratch();
    }
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
    for (event, needs) in [
        ("restart@1s", "--sut haproxy"),
        ("certificate@1s", "over TLS"),
        ("backend-down:1@1s", "simulated backends"),
        ("backend-up@1s", "simulated backends"),
        ("drain@1s", "statistics socket"),
        ("link-down:1s@1s", "network namespaces"),
    ] {
        assert!(refused(&[&load[..], &[event]].concat()).contains(needs), "{event}");
    }
    for (flags, needs) in [
        ("--sut embedded --event restart@1s", "--sut haproxy"),
        ("--sut nginx --event drain@1s", "statistics socket"),
        ("--sut embedded --event certificate@1s", "over TLS"),
        ("--sut haproxy --isolate none --event link-down:1s@1s", "--isolate netns"),
        ("--sut haproxy --backends 2 --event backend-down:3@1s", "2 backends"),
        ("--sut haproxy --backends 2 --event drain:2@1s", "leaves one"),
        ("--sut haproxy --event backend-up@1s", "earlier backend-down"),
    ] {
        let flags: Vec<&str> = "lab hold".split(' ').chain(flags.split(' ')).collect();
        assert!(refused(&flags).contains(needs), "{flags:?}");
    }
    assert!(
        refused(&["lab", "hold", "--sut", "embedded", "--event", "reload@1s"])
            .contains("--on-reload")
    );
}
