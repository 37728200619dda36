//! Counts how far one worker's operations start from when they are due.
//!
//! Per start: a few comparisons and additions on a few words; nothing is allocated, and nothing
//! grows. The result is [`StartCounts`].

use plimsoll_model::Nanos;
use plimsoll_model::starts::{BinSums, BinnedStarts, NARROW_BIN, StartCounts, WIDE_BIN};

/// One worker's starts so far.
#[derive(Debug)]
pub(super) struct StartMeter {
    tolerance: Nanos,
    /// Due time and actual time of the last start.
    last: Option<(Nanos, Nanos)>,
    narrow: Bins,
    wide: Bins,
}

impl StartMeter {
    /// Creates a meter whose gaps may be off by `tolerance`.
    pub(super) const fn new(tolerance: Nanos) -> Self {
        Self { tolerance, last: None, narrow: Bins::new(NARROW_BIN), wide: Bins::new(WIDE_BIN) }
    }

    /// Counts an operation that was due at `due` and started at `made`, both since the epoch. Operations come in order.
    pub(super) const fn count(&mut self, due: Nanos, made: Nanos, into: &mut StartCounts) {
        into.starts += 1;
        if let Some((last_due, last_made)) = self.last {
            let (wanted, had) = (due.since(last_due).0, made.since(last_made).0);
            into.gaps += 1;
            into.gaps_off += (wanted.abs_diff(had) > self.tolerance.0) as u64;
        }
        self.last = Some((due, made));
        self.narrow.count(due, made, &mut into.narrow);
        self.wide.count(due, made, &mut into.wide);
    }
}

/// Both timelines in bins of one width.
#[derive(Debug)]
struct Bins {
    due: OpenBin,
    made: OpenBin,
}

impl Bins {
    const fn new(width: Nanos) -> Self {
        Self { due: OpenBin::first(width), made: OpenBin::first(width) }
    }

    const fn count(&mut self, due: Nanos, made: Nanos, into: &mut BinnedStarts) {
        self.due.count(due, &mut into.due);
        self.made.count(made, &mut into.made);
        into.displaced += (self.made.ends.0 > self.due.ends.0) as u64;
    }
}

/// The bin that time is in. The last one of a load is never closed, and so left out.
#[derive(Debug)]
struct OpenBin {
    width: Nanos,
    ends: Nanos,
    ops: u64,
}

impl OpenBin {
    /// The first one is shorter, by the golden section: operations of a metronome that are due just
    /// at a boundary would fall to either side of it by rounding.
    const fn first(width: Nanos) -> Self {
        Self { width, ends: Nanos(width.0 / 1_000_000 * 381_966), ops: 0 }
    }

    const fn count(&mut self, at: Nanos, into: &mut BinSums) {
        if at.0 >= self.ends.0 {
            let empty = (at.0 - self.ends.0) / self.width.0;
            into.add(self.ops, empty);
            self.ends = self.ends.saturating_add(Nanos((1 + empty) * self.width.0));
            self.ops = 0;
        }
        self.ops += 1;
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::observation::ArrivalSpread;
    use plimsoll_model::pace::{Arrivals, Profile, Schedule, Shard};
    use plimsoll_model::units::Rate;

    use super::*;

    const MS: u64 = 1_000_000;

    /// The starts of 10 s at `per_s` over two workers, each made when `made` says.
    fn spread(per_s: f64, arrivals: Arrivals, made: impl Fn(u64) -> u64) -> ArrivalSpread {
        let rate = Rate::per_second(per_s).expect("finite");
        let profile = std::sync::Arc::new(Profile::constant(rate, Nanos::from_secs(10)));
        let mut all = StartCounts::default();
        for index in 0..2 {
            let mut meter = StartMeter::new(Nanos(MS));
            let mut last = 0;
            let shard = Shard { index, of: 2 };
            for due in Schedule::new(profile.clone(), arrivals, shard, 7) {
                last = made(due.0).max(last);
                let mut counts = StartCounts::default();
                meter.count(due, Nanos(last), &mut counts);
                all.merge(&counts);
            }
        }
        assert_eq!(all.starts, per_s as u64 * 10);
        all.spread().expect("enough of them")
    }

    #[test]
    fn starts_on_time_are_the_process_itself() {
        for (per_s, arrivals) in [
            (50.0, Arrivals::Uniform),
            (100.0, Arrivals::Uniform),
            (50.0, Arrivals::Poisson),
            (20_000.0, Arrivals::Uniform),
            (20_000.0, Arrivals::Poisson),
        ] {
            // Within what an idle machine needs to wake a thread.
            let seen = spread(per_s, arrivals, |due| due + 50_000);
            assert_eq!(seen.gap_distance, 0.0, "{per_s} {arrivals:?}");
            assert!((seen.dispersion_10ms - 1.0).abs() < 0.1, "{per_s} {arrivals:?} {seen:?}");
            assert!((seen.dispersion_100ms - 1.0).abs() < 0.1, "{per_s} {arrivals:?} {seen:?}");
            assert!(seen.displaced_10ms < 0.02, "{per_s} {arrivals:?} {seen:?}");
        }
    }

    #[test]
    fn a_thread_that_is_stopped_for_a_second_starts_another_load() {
        let stalled =
            |due: u64| if (3_000 * MS..4_000 * MS).contains(&due) { 4_000 * MS } else { due };
        for arrivals in [Arrivals::Uniform, Arrivals::Poisson] {
            let seen = spread(1_000.0, arrivals, stalled);
            assert!((0.08..0.12).contains(&seen.displaced_100ms), "{seen:?}");
            assert!(seen.dispersion_100ms > 5.0, "{seen:?}");
        }
    }

    #[test]
    fn a_coarse_timer_spoils_the_gaps_of_a_slow_load() {
        let coarse = |due: u64| due.next_multiple_of(20 * MS);
        let seen = spread(90.0, Arrivals::Poisson, coarse);
        assert!(seen.gap_distance > 0.5, "{seen:?}");
    }
}
