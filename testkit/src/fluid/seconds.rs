//! In which seconds operations ended badly, as an observer of the load counts them.

use plimsoll_model::observation::SecondCounts;

use super::count::Counting;
use super::flow::Cursor;
use super::stretch::{crossing, walk};

/// Operations of a trial that ended badly.
pub(super) struct BySecond {
    pub(super) failed: SecondCounts,
    pub(super) late_or_lost: SecondCounts,
}

impl BySecond {
    /// Over the first `window_s` seconds, and the wait for the last answers.
    pub(super) fn of(counting: &Counting<'_>, window_s: f64) -> Self {
        let trial = counting.trial;
        let within = (window_s.ceil() as usize).max(1);
        let mut failed = Seconds::new(within);
        for (second, ops) in trial.failing_by_second.iter().take(within).enumerate() {
            failed.ops[second] += *ops as f64;
        }
        let mut before = Cursor::new(counting.flow);
        let mut last = before.at(0.0);
        for second in 0..within {
            let next = before.at((second as f64 + 1.0).min(window_s));
            let hanging = counting.timer.map_or(0.0, |timer| timer.share);
            failed.ops[second] += next.refused - last.refused + hanging * (next.sent - last.sent);
            last = next;
        }
        let mut late = Seconds::new(within);
        let rates = &trial.rates;
        walk(counting.flow, rates.offered, f64::INFINITY, |stretch| {
            let latency = stretch.corrected(trial.base_s);
            let (from, to) = match crossing(latency, counting.deadline_s) {
                Some(share) if latency.1 > latency.0 => (share, 1.0),
                Some(share) => (0.0, share),
                None if latency.0 > counting.deadline_s => (0.0, 1.0),
                None => return,
            };
            let at = if stretch.answered.1.is_finite() {
                stretch.answered
            } else {
                let (first, last) = stretch.intended;
                (first + rates.patience_s, last + rates.patience_s)
            };
            let along = |share: f64| at.0 + (at.1 - at.0) * share;
            late.spread(along(from), along(to), stretch.ops * (to - from));
        });
        late.ops.iter_mut().zip(&failed.ops).for_each(|(late, failed)| *late += failed);
        Self { failed: failed.counts(within), late_or_lost: late.counts(within) }
    }
}

/// Fractions of operations by second; a bounded wait follows the window.
struct Seconds {
    ops: Vec<f64>,
}

impl Seconds {
    /// Seconds of the wait that are told apart; what comes later is of the last one.
    const WAIT: usize = 10;

    fn new(within: usize) -> Self {
        Self { ops: vec![0.0; within + Self::WAIT] }
    }

    /// `ops` operations, evenly between two instants.
    fn spread(&mut self, from: f64, to: f64, ops: f64) {
        let last = self.ops.len() - 1;
        let length = (to - from).max(1e-9);
        let mut at = from;
        while at < to {
            let second = (at as usize).min(last);
            let end = if second == last { to } else { to.min(second as f64 + 1.0) };
            self.ops[second] += ops * (end - at) / length;
            at = end;
        }
    }

    fn counts(&self, within: usize) -> SecondCounts {
        let mut counts = SecondCounts::default();
        for (second, ops) in self.ops.iter().enumerate() {
            let ops = ops.round() as u64;
            if second < within || ops > 0 {
                counts.add(ops);
            }
        }
        counts
    }
}
