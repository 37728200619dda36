//! The attachment of the standard streams: a terminal, or a file or pipe for plain text. Decides
//! nothing about what is written.

use std::env::var_os;
use std::ffi::OsString;
use std::io::IsTerminal;

use plimsoll_report::{JobLog, Style};
use plimsoll_sys::{clock, terminal};

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

    /// Reports whether a line can be redrawn.
    pub(crate) fn draws(self) -> bool {
        draws(self.is_terminal(), var_os("TERM"))
    }

    /// Reports whether colours are supported and not turned off.
    pub(crate) fn colours(self) -> bool {
        self.draws() && wants_colours(var_os("NO_COLOR"))
    }

    /// Returns the width and colours of a report there.
    pub(crate) fn style(self) -> Style {
        let plain = Style { color: self.colours(), log: job_log(), ..Style::default() };
        let size = match self {
            Self::Out => terminal::size(std::io::stdout()),
            Self::Err => terminal::size(std::io::stderr()),
        };
        size.map_or(plain, |(width, _)| Style { width, ..plain })
    }
}

/// Reports whether a screen can be drawn on standard error while a command runs, and keys be read from standard input.
pub(crate) fn takes_screen() -> bool {
    let is_set = |name| var_os(name).is_some_and(|value| !value.is_empty());
    Stream::Err.draws()
        && std::io::stdin().is_terminal()
        && is_set("TERM")
        && !is_ci()
        && terminal::is_ours()
}

/// Reports whether the output goes to the log of a CI job: `CI` is set.
pub(crate) fn is_ci() -> bool {
    var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Returns the service of continuous integration whose log this is, where it is one that folds.
fn job_log() -> Option<JobLog> {
    let is_true = |name| var_os(name).is_some_and(|value| value == "true");
    if is_true("GITHUB_ACTIONS") {
        Some(JobLog::GitHub)
    } else if is_true("GITLAB_CI") {
        Some(JobLog::GitLab { unix_s: clock::unix_seconds() })
    } else {
        None
    }
}

/// Reports whether only characters that every console has can be shown.
pub(crate) fn is_ascii() -> bool {
    is_ascii_in(|name| var_os(name))
}

fn is_ascii_in(of: impl Fn(&str) -> Option<OsString>) -> bool {
    // The first one that is set decides, as in every program of the system.
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| {
        of(name)
            .filter(|value| !value.is_empty())
            .map(|value| value.to_string_lossy().to_lowercase())
    });
    let is_utf8 = locale.is_some_and(|name| name.contains("utf-8") || name.contains("utf8"));
    // The console of Linux has few characters of its fonts beyond ASCII.
    !is_utf8 || of("TERM").is_some_and(|term| term == "linux")
}

fn draws(is_terminal: bool, term: Option<OsString>) -> bool {
    is_terminal && term.is_none_or(|term| term != "dumb")
}

/// Reports whether colours are wanted: by no-color.org `NO_COLOR` disables them if it is set and not empty.
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

    #[test]
    fn characters_follow_the_locale() {
        for (set, expected) in [
            (&[("LANG", "en_GB.UTF-8")][..], false),
            (&[("LANG", "en_GB.UTF-8"), ("LC_ALL", "C")], true),
            (&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")], false),
            (&[], true),
            (&[("LANG", "C.UTF-8"), ("TERM", "linux")], true),
        ] {
            let of = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            };
            assert_eq!(is_ascii_in(of), expected, "{set:?}");
        }
    }
}
