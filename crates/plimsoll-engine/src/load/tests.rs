//! Tests of a worker that no peer can bring about.

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_model::ErrorClass;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{ClientIds, HoldPlan, MqttPlan, Pacing, ServerName, Steer, Trust};
use plimsoll_model::target::{MqttVersion, Protocol, Publish, Qos};
use plimsoll_model::units::Rate;
use plimsoll_sys::socket::{ListenSocket, Socket};
use plimsoll_sys::{Errno, clock};
use plimsoll_tls::{KeyKind, ServerContext, Session, ThreadContext};

use super::conn::{Op, State};
use super::control::Stop;
use super::origin::tests::{CLOSED, plan};
use super::*;
use crate::pump::Unsent;

/// A worker, and the server that it opens connections to and that says nothing. In an open loop
/// each operation has its own connection.
fn worker(pacing: Pacing, connections: u64) -> (Worker, ListenSocket) {
    let server = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 4096).unwrap();
    let address = server.local_address().unwrap();
    let keepalive = matches!(pacing, Pacing::Closed { .. });
    let plan = LoadPlan { keepalive, ..plan(pacing, connections, &[&[address]]) };
    let (events, _) = mpsc::channel();
    let worker = Worker::new(Arc::new(plan), 0, None, Arc::new(Control::new()), events).unwrap();
    (worker, server)
}

/// `ops` operations in `ms`.
fn open(ops: u64, ms: u64) -> Pacing {
    let rate = Rate::per_second(ops as f64 * 1000.0 / ms as f64).unwrap();
    let profile = Profile::constant(rate, Nanos::from_millis(ms));
    Pacing::Open { profile, arrivals: Arrivals::Uniform }
}

/// The worker's schedule begins at `epoch`.
fn begin(worker: &mut Worker, epoch: Nanos) {
    worker.phases.start(epoch, None);
    worker.advance_schedule();
}

fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}

#[test]
fn a_connection_has_a_timer_after_its_lazy_one_was_lost_with_the_wheel() {
    let (mut worker, _server) = worker(CLOSED, 1);
    let began = now();
    worker.open(0, None, began);
    worker.handle_connected(0, began);
    // The timer of an answer that has come.
    worker.conns.arm(0, began + Nanos::from_secs(1));
    let tomorrow = began + Nanos::from_secs(24 * 3600 + 1);
    worker.renew_timers(tomorrow);
    assert_eq!(worker.conns.timers(), 0);
    worker.send_op(
        0,
        Op { intended: tomorrow, target: 0, is_recorded: false, again: 0 },
        tomorrow,
        tomorrow,
    );
    assert_eq!(worker.conns[0].state, State::Busy);
    assert_eq!(worker.conns.timers(), 1);
}

#[test]
fn a_request_of_a_sweep_takes_the_place_of_one_heartbeat() {
    let period = Nanos::from_secs(10);
    let plan = HoldPlan {
        connections_per_s: 1e6,
        opening_max: 1,
        heartbeat: Some(period),
        replace: false,
    };
    let (mut worker, _server) = worker(Pacing::Hold(plan), 1);
    let began = now();
    begin(&mut worker, began);
    worker.demand.hold_mut().unwrap().start(began);
    worker.handle_steer(1, Steer::Ramp { connections: 1 }, began);
    worker.advance_hold(began + Nanos::from_millis(1));
    worker.handle_connected(0, began);
    worker.handle_steer(2, Steer::Sweep { over: Nanos::ZERO }, began + Nanos::from_secs(2));
    assert_eq!(worker.conns[0].state, State::Busy);
    for unsent in 0..3 {
        let due = worker.conns[0].beat_due;
        worker.beat(0, due);
        let tally = worker.meter.tally();
        assert_eq!((tally.scheduled, tally.unsent), (1 + unsent, unsent));
    }
}

#[test]
fn operations_of_a_backlog_are_late_by_when_they_are_sent() {
    let (mut worker, _server) = worker(open(1000, 1), 1000);
    let began = now();
    let epoch = Nanos(began.0 - 2_000_000);
    begin(&mut worker, epoch);
    worker.start_due(began);
    let lag = &worker.meter.tally().spans.send_lag;
    assert_eq!(lag.count(), 1000);
    // By the first instant none is later than 2 ms; a thousand sockets take longer than that.
    assert!(lag.max() > Some(Nanos::from_millis(3)), "{:?}", lag.max());
}

#[test]
fn a_worker_without_a_poller_accounts_for_every_operation() {
    let (mut worker, _server) = worker(open(100, 1000), 10);
    let began = now();
    begin(&mut worker, Nanos(began.0 - 200_000_000));
    worker.start_due(began);
    assert!(worker.pools.outstanding() > 0);
    worker.give_up(Errno::PERM);
    let tally = &worker.meter.tally();
    assert!(tally.balances() && tally.scheduled == 100, "{tally:?}");
    assert_eq!(tally.failures.operations.get(ErrorClass::LocalOther), tally.errors_total());
    assert_eq!(worker.pools.outstanding(), 0);
}

#[test]
fn a_sent_publish_does_not_end_the_connection_after_its_own() {
    const CONNACK: &[u8] = b"\x20\x02\0\0";
    let server = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    let pacing = Pacing::Closed { duration: None, ops_total: Some(3) };
    let mut plan = plan(pacing, 1, &[&[server.local_address().unwrap()]]);
    let publish = Publish { topic: "t".to_owned(), qos: Qos::AtMostOnce, retain: false };
    plan.targets[0].url.protocol = Protocol::Mqtt;
    plan.targets[0].publish = Some(publish);
    plan.mqtt = Some(MqttPlan {
        version: MqttVersion::V3_1_1,
        client_ids: ClientIds::Prefix("c".to_owned()),
        users: [].into(),
        keep_alive_s: 0,
        resumes_session: false,
        session_expiry_s: None,
        in_flight: 2,
        will: None,
        subscribe: None,
        deliveries: None,
    });
    plan.requests_per_connection = Some(1);
    let (events, _events) = mpsc::channel();
    let control = Arc::new(Control::new());
    let mut worker = Worker::new(Arc::new(plan), 0, None, control, events).unwrap();
    let began = now();
    worker.open(0, None, began);
    let greet = |worker: &mut Worker| {
        if worker.conns[0].state == State::Connecting {
            worker.handle_connected(0, began);
        }
        assert_eq!(worker.conns[0].state, State::Greeting);
        worker.handle_bytes(0, CONNACK, began);
    };
    greet(&mut worker);
    begin(&mut worker, began);
    worker.start_due(began);
    worker.flush_streams(began);
    // The first one is all that its connection may carry, and the second has left on it, too.
    assert_eq!(worker.later.unanswered.len(), 2);
    worker.end_unanswered(began);
    assert!(!worker.conns[0].reused);
    greet(&mut worker);
    worker.flush_streams(began);
    worker.end_unanswered(began);
    assert_eq!((worker.meter.tally().ok, worker.pools.outstanding()), (3, 0));
}

#[test]
fn threads_that_were_started_end_when_a_later_one_cannot_be() {
    let control = Arc::new(Control::new());
    let ended = Arc::new(AtomicBool::new(false));
    let threads = start_threads(2, &control, |index| {
        let (control, ended) = (Arc::clone(&control), Arc::clone(&ended));
        if index == 1 {
            return Err(Errno::AGAIN.into());
        }
        thread::spawn("load-0", None, move || {
            while control.asked_to_stop(now()) != Stop::Now {
                std::thread::yield_now();
            }
            ended.store(true, Ordering::Release);
        })
    });
    assert!(threads.is_err());
    assert!(ended.load(Ordering::Acquire));
}

// ---- closing over TLS

/// A worker with one idle connection of `connections` over TLS, and the server's end of it.
fn over_tls(connections: u64) -> (Worker, Socket, Session) {
    let identity = plimsoll_tls::self_signed(&["server".into()], KeyKind::EcdsaP256).unwrap();
    let options = TlsOptions { trust: Trust::Insecure, ..TlsOptions::default() };
    let client = ClientContext::new(&options).unwrap();
    let mut client = client.session(&ServerName("server".into()), false).unwrap();
    let server = ServerContext::new(&identity, TlsState::Compact).unwrap();
    let mut server = server.session().unwrap();
    let (mut thread, mut wire) = (ThreadContext::new(1), Vec::new());
    while client.poll_transmit(&mut thread, &mut wire) > 0 {
        server.handle_ciphertext(&mut thread, &wire, &mut Vec::new()).unwrap();
        wire.clear();
        server.poll_transmit(&mut thread, &mut wire);
        client.handle_ciphertext(&mut thread, &wire, &mut Vec::new()).unwrap();
        wire.clear();
    }
    let (mut worker, listener) = worker(CLOSED, connections);
    worker.open(0, None, now());
    worker.handle_connected(0, now());
    worker.conns.slab.tls.set(0, client);
    (worker, accept(&listener), server)
}

fn accept(listener: &ListenSocket) -> Socket {
    loop {
        match listener.accept() {
            Err(Errno::AGAIN) => std::thread::yield_now(),
            accepted => return accepted.unwrap(),
        }
    }
}

/// Everything until the end of the stream.
fn read_to_end(socket: &Socket) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 100]);
    loop {
        match socket.recv(&mut buffer) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(Errno::AGAIN) => std::thread::yield_now(),
            Err(errno) => panic!("{errno}"),
        }
    }
}

#[test]
fn no_close_notify_follows_half_a_record() {
    for (unsent, is_said) in [(&[][..], true), (&[0; 100], false)] {
        let (mut worker, socket, mut server) = over_tls(1);
        worker.conns.slab.cold[0].unsent = Unsent::new(unsent);
        worker.close(0, false);
        let received = read_to_end(&socket);
        assert_eq!(!received.is_empty(), is_said);
        server.handle_ciphertext(&mut ThreadContext::new(1), &received, &mut Vec::new()).unwrap();
        assert_eq!(server.has_peer_closed(), is_said);
    }
}

#[test]
fn a_close_notify_is_not_the_peers_fin() {
    for sends_fin in [false, true] {
        // Enough connections for the load to own its ports.
        let (mut worker, socket, mut server) = over_tls(20_000);
        let mut wire = Vec::new();
        server.queue_close_notify();
        server.poll_transmit(&mut ThreadContext::new(1), &mut wire);
        socket.send(&wire).unwrap();
        if sends_fin {
            socket.shutdown_write().unwrap();
        }
        // Our FIN is the first unless theirs is here: then the port is in TIME_WAIT.
        loop {
            worker.conns.transport.wait(Nanos::from_secs(20)).unwrap();
            let ready = worker.conns.transport.next_ready().unwrap();
            if ready.is_readable() && ready.is_closing() == sends_fin {
                break worker.handle_ready(0, ready, now());
            }
        }
        assert_eq!(worker.conns[0].state, State::Free);
        assert_eq!(worker.conns.transport.time_wait(), u32::from(!sends_fin));
    }
}
