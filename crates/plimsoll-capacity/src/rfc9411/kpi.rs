//! KPIs of section 6.3 out of the seconds of a sustain phase.

use plimsoll_model::rfc9411::{Kpis, Rates, Sample};
use plimsoll_model::tally::{Interval, Tally};

use crate::stats::mean;

/// The status that a transaction must have; redirects do not count.
const STATUS_OK: u16 = 200;

/// Figures of the sustain phase.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SustainFigures {
    /// All seconds of the phase.
    pub sustain: Tally,
    /// Each second.
    pub series: Vec<Sample>,
    /// The KPIs over the whole phase.
    pub kpis: Kpis,
}

impl SustainFigures {
    /// Reads the seconds `from..from + seconds` of a load. Connections are the held ones if `held`, and else those of
    /// sessions under way.
    pub fn of(intervals: &[Interval], from: u32, seconds: u32, held: bool) -> Self {
        let mut sustain = Tally::default();
        let mut series = Vec::new();
        let inside = from..from.saturating_add(seconds);
        for interval in intervals.iter().filter(|interval| inside.contains(&interval.second)) {
            sustain.merge_following(&interval.tally);
            series.push(sample(&interval.tally, interval.second - from, held));
        }
        let open: f64 = series.iter().map(|one| one.rates.concurrent_tcp_connections).sum();
        let kpis = kpis(&sustain, open / series.len().max(1) as f64, f64::from(seconds.max(1)));
        Self { sustain, series, kpis }
    }

    /// Bits on the wire per transaction; 0 without one.
    pub(super) fn bits_per_transaction(&self) -> f64 {
        let rates = &self.kpis.rates;
        let transactions = rates.application_transactions_per_second;
        if transactions > 0.0 { rates.inspected_throughput_bit_s / transactions } else { 0.0 }
    }
}

/// Answers with status 200.
pub(super) fn transactions(tally: &Tally) -> u64 {
    tally.answers.status.get(STATUS_OK)
}

fn sample(tally: &Tally, second: u32, held: bool) -> Sample {
    let open = &tally.outstanding;
    let in_flight = mean(open.iter().map(|ops| f64::from(*ops))).filter(|_| !held);
    let concurrent = in_flight.unwrap_or(tally.connections.held_end as f64);
    let kpis = kpis(tally, concurrent, 1.0);
    Sample {
        second,
        rates: kpis.rates,
        ttfb_rfc9411_avg_ms: kpis.ttfb_rfc9411_ms.avg,
        ttlb_rfc9411_avg_ms: kpis.ttlb_rfc9411_ms.avg,
        ttfb_request_avg_ms: kpis.ttfb_request_ms.avg,
    }
}

fn kpis(tally: &Tally, concurrent: f64, seconds: f64) -> Kpis {
    let per_s = |count: u64| count as f64 / seconds;
    let spans = &tally.spans;
    Kpis {
        rates: Rates {
            concurrent_tcp_connections: concurrent,
            tcp_connections_per_second: per_s(tally.connections.finished),
            application_transactions_per_second: per_s(transactions(tally)),
            tls_handshake_rate: per_s(tally.handshakes.full + tally.handshakes.resumed),
            inspected_throughput_bit_s: per_s((tally.bytes.sent + tally.bytes.received) * 8),
        },
        ttfb_rfc9411_ms: (&spans.syn_to_first_byte).into(),
        ttlb_rfc9411_ms: (&spans.syn_to_last_byte).into(),
        ttfb_request_ms: (&spans.ttfb).into(),
        ttlb_request_ms: (&spans.uncorrected).into(),
    }
}
