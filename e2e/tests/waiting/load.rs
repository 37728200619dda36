//! The contract of `plimsoll load`: what is sent, how much, and where it ends.

use std::net::{IpAddr, Ipv6Addr, TcpListener};
use std::path::Path;

use e2e::certificate::Certificate;
use e2e::haproxy::Haproxy;
use e2e::nginx::Nginx;
use e2e::plimsoll::{Plimsoll, undisturbed};
use e2e::port;
use e2e::recorder::{Recorder, Request};
use e2e::serve::Serve;
use e2e::summary::Summary;
use serde_json::Value;

fn load(url: &str, flags: &[&str], code: i32) -> Summary {
    Plimsoll::load(url, flags).run().summary(code)
}

#[test]
fn stages_schedule_exactly_the_area_below_them() {
    let nginx = Nginx::start(false, "");
    // Up to 400/s in 0.3 s: 60; 0.3 s there: 120; down to 0 in 0.2 s: 40.
    let stages = ["--stages", "300ms:400,300ms:400,200ms:0"];
    for arrivals in ["uniform", "poisson"] {
        let flags = [&stages[..], &["--arrivals", arrivals]].concat();
        load(&nginx.url("http"), &flags, 0).assert_all_ok(220);
    }
    // A jump to the rate, and whichever of the two ends comes first.
    load(&nginx.url("http"), &["--stages", "0s:500,200ms:500"], 0).assert_all_ok(100);
    load(&nginx.url("http"), &["--rate", "500", "-d", "100ms", "-n", "90"], 0).assert_all_ok(50);
    load(&nginx.url("http"), &["--rate", "500", "-d", "1h", "-n", "90"], 0).assert_all_ok(90);
    nginx.log_of(2 * 220 + 100 + 50 + 90);
}

#[test]
fn a_closed_loop_keeps_every_connection_busy() {
    let nginx = Nginx::start(false, "");
    let summary = load(&nginx.url("http"), &["--rate", "0", "-c", "8", "-n", "1003"], 0);
    summary.assert_all_ok(1003);
    assert_eq!(
        (summary.count("connections.opened"), summary.count("connections.held_max")),
        (8, 8)
    );
    let log = nginx.log_of(1003);
    let busiest = log.iter().map(|logged| logged.request_of_connection).max();
    assert!(busiest < Some(1003), "one connection carried all");
    // For a time: what was started is what ended.
    let summary = load(&nginx.url("http"), &["--rate", "0", "-c", "4", "-d", "200ms"], 0);
    summary.assert_all_ok(summary.count("scheduled"));
    nginx.log_of(1003 + summary.count("scheduled"));
}

/// Returns the requests, in the order in which one connection carried them.
fn recorded(recorder: &Recorder, flags: &[&str], count: u64) -> Vec<Request> {
    let one_by_one = ["-c", "1", "--rate", "0"];
    let requests = count.to_string();
    let url = recorder.url();
    let flags = [&one_by_one[..], &["-n", &requests], flags].concat();
    let before = recorder.requests().len();
    load(&url, &flags, 0).assert_all_ok(count);
    recorder.requests().split_off(before)
}

#[test]
fn requests_are_sent_as_the_flags_say() {
    let recorder = Recorder::start();
    let plain = recorded(&recorder, &[], 1).remove(0);
    assert_eq!((plain.line.as_str(), plain.body.as_slice()), ("GET / HTTP/1.1", &b""[..]));
    assert_eq!(plain.values("host"), [recorder.address.to_string()]);
    assert_eq!(plain.values("user-agent").len(), 1);

    let flags = ["--data", "a=1&b=2", "-H", "X-One: 1", "-H", "user-agent: me", "-H", "Host: h"];
    let posted = recorded(&recorder, &flags, 1).remove(0);
    assert_eq!(
        (posted.line.as_str(), posted.body.as_slice()),
        ("POST / HTTP/1.1", &b"a=1&b=2"[..])
    );
    assert_eq!(posted.values("content-length"), ["7"]);
    assert_eq!(posted.values("x-one"), ["1"]);
    assert_eq!(posted.values("user-agent"), ["me"]);
    assert_eq!(posted.values("host"), ["h"]);

    let put = recorded(&recorder, &["-X", "PUT", "--data", "x"], 2);
    assert!(put.iter().all(|request| request.line == "PUT / HTTP/1.1" && request.body == b"x"));
}

#[test]
fn bodies_come_from_files_and_standard_input() {
    let recorder = Recorder::start();
    // Larger than any socket buffer, and with every byte.
    let body: Vec<u8> = (0..3_000_000u32).map(|at| (at * 7 % 251) as u8).collect();
    let url = recorder.url() + "upload?x=1";
    let flags = ["-c", "1", "-n", "3", "--rate", "100"];
    let from_file = Plimsoll::load(&url, &[&flags[..], &["--body", "big"]].concat());
    from_file.with_file("big", &body).run().summary(0).assert_all_ok(3);
    let from_stdin = Plimsoll::load(&url, &[&flags[..], &["--body", "-"]].concat());
    from_stdin.with_input(body.clone()).run().summary(0).assert_all_ok(3);
    let requests = recorder.requests();
    assert_eq!(requests.len(), 6);
    for request in requests {
        assert_eq!(request.line, "POST /upload?x=1 HTTP/1.1");
        assert!(request.body == body, "{} bytes came", request.body.len());
    }
}

#[test]
fn targets_are_taken_in_turn_from_both_formats() {
    let recorder = Recorder::start();
    let base = recorder.url();
    let http = format!(
        "# vegeta's http format\nGET {base}a\nX-Target: a\n\nPOST {base}b\nContent-Type: text/x\n\
         @body\n\nDELETE {base}c\n"
    );
    let json = format!(
        "{{\"method\":\"GET\",\"url\":\"{base}a\",\"header\":{{\"X-Target\":[\"a\"]}}}}\n\
         {{\"method\":\"POST\",\"url\":\"{base}b\",\"body\":\"cGluZw==\",\
         \"header\":{{\"Content-Type\":[\"text/x\"]}}}}\n\
         {{\"method\":\"DELETE\",\"url\":\"{base}c\"}}\n"
    );
    let flags = ["load", "-c", "1", "-t", "1", "--rate", "0", "-n", "7", "--json", "-"];
    let flags = [&flags[..], &["-H", "X-All: yes", "--targets"]].concat();
    let runs = [
        Plimsoll::new([&flags[..], &["targets"]].concat()).with_file("targets", &http),
        Plimsoll::new([&flags[..], &["-"]].concat()).with_input(http),
        Plimsoll::new([&flags[..], &["targets"]].concat()).with_file("targets", &json),
        Plimsoll::new([&flags[..], &["-", "--format", "json"]].concat()).with_input(json),
    ];
    for (number, run) in runs.into_iter().enumerate() {
        run.with_file("body", "ping").run().summary(0).assert_all_ok(7);
        let requests = recorder.requests().split_off(number * 7);
        let lines: Vec<_> = requests.iter().map(|request| request.line.as_str()).collect();
        let turn = ["GET /a HTTP/1.1", "POST /b HTTP/1.1", "DELETE /c HTTP/1.1"];
        let expected: Vec<_> = turn.into_iter().cycle().take(7).collect();
        assert_eq!(lines, expected);
        assert_eq!(requests[3].values("x-target"), ["a"]);
        assert_eq!(
            (requests[4].body.as_slice(), requests[4].values("content-type")),
            (&b"ping"[..], vec!["text/x"])
        );
        assert!(requests.iter().all(|request| request.values("x-all") == ["yes"]));
    }
}

#[test]
fn answers_after_the_deadline_are_late_and_still_awaited() {
    let serve = Serve::plain();
    let slow = ["-H", "sleep-fixed: 60", "--rate", "200", "-n", "40", "-c", "40"];
    let summary = load(serve.url(), &[&slow[..], &["--deadline", "20ms"]].concat(), 0);
    summary.assert_all_ok(40);
    assert_eq!(summary.count("late"), 40);
    assert!(summary.number("latency_ms.corrected.min") >= 60.0, "{summary:?}");
    let summary = load(serve.url(), &[&slow[..], &["--deadline", "60s"]].concat(), 0);
    assert_eq!((summary.count("ok"), summary.count("late")), (40, 0));
}

#[test]
fn the_linger_ends_the_wait() {
    let serve = Serve::plain();
    let never = ["-H", "sleep-fixed: 86400000", "--rate", "200", "-n", "40", "-c", "40"];
    let patience = ["--deadline", "20ms", "--linger", "80ms"];
    let summary = load(serve.url(), &[&never[..], &patience].concat(), 99);
    summary.assert_all_failed(40, "timeout");
    assert_eq!(summary.count("late"), 0);
}

#[test]
fn a_missed_goal_is_exit_code_99_and_a_met_one_0() {
    let serve = Serve::plain();
    let url = serve.url();
    let slow = ["load", url, "-H", "sleep-fixed: 1200", "--rate", "50", "-n", "20", "--json", "-"];
    let judged = |goals: &'static str| {
        undisturbed(|| Plimsoll::new([&slow[..], &["--slo", goals]].concat()).run())
    };
    let missed = judged("p99<1s,errors<1%");
    let summary = missed.summary(99);
    assert_eq!(summary.text("verdict"), "bad");
    let worst = &summary.at("reasons")[0];
    assert_eq!(
        (worst["check"].as_str(), worst["level"].as_str()),
        (Some("p99<1000ms"), Some("fail"))
    );
    let met = judged("p99<60s,errors<1%");
    assert_eq!(met.summary(0).text("verdict"), "good");
}

#[test]
fn broken_answers_have_classes_of_their_own() {
    let loopback = IpAddr::from([127, 0, 0, 1]);
    let flags = ["--rate", "200", "-n", "20", "-c", "2"];
    let long: &'static str = String::leak(format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(1 << 20)));
    for (answer, class) in [
        (&b"SSH-2.0-server\r\n\r\n"[..], "http-malformed"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: ten\r\n\r\n", "http-malformed"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "http-malformed"),
        (b"", "closed-by-peer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "closed-by-peer"),
        (long.as_bytes(), "http-too-large"),
    ] {
        let recorder = Recorder::start_with(loopback, Some(answer));
        load(&recorder.url(), &flags, 99).assert_all_failed(20, class);
    }
    let nobody = format!("http://{}/", port::free());
    load(&nobody, &flags, 99).assert_all_failed(20, "connect-refused");
    // TLS towards a server that speaks none, and the other way round.
    let plain = Nginx::start(false, "");
    load(&plain.url("https"), &flags, 99).assert_all_failed(20, "tls-handshake");
}

#[test]
fn ipv6_and_names_are_reached() {
    let certificate = Certificate::new();
    let chain = certificate.chain_argument();
    let flags = ["--rate", "200", "-n", "20", "-c", "2"];
    let ssl =
        format!("ssl_certificate {chain}; ssl_certificate_key {};", certificate.key_argument());
    let nginx = Nginx::start(true, &ssl);
    let url = format!("https://localhost:{}/path", nginx.address.port());
    load(&url, &[&flags[..], &["--cacert", &chain]].concat(), 0).assert_all_ok(20);
    assert!(nginx.log_of(20).iter().all(|logged| logged.request == "GET /path HTTP/1.1"));

    let loopback = IpAddr::V6(Ipv6Addr::LOCALHOST);
    if TcpListener::bind((loopback, 0)).is_err() {
        // A host without IPv6 has nothing to reach; that plimsoll says so is not this test's.
        return;
    }
    let nginx = Nginx::start_at(port::free_on(loopback), true, &ssl);
    load(&nginx.url("https"), &[&flags[..], &["--cacert", &chain]].concat(), 0).assert_all_ok(20);
    assert!(nginx.log_of(20).iter().all(|logged| logged.remote == "::1"));
}

#[test]
fn sources_are_taken_in_turn() {
    let nginx = Nginx::start(false, "");
    let flags = ["--rate", "500", "-n", "140", "-c", "14", "--source", "127.0.0.0/28"];
    load(&nginx.url("http"), &flags, 0).assert_all_ok(140);
    let mut remotes: Vec<_> = nginx.log_of(140).into_iter().map(|logged| logged.remote).collect();
    remotes.sort_unstable();
    remotes.dedup();
    let mut expected: Vec<_> = (1..=14).map(|host| format!("127.0.0.{host}")).collect();
    expected.sort_unstable();
    assert_eq!(remotes, expected);
}

#[test]
fn an_archive_is_redrawn_and_holds_no_secret() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http").replace("http://", "http://user:pa55word@");
    let flags =
        ["load", &nginx.url("http"), "--rate", "200", "-n", "50", "-c", "2", "--out", "run"];
    let secrets = ["-H", "Authorization: Bearer 5ecret", "-H", "Cookie: id=5ecret"];
    let ran = Plimsoll::new([&flags[..], &secrets, &["--slo", "errors<1%"]].concat()).run();
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let archive = ran.folder().join("run");
    let archive = archive.to_str().expect("text");
    let redrawn = Plimsoll::new(["report", archive]).run();
    assert_eq!((redrawn.code, &redrawn.stdout), (Some(0), &ran.stdout));
    let again = Plimsoll::new(["report", archive, "--json", "-"]).run();
    assert_eq!(again.stderr, ran.stdout, "with the JSON on stdout, the report is on stderr");
    Summary::parse(&again.stdout).assert_all_ok(50);
    for file in std::fs::read_dir(archive).expect("the archive is there") {
        let path = file.expect("a readable folder").path();
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(!text.contains("5ecret"), "{}", path.display());
    }
    // A second run never mixes with the first.
    let again = Plimsoll::new(["load", &url, "-n", "1", "--out", archive]).run();
    assert_ne!(again.code, Some(0), "{}", again.stdout);
}

#[test]
fn a_named_address_replaces_those_of_the_host() {
    let recorder = Recorder::start();
    let port = recorder.address.port();
    let url = format!("http://no-such-host.test:{port}/");
    let resolve = format!("no-such-host.test:{port}:127.0.0.1");
    load(&url, &["-n", "1", "--resolve", &resolve], 0).assert_all_ok(1);
    let host = format!("no-such-host.test:{port}");
    assert_eq!(recorder.requests()[0].values("host"), [host]);
}

#[test]
fn a_run_file_is_a_command_line_that_flags_change() {
    let recorder = Recorder::start();
    let file = format!(
        "command = \"load\"\nurl = \"{}\"\nrate = 0\nrequests = 9\nconnections = 1\nslo = \"errors<1%\"\n\
         header = [\"a: b\", \"c: d\"]\njson = \"-\"\nno-ui = true\n",
        recorder.url()
    );
    let run = Plimsoll::new(["run", "bench.toml", "--requests", "2"]).with_file("bench.toml", file);
    run.run().summary(0).assert_all_ok(2);
    let requests = recorder.requests();
    let sent = (requests[1].values("a"), requests[1].values("c"));
    assert_eq!((requests.len(), sent), (2, (vec!["b"], vec!["d"])));
    let run = Plimsoll::new(["run", "bench.toml"])
        .with_file("bench.toml", "command = \"load\"\nfrom = 1\n");
    let finished = run.run();
    assert_eq!(finished.code, Some(2), "{}", finished.stderr);
    assert!(finished.stderr.contains("bench.toml: unknown flag --from"), "{}", finished.stderr);
}

#[test]
fn explanations_need_nothing_but_the_program() {
    let finished = Plimsoll::without_path(&["explain", "98"]).run();
    assert_eq!(finished.code, Some(0), "{}", finished.stderr);
    assert!(finished.stdout.starts_with("98 (exit code)\n\nINVALID: "), "{}", finished.stdout);
    let finished = Plimsoll::new(["explain", "send-lga"]).run();
    let line = "plimsoll: nothing is called \"send-lga\"; did you mean send-lag?\n";
    assert_eq!((finished.code, finished.stderr.as_str()), (Some(2), line));
}

/// Without `--details` the report fits on a screen, and names the command that shows the rest, which does.
#[test]
fn a_report_fits_on_one_screen_and_names_the_command_that_shows_the_rest() {
    let nginx = Nginx::start(false, "location /gone { return 503; }");
    let url = format!("{}gone", nginx.url("http"));
    let flags = ["--rate", "200", "-n", "60", "--slo", "errors<1%", "--out", "run", "--no-ui"];
    let load = Plimsoll::brief(&[&["load", &url][..], &flags].concat()).run();
    assert_eq!(load.code, Some(99), "{}", load.stderr);
    let lines: Vec<&str> = load.stdout.lines().collect();
    assert!(lines.len() <= 24, "{}", load.stdout);
    assert!(lines.iter().all(|line| line.chars().count() <= 80), "{}", load.stdout);
    assert!(lines[0].starts_with("BAD  "), "{}", load.stdout);
    for text in ["status-5xx: 60", "plimsoll explain status-5xx", "plimsoll report run --details"] {
        assert!(load.stdout.contains(text), "{text}: {}", load.stdout);
    }
    let whole = Plimsoll::brief(&["report", "run", "--details"]).within(&load.folder()).run();
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);
    assert!(whole.stdout.contains("Checks that passed"), "{}", whole.stdout);
}

#[test]
fn a_unix_socket_is_used_instead_of_host_and_port() {
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let (plain, tls) = (folder.path().join("plain"), folder.path().join("tls"));
    let certificate = Certificate::new();
    let directives = format!(
        "listen unix:{};\nlisten unix:{} ssl;\nssl_certificate {};\nssl_certificate_key {};\n\
         location = /host {{ if ($http_host != 'nowhere.invalid') {{ return 400; }} return 200 ok; }}",
        plain.display(),
        tls.display(),
        certificate.chain().display(),
        certificate.key().display()
    );
    let nginx = Nginx::start(false, &directives);
    let haproxy = folder.path().join("haproxy");
    let bind = format!(
        "frontend unix\n    bind unix@{}\n    \
         http-request return status 200 content-type text/plain string pong",
        haproxy.display()
    );
    let _haproxy = Haproxy::start("", "    http-request deny", &bind);
    let pace = ["--rate", "200", "-n", "60", "-c", "3", "--no-ui"];
    for (url, path, flags) in [
        ("http://nowhere.invalid/host", &plain, &[][..]),
        ("https://nowhere.invalid/host", &tls, &["-k"]),
        ("https://nowhere.invalid/", &tls, &["-k", "--no-keepalive"]),
        ("http://nowhere.invalid/", &haproxy, &["--processes", "2", "--http", "1.1"]),
    ] {
        let path = path.display().to_string();
        let ran =
            Plimsoll::load(url, &[&pace[..], &["--unix-socket", &path], flags].concat()).run();
        let summary = ran.summary(0);
        summary.assert_all_ok(60);
        assert_eq!(summary.at("settings.load.unix_socket").as_bool(), Some(true));
        assert_eq!(summary.count("connections.failed"), 0, "{summary:?}");
    }
    assert!(nginx.log().iter().all(|one| one.remote == "unix:"), "{:?}", nginx.log());
    // No server listens there any more.
    drop(nginx);
    for (path, words) in [(plain, "Connection refused"), (folder.path().join("no"), "No such file")]
    {
        let path = path.display().to_string();
        let flags = ["--unix-socket", &path, "--rate", "20", "-n", "2", "-c", "1", "--no-ui"];
        let ran = Plimsoll::load("http://nowhere.invalid/", &flags).run();
        let reasons = ran.summary(99).reasons("connect-refused");
        for word in [words, "check the path and its permissions"] {
            assert!(reasons.contains(word), "{word}: {reasons}");
        }
    }
    let long = "x".repeat(108);
    for (flags, words) in [
        (&["--unix-socket", long.as_str()][..], "a path of 108 bytes"),
        (&["--unix-socket", "s", "--source", "127.0.0.2"], "--source"),
        (&["--unix-socket", "s", "--hosts", "a,b"], "--hosts"),
        (&["--unix-socket", "s", "--proxy-protocol", "v2"], "--proxy-protocol"),
    ] {
        let ran = Plimsoll::load("http://nowhere.invalid/", flags).run();
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(words), "{ran:?}");
    }
}

/// Returns the operations that a search for a rate counted in all of its trials; `None` for others.
fn answered_in_trials(folder: &Path) -> Option<u64> {
    let lines = std::fs::read_to_string(folder.join("run/trials.jsonl")).unwrap_or_default();
    let ok = |line| {
        let trial: Value = serde_json::from_str(line).expect("a line is an object");
        trial["measurement"]["tally"]["ok"].as_u64().expect("a number")
    };
    lines.lines().map(ok).reduce(|sum, ok| sum + ok)
}

/// A search and a hold reach a server at a Unix socket, with every connection of theirs.
#[test]
fn searches_and_holds_use_a_unix_socket() {
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let (plain, tls) = (folder.path().join("plain"), folder.path().join("tls"));
    let certificate = Certificate::new();
    let directives = format!(
        "listen unix:{} backlog=4096;\nlisten unix:{} ssl backlog=4096;\nssl_certificate {};\n\
         ssl_certificate_key {};",
        plain.display(),
        tls.display(),
        certificate.chain().display(),
        certificate.key().display()
    );
    let nginx = Nginx::start(false, &directives);
    let pid = format!("pid:{}", nginx.pid());
    let [plain, tls] = [plain, tls].map(|path| path.display().to_string());
    let search = ["--mode", "quick", "--min", "20", "--max", "30", "--slo", "p99<2s,errors<1%"];
    let held = ["-c", "50", "--rate", "500", "--for", "2s", "--heartbeat", "1s"];
    let levels = ["--mode", "quick", "--min", "20", "--max", "30", "--for", "1s"];
    for (command, scheme, socket, flags) in [
        (&["find", "rate"][..], "http", &plain, &search[..]),
        (&["find", "handshakes"], "https", &tls, &search),
        (&["find", "connections"], "https", &tls, &levels),
        (&["hold"], "http", &plain, &held),
    ] {
        let url = format!("{scheme}://nowhere.invalid/{}", command.join("-"));
        let trust = if scheme == "https" { &["-k"][..] } else { &[] };
        let shared = [
            "--unix-socket",
            socket,
            "--watch",
            &pid,
            "--json",
            "-",
            "--out",
            "run",
            "--no-ui",
            &url,
        ];
        let line = [command, flags, trust, &shared].concat();
        let mut before = 0;
        let finished = undisturbed(|| {
            before = nginx.log().len() as u64;
            Plimsoll::new(&line).run()
        });
        let summary = finished.summary(0);
        assert_eq!(summary.at("settings.load.unix_socket").as_bool(), Some(true));
        assert_eq!(summary.count("connections.failed"), 0, "{summary:?}");
        assert!(summary.count("ok") > 0, "{summary:?}");
        let answered =
            answered_in_trials(&finished.folder()).unwrap_or_else(|| summary.count("ok"));
        let requests = if url.contains("handshakes") { 0 } else { answered };
        nginx.log_of(before + requests);
    }
    assert!(nginx.log().iter().all(|one| one.remote == "unix:"), "{:?}", nginx.log());
    let flags = ["find", "rfc9411", "http://a/{size}", "--case", "7.1", "--unix-socket", &plain];
    let refused = Plimsoll::new(flags).run();
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--unix-socket names none; drop it"), "{refused:?}");
}

/// An archive repeats its run; a header, which it does not contain, is asked for.
#[test]
fn an_archive_is_a_run_file() {
    let recorder = Recorder::start();
    let url = recorder.url();
    let flags = ["load", &url, "-n", "2", "-r", "50", "-H", "a: b", "--out", "run", "--no-ui"];
    let first = Plimsoll::new(flags.iter().chain(&["--slo", "errors<1%"])).run();
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let again = |words: &[&str]| Plimsoll::brief(words).within(&first.folder()).run();
    let asks = again(&["run", "run"]);
    let line = "plimsoll: run: an archive does not contain the value of --header; give it again behind the archive's name\n";
    assert_eq!((asks.code, asks.stderr.as_str()), (Some(2), line));
    let repeated = again(&["run", "run/manifest.json", "--header", "c: d"]);
    assert_eq!(repeated.code, Some(0), "{}", repeated.stderr);
    assert!(repeated.stderr.contains("does not contain the value of --out"), "{}", repeated.stderr);
    let requests = recorder.requests();
    assert_eq!(requests.len(), 4, "{requests:?}");
    assert!(requests[2..].iter().all(|one| one.values("c") == ["d"] && one.values("a").is_empty()));
}
