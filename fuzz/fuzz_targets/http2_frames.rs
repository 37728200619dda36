//! Frames of HTTP/2 and their header blocks: no input panics either half, none is over-consumed, and what is
//! kept of a connection stays bounded. The first byte chooses how the rest is split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_model::Nanos;
use plimsoll_proto::REPLIES_BYTES_MAX;
use plimsoll_proto::conversation::{Progress, StreamProgress};
use plimsoll_proto::http2::hpack::{Decoder, TABLE_BYTES_MAX};
use plimsoll_proto::http2::{Client, Incoming, PREFACE, Request, Server};

/// Returns a server's reading of the bytes, up to the first error.
fn server<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Incoming>, bool) {
    let (mut server, mut out, mut all) = (Server::<()>::default(), Vec::new(), Vec::new());
    // A connection that is open: the preface, and SETTINGS without any.
    let opening = [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0]].concat();
    server.handle_bytes(&opening, Nanos(1), &mut out, &mut |_, _| {}).unwrap();
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            match server.handle_bytes(rest, Nanos(1), &mut out, &mut |_, _| {}) {
                Ok((consumed, incoming)) => {
                    assert!(consumed <= rest.len());
                    rest = &rest[consumed..];
                    assert!(server.streams.len() <= 100);
                    all.extend(incoming);
                }
                Err(_) => return (all, true),
            }
        }
    }
    (all, false)
}

/// The ends of the streams that a client has begun, up to the first error.
fn client<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<StreamProgress>, bool) {
    let (mut client, mut all) = (Client::default(), Vec::new());
    client.handle_bytes(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
    for key in 0..3 {
        let request = Request {
            block: &[0x82],
            body: [b"bo", b"dy"],
            body_number: 0,
            is_grpc: key == 2,
            is_head: false,
        };
        client.begin(key, &request);
    }
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            match client.handle_bytes(rest) {
                Ok((consumed, progress)) => {
                    assert!(consumed <= rest.len());
                    rest = &rest[consumed..];
                    // Whether a beginning is an event of its own depends on the pieces.
                    if let Progress::Stream(
                        end @ (StreamProgress::Ended(..)
                        | StreamProgress::Failed(..)
                        | StreamProgress::Untouched(_)),
                    ) = progress
                    {
                        all.push(end);
                    }
                }
                Err(_) => return (all, true),
            }
        }
    }
    let mut out = Vec::new();
    client.take_output(&mut out);
    assert!(out.len() < 2 * REPLIES_BYTES_MAX);
    (all, false)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, input)) = bytes.split_first() else { return };
    let size = usize::from(choice) + 1;
    assert_eq!(server(std::iter::once(input)), server(input.chunks(size)));
    assert_eq!(client(std::iter::once(input)), client(input.chunks(size)));
    let mut decoder = Decoder::default();
    for block in input.chunks(size) {
        if decoder.decode(block, &mut Vec::new(), &mut |_, _| {}).is_err() {
            break;
        }
        assert!(decoder.table_bytes() <= TABLE_BYTES_MAX);
    }
});
