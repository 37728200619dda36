//! Our client against servers of another make: what both sides counted must agree.

use e2e::certificate::{Certificate, NAME};
use e2e::haproxy::Haproxy;
use e2e::nginx::Nginx;
use e2e::openssl::SServer;
use e2e::plimsoll::Plimsoll;
use e2e::summary::Summary;

/// 200 requests in 2 s: a handshake that takes 40 ms on a busy machine leaves none unsent.
const CALM: [&str; 6] = ["--rate", "100", "--requests", "200", "--connections", "4"];

fn load(url: &str, flags: &[&str], code: i32) -> Summary {
    Plimsoll::load(url, &[&CALM[..], flags].concat()).run().summary(code)
}

fn tls_nginx(certificate: &Certificate, directives: &str) -> Nginx {
    let (chain, key) = (certificate.chain_argument(), certificate.key_argument());
    let ssl = format!("ssl_certificate {chain}; ssl_certificate_key {key}; {directives}");
    Nginx::start(true, &ssl)
}

/// Returns the connections that a log shows.
fn connections(log: &[e2e::nginx::Logged]) -> u64 {
    let mut numbers: Vec<_> = log.iter().map(|logged| logged.connection).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.len() as u64
}

#[test]
fn nginx_keeps_our_connections_and_counts_what_we_count() {
    let nginx = Nginx::start(false, "");
    let summary = load(&nginx.url("http"), &[], 0);
    summary.assert_all_ok(200);
    assert_eq!(summary.counts("status"), [("200".to_owned(), 200)].into());
    let log = nginx.log_of(200);
    assert!(log.iter().all(|logged| logged.request == "GET / HTTP/1.1"), "{log:?}");
    assert!(connections(&log) <= 4, "{log:?}");
    assert_eq!(
        (summary.count("connections.opened"), summary.count("connections.held_max")),
        (4, 4)
    );
}

#[test]
fn nginx_that_closes_after_ten_requests_costs_no_operation() {
    let nginx = Nginx::start(false, "keepalive_requests 10;");
    let summary = load(&nginx.url("http"), &[], 0);
    summary.assert_all_ok(200);
    let log = nginx.log_of(200);
    assert!(log.iter().all(|logged| logged.request_of_connection <= 10), "{log:?}");
    assert!(connections(&log) >= 20, "{log:?}");
    assert!(summary.count("connections.opened") >= connections(&log), "{summary:?}");
    let announced =
        ["requests_min", "requests_max"].map(|of| summary.count(&format!("announced.{of}")));
    assert_eq!(announced, [10, 10], "{summary:?}");
}

#[test]
fn an_idle_timeout_that_nginx_announces_is_in_the_report() {
    let nginx = Nginx::start(false, "keepalive_timeout 1s 1s;");
    let url = nginx.url("http");
    let hold =
        ["hold", &url, "-c", "5", "--for", "3s", "--heartbeat", "10s", "--json", "hold.json"];
    let finished = Plimsoll::new(hold).run();
    let words = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let said = "the server closes connections that are idle for 1 s (Keep-Alive: timeout=1)";
    assert!(words.contains(said), "{}\n{}", finished.stdout, finished.stderr);
}

#[test]
fn answers_that_are_all_redirects_or_one_refusal_are_a_warning() {
    for (status, check) in [(301, "redirects"), (404, "refused")] {
        let to = if status == 301 { " http://x/" } else { "" };
        let nginx = Nginx::start(false, &format!("location /moved {{ return {status}{to}; }}"));
        let url = format!("{}moved", nginx.url("http"));
        let load = ["load", &url, "--rate", "50", "-n", "20", "--json", "summary.json"];
        let finished = Plimsoll::new(load).run();
        let summary = std::fs::read_to_string(finished.folder().join("summary.json"));
        let summary = summary.unwrap_or_else(|_| panic!("{}", finished.stderr));
        assert!(summary.contains(&format!("\"{check}\"")), "{summary}");
        let words = finished.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let said = format!("WARN {check}: status {status}: 20");
        assert!(words.contains(&said), "{}", finished.stdout);
    }
}

#[test]
fn nginx_without_keepalive_gets_a_connection_per_request() {
    let nginx = Nginx::start(false, "keepalive_timeout 0;");
    let summary = load(&nginx.url("http"), &[], 0);
    summary.assert_all_ok(200);
    assert_eq!(connections(&nginx.log_of(200)), 200);
}

#[test]
fn our_own_wish_for_new_connections_is_kept_exactly() {
    let certificate = Certificate::new();
    let nginx = tls_nginx(&certificate, "ssl_session_tickets off;");
    let chain = certificate.chain_argument();
    let flags = ["--cacert", &chain, "--no-keepalive"];
    let summary = load(&nginx.url("https"), &flags, 0);
    summary.assert_all_ok(200);
    assert_eq!(connections(&nginx.log_of(200)), 200);
    assert_eq!(summary.count("connections.opened"), 200);
    assert_eq!((summary.count("handshakes.full"), summary.count("handshakes.failed")), (200, 0));
}

#[test]
fn requests_per_connection_are_kept_exactly() {
    let nginx = Nginx::start(false, "");
    let summary = load(&nginx.url("http"), &["--requests-per-connection", "7"], 0);
    summary.assert_all_ok(200);
    let log = nginx.log_of(200);
    assert_eq!(log.iter().map(|logged| logged.request_of_connection).max(), Some(7));
    // 200 / 7, and at most three more that are not full.
    assert!((29..=32).contains(&connections(&log)), "{}", connections(&log));
}

#[test]
fn both_tls_versions_are_spoken_as_pinned() {
    let certificate = Certificate::new();
    let nginx = tls_nginx(&certificate, "ssl_protocols TLSv1.2 TLSv1.3;");
    let (url, chain) = (nginx.url("https"), certificate.chain_argument());
    let mut expected = Vec::new();
    for (flags, version) in
        [(vec!["--tls", "1.2"], "TLSv1.2"), (vec!["--tls", "1.3"], "TLSv1.3"), (vec![], "TLSv1.3")]
    {
        let summary = load(&url, &[&["--cacert", &chain], &flags[..]].concat(), 0);
        summary.assert_all_ok(200);
        assert_eq!(summary.count("handshakes.full"), summary.count("connections.opened"));
        expected.extend(std::iter::repeat_n(version, 200));
        let log = nginx.log_of(expected.len() as u64);
        let seen: Vec<_> = log.iter().map(|logged| logged.tls.as_str()).collect();
        assert_eq!(seen, expected);
    }
}

#[test]
fn sessions_are_resumed_where_asked() {
    let certificate = Certificate::new();
    let nginx = tls_nginx(&certificate, "ssl_protocols TLSv1.2 TLSv1.3;");
    let (url, chain) = (nginx.url("https"), certificate.chain_argument());
    for version in ["1.2", "1.3"] {
        let flags = ["--cacert", &chain, "--tls", version, "--no-keepalive", "--resume", "1"];
        let summary = load(&url, &[&flags[..], &["--threads", "1"]].concat(), 0);
        summary.assert_all_ok(200);
        let (full, resumed) =
            (summary.count("handshakes.full"), summary.count("handshakes.resumed"));
        assert_eq!(full + resumed, 200);
        // Only those that began before the first ticket came are full.
        assert!(resumed > 100, "TLS {version}: {resumed} resumed");
    }
}

#[test]
fn a_pinned_version_that_the_server_lacks_is_a_tls_error() {
    let certificate = Certificate::new();
    let chain = certificate.chain_argument();
    for (server, ours) in [("TLSv1.3", "1.2"), ("TLSv1.2", "1.3")] {
        let nginx = tls_nginx(&certificate, &format!("ssl_protocols {server};"));
        let summary = load(&nginx.url("https"), &["--cacert", &chain, "--tls", ours], 99);
        summary.assert_all_failed(200, "tls-alert");
        assert_eq!(summary.count("connections.opened"), 0);
        nginx.log_of(0);
    }
}

#[test]
fn an_untrusted_certificate_is_refused_until_it_is_trusted() {
    let certificate = Certificate::new();
    let nginx = tls_nginx(&certificate, "");
    let (url, chain) = (nginx.url("https"), certificate.chain_argument());
    // Neither the host's store nor another authority vouches for it.
    let summary = load(&url, &[], 99);
    summary.assert_all_failed(200, "tls-untrusted");
    assert!(summary.reasons("tls-untrusted").contains("certificate is not trusted"), "{summary:?}");
    let other = Certificate::new();
    load(&url, &["--cacert", &other.chain_argument()], 99).assert_all_failed(200, "tls-untrusted");
    // Trusted, but not under this name.
    let wrong = ["--cacert", &chain, "--sni", "another.test"];
    load(&url, &wrong, 99).assert_all_failed(200, "tls-untrusted");
    nginx.log_of(0);
    load(&url, &["--cacert", &chain], 0).assert_all_ok(200);
    load(&url, &["--cacert", &chain, "--sni", NAME], 0).assert_all_ok(200);
    load(&url, &["--insecure"], 0).assert_all_ok(200);
    nginx.log_of(600);
}

#[test]
fn haproxy_counts_what_we_count() {
    let certificate = Certificate::new();
    let pong = "    http-request return status 200 content-type text/plain string pong";
    let chain = certificate.chain_argument();
    let bind = format!("ssl crt {} alpn h2,http/1.1", certificate.both().display());
    for (bind, scheme) in [("", "http"), (bind.as_str(), "https")] {
        let haproxy = Haproxy::start(bind, pong, "");
        let summary = load(&haproxy.url(scheme), &["--cacert", &chain], 0);
        summary.assert_all_ok(200);
        assert_eq!(haproxy.count("req_tot"), 200);
        assert_eq!(haproxy.count("hrsp_2xx"), 200);
        assert_eq!(haproxy.count("conn_tot"), summary.count("connections.opened"));
    }
}

#[test]
fn haproxys_refusals_are_classed_by_status() {
    let rules = "    http-request return status 503 if { path /busy }\n    \
                 http-request deny deny_status 403 if { path /secret }\n    \
                 default_backend nobody";
    // A backend without a server: HAProxy's own 503 page.
    let haproxy = Haproxy::start("", rules, "backend nobody");
    let mut total = 0;
    for (path, class, status) in
        [("busy", "status-5xx", "503"), ("secret", "status-4xx", "403"), ("", "status-5xx", "503")]
    {
        let url = haproxy.url("http") + path;
        let summary = load(&url, &[], 99);
        summary.assert_all_failed(200, class);
        assert_eq!(summary.counts("status"), [(status.to_owned(), 200)].into());
        assert_eq!(summary.text("verdict"), "bad");
        total += 200;
        assert_eq!(haproxy.count("req_tot"), total, "{path}");
    }
}

#[test]
fn openssl_s_server_closes_after_each_answer() {
    let certificate = Certificate::new();
    let chain = certificate.chain_argument();
    // -www writes a page, -WWW a head in front of a file, -HTTP the bare file.
    for (argument, path) in [("-www", "/"), ("-WWW", "/file.txt"), ("-HTTP", "/answer.http")] {
        for version in ["1.2", "1.3"] {
            let server = SServer::start(&certificate, &[argument]);
            // It serves one connection at a time.
            let flags = ["-c", "1", "--rate", "100", "-n", "30", "--cacert", &chain];
            let flags = [&flags[..], &["--tls", version]].concat();
            let summary = Plimsoll::load(&server.url(path), &flags).run().summary(0);
            summary.assert_all_ok(30);
            assert!(summary.count("connections.opened") >= 30, "{summary:?}");
        }
    }
    let server = SServer::start(&certificate, &["-HTTP"]);
    let flags = ["-c", "1", "--rate", "100", "-n", "30", "--cacert", &chain];
    let headless = Plimsoll::load(&server.url("/file.txt"), &flags).run();
    headless.summary(99).assert_all_failed(30, "http-malformed");
}

#[test]
fn openssl_s_server_gets_the_certificate_that_it_demands() {
    let (server_side, client_side) = (Certificate::new(), Certificate::new());
    let (chain, own) = (server_side.chain_argument(), client_side.chain_argument());
    let key = client_side.key_argument();
    let flags = ["-c", "1", "--rate", "100", "-n", "20", "--no-keepalive", "--cacert", &chain];
    // In TLS 1.3 the client has finished its handshake when the refusal comes; the class is the
    // same.
    for version in ["1.2", "1.3"] {
        let server = SServer::start(
            &server_side,
            &["-www", "-Verify", "1", "-verify_return_error", "-CAfile", &own],
        );
        let flags = [&flags[..], &["--tls", version]].concat();
        let refused = Plimsoll::load(&server.url("/"), &flags).run().summary(99);
        refused.assert_all_failed(20, "tls-alert");
        let flags = [&flags[..], &["--cert", &own, "--key", &key]].concat();
        Plimsoll::load(&server.url("/"), &flags).run().summary(0).assert_all_ok(20);
    }
}
