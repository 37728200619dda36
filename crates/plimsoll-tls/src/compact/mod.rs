//! A TLS connection after its handshake, as small as it gets: secrets, sequence numbers, flags.
//!
//! Everything that rustls does for a connection after the handshake is done here instead, by RFC
//! 8446 and RFC 5246. Where these leave a choice, ours is rustls's, so that both give the same
//! bytes; where rustls is laxer, the RFC is followed.

mod messages;
mod receive;
mod send;

use rustls::AlertDescription;

use crate::TlsError;
use crate::record::Fault;
use crate::suite::{Material, Secret, Suite};

pub(crate) use messages::{MessageReader, Side};

/// Levels of alerts.
const WARNING: u8 = 1;
const FATAL: u8 = 2;

/// One direction of a connection.
#[derive(Clone)]
pub(crate) struct Direction {
    pub(crate) secret: Secret,
    /// Number of the next record under this secret.
    pub(crate) sequence: u64,
}

/// Facts about a connection, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags(u16);

impl Flags {
    /// We are the server.
    pub(crate) const SERVER: Self = Self(1);
    /// The secrets are keys, so that no KeyUpdate is possible: always so in TLS 1.2.
    pub(crate) const GIVEN_KEYS: Self = Self(1 << 1);
    /// The handshake was a resumption.
    pub(crate) const RESUMED: Self = Self(1 << 2);
    /// The peer sends nothing more.
    pub(crate) const PEER_CLOSED: Self = Self(1 << 3);
    /// A fault was found; nothing works any more but sending the alert about it.
    pub(crate) const FAILED: Self = Self(1 << 4);
    /// A close_notify is to be sent.
    pub(crate) const CLOSE_DUE: Self = Self(1 << 5);
    /// A close_notify or a fatal alert was sent or is to be sent: nothing may follow it.
    pub(crate) const ENDED: Self = Self(1 << 6);
    /// The peer has asked for a KeyUpdate, which goes out in front of the next record.
    pub(crate) const KEY_UPDATE_DUE: Self = Self(1 << 7);
    /// A refusal to renegotiate (TLS 1.2) is to be sent.
    pub(crate) const REFUSAL_DUE: Self = Self(1 << 8);
    /// Renegotiation was refused once.
    pub(crate) const REFUSED: Self = Self(1 << 9);
    /// HTTP/2 was chosen by ALPN.
    pub(crate) const HTTP2: Self = Self(1 << 10);
    /// The server's certificate has an RSA key.
    pub(crate) const RSA: Self = Self(1 << 11);

    pub(crate) const fn has(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    pub(crate) const fn set(&mut self, flags: Self) {
        self.0 |= flags.0;
    }

    pub(crate) const fn clear(&mut self, flags: Self) {
        self.0 &= !flags.0;
    }
}

/// A connection whose handshake is done.
#[derive(Clone)]
pub(crate) struct Compact {
    // ---- 112 bytes: secrets
    pub(crate) rx: Direction,
    pub(crate) tx: Direction,
    // ---- 5 bytes: the rest
    pub(crate) flags: Flags,
    pub(crate) suite: Suite,
    /// The fatal alert to be sent; 0 is none, because close_notify has a flag.
    alert: u8,
    /// Records since the last one with data; bounds the CPU that a peer can use up with empty ones.
    without_data: u8,
}

const _: () = assert!(size_of::<Compact>() == 120 && size_of::<Option<Compact>>() == 120);

impl Compact {
    pub(crate) const fn new(suite: Suite, flags: Flags, rx: Direction, tx: Direction) -> Self {
        Self { rx, tx, flags, suite, alert: 0, without_data: 0 }
    }

    /// Reports whether [`Self::transmit`] has anything to give.
    pub(crate) const fn wants_transmit(&self) -> bool {
        self.alert != 0 || self.flags.has(Flags(Flags::CLOSE_DUE.0 | Flags::REFUSAL_DUE.0))
    }

    pub(crate) const fn material(&self) -> Material {
        if self.flags.has(Flags::GIVEN_KEYS) { Material::Key } else { Material::TrafficSecret }
    }

    const fn side(&self) -> Side {
        if self.flags.has(Flags::SERVER) { Side::Server } else { Side::Client }
    }

    /// Ends the connection for `fault`, and sends the peer its alert.
    fn fail(&mut self, fault: Fault) -> TlsError {
        self.flags.set(Flags::FAILED);
        if !self.flags.has(Flags::ENDED) {
            self.flags.set(Flags::ENDED);
            self.alert = u8::from(fault.alert);
        }
        TlsError::Record { reason: fault.reason.to_owned() }
    }

    /// Replaces a traffic secret by the next one.
    fn update(&mut self, direction: fn(&mut Self) -> &mut Direction) -> Result<(), Fault> {
        let suite = self.suite;
        let material = self.material();
        let direction = direction(self);
        match (material, suite.next_secret(&direction.secret)) {
            (Material::TrafficSecret, Ok(secret)) => {
                *direction = Direction { secret, sequence: 0 };
                Ok(())
            }
            _ => Err(Fault {
                alert: AlertDescription::InternalError,
                reason: "a KeyUpdate came for keys whose traffic secret is not known here",
            }),
        }
    }
}
