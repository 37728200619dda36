//! The table of failures (`crates/plimsoll-report/src/reasons.rs`) against real servers: what each of them does is
//! given the reason and the remedy that fit, and never those of another fault.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use e2e::certificate::{Certificate, NAME};
use e2e::haproxy::Haproxy;
use e2e::mosquitto::Mosquitto;
use e2e::nginx::Nginx;
use e2e::openssl::SServer;
use e2e::plimsoll::{Finished, Plimsoll};
use e2e::port;
use e2e::process::Guarded;
use e2e::serve::Serve;
use e2e::summary::Summary;
use e2e::wait;
use tempfile::TempDir;

const PONG: &str = "    http-request return status 200 content-type text/plain string pong";

/// Arguments, or words of a reason.
type Words<'a> = &'a [&'a str];

/// A load of a few operations.
fn load(url: &str, flags: &[&str]) -> Summary {
    load_shown(url, flags).summary(99)
}

/// A load of a few operations that fail, with its report.
fn load_shown(url: &str, flags: &[&str]) -> Finished {
    let pace = ["--rate", "20", "-n", "4", "-c", "2", "--arrivals", "uniform", "--no-ui"];
    Plimsoll::load(url, &[&pace[..], flags].concat()).run()
}

/// Checks that the terminal shows these words.
fn assert_shown(ran: &Finished, words: &[&str]) {
    let text = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(text.contains(word), "{word:?} is not shown: {text}");
    }
}

/// Checks that all reasons of `class` are one, with these words.
fn assert_reason(summary: &Summary, class: &str, words: &[&str]) {
    let text = summary.reasons(class);
    assert!(!text.is_empty() && !text.contains('\n'), "{class}: {text:?} {summary:?}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
}

#[test]
fn statuses_of_nginx_are_advised_on_by_what_it_says() {
    let nginx = Nginx::start(
        false,
        "location /401 { return 401; }\nlocation /403 { deny all; }\nlocation /404 { return 404; }\n\
         location /413 { client_max_body_size 1k; proxy_pass http://127.0.0.1:1; }\n\
         location /429 { return 429; }\nlocation /502 { proxy_pass http://127.0.0.1:1; }\n\
         location /503 { return 503; }",
    );
    let (large, long) = ("x".repeat(2_000), format!("X-Long: {}", "x".repeat(40_000)));
    let rows: [(&str, &[&str], &str, &[&str]); 8] = [
        ("401", &[], "status-4xx", &["status 401", "Authorization"]),
        ("403", &[], "status-4xx", &["status 403", "access rules"]),
        ("404", &[], "status-4xx", &["status 404", "check the path"]),
        ("413", &["--data", &large], "status-4xx", &["status 413", "client_max_body_size"]),
        ("429", &[], "status-4xx", &["status 429", "--source"]),
        ("502", &[], "status-5xx", &["status 502", "backend", "it says \"502 Bad Gateway nginx"]),
        ("503", &[], "status-5xx", &["status 503", "limit_req"]),
        ("", &["-H", &long], "status-4xx", &["status 400", "large_client_header_buffers"]),
    ];
    for (path, flags, class, words) in rows {
        let summary = load(&format!("{}{path}", nginx.url("http")), flags);
        assert_reason(&summary, class, words);
    }
}

#[test]
fn a_request_that_a_server_does_not_take_is_advised_on() {
    let files = tempfile::tempdir().expect("the temporary directory is writable");
    fs::write(files.path().join("file"), "pong").expect("an own folder is writable");
    let root = files.path().display();
    let nginx = Nginx::start(
        false,
        &format!(
            "location = /file {{ root {root}; }}\n\
             location /dav/ {{ root {root}; dav_methods DELETE; }}\n\
             location /length {{ if ($content_length = '') {{ return 411; }} }}\n\
             location /upgrade {{ add_header Upgrade websocket always; return 426 'WebSocket only'; }}"
        ),
    );
    let haproxy = Haproxy::start("", PONG, "");
    let (nginx, haproxy) = (nginx.url("http"), haproxy.url("http"));
    let (long, longer) = ("x".repeat(9_000), "x".repeat(20_000));
    let body = ["-X", "DELETE", "--data", "x"];
    let rows: [(&str, &str, Words<'_>, Words<'_>); 6] = [
        (&nginx, "file", &["--data", "x"], &["status 405", "405 Not Allowed", "POST", "-X"]),
        (&nginx, "length", &["-X", "DELETE"], &["status 411", "--body or --data"]),
        (&nginx, &long, &[], &["status 414", "shorten the URL", "large_client_header_buffers"]),
        (&nginx, "dav/file", &body, &["status 415", "no body with that method", "Content-Type"]),
        (&nginx, "upgrade", &[], &["status 426", "\"WebSocket only\"", "ws://"]),
        (&haproxy, &longer, &[], &["status 400", "tune.bufsize", "show errors"]),
    ];
    for (url, path, flags, words) in rows {
        let ran = load_shown(&format!("{url}{path}"), flags);
        assert_reason(&ran.summary(99), "status-4xx", words);
        assert_shown(&ran, words);
    }
}

#[test]
fn client_certificates_that_are_missing_or_of_another_issuer_are_advised_on() {
    let (server, other) = (Certificate::new(), Certificate::new());
    let (chain, key, both) = (server.chain(), server.key(), server.both());
    let (chain, key, both) = (chain.display(), key.display(), both.display());
    let given = ["-k", "--cert", &other.chain_argument(), "--key", &other.key_argument()];
    let missing: Words<'_> = &["a client certificate, and none was sent", "--cert and --key"];
    let foreign: Words<'_> = &["does not accept the client certificate", "--cert and --key"];
    let nginx = Nginx::start(
        true,
        &format!(
            "ssl_certificate {chain};\nssl_certificate_key {key};\nssl_client_certificate {chain};\n\
             ssl_verify_client on;"
        ),
    );
    let haproxy =
        Haproxy::start(&format!("ssl crt {both} ca-file {chain} verify required"), PONG, "");
    // s_server serves on where -verify_return_error is missing.
    let ask = ["-Verify", "1", "-verify_return_error", "-CAfile", &server.chain_argument(), "-WWW"];
    let openssl = SServer::start(&server, &ask);
    let options = format!("cafile {chain}\nrequire_certificate true\n");
    let mosquitto = Mosquitto::start_with_tls(&options, &server);
    let urls = [
        (nginx.url("https"), "status-4xx"),
        (haproxy.url("https"), "tls-alert"),
        (openssl.url("/file.txt"), "tls-alert"),
        (format!("mqtts://{}", mosquitto.tls), "tls-alert"),
    ];
    for (url, class) in &urls {
        let is_status = *class == "status-4xx";
        let said =
            |status: &'static str, alert: &'static str| if is_status { status } else { alert };
        let rows: [(Words<'_>, Words<'_>, &str); 2] = [
            (
                &["-k"],
                missing,
                said("No required SSL certificate was sent", "certificate_required"),
            ),
            (&given, foreign, said("The SSL certificate error", "unknown_ca")),
        ];
        for (flags, words, said) in rows {
            let ran = load_shown(url, flags);
            let words = [words, &[said][..]].concat();
            assert_reason(&ran.summary(99), class, &words);
            assert_shown(&ran, &words);
        }
    }
}

#[test]
fn names_that_a_tls_server_does_not_serve_are_advised_on() {
    let certificate = Certificate::new();
    let bind = format!("ssl crt {} strict-sni", certificate.both().display());
    let haproxy = Haproxy::start(&bind, PONG, "");
    let nginx = Nginx::start(true, "ssl_reject_handshake on;");
    let unnamed: Words<'_> = &["alert unrecognized_name", "URL with an address", "--sni NAME"];
    let unknown: Words<'_> =
        &["alert unrecognized_name", "the name that was asked for", "--sni NAME"];
    let by_name = nginx.url("https").replace("127.0.0.1", "localhost");
    for (url, words) in
        [(haproxy.url("https"), unnamed), (nginx.url("https"), unnamed), (by_name, unknown)]
    {
        let ran = load_shown(&url, &["-k"]);
        assert_reason(&ran.summary(99), "tls-alert", words);
        assert_shown(&ran, words);
    }
    let ok = ["-k", "--sni", NAME, "--rate", "20", "-n", "4"];
    Plimsoll::load(&haproxy.url("https"), &ok).run().summary(0).assert_all_ok(4);
}

#[test]
fn statuses_of_haproxy_are_advised_on_by_what_it_says() {
    let rules = "    http-request deny deny_status 429 if { path /429 }\n    http-request deny if { path /403 }\n    \
                 default_backend none";
    let sections = "backend none\nbackend silent\n    timeout server 100ms\n    server s";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let silent = listener.local_addr().expect("it is bound");
    let rules = format!("    use_backend silent if {{ path /504 }}\n{rules}");
    let haproxy = Haproxy::start("", &rules, &format!("{sections} {silent}"));
    let rows: [(&str, &str, &[&str]); 4] = [
        ("429", "status-4xx", &["status 429", "stick-table"]),
        ("403", "status-4xx", &["status 403", "http-request deny"]),
        ("", "status-5xx", &["status 503", "HAProxy has no server", "qcur"]),
        ("504", "status-5xx", &["status 504", "timeout server"]),
    ];
    for (path, class, words) in rows {
        let url = format!("{}{path}", haproxy.url("http"));
        assert_reason(&load(&url, &[]), class, words);
    }
}

#[test]
fn what_protects_a_port_is_named() {
    let certificate = Certificate::new();
    let files = format!(
        "ssl_certificate {};\nssl_certificate_key {};\n",
        certificate.chain().display(),
        certificate.key().display()
    );
    // HTTP to a TLS port, and TLS to one of HTTP.
    let tls = Nginx::start(true, &files);
    let summary = load(&tls.url("http"), &[]);
    assert_reason(&summary, "status-4xx", &["status 400", "the port speaks TLS", "https://"]);
    let plain = Haproxy::start("", PONG, "");
    let summary = load(&plain.url("https"), &["-k"]);
    assert_reason(&summary, "tls-handshake", &["not TLS", "http://"]);
    // A header of the PROXY protocol that is missing, and one that is not expected.
    let strict = Haproxy::start("accept-proxy", PONG, "");
    let summary = load(&strict.url("http"), &[]);
    let class = summary.counts("error_classes").into_keys().next().expect("all failed");
    assert_reason(&summary, &class, &["before any byte of an answer", "accept-proxy"]);
    let summary = load(&plain.url("http"), &["--proxy-protocol", "v2"]);
    assert_reason(&summary, "status-4xx", &["status 400", "drop --proxy-protocol"]);
    // A proxy that routes by a name that was not sent.
    let sni = port::free();
    let routed = format!(
        "frontend sni\n    mode tcp\n    bind {sni}\n    tcp-request inspect-delay 1s\n    \
         tcp-request content accept if {{ req_ssl_hello_type 1 }}\n    \
         use_backend b if {{ req.ssl_sni -i a.test }}\nbackend b\n    mode tcp\n    server s {}",
        tls.address
    );
    let _routing = Haproxy::start("", PONG, &routed);
    let url = format!("https://{sni}/");
    let summary = load(&url, &["-k"]);
    let class = summary.counts("error_classes").into_keys().next().expect("all failed");
    assert!(["tls-closed", "connect-reset"].contains(&class.as_str()), "{summary:?}");
    assert_reason(&summary, &class, &["within the TLS handshake", "--sni NAME"]);
    let ok = Plimsoll::load(&url, &["-k", "--sni", "a.test", "--rate", "20", "-n", "4"]).run();
    ok.summary(0).assert_all_ok(4);
    // A client certificate that is asked for.
    let verified = Nginx::start(
        true,
        &format!(
            "{files}ssl_client_certificate {};\nssl_verify_client on;",
            certificate.chain().display()
        ),
    );
    let summary = load(&verified.url("https"), &["-k"]);
    assert_reason(
        &summary,
        "status-4xx",
        &["status 400", "client certificate", "--cert and --key"],
    );
    let verified = SServer::start(&certificate, &["-Verify", "1", "-tls1_3", "-WWW"]);
    let summary = load(&verified.url("/file.txt"), &["-k"]);
    assert_reason(&summary, "tls-alert", &["certificate_required", "--cert and --key"]);
    // Nothing in common.
    let old = Nginx::start(true, &format!("{files}ssl_protocols TLSv1.2;"));
    let summary = load(&old.url("https"), &["-k", "--tls", "1.3"]);
    assert_reason(&summary, "tls-alert", &["protocol_version", "ssl_protocols"]);
    let odd = format!("{files}ssl_protocols TLSv1.2;\nssl_ciphers ECDHE-ECDSA-AES256-SHA;");
    let summary = load(&Nginx::start(true, &odd).url("https"), &["-k"]);
    assert_reason(&summary, "tls-alert", &["handshake_failure", "in common"]);
}

#[test]
fn a_timeout_of_an_idle_connection_is_no_failed_connect() {
    let rules = format!("    timeout http-request 200ms\n{PONG}");
    let haproxy = Haproxy::start("", &rules, "");
    let pace = ["--rate", "4", "-d", "2s", "-c", "3", "--arrivals", "uniform", "--no-ui"];
    let ran = Plimsoll::load(&haproxy.url("http"), &pace).run();
    let summary: Summary = ran.summary(0);
    assert_eq!((summary.count("errors"), summary.count("connections.failed")), (0, 0));
    let lost = summary.counts("lost_idle_classes");
    assert!(lost["unrequested-answer"] > 0, "{summary:?}");
    assert_eq!(summary.counts("connection_error_classes").len(), 0, "{summary:?}");
    let text = summary.reasons("unrequested-answer");
    let first = text.lines().next().expect("a reason");
    for words in
        ["status 408", "after it was opened", "timeout http-request", "no request was lost"]
    {
        assert!(first.contains(words), "{words}: {text}");
    }
    assert!(ran.stderr.contains("Lost while idle"), "{}", ran.stderr);
    for words in ["Failed connects", "http-malformed", "another protocol"] {
        assert!(!ran.stderr.contains(words), "{words}: {}", ran.stderr);
    }
}

/// Certificates of each sort, made by openssl.
struct Authority {
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let made = Self { folder };
        fs::create_dir(made.path("ca")).expect("an own folder is writable");
        fs::write(made.path("ca/index"), "").expect("as above");
        fs::write(
            made.path("cnf"),
            "[ca]\ndefault_ca=d\n[d]\ndatabase=ca/index\nnew_certs_dir=ca\nrand_serial=yes\n\
             default_md=sha256\npolicy=p\nunique_subject=no\n[p]\ncommonName=supplied\n\
             [leaf]\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n\
             [plain]\nkeyUsage=digitalSignature\n[authority]\nbasicConstraints=critical,CA:TRUE\n",
        )
        .expect("as above");
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn openssl(&self, arguments: &str) {
        let output = Command::new(e2e::program::installed("openssl"))
            .args(arguments.split(' '))
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("openssl can be run");
        assert!(output.status.success(), "openssl {arguments}: {output:?}");
    }

    /// A key and a request of that name: NAME.key, NAME.csr.
    fn request(&self, name: &str, key: &str) {
        self.openssl(&format!(
            "req -newkey {key} -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr"
        ));
    }

    /// NAME.pem, signed by `issuer` or by itself; `how` are more arguments of `openssl ca`.
    fn sign(&self, name: &str, issuer: Option<&str>, how: &str) {
        let by = match issuer {
            Some(issuer) => format!("-cert {issuer}.pem -keyfile {issuer}.key"),
            None => format!("-selfsign -keyfile {name}.key"),
        };
        self.openssl(&format!(
            "ca -batch -notext -config cnf {by} -in {name}.csr -out {name}.pem {how}"
        ));
    }

    /// An s_server with that certificate, which no client gets past.
    fn serve(&self, name: &str, more: &[&str]) -> SServer {
        let (chain, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        SServer::start_with(&chain, &key, &[&["-WWW"], more].concat())
    }
}

#[test]
fn faults_of_certificates_are_told_apart() {
    let made = Authority::new();
    let days = "-days 2";
    for name in ["root", "middle", "leaf", "expired", "future", "nameless", "old", "sha1"] {
        made.request(name, "rsa:2048");
    }
    made.request("weak", "rsa:1024");
    made.sign("root", None, "-days 2 -extensions authority");
    made.sign("middle", Some("root"), "-days 2 -extensions authority");
    made.sign("leaf", Some("middle"), "-days 2 -extensions leaf");
    let dates = "-extensions leaf -startdate";
    made.sign(
        "expired",
        Some("root"),
        &format!("{dates} 20200101000000Z -enddate 20210101000000Z"),
    );
    made.sign("future", Some("root"), &format!("{dates} 20900101000000Z -enddate 20910101000000Z"));
    made.sign("weak", Some("root"), "-days 2 -extensions leaf");
    made.sign("sha1", Some("root"), "-days 2 -extensions leaf -md sha1");
    made.sign("nameless", Some("root"), "-days 2 -extensions plain");
    made.openssl(&format!("x509 -req -in old.csr -signkey old.key {days} -out old.pem"));
    let chain = fs::read_to_string(made.path("middle.pem")).expect("openssl has written it");
    fs::write(made.path("chain"), chain).expect("an own folder is writable");
    let chain = made.path("chain").display().to_string();
    let root = made.path("root.pem").display().to_string();
    let lax = ["-cipher", "DEFAULT@SECLEVEL=0"];
    let rows: [(&str, Words<'_>, Words<'_>, Words<'_>); 9] = [
        ("expired", &[], &["--cacert", &root], &["has expired", "renew it"]),
        ("future", &[], &["--cacert", &root], &["not valid yet", "clocks"]),
        ("weak", &lax, &["--cacert", &root], &["1024 bits", "2,048"]),
        ("sha1", &lax, &["--cacert", &root], &["SHA-1", "SHA-256"]),
        ("leaf", &[], &["--cacert", &root], &["\"middle\"", "did not send", "intermediate"]),
        ("leaf", &["-cert_chain", &chain], &[], &["\"root\"", "--cacert"]),
        ("root", &[], &[], &["signed itself", "--cacert"]),
        ("old", &[], &[], &["version 1", "version 3"]),
        (
            "leaf",
            &["-cert_chain", &chain],
            &["--cacert", &root, "--sni", "b.test"],
            &["not for b.test", "localhost"],
        ),
    ];
    for (name, server, flags, words) in rows {
        let server = made.serve(name, server);
        let summary = load(&server.url("/file.txt"), flags);
        assert_reason(&summary, "tls-untrusted", words);
        assert_reason(&summary, "tls-untrusted", &["the server's certificate is not trusted"]);
    }
    let server = made.serve("nameless", &[]);
    let summary = load(&server.url("/file.txt"), &["--cacert", &root, "--sni", "nameless"]);
    assert_reason(&summary, "tls-untrusted", &["no subject alternative name", "subjectAltName"]);
}

#[test]
fn reasons_are_in_every_form_of_the_report_and_hide_secrets() {
    // It repeats what it was sent.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let url = format!("http://{}/?k=queryvalue", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut request = [0; 4096];
                while let Ok(bytes @ 1..) = stream.read(&mut request) {
                    let body = String::from_utf8_lossy(&request[..bytes]).into_owned();
                    let length = body.len();
                    let head = format!("HTTP/1.1 500 No\r\nContent-Length: {length}\r\n\r\n");
                    if stream.write_all((head + &body).as_bytes()).is_err() {
                        break;
                    }
                }
            });
        }
    });
    let flags =
        ["-H", "Authorization: Bearer hunter22", "--rate", "20", "-n", "4", "-c", "1", "--no-ui"];
    let ran = Plimsoll::load(&url, &[&flags[..], &["--out", "run"]].concat()).run();
    let summary = ran.summary(99);
    assert_reason(&summary, "status-5xx", &["status 500", "GET /?"]);
    let archive = ran.folder().join("run");
    let page = archive.join("page.html").display().to_string();
    let markdown = archive.join("run.md").display().to_string();
    let run = archive.display().to_string();
    Plimsoll::new(["report", &run, "--html", &page]).run();
    Plimsoll::new(["report", &run, "--markdown", &markdown]).run();
    let again = Plimsoll::new(["report", &run]).run();
    let files = fs::read_dir(&archive).expect("the archive is there");
    let paths = files.map(|entry| entry.expect("as above").path());
    let texts: Vec<_> =
        paths.filter_map(|path| Some((fs::read_to_string(&path).ok()?, path))).collect();
    for (text, path) in &texts {
        assert!(!text.contains("hunter22"), "{}", path.display());
    }
    let words = "the server failed at the request";
    let shown = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").contains(words);
    assert!(shown(&ran.stderr) && shown(&again.stdout), "{}", again.stdout);
    for name in ["page.html", "run.md", "summary.json"] {
        let (text, _) = texts.iter().find(|(_, path)| path.ends_with(name)).expect(name);
        assert!(shown(text), "{name}");
    }
}

#[test]
fn what_servers_of_http2_say_is_kept() {
    let address = port::free();
    let nginx = format!(
        "listen {address} http2;\nlocation /404 {{ return 404; }}\n\
         location /413 {{ client_max_body_size 1k; proxy_pass http://127.0.0.1:1; }}\n\
         location /502 {{ proxy_pass http://127.0.0.1:1; }}"
    );
    let _nginx = Nginx::start(false, &nginx);
    let rules = "    http-request deny if { path /403 }\n    \
                 http-request return status 200 content-type application/grpc hdr grpc-status 7 \
                 hdr grpc-message no%%20entry if { path /a.B/Denied }\n    \
                 http-request return status 200 content-type application/grpc hdr grpc-status 12 \
                 if { path /a.B/Missing }\n    default_backend none";
    let haproxy = Haproxy::start("proto h2", rules, "backend none");
    let (nginx, haproxy) = (format!("http://{address}/"), haproxy.url("http"));
    let large = "x".repeat(2_000);
    let rows: [(&str, &str, Words<'_>, &str, Words<'_>); 7] = [
        (&nginx, "404", &[], "status-4xx", &["status 404", "it says \"404 Not Found nginx"]),
        (&nginx, "413", &["--data", &large], "status-4xx", &["client_max_body_size", "it says"]),
        (&nginx, "502", &[], "status-5xx", &["status 502", "it says \"502 Bad Gateway nginx"]),
        (&haproxy, "403", &[], "status-4xx", &["status 403", "it says", "forbidden"]),
        (&haproxy, "", &[], "status-5xx", &["HAProxy has no server", "it says"]),
        (
            &haproxy,
            "",
            &["--grpc", "a.B/Denied", "--data", "x"],
            "grpc-status",
            &["gRPC status 7, PERMISSION_DENIED", "it says \"no entry\""],
        ),
        (
            &haproxy,
            "",
            &["--grpc", "a.B/Missing", "--data", "x"],
            "grpc-status",
            &["gRPC status 12, UNIMPLEMENTED", "--grpc SERVICE/METHOD"],
        ),
    ];
    for (url, path, flags, class, words) in rows {
        let summary = load(&format!("{url}{path}"), &[&["--http", "2"], flags].concat());
        assert_reason(&summary, class, words);
    }
}

#[test]
fn refusals_of_mosquitto_have_their_code_and_remedy() {
    let certificate = Certificate::new();
    let closed = Mosquitto::start_for(&[("anna", "secret")], &certificate);
    let url = format!("mqtt://{}", closed.plain);
    for (version, code) in [("5", "0x87"), ("3.1.1", "0x05")] {
        let summary = load(&url, &["--mqtt-version", version]);
        let words = ["refuses the connection: not authorized", code, "--users", "password_file"];
        assert_reason(&summary, "mqtt-refused", &words);
    }
    let rules = tempfile::tempdir().expect("the temporary directory is writable");
    let file = rules.path().join("acl");
    fs::write(&file, "topic read nothing\n").expect("an own folder is writable");
    let options = format!("acl_file {}\n", file.display());
    let strict = Mosquitto::start_with(&options, &certificate);
    let url = format!("mqtt://{}", strict.plain);
    for window in [&[][..], &["--inflight", "4"]] {
        let flags = [&["--mqtt-version", "5", "--qos", "1"], window].concat();
        let words = ["refuses the message: not authorized, reason 0x87", "acl_file"];
        assert_reason(&load(&url, &flags), "mqtt-rejected", &words);
    }
    // An older client is not told.
    let narrow = Mosquitto::start_with("max_packet_size 200\n", &certificate);
    let large = "x".repeat(500);
    let ran = load_shown(
        &format!("mqtt://{}", narrow.plain),
        &["--mqtt-version", "3.1.1", "--data", &large],
    );
    let class = ran.summary(99).counts("error_classes").into_keys().next().expect("all failed");
    let words = ["connections that it had accepted", "max_packet_size", "--mqtt-version 5"];
    assert_reason(&ran.summary(99), &class, &words);
    assert_shown(&ran, &words);
    assert!(!ran.stderr.contains("PROXY protocol"), "{}", ran.stderr);
}

/// A load of MQTT 5 that goes on while a test changes something.
const LASTING: [&str; 9] =
    ["--mqtt-version", "5", "--rate", "20", "-d", "1m", "-c", "2", "--no-ui"];

#[test]
fn a_disconnect_of_mosquitto_has_its_code_and_remedy() {
    let Some(broker) = Mosquitto::start_controlled(&Certificate::new()) else { return };
    broker.control(&["createClient", "anna", "-p", "secret"]);
    let url = format!("mqtt://{}", broker.plain);
    let flags = [&LASTING[..], &["--users", "users.txt"]].concat();
    let load = Plimsoll::load(&url, &flags).with_file("users.txt", "anna:secret\n").start();
    broker.wait_for(" as plimsoll-", 2);
    broker.control(&["disableClient", "anna"]);
    broker.wait_for("not authorised", 1);
    load.signal("INT");
    let ran = load.finish();
    let words = ["the broker ended the connection: administrative action, reason 0x98", "dynsec"];
    let summary = ran.summary(130);
    assert_reason(&summary, "mqtt-disconnected", &words);
    assert_shown(&ran, &words);
    assert_reason(&summary, "mqtt-refused", &["not authorized, reason 0x87", "--users"]);
}

#[test]
fn two_loads_with_the_same_client_identifiers_are_advised_on() {
    let broker = Mosquitto::start(&Certificate::new());
    let url = format!("mqtt://{}", broker.plain);
    let flags = [&LASTING[..], &["--client-id", "same"]].concat();
    let first = Plimsoll::load(&url, &flags).start();
    broker.wait_for("Received PUBLISH", 4);
    let second = Plimsoll::load(&url, &flags).start();
    broker.wait_for("already connected, closing old connection", 2);
    for load in [first, second] {
        load.signal("INT");
        let ran = load.finish();
        let summary = ran.summary(130);
        // Whichever was the last to connect may have lost none, and has no such field then.
        if summary.0.get("lost_idle_classes").is_some() {
            assert_shown(
                &ran,
                &["Lost while idle", "same client identifiers", "--client-id PREFIX"],
            );
        }
    }
}

#[test]
fn a_websocket_that_a_proxy_ends_is_not_advised_on_as_a_new_connection() {
    let backend = Serve::plain();
    let tunnel = format!("backend b\n    timeout tunnel 200ms\n    server s {}", backend.address());
    let haproxy = Haproxy::start("", "    default_backend b", &tunnel);
    // The backend answers the first message after the proxy's timeout.
    let ran = load_shown(&haproxy.url("ws"), &["-H", "sleep-fixed: 60000"]);
    let words = ["closed WebSockets before it answered the first message", "timeout tunnel"];
    assert_reason(&ran.summary(99), "closed-by-peer", &words);
    assert_shown(&ran, &words);
    assert!(!ran.stderr.contains("PROXY protocol"), "{}", ran.stderr);
}

/// Python's server, which many test benches have.
fn python(folder: &TempDir) -> (Guarded, String) {
    let address = port::free();
    let mut command = Command::new(e2e::program::installed("python3"));
    command.args(["-B", "-m", "http.server", "--bind", "127.0.0.1", "--directory"]);
    command.arg(folder.path()).arg(address.port().to_string());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Guarded::start(&mut command);
    wait::until("python to listen", || TcpStream::connect(address).ok());
    (server, format!("http://{address}/"))
}

#[test]
fn statuses_of_limits_and_of_methods_are_advised_on() {
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let (_server, python) = python(&folder);
    let rules = "    stick-table type ip size 1k expire 10s store http_req_rate(10s)\n    \
                 http-request track-sc0 src\n    \
                 http-request return status 408 if { path /408 }\n    \
                 http-request return status 421 content-type text/plain string no if { path /421 }\n    \
                 http-request return status 500 content-type text/plain string oops if { path /500 }\n    \
                 http-request deny deny_status 429 if { sc_http_req_rate(0) gt 0 } { path /429 }\n    \
                 default_backend full";
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let silent = listener.local_addr().expect("it is bound");
    let full = format!(
        "backend full\n    timeout queue 50ms\n    timeout server 3s\n    server s {silent} maxconn 1"
    );
    let haproxy = Haproxy::start("", rules, &full);
    // A zone stands outside of the server block, which another one follows.
    let zone = format!(
        "location = /503 {{ limit_req zone=r; root /nowhere; }}\n\
         location = /504 {{ proxy_read_timeout 100ms; proxy_pass http://{silent}; }}\n}}\n\
         limit_req_zone $binary_remote_addr zone=r:1m rate=1r/m;\nserver {{ listen {};",
        port::free()
    );
    let nginx = Nginx::start(false, &zone);
    let (haproxy, nginx) = (haproxy.url("http"), nginx.url("http"));
    let long = format!("X-Long: {}", "x".repeat(70_000));
    let post = ["--data", "x"];
    let rows: [(&str, &str, Words<'_>, &str, Words<'_>); 9] = [
        (&haproxy, "408", &[], "status-4xx", &["status 408", "timeout http-request"]),
        (&haproxy, "421", &[], "status-4xx", &["status 421", "--sni"]),
        (&haproxy, "429", &[], "status-4xx", &["status 429", "stick-table"]),
        (&haproxy, "500", &[], "status-5xx", &["status 500", "it says \"oops\""]),
        (&haproxy, "", &["--linger", "1s"], "status-5xx", &["HAProxy has no server", "maxconn"]),
        (&nginx, "503", &[], "status-5xx", &["limit_req or limit_conn"]),
        (&nginx, "504", &[], "status-5xx", &["status 504", "proxy_read_timeout"]),
        (&python, "", &["-H", &long], "status-4xx", &["status 431", "fewer or shorter -H"]),
        (&python, "", &post, "status-5xx", &["status 501", "-X"]),
    ];
    for (url, path, flags, class, words) in rows {
        let summary = load(&format!("{url}{path}"), flags);
        let text = summary.reasons(class);
        for word in words {
            assert!(text.contains(word), "{url}{path}: {word:?} is not in {text:?}: {summary:?}");
        }
    }
}
