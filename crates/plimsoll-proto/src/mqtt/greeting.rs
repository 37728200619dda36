//! The start of a connection: CONNACK with the broker's limits, then SUBACK.
//!
//! `Greeting` collects the bytes of one packet and handles it in `Greeting::end_packet`, which returns `true` when
//! the connection is usable: after CONNACK, or after SUBACK if there is a subscription. `Limits` are the properties
//! of a version 5 CONNACK; a limit below the [`Needs`] of the plan is an error, as is a SUBACK with a lower quality
//! of service. Messages before CONNACK are refused. Start reading at `Greeting::end_packet`.

use plimsoll_model::target::{MqttVersion, Qos};

use super::PACKET_ID;
use super::error::{Limit, MqttError, Result, UNASKED, disconnected, malformed};
use super::packet::{CONNACK, DISCONNECT, SUBACK, remaining_length};
use super::properties::{
    ASSIGNED_CLIENT_ID, MAXIMUM_PACKET_SIZE, MAXIMUM_QOS, Properties, RECEIVE_MAXIMUM,
    RETAIN_AVAILABLE, SERVER_KEEP_ALIVE, SESSION_EXPIRY, SHARED_AVAILABLE,
    SUBSCRIPTION_IDS_AVAILABLE, WILDCARDS_AVAILABLE, is_of_connack, is_of_suback,
};
use super::reason::FAILURE;

/// A session that never expires.
const NEVER: u32 = u32::MAX;
/// Return codes of CONNACK up to this one are MQTT 3.1.1's.
const RETURN_CODE_MAX: u8 = 5;

/// The parts of a plan that a broker may not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Quality of service of the subscription, if there is one.
    pub subscribes: Option<Qos>,
    /// Length of the longest packet behind CONNECT.
    pub packet_bytes: u32,
    /// Seconds for which sessions are to be kept without a connection.
    pub session_expiry_s: u32,
    /// Highest quality of service of a publish.
    pub qos: Qos,
    /// `true` if messages are to be retained.
    pub retain: bool,
    /// `true` if the subscription has a wildcard.
    pub has_wildcard: bool,
    /// `true` if the subscription is shared.
    pub is_shared: bool,
    /// `true` if a session is resumed.
    pub resumes_session: bool,
}

impl Needs {
    /// The needs of a plan that only pings.
    pub const NONE: Self = Self {
        subscribes: None,
        packet_bytes: 0,
        session_expiry_s: 0,
        qos: Qos::AtMostOnce,
        retain: false,
        has_wildcard: false,
        is_shared: false,
        resumes_session: false,
    };
}

/// The limits in a CONNACK (MQTT 5.0, 3.2.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    session_expiry_s: u32,
    /// Publishes above QoS 0 that may be open.
    pub(super) receive_maximum: u16,
    qos: Qos,
    retains: bool,
    packet_bytes: u32,
    has_wildcards: bool,
    has_shared: bool,
    /// Seconds within which the broker wants to be sent something, if it states that.
    pub(super) keep_alive_s: Option<u16>,
}

impl Limits {
    /// The limits of a broker that states none.
    const NONE: Self = Self {
        session_expiry_s: NEVER,
        receive_maximum: u16::MAX,
        qos: Qos::ExactlyOnce,
        retains: true,
        packet_bytes: u32::MAX,
        has_wildcards: true,
        has_shared: true,
        keep_alive_s: None,
    };

    fn of(properties: Properties<'_>) -> Result<Self> {
        let mut limits = Self::NONE;
        for property in properties {
            match property? {
                (SESSION_EXPIRY, &[a, b, c, d]) => {
                    limits.session_expiry_s = u32::from_be_bytes([a, b, c, d]);
                }
                (SERVER_KEEP_ALIVE, &[high, low]) => {
                    limits.keep_alive_s = Some(u16::from_be_bytes([high, low]));
                }
                (RECEIVE_MAXIMUM, [0, 0]) => {
                    return malformed("a CONNACK whose Receive Maximum is 0");
                }
                (RECEIVE_MAXIMUM, &[high, low]) => {
                    limits.receive_maximum = u16::from_be_bytes([high, low]);
                }
                (MAXIMUM_PACKET_SIZE, [0, 0, 0, 0]) => {
                    return malformed("a CONNACK whose Maximum Packet Size is 0");
                }
                (MAXIMUM_PACKET_SIZE, &[a, b, c, d]) => {
                    limits.packet_bytes = u32::from_be_bytes([a, b, c, d]);
                }
                (MAXIMUM_QOS, [0]) => limits.qos = Qos::AtMostOnce,
                (MAXIMUM_QOS, [1]) => limits.qos = Qos::AtLeastOnce,
                (MAXIMUM_QOS, _) => return malformed("a CONNACK whose Maximum QoS is not 0 or 1"),
                (RETAIN_AVAILABLE, value) => limits.retains = flag(value)?,
                (WILDCARDS_AVAILABLE, value) => limits.has_wildcards = flag(value)?,
                (SHARED_AVAILABLE, value) => limits.has_shared = flag(value)?,
                // None are used here.
                (SUBSCRIPTION_IDS_AVAILABLE, value) => _ = flag(value)?,
                // Each CONNECT names its client, whose name topics may contain.
                (ASSIGNED_CLIENT_ID, _) => {
                    return malformed("a CONNACK that names a client which has named itself");
                }
                _ => {}
            }
        }
        Ok(limits)
    }

    /// Returns the first limit that the needs break.
    fn broken_by(&self, needs: &Needs) -> Option<Limit> {
        let &Needs { packet_bytes: needed, .. } = needs;
        let kept_s = self.session_expiry_s;
        [
            (needs.qos > self.qos).then_some(Limit::Qos(self.qos)),
            (needs.retain && !self.retains).then_some(Limit::Retain),
            (needed > self.packet_bytes)
                .then_some(Limit::PacketBytes { allowed: self.packet_bytes, needed }),
            (needs.has_wildcard && !self.has_wildcards).then_some(Limit::Wildcards),
            (needs.is_shared && !self.has_shared).then_some(Limit::Shared),
            (needs.session_expiry_s > kept_s).then_some(Limit::SessionExpiry(kept_s)),
        ]
        .into_iter()
        .flatten()
        .next()
    }
}

fn flag(value: &[u8]) -> Result<bool> {
    match value {
        [0] => Ok(false),
        [1] => Ok(true),
        _ => malformed("a CONNACK with a property that is not 0 or 1"),
    }
}

/// The packets that a client awaits before its connection is usable.
#[derive(Clone, Debug)]
pub(super) struct Greeting {
    needs: Needs,
    /// CONNACK has come, and SUBACK is awaited.
    is_accepted: bool,
    pub(super) limits: Limits,
    /// The packet that is being read, if it is no message.
    packet: Vec<u8>,
}

impl Greeting {
    pub(super) const fn new(needs: Needs) -> Self {
        Self { needs, is_accepted: false, limits: Limits::NONE, packet: Vec::new() }
    }

    /// Keeps bytes of a packet that is no message.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        self.packet.extend_from_slice(bytes);
    }

    /// Forgets a packet that is handled elsewhere.
    pub(super) fn forget(&mut self) {
        self.packet.clear();
    }

    /// Refuses a message that comes too early.
    pub(super) const fn check_delivery(&self) -> Result<()> {
        match self.is_accepted {
            true => Ok(()),
            false => malformed("a message before CONNACK"),
        }
    }

    /// Handles the end of a packet that is no message; returns whether the connection is usable.
    pub(super) fn end_packet(&mut self, first: u8, version: MqttVersion) -> Result<bool> {
        let packet = std::mem::take(&mut self.packet);
        let behind = packet.get(1..).unwrap_or_default();
        let length_bytes = remaining_length(behind).ok().flatten().map_or(0, |(_, bytes)| bytes);
        let content = behind.get(length_bytes..).unwrap_or_default();
        match (first, self.is_accepted) {
            (CONNACK, false) => {
                self.limits = limits(content, version, self.needs.resumes_session)?;
                if let Some(limit) = self.limits.broken_by(&self.needs) {
                    return Err(MqttError::Limit(limit));
                }
                self.is_accepted = true;
                Ok(self.needs.subscribes.is_none())
            }
            (SUBACK, true) => {
                check_suback(content, version, self.needs.subscribes.unwrap_or(Qos::AtMostOnce))?;
                Ok(true)
            }
            (DISCONNECT, _) => Err(disconnected(content, version)),
            _ => malformed(UNASKED),
        }
    }
}

/// Returns the limits in a CONNACK that accepts the connection.
fn limits(content: &[u8], version: MqttVersion, resumes: bool) -> Result<Limits> {
    let &[flags, code, ref behind @ ..] = content else {
        return malformed("a CONNACK of less than two bytes");
    };
    match (version, behind, code) {
        // A broker of version 5 has properties here, or a length of 0.
        (MqttVersion::V5, [], 0 | 1) => return Err(MqttError::Limit(Limit::Version)),
        (MqttVersion::V5, [], 2..=RETURN_CODE_MAX) => {
            return Err(MqttError::Refused { version: MqttVersion::V3_1_1, code });
        }
        (MqttVersion::V5, _, 1..FAILURE) => return malformed("a CONNACK with an unknown reason"),
        (_, _, 0) => {}
        (..) => return Err(MqttError::Refused { version, code }),
    }
    match flags {
        0 => {}
        1 if resumes => {}
        1 => return malformed("a CONNACK with a session, where none was to be resumed"),
        _ => return malformed("a CONNACK with flags that MQTT does not know"),
    }
    match version {
        MqttVersion::V3_1_1 if behind.is_empty() => Ok(Limits::NONE),
        MqttVersion::V3_1_1 => malformed("a CONNACK of more than two bytes, as MQTT 5 has it"),
        MqttVersion::V5 => match Properties::split(behind, is_of_connack)? {
            (properties, []) => Limits::of(properties),
            _ => malformed("a CONNACK that is longer than its properties"),
        },
    }
}

/// Checks the answer to a SUBSCRIBE to one filter.
fn check_suback(content: &[u8], version: MqttVersion, wanted: Qos) -> Result<()> {
    let Some((id, mut codes)) = content.split_first_chunk::<2>() else {
        return malformed("a SUBACK of less than three bytes");
    };
    if *id != PACKET_ID.to_be_bytes() {
        return malformed("a SUBACK of a subscription that was not asked for");
    }
    if version == MqttVersion::V5 {
        let (mut properties, behind) = Properties::split(codes, is_of_suback)?;
        properties.try_for_each(|one| one.map(drop))?;
        codes = behind;
    }
    let granted = match codes {
        &[code] if code >= FAILURE && (version == MqttVersion::V5 || code == FAILURE) => {
            return Err(MqttError::NotSubscribed { code });
        }
        [0] => Qos::AtMostOnce,
        [1] => Qos::AtLeastOnce,
        [2] => Qos::ExactlyOnce,
        [_] => return malformed("a SUBACK with an unknown code"),
        _ => return malformed("a SUBACK that has not one code for one filter"),
    };
    match granted.cmp(&wanted) {
        std::cmp::Ordering::Less => Err(MqttError::Limit(Limit::Granted(granted))),
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Greater => malformed("a SUBACK that grants more than was asked for"),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::ErrorClass;

    use super::super::Opening;
    use super::*;
    use crate::conversation::Progress;

    const V3: MqttVersion = MqttVersion::V3_1_1;
    const V5: MqttVersion = MqttVersion::V5;

    fn open(version: MqttVersion, needs: Needs, bytes: &[u8]) -> Result<(Option<u16>, Vec<u8>)> {
        let (mut opening, mut reply) = (Opening::new(version), Vec::new());
        opening.expect_connack(needs);
        // Cuts change nothing.
        for byte in &bytes[..bytes.len() - 1] {
            let read = opening.handle_bytes(&[*byte], &mut reply)?;
            assert_eq!(read, (1, Progress::NeedMore), "{bytes:?}");
        }
        let read = opening.handle_bytes(&bytes[bytes.len() - 1..], &mut reply)?;
        assert_eq!(read, (1, Progress::Greeted), "{bytes:?}");
        Ok((opening.finish().1, reply))
    }

    fn subscribing(qos: Qos) -> Needs {
        Needs { subscribes: Some(qos), ..Needs::NONE }
    }

    /// A CONNACK of version 5 with these properties.
    fn connack(properties: &[u8]) -> Vec<u8> {
        let length = properties.len() as u8;
        [&[0x20, 3 + length, 0, 0, length], properties].concat()
    }

    #[test]
    fn a_limit_that_the_plan_breaks_is_named_with_its_figure() {
        let retained = Needs { retain: true, ..Needs::NONE };
        let at_2 = Needs { qos: Qos::ExactlyOnce, ..Needs::NONE };
        let large = Needs { packet_bytes: 101, ..Needs::NONE };
        let wild = Needs { has_wildcard: true, ..subscribing(Qos::AtMostOnce) };
        let shared = Needs { is_shared: true, ..subscribing(Qos::AtMostOnce) };
        let kept = Needs { session_expiry_s: 61, resumes_session: true, ..Needs::NONE };
        for (needs, properties, says) in [
            (at_2, &b"\x24\x01"[..], "the broker allows QoS 1 at most; write --qos 1"),
            (at_2, b"\x24\0", "the broker allows QoS 0 at most; write --qos 0"),
            (retained, b"\x25\0", "the broker does not retain messages; drop --retain"),
            (large, b"\x27\0\0\0\x64", "packets of 100 bytes at most, and the longest one has 101"),
            (wild, b"\x28\0", "no wildcard subscriptions; write a --subscribe without + and #"),
            (shared, b"\x2A\0", "no shared subscriptions"),
            (kept, b"\x11\0\0\0\x3C", "keeps sessions for 60 s at most; write --session-expiry 60"),
        ] {
            let refused = open(V5, needs, &connack(properties)).unwrap_err();
            assert!(refused.to_string().contains(says), "{refused}");
            assert_eq!(refused.class(), ErrorClass::MqttRefused);
            assert!(matches!(refused, MqttError::Limit(_)));
            // Who does not need it is not concerned.
            assert_eq!(open(V5, Needs::NONE, &connack(properties)), Ok((None, Vec::new())));
        }
        for (needs, properties) in [
            (Needs { qos: Qos::AtLeastOnce, ..Needs::NONE }, &b"\x24\x01"[..]),
            (retained, b"\x25\x01"),
            (Needs { packet_bytes: 100, ..Needs::NONE }, b"\x27\0\0\0\x64"),
            (Needs { session_expiry_s: 60, ..kept }, b"\x11\0\0\0\x3C"),
        ] {
            assert_eq!(open(V5, needs, &connack(properties)), Ok((None, Vec::new())));
        }
    }

    #[test]
    fn the_server_states_the_keep_alive() {
        assert_eq!(open(V5, Needs::NONE, &connack(b"\x13\x01\x02")), Ok((Some(258), Vec::new())));
        assert_eq!(open(V5, Needs::NONE, &connack(b"\x13\0\0")), Ok((Some(0), Vec::new())));
        assert_eq!(open(V5, Needs::NONE, &connack(b"")), Ok((None, Vec::new())));
    }

    #[test]
    fn a_connack_must_be_one() {
        let resumes = Needs { resumes_session: true, ..Needs::NONE };
        for (version, needs, bytes) in [
            (V3, Needs::NONE, &b"\x20\x02\0\0"[..]),
            (V3, resumes, b"\x20\x02\x01\0"),
            (V5, resumes, b"\x20\x03\x01\0\0"),
        ] {
            assert_eq!(open(version, needs, bytes), Ok((None, Vec::new())));
        }
        let five = connack;
        for (version, bytes, says) in [
            (V3, b"\x20\x02\x01\0".to_vec(), "with a session"),
            (V5, b"\x20\x03\x01\0\0".to_vec(), "with a session"),
            (V5, b"\x20\x03\x02\0\0".to_vec(), "with flags"),
            (V3, b"\x20\x02\x80\0".to_vec(), "with flags"),
            (V3, b"\x20\x03\0\0\0".to_vec(), "as MQTT 5 has it"),
            (V5, b"\x20\x01\0".to_vec(), "less than two bytes"),
            (
                V5,
                b"\x20\x02\0\0".to_vec(),
                "the broker speaks MQTT 3.1.1; write --mqtt-version 3.1.1",
            ),
            (V5, b"\x20\x02\0\x01".to_vec(), "the broker speaks MQTT 3.1.1"),
            (V5, b"\x20\x02\0\x05".to_vec(), "not authorized, reason 0x05"),
            (V5, b"\x20\x03\0\x01\0".to_vec(), "unknown reason"),
            (V5, b"\x20\x03\0\x87\0".to_vec(), "not authorized, reason 0x87"),
            (V5, b"\x20\x02\0\x87".to_vec(), "not authorized, reason 0x87"),
            (V3, b"\x20\x02\x01\x05".to_vec(), "not authorized, reason 0x05"),
            (V5, b"\x20\x04\0\0\0\0".to_vec(), "longer than its properties"),
            (V5, b"\x20\x03\0\0\x05".to_vec(), "end behind their packet"),
            (V5, five(b"\x21\0\0"), "Receive Maximum is 0"),
            (V5, five(b"\x27\0\0\0\0"), "Maximum Packet Size is 0"),
            (V5, five(b"\x24\x02"), "not 0 or 1"),
            (V5, five(b"\x29\x02"), "not 0 or 1"),
            (V5, five(b"\x24\x01\x24\x01"), "comes twice"),
            (V5, five(b"\x12\0\x01c"), "names a client"),
            (V5, five(b"\x15\0\x01m"), "of another packet"),
            (V5, b"\x90\x04\0\x01\0\0".to_vec(), "nothing asked for"),
            (V5, b"\xD0\0".to_vec(), "nothing asked for"),
            (V5, b"\x30\x04\0\x01a\0".to_vec(), "a message before CONNACK"),
            (V5, b"\xE0\x01\x8B".to_vec(), "server shutting down"),
        ] {
            let refused = open(version, Needs::NONE, &bytes).unwrap_err();
            assert!(refused.to_string().contains(says), "{bytes:?}: {refused}");
        }
    }

    #[test]
    fn a_suback_must_be_one() {
        let behind = |version, wanted, bytes: &[u8]| {
            let accepted: &[u8] = if version == V5 { b"\x20\x03\0\0\0" } else { b"\x20\x02\0\0" };
            open(version, subscribing(wanted), &[accepted, bytes].concat())
        };
        let granted = Ok((None, Vec::new()));
        assert_eq!(behind(V5, Qos::AtMostOnce, b"\x90\x04\0\x01\0\0"), granted);
        assert_eq!(behind(V3, Qos::ExactlyOnce, b"\x90\x03\0\x01\x02"), granted);
        let explained = b"\x90\x08\0\x01\x04\x1F\0\x01r\x01";
        assert_eq!(behind(V5, Qos::AtLeastOnce, explained), granted);
        // Messages may come before it, and are acknowledged.
        let early = b"\x32\x06\0\x01a\0\x07\0\x90\x04\0\x01\0\0";
        let answered = Ok((None, b"\x40\x02\0\x07".to_vec()));
        assert_eq!(behind(V5, Qos::AtMostOnce, early), answered);
        for (version, bytes, says) in [
            (V5, &b"\x90\x04\0\x01\0\x8F"[..], "topic filter invalid, reason 0x8f"),
            (V5, b"\x90\x04\0\x01\0\xA2", "wildcard subscriptions not supported"),
            (V3, b"\x90\x03\0\x01\x80", "unspecified error"),
            (V3, b"\x90\x03\0\x01\x81", "unknown code"),
            (V5, b"\x90\x04\0\x01\0\x03", "unknown code"),
            (V5, b"\x90\x04\0\x02\0\x01", "was not asked for"),
            (V5, b"\x90\x03\0\x01\x01", "end behind their packet"),
            (V5, b"\x90\x05\0\x01\0\x01\x01", "not one code for one filter"),
            (V3, b"\x90\x02\0\x01", "not one code for one filter"),
            (V5, b"\x90\x01\0", "less than three bytes"),
            (V5, b"\x90\x04\0\x01\0\x02", "more than was asked for"),
            (V5, b"\x90\x04\0\x01\0\0", "grants the subscription QoS 0 at most"),
            (V5, b"\x20\x03\0\0\0", "nothing asked for"),
        ] {
            let refused = behind(version, Qos::AtLeastOnce, bytes).unwrap_err();
            assert!(refused.to_string().contains(says), "{bytes:?}: {refused}");
        }
    }
}
