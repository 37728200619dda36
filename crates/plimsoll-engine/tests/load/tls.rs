//! The client role over TLS against a blocking server of the same TLS, in every mixture of states:
//! what is kept of a connection changes no count.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use plimsoll_engine::load::Load;
use plimsoll_model::event::LoadEvent;
use plimsoll_model::plan::{LoadPlan, ServerName, Timeouts, TlsOptions, TlsState, Trust};
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_sys::clock;
use plimsoll_sys::socket::Socket;
use plimsoll_tls::{KeyKind, ServerContext, ThreadContext, self_signed};

use super::scripted::{OK, PATIENT, closed, plan, run};

fn plan_tls(address: SocketAddr, tls: TlsOptions) -> LoadPlan {
    let mut plan = LoadPlan { tls, ..plan(address, closed(100)) };
    plan.destinations[0].tls = Some(ServerName("localhost".to_owned()));
    plan
}

/// Answers each request over TLS with `answer`, one read at a time, until `end` says how the
/// connection ends.
fn serve_tls(
    mut stream: TcpStream,
    context: &ServerContext,
    answer: &[u8],
    end: End,
) -> Option<()> {
    let mut thread = ThreadContext::new(8);
    let mut session = context.session().ok()?;
    let (mut buffer, mut plaintext, mut wire) = ([0; 4096], Vec::new(), Vec::new());
    let mut is_answered = false;
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        session.handle_ciphertext(&mut thread, &buffer[..count], &mut plaintext).ok()?;
        if plaintext.ends_with(b"\r\n\r\n") {
            plaintext.clear();
            if is_answered && end == End::Reset {
                let _ = Socket::from(OwnedFd::from(stream)).reset_on_close();
                return Some(());
            }
            session.write_plaintext(&mut thread, answer, &mut wire).ok()?;
            if end == End::CloseNotify {
                session.queue_close_notify();
            }
            is_answered = true;
        }
        session.poll_transmit(&mut thread, &mut wire);
        stream.write_all(&wire).ok()?;
        wire.clear();
        if is_answered && matches!(end, End::CloseNotify | End::CutOff) {
            return Some(());
        }
    }
}

/// The way in which a server ends a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Never,
    /// After the first answer, with close_notify, as TLS asks for.
    CloseNotify,
    /// After the first answer, without close_notify.
    CutOff,
    /// With a RST, which is the answer to the second request.
    Reset,
}

/// Serves until the process ends: the test is short.
fn start_server(context: ServerContext, answer: &'static [u8], end: End) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let context = context.clone();
            std::thread::spawn(move || serve_tls(stream, &context, answer, end));
        }
    });
    address
}

#[test]
fn tls_loads_count_the_same_in_every_state() {
    let names = ["localhost".to_owned()];
    for (server_state, state, key) in [
        (TlsState::Compact, TlsState::Compact, KeyKind::EcdsaP256),
        (TlsState::Compact, TlsState::Compact, KeyKind::Rsa2048),
        (TlsState::Compact, TlsState::Rustls, KeyKind::Rsa2048),
        (TlsState::Rustls, TlsState::Compact, KeyKind::EcdsaP256),
    ] {
        let identity = self_signed(&names, key).unwrap();
        let trust = Trust::Roots(identity.chain_pem.clone());
        let context = ServerContext::new(&identity, server_state).unwrap();
        let address = start_server(context, OK, End::Never);
        for (keepalive, resume_ratio) in [(true, 0.0), (true, 1.0), (false, 0.0)] {
            let tls =
                TlsOptions { trust: trust.clone(), state, resume_ratio, ..TlsOptions::default() };
            let mut plan = LoadPlan { keepalive, ..plan_tls(address, tls) };
            plan.prewarm = keepalive;
            let tally = run(plan);
            assert_eq!((tally.ok, tally.errors_total()), (100, 0));
            let handshakes = tally.handshakes.full + tally.handshakes.resumed;
            assert_eq!(handshakes, tally.connections.opened);
            let of_rsa = if key == KeyKind::Rsa2048 { tally.handshakes.full } else { 0 };
            assert_eq!(tally.handshakes.rsa, of_rsa);
            if keepalive {
                // Two come with each handshake, and all connections have had answers behind them.
                assert_eq!(tally.tls_messages.tickets, 2 * handshakes, "{state:?}");
            }
            assert_eq!(tally.tls_messages.key_updates_received, 0);
        }
    }
}

#[test]
fn a_body_that_runs_until_the_end_needs_a_close_notify() {
    const UNTIL_THE_END: &[u8] = b"HTTP/1.1 200 OK\r\n\r\nsome bytes, and perhaps more";
    let identity = self_signed(&["localhost".to_owned()], KeyKind::EcdsaP256).unwrap();
    let context = ServerContext::new(&identity, TlsState::Compact).unwrap();
    for (end, ok, cut_off) in [(End::CloseNotify, 20, 0), (End::CutOff, 0, 20)] {
        let address = start_server(context.clone(), UNTIL_THE_END, end);
        for state in [TlsState::Compact, TlsState::Rustls] {
            let tls = TlsOptions { trust: Trust::Insecure, state, ..TlsOptions::default() };
            let plan = plan_tls(address, tls);
            let tally = run(LoadPlan { keepalive: false, pacing: closed(20), ..plan });
            let errors = tally.failures.operations.get(ErrorClass::ClosedByPeer);
            assert_eq!((tally.ok, errors, tally.errors_total()), (ok, cut_off, cut_off));
        }
    }
}

#[test]
fn a_reset_before_the_next_answer_is_a_keepalive_race() {
    let identity = self_signed(&["localhost".to_owned()], KeyKind::EcdsaP256).unwrap();
    let context = ServerContext::new(&identity, TlsState::Compact).unwrap();
    let address = start_server(context, OK, End::Reset);
    for state in [TlsState::Compact, TlsState::Rustls] {
        let tls = TlsOptions { trust: Trust::Insecure, state, ..TlsOptions::default() };
        let plan = LoadPlan { connections: 1, threads: 1, ..plan_tls(address, tls) };
        let tally = run(LoadPlan { pacing: closed(20), ..plan });
        let races = tally.failures.operations.get(ErrorClass::KeepaliveRace);
        assert_eq!(
            (tally.ok, races, tally.errors_total()),
            (10, 10, 10),
            "{:?}",
            tally.failures.operations
        );
    }
}

#[test]
fn a_pool_that_nobody_answers_is_given_up_after_one_wait() {
    // Connections come as far as its queue, and no handshake is answered.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tls = TlsOptions { trust: Trust::Insecure, ..TlsOptions::default() };
    let mut load = Load::prepare(LoadPlan {
        pacing: closed(1),
        connections: 200,
        timeouts: Timeouts { connect: Nanos::from_millis(50), ..PATIENT },
        threads: 1,
        ..plan_tls(listener.local_addr().unwrap(), tls)
    })
    .unwrap();
    let mut pool = None;
    while let Some(event) = load.next_event() {
        if let LoadEvent::Ready { opened, failed, .. } = event {
            pool = Some((opened, failed));
            load.start(Nanos(clock::monotonic_ns()));
        }
    }
    // Those that are opened at once, and none after them.
    assert_eq!(pool, Some((0, 32)));
}
