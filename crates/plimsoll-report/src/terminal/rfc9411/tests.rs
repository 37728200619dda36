//! Golden pages of a case.

use std::collections::BTreeMap;

use plimsoll_model::criterion::Criterion;
use plimsoll_model::result::RunResult;
use plimsoll_model::rfc9411::{Case, Isolation, OtherKpi, Sample, Step};
use plimsoll_model::summary::TimerSummary;
use plimsoll_model::trial::{Check, Measure, Verdict};

use super::*;
use crate::fixtures;
use crate::fixtures::golden;

fn kpis() -> Kpis {
    let ms = |min, avg, max| MinAvgMax { min: Some(min), avg: Some(avg), max: Some(max) };
    Kpis {
        concurrent_tcp_connections: 12.4,
        tcp_connections_per_second: 4_519.8,
        application_transactions_per_second: 4_519.9,
        tls_handshake_rate: 4_519.8,
        inspected_throughput_bit_s: 52_310_400.0,
        ttfb_rfc9411_ms: ms(0.71, 1.42, 9.8),
        ttlb_rfc9411_ms: ms(0.74, 1.48, 9.9),
        ttfb_request_ms: ms(0.11, 0.32, 7.1),
        ttlb_request_ms: ms(0.14, 0.39, 7.2),
    }
}

fn criterion(criterion: Criterion, measures: Vec<Measure>) -> Check {
    Check::new(CheckId::Criterion(criterion), Level::Pass, measures)
}

fn iteration(number: u32, step: Step, load: f64, verdict: Verdict) -> Iteration {
    let failed = match verdict {
        Verdict::Good => Vec::new(),
        Verdict::Bad => {
            [Criterion::Failed, Criterion::Concurrency].map(CheckId::Criterion).to_vec()
        }
        Verdict::Invalid => vec![CheckId::SendLag],
    };
    let sut_busiest_thread = (number > 1).then_some(0.97);
    Iteration {
        number,
        step,
        load,
        ramp_up_s: 1.0,
        sustain_s: 10.0,
        sut_busiest_thread,
        verdict,
        why: None,
        failed,
    }
}

fn maximum() -> ObjectResult {
    ObjectResult {
        object: "1 KB".to_owned(),
        object_bytes: Some(1_000),
        scenario: None,
        transactions_per_connection: 1,
        unit: "connections/s".to_owned(),
        initial: 500.0,
        target: 5_000.0,
        target_source: "--target".to_owned(),
        ending: Ending::Maximum,
        load: Some(4_520.0),
        failed_load: Some(4_746.0),
        verdict: Verdict::Good,
        kpis: Some(kpis()),
        criteria: vec![
            criterion(
                Criterion::Failed,
                vec![
                    Measure::ratio("", 0.0).at_most(0.000_01),
                    Measure::count("seen", 0),
                    Measure::count("of", 45_200),
                    Measure::ratio("95 % upper bound", 0.000_066),
                ],
            ),
            criterion(Criterion::Forwarding, vec![Measure::ratio("", 0.012).at_most(0.05)]),
        ],
        checks: vec![fixtures::send_lag(100, Level::Pass)],
        isolation: Some(Isolation {
            kpi: OtherKpi::Throughput,
            seen: 52_310_400.0,
            maximum: 4e9,
            share: 0.013,
            share_max: 0.95,
            holds: true,
        }),
        series: vec![Sample {
            second: 0,
            kpis: Kpis { tcp_connections_per_second: 4_520.0, ..kpis() },
        }],
        iterations: vec![
            iteration(1, Step::Initial, 500.0, Verdict::Good),
            iteration(2, Step::Target, 5_000.0, Verdict::Bad),
            iteration(3, Step::Search, 4_746.0, Verdict::Invalid),
            iteration(4, Step::Final, 4_520.0, Verdict::Good),
        ],
    }
}

/// Returns a case with a maximum, one that was not isolated and one that failed step 1.
pub(crate) fn summary() -> Summary {
    let shared = ObjectResult {
        object: "64 KB".to_owned(),
        object_bytes: Some(64_000),
        isolation: Some(Isolation {
            kpi: OtherKpi::Throughput,
            seen: 3.96e9,
            maximum: 4e9,
            share: 0.99,
            share_max: 0.95,
            holds: false,
        }),
        ending: Ending::TargetMet,
        failed_load: None,
        ..maximum()
    };
    let unqualified = ObjectResult {
        object: "2 KB".to_owned(),
        ending: Ending::Unqualified { why: "F failed transactions <0.001 %: 3 of 9".to_owned() },
        load: None,
        failed_load: Some(500.0),
        verdict: Verdict::Bad,
        isolation: None,
        kpis: None,
        criteria: Vec::new(),
        series: Vec::new(),
        iterations: vec![iteration(1, Step::Initial, 500.0, Verdict::Bad)],
        ..maximum()
    };
    let case = Case::HttpsConnections;
    let block = Rfc9411Summary {
        case,
        title: case.title().to_owned(),
        init_s: 0.2,
        sustain_s: 10.0,
        sustain_recommended_s: 300.0,
        shorter_than_recommended: true,
        throughput_layer: "layer 4".to_owned(),
        environment: BTreeMap::from([
            ("generator-kernel".to_owned(), "Linux 6.12.1".to_owned()),
            ("sut".to_owned(), "haproxy 3.0".to_owned()),
        ]),
        reference: Some(Reference {
            connections_per_s: Some(11_200.0),
            transactions_per_s: Some(11_200.0),
            inspected_throughput_bit_s: Some(1.2e8),
            responder: "plimsoll serve on loopback".to_owned(),
        }),
        results: vec![maximum(), shared, unqualified],
        notes: vec!["the SUT sends session tickets".to_owned()],
    };
    let (base, _) = fixtures::find_regular();
    Summary {
        timers: TimerSummary::default(),
        result: RunResult::Rfc9411 { rfc9411: Box::new(block) },
        ..base
    }
}

#[test]
fn a_case_with_every_kind_of_result() {
    golden("rfc9411", &super::super::render(&summary(), &[], crate::Style::default()));
}

#[test]
fn throughput_is_told_in_both_units() {
    let text = throughput(1_234_567_890.0).replace('\u{a0}', " ");
    assert_eq!(text, "1.23 Gbit/s (1,234,568 kbit/s)");
}

#[test]
fn the_generator_is_blamed_only_for_its_own_checks() {
    let sentence = |why: &str, load| {
        let ending = Ending::GeneratorLimited { why: why.to_owned() };
        super::ending(&ObjectResult { ending, load, ..maximum() }).1
    };
    assert_eq!(sentence("send-lag", None), "none: the generator was the limit (send-lag)");
    let taken = sentence("host-cpu", Some(40.0)).replace('\u{a0}', " ");
    let expected = "at least 40.0 connections/s: this host's CPUs were the limit, for plimsoll and for other programs together \
        (host-cpu)";
    assert_eq!(taken, expected);
}
