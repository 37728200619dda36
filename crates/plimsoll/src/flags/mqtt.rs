//! Flags of MQTT beside the payload.

use std::num::NonZeroU16;

use clap::Args;
use plimsoll_model::target::{MqttVersion, Qos};

use super::values::{InputFile, input_file};

/// Flags of an mqtt:// or mqtts:// URL.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "MQTT")]
pub(crate) struct MqttFlags {
    /// Topic to publish to [default: plimsoll]
    ///
    /// %c is the client identifier, %i the connection's number, %u its user, %% a percent sign.
    #[arg(long, value_name = "TOPIC")]
    pub(crate) topic: Option<String>,

    /// Quality of service of each publish: 0, 1 or 2 [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) qos: Option<Qos>,

    /// Ask the broker to retain each message
    #[arg(long)]
    pub(crate) retain: bool,

    /// Publishes above QoS 0 that may be open at once on one connection, if the broker allows that many
    /// [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) inflight: Option<NonZeroU16>,

    /// Topic filter that each connection subscribes to first, with placeholders as in --topic
    ///
    /// Messages that the load itself publishes to it are counted when they are delivered, by a stamp in the first 32
    /// bytes of each payload.
    #[arg(long, value_name = "FILTER")]
    pub(crate) subscribe: Option<String>,

    /// Quality of service of that subscription: 0, 1 or 2 [default: 0]
    #[arg(long, value_name = "N", requires = "subscribe")]
    pub(crate) subscribe_qos: Option<Qos>,

    /// MQTT version: 3.1.1 or 5 [default: 5]
    #[arg(long, value_name = "VERSION")]
    pub(crate) mqtt_version: Option<MqttVersion>,

    /// Prefix of client identifiers, before a number per connection [default: plimsoll- and the process id]
    #[arg(long, value_name = "PREFIX")]
    pub(crate) client_id: Option<String>,

    /// File of client identifiers, one a line, at least one per connection; - reads standard input
    ///
    /// A line that begins with # is a comment.
    #[arg(long, value_name = "FILE|-", value_parser = input_file, conflicts_with = "client_id")]
    pub(crate) client_ids: Option<InputFile>,

    /// File of users, one USER or USER:PASSWORD a line, used in turn; - reads standard input
    ///
    /// A line that begins with # is a comment.
    #[arg(long, value_name = "FILE|-", value_parser = input_file)]
    pub(crate) users: Option<InputFile>,

    /// Resume stored sessions (clean start or clean session off)
    #[arg(long)]
    pub(crate) no_clean_start: bool,

    /// Seconds for which the broker stores a session without a connection (MQTT 5)
    #[arg(long, value_name = "SECONDS")]
    pub(crate) session_expiry: Option<u32>,

    /// Topic of a will, with placeholders as in --topic
    ///
    /// The broker publishes the will when a connection ends without DISCONNECT.
    #[arg(long, value_name = "TOPIC")]
    pub(crate) will_topic: Option<String>,

    /// Message of the will [default: empty]
    #[arg(long, value_name = "TEXT", requires = "will_topic")]
    pub(crate) will_message: Option<String>,

    /// Quality of service of the will: 0, 1 or 2 [default: 0]
    #[arg(long, value_name = "N", requires = "will_topic")]
    pub(crate) will_qos: Option<Qos>,

    /// Ask the broker to retain the will
    #[arg(long, requires = "will_topic")]
    pub(crate) will_retain: bool,

    /// Keep-alive in CONNECT, seconds; 0 is none [default: the heartbeat of a hold, else 0]
    ///
    /// A connection with nothing to send pings within this time. The broker's own value (MQTT 5) replaces it.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) keep_alive: Option<u16>,
}

impl MqttFlags {
    /// Returns the first flag that was given, if any was.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.topic.is_some(), "--topic"),
            (self.qos.is_some(), "--qos"),
            (self.retain, "--retain"),
            (self.inflight.is_some(), "--inflight"),
            (self.subscribe.is_some(), "--subscribe"),
            (self.subscribe_qos.is_some(), "--subscribe-qos"),
            (self.mqtt_version.is_some(), "--mqtt-version"),
            (self.client_id.is_some(), "--client-id"),
            (self.client_ids.is_some(), "--client-ids"),
            (self.users.is_some(), "--users"),
            (self.no_clean_start, "--no-clean-start"),
            (self.session_expiry.is_some(), "--session-expiry"),
            (self.will_topic.is_some(), "--will-topic"),
            (self.keep_alive.is_some(), "--keep-alive"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }
}
