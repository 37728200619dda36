//! What MQTT has beside a payload. What was typed, not what it means.

use clap::Args;
use plimsoll_model::target::{MqttVersion, Qos};

/// Flags of an mqtt:// or mqtts:// URL.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "MQTT")]
pub(crate) struct MqttFlags {
    /// Topic to publish to [default: plimsoll]
    #[arg(long, value_name = "TOPIC")]
    pub(crate) topic: Option<String>,

    /// Quality of service of each publish: 0, 1 or 2 [default: 1]
    #[arg(long, value_name = "N")]
    pub(crate) qos: Option<Qos>,

    /// Ask the broker to retain each message
    #[arg(long)]
    pub(crate) retain: bool,

    /// Each connection subscribes to this at QoS 0 first; what is delivered is read, not counted
    #[arg(long, value_name = "FILTER")]
    pub(crate) subscribe: Option<String>,

    /// Version of MQTT: 3.1.1 or 5 [default: 5]
    #[arg(long, value_name = "VERSION")]
    pub(crate) mqtt: Option<MqttVersion>,

    /// Client identifiers begin with this; a number per connection follows [default: plimsoll- and the
    /// process id]
    #[arg(long, value_name = "PREFIX")]
    pub(crate) client_id: Option<String>,

    /// Keep-alive in CONNECT, seconds; 0 is none [default: the heartbeat of a hold, else 0]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) keep_alive: Option<u16>,
}

impl MqttFlags {
    /// The first flag that was given, if any was.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        let given = [
            (self.topic.is_some(), "--topic"),
            (self.qos.is_some(), "--qos"),
            (self.retain, "--retain"),
            (self.subscribe.is_some(), "--subscribe"),
            (self.mqtt.is_some(), "--mqtt"),
            (self.client_id.is_some(), "--client-id"),
            (self.keep_alive.is_some(), "--keep-alive"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }
}
