//! Names of reason codes (MQTT 5.0, 2.4) and of CONNACK's return codes (MQTT 3.1.1, 3.2.2.3).

use plimsoll_model::target::MqttVersion;

/// A reason from here on says that something failed.
pub(super) const FAILURE: u8 = 0x80;

/// Returns the standard's name of a reason that refuses something.
pub const fn reason_name(version: MqttVersion, code: u8) -> &'static str {
    match (version, code) {
        (MqttVersion::V3_1_1, 1) => "unacceptable protocol version",
        (MqttVersion::V3_1_1, 2) => "identifier rejected",
        (MqttVersion::V3_1_1, 3) => "server unavailable",
        (MqttVersion::V3_1_1, 4) => "bad user name or password",
        (MqttVersion::V3_1_1, 5) => "not authorized",
        (MqttVersion::V3_1_1, _) => "a code that MQTT 3.1.1 does not know",
        (_, 0x00) => "success",
        (_, 0x80) => "unspecified error",
        (_, 0x81) => "malformed packet",
        (_, 0x82) => "protocol error",
        (_, 0x83) => "implementation specific error",
        (_, 0x84) => "unsupported protocol version",
        (_, 0x85) => "client identifier not valid",
        (_, 0x86) => "bad user name or password",
        (_, 0x87) => "not authorized",
        (_, 0x88) => "server unavailable",
        (_, 0x89) => "server busy",
        (_, 0x8A) => "banned",
        (_, 0x8B) => "server shutting down",
        (_, 0x8C) => "bad authentication method",
        (_, 0x8D) => "keep alive timeout",
        (_, 0x8E) => "session taken over",
        (_, 0x8F) => "topic filter invalid",
        (_, 0x90) => "topic name invalid",
        (_, 0x91) => "packet identifier in use",
        (_, 0x92) => "packet identifier not found",
        (_, 0x93) => "receive maximum exceeded",
        (_, 0x94) => "topic alias invalid",
        (_, 0x95) => "packet too large",
        (_, 0x96) => "message rate too high",
        (_, 0x97) => "quota exceeded",
        (_, 0x98) => "administrative action",
        (_, 0x99) => "payload format invalid",
        (_, 0x9A) => "retain not supported",
        (_, 0x9B) => "QoS not supported",
        (_, 0x9C) => "use another server",
        (_, 0x9D) => "server moved",
        (_, 0x9E) => "shared subscriptions not supported",
        (_, 0x9F) => "connection rate exceeded",
        (_, 0xA0) => "maximum connect time",
        (_, 0xA1) => "subscription identifiers not supported",
        (_, 0xA2) => "wildcard subscriptions not supported",
        _ => "a code that MQTT 5 does not know",
    }
}
