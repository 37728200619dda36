//! Parameters that a handshake agreed on.

use rustls::{HandshakeKind as Kind, ProtocolVersion};

use crate::compact::{Compact, Flags};
use crate::diagnosis::has_rsa_key;

/// The origin of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// With certificates and a signature.
    Full,
    /// From a ticket of an earlier session.
    Resumed,
}

/// Parameters of a finished handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The origin of the keys.
    pub kind: HandshakeKind,
    /// TLS 1.3, and not 1.2.
    pub is_tls13: bool,
    /// HTTP/2 was chosen by ALPN.
    pub is_http2: bool,
    /// The server's certificate has an RSA key; `false` if we are the server.
    pub is_rsa: bool,
}

/// The name of HTTP/2 in ALPN.
pub(crate) const HTTP2: &[u8] = b"h2";

/// Reports whether the server of a client's connection has shown a certificate with an RSA key.
pub(crate) fn is_rsa(connection: &rustls::Connection) -> bool {
    let is_client = matches!(connection, rustls::Connection::Client(_));
    let chain = connection.peer_certificates().filter(|_| is_client);
    chain.and_then(<[_]>::first).is_some_and(|leaf| has_rsa_key(leaf))
}

impl Handshake {
    /// Reads the parameters of a connection that rustls still has; `None` until its handshake is done.
    pub(crate) fn of_rustls(connection: &rustls::Connection) -> Option<Self> {
        if connection.is_handshaking() {
            return None;
        }
        let kind = match connection.handshake_kind()? {
            Kind::Full | Kind::FullWithHelloRetryRequest => HandshakeKind::Full,
            Kind::Resumed => HandshakeKind::Resumed,
        };
        let is_tls13 = connection.protocol_version()? == ProtocolVersion::TLSv1_3;
        let is_http2 = connection.alpn_protocol() == Some(HTTP2);
        Some(Self { kind, is_tls13, is_http2, is_rsa: is_rsa(connection) })
    }

    pub(crate) const fn of(compact: &Compact) -> Self {
        let resumed = compact.flags.has(Flags::RESUMED);
        Self {
            kind: if resumed { HandshakeKind::Resumed } else { HandshakeKind::Full },
            is_tls13: compact.suite.is_tls13(),
            is_http2: compact.flags.has(Flags::HTTP2),
            is_rsa: compact.flags.has(Flags::RSA),
        }
    }
}
