//! A check whether bytes that come in pieces are UTF-8 (RFC 3629), which fails as early as possible.

use crate::kept::Kept;

/// The bytes of a character whose end has not come yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Utf8(Kept<4>);

impl Utf8 {
    /// Takes the next bytes; `false` if they cannot be UTF-8, whatever follows.
    pub(super) fn handle_bytes(&mut self, mut input: &[u8]) -> bool {
        while !self.is_complete() {
            let Some((next, rest)) = input.split_at_checked(1) else { return true };
            input = rest;
            self.0.extend(next);
            match unfinished(self.0.bytes()) {
                Some(0) => self.0 = Kept::default(),
                Some(_) => {}
                None => return false,
            }
        }
        let Some(count) = unfinished(input) else { return false };
        self.0.extend(input.get(input.len() - count..).unwrap_or_default());
        true
    }

    /// Reports whether the last character is complete.
    pub(super) fn is_complete(self) -> bool {
        self.0.bytes().is_empty()
    }
}

/// Returns the number of bytes at the end of `bytes`, 0 to 3, that begin an incomplete character; `None`
/// if they are not UTF-8.
fn unfinished(bytes: &[u8]) -> Option<usize> {
    match std::str::from_utf8(bytes) {
        Ok(_) => Some(0),
        Err(error) if error.error_len().is_none() => Some(bytes.len() - error.valid_up_to()),
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_be_mended_is_told_at_once() {
        for (first, second) in [
            (&[0xF4][..], &[0x90][..]),
            (&[0xE0], &[0x80]),
            (&[0xED], &[0xA0]),
            (&[], &[0xC0]),
            (&[0xCE], b"a"),
        ] {
            let mut utf8 = Utf8::default();
            assert!(utf8.handle_bytes(first), "{first:?}");
            assert!(!utf8.handle_bytes(second), "{first:?} {second:?}");
        }
    }

    proptest! {
        #[test]
        fn pieces_are_judged_like_the_whole(
            bytes in prop_oneof![
                any::<Vec<u8>>(),
                any::<String>().prop_map(String::into_bytes),
                prop::collection::vec(0x80u8..=0xFF, 0..8),
            ],
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut utf8 = Utf8::default();
            let is_good = cuts.windows(2).all(|cut| utf8.handle_bytes(&bytes[cut[0]..cut[1]]));
            prop_assert_eq!(is_good && utf8.is_complete(), std::str::from_utf8(&bytes).is_ok());
        }
    }
}
