//! Hidden timers: those found in a load, those that a probe observed, and those known beforehand.
//!
//! A [`Cliff`] is a pile of durations at one value in a load. A [`ProbedTimer`] is a row of the timeout probe, whose
//! connections stop at a chosen point ([`ProbeKind`]) and wait for the peer to act. Both are labelled with the
//! nearest [`KnownTimer`] and given an [`Owner`]; `plimsoll-capacity` decides which. A [`Horizon`] states the longest
//! timers that a run could observe. Start reading at [`Cliff`].

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::ending::{Closer, Stretch};

named! {
    /// The owner of a timer.
    #[derive(PartialOrd, Ord)]
    pub enum Owner {
        /// plimsoll, or the kernel it runs on.
        Client = "client",
        /// The server that plimsoll connects to.
        Sut = "sut",
        /// A server behind the SUT that makes the answers.
        Backend = "backend",
        /// The path between plimsoll and the SUT: packets were lost there and sent again.
        Network = "network",
        /// The evidence does not show it.
        Unknown = "unknown",
    }
}

/// The strength of the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Something else may have done it.
    Possible,
    /// No other common cause has this effect.
    Likely,
    /// The timer is our own, or its value was known beforehand.
    Certain,
}

/// The event that a timer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Awaits {
    /// A connection to be established, TLS included.
    Opening,
    /// The rest of a request.
    Request,
    /// An answer.
    Answer,
    /// The next request on a kept connection.
    NextRequest,
}

/// A timer that is known beforehand: our own, or one of a server that we configured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownTimer {
    /// The name in its owner's flags or configuration: `--linger`, `HAProxy timeout server`.
    pub name: String,
    /// The timer's value.
    pub at: Nanos,
    /// The timer's owner.
    pub owner: Owner,
    /// The event that it waits for.
    pub awaits: Awaits,
}

/// Many durations at one value: a timer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cliff {
    /// The value.
    #[serde(rename = "at_ms", with = "crate::time::ms")]
    pub at: Nanos,
    /// Durations in the pile.
    pub count: u64,
    /// Share of the pile in the slow durations of its kind, 0 to 1.
    pub share: f64,
    /// The stretch that was measured.
    pub stretch: Stretch,
    /// The end that closed it.
    pub closer: Closer,
    /// The nearest well-known constant, or the name of the known timer.
    pub label: Option<String>,
    /// The timer's owner.
    pub owner: Owner,
    /// The strength of the evidence.
    pub confidence: Confidence,
    /// Why that owner, as a sentence without its end.
    pub evidence: String,
}

named! {
    /// The action of a connection of the timeout probe before it waits.
    #[derive(PartialOrd, Ord)]
    pub enum ProbeKind {
        /// Connects and sends nothing.
        Connected = "connected",
        /// Completes the TLS handshake and sends nothing.
        TlsDone = "tls-done",
        /// Sends half of a request's head.
        HalfHead = "half-head",
        /// Sends a request's head and half of its body.
        HalfBody = "half-body",
        /// Sends a request, reads the answer, and sends nothing more.
        Answered = "answered",
        /// Sends a request whose answer comes after the probe's wait.
        SlowAnswer = "slow-answer",
    }
}

impl ProbeKind {
    /// Describes the connection's action.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Connected => "connected, nothing sent",
            Self::TlsDone => "TLS done, nothing sent",
            Self::HalfHead => "half a request head",
            Self::HalfBody => "half a request body",
            Self::Answered => "idle after an answer",
            Self::SlowAnswer => "a slow answer awaited",
        }
    }
}

/// The origin of an answer, as far as its header names show it. Proxies and applications put different
/// headers into their answers, whatever the values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hand(pub Vec<String>);

/// The end of one connection of the timeout probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeEnd {
    /// The connection's action before it waited.
    pub kind: ProbeKind,
    /// Length of the wait.
    pub after: Nanos,
    /// The end that ended the wait; [`Closer::Us`] when the probe's time was over first, and
    /// [`Closer::Success`] when the answer came that is not a timer's doing.
    pub closer: Closer,
    /// The author of the last answer, if there was one.
    pub hand: Option<Hand>,
    /// The author of the good answer before the wait; only of [`ProbeKind::Answered`].
    pub good_hand: Option<Hand>,
}

/// A row of the timeout probe's table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbedTimer {
    /// The connections' action.
    pub kind: ProbeKind,
    /// Connections that did so.
    pub connections: u32,
    /// Median wait until they were closed or answered; `None` when nothing
    /// ended them while the probe lasted.
    pub after_ms: Option<f64>,
    /// The end that ended the wait; [`Closer::Us`] when nothing else did while the probe lasted.
    pub closer: Closer,
    /// The nearest well-known constant, or the name of the known timer.
    pub label: Option<String>,
    /// The timer's owner.
    pub owner: Owner,
    /// Why.
    pub evidence: String,
}

/// The longest timers that a run could have observed; a longer one would have left no trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Horizon {
    /// In an answer: as long as an operation is waited for.
    pub answer_ms: f64,
    /// In a connection that rests or is held: as long as the load lasted.
    pub connection_ms: f64,
    /// In the connections of the timeout probe; `None` when it did not run.
    pub probe_ms: Option<f64>,
}
