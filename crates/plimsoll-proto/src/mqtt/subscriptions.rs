//! The subscriptions of one client of a broker, stored in one allocation because a server has many clients.
//!
//! [`Subscriptions`] is a boxed slice: the last packet identifier (2 bytes), then options, length and text of each
//! filter, at most 64 KiB in total. An empty slice means that the client never subscribed. Lookups scan the filters
//! linearly. `own_qos` decides whether a client receives its own message; [`Subscriptions::renumber`] gives a
//! delivered PUBLISH the next identifier. Start reading at `Subscriptions::add`.

use plimsoll_model::target::filter_matches;

use super::packet::set_identifier;

/// Bytes of all filters of a client.
const BYTES_MAX: usize = 65_536;
/// Bytes of a filter before its text: options, and a length.
const HEAD_BYTES: usize = 3;
/// The last packet identifier that was given.
const ID_BYTES: usize = 2;
/// Mask of the quality of service within the options of a subscription; another bit excludes the client's own messages.
const QOS: u8 = 0b11;
const NO_LOCAL: u8 = 0b100;

/// The subscriptions of a client; empty for one that never had any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscriptions {
    /// The last packet identifier, then each filter: options, length, text.
    bytes: Box<[u8]>,
}

const _: () = assert!(size_of::<Subscriptions>() <= 16);

impl Subscriptions {
    /// Reports whether the client never subscribed to anything.
    pub const fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Adds one, in the place of an earlier one to the same filter; whether there was room.
    pub(super) fn add(&mut self, filter: &str, options: u8) -> bool {
        self.remove(filter);
        let mut bytes = std::mem::take(&mut self.bytes).into_vec();
        if bytes.is_empty() {
            bytes.extend_from_slice(&[0; ID_BYTES]);
        }
        let has_room = bytes.len() + HEAD_BYTES + filter.len() <= BYTES_MAX;
        if let Ok(length) = u16::try_from(filter.len())
            && has_room
        {
            bytes.push(options);
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(filter.as_bytes());
        }
        self.bytes = bytes.into();
        has_room
    }

    /// Forgets the one to this filter, if there is one.
    pub(super) fn remove(&mut self, filter: &str) {
        let mut behind = ID_BYTES;
        let place = self.iter().find_map(|(_, text)| {
            let at = behind;
            behind += HEAD_BYTES + text.len();
            (text == filter).then_some(at..behind)
        });
        if let Some(place) = place {
            let mut bytes = std::mem::take(&mut self.bytes).into_vec();
            bytes.drain(place);
            self.bytes = bytes.into();
        }
    }

    /// Returns the highest quality of service at which the client wants its own message to `topic`, if it does.
    pub(super) fn own_qos(&self, topic: &str) -> Option<u8> {
        let wants = |(options, filter): &(u8, &str)| {
            options & NO_LOCAL == 0 && filter_matches(filter, topic)
        };
        self.iter().filter(wants).map(|(options, _)| options & QOS).max()
    }

    /// Returns the next packet identifier for a message that is delivered.
    pub(super) fn take_id(&mut self) -> u16 {
        let Some((last, _)) = self.bytes.split_first_chunk_mut() else { return 1 };
        let id = u16::from_be_bytes(*last).checked_add(1).unwrap_or(1);
        *last = id.to_be_bytes();
        id
    }

    /// Makes a PUBLISH that was delivered another one with the same message.
    pub fn renumber(&mut self, packet: &mut [u8]) {
        // At QoS 0 it has no identifier.
        if packet.first().is_some_and(|first| first >> 1 & QOS > 0) {
            set_identifier(packet, self.take_id());
        }
    }

    /// Options and text of each.
    fn iter(&self) -> impl Iterator<Item = (u8, &str)> {
        let mut rest = self.bytes.get(ID_BYTES..).unwrap_or_default();
        std::iter::from_fn(move || {
            let &[options, high, low, ref behind @ ..] = rest else { return None };
            let length = usize::from(u16::from_be_bytes([high, low]));
            let (text, further) = behind.split_at_checked(length)?;
            rest = further;
            Some((options, std::str::from_utf8(text).unwrap_or_default()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_added_replaced_and_removed() {
        let mut own = Subscriptions::default();
        assert!(own.is_empty());
        for (filter, options) in [("a/+", 1), ("a/b", 2), ("c", NO_LOCAL | 2), ("a/b", 0)] {
            assert!(own.add(filter, options));
        }
        assert_eq!((own.own_qos("a/b"), own.own_qos("a/x")), (Some(1), Some(1)));
        assert_eq!((own.own_qos("c"), own.own_qos("d")), (None, None));
        own.remove("a/+");
        own.remove("never");
        assert_eq!((own.own_qos("a/b"), own.own_qos("a/x")), (Some(0), None));
        own.remove("a/b");
        own.remove("c");
        assert!(!own.is_empty() && own.iter().count() == 0);
    }

    #[test]
    fn their_memory_is_bounded() {
        let mut own = Subscriptions::default();
        let long = "f".repeat(40_000);
        assert!(own.add(&long, 0));
        assert!(!own.add(&long.to_uppercase(), 0));
        assert_eq!(own.own_qos(&long), Some(0));
        assert!(own.add(&long, 1));
        assert_eq!(own.own_qos(&long), Some(1));
    }

    #[test]
    fn identifiers_begin_again_behind_the_last() {
        let mut own = Subscriptions::default();
        own.add("a", 0);
        assert_eq!((own.take_id(), own.take_id()), (1, 2));
        for _ in 2..u16::MAX {
            own.take_id();
        }
        assert_eq!(own.take_id(), 1);
        let mut packet = *b"\x32\x05\0\x01a\0\x07";
        own.renumber(&mut packet);
        assert_eq!(packet, *b"\x32\x05\0\x01a\0\x02");
        let mut unnumbered = *b"\x30\x05\0\x01axy";
        own.renumber(&mut unnumbered);
        assert_eq!(unnumbered, *b"\x30\x05\0\x01axy");
    }
}
