//! The effects of received bytes, which are the same for all protocols.

use plimsoll_model::{ErrorClass, Nanos};

use crate::http1;
use crate::http2::StreamFault;
use crate::websocket::Push;

/// The result of handling bytes from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All bytes were consumed; nothing has ended.
    NeedMore,
    /// The connection is usable.
    Greeted,
    /// The operation has its answer.
    Complete(Answer),
    /// The server closes a WebSocket, with this code if it gives one.
    Closed(Option<u16>),
    /// WebSocket: the server has sent a message that is no answer.
    Pushed(Push),
    /// WebSocket: the server has sent a message, of this number of bytes, that would have been an answer if one had
    /// been awaited.
    Surplus(u32),
    /// The broker has delivered a message; see [`Window::delivery`](crate::mqtt::Window::delivery).
    Delivered,
    /// A ping that is no operation is answered; see [`Conversation::ping_aside`].
    ///
    /// [`Conversation::ping_aside`]: super::Conversation::ping_aside
    Alive,
    /// Something about one of several operations on the connection, or about how many there may be.
    Stream(StreamProgress),
    /// Nothing is to be done for this time, which is part of no latency; see
    /// [`Client::sleep_until`](crate::script::Client::sleep_until).
    Sleeps(Nanos),
}

/// The progress of operations on a shared connection: streams of HTTP/2, publishes of MQTT. Each is
/// named by the key that it was begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamProgress {
    /// The answer has begun, and is not complete.
    Began(u32),
    /// The operation has ended.
    Ended(u32, Answer),
    /// The operation has failed; others continue.
    Failed(u32, StreamFault),
    /// The server has not begun it: it may be sent again.
    Untouched(u32),
    /// The server allows another number of them than before.
    RoomChanged,
    /// No further operation may begin on the connection; [`Shared::take_untouched`] gives those that the server will
    /// not answer.
    ///
    /// [`Shared::take_untouched`]: super::Shared::take_untouched
    Draining,
}

/// The answer to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP's; 0 if the protocol has none.
    pub status: u16,
    /// The status of a call of gRPC, or the reason code with which a broker of MQTT refuses a publish; see
    /// [`Self::grpc_status`] and [`Self::mqtt_reason`].
    pub code: Option<u8>,
    /// `true` if the connection may carry another operation.
    pub keep_alive: bool,
    /// Seconds after which the server closes the connection when it is idle; 0 if it announced none.
    pub keep_alive_s: u16,
    /// Payload bytes, without framing.
    pub body_bytes: u64,
    /// The class in which the operation ends if the answer says that it failed.
    pub failed: Option<ErrorClass>,
}

impl Answer {
    pub(super) const fn of_http(response: &http1::Response) -> Self {
        let failed = ErrorClass::of_status(response.status);
        let http1::Response { status, keep_alive, keep_alive_s, body_bytes } = *response;
        Self { status, code: None, keep_alive, keep_alive_s, body_bytes, failed }
    }

    /// Creates the end of a stream of HTTP/2.
    pub(crate) const fn of_stream(status: u16, body_bytes: u64, grpc_status: Option<u8>) -> Self {
        let response = http1::Response { status, keep_alive: true, keep_alive_s: 0, body_bytes };
        let failed = match grpc_status {
            None => return Self::of_http(&response),
            Some(0) => None,
            Some(_) => Some(ErrorClass::GrpcStatus),
        };
        Self { code: grpc_status, failed, ..Self::of_http(&response) }
    }

    /// Creates the end of an operation that only succeeds, or fails in this class.
    pub const fn plain(body_bytes: u64, failed: Option<ErrorClass>) -> Self {
        let (status, code, keep_alive, keep_alive_s) = (0, None, true, 0);
        Self { status, code, keep_alive, keep_alive_s, body_bytes, failed }
    }

    /// Creates the end of a publish, which the broker refuses if it gives a reason.
    pub(crate) const fn of_publish(reason: Option<u8>) -> Self {
        match reason {
            None => Self::plain(0, None),
            code => Self { code, ..Self::plain(0, Some(ErrorClass::MqttRejected)) },
        }
    }

    /// Returns the status of a gRPC call.
    pub const fn grpc_status(&self) -> Option<u8> {
        match self.failed {
            Some(ErrorClass::MqttRejected) => None,
            _ => self.code,
        }
    }

    /// Returns the reason code of a publish that the broker refuses.
    pub const fn mqtt_reason(&self) -> Option<u8> {
        match self.failed {
            Some(ErrorClass::MqttRejected) => self.code,
            _ => None,
        }
    }
}
