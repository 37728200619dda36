//! The one class in which a failed operation ends, and whose fault that class is.

use serde::{Deserialize, Serialize};

/// The side at fault for an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The server's or the network's: a result.
    Peer,
    /// This host's or this process's: makes a trial INVALID, never counts against the SUT.
    Local,
    /// One of plimsoll's own timers, or an interrupt, ended the wait.
    OwnTimer,
}

macro_rules! error_classes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $fault:ident;)*) => {
        /// Why an operation failed. The name is what reports and `--json` show.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[repr(u8)]
        pub enum ErrorClass {
            $($(#[$doc])* #[serde(rename = $name)] $variant,)*
        }

        impl ErrorClass {
            /// Every class, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the class's name in reports.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the side at fault for the class.
            pub const fn fault(self) -> Fault {
                match self { $(Self::$variant => Fault::$fault,)* }
            }
        }
    };
}

error_classes! {
    /// The server answered the SYN with a reset.
    ConnectRefused = "connect-refused", Peer;
    /// No answer to the SYN before the kernel gave up.
    ConnectTimeout = "connect-timeout", Peer;
    /// No route, network or host unreachable.
    ConnectUnreachable = "connect-unreachable", Peer;
    /// The connection was reset before it was usable.
    ConnectReset = "connect-reset", Peer;
    /// The server sent a TLS alert during the handshake.
    TlsAlert = "tls-alert", Peer;
    /// The server's certificate was not accepted.
    TlsUntrusted = "tls-untrusted", Peer;
    /// The handshake broke the protocol, or no version or suite was shared.
    TlsHandshake = "tls-handshake", Peer;
    /// The server closed during the handshake.
    TlsClosed = "tls-closed", Peer;
    /// A TLS record failed after the handshake (bad MAC, alert).
    TlsRecord = "tls-record", Peer;
    /// Reset after the request was sent, on a new connection or within the answer.
    ResetByPeer = "reset-by-peer", Peer;
    /// Closed before the answer was complete.
    ClosedByPeer = "closed-by-peer", Peer;
    /// Closed or reset before any byte of the answer to a request on a connection that had carried
    /// others: the server ended the idle connection while the request was on its way.
    KeepaliveRace = "keepalive-race", Peer;
    /// The answer is not HTTP/1.1.
    HttpMalformed = "http-malformed", Peer;
    /// The answer's head is larger than the client's bound.
    HttpTooLarge = "http-too-large", Peer;
    /// A complete answer with status 4xx.
    Status4xx = "status-4xx", Peer;
    /// A complete answer with status 5xx.
    Status5xx = "status-5xx", Peer;
    /// No answer within deadline plus linger: plimsoll stopped waiting.
    Timeout = "timeout", OwnTimer;
    /// Still in flight when the run was interrupted.
    Interrupted = "interrupted", OwnTimer;
    /// EMFILE or ENFILE here.
    LocalFiles = "local-files", Local;
    /// EADDRNOTAVAIL or EADDRINUSE here: source ports or addresses ran out.
    LocalPorts = "local-ports", Local;
    /// ENOBUFS, ENOMEM or ENOSPC here.
    LocalMemory = "local-memory", Local;
    /// Any other failure of a system call here.
    LocalOther = "local-other", Local;
    /// The agent process of the operation ended early.
    AgentLost = "agent-lost", Local;
    /// The server did not switch to WebSocket.
    WsRefused = "ws-refused", Peer;
    /// The bytes after the switch are not WebSocket.
    WsMalformed = "ws-malformed", Peer;
    /// The server sent a close frame before the answer.
    WsClosed = "ws-closed", Peer;
    /// CONNACK refused the connection.
    MqttRefused = "mqtt-refused", Peer;
    /// An acknowledgement refused the message or the subscription.
    MqttRejected = "mqtt-rejected", Peer;
    /// The broker sent DISCONNECT.
    MqttDisconnected = "mqtt-disconnected", Peer;
    /// The answer is not MQTT.
    MqttMalformed = "mqtt-malformed", Peer;
    /// TLS is established, and the server did not choose HTTP/2 by ALPN.
    AlpnMismatch = "alpn-mismatch", Peer;
    /// The answer is not HTTP/2.
    H2Malformed = "h2-malformed", Peer;
    /// The server reset the stream before its answer was complete.
    H2Reset = "h2-reset", Peer;
    /// The server ended the connection with GOAWAY and an error.
    H2Goaway = "h2-goaway", Peer;
    /// The server has not begun the operation, however often it was sent, or allowed none.
    H2Refused = "h2-refused", Peer;
    /// A call of gRPC ended with another status than 0.
    GrpcStatus = "grpc-status", Peer;
    /// The answer is not what the script expects.
    ScriptMismatch = "script-mismatch", Peer;
    /// The server sent bytes that the script does not ask for.
    PeerSpokeFirst = "peer-spoke-first", Peer;
    /// A published message was acknowledged, and not delivered.
    DeliveryLost = "delivery-lost", Peer;
    /// The server sent an answer, or a part of one, that no request asked for.
    UnrequestedAnswer = "unrequested-answer", Peer;
    /// The server asks for more answers than it reads: pongs, acknowledgements.
    PeerNotReading = "peer-not-reading", Peer;
}

impl ErrorClass {
    /// Number of classes; the length of a counter array.
    pub const COUNT: usize = Self::ALL.len();

    /// Returns the class of an answer with this status of HTTP, if that is a failure.
    pub const fn of_status(status: u16) -> Option<Self> {
        match status {
            500.. => Some(Self::Status5xx),
            400.. => Some(Self::Status4xx),
            _ => None,
        }
    }

    /// Returns the place of the class in [`Self::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_order_of_all() {
        for (index, class) in ErrorClass::ALL.iter().enumerate() {
            assert_eq!(class.index(), index);
        }
    }
}
