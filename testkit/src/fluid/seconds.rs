//! In which seconds operations were sent and ended, as an observer of the load counts them.

use plimsoll_model::observation::SecondCounts;
use plimsoll_model::trial::TrialSecond;

use super::Trial;
use super::count::{Counting, Whole};
use super::flow::Cursor;
use super::stretch::{Stretch, above, walk};

/// A last second that was cut shorter than this shows nothing.
const PART_MIN_S: f64 = 0.2;

/// Operations of a trial by the second in which they were sent or ended.
pub(super) struct BySecond {
    pub(super) failed: SecondCounts,
    pub(super) late_or_lost: SecondCounts,
    /// Seconds of the window, the last one perhaps cut short, without witnesses.
    pub(super) seconds: Vec<TrialSecond>,
}

impl BySecond {
    /// Over the first `window_s` seconds, and the wait for the last answers.
    pub(super) fn of(counting: &Counting<'_>, window_s: f64) -> Self {
        let trial = counting.trial;
        let within = (window_s.ceil() as usize).max(1);
        let (mut sent, mut failed) = (Seconds::new(within), Seconds::new(within));
        for (second, ops) in trial.failing_by_second.iter().take(within).enumerate() {
            failed.ops[second] += *ops as f64;
        }
        let mut before = Cursor::new(counting.flow);
        let (mut last, mut sent_before) = (before.at(0.0), 0.0);
        for second in 0..within {
            let next = before.at((second as f64 + 1.0).min(window_s));
            let hanging = counting.timer.map_or(0.0, |timer| timer.share);
            failed.ops[second] += next.refused - last.refused + hanging * (next.sent - last.sent);
            let upto = (1.0 - counting.local_share) * counting.sent_by_pool(&next);
            sent.ops[second] = upto - sent_before;
            (last, sent_before) = (next, upto);
        }
        let (mut ok, mut late) = (Seconds::new(within), Seconds::new(within));
        walk(counting.flow, trial.rates.offered, f64::INFINITY, |stretch| {
            ok.spread_ok(stretch, trial);
            late.spread_late(stretch, trial, counting.deadline_s);
        });
        late.ops.iter_mut().zip(&failed.ops).for_each(|(late, failed)| *late += failed);
        let (mut whole_sent, mut whole_ok) = (Whole::default(), Whole::default());
        let seconds = (0..(window_s + 1.0 - PART_MIN_S) as usize).map(|second| TrialSecond {
            sent: whole_sent.take(sent.ops[second]),
            ok: whole_ok.take(ok.ops[second]),
            bad: late.ops[second].round() as u64,
            ..TrialSecond::default()
        });
        Self {
            seconds: seconds.collect(),
            failed: failed.counts(within),
            late_or_lost: late.counts(within),
        }
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

    /// Adds `ops` operations, evenly between two instants.
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

    /// Adds the operations of a stretch that the server answers within the client's patience, where their
    /// answers arrive.
    fn spread_ok(&mut self, stretch: &Stretch, trial: &Trial) {
        let latency = stretch.corrected(trial.base_s);
        let (from, to) = above(latency, trial.rates.patience_s).unwrap_or((1.0, 1.0));
        let (first, last) = stretch.answered;
        let arrives = |share: f64| first + (last - first) * share + trial.base_s;
        for (from, to) in [(0.0, from), (to, 1.0)] {
            if to > from {
                self.spread(arrives(from), arrives(to), stretch.ops * (to - from));
            }
        }
    }

    /// Adds the operations of a stretch that are late at the deadline or never answered.
    fn spread_late(&mut self, stretch: &Stretch, trial: &Trial, deadline_s: f64) {
        let Some((from, to)) = above(stretch.corrected(trial.base_s), deadline_s) else { return };
        let at = if stretch.answered.1.is_finite() {
            stretch.answered
        } else {
            let (first, last) = stretch.intended;
            (first + trial.rates.patience_s, last + trial.rates.patience_s)
        };
        let along = |share: f64| at.0 + (at.1 - at.0) * share;
        self.spread(along(from), along(to), stretch.ops * (to - from));
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
