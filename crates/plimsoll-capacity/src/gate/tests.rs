//! Gates on pairs of runs whose truth is known.

use fastrand::Rng;
use plimsoll_model::gate::{Gate, GateFinding, GateMethod, GateResult, Incomparable, Side};
use plimsoll_model::hold::{HoldEnd, HoldHead, HoldSummary, MemoryReading, Plateau};
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{LoadPlan, Pacing, TlsOptions};
use plimsoll_model::result::RunResult;
use plimsoll_model::search::{Axis, Mode};
use plimsoll_model::settings::{Isolate, LoadSettings, Settings, Starts};
use plimsoll_model::summary::{FindHead, FindSummary, Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Outcome, TippingPoint, Unsettled, Verdict};
use plimsoll_model::{ErrorClass, Nanos, Rate};

use super::{GateRun, RunSpeed, Stretches, judge};

fn gate(text: &str) -> Gate {
    text.parse().expect("a gate")
}

/// A standard normal number.
pub(super) fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0
}

/// A made-up load.
#[derive(Clone, Copy)]
struct Load {
    seconds: u64,
    /// Times the usual latency.
    factor: f64,
    /// Share of the operations that fail.
    failing: f64,
    seed: u64,
}

const USUAL: Load = Load { seconds: 120, factor: 1.0, failing: 0.0, seed: 1 };

/// Each second has its own level, which the next ones remember: a stall lasts for some seconds.
fn load(of: Load) -> Stretches {
    let mut rng = Rng::with_seed(of.seed);
    let mut level = normal(&mut rng) * 0.2;
    let mut stretches = Stretches::new(of.seconds as f64);
    for second in 0..of.seconds as usize {
        level = 0.7 * level + 0.14 * normal(&mut rng);
        let mut tally = Tally::default();
        for _ in 0..300 {
            tally.scheduled += 1;
            if rng.f64() < of.failing {
                tally.failures.operations.count(ErrorClass::Status5xx);
                continue;
            }
            tally.ok += 1;
            let ms = of.factor * (level + 0.5 * normal(&mut rng)).exp();
            tally.spans.corrected.record(Nanos::from_secs_f64(ms / 1e3));
        }
        stretches.add(second, &tally);
    }
    stretches
}

/// A host of one speed.
fn steady() -> RunSpeed {
    RunSpeed::of(&[Nanos::from_millis(1); 60]).expect("enough seconds")
}

fn of_loads(text: &str, baseline: Load, run: Load) -> Result<GateFinding, Incomparable> {
    let (a, b) = (load(baseline), load(run));
    let summary = load_summary();
    let of = |stretches| GateRun { summary: &summary, stretches, speed: Some(steady()) };
    judge(gate(text), of(&a), of(&b))
}

fn failing_share(text: &str, pairs: u64, baseline: Load, run: Load) -> f64 {
    let fails = |pair: &u64| {
        let baseline = Load { seed: 2 * pair + 1, ..baseline };
        let run = Load { seed: 2 * pair + 2, ..run };
        let found = of_loads(text, baseline, run).expect("comparable");
        found.result == GateResult::Fail
    };
    (0..pairs).filter(fails).count() as f64 / pairs as f64
}

#[test]
fn alike_loads_seldom_fail_and_worse_ones_do() {
    for seconds in [12, 60, 120] {
        let alike = Load { seconds, ..USUAL };
        // Of a limit of nothing at all: with one of 10 % it is rarer still.
        let share = failing_share("p99>0%", 60, alike, alike);
        assert!(share <= 0.05, "{seconds} s: {share}");
    }
    let long = Load { seconds: 180, ..USUAL };
    assert!(failing_share("p99>10%", 30, long, Load { factor: 1.5, ..long }) >= 0.9);
    assert!(failing_share("p99<-10%", 30, long, Load { factor: 1.5, ..long }) == 0.0);
}

#[test]
fn order_statistics_alone_would_fail_alike_loads() {
    // Why stretches are compared: the operations of one load depend on each other.
    let narrow = |seed| {
        let whole = load(Load { seed, ..USUAL }).whole();
        whole.of_chance(gate("p99>0%").metric).expect("an interval")
    };
    let apart = (0..60).filter(|pair| narrow(2 * pair + 1).1 < narrow(2 * pair + 2).0).count();
    assert!(apart >= 9, "{apart} of 60");
}

#[test]
fn how_a_difference_was_found_is_said() {
    let long = Load { seconds: 240, ..USUAL };
    let found = of_loads("p50>10%", long, long).expect("comparable");
    assert_eq!(found.method, GateMethod::Stretches { count: 6 });
    assert!(found.change.low < 0.0 && found.change.high > 0.0, "{found:?}");
    assert!(found.smallest.is_some_and(|smallest| (0.01..0.5).contains(&smallest)), "{found:?}");
}

#[test]
fn failed_operations_are_slower_than_any_answer() {
    let failing = Load { failing: 0.03, seed: 2, ..USUAL };
    let found = of_loads("p99>10%", USUAL, failing).expect("comparable");
    assert_eq!((found.result, found.run), (GateResult::Fail, f64::INFINITY));
    let found = of_loads("p90>50%", USUAL, failing).expect("comparable");
    assert_eq!(found.result, GateResult::Pass);
    let refused = of_loads("p99>10%", failing, USUAL).expect_err("no quantile");
    assert!(
        matches!(refused, Incomparable::NoInterval { side: Side::Baseline, .. }),
        "{refused:?}"
    );
}

#[test]
fn errors_are_compared_in_points() {
    let failing = Load { failing: 0.01, seed: 2, ..USUAL };
    let found = of_loads("errors>0.5pp", USUAL, failing).expect("comparable");
    assert_eq!(found.result, GateResult::Fail, "{found:?}");
    assert_eq!(found.baseline, 0.0);
    let none = of_loads("errors>0pp", USUAL, Load { seed: 2, ..USUAL }).expect("comparable");
    // No failure in 36,000 operations is no proof of none.
    let most = 3.84 / 36_000.0;
    assert_eq!(none.result, GateResult::Pass);
    assert!((none.change.high / most - 1.0).abs() < 0.01, "{none:?}");
    let few = Load { failing: 0.001, seed: 5, ..USUAL };
    let found = of_loads("errors>0.08pp", USUAL, few).expect("comparable");
    assert_eq!(found.result, GateResult::Warn, "{found:?}");
}

#[test]
fn goodput_counts_answers_in_time() {
    let half = Load { failing: 0.5, seed: 2, ..USUAL };
    let found = of_loads("goodput<-5%", USUAL, half).expect("comparable");
    assert_eq!((found.result, found.baseline), (GateResult::Fail, 300.0));
}

#[test]
fn loads_without_an_interval_are_refused() {
    let refused = of_loads("p99>10%", USUAL, Load { seconds: 11, ..USUAL });
    assert!(matches!(refused, Err(Incomparable::NoInterval { side: Side::Run, .. })));
    let none = Load { seconds: 0, ..USUAL };
    assert!(of_loads("errors>1pp", none, none).is_err());
}

#[test]
fn a_load_is_cut_into_six_stretches_of_the_same_length() {
    let mut tally = Tally { scheduled: 1, ok: 1, ..Tally::default() };
    tally.spans.corrected.record(Nanos::from_millis(1));
    let of = |records: usize, seconds: f64| {
        let mut stretches = Stretches::new(seconds);
        (0..records).for_each(|second| stretches.add(second, &tally));
        stretches.0.map(|stretch| (stretch.seconds, stretch.scheduled))
    };
    assert_eq!(of(3_600, 3_600.0), [(600, 600); 6]);
    // What ended after the last start belongs to the last stretch.
    assert_eq!(of(9, 7.0), [(1, 1), (1, 1), (1, 1), (1, 1), (1, 1), (2, 4)]);
}

/// An open loop over plain TCP.
fn load_settings() -> LoadSettings {
    let rate = Rate::per_second(1_000.0).expect("a rate");
    let profile = Profile::constant(rate, Nanos::from_secs(60));
    let pacing = Pacing::Open { profile, arrivals: Arrivals::Poisson };
    LoadSettings::from(&LoadPlan::plain(&[], pacing))
}

pub(super) fn head(command: &str) -> SummaryHead {
    SummaryHead {
        command: command.to_owned(),
        target: "http://127.0.0.1/".to_owned(),
        started_at: "2026-11-23T06:00:00Z".to_owned(),
        window: Nanos::from_secs(60),
        partial: false,
        settings: Settings { load: Some(load_settings()), ..Settings::default() },
        verdict: Verdict::Good,
        reasons: Vec::new(),
        result: RunResult::Load,
        archive: None,
    }
}

fn load_summary() -> Summary {
    Summary::new(head("load"), &Tally::default())
}

fn search(outcome: Outcome, lower: f64, upper: f64, safe: Option<f64>) -> Summary {
    let tip = TippingPoint {
        outcome,
        lower: Rate::per_second(lower),
        upper: Rate::per_second(upper),
        confidence: Some(0.95),
        safe: safe.and_then(Rate::per_second),
        trials: 9,
        goals: Vec::new(),
        ..TippingPoint::default()
    };
    let slo = "p99<50ms,errors<0.1%".to_owned();
    let (search, confirm) = (Nanos::ZERO, Nanos::ZERO);
    let find = FindHead { axis: Axis::Rate, slo, mode: Mode::Quick, search, confirm };
    let head = SummaryHead { result: FindSummary::new(find, tip).into(), ..head("find") };
    Summary::new(head, &Tally::default())
}

fn regular(lower: f64, upper: f64, safe: f64) -> Summary {
    search(Outcome::Regular, lower, upper, Some(safe))
}

fn of_runs(text: &str, baseline: &Summary, run: &Summary) -> Result<GateFinding, Incomparable> {
    let none = Stretches::default();
    let of = |summary| GateRun { summary, stretches: &none, speed: Some(steady()) };
    judge(gate(text), of(baseline), of(run))
}

#[test]
fn searches_are_compared_edge_to_edge() {
    let before = regular(1_000.0, 1_050.0, 950.0);
    for (text, lower, upper, safe, result) in [
        ("tipping-point<-5%", 980.0, 1_030.0, 930.0, GateResult::Pass),
        // 960 to 990: its middle fell by 4.9 %.
        ("tipping-point<-4%", 960.0, 990.0, 930.0, GateResult::Warn),
        ("tipping-point<-5%", 900.0, 949.0, 850.0, GateResult::Fail),
        ("tipping-point<-5%", 900.0, 951.0, 850.0, GateResult::Warn),
        ("tipping-point>5%", 1_110.0, 1_150.0, 1_000.0, GateResult::Fail),
        // The safe load is not above the tipping point, and more is not stated of it.
        ("safe<-5%", 900.0, 949.0, 880.0, GateResult::Warn),
        ("safe<-5%", 850.0, 900.0, 820.0, GateResult::Fail),
    ] {
        let found = of_runs(text, &before, &regular(lower, upper, safe)).expect("comparable");
        assert_eq!(found.result, result, "{text} {lower} {found:?}");
        assert_eq!(found.method, GateMethod::Stated);
    }
    let alike = of_runs("tipping-point<-5%", &before, &before).expect("comparable");
    assert!(alike.smallest.is_some_and(|fall| (fall + 0.0476).abs() < 1e-3), "{alike:?}");
}

#[test]
fn a_server_that_fails_at_the_lowest_load_fails_the_gate() {
    let before = regular(1_000.0, 1_050.0, 950.0);
    let mut failed = search(Outcome::FailsAtMinimum, 0.0, 10.0, None);
    failed.verdict = Verdict::Bad;
    for text in ["safe<-5%", "tipping-point<-5%"] {
        let found = of_runs(text, &before, &failed).expect("comparable");
        assert_eq!(found.result, GateResult::Fail, "{text}");
    }
    assert!(of_runs("tipping-point>5%", &before, &failed).is_err());
    assert!(of_runs("tipping-point<-5%", &failed, &before).is_err());
    // The lowest load was higher than what the baseline took.
    failed.result.find_mut().expect("a search").found.upper = Rate::per_second(1_000.0);
    assert!(of_runs("tipping-point<-5%", &before, &failed).is_err());
}

#[test]
fn searches_without_an_interval_are_refused() {
    let before = regular(1_000.0, 1_050.0, 950.0);
    let why = || Unsettled::Contradiction { sds: 5.0 };
    let invalid =
        |outcome| Summary { verdict: Verdict::Invalid, ..search(outcome, 1.0, 2.0, None) };
    let unsettled = invalid(Outcome::Unstable { why: why() });
    let refused = of_runs("tipping-point<-5%", &before, &unsettled);
    assert_eq!(refused, Err(Incomparable::Unsettled { side: Side::Run, why: why() }));
    let limited = invalid(Outcome::GeneratorLimited { why: "send-lag".to_owned() });
    let refused = of_runs("tipping-point<-5%", &limited, &before);
    assert_eq!(refused, Err(Incomparable::Invalid { side: Side::Baseline }));
    let mut unsure = before.clone();
    unsure.result.find_mut().expect("a search").found.confidence = None;
    let no_safe = search(Outcome::Regular, 1_000.0, 1_050.0, None);
    let unreached = search(Outcome::NotReached { cap: "cap".to_owned() }, 1.0, 2.0, None);
    let partial = Summary { partial: true, ..before.clone() };
    for (text, run) in [
        ("tipping-point<-5%", &unsure),
        ("safe<-5%", &no_safe),
        ("tipping-point<-5%", &unreached),
        ("tipping-point<-5%", &partial),
    ] {
        let refused = of_runs(text, &before, run);
        assert!(
            matches!(refused, Err(Incomparable::NoInterval { side: Side::Run, .. })),
            "{refused:?}"
        );
    }
}

#[test]
fn the_first_difference_is_named() {
    let before = regular(1_000.0, 1_050.0, 950.0);
    let differs = |text: &str, run: &Summary| match of_runs(text, &before, run) {
        Err(Incomparable::Differs { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    let settings = |change: fn(&mut LoadSettings)| {
        let mut run = before.clone();
        change(run.settings.load.as_mut().expect("a load"));
        match of_runs("safe<-5%", &before, &run) {
            Err(Incomparable::Settings(both)) => Some(both.map(|one| one.load.expect("a load"))),
            Err(Incomparable::Differs { what, .. }) => panic!("{what}"),
            _ => None,
        }
    };
    let changed = |change: fn(&mut FindSummary)| {
        let mut run = before.clone();
        change(run.result.find_mut().expect("a search"));
        run
    };
    assert_eq!(differs("safe<-5%", &load_summary()), "kind of run");
    assert_eq!(differs("safe<-5%", &changed(|find| find.axis = Axis::Handshakes)), "axis");
    assert_eq!(differs("safe<-5%", &changed(|find| find.slo = "p99<10ms".to_owned())), "SLO");
    let [a, b] = settings(|load| load.arrivals = Starts::Uniform).expect("they differ");
    assert_eq!((a.arrivals, b.arrivals), (Starts::Poisson, Starts::Uniform));
    let [a, b] = settings(|load| load.tls = Some((&TlsOptions::default()).into())).expect("TLS");
    assert_eq!((a.tls.is_some(), b.tls.is_some()), (false, true));
    // A search's own, and what the generator is made of.
    assert_eq!(settings(|load| (load.connections, load.seed, load.sources) = (7, 7, 7)), None);
    let mut run = before.clone();
    run.settings.isolate = Some(Isolate::None);
    assert_eq!(differs("safe<-5%", &run), "server");
    // Two searches with different loads.
    let refused = of_runs("p99>10%", &before, &before);
    assert!(matches!(refused, Err(Incomparable::NoInterval { .. })), "{refused:?}");
}

/// A hold whose levels, 10,000 connections apart, cost the machine `costs` bytes per connection.
fn hold(costs: &[f64]) -> Summary {
    let reading = |used: f64| MemoryReading {
        total_bytes: Some(16_000_000_000),
        available_bytes: Some((16e9 - used) as u64),
        ..MemoryReading::default()
    };
    let levels = costs.len() as u64;
    let plateaus = (1..).zip(costs).map(|(level, cost)| {
        let held = level * 10_000;
        let memory = reading(held as f64 * cost);
        Plateau { asked: held, held, ramp: Nanos::ZERO, memory, swept: None }
    });
    let head_of_hold = HoldHead {
        asked: levels * 10_000,
        held: levels * 10_000,
        end: HoldEnd::Complete,
        hold: Nanos::ZERO,
        paused: Nanos::ZERO,
        heartbeat: None,
        baseline: reading(0.0),
        plateaus: plateaus.collect(),
        projections: Vec::new(),
        cycles: None,
        last_sweep: None,
        both_ends_here: true,
        sources: 1,
        ports_per_source: 1,
    };
    let hold = HoldSummary::new(head_of_hold, &Tally::default());
    Summary::new(SummaryHead { result: hold.into(), ..head("hold") }, &Tally::default())
}

#[test]
fn memory_is_compared_by_slopes() {
    let before = hold(&[5_010.0, 5_000.0, 4_990.0, 5_000.0, 5_000.0]);
    let result = |costs: &[f64]| {
        of_runs("bytes-per-connection>5%", &before, &hold(costs)).map(|found| found.result)
    };
    assert_eq!(result(&[6_000.0; 5]), Ok(GateResult::Fail));
    assert_eq!(result(&[5_100.0; 5]), Ok(GateResult::Pass));
    assert_eq!(result(&[5_000.0, 6_200.0, 5_300.0, 5_900.0, 5_600.0]), Ok(GateResult::Warn));
    assert!(matches!(result(&[6_000.0; 3]), Err(Incomparable::NoInterval { .. })));
    // Less memory was used at a level than at the one before.
    assert!(matches!(
        result(&[9_000.0, 3_000.0, 2_500.0, 2_000.0, 6_000.0]),
        Err(Incomparable::NoInterval { .. })
    ));
    assert!(of_runs("sut-bytes-per-connection>5%", &before, &before).is_err());
}
