//! Good answers that waited for a timer.
//!
//! A timer holds up some answers at every load, always for the same time. A queue's delay moves with
//! the load and with time: below capacity nobody waits in it.

use plimsoll_model::cliff::{Cliff, Confidence, KnownTimer, Owner};
use plimsoll_model::ending::{Closer, SeriesKey, Stretch};
use plimsoll_model::{Histogram, Nanos};

use super::owner::{self, Ascription};
use super::peaks::{self, Peak, Timer};
use super::{DELAYED_ACK_FLOOR, FLOOR_MIN, Load, constants};

/// Three quarters of a pile were at its typical load or below.
const TYPICAL: f64 = 0.75;
/// Loads below this share of it are lower loads.
const LOWER_LOAD: f64 = 0.8;
/// Answers that a pile must lead us to expect at lower loads before their absence counts.
const EXPECTED_MIN: f64 = 10.0;
/// The share of these that has to be there.
const SEEN_MIN: f64 = 0.2;
/// Segments sent again for each answer of a pile, at least, for it to be their doing: the server's
/// are not seen from here.
const SENT_AGAIN_MIN: f64 = 0.5;

/// The piles in the good answers of `loads`.
pub(super) fn find(loads: &[Load<'_>], known: &[KnownTimer]) -> Vec<Cliff> {
    let path = Path::of(loads);
    let slow = Answers::slow(loads);
    let all = Answers::all(loads);
    let mut found: Vec<Cliff> = Vec::new();
    let mut add = |answers: &Answers<'_>, peak: Peak| {
        let near = |other: &Cliff| peaks::is_same(other.at, peak.at);
        if !found.iter().any(near) {
            found.extend(answers.cliff(&peak, &path, known));
        }
    };
    for hist in [&slow.sum].into_iter().chain(slow.parts.iter().map(|part| part.durations)) {
        for peak in peaks::peaks(hist, FLOOR_MIN, Timer::Fine) {
            add(&slow, peak);
        }
    }
    for peak in peaks::peaks(&slow.sum, FLOOR_MIN, Timer::Coarse) {
        if path.explains(peak.at, peak.count) {
            add(&slow, peak);
        }
    }
    // Also where most answers wait for it: a server that never sets TCP_NODELAY.
    for peak in peaks::peaks(&all.sum, DELAYED_ACK_FLOOR, Timer::Tick) {
        if constants::is_delayed_ack(peak.at) {
            add(&all, peak);
        }
    }
    found
}

/// Events of TCP between the two ends.
struct Path {
    /// The median time that connecting took.
    round_trip: Nanos,
    /// Segments that this host sent again; `None` where that was not seen.
    sent_again: Option<u64>,
}

impl Path {
    fn of(loads: &[Load<'_>]) -> Self {
        let mut connects = Histogram::new();
        loads.iter().for_each(|load| connects.merge(&load.tally.spans.connect));
        let seen: Vec<u64> = loads.iter().filter_map(|load| load.sent_again).collect();
        Self {
            round_trip: connects.quantile(0.5).unwrap_or_default(),
            sent_again: (!seen.is_empty()).then(|| seen.iter().sum()),
        }
    }

    /// Reports whether `count` answers came at `at` because segments were sent again.
    fn explains(&self, at: Nanos, count: u64) -> bool {
        constants::is_retransmission(at, self.round_trip)
            && self.sent_again.is_some_and(|again| again as f64 >= SENT_AGAIN_MIN * count as f64)
    }
}

/// Durations of good answers, load by load.
struct Answers<'a> {
    sum: Histogram,
    parts: Vec<Part<'a>>,
}

struct Part<'a> {
    rate: Option<f64>,
    answers: u64,
    durations: &'a Histogram,
    pool_was_full: bool,
}

impl<'a> Answers<'a> {
    fn slow(loads: &[Load<'a>]) -> Self {
        Self::of(loads, |load| load.slow.durations())
    }

    fn all(loads: &[Load<'a>]) -> Self {
        Self::of(loads, |load| &load.tally.spans.uncorrected)
    }

    fn of(loads: &[Load<'a>], durations: impl Fn(&Load<'a>) -> &'a Histogram) -> Self {
        let part = |load: &Load<'a>| Part {
            rate: load.rate.map(|rate| rate.get()),
            answers: load.tally.spans.uncorrected.count(),
            durations: durations(load),
            pool_was_full: load.tally.pool_exhausted > 0,
        };
        let parts: Vec<_> = loads.iter().map(part).collect();
        let mut sum = Histogram::new();
        parts.iter().for_each(|part| sum.merge(part.durations));
        Self { sum, parts }
    }

    /// The cliff at a peak, unless it is a queue.
    fn cliff(&self, peak: &Peak, path: &Path, known: &[KnownTimer]) -> Option<Cliff> {
        let found = ascribe(peak, path, known);
        let doubt = match self.alike_at_lower_loads(peak) {
            Recurs::Yes => None,
            Recurs::No => return None,
            // Lost segments were counted.
            Recurs::Unknown if found.owner == Owner::Network => None,
            Recurs::Unknown => self.doubt(),
        };
        let (label, owner) = (found.name, found.owner);
        let mut cliff = Cliff {
            at: peak.at,
            count: peak.count,
            share: peak.share,
            stretch: Stretch::Operation,
            closer: Closer::Success,
            label,
            owner,
            confidence: found.confidence,
            evidence: found.evidence,
        };
        if let Some(doubt) = doubt.filter(|_| cliff.confidence == Confidence::Likely) {
            cliff.confidence = Confidence::Possible;
            cliff.evidence.push_str(doubt);
        }
        Some(cliff)
    }

    /// Why it may be a queue after all, where lower loads do not say.
    fn doubt(&self) -> Option<&'static str> {
        if self.parts.len() > 1 {
            return Some("; no lower load shows whether it is a queue, which depends on the load");
        }
        let was_full = self.parts.iter().any(|part| part.pool_was_full);
        was_full.then_some("; every connection was busy at times, and then answers wait alike, too")
    }

    /// Reports whether lower loads than most of the pile's had their share of it.
    fn alike_at_lower_loads(&self, peak: &Peak) -> Recurs {
        let count = |part: &Part<'_>| {
            let rate = part.rate?;
            let near = peaks::near(part.durations, peak.at) as f64;
            Some(Share { rate, answers: part.answers as f64, near })
        };
        let mut by_rate: Vec<Share> = self.parts.iter().filter_map(count).collect();
        by_rate.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let all = Share::sum(&by_rate).near;
        let mut below = 0.0;
        let is_typical = |part: &&Share| {
            below += part.near;
            below >= TYPICAL * all
        };
        let Some(typical) = by_rate.iter().find(is_typical) else { return Recurs::Unknown };
        let split = by_rate.partition_point(|part| part.rate < LOWER_LOAD * typical.rate);
        let (lower, higher) = (Share::sum(&by_rate[..split]), Share::sum(&by_rate[split..]));
        let expected = higher.near * lower.answers / higher.answers.max(1.0);
        if lower.near >= 1.0 && lower.near >= SEEN_MIN * expected {
            Recurs::Yes
        } else if expected >= EXPECTED_MIN {
            Recurs::No
        } else {
            Recurs::Unknown
        }
    }
}

/// The part of a pile in some trials.
#[derive(Clone, Copy)]
struct Share {
    rate: f64,
    answers: f64,
    near: f64,
}

impl Share {
    fn sum(parts: &[Self]) -> Self {
        let sum = |of: &dyn Fn(&Self) -> f64| parts.iter().map(of).sum();
        Self { rate: 0.0, answers: sum(&|part| part.answers), near: sum(&|part| part.near) }
    }
}

/// Whether lower loads had the same delay.
enum Recurs {
    Yes,
    No,
    /// There were too few answers to tell.
    Unknown,
}

/// Finds the owner of the timer that made a peak among good answers.
fn ascribe(peak: &Peak, path: &Path, known: &[KnownTimer]) -> Ascription {
    let key = SeriesKey { stretch: Stretch::Operation, closer: Closer::Success };
    let found = owner::ascribe(key.stretch, key.closer, peak.at, known);
    if found.name.is_some() {
        return found;
    }
    let named = |owner, confidence, evidence: String, name: &str| Ascription {
        name: Some(name.to_owned()),
        ..Ascription::new(owner, confidence, evidence)
    };
    if path.explains(peak.at, peak.count) {
        let again = path.sent_again.unwrap_or(0);
        return named(
            Owner::Network,
            Confidence::Likely,
            format!("this host sent {again} segments again: packets were lost on the way"),
            "TCP retransmission",
        );
    }
    if constants::is_delayed_ack(peak.at) {
        return named(
            Owner::Sut,
            Confidence::Possible,
            "an answer in two writes waits for the ACK of the first, unless the server (or what is \
             behind it) sets TCP_NODELAY"
                .to_owned(),
            constants::DELAYED_ACK,
        );
    }
    let name = constants::label(peak.at, true);
    if constants::is_retransmission(peak.at, path.round_trip) {
        return Ascription {
            name,
            ..Ascription::new(
                Owner::Backend,
                Confidence::Possible,
                "good answers: whoever makes them takes that long, or a server sends lost segments \
                 again, which is not seen from here",
            )
        };
    }
    Ascription { name, ..found }
}
