//! Exit codes, and the one way in which a command ends other than by success.
//!
//! Says what is printed and with which code; prints nothing itself.

use std::fmt;

use plimsoll_model::trial::Standing;
use plimsoll_report::clean;

/// A usage error of two texts for `format!`: *what is wrong; what to do*.
macro_rules! usage {
    ($($what:expr),+; $($fix:expr),+) => {
        $crate::exit::Stop::usage(format_args!($($what),+), format_args!($($fix),+))
    };
}

/// Returns a usage error.
macro_rules! refuse {
    ($($text:tt)+) => {
        return Err(usage!($($text)+))
    };
}

/// Returns a usage error if a condition holds.
macro_rules! refuse_if {
    ($condition:expr; $($text:tt)+) => {
        if $condition {
            refuse!($($text)+);
        }
    };
}

/// The result of what may end a command.
pub(crate) type Result<T, E = Stop> = std::result::Result<T, E>;

/// Done, and the SLO (if one was given) is met.
pub(crate) const DONE: u8 = 0;
/// Could not run: the system refused (a name, a file descriptor, a child process), or this host is too small.
pub(crate) const CANNOT_RUN: u8 = 1;
/// Bad usage: a flag, target file or combination of them. Nothing was started.
pub(crate) const USAGE: u8 = 2;
/// Unstable or undecided: the search claims no interval, and found no load that met the SLO throughout.
pub(crate) const UNSETTLED: u8 = 97;
/// INVALID: the generator, not the SUT, was the limit.
pub(crate) const INVALID: u8 = 98;
/// The SLO was missed.
pub(crate) const SLO_MISSED: u8 = 99;
/// Interrupted by SIGINT; a partial report was written.
pub(crate) const INTERRUPTED: u8 = 130;
/// Ended by SIGTERM; a partial report was written.
pub(crate) const TERMINATED: u8 = 143;

/// Every code, in ascending order.
#[cfg(test)]
pub(crate) const ALL: [u8; 8] =
    [DONE, CANNOT_RUN, USAGE, UNSETTLED, INVALID, SLO_MISSED, INTERRUPTED, TERMINATED];

/// Why a command ends, when not with code [`DONE`] after its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Text that was asked for (`--help`, `--version`): stdout, exit 0.
    Asked(String),
    /// The command line is invalid: *what is wrong; what to do*.
    Usage(String),
    /// The command line is valid, but the system refuses it: *what is wrong; what to do*.
    CannotRun(String),
    /// This host cannot hold as many connections as were asked for: what is wrong, then a
    /// line for each limit that is short.
    TooMany(Vec<String>),
    /// The report, or a command elsewhere, has said why: the exit code.
    Reported(u8),
    /// The report is written: the exit code, and a line for each gate that decided it.
    Gates(u8, Vec<String>),
}

impl Stop {
    /// Creates a usage error: what is wrong, and the fix.
    pub(crate) fn usage(what: impl fmt::Display, fix: impl fmt::Display) -> Self {
        Self::Usage(format!("{what}; {fix}"))
    }

    /// Returns the end after a report of `standing`; `None` if all is well.
    pub(crate) const fn of(standing: Standing) -> Option<Self> {
        match standing {
            Standing::Met => None,
            Standing::Missed => Some(Self::Reported(SLO_MISSED)),
            Standing::Invalid => Some(Self::Reported(INVALID)),
            Standing::Open => Some(Self::Reported(UNSETTLED)),
        }
    }

    /// Creates the error of a system that has refused.
    pub(crate) fn cannot_run(why: impl fmt::Display) -> Self {
        Self::CannotRun(why.to_string())
    }

    /// Returns the process's exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Asked(_) => DONE,
            Self::Usage(_) => USAGE,
            Self::CannotRun(_) | Self::TooMany(_) => CANNOT_RUN,
            Self::Reported(code) | Self::Gates(code, _) => *code,
        }
    }

    /// Returns the line for stderr, unless a report has been written instead. Whatever peers and hosts have said is in
    /// it as text alone.
    pub(crate) fn complaint(&self) -> Option<String> {
        let shown = |line: &String| line.split('\n').map(clean).collect::<Vec<_>>().join("\n");
        match self {
            Self::Usage(text) | Self::CannotRun(text) => {
                // What a user or the system wrote may hold line breaks; the promise is one line.
                let words = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
                Some(format!("plimsoll: {}", clean(&words.collect::<Vec<_>>().join(" "))))
            }
            Self::Gates(_, lines) => {
                let lines = lines.iter().map(|line| format!("plimsoll: {}", shown(line)));
                Some(lines.collect::<Vec<_>>().join("\n"))
            }
            Self::TooMany(lines) => {
                let lines: Vec<_> = lines.iter().map(shown).collect();
                Some(format!("plimsoll: {}", lines.join("\n  ")))
            }
            Self::Asked(_) | Self::Reported(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_contract() {
        assert_eq!(Stop::of(Standing::Met), None);
        let of = |standing| Stop::of(standing).unwrap();
        for (stop, code) in [
            (Stop::Asked("help".into()), 0),
            (Stop::CannotRun("no such name".into()), 1),
            (Stop::TooMany(vec!["too many".into()]), 1),
            (Stop::Usage("no such flag".into()), 2),
            (of(Standing::Open), 97),
            (of(Standing::Invalid), 98),
            (of(Standing::Missed), 99),
            (Stop::Gates(SLO_MISSED, vec!["p99>10%".into()]), 99),
            (Stop::Gates(UNSETTLED, vec!["safe<-5%".into()]), 97),
            (Stop::Gates(INVALID, vec!["safe<-5%".into()]), 98),
            (Stop::Reported(INTERRUPTED), 130),
            (Stop::Reported(TERMINATED), 143),
        ] {
            assert_eq!(stop.code(), code, "{stop:?}");
        }
    }

    #[test]
    fn a_complaint_is_one_line() {
        let stop = Stop::usage("no file \"a\nb\"", "name one");
        assert_eq!(stop.complaint().as_deref(), Some("plimsoll: no file \"a b\"; name one"));
        assert_eq!(Stop::Reported(INVALID).complaint(), None);
    }

    #[test]
    fn what_others_have_said_controls_no_terminal() {
        let said = || "client07: \x1b]0;x\x07 ##[error]".to_owned();
        for stop in [
            Stop::CannotRun(said()),
            Stop::Usage(said()),
            Stop::TooMany(vec![said()]),
            Stop::Gates(SLO_MISSED, vec![said()]),
        ] {
            let shown = stop.complaint().unwrap();
            assert_eq!(shown, "plimsoll: client07: ?]0;x? ## [error]");
        }
        let lines = Stop::TooMany(vec!["a\n  b".to_owned(), "c".to_owned()]);
        assert_eq!(lines.complaint().unwrap(), "plimsoll: a\n  b\n  c");
    }
}
