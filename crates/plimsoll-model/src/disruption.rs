//! Disruptions: actions on the server, or on its connections, while a load goes on; and their effects. Flags and reports call
//! them events.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::units::{ParseError, parse_duration};

/// The longest freeze: a server that stands still for longer loses its clients to their own timers.
const FREEZE_MAX: Nanos = Nanos::from_secs(60);

/// The kind of a disruption.
#[derive(Clone, Debug, PartialEq)]
pub enum DisruptionKind {
    /// The server reloads its configuration.
    Reload,
    /// The processes of the server stand still (SIGSTOP) for this long.
    Freeze(Nanos),
    /// A share of the held connections, 0 to 1, is reset at once and opened again.
    Reconnect(f64),
    /// A command runs.
    Script(String),
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
        let refused = |expected| ParseError { text: text.trim().to_owned(), expected };
        let expected = "an event and its instant: reload@30s, freeze:2s@30s, reconnect:30%@30s or \
                        script:COMMAND@30s";
        let (what, at) = text.trim().rsplit_once('@').ok_or_else(|| refused(expected))?;
        let at = parse_duration(at).map_err(|_| refused(expected))?;
        let kind = match what.split_once(':') {
            None if what == "reload" => DisruptionKind::Reload,
            Some(("freeze", span)) => {
                let span = parse_duration(span).ok();
                let span = span.filter(|span| *span > Nanos::ZERO && *span <= FREEZE_MAX);
                DisruptionKind::Freeze(
                    span.ok_or_else(|| refused("a freeze of up to 60 s, such as freeze:2s@30s"))?,
                )
            }
            Some(("reconnect", share)) => {
                let percent = share.strip_suffix('%').and_then(|share| share.parse::<f64>().ok());
                let percent = percent.filter(|percent| *percent > 0.0 && *percent <= 100.0);
                let expected = "a share of the connections above 0, such as reconnect:30%@30s";
                DisruptionKind::Reconnect(percent.ok_or_else(|| refused(expected))? / 100.0)
            }
            Some(("script", command)) if !command.trim().is_empty() => {
                DisruptionKind::Script(command.to_owned())
            }
            _ => return Err(refused(expected)),
        };
        Ok(Self { kind, at })
    }
}

/// As reports name it; without the words of a script, which may be secret.
impl fmt::Display for DisruptionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reload => f.write_str("reload"),
            Self::Freeze(span) => write!(f, "freeze of {} s", span.as_secs_f64()),
            Self::Reconnect(share) => write!(f, "reconnect of {} %", (share * 1e4).round() / 1e2),
            Self::Script(_) => f.write_str("script"),
        }
    }
}

/// A process that a reload has replaced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OldProcess {
    /// Process id.
    pub pid: u32,
    /// Time from the reload to its end, seconds; `None` if it was there at the end of the run.
    pub ended_after_s: Option<f64>,
    /// Memory one second after the reload: proportional set size.
    pub bytes: Option<u64>,
    /// Open files at that instant.
    pub open_files: Option<u64>,
}

/// 99th percentiles of the corrected latency, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DisruptedLatency {
    /// The usual second of the 10 s before.
    pub before: Option<f64>,
    /// The worst second while it was disturbed.
    pub during: Option<f64>,
    /// The usual second after that.
    pub after: Option<f64>,
}

/// The effects of one disruption: `events[]` of the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DisruptionSummary {
    /// The action: `reload`, `freeze of 2 s`, `reconnect of 30 %`, `script`.
    pub what: String,
    /// Seconds from the first second of the load.
    pub at_s: f64,
    /// Time until the action was done: for a reconnect, until all connections were open again.
    pub took_s: f64,
    /// The failure of the action, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Connections that the server or the network closed, until the next event.
    pub lost: u64,
    /// The classes of `lost`.
    pub lost_classes: BTreeMap<String, u64>,
    /// Operations that failed, until the next event.
    pub errors: u64,
    /// The classes of `errors`.
    pub error_classes: BTreeMap<String, u64>,
    /// Latency around it.
    pub p99_ms: DisruptedLatency,
    /// Time from its beginning to the last second with losses, failures or a latency above the limit; `None` if that had not
    /// ended by the next event or the end of the load.
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
        ] {
            assert!(text.parse::<Disruption>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_script_keeps_its_words_to_itself() {
        assert_eq!(DisruptionKind::Script("secret".to_owned()).to_string(), "script");
        assert_eq!(DisruptionKind::Reconnect(0.125).to_string(), "reconnect of 12.5 %");
    }
}
