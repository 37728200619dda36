//! What the standard streams are attached to: a terminal, or a file or pipe for plain text. Decides
//! nothing about what is written.

use std::env::var_os;
use std::ffi::OsString;
use std::io::IsTerminal;

use plimsoll_report::Style;

/// A stream that people may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    fn is_terminal(self) -> bool {
        match self {
            Self::Out => std::io::stdout().is_terminal(),
            Self::Err => std::io::stderr().is_terminal(),
        }
    }

    /// Whether a line can be redrawn.
    pub(crate) fn draws(self) -> bool {
        draws(self.is_terminal(), var_os("TERM"))
    }

    /// Whether colours are supported and not turned off.
    pub(crate) fn colours(self) -> bool {
        self.draws() && wants_colours(var_os("NO_COLOR"))
    }

    /// Width and colours of a report there.
    pub(crate) fn style(self) -> Style {
        let plain = Style { color: self.colours(), ..Style::default() };
        let size = match self {
            Self::Out => terminal_size::terminal_size_of(std::io::stdout()),
            Self::Err => terminal_size::terminal_size_of(std::io::stderr()),
        };
        match size {
            // A terminal of unknown size reports 0.
            Some((terminal_size::Width(width), _)) if width > 0 => Style { width, ..plain },
            _ => plain,
        }
    }
}

fn draws(is_terminal: bool, term: Option<OsString>) -> bool {
    is_terminal && term.is_none_or(|term| term != "dumb")
}

/// no-color.org: set and not empty means no colours.
fn wants_colours(no_color: Option<OsString>) -> bool {
    no_color.is_none_or(|value| value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_terminal_that_can_draw_is_drawn_on() {
        for (is_terminal, term, expected) in [
            (true, Some("xterm"), true),
            (true, None, true),
            (true, Some("dumb"), false),
            (false, Some("xterm"), false),
        ] {
            assert_eq!(draws(is_terminal, term.map(OsString::from)), expected, "{term:?}");
        }
    }

    #[test]
    fn colours_are_refused_by_any_value_but_none() {
        for (value, expected) in [(None, true), (Some(""), true), (Some("0"), false)] {
            assert_eq!(wants_colours(value.map(OsString::from)), expected, "{value:?}");
        }
    }
}
