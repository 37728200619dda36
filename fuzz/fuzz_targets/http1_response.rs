//! Responses: no input panics, none is over-consumed, and splitting changes no complete result.
//! The first byte chooses HEAD or not and how the rest is split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_proto::http1::{Progress, Response, ResponseParser};

/// Consumed bytes and the response; `Ok(None)` when more is needed, `Err` when it is refused.
type Outcome = Result<Option<(usize, Response)>, ()>;

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, head_request: bool) -> Outcome {
    let mut parser = ResponseParser::default();
    parser.expect_response(head_request);
    let (mut total, mut has_begun) = (0, false);
    for piece in pieces {
        // Empty lines before an answer are none of it.
        has_begun |= piece.iter().any(|byte| !matches!(byte, b'\r' | b'\n'));
        let (consumed, progress) = parser.handle_bytes(piece).map_err(|_| ())?;
        assert!(consumed <= piece.len());
        total += consumed;
        match progress {
            Progress::Complete(response) => {
                assert!(response.status >= 200 && response.body_bytes <= total as u64);
                assert!(!parser.has_begun());
                return Ok(Some((total, response)));
            }
            Progress::NeedMore => assert_eq!(consumed, piece.len()),
        }
    }
    assert_eq!(parser.has_begun(), has_begun);
    if let Ok(response) = parser.handle_eof() {
        assert!(!response.keep_alive);
    }
    Ok(None)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, input)) = bytes.split_first() else { return };
    let head_request = choice & 1 == 1;
    let whole = read(std::iter::once(input), head_request);
    let split = read(input.chunks(usize::from(choice >> 1) + 1), head_request);
    // A line is judged at its end when it comes in pieces, so a refusal may come later.
    assert!(whole == split || (whole.is_err() && split == Ok(None)), "{whole:?} {split:?}");
});
