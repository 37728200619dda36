//! The engine's own server, on one thread.

use std::net::SocketAddr;

use plimsoll_engine::server;
use plimsoll_engine::server::{Answer, Body, ServerHandle, Service};
use plimsoll_model::Nanos;
use plimsoll_model::plan::{DeliveryFaults, Listener, ServePlan, Spoken, TlsState};
use plimsoll_proto::http1::Request;

/// Answers everything at once.
struct Pong;

impl Service for Pong {
    type Notes = ();

    const PATTERN: &'static [u8] = b"pong";

    fn handle_header(&mut self, _notes: &mut (), _name: &str, _value: &[u8]) {}

    fn handle_request(&mut self, _notes: &(), _request: &Request) -> Answer {
        Answer::Body(Body {
            delay: Nanos::ZERO,
            piece_bytes: 4,
            pieces_further: 0,
            chunked: false,
            token: 0,
            push_every_ms: 0,
        })
    }

    fn next_delay(&mut self, _token: u64) -> Nanos {
        Nanos::ZERO
    }
}

/// Starts a server; its address is in the handle, too. Dropping that stops it.
pub(crate) fn serve(tls: bool) -> (ServerHandle, SocketAddr) {
    let names = ["localhost".to_owned()];
    let identity = plimsoll_tls::self_signed(&names, plimsoll_tls::KeyKind::EcdsaP256).unwrap();
    let plan = ServePlan {
        listeners: vec![Listener {
            address: "127.0.0.1:0".parse().unwrap(),
            tls,
            spoken: Spoken::Http,
        }],
        identity: Some(identity),
        ticket_key: None,
        tls_state: TlsState::Compact,
        threads: 1,
        cpus: vec![],
        statsd: None,
        seed: 0,
        request_timeout: Nanos::from_secs(60),
        idle_timeout: Nanos::from_secs(60),
        acknowledgement_delay: Nanos::ZERO,
        receive_maximum: u16::MAX,
        delivery_faults: DeliveryFaults::default(),
        accept_proxy: false,
    };
    let handle = server::start(&plan, |_| Pong).unwrap();
    let address = handle.addresses()[0].address;
    (handle, address)
}
