//! Headers of the PROXY protocol: what real servers take from them.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use e2e::certificate::Certificate;
use e2e::haproxy::Haproxy;
use e2e::nginx::Nginx;
use e2e::plimsoll::Plimsoll;
use e2e::port;
use e2e::serve::Serve;

const PACE: [&str; 8] =
    ["--proxy-protocol", "v2", "--rate", "100", "--requests", "60", "--connections", "6"];

/// Addresses that a table of HAProxy's frontend holds.
fn tracked(haproxy: &Haproxy) -> BTreeSet<String> {
    let mut socket =
        UnixStream::connect(haproxy.stats_socket()).expect("HAProxy's socket is there");
    socket.write_all(b"show table sut\n").expect("HAProxy reads commands");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("HAProxy answers");
    let key = |line: &str| line.split_once("key=")?.1.split(' ').next().map(str::to_owned);
    text.lines().filter_map(key).collect()
}

#[test]
fn haproxy_takes_client_addresses_from_headers_before_tls() {
    let certificate = Certificate::new();
    let bind = format!("accept-proxy ssl crt {}", certificate.both().display());
    // The identifier is ours, and the destination the address that was connected to.
    let rules = "    stick-table type ip size 1k\n    http-request track-sc0 src\n    \
                 http-request deny unless { fc_pp_unique_id -m beg plimsoll- } { dst 127.0.0.1 }\n    \
                 http-request return status 200";
    let haproxy = Haproxy::start(&bind, rules, "");
    let flags = ["-k", "--proxy-source", "10.20.30.0/29"];
    let load = Plimsoll::load(&haproxy.url("https"), &[&PACE[..], &flags].concat());
    load.run().summary(0).assert_all_ok(60);
    // Six connections, and six addresses in a /29.
    let expected: BTreeSet<_> = (1..=6).map(|host| format!("10.20.30.{host}")).collect();
    assert_eq!(tracked(&haproxy), expected);
}

#[test]
fn nginx_logs_the_addresses_that_headers_name() {
    let address = port::free();
    let directives = format!(
        "listen {address} proxy_protocol;\nset_real_ip_from 127.0.0.1;\n\
         real_ip_header proxy_protocol;"
    );
    let nginx = Nginx::start(false, &directives);
    let url = format!("http://{address}/");
    for (flags, expected) in [
        (&[][..], &["127.0.0.1"][..]),
        (&["--proxy-source", "fd00::/126"], &["fd00::1", "fd00::2", "fd00::3"]),
        // One connection, and one header, for each request.
        (&["--proxy-source", "10.0.0.9", "--no-keepalive"], &["10.0.0.9"]),
    ] {
        let before = nginx.log().len();
        let summary = Plimsoll::load(&url, &[&PACE[..], flags].concat()).run().summary(0);
        summary.assert_all_ok(60);
        let log = nginx.log_of(before as u64 + 60);
        let seen: BTreeSet<_> = log[before..].iter().map(|one| one.remote.as_str()).collect();
        assert_eq!(seen, expected.iter().copied().collect(), "{flags:?}");
    }
}

#[test]
fn a_held_connection_is_introduced_before_it_is_silent() {
    let rules = "    stick-table type ip size 1k\n    tcp-request content track-sc0 src\n    \
                 timeout client 10s\n    http-request return status 200";
    let haproxy = Haproxy::start("accept-proxy", rules, "");
    let url = haproxy.url("http");
    let hold =
        ["hold", &url, "--proxy-protocol", "v2", "--proxy-source", "10.0.0.0/28", "-c", "14"];
    let pace = ["--rate", "200", "--for", "1s", "--no-ui", "--json", "-"];
    let summary = Plimsoll::new([&hold[..], &pace].concat()).run().summary(0);
    assert_eq!(summary.count("errors"), 0, "{summary:?}");
    assert_eq!(tracked(&haproxy).len(), 14);
}

#[test]
fn serve_takes_headers_of_haproxy_and_of_ours_and_nothing_else() {
    let flags = ["--http", "127.0.0.1:0", "--https", "127.0.0.1:0", "--accept-proxy"];
    let serve = Serve::start(&flags, 2);
    let addresses = serve.urls.iter().map(|url| url.split('/').nth(2).expect("an address"));
    let [plain, tls] = [0, 1].map(|nth| addresses.clone().nth(nth).expect("two listeners"));
    for server in [
        format!("{plain} send-proxy-v2 check"),
        format!("{tls} send-proxy-v2 ssl verify none check check-send-proxy"),
    ] {
        let backend = format!("backend serve\n    server one {server}");
        let haproxy = Haproxy::start("", "    default_backend serve", &backend);
        let pace = ["--rate", "100", "--requests", "30", "--connections", "3"];
        Plimsoll::load(&haproxy.url("http"), &pace).run().summary(0).assert_all_ok(30);
    }
    for url in &serve.urls {
        let flags = [&PACE[..], &["-k", "--proxy-source", "fd00::/64"]].concat();
        Plimsoll::load(url, &flags).run().summary(0).assert_all_ok(60);
    }
    let flags = ["--rate", "0", "-n", "3", "-c", "1"];
    let summary = Plimsoll::load(serve.url(), &flags).run().summary(99);
    assert_eq!(summary.count("ok"), 0, "{summary:?}");
}

#[test]
fn a_source_needs_a_header() {
    let load = ["load", "http://127.0.0.1:1", "--proxy-source", "10.0.0.1"];
    let finished = Plimsoll::new(load).run();
    assert_eq!(finished.code, Some(2), "{finished:?}");
    assert!(finished.stderr.contains("--proxy-protocol"), "{}", finished.stderr);
}
