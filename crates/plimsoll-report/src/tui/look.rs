//! The selected part of the state, and the keys that select it.

/// The panel in the middle of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Panel {
    /// Each trial of a search: its load against its p99.
    Trials,
    /// Latency of the last minutes.
    Latency,
    /// Connections of the last minutes: held, opened and lost.
    Connections,
    /// Failed operations by class.
    Errors,
    /// Every host, with all figures.
    Hosts,
    /// Everything that was noted.
    Notes,
}

/// A key's request to the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Stop sending, wait for answers, report.
    Stop,
    /// End at once.
    StopNow,
    /// Pause what rises.
    Pause,
}

/// The selection of what is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// The terminal shows colours.
    pub colours: bool,
    /// Only characters that every console has.
    pub ascii: bool,
    /// Panels gone on from the first one.
    pub(super) panel: usize,
    /// Uncorrected instead of corrected latency in the chart.
    pub(super) uncorrected: bool,
    /// A linear axis of latency.
    pub(super) linear: bool,
    /// `true` if the words for the keys are shown.
    pub(super) help: bool,
}

impl Look {
    /// Returns the first panel, corrected latency on a logarithmic axis.
    pub const fn new(colours: bool, ascii: bool) -> Self {
        Self { colours, ascii, panel: 0, uncorrected: false, linear: false, help: false }
    }

    /// Returns the word for the axis of latency.
    pub(super) const fn scale(&self) -> &'static str {
        if self.linear { "linear" } else { "log" }
    }

    /// Takes the bytes of keys; returns what they ask of the run.
    pub fn press(&mut self, keys: &[u8]) -> Vec<Wish> {
        let mut wishes = Vec::new();
        let mut left = keys;
        while let [key, rest @ ..] = left {
            left = rest;
            // A key without a character sends a sequence, and Alt an escape before its key: no part of them is
            // another key.
            if *key == 0x1b {
                left = self.skip_sequence(rest);
                continue;
            }
            let had_help = std::mem::take(&mut self.help);
            match key {
                b'q' | b's' => wishes.push(Wish::Stop),
                b'Q' => wishes.push(Wish::StopNow),
                b'p' => wishes.push(Wish::Pause),
                b'\t' => self.panel = self.panel.wrapping_add(1),
                b'u' => self.uncorrected = !self.uncorrected,
                b'l' => self.linear = !self.linear,
                b'?' | b'h' => self.help = !had_help,
                _ => {}
            }
        }
        wishes
    }

    /// Returns the keys after the sequence that continues with `keys`.
    fn skip_sequence<'a>(&mut self, keys: &'a [u8]) -> &'a [u8] {
        let [b'[' | b'O', sequence @ ..] = keys else { return keys.get(1..).unwrap_or_default() };
        let Some(end) = sequence.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
            return &[];
        };
        match sequence[end] {
            b'A' | b'D' | b'Z' => self.panel = self.panel.wrapping_sub(1),
            b'B' | b'C' => self.panel = self.panel.wrapping_add(1),
            _ => {}
        }
        &sequence[end + 1..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_told_from_sequences() {
        let mut look = Look::new(true, false);
        // Alt-q, arrows and F-keys hold letters that are keys by themselves.
        assert_eq!(look.press(b"\x1b[15~\x1bOQ\x1b[1;5Q\x1bq"), []);
        assert_eq!(look.press(b"uq"), [Wish::Stop]);
        assert!(look.uncorrected);
        assert_eq!(look.press(b"\x1b[Bp\x1b[C\x1b[A"), [Wish::Pause]);
        assert_eq!(look.panel, 1);
        assert_eq!(look.press(b"\x1b["), []);
        assert_eq!(look.press(b"\x1b"), []);
        assert_eq!(look.press(b"?"), []);
        assert!(look.help);
        // Any key ends the help, and does what it does.
        assert_eq!(look.press(b"Q"), [Wish::StopNow]);
        assert!(!look.help);
    }
}
