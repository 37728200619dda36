//! The owner of a timer: derived from the way in which a stretch ended, unless a known timer explains it.
//!
//! [`ascribe`] derives an owner and a confidence from the stretch and its closer ([`reason`]). A known timer that
//! waits for the same event and differs by at most 2 % replaces that owner ([`with_known`]): `Certain` if all such
//! timers have one owner, `Likely` otherwise. A stretch that plimsoll's own timer ended always belongs to the client.
//! Start reading at [`ascribe`].

use plimsoll_model::Nanos;
use plimsoll_model::cliff::{Awaits, Confidence, KnownTimer, Owner};
use plimsoll_model::ending::{Closer, Stretch};

/// A known timer explains values this near to its own; it fires late, never early, but a found
/// value has the spread of a pile.
const KNOWN_NEAR: f64 = 0.02;

/// An owner, its confidence, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ascription {
    pub(crate) owner: Owner,
    pub(crate) confidence: Confidence,
    pub(crate) evidence: String,
    /// The known timer's name, if one explains it.
    pub(crate) name: Option<String>,
}

impl Ascription {
    pub(crate) fn new(owner: Owner, confidence: Confidence, evidence: impl Into<String>) -> Self {
        Self { owner, confidence, evidence: evidence.into(), name: None }
    }
}

/// Finds the owner of the timer that ended a stretch after `at`.
pub(crate) fn ascribe(
    stretch: Stretch,
    closer: Closer,
    at: Nanos,
    known: &[KnownTimer],
) -> Ascription {
    let reasoned = reason(stretch, closer);
    let awaits = awaits(stretch, closer);
    if closer == Closer::OwnTimer {
        let ours = |timer: &&KnownTimer| timer.owner == Owner::Client && awaits == [timer.awaits];
        let name = known.iter().find(ours).map(|timer| timer.name.clone());
        return Ascription { name, ..reasoned };
    }
    with_known(reasoned, at, known, awaits)
}

/// Returns the known timer that explains `at`, or `reasoned` as it is.
pub(crate) fn with_known(
    reasoned: Ascription,
    at: Nanos,
    known: &[KnownTimer],
    awaits: &[Awaits],
) -> Ascription {
    let off = |timer: &KnownTimer| (at.0 as f64 / timer.at.0.max(1) as f64).ln().abs();
    let explains = |timer: &&KnownTimer| {
        timer.owner != Owner::Client && awaits.contains(&timer.awaits) && off(timer) <= KNOWN_NEAR
    };
    let candidates: Vec<_> = known.iter().filter(explains).collect();
    let nearest = |of: &dyn Fn(&KnownTimer) -> bool| {
        let fit = candidates.iter().filter(|timer| of(timer));
        fit.min_by(|a, b| off(a).total_cmp(&off(b))).copied()
    };
    // If several have the same value, how it ended decides between them.
    let agreeing = nearest(&|timer| timer.owner == reasoned.owner);
    let Some(timer) = agreeing.or_else(|| nearest(&|_| true)) else { return reasoned };
    let is_only = candidates.iter().all(|other| other.owner == timer.owner);
    Ascription {
        owner: timer.owner,
        confidence: if is_only { Confidence::Certain } else { Confidence::Likely },
        evidence: format!("{} is set to {}", timer.name, timer.at),
        name: Some(timer.name.clone()),
    }
}

/// Returns the events that a timer which ended such a stretch can have waited for.
const fn awaits(stretch: Stretch, closer: Closer) -> &'static [Awaits] {
    match (stretch, closer) {
        (Stretch::Opening, _) => &[Awaits::Opening],
        (Stretch::Operation, Closer::Status(408)) => &[Awaits::Request],
        (Stretch::Operation, _) => &[Awaits::Answer],
        (Stretch::Lifetime | Stretch::Idle, _) => &[Awaits::NextRequest, Awaits::Request],
    }
}

/// Finds the owner by the way in which a stretch ended, with nothing known beforehand.
fn reason(stretch: Stretch, closer: Closer) -> Ascription {
    use Confidence::{Certain, Likely, Possible};
    let say = Ascription::new;
    match (stretch, closer) {
        (_, Closer::OwnTimer) => say(Owner::Client, Certain, "plimsoll itself stopped waiting"),
        (_, Closer::Us) => say(Owner::Client, Certain, "plimsoll itself closed"),
        (_, Closer::Kernel) => say(
            Owner::Client,
            Certain,
            "this host's kernel stopped asking for a connection: nothing answered",
        ),
        (Stretch::Opening, Closer::Success) => say(
            Owner::Client,
            Likely,
            "the connection came, but late: this host's kernel sent its SYN again, because the \
             first was dropped (a full accept queue does that)",
        ),
        (_, Closer::Success) => say(
            Owner::Backend,
            Likely,
            "good answers: a proxy's timer would have ended in an error, so the server that makes \
             the answers takes that long",
        ),
        (_, Closer::Status(408)) => {
            say(Owner::Sut, Likely, "408: the server stopped waiting for the request")
        }
        (_, Closer::Status(429)) => say(Owner::Sut, Possible, "429: a limit of the server"),
        (_, Closer::Status(502)) => {
            say(Owner::Backend, Likely, "502: what is behind the proxy closed first")
        }
        (_, Closer::Status(503)) => say(
            Owner::Sut,
            Likely,
            "503 after a fixed time: the proxy stopped waiting for a place or a connection behind \
             it",
        ),
        (_, Closer::Status(504 | 522 | 524)) => {
            say(Owner::Sut, Likely, "a gateway timeout: the proxy stopped waiting for its backend")
        }
        (_, Closer::Status(_)) => {
            say(Owner::Backend, Possible, "an error after a fixed time: the application gave up")
        }
        (Stretch::Idle, _) => say(
            Owner::Sut,
            Likely,
            "closed by the server while nothing was asked: its idle timeout (in HAProxy timeout \
                 http-keep-alive, http-request or client, in nginx keepalive_timeout)",
        ),
        (Stretch::Lifetime, _) => say(Owner::Sut, Possible, "closed by the server at a fixed age"),
        (Stretch::Opening, _) => {
            say(Owner::Sut, Likely, "ended by the server before the connection was usable")
        }
        (Stretch::Operation, _) => say(
            Owner::Sut,
            Likely,
            "closed by the server, without an answer; a proxy would have answered 502 or 504 for \
             a backend",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str, ms: u64, owner: Owner, awaits: Awaits) -> KnownTimer {
        KnownTimer { name: name.to_owned(), at: Nanos::from_millis(ms), owner, awaits }
    }

    #[test]
    fn the_way_it_ended_names_the_owner() {
        use Stretch::{Idle, Operation};
        for (stretch, closer, owner) in [
            (Operation, Closer::OwnTimer, Owner::Client),
            (Stretch::Opening, Closer::Kernel, Owner::Client),
            (Operation, Closer::Status(408), Owner::Sut),
            (Operation, Closer::Status(504), Owner::Sut),
            (Operation, Closer::Status(502), Owner::Backend),
            (Operation, Closer::Success, Owner::Backend),
            (Operation, Closer::PeerReset, Owner::Sut),
            (Idle, Closer::PeerFin, Owner::Sut),
        ] {
            let found = ascribe(stretch, closer, Nanos::from_secs(30), &[]);
            assert_eq!(found.owner, owner, "{stretch:?} {closer:?}");
            assert_eq!(found.name, None);
        }
    }

    #[test]
    fn a_known_timer_explains_what_is_near_and_waits_for_the_same() {
        let known = [
            known("--linger", 30_000, Owner::Client, Awaits::Answer),
            known("timeout server", 3_000, Owner::Sut, Awaits::Answer),
            known("timeout http-keep-alive", 3_000, Owner::Sut, Awaits::NextRequest),
            known("sleep-fixed", 3_010, Owner::Backend, Awaits::Answer),
        ];
        let name = |stretch, closer, ms| {
            ascribe(stretch, closer, Nanos::from_millis(ms), &known).name.unwrap_or_default()
        };
        let operation = Stretch::Operation;
        // Two of one value: an error is the proxy's, a good answer is not.
        assert_eq!(name(operation, Closer::Status(504), 3_008), "timeout server");
        assert_eq!(name(operation, Closer::Success, 3_005), "sleep-fixed");
        assert_eq!(name(Stretch::Idle, Closer::PeerFin, 3_001), "timeout http-keep-alive");
        // Ours ends only what we ended, whatever the value.
        assert_eq!(name(operation, Closer::Status(504), 30_000), "");
        assert_eq!(name(operation, Closer::OwnTimer, 30_004), "--linger");
        assert_eq!(name(operation, Closer::Status(504), 3_200), "");
    }
}
