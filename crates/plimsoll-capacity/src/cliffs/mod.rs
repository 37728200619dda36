//! Hidden timers: piles of durations at one value, the owner of each timer, and the longest timer that a run could have
//! observed.
//!
//! Pure: histograms in, findings out. Thresholds come from the measurement methodology, and simulation checks them
//! (`tests/sim_cliffs.rs`).

use plimsoll_model::cliff::{Awaits, Cliff, Confidence, Horizon, KnownTimer, Owner};
use plimsoll_model::ending::{Closer, Endings, Series, SeriesKey, Stretch};
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::tally::Tally;
use plimsoll_model::{Histogram, Nanos, Rate};

mod answers;
mod constants;
mod owner;
mod peaks;
mod probed;
mod slow;

use constants::SAME;
pub(crate) use constants::retransmitted;
use owner::Ascription;
use peaks::Peak;

pub use probed::rows as probed_timers;
pub use slow::SlowAnswers;

/// Below this, schedulers and queues make many piles: only a delayed ACK is looked for there.
const FLOOR_MIN: Nanos = Nanos::from_millis(100);
/// A delayed ACK comes after 40 ms.
const DELAYED_ACK_FLOOR: Nanos = Nanos::from_millis(30);
/// A success is slow above this multiple of the median.
const FLOOR_MEDIANS: u64 = 3;
/// The instants of one event lie this many times closer together than the ages that it ended. A
/// timer scatters both by the same few milliseconds.
const EVENT_CLOSER: u64 = 3;
/// Histograms hold nothing longer.
const HORIZON_MAX: Nanos = Nanos::from_secs(3_590);

/// A load in which timers are looked for.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// All of it.
    pub tally: &'a Tally,
    /// Slow answers of the load.
    pub slow: &'a SlowAnswers,
    /// Offered load, if that was one rate.
    pub rate: Option<Rate>,
    /// Segments that this host sent again meanwhile, if they were counted.
    pub sent_again: Option<u64>,
}

/// Returns every timer that `loads` show: one load, or the trials of a search together. The timer that ended most
/// operations comes first. `known` are our own timers ([`own_timers`]) and the timers of servers that we configured.
pub fn find(loads: &[Load<'_>], known: &[KnownTimer]) -> Vec<Cliff> {
    let (mut connects, mut endings) = (Histogram::new(), Endings::default());
    for load in loads {
        connects.merge(&load.tally.spans.connect);
        endings.merge(&load.tally.endings);
    }
    let mut cliffs = answers::find(loads, &connects, known);
    cliffs.extend(retransmissions(&connects));
    // A refusal takes a round trip, as connecting does, and has no wait.
    let floor = slow(&connects);
    for (key, series) in endings.iter() {
        if is_request_limit(key, series) {
            continue;
        }
        let mut found = piles(&series.durations, key, floor, known);
        found.iter_mut().for_each(|cliff| doubt_single_event(cliff, series));
        cliffs.extend(found);
    }
    cliffs.extend(other_ways(&cliffs, &endings, known));
    drop_echoes(&mut cliffs);
    cliffs.sort_by_key(|cliff| std::cmp::Reverse(cliff.count));
    cliffs
}

/// Returns the duration from which on one is slow among those that are mostly no timer's.
fn slow(hist: &Histogram) -> Nanos {
    let typical = hist.quantile(0.5).unwrap_or_default();
    Nanos(typical.0.saturating_mul(FLOOR_MEDIANS)).max(FLOOR_MIN)
}

fn piles(hist: &Histogram, key: SeriesKey, floor: Nanos, known: &[KnownTimer]) -> Vec<Cliff> {
    let SeriesKey { stretch, closer } = key;
    let of_peak = |peak: Peak| {
        let found = owner::ascribe(stretch, closer, peak.at, known);
        let usual = || constants::label(peak.at, stretch == Stretch::Opening);
        let name = found.name.or_else(usual);
        made(&peak, stretch, closer, Ascription { name, ..found })
    };
    peaks::peaks(hist, floor, peaks::FINE).into_iter().map(of_peak).collect()
}

/// Makes the cliff of a peak whose owner is found.
fn made(peak: &Peak, stretch: Stretch, closer: Closer, found: Ascription) -> Cliff {
    let Peak { at, count, share } = *peak;
    let Ascription { name: label, owner, confidence, evidence } = found;
    Cliff { at, count, share, stretch, closer, label, owner, confidence, evidence }
}

/// Connections that came when the kernel had asked again: also when most of them did.
fn retransmissions(connects: &Histogram) -> Vec<Cliff> {
    let (stretch, closer) = (Stretch::Opening, Closer::Success);
    let of_peak = |peak: Peak| {
        let name = Some(constants::connecting_label(peak.at)?);
        let found = owner::ascribe(stretch, closer, peak.at, &[]);
        Some(made(&peak, stretch, closer, Ascription { name, ..found }))
    };
    peaks::peaks(connects, FLOOR_MIN, peaks::COARSE).into_iter().filter_map(of_peak).collect()
}

/// A server that closes after a number of requests does so at a fixed age when requests come evenly.
fn is_request_limit(key: SeriesKey, series: &Series) -> bool {
    key.stretch == Stretch::Lifetime && series.ops_min == series.ops_max && series.ops_min > 0
}

/// One event, such as a restart, ends connections at one instant, whatever their ages. A timer ends
/// them at one age, whenever that is. The closer agreement decides.
fn doubt_single_event(cliff: &mut Cliff, series: &Series) {
    let is_connection = matches!(cliff.stretch, Stretch::Lifetime | Stretch::Idle);
    let over = series.last.since(series.first);
    let ages = series.durations.quantile(1.0).zip(series.durations.min());
    let ages_over = ages.map_or(Nanos::ZERO, |(oldest, youngest)| oldest.since(youngest));
    if is_connection
        && (over.0 as f64) < SAME * cliff.at.0 as f64
        && over.0.saturating_mul(EVENT_CLOSER) < ages_over.0
        && cliff.confidence < Confidence::Certain
    {
        cliff.confidence = Confidence::Possible;
        cliff.evidence.push_str(&format!(
            "; all within {over} at ages {ages_over} apart, so one event such as a restart may have \
             ended them"
        ));
    }
}

/// Idle connections that were ended in another way after the same time as a pile, and are too few for a pile: HAProxy
/// answers 408 before the first request, and closes behind an answer.
fn other_ways(cliffs: &[Cliff], endings: &Endings, known: &[KnownTimer]) -> Vec<Cliff> {
    let piles = || cliffs.iter().filter(|cliff| cliff.stretch == Stretch::Idle);
    let is_few = |(key, _): &(SeriesKey, &Series)| {
        key.stretch == Stretch::Idle
            && key.closer.is_peer()
            && piles().all(|pile| pile.closer != key.closer)
    };
    let joined = endings.iter().filter(is_few).filter_map(|(key, series)| {
        let (least, most) = series.durations.min().zip(series.durations.max())?;
        let is_all = |pile: &&Cliff| {
            pile.closer.is_peer()
                && pile.confidence > Confidence::Possible
                && peaks::is_same(least, pile.at)
                && peaks::is_same(most, pile.at)
        };
        let pile = piles().find(is_all)?;
        let found = owner::ascribe(key.stretch, key.closer, most, known);
        Some(Cliff {
            count: series.durations.count(),
            share: 1.0,
            closer: key.closer,
            label: found.name.or_else(|| pile.label.clone()),
            ..pile.clone()
        })
    });
    joined.collect()
}

/// A connection's age at its end repeats what ended its last operation or its rest.
fn drop_echoes(cliffs: &mut Vec<Cliff>) {
    let firsts: Vec<Cliff> =
        cliffs.iter().filter(|cliff| cliff.stretch != Stretch::Lifetime).cloned().collect();
    cliffs.retain(|cliff| {
        cliff.stretch != Stretch::Lifetime
            || !firsts.iter().any(|first| peaks::is_same(first.at, cliff.at))
    });
}

/// Returns the timers of plimsoll itself in a load, and the one that it asks a broker of MQTT for.
pub fn own_timers(plan: &LoadPlan) -> Vec<KnownTimer> {
    let patience = match plan.timeouts.deadline {
        None => "--linger",
        Some(_) if plan.timeouts.linger == Nanos::ZERO => "--deadline",
        Some(_) => "--deadline and --linger",
    };
    let own = |name: &str, at, awaits| KnownTimer {
        name: format!("plimsoll's own {name}"),
        at,
        owner: Owner::Client,
        awaits,
    };
    let mut timers = vec![
        own(patience, patience_of(plan), Awaits::Answer),
        own("--connect-timeout", plan.timeouts.connect, Awaits::Opening),
    ];
    let asked_s = plan.mqtt.as_ref().map_or(0, |mqtt| u64::from(mqtt.keep_alive_s));
    if asked_s > 0 {
        timers.push(KnownTimer {
            name: "one and a half times --keep-alive".to_owned(),
            // As long as a broker waits (MQTT 5.0, 3.1.2.10).
            at: Nanos::from_millis(asked_s * 1_500),
            owner: Owner::Sut,
            awaits: Awaits::NextRequest,
        });
    }
    timers
}

/// Returns the time for which an operation is waited for.
fn patience_of(plan: &LoadPlan) -> Nanos {
    plan.timeouts.deadline.unwrap_or_default() + plan.timeouts.linger
}

/// Returns the longest timers that a load over `window` could have observed; a load that was cut short waited no longer
/// than it lasted. `probe` is the time that the timeout probe waited, if it ran.
pub fn horizon(plan: &LoadPlan, window: Nanos, cut_short: bool, probe: Option<Nanos>) -> Horizon {
    let longest = if cut_short { window } else { HORIZON_MAX };
    let ms = |span: Nanos| span.min(HORIZON_MAX).as_millis_f64();
    Horizon {
        answer_ms: ms(patience_of(plan).min(longest)),
        connection_ms: ms(window),
        probe_ms: probe.map(ms),
    }
}

#[cfg(test)]
mod tests;
