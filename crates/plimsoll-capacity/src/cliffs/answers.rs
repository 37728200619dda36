//! Good answers that waited for a timer.
//!
//! A timer delays some answers at every load, always for the same time. A queue's delay changes with the load and with
//! time: below capacity there is no queue.

use plimsoll_model::cliff::{Cliff, Confidence, KnownTimer, Owner};
use plimsoll_model::ending::{Closer, Stretch};
use plimsoll_model::{Histogram, Nanos};

use super::owner::{self, Ascription};
use super::peaks::{self, Peak};
use super::{DELAYED_ACK_FLOOR, FLOOR_MIN, Load, constants, made};
use crate::stats::weighted_quantile;

/// Three quarters of a pile were at its typical load or below.
const TYPICAL: f64 = 0.75;
/// Loads below this share of it are lower loads.
const LOWER_LOAD: f64 = 0.8;
/// Answers that a pile must lead us to expect at lower loads before their absence counts.
const EXPECTED_MIN: f64 = 10.0;
/// The share of these that has to be there.
const SEEN_MIN: f64 = 0.2;
/// Retransmitted segments for each answer of a pile, at least, for them to explain the pile: the server's own
/// retransmissions are not visible from here.
const SENT_AGAIN_MIN: f64 = 0.5;

/// Returns the piles in the good answers of `loads`, whose connections took the durations `connects` to open.
pub(super) fn find(loads: &[Load<'_>], connects: &Histogram, known: &[KnownTimer]) -> Vec<Cliff> {
    let seen = loads.iter().filter_map(|load| load.sent_again);
    let path = Path {
        round_trip: connects.quantile(0.5).unwrap_or_default(),
        sent_again: seen.reduce(|sum, again| sum + again),
    };
    let slow = Answers::of(loads, |load| &load.slow.slow);
    let all = Answers::of(loads, |load| &load.tally.spans.uncorrected);
    let mut found: Vec<Cliff> = Vec::new();
    let mut add = |answers: &Answers<'_>, peak: Peak| {
        let near = |other: &Cliff| peaks::is_same(other.at, peak.at);
        if !found.iter().any(near) {
            found.extend(answers.cliff(&peak, &path, known));
        }
    };
    for hist in [&slow.sum].into_iter().chain(loads.iter().map(|load| &load.slow.slow)) {
        for peak in peaks::peaks(hist, FLOOR_MIN, peaks::FINE) {
            add(&slow, peak);
        }
    }
    for peak in peaks::peaks(&slow.sum, FLOOR_MIN, peaks::COARSE) {
        if path.explains(peak.at, peak.count) {
            add(&slow, peak);
        }
    }
    // Also where most answers wait for it: a server that never sets TCP_NODELAY.
    for peak in peaks::peaks(&all.sum, DELAYED_ACK_FLOOR, peaks::TICK) {
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
    /// Segments that this host sent again; `None` if they were not counted.
    sent_again: Option<u64>,
}

impl Path {
    /// Reports whether `count` answers came at `at` because segments were sent again.
    fn explains(&self, at: Nanos, count: u64) -> bool {
        constants::is_retransmission(at, self.round_trip)
            && self.sent_again.is_some_and(|again| again as f64 >= SENT_AGAIN_MIN * count as f64)
    }
}

/// Durations of good answers, load by load.
struct Answers<'a> {
    loads: &'a [Load<'a>],
    durations: fn(&Load<'a>) -> &'a Histogram,
    sum: Histogram,
}

impl<'a> Answers<'a> {
    fn of(loads: &'a [Load<'a>], durations: fn(&Load<'a>) -> &'a Histogram) -> Self {
        let mut sum = Histogram::new();
        loads.iter().for_each(|load| sum.merge(durations(load)));
        Self { loads, durations, sum }
    }

    /// Returns the cliff at a peak, unless it is a queue.
    fn cliff(&self, peak: &Peak, path: &Path, known: &[KnownTimer]) -> Option<Cliff> {
        let mut found = ascribe(peak, path, known);
        let doubt = match self.alike_at_lower_loads(peak) {
            Recurrence::Yes => None,
            Recurrence::No => return None,
            // Lost segments were counted.
            Recurrence::Unknown if found.owner == Owner::Network => None,
            Recurrence::Unknown => self.doubt(),
        };
        if let Some(doubt) = doubt.filter(|_| found.confidence == Confidence::Likely) {
            found.confidence = Confidence::Possible;
            found.evidence.push_str(doubt);
        }
        Some(made(peak, Stretch::Operation, Closer::Success, found))
    }

    /// Returns a reason for which it may be a queue after all, if lower loads do not decide.
    fn doubt(&self) -> Option<&'static str> {
        if self.loads.len() > 1 {
            return Some("; no lower load shows whether it is a queue, which depends on the load");
        }
        let was_full = self.loads.iter().any(|load| load.tally.pool_exhausted > 0);
        was_full.then_some("; every connection was busy at times, and then answers wait alike, too")
    }

    /// Reports whether lower loads than most of the pile's had their share of it.
    fn alike_at_lower_loads(&self, peak: &Peak) -> Recurrence {
        let count = |load: &Load<'a>| {
            let rate = load.rate?.get();
            let answers = load.tally.spans.uncorrected.count() as f64;
            let near = peaks::near((self.durations)(load), peak.at) as f64;
            Some(Share { rate, answers, near })
        };
        let mut by_rate: Vec<Share> = self.loads.iter().filter_map(count).collect();
        by_rate.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let near = |parts: &[Share]| parts.iter().map(|part| part.near).sum::<f64>();
        let answers = |parts: &[Share]| parts.iter().map(|part| part.answers).sum::<f64>();
        let weighted = by_rate.iter().map(|part| (part.rate, part.near));
        let typical = weighted_quantile(weighted, TYPICAL * near(&by_rate));
        let Some(typical) = typical else { return Recurrence::Unknown };
        let split = by_rate.partition_point(|part| part.rate < LOWER_LOAD * typical);
        let (lower, higher) = by_rate.split_at(split);
        let expected = near(higher) * answers(lower) / answers(higher).max(1.0);
        if near(lower) >= 1.0 && near(lower) >= SEEN_MIN * expected {
            Recurrence::Yes
        } else if expected >= EXPECTED_MIN {
            Recurrence::No
        } else {
            Recurrence::Unknown
        }
    }
}

/// The part of a pile in one trial.
struct Share {
    rate: f64,
    answers: f64,
    near: f64,
}

/// The delay's recurrence at lower loads.
enum Recurrence {
    Yes,
    No,
    /// There were too few answers to decide.
    Unknown,
}

/// Finds the owner of the timer that made a peak among good answers.
fn ascribe(peak: &Peak, path: &Path, known: &[KnownTimer]) -> Ascription {
    let mut found = owner::ascribe(Stretch::Operation, Closer::Success, peak.at, known);
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
    if constants::is_retransmission(peak.at, path.round_trip) {
        found = Ascription::new(
            Owner::Backend,
            Confidence::Possible,
            "good answers: the server that makes them takes that long, or a server retransmits \
             lost segments, which this host cannot observe",
        );
    }
    Ascription { name: constants::label(peak.at, true), ..found }
}
