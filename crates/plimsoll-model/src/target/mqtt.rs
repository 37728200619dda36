//! Settings of MQTT messages beside the payload.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::framed::framed;
use crate::units::ParseError;

/// Most bytes of an MQTT packet behind its length.
pub const REMAINING_LENGTH_MAX: usize = 268_435_455;

named! {
    /// A version of MQTT.
    #[derive(Default)]
    pub enum MqttVersion {
        /// ISO/IEC 20922:2016.
        V3_1_1 = "3.1.1",
        /// OASIS, 2019.
        #[default]
        V5 = "5",
    }
}

impl MqttVersion {
    /// Returns the protocol level in CONNECT.
    pub const fn level(self) -> u8 {
        match self {
            Self::V3_1_1 => 4,
            Self::V5 => 5,
        }
    }
}

impl FromStr for MqttVersion {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "3.1.1" => Ok(Self::V3_1_1),
            "5" | "5.0" => Ok(Self::V5),
            _ => {
                Err(ParseError { text: text.to_owned(), expected: "a version of MQTT: 3.1.1 or 5" })
            }
        }
    }
}

named! {
    /// The quality of service: how often a message is delivered. The number of a variant is the one in packets.
    #[derive(Default, PartialOrd, Ord)]
    #[repr(u8)]
    pub enum Qos {
        /// QoS 0: not acknowledged.
        AtMostOnce = "0",
        /// QoS 1: acknowledged by PUBACK.
        #[default]
        AtLeastOnce = "1",
        /// QoS 2: acknowledged by PUBREC and PUBCOMP.
        ExactlyOnce = "2",
    }
}

read_by_name!(Qos: "a quality of service: 0, 1 or 2");

/// Settings under which a target's body is published.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Publish {
    /// Topic; 1 to 65,535 bytes without wildcards. A connection's own if it has `%`: see
    /// [`crate::plan::MqttPlan::filled`].
    pub topic: String,
    /// Quality of service.
    pub qos: Qos,
    /// The broker keeps it for later subscribers.
    pub retain: bool,
}

/// A subscription of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Subscription {
    /// A topic filter of 1 to 65,535 bytes. A connection's own if it has `%`: see
    /// [`crate::plan::MqttPlan::filled`].
    pub filter: String,
    /// Highest quality of service.
    pub qos: Qos,
}

/// The message that the broker publishes when a client disappears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Will {
    /// Topic and settings.
    #[serde(with = "crate::framed")]
    pub publish: Publish,
    /// At most 65,535 bytes.
    pub message: Vec<u8>,
}

/// User name and password of a client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Credentials {
    /// At most 65,535 bytes.
    pub name: String,
    /// At most 65,535 bytes.
    pub password: Option<String>,
}

framed!(Publish, Subscription, Will, Credentials);

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Returns the text behind a percent sign in `template` that is no placeholder of a connection.
pub fn foreign_placeholder(template: &str) -> Option<String> {
    let mut rest = template;
    while let Some((_, behind)) = rest.split_once('%') {
        let mut behind = behind.chars();
        match behind.next() {
            Some('c' | 'i' | 'u' | '%') => rest = behind.as_str(),
            other => {
                return Some(other.map_or_else(|| "%".to_owned(), |other| format!("%{other}")));
            }
        }
    }
    None
}

/// Reports whether messages can be published to `topic` (MQTT 5.0, 4.7).
pub fn is_topic(topic: &str) -> bool {
    (1..=usize::from(u16::MAX)).contains(&topic.len())
        && !topic.bytes().any(|byte| matches!(byte, b'#' | b'+' | 0))
}

/// Reports whether `filter` can be subscribed to (MQTT 5.0, 4.7.1): a wildcard is alone in its level, and `#` is the
/// last level.
pub fn is_filter(filter: &str) -> bool {
    let levels = || filter.split('/');
    let last = levels().count().saturating_sub(1);
    (1..=usize::from(u16::MAX)).contains(&filter.len())
        && !filter.contains('\0')
        && levels().enumerate().all(|(at, level)| match level {
            "+" => true,
            "#" => at == last,
            other => !other.contains(['#', '+']),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics() {
        assert!(is_topic("a") && is_topic("sensors/é/7") && is_topic("$SYS"));
        for topic in ["", "a/#", "+/b", "a\0b", &"x".repeat(65_536)] {
            assert!(!is_topic(topic), "{topic:.20}");
        }
    }

    #[test]
    fn placeholders() {
        assert_eq!(foreign_placeholder("a/%c/%i/%u/100%%"), None);
        assert_eq!(foreign_placeholder("a/%x").as_deref(), Some("%x"));
        assert_eq!(foreign_placeholder("100%").as_deref(), Some("%"));
    }

    #[test]
    fn a_password_is_not_printed() {
        let user = Credentials { name: "fleet".to_owned(), password: Some("sesame".to_owned()) };
        assert_eq!(format!("{user:?}"), "Credentials { name: \"fleet\", .. }");
    }

    #[test]
    fn filters() {
        for filter in ["#", "+", "a/+/b/#", "$share/g/a", "/"] {
            assert!(is_filter(filter), "{filter}");
        }
        for filter in ["", "a#", "#/a", "a/+b", "a\0", &"x".repeat(65_536)] {
            assert!(!is_filter(filter), "{filter:.20}");
        }
    }

    #[test]
    fn versions_and_qualities() {
        assert_eq!("5".parse(), Ok(MqttVersion::V5));
        assert_eq!("3.1.1".parse::<MqttVersion>().map(MqttVersion::level), Ok(4));
        assert_eq!("2".parse(), Ok(Qos::ExactlyOnce));
        assert!("3".parse::<Qos>().is_err() && "4".parse::<MqttVersion>().is_err());
    }
}
