//! KPIs of section 6.3 out of the seconds of a sustain phase.

use plimsoll_model::Nanos;
use plimsoll_model::rfc9411::{Kpis, Sample};
use plimsoll_model::tally::{Interval, Tally};

/// The status that a transaction must have; redirects do not count.
const STATUS_OK: u16 = 200;

/// What the sustain phase showed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Its seconds added up.
    pub sustain: Tally,
    /// Each of them.
    pub series: Vec<Sample>,
    /// The KPIs over all of them.
    pub kpis: Kpis,
}

impl Observed {
    /// Of the seconds `from..from + seconds` of a load. `held`: connections are those held, else
    /// those of sessions under way.
    pub fn of(intervals: &[Interval], from: u32, seconds: u32, held: bool) -> Self {
        let mut sustain = Tally::default();
        let mut series = Vec::new();
        let inside = from..from.saturating_add(seconds);
        for interval in intervals.iter().filter(|interval| inside.contains(&interval.second)) {
            sustain.merge_following(&interval.tally);
            series.push(sample(&interval.tally, interval.second - from, held));
        }
        let kpis = kpis(&sustain, &series, f64::from(seconds.max(1)));
        Self { sustain, series, kpis }
    }

    /// Bits on the wire per transaction; `None` without one.
    pub fn bits_per_transaction(&self) -> Option<f64> {
        let transactions = self.kpis.application_transactions_per_second;
        (transactions > 0.0).then(|| self.kpis.inspected_throughput_bit_s / transactions)
    }
}

/// Answers with status 200.
pub(super) fn transactions(tally: &Tally) -> u64 {
    tally.status.iter().filter(|(status, _)| *status == STATUS_OK).map(|(_, count)| count).sum()
}

fn bits(tally: &Tally) -> f64 {
    (tally.bytes.sent + tally.bytes.received) as f64 * 8.0
}

fn sample(tally: &Tally, second: u32, held: bool) -> Sample {
    let spans = &tally.spans;
    let avg = |mean: Option<Nanos>| mean.map(Nanos::as_millis_f64);
    let gauge = &tally.outstanding;
    let open = gauge.iter().map(|ops| f64::from(*ops)).sum::<f64>() / gauge.len().max(1) as f64;
    Sample {
        second,
        concurrent_tcp_connections: if held || gauge.is_empty() {
            tally.connections.held_end as f64
        } else {
            open
        },
        tcp_connections_per_second: tally.connections.finished as f64,
        application_transactions_per_second: transactions(tally) as f64,
        tls_handshake_rate: (tally.handshakes.full + tally.handshakes.resumed) as f64,
        inspected_throughput_bit_s: bits(tally),
        ttfb_rfc9411_avg_ms: avg(spans.syn_to_first_byte.mean()),
        ttlb_rfc9411_avg_ms: avg(spans.syn_to_last_byte.mean()),
        ttfb_request_avg_ms: avg(spans.ttfb.mean()),
    }
}

fn kpis(sustain: &Tally, series: &[Sample], seconds: f64) -> Kpis {
    let concurrent: f64 = series.iter().map(|sample| sample.concurrent_tcp_connections).sum();
    let spans = &sustain.spans;
    Kpis {
        concurrent_tcp_connections: concurrent / series.len().max(1) as f64,
        tcp_connections_per_second: sustain.connections.finished as f64 / seconds,
        application_transactions_per_second: transactions(sustain) as f64 / seconds,
        tls_handshake_rate: (sustain.handshakes.full + sustain.handshakes.resumed) as f64 / seconds,
        inspected_throughput_bit_s: bits(sustain) / seconds,
        ttfb_rfc9411_ms: (&spans.syn_to_first_byte).into(),
        ttlb_rfc9411_ms: (&spans.syn_to_last_byte).into(),
        ttfb_request_ms: (&spans.ttfb).into(),
        ttlb_request_ms: (&spans.uncorrected).into(),
    }
}
