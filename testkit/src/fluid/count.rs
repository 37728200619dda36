//! From curves to a tally: the operations that were ok, late, failed or unsent, and their spans.
//!
//! `Counting::count` walks the curves of a finished flow stretch by stretch. Within a stretch the latency is a
//! straight line; the stretch is divided where this line crosses the deadline, the patience or the limit of the pool,
//! and each part is counted as one kind. `Whole` turns fractions into whole operations and preserves the sum. The
//! histograms get each line in at most 64 steps. `Counting::cut` finds the instant at which a trial is aborted. Start
//! with `Counting::count`.

use fastrand::Rng;

use plimsoll_model::tally::Tally;
use plimsoll_model::{ErrorClass, Histogram, Nanos};

use crate::anomalies::HiddenTimer;

use super::Trial;
use super::flow::{Cursor, Flow, Point, seconds};
use super::stretch::{Stretch, above, crossing, walk};

/// Steps in which a ramp of latencies is recorded, at most.
const STEPS_MAX: f64 = 64.0;
/// Ramps are cut into steps of this share of their value, but none shorter than this.
const STEP_SHARE: f64 = 0.04;
const STEP_MIN_S: f64 = 0.0005;
/// Delay that a healthy generator adds to a send: (share of sends, least and most seconds).
const QUIET_LAG: [(f64, f64, f64); 3] =
    [(0.99, 12e-6, 40e-6), (0.0092, 80e-6, 250e-6), (0.0008, 0.3e-3, 1.5e-3)];

/// All that decides what a curve is counted as.
pub(super) struct Counting<'a> {
    pub(super) trial: &'a Trial,
    pub(super) flow: &'a Flow,
    pub(super) deadline_s: f64,
    /// Connections.
    pub(super) pool: f64,
    /// `true` if requests without a place are dropped, not refused.
    pub(super) drops: bool,
    /// Share of operations that fail on this machine.
    pub(super) local_share: f64,
    pub(super) timer: Option<HiddenTimer>,
}

/// Turns fractions of operations into whole ones; the sum is kept.
#[derive(Default)]
pub(super) struct Whole {
    sum: f64,
    given: u64,
}

impl Whole {
    pub(super) fn take(&mut self, ops: f64) -> u64 {
        self.sum += ops.max(0.0);
        let upto = (self.sum + 1e-6) as u64;
        let ops = upto.saturating_sub(self.given);
        self.given += ops;
        ops
    }
}

fn span(s: f64) -> Nanos {
    Nanos::from_secs_f64(s)
}

/// Records a straight line of latencies, `ops` of them.
fn record_ramp(into: &mut Histogram, (a, b): (f64, f64), ops: u64) {
    let step = (STEP_SHARE * a.min(b)).max(STEP_MIN_S);
    let steps = ((b - a).abs() / step).ceil().clamp(1.0, STEPS_MAX).min(ops.max(1) as f64);
    let mut whole = Whole::default();
    for index in 0..steps as u64 {
        let middle = a + (b - a) * (index as f64 + 0.5) / steps;
        let count = if index + 1 == steps as u64 {
            ops - whole.given
        } else {
            whole.take(ops as f64 / steps)
        };
        if count > 0 {
            into.record_n(span(middle), count);
        }
    }
}

impl Counting<'_> {
    /// Returns the number of operations that found a free connection up to a point.
    pub(super) fn sent_by_pool(&self, point: &Point) -> f64 {
        let free_again = point.answered + (point.sent - point.accepted);
        point.sent.min(free_again + self.pool)
    }

    /// Returns the time at which bad operations exceed `most`, if that is within the window.
    pub(super) fn cut(&self, most: f64) -> Option<f64> {
        let rates = &self.trial.rates;
        let (mut bad, mut cut) = (0.0, f64::INFINITY);
        walk(self.flow, rates.offered, f64::INFINITY, |stretch| {
            if cut.is_finite() {
                return;
            }
            let latency = stretch.corrected(self.trial.base_s);
            let Some((from, to)) = above(latency, self.deadline_s) else { return };
            let here = stretch.ops * (to - from);
            if bad + here > most {
                let share = from + (to - from) * (most - bad) / here;
                let (a, b) = stretch.intended;
                // A late operation shows itself when its deadline passes.
                cut = a + (b - a) * share + self.deadline_s;
            }
            bad += here;
        });
        let refused = self.flow.points.windows(2).find(|pair| pair[1].refused > most);
        if let Some([from, to]) = refused {
            let share = (most - from.refused) / (to.refused - from.refused);
            let wait = if self.drops { rates.patience_s } else { self.trial.base_s };
            cut = cut.min(from.t + (to.t - from.t) * share + wait);
        }
        (cut < rates.window_s).then_some(cut)
    }

    /// Counts every operation as it stands at `cut`, or at its end.
    pub(super) fn count(&self, tally: &mut Tally, cut: Option<f64>, rng: &mut Rng) {
        let rates = &self.trial.rates;
        let ends = cut.unwrap_or(f64::INFINITY);
        let now = Cursor::new(self.flow).at(ends.min(rates.window_s + rates.patience_s));
        let before = Cursor::new(self.flow).at((ends - self.trial.base_s).clamp(0.0, 1e9));
        tally.scheduled = match cut {
            Some(cut) => (rates.offered * cut) as u64,
            None => (rates.offered * seconds(self.trial.duration)).round() as u64,
        };
        let mut whole = Whole::default();
        let local = whole.take(now.sent * self.local_share);
        if local > 0 {
            tally.failures.operations.add(ErrorClass::LocalPorts, local);
        }
        self.count_refused(
            tally,
            &mut whole,
            if self.drops { ends } else { f64::INFINITY },
            &before,
        );
        self.count_hanging(tally, &mut whole, ends);
        let failing = whole.take(now.sent * self.trial.failing * (1.0 - self.local_share));
        if failing > 0 {
            tally.failures.operations.add(ErrorClass::Status5xx, failing);
        }
        let last = if cut.is_some() { before.answered } else { f64::INFINITY };
        walk(self.flow, rates.offered, last, |stretch| {
            self.count_stretch(tally, &mut whole, stretch)
        });
        if cut.is_none() {
            // The operation that rounding left over is an ordinary one.
            let counted = tally.ok + tally.errors_total() + tally.unsent;
            let left = tally.scheduled.saturating_sub(counted);
            tally.ok += left;
            if left > 0 {
                tally.spans.corrected.record_n(span(self.trial.base_s), left);
                tally.spans.uncorrected.record_n(span(self.trial.base_s), left);
            }
        }
        self.count_lag(tally, now.sent, rng);
    }

    fn count_refused(&self, tally: &mut Tally, whole: &mut Whole, ends: f64, before: &Point) {
        let rates = &self.trial.rates;
        let refused = if self.drops {
            Cursor::new(self.flow).at((ends - rates.patience_s).clamp(0.0, 1e9)).refused
        } else {
            before.refused
        };
        let ops = whole.take(refused);
        let class = if self.drops { ErrorClass::Timeout } else { ErrorClass::Status5xx };
        if ops > 0 {
            tally.failures.operations.add(class, ops);
        }
    }

    /// Counts operations ended by a timer of the server, or by the client's timeout if that is shorter.
    fn count_hanging(&self, tally: &mut Tally, whole: &mut Whole, ends: f64) {
        let Some(timer) = self.timer else { return };
        let patience_s = self.trial.patience_s;
        let after = seconds(timer.after);
        let sent = Cursor::new(self.flow).at((ends - after.min(patience_s)).clamp(0.0, 1e9)).sent;
        let ops = whole.take(sent * timer.share * (1.0 - self.local_share));
        let class = if after <= patience_s { ErrorClass::Status5xx } else { ErrorClass::Timeout };
        if ops > 0 {
            tally.failures.operations.add(class, ops);
        }
    }

    fn count_stretch(&self, tally: &mut Tally, whole: &mut Whole, stretch: &Stretch) {
        let latency = stretch.corrected(self.trial.base_s);
        let patience_s = self.trial.patience_s;
        // With every connection busy an operation waits here, and is sent when one is free.
        let inside_max = self.pool / stretch.pace();
        let inside = stretch.uncorrected(self.trial.base_s);
        let mut cuts = [0.0, 1.0, 1.0, 1.0, 1.0];
        if latency.1.is_finite() {
            cuts[1] = crossing(latency, self.deadline_s).unwrap_or(1.0);
            cuts[2] = crossing(latency, patience_s).unwrap_or(1.0);
            cuts[3] = crossing(inside, inside_max).unwrap_or(1.0);
            cuts.sort_by(f64::total_cmp);
        }
        let along = |(a, b): (f64, f64), share: f64| if a == b { a } else { a + (b - a) * share };
        for pair in cuts.windows(2).filter(|pair| pair[1] > pair[0]) {
            let part = |line| (along(line, pair[0]), along(line, pair[1]));
            let ops = whole.take(stretch.ops * (pair[1] - pair[0]));
            if ops == 0 {
                continue;
            }
            let (corrected, server) = (part(latency), part(inside));
            let middle = 0.5 * (server.0 + server.1);
            if middle > inside_max * (1.0 + 1e-6) {
                tally.pool_exhausted += ops;
            }
            if !latency.1.is_finite() || 0.5 * (corrected.0 + corrected.1) > patience_s {
                if middle.is_finite() && middle - inside_max > patience_s {
                    tally.unsent += ops;
                } else {
                    tally.failures.operations.add(ErrorClass::Timeout, ops);
                }
                continue;
            }
            tally.ok += ops;
            tally.late += if 0.5 * (corrected.0 + corrected.1) > self.deadline_s { ops } else { 0 };
            record_ramp(&mut tally.spans.corrected, corrected, ops);
            let server = (server.0.min(inside_max), server.1.min(inside_max));
            record_ramp(&mut tally.spans.uncorrected, server, ops);
        }
    }

    fn count_lag(&self, tally: &mut Tally, sent: f64, rng: &mut Rng) {
        let offered = self.trial.rates.offered;
        let lag = &mut tally.spans.send_lag;
        let (mut quiet, mut whole) = (0.0, Whole::default());
        for pair in self.flow.points.windows(2) {
            let (from, to) = (pair[0], pair[1]);
            let upto = to.sent.min(sent);
            if upto <= from.sent {
                continue;
            }
            let share = (upto - from.sent) / (to.sent - from.sent);
            let end_t = from.t + (to.t - from.t) * share;
            let ramp = ((from.t - from.sent / offered).max(0.0), (end_t - upto / offered).max(0.0));
            if ramp.0.max(ramp.1) < 1e-6 {
                quiet += upto - from.sent;
            } else {
                record_ramp(lag, ramp, whole.take(upto - from.sent));
            }
        }
        for (share, least, most) in QUIET_LAG {
            // A fraction of an operation is one by chance.
            let ops = (quiet * share + rng.f64()) as u64;
            for part in 0..4 {
                let count = (ops + part) / 4;
                if count > 0 {
                    lag.record_n(span(least + (most - least) * rng.f64()), count);
                }
            }
        }
    }
}
