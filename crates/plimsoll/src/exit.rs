//! Exit codes, and the one way in which a command ends other than by success.
//!
//! Says what is printed and with which code; prints nothing itself.

use std::fmt;

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
/// Could not run: the system refused (a name, a file descriptor, a child process).
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
    /// The report is written: a limit of this host would stop connections, or a setting is not what it
    /// should be.
    HostTooSmall,
    /// The report is written: the SLO was missed.
    SloMissed,
    /// The report is written: it is worse than the baseline by more than is allowed; a line for each gate.
    GateFailed(Vec<String>),
    /// The report is written: a search of the pair claims no interval; a line for each gate.
    GateUnsettled(Vec<String>),
    /// The report is written: the generator was the limit of one of the pair; a line for each gate.
    GateInvalid(Vec<String>),
    /// The report is written: the search claims no interval.
    Unsettled,
    /// The report is written: the generator was the limit.
    Invalid,
    /// A command that has run elsewhere ended with this code, and has said why.
    AsThere(u8),
    /// A partial report is written: SIGINT.
    Interrupted,
    /// A partial report is written: SIGTERM.
    Terminated,
}

impl Stop {
    /// A usage error: what is wrong, and the fix.
    pub(crate) fn usage(what: impl fmt::Display, fix: impl fmt::Display) -> Self {
        Self::Usage(format!("{what}; {fix}"))
    }

    /// Creates the error of a system that has refused.
    pub(crate) fn cannot_run(why: impl fmt::Display) -> Self {
        Self::CannotRun(why.to_string())
    }

    /// The process's exit code.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Asked(_) => DONE,
            Self::Usage(_) => USAGE,
            Self::CannotRun(_) | Self::TooMany(_) | Self::HostTooSmall => CANNOT_RUN,
            Self::SloMissed | Self::GateFailed(_) => SLO_MISSED,
            Self::Unsettled | Self::GateUnsettled(_) => UNSETTLED,
            Self::Invalid | Self::GateInvalid(_) => INVALID,
            Self::AsThere(code) => *code,
            Self::Interrupted => INTERRUPTED,
            Self::Terminated => TERMINATED,
        }
    }

    /// The line for stderr, unless a report has been written instead. Whatever peers and hosts have said is in it as text alone.
    pub(crate) fn complaint(&self) -> Option<String> {
        let shown = |line: &String| line.split('\n').map(clean).collect::<Vec<_>>().join("\n");
        match self {
            Self::Usage(text) | Self::CannotRun(text) => {
                // What a user or the system wrote may hold line breaks; the promise is one line.
                let words = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
                Some(format!("plimsoll: {}", clean(&words.collect::<Vec<_>>().join(" "))))
            }
            Self::GateFailed(lines) | Self::GateUnsettled(lines) | Self::GateInvalid(lines) => {
                let lines = lines.iter().map(|line| format!("plimsoll: {}", shown(line)));
                Some(lines.collect::<Vec<_>>().join("\n"))
            }
            Self::TooMany(lines) => {
                let lines: Vec<_> = lines.iter().map(shown).collect();
                Some(format!("plimsoll: {}", lines.join("\n  ")))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_contract() {
        for (stop, code) in [
            (Stop::Asked("help".into()), 0),
            (Stop::CannotRun("no such name".into()), 1),
            (Stop::TooMany(vec!["too many".into()]), 1),
            (Stop::Usage("no such flag".into()), 2),
            (Stop::Unsettled, 97),
            (Stop::Invalid, 98),
            (Stop::SloMissed, 99),
            (Stop::GateFailed(vec!["p99>10%".into()]), 99),
            (Stop::GateUnsettled(vec!["safe<-5%".into()]), 97),
            (Stop::GateInvalid(vec!["safe<-5%".into()]), 98),
            (Stop::Interrupted, 130),
            (Stop::Terminated, 143),
        ] {
            assert_eq!(stop.code(), code, "{stop:?}");
        }
    }

    #[test]
    fn a_complaint_is_one_line() {
        let stop = Stop::usage("no file \"a\nb\"", "name one");
        assert_eq!(stop.complaint().as_deref(), Some("plimsoll: no file \"a b\"; name one"));
        assert_eq!(Stop::Invalid.complaint(), None);
    }

    #[test]
    fn what_others_have_said_controls_no_terminal() {
        let said = || "client07: \x1b]0;x\x07 ##[error]".to_owned();
        for stop in [
            Stop::CannotRun(said()),
            Stop::Usage(said()),
            Stop::TooMany(vec![said()]),
            Stop::GateFailed(vec![said()]),
        ] {
            let shown = stop.complaint().unwrap();
            assert_eq!(shown, "plimsoll: client07: ?]0;x? ## [error]");
        }
        let lines = Stop::TooMany(vec!["a\n  b".to_owned(), "c".to_owned()]);
        assert_eq!(lines.complaint().unwrap(), "plimsoll: a\n  b\n  c");
    }
}
