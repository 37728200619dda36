//! The validation criteria of section 7, and the verdict on an iteration.
//!
//! The RFC leaves "constant" open. Here it is the largest deviation of a one-second sample from the mean
//! of all. What counting whole things in whole seconds does to a small figure is no deviation of
//! the SUT, so each has a floor, which is printed with the limit. Neither is a change while other programs had the SUT's CPU,
//! which makes an iteration INVALID.

use plimsoll_model::criterion::Criterion;
use plimsoll_model::criterion::Criterion::{Concurrency, Failed, Forwarding, Reset, Target};
use plimsoll_model::rfc9411::{Case, Isolation, Kind, Kpis, OtherKpi, Step, TRANSACTIONS_SHOWN};
use plimsoll_model::slo::Slo;
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::trial::{Check, CheckId, Judgement, Level, Measure, TrialMeasurement, Unit};
use plimsoll_model::{ErrorClass, Nanos};

use super::kpi::{SustainFigures, transactions};
use crate::losses::Losses;
use crate::search::{WAITED, starved};
use crate::stats::mean;
use crate::validity;
use crate::validity::HOST_CPU_WARN;
use crate::verdict::{conclude, failed};

/// Failed transactions and reset connections, of all: 0.001 %.
const FAILED_MAX: f64 = 1e-5;
const FORWARDING_MAX: f64 = 0.05;
const CONCURRENCY_MAX: f64 = 0.10;
/// Arrivals by which a second may deviate, with all their transactions, because they ended near its
/// edge.
const EDGE_ARRIVALS: f64 = 1.5;
/// N10 requires that connections are opened and closed at the same rate. A count of few open
/// connections shows this only to this share of a second's connections.
const EDGE_CONNECTIONS: f64 = 0.01;
/// CPUs that the server had on average. With less, its threads did not wait for each other: one that is overloaded has a CPU, or
/// half of one beside a rival.
const SERVER_CPUS_MIN: f64 = 0.5;
/// Another KPI above this share of its maximum may be the bottleneck.
const ISOLATION_SHARE_MAX: f64 = 0.95;

/// Returns every criterion of `case` in `step`; step 1 of some cases needs fewer. The RFC lists the target only for the
/// latency cases. Without it, a server that answers half of another rate would pass: late transactions are not failed
/// ones, and half of a rate may be constant.
fn criteria_of(case: Case, step: Step) -> &'static [Criterion] {
    match (case.kind(), step) {
        (Kind::Throughput, Step::Initial) => &[Failed],
        (Kind::Concurrency, Step::Initial) if case == Case::HttpsConcurrency => &[Failed, Reset],
        (Kind::Mix, Step::Initial) => &[Failed, Reset],
        (Kind::Mix, _) => &[Failed, Reset, Target],
        (Kind::ConnectionRate | Kind::Latency, _) => {
            &[Failed, Reset, Forwarding, Concurrency, Target]
        }
        (Kind::Throughput, _) => &[Failed, Forwarding, Concurrency, Target],
        (Kind::Concurrency, _) => &[Failed, Reset, Forwarding],
    }
}

/// Returns the criteria of `case` with their thresholds, as reports print them.
pub fn thresholds(case: Case) -> Vec<&'static str> {
    criteria_of(case, Step::Target).iter().map(|one| one.name()).collect()
}

/// One iteration as it was run.
#[derive(Clone, Debug)]
pub struct IterationRecord {
    /// The case.
    pub case: Case,
    /// The step that asked for it.
    pub step: Step,
    /// The request is the load, in the case's unit, and the sustain phase; all else is of the whole iteration.
    pub measurement: TrialMeasurement,
    /// Every second, with ramps and drain.
    pub intervals: Vec<Interval>,
    /// Planned time until the full load.
    pub ramp_up: Nanos,
    /// The first second of the sustain phase.
    pub sustain_from: u32,
    /// Operations planned in all. Holds have none, and sessions of several transactions do not plan the later ones.
    pub planned_ops: Option<u64>,
    /// Transactions of a session.
    pub transactions: u32,
}

/// The judgement of an iteration, and its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedIteration {
    /// Figures of the sustain phase.
    pub observed: SustainFigures,
    /// The criteria, in the RFC's order.
    pub criteria: Vec<Check>,
    /// The checks of the generator.
    pub checks: Vec<Check>,
    /// Both together.
    pub judgement: Judgement,
}

/// Judges an iteration.
pub fn judge(run: &IterationRecord) -> JudgedIteration {
    let TrialMeasurement { request, window, aborted, tally, observations, .. } = &run.measurement;
    let held = run.case.kind() == Kind::Concurrency;
    let seconds = request.duration.as_secs_f64() as u32;
    let observed = SustainFigures::of(&run.intervals, run.sustain_from, seconds, held);
    let watched = watched(run);
    // Transactions of a held connection arrive one by one.
    let edge = EDGE_ARRIVALS * if held { 1.0 } else { f64::from(run.transactions) };
    let judge = |criterion: &Criterion| match criterion {
        Failed => failed_transactions(&watched),
        Reset => resets(&watched),
        other => constant(*other, &observed, request.rate.get(), edge),
    };
    let criteria: Vec<_> = criteria_of(run.case, run.step).iter().map(judge).collect();
    let losses = Losses::of(tally, *aborted);
    let no_goals = Slo { goals: Vec::new() };
    let mut checks = validity::checks(&validity::Subject {
        window: *window,
        rate: (!held).then_some(request.rate),
        aborted: *aborted,
        open: !held,
        planned_ops: run.planned_ops.filter(|_| !aborted).map(|ops| ops as f64),
        missed: failed(&criteria),
        ..validity::Subject::of(tally, &losses, observations, Some(&no_goals))
    });
    let taken = taken(&run.measurement, &criteria);
    // A load with ramps has no single rate and latency, so their product means nothing.
    checks.retain(|check| match check.id {
        CheckId::LittlesLaw => false,
        CheckId::HostCpu => taken.is_none(),
        _ => true,
    });
    checks.extend(taken);
    checks.extend(incomplete(observed.series.len(), seconds, *aborted));
    let loss_ratio = share(unsuccessful(&watched), watched.scheduled);
    let judgement = conclude(checks.clone(), criteria.clone(), loss_ratio);
    JudgedIteration { observed, criteria, checks, judgement }
}

/// Returns the counts that F and R refer to: from the sustain phase on, so that a later timeout is
/// not lost; the whole test if the RFC says so, and if there was no sustain phase.
fn watched(run: &IterationRecord) -> Tally {
    let held = run.case.kind() == Kind::Concurrency;
    let whole = run.measurement.aborted || held || run.case == Case::HttpsConnections;
    let mut tally = Tally::default();
    for interval in &run.intervals {
        if whole || interval.second >= run.sustain_from {
            tally.merge_following(&interval.tally);
        }
    }
    if held {
        // A heartbeat that was due while the last answer was awaited was never attempted.
        tally.scheduled -= tally.unsent.min(tally.scheduled);
        tally.unsent = 0;
        // A connection that was not opened, or was lost, is one that failed its transactions.
        let missing = tally.connections.failed + tally.failures.lost_held.total();
        tally.scheduled += missing;
        tally.unsent += missing;
    }
    tally
}

/// Returns the number of scheduled transactions that did not end with status 200.
fn unsuccessful(tally: &Tally) -> u64 {
    tally.errors_total() + tally.unsent + tally.ok.saturating_sub(transactions(tally))
}

fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}

/// Fewer than `limit`: the criteria ask for less, not for at most as much.
fn check(criterion: Criterion, measures: Vec<Measure>, pass: bool) -> Check {
    Check::new(CheckId::Criterion(criterion), Level::of(!pass, false), measures)
}

/// Checks a share below 0.001 %. If no failure occurred, the rule of three gives its upper bound.
fn rare(criterion: Criterion, part: u64, all: u64, pass: bool) -> Check {
    let mut measures = vec![
        Measure::ratio("", share(part, all)).at_most(FAILED_MAX),
        Measure::count("seen", part),
        Measure::count("of", all),
    ];
    if part == 0 && all > 0 {
        measures.push(Measure::ratio("95 % upper bound", (3.0 / all as f64).min(1.0)));
    }
    check(criterion, measures, pass)
}

fn failed_transactions(tally: &Tally) -> Check {
    let count = unsuccessful(tally);
    let pass = tally.scheduled > 0 && share(count, tally.scheduled) < FAILED_MAX;
    let mut check = rare(Failed, count, tally.scheduled, pass);
    if tally.scheduled < TRANSACTIONS_SHOWN && count == 0 {
        let needed = Measure::count("needed to show that with 95 % confidence", TRANSACTIONS_SHOWN);
        check.measures.push(needed);
    }
    check
}

fn resets(tally: &Tally) -> Check {
    let opened = tally.connections.opened + tally.connections.failed;
    let reset =
        tally.connections.reset_by_peer + tally.failures.attempts.get(ErrorClass::ConnectReset);
    // Connections of a hold were opened before the phase in which they may be reset.
    let all = opened.max(tally.connections.held_max).max(reset);
    rare(Reset, reset, all, share(reset, all) < FAILED_MAX)
}

/// The worst second of a figure: its distance from the mean of all, or below the target; with the limit, or with the
/// larger floor that counting whole things sets. `edge`: transactions that a second may have more or less.
fn constant(criterion: Criterion, observed: &SustainFigures, target: f64, edge: f64) -> Check {
    let SustainFigures { sustain, series, kpis } = observed;
    let (figure, limit): (fn(&Kpis) -> f64, f64) = match criterion {
        Concurrency => (|kpis| kpis.concurrent_tcp_connections, CONCURRENCY_MAX),
        Target => (|kpis| kpis.application_transactions_per_second, FORWARDING_MAX),
        _ => (|kpis| kpis.inspected_throughput_bit_s, FORWARDING_MAX),
    };
    let figures = || series.iter().map(|sample| figure(&sample.kpis));
    let seconds = series.len().max(1) as f64;
    let mean = mean(figures()).unwrap_or(0.0);
    let apart = figures().map(|one| (one - mean).abs()).fold(0.0, f64::max);
    let apart = if mean > 0.0 { apart / mean } else { 0.0 };
    let edges = Measure::new("transactions allowed at the edge of a second", edge, Unit::Factor);
    let (seen, floor, allowed) = match criterion {
        Target => {
            let least = figures().reduce(f64::min).unwrap_or(0.0);
            ((1.0 - least / target).max(0.0), edge / target, edges)
        }
        Concurrency => {
            let opened = sustain.connections.opened as f64 / seconds;
            let open = Measure::new("allowed for connections open on average", mean, Unit::Factor);
            // Without one that was open there is nothing to deviate: the floor is infinite.
            (apart, (opened * EDGE_CONNECTIONS).max(1.0) / mean, open)
        }
        _ => {
            let transactions = kpis.application_transactions_per_second;
            let bits = kpis.inspected_throughput_bit_s / transactions;
            (apart, if transactions > 0.0 { bits * edge / mean } else { 0.0 }, edges)
        }
    };
    let most = limit.max(floor);
    let mut measures = vec![Measure::ratio("", seen).at_most(most.is_finite().then_some(most))];
    measures.extend((floor >= limit).then_some(allowed));
    check(criterion, measures, seen < most && (mean > 0.0 || criterion != Forwarding))
}

/// Samples must be less than 2 s apart: the generator stood still in a second without one. An iteration that was cut
/// short has none after that, and failed before.
fn incomplete(have: usize, seconds: u32, aborted: bool) -> Option<Check> {
    (have < seconds as usize).then(|| {
        let have = Measure::count("seconds of the sustain phase", have as u64);
        Check::new(CheckId::Samples, Level::of(!aborted, true), [have.at_least(f64::from(seconds))])
    })
}

/// Fails if figures of the server changed while other programs had its CPU: another iteration has to show the server's own.
/// A search of rates leaves such trials out by what is usual in an overload, which a case of the RFC need not have.
fn taken(measurement: &TrialMeasurement, criteria: &[Check]) -> Option<Check> {
    let TrialMeasurement { window, observations, .. } = measurement;
    // A busy host does not make a server refuse.
    let is_refused = criteria.iter().any(|check| {
        check.level == Level::Fail && matches!(check.id, CheckId::Criterion(Failed | Reset))
    });
    if is_refused || !failed(criteria) {
        return None;
    }
    let (busy, ran) = (observations.host_cpu?, observations.sut_cpu?.ran);
    let waited = starved(measurement)?;
    let had = ran.as_secs_f64() / window.as_secs_f64().max(1e-3);
    (busy > HOST_CPU_WARN && waited > WAITED && had < SERVER_CPUS_MIN).then(|| {
        let busy = Measure::ratio("all CPUs", busy).at_most(HOST_CPU_WARN);
        let waited = Measure::ratio("server ready but not running", waited).at_most(WAITED);
        Check::new(CheckId::HostCpu, Level::Fail, [busy, waited])
    })
}

/// Reports whether another KPI was at its own maximum while the case's one was measured.
pub fn isolation(kpi: OtherKpi, seen: f64, maximum: f64) -> Isolation {
    let share = if maximum > 0.0 { seen / maximum } else { f64::INFINITY };
    Isolation {
        kpi,
        seen,
        maximum,
        share,
        share_max: ISOLATION_SHARE_MAX,
        holds: share < ISOLATION_SHARE_MAX,
    }
}
