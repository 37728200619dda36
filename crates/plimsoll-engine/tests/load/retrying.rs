//! Pauses between attempts to connect to a server that closes new connections.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_model::Nanos;
use plimsoll_model::plan::{LoadPlan, Pacing, Timeouts};

use crate::scripted::{OK, PATIENT, Scripted, open, plan, read_request, run};

/// A server that answers on its first `serves` connections, half a second each, and closes the others at once.
/// Returns how many have come, too.
fn full_server(serves: u64) -> (Scripted, Arc<AtomicU64>) {
    let accepted = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&accepted);
    let server = Scripted::start(move |mut stream| {
        if counter.fetch_add(1, Ordering::Relaxed) < serves {
            while read_request(&mut stream) {
                std::thread::sleep(std::time::Duration::from_millis(500));
                if stream.write_all(OK).is_err() {
                    return;
                }
            }
        }
    });
    (server, accepted)
}

#[test]
fn a_full_server_is_not_asked_hundreds_of_times() {
    let closed = Pacing::Closed { duration: Some(Nanos::from_secs(2)), ops_total: None };
    // In the open loop: the first attempts, one for each operation that fails with its connection, and one per pause.
    // In the closed loop: a round of all connections per pause. Pauses begin anew after the first answers.
    let (in_open, in_closed) = (20 + 120 + 2 * 9, 20 + 2 * 9 * 20);
    for (pacing, keepalive, most) in [
        (open(60.0, 2_000), true, in_open),
        (closed.clone(), true, in_closed),
        (closed, false, in_closed),
    ] {
        let (server, accepted) = full_server(10);
        let plan = LoadPlan {
            connections: 20,
            keepalive,
            threads: 1,
            timeouts: Timeouts { deadline: Some(Nanos::from_secs(1)), ..PATIENT },
            ..plan(server.address, pacing)
        };
        let tally = run(plan);
        let attempts = accepted.load(Ordering::Relaxed);
        assert!(attempts <= most, "{attempts} connections, {:?}", tally.connections);
        assert!(tally.connections.closed_at_once >= 5, "{:?}", tally.connections);
        assert!(tally.ok > 0);
    }
}
