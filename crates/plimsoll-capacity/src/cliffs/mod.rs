//! Hidden timers: piles of durations at one value, whose they are, and how long a timer a run
//! could have seen.
//!
//! Pure: histograms in, findings out. Thresholds are those of the measurement methodology, held by
//! simulation (`tests/sim_cliffs.rs`).

use plimsoll_model::cliff::{Awaits, Cliff, Confidence, Horizon, KnownTimer, Owner};
use plimsoll_model::ending::{Closer, Series, SeriesKey, Stretch};
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::tally::Tally;
use plimsoll_model::{Histogram, Nanos};

mod constants;
mod owner;
mod peaks;
mod probed;

use constants::SAME;
use peaks::Timer;

pub use probed::rows as probed_timers;

/// Nothing below this is called a timer: retransmissions and schedulers live there.
const FLOOR_MIN: Nanos = Nanos::from_millis(100);
/// A success is slow above so many medians.
const FLOOR_MEDIANS: u64 = 3;
/// Histograms hold nothing longer.
const HORIZON_MAX: Nanos = Nanos::from_secs(3_590);

/// Every timer that `tally` shows, the one that ended most first. `known` are our own timers
/// ([`own_timers`]) and those of servers that we configured.
pub fn find(tally: &Tally, known: &[KnownTimer]) -> Vec<Cliff> {
    let (answers, connects) = (&tally.spans.uncorrected, &tally.spans.connect);
    let good = |stretch| SeriesKey { stretch, closer: Closer::Success };
    let mut cliffs = piles(answers, good(Stretch::Operation), slow(answers), known);
    cliffs.extend(retransmissions(connects));
    // A refusal takes a round trip, as connecting does, and nobody waited.
    let floor = slow(connects);
    for (key, series) in tally.endings.iter() {
        if is_request_limit(key, series) {
            continue;
        }
        let mut found = piles(&series.durations, key, floor, known);
        found.iter_mut().for_each(|cliff| doubt_single_event(cliff, series));
        cliffs.extend(found);
    }
    drop_echoes(&mut cliffs);
    cliffs.sort_by_key(|cliff| std::cmp::Reverse(cliff.count));
    cliffs
}

/// The same in `whole`, which `trials` make together, less the good answers that were as slow as most
/// of their own trial: they waited for an overloaded server, each behind a whole pool of others.
pub fn find_in_trials(whole: &Tally, trials: &[&Tally], known: &[KnownTimer]) -> Vec<Cliff> {
    let mut cliffs = find(whole, known);
    cliffs.retain(|cliff| {
        let is_answer = cliff.closer == Closer::Success && cliff.stretch == Stretch::Operation;
        !is_answer || is_slow_in_its_trials(cliff.at, trials)
    });
    cliffs
}

/// Whether at least half of the answers near `at` were slow beside the others of their trial.
fn is_slow_in_its_trials(at: Nanos, trials: &[&Tally]) -> bool {
    let (mut slower, mut all) = (0, 0);
    for answers in trials.iter().map(|tally| &tally.spans.uncorrected) {
        let above = |factor: f64| answers.count_above(Nanos((at.0 as f64 * factor) as u64));
        let near = above(1.0 - SAME) - above(1.0 + SAME);
        all += near;
        slower += if at > slow(answers) { near } else { 0 };
    }
    slower * 2 >= all
}

/// What is slow among durations that are mostly no timer's doing.
fn slow(hist: &Histogram) -> Nanos {
    let typical = hist.quantile(0.5).unwrap_or_default();
    Nanos(typical.0.saturating_mul(FLOOR_MEDIANS)).max(FLOOR_MIN)
}

fn piles(hist: &Histogram, key: SeriesKey, floor: Nanos, known: &[KnownTimer]) -> Vec<Cliff> {
    // Without keep-alive a good answer begins with its connection's SYN.
    let connecting = key.stretch == Stretch::Opening || key.closer == Closer::Success;
    let of_peak = |peak: peaks::Peak| {
        let found = owner::ascribe(key.stretch, key.closer, peak.at, known);
        Cliff {
            at: peak.at,
            count: peak.count,
            share: peak.share,
            stretch: key.stretch,
            closer: key.closer,
            label: found.name.or_else(|| constants::label(peak.at, connecting)),
            owner: found.owner,
            confidence: found.confidence,
            evidence: found.evidence,
        }
    };
    peaks::peaks(hist, floor, Timer::Fine).into_iter().map(of_peak).collect()
}

/// Connections that came when the kernel had asked again: also when most of them did.
fn retransmissions(connects: &Histogram) -> Vec<Cliff> {
    let of_peak = |peak: peaks::Peak| {
        let label = constants::connecting_label(peak.at)?;
        let found = owner::ascribe(Stretch::Opening, Closer::Success, peak.at, &[]);
        Some(Cliff {
            at: peak.at,
            count: peak.count,
            share: peak.share,
            stretch: Stretch::Opening,
            closer: Closer::Success,
            label: Some(label),
            owner: found.owner,
            confidence: found.confidence,
            evidence: found.evidence,
        })
    };
    peaks::peaks(connects, FLOOR_MIN, Timer::Coarse).into_iter().filter_map(of_peak).collect()
}

/// A server that closes after so many requests does so at a fixed age when requests come evenly.
fn is_request_limit(key: SeriesKey, series: &Series) -> bool {
    key.stretch == Stretch::Lifetime && series.ops_min == series.ops_max && series.ops_min > 0
}

/// Connections that were opened together and ended together may have ended by one event, such as a
/// restart, whatever their age.
fn doubt_single_event(cliff: &mut Cliff, series: &Series) {
    let is_connection = matches!(cliff.stretch, Stretch::Lifetime | Stretch::Idle);
    let over = series.last.since(series.first);
    if is_connection
        && (over.0 as f64) < SAME * cliff.at.0 as f64
        && cliff.confidence < Confidence::Certain
    {
        cliff.confidence = Confidence::Possible;
        cliff.evidence.push_str(&format!(
            "; all within {over}, so one event such as a restart may have ended them"
        ));
    }
}

/// A connection's age at its end repeats what ended its last operation or its rest.
fn drop_echoes(cliffs: &mut Vec<Cliff>) {
    let near = |a: &Cliff, b: &Cliff| (a.at.0 as f64 / b.at.0 as f64).ln().abs() <= SAME;
    let firsts: Vec<Cliff> =
        cliffs.iter().filter(|cliff| cliff.stretch != Stretch::Lifetime).cloned().collect();
    cliffs.retain(|cliff| {
        cliff.stretch != Stretch::Lifetime || !firsts.iter().any(|first| near(first, cliff))
    });
}

/// The timers of plimsoll itself in a load.
pub fn own_timers(plan: &LoadPlan) -> Vec<KnownTimer> {
    let patience = match plan.deadline {
        None => "--linger",
        Some(_) if plan.linger == Nanos::ZERO => "--deadline",
        Some(_) => "--deadline and --linger",
    };
    let own = |name: &str, at, awaits| KnownTimer {
        name: format!("plimsoll's own {name}"),
        at,
        owner: Owner::Client,
        awaits,
    };
    vec![
        own(patience, patience_of(plan), Awaits::Answer),
        own("--connect-timeout", plan.connect_timeout, Awaits::Opening),
    ]
}

/// How long an operation is waited for.
fn patience_of(plan: &LoadPlan) -> Nanos {
    plan.deadline.unwrap_or_default() + plan.linger
}

/// The longest timers that a load over `window` could have seen; a load that was cut short waited
/// no longer than it lasted. `probe` is how long the timeout probe waited, where it ran.
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
mod tests {
    use plimsoll_model::tally::Tally;

    use super::*;

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Answers around 10 ms, and `count` ends of one kind at `at`, spread over `over`.
    fn tally(stretch: Stretch, closer: Closer, at: Nanos, ops: [u32; 2], over: Nanos) -> Tally {
        let mut tally = Tally::default();
        for i in 0..1_000 {
            tally.spans.uncorrected.record(ms(5 + i % 10));
        }
        for i in 0..100u64 {
            let ops = ops[i as usize % 2];
            tally.endings.record(stretch, closer, at, ops, Nanos(over.0 / 100 * i));
        }
        tally
    }

    #[test]
    fn a_gateway_timeout_is_found_and_named() {
        let at = Nanos::from_secs(30);
        let tally = tally(Stretch::Operation, Closer::Status(504), at, [0, 0], at);
        let [cliff] = &find(&tally, &[])[..] else { panic!("{:?}", find(&tally, &[])) };
        assert_eq!((cliff.owner, cliff.count), (Owner::Sut, 100));
        assert!(
            cliff.label.as_ref().is_some_and(|label| label.starts_with("near 30 s")),
            "{cliff:?}"
        );
    }

    #[test]
    fn a_limit_on_requests_is_no_timer() {
        let at = Nanos::from_secs(10);
        let find_with =
            |ops| find(&tally(Stretch::Lifetime, Closer::PeerAnswer, at, ops, at), &[]).len();
        assert_eq!(find_with([100, 100]), 0);
        assert_eq!(find_with([99, 104]), 1);
    }

    #[test]
    fn ends_at_one_instant_are_doubted() {
        let at = Nanos::from_secs(5);
        for (over, confidence) in [(ms(40), Confidence::Possible), (at, Confidence::Likely)] {
            let tally = tally(Stretch::Idle, Closer::PeerFin, at, [0, 3], over);
            assert_eq!(find(&tally, &[])[0].confidence, confidence);
        }
    }

    #[test]
    fn the_age_of_a_connection_does_not_repeat_what_ended_it() {
        let at = Nanos::from_secs(3);
        let mut tally = tally(Stretch::Operation, Closer::Status(504), at, [0, 0], at);
        for i in 0..50 {
            let (at, now) = (at + ms(9), Nanos(i * 100_000_000));
            tally.endings.record(Stretch::Lifetime, Closer::PeerAnswer, at, i as u32, now);
        }
        assert_eq!(find(&tally, &[]).len(), 1);
    }

    #[test]
    fn a_syn_that_was_sent_again_is_told_from_a_far_address() {
        let connects = |late_ms: u64| {
            let mut tally = Tally::default();
            for i in 0..200 {
                tally.spans.connect.record(ms(late_ms + i % 33));
                tally.spans.connect.record(ms(if i % 2 == 0 { 1 } else { late_ms }));
            }
            find(&tally, &[])
        };
        let [cliff] = &connects(1_000)[..] else { panic!("{:?}", connects(1_000)) };
        assert_eq!((cliff.owner, cliff.closer), (Owner::Client, Closer::Success));
        assert_eq!(cliff.label.as_deref(), Some("near 1 s (first SYN retransmission)"));
        assert_eq!(connects(1_500), []);
    }

    #[test]
    fn answers_as_slow_as_most_are_no_cliff() {
        let mut tally = Tally::default();
        for i in 0..1_000 {
            tally.spans.uncorrected.record(ms(3_000 + i % 5));
        }
        assert_eq!(find(&tally, &[]), []);
    }

    #[test]
    fn what_an_overloaded_pool_makes_every_answer_wait_is_no_timer() {
        let trial = |fast: u64, at_143_ms: u64| {
            let mut tally = Tally::default();
            for i in 0..fast {
                tally.spans.uncorrected.record(ms(5 + i % 10));
            }
            for i in 0..at_143_ms {
                tally.spans.uncorrected.record(Nanos(142_500_000 + i % 10 * 100_000));
            }
            tally
        };
        let found = |overloaded: Tally| {
            let calm = trial(9_000, 0);
            let mut whole = calm.clone();
            whole.merge_following(&overloaded);
            let merged = find(&whole, &[]).len();
            (merged, find_in_trials(&whole, &[&calm, &overloaded], &[]).len())
        };
        // 100 connections of which each is served every 143 ms: beside the other trials a pile.
        assert_eq!(found(trial(50, 3_000)), (1, 0));
        // One answer in four at that value, in a trial whose others are fast, waited for something.
        assert_eq!(found(trial(9_000, 3_000)), (1, 1));
    }
}
