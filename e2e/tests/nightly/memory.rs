//! The search for held connections against a server whose memory ends: where that is predicted, and before it does.

use e2e::certificate::Certificate;
use e2e::haproxy::Haproxy;
use e2e::plimsoll::{Finished, Plimsoll};
use e2e::summary::Summary;

use crate::alone;

/// Attempts at a prediction that a busy host may invalidate.
const ATTEMPTS: usize = 3;
const PONG: &str = "    http-request return status 200 content-type text/plain string pong";

fn find(url: &str, flags: &[&str]) -> Finished {
    let own = ["find", "connections", url, "-k", "--json", "out.json", "--out", "run"];
    let quick = ["--mode", "quick", "--slo", "p99<1s,errors<0.1%", "--for", "1s"];
    Plimsoll::new([&own[..], &quick, flags].concat()).run()
}

fn summary_of(finished: &Finished) -> Summary {
    let summary = finished.written(0);
    assert_eq!(summary.text("find.axis"), "connections");
    summary
}

/// A HAProxy with TLS whose address space ends at 70 MB: it uses 37 MB of it without any
/// connection. One thread, because another one's memory grows by 64 MB at a time.
fn capped_haproxy(certificate: &Certificate) -> Haproxy {
    let bind = format!("ssl crt {}", certificate.both().display());
    Haproxy::after("ulimit -v 70000", &bind, PONG, "global\n    nbthread 1\n")
}

#[test]
#[ignore = "takes 2 minutes"]
fn memory_that_is_capped_ends_the_search_before_it_ends_and_where_predicted() {
    let _alone = alone();
    let certificate = Certificate::new();
    // Handshakes are slow on a busy machine, and that is not what is looked for.
    let flags = ["--max", "3900", "--linger", "5s", "--rate", "700"];
    let ended_before = || {
        let mut haproxy = capped_haproxy(&certificate);
        let pid = format!("pid:{}", haproxy.pid());
        let finished = find(&haproxy.url("https"), &[&flags[..], &["--watch", &pid]].concat());
        let summary = summary_of(&finished);
        let cap = summary.text("find.outcome.not-reached.cap");
        assert!(cap.starts_with("address space of server runs out at about"), "{cap}");
        assert_eq!(summary.text("find.connections.first_limit_of"), "server");
        assert!(haproxy.is_alive());
        (summary.count("hold.lost") == 0).then_some(summary)
    };
    // Where the host is busy, more handshakes hold their buffers at once: they may take the memory that was
    // left free, and the first levels show connections that are too expensive.
    let summary =
        (0..ATTEMPTS).find_map(|_| ended_before()).expect("connections were lost each time");

    let off = || {
        let haproxy = capped_haproxy(&certificate);
        let pid = format!("pid:{}", haproxy.pid());
        let watched = [&flags[..], &["--watch", &pid, "--push"]].concat();
        let pushed = summary_of(&find(&haproxy.url("https"), &watched));
        assert!(pushed.number("find.lower") >= summary.number("find.lower"), "{pushed:?}");
        pushed.number("find.connections.failed_at.predicted_off")
    };
    let offs: Vec<f64> = (0..ATTEMPTS).map(|_| off()).take_while(|off| off.abs() > 0.10).collect();
    assert!(offs.len() < ATTEMPTS, "predicted with errors of {offs:?}");
}
