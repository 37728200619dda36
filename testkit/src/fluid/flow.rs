//! Queues as curves: cumulative counts of operations that came due, were sent, accepted, answered
//! and refused, as polylines over time.
//!
//! ```text
//! due --(generator: its rate, its pauses)--> sent --(share that is no error)--> accepted
//!     --(server: its capacity at that time, or the pool's, whichever is smaller)--> answered
//! ```
//!
//! Between two points every rate is constant, so the curves are exact for equal gaps and a fixed
//! time per request, but for the last single operation.

use plimsoll_model::Nanos;

use crate::anomalies::Metastable;

use super::slices::Slices;

/// Operations below this are none: rounding.
const NONE: f64 = 1e-9;

/// All rates of one trial; seconds and operations per second.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    pub(crate) offered: f64,
    pub(crate) window_s: f64,
    /// Time for which the server continues after the window.
    pub(crate) patience_s: f64,
    pub(crate) generator: f64,
    pub(crate) pause: Option<(f64, f64)>,
    /// Fraction of sent operations that enter the server's queue.
    pub(crate) accepted: f64,
    /// Capacity of the server in this trial.
    pub(crate) capacity: f64,
    /// Factors of the capacity.
    pub(crate) slices: Slices,
    /// In the order of time.
    pub(crate) stalls: Vec<(f64, f64)>,
    /// Rate that the pool's connections can carry.
    pub(crate) pool: f64,
    /// Operations in the server beyond which it refuses.
    pub(crate) queue_max: Option<f64>,
    pub(crate) metastable: Option<Metastable>,
    /// `true` if the server is slow from the start.
    pub(crate) collapsed: bool,
    /// The end of that, seconds.
    pub(crate) healed_s: f64,
}

/// Cumulative counts at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Point {
    pub(crate) t: f64,
    pub(crate) due: f64,
    pub(crate) sent: f64,
    pub(crate) accepted: f64,
    pub(crate) answered: f64,
    pub(crate) refused: f64,
    /// Time that the server worked within the window, seconds.
    pub(crate) busy_s: f64,
}

/// Rates, operations per second.
struct Pace {
    due: f64,
    sent: f64,
    accepted: f64,
    answered: f64,
    refused: f64,
    /// The server refuses what it has no place for.
    full: bool,
    /// Share of the time in which the server works; 0 after the window.
    busy: f64,
}

impl Point {
    /// Returns the number of operations due and not sent.
    fn waiting(&self) -> f64 {
        self.due - self.sent
    }

    /// Returns the number of operations in the server's queue.
    fn inside(&self) -> f64 {
        self.accepted - self.answered
    }

    fn after(&self, pace: &Pace, dt: f64) -> Self {
        let due = self.due + pace.due * dt;
        let accepted = self.accepted + pace.accepted * dt;
        Self {
            t: self.t + dt,
            due,
            // Rounding must not make more of what came before it.
            sent: (self.sent + pace.sent * dt).min(due),
            accepted,
            answered: (self.answered + pace.answered * dt).min(accepted),
            refused: self.refused + pace.refused * dt,
            busy_s: self.busy_s + pace.busy * dt,
        }
    }

    pub(crate) fn between(&self, next: &Self, t: f64) -> Self {
        let share = if next.t > self.t { ((t - self.t) / (next.t - self.t)).min(1.0) } else { 1.0 };
        let mix = |a: f64, b: f64| a + (b - a) * share;
        Self {
            t,
            due: mix(self.due, next.due),
            sent: mix(self.sent, next.sent),
            accepted: mix(self.accepted, next.accepted),
            answered: mix(self.answered, next.answered),
            refused: mix(self.refused, next.refused),
            busy_s: mix(self.busy_s, next.busy_s),
        }
    }
}

/// A whole trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    /// In the order of time; the first is the origin.
    pub(crate) points: Vec<Point>,
    /// When the server collapsed in this trial.
    pub(crate) collapsed_at: Option<f64>,
}

impl Flow {
    /// Returns the time that the server worked within the window, seconds.
    pub(crate) fn busy_s(&self) -> f64 {
        self.points.last().map_or(0.0, |point| point.busy_s)
    }
}

impl Rates {
    fn is_in(span: Option<(f64, f64)>, t: f64) -> bool {
        span.is_some_and(|(from, to)| (from..to).contains(&t))
    }

    /// Returns the next instant after `t` at which a rate changes.
    fn edge(&self, t: f64) -> f64 {
        let mut edge = if t < self.window_s { self.window_s } else { f64::INFINITY };
        for (from, to) in self.pause.into_iter().chain(self.stalls.iter().copied()) {
            for at in [from, to] {
                edge = if at > t { edge.min(at) } else { edge };
            }
        }
        if self.healed_s > t {
            edge = edge.min(self.healed_s);
        }
        edge.min(self.slices.edge(t).unwrap_or(f64::INFINITY))
    }

    /// Runs the trial.
    pub(crate) fn flow(&self) -> Flow {
        let mut flow = Flow { points: vec![Point::default()], ..Flow::default() };
        let mut now = Point::default();
        let (mut collapsed, end) = (self.collapsed, self.window_s + self.patience_s);
        while now.t < end {
            if collapsed && flow.collapsed_at.is_none() && now.t >= self.healed_s {
                collapsed = false;
            }
            if now.t >= self.window_s && now.waiting() < NONE && now.inside() < NONE {
                break;
            }
            let pace = self.pace(&now, collapsed);
            let (dt, tips) = self.step(&now, &pace, end, collapsed);
            now = now.after(&pace, dt);
            flow.points.push(now);
            if tips {
                collapsed = true;
                flow.collapsed_at = Some(now.t);
            }
        }
        flow
    }

    /// Returns every rate from `now` until something changes.
    fn pace(&self, now: &Point, collapsed: bool) -> Pace {
        let slow = self.metastable.filter(|_| collapsed).map_or(1.0, |m| m.slow);
        let stalled = self.stalls.iter().any(|span| Self::is_in(Some(*span), now.t));
        let capacity = if stalled { 0.0 } else { self.capacity * self.slices.at(now.t) * slow };
        let server = capacity.min(self.pool);
        let generator = if Self::is_in(self.pause, now.t) { 0.0 } else { self.generator };
        let due = if now.t < self.window_s { self.offered } else { 0.0 };
        let sent = if now.waiting() > NONE { generator } else { due.min(generator) };
        let wanted = sent * self.accepted;
        let inside = now.inside();
        let full = self.queue_max.is_some_and(|max| inside >= max - NONE) && wanted > server;
        let accepted = if full { server } else { wanted };
        let answered = if inside > NONE { server } else { accepted.min(server) };
        let works = now.t < self.window_s && capacity > 0.0;
        let busy = if works { (answered / capacity).min(1.0) } else { 0.0 };
        Pace { due, sent, accepted, answered, refused: wanted - accepted, full, busy }
    }

    /// Returns the time for which those rates hold, and whether the server collapses then.
    fn step(&self, now: &Point, pace: &Pace, end: f64, collapsed: bool) -> (f64, bool) {
        let (waiting, inside) = (now.waiting(), now.inside());
        let grows = pace.accepted - pace.answered;
        let mut dt = self.edge(now.t).min(end) - now.t;
        if waiting > NONE && pace.sent > pace.due {
            dt = dt.min(waiting / (pace.sent - pace.due));
        }
        if inside > NONE && grows < 0.0 {
            dt = dt.min(inside / -grows);
        }
        if let Some(max) = self.queue_max.filter(|max| !pace.full && grows > 0.0 && inside < *max) {
            dt = dt.min((max - inside) / grows);
        }
        let healthy = self.capacity * self.slices.at(now.t);
        let tips = self.metastable.filter(|_| !collapsed && grows > 0.0);
        let tips = tips.map(|m| (seconds(m.queue) * healthy - inside).max(0.0) / grows);
        (dt.min(tips.unwrap_or(f64::INFINITY)).max(1e-9), tips.is_some_and(|after| after <= dt))
    }
}

pub(crate) fn seconds(span: Nanos) -> f64 {
    span.as_secs_f64()
}

/// Reads a flow at instants that only grow.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    points: &'a [Point],
    index: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(flow: &'a Flow) -> Self {
        Self { points: &flow.points, index: 0 }
    }

    pub(crate) fn at(&mut self, t: f64) -> Point {
        while self.index + 1 < self.points.len() && self.points[self.index + 1].t <= t {
            self.index += 1;
        }
        let here = self.points[self.index];
        match self.points.get(self.index + 1) {
            Some(next) => here.between(next, t.max(here.t)),
            None => Point { t, ..here },
        }
    }
}
