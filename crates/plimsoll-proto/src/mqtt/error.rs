//! Why a connection is of no more use.

use plimsoll_model::ErrorClass;
use plimsoll_model::reason::MqttPacket;
use plimsoll_model::target::{MqttVersion, Qos};
use thiserror::Error;

use super::reason::reason_name;
use crate::READS_NO_ANSWERS;

/// Fault of a packet that answers nothing.
pub(super) const UNASKED: &str = "a packet that nothing asked for";
/// Fault of a packet that nothing is open for.
pub(super) const NOT_SENT: &str = "an acknowledgement of a packet that was not sent";

/// A result that fails as an MQTT connection does.
pub(super) type Result<T, E = MqttError> = std::result::Result<T, E>;

/// Why the connection is of no more use.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MqttError {
    /// The answer to CONNECT is a refusal.
    #[error("the broker refuses the connection: {}, reason {code:#04x}", reason_name(*.version, *.code))]
    Refused {
        /// The version of the answer.
        version: MqttVersion,
        /// CONNACK's.
        code: u8,
    },
    /// The plan breaks a limit that the broker states.
    #[error("{0}")]
    Limit(Limit),
    /// The answer to SUBSCRIBE is a refusal.
    #[error("the broker refuses the subscription: {}, reason {code:#04x}", reason_name(MqttVersion::V5, *.code))]
    NotSubscribed {
        /// SUBACK's.
        code: u8,
    },
    /// The broker says why it closes (MQTT 5).
    #[error("the broker disconnects: {}, reason {code:#04x}", reason_name(MqttVersion::V5, *.code))]
    Disconnected {
        /// DISCONNECT's.
        code: u8,
    },
    /// The broker does not read the acknowledgements of what it delivers.
    #[error("{}", READS_NO_ANSWERS)]
    NotReading,
    /// Not MQTT, or a packet that nothing asked for.
    #[error("the answer is not valid MQTT: {what}; check that the URL's port is the broker's")]
    Malformed {
        /// The fault.
        what: &'static str,
    },
}

impl MqttError {
    /// Returns the class in which the operation ends.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Refused { .. } | Self::Limit(_) => ErrorClass::MqttRefused,
            Self::NotSubscribed { .. } => ErrorClass::MqttRejected,
            Self::Disconnected { .. } => ErrorClass::MqttDisconnected,
            Self::NotReading => ErrorClass::PeerNotReading,
            Self::Malformed { .. } => ErrorClass::MqttMalformed,
        }
    }

    /// Returns the packet in which the broker refuses, the code and its name, if it is a refusal with one.
    pub const fn refusal(&self) -> Option<(MqttPacket, u8, &'static str)> {
        let (packet, version, code) = match *self {
            Self::Refused { version, code } => (MqttPacket::Connack, version, code),
            Self::NotSubscribed { code } => (MqttPacket::Suback, MqttVersion::V5, code),
            Self::Disconnected { code } => (MqttPacket::Disconnect, MqttVersion::V5, code),
            Self::Limit(_) | Self::NotReading | Self::Malformed { .. } => return None,
        };
        Some((packet, code, reason_name(version, code)))
    }
}

/// A limit of the broker that the plan breaks.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Limit {
    /// Maximum QoS.
    #[error("the broker allows QoS {} at most; write --qos {}", *.0 as u8, *.0 as u8)]
    Qos(Qos),
    /// Retain Available.
    #[error("the broker does not retain messages; drop --retain")]
    Retain,
    /// Maximum Packet Size.
    #[error(
        "the broker allows packets of {allowed} bytes at most, and the longest one has {needed}; \
         shorten --data, --body or --topic"
    )]
    PacketBytes {
        /// The limit that the broker states.
        allowed: u32,
        /// Length of the longest packet of the plan.
        needed: u32,
    },
    /// Wildcard Subscription Available.
    #[error("the broker has no wildcard subscriptions; write a --subscribe without + and #")]
    Wildcards,
    /// Shared Subscription Available.
    #[error("the broker has no shared subscriptions; write a --subscribe without $share/")]
    Shared,
    /// Session Expiry Interval.
    #[error("the broker keeps sessions for {0} s at most; write --session-expiry {0}")]
    SessionExpiry(u32),
    /// SUBACK grants less than was asked for.
    #[error(
        "the broker grants the subscription QoS {} at most; write --subscribe-qos {}",
        *.0 as u8, *.0 as u8
    )]
    Granted(Qos),
    /// CONNACK is one of MQTT 3.1.1.
    #[error("the broker speaks MQTT 3.1.1; write --mqtt-version 3.1.1")]
    Version,
}

pub(super) const fn malformed<T>(what: &'static str) -> Result<T> {
    Err(MqttError::Malformed { what })
}

/// Returns the error of a DISCONNECT, which only brokers of version 5 send.
pub(super) fn disconnected(content: &[u8], version: MqttVersion) -> MqttError {
    match version {
        MqttVersion::V5 => {
            MqttError::Disconnected { code: content.first().copied().unwrap_or_default() }
        }
        MqttVersion::V3_1_1 => MqttError::Malformed { what: UNASKED },
    }
}
