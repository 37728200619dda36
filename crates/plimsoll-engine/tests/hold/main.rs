//! Holds against the engine's own server and against scripted servers, whose every move the test makes:
//! whatever happens to a connection, it is counted once, in the right class.
#![expect(clippy::unwrap_used, reason = "a failure to set a test up is a failed test")]

mod driver;
mod scripted;
mod served;
mod storms;

use std::collections::BTreeMap;

use driver::{Driver, OverTls, PATIENCE, plan, ramp, sweep, trim};
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{HoldPlan, LoadPart, LoadPlan, Pacing, Timeouts};
use plimsoll_model::reason::Reason;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_sys::socket::ListenSocket;
use scripted::ScriptedServer;
use served::serve;

/// A hold at the maximum rate, without heartbeats or replacements.
const PLAIN: HoldPlan =
    HoldPlan { connections_per_s: 1e6, opening_max: 64, heartbeat: None, replace: false };

fn classes(counts: &plimsoll_model::tally::ErrorCounts) -> BTreeMap<ErrorClass, u64> {
    counts.iter().collect()
}

// ---- ramps

#[test]
fn ramps_are_cumulative_and_exact() {
    let mut server = ScriptedServer::start();
    let mut driver = Driver::start(plan(server.address(), PLAIN));
    for (connections, opened) in [(40, 40), (101, 101), (101, 101), (7, 101)] {
        driver.steer_and_wait(ramp(connections));
        assert_eq!(driver.whole.connections.opened, opened);
        assert_eq!(driver.whole.connections.held_end, opened);
    }
    server.accept(101);
    server.expect_no_more();
    let whole = driver.end();
    assert_eq!((whole.scheduled, whole.failures.lost_held.total()), (0, 0));
}

#[test]
fn shards_add_up_to_what_was_asked_for() {
    let mut server = ScriptedServer::start();
    let opened: u64 = (0..3)
        .map(|process| {
            let plan = plan(server.address(), PLAIN);
            // Each thread is one shard.
            let shard = Shard { index: process * plan.threads, of: 3 * plan.threads };
            let part = LoadPart { shard, ..LoadPart::WHOLE };
            let mut driver = Driver::start(LoadPlan { part, ..plan });
            driver.steer_and_wait(ramp(50));
            driver.end().connections.opened
        })
        .sum();
    assert_eq!(opened, 50);
    server.accept(50);
}

#[test]
fn no_ramp_goes_past_the_plan() {
    let server = ScriptedServer::start();
    let plan = LoadPlan { connections: 20, ..plan(server.address(), PLAIN) };
    let mut driver = Driver::start(plan);
    driver.steer_and_wait(ramp(1000));
    assert_eq!(driver.end().connections.opened, 20);
}

#[test]
fn openings_at_once_are_bounded() {
    let mut server = ScriptedServer::start();
    // Two workers with two each. The server sends nothing, so that no handshake completes.
    let hold = HoldPlan { opening_max: 4, ..PLAIN };
    let mut driver = Driver::start(plan(server.address(), hold).over_tls());
    let id = driver.steer(ramp(40));
    for _ in 0..10 {
        server.accept(4);
        // A fifth can only follow the end of one of these four.
        server.expect_no_more();
        server.close(4);
    }
    driver.wait_for(id);
    let whole = driver.end();
    assert_eq!((whole.connections.failed, whole.handshakes.failed), (40, 40));
    assert_eq!(whole.connections.opened, 0);
}

#[test]
fn a_refusing_server_is_counted_and_ends_the_ramp() {
    let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let address = listener.local_address().unwrap();
    drop(listener);
    let mut driver = Driver::start(plan(address, PLAIN));
    driver.steer_and_wait(ramp(30));
    let whole = driver.end();
    assert_eq!(classes(&whole.failures.attempts), [(ErrorClass::ConnectRefused, 30)].into());
    assert_eq!((whole.connections.failed, whole.connections.held_max), (30, 0));
    assert_eq!(whole.failures.lost_held.total(), 0);
}

#[test]
fn a_server_that_never_answers_tls_is_given_up() {
    let server = ScriptedServer::start();
    let plan = plan(server.address(), PLAIN).over_tls();
    let timeouts = Timeouts { connect: Nanos::from_millis(100), ..plan.timeouts };
    let plan = LoadPlan { timeouts, ..plan };
    let mut driver = Driver::start(plan);
    driver.steer_and_wait(ramp(5));
    let whole = driver.end();
    assert_eq!(classes(&whole.failures.attempts), [(ErrorClass::Timeout, 5)].into());
}

// ---- sweeps and heartbeats

#[test]
fn a_sweep_asks_each_connection_once() {
    let mut server = ScriptedServer::start();
    let mut driver = Driver::start(plan(server.address(), PLAIN));
    driver.steer_and_wait(ramp(50));
    server.accept(50);
    for round in 1..=2 {
        let id = driver.steer(sweep(Nanos::from_millis(50)));
        for conn in 0..50 {
            server.read_request(conn);
            server.answer(conn);
        }
        driver.wait_for(id);
        server.expect_silence();
        assert_eq!((driver.whole.scheduled, driver.whole.ok), (round * 50, round * 50));
    }
    let whole = driver.end();
    assert_eq!(whole.spans.corrected.count(), 100);
    assert_eq!(whole.answers.status.iter().collect::<Vec<_>>(), [(200, 100)]);
}

#[test]
fn a_trim_closes_the_youngest_and_what_is_left_counts_as_tried() {
    let mut server = ScriptedServer::start();
    let mut driver = Driver::start(plan(server.address(), PLAIN));
    driver.steer_and_wait(ramp(20));
    server.accept(20);
    driver.steer_and_wait(trim(5));
    assert_eq!(driver.whole.connections.held_end, 5);
    // It was our own will: nothing was lost.
    assert_eq!((driver.whole.failures.lost_held.total(), driver.whole.connections.failed), (0, 0));
    driver.steer_and_wait(ramp(8));
    server.accept(3);
    server.expect_no_more();
    assert_eq!((driver.whole.connections.opened, driver.whole.connections.held_end), (23, 8));
    // More than is held closes nothing.
    driver.steer_and_wait(trim(100));
    assert_eq!(driver.whole.connections.held_end, 8);
    driver.steer_and_wait(trim(0));
    assert_eq!(driver.whole.connections.held_end, 0);
    driver.end();
}

#[test]
fn a_trim_gives_up_what_is_being_opened() {
    let server = ScriptedServer::start();
    let mut driver = Driver::start(plan(server.address(), PLAIN).over_tls());
    // The server does not answer the handshake.
    let id = driver.steer(ramp(6));
    driver.steer_and_wait(trim(0));
    driver.wait_for(id);
    let whole = driver.end();
    let given_up = whole.failures.attempts.get(ErrorClass::Interrupted);
    assert_eq!((whole.connections.failed, whole.connections.opened), (given_up, 0));
}

#[test]
fn a_sweep_counts_the_connections_that_it_does_not_reach() {
    let mut server = ScriptedServer::start();
    let mut driver = Driver::start(plan(server.address(), PLAIN));
    driver.steer_and_wait(ramp(10));
    server.accept(10);
    // No turn but the very first comes within the test.
    let id = driver.steer(sweep(Nanos::from_secs(100_000)));
    driver.until(|so_far| so_far.scheduled == 1);
    server.reset(10);
    driver.wait_for(id);
    let whole = driver.end();
    assert_eq!((whole.scheduled, whole.unsent), (10, 9));
    assert_eq!(classes(&whole.failures.operations), [(ErrorClass::ResetByPeer, 1)].into());
    assert_eq!(classes(&whole.failures.lost_held), [(ErrorClass::ResetByPeer, 10)].into());
}

#[test]
fn a_sweep_waits_for_the_heartbeat_in_hand() {
    let mut server = ScriptedServer::start();
    let hold = HoldPlan { heartbeat: Some(Nanos::from_millis(300)), ..PLAIN };
    let mut driver = Driver::start(plan(server.address(), hold));
    driver.steer_and_wait(ramp(6));
    server.accept(6);
    for conn in 0..6 {
        server.read_request(conn);
    }
    // Every connection is busy with a heartbeat now, and stays busy until it is answered below: also when its turn
    // comes, which is before two more heartbeats of each have come due.
    let before = driver.whole.unsent;
    let id = driver.steer(sweep(Nanos::ZERO));
    driver.until(|so_far| so_far.unsent >= before + 12);
    assert_eq!(driver.whole.scheduled - driver.whole.unsent, 6);
    for conn in 0..6 {
        server.answer(conn);
    }
    // Without an answer to any further request.
    driver.wait_for(id);
    let whole = server.answer_during(|| driver.end());
    assert_eq!((whole.errors_total(), whole.failures.lost_held.total()), (0, 0));
}

#[test]
fn heartbeats_come_once_per_period_on_each_connection() {
    let mut server = ScriptedServer::start();
    let hold = HoldPlan { heartbeat: Some(Nanos::from_millis(100)), ..PLAIN };
    let mut driver = Driver::start(plan(server.address(), hold));
    driver.steer_and_wait(ramp(16));
    server.accept(16);
    let whole = server.answer_during(|| {
        driver.until(|so_far| so_far.ok >= 320);
        driver.end()
    });
    let requests = server.requests();
    assert_eq!(requests.iter().sum::<u64>(), whole.scheduled - whole.unsent);
    // A beat is not sent when this machine was so slow that the one before had no answer yet.
    let (least, most) = (requests.iter().min().unwrap(), requests.iter().max().unwrap());
    assert!(most - least <= 1 + whole.unsent, "{requests:?}, {} unsent", whole.unsent);
    assert_eq!(whole.spans.send_lag.count(), whole.scheduled - whole.unsent);
}

#[test]
fn beats_due_while_an_answer_is_missing_are_unsent() {
    let server = ScriptedServer::start();
    let hold = HoldPlan { heartbeat: Some(Nanos::from_millis(50)), ..PLAIN };
    let plan = plan(server.address(), hold);
    let timeouts = Timeouts { linger: Nanos::from_millis(420), ..plan.timeouts };
    let plan = LoadPlan { timeouts, ..plan };
    let mut driver = Driver::start(plan);
    driver.steer_and_wait(ramp(3));
    driver.until(|so_far| so_far.failures.lost_held.total() == 3);
    let whole = driver.end();
    assert_eq!(classes(&whole.failures.operations), [(ErrorClass::Timeout, 3)].into());
    assert_eq!(classes(&whole.failures.lost_held), [(ErrorClass::Timeout, 3)].into());
    // Eight further beats each came due before the first was given up.
    assert!(whole.unsent >= 24, "{}", whole.unsent);
    assert_eq!(whole.scheduled, 3 + whole.unsent);
}

// ---- losses

#[test]
fn losses_are_counted_by_class() {
    let mut server = ScriptedServer::start();
    let plan = plan(server.address(), PLAIN);
    let timeouts = Timeouts { linger: Nanos::from_millis(200), ..plan.timeouts };
    let plan = LoadPlan { timeouts, ..plan };
    let mut driver = Driver::start(plan);
    driver.steer_and_wait(ramp(15));
    server.accept(15);
    // While they are idle: nothing but the connection is lost.
    server.reset(2);
    server.close(3);
    driver.until(|so_far| so_far.failures.lost_held.total() == 5);
    assert_eq!(driver.whole.connections.held_end, 10);
    let id = driver.steer(sweep(Nanos::ZERO));
    for conn in 0..10 {
        server.read_request(conn);
    }
    for conn in 0..7 {
        match conn {
            0..2 => server.answer(conn),
            2 => server.send(conn, b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n"),
            3 => server
                .send(conn, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"),
            4 => server.send(conn, b"SSH-2.0-x\r\n\r\n"),
            5 => server.send(conn, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nand more"),
            _ => server.send(conn, b"HTTP/1.1 20"),
        }
    }
    // 6 ends within its answer, 7 is reset before one, 8 and 9 are silent.
    server.close_one(6);
    server.reset_one(7);
    driver.wait_for(id);
    let whole = driver.end();
    let losses = [
        (ErrorClass::ClosedByPeer, 3 + 2),
        (ErrorClass::ResetByPeer, 2 + 1),
        (ErrorClass::HttpMalformed, 1),
        (ErrorClass::UnrequestedAnswer, 1),
        (ErrorClass::Timeout, 2),
    ];
    assert_eq!(classes(&whole.failures.lost_held), losses.into());
    let errors = [
        (ErrorClass::ClosedByPeer, 1),
        (ErrorClass::ResetByPeer, 1),
        (ErrorClass::HttpMalformed, 1),
        (ErrorClass::Timeout, 2),
        (ErrorClass::Status5xx, 1),
    ];
    assert_eq!(classes(&whole.failures.operations), errors.into());
    // Each error ended its connection but the status; the rest was lost while nothing was asked.
    let in_use = [
        (ErrorClass::ClosedByPeer, 1),
        (ErrorClass::ResetByPeer, 1),
        (ErrorClass::HttpMalformed, 1),
        (ErrorClass::Timeout, 2),
    ];
    assert_eq!(classes(&whole.failures.lost_in_use), in_use.into());
    let idle = [
        (ErrorClass::ClosedByPeer, 3),
        (ErrorClass::ResetByPeer, 2),
        (ErrorClass::UnrequestedAnswer, 1),
    ];
    assert_eq!(classes(&whole.failures.lost_idle), idle.into());
    // The two that were answered, the one that closes and the one that sends more.
    assert_eq!((whole.scheduled, whole.ok, whole.unsent), (10, 4, 0));
    assert_eq!(whole.connections.held_end, 3);
}

#[test]
fn unasked_bytes_end_a_held_connection() {
    let mut server = ScriptedServer::start();
    let mut driver = Driver::start(plan(server.address(), PLAIN));
    driver.steer_and_wait(ramp(2));
    server.accept(2);
    server.send(1, b"HTTP/1.1 408 Too slow\r\n\r\n");
    driver.until(|so_far| so_far.failures.lost_held.total() == 1);
    let whole = driver.end();
    assert_eq!(classes(&whole.failures.lost_held), [(ErrorClass::UnrequestedAnswer, 1)].into());
    assert_eq!((whole.scheduled, whole.connections.held_end), (0, 1));
    // Neither an attempt that failed nor an operation: status and age say what it was.
    assert_eq!(classes(&whole.failures.lost_idle), classes(&whole.failures.lost_held));
    assert_eq!((whole.failures.attempts.total(), whole.failures.lost_in_use.total()), (0, 0));
    let reasons: Vec<_> = whole.failures.reasons.iter().collect();
    let [(ErrorClass::UnrequestedAnswer, [counted])] = reasons[..] else { panic!("{reasons:?}") };
    assert!(
        matches!(counted.reason, Reason::Unrequested { status: Some(408), was_used: false, .. }),
        "{counted:?}"
    );
    assert!(counted.connection.is_some_and(|address| address.ip().is_loopback()), "{counted:?}");
}

#[test]
fn lost_connections_are_replaced_when_asked() {
    let mut server = ScriptedServer::start();
    let hold = HoldPlan { replace: true, ..PLAIN };
    let mut driver = Driver::start(plan(server.address(), hold));
    driver.steer_and_wait(ramp(6));
    server.accept(6);
    for round in 1..=3 {
        server.reset(2);
        server.accept(2);
        driver.until(|so_far| so_far.connections.replaced == 2 * round);
        assert_eq!(driver.whole.connections.held_end, 6);
    }
    server.expect_no_more();
    let whole = driver.end();
    assert_eq!((whole.connections.opened, whole.failures.lost_held.total()), (12, 6));
}

#[test]
fn what_cannot_be_opened_is_tried_again_at_the_pace_only() {
    let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let address = listener.local_address().unwrap();
    drop(listener);
    // 100/s: the ramp's own 10 attempts, then replacements of the ones that failed.
    let hold = HoldPlan { connections_per_s: 100.0, replace: true, ..PLAIN };
    let mut driver = Driver::start(plan(address, hold));
    driver.steer_and_wait(ramp(10));
    driver.until(|so_far| so_far.connections.failed >= 50);
    let (failed, seconds) = (driver.whole.connections.failed, driver.seconds);
    // Without the pace there would be tens of thousands in a second. A second may be reported late.
    assert!(failed <= (seconds + 10) * 100, "{failed} in {seconds} s");
    assert_eq!(driver.end().connections.opened, 0);
}

#[test]
fn over_tls_all_of_it_works_until_the_server_dies() {
    let (server, address) = serve(true);
    let hold = HoldPlan { heartbeat: Some(Nanos::from_millis(500)), ..PLAIN };
    let mut driver = Driver::start(plan(address, hold).over_tls());
    driver.steer_and_wait(ramp(60));
    driver.steer_and_wait(sweep(Nanos::from_millis(100)));
    assert_eq!((driver.whole.handshakes.full, driver.whole.connections.held_end), (60, 60));
    assert_eq!((driver.whole.errors_total(), driver.whole.failures.lost_held.total()), (0, 0));
    assert_eq!(server.counters().conns_open, 60);
    drop(server);
    driver.until(|so_far| so_far.failures.lost_held.total() == 60);
    let whole = driver.end();
    assert!(whole.ok >= 60 && whole.connections.held_end == 0, "{whole:?}");
    for class in classes(&whole.failures.lost_held).keys() {
        // A heartbeat may be on its way when the server ends.
        let by_peer =
            [ErrorClass::ClosedByPeer, ErrorClass::ResetByPeer, ErrorClass::KeepaliveRace];
        assert!(by_peer.contains(class), "{class:?}");
    }
}

// ---- the end

#[test]
fn a_stop_answers_what_is_still_being_done() {
    let server = ScriptedServer::start();
    let hold = HoldPlan { connections_per_s: 10.0, ..PLAIN };
    let mut driver = Driver::start(plan(server.address(), hold));
    let ids = [driver.steer(ramp(2000)), driver.steer(sweep(PATIENCE)), driver.steer(ramp(1500))];
    driver.until(|so_far| so_far.connections.opened >= 1);
    let whole = driver.end_expecting(&ids);
    assert!(whole.connections.opened < 1500);
}

#[test]
fn a_steer_after_the_stop_does_not_hang() {
    let server = ScriptedServer::start();
    let mut driver = Driver::start(plan(server.address(), PLAIN));
    driver.steer_and_wait(ramp(5));
    driver.stop_now();
    driver.steer(ramp(1000));
    assert_eq!(driver.end().connections.opened, 5);
}

#[test]
fn steering_another_kind_of_load_does_nothing() {
    let mut server = ScriptedServer::start();
    let pacing = Pacing::Closed { duration: None, ops_total: Some(1) };
    let plan = LoadPlan { pacing, threads: 1, connections: 1, ..plan(server.address(), PLAIN) };
    let mut driver = Driver::start(plan);
    server.accept(1);
    server.read_request(0);
    driver.steer_and_wait(ramp(1000));
    server.answer(0);
    let whole = driver.end();
    assert_eq!((whole.ok, whole.connections.opened), (1, 1));
}
