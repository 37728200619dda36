//! HTTP/1.1 against real servers: `Connection: close`, paths, zones, and odd answers.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use e2e::haproxy::Haproxy;
use e2e::nginx::Nginx;
use e2e::plimsoll::Plimsoll;
use e2e::recorder::Recorder;
use e2e::summary::Summary;

const PONG: &str = "    http-request return status 200 content-type text/plain string pong";

fn load(url: &str, flags: &[&str]) -> Summary {
    Plimsoll::load(url, flags).run().summary(0)
}

#[test]
fn connection_close_ends_each_connection() {
    // One server ignores the header, the other obeys it.
    for pace in [["--rate", "0"], ["--rate", "300"]] {
        let recorder = Recorder::start();
        let nginx = Nginx::start(false, "");
        let flags = [&pace[..], &["-n", "30", "-c", "2", "-H", "Connection: x, Close"]].concat();
        for url in [recorder.url(), nginx.url("http")] {
            let summary = load(&url, &flags);
            summary.assert_all_ok(30);
            assert_eq!(summary.count("connections.opened"), 30, "{summary:?}");
            assert_eq!(summary.count("connections.closed_by_peer"), 0, "{summary:?}");
        }
        let mut connections: Vec<_> =
            recorder.requests().iter().map(|one| one.connection).collect();
        connections.sort_unstable();
        connections.dedup();
        assert_eq!(connections.len(), 30);
        assert!(nginx.log_of(30).iter().all(|logged| logged.request_of_connection == 1));
    }
}

#[test]
fn one_target_of_several_closes_its_connection() {
    let recorder = Recorder::start();
    let url = recorder.url();
    let list = format!("GET {url}a\nConnection: close\n\nGET {url}b\n");
    let flags = ["load", "--targets", "-", "--rate", "0", "-c", "1", "-n", "20", "--json", "-"];
    let ran = Plimsoll::new(flags).with_input(list).run();
    let summary = ran.summary(0);
    summary.assert_all_ok(20);
    assert_eq!(summary.count("errors"), 0);
    let requests = recorder.requests();
    let on_same = |pair: &[e2e::recorder::Request]| pair[0].connection == pair[1].connection;
    for pair in requests.windows(2) {
        assert_eq!(on_same(pair), pair[0].line.starts_with("GET /b"), "{pair:?}");
    }
}

#[test]
fn paths_are_sent_percent_encoded() {
    // It answers 400 to a byte above 0x7F.
    let haproxy = Haproxy::start("", PONG, "");
    let url = format!("{}münchen?ü", haproxy.url("http"));
    for version in ["1.1", "2"] {
        load(&url, &["--http", version, "--rate", "0", "-c", "1", "-n", "2"]).assert_all_ok(2);
    }
    let recorder = Recorder::start();
    let url = recorder.url();
    let json = format!("{{\"method\":\"GET\",\"url\":\"{url}münchen?ü={{a|b}}\"}}");
    for list in [format!("GET {url}münchen?ü={{a|b}}"), json] {
        let flags = ["load", "--targets", "-", "--rate", "0", "-c", "1", "-n", "1", "--json", "-"];
        Plimsoll::new(flags).with_input(list).run().summary(0).assert_all_ok(1);
    }
    let ws = url.replace("http:", "ws:");
    Plimsoll::new(["load", &format!("{ws}münchen?ü={{a|b}}"), "--rate", "0", "-c", "1", "-n", "1"])
        .run();
    let lines: Vec<_> = recorder.requests().into_iter().map(|request| request.line).collect();
    assert!(lines.len() >= 3, "{lines:?}");
    for line in lines {
        assert_eq!(line, "GET /m%C3%BCnchen?%C3%BC=%7Ba%7Cb%7D HTTP/1.1");
    }
}

#[test]
fn a_zone_is_used_and_not_sent() {
    // Address, index, length of the prefix, scope, flags, name: scope 0x20 is that of a link.
    let interfaces = fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    let link = interfaces.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let [address, _, _, "20", _, name] = fields[..] else { return None };
        let address = Ipv6Addr::from(u128::from_str_radix(address, 16).ok()?);
        Some((address, name.to_owned()))
    });
    // A host without IPv6 has no zones.
    let Some((address, name)) = link else { return };
    let recorder = Recorder::start_with(Ipv6Addr::UNSPECIFIED.into(), None);
    let port = recorder.address.port();
    for zone in [format!("%{name}"), format!("%25{name}")] {
        let url = format!("http://[{address}{zone}]:{port}/");
        load(&url, &["--rate", "0", "-c", "1", "-n", "1"]).assert_all_ok(1);
    }
    let hosts = recorder.requests();
    assert!(
        hosts.iter().all(|one| one.values("host") == [format!("[{address}]:{port}")]),
        "{hosts:?}"
    );
}

#[test]
fn folded_lines_are_read() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Security-Policy:\r\n  default-src 'self';\r\n\
                   Content-Length:\r\n\t2\r\nConnection: a,\r\n close\r\n\r\nok";
    let recorder = Recorder::start_with(Ipv4Addr::LOCALHOST.into(), Some(answer));
    load(&recorder.url(), &["--rate", "0", "-c", "2", "-n", "6"]).assert_all_ok(6);
}

#[test]
fn bytes_behind_an_answer_are_called_what_they_are() {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for answer in [
        &b"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\npong",
    ] {
        let recorder = Recorder::start_with(loopback, Some(answer));
        let flags = ["--rate", "0", "-c", "2", "-n", "12"];
        let ran = Plimsoll::load(&recorder.url(), &flags).run();
        let summary = ran.summary(0);
        summary.assert_all_ok(12);
        assert_eq!(summary.counts("lost_idle_classes")["unrequested-answer"], 12);
        let report = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in
            ["Lost while idle", "unrequested-answer 12", "first fault: the server sent bytes"]
        {
            assert!(report.contains(words), "{report}");
        }
        let fault = summary.reasons("unrequested-answer");
        assert!(fault.contains("more behind an answer than its head announces"), "{fault}");
        assert!(!report.contains("https") && !report.contains("Failed connects"), "{report}");
    }
}
