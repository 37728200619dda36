//! The connections of a search for a rate: as many as the load needs by Little's law, more where the
//! server was fast and all were busy, and never more than a bound.

use plimsoll_model::trial::{CheckId, TrialMeasurement, TrialRecord, Verdict};
use plimsoll_model::{Nanos, Rate};

/// Connections at most, unless `--connections` says more: a server feels each of them.
const POOL_MAX: u64 = 4_096;
/// Connections for each operation in flight in the mean.
const ROOM: f64 = 2.0;
/// How much larger a pool becomes that was too small.
const GROWTH: u64 = 4;
/// A larger pool that carries less than this much more was not what was missing.
const CARRIES_MORE: f64 = 1.05;

/// The pool of the next trial.
pub(super) struct Pool {
    size: u64,
    /// The largest it may become.
    most: u64,
    /// Operations at once on each connection.
    streams: u32,
    /// How long the server took at the last load that it served.
    server_time: Nanos,
    /// The load that the pool was too small for, and what it carried of it.
    short: Option<(Rate, Rate)>,
}

impl Pool {
    /// One that begins with so many connections, each for so many operations at once, which stay if they
    /// are `fixed`; the processes can open so many.
    pub(super) fn new(size: u64, streams: u32, fixed: bool, fits: u64) -> Self {
        let most = if fixed { size } else { POOL_MAX.min(fits).max(size) };
        Self { size, most, streams, server_time: Nanos::ZERO, short: None }
    }

    /// Connections for a load.
    pub(super) fn for_load(&mut self, rate: Rate) -> u64 {
        let in_flight = rate.get() * self.server_time.as_secs_f64();
        let needed = (in_flight * ROOM / f64::from(self.streams.max(1))).ceil() as u64;
        let needed = needed.min(self.most);
        self.size = self.size.max(needed);
        self.size
    }

    /// The largest that it may become.
    pub(super) const fn most(&self) -> u64 {
        self.most
    }

    /// Connections by now.
    pub(super) const fn size(&self) -> u64 {
        self.size
    }

    /// What a smaller pool carried of this load, where one was found too small and a larger one
    /// carries no more: then connections were not what was missing.
    pub(super) fn in_vain(&self, measurement: &TrialMeasurement) -> bool {
        let Some((load, before)) = self.short else { return false };
        let now = carried(measurement).get();
        measurement.request.rate == load && now < before.get() * CARRIES_MORE
    }

    /// Takes a judged trial; a line for the reader when the pool grows.
    pub(super) fn add(&mut self, trial: &TrialRecord) -> Option<String> {
        let measurement = &trial.measurement;
        if trial.judgement.verdict == Verdict::Good {
            let mean = measurement.tally.spans.uncorrected.mean();
            self.server_time = mean.unwrap_or(self.server_time);
        }
        let is_small = trial.judgement.verdict == Verdict::Invalid
            && trial.judgement.deciding().any(|check| check.id == CheckId::Pool);
        if !is_small || self.size >= self.most {
            return None;
        }
        let rate = measurement.request.rate;
        self.short = Some((rate, carried(measurement)));
        let before = self.size;
        self.size = (before * GROWTH).min(self.most);
        Some(format!(
            "at {rate} all {before} connections were busy while the server was as fast as ever; the \
             search goes on with {} (--connections fixes their number)",
            self.size
        ))
    }
}

/// Good answers per second.
fn carried(measurement: &TrialMeasurement) -> Rate {
    let seconds = measurement.window.as_secs_f64().max(1e-3);
    Rate::per_second(measurement.tally.ok as f64 / seconds).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use plimsoll_model::observation::Observations;
    use plimsoll_model::tally::Tally;
    use plimsoll_model::trial::{Check, Judgement, Level, Phase, TrialRequest};

    use super::*;

    fn trial(rate: f64, ok: u64, ms: u64, verdict: Verdict) -> TrialRecord {
        let rate = Rate::per_second(rate).expect("a rate");
        let mut tally = Tally { ok, ..Tally::default() };
        tally.spans.uncorrected.record(Nanos::from_millis(ms));
        let level = Level::of(verdict == Verdict::Invalid, false);
        let reasons = vec![Check::new(CheckId::Pool, level, [])];
        TrialRecord {
            further: Vec::new(),
            measurement: TrialMeasurement {
                request: TrialRequest {
                    number: 1,
                    phase: Phase::Expand,
                    rate,
                    duration: Nanos::from_secs(1),
                    split: 1,
                },
                window: Nanos::from_secs(1),
                aborted: false,
                tally,
                sut_busiest_thread: None,
                split: 1,
                observations: Observations::default(),
            },
            judgement: Judgement { verdict, reasons, loss_ratio: 0.0 },
        }
    }

    fn rate(rate: f64) -> Rate {
        Rate::per_second(rate).expect("a rate")
    }

    #[test]
    fn a_load_has_room_for_twice_what_is_in_flight() {
        let mut pool = Pool::new(100, 1, false, u64::MAX);
        assert_eq!(pool.for_load(rate(2_000.0)), 100);
        assert_eq!(pool.add(&trial(2_000.0, 2_000, 50, Verdict::Good)), None);
        assert_eq!(pool.for_load(rate(4_000.0)), 400);
        let mut shared = Pool::new(10, 10, false, u64::MAX);
        shared.add(&trial(2_000.0, 2_000, 50, Verdict::Good));
        assert_eq!(shared.for_load(rate(4_000.0)), 40);
        // It does not shrink, so that trials stay comparable, and has a bound.
        assert_eq!(pool.for_load(rate(1_000.0)), 400);
        assert_eq!(pool.for_load(rate(1e6)), POOL_MAX);
        assert_eq!(Pool::new(100, 1, false, 768).most(), 768);
    }

    #[test]
    fn connections_that_were_asked_for_stay() {
        let mut pool = Pool::new(1, 1, true, u64::MAX);
        pool.add(&trial(100.0, 100, 50, Verdict::Good));
        assert_eq!(pool.for_load(rate(4_000.0)), 1);
        assert_eq!(pool.add(&trial(4_000.0, 200, 5, Verdict::Invalid)), None);
        assert_eq!(pool.size(), 1);
    }

    #[test]
    fn a_pool_that_was_short_grows_and_is_compared() {
        let mut pool = Pool::new(100, 1, false, u64::MAX);
        assert!(pool.add(&trial(4_000.0, 2_000, 5, Verdict::Invalid)).is_some());
        assert_eq!(pool.size(), 400);
        let with_more = |ok| pool.in_vain(&trial(4_000.0, ok, 5, Verdict::Good).measurement);
        // What is carried rises: it was the pool. It does not: it was the server.
        assert!(!with_more(3_900) && with_more(2_050));
        assert!(!pool.in_vain(&trial(3_000.0, 2_000, 5, Verdict::Good).measurement));
    }
}
