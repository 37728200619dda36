//! Connections that are held: every one is counted, and what ends them is named.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};

use e2e::certificate::Certificate;
use e2e::haproxy::Haproxy;
use e2e::nginx::Nginx;
use e2e::plimsoll::{Plimsoll, Running};
use e2e::process::{Guarded, Process};
use e2e::serve::Serve;
use e2e::summary::Summary;
use e2e::{port, wait};
use serde_json::Value;

/// Quick ramps, no holding, no heartbeats, unless a test sets them.
const QUICK: [&str; 6] = ["--rate", "2k", "--for", "0", "--heartbeat", "0"];

fn hold(url: &str, flags: &[&str]) -> Plimsoll {
    let own = ["hold", url, "-k", "--json", "out.json", "--out", "run"];
    Plimsoll::with_defaults(&own, &QUICK, flags)
}

/// Checks that all of `connections` were held, none was lost, and each one answered.
fn assert_held(summary: &Summary, connections: u64) {
    assert_eq!(summary.text("verdict"), "good", "{summary:?}");
    assert_eq!(summary.text("hold.end"), "complete");
    for path in ["hold.asked", "hold.held", "connections.opened", "connections.held_max"] {
        assert_eq!(summary.count(path), connections, "{path}: {summary:?}");
    }
    assert_eq!((summary.count("hold.lost"), summary.count("connections.failed")), (0, 0));
    for path in ["hold.last_sweep.connections", "hold.last_sweep.answered"] {
        assert_eq!(summary.count(path), connections, "{path}: {summary:?}");
    }
    // A busy machine may leave heartbeats unsent; the sweep has asked every connection.
    assert_eq!(summary.count("errors"), 0, "{summary:?}");
}

/// Returns seconds of load in the archive of a run.
fn seconds(running: &Running) -> usize {
    let path = running.folder().join("run/intervals.jsonl");
    fs::read_to_string(path).unwrap_or_default().matches('\n').count()
}

/// Waits until the archive has the beginning of a step of this kind.
fn wait_for_step(running: &mut Running, step: &str) {
    wait::until(step, || {
        let events = fs::read_to_string(running.folder().join("run/events.jsonl"));
        let has_begun = events.unwrap_or_default().contains(&format!("{{\"hold-step\":{{\"{step}"));
        assert!(has_begun || !running.has_ended(), "the hold ended too soon");
        has_begun.then_some(())
    });
}

/// `plimsoll serve` with TLS in this many processes.
fn tls_server(processes: &str) -> Serve {
    Serve::start(&["--https", "127.0.0.1:0", "--processes", processes], 1)
}

#[test]
fn every_connection_is_held_and_answers_over_several_processes() {
    let serve = tls_server("2");
    let flags = ["-c", "301", "--processes", "3", "--for", "1s", "--tls", "1.3"];
    let finished = hold(serve.url(), &flags).run();
    let summary = finished.written(0);
    assert_held(&summary, 301);
    // Two sweeps: on the way up, and at the end.
    assert_eq!(summary.count("scheduled"), 2 * 301);
    assert_eq!(summary.count("generator.processes"), 3);
    assert_eq!(summary.count("handshakes.full"), 301);
    assert_eq!(summary.at("hold.both_ends_here"), true);
    assert!(summary.number("hold.ramp_s") > 0.0);
    for path in ["user_bytes_per_connection", "kernel_bytes_per_connection"] {
        let of_generator = summary.number(&format!("generator.{path}"));
        assert_eq!(of_generator, summary.number(&format!("hold.{path}")), "{path}");
    }
    assert!(finished.stdout.contains("HELD  301 of 301 connections"), "{}", finished.stdout);
    // The server saw each of them once.
    assert_eq!(serve.stop(), (2 * 301, 301));
    // The archive gives the same report.
    let folder = finished.folder();
    let report =
        |flags: &[&str]| Plimsoll::new([&["report", "run"], flags].concat()).within(&folder).run();
    assert_eq!(report(&[]).stdout, finished.stdout);
    assert_eq!(Summary::parse(&report(&["--json", "-"]).stdout), summary);
}

#[test]
fn a_hold_that_is_killed_is_drawn_as_a_hold() {
    let serve = Serve::plain();
    let mut running = hold(serve.url(), &["-c", "50", "--for", "10m"]).start();
    wait_for_step(&mut running, "hold");
    running.signal("KILL");
    let finished = running.finish();
    assert_eq!(finished.code, None);
    let report = Plimsoll::new(["report", "run"]).within(&finished.folder()).run();
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    assert!(report.stdout.starts_with("PARTIAL  50 of 50 connections"), "{}", report.stdout);
    assert!(report.stdout.contains("killed"), "{}", report.stdout);
}

#[test]
fn a_laboratory_whose_supervisor_is_killed_says_nothing_of_its_server() {
    let flags = ["lab", "hold", "--sut", "haproxy", "-c", "50", "--rate", "500", "--for", "10m"];
    let mut running =
        Plimsoll::new([&flags[..], &["--json", "out.json", "--out", "run"]].concat()).start();
    wait_for_step(&mut running, "hold");
    let haproxy = running.named("haproxy").pop().expect("the SUT runs");
    Process::of(haproxy.ppid).expect("HAProxy's parent").kill();
    // With its server lost nothing is held, so the hold ends before its ten minutes.
    let finished = running.finish();
    let summary = finished.written(98);
    assert_eq!(summary.text("verdict"), "invalid");
    assert_eq!(summary.at("reasons")[0]["check"], "laboratory", "{summary:?}");
    finished.assert_no_scratch();
}

#[test]
fn heartbeats_come_once_per_period_and_connection() {
    let serve = Serve::plain();
    let flags = ["-c", "200", "--heartbeat", "1s", "--for", "2s", "--processes", "2"];
    let summary = hold(serve.url(), &flags).run().written(0);
    assert_held(&summary, 200);
    assert_eq!(summary.number("hold.heartbeat_s"), 1.0);
    // Sweeps apart, two full periods at the very least, and no more than the run has seconds.
    let beats = summary.count("scheduled") - 2 * 200;
    let most = 200 * (summary.number("seconds").ceil() as u64 + 1);
    assert!((400..=most).contains(&beats), "{beats} of at most {most}");
    // A beat that came due while the one before was open is not sent.
    let sent = summary.count("scheduled") - summary.count("unsent");
    assert_eq!(serve.stop(), (sent, 200));
}

#[test]
fn requests_in_flight_at_the_end_are_answered() {
    let serve = Serve::plain();
    let slow = ["-c", "100", "--heartbeat", "500ms", "--for", "1s", "-H", "sleep: 3000"];
    let finished = hold(serve.url(), &slow).run();
    assert_held(&finished.written(0), 100);
}

#[test]
fn nginx_is_held_as_well() {
    let certificate = Certificate::new();
    let (chain, key) = (certificate.chain_argument(), certificate.key_argument());
    let nginx = Nginx::start(true, &format!("ssl_certificate {chain}; ssl_certificate_key {key};"));
    let finished = hold(&nginx.url("https"), &["-c", "100"]).run();
    assert_held(&finished.written(0), 100);
}

#[test]
fn a_server_that_closes_idle_connections_loses_them_by_its_own_fault() {
    let serve =
        Serve::start(&["--https", "127.0.0.1:0", "--idle-timeout", "4s", "--processes", "1"], 1);
    let finished = hold(serve.url(), &["-c", "50", "--for", "10s"]).run();
    let summary = finished.written(99);
    assert_eq!((summary.text("verdict"), summary.count("hold.held")), ("bad", 0));
    assert_eq!(summary.count("hold.lost"), 50);
    let expected = BTreeMap::from([("closed-by-peer".to_owned(), 50)]);
    assert_eq!(summary.counts("hold.loss_classes"), expected);
    assert!(finished.stdout.contains("Lost connections"), "{}", finished.stdout);
}

/// Returns the timer of idle connections in a summary: label, owner, and its value in seconds.
fn idle_timer(summary: &Summary) -> (String, String, f64) {
    let cliffs = summary.at("cliffs").as_array().expect("a list");
    let idle = cliffs.iter().find(|cliff| cliff["stretch"] == "idle");
    let idle = idle.unwrap_or_else(|| panic!("no timer of idle connections: {summary:?}"));
    let text = |name: &str| idle[name].as_str().unwrap_or_default().to_owned();
    (text("label"), text("owner"), idle["at_ms"].as_f64().expect("a number") / 1e3)
}

#[test]
fn an_idle_timeout_of_haproxy_below_the_heartbeat_is_named_by_its_configuration() {
    for (rule, label) in [
        ("timeout http-keep-alive 1500ms", "HAProxy timeout http-keep-alive"),
        // Without its own timeout, keep-alive has the timeout of the client.
        ("timeout client 1500ms", "HAProxy timeout client"),
    ] {
        let rules = format!("    {rule}\n    http-request return status 200");
        let haproxy = Haproxy::start("", &rules, "");
        let socket = format!("haproxy:{}", haproxy.stats_socket().display());
        // A settling time passes before the sweep; then connections rest until the heartbeat.
        let flags = ["-c", "40", "--for", "9s", "--heartbeat", "8s", "--watch", &socket];
        let finished = hold(&haproxy.url("http"), &flags).run();
        let summary = finished.written(99);
        let (name, owner, seconds) = idle_timer(&summary);
        assert_eq!((name.as_str(), owner.as_str()), (label, "sut"), "{summary:?}");
        assert!((seconds / 1.5 - 1.0).abs() < 0.02, "{seconds}");
        let text = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(&format!("by a timer of the server ({label})")), "{text}");
        for wrong in ["one event", "every one answered", "answered 0"] {
            assert!(!text.contains(wrong), "{wrong}: {text}");
        }
    }
}

#[test]
fn a_maxconn_of_haproxy_is_the_reason_for_silent_connections() {
    let rules = "    maxconn 20\n    http-request return status 200";
    let haproxy = Haproxy::start("", rules, "");
    let socket = format!("haproxy:{}", haproxy.stats_socket().display());
    let flags = ["-c", "40", "--linger", "1s", "--deadline", "1s", "--watch", &socket];
    let finished = hold(&haproxy.url("http"), &flags).run();
    let summary = finished.written(99);
    let full = summary.at("hold.end").get("server-full").cloned();
    let full = full.unwrap_or_else(|| panic!("{summary:?}"));
    assert_eq!(full["resource"], "maxconn of frontend sut");
    assert_eq!((&full["used"], &full["limit"]), (&20.into(), &20.into()));
    assert!(!finished.stdout.contains("raise --linger"), "{}", finished.stdout);
}

#[test]
fn the_max_connections_of_mosquitto_is_the_reason_for_lost_connections() {
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let address = port::free();
    let file = folder.path().join("mosquitto.conf");
    let listener = format!("listener {} 127.0.0.1\nmax_connections 20\n", address.port());
    fs::write(&file, format!("user root\n{listener}allow_anonymous true\n"))
        .expect("an own folder is writable");
    let mut command = Command::new(e2e::program::installed("mosquitto"));
    command.arg("-c").arg(&file).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let broker = Guarded::start(&mut command);
    wait::until("mosquitto to listen", || wait::accepts(address).then_some(()));
    let pid = format!("pid:{}", broker.pid());
    let url = format!("mqtt://{address}");
    let flags = ["-c", "40", "--linger", "1s", "--deadline", "1s", "--watch", &pid];
    let summary = hold(&url, &flags).run().written(99);
    let full = summary.at("hold.end").get("server-full").cloned();
    let full = full.unwrap_or_else(|| panic!("{summary:?}"));
    assert_eq!(full["resource"], "max_connections of mosquitto");
    assert_eq!((&full["used"], &full["limit"]), (&20.into(), &20.into()));
}

#[test]
fn the_keep_alive_timeout_of_nginx_is_named() {
    let nginx = Nginx::start(false, "keepalive_timeout 2s;");
    let pid = format!("pid:{}", nginx.pid());
    let flags = ["-c", "40", "--for", "9s", "--heartbeat", "8s", "--watch", &pid];
    let summary = hold(&nginx.url("http"), &flags).run().written(99);
    let (name, owner, seconds) = idle_timer(&summary);
    assert_eq!((name.as_str(), owner.as_str()), ("nginx keepalive_timeout", "sut"));
    assert!((seconds / 2.0 - 1.0).abs() < 0.02, "{seconds}");
}

#[test]
fn lost_connections_are_replaced_only_when_asked() {
    let idle = ["--http", "127.0.0.1:0", "--idle-timeout", "2s", "--processes", "1"];
    let serve = Serve::start(&idle, 1);
    let flags = ["-c", "20", "--for", "4s", "--replace"];
    let summary = hold(serve.url(), &flags).run().written(99);
    let lost = summary.count("hold.lost");
    assert!(lost >= 20 && summary.count("hold.replaced") >= 20, "{summary:?}");
    // Each connection was lost, or held to the end.
    assert_eq!(summary.count("connections.opened"), lost + summary.count("hold.held"));
    // What was lost was lost, whatever came in its place.
    assert_eq!(summary.text("verdict"), "bad");
}

#[test]
fn a_server_that_dies_while_connections_are_held() {
    let serve = tls_server("1");
    let mut running = hold(serve.url(), &["-c", "100", "--for", "10m"]).start();
    wait_for_step(&mut running, "hold");
    drop(serve);
    // Without connections the hold ends before its ten minutes.
    let summary = running.finish().written(99);
    assert_eq!((summary.count("hold.held"), summary.count("hold.lost")), (0, 100));
    let classes = summary.counts("hold.loss_classes");
    let of_peer = |class: &String| {
        ["reset-by-peer", "closed-by-peer", "keepalive-race"].contains(&class.as_str())
    };
    assert!(classes.keys().all(of_peer), "{classes:?}");
}

#[test]
fn nobody_listening_is_the_servers_fault_and_found_out_early() {
    let url = format!("http://{}/", port::free());
    let finished = hold(&url, &["-c", "30"]).run();
    let summary = finished.written(99);
    assert_eq!((summary.text("hold.end"), summary.count("hold.held")), ("nothing-held", 0));
    let expected = BTreeMap::from([("connect-refused".to_owned(), 30)]);
    assert_eq!(summary.counts("connection_error_classes"), expected);
    // A million refusals would take 500 s: the first ones are enough.
    let finished = hold(&url, &["-c", "1M", "--source", "127.0.0.0/26", "--up-to"]).run();
    let failed = finished.written(99).count("connections.failed");
    assert!((500..100_000).contains(&failed), "{failed}");
}

#[test]
fn a_lost_agent_is_our_fault_and_its_connections_are_counted() {
    let serve = tls_server("1");
    let flags = ["-c", "100", "--for", "3s", "--processes", "2"];
    let mut running = hold(serve.url(), &flags).start();
    wait_for_step(&mut running, "hold");
    let before = seconds(&running);
    wait::until("another second", || (seconds(&running) > before).then_some(()));
    running.named("plimsoll-agent").pop().expect("two agents").kill();
    let summary = running.finish().written(98);
    assert_eq!((summary.text("verdict"), summary.at("partial")), ("invalid", &Value::Bool(true)));
    assert_eq!(summary.count("hold.held"), 50);
    let expected = BTreeMap::from([("agent-lost".to_owned(), 50)]);
    assert_eq!(summary.counts("hold.loss_classes"), expected);
}

#[test]
fn an_interrupted_hold_reports_what_it_held() {
    let serve = tls_server("1");
    for (flags, step) in [
        // In the middle of a ramp that would take minutes, and of a long hold.
        (&["-c", "10k", "--rate", "50"][..], "ramp"),
        (&["-c", "100", "--for", "10m"], "hold"),
    ] {
        let mut running = hold(serve.url(), flags).start();
        wait_for_step(&mut running, step);
        let before = seconds(&running);
        wait::until("another second", || (seconds(&running) > before).then_some(()));
        running.signal_group("INT");
        let finished = running.finish();
        let summary = finished.written(130);
        assert_eq!(summary.at("partial"), true);
        assert_eq!(summary.text("hold.end"), "unfinished");
        assert!(summary.count("hold.held") > 0, "{summary:?}");
        assert_eq!(summary.count("hold.lost"), 0, "{summary:?}");
        assert!(finished.stdout.starts_with("PARTIAL"), "{}", finished.stdout);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_every_limit_and_taken_up_to_it() {
    let serve = Serve::plain();
    // 64 descriptors of a process are its own.
    let arguments = ["hold", serve.url(), "-c", "1k", "--processes", "2", "--for", "0"];
    let limited = |more: &[&str]| {
        Plimsoll::after("ulimit -n 128", &[&arguments[..], &["--json", "out.json"], more].concat())
    };
    let refused = limited(&[]).run();
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{}", refused.stderr);
    let lines: Vec<_> = refused.stderr.lines().collect();
    assert!(lines[0].starts_with("plimsoll: this host cannot hold 1,000"), "{lines:?}");
    assert!(lines[0].contains("it can hold 128"), "{lines:?}");
    let files = "open files of a process (clients): needs 564, has 128; ulimit -Hn 564";
    assert!(lines.iter().any(|line| line.contains(files)), "{lines:?}");
    assert!(lines.iter().any(|line| line.ends_with("or 16 processes")), "{lines:?}");
    let taken = limited(&["--up-to"]).run();
    assert_held(&taken.written(0), 128);
}

fn lab_hold(flags: &[&str]) -> Summary {
    let own = ["lab", "hold", "--json", "out.json", "--for", "1s", "--rate", "1k"];
    let finished = Plimsoll::new([&own[..], flags].concat()).run();
    finished.assert_no_scratch();
    let summary = finished.written(0);
    assert_eq!(summary.text("command"), "lab hold");
    assert!(finished.stdout.contains("Projected limits"), "{}", finished.stdout);
    summary
}

/// Checks the levels of a laboratory that held 500 connections.
fn assert_levels(summary: &Summary) {
    assert_held(summary, 500);
    let levels = summary.at("hold.plateaus").as_array().expect("a list");
    let held: Vec<_> = levels.iter().map(|level| level["held"].as_u64()).collect();
    assert_eq!(held, [50, 125, 250, 375, 500].map(Some));
    for level in levels {
        assert_eq!(level["answered"], level["held"], "{level}");
        assert!(level["sut_bytes_per_connection"].is_number(), "{level}");
    }
    let projections = summary.at("hold.projections").as_array().expect("a list");
    let resources: Vec<_> = projections.iter().map(|one| &one["resource"]).collect();
    assert!(resources.contains(&&Value::from("memory")), "{resources:?}");
}

#[test]
fn the_laboratory_holds_through_our_own_server() {
    let summary = lab_hold(&["--sut", "embedded", "-c", "500", "--processes", "2"]);
    assert_levels(&summary);
    assert!(summary.text("target").contains("plimsoll serve"), "{summary:?}");
}

#[test]
fn the_laboratory_holds_through_haproxy() {
    let summary = lab_hold(&["--sut", "haproxy", "-c", "500"]);
    assert_levels(&summary);
    assert!(summary.text("target").contains("haproxy"), "{summary:?}");
}

#[test]
fn a_laboratory_runs_in_a_folder_of_almost_any_name() {
    let run = |name: &str, sut: &str| {
        let name = name.replace('\'', r"'\''");
        let before = format!("export TMPDIR=\"$PWD\"/tmp/'{name}' && mkdir \"$TMPDIR\"");
        let flags = ["lab", "hold", "--sut", sut, "-c", "50", "--for", "0", "--json", "out.json"];
        Plimsoll::after(&before, &flags).run()
    };
    for sut in ["haproxy", "nginx", "caddy"] {
        assert_held(&run(r#"it's "a" \b #c; {d}"#, sut).written(0), 50);
        let refused = run("a$b", sut);
        assert_eq!(refused.code, Some(1), "{}", refused.stderr);
        assert!(refused.stderr.contains("a path with '$' cannot be written"), "{}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
    }
}

#[test]
fn several_haproxy_processes_share_one_port_where_descriptors_are_few() {
    let arguments = ["lab", "hold", "--sut", "haproxy", "-c", "300", "--for", "0", "--rate", "500"];
    // A process has room for about 160 proxied connections.
    let finished = Plimsoll::after("ulimit -n 400", &[&arguments[..], &["--json", "-"]].concat());
    let finished = finished.run();
    finished.assert_no_scratch();
    let summary = finished.summary(0);
    assert_held(&summary, 300);
    assert!(summary.text("target").starts_with("3 x haproxy"), "{summary:?}");
}
