//! HTTP/2 and gRPC, judged by clients and servers of other makes.

use std::process::Command;

use e2e::certificate::Certificate;
use e2e::haproxy::Haproxy;
use e2e::nginx::Nginx;
use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use e2e::{port, program};

/// Returns the output of curl, then the version of HTTP and the status; it must not fail.
fn curl(arguments: &[&str]) -> String {
    let mut command = Command::new(program::installed("curl"));
    command.args([
        "-sSk",
        "--max-time",
        "30",
        "--noproxy",
        "*",
        "-w",
        " %{http_version} %{http_code}",
    ]);
    let output = command.args(arguments).output().expect("curl starts");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn serve_speaks_http2_with_curl() {
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"], 2);
    for (url, version) in serve.urls.iter().zip(["--http2-prior-knowledge", "--http2"]) {
        let get = |more: &[&str]| curl(&[&[version, url.as_str()], more].concat());
        assert_eq!(get(&[]), "pong 2 200");
        assert_eq!(get(&["-H", "size: 3000000"]).len(), 3_000_000 + " 2 200".len());
        assert_eq!(get(&["-H", "times: 2", "-H", "sleep-fixed: 5"]), "pongpongpong 2 200");
        assert_eq!(get(&["-I", "-o", "/dev/null"]), " 2 200");
        assert!(get(&["-H", "size: x"]).ends_with("(1 GiB)\n 2 400"));
        // A body larger than any window.
        let body = tempfile::NamedTempFile::new().expect("the temporary directory is writable");
        body.as_file().set_len(4_000_000).expect("it is writable");
        let data = format!("@{}", body.path().display());
        assert_eq!(get(&["--data-binary", &data]), "pong 2 200");
    }
    assert_eq!(curl(&["--http1.1", &serve.urls[1]]), "pong 1.1 200");
}

#[test]
fn load_and_hold_speak_http2_with_serve() {
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"], 2);
    for url in &serve.urls {
        let flags = ["-k", "--http", "2", "--rate", "0", "-n", "600", "-c", "2", "--streams", "8"];
        let summary = Plimsoll::load(url, &flags).run().summary(0);
        summary.assert_all_ok(600);
        assert_eq!(summary.count("connections.opened"), 2, "{summary:?}");
        // Sixteen at once, each of which takes 20 ms: one after another they would take 1.2 s.
        let flags = ["-k", "--http", "2", "--rate", "0", "-n", "60", "-c", "1", "-m", "20", "-H"];
        let summary =
            Plimsoll::load(url, &[&flags[..], &["sleep-fixed: 20"]].concat()).run().summary(0);
        summary.assert_all_ok(60);
        assert!(summary.number("latency_ms.uncorrected.p50") >= 20.0, "{summary:?}");
        assert!(summary.number("seconds") < 1.0, "{summary:?}");
        let hold = ["hold", url, "-k", "--http", "2", "-c", "20", "--rate", "200", "--for", "2s"];
        let output = ["--heartbeat", "1s", "--no-ui", "--json", "-"];
        let summary = Plimsoll::new([&hold[..], &output].concat()).run().summary(0);
        assert_eq!(summary.count("errors"), 0, "{summary:?}");
        assert!(summary.count("ok") >= 40, "{summary:?}");
    }
}

#[test]
fn calls_of_grpc_are_judged_by_their_status() {
    let serve = Serve::plain();
    let call = |more: &[&str]| {
        let flags = ["--rate", "0", "-n", "40", "-c", "2", "--grpc"];
        Plimsoll::load(serve.url(), &[&flags[..], more].concat()).with_file("message", "hello")
    };
    let summary = call(&["grpc.health.v1.Health/Check"]).run().summary(0);
    summary.assert_all_ok(40);
    assert_eq!(summary.counts("grpc_status").get("0"), Some(&40));
    call(&["a.Service/Echo", "--data", "hello"]).run().summary(0).assert_all_ok(40);
    let summary = call(&["a.Service/Echo", "-H", "size: x"]).run().summary(99);
    summary.assert_all_failed(40, "grpc-status");
    assert_eq!(summary.counts("grpc_status").get("3"), Some(&40));
}

#[test]
fn what_nginx_has_not_begun_is_sent_again() {
    let address = port::free();
    let nginx = Nginx::start(false, &format!("listen {address} http2;\nkeepalive_requests 50;"));
    let flags = ["--http", "2", "--rate", "0", "-n", "2000", "-c", "2", "-m", "16"];
    let summary = Plimsoll::load(&format!("http://{address}/"), &flags).run().summary(0);
    summary.assert_all_ok(2_000);
    assert!(summary.count("streams.goaways") >= 30, "{summary:?}");
    assert!(summary.count("streams.requeued") > 0, "{summary:?}");
    let announced =
        ["requests_min", "requests_max"].map(|of| summary.count(&format!("announced.{of}")));
    assert_eq!(announced, [50, 50], "{summary:?}");
    assert_eq!(nginx.log_of(2_000).len(), 2_000, "each was answered once");
}

#[test]
fn fewer_streams_than_were_asked_for_are_in_the_report() {
    let address = port::free();
    let _nginx =
        Nginx::start(false, &format!("listen {address} http2;\nhttp2_max_concurrent_streams 2;"));
    let url = format!("http://{address}/");
    let flags = ["--http", "2", "--rate", "0", "-n", "200", "-c", "2", "-m", "10"];
    let finished = Plimsoll::new([&["load", url.as_str()][..], &flags].concat()).run();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    let words = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "the server allows 2 streams per connection (SETTINGS_MAX_CONCURRENT_STREAMS): 10 were asked for";
    assert!(words.contains(said), "{}", finished.stdout);
}

#[test]
fn haproxy_speaks_it_over_tls_and_a_server_that_does_not_is_told() {
    let certificate = Certificate::new();
    let both = certificate.both();
    let bind = format!("ssl crt {} alpn h2", both.display());
    let haproxy = Haproxy::start(&bind, "    http-request return status 200", "");
    let flags = ["-k", "--http", "2", "--rate", "500", "-n", "300", "-c", "3"];
    let summary = Plimsoll::load(&haproxy.url("https"), &flags).run().summary(0);
    summary.assert_all_ok(300);
    assert_eq!(summary.count("connections.opened"), 3);
    let bind = format!("ssl crt {} alpn http/1.1", both.display());
    let older = Haproxy::start(&bind, "    http-request return status 200", "");
    let load = Plimsoll::load(&older.url("https"), &flags).run();
    load.summary(99).assert_all_failed(300, "alpn-mismatch");
    assert!(load.stderr.contains("alpn-mismatch"), "{}", load.stderr);
}
