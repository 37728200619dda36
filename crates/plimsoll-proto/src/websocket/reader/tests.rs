//! Messages in frames, cut anywhere; and everything that RFC 6455 forbids.

use proptest::prelude::*;

use super::super::frame::write_frame;
use super::*;

/// Events with their payload, what ended them, and whether no message is half read.
type Seen = (Vec<(Progress, Vec<u8>)>, Option<FrameError>, bool);

/// Returns a reader's view of `bytes`, given in pieces that end at `cuts`.
fn read(side: Side, bytes: &[u8], cuts: &[usize]) -> Seen {
    let mut reader = MessageReader::new(side);
    let (mut events, mut payload) = (Vec::new(), Vec::new());
    let mut ends: Vec<usize> = cuts.to_vec();
    ends.push(bytes.len());
    ends.sort_unstable();
    let mut from = 0;
    for end in ends {
        let mut piece = &bytes[from..end];
        from = end;
        while !piece.is_empty() {
            let read = reader.handle_bytes(piece, &mut |bytes| payload.extend_from_slice(bytes));
            let (consumed, progress) = match read {
                Ok(read) => read,
                Err(error) => return (events, Some(error), false),
            };
            piece = &piece[consumed..];
            match progress {
                Progress::NeedMore => assert!(piece.is_empty()),
                Progress::Message { .. } => events.push((progress, std::mem::take(&mut payload))),
                _ => events.push((progress, reader.control_payload().to_vec())),
            }
        }
    }
    (events, None, reader.is_idle())
}

fn refused(side: Side, bytes: &[u8]) -> FrameError {
    let (_, error, _) = read(side, bytes, &[]);
    error.expect("it is refused")
}

fn frames(side: Side, list: &[(bool, Opcode, &[u8])]) -> Vec<u8> {
    let mask = (side == Side::Server).then_some([1, 2, 3, 4]);
    let mut out = Vec::new();
    for (is_last, opcode, payload) in list {
        write_frame(&mut out, *is_last, *opcode, payload, mask);
    }
    out
}

#[test]
fn control_frames_come_between_the_pieces_of_a_message() {
    for side in [Side::Client, Side::Server] {
        let bytes = frames(
            side,
            &[
                (false, Opcode::Text, b"one "),
                (true, Opcode::Ping, b"are you there"),
                (false, Opcode::Continuation, b""),
                (true, Opcode::Continuation, b"two"),
                (true, Opcode::Close, b"\x03\xe8bye"),
            ],
        );
        let expected = [
            (Progress::Ping, b"are you there".to_vec()),
            (Progress::Message { is_text: true, bytes: 7 }, b"one two".to_vec()),
            (Progress::Close(Some(1000)), b"\x03\xe8bye".to_vec()),
        ];
        for cut in 0..=bytes.len() {
            let (events, error, is_idle) = read(side, &bytes, &[cut]);
            assert_eq!((&events[..], error, is_idle), (&expected[..], None, true));
        }
    }
}

#[test]
fn what_the_standard_forbids_is_refused() {
    let what = |error| match error {
        FrameError::Malformed { what } => what,
        other => panic!("{other:?}"),
    };
    let of = |list: &[(bool, Opcode, &[u8])]| refused(Side::Client, &frames(Side::Client, list));
    for (list, expected) in [
        (&[(true, Opcode::Continuation, &b"x"[..])][..], "continues no message"),
        (&[(false, Opcode::Text, b"x"), (true, Opcode::Binary, b"y")], "before the last one"),
        (&[(false, Opcode::Ping, b"x")], "is split"),
        (&[(true, Opcode::Pong, &[0; 126])], "more than 125"),
        (&[(true, Opcode::Close, b"\x03")], "half a code"),
        (&[(true, Opcode::Close, b"\x03\xed")], "must not be sent"),
        (&[(true, Opcode::Close, b"\x0b\xb7")], "must not be sent"),
    ] {
        assert!(what(of(list)).contains(expected), "{expected}");
    }
    let masked = frames(Side::Server, &[(true, Opcode::Text, b"x")]);
    assert!(what(refused(Side::Client, &masked)).contains("is masked"));
    let plain = frames(Side::Client, &[(true, Opcode::Text, b"x")]);
    assert!(what(refused(Side::Server, &plain)).contains("not masked"));
    assert_eq!(of(&[(true, Opcode::Text, b"\xce\xba\xe1\xbd")]), FrameError::NotUtf8);
    assert_eq!(of(&[(false, Opcode::Text, b"\xff")]), FrameError::NotUtf8, "at once");
    assert_eq!(of(&[(true, Opcode::Close, b"\x03\xe8\xff")]), FrameError::NotUtf8);
    assert_eq!(of(&[(true, Opcode::Text, b"\xff")]).close_code(), 1007);
    let too_large = [0x82, 127, 0, 0, 0, 0, 0x40, 0, 0, 1];
    assert_eq!(refused(Side::Client, &too_large), FrameError::TooLarge);
}

#[test]
fn every_control_frame_has_a_payload_of_its_own() {
    let list: [(bool, Opcode, &[u8]); 2] =
        [(true, Opcode::Ping, b"one"), (true, Opcode::Ping, b"")];
    let (events, error, _) = read(Side::Client, &frames(Side::Client, &list), &[]);
    assert_eq!(error, None);
    assert_eq!(events, [(Progress::Ping, b"one".to_vec()), (Progress::Ping, vec![])]);
}

proptest! {
    #[test]
    fn messages_come_out_as_they_went_in(
        messages in prop::collection::vec(prop::collection::vec(any::<Vec<u8>>(), 1..4), 0..5),
        is_server: bool,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let side = if is_server { Side::Server } else { Side::Client };
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for pieces in &messages {
            for (number, piece) in pieces.iter().enumerate() {
                let opcode = if number == 0 { Opcode::Binary } else { Opcode::Continuation };
                bytes.extend(frames(side, &[(number + 1 == pieces.len(), opcode, piece)]));
            }
            let whole = pieces.concat();
            expected.push((Progress::Message { is_text: false, bytes: whole.len() as u64 }, whole));
        }
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        let (events, error, is_idle) = read(side, &bytes, &cuts);
        prop_assert_eq!((events, error, is_idle), (expected, None, true));
    }

    #[test]
    fn no_bytes_make_it_panic_and_cuts_change_nothing(
        bytes: Vec<u8>,
        is_server: bool,
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let side = if is_server { Side::Server } else { Side::Client };
        let cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        prop_assert_eq!(read(side, &bytes, &cuts), read(side, &bytes, &[]));
    }
}
