//! Parameters that a handshake agreed on.

use rustls::{HandshakeKind as Kind, NamedGroup, ProtocolVersion};

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

/// Parameters of a finished handshake; the names are those of the IANA registries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The origin of the keys.
    pub kind: HandshakeKind,
    /// The server asked for another key share: one more round trip.
    pub retried: bool,
    /// `TLS 1.2` or `TLS 1.3`.
    pub version: &'static str,
    /// The cipher suite, such as `TLS13_AES_256_GCM_SHA384`.
    pub suite: &'static str,
    /// The key-exchange group, such as `X25519`; none where a TLS 1.2 session was resumed.
    pub group: Option<&'static str>,
    /// HTTP/2 was chosen by ALPN.
    pub is_http2: bool,
    /// The server's certificate has an RSA key; `false` where we are the server.
    pub is_rsa: bool,
}

/// The name of HTTP/2 in ALPN.
pub(crate) const HTTP2: &[u8] = b"h2";

/// Groups that can be agreed on; a compact connection keeps the place in here.
const GROUPS: [NamedGroup; 4] =
    [NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1, NamedGroup::X25519MLKEM768];
const NO_GROUP: u8 = u8::MAX;

/// The place of `group` among those that a compact connection can name.
pub(crate) fn group_index(group: Option<NamedGroup>) -> u8 {
    let place = GROUPS.iter().position(|known| Some(*known) == group);
    place.map_or(NO_GROUP, |place| place as u8)
}

/// Reports whether the server of a client's connection has shown a certificate with an RSA key.
pub(crate) fn is_rsa(connection: &rustls::Connection) -> bool {
    let is_client = matches!(connection, rustls::Connection::Client(_));
    let chain = connection.peer_certificates().filter(|_| is_client);
    chain.and_then(<[_]>::first).is_some_and(|leaf| has_rsa_key(leaf))
}

impl Handshake {
    /// Reads those of a connection that rustls still has; `None` until its handshake is done.
    pub(crate) fn of_rustls(connection: &rustls::Connection) -> Option<Self> {
        if connection.is_handshaking() {
            return None;
        }
        let (kind, retried) = match connection.handshake_kind()? {
            Kind::Full => (HandshakeKind::Full, false),
            Kind::FullWithHelloRetryRequest => (HandshakeKind::Full, true),
            Kind::Resumed => (HandshakeKind::Resumed, false),
        };
        let version = match connection.protocol_version()? {
            ProtocolVersion::TLSv1_2 => "TLS 1.2",
            _ => "TLS 1.3",
        };
        let suite = connection.negotiated_cipher_suite()?.suite().as_str().unwrap_or("unknown");
        let group = connection.negotiated_key_exchange_group();
        let group = group.and_then(|group| group.name().as_str());
        let is_http2 = connection.alpn_protocol() == Some(HTTP2);
        let is_rsa = is_rsa(connection);
        Some(Self { kind, retried, version, suite, group, is_http2, is_rsa })
    }

    pub(crate) fn of(compact: &Compact) -> Self {
        let suite = compact.suite;
        let resumed = compact.flags.has(Flags::RESUMED);
        Self {
            kind: if resumed { HandshakeKind::Resumed } else { HandshakeKind::Full },
            retried: compact.flags.has(Flags::RETRIED),
            version: if suite.is_tls13() { "TLS 1.3" } else { "TLS 1.2" },
            suite: suite.name(),
            is_http2: compact.flags.has(Flags::HTTP2),
            is_rsa: compact.flags.has(Flags::RSA),
            group: GROUPS.get(usize::from(compact.group)).and_then(|group| group.as_str()),
        }
    }
}
