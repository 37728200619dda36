//! The client of a connection that several operations share.
//!
//! [`Shared`] borrows either an HTTP/2 client or an MQTT window and gives the engine's loop one interface for both. A
//! key of the caller identifies each operation. The usual sequence is `has_room`, an operation, `take_output`, then
//! the answers; after a loss `take_lost` yields the open keys one by one. Methods that concern one protocol only
//! return a neutral value for the other. Start reading at [`Shared::has_room`] and [`Shared::take_lost`].

use plimsoll_model::target::Filling;

use crate::http2::{self, Http2Error};
use crate::mqtt;

/// The client of a connection that may carry several operations at once.
#[derive(Debug)]
pub enum Shared<'a> {
    /// Streams of HTTP/2.
    Http2(&'a mut http2::Client),
    /// Publishes of MQTT.
    Mqtt(&'a mut mqtt::Window),
}

/// The bytes of an operation that gather with others on its connection.
#[derive(Clone, Copy, Debug)]
pub struct Gathered<'a> {
    /// The part before the body.
    pub head: &'a [u8],
    /// The body of HTTP/2, in two parts; an empty one is not sent.
    pub body: [&'a [u8]; 2],
    /// The part of a large body that follows a publish of MQTT; its number identifies the body.
    pub large: mqtt::LargeBody,
}

/// Calls the same method of either client.
macro_rules! either {
    ($shared:ident . $method:ident ( $($argument:ident),* )) => {
        match $shared {
            Self::Http2(client) => client.$method($($argument),*),
            Self::Mqtt(window) => window.$method($($argument),*),
        }
    };
}

impl Shared<'_> {
    /// Reports whether another operation may begin where we want at most `wanted`.
    pub fn has_room(&self, wanted: u32) -> bool {
        either!(self.has_room(wanted))
    }

    /// Returns the most operations at once that the server allows.
    pub fn allowed(&self) -> u32 {
        match self {
            Self::Http2(client) => client.allowed(),
            Self::Mqtt(window) => window.allowed().into(),
        }
    }

    /// Returns the size of a request's header fields that the server accepts, if it states one.
    pub const fn header_bytes_max(&self) -> Option<u32> {
        if let Self::Http2(client) = self { client.header_bytes_max() } else { None }
    }

    /// Returns the number of operations that have not ended.
    pub fn open(&self) -> usize {
        match self {
            Self::Http2(client) => client.open_streams(),
            Self::Mqtt(window) => window.open(),
        }
    }

    /// Reports whether none may begin any more.
    pub fn is_draining(&self) -> bool {
        either!(self.is_draining())
    }

    /// Lets no further operation begin.
    pub const fn drain(&mut self) {
        either!(self.drain())
    }

    /// Gives up the operation of `key`.
    pub fn give_up(&mut self, key: u32) {
        match self {
            Self::Http2(client) => client.reset(key),
            Self::Mqtt(window) => window.give_up(key),
        }
    }

    /// Reports whether the operation of `key` waits for the server to take the rest of its body.
    pub fn awaits_window(&self, key: u32) -> bool {
        matches!(self, Self::Http2(client) if client.awaits_window(key))
    }

    /// Returns an operation that the server will not answer, once it drains.
    pub fn take_untouched(&mut self) -> Option<u32> {
        if let Self::Http2(client) = self { client.take_untouched() } else { None }
    }

    /// Returns the error by which the server ended the connection, once it drains.
    pub fn ended_by(&self) -> Option<Http2Error> {
        if let Self::Http2(client) = self { client.ended_by() } else { None }
    }

    /// Removes an operation that has not ended, because the connection is lost. Returns its key and whether its answer
    /// had begun.
    pub fn take_lost(&mut self) -> Option<(u32, bool)> {
        match self {
            Self::Http2(client) => client.take_lost(),
            Self::Mqtt(window) => Some((window.take_lost()?, false)),
        }
    }

    /// Continues to send bodies that wait for room; `body_of` returns the body of a number, in two parts.
    #[inline]
    pub fn send_bodies<'b>(&mut self, body_of: impl Fn(u32) -> [&'b [u8]; 2]) {
        match self {
            Self::Http2(client) if client.has_bodies() => client.send_bodies(body_of),
            Self::Mqtt(window) if window.has_bodies() => {
                window.send_bodies(|number| body_of(number)[1]);
            }
            Self::Http2(_) | Self::Mqtt(_) => {}
        }
    }

    /// Reports whether there is something to send.
    pub fn has_output(&self) -> bool {
        either!(self.has_output())
    }

    /// Takes what is to be sent; `buffer`, which is empty, takes its place.
    pub fn take_output(&mut self, buffer: &mut Vec<u8>) {
        either!(self.take_output(buffer))
    }

    /// Returns the key of an operation without an answer that has ended, because all output is sent.
    pub fn take_sent(&mut self) -> Option<u32> {
        if let Self::Mqtt(window) = self { window.take_sent() } else { None }
    }

    /// Returns the stamp of the message that was just delivered, if it begins with one.
    pub fn delivery(&self) -> Option<Filling> {
        if let Self::Mqtt(window) = self { window.delivery() } else { None }
    }

    /// Makes it one for another connection.
    pub fn clear(&mut self) {
        either!(self.clear())
    }
}
