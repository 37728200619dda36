//! The program under test.

use std::path::PathBuf;

use plimsoll_model::SutKind;
use plimsoll_tls::KeyKind;

/// The server under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sut {
    /// Kind of the server.
    pub kind: SutKind,
    /// The program's file; unused for plimsoll's own server.
    pub program: PathBuf,
}

impl Sut {
    /// Returns plimsoll's own server, which answers requests itself.
    pub fn embedded() -> Self {
        Self { kind: SutKind::Embedded, program: PathBuf::new() }
    }

    /// A SUT whose program another host looks up.
    pub fn elsewhere(kind: SutKind) -> Self {
        Self { kind, program: kind.name().into() }
    }

    /// Returns the key of the certificate of a SUT whose rate is searched.
    ///
    /// Our own server costs what our own client costs, request for request (6.7 us each over TLS,
    /// see docs/journal), so that on one core each the client would be the limit. An RSA handshake
    /// costs the server twice what it costs the client; proxies need no such help.
    pub const fn key_kind(&self) -> KeyKind {
        if self.kind.is_embedded() { KeyKind::Rsa2048 } else { KeyKind::EcdsaP256 }
    }
}
