//! MQTT 3.1.1 and 5.0: packets, a client that has one of them open at a time, one that has several, and a
//! broker that acknowledges what is published, and delivers it to its publisher if that wants it.
//!
//! With one publish in flight on a connection its packet identifier is always [`PACKET_ID`]: an
//! identifier is free again once it is acknowledged. So a publish is the same bytes each time, and the
//! client of a held connection is small.

mod broker;
mod client;
mod error;
mod greeting;
mod packet;
mod properties;
mod reader;
mod reason;
mod subscriptions;
mod window;

pub use broker::{
    Broker, BrokerError, Event, FILTERS_MAX, Output, PACKET_BYTES_MAX, Terms, refuse_excess,
    refuse_for_quota,
};
pub use client::{Client, Opening};
pub use error::{Limit, MqttError};
pub use greeting::Needs;
pub use packet::{Connect, connect, disconnect, pingreq, publish, publish_head, subscribe};
pub(crate) use packet::{publish_bytes, subscribe_bytes};
pub use properties::reason_string;
pub use reason::reason_name;
pub use subscriptions::Subscriptions;
pub use window::{LargeBody, Window};

/// Identifier of every publish above QoS 0 that is the only one.
pub const PACKET_ID: u16 = 1;
