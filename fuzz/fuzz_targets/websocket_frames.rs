//! Frames of WebSocket: no input panics, none is over-consumed, and splitting changes no complete
//! result. The first byte chooses the side and how the rest is split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_proto::websocket::{
    CONTROL_PAYLOAD_BYTES_MAX, FrameError, MessageReader, Progress, Side,
};

/// Every event of the input: where it ended, what it was, how many bytes of payload had come.
type Events = Vec<(usize, Progress, usize)>;

/// All events up to the first error, and that error.
fn read<'a>(side: Side, pieces: impl Iterator<Item = &'a [u8]>) -> (Events, Option<FrameError>) {
    let mut reader = MessageReader::new(side);
    let mut events = Events::new();
    let (mut total, mut payload_bytes) = (0, 0);
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let result = reader.handle_bytes(rest, &mut |bytes| payload_bytes += bytes.len());
            let (consumed, progress) = match result {
                Ok(read) => read,
                Err(error) => return (events, Some(error)),
            };
            assert!(consumed <= rest.len());
            assert!(reader.control_payload().len() <= CONTROL_PAYLOAD_BYTES_MAX);
            rest = &rest[consumed..];
            total += consumed;
            match progress {
                Progress::NeedMore => assert!(rest.is_empty()),
                progress => events.push((total, progress, payload_bytes)),
            }
        }
    }
    (events, None)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, input)) = bytes.split_first() else { return };
    let side = if choice & 1 == 0 { Side::Client } else { Side::Server };
    let whole = read(side, std::iter::once(input));
    let split = read(side, input.chunks(usize::from(choice >> 1) + 1));
    assert_eq!(whole, split);
});
