//! Scripts of raw TCP: no text panics the parser, no answer the client, none is over-consumed, and splitting
//! changes nothing. A zero byte ends the script; the byte behind it chooses how the answer is split.
#![no_main]

use std::io::{Error, ErrorKind};
use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::conversation::Progress;
use plimsoll_proto::script::{Client, Program, parse};

/// Returns the replies, the consumed bytes and the end.
fn run<'a>(
    program: &Arc<Program>,
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<u8>, usize, Option<ErrorClass>) {
    let mut client = Client::new(Arc::clone(program));
    client.expect_operation();
    let (mut reply, mut total) = (Vec::new(), 0);
    for piece in pieces {
        let mut input = piece.to_vec();
        let mut again = true;
        while again {
            again = false;
            match client.handle_bytes(&input, &mut reply) {
                Ok((consumed, progress)) => {
                    assert!(consumed <= input.len());
                    total += consumed;
                    match progress {
                        Progress::NeedMore => {}
                        Progress::Sleeps(_) => {
                            client.sleep_until(Nanos(1));
                            input = client.wake();
                            total -= input.len();
                            again = true;
                        }
                        _ => return (reply, total, None),
                    }
                }
                Err(fault) => return (reply, 0, Some(fault.class())),
            }
        }
    }
    (reply, total, None)
}

fuzz_target!(|bytes: &[u8]| {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let answer = bytes.get(text.len() + 1..).unwrap_or_default();
    let mut no_files = |_: &str| Err(Error::from(ErrorKind::NotFound));
    let Ok(script) = parse(text, &mut no_files) else { return };
    let Ok(program) = Program::new(&script) else { return };
    let Some((&choice, answer)) = answer.split_first() else { return };
    // What `any` takes is what came at once.
    if text.windows(3).any(|word| word == b"any") {
        return;
    }
    let program = Arc::new(program);
    let whole = run(&program, std::iter::once(answer));
    assert_eq!(whole, run(&program, answer.chunks(usize::from(choice) + 1)));
});
