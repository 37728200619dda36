//! The effects of disruptions on a load, from its seconds.
//!
//! [`DisruptedSeconds::handle_second`] reduces each second to its failures, losses, connections and p99. A second is
//! disturbed by a failure, a loss or a p99 above the limit. Without a limit of the user it is twice the median p99 of
//! the 10 s before, and at least 5 ms more. A disruption has ended after three calm seconds, and its effects reach at
//! most to the next disruption. Start reading at [`DisruptedSeconds::effects`].

use std::collections::BTreeMap;

use plimsoll_model::disruption::{DisruptedLatency, DisruptionSummary, OldProcess};
use plimsoll_model::hist::Histogram;
use plimsoll_model::tally::{ErrorCounts, Interval};
use plimsoll_model::{ErrorClass, Nanos};

use crate::stats::median_of;

/// Seconds before a disruption that show the usual latency.
const BEFORE_S: u32 = 10;
/// A second is disturbed if its p99 is above this multiple of the usual one, and above it by at least the second
/// figure, milliseconds; a limit of the user's replaces both.
const SLOWER: (f64, f64) = (2.0, 5.0);
/// Seconds without a disturbance after which one has ended.
const CALM_S: usize = 3;

/// A disruption as it was carried out, on the clock of the load's seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Disrupted {
    /// The action.
    pub what: String,
    /// Beginning, seconds.
    pub began_s: f64,
    /// End, seconds.
    pub ended_s: f64,
    /// Failure of the action, if it failed.
    pub failed: Option<String>,
    /// Processes that it has replaced.
    pub old_processes: Vec<OldProcess>,
}

/// One second of a load, in the figures that a disruption shows in.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Second {
    number: u32,
    failed: u64,
    lost: u64,
    /// Connections that the server ended by RST, and without an error.
    reset: u64,
    finished: u64,
    opened: u64,
    p99_ms: Option<f64>,
    /// Without this program's own delay.
    undelayed_p99_ms: Option<f64>,
}

impl Second {
    fn is_disturbed(&self, limit_ms: f64) -> bool {
        self.failed + self.lost > 0 || self.p99_ms.is_some_and(|p99| p99 > limit_ms)
    }
}

/// Returns the index of the first of [`CALM_S`] calm seconds, from the end of the action on. Without such a stretch,
/// returns 0 if all seconds are calm, else `None`.
fn first_calm(seconds: &[&Second], ended_s: f64, limit_ms: f64) -> Option<usize> {
    let done = seconds.iter().position(|second| f64::from(second.number) >= ended_s.floor())?;
    let is_calm = |window: &[&Second]| !window.iter().any(|second| second.is_disturbed(limit_ms));
    let first = seconds[done..].windows(CALM_S).position(is_calm).map(|first| done + first);
    first.or_else(|| is_calm(seconds).then_some(0))
}

/// The seconds of a load that is disrupted.
#[derive(Clone, Debug, Default)]
pub struct DisruptedSeconds {
    seconds: Vec<Second>,
    /// Losses and errors of seconds that have any, by class.
    faulty: BTreeMap<u32, (ErrorCounts, ErrorCounts)>,
}

impl DisruptedSeconds {
    /// Adds the next second of a load, or of a hold.
    pub fn handle_second(&mut self, interval: &Interval, is_hold: bool) {
        let (number, tally) = (interval.second, &interval.tally);
        // Connections of a load are lost only with their operations: idle ones are opened again.
        let losses = if is_hold { &tally.failures.lost_held } else { &tally.failures.lost_in_use };
        let total = |counts| of_server(counts).map(|(_, count)| count).sum::<u64>();
        let (failed, lost) = (total(&tally.failures.operations), total(losses));
        if failed + lost > 0 {
            self.faulty.insert(number, (losses.clone(), tally.failures.operations.clone()));
        }
        let p99_ms = |of: &Histogram| of.quantile(0.99).map(Nanos::as_millis_f64);
        self.seconds.push(Second {
            number,
            failed,
            lost,
            reset: tally.connections.reset_by_peer,
            finished: tally.connections.closed_by_peer + tally.answers.announced.ends,
            opened: tally.connections.opened,
            p99_ms: p99_ms(&tally.spans.corrected),
            undelayed_p99_ms: p99_ms(&tally.spans.undelayed),
        });
    }

    /// Returns the effects of each disruption, in order of their beginnings. `limit` is the latency that the user asked
    /// for.
    pub fn effects(&self, disrupted: &[Disrupted], limit: Option<Nanos>) -> Vec<DisruptionSummary> {
        let ends = disrupted.iter().skip(1).map(|next| next.began_s as u32);
        let ends = ends.chain(std::iter::once(u32::MAX));
        disrupted.iter().zip(ends).map(|(one, end)| self.effect(one, end, limit)).collect()
    }

    fn effect(&self, of: &Disrupted, end: u32, limit: Option<Nanos>) -> DisruptionSummary {
        let began = of.began_s as u32;
        let before = self.between(began.saturating_sub(BEFORE_S), began);
        let before = median_of(before.filter_map(|second| second.p99_ms));
        let limit_ms = match limit {
            Some(limit) => limit.as_millis_f64(),
            None => before.map_or(f64::INFINITY, |usual| (SLOWER.0 * usual).max(usual + SLOWER.1)),
        };
        let seconds: Vec<&Second> = self.between(began, end).collect();
        let calm = first_calm(&seconds, of.ended_s, limit_ms);
        let (disturbed, after) = seconds.split_at(calm.unwrap_or(seconds.len()));
        let last = disturbed.iter().rev().find(|second| second.is_disturbed(limit_ms));
        let p99_of = |second: &Second| second.p99_ms.unwrap_or(0.0);
        let worst = disturbed.iter().max_by(|a, b| p99_of(a).total_cmp(&p99_of(b)));
        let during = worst.and_then(|second| second.p99_ms).or(before);
        let undelayed = worst.and_then(|second| second.undelayed_p99_ms);
        let after = median_of(after.iter().filter_map(|second| second.p99_ms));
        let since = |last: &&Second| (f64::from(last.number) + 1.0 - of.began_s).max(0.0);
        let faulty = || self.faulty.range(began..end).map(|(_, counts)| counts);
        let lost_classes = by_class(faulty().map(|(losses, _)| losses));
        let error_classes = by_class(faulty().map(|(_, errors)| errors));
        let reset = seconds.iter().map(|second| second.reset).sum();
        let finished = seconds.iter().map(|second| second.finished).sum();
        let opened: u64 = seconds.iter().map(|second| second.opened).sum();
        DisruptionSummary {
            what: of.what.clone(),
            at_s: of.began_s,
            took_s: (of.ended_s - of.began_s).max(0.0),
            failed: of.failed.clone(),
            lost: lost_classes.values().sum(),
            lost_classes,
            reset,
            finished,
            moved: opened.min(reset + finished),
            errors: error_classes.values().sum(),
            error_classes,
            p99_ms: DisruptedLatency { before, during, undelayed, after },
            disturbed_s: calm.map(|_| last.map_or(0.0, since)),
            old_processes: of.old_processes.clone(),
        }
    }

    fn between(&self, from: u32, to: u32) -> impl Iterator<Item = &Second> {
        self.seconds.iter().filter(move |second| (from..to).contains(&second.number))
    }
}

/// Returns the counts by class, without what we closed ourselves, at the end or for a reconnect.
fn of_server(counts: &ErrorCounts) -> impl Iterator<Item = (ErrorClass, u64)> + '_ {
    counts.iter().filter(|(class, _)| *class != ErrorClass::Interrupted)
}

/// Returns the sums of [`of_server`] over several seconds, by the names of the classes.
fn by_class<'a>(seconds: impl Iterator<Item = &'a ErrorCounts>) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (class, count) in seconds.flat_map(of_server) {
        *sums.entry(class.name().to_owned()).or_default() += count;
    }
    sums
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use plimsoll_model::tally::Tally;

    use super::*;

    /// A load of 60 s with a p99 of 10 ms; in the seconds given it is slow, and some operations fail.
    fn load(slow: Range<u32>, failed: u64) -> DisruptedSeconds {
        let mut seconds = DisruptedSeconds::default();
        for second in 0..60 {
            let mut tally = Tally::default();
            let is_slow = slow.contains(&second);
            let p99 = Nanos::from_millis(if is_slow { 40 } else { 10 });
            tally.spans.corrected.record_n(p99, 100);
            if is_slow {
                // Half of it is this program's.
                tally.spans.undelayed.record_n(Nanos::from_millis(20), 100);
                tally.failures.operations.add(ErrorClass::ConnectRefused, failed);
                tally.failures.lost_held.add(ErrorClass::ResetByPeer, failed);
                tally.connections.reset_by_peer = failed;
                tally.connections.closed_by_peer = 1;
                tally.answers.announced.note_end(9);
                tally.connections.opened = 4;
            }
            seconds.handle_second(&Interval { second, tally }, true);
        }
        seconds
    }

    fn reload(began_s: f64) -> Disrupted {
        let what = "reload".to_owned();
        Disrupted { what, began_s, ended_s: began_s + 0.1, failed: None, old_processes: Vec::new() }
    }

    #[test]
    fn a_reload_that_slows_the_server_for_four_seconds() {
        let effects = load(20..24, 3).effects(&[reload(20.1)], None);
        let [effect] = &effects[..] else { panic!("{effects:?}") };
        assert_eq!((effect.lost, effect.errors), (12, 12));
        // Of 20 that ended, 16 were opened again.
        assert_eq!((effect.reset, effect.finished, effect.moved), (12, 8, 16));
        assert_eq!(effect.lost_classes, BTreeMap::from([("reset-by-peer".to_owned(), 12)]));
        assert!((effect.disturbed_s.expect("it ended") - 3.9).abs() < 1e-9, "{effect:?}");
        let DisruptedLatency { before, during, undelayed, after } = effect.p99_ms;
        let p99 = [before, during, undelayed, after].map(|p99| p99.map(f64::round));
        assert_eq!(p99, [Some(10.0), Some(40.0), Some(20.0), Some(10.0)]);
    }

    #[test]
    fn a_reload_that_nobody_notices() {
        let effects = load(0..0, 0).effects(&[reload(20.1)], Some(Nanos::from_millis(50)));
        assert_eq!((effects[0].lost, effects[0].errors, effects[0].disturbed_s), (0, 0, Some(0.0)));
    }

    #[test]
    fn a_disturbance_that_does_not_end_is_no_time() {
        let effects = load(20..60, 0).effects(&[reload(20.0)], None);
        assert_eq!(effects[0].disturbed_s, None);
        // Within the limit that the user asked for, it is none.
        let effects = load(20..60, 0).effects(&[reload(20.0)], Some(Nanos::from_millis(50)));
        assert_eq!(effects[0].disturbed_s, Some(0.0));
    }

    #[test]
    fn a_short_time_up_to_the_next_event_is_calm_if_all_of_it_is() {
        let effects = load(21..23, 1).effects(&[reload(18.0), reload(20.0), reload(22.0)], None);
        let disturbed = [0, 1].map(|index: usize| effects[index].disturbed_s);
        assert_eq!(disturbed, [Some(0.0), None]);
    }

    #[test]
    fn each_event_has_the_seconds_up_to_the_next_one() {
        let effects = load(40..42, 1).effects(&[reload(20.0), reload(39.5)], None);
        assert_eq!((effects[0].errors, effects[1].errors), (0, 2));
        assert_eq!((effects[0].disturbed_s, effects[1].disturbed_s), (Some(0.0), Some(2.5)));
    }
}
