//! Messages on a byte stream: a length of four bytes, little-endian, then JSON. A length with its highest bit set
//! is that of raw bytes: a part of the bodies of a plan.
//!
//! The messages are in [`crate::message`].

use std::io;
use std::io::{Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// The largest payload. Plans with many large targets come close; nothing else does.
pub const FRAME_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The largest payload that an agent may send: the rows of a thread's second have up to 13 MB, the histograms of a
/// second less, and all else is small.
pub(crate) const AGENT_FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The bit of a length that marks raw bytes.
const RAW: u32 = 1 << 31;

/// Most raw bytes in a frame: pings pass between two.
pub(crate) const RAW_BYTES_MAX: usize = 256 * 1024;

/// A buffer starts at most this large, whatever length a frame announces.
const FIRST_ALLOCATION_BYTES_MAX: usize = 64 * 1024;

/// Why a frame could not be written or read.
#[derive(Debug, Error)]
pub enum FrameError {
    /// A message of ours is too large.
    #[error(
        "the plan has {bytes} bytes as a message to an agent, at most {FRAME_BYTES_MAX} are \
         possible; use fewer or smaller targets"
    )]
    TooLarge {
        /// Size of the payload.
        bytes: usize,
    },
    /// The length is impossible: what the other end sends is no frame.
    #[error(
        "not a frame of plimsoll's (it would have {bytes} bytes); is it the same version of \
         plimsoll?"
    )]
    NotFrames {
        /// The length in the first four bytes.
        bytes: u64,
    },
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame: the other end ended while it wrote")]
    Truncated,
    /// The payload is not the message that belongs here.
    #[error("not a message of this version of plimsoll: {0}")]
    Malformed(serde_json::Error),
    /// The stream failed.
    #[error("the link to the other end failed: {0}")]
    Stream(#[from] io::Error),
}

/// Encodes a message as a frame.
pub fn encode<M: Serialize>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).map_err(FrameError::Malformed)?;
    let bytes = frame.len() - 4;
    match u32::try_from(bytes) {
        Ok(length) if bytes <= FRAME_BYTES_MAX => {
            frame[..4].copy_from_slice(&length.to_le_bytes());
            Ok(frame)
        }
        _ => Err(FrameError::TooLarge { bytes }),
    }
}

/// Writes a frame of raw bytes, at most [`RAW_BYTES_MAX`], and flushes.
pub(crate) fn write_raw(mut stream: impl Write, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(&(RAW | bytes.len() as u32).to_le_bytes())?;
    stream.write_all(bytes)?;
    stream.flush()
}

/// The content of a frame.
pub(crate) enum Content<M> {
    Message(M),
    Raw(Vec<u8>),
}

/// Reads one frame where raw bytes may come; `None` when the stream ended between two.
pub(crate) fn read_any<M: DeserializeOwned>(
    mut stream: impl Read,
) -> Result<Option<Content<M>>, FrameError> {
    let Some(announced) = read_length(&mut stream)? else { return Ok(None) };
    if announced & RAW == 0 {
        let payload = read_bytes(stream, announced, FRAME_BYTES_MAX)?;
        return decode(&payload).map(|message| Some(Content::Message(message)));
    }
    read_bytes(stream, announced & !RAW, RAW_BYTES_MAX).map(|raw| Some(Content::Raw(raw)))
}

/// Writes one frame and flushes.
pub fn write<M: Serialize>(mut stream: impl Write, message: &M) -> Result<(), FrameError> {
    stream.write_all(&encode(message)?)?;
    Ok(stream.flush()?)
}

/// Reads one frame; `None` when the stream ended between two.
pub fn read<M: DeserializeOwned>(stream: impl Read) -> Result<Option<M>, FrameError> {
    read_payload(stream, FRAME_BYTES_MAX)?.map(|payload| decode(&payload)).transpose()
}

/// Decodes the message in a payload.
pub(crate) fn decode<M: DeserializeOwned>(payload: &[u8]) -> Result<M, FrameError> {
    serde_json::from_slice(payload).map_err(FrameError::Malformed)
}

/// Reads one frame of at most `most` bytes without its length; `None` when the stream ended between two.
pub(crate) fn read_payload(
    mut stream: impl Read,
    most: usize,
) -> Result<Option<Vec<u8>>, FrameError> {
    let announced = read_length(&mut stream)?;
    announced.map(|announced| read_bytes(stream, announced, most)).transpose()
}

fn read_length(stream: &mut impl Read) -> Result<Option<u32>, FrameError> {
    let mut header = Vec::with_capacity(4);
    stream.by_ref().take(4).read_to_end(&mut header)?;
    if header.is_empty() {
        return Ok(None);
    }
    let header: [u8; 4] = header.try_into().map_err(|_| FrameError::Truncated)?;
    Ok(Some(u32::from_le_bytes(header)))
}

fn read_bytes(stream: impl Read, announced: u32, most: usize) -> Result<Vec<u8>, FrameError> {
    let bytes = announced as usize;
    if bytes > most {
        return Err(FrameError::NotFrames { bytes: u64::from(announced) });
    }
    let mut payload = Vec::with_capacity(bytes.min(FIRST_ALLOCATION_BYTES_MAX));
    stream.take(u64::from(announced)).read_to_end(&mut payload)?;
    if payload.len() < bytes {
        return Err(FrameError::Truncated);
    }
    Ok(payload)
}

#[cfg(test)]
mod tests {
    use plimsoll_model::event::LoadEvent;
    use plimsoll_model::tally::{Interval, Tally};
    use plimsoll_model::{ErrorClass, Nanos};
    use proptest::prelude::*;

    use crate::message::{FromAgent, Machine, ToAgent};

    use super::*;

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let mut tally = Tally { scheduled: 3, ok: 2, ..Tally::default() };
        tally.failures.operations.count(ErrorClass::ResetByPeer);
        tally.spans.corrected.record(Nanos::from_millis(7));
        tally.generator.busiest_thread = 0.1 + 0.2;
        let sent = [
            FromAgent::Hello {
                version: "1".to_owned(),
                pid: 5,
                descriptors_max: 1024,
                machine: Machine { cpus: 2, ..Machine::default() },
            },
            FromAgent::Load(LoadEvent::Interval(Box::new(Interval { second: 4, tally }))),
            FromAgent::Load(LoadEvent::Ended { window: Nanos::from_secs(9) }),
        ];
        let mut stream = Vec::new();
        for message in &sent {
            write(&mut stream, message).unwrap();
        }
        let mut stream = stream.as_slice();
        for message in sent {
            assert_eq!(read::<FromAgent>(&mut stream).unwrap(), Some(message));
        }
        assert!(read::<FromAgent>(&mut stream).unwrap().is_none());
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let read_error = |bytes: &[u8]| read::<ToAgent>(bytes).unwrap_err();
        // Text instead of frames, as from a login banner.
        assert!(matches!(read_error(b"Permission denied"), FrameError::NotFrames { .. }));
        // Inside the header, inside the payload.
        assert!(matches!(read_error(&[1, 0]), FrameError::Truncated));
        assert!(matches!(read_error(&[9, 0, 0, 0, b'"']), FrameError::Truncated));
        // A message that this version does not know.
        let mut stream = Vec::new();
        write(&mut stream, &"dance").unwrap();
        assert!(matches!(read_error(&stream), FrameError::Malformed(_)));
        // One byte too many: the quotes count too.
        let large = "x".repeat(FRAME_BYTES_MAX - 1);
        let bytes = FRAME_BYTES_MAX + 1;
        assert!(matches!(encode(&large), Err(FrameError::TooLarge { bytes: b }) if b == bytes));
    }

    #[test]
    fn raw_bytes_pass_between_messages() {
        let mut stream = Vec::new();
        write(&mut stream, &ToAgent::Go).unwrap();
        write_raw(&mut stream, b"raw").unwrap();
        write(&mut stream, &ToAgent::Go).unwrap();
        let mut rest = stream.as_slice();
        let mut next = || read_any::<ToAgent>(&mut rest).unwrap();
        assert!(matches!(next(), Some(Content::Message(ToAgent::Go))));
        assert!(matches!(next(), Some(Content::Raw(raw)) if raw == b"raw"));
        assert!(matches!(next(), Some(Content::Message(ToAgent::Go))));
        assert!(next().is_none());
        let too_many = (RAW | (RAW_BYTES_MAX as u32 + 1)).to_le_bytes();
        assert!(read_any::<ToAgent>(&too_many[..]).is_err());
        // No other reader expects bodies.
        assert!(read::<ToAgent>(&stream[stream.len() - 18..]).is_err());
    }

    #[test]
    fn an_agent_sends_small_frames() {
        let most = u32::try_from(AGENT_FRAME_BYTES_MAX).unwrap();
        let announced = |bytes: u32| read_payload(&bytes.to_le_bytes()[..], AGENT_FRAME_BYTES_MAX);
        assert!(matches!(announced(most), Err(FrameError::Truncated)));
        assert!(matches!(announced(most + 1), Err(FrameError::NotFrames { .. })));
    }

    proptest! {
        #[test]
        fn garbage_is_an_error_and_never_a_panic(
            bytes in prop::collection::vec(any::<u8>(), 1..64),
        ) {
            // Five and more random bytes that are a valid message would be a miracle.
            prop_assert!(read::<ToAgent>(bytes.as_slice()).is_err());
        }

        #[test]
        fn a_cut_frame_is_an_error(cut in 1usize..20) {
            let frame = encode(&ToAgent::Stop { grace: Nanos::from_secs(1) }).unwrap();
            let cut = cut.min(frame.len() - 1);
            let read = read::<ToAgent>(&frame[..cut]);
            prop_assert!(matches!(read, Err(FrameError::Truncated)));
        }
    }
}
