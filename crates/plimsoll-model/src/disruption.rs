//! Disruptions: actions on the server, or on its connections, during a load; and their effects. Flags and reports call
//! them events.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::units::{ParseError, parse_duration};

/// The longest freeze, and the longest cut of a link: a server that is frozen for longer loses its clients to their own
/// timers.
const SPAN_MAX: Nanos = Nanos::from_secs(60);

/// The kind of a disruption.
#[derive(Clone, Debug, PartialEq)]
pub enum DisruptionKind {
    /// The server reloads its configuration.
    Reload,
    /// The server gets another certificate, and reloads.
    Certificate,
    /// The server is ended and started again.
    Restart,
    /// The server's processes are stopped (SIGSTOP) for this time.
    Freeze(Nanos),
    /// This number of backends is killed.
    BackendDown(u32),
    /// Backends that were killed are started again, and those that were drained get connections again.
    BackendUp,
    /// A proxy sends no new connections to this number of its backends.
    Drain(u32),
    /// The link between the clients and the server is down for this long.
    LinkDown(Nanos),
    /// A share of the held connections, 0 to 1, is reset at once and opened again.
    Reconnect(f64),
    /// A command runs.
    Script(String),
}

impl DisruptionKind {
    /// Returns the word for it in flags.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Reload => "reload",
            Self::Certificate => "certificate",
            Self::Restart => "restart",
            Self::Freeze(_) => "freeze",
            Self::BackendDown(_) => "backend-down",
            Self::BackendUp => "backend-up",
            Self::Drain(_) => "drain",
            Self::LinkDown(_) => "link-down",
            Self::Reconnect(_) => "reconnect",
            Self::Script(_) => "script",
        }
    }

    /// Reports whether the server reloads.
    pub const fn reloads(&self) -> bool {
        matches!(self, Self::Reload | Self::Certificate)
    }
}

/// A planned disruption: `reload@30s`.
#[derive(Clone, Debug, PartialEq)]
pub struct Disruption {
    /// The action.
    pub kind: DisruptionKind,
    /// Instant: since the first operation of a load, and since all connections of a hold are open.
    pub at: Nanos,
}

impl FromStr for Disruption {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refused = || ParseError {
            text: text.trim().to_owned(),
            expected: "an event and its instant: reload@30s, restart@30s, certificate@30s, freeze:2s@30s, \
                       backend-down:1@30s, backend-up@30s, drain:1@30s, link-down:3s@30s, reconnect:30%@30s or \
                       script:COMMAND@30s",
        };
        let (what, at) = text.trim().rsplit_once('@').ok_or_else(refused)?;
        let at = parse_duration(at).map_err(|_| refused())?;
        let kind = match what.split_once(':') {
            None => without_argument(what).ok_or_else(refused)?,
            Some((name, argument)) => {
                let kind = with_argument(name, argument).ok_or_else(refused)?;
                kind.map_err(|expected| ParseError { text: text.trim().to_owned(), expected })?
            }
        };
        Ok(Self { kind, at })
    }
}

fn without_argument(name: &str) -> Option<DisruptionKind> {
    Some(match name {
        "reload" => DisruptionKind::Reload,
        "certificate" => DisruptionKind::Certificate,
        "restart" => DisruptionKind::Restart,
        "backend-down" => DisruptionKind::BackendDown(1),
        "backend-up" => DisruptionKind::BackendUp,
        "drain" => DisruptionKind::Drain(1),
        _ => return None,
    })
}

/// Reads an event with an argument; the error says which one is expected. `None` if an event of this name has none.
fn with_argument(name: &str, argument: &str) -> Option<Result<DisruptionKind, &'static str>> {
    use DisruptionKind::{BackendDown, Drain, Freeze, LinkDown, Reconnect, Script};
    let span = || {
        let span = parse_duration(argument).ok();
        span.filter(|span| *span > Nanos::ZERO && *span <= SPAN_MAX)
    };
    let count = || argument.parse().ok().filter(|count| *count > 0);
    Some(match name {
        "freeze" => span().map(Freeze).ok_or("a freeze of up to 60 s, such as freeze:2s@30s"),
        "link-down" => span().map(LinkDown).ok_or("a cut of up to 60 s, such as link-down:3s@30s"),
        "backend-down" => {
            let expected = "a number of backends from 1, such as backend-down:2@30s";
            count().map(BackendDown).ok_or(expected)
        }
        "drain" => count().map(Drain).ok_or("a number of backends from 1, such as drain:2@30s"),
        "reconnect" => {
            let percent = argument.strip_suffix('%').and_then(|share| share.parse::<f64>().ok());
            let percent = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
            let expected = "a share of the connections above 0, such as reconnect:30%@30s";
            percent.map(|percent| Reconnect(percent / 100.0)).ok_or(expected)
        }
        "script" => {
            let command = (!argument.trim().is_empty()).then(|| argument.to_owned());
            command.map(Script).ok_or("a command, such as script:./failover.sh@30s")
        }
        _ => return None,
    })
}

/// Shows the name in reports; without the words of a script, which may be secret.
impl fmt::Display for DisruptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Freeze(span) | Self::LinkDown(span) => write!(f, " of {} s", span.as_secs_f64()),
            Self::BackendDown(count) | Self::Drain(count) => write!(f, " of {count}"),
            Self::Reconnect(share) => write!(f, " of {} %", (share * 1e4).round() / 1e2),
            Self::Reload
            | Self::Certificate
            | Self::Restart
            | Self::BackendUp
            | Self::Script(_) => Ok(()),
        }
    }
}

/// A process that a reload has replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OldProcess {
    /// Process id.
    pub pid: u32,
    /// Time from the reload to its end, seconds; `None` if it was there at the end of the run.
    pub ended_after_s: Option<f64>,
    /// Private memory one second after the reload.
    pub bytes: Option<u64>,
    /// Open files at that instant.
    pub open_files: Option<u64>,
    /// CPU time that it used from the reload on, seconds.
    pub cpu_s: Option<f64>,
}

/// 99th percentiles of the corrected latency, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DisruptedLatency {
    /// The usual second of the 10 s before.
    pub before: Option<f64>,
    /// The worst second while it was disturbed.
    pub during: Option<f64>,
    /// The latency of that second without this program's own delay; only if arrivals are stamped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undelayed: Option<f64>,
    /// The usual second after that.
    pub after: Option<f64>,
}

/// The effects of one disruption: `events[]` of the summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DisruptionSummary {
    /// The action: `reload`, `freeze of 2 s`, `backend-down of 1`, `reconnect of 30 %`, `script`.
    pub what: String,
    /// Seconds from the first second of the load.
    pub at_s: f64,
    /// Time until the action was done: for a restart, until the server accepted connections; for a reconnect, until all
    /// connections were open again.
    pub took_s: f64,
    /// The failure of the action, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Connections that the server or the network ended until the next event: in a hold all of them, in a load only
    /// those with an open operation.
    pub lost: u64,
    /// The classes of `lost`.
    pub lost_classes: BTreeMap<String, u64>,
    /// Connections that the server ended by RST, until the next event.
    pub reset: u64,
    /// Connections that the server ended without an error, until the next event: by FIN, close_notify, GOAWAY or an
    /// answer that announced it.
    pub finished: u64,
    /// Connections that were opened until the next event in the place of those that ended.
    pub moved: u64,
    /// Operations that failed, until the next event.
    pub errors: u64,
    /// The classes of `errors`.
    pub error_classes: BTreeMap<String, u64>,
    /// Latency around it.
    pub p99_ms: DisruptedLatency,
    /// Time from the beginning of the event to the last second with losses, failures or a latency above the limit;
    /// `None` if that had not ended by the next event or the end of the load.
    pub disturbed_s: Option<f64>,
    /// Processes that a reload has replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub old_processes: Vec<OldProcess>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed() {
        let at = Nanos::from_secs(30);
        for (text, kind) in [
            ("reload@30s", DisruptionKind::Reload),
            ("freeze:2s@30s", DisruptionKind::Freeze(Nanos::from_secs(2))),
            ("reconnect:30%@30s", DisruptionKind::Reconnect(0.3)),
            ("script:echo a@b@30s", DisruptionKind::Script("echo a@b".to_owned())),
            ("script:a:b@30s", DisruptionKind::Script("a:b".to_owned())),
            ("restart@30s", DisruptionKind::Restart),
            ("certificate@30s", DisruptionKind::Certificate),
            ("backend-down@30s", DisruptionKind::BackendDown(1)),
            ("backend-down:3@30s", DisruptionKind::BackendDown(3)),
            ("backend-up@30s", DisruptionKind::BackendUp),
            ("drain@30s", DisruptionKind::Drain(1)),
            ("drain:2@30s", DisruptionKind::Drain(2)),
            ("link-down:3s@30s", DisruptionKind::LinkDown(Nanos::from_secs(3))),
        ] {
            assert_eq!(text.parse(), Ok(Disruption { kind, at }), "{text}");
        }
        for text in [
            "",
            "reload",
            "reload@",
            "reload:1@3s",
            "freeze@3s",
            "freeze:2m@3s",
            "freeze:0s@3s",
            "reconnect:0%@3s",
            "reconnect:30@3s",
            "reconnect:101%@3s",
            "script:@3s",
            "burn@3s",
            "restart:1@3s",
            "backend-down:0@3s",
            "backend-down:x@3s",
            "backend-up:1@3s",
            "drain:-1@3s",
            "link-down@3s",
            "link-down:61s@3s",
        ] {
            assert!(text.parse::<Disruption>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_script_keeps_its_words_to_itself() {
        assert_eq!(DisruptionKind::Script("secret".to_owned()).to_string(), "script");
        let down = DisruptionKind::BackendDown(2);
        assert_eq!(down.to_string(), "backend-down of 2");
        assert_eq!(DisruptionKind::Reconnect(0.125).to_string(), "reconnect of 12.5 %");
    }
}
