//! Well-known timers: when a value is found, whose it commonly is. Values of products are their
//! defaults and may have been changed.

/// Two piles this near to each other, on different clocks of one connection, are one timer.
pub(super) const SAME: f64 = 0.02;

use plimsoll_model::Nanos;
use plimsoll_model::spans::Spans;

/// Relative distance within which a value takes the name.
const NEAR: f64 = 0.015;
/// Lateness of a kernel's timer: never early but for the clock's last digit, at most by a tick of
/// its wheel, 36 ms in 1 s and 256 ms in 7 s at 250 Hz; a loaded host adds a little.
const KERNEL_LATE: std::ops::RangeInclusive<f64> = -0.001..=0.05;

/// Wait of a Linux receiver before it acknowledges, with the tick of its kernel's timer at 250 Hz or more.
const DELAYED_ACK_MS: std::ops::RangeInclusive<f64> = 39.9..=46.0;
/// Name of the timer that delays an answer of two small writes for that time.
pub(super) const DELAYED_ACK: &str = "near 0.04 s (delayed ACK with Nagle's algorithm)";
/// Times after which Linux retransmits: the smallest timeout, doubled each time, all added up.
const RETRANSMISSIONS_MS: [f64; 3] = [200.0, 600.0, 1_400.0];
/// The most that the kernel is late with that: round trips (the timeout begins with one, and the
/// answer takes another), a fraction of the timeout, and milliseconds.
const RETRANSMISSION_LATE: (f64, f64, f64) = (3.0, 0.05, 10.0);

/// Timers of programs and load balancers, in seconds.
const PROGRAMS: [(f64, &str); 18] = [
    (0.2, "smallest retransmission timeout, or delayed ACK"),
    (5.0, "Node.js and uvicorn keep-alive, Envoy connect, DNS retry"),
    (10.0, "common client and health-check default"),
    (15.0, "Envoy route"),
    (20.0, "Tomcat connection"),
    (30.0, "gunicorn, Google Cloud load balancer, many client libraries"),
    (50.0, "HAProxy sample configurations"),
    (60.0, "nginx, AWS load balancer idle, Apache httpd"),
    (65.0, "nginx keep-alive, sample configuration"),
    (75.0, "nginx keep-alive"),
    (120.0, "common server and proxy setting"),
    (180.0, "common server and proxy setting"),
    (240.0, "Azure load balancer idle"),
    (300.0, "Envoy stream idle, Node.js request"),
    (350.0, "AWS network load balancer and NAT idle"),
    (600.0, "common idle setting"),
    (900.0, "TCP retransmission given up (tcp_retries2)"),
    (3600.0, "Envoy connection idle"),
];

/// Timers of a kernel that connects: they show only if a connection is awaited.
const CONNECTING: [(f64, &str); 14] = [
    (1.0, "first SYN retransmission"),
    (2.0, "SYN retransmission with linear timeouts"),
    (3.0, "second SYN retransmission"),
    (4.0, "SYN retransmission with linear timeouts"),
    (7.0, "third SYN retransmission"),
    (11.0, "SYN retransmission with linear timeouts"),
    (15.0, "fourth SYN retransmission"),
    (19.0, "SYN retransmission with linear timeouts"),
    (31.0, "fifth SYN retransmission"),
    (35.0, "SYN retransmission with linear timeouts"),
    (63.0, "SYN-ACK given up (tcp_synack_retries 5)"),
    (67.0, "SYN given up, linear timeouts"),
    (127.0, "SYN given up (tcp_syn_retries 6)"),
    (131.0, "SYN given up (linear timeouts 4)"),
];

/// Returns the nearest well-known constant and its common owners: `near 60 s (nginx, ...)`. Timers of connecting count
/// only if `connecting` was part of the duration.
pub(super) fn label(at: Nanos, connecting: bool) -> Option<String> {
    let off = |seconds: f64| (at.as_secs_f64() / seconds).ln().abs();
    let kernels = if connecting { &CONNECTING[..] } else { &[] };
    let (seconds, name) =
        kernels.iter().chain(&PROGRAMS).min_by(|a, b| off(a.0).total_cmp(&off(b.0)))?;
    (off(*seconds) <= NEAR).then(|| format!("near {seconds} s ({name})"))
}

/// Returns the kernel's timer for connecting that `at` is late for, by no more than kernels are: later times have other
/// causes, such as a far address among near ones.
pub(super) fn connecting_label(at: Nanos) -> Option<String> {
    let late = |seconds: f64| at.as_secs_f64() / seconds - 1.0;
    let (seconds, name) =
        CONNECTING.iter().find(|(seconds, _)| KERNEL_LATE.contains(&late(*seconds)))?;
    Some(format!("near {seconds} s ({name})"))
}

/// Reports whether a server that waits for a delayed ACK answers after `at`.
pub(super) fn is_delayed_ack(at: Nanos) -> bool {
    DELAYED_ACK_MS.contains(&at.as_millis_f64())
}

/// Returns the number of answers that came when a lost segment had been sent again.
pub(crate) fn retransmitted(spans: &Spans) -> u64 {
    let round_trip = spans.connect.quantile(0.5).unwrap_or_default();
    let buckets = spans.uncorrected.buckets();
    let late = buckets.filter(|(lasted, _)| is_retransmission(*lasted, round_trip));
    late.map(|(_, count)| count).sum()
}

/// Reports whether an answer comes after `at` when a segment was lost on a path of so long a round trip.
pub(super) fn is_retransmission(at: Nanos, round_trip: Nanos) -> bool {
    let (round_trips, of_itself, ms) = RETRANSMISSION_LATE;
    RETRANSMISSIONS_MS.iter().any(|after| {
        let late = round_trip.as_millis_f64() * round_trips + after * of_itself + ms;
        (*after..=after + late).contains(&at.as_millis_f64())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_one_is_named_and_no_far_one() {
        for (ms, text) in [
            (60_400, Some("near 60 s (nginx")), // 0.7 % late
            (63_200, Some("near 63 s (SYN-ACK")),
            (64_900, Some("near 65 s (nginx keep-alive")),
            (17_000, None),
            (61_300, None), // 2.2 % from 60, 2.7 % from 63
        ] {
            let label = label(Nanos::from_millis(ms), true);
            assert_eq!(label.is_some(), text.is_some(), "{ms}: {label:?}");
            if let (Some(label), Some(text)) = (label, text) {
                assert!(label.starts_with(text), "{ms}: {label}");
            }
        }
    }

    #[test]
    fn a_timer_of_connecting_names_nothing_else() {
        assert!(label(Nanos::from_secs(3), true).is_some_and(|label| label.contains("SYN")));
        assert_eq!(label(Nanos::from_secs(3), false), None);
        assert_eq!(label(Nanos::from_secs(15), false).as_deref(), Some("near 15 s (Envoy route)"));
    }
}
