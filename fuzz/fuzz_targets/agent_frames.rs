//! Frames between a coordinator and its agents: no input panics, and what is read is written and read again. The first
//! byte chooses who reads, and whether the rest is a stream of frames or the payload of one.
#![no_main]

use std::fmt::Debug;

use libfuzzer_sys::fuzz_target;
use plimsoll_fleet::{FromAgent, ToAgent, frame};
use serde::Serialize;
use serde::de::DeserializeOwned;

fn read<M: DeserializeOwned + Serialize + PartialEq + Debug>(mut stream: &[u8]) {
    while let Ok(Some(message)) = frame::read::<M>(&mut stream) {
        let mut written = Vec::new();
        frame::write(&mut written, &message).unwrap();
        assert_eq!(frame::read::<M>(written.as_slice()).unwrap(), Some(message));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, input)) = bytes.split_first() else { return };
    let framed;
    let stream = match choice & 2 {
        0 => input,
        _ => {
            let length = u32::try_from(input.len()).unwrap();
            framed = [&length.to_le_bytes()[..], input].concat();
            &framed
        }
    };
    match choice & 1 {
        0 => read::<FromAgent>(stream),
        _ => read::<ToAgent>(stream),
    }
});
