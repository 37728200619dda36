//! The preamble of a far end before its frames: lines with a nonce, so that output of a login shell is noise
//! and no frame.

use std::io;
use std::io::{Read, Write};

/// The mark before the nonce in each line.
const MARK: &str = "\u{1}PLIMSOLL ";
/// Most bytes before the frames.
const BYTES_MAX: usize = 64 * 1024;
/// The most noise that is stored.
const NOISE_MAX: usize = 1024;

/// A line of the far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    /// The host has no program, is a machine of this kind, and is ready to receive one.
    Want(String),
    /// The script cannot continue; the text states the reason.
    Fail(String),
    /// From here on it sends frames.
    Agent,
}

/// Writes the line after which only frames follow.
pub fn announce(mut stdout: impl Write, nonce: &str) -> io::Result<()> {
    writeln!(stdout, "{MARK}{nonce} agent")?;
    stdout.flush()
}

/// Reads the lines of one far end.
#[derive(Debug)]
pub(crate) struct Preamble {
    mark: Vec<u8>,
    read: usize,
    /// Output of others.
    pub(crate) noise: Vec<u8>,
}

impl Preamble {
    pub(crate) fn new(nonce: &str) -> Self {
        Self { mark: format!("{MARK}{nonce} ").into_bytes(), read: 0, noise: Vec::new() }
    }

    /// Reads up to the next line with the nonce; `None` if the stream ends, or [`BYTES_MAX`] bytes have none.
    pub(crate) fn next_word(&mut self, stdout: &mut impl Read) -> io::Result<Option<Word>> {
        let mut line = Vec::new();
        // One byte at a time: what follows the line are frames, or nothing.
        while self.read < BYTES_MAX && stdout.by_ref().take(1).read_to_end(&mut line)? > 0 {
            self.read += 1;
            if !line.ends_with(b"\n") {
                continue;
            }
            let at = line.windows(self.mark.len()).position(|part| part == self.mark);
            if let Some(at) = at {
                self.keep(&line[..at]);
                let text = String::from_utf8_lossy(&line[at + self.mark.len()..]).into_owned();
                if let Some(word) = Word::parse(text.trim()) {
                    return Ok(Some(word));
                }
            } else {
                self.keep(&line);
            }
            line.clear();
        }
        self.keep(&line);
        Ok(None)
    }

    fn keep(&mut self, noise: &[u8]) {
        let room = NOISE_MAX.saturating_sub(self.noise.len()).min(noise.len());
        self.noise.extend_from_slice(&noise[..room]);
    }

    /// Returns the noise as one line, where there was any.
    pub(crate) fn noise(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.noise);
        let is_hidden = |letter: char| letter.is_control() && !letter.is_whitespace();
        let shown: String = text.chars().filter(|letter| !is_hidden(*letter)).collect();
        let line = shown.split_whitespace().collect::<Vec<_>>().join(" ");
        (!line.is_empty()).then_some(line)
    }
}

impl Word {
    fn parse(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let printable = || rest.chars().filter(|letter| !letter.is_control()).collect();
        match word {
            "want" => Some(Self::Want(printable())),
            "fail" => Some(Self::Fail(printable())),
            "agent" => Some(Self::Agent),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &[u8]) -> (Vec<Word>, Option<String>, Vec<u8>) {
        let (mut stream, mut preamble) = (text, Preamble::new("0123"));
        let mut words = Vec::new();
        while let Some(word) = preamble.next_word(&mut stream).unwrap() {
            let is_last = word == Word::Agent;
            words.push(word);
            if is_last {
                break;
            }
        }
        (words, preamble.noise(), stream.to_vec())
    }

    #[test]
    fn noise_is_kept_apart_and_frames_are_left() {
        let mut text = b"Welcome!\n\x1b[1mnews\x1b[0m \x01PLIMSOLL 9999 agent\nno newline".to_vec();
        text.extend(b"\x01PLIMSOLL 0123 want x86_64\n");
        announce(&mut text, "0123").unwrap();
        text.extend([4, 0, 0, 0]);
        let (words, noise, rest) = read(&text);
        assert_eq!(words, [Word::Want("x86_64".to_owned()), Word::Agent]);
        let noise = noise.unwrap();
        assert!(noise.starts_with("Welcome! [1mnews[0m PLIMSOLL 9999 agent no"), "{noise}");
        assert_eq!(rest, [4, 0, 0, 0]);
    }

    #[test]
    fn a_stream_without_the_line_has_an_end() {
        assert_eq!(read(b"").0, []);
        let (words, noise, rest) = read(&b"y\n".repeat(BYTES_MAX));
        assert_eq!((words.len(), rest.len()), (0, BYTES_MAX));
        assert_eq!(noise.unwrap().len(), NOISE_MAX - 1);
    }

    proptest! {
        #[test]
        fn noise_before_the_line_changes_nothing(noise in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut text = noise;
            announce(&mut text, "0123").unwrap();
            text.push(7);
            let (words, _, rest) = read(&text);
            prop_assert_eq!((words, rest), (vec![Word::Agent], vec![7]));
        }
    }
}
