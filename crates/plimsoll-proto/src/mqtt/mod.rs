//! MQTT 3.1.1 and 5.0: packets, a client that has one of them open at a time, and a broker that
//! acknowledges what is published.
//!
//! With one publish in flight on a connection its packet identifier is always [`PACKET_ID`]: an
//! identifier is free again once it is acknowledged. So a publish is the same bytes each time.

mod broker;
mod client;
mod packet;
mod reason;

pub use broker::{Broker, BrokerError, Event, FILTERS_MAX, PACKET_BYTES_MAX, RECEIVE_MAXIMUM};
pub use client::{Client, MqttError, Progress};
pub use packet::{Connect, connect, disconnect, pingreq, publish, subscribe};
pub use reason::reason_name;

/// Identifier of every publish above QoS 0.
pub const PACKET_ID: u16 = 1;
