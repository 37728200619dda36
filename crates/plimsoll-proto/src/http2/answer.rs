//! The head of an answer: the fields that matter, and the checks of RFC 9113 (8.2, 8.3).
//!
//! `read_head` walks one header block without a dynamic table, which our SETTINGS forbid, and fills an `AnswerHead`:
//! status, content length, gRPC status and the first [`Malformation`]. A malformed answer fails only its stream; a
//! block that cannot be decoded is a `Fault` of the connection. Huffman texts are decoded only if their value is
//! needed. Start reading at `read_head`.

use thiserror::Error;

use super::frame::{Code, Fault};
use super::hpack::{self, Field, Text};
use super::huffman;
use crate::http1::head::decimal;

/// The status of a call without `grpc-status`, or with one that gRPC does not have.
pub(super) const GRPC_UNKNOWN: u8 = 2;
/// The status of a call that broke the protocol.
pub(super) const GRPC_INTERNAL: u8 = 13;
/// `grpc-status` in the Huffman code, which is unique for each text.
const GRPC_STATUS_HUFFMAN: &[u8] = &[0x9a, 0xca, 0xc8, 0xb2, 0x12, 0x34, 0xda, 0x8f];

/// The reason for which an answer is malformed (RFC 9113, 8.1.1).
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Malformation {
    /// A head without `:status`, or with one that is no number of three digits.
    #[error("its head has no :status of three digits")]
    Status,
    /// More than 32 answers of 1xx, or 101.
    #[error("it has 101, or more than 32 answers of 1xx")]
    Interim,
    /// An answer of 1xx that ends the stream.
    #[error("it ends with a status of 1xx")]
    EndsWithInterim,
    /// DATA before the head.
    #[error("its body comes before its head")]
    BodyFirst,
    /// Fields behind the body that do not end the stream.
    #[error("a second head does not end it")]
    Trailers,
    /// A pseudo-field other than `:status`, a repeated one, one behind regular fields, or one in trailers.
    #[error("a pseudo-field is unknown, repeated or behind other fields")]
    PseudoField,
    /// Capital letters or forbidden bytes in a name.
    #[error("a field's name has capital letters or other forbidden characters")]
    Name,
    /// Forbidden bytes in a value.
    #[error("a field's value has forbidden characters or white space at an end")]
    Value,
    /// A field of HTTP/1.1 connections.
    #[error("it has a field of HTTP/1.1 connections, such as Connection")]
    ConnectionField,
    /// `Content-Length` is not a number, or several values differ.
    #[error("its content-length is not one number")]
    Length,
    /// The body's length differs from `Content-Length`.
    #[error("its body is longer or shorter than content-length says")]
    BodyLength,
    /// A WINDOW_UPDATE of 0, or one beyond the window's maximum.
    #[error("a WINDOW_UPDATE of its stream is 0 or too large")]
    Window,
}

/// The fields of an answer's header block that the client reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerHead {
    pub(super) status: Option<u16>,
    pub(super) grpc_status: Option<u8>,
    pub(super) content_length: Option<u64>,
    pub(super) malformed: Option<Malformation>,
}

/// Reads a header block. A `grpc-message` is copied to `message` as it is encoded. The dynamic table has size 0, so
/// that an index beyond the static table is an error. Huffman texts are decoded, into `scratch`, only if they are
/// needed.
pub(super) fn read_head(
    block: &[u8],
    scratch: &mut Vec<u8>,
    message: &mut Vec<u8>,
) -> Result<AnswerHead, Fault> {
    let broken = Fault { code: Code::COMPRESSION_ERROR, why: "a header block is malformed" };
    let mut head = AnswerHead::default();
    let mut fields = hpack::fields(block);
    let mut has_regular = false;
    while let Some(field) = fields.read().map_err(|_| broken)? {
        let (name, value) = match field {
            Field::TableSize(0) => continue,
            Field::TableSize(_) => return Err(broken),
            Field::Indexed(index) => {
                let (name, value) = hpack::static_entry(index).ok_or(broken)?;
                (name, Text { is_huffman: false, bytes: value.as_bytes() })
            }
            Field::Literal { name_of: 0, name, value, .. } => {
                (own_name(name, scratch, &mut head).ok_or(broken)?, value)
            }
            Field::Literal { name_of, value, .. } => {
                (hpack::static_entry(name_of).ok_or(broken)?.0, value)
            }
        };
        if name.starts_with(':') {
            let is_right = name == ":status" && head.status.is_none() && !has_regular;
            if !is_right {
                head.malform(Malformation::PseudoField);
            }
        } else {
            has_regular = true;
        }
        if !value.is_huffman && !is_value(value.bytes) {
            head.malform(Malformation::Value);
        }
        match name {
            ":status" => {
                match plain(value, scratch).filter(|digits| digits.len() == 3).and_then(decimal) {
                    Some(status @ 100..) => head.status = Some(status as u16),
                    _ => head.malform(Malformation::Status),
                }
            }
            "content-length" => match (number(value, scratch), head.content_length) {
                (Some(length), None) => head.content_length = Some(length),
                (Some(length), Some(before)) if length == before => {}
                _ => head.malform(Malformation::Length),
            },
            "transfer-encoding" => head.malform(Malformation::ConnectionField),
            "grpc-status" => {
                let status = number(value, scratch).and_then(|status| u8::try_from(status).ok());
                let status = status.filter(|status| *status <= 16);
                head.grpc_status = Some(status.unwrap_or(GRPC_UNKNOWN));
            }
            "grpc-message" => {
                message.clear();
                message.extend_from_slice(plain(value, scratch).unwrap_or_default());
            }
            _ => {}
        }
    }
    Ok(head)
}

impl AnswerHead {
    /// Notes a problem; only the first one is reported.
    fn malform(&mut self, malformation: Malformation) {
        self.malformed.get_or_insert(malformation);
    }
}

/// Checks a name that is not in the table, and returns it if it is one that is looked for; `None` if it is not in the
/// Huffman code.
fn own_name(name: Text<'_>, scratch: &mut Vec<u8>, head: &mut AnswerHead) -> Option<&'static str> {
    if name.is_huffman && name.bytes == GRPC_STATUS_HUFFMAN {
        return Some("grpc-status");
    }
    Some(match plain(name, scratch)? {
        b":status" => ":status",
        b"grpc-status" => "grpc-status",
        b"grpc-message" => "grpc-message",
        b"content-length" => "content-length",
        b"connection" | b"proxy-connection" | b"keep-alive" | b"transfer-encoding" | b"upgrade" => {
            head.malform(Malformation::ConnectionField);
            ""
        }
        [b':', ..] => ":",
        bytes if is_name(bytes) => "",
        _ => {
            head.malform(Malformation::Name);
            ""
        }
    })
}

/// Reports whether these bytes are allowed in a name (RFC 9113, 8.2.1).
fn is_name(bytes: &[u8]) -> bool {
    let is_bad = |byte: u8| matches!(byte, 0..=0x20 | b'A'..=b'Z' | b':' | 0x7F..);
    !bytes.is_empty() && !bytes.iter().fold(false, |bad, byte| bad | is_bad(*byte))
}

/// Reports whether these bytes are allowed in a value (RFC 9113, 8.2.1).
fn is_value(bytes: &[u8]) -> bool {
    let is_bad = |byte: u8| matches!(byte, 0 | b'\n' | b'\r');
    let is_space = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    !is_space(bytes.first())
        && !is_space(bytes.last())
        && !bytes.iter().fold(false, |bad, byte| bad | is_bad(*byte))
}

/// A text, decoded if it must be; `None` if it is not in the Huffman code.
fn plain<'a>(text: Text<'a>, scratch: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    if !text.is_huffman {
        return Some(text.bytes);
    }
    scratch.clear();
    huffman::decode(text.bytes, scratch).then_some(scratch)
}

fn number(value: Text<'_>, scratch: &mut Vec<u8>) -> Option<u64> {
    plain(value, scratch).and_then(decimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(name: &[u8], value: &[u8]) -> Vec<u8> {
        [&[0, name.len() as u8], name, &[value.len() as u8], value].concat()
    }

    fn read(block: &[u8]) -> AnswerHead {
        read_head(block, &mut Vec::new(), &mut Vec::new()).expect("a block")
    }

    #[test]
    fn names_in_the_huffman_code_are_known() {
        let block = [&[0x00, 0x88][..], GRPC_STATUS_HUFFMAN, &[1, b'5']].concat();
        assert_eq!(read(&block).grpc_status, Some(5));
        let mut text = Vec::new();
        assert!(huffman::decode(GRPC_STATUS_HUFFMAN, &mut text));
        assert_eq!(text, b"grpc-status");
        // `:status: 302`, the value in the Huffman code.
        assert_eq!(read(&[0x48, 0x82, 0x64, 0x02]).status, Some(302));
    }

    #[test]
    fn what_a_head_may_not_have_is_named() {
        let ok = [0x88];
        for (field, malformation) in [
            (literal(b"x-ok", b"a b"), None),
            (literal(b"content-length", b"17"), None),
            (literal(b"Server", b"x"), Some(Malformation::Name)),
            (literal(b"a b", b"x"), Some(Malformation::Name)),
            (literal(b"a:b", b"x"), Some(Malformation::Name)),
            (literal(b"", b"x"), Some(Malformation::Name)),
            (literal(b"a\xFF", b"x"), Some(Malformation::Name)),
            (literal(b"a", b"x\r\ny: z"), Some(Malformation::Value)),
            (literal(b"a", b"\0"), Some(Malformation::Value)),
            (literal(b"a", b" x"), Some(Malformation::Value)),
            (literal(b"a", b"x\t"), Some(Malformation::Value)),
            (literal(b"connection", b"close"), Some(Malformation::ConnectionField)),
            (literal(b"keep-alive", b"x"), Some(Malformation::ConnectionField)),
            // By its entry in the table.
            (vec![0x0F, 42, 1, b'x'], Some(Malformation::ConnectionField)),
            (literal(b":status", b"200"), Some(Malformation::PseudoField)),
            (literal(b":path", b"/"), Some(Malformation::PseudoField)),
            (vec![0x84], Some(Malformation::PseudoField)),
            (literal(b"content-length", b"x"), Some(Malformation::Length)),
            (literal(b"content-length", b""), Some(Malformation::Length)),
            // `Server`, in the Huffman code.
            (
                [&[0, 0x85, 0xDC, 0x5B, 0x3B, 0x96, 0xCF][..], &[1, b'x']].concat(),
                Some(Malformation::Name),
            ),
        ] {
            let block = [&ok[..], &field].concat();
            let read = read(&block);
            assert_eq!((read.status, read.malformed), (Some(200), malformation), "{field:x?}");
        }
        let twice = |second: &[u8]| {
            let fields = [literal(b"content-length", b"7"), literal(b"content-length", second)];
            read(&[&ok[..], &fields.concat()].concat())
        };
        assert_eq!((twice(b"7").content_length, twice(b"7").malformed), (Some(7), None));
        assert_eq!(twice(b"8").malformed, Some(Malformation::Length));
        assert_eq!(read(&literal(b":status", b"20")).malformed, Some(Malformation::Status));
        let late = [literal(b"a", b"b"), ok.to_vec()].concat();
        assert_eq!(read(&late).malformed, Some(Malformation::PseudoField));
    }
}
