//! Properties of version 5 (MQTT 5.0, 2.2.2).

use super::packet::{LengthTooLong, remaining_length};

/// The properties behind a length, each with its identifier; it ends where one is cut off or unknown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Properties<'a> {
    rest: &'a [u8],
}

impl<'a> Properties<'a> {
    /// Of a field that begins with their length.
    pub(super) fn of(field: &'a [u8]) -> Self {
        let rest = match remaining_length(field) {
            Ok(Some((length, bytes))) => {
                let behind = field.get(bytes..).unwrap_or_default();
                behind.get(..length as usize).unwrap_or(behind)
            }
            Ok(None) | Err(LengthTooLong) => &[],
        };
        Self { rest }
    }
}

impl<'a> Iterator for Properties<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (&id, behind) = self.rest.split_first()?;
        let text_bytes = |at: usize| {
            let length = behind.get(at..at + 2)?;
            Some(2 + usize::from(u16::from_be_bytes([length[0], length[1]])))
        };
        let bytes = match id {
            0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28..=0x2A => 1,
            0x13 | 0x21..=0x23 => 2,
            0x02 | 0x11 | 0x18 | 0x27 => 4,
            0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1A | 0x1C | 0x1F => text_bytes(0)?,
            0x26 => {
                let name = text_bytes(0)?;
                name + text_bytes(name)?
            }
            0x0B => remaining_length(behind).ok()??.1,
            _ => return None,
        };
        let (value, rest) = behind.split_at_checked(bytes)?;
        self.rest = rest;
        Some((id, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_stepped_over() {
        let field = b"\x1A\x24\x01\x13\0\x0A\x27\0\0\0\x09\x12\0\x01c\x26\0\x01k\0\x01v\x21\0\x14";
        let ids: Vec<_> = Properties::of(field).map(|(id, _)| id).collect();
        assert_eq!(ids, [0x24, 0x13, 0x27, 0x12, 0x26, 0x21]);
        let last = Properties::of(field).last();
        assert_eq!(last, Some((0x21, &b"\0\x14"[..])));
        for cut in 0..field.len() {
            assert!(Properties::of(&field[..cut]).count() < 6);
        }
        assert_eq!(Properties::of(b"\x03\x7F\0\0").count(), 0);
        assert_eq!(Properties::of(b"\xFF\xFF\xFF\xFF\x01").count(), 0);
    }
}
