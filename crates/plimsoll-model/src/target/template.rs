//! Bytes that differ from one operation to the next.

use std::io::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::framed::framed;

/// First bytes of a stamp.
pub const STAMP_MAGIC: [u8; 4] = *b"PLM1";
/// Length of a stamp.
pub const STAMP_BYTES: usize = 32;
/// Longest number in digits.
const NUMBER_BYTES_MAX: usize = 20;

/// Bytes, with places that are filled when they are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Template(#[serde(with = "crate::framed")] Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
#[serde(rename_all = "kebab-case")]
enum Piece {
    Bytes(#[serde(with = "super::base64_text")] Arc<[u8]>),
    Field(Field),
}

framed!(Template, Piece);

/// The content of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Field {
    /// `%i`: the number of the connection among all of the load, from 0.
    Connection,
    /// `%s`: the number of the operation on its connection, from 0.
    Operation,
    /// `%t`: when the operation began, nanoseconds of CLOCK_MONOTONIC.
    Time,
    /// `%rand_N`: a number from 1 to N, the same everywhere in one operation.
    Random(u64),
    /// 32 bytes, see [`Filling::stamp`].
    Stamp,
}

/// Values for the places of one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filling {
    /// Distinguishes the load from others whose messages may still arrive; in messages that `serve` pushes, the clock
    /// of its host.
    pub run: u32,
    /// Number of the connection among all of the load.
    pub connection: u32,
    /// Number of the operation on its connection.
    pub operation: u32,
    /// Time at which it was due.
    pub intended: Nanos,
    /// Time at which it began.
    pub began: Nanos,
}

impl Filling {
    /// Returns the stamp, big endian: [`STAMP_MAGIC`], run, connection and operation as four bytes each, the intended
    /// and the actual beginning as eight each.
    pub fn stamp(&self) -> [u8; STAMP_BYTES] {
        let mut stamp = [0; STAMP_BYTES];
        let fields = STAMP_MAGIC
            .into_iter()
            .chain(self.run.to_be_bytes())
            .chain(self.connection.to_be_bytes())
            .chain(self.operation.to_be_bytes())
            .chain(self.intended.0.to_be_bytes())
            .chain(self.began.0.to_be_bytes());
        stamp.iter_mut().zip(fields).for_each(|(place, byte)| *place = byte);
        stamp
    }

    /// Reads a stamp, the inverse of [`Self::stamp`]; `None` if `bytes` do not begin with one.
    pub fn of_stamp(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&STAMP_MAGIC)?;
        let (words, _) = rest.get(..STAMP_BYTES - STAMP_MAGIC.len())?.as_chunks::<4>();
        let word = |at: usize| words.get(at).map(|word| u32::from_be_bytes(*word));
        let long = |at: usize| Some(u64::from(word(at)?) << 32 | u64::from(word(at + 1)?));
        let (run, connection, operation) = (word(0)?, word(1)?, word(2)?);
        let (intended, began) = (Nanos(long(3)?), Nanos(long(5)?));
        Some(Self { run, connection, operation, intended, began })
    }

    /// Returns a number from 1 to `most`: a hash (splitmix64's mix) of the fields that identify the operation.
    fn random(&self, most: u64) -> u64 {
        let own = u64::from(self.connection) << 32 | u64::from(self.operation);
        let seed = u64::from(self.run).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ most;
        let mut mixed = own ^ seed.rotate_left(17);
        for factor in [0xBF58_476D_1CE4_E5B9, 0x94D0_49BB_1331_11EB] {
            mixed = (mixed ^ mixed >> 30).wrapping_mul(factor);
        }
        ((u128::from(mixed ^ mixed >> 31) * u128::from(most)) >> 64) as u64 + 1
    }
}

impl Template {
    /// Creates a template without a place to fill.
    pub fn literal(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(vec![Piece::Bytes(bytes.into())])
    }

    /// Returns the bytes between its places.
    pub fn literals(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Bytes(bytes) => Some(&bytes[..]),
            Piece::Field(_) => None,
        })
    }

    /// Creates a template that is a stamp.
    pub fn stamp() -> Self {
        Self(vec![Piece::Field(Field::Stamp)])
    }

    /// Reads `%i`, `%s`, `%t`, `%rand_N` and `%%`; the error says what is wrong.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let mut template = Self::default();
        let mut bytes = Vec::new();
        let mut rest = text;
        while let Some((first, behind)) = rest.split_first() {
            rest = behind;
            if *first != b'%' {
                bytes.push(*first);
                continue;
            }
            let field = match rest {
                [b'%', after @ ..] => {
                    bytes.push(b'%');
                    rest = after;
                    continue;
                }
                [b'i', after @ ..] => (Field::Connection, after),
                [b's', after @ ..] => (Field::Operation, after),
                [b't', after @ ..] => (Field::Time, after),
                [b'r', b'a', b'n', b'd', b'_', after @ ..] => random(after)?,
                _ => return Err("% is followed by i, s, t, rand_N or another %".to_owned()),
            };
            rest = field.1;
            template.push_bytes(std::mem::take(&mut bytes));
            template.0.push(Piece::Field(field.0));
        }
        template.push_bytes(bytes);
        Ok(template)
    }

    fn push_bytes(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.0.push(Piece::Bytes(bytes.into()));
        }
    }

    /// Appends another one.
    pub fn extend(&mut self, other: &Self) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Returns all bytes, if there is no place to fill.
    pub fn as_literal(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for piece in &self.0 {
            let Piece::Bytes(literal) = piece else { return None };
            bytes.extend_from_slice(literal);
        }
        Some(bytes)
    }

    /// Returns the most bytes that a filled template can have.
    pub fn bytes_max(&self) -> usize {
        let sizes = self.0.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Field(Field::Stamp) => STAMP_BYTES,
            Piece::Field(_) => NUMBER_BYTES_MAX,
        });
        sizes.fold(0, usize::saturating_add)
    }

    /// Appends its bytes, the places filled.
    pub fn fill(&self, filling: &Filling, out: &mut Vec<u8>) {
        for piece in &self.0 {
            let number = match piece {
                Piece::Bytes(bytes) => {
                    out.extend_from_slice(bytes);
                    continue;
                }
                Piece::Field(Field::Stamp) => {
                    out.extend_from_slice(&filling.stamp());
                    continue;
                }
                Piece::Field(Field::Connection) => filling.connection.into(),
                Piece::Field(Field::Operation) => filling.operation.into(),
                Piece::Field(Field::Time) => filling.began.0,
                Piece::Field(Field::Random(most)) => filling.random(*most),
            };
            // Writing to memory does not fail.
            let _ = write!(out, "{number}");
        }
    }
}

/// The number behind `%rand_`, and what follows it.
fn random(text: &[u8]) -> Result<(Field, &[u8]), String> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, after) = text.split_at(digits);
    let most = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    match most {
        Some(most @ 1..) => Ok((Field::Random(most), after)),
        _ => Err("%rand_ is followed by a number of at least 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILLING: Filling = Filling {
        run: 7,
        connection: 3,
        operation: 12,
        intended: Nanos(1_000),
        began: Nanos(1_500),
    };

    fn filled(text: &str) -> String {
        let mut out = Vec::new();
        let template = Template::parse(text.as_bytes()).unwrap();
        template.fill(&FILLING, &mut out);
        assert!(out.len() <= template.bytes_max());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn places_are_filled() {
        assert_eq!(filled("SET k%i:%s %t 100%%\r\n"), "SET k3:12 1500 100%\r\n");
        assert_eq!(filled(""), "");
        assert_eq!(Template::parse(b"100%%").unwrap().as_literal(), Some(b"100%".to_vec()));
        assert_eq!(Template::parse(b"%i").unwrap().as_literal(), None);
        for (text, what) in [
            ("50%", "% is followed by"),
            ("%x", "% is followed by"),
            ("%rand_", "at least 1"),
            ("%rand_0", "at least 1"),
            ("%rand_99999999999999999999", "at least 1"),
        ] {
            let error = Template::parse(text.as_bytes()).expect_err(text);
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn random_numbers_are_one_for_each_operation_and_spread() {
        let twice = filled("%rand_1000 %rand_1000");
        let (one, other) = twice.split_once(' ').unwrap();
        assert_eq!(one, other);
        assert_eq!(filled("%rand_1"), "1");
        let mut seen = [0u32; 10];
        for connection in 0..100 {
            for operation in 0..100 {
                let number = Filling { connection, operation, ..FILLING }.random(10);
                seen[number as usize - 1] += 1;
            }
        }
        // 10,000 draws: the standard error of each count is 30.
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let stamp = FILLING.stamp();
        assert_eq!(stamp[..8], *b"PLM1\0\0\0\x07");
        assert_eq!(stamp[24..], 1_500u64.to_be_bytes());
        assert_eq!(Filling::of_stamp(&stamp), Some(FILLING));
        assert_eq!(Filling::of_stamp(&[&stamp[..], b"more"].concat()), Some(FILLING));
        assert_eq!(Filling::of_stamp(&stamp[..31]), None);
        assert_eq!(Filling::of_stamp(&[b'x'; 64]), None);
        let mut out = Vec::new();
        Template::stamp().fill(&FILLING, &mut out);
        assert_eq!(out, stamp);
    }
}
