//! Requests: no input panics, none is over-consumed, headers are seen once, and splitting changes
//! no complete result. The first byte chooses how the rest is split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_proto::http1::{REQUEST_HEADERS_MAX, Request, RequestParser, RequestProgress};

/// Every complete request of the input: where it ended, what it was, how many header bytes it had.
type Requests = Vec<(usize, Request, usize)>;

/// All requests up to the first that is refused or incomplete, and whether one was refused.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Requests, bool) {
    let mut parser = RequestParser::new();
    let mut requests = Requests::new();
    let mut total = 0;
    let (mut headers, mut header_bytes) = (0, 0);
    for piece in pieces {
        let mut rest = piece;
        loop {
            let result = parser.handle_bytes(rest, &mut |name, value| {
                headers += 1;
                header_bytes += name.len() + value.len();
            });
            assert!(headers <= REQUEST_HEADERS_MAX);
            let Ok((consumed, progress)) = result else {
                assert!(!parser.is_idle());
                return (requests, true);
            };
            assert!(consumed <= rest.len());
            rest = &rest[consumed..];
            total += consumed;
            match progress {
                RequestProgress::NeedMore => {
                    assert!(rest.is_empty());
                    break;
                }
                RequestProgress::ExpectContinue => assert!(!parser.is_idle()),
                RequestProgress::Complete(request) => {
                    assert!(parser.is_idle() && request.body_bytes <= total as u64);
                    requests.push((total, request, header_bytes));
                    (headers, header_bytes) = (0, 0);
                }
            }
        }
    }
    (requests, false)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, input)) = bytes.split_first() else { return };
    let (whole, whole_refused) = read(std::iter::once(input));
    let (split, split_refused) = read(input.chunks(usize::from(choice) + 1));
    assert_eq!(whole, split);
    // A line is judged at its end when it comes in pieces, so a refusal may come later.
    assert!(whole_refused || !split_refused);
});
