//! The cases of RFC 9411, each with a sustain phase of two seconds and a target that any server meets: what the report
//! says, and that the archive says it again. `waiting/rfc9411.rs` has servers that fail, `nightly/rfc9411.rs` a target
//! that is not met.

use serde_json::Value;

use e2e::plimsoll::{Finished, Plimsoll, undisturbed};
use e2e::serve::Serve;
use e2e::summary::Summary;
use e2e::turn::beside_others;

const SHORT: [&str; 4] = ["--sustain", "2s", "--out", "run"];

fn lab(case: &str, flags: &[&str]) -> Finished {
    let always = ["lab", "rfc9411", "--json", "-", "--case", case];
    undisturbed(|| Plimsoll::new([&always[..], &SHORT, flags].concat()).run())
}

fn find(flags: &[&str]) -> Plimsoll {
    Plimsoll::new([&["find", "rfc9411"], flags, &SHORT, &["--json", "-"]].concat())
}

/// The results of a run, each of which must have met its target; checks what holds in all of them,
/// and that the archive's report is the run's.
fn met(finished: &Finished) -> (Summary, Vec<Value>) {
    let summary = finished.summary(0);
    assert_eq!(summary.text("verdict"), "good");
    assert_eq!(summary.at("rfc9411.shorter_than_recommended"), &Value::Bool(true));
    assert!(finished.stderr.contains("shorter than the 300 s"), "{}", finished.stderr);
    let results = summary.at("rfc9411.results").as_array().expect("a list").clone();
    for result in &results {
        assert_eq!(result["ending"], "target-met", "{result}");
        assert_eq!(result["load"], result["target"]);
        let series = result["series"].as_array().expect("a list");
        assert_eq!(series.len(), 2, "a sample a second");
        let criteria = result["criteria"].as_array().expect("a list");
        assert!(criteria.iter().all(|check| check["level"] == "pass"), "{result}");
        // What was seen beside the load is judged as in every trial.
        let checks = result["checks"].as_array().expect("a list");
        let host = checks.iter().find(|check| check["check"] == "scheduling");
        assert!(host.is_some(), "{checks:?}");
        let failed = criteria[0]["value"].as_str().expect("a text");
        assert!(failed.starts_with("0 %") && failed.contains("95 % upper bound"), "{failed}");
        let iterations = result["iterations"].as_array().expect("a list");
        // One that a busy machine made INVALID is repeated.
        let valid = iterations.iter().filter(|iteration| iteration["verdict"] != "invalid");
        assert_eq!(valid.count(), 2, "{result}");
    }
    let again = Plimsoll::new(["report", "run"]).within(&finished.folder()).run();
    assert!(again.stdout.contains("RFC 9411, "), "{}", again.stdout);
    assert!(!again.stdout.contains("WARNING"), "{}", again.stdout);
    assert!(finished.stderr.ends_with(&again.stdout), "{}\n\n{}", finished.stderr, again.stdout);
    (summary, results)
}

/// Returns a KPI of a result.
fn kpi(result: &Value, name: &str) -> f64 {
    let value = &result["kpis"][name];
    value.as_f64().unwrap_or_else(|| panic!("{name} is {value} in {result}"))
}

fn assert_near(value: f64, expected: f64) {
    // A transaction may end in the second after the one in which it began.
    assert!((value - expected).abs() <= 0.1 * expected + 2.0, "{value}, not {expected}");
}

#[test]
fn connections_per_second_with_http() {
    let _machine = beside_others();
    let flags = ["--sut", "haproxy", "--target", "60", "--object-size", "1KB,16KB"];
    let (summary, results) = met(&lab("7.2", &flags));
    assert_eq!(results.len(), 2);
    for (result, bytes) in results.iter().zip([1_000.0, 16_000.0]) {
        assert_eq!(result["transactions_per_connection"], 1);
        assert_near(kpi(result, "tcp_connections_per_second"), 60.0);
        assert_near(kpi(result, "application_transactions_per_second"), 60.0);
        assert!(kpi(result, "inspected_throughput_bit_s") > 50.0 * bytes * 8.0);
        assert_eq!(kpi(result, "tls_handshake_rate"), 0.0);
        let ttfb = &result["kpis"]["ttfb_rfc9411_ms"];
        assert!(ttfb["min"].as_f64() <= ttfb["avg"].as_f64(), "{ttfb}");
        assert_eq!(result["isolation"]["holds"], true, "{result}");
    }
    // Full connections, each closed by our FIN; none was reset.
    assert_eq!(summary.count("connections.reset_by_peer"), 0);
    assert!(summary.number("rfc9411.reference.connections_per_s") > 0.0);
    assert!(summary.text("rfc9411.environment.sut").contains("haproxy"));
}

#[test]
fn connections_per_second_with_https() {
    let _machine = beside_others();
    let flags = ["--sut", "nginx", "--target", "40", "--object-size", "1KB"];
    let (summary, results) = met(&lab("7.6", &flags));
    // Every handshake is a full one.
    assert_near(kpi(&results[0], "tls_handshake_rate"), 40.0);
    assert_near(kpi(&results[0], "tcp_connections_per_second"), 40.0);
    assert_eq!(summary.count("handshakes.resumed"), 0);
}

fn throughput(case: &str, sut: &str) {
    let _machine = beside_others();
    let flags = ["--sut", sut, "--target", "200", "--object-size", "1KB,mixed"];
    let (_, results) = met(&lab(case, &flags));
    assert_eq!(results.len(), 2);
    for (result, bytes) in results.iter().zip([1_000.0, 52_520.0]) {
        assert_eq!(result["transactions_per_connection"], 10);
        assert_near(kpi(result, "application_transactions_per_second"), 200.0);
        assert_near(kpi(result, "tcp_connections_per_second"), 20.0);
        assert!(kpi(result, "inspected_throughput_bit_s") > 150.0 * bytes * 8.0, "{result}");
    }
}

#[test]
fn throughput_with_http() {
    throughput("7.3", "embedded");
}

#[test]
fn throughput_with_https() {
    throughput("7.7", "haproxy");
}

/// Latency is measured at half of the rates that are known.
fn latency(case: &str, sut: &str) {
    let _machine = beside_others();
    let known = ["--measured-cps", "80", "--measured-tps", "400"];
    let flags = ["--sut", sut, "--object-size", "1KB"];
    let (_, results) = met(&lab(case, &[&flags[..], &known].concat()));
    let seen: Vec<_> =
        results.iter().map(|one| (one["scenario"].as_u64(), one["target"].as_f64())).collect();
    assert_eq!(seen, [(Some(1), Some(40.0)), (Some(2), Some(200.0))]);
    for result in &results {
        let of = |name: &str| result["kpis"][name]["avg"].as_f64().expect("measured");
        // The RFC's clocks start with the SYN; TLS and TCP come before the request.
        assert!(of("ttfb_rfc9411_ms") > of("ttfb_request_ms"), "{case}: {result}");
        assert!(of("ttlb_rfc9411_ms") >= of("ttfb_rfc9411_ms"), "{case}: {result}");
    }
}

#[test]
fn latency_with_http() {
    latency("7.4", "haproxy");
}

#[test]
fn latency_with_https() {
    latency("7.8", "nginx");
}

fn concurrent_connections(case: &str, sut: &str) {
    let _machine = beside_others();
    let (summary, results) = met(&lab(case, &["--sut", sut, "--target", "150"]));
    assert_eq!(kpi(&results[0], "concurrent_tcp_connections"), 150.0);
    assert_eq!(results[0]["unit"], "connections");
    assert!(kpi(&results[0], "application_transactions_per_second") > 0.0);
    assert_eq!(summary.count("connections.reset_by_peer"), 0);
}

#[test]
fn concurrent_connections_with_http() {
    concurrent_connections("7.5", "haproxy");
}

#[test]
fn concurrent_connections_with_https() {
    concurrent_connections("7.9", "embedded");
}

#[test]
fn a_traffic_mix_over_two_servers() {
    let _machine = beside_others();
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"], 2);
    let mix = format!(
        "GET {}\nsize: 1000\n\nGET {}\nsize: 6000\n\nGET {}\nsize: 2000\n",
        serve.urls[0], serve.urls[1], serve.urls[0]
    );
    let flags = ["--targets", "mix", "-k", "--case", "7.1", "--target", "120"];
    let finished = undisturbed(|| find(&flags).with_file("mix", &mix).run());
    let (summary, results) = met(&finished);
    assert_eq!(results[0]["object"], "as listed");
    assert_eq!(summary.text("rfc9411.environment.mix"), "3 targets in turn, 1 over TLS");
    assert!(kpi(&results[0], "tls_handshake_rate") > 0.0);
    assert_near(kpi(&results[0], "application_transactions_per_second"), 120.0);
}
