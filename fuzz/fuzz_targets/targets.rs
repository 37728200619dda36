//! Target files in both formats: no input panics, an error is one line, an accepted target can be
//! encoded, and our own server half reads back what was encoded.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_model::target::vegeta;
use plimsoll_model::target::vegeta::Format;
use plimsoll_proto::http1::{RequestParser, RequestProgress, encode};

fuzz_target!(|text: &[u8]| {
    let defaults = [("User-Agent".to_owned(), "fuzz".to_owned())];
    let mut read_file = |path: &str| Ok(path.into());
    let _ = vegeta::detect(text);
    for format in [Format::Http, Format::Json] {
        let targets = match vegeta::parse(format, "fuzz", text, &defaults, &mut read_file) {
            Ok(targets) => targets,
            Err(error) => {
                assert!(!error.to_string().contains('\n'), "{error}");
                continue;
            }
        };
        assert!(!targets.is_empty() && targets.len() <= text.len());
        for target in targets {
            let bytes = encode::request(&target, true);
            // The server may refuse what a user chose to send (two Hosts, an odd coding), but no
            // target may hold a second request or an unfinished one.
            match RequestParser::new().handle_bytes(&bytes, &mut |_, _| {}) {
                Ok((consumed, RequestProgress::Complete(request))) => {
                    assert_eq!(consumed, bytes.len());
                    assert_eq!(request.body_bytes, target.body.len() as u64);
                }
                Ok((_, RequestProgress::ExpectContinue)) | Err(_) => {}
                Ok((_, RequestProgress::NeedMore)) => panic!("unfinished: {target:?}"),
            }
        }
    }
});
