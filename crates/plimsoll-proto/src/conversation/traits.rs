//! The properties of each protocol that the client's loop acts by. A new protocol is one more row.

use plimsoll_model::ErrorClass;
use plimsoll_model::target::Protocol;

use crate::{http2, mqtt, websocket};

/// Properties of a protocol, as its client sees them.
#[derive(Debug)]
pub struct Traits {
    /// The client's first message, which the server has to answer, if a connection begins with one.
    pub greeting: Greeting,
    /// Class of a connection that the server closes instead of answering the first message.
    pub refused: ErrorClass,
    /// Why a connection fails whose first message is not answered in time.
    pub unanswered: &'static str,
    /// The server has to choose the protocol by ALPN.
    pub needs_alpn: bool,
    /// Operations are streams: their bytes gather, and an answer names its operation.
    pub has_streams: bool,
    /// Class of bytes behind a complete answer; `None` if a server may send unasked.
    pub excess: Option<ErrorClass>,
    /// Messages that no operation awaited may be answers that came too late or too often.
    pub judges_messages: bool,
    /// The client may ping without an operation, so that the server keeps the connection.
    pub has_keep_alive: bool,
    /// Only the last one of several replies that wait for the end of a request is sent.
    pub last_reply_only: bool,
    /// Appends the message with which a client ends a connection.
    pub farewell: fn(&mut Vec<u8>),
    /// Received bytes are read before a connection is closed: unread ones would make the kernel send a RST.
    pub reads_before_closing: bool,
    /// HTTP/1.1: empty lines between answers are allowed (RFC 9112, 9.2), and other bytes on an idle connection end it.
    pub is_http1: bool,
    /// The bytes and pauses of an operation follow a script.
    pub is_scripted: bool,
}

/// The connections that begin with a message of the client that the server has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// None: the first bytes belong to an operation.
    Never,
    /// On each connection.
    Always,
    /// On each connection, if the script has an opening.
    Scripted,
}

/// The values of most protocols.
const USUAL: Traits = Traits {
    greeting: Greeting::Always,
    refused: ErrorClass::ClosedByPeer,
    unanswered: "",
    needs_alpn: false,
    has_streams: false,
    excess: None,
    judges_messages: false,
    has_keep_alive: false,
    last_reply_only: false,
    farewell: |_| {},
    reads_before_closing: true,
    is_http1: false,
    is_scripted: false,
};

const HTTP1: Traits = Traits {
    greeting: Greeting::Never,
    excess: Some(ErrorClass::UnrequestedAnswer),
    reads_before_closing: false,
    is_http1: true,
    ..USUAL
};

const HTTP2: Traits = Traits {
    unanswered: "the server sent no SETTINGS within --connect-timeout",
    needs_alpn: true,
    has_streams: true,
    farewell: http2::client::write_farewell,
    ..USUAL
};

const WEBSOCKET: Traits = Traits {
    refused: ErrorClass::WsRefused,
    unanswered: "the server did not answer the request to switch to WebSocket within --connect-timeout",
    judges_messages: true,
    // RFC 6455, 5.5.3.
    last_reply_only: true,
    farewell: websocket::close,
    ..USUAL
};

const MQTT: Traits = Traits {
    refused: ErrorClass::MqttRefused,
    unanswered: "the broker sent no CONNACK within --connect-timeout",
    has_keep_alive: true,
    farewell: mqtt::disconnect,
    ..USUAL
};

const SCRIPT: Traits = Traits {
    greeting: Greeting::Scripted,
    unanswered: "the opening of the script did not end within --connect-timeout",
    excess: Some(ErrorClass::PeerSpokeFirst),
    is_scripted: true,
    ..USUAL
};

impl Traits {
    /// Returns the properties of `protocol`.
    pub const fn of(protocol: Protocol) -> &'static Self {
        match protocol {
            Protocol::Http1 => &HTTP1,
            Protocol::Http2 => &HTTP2,
            Protocol::WebSocket => &WEBSOCKET,
            Protocol::Mqtt => &MQTT,
            Protocol::Script => &SCRIPT,
        }
    }
}
