//! Raw TCP and TLS: our scripts against Redis, HAProxy in TCP mode and openssl.

use std::fs;
use std::time::Duration;

use e2e::certificate::Certificate;
use e2e::haproxy::Haproxy;
use e2e::openssl::SServer;
use e2e::plimsoll::Plimsoll;
use e2e::redis::Redis;
use e2e::serve::Serve;
use e2e::silent::SilentServer;
use tempfile::TempDir;

/// A file with a script.
struct Script(TempDir);

impl Script {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        fs::write(folder.path().join("script"), text).expect("an own folder is writable");
        Self(folder)
    }

    fn path(&self) -> String {
        self.0.path().join("script").display().to_string()
    }
}

/// Logs in, then sets and gets a value as one operation.
fn session() -> String {
    format!(
        "send \"AUTH {}\\r\\n\"\nexpect \"+OK\\r\\n\"\nloop\n  send \"SET k 12345\\r\\n\"\n  \
         expect \"+OK\\r\\n\"\n  sleep 20ms\n  repeat 2\n    send \"GET k\\r\\n\"\n    \
         expect /^\\$5\\r\\n[0-9]{{5}}\\r\\n/\n  end\nend\n",
        Redis::PASSWORD
    )
}

#[test]
fn redis_counts_the_commands_of_every_operation() {
    let (redis, script) = (Redis::start(), Script::new(&session()));
    let url = format!("tcp://{}", redis.address);
    let flags = ["--script", &script.path(), "--rate", "100", "-n", "60", "-c", "6"];
    let summary = Plimsoll::load(&url, &flags).run().summary(0);
    summary.assert_all_ok(60);
    assert_eq!([redis.calls("set"), redis.calls("get")], [60, 120]);
    assert_eq!(summary.count("connections.opened"), 6);
    // The sleep is no latency.
    assert!(summary.number("latency_ms.uncorrected.p50") < 20.0, "{summary:?}");
}

#[test]
fn each_operation_sends_its_own_bytes() {
    let redis = Redis::start();
    // Each connection has its own counter, which is one more than the number of the operation.
    let script = Script::new(&format!(
        "send \"AUTH {}\\r\\n\"\nexpect \"+OK\\r\\n\"\nloop\n  send \"INCR c%i\\r\\n\"\n  expect line\n  \
         send \"SET k%i:%s %rand_1000\\r\\n\"\n  expect \"+OK\\r\\n\"\n  send \"GET k%i:%s\\r\\n\"\n  expect line\n  \
         expect \"%rand_1000\\r\\n\"\nend\n",
        Redis::PASSWORD
    ));
    let url = format!("tcp://{}", redis.address);
    let flags =
        ["--script", &script.path(), "--rate", "0", "-n", "90", "-c", "5", "--threads", "2"];
    Plimsoll::load(&url, &flags).run().summary(0).assert_all_ok(90);
    let keys = redis.keys();
    let counters: Vec<_> = keys.iter().filter(|key| key.starts_with('c')).collect();
    assert_eq!(counters, ["c0", "c1", "c2", "c3", "c4"]);
    let values = keys.iter().filter(|key| key.starts_with('k')).count();
    assert_eq!(values, 90, "{keys:?}");
    // Over TLS, and where operations only send.
    let serve = Serve::start(&["--tcp-tls", "127.0.0.1:0"], 1);
    let echoed = Script::new(
        "loop\n  send stamp \"%s of %i\"\n  expect stamp\n  expect \"%s of %i\"\nend\n",
    );
    let flags = ["-k", "--script", &echoed.path(), "--rate", "0", "-n", "60", "-c", "3"];
    Plimsoll::load(serve.url(), &flags).run().summary(0).assert_all_ok(60);
    let silent = SilentServer::start(Duration::from_secs(60));
    let sent = Script::new("loop\n  send \"%s of %i\"\nend\n");
    let flags = ["--script", &sent.path(), "--rate", "0", "-n", "5000", "-c", "5"];
    let url = format!("tcp://{}", silent.address);
    Plimsoll::load(&url, &flags).run().summary(0).assert_all_ok(5_000);
}

#[test]
fn sessions_are_held_over_tls_through_a_proxy_in_tcp_mode() {
    let (redis, script) = (Redis::start(), Script::new(&session()));
    let certificate = Certificate::new();
    let bind = format!("accept-proxy ssl crt {}", certificate.both().display());
    let backend = format!("backend redis\n    mode tcp\n    server one {}", redis.address);
    let haproxy = Haproxy::start(&bind, "    mode tcp\n    default_backend redis", &backend);
    let url = format!("tls://{}", haproxy.address);
    let hold =
        ["hold", &url, "-k", "--script", &script.path(), "--proxy-protocol", "v2", "-c", "40"];
    let pace = ["--rate", "200", "--for", "1s", "--heartbeat", "1s", "--no-ui", "--json", "-"];
    let summary = Plimsoll::new([&hold[..], &pace].concat()).run().summary(0);
    assert_eq!(summary.count("errors"), 0, "{summary:?}");
    assert_eq!(haproxy.count("stot"), 40);
    assert!(redis.calls("set") >= 40, "{}", redis.calls("set"));
}

#[test]
fn serve_sends_back_what_it_is_sent() {
    let serve = Serve::start(&["--tcp", "127.0.0.1:0", "--tcp-tls", "127.0.0.1:0"], 2);
    for url in &serve.urls {
        let flags = ["-k", "--echo", "40000", "--rate", "100", "-n", "50", "-c", "5"];
        let summary = Plimsoll::load(url, &flags).run().summary(0);
        summary.assert_all_ok(50);
        assert!(summary.count("bytes.received") >= 50 * 40_000, "{summary:?}");
    }
    // It sends back more than a script asks for.
    let script = Script::new("loop\n  send \"abcd\"\n  expect \"ab\"\nend\n");
    let flags = ["--script", &script.path(), "--rate", "0", "-n", "5", "-c", "1"];
    let summary = Plimsoll::load(serve.url(), &flags).run().summary(0);
    summary.assert_all_ok(5);
    assert_eq!(summary.counts("lost_idle_classes")["peer-spoke-first"], 5, "{summary:?}");
}

#[test]
fn openssl_answers_a_script() {
    let server = SServer::start(&Certificate::new(), &["-rev"]);
    let script = Script::new("loop\n  send \"abc\\n\"\n  expect \"cba\\n\"\nend\n");
    let url = format!("tls://{}", server.address);
    let flags = ["-k", "--script", &script.path(), "--rate", "0", "-n", "20", "-c", "1"];
    Plimsoll::load(&url, &flags).run().summary(0).assert_all_ok(20);
}

#[test]
fn what_redis_answers_otherwise_is_a_class() {
    let redis = Redis::start();
    let url = format!("tcp://{}", redis.address);
    let failing = |text: &str, class: &str| {
        let script = Script::new(text);
        let pace =
            ["--rate", "0", "-n", "5", "-c", "1", "--deadline", "100ms", "--linger", "100ms"];
        let path = script.path();
        let flags = [&["--script", &path][..], &pace].concat();
        let finished = Plimsoll::load(&url, &flags).run();
        finished.summary(99).assert_all_failed(5, class);
        finished.stderr
    };
    let ping = "loop\n  send \"PING\\r\\n\"\n  expect \"+PONG\\r\\n\"\nend\n";
    let told = failing(ping, "script-mismatch");
    let expected =
        "line 3 of the script expects something else than an answer that begins with \"-NOAUTH";
    assert!(told.contains(expected), "{told}");
    // Its answer has no such line, however long one waits.
    failing("loop\n  send \"PING\\r\\n\"\n  expect until \"never\"\nend\n", "timeout");
    failing("loop\n  send \"QUIT\\r\\n\"\n  expect line\n  expect line\nend\n", "closed-by-peer");
}

#[test]
fn a_bad_script_is_one_line_with_its_place() {
    let refused = |arguments: &[&str], what: &str| {
        let finished = Plimsoll::new(arguments).run();
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(finished.stderr.contains(what), "{}", finished.stderr);
        assert_eq!(finished.stderr.lines().count(), 1, "{}", finished.stderr);
    };
    let script = Script::new("loop\n  send \"a\"\n  expcet \"b\"\nend\n");
    let (path, url) = (script.path(), "tcp://127.0.0.1:1");
    refused(&["load", url, "--script", &path], "script, line 3: \"expcet\" is no statement");
    refused(&["load", url], "give --script FILE, or --echo SIZE");
    refused(&["load", url, "--echo", "0"], "--echo sends 1 byte to 64 KiB");
    refused(&["load", url, "--echo", "8", "-H", "a: b"], "a script has no --header");
    refused(&["load", "tcp://127.0.0.1", "--echo", "8"], "no port");
    refused(&["load", "http://127.0.0.1:1", "--echo", "8"], "--echo is for raw TCP and TLS");
}
