//! Why streams and connections of the client fail.

use plimsoll_model::ErrorClass;
use thiserror::Error;

use crate::READS_NO_ANSWERS;
use crate::http2::answer::{GRPC_INTERNAL, Malformation};
use crate::http2::frame::{Code, Fault};

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Http2Error {
    /// The server answers in another protocol.
    #[error("the server answers in HTTP/1.1; it does not speak HTTP/2 on this port")]
    Http1,
    /// The server broke the protocol.
    #[error("the answer is not HTTP/2: {0}")]
    Malformed(&'static str),
    /// Our own bound.
    #[error("{0}")]
    TooLarge(&'static str),
    /// The server does not read what it must be answered.
    #[error("{}", READS_NO_ANSWERS)]
    NotReading,
    /// The server ended the connection for a reason.
    #[error("the server ended the connection with GOAWAY {}", .0.name())]
    GoAway(Code),
}

impl Http2Error {
    /// Returns the class in which operations end.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Http1 | Self::Malformed(_) => ErrorClass::H2Malformed,
            Self::TooLarge(_) => ErrorClass::HttpTooLarge,
            Self::NotReading => ErrorClass::PeerNotReading,
            Self::GoAway(_) => ErrorClass::H2Goaway,
        }
    }
}

impl From<Fault> for Http2Error {
    fn from(fault: Fault) -> Self {
        match fault.code {
            Code::ENHANCE_YOUR_CALM if fault.why == READS_NO_ANSWERS => Self::NotReading,
            Code::ENHANCE_YOUR_CALM => Self::TooLarge(fault.why),
            _ => Self::Malformed(fault.why),
        }
    }
}

/// The failure of a stream, on a connection that continues.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum StreamFault {
    /// The server ended it before its answer was complete.
    #[error("the server reset a request with {}", .0.name())]
    Reset(Code),
    /// The server has not begun it, however often it was sent.
    #[error(
        "the server did not begin a request that it was sent: REFUSED_STREAM, or GOAWAY before it"
    )]
    Refused,
    /// The server allowed none.
    #[error("the server allows no request on a connection (SETTINGS_MAX_CONCURRENT_STREAMS 0)")]
    NoneAllowed,
    /// A call of gRPC ended well, and without a whole message.
    #[error("a call of gRPC ended with status 0 and without a whole message")]
    NoMessage,
    /// A call of gRPC was answered with more than one message.
    #[error(
        "a call of gRPC was answered with more than one message: the method streams its answers, and only unary \
         methods are supported"
    )]
    Messages,
    /// The message of an answer of gRPC is compressed.
    #[error("a call of gRPC was answered with a compressed message, which was not asked for")]
    Compressed,
    /// The answer violates the protocol.
    #[error("an answer is not HTTP/2: {0}")]
    Malformed(Malformation),
}

impl StreamFault {
    /// Returns the class in which the operation ends.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Reset(_) => ErrorClass::H2Reset,
            Self::Refused | Self::NoneAllowed => ErrorClass::H2Refused,
            Self::NoMessage | Self::Messages | Self::Compressed => ErrorClass::GrpcStatus,
            Self::Malformed(_) => ErrorClass::H2Malformed,
        }
    }

    /// Returns the status that gRPC gives a call that ends so (gRPC, statuscodes.md).
    pub const fn grpc_status(&self) -> Option<u8> {
        match self {
            Self::NoMessage | Self::Messages | Self::Compressed => Some(GRPC_INTERNAL),
            Self::Reset(_) | Self::Refused | Self::NoneAllowed | Self::Malformed(_) => None,
        }
    }
}
