//! Operations in the order in which the server took them, in stretches over which every instant
//! of their life grows linearly.

use super::flow::Flow;

/// Operations that follow each other; each pair is (first, last), in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// Operations, not whole.
    pub(crate) ops: f64,
    pub(crate) intended: (f64, f64),
    pub(crate) sent: (f64, f64),
    /// Infinite for those that the server never got to.
    pub(crate) answered: (f64, f64),
}

impl Stretch {
    /// Returns latency from the intended start to the answer; `base_s` is the time that takes no server.
    pub(crate) fn corrected(&self, base_s: f64) -> (f64, f64) {
        (self.answered.0 - self.intended.0 + base_s, self.answered.1 - self.intended.1 + base_s)
    }

    /// Returns latency from the actual send.
    pub(crate) fn uncorrected(&self, base_s: f64) -> (f64, f64) {
        (self.answered.0 - self.sent.0 + base_s, self.answered.1 - self.sent.1 + base_s)
    }

    /// Answers per second.
    pub(crate) fn pace(&self) -> f64 {
        self.ops / (self.answered.1 - self.answered.0).max(1e-12)
    }
}

/// Returns the part of a straight line from `a` to `b` that lies above `limit`: where it begins and ends, as
/// shares of the line; `None` when no part does.
pub(crate) fn above(line: (f64, f64), limit: f64) -> Option<(f64, f64)> {
    match crossing(line, limit) {
        Some(share) if line.1 > line.0 => Some((share, 1.0)),
        Some(share) => Some((0.0, share)),
        None => (line.0 > limit).then_some((0.0, 1.0)),
    }
}

/// Returns the share of a straight line from `a` to `b` at which it passes `limit`; `None` when it does
/// not.
pub(crate) fn crossing((a, b): (f64, f64), limit: f64) -> Option<f64> {
    ((a > limit) != (b > limit)).then(|| ((limit - a) / (b - a)).clamp(0.0, 1.0))
}

/// Calls `each` for every stretch up to the operation `last`.
pub(crate) fn walk(flow: &Flow, offered: f64, last: f64, mut each: impl FnMut(&Stretch)) {
    let points = &flow.points;
    let intended = |sent: f64| sent / offered;
    let mut out = 0;
    for pair in points.windows(2) {
        let (from, to) = (pair[0], pair[1]);
        let (mut begin, end) = (from.accepted, to.accepted.min(last));
        while begin + 1e-12 < end {
            while out + 1 < points.len() && points[out + 1].answered <= begin + 1e-12 {
                out += 1;
            }
            let next = points.get(out + 1);
            let stop = next.map_or(end, |next| next.answered.min(end));
            let share = |ops: f64| (ops - from.accepted) / (to.accepted - from.accepted);
            let along = |a: f64, b: f64, ops: f64| a + (b - a) * share(ops);
            let answered = |ops: f64| {
                next.map_or(f64::INFINITY, |next| {
                    let here = points[out];
                    here.t
                        + (next.t - here.t) * (ops - here.answered)
                            / (next.answered - here.answered)
                })
            };
            let sent = |ops| along(from.t, to.t, ops);
            let due = |ops| intended(along(from.sent, to.sent, ops));
            each(&Stretch {
                ops: stop - begin,
                intended: (due(begin), due(stop)),
                sent: (sent(begin), sent(stop)),
                answered: (answered(begin), answered(stop)),
            });
            begin = stop;
        }
    }
}
