//! Storms: held connections that are cut at one instant and come back; policies, counts and result.
//!
//! [`Cut`] and [`Reconnect`] are the orders for the clients, parsed from flags; [`Reconnect::pause`] computes a
//! client's wait before each attempt. [`StormTrial`] is one judged storm with a [`StormSecond`] for each second since
//! the cut, and [`StormSummary`] the answer of `find storm`. Fields that end with `_s` are seconds, those with `_ms`
//! milliseconds. Start reading at [`Reconnect`] for the behaviour, at [`StormSummary`] for the result.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::confirmation::Remedied;
use crate::trial::Verdict;
use crate::units::{ParseError, parse_duration, parse_rate};

mod counts;

pub use counts::StormCounts;

named! {
    /// The way in which a connection of a storm is cut.
    #[derive(Default)]
    pub enum Cut {
        /// By RST.
        #[default]
        Rst = "rst",
        /// By FIN, after the protocol's farewell.
        Fin = "fin",
        /// By nothing: the client never uses the connection again, and the server is not notified.
        Silent = "silent",
    }
}

read_by_name!(Cut: "a way to cut connections: rst, fin or silent");

/// The longest pause between two attempts of a client.
const BACKOFF_MAX: Nanos = Nanos::from_secs(3_600);

/// The policy by which a client whose connection was cut reconnects. An attempt ends when the client's patience does,
/// or when the server refuses it; then the client tries again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reconnect {
    /// Every client at once, and again as soon as its patience has ended.
    #[default]
    Immediate,
    /// All clients together make this number of attempts per second, first and later ones.
    Rate(f64),
    /// Each client waits before each attempt: `min` before the first, doubled before each further one, up to `max`.
    Backoff {
        /// Before the first attempt; above zero.
        min: Nanos,
        /// The longest pause.
        max: Nanos,
        /// The pause is a random part of that, evenly distributed.
        jitter: bool,
    },
}

impl Reconnect {
    /// Returns the longest pause of a client between two attempts.
    pub const fn pause_max(&self) -> Nanos {
        match self {
            Self::Immediate | Self::Rate(_) => Nanos::ZERO,
            Self::Backoff { max, .. } => *max,
        }
    }

    /// Returns the policy of clients that wait a random part of `longest` before each attempt.
    pub const fn jittered(longest: Nanos) -> Self {
        Self::Backoff { min: longest, max: longest, jitter: true }
    }

    /// Returns the pause before a client's attempt; `attempt` is 0 for the first. `share`, 0 to 1, is the random part
    /// of a pause with jitter.
    pub fn pause(&self, attempt: u32, share: f64) -> Nanos {
        match *self {
            Self::Immediate | Self::Rate(_) => Nanos::ZERO,
            Self::Backoff { min, max, jitter } => {
                let doubled = min.0.saturating_mul(1 << attempt.min(40));
                let whole = doubled.min(max.0);
                Nanos(if jitter { (whole as f64 * share) as u64 } else { whole })
            }
        }
    }
}

impl FromStr for Reconnect {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refused = |expected| ParseError { text: text.to_owned(), expected };
        match text.split_once(':') {
            None if text == "immediate" => Ok(Self::Immediate),
            Some(("rate", rate)) => match parse_rate(rate) {
                Ok(rate) if rate.get() > 0.0 => Ok(Self::Rate(rate.get())),
                _ => Err(refused("a rate above 0, such as rate:500/s")),
            },
            Some(("backoff", span)) => {
                let expected =
                    "a backoff of up to 1 h, such as backoff:1s..60s or backoff:1s..60s,jitter";
                let (span, jitter) = match span.split_once(',') {
                    None => (span, false),
                    Some((span, "jitter")) => (span, true),
                    Some(_) => return Err(refused(expected)),
                };
                let (min, max) = span.split_once("..").ok_or_else(|| refused(expected))?;
                let (min, max) = (parse_duration(min), parse_duration(max));
                let (Ok(min), Ok(max)) = (min, max) else { return Err(refused(expected)) };
                match min > Nanos::ZERO && min <= max && max <= BACKOFF_MAX {
                    true => Ok(Self::Backoff { min, max, jitter }),
                    false => Err(refused(expected)),
                }
            }
            _ => Err(refused("a policy: immediate, rate:R or backoff:MIN..MAX[,jitter]")),
        }
    }
}

/// Writes the value of the flag.
impl fmt::Display for Reconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Immediate => f.write_str("immediate"),
            Self::Rate(per_s) => write!(f, "rate:{per_s}/s"),
            Self::Backoff { min, max, jitter } => {
                let jitter = if *jitter { ",jitter" } else { "" };
                write!(f, "backoff:{}..{}{jitter}", spelled(*min), spelled(*max))
            }
        }
    }
}

/// Returns a duration as a flag spells it: whole seconds, or milliseconds.
fn spelled(span: Nanos) -> String {
    match span.0 % 1_000_000_000 {
        0 => format!("{}s", span.0 / 1_000_000_000),
        _ => format!("{}ms", span.as_millis_f64()),
    }
}

/// The conduct of the clients in every storm of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StormClients {
    /// The way in which their connections are cut.
    pub cut: Cut,
    /// The way in which they come back.
    pub reconnect: Reconnect,
}

/// One second of a storm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct StormSecond {
    pub back: u64,
    pub attempts: u64,
    pub retries: u64,
    pub gave_up: u64,
    pub refused: u64,
    /// TLS handshakes, full and resumed.
    pub handshakes: u64,
    /// Handshakes that resumed a session.
    pub resumed: u64,
    /// Latency of the connections that were not cut.
    pub p99_ms: Option<f64>,
    /// Connections that wait to be accepted on the server's host, the most of the second's readings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_queue: Option<u64>,
    /// CPU seconds per second of the server's processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_cpu: Option<f64>,
}

/// A storm that does not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Endless {
    /// Retries per second of the last seconds.
    pub retries_per_s: f64,
    /// Clients that were still not back.
    pub missing: u64,
    /// Time after the cut until it was ended, seconds.
    pub watched_s: f64,
}

/// The number of clients below which a storm ends that would not end by itself: once it has begun, the retries of fewer
/// clients than began it keep it going.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndsBelow {
    /// Connections cut.
    pub cut: u64,
    /// The most clients still trying with which it ended; `None` if it did not.
    pub ended_with: Option<u64>,
    /// The fewest with which it went on.
    pub lasted_with: u64,
    /// Time for which each number was watched, seconds.
    pub watched_s: f64,
}

/// The random wait of each client before an attempt that makes a storm safe: all are back within the time for recovery
/// after the longest wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Jitter {
    /// Connections cut.
    pub cut: u64,
    /// The longest wait, seconds, of the shortest jitter with which the storm was survived; `None` if it never was.
    pub enough_s: Option<f64>,
    /// The longest wait, seconds, of the longest jitter with which it was not; `None` if it always was.
    pub missed_s: Option<f64>,
    /// Storms that were survived with the former.
    pub survived: u32,
}

/// One storm of a search, as it was judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see StormSecond")]
pub struct StormTrial {
    /// Number of its trial.
    pub trial: u32,
    pub cut: u64,
    pub verdict: Verdict,
    /// Time until the last client was back; `None` if not all came back.
    pub recovered_s: Option<f64>,
    pub missing: u64,
    pub attempts: u64,
    pub retries: u64,
    pub gave_up: u64,
    /// Attempts given up after the client had sent bytes: handshakes that the server may have made in vain.
    pub wasted_max: u64,
    /// TLS handshakes that the server began and could not end, by its own count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wasted: Option<u64>,
    pub refused: u64,
    /// Connections that were not cut, and that the server or the network closed.
    pub lost: u64,
    pub resumed_share: Option<f64>,
    /// Latency of the connections that were not cut.
    pub p99_ms: Option<f64>,
    /// Memory of the server before it.
    pub sut_bytes: Option<u64>,
    /// The longest random wait of a client before an attempt, if the storm tried jitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endless: Option<Endless>,
    /// From the second of the cut.
    pub seconds: Vec<StormSecond>,
}

/// The answer of `find storm` beside its interval: `storm` of the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see StormSecond")]
pub struct StormSummary {
    pub connections: u64,
    /// Connections open at the base line.
    pub held: u64,
    pub heartbeat_s: f64,
    pub cut: Cut,
    pub reconnect: String,
    pub patience_s: f64,
    pub recover_s: f64,
    /// Latency at the base line.
    pub base_p99_ms: Option<f64>,
    /// The smallest storm that did not end by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endless_from: Option<u64>,
    /// Numbers of clients with which such a storm continues and with which it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends_below: Option<EndsBelow>,
    /// The jitter that makes the largest storm safe, if that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Jitter>,
    /// Other changes with which the search was made again, if that was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remedies: Vec<Remedied>,
    pub storms: Vec<StormTrial>,
}

impl StormSummary {
    /// Returns the smallest storm that did not end by itself.
    pub fn endless(&self) -> Option<(&StormTrial, Endless)> {
        let judged = self.as_asked().filter(|storm| storm.verdict != Verdict::Invalid);
        let each = judged.filter_map(|storm| Some((storm, storm.endless?)));
        each.min_by_key(|(storm, _)| storm.cut)
    }

    /// Returns the storms whose clients came back by the given policy, without jitter that the search added.
    pub fn as_asked(&self) -> impl Iterator<Item = &StormTrial> {
        self.storms.iter().filter(|storm| storm.jitter_s.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_parsed_and_written() {
        for text in ["immediate", "rate:500/s", "backoff:1s..60s", "backoff:250ms..5s,jitter"] {
            let policy: Reconnect = text.parse().expect(text);
            assert_eq!(policy.to_string().parse(), Ok(policy), "{text}");
        }
        for text in [
            "",
            "now",
            "rate",
            "rate:0",
            "rate:-1",
            "backoff",
            "backoff:1s",
            "backoff:0s..1s",
            "backoff:2s..1s",
            "backoff:1s..2h",
            "backoff:1s..2s,noise",
        ] {
            assert!(text.parse::<Reconnect>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_backoff_doubles_up_to_its_longest_pause() {
        let policy: Reconnect = "backoff:1s..5s".parse().expect("a policy");
        let pauses = [0, 1, 2, 3, 63].map(|attempt| policy.pause(attempt, 0.5).0 / 1_000_000_000);
        assert_eq!(pauses, [1, 2, 4, 5, 5]);
        let jittered: Reconnect = "backoff:1s..5s,jitter".parse().expect("a policy");
        assert_eq!(jittered.pause(1, 0.25), Nanos::from_millis(500));
    }
}
