//! The client half with several open publishes, each under its own identifier.
//!
//! Output gathers in [`Window::take_output`], so that all effects of one event leave together.

use std::collections::VecDeque;

use plimsoll_model::target::{Filling, MqttVersion};

use super::client::{acknowledged, answer_delivery, check_pingresp};
use super::error::{MqttError, NOT_SENT, Result, UNASKED, disconnected, malformed};
use super::greeting::{Greeting, Needs};
use super::packet::{
    DISCONNECT, PINGRESP, PUBACK, PUBCOMP, PUBREC, PUBREL, acknowledgement, pingreq, set_identifier,
};
use super::reader::{DELIVERY_BYTES, Reader, is_delivery};
use crate::conversation::{Answer, Progress, StreamProgress};
use crate::{BODY_BYTES_AHEAD, REPLIES_BYTES_MAX};

/// Key of an operation that was given up.
const NO_KEY: u32 = u32::MAX;
/// Identifier of a publish at QoS 0, which has none: it is open until it is sent.
const NO_ID: u16 = 0;

/// One connection to a broker. After an error it is of no more use.
#[derive(Clone, Debug)]
pub struct Window {
    version: MqttVersion,
    reader: Reader<{ DELIVERY_BYTES as usize }>,
    /// Until the connection is usable.
    greeting: Option<Box<Greeting>>,
    /// Seconds within which the broker wants to be sent something, if it states that.
    keep_alive_s: Option<u16>,
    /// Publishes above QoS 0 that the broker lets be open.
    receive_maximum: u16,
    /// Identifier of the next publish, if it is free.
    next_id: u16,
    /// Publishes in flight in the order of their sending, which is most often the order of their acknowledgements.
    flights: VecDeque<Flight>,
    given_up: usize,
    /// Pings that are not answered.
    pings: u32,
    is_draining: bool,
    out: Vec<u8>,
    /// Bytes in `out` that acknowledge deliveries.
    out_replies: usize,
    /// Such bytes in `out` and behind large bodies.
    replies: usize,
    /// Large bodies behind `out`, in turn.
    behind: VecDeque<Behind>,
}

/// A large body, and what follows it.
#[derive(Clone, Debug)]
struct Behind {
    body: LargeBody,
    out: Vec<u8>,
    /// Bytes in `out` that acknowledge deliveries.
    replies: usize,
}

/// The part of a large body that follows a packet; empty if the packet is all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeBody {
    /// Number of the body, for [`Window::send_bodies`].
    pub number: u32,
    /// The offset at which the part begins.
    pub from: usize,
    /// The length of the part.
    pub bytes: usize,
}

/// A publish that is not acknowledged, or at QoS 0 not sent.
#[derive(Clone, Copy, Debug)]
struct Flight {
    key: u32,
    id: u16,
    is_exactly_once: bool,
    /// PUBREC is here, and PUBCOMP is awaited.
    is_received: bool,
}

const _: () = assert!(size_of::<Flight>() <= 8);

impl Window {
    /// Creates the window of a connection before anything is sent.
    pub const fn new(version: MqttVersion) -> Self {
        Self {
            version,
            reader: Reader::new(),
            greeting: None,
            keep_alive_s: None,
            // Of a broker that names none (MQTT 5.0, 3.2.2.3.3).
            receive_maximum: u16::MAX,
            next_id: 1,
            flights: VecDeque::new(),
            given_up: 0,
            pings: 0,
            is_draining: false,
            out: Vec::new(),
            out_replies: 0,
            replies: 0,
            behind: VecDeque::new(),
        }
    }

    /// Makes it one for another connection.
    pub fn clear(&mut self) {
        *self = Self::new(self.version);
    }

    /// Notes that a CONNECT was sent, followed by a SUBSCRIBE if there is a subscription.
    pub fn expect_connack(&mut self, needs: Needs) {
        self.greeting = Some(Box::new(Greeting::new(needs)));
    }

    /// Returns the seconds within which the broker wants to be sent something, if it states that.
    pub const fn keep_alive_s(&self) -> Option<u16> {
        self.keep_alive_s
    }

    /// Sends a PINGREQ.
    pub fn ping(&mut self) {
        pingreq(self.last_out());
        self.pings += 1;
    }

    /// Reports whether another publish may be open where we want at most `wanted`.
    pub fn has_room(&self, wanted: u32) -> bool {
        let most = wanted.min(self.receive_maximum.into());
        self.greeting.is_none() && !self.is_draining() && self.flights.len() < most as usize
    }

    /// Returns the most publishes above QoS 0 at once that the broker allows.
    pub const fn allowed(&self) -> u16 {
        self.receive_maximum
    }

    /// Publishes that are neither acknowledged nor given up.
    pub fn open(&self) -> usize {
        self.flights.len() - self.given_up
    }

    /// Reports whether none may be sent any more; of a broker that acknowledges nothing that it may have at once, too.
    pub fn is_draining(&self) -> bool {
        self.is_draining || self.given_up >= usize::from(self.receive_maximum)
    }

    /// Lets no further publish be sent.
    pub const fn drain(&mut self) {
        self.is_draining = true;
    }

    /// Publishes `packet` with `body` behind it, which is above QoS 0 and gets an identifier; events name it by
    /// `key`. Call it only where [`Self::has_room`].
    pub fn begin(&mut self, key: u32, packet: &[u8], body: LargeBody, is_exactly_once: bool) {
        let id = self.free_id();
        let out = self.last_out();
        let begins = out.len();
        out.extend_from_slice(packet);
        set_identifier(&mut out[begins..], id);
        self.put_behind(body);
        self.flights.push_back(Flight { key, id, is_exactly_once, is_received: false });
    }

    /// Publishes `packet` with `body` behind it, which is at QoS 0. Call it only where [`Self::has_room`].
    pub fn begin_unanswered(&mut self, key: u32, packet: &[u8], body: LargeBody) {
        self.last_out().extend_from_slice(packet);
        self.put_behind(body);
        let flight = Flight { key, id: NO_ID, is_exactly_once: false, is_received: false };
        self.flights.push_back(flight);
    }

    /// Returns the key of a publish at QoS 0 that has ended, because all output is sent.
    pub fn take_sent(&mut self) -> Option<u32> {
        while self.flights.front().is_some_and(|flight| flight.id == NO_ID) {
            match self.flights.pop_front() {
                Some(flight) if flight.key != NO_KEY => return Some(flight.key),
                _ => self.given_up -= 1,
            }
        }
        None
    }

    /// Returns the stamp of the message that was just delivered, if it begins with one.
    pub fn delivery(&self) -> Option<Filling> {
        Filling::of_stamp(self.reader.payload())
    }

    /// The next identifier that no open publish has. They are given in turn, so that the oldest publish is the first
    /// whose identifier can come up again, and the one after it the next.
    fn free_id(&mut self) -> u16 {
        let after = |id: u16| id.checked_add(1).unwrap_or(1);
        let mut id = self.next_id;
        for flight in &self.flights {
            if flight.id != id {
                break;
            }
            id = after(id);
        }
        self.next_id = after(id);
        id
    }

    /// Gives up the publish of `key`. Its identifier and its place are the broker's until it is acknowledged.
    pub fn give_up(&mut self, key: u32) {
        if let Some(flight) = self.flights.iter_mut().find(|flight| flight.key == key) {
            flight.key = NO_KEY;
            self.given_up += 1;
        }
    }

    /// Removes an open publish, because the connection is lost, and returns its key.
    pub fn take_lost(&mut self) -> Option<u32> {
        while let Some(flight) = self.flights.pop_front() {
            if flight.key != NO_KEY {
                return Some(flight.key);
            }
            self.given_up -= 1;
        }
        debug_assert_eq!(self.given_up, 0, "more were given up than were open");
        None
    }

    /// Returns the buffer to which the next output is appended.
    fn last_out(&mut self) -> &mut Vec<u8> {
        self.behind.back_mut().map_or(&mut self.out, |last| &mut last.out)
    }

    fn put_behind(&mut self, body: LargeBody) {
        if body.bytes > 0 {
            self.behind.push_back(Behind { body, out: Vec::new(), replies: 0 });
        }
    }

    /// Reports whether large bodies wait: call [`Self::send_bodies`].
    pub fn has_bodies(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Continues to send the large bodies; `body_of` returns the body of a number.
    pub fn send_bodies<'a>(&mut self, body_of: impl Fn(u32) -> &'a [u8]) {
        while self.out.len() < BODY_BYTES_AHEAD
            && let Some(Behind { body, .. }) = self.behind.front_mut()
        {
            let rest = body_of(body.number).get(body.from..).unwrap_or_default();
            let count = body.bytes.min(BODY_BYTES_AHEAD - self.out.len());
            self.out.extend_from_slice(rest.get(..count).unwrap_or(rest));
            (body.from, body.bytes) = (body.from + count, body.bytes - count);
            if body.bytes == 0
                && let Some(after) = self.behind.pop_front()
            {
                self.out.extend_from_slice(&after.out);
                self.out_replies += after.replies;
            }
        }
    }

    /// Reports whether there is something to send.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Takes what is to be sent; `buffer`, which is empty, takes its place.
    pub fn take_output(&mut self, buffer: &mut Vec<u8>) {
        std::mem::swap(&mut self.out, buffer);
        self.replies -= std::mem::take(&mut self.out_replies);
    }

    /// Handles bytes from the broker, up to what ends something; returns how many were consumed, and the result.
    pub fn handle_bytes(&mut self, input: &[u8]) -> Result<(usize, Progress)> {
        let mut consumed = 0;
        while let Some(rest) = input.get(consumed..).filter(|rest| !rest.is_empty()) {
            let (read, ended) = self.reader.read(rest, self.version)?;
            if let Some(greeting) = &mut self.greeting
                && !self.reader.is_in_delivery()
            {
                greeting.keep(rest.get(..read).unwrap_or(rest));
            }
            consumed += read;
            let Some(first) = ended else { break };
            let progress = self.end_packet(first)?;
            if progress != Progress::NeedMore {
                return Ok((consumed, progress));
            }
        }
        Ok((consumed, Progress::NeedMore))
    }

    /// Returns the meaning of a packet that is complete.
    fn end_packet(&mut self, first: u8) -> Result<Progress> {
        if is_delivery(first) || first == PUBREL {
            if let Some(greeting) = &mut self.greeting {
                greeting.check_delivery()?;
                greeting.forget();
            }
            self.acknowledge_delivery(first)?;
            return Ok(match first {
                PUBREL => Progress::NeedMore,
                _ => Progress::Delivered,
            });
        }
        if let Some(greeting) = &mut self.greeting {
            if !greeting.end_packet(first, self.version)? {
                return Ok(Progress::NeedMore);
            }
            self.receive_maximum = greeting.limits.receive_maximum;
            self.keep_alive_s = greeting.limits.keep_alive_s;
            self.greeting = None;
            return Ok(Progress::Greeted);
        }
        match first {
            PUBACK | PUBREC | PUBCOMP => {
                let (id, reason) = acknowledged(&self.reader, first, self.version)?;
                self.acknowledge(first, id, reason)
            }
            PINGRESP if self.pings > 0 => {
                check_pingresp(&self.reader)?;
                self.pings -= 1;
                Ok(Progress::Alive)
            }
            DISCONNECT => Err(disconnected(self.reader.content(), self.version)),
            _ => malformed(UNASKED),
        }
    }

    /// Acknowledges what the reader holds, unless the broker reads no acknowledgements.
    fn acknowledge_delivery(&mut self, first: u8) -> Result<()> {
        let (out, replies) = match self.behind.back_mut() {
            Some(last) => (&mut last.out, &mut last.replies),
            None => (&mut self.out, &mut self.out_replies),
        };
        let before = out.len();
        answer_delivery(&self.reader, first, self.version, out)?;
        let added = out.len() - before;
        *replies += added;
        self.replies += added;
        if self.replies > REPLIES_BYTES_MAX { Err(MqttError::NotReading) } else { Ok(()) }
    }

    fn acknowledge(&mut self, first: u8, id: u16, reason: Option<u8>) -> Result<Progress> {
        let place = self.flights.iter().position(|flight| flight.id == id && id != NO_ID);
        let Some(place) = place else { return malformed(NOT_SENT) };
        let flight = &mut self.flights[place];
        let awaited = match (flight.is_exactly_once, flight.is_received) {
            (false, _) => PUBACK,
            (true, false) => PUBREC,
            (true, true) => PUBCOMP,
        };
        if first != awaited {
            return malformed("an acknowledgement that the publish does not await");
        }
        if first == PUBREC && reason.is_none() {
            flight.is_received = true;
            let out = self.behind.back_mut().map_or(&mut self.out, |last| &mut last.out);
            acknowledgement(out, PUBREL, id);
            return Ok(Progress::NeedMore);
        }
        let key = flight.key;
        self.flights.remove(place);
        if key == NO_KEY {
            self.given_up -= 1;
            return Ok(Progress::Stream(StreamProgress::RoomChanged));
        }
        Ok(Progress::Stream(StreamProgress::Ended(key, Answer::of_publish(reason))))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::target::Qos;
    use proptest::prelude::*;

    use super::*;

    const QOS_1: &[u8] = b"\x32\x07\0\x01a\0\x01\0x";
    const QOS_2: &[u8] = b"\x34\x07\0\x01a\0\x01\0x";

    const NO_BODY: LargeBody = LargeBody { number: 0, from: 0, bytes: 0 };

    const fn ended(key: u32, reason: Option<u8>) -> Progress {
        Progress::Stream(StreamProgress::Ended(key, Answer::of_publish(reason)))
    }

    fn connected(connack: &[u8]) -> Window {
        let mut window = Window::new(MqttVersion::V5);
        window.expect_connack(Needs::NONE);
        let read = window.handle_bytes(connack);
        assert_eq!(read, Ok((connack.len(), Progress::Greeted)));
        window
    }

    fn sent(window: &mut Window) -> Vec<u8> {
        let mut out = Vec::new();
        window.take_output(&mut out);
        out
    }

    #[test]
    fn large_bodies_are_sent_in_turn_between_packets() {
        let mut window = connected(b"\x20\x03\0\0\0");
        let large: Vec<u8> = (0..200_000u32).map(|at| at as u8).collect();
        let body = |from, bytes| LargeBody { number: 9, from, bytes };
        window.begin(1, QOS_1, body(0, 200_000), false);
        window.begin(2, QOS_1, body(199_990, 10), false);
        window.begin(3, QOS_1, NO_BODY, false);
        // It does not break the body before it.
        window.ping();
        let mut all = Vec::new();
        while window.has_bodies() || window.has_output() {
            window.send_bodies(|number| if number == 9 { &large } else { b"" });
            let piece = sent(&mut window);
            assert!(!piece.is_empty() && piece.len() <= BODY_BYTES_AHEAD + 100);
            all.extend(piece);
        }
        let numbered = |id: u8| [&QOS_1[..6], &[id], &QOS_1[7..]].concat();
        let expected = [
            numbered(1),
            large.clone(),
            numbered(2),
            large[199_990..].to_vec(),
            numbered(3),
            b"\xC0\0".to_vec(),
        ];
        assert!(all == expected.concat());
    }

    #[test]
    fn a_broker_that_reads_no_acknowledgements_is_left() {
        const DELIVERY: &[u8] = b"\x32\x07\0\x01a\0\x01\0x";
        let mut window = connected(b"\x20\x03\0\0\0");
        let deliver = |window: &mut Window| window.handle_bytes(DELIVERY);
        let most = REPLIES_BYTES_MAX / 4;
        // What is taken is sent, and as many may wait again, also behind a large body.
        for has_body in [false, true, false] {
            if has_body {
                window.begin(1, QOS_1, LargeBody { number: 9, from: 0, bytes: 10 }, false);
            }
            for _ in 0..most {
                assert_eq!(deliver(&mut window), Ok((DELIVERY.len(), Progress::Delivered)));
            }
            let mut bytes = 0;
            while window.has_bodies() || window.has_output() {
                window.send_bodies(|_| b"0123456789");
                bytes += sent(&mut window).len();
            }
            assert!(bytes >= REPLIES_BYTES_MAX);
        }
        assert!((0..most).all(|_| deliver(&mut window).is_ok()));
        assert_eq!(deliver(&mut window), Err(MqttError::NotReading));
        assert_eq!(MqttError::NotReading.class(), plimsoll_model::ErrorClass::PeerNotReading);
    }

    #[test]
    fn publishes_are_told_apart_by_their_identifiers() {
        let mut window = connected(b"\x20\x03\0\0\0");
        window.begin(70, QOS_1, NO_BODY, false);
        window.begin(80, QOS_1, NO_BODY, false);
        assert_eq!(sent(&mut window), b"\x32\x07\0\x01a\0\x01\0x\x32\x07\0\x01a\0\x02\0x");
        let read = window.handle_bytes(b"\x40\x02\0\x02\x40\x03\0\x01\x97");
        assert_eq!(read, Ok((4, ended(80, None))));
        let read = window.handle_bytes(b"\x40\x03\0\x01\x97");
        assert_eq!(read, Ok((5, ended(70, Some(0x97)))));
        let again = window.handle_bytes(b"\x40\x02\0\x01").unwrap_err();
        assert!(again.to_string().contains("was not sent"), "{again}");
    }

    #[test]
    fn the_broker_bounds_the_window() {
        let mut window = connected(b"\x20\x0B\0\0\x08\x11\0\0\0\0\x21\0\x02");
        assert!(window.has_room(20));
        window.begin(1, QOS_1, NO_BODY, false);
        window.begin(2, QOS_1, NO_BODY, false);
        assert!(!window.has_room(20));
        // What is given up keeps its place until the broker is done with it.
        window.give_up(2);
        assert_eq!((window.has_room(20), window.open()), (false, 1));
        let read = window.handle_bytes(b"\x40\x02\0\x02");
        assert_eq!(read, Ok((4, Progress::Stream(StreamProgress::RoomChanged))));
        assert!(window.has_room(20) && !window.has_room(1));
        // A broker that acknowledges nothing any more.
        window.begin(3, QOS_1, NO_BODY, false);
        window.give_up(1);
        assert!(!window.is_draining());
        window.give_up(3);
        assert!(window.is_draining() && window.open() == 0);
        assert_eq!(window.take_lost(), None);
    }

    #[test]
    fn exactly_once_takes_two_round_trips() {
        let mut window = connected(b"\x20\x03\0\0\0");
        window.begin(7, QOS_2, NO_BODY, true);
        sent(&mut window);
        let early = window.clone().handle_bytes(b"\x70\x02\0\x01").unwrap_err();
        assert!(early.to_string().contains("does not await"), "{early}");
        let read = window.handle_bytes(b"\x50\x02\0\x01");
        assert_eq!(read, Ok((4, Progress::NeedMore)));
        assert_eq!(sent(&mut window), b"\x62\x02\0\x01");
        let read = window.handle_bytes(b"\x70\x02\0\x01");
        assert_eq!(read, Ok((4, ended(7, None))));
    }

    #[test]
    fn identifiers_that_are_open_are_stepped_over() {
        let mut window = connected(b"\x20\x03\0\0\0");
        window.next_id = u16::MAX;
        for key in 0..2 {
            window.begin(key, QOS_1, NO_BODY, false);
        }
        window.next_id = u16::MAX;
        window.begin(2, QOS_1, NO_BODY, false);
        let ids: Vec<_> = window.flights.iter().map(|flight| flight.id).collect();
        assert_eq!(ids, [u16::MAX, 1, 2]);
    }

    #[test]
    fn deliveries_are_told_and_acknowledged() {
        let mut window = connected(b"\x20\x03\0\0\0");
        let whose = Filling { run: 9, connection: 4, operation: 2, ..Filling::default() };
        let begin = |first: &[u8]| [first, &whose.stamp()].concat();
        let at_1 = begin(b"\x32\x26\0\x01a\0\x05\0");
        let read = window.handle_bytes(&at_1);
        assert_eq!(read, Ok((at_1.len(), Progress::Delivered)));
        assert_eq!((window.delivery(), sent(&mut window)), (Some(whose), b"\x40\x02\0\x05".into()));
        let at_2 = b"\x34\x07\0\x01a\0\x06\0x\x62\x02\0\x06";
        assert_eq!(window.handle_bytes(at_2), Ok((9, Progress::Delivered)));
        assert_eq!(window.delivery(), None);
        assert_eq!(window.handle_bytes(&at_2[9..]), Ok((4, Progress::NeedMore)));
        assert_eq!(sent(&mut window), b"\x50\x02\0\x06\x70\x02\0\x06");
    }

    #[test]
    fn without_an_acknowledgement_sent_is_over() {
        let mut window = connected(b"\x20\x03\0\0\0");
        window.begin_unanswered(7, b"\x30\x04\0\x01a\0", NO_BODY);
        window.begin_unanswered(8, b"\x30\x04\0\x01a\0", NO_BODY);
        assert!(!window.has_room(2) && window.open() == 2);
        // No acknowledgement is one of theirs.
        assert!(window.clone().handle_bytes(b"\x40\x02\0\0").is_err());
        window.give_up(7);
        assert_eq!(sent(&mut window).len(), 12);
        assert_eq!((window.take_sent(), window.take_sent()), (Some(8), None));
        assert!(window.has_room(1) && window.open() == 0);
    }

    #[test]
    fn usable_once_the_subscription_is_granted() {
        let mut window = Window::new(MqttVersion::V3_1_1);
        window.expect_connack(Needs { subscribes: Some(Qos::AtMostOnce), ..Needs::NONE });
        let read = window.handle_bytes(b"\x20\x02\0\0\x90\x03\0\x01\0");
        assert_eq!(read, Ok((9, Progress::Greeted)));
        assert!(window.has_room(65_535));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            bytes in prop_oneof![
                any::<Vec<u8>>(),
                prop::collection::vec(
                    prop::sample::select(vec![
                        &b"\x20\x03\0\0\0"[..], b"\x20\x06\0\0\x03\x21\0\x01", b"\x40\x02\0\x01",
                        b"\x50\x02\0\x02", b"\x70\x02\0\x02", b"\x31\x04\0\x01a\0",
                        b"\x34\x06\0\x01a\0\x02\0", b"\x62\x02\0\x02",
                    ]),
                    0..6,
                ).prop_map(|packets| packets.concat()),
            ],
        ) {
            let mut window = Window::new(MqttVersion::V5);
            window.expect_connack(Needs::NONE);
            let mut rest = &bytes[..];
            while let Ok((consumed, progress)) = window.handle_bytes(rest) {
                rest = &rest[consumed..];
                if progress == Progress::Greeted {
                    window.begin(1, QOS_1, NO_BODY, false);
                    window.begin(2, QOS_2, NO_BODY, true);
                }
                prop_assert!(window.open() <= 2);
                if rest.is_empty() {
                    break;
                }
            }
        }
    }
}
