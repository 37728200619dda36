//! The metrics of a run: a projection of its state.
//!
//! [`RunMetrics::families`] turns a [`RunState`] into counters, gauges and histograms, which the other files of
//! `metrics/` format. Counters cover all loads since the run started and only grow. Histograms have the edges 1, 2
//! and 5 of each decade from 0.1 ms to 100 s, and the deadline. After [`RunMetrics::finish`] the offered rate is 0. A
//! gauge or counter without a point is left out. Start reading at [`RunMetrics::families`].

use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{TrialBounds, Verdict};
use plimsoll_model::{Histogram, Nanos};

use super::{Buckets, Family, Labels, Points};
use crate::archive::Manifest;
use crate::state::RunState;

/// Mantissas and decades of the edges: 0.1 ms to 100 s, in units of 0.1 ms.
const EDGES: (&[u64], u32) = (&[1, 2, 5], 6);
/// The unit of [`EDGES`].
const EDGE_UNIT: Nanos = Nanos(100_000);

/// The facts of a run that its metrics show, besides its state.
#[derive(Debug)]
pub(crate) struct RunMetrics {
    /// Labels that distinguish the run from others.
    names: Labels,
    /// An edge of the histograms.
    deadline: Option<Nanos>,
    is_finished: bool,
}

impl RunMetrics {
    /// Creates the metrics of a run that begins.
    pub(crate) fn new(manifest: &Manifest, deadline: Option<Nanos>) -> Self {
        let names = vec![
            ("command", manifest.command.clone()),
            ("run", manifest.started_at.clone()),
            ("version", manifest.plimsoll_version.clone()),
        ];
        Self { names, deadline, is_finished: false }
    }

    /// Records that the run has ended.
    pub(crate) fn finish(&mut self) {
        self.is_finished = true;
    }

    /// Returns every family, those without a value left out.
    pub(crate) fn families(&self, run: &RunState) -> Vec<Family> {
        let total = run.total();
        let mut all = self.of_run(run);
        all.extend(self.of_operations(&total));
        all.extend(of_connections(&total));
        all.retain(|family| match &family.points {
            Points::Counter(points) | Points::Gauge(points) => !points.is_empty(),
            Points::Histogram(_) => true,
        });
        all
    }

    fn of_run(&self, run: &RunState) -> Vec<Family> {
        let trial =
            run.trial.map(|trial| (label("phase", trial.phase.name()), trial.number.into()));
        let verdicts = [Verdict::Good, Verdict::Bad, Verdict::Invalid].into_iter();
        let judged =
            verdicts.map(|verdict| (label("verdict", verdict.name()), run.judged(verdict) as f64));
        let last = run.second.as_ref().filter(|_| !self.is_finished);
        let offered = last.map_or(0.0, |second| second.tally.scheduled as f64);
        let (TrialBounds { good_max, bad_min }, safe) = run.known();
        let bounds = [("lower", good_max), ("upper", bad_min), ("safe", safe)];
        let bounds = bounds.into_iter();
        let bounds = bounds.filter_map(|(end, rate)| Some((label("bound", end), rate?.get())));
        vec![
            gauge("run_info", "1, with labels that identify this run", [(self.names.clone(), 1.0)]),
            gauge(
                "run_finished",
                "1 once the run has ended and nothing changes any more",
                [(Vec::new(), f64::from(u8::from(self.is_finished)))],
            ),
            gauge(
                "offered_rate",
                "Operations that came due in the last second",
                [(Vec::new(), offered)],
            ),
            gauge("trial", "Number of the trial that runs, by phase of the search", trial),
            counter("trials_total", "Trials judged, by verdict", judged),
            gauge(
                "bound",
                "What a search knows so far: the ends of its interval, or the highest load that met the SLO and the lowest that missed it; and the safe load",
                bounds,
            ),
        ]
    }

    fn of_operations(&self, total: &Tally) -> Vec<Family> {
        let ended = [
            (label("outcome", "ok"), total.ok as f64),
            (label("outcome", "unsent"), total.unsent as f64),
        ];
        let failed = total.failures.operations.iter().map(|(class, count)| {
            let labels = vec![("outcome", "error".to_owned()), ("class", class.name().to_owned())];
            (labels, count as f64)
        });
        let bytes = [
            (label("direction", "transmit"), total.bytes.sent as f64),
            (label("direction", "receive"), total.bytes.received as f64),
        ];
        let spans = &total.spans;
        vec![
            plain("operations_scheduled_total", "Operations that came due", total.scheduled),
            counter(
                "operations_total",
                "Operations that ended: ok, unsent, or an error of a class",
                ended.into_iter().chain(failed),
            ),
            plain(
                "operations_late_total",
                "Operations that were ok after the deadline",
                total.late,
            ),
            counter("bytes_total", "Bytes of the load's sockets, TLS included", bytes),
            self.histogram(
                "latency_seconds",
                "Corrected latency: intended start to end of the answer, of ok operations",
                &spans.corrected,
            ),
            self.histogram(
                "latency_uncorrected_seconds",
                "Latency from the actual send, of ok operations",
                &spans.uncorrected,
            ),
            self.histogram(
                "send_lag_seconds",
                "Delay that plimsoll added before it sent an operation",
                &spans.send_lag,
            ),
        ]
    }

    fn histogram(&self, name: &'static str, help: &'static str, of: &Histogram) -> Family {
        let count = of.count();
        let at_most = |edge: Nanos| (edge.as_secs_f64(), count - of.count_above(edge));
        let buckets = Buckets {
            at_most: edges(self.deadline).into_iter().map(at_most).collect(),
            count,
            sum: of.mean().map_or(0.0, Nanos::as_secs_f64) * count as f64,
        };
        Family { name, help, points: Points::Histogram(buckets) }
    }
}

fn of_connections(total: &Tally) -> Vec<Family> {
    let connections = &total.connections;
    let handshakes = &total.handshakes;
    let lost = [("reset", connections.reset_by_peer), ("close", connections.closed_by_peer)];
    let by_kind =
        [("full", handshakes.full), ("resumed", handshakes.resumed), ("failed", handshakes.failed)];
    vec![
        gauge(
            "connections",
            "Connections that are usable, counted at the client's end",
            [(Vec::new(), connections.held_end as f64)],
        ),
        plain("connections_opened_total", "Connections that became usable", connections.opened),
        plain(
            "connections_failed_total",
            "Connections that ended before they were usable",
            connections.failed,
        ),
        counter(
            "connections_lost_total",
            "Usable connections that the server ended, by reset or by close",
            lost.map(|(by, count)| (label("by", by), count as f64)),
        ),
        counter(
            "handshakes_total",
            "TLS handshakes: full, resumed or failed",
            by_kind.map(|(kind, count)| (label("kind", kind), count as f64)),
        ),
    ]
}

/// Returns the edges of histograms: 0.1 ms, 0.2 ms, 0.5 ms, … 100 s, and the deadline.
fn edges(deadline: Option<Nanos>) -> Vec<Nanos> {
    let (mantissas, decades) = EDGES;
    let decades = (0..decades).map(|decade| 10_u64.pow(decade));
    let below = decades.flat_map(|ten| mantissas.iter().map(move |mantissa| mantissa * ten));
    let last = 10_u64.pow(EDGES.1);
    let mut edges: Vec<Nanos> =
        below.chain([last]).map(|units| Nanos(units * EDGE_UNIT.0)).chain(deadline).collect();
    edges.sort();
    edges.dedup();
    edges
}

fn label(name: &'static str, value: &str) -> Labels {
    vec![(name, value.to_owned())]
}

fn gauge(
    name: &'static str,
    help: &'static str,
    points: impl IntoIterator<Item = (Labels, f64)>,
) -> Family {
    Family { name, help, points: Points::Gauge(points.into_iter().collect()) }
}

fn counter(
    name: &'static str,
    help: &'static str,
    points: impl IntoIterator<Item = (Labels, f64)>,
) -> Family {
    Family { name, help, points: Points::Counter(points.into_iter().collect()) }
}

/// Returns a counter of one series.
fn plain(name: &'static str, help: &'static str, count: u64) -> Family {
    counter(name, help, [(Vec::new(), count as f64)])
}
