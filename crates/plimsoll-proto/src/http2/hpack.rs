//! Header blocks (RFC 7541).
//!
//! [`fields`] walks a block without decoding it, which is all that a client needs whose table has no size;
//! [`Decoder`] is the whole of it, with a bounded table. Both halves write blocks that leave the peer's
//! table as it is.

use std::collections::VecDeque;

use thiserror::Error;

use super::huffman;

/// The header table that a decoder may be asked to keep, in bytes as RFC 7541, 4.1 counts them.
pub const TABLE_BYTES_MAX: usize = 4_096;
/// Cost of a field beside its name and value (RFC 7541, 4.1).
const FIELD_OVERHEAD: usize = 32;

/// Names and values that every table begins with (RFC 7541, appendix A); the first has number 1.
#[rustfmt::skip]
const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"),
    (":path", "/index.html"), (":scheme", "http"), (":scheme", "https"), (":status", "200"),
    (":status", "204"), (":status", "206"), (":status", "304"), (":status", "400"),
    (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""),
    ("accept", ""), ("access-control-allow-origin", ""), ("age", ""), ("allow", ""),
    ("authorization", ""), ("cache-control", ""), ("content-disposition", ""),
    ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""),
    ("date", ""), ("etag", ""), ("expect", ""), ("expires", ""), ("from", ""), ("host", ""),
    ("if-match", ""), ("if-modified-since", ""), ("if-none-match", ""), ("if-range", ""),
    ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""), ("location", ""),
    ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""),
    ("via", ""), ("www-authenticate", ""),
];

/// Why a block cannot be decoded.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum HpackError {
    /// An end where more was announced.
    #[error("a header block ends in the middle of a field")]
    Short,
    /// A number above what any index or length may be.
    #[error("a number in a header block is too large")]
    Number,
    /// An index without an entry.
    #[error("a header block names an entry of the table that does not exist")]
    Index,
    /// Bytes that are no Huffman code.
    #[error("a text in a header block is not in the Huffman code")]
    Huffman,
    /// A change of the table's size if none may be, or to a larger one than was allowed.
    #[error("a header block sets a table size that was not allowed")]
    TableSize,
    /// The fields are larger than the bound.
    #[error("the fields of a header block are larger than {} KiB", super::BLOCK_BYTES_MAX / 1024)]
    TooLarge,
}

/// A text in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// `true` if it is in the Huffman code.
    pub is_huffman: bool,
    /// The bytes in the block.
    pub bytes: &'a [u8],
}

impl Text<'_> {
    fn decode(self, out: &mut Vec<u8>) -> Result<(), HpackError> {
        match self.is_huffman {
            false => out.extend_from_slice(self.bytes),
            true if huffman::decode(self.bytes, out) => {}
            true => return Err(HpackError::Huffman),
        }
        Ok(())
    }
}

/// One representation in a block (RFC 7541, 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// Name and value of an entry.
    Indexed(usize),
    /// A value, with the name of an entry, or with a literal name.
    Literal {
        /// The entry, or 0.
        name_of: usize,
        /// The name, if `name_of` is 0.
        name: Text<'a>,
        /// The value.
        value: Text<'a>,
        /// To be added to the table.
        is_kept: bool,
    },
    /// The table is to be of this size.
    TableSize(usize),
}

/// Returns the representations of a block, one after another.
pub fn fields(block: &[u8]) -> Fields<'_> {
    Fields { rest: block, began: false }
}

/// The iterator of [`fields`].
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    /// A field has been read, so that no size may follow.
    began: bool,
}

impl<'a> Fields<'a> {
    /// Reads the next representation; `None` at the end of the block.
    pub fn read(&mut self) -> Result<Option<Field<'a>>, HpackError> {
        let Some(first) = self.rest.first() else { return Ok(None) };
        let (size, field) = match first {
            0x80.. => (false, Field::Indexed(self.number(7)?)),
            0x40..0x80 => (false, self.literal(6, true)?),
            0x20..0x40 => (true, Field::TableSize(self.number(5)?)),
            _ => (false, self.literal(4, false)?),
        };
        if size && self.began {
            return Err(HpackError::TableSize);
        }
        self.began |= !size;
        Ok(Some(field))
    }

    fn literal(&mut self, bits: u32, is_kept: bool) -> Result<Field<'a>, HpackError> {
        const NONE: Text<'static> = Text { is_huffman: false, bytes: &[] };
        let name_of = self.number(bits)?;
        let name = if name_of == 0 { self.text()? } else { NONE };
        let value = self.text()?;
        Ok(Field::Literal { name_of, name, value, is_kept })
    }

    fn text(&mut self) -> Result<Text<'a>, HpackError> {
        let is_huffman = self.rest.first().ok_or(HpackError::Short)? & 0x80 != 0;
        let length = self.number(7)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(HpackError::Short)?;
        self.rest = rest;
        Ok(Text { is_huffman, bytes })
    }

    /// Returns a number in the low `bits` of the next byte and, if it does not fit, in further ones.
    fn number(&mut self, bits: u32) -> Result<usize, HpackError> {
        let (first, mut rest) = self.rest.split_first().ok_or(HpackError::Short)?;
        let most = (1usize << bits) - 1;
        let mut number = usize::from(*first) & most;
        if number == most {
            // Three bytes are above every bound of ours.
            let mut shift = 0;
            loop {
                let (next, further) = rest.split_first().ok_or(HpackError::Short)?;
                rest = further;
                number += usize::from(next & 0x7F) << shift;
                if next & 0x80 == 0 {
                    break;
                }
                shift += 7;
                if shift > 21 {
                    return Err(HpackError::Number);
                }
            }
        }
        self.rest = rest;
        Ok(number)
    }
}

/// Decodes the blocks of one connection, in their order.
///
/// A decoder of header blocks. Its table exists only once the peer adds to it.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The latest first; at most `size_max` by RFC 7541, 4.1.
    table: VecDeque<Box<[u8]>>,
    /// By entry: how long the name at its start is.
    name_bytes: VecDeque<u16>,
    size: usize,
    /// Reduction below [`TABLE_BYTES_MAX`] that the peer has set.
    lowered_by: u16,
}

impl Decoder {
    /// Hands each field of `block`, name and value, to `on_field`. `scratch` is used and left empty.
    pub fn decode(
        &mut self,
        block: &[u8],
        scratch: &mut Vec<u8>,
        on_field: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), HpackError> {
        let mut fields = fields(block);
        let mut total = 0;
        while let Some(field) = fields.read()? {
            scratch.clear();
            let (name_bytes, is_kept) = match field {
                Field::TableSize(size) => {
                    self.set_size(size)?;
                    continue;
                }
                Field::Indexed(index) => {
                    let (name, value) = self.entry(index)?;
                    scratch.extend_from_slice(name);
                    scratch.extend_from_slice(value);
                    (name.len(), false)
                }
                Field::Literal { name_of, name, value, is_kept } => {
                    match name_of {
                        0 => name.decode(scratch)?,
                        index => scratch.extend_from_slice(self.entry(index)?.0),
                    }
                    let name_bytes = scratch.len();
                    value.decode(scratch)?;
                    (name_bytes, is_kept)
                }
            };
            total += scratch.len() + FIELD_OVERHEAD;
            if total > super::BLOCK_BYTES_MAX {
                return Err(HpackError::TooLarge);
            }
            let (name, value) = scratch.split_at(name_bytes);
            on_field(name, value);
            if is_kept {
                self.keep(scratch, name_bytes);
            }
        }
        scratch.clear();
        Ok(())
    }

    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), HpackError> {
        let place = index.checked_sub(1).ok_or(HpackError::Index)?;
        if let Some((name, value)) = STATIC.get(place) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let place = place - STATIC.len();
        let (entry, name_bytes) =
            self.table.get(place).zip(self.name_bytes.get(place)).ok_or(HpackError::Index)?;
        Ok(entry.split_at(usize::from(*name_bytes)))
    }

    fn set_size(&mut self, size: usize) -> Result<(), HpackError> {
        let lowered = TABLE_BYTES_MAX.checked_sub(size).ok_or(HpackError::TableSize)?;
        self.lowered_by = lowered as u16;
        self.shrink_to(size);
        Ok(())
    }

    fn keep(&mut self, entry: &[u8], name_bytes: usize) {
        let size_max = TABLE_BYTES_MAX - usize::from(self.lowered_by);
        let size = entry.len() + FIELD_OVERHEAD;
        // One that is larger than the table empties it (RFC 7541, 4.4).
        self.shrink_to(size_max.saturating_sub(size));
        if size <= size_max {
            self.table.push_front(entry.into());
            self.name_bytes.push_front(name_bytes as u16);
            self.size += size;
        }
    }

    fn shrink_to(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.table.pop_back()
        {
            self.name_bytes.pop_back();
            self.size -= entry.len() + FIELD_OVERHEAD;
        }
    }

    /// Reports whether the peer has added to the table, or changed its size.
    pub fn is_used(&self) -> bool {
        self.size > 0 || self.lowered_by > 0
    }

    /// Returns the bytes of the table as RFC 7541, 4.1 counts them.
    pub const fn table_bytes(&self) -> usize {
        self.size
    }
}

/// Returns the name and value of an entry of the static table; `None` for numbers beyond it.
pub(super) fn static_entry(index: usize) -> Option<(&'static str, &'static str)> {
    STATIC.get(index.checked_sub(1)?).copied()
}

/// Appends a field: as an entry of the static table if it is one, else literally, never to be added to
/// the peer's table.
pub fn write_field(out: &mut Vec<u8>, name: &str, value: &str) {
    let of_name = || (1..).zip(STATIC).filter(|(_, (known, _))| *known == name);
    if let Some((index, _)) = of_name().find(|(_, (_, known))| *known == value && !value.is_empty())
    {
        return write_number(out, 0x80, 7, index);
    }
    let index = of_name().map(|(index, _)| index).next().unwrap_or(0);
    write_number(out, 0, 4, index);
    if index == 0 {
        write_text(out, name);
    }
    write_text(out, value);
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_number(out, 0, 7, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// Appends `number` in the low `bits` of a byte whose others are `flags`, and in further bytes.
fn write_number(out: &mut Vec<u8>, flags: u8, bits: u32, number: usize) {
    let most = (1usize << bits) - 1;
    if number < most {
        return out.push(flags | number as u8);
    }
    out.push(flags | most as u8);
    let mut rest = number - most;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7F) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests;
