//! Tests of refusals, with the line that names the remedy.

use super::*;

/// Asserts that each command line is refused with its line and exit code 2.
fn refuses<'a>(cases: impl IntoIterator<Item = (Vec<&'a str>, &'a str)>) {
    for (words, line) in cases {
        let (said, code) = refused(&words, b"");
        assert_eq!((said.as_str(), code), (format!("plimsoll: {line}").as_str(), 2), "{words:?}");
    }
}

/// Like [`refuses`], with the words after `load`.
fn refuses_loads<'a>(cases: impl IntoIterator<Item = (Vec<&'a str>, &'a str)>) {
    refuses(cases.into_iter().map(|(flags, line)| ([&["load"], &flags[..]].concat(), line)));
}

#[test]
fn bad_loads() {
    refuses_loads([
        (vec![], "no URL given; for example: plimsoll load http://127.0.0.1:8080/"),
        (vec!["a:80"], "URL \"a:80\" has no scheme; write http://a:80 or https://a:80"),
        (
            vec!["ftp://a"],
            "URL \"ftp://a\" has a scheme that is not spoken; write one that starts with http://, https://, ws://, \
             wss://, mqtt://, mqtts://, tcp:// or tls://",
        ),
        (
            vec!["http://a:0"],
            "URL \"http://a:0\" is malformed: the port must be 1 to 65535; write it like \
             https://host:8443/path",
        ),
        (vec![URL, "--targets", "-"], "a URL and --targets exclude each other; drop one of them"),
        (
            vec!["--targets", "-", "--method", "PUT"],
            "--targets names the method of each request, and --method another; drop --method",
        ),
        (
            vec!["--targets", "-", "--body", "-"],
            "--targets - and --body - both read standard input; give one of them a file",
        ),
        (
            vec![URL, "--format", "json"],
            "--format is the format of --targets, and there is no --targets; drop it",
        ),
        (
            vec![URL, "--method", "G E T"],
            "--method \"G E T\" is not an HTTP method; write one such as GET or POST",
        ),
        (vec!["http:/a"], "URL \"http:/a\" has no // behind its scheme; write http://a"),
    ]);
}

#[test]
fn loads_without_a_schedule_that_can_be_kept() {
    refuses_loads([
        (
            vec![URL, "--rate", "0", "--stages", "5s:9"],
            "--rate 0 (closed loop) and --stages (open loop) exclude each other; drop one of them",
        ),
        (
            vec![URL, "--duration", "5s", "--stages", "5s:9"],
            "--stages already sets the duration of the load; drop --duration, or add a stage",
        ),
        (
            vec![URL, "--rate", "0", "--arrivals", "uniform"],
            "--arrivals spreads scheduled starts, and --rate 0 has no schedule; drop one of them",
        ),
        // 10 s at one a minute round to no request.
        (
            vec![URL, "--rate", "1/m"],
            "--rate 0.0167/s over 10.0 s starts no request; raise --rate or --duration, or \
             give --requests",
        ),
        (
            vec![URL, "--stages", "0s:500"],
            "--stages starts no request; raise a rate or a duration, such as --stages 30s:500",
        ),
        (
            vec![URL, "--linger", "0"],
            "--linger 0 without a deadline waits for no answer; give --deadline 1s, or a \
             longer --linger",
        ),
        (
            vec![URL, "--no-keepalive", "--requests-per-connection", "2"],
            "--no-keepalive closes after one request, --requests-per-connection later; drop one of \
             them",
        ),
        (
            vec![URL, "--connections", "2", "--processes", "3"],
            "--processes 3 share 2 connections; give --connections 3 or more, or a smaller \
             --processes",
        ),
        (
            vec![URL, "--connections", "2", "--threads", "3"],
            "--threads 3 share 2 connections; give --connections 3 or more, or a smaller --threads",
        ),
    ]);
}

#[test]
fn bad_files_and_identities_of_loads() {
    refuses_loads([
        (vec![URL, "--cert", "c"], "--cert needs its private key; add --key FILE"),
        (vec![URL, "--key", "k"], "--key needs its certificate; add --cert FILE"),
        (vec![URL, "--sni", ""], "--sni \"\" is not a host name; write --sni www.example.com"),
        (
            vec![URL, "--tls", "1.2", "--groups", "x25519mlkem768"],
            "--groups x25519mlkem768 needs TLS 1.3, and --tls 1.2 excludes it; drop --tls, or add a \
             group such as x25519",
        ),
        (
            vec![URL, "--source", "fd00::/64"],
            "--source has no IPv4 address to reach 127.0.0.1:9; add one",
        ),
        (
            vec![URL, "--json", "no-such-folder/a.json"],
            "--json \"no-such-folder/a.json\" lies in no directory that exists; create it first",
        ),
        (vec![URL, "--out", ""], "--out needs a value; write --out <DIR>"),
        (
            vec![URL, "--body", "no-such-file"],
            "--body cannot read \"no-such-file\": No such file or directory (os error 2); name a \
             readable file",
        ),
        (
            vec![URL, "--cacert", "no-such-file"],
            "--cacert cannot read \"no-such-file\": No such file or directory (os error 2); name a \
             readable file",
        ),
    ]);
}

#[test]
fn bad_expectations_of_websocket() {
    let load = ["load", "ws://127.0.0.1:9/"];
    let hold = ["hold", "ws://127.0.0.1:9/", "-c", "1"];
    let fix = "write a text that answers contain, or a regular expression as /^ok [0-9]+$/";
    for (words, line) in [
        (
            [&load[..], &["--expect", "/ok"]].concat(),
            format!(
                "--expect /ok: it begins with a slash, as an expression does, and does not end with one; write a \
                 text that begins with a slash as /\\/text/; {fix}"
            ),
        ),
        (
            [&load[..], &["--expect", "/ok/i"]].concat(),
            format!(
                "--expect /ok/i: \"i\" follows the closing slash; a slash within the expression is \\/; {fix}"
            ),
        ),
        (
            [&load[..], &["--expect", ""]].concat(),
            format!(
                "--expect : the expression matches nothing at all, and so every answer; {fix}"
            ),
        ),
        (
            [&load[..], &["--handshake-only", "--expect", "ok"]].concat(),
            "--expect is about answers to messages; drop it: --handshake-only sends no messages".to_owned(),
        ),
        (
            [&hold[..], &["--skip-messages", "1"]].concat(),
            "--skip-messages is about answers to messages; drop it: the heartbeats of held WebSockets are pings, \
             which pongs answer"
                .to_owned(),
        ),
        (
            [&load[..], &["--ws-protocol", "chat,mqtt,chat"]].concat(),
            "--ws-protocol names chat twice; name each subprotocol once".to_owned(),
        ),
        (
            vec!["load", "http://127.0.0.1:9/", "--expect", "ok"],
            "--expect is for WebSocket; drop it, or give a URL that starts with ws:// or wss://".to_owned(),
        ),
    ] {
        let (said, code) = refused(&words, b"");
        assert_eq!((said, code), (format!("plimsoll: {line}"), 2), "{words:?}");
    }
}

#[test]
fn bad_sessions() {
    let mqtt = ["load", "mqtt://127.0.0.1:9"];
    for (flags, stdin, line) in [
        (
            &["--topic", "a/%x"][..],
            &b""[..],
            "--topic has %x, which stands for nothing; use %c (client identifier), %i (number of the connection), \
             %u (user) or %% (percent sign)",
        ),
        (
            &["--mqtt-version", "3.1.1", "--session-expiry", "9"],
            b"",
            "MQTT 3.1.1 has no --session-expiry; drop it; with --no-clean-start its sessions are kept",
        ),
        (
            &["--client-ids", "-", "-c", "3"],
            b"a\nb\n",
            "--client-ids standard input has 2 entries for 3 connections; add lines, or give fewer --connections",
        ),
        (
            &["--client-ids", "-", "-c", "1"],
            b"# ids\na\nb\r\na\n",
            "--client-ids standard input, line 4: \"a\" is in line 2, too; name each client once: a broker ends \
             the first of two sessions of one name",
        ),
        (
            &["--users", "-"],
            b"\n # nobody\n",
            "--users standard input has no entry; write USER:PASSWORD or USER, one a line",
        ),
        (
            &["--users", "-"],
            b"a:b\r\xff",
            "--users standard input, line 2: not UTF-8; save the file as UTF-8 text",
        ),
        (
            &["--users", "-"],
            b"\xff\xfea\0",
            "--users standard input, line 1: the text is UTF-16 or UTF-32; save it as UTF-8",
        ),
        (
            &["--client-ids", "-"],
            b"a\0b",
            "--client-ids standard input, line 1: a NUL byte; save the file as UTF-8 text",
        ),
        (
            &["--users", "-"],
            b"a:b\n:\n",
            "--users standard input, line 2: no user name; write USER:PASSWORD",
        ),
        (
            &["--users", "-", "--mqtt-version", "3.1.1"],
            b"a:b\n:secret",
            "--users standard input, line 2: no user name; write USER:PASSWORD",
        ),
        (
            &["--users", "-", "--client-ids", "-", "-c", "1"],
            b"a",
            "--client-ids - and --users - both read standard input; give one of them a file",
        ),
        (
            &["--client-ids", "-", "-c", "2", "--topic", "a/%c"],
            b"a\n+\n",
            "--topic \"a/%c\" becomes \"a/+\", which MQTT does not allow; take other placeholders, or other names \
             of clients and users",
        ),
        (
            &["--will-topic", "a/#"],
            b"",
            "--will-topic \"a/#\" is not a topic to publish to; give 1 to 65,535 bytes without # and +",
        ),
    ] {
        let (said, code) = refused(&[&mqtt[..], flags].concat(), stdin);
        assert_eq!((said.as_str(), code), (format!("plimsoll: {line}").as_str(), 2), "{flags:?}");
    }
}

#[test]
fn an_unresolvable_name_is_the_worlds_fault() {
    let (said, code) = refused(&["load", "http://nowhere:80"], b"");
    assert_eq!(said, "plimsoll: cannot resolve \"nowhere\": no such name; check the name");
    assert_eq!(code, 1);
}

#[test]
fn what_this_host_lacks_is_the_worlds_fault_too() {
    for (words, line) in [
        (
            ["load", URL, "--source", "10.0.0.1,10.9.9.9"],
            "--source 10.9.9.9 is no address of this host; drop it, or add it with: ip address add \
             10.9.9.9 dev lo",
        ),
        (
            ["find", "rate", URL, "--watch=pid:4000001"],
            "--watch pid:4000001: this host has no such process; find it with pidof, or drop \
             --watch",
        ),
    ] {
        let (said, code) = refused(&words, b"");
        assert_eq!((said.as_str(), code), (format!("plimsoll: {line}").as_str(), 1), "{words:?}");
    }
}

#[test]
fn bad_searches() {
    refuses([
        (
            vec!["find", "rate"],
            "no URL given; for example: plimsoll find rate http://127.0.0.1:8080/",
        ),
        (
            vec!["find", "handshakes", URL],
            "find handshakes needs TLS, and 127.0.0.1:9 is plain; write https://, or use find \
             rate with --no-keepalive",
        ),
        (
            vec!["find", "handshakes", "https://10.0.0.1/", "--max", "2k"],
            "--max of 2,000 handshakes/s is more than the 329 that the ports of 1 address allow: \
             each stays in TIME_WAIT for 60 s; give 7 addresses with --source, or lower --max",
        ),
        (
            vec!["find", "handshakes", "https://10.0.0.1/", "--min", "400"],
            "the lowest rate of 400 handshakes/s is more than the 329 that the ports of 1 address \
             allow: each stays in TIME_WAIT for 60 s; give 2 addresses with --source, or lower --min",
        ),
        (
            vec!["find", "connections", URL, "--min", "300k"],
            "the lowest level, 300,000 connections, is above the highest, 200,000; raise --max, or \
             lower --min",
        ),
        (
            vec!["find", "rate", URL, "--min", "20", "--max", "10"],
            "--min 20 is not below --max 10; widen the range",
        ),
        (
            vec!["find", "rate", URL, "--watch", "host:a"],
            "--watch host:a is not available yet; use pid:N, backend:N, haproxy:SOCKET or nginx:URL, or drop it",
        ),
        (
            vec!["find", "rate", URL, "--watch", "haproxy:/a", "--watch", "nginx:http://b/"],
            "--watch names two servers that count the same requests; give only the one that the \
             clients connect to",
        ),
    ]);
}

#[test]
fn bad_goals_and_budgets_of_searches() {
    refuses([
        (
            vec!["find", "rate", URL, "--slo", "p99<50ms", "--deadline", "20ms"],
            "--deadline 20.0 ms and --slo p99<50ms disagree on what is late; give only --slo",
        ),
        (
            vec!["find", "rate", URL, "--slo", "p99<50ms,p99<20ms"],
            "--slo \"p99<50ms,p99<20ms\" is not accepted; write goals with one limit for each metric",
        ),
        (
            vec!["find", "rate", URL, "--slo", "p99<0ms"],
            "--slo \"p99<0ms\" is not accepted; write a limit above zero, such as p99<50ms",
        ),
        (
            vec!["lab", "rate", "--slo", "errors<120%"],
            "--slo \"errors<120%\" is not accepted; write errors below 0 % to 100 %, such as errors<0.1%",
        ),
        (
            vec!["find", "rate", URL, "--slo", "p99<50ms", "--slo", "p99<50.0ms"],
            "--slo p99<50ms was given twice; drop one of them",
        ),
        (
            vec!["find", "rate", URL, "--slo", "p99.99<50ms", "--max", "100", "--mode", "quick"],
            "--slo p99.99<50ms needs 30,000 operations that meet it: a search of about 10 m at --max \
             100/s, and this one has 3 m 30 s; give --budget 10m, or a goal on more operations such as \
             errors<1%",
        ),
        (
            vec!["find", "rate", URL, "--slo", "errors<0.001%", "--max", "50", "--mode", "strict"],
            "--slo errors<0.001% needs 300,000 operations that meet it: a search of about 3 h 20 m at \
             --max 50.0/s, and this one has 1 h 30 m; give --budget 200m, or a goal on more operations \
             such as errors<1%",
        ),
        // The goals that are searched for where none is given.
        (
            vec!["find", "rate", URL, "--min", "1", "--max", "20", "--mode", "quick"],
            "--slo p99<50ms,errors<0.1% needs 3,000 operations that meet it: a search of about 5 m at --max \
             20.0/s, and this one has 3 m 30 s; give --budget 5m, or a goal on more operations such as \
             errors<1%",
        ),
        (
            vec!["find", "rate", URL, "--min", "0.01", "--max", "0.05", "--budget", "60s"],
            "--slo p99<50ms,errors<0.1% needs 3,000 operations that meet it: a search of about 33 h 20 m \
             at --max 0.1/s, and this one has 60 s; give a goal on more operations, such as p99 or \
             errors<1%",
        ),
        (
            vec!["find", "rate", URL, "--budget", "29s"],
            "--budget \"29s\" is not accepted; write a duration from 30s to 24h, such as 60s or 10m",
        ),
        (
            vec!["lab", "--budget", "25h"],
            "--budget \"25h\" is not accepted; write a duration from 30s to 24h, such as 60s or 10m",
        ),
        (
            vec!["find", "connections", URL, "--slo", "p99<50ms", "--slo", "p99<9ms"],
            "find connections searches for one SLO, and --slo was given more than once; give it once",
        ),
        (
            vec!["find", "rate", URL, "--slo", "p99<50ms", "--slo", "p99<9ms", "--repeat", "3"],
            "--repeat states the interval of one SLO over its searches, and --slo was given more \
             than once; drop --repeat, or give one --slo",
        ),
    ]);
}

#[test]
fn bad_holds_laboratories_and_servers() {
    refuses([
        (
            vec!["hold", URL],
            "hold needs the number of connections; for example: plimsoll hold \
             https://127.0.0.1:8443/ --connections 10k",
        ),
        (
            vec!["hold", "--connections", "9"],
            "no URL given; for example: plimsoll hold http://127.0.0.1:8080/",
        ),
        (
            vec!["hold", URL, "-c", "2", "--processes", "3"],
            "--processes 3 share 2 connections; give --connections 3 or more, or a smaller \
             --processes",
        ),
        (
            vec!["lab", "hold", "--haproxy", "no-such-file"],
            "--haproxy \"no-such-file\" is no file; name the program",
        ),
        (
            vec!["load", URL, "--handshake-only", "--requests-per-connection", "2"],
            "--handshake-only sends no request, and --requests-per-connection is about requests; \
             drop one of them",
        ),
        (
            vec!["load", URL, "--handshake-only", "--data", "x"],
            "--handshake-only sends no request, and --data is about requests; drop one of them",
        ),
        (
            vec!["serve", "--connections", "100k", "--processes", "2"],
            "--connections sizes --processes auto, and --processes sets their number; drop \
             one of them",
        ),
        (
            vec!["lab", "--haproxy", "no-such-file"],
            "--haproxy \"no-such-file\" is no file; name the program",
        ),
        (
            vec!["lab", "--connections", "2", "--threads", "3"],
            "--threads 3 share 2 connections; give --connections 3 or more, or a smaller --threads",
        ),
        (
            vec!["serve", "--http", "80", "--https", "80"],
            "127.0.0.1:80 is given twice; drop one of them",
        ),
        (vec!["serve", "--http", "1-5000"], "more than 4096 ports to listen on; narrow the ranges"),
        (
            vec!["serve", "--cert", "a", "--key", "b"],
            "--cert is for --https, --mqtts and --tcp-tls, and there is none; add --https 8443",
        ),
        (
            vec!["serve", "--https", "1", "--cert", "a"],
            "--cert needs its private key; add --key FILE",
        ),
        (
            vec!["serve", "--statsd", "host:x"],
            "--statsd \"host:x\" is not HOST:PORT; write it like --statsd 127.0.0.1:8125",
        ),
    ]);
}

#[test]
fn a_rate_of_bare_tcp_connections_is_refused_with_what_to_write() {
    assert_eq!(
        refused(&["find", "handshakes", "http://127.0.0.1:9/"], b""),
        (
            "plimsoll: find handshakes needs TLS, and 127.0.0.1:9 is plain; write https://, or use find rate with \
             --no-keepalive"
                .to_owned(),
            2
        )
    );
}

#[test]
fn an_address_is_named_only_for_a_url() {
    let url = "http://web.test:81/";
    let job = load_job(&[url, "--resolve", "web.test:81:127.0.0.9,[::1]:82"]);
    let server = &job.plan.destinations[0];
    let addresses = ["127.0.0.9:81", "[::1]:82"].map(|one| one.parse().unwrap());
    assert_eq!((server.name.as_str(), &server.addresses[..]), ("web.test:81", &addresses[..]));
    let load = ["load", url, "--resolve", "web.test:80:127.0.0.9"];
    let (line, code) = refused(&load, b"");
    let expected =
        "plimsoll: --resolve names web.test:80, which no URL has; write the host and port of a URL";
    assert_eq!((line.as_str(), code), (expected, 2));
}
