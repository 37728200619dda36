//! The part of a message behind its head if the body is large: its bytes are made as they are
//! sent, out of memory that all connections share.

use plimsoll_model::target::{Body, Messages};

use crate::websocket::{message_bytes, write_message_from};

/// Bytes that are generated at a time if the body is sent in another form.
const MADE_AT_ONCE: usize = 64 * 1024;
/// The bytes that are lent at a time.
const LENT_AT_ONCE: usize = 256 * 1024;

/// A body that is sent piece by piece, with what frames it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Streamed {
    body: Body,
    form: Form,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Form {
    /// The body itself, before these bytes.
    Plain { tail: &'static [u8] },
    /// Masked, in frames of WebSocket.
    Frames(Messages),
}

impl Streamed {
    /// Creates a message of `body` itself, followed by `tail`.
    pub const fn plain(body: Body, tail: &'static [u8]) -> Self {
        Self { body, form: Form::Plain { tail } }
    }

    /// Creates one message of WebSocket with `body`: text, unless `frames` makes it binary.
    pub fn message(body: Body, frames: &Messages) -> Self {
        Self { body, form: Form::Frames(frames.clone()) }
    }

    /// Returns the body alone.
    pub const fn body(&self) -> &Body {
        &self.body
    }

    /// Returns the number of all bytes that are sent.
    pub fn len(&self) -> u64 {
        match &self.form {
            Form::Plain { tail } => (self.body.len() + tail.len()) as u64,
            Form::Frames(frames) => message_bytes(self.body.len() as u64, frames),
        }
    }

    /// Reports whether nothing is sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns some of the bytes from `from` on, and whether they are the last ones; none behind the end. They are put
    /// into `scratch` if the body does not have them.
    pub fn piece<'a>(&'a self, from: usize, scratch: &'a mut Vec<u8>) -> (&'a [u8], bool) {
        let piece: &[u8] = match &self.form {
            Form::Plain { tail } => match from.checked_sub(self.body.len()) {
                Some(behind) => tail.get(behind..).unwrap_or_default(),
                None => {
                    let rest = &self.body[from..];
                    rest.get(..LENT_AT_ONCE).unwrap_or(rest)
                }
            },
            Form::Frames(frames) => {
                scratch.clear();
                write_message_from(scratch, &self.body, frames, from as u64, MADE_AT_ONCE);
                scratch
            }
        };
        (piece, from as u64 + piece.len() as u64 >= self.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::websocket;

    fn sent(streamed: &Streamed, steps: &[usize]) -> Vec<u8> {
        let (mut all, mut scratch) = (Vec::new(), Vec::new());
        let mut steps = steps.iter().cycle();
        loop {
            let (piece, is_last) = streamed.piece(all.len(), &mut scratch);
            // The kernel takes a part of it.
            let taken = piece.len().min(*steps.next().unwrap_or(&1));
            assert!(taken > 0, "nothing is left before the end");
            all.extend_from_slice(&piece[..taken]);
            if is_last && taken == piece.len() {
                return all;
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_make_the_whole(
            body in 1usize..3000, is_chunked: bool,
            steps in prop::collection::vec(1usize..2000, 1..4),
        ) {
            let body: Vec<u8> = (0..body).map(|at| at as u8).collect();
            let tail: &[u8] = if is_chunked { b"\r\n0\r\n\r\n" } else { b"" };
            let whole = [&body, tail].concat();
            let streamed = Streamed::plain(body.into(), tail);
            prop_assert_eq!(streamed.len(), whole.len() as u64);
            prop_assert_eq!(sent(&streamed, &steps), whole);
        }

        #[test]
        fn pieces_make_the_message(
            body in 1usize..200_000, most in prop::option::of(1u32..70_000), is_binary: bool,
            steps in prop::collection::vec(1usize..70_000, 1..4),
        ) {
            let most = if body > 2_000 { most.map(|most| most.max(100)) } else { most };
            let body = vec![b'a'; body];
            let frames = Messages { is_binary, payload_bytes_max: most, ..Messages::default() };
            let mut whole = Vec::new();
            websocket::message(&mut whole, &body, &frames);
            let streamed = Streamed::message(body.into(), &frames);
            prop_assert_eq!(streamed.len(), whole.len() as u64);
            prop_assert!(sent(&streamed, &steps) == whole);
        }
    }

    #[test]
    fn large_bodies_are_lent_in_pieces() {
        let streamed = Streamed::plain(vec![1; 600_000].into(), b"");
        let mut scratch = Vec::new();
        let (piece, is_last) = streamed.piece(4, &mut scratch);
        assert_eq!((piece.len(), is_last), (LENT_AT_ONCE, false));
        assert_eq!(streamed.piece(599_999, &mut scratch), (&[1][..], true));
        assert_eq!(streamed.piece(600_000, &mut scratch), (&[][..], true));
    }
}
