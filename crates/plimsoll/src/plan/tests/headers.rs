//! Headers that control how a request is sent or how long its connection lives.

use super::*;

const WS: &str = "ws://127.0.0.1:9/";

/// Returns the line that refuses `flags`, without the program's name.
fn line(flags: &[&str]) -> String {
    let (said, code) = refused(flags, b"");
    assert_eq!(code, 2, "{said}");
    said.replacen("plimsoll: ", "", 1)
}

/// Asserts that each command is refused with these headers, by a line that begins so.
fn refuses(cases: &[(&[&str], &[&str], &str)]) {
    for (command, headers, said) in cases {
        let headers = headers.iter().flat_map(|header| ["-H", *header]);
        let words: Vec<_> = command.iter().copied().chain(headers).collect();
        let line = line(&words);
        assert!(line.starts_with(said), "{words:?}: {line}");
    }
}

#[test]
fn headers_that_contradict_the_request_are_refused() {
    refuses(&[
        (&["load", URL], &["Host:"], "header Host \"\" is no host; write Host: NAME"),
        (&["load", URL], &["Host: a b"], "header Host \"a b\" is no host"),
        (&["load", URL], &["Host: http://a/"], "header Host \"http://a/\" is no host"),
        (&["load", URL], &["host: ü"], "header Host \"ü\" is no host"),
        (&["load", URL], &["Host: a", "HOST: b"], "header Host is given twice; give it once"),
        (
            &["load", URL],
            &["Content-Length: 3"],
            "header Content-Length: 3, and the body has 0 bytes; drop it",
        ),
        (&["load", URL], &["Content-Length: 00"], "header Content-Length: 00, and the body"),
        (&["load", URL], &["Content-Length: 0, 0"], "header Content-Length: 0, 0, and the body"),
        (
            &["load", URL],
            &["Content-Length: 0", "Transfer-Encoding: chunked"],
            "headers Content-Length and Transfer-Encoding exclude each other; drop one of them",
        ),
        (
            &["load", URL],
            &["Transfer-Encoding: gzip, chunked"],
            "header Transfer-Encoding: gzip, chunked is a coding that plimsoll does not apply; write \
             Transfer-Encoding: chunked once, or drop it",
        ),
        (
            &["load", URL],
            &["Transfer-Encoding: chunked", "transfer-encoding: chunked"],
            "header Transfer-Encoding: chunked is a coding",
        ),
        (
            &["load", URL],
            &["EXPECT: 100-continue"],
            "header EXPECT waits for 100 Continue, and plimsoll sends",
        ),
        (
            &["load", URL],
            &["Trailer: Expires"],
            "header Trailer: plimsoll sends no trailers; drop it",
        ),
    ]);
}

#[test]
fn headers_about_the_connection_are_refused() {
    refuses(&[
        (
            &["load", URL],
            &["Keep-Alive: timeout=5"],
            "header Keep-Alive announces limits that plimsoll would",
        ),
        (
            &["load", URL],
            &["Proxy-Connection: close"],
            "header Proxy-Connection is none of HTTP; write Connection: close",
        ),
        (
            &["load", URL],
            &["Upgrade: h2c"],
            "header Upgrade asks for another protocol; write ws:// or wss:// for WebSocket, --http 2 for HTTP/2",
        ),
        (
            &["load", URL],
            &["Connection: x, UPGRADE"],
            "header Connection asks for another protocol",
        ),
        (
            &["load", URL],
            &["HTTP2-Settings: AAA"],
            "header HTTP2-Settings asks for another protocol",
        ),
        (
            &["load", URL],
            &["Connection:"],
            "header Connection:  is no list of options; write Connection: close or Connection: keep-alive, or drop it",
        ),
        (
            &["load", URL],
            &["Connection: close,"],
            "header Connection: close, is no list of options",
        ),
        (
            &["load", URL],
            &["Connection: clo se"],
            "header Connection: clo se is no list of options",
        ),
        (
            &["load", URL],
            &["TE: trailers"],
            "header TE is for the next hop alone (RFC 9112, 7.4); add -H 'Connection",
        ),
        (&["load", URL], &["TE: trailers, chunked;q=1"], "header TE never names chunked"),
    ]);
}

#[test]
fn headers_that_http2_and_grpc_do_not_have_are_refused() {
    let grpc = ["load", URL, "--grpc", "a.B/C"];
    let http2 = ["load", URL, "--http", "2"];
    refuses(&[
        (
            &http2,
            &["Connection: keep-alive"],
            "HTTP/2 has no header Connection (RFC 9113, 8.2.2); drop it",
        ),
        (
            &http2,
            &["connection: Close, x"],
            "HTTP/2 has no header connection (RFC 9113, 8.2.2); drop it; --no-keepalive ends each connection",
        ),
        (
            &http2,
            &["Upgrade: websocket"],
            "HTTP/2 has no header Upgrade (RFC 9113, 8.2.2); drop it",
        ),
        (&http2, &["Keep-Alive: 5"], "header Keep-Alive announces limits"),
        (&http2, &["Proxy-Connection: x"], "header Proxy-Connection is none of HTTP"),
        (
            &http2,
            &["Transfer-Encoding: chunked"],
            "HTTP/2 has no header Transfer-Encoding (RFC 9113, 8.2.2)",
        ),
        (
            &http2,
            &["TE: gzip"],
            "header TE of HTTP/2 has one value (RFC 9113, 8.2.2); write te: trailers",
        ),
        (&http2, &["Host: a", "Host: a"], "header Host is given twice"),
        (
            &grpc,
            &["Content-Length: 0"],
            "header Content-Length: plimsoll frames the messages of gRPC; drop it",
        ),
    ]);
}

#[test]
fn headers_that_contradict_the_command_are_refused() {
    refuses(&[
        (
            &["load", WS],
            &["Connection: close"],
            "header Connection is plimsoll's own in the opening of a WebSocket",
        ),
        (&["load", WS], &["Sec-WebSocket-Key: x"], "header Sec-WebSocket-Key is plimsoll's own"),
        (
            &["load", WS],
            &["Sec-WebSocket-Extensions: x"],
            "header Sec-WebSocket-Extensions is plimsoll's own",
        ),
        (
            &["load", WS],
            &["Content-Length: 64"],
            "header Content-Length: the opening of a WebSocket has no body",
        ),
        (
            &["load", URL, "-X", "CONNECT"],
            &["A: b"],
            "method CONNECT asks for a tunnel; name another method",
        ),
        (
            &["load", URL, "-X", "TRACE", "--data", "x"],
            &["A: b"],
            "a TRACE request has no body; drop the body",
        ),
        (
            &["hold", URL, "-c", "1"],
            &["Connection: close"],
            "header Connection: close ends a connection, and this command holds connections; drop the header",
        ),
        (
            &["find", "connections", URL],
            &["Connection: close"],
            "header Connection: close ends a connection, and",
        ),
        (&["find", "rate", URL], &["Expect: x"], "header Expect waits for 100 Continue"),
        (
            &[
                "compare",
                "load http://127.0.0.1:9/ --rate 9",
                "load http://127.0.0.1:9/ --rate 9 -H 'Upgrade: x'",
                "--",
            ],
            &["A: b"],
            "B: header Upgrade asks for another protocol",
        ),
        (
            &["load", URL, "--no-keepalive"],
            &["Connection: Keep-Alive"],
            "header Connection: keep-alive keeps a connection, and --no-keepalive ends it; drop one of them",
        ),
        (
            &["load", URL, "--requests-per-connection", "2"],
            &["Connection: close"],
            "header Connection: close ends a connection after one request, --requests-per-connection later",
        ),
    ]);
}

#[test]
fn headers_of_lists_are_refused_with_their_target() {
    let list = b"GET http://127.0.0.1:9/\n\nGET http://127.0.0.1:9/\nExpect: 100-continue\n";
    let (said, _) = refused(&["load", "--targets", "-"], list);
    assert!(
        said.starts_with("plimsoll: --targets standard input, target 2: header Expect waits"),
        "{said}"
    );
    let json = br#"{"method":"GET","url":"http://127.0.0.1:9/","header":{"Upgrade":["x"]}}"#;
    let (said, _) = refused(&["load", "--targets", "-"], json);
    assert!(
        said.starts_with("plimsoll: --targets standard input, target 1: header Upgrade asks"),
        "{said}"
    );
}

#[test]
fn headers_that_are_obeyed_are_sent() {
    for (flags, headers) in [
        (&["load", URL][..], &["Host: [::1]:80", "Connection: keep-alive, x"][..]),
        (&["load", URL], &["TE: trailers", "connection: te"]),
        (&["load", URL, "--data", "ab"], &["Content-Length: 2", "content-length: 2"]),
        (&["load", URL, "--data", "ab"], &["Transfer-Encoding: Chunked"]),
        (&["load", URL, "--http", "2"], &["te: Trailers", "Content-Length: 0", "Host: a"]),
        (&["load", URL, "--no-keepalive"], &["Connection: close"]),
        (&["load", WS], &["Origin: http://a", "Sec-WebSocket-Protocol: chat", "Host: a"]),
        (&["hold", URL, "-c", "1"], &["Connection: keep-alive"]),
    ] {
        let given = headers.iter().flat_map(|header| ["-H", *header]);
        let words: Vec<_> = flags.iter().copied().chain(given).collect();
        let built = build(&words, b"");
        let targets = match &built {
            Ok(Asked::Load(job)) => &job.plan.targets,
            Ok(Asked::Experiment(Job::Hold(job))) => &job.load.plan.targets,
            other => panic!("{words:?}: {other:?}"),
        };
        let sent: Vec<_> = targets[0].headers.iter().map(|(n, v)| format!("{n}: {v}")).collect();
        assert!(headers.iter().all(|header| sent.iter().any(|one| one == header)), "{sent:?}");
    }
}

#[test]
fn connection_close_ends_each_connection() {
    for (headers, keepalive) in [
        (&["Connection: close"][..], false),
        (&["connection: x, CLOSE"], false),
        (&["Connection: x", "Connection: close"], false),
        (&["Connection: keep-alive, close"], false),
        (&["Connection: keep-alive"], true),
        (&["Connection: closed"], true),
    ] {
        let headers: Vec<_> = headers.iter().flat_map(|header| ["-H", *header]).collect();
        let plan = load_job(&[&[URL][..], &headers].concat()).plan;
        assert_eq!((plan.keepalive, plan.prewarm), (keepalive, keepalive), "{headers:?}");
    }
    // One of several targets: the others keep their connections.
    let list = b"GET http://127.0.0.1:9/\nConnection: close\n\nGET http://127.0.0.1:9/b\n";
    let Ok(Asked::Load(job)) = build(&["load", "--targets", "-"], list) else { panic!("refused") };
    assert!(job.plan.keepalive && job.plan.targets[0].closes_connection());
    assert!(!job.plan.targets[1].closes_connection());
}
