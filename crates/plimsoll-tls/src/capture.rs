//! Captures the traffic secrets of a TLS 1.3 handshake, which rustls gives only to its key log.

use std::cell::Cell;

use rustls::KeyLog;

use crate::suite::{SECRET_BYTES, Secret};

thread_local! {
    /// rustls calls the key log on the thread that drives the handshake, so that what is here
    /// after a call belongs to the connection that was called.
    static CAUGHT: Cell<Captured> = const { Cell::new(Captured { client: None, server: None }) };
}

/// The first traffic secrets of one connection.
#[derive(Clone, Default)]
pub(crate) struct Captured {
    pub(crate) client: Option<Secret>,
    pub(crate) server: Option<Secret>,
}

impl Captured {
    /// Takes the secrets caught on this thread since the last call.
    pub(crate) fn take() -> Self {
        CAUGHT.take()
    }

    /// Adds what `other` has.
    pub(crate) fn merge(&mut self, other: Self) {
        self.client = other.client.or_else(|| self.client.take());
        self.server = other.server.or_else(|| self.server.take());
    }
}

/// The key log of every configuration whose connections are made compact.
#[derive(Debug)]
pub(crate) struct SecretSink;

const CLIENT: &str = "CLIENT_TRAFFIC_SECRET_0";
const SERVER: &str = "SERVER_TRAFFIC_SECRET_0";

impl KeyLog for SecretSink {
    fn log(&self, label: &str, _client_random: &[u8], secret: &[u8]) {
        let mut bytes = [0; SECRET_BYTES];
        let Some(place) = bytes.get_mut(..secret.len()) else { return };
        place.copy_from_slice(secret);
        let mut caught = CAUGHT.take();
        match label {
            CLIENT => caught.client = Some(Secret(bytes)),
            SERVER => caught.server = Some(Secret(bytes)),
            _ => {}
        }
        CAUGHT.set(caught);
    }

    fn will_log(&self, label: &str) -> bool {
        label == CLIENT || label == SERVER
    }
}
