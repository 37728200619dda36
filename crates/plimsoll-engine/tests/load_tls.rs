//! The client role over TLS against a blocking server of the same TLS, in every mixture of states:
//! what is kept of a connection changes no count.
#![expect(clippy::disallowed_methods, reason = "the peer is made of plain blocking sockets")]
#![expect(clippy::unwrap_used, reason = "a failure to set a test up is a failed test")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use plimsoll_engine::load::{Load, LoadEvent};
use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{
    Destination, LoadPlan, Pacing, ServerName, TlsOptions, TlsState, Trust,
};
use plimsoll_model::tally::Tally;
use plimsoll_model::target::Target;
use plimsoll_sys::clock;
use plimsoll_tls::{KeyKind, ServerContext, Workbench};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";

fn plan(address: SocketAddr, tls: TlsOptions) -> LoadPlan {
    let url = format!("https://{address}/ping").parse().unwrap();
    LoadPlan {
        targets: vec![Target { method: "GET".into(), url, headers: vec![], body: vec![] }],
        target_destination: vec![0],
        destinations: vec![Destination {
            name: address.to_string(),
            addresses: vec![address],
            tls: Some(ServerName("localhost".to_owned())),
        }],
        pacing: Pacing::Closed { duration: None, ops_total: Some(100) },
        connections: 8,
        keepalive: true,
        handshake_only: false,
        requests_per_connection: None,
        staggered: false,
        session: None,
        prewarm: true,
        deadline: None,
        linger: Nanos::from_secs(5),
        connect_timeout: Nanos::from_secs(5),
        tls,
        sources: vec![],
        threads: 2,
        cpus: vec![],
        seed: 1,
        shard: Shard::WHOLE,
        abort_bad_ops: None,
    }
}

/// Runs the load to its end; checks the sum.
fn run(plan: LoadPlan) -> Tally {
    let mut load = Load::prepare(plan).unwrap();
    let mut whole = Tally::default();
    while let Some(event) = load.next_event() {
        match event {
            LoadEvent::Ready { .. } => load.start(Nanos(clock::monotonic_ns())),
            LoadEvent::Interval(interval) => whole.merge_following(&interval.tally),
            LoadEvent::Steered { .. } | LoadEvent::Draining { .. } | LoadEvent::Ended { .. } => {}
        }
    }
    assert!(
        whole.balances(),
        "scheduled {} != ok {} + errors {} + unsent {}",
        whole.scheduled,
        whole.ok,
        whole.errors_total(),
        whole.unsent
    );
    whole
}

/// Answers each request over TLS, one read at a time.
fn serve_tls(mut stream: TcpStream, context: &ServerContext) -> Option<()> {
    let mut bench = Workbench::new(8);
    let mut session = context.session().ok()?;
    let (mut buffer, mut plaintext, mut wire) = ([0; 4096], Vec::new(), Vec::new());
    loop {
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        session.handle_ciphertext(&mut bench, &buffer[..count], &mut plaintext).ok()?;
        if plaintext.ends_with(b"\r\n\r\n") {
            plaintext.clear();
            session.write_plaintext(&mut bench, OK, &mut wire).ok()?;
        }
        session.poll_transmit(&mut bench, &mut wire);
        stream.write_all(&wire).ok()?;
        wire.clear();
    }
}

/// Serves until the process ends: the test is short.
fn start_server(context: ServerContext) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let context = context.clone();
            std::thread::spawn(move || serve_tls(stream, &context));
        }
    });
    address
}

#[test]
fn tls_loads_count_the_same_in_every_state() {
    let names = ["localhost".to_owned()];
    let identity = plimsoll_tls::self_signed(&names, KeyKind::EcdsaP256).unwrap();
    let trust = Trust::Roots(identity.chain_pem.clone());
    for (server_state, state) in [
        (TlsState::Compact, TlsState::Compact),
        (TlsState::Compact, TlsState::Rustls),
        (TlsState::Rustls, TlsState::Compact),
    ] {
        let context = ServerContext::new(&identity, server_state).unwrap();
        let address = start_server(context);
        for (keepalive, resume_ratio) in [(true, 0.0), (true, 1.0), (false, 0.0)] {
            let tls =
                TlsOptions { trust: trust.clone(), state, resume_ratio, ..TlsOptions::default() };
            let mut plan = LoadPlan { keepalive, ..plan(address, tls) };
            plan.prewarm = keepalive;
            let tally = run(plan);
            assert_eq!((tally.ok, tally.errors_total()), (100, 0));
            let handshakes = tally.handshakes.full + tally.handshakes.resumed;
            assert_eq!(handshakes, tally.connections.opened);
            if keepalive {
                // Two come with each handshake, and all connections have had answers behind them.
                assert_eq!(tally.tls_messages.tickets, 2 * handshakes, "{state:?}");
            }
            assert_eq!(tally.tls_messages.key_updates_received, 0);
        }
    }
}

#[test]
fn a_pool_that_nobody_answers_is_given_up_after_one_wait() {
    // Connections come as far as its queue, and no handshake is answered.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let tls = TlsOptions { trust: Trust::Insecure, ..TlsOptions::default() };
    let mut load = Load::prepare(LoadPlan {
        pacing: Pacing::Closed { duration: None, ops_total: Some(1) },
        connections: 200,
        connect_timeout: Nanos::from_millis(50),
        threads: 1,
        ..plan(listener.local_addr().unwrap(), tls)
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
