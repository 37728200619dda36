//! The connections of a search for a rate: as many as the load needs by Little's law, more where the
//! server was fast and all were busy, and never more than a bound.

use plimsoll_model::trial::{CheckId, TrialMeasurement, TrialRecord, Verdict};
use plimsoll_model::{Nanos, Rate};

/// Connections at most, unless `--connections` says more: a server feels each of them.
const POOL_MAX: u64 = 4_096;
/// Connections for each operation in flight in the mean.
const ROOM: f64 = 2.0;
/// The share of a load up to which the answers of other loads show how many connections it needs. Close to
/// its tipping point a server answers in 0.3 ms in one trial and in 10 ms in the next: pools for one
/// load were 120 and 1,206 connections then, and an answer cost HAProxy 17 and 27 us of CPU.
const AWAY_FROM_TIP: f64 = 0.75;
/// Factor by which a pool grows that was too small.
const GROWTH: u64 = 4;
/// A larger pool that carries less than this much more was not what was missing.
const CARRIES_MORE: f64 = 1.05;

/// The pool of the next trial.
pub(super) struct Pool {
    /// Connections for any load: more only after it was too small.
    least: u64,
    /// The largest it may become.
    pub(super) most: u64,
    /// Operations at once on each connection.
    streams: u32,
    /// The loads that the server met the SLO at, and the least mean of its times at each.
    served: Vec<(Rate, Nanos)>,
    /// The load that the pool was too small for, and what it carried of it.
    short: Option<(Rate, Rate)>,
    /// `true` if the user has set the size.
    is_fixed: bool,
    /// `true` if the user was informed that the server limits the operations of each connection.
    is_told: bool,
}

impl Pool {
    /// Creates a pool of `size` connections, each for `streams` operations at once. It does not grow if it is `fixed`;
    /// the processes can open at most `fits` connections.
    pub(super) fn new(size: u64, streams: u32, fixed: bool, fits: u64) -> Self {
        let most = if fixed { size } else { POOL_MAX.min(fits).max(size) };
        let (served, short) = (Vec::new(), None);
        Self { least: size, most, streams, served, short, is_fixed: fixed, is_told: false }
    }

    /// Returns the number of connections for a load. It depends on loads well below, so that trials of one load, and of
    /// loads close to it, have similar numbers and can be compared.
    pub(super) fn for_load(&self, rate: Rate) -> u64 {
        let in_flight = rate.get() * self.server_time(rate).as_secs_f64();
        let needed = (in_flight * ROOM / f64::from(self.streams.max(1))).ceil() as u64;
        needed.clamp(self.least, self.most)
    }

    /// Returns the server's mean time at the highest load well below this one, or at the lowest load if there is none.
    fn server_time(&self, rate: Rate) -> Nanos {
        let by_rate = |a: &&(Rate, Nanos), b: &&(Rate, Nanos)| a.0.get().total_cmp(&b.0.get());
        let is_away = |load: &Rate| load.get() <= rate.get() * AWAY_FROM_TIP;
        let away = self.served.iter().filter(|(load, _)| is_away(load)).max_by(by_rate);
        let nearest = away.or_else(|| self.served.iter().min_by(by_rate));
        nearest.map_or(Nanos::ZERO, |(_, time)| *time)
    }

    /// Reports whether a larger pool carries no more of this load than a smaller one that was found too small
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
            mean.into_iter().for_each(|mean| self.note_served(measurement.request.rate, mean));
        }
        if let Some(allowed) = measurement.tally.answers.streams.allowed
            && self.is_fixed
            && measurement.tally.pool_exhausted > 0
            && !std::mem::replace(&mut self.is_told, true)
        {
            return Some(format!(
                "the server allows {allowed} operations at once on each connection, and --connections fixes their number \
                 at {}: the result is the limit of these connections",
                self.most
            ));
        }
        let is_small = trial.judgement.verdict == Verdict::Invalid
            && trial.judgement.deciding().any(|check| check.id == CheckId::Pool);
        let rate = measurement.request.rate;
        let before = self.for_load(rate);
        if !is_small || before >= self.most {
            return None;
        }
        self.short = Some((rate, carried(measurement)));
        self.least = (before * GROWTH).min(self.most);
        Some(format!(
            "at {rate} all {before} connections were busy while the server was as fast as ever; the \
             search continues with {} (--connections fixes their number)",
            self.least
        ))
    }

    fn note_served(&mut self, rate: Rate, mean: Nanos) {
        match self.served.iter_mut().find(|(load, _)| *load == rate) {
            Some((_, least)) => *least = mean.min(*least),
            None => self.served.push((rate, mean)),
        }
    }
}

/// Returns the good answers per second.
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
                seconds: Vec::new(),
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
        assert_eq!(pool.for_load(rate(1_000.0)), 100);
        assert_eq!(pool.for_load(rate(1e6)), POOL_MAX);
        assert_eq!(Pool::new(100, 1, false, 768).most, 768);
    }

    #[test]
    fn trials_close_to_the_tipping_point_have_as_many_connections_as_each_other() {
        let mut pool = Pool::new(120, 1, false, u64::MAX);
        for (load, ms) in [(10_000.0, 1), (20_000.0, 1), (40_000.0, 2)] {
            pool.add(&trial(load, load as u64, ms, Verdict::Good));
        }
        assert_eq!(pool.for_load(rate(50_000.0)), 120);
        // Served, but only just: the queue was in the server.
        pool.add(&trial(50_000.0, 50_000, 10, Verdict::Good));
        pool.add(&trial(52_000.0, 52_000, 12, Verdict::Good));
        assert_eq!(pool.for_load(rate(50_000.0)), 120);
        assert!((212..220).contains(&pool.for_load(rate(54_000.0))));
        // A load that is far above needs what those below it needed, and leaves nothing behind.
        assert!((2_400..2_500).contains(&pool.for_load(rate(100_000.0))));
        assert_eq!(pool.for_load(rate(50_000.0)), 120);
    }

    #[test]
    fn a_server_that_slows_with_the_load_has_the_connections_that_it_needs() {
        // A batch takes longer, and carries more: as many are in flight as the load and its time say.
        let mut pool = Pool::new(100, 1, false, u64::MAX);
        for (load, ms) in [(4_000.0, 5), (8_000.0, 10), (16_000.0, 15)] {
            assert!(pool.for_load(rate(load)) as f64 >= load * f64::from(ms) / 1e3);
            pool.add(&trial(load, load as u64, ms as u64, Verdict::Good));
        }
        assert!(pool.for_load(rate(21_400.0)) >= 642);
    }

    #[test]
    fn connections_that_were_asked_for_stay() {
        let mut pool = Pool::new(1, 1, true, u64::MAX);
        pool.add(&trial(100.0, 100, 50, Verdict::Good));
        assert_eq!(pool.for_load(rate(4_000.0)), 1);
        assert_eq!(pool.add(&trial(4_000.0, 200, 5, Verdict::Invalid)), None);
    }

    #[test]
    fn a_pool_that_was_short_grows_and_is_compared() {
        let mut pool = Pool::new(100, 1, false, u64::MAX);
        assert!(pool.add(&trial(4_000.0, 2_000, 5, Verdict::Invalid)).is_some());
        assert_eq!(pool.for_load(rate(100.0)), 400);
        let with_more = |ok| pool.in_vain(&trial(4_000.0, ok, 5, Verdict::Good).measurement);
        // What is carried rises: it was the pool. It does not: it was the server.
        assert!(!with_more(3_900) && with_more(2_050));
        assert!(!pool.in_vain(&trial(3_000.0, 2_000, 5, Verdict::Good).measurement));
    }
}
