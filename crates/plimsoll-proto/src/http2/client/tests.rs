//! The client against bytes of a server, and against our own server half in pieces of any size.

use plimsoll_model::{ErrorClass, Nanos};
use proptest::collection::vec;
use proptest::prelude::*;

use super::super::hpack::write_field;
use super::super::server::{Incoming, Server};

use super::*;

fn settings(pairs: &[(u16, u32)]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_settings(&mut out, pairs);
    out
}

fn head(stream: u32, fields: &[(&str, &str)], is_end: bool) -> Vec<u8> {
    let (mut block, mut out) = (Vec::new(), Vec::new());
    for (name, value) in fields {
        write_field(&mut block, name, value);
    }
    frame::write_block(&mut out, stream, &block, is_end);
    out
}

fn data(stream: u32, bytes: &[u8], is_end: bool) -> Vec<u8> {
    let mut out = Vec::new();
    frame::write_head(&mut out, bytes.len(), Kind::Data, u8::from(is_end), stream);
    out.extend_from_slice(bytes);
    out
}

/// A client that has the server's SETTINGS and has begun streams for these keys.
fn begun(keys: &[u32], body: &[u8], is_grpc: bool) -> Client {
    let mut client = Client::default();
    let ready = settings(&[(SETTING_MAX_CONCURRENT_STREAMS, 3)]);
    assert_eq!(client.handle_bytes(&ready), Ok((ready.len(), Progress::Greeted)));
    for key in keys {
        assert!(client.has_room(9));
        client.begin(
            *key,
            &Request {
                block: &[0x82],
                body: [body, b""],
                body_number: *key,
                is_grpc,
                is_head: false,
            },
        );
    }
    client
}

/// All that the client makes of the bytes.
fn events(client: &mut Client, bytes: &[u8]) -> Result<Vec<Progress>, Http2Error> {
    let (mut all, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (consumed, progress) = client.handle_bytes(rest)?;
        rest = &rest[consumed..];
        if progress != Progress::NeedMore {
            all.push(progress);
        }
    }
    Ok(all)
}

const fn ended(key: u32, status: u16, body_bytes: u64) -> Progress {
    Progress::Stream(StreamProgress::Ended(key, Answer::of_stream(status, body_bytes, None)))
}

const fn began(key: u32) -> Progress {
    Progress::Stream(StreamProgress::Began(key))
}

const fn failed(key: u32, fault: StreamFault) -> Progress {
    Progress::Stream(StreamProgress::Failed(key, fault))
}

#[test]
fn answers_come_in_any_order() {
    let mut client = begun(&[70, 71, 72], b"", false);
    assert!(!client.has_room(9), "the server allows three");
    let bytes = [
        head(5, &[(":status", "204")], true),
        head(1, &[(":status", "103")], false),
        head(1, &[(":status", "200"), ("date", "x")], false),
        data(1, b"po", false),
        data(1, b"ng", true),
        head(3, &[(":status", "404")], false),
        data(3, b"", false),
        head(3, &[("x-trailer", "y")], true),
    ]
    .concat();
    let expected = [ended(72, 204, 0), began(70), ended(70, 200, 4), began(71), ended(71, 404, 0)];
    assert_eq!(events(&mut client, &bytes).as_deref(), Ok(&expected[..]));
    client.take_output(&mut Vec::new());
    assert!(client.is_idle() && client.has_room(9));
}

#[test]
fn calls_of_grpc_are_judged_by_their_status() {
    let trailers = |status| head(1, &[("grpc-status", status), ("grpc-message", "m")], true);
    let begins = head(1, &[(":status", "200"), ("content-type", "application/grpc")], false);
    let message = data(1, &[0, 0, 0, 0, 2, 8, 1], false);
    for (bytes, status) in [
        (vec![begins.clone(), message.clone(), trailers("0")], 0),
        (vec![begins.clone(), message.clone(), trailers("14")], 14),
        (vec![begins.clone(), message.clone(), trailers("99")], GRPC_UNKNOWN),
        (vec![head(1, &[(":status", "200"), ("grpc-status", "8")], true)], 8),
        (vec![head(1, &[(":status", "503")], true)], 14),
        (vec![begins.clone(), data(1, b"", true)], GRPC_UNKNOWN),
    ] {
        let mut client = begun(&[1], b"", true);
        let all = events(&mut client, &bytes.concat()).expect("valid");
        let Some(Progress::Stream(StreamProgress::Ended(1, answer))) = all.last() else {
            panic!("{all:?}");
        };
        assert_eq!(answer.grpc_status(), Some(status), "{bytes:?}");
    }
    let compressed = data(1, &[1, 0, 0, 0, 2, 8, 1], false);
    for (bytes, fault) in [
        (vec![begins.clone(), trailers("0")], StreamFault::NoMessage),
        (
            vec![begins.clone(), data(1, &[0, 0, 0, 0, 2, 8], false), trailers("0")],
            StreamFault::NoMessage,
        ),
        (vec![begins.clone(), message.clone(), message, trailers("0")], StreamFault::Messages),
        (vec![begins, compressed, trailers("0")], StreamFault::Compressed),
    ] {
        let mut client = begun(&[1], b"", true);
        let all = events(&mut client, &bytes.concat()).expect("valid");
        assert_eq!(all.last(), Some(&failed(1, fault)));
        assert_eq!(
            (fault.class(), fault.grpc_status()),
            (ErrorClass::GrpcStatus, Some(GRPC_INTERNAL))
        );
    }
}

#[test]
fn streams_that_the_server_has_not_begun_are_untouched() {
    let mut client = begun(&[1, 2, 3], b"", false);
    let mut bytes = Vec::new();
    frame::write_rst(&mut bytes, 1, Code::REFUSED_STREAM);
    frame::write_rst(&mut bytes, 3, Code(2));
    assert_eq!(
        events(&mut client, &bytes).as_deref(),
        Ok(&[
            Progress::Stream(StreamProgress::Untouched(1)),
            failed(2, StreamFault::Reset(Code(2))),
        ][..])
    );
    bytes.clear();
    frame::write_goaway(&mut bytes, 3, Code::NO_ERROR);
    assert_eq!(
        events(&mut client, &bytes).as_deref(),
        Ok(&[Progress::Stream(StreamProgress::Draining)][..])
    );
    assert!(!client.has_room(9) && client.is_draining());
    assert_eq!((client.take_untouched(), client.take_untouched()), (Some(3), None));
    assert_eq!(client.ended_by(), None);
    bytes.clear();
    frame::write_goaway(&mut bytes, 0, Code::ENHANCE_YOUR_CALM);
    assert!(events(&mut client, &bytes).is_ok());
    let error = client.ended_by().expect("it says why");
    assert_eq!(error.class(), ErrorClass::H2Goaway);
    assert!(error.to_string().contains("ENHANCE_YOUR_CALM"), "{error}");
}

#[test]
fn what_breaks_the_protocol_ends_the_connection() {
    let error = |bytes: &[u8]| {
        let mut client = begun(&[1], b"", false);
        let error = events(&mut client, bytes).err();
        let mut out = Vec::new();
        client.take_output(&mut out);
        // It says so, behind its own SETTINGS' acknowledgement and request.
        assert!(error.is_none() || out.len() > 17, "{out:?}");
        error.map(|error| error.class())
    };
    let malformed = Some(ErrorClass::H2Malformed);
    let endless: Vec<u8> = (0..20)
        .flat_map(|nth| {
            let mut out = Vec::new();
            let kind = if nth == 0 { Kind::Headers } else { Kind::Continuation };
            frame::write_head(&mut out, 1, kind, 0, 1);
            out.push(0x88);
            out
        })
        .collect();
    assert_eq!(error(&head(2, &[(":status", "200")], true)), malformed);
    assert_eq!(error(&head(9, &[(":status", "200")], true)), malformed);
    assert_eq!(error(&[0, 0, 1, 1, END_HEADERS, 0, 0, 0, 1, 0xBE]), malformed);
    assert_eq!(error(&settings(&[(SETTING_INITIAL_WINDOW_SIZE, 1 << 31)])), malformed);
    assert_eq!(error(&endless), Some(ErrorClass::HttpTooLarge));
    let mut pings = Vec::new();
    while pings.len() <= 2 * (REPLIES_BYTES_MAX + BODY_BYTES_AHEAD + BLOCK_BYTES_MAX) {
        frame::write_ping(&mut pings, 0, b"flooding");
    }
    assert_eq!(error(&pings), Some(ErrorClass::PeerNotReading));

    let first = |bytes: &[u8]| Client::default().handle_bytes(bytes).map(|_| ());
    assert_eq!(first(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Err(Http2Error::Http1));
    assert!(matches!(first(&data(1, b"x", true)), Err(Http2Error::Malformed(_))));
}

#[test]
fn what_is_wrong_with_one_answer_is_named_and_the_others_go_on() {
    let with = |fields: &[(&str, &str)]| head(1, &[&[(":status", "200")], fields].concat(), false);
    let end = data(1, b"pong", true);
    for (bytes, malformation) in [
        (head(1, &[("server", "x")], true), Malformation::Status),
        (head(1, &[(":status", "99")], true), Malformation::Status),
        (head(1, &[(":status", "200"), (":status", "200")], true), Malformation::PseudoField),
        (head(1, &[(":status", "101")], false), Malformation::Interim),
        (head(1, &[(":status", "103")], true), Malformation::EndsWithInterim),
        (head(1, &[(":status", "103")], false).repeat(33), Malformation::Interim),
        (end.clone(), Malformation::BodyFirst),
        ([with(&[]), head(1, &[("x", "y")], false)].concat(), Malformation::Trailers),
        ([with(&[]), head(1, &[(":status", "200")], true)].concat(), Malformation::PseudoField),
        (with(&[("Server", "x")]), Malformation::Name),
        (with(&[("x", "a\0")]), Malformation::Value),
        (with(&[("connection", "close")]), Malformation::ConnectionField),
        (with(&[("content-length", "one")]), Malformation::Length),
        ([with(&[("content-length", "5")]), end.clone()].concat(), Malformation::BodyLength),
        ([with(&[("content-length", "3")]), end.clone()].concat(), Malformation::BodyLength),
        (head(1, &[(":status", "200"), ("content-length", "1")], true), Malformation::BodyLength),
        ([head(1, &[(":status", "204")], false), end.clone()].concat(), Malformation::BodyLength),
    ] {
        let mut client = begun(&[70, 71], b"", false);
        let all = events(&mut client, &bytes).expect("the connection continues");
        let fault = StreamFault::Malformed(malformation);
        assert_eq!(all.last(), Some(&failed(70, fault)));
        assert_eq!(fault.class(), ErrorClass::H2Malformed);
        let all = events(&mut client, &head(3, &[(":status", "200")], true));
        assert_eq!(all.as_deref(), Ok(&[ended(71, 200, 0)][..]));
    }
    // The length of a body that is not sent says nothing.
    for (status, is_head) in [("200", true), ("304", false), ("204", false)] {
        let mut client = begun(&[], b"", false);
        client.begin(
            9,
            &Request { block: &[0x82], body: [b"", b""], body_number: 0, is_grpc: false, is_head },
        );
        let bytes = head(1, &[(":status", status), ("content-length", "7")], true);
        let all = events(&mut client, &bytes);
        let expected = ended(9, status.parse().expect("a number"), 0);
        assert_eq!(all.as_deref(), Ok(&[expected][..]), "{status}");
    }
    let mut client = begun(&[70], b"", false);
    let bytes = [with(&[("content-length", "4")]), end].concat();
    let all = events(&mut client, &bytes);
    let expected = [began(70), ended(70, 200, 4)];
    assert_eq!(all.as_deref(), Ok(&expected[..]));
}

#[test]
fn an_answer_before_the_end_of_its_request_counts_and_a_reset_behind_it_does_not() {
    let body = vec![b'b'; 200_000];
    let mut client = begun(&[7], &body, false);
    let mut reset = Vec::new();
    frame::write_rst(&mut reset, 1, Code::NO_ERROR);
    let bytes = [head(1, &[(":status", "413")], true), reset.clone()].concat();
    let expected = ended(7, 413, 0);
    assert_eq!(events(&mut client, &bytes).as_deref(), Ok(&[expected][..]));
    assert!(!client.has_bodies());
    // Before the end of the answer it is one.
    let mut client = begun(&[7], b"", false);
    let bytes = [head(1, &[(":status", "200")], false), reset].concat();
    let all = events(&mut client, &bytes).expect("it continues");
    let fault = StreamFault::Reset(Code::NO_ERROR);
    assert_eq!(all.last(), Some(&failed(7, fault)));
    assert!(fault.to_string().contains("NO_ERROR"), "{fault}");
}

#[test]
fn a_smaller_header_table_is_confirmed_once() {
    let block_of = |client: &mut Client| {
        let mut out = Vec::new();
        client.begin(
            0,
            &Request {
                block: &[0x82],
                body: [b"", b""],
                body_number: 0,
                is_grpc: false,
                is_head: false,
            },
        );
        client.take_output(&mut out);
        let at = out.len() - out.iter().rev().position(|byte| *byte == 0x82).expect("a block");
        // Behind the head of the frame, whose length is its third byte.
        out[at - 2 - usize::from(out[at - 2] == 0x20)..at].to_vec()
    };
    for (size, first) in
        [(0, &[0x20, 0x82][..]), (4_095, &[0x20, 0x82]), (4_096, &[0x82]), (1 << 20, &[0x82])]
    {
        let mut client = Client::default();
        assert!(events(&mut client, &settings(&[(SETTING_HEADER_TABLE_SIZE, size)])).is_ok());
        assert!(block_of(&mut client).ends_with(first), "{size}");
        assert!(!block_of(&mut client).ends_with(&[0x20, 0x82]), "{size}");
        assert!(events(&mut client, &settings(&[(SETTING_HEADER_TABLE_SIZE, 7)])).is_ok());
        let again = block_of(&mut client).ends_with(&[0x20, 0x82]);
        assert_eq!(again, size >= 4_096, "{size}");
    }
}

#[test]
fn streams_wait_while_none_is_allowed() {
    let allow = |most| settings(&[(SETTING_MAX_CONCURRENT_STREAMS, most)]);
    let mut client = Client::default();
    assert_eq!(events(&mut client, &allow(0)).as_deref(), Ok(&[Progress::Greeted][..]));
    assert!(!client.has_room(9) && client.allowed() == 0);
    assert_eq!(
        events(&mut client, &allow(2)).as_deref(),
        Ok(&[Progress::Stream(StreamProgress::RoomChanged)][..])
    );
    assert!(client.has_room(9));
    // Fewer than are open: they go on, and none begins.
    for key in [1, 2] {
        client.begin(
            key,
            &Request {
                block: &[0x82],
                body: [b"", b""],
                body_number: 0,
                is_grpc: false,
                is_head: false,
            },
        );
    }
    assert!(events(&mut client, &allow(1)).is_ok());
    assert!(events(&mut client, &head(1, &[(":status", "200")], true)).is_ok());
    assert!(!client.has_room(9));
    assert!(events(&mut client, &head(3, &[(":status", "200")], true)).is_ok());
    assert!(client.has_room(9));
}

#[test]
fn bodies_wait_for_both_windows() {
    let body = vec![b'b'; 200_000];
    let mut client = begun(&[7], &body, false);
    let mut sent = 0;
    let mut take = |client: &mut Client| {
        client.send_bodies(|key| if key == 7 { [&body, b""] } else { [&[]; 2] });
        let mut out = Vec::new();
        client.take_output(&mut out);
        let (mut reader, mut rest) = (FrameReader::default(), &out[..]);
        while !rest.is_empty() {
            let (consumed, item) = reader.read(rest).expect("our own");
            if let Some(Item::Data { bytes, .. }) = item {
                sent += bytes.len();
            }
            rest = &rest[consumed..];
        }
        sent
    };
    assert_eq!(take(&mut client), 65_535);
    let mut update = Vec::new();
    frame::write_window_update(&mut update, 1, 1_000_000);
    assert!(events(&mut client, &update).is_ok());
    assert_eq!(take(&mut client), 65_535, "the connection's window is used up");
    assert!(client.awaits_window(7) && !client.awaits_window(8));
    update.clear();
    frame::write_window_update(&mut update, 0, 30_000);
    assert!(events(&mut client, &update).is_ok());
    assert_eq!(take(&mut client), 95_535);
    // A lower initial window makes the stream's negative.
    assert!(events(&mut client, &settings(&[(SETTING_INITIAL_WINDOW_SIZE, 0)])).is_ok());
    update.clear();
    frame::write_window_update(&mut update, 0, 1_000_000);
    assert!(events(&mut client, &update).is_ok());
    take(&mut client);
    take(&mut client);
    assert_eq!(take(&mut client), 200_000);
    assert!(!client.has_bodies());
}

#[test]
fn every_received_byte_is_given_back() {
    let mut client = begun(&[1], b"", false);
    let mut out = Vec::new();
    assert!(events(&mut client, &head(1, &[(":status", "200")], false)).is_ok());
    let frame = {
        let mut frame = Vec::new();
        frame::write_head(&mut frame, 16_000, Kind::Data, frame::PADDED, 1);
        frame.resize(9 + 16_000, 200);
        frame
    };
    client.take_output(&mut out);
    out.clear();
    let mut received = 0u64;
    while received < 2 * u64::from(CREDIT_BYTES) {
        assert!(events(&mut client, &frame).is_ok());
        received += 16_000;
    }
    client.take_output(&mut out);
    let given: u64 = out.chunks(13).map(|update| u64::from(frame::first_u32(&update[9..]))).sum();
    let kept = u64::from(client.rest.uncredited) + u64::from(client.flights[0].uncredited);
    assert_eq!(given + kept, 2 * received);
}

proptest! {
    /// Whatever arrives, in whatever pieces: no panic, no more consumed than there was, and the same
    /// result as in one piece.
    #[test]
    fn pieces_change_nothing(frames in vec((0u8..11, 0u8..64, 0u32..8, vec(any::<u8>(), 0..24)), 0..12), size in 1usize..40) {
        let mut bytes = settings(&[]);
        for (kind, flags, stream, payload) in &frames {
            bytes.extend_from_slice(&[0, 0, payload.len() as u8, *kind, *flags]);
            bytes.extend_from_slice(&stream.to_be_bytes());
            bytes.extend_from_slice(payload);
        }
        let run = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let mut client = begun(&[1, 2], b"body", true);
            let mut all = Vec::new();
            for piece in pieces {
                match events(&mut client, piece) {
                    Ok(events) => all.extend(events),
                    Err(error) => return (all, Some(error)),
                }
            }
            (all, None)
        };
        let whole = run(&mut std::iter::once(&bytes[..]));
        let split = run(&mut bytes.chunks(size));
        // What begins and ends within one piece is one event or two.
        let ends = |events: &[Progress]| -> Vec<_> {
            events.iter().filter(|event| !matches!(event, Progress::Stream(StreamProgress::Began(_)))).copied().collect()
        };
        if whole.1.is_none() {
            prop_assert_eq!(ends(&whole.0), ends(&split.0));
        }
        prop_assert_eq!(whole.1.is_some(), split.1.is_some());
    }

    /// Our two halves, in pieces of any size: each request has its answer.
    #[test]
    fn both_halves_agree(bodies in vec(0usize..100_000, 1..6), size in 1usize..5_000) {
        let texts: Vec<Vec<u8>> = bodies.iter().map(|bytes| vec![b'x'; *bytes]).collect();
        let mut block = Vec::new();
        for (name, value) in [(":method", "POST"), (":scheme", "http"), (":path", "/")] {
            write_field(&mut block, name, value);
        }
        let (mut client, mut server) = (Client::default(), Server::<()>::default());
        let (mut up, mut down) = (Vec::new(), Vec::new());
        write_opening(&mut up);
        Server::<()>::write_opening(&mut down);
        let (mut begun, mut ended) = (false, 0);
        // A piece a turn each way, and a few turns for settings and windows.
        for _ in 0..2 * bodies.iter().sum::<usize>() / size + 1_000 {
            if ended == texts.len() {
                break;
            }
            let piece: Vec<u8> = up.drain(..size.min(up.len())).collect();
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let handled = server.handle_bytes(rest, Nanos(1), &mut down, &mut |_, _| {});
                let (consumed, incoming) = handled.expect("our client is right");
                rest = &rest[consumed..];
                if let Some(Incoming::Complete(id)) = incoming {
                    let place = server.streams.iter().position(|stream| stream.id == id).expect("open");
                    let text = server.streams[place].body_bytes.to_string();
                    Server::<()>::write_head(&mut down, &mut Vec::new(), id, 200, &[], false);
                    server.write_data(&mut down, place, text.as_bytes(), true);
                    server.finish(place, &mut down);
                }
            }
            let piece: Vec<u8> = down.drain(..size.min(down.len())).collect();
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let (consumed, progress) = client.handle_bytes(rest).expect("our server is right");
                rest = &rest[consumed..];
                if let Progress::Stream(StreamProgress::Ended(key, Answer { status, body_bytes, .. })) = progress {
                    prop_assert_eq!(status, 200);
                    prop_assert_eq!(body_bytes as usize, bodies[key as usize].to_string().len());
                    ended += 1;
                }
            }
            if client.rest().is_greeted && !begun {
                begun = true;
                for (key, body) in (0..).zip(&texts) {
                    client.begin(key, &Request { block: &block, body: [body, b""], body_number: key, is_grpc: false, is_head: false });
                }
            }
            client.send_bodies(|key| [&texts[key as usize], b""]);
            let mut out = Vec::new();
            client.take_output(&mut out);
            up.append(&mut out);
        }
        prop_assert_eq!(ended, texts.len());
    }
}
