//! KPIs of section 6.3 out of the seconds of a sustain phase.

use plimsoll_model::rfc9411::{Kpis, Sample};
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
    /// Reads the seconds `from..from + seconds` of a load. Connections are the held ones if `held`, or else the ones of
    /// sessions in progress.
    pub fn of(intervals: &[Interval], from: u32, seconds: u32, held: bool) -> Self {
        let mut sustain = Tally::default();
        let mut series = Vec::new();
        let inside = from..from.saturating_add(seconds);
        for Interval { second, tally } in
            intervals.iter().filter(|one| inside.contains(&one.second))
        {
            sustain.merge_following(tally);
            let kpis = kpis(tally, concurrent(tally, held), 1.0);
            series.push(Sample { second: second - from, kpis });
        }
        let open: f64 = series.iter().map(|one| one.kpis.concurrent_tcp_connections).sum();
        let kpis = kpis(&sustain, open / series.len().max(1) as f64, f64::from(seconds.max(1)));
        Self { sustain, series, kpis }
    }
}

/// Answers with status 200.
pub(super) fn transactions(tally: &Tally) -> u64 {
    tally.answers.status.get(STATUS_OK)
}

/// Connections open in a second, on average or at its end.
fn concurrent(tally: &Tally, held: bool) -> f64 {
    let open = &tally.outstanding;
    let in_flight = mean(open.iter().map(|ops| f64::from(*ops))).filter(|_| !held);
    in_flight.unwrap_or(tally.connections.held_end as f64)
}

fn kpis(tally: &Tally, concurrent_tcp_connections: f64, seconds: f64) -> Kpis {
    let per_s = |count: u64| count as f64 / seconds;
    let spans = &tally.spans;
    Kpis {
        concurrent_tcp_connections,
        tcp_connections_per_second: per_s(tally.connections.finished),
        application_transactions_per_second: per_s(transactions(tally)),
        tls_handshake_rate: per_s(tally.handshakes.full + tally.handshakes.resumed),
        inspected_throughput_bit_s: per_s((tally.bytes.sent + tally.bytes.received) * 8),
        ttfb_rfc9411_ms: (&spans.syn_to_first_byte).into(),
        ttlb_rfc9411_ms: (&spans.syn_to_last_byte).into(),
        ttfb_request_ms: (&spans.ttfb).into(),
        ttlb_request_ms: (&spans.uncorrected).into(),
    }
}
