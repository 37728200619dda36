//! Requests that break the rules, and floods.

use super::super::hpack::write_field;
use super::*;

fn opened() -> (Server<()>, Vec<u8>) {
    let (mut server, mut out) = (Server::default(), Vec::new());
    let mut bytes = PREFACE.to_vec();
    frame::write_settings(&mut bytes, &[]);
    let handled = server.handle_bytes(&bytes, Nanos(1), &mut out, &mut |_, _| {});
    assert_eq!(handled, Ok((bytes.len(), None)));
    out.clear();
    (server, out)
}

fn request(stream: u32, fields: &[(&str, &str)], is_end: bool) -> Vec<u8> {
    let (mut block, mut out) = (Vec::new(), Vec::new());
    for (name, value) in fields {
        write_field(&mut block, name, value);
    }
    frame::write_block(&mut out, stream, &block, is_end);
    out
}

const GET: [(&str, &str); 3] = [(":method", "GET"), (":scheme", "http"), (":path", "/")];

/// Feeds the bytes; returns the result, and the immediate answer.
fn handle(bytes: &[u8]) -> (Result<Vec<Incoming>, Code>, Vec<u8>) {
    let (mut server, mut out) = opened();
    let (mut all, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        match server.handle_bytes(rest, Nanos(1), &mut out, &mut |_, _| {}) {
            Ok((consumed, incoming)) => {
                all.extend(incoming);
                rest = &rest[consumed..];
            }
            Err(error) => return (Err(error.code), out),
        }
    }
    (Ok(all), out)
}

#[test]
fn fields_that_a_request_may_not_have_reset_its_stream() {
    let with = |more: &[(&'static str, &'static str)]| {
        let fields: Vec<_> = GET.iter().chain(more).copied().collect();
        handle(&request(1, &fields, true))
    };
    assert_eq!(with(&[("te", "trailers")]).0, Ok(vec![Incoming::Complete(1)]));
    let mut refusal = Vec::new();
    frame::write_rst(&mut refusal, 1, Code::PROTOCOL_ERROR);
    for more in [
        [("Upper", "x")],
        [("connection", "close")],
        [("te", "gzip")],
        [(":status", "200")],
        [(":path", "/again")],
        [("content-length", "1")],
        [("content-length", "x")],
        [("", "x")],
    ] {
        let (incoming, out) = with(&more);
        assert!(!matches!(&incoming, Ok(all) if all.contains(&Incoming::Complete(1))), "{more:?}");
        assert_eq!(out, refusal, "{more:?}");
    }
    // Without a path, and with a pseudo-header behind another.
    assert_eq!(handle(&request(1, &GET[..2], true)).1, refusal);
    let late = [GET[0], GET[1], ("x", "y"), GET[2]];
    assert_eq!(handle(&request(1, &late, true)).1, refusal);
}

#[test]
fn more_streams_than_allowed_are_refused_and_the_rest_goes_on() {
    let mut bytes = Vec::new();
    for nth in 0..=SERVER_STREAMS_MAX {
        bytes.extend(request(2 * nth + 1, &GET, true));
    }
    let (incoming, out) = handle(&bytes);
    let incoming = incoming.expect("no error of the connection");
    assert_eq!(incoming.last(), Some(&Incoming::Reset));
    assert_eq!(incoming.len(), SERVER_STREAMS_MAX as usize + 1);
    let mut refusal = Vec::new();
    frame::write_rst(&mut refusal, 2 * SERVER_STREAMS_MAX + 1, Code::REFUSED_STREAM);
    assert_eq!(out, refusal);
}

#[test]
fn floods_end_the_connection() {
    let mut resets = Vec::new();
    for nth in 0..=u32::from(RESETS_MAX) {
        resets.extend(request(2 * nth + 1, &GET, true));
        frame::write_rst(&mut resets, 2 * nth + 1, Code::CANCEL);
    }
    assert_eq!(handle(&resets).0, Err(Code::ENHANCE_YOUR_CALM));
    // Resets by the server, because a window is raised by nothing, and because a request has no method.
    let mut provoked = Vec::new();
    for nth in 0..=u32::from(RESETS_MAX) {
        provoked.extend(request(2 * nth + 1, &GET, false));
        frame::write_window_update(&mut provoked, 2 * nth + 1, 0);
    }
    assert_eq!(handle(&provoked).0, Err(Code::ENHANCE_YOUR_CALM));
    let headless =
        (0..=u32::from(RESETS_MAX)).flat_map(|nth| request(2 * nth + 1, &GET[1..], true));
    assert_eq!(handle(&headless.collect::<Vec<_>>()).0, Err(Code::ENHANCE_YOUR_CALM));
    let mut pings = Vec::new();
    for _ in 0..=IDLE_FRAMES_MAX {
        frame::write_ping(&mut pings, 0, b"12345678");
    }
    assert_eq!(handle(&pings).0, Err(Code::ENHANCE_YOUR_CALM));
}

#[test]
fn trailers_that_cross_a_reset_are_ignored_and_decoded() {
    // A literal field that enters the decoder's table, and a request that refers to it there (RFC 7541, 6.1 and 6.2.1).
    let added = [&[0x40, 4][..], b"x-id", &[1], b"7"].concat();
    let mut next = Vec::new();
    GET.iter().for_each(|(name, value)| write_field(&mut next, name, value));
    next.push(0x80 | 62);
    // The first request has no method: it is reset before its trailers come.
    let mut rest = request(1, &GET[1..], false);
    frame::write_block(&mut rest, 1, &added, true);
    frame::write_block(&mut rest, 3, &next, true);
    let (mut server, mut out) = opened();
    let (mut all, mut fields) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let handled = server.handle_bytes(&rest, Nanos(1), &mut out, &mut |name, value| {
            fields.push((name.to_owned(), value.to_vec()));
        });
        let (consumed, incoming) = handled.expect("no error of the connection");
        all.extend(incoming);
        rest.drain(..consumed);
    }
    assert_eq!(all, [Incoming::Reset, Incoming::Complete(3)]);
    assert_eq!(fields, [("x-id".to_owned(), b"7".to_vec())]);
    let mut refusal = Vec::new();
    frame::write_rst(&mut refusal, 1, Code::PROTOCOL_ERROR);
    assert_eq!(out, refusal);
    // An answer may end before its request does, and the connection may rest in between.
    let (mut server, _) = opened();
    let begun = server.handle_bytes(&request(1, &GET, false), Nanos(1), &mut out, &mut |_, _| {});
    assert_eq!(begun.map(|(_, incoming)| incoming), Ok(Some(Incoming::Begun(1))));
    server.finish(0, &mut out);
    let rest = server.leave();
    server.resume(rest);
    let late = request(1, &[("x", "y")], true);
    let handled = server.handle_bytes(&late, Nanos(1), &mut out, &mut |_, _| {});
    assert_eq!(handled, Ok((late.len(), None)));
}

#[test]
fn frames_in_the_wrong_place() {
    for (bytes, code) in [
        (request(2, &GET, true), Code::PROTOCOL_ERROR),
        ([request(3, &GET, true), request(1, &GET, true)].concat(), Code::STREAM_CLOSED),
        (vec![0, 0, 1, 0, 1, 0, 0, 0, 1, 9], Code::PROTOCOL_ERROR),
        (vec![0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8], Code::PROTOCOL_ERROR),
        (vec![0, 0, 1, 9, 4, 0, 0, 0, 1, 0x82], Code::PROTOCOL_ERROR),
        (vec![0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0], Code::PROTOCOL_ERROR),
        (vec![0, 0, 4, 8, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff], Code::FLOW_CONTROL_ERROR),
    ] {
        assert_eq!(handle(&bytes).0, Err(code), "{bytes:?}");
    }
    let mut server = Server::<()>::default();
    let handled =
        server.handle_bytes(b"GET / HTTP/1.1\r\n", Nanos(1), &mut Vec::new(), &mut |_, _| {});
    assert!(handled.is_err());
}
