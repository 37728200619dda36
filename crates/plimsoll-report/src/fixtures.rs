//! Fixed, hand-made records for the tests of this crate; nothing here is measured.
//!
//! `tally` has the counts of a good load, `head` the head of its summary, and `trial` one judged trial; the other
//! functions change fields of these. `all` lists runs with their trials for tests over all outputs. `golden` compares
//! a text with its snapshot. `SECRET` is in the plan and must never be in any output. Start reading at `tally` and
//! `load_good`.

mod causes;
mod compared;
mod held;
mod several;
mod sized;
mod storms;
mod watched;

use std::collections::BTreeMap;
use std::net::SocketAddr;

use plimsoll_model::cause::{Grade, Missing};
use plimsoll_model::cliff::{Cliff, Horizon, Owner, ProbeKind, ProbedTimer};
use plimsoll_model::ending::{Closer, Stretch};
use plimsoll_model::observation::Observations;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{
    Endpoint, Group, Identity, LoadPlan, Pacing, ServerName, Timeouts, TlsOptions, TlsState,
    TlsVersion, Trust,
};
use plimsoll_model::reason::{CertificateFault, ErrorReasons, Reason};
use plimsoll_model::repeat::{RepeatSummary, RepeatedSearch};
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::search::{Axis, Mode};
use plimsoll_model::settings::{Settings, Starts};
use plimsoll_model::slo::Goal;
use plimsoll_model::summary::{self, FindHead, FindSummary, Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::target::Target;
use plimsoll_model::trial::{
    Check, CheckId, Judgement, Level, Measure, Outcome, Phase, Stopped, TippingPoint,
    TrialMeasurement, TrialRecord, TrialRequest, Unit, Verdict,
};
use plimsoll_model::{ErrorClass, Histogram, Nanos, Rate, cliff};

use crate::archive::{ArchivedHost, ArchivedPlan, ClockPair, Manifest, SCHEMA, SearchHead};

pub(crate) use compared::{
    compare_duet, compare_lower, compare_no_difference, compare_saturated, compare_undecided,
    difference,
};
pub(crate) use held::{
    hold_bad, hold_cut_short, hold_cycles, hold_good, hold_nothing, hold_plan, plateau,
};
pub(crate) use several::{find_several, find_unstable};
pub(crate) use sized::sizing_better;
pub(crate) use storms::find_storm;
pub(crate) use watched::{watched, watched_for};

/// Must never be seen in anything written.
pub(crate) const SECRET: &str = "hunter2";

/// Compares a page or a file with what it was when somebody looked at it.
pub(crate) fn golden(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

pub(crate) fn rate(per_s: f64) -> Rate {
    Rate::per_second(per_s).expect("fixtures are finite")
}

/// Adds a long-tailed sample of `count` values around `typical_us`.
pub(crate) fn spread(hist: &mut Histogram, count: u64, typical_us: u64) {
    let ns = typical_us * 1_000;
    let (tail, rare) = (count / 50, count / 2_000);
    let mut add = |ns, count| {
        // A value counted zero times would still move the maximum.
        if count > 0 {
            hist.record_n(Nanos(ns), count);
        }
    };
    for (share, times) in [(4, 10), (4, 13), (2, 17)] {
        add(ns * times / 10, (count - tail - rare) * share / 10);
    }
    add(ns * 3, tail);
    add(ns * 8, rare);
    let rest = count - hist.count();
    if rest > 0 {
        hist.record_n(Nanos(ns), rest);
    }
}

/// Returns `ok` answers to `ok` scheduled operations over 100 TLS connections in `seconds`.
pub(crate) fn tally(ok: u64, typical_us: u64, seconds: u64) -> Tally {
    let mut tally = Tally { scheduled: ok, ok, ..Tally::default() };
    tally.answers.status.add(200, ok);
    spread(&mut tally.spans.corrected, ok, typical_us);
    spread(&mut tally.spans.uncorrected, ok, typical_us * 9 / 10);
    spread(&mut tally.spans.ttfb, ok, typical_us * 8 / 10);
    spread(&mut tally.spans.send_lag, ok, 12);
    spread(&mut tally.spans.wire, ok / 8, typical_us * 85 / 100);
    spread(&mut tally.spans.receive_lag, ok / 8, 21);
    spread(&mut tally.spans.stamped, ok / 8, typical_us);
    spread(&mut tally.spans.undelayed, ok / 8, typical_us * 95 / 100);
    spread(&mut tally.spans.undelayed_min, ok / 8, typical_us * 95 / 100);
    tally.stamps.every = 8;
    spread(&mut tally.spans.connect, 100, 55);
    spread(&mut tally.spans.tls, 100, 1_300);
    tally.connections.opened = 100;
    tally.connections.held_max = 100;
    tally.connections.held_end = 100;
    tally.handshakes.full = 100;
    tally.handshakes_per_s_max = 100;
    tally.bytes.sent = ok * 104;
    tally.bytes.received = ok * 162;
    tally.outstanding = vec![3, 9, 5];
    tally.generator.cpu_user = Nanos(ok * 7_300);
    tally.generator.cpu_system = Nanos(ok * 10_900);
    tally.generator.busiest_thread = (ok as f64 / seconds as f64 * 18.2e-6).min(0.97);
    tally.generator.rss_bytes_max = 24_300_000;
    tally.generator.threads = 2;
    tally.generator.processes = 1;
    tally
}

pub(crate) fn plan() -> LoadPlan {
    let address = "127.0.0.1:8443".parse().expect("an address");
    let pacing = Pacing::Open {
        profile: Profile::constant(rate(5_000.0), Nanos::from_secs(10)),
        arrivals: Arrivals::Poisson,
    };
    LoadPlan {
        targets: vec![Target {
            method: "POST".to_owned(),
            url: "https://127.0.0.1:8443/".parse().expect("a URL"),
            headers: vec![
                ("Authorization".to_owned(), format!("Bearer {SECRET}")),
                ("cookie".to_owned(), format!("session={SECRET}")),
                ("X-API-Key".to_owned(), SECRET.to_owned()),
                ("sleep".to_owned(), "20".to_owned()),
            ],
            body: SECRET.into(),
            publish: None,
            script: None,
            websocket: None,
        }],
        destinations: vec![Endpoint {
            name: "127.0.0.1:8443".to_owned(),
            addresses: vec![address],
            tls: Some(ServerName("127.0.0.1".to_owned())),
        }],
        connections: 100,
        timeouts: Timeouts {
            deadline: Some(Nanos::from_millis(50)),
            linger: Nanos::from_secs(150),
            connect: Nanos::from_secs(10),
        },
        tls: TlsOptions {
            trust: Trust::Insecure,
            identity: Some(Identity {
                chain_pem: "CERTIFICATE".to_owned(),
                key_pem: SECRET.to_owned(),
            }),
            version: Some(TlsVersion::V1_3),
            offers_http2: false,
            certificate_key: None,
            tickets_max: TlsOptions::TICKETS_MAX,
            groups: vec![Group::X25519],
            resume_ratio: 0.0,
            reuse_key_share: false,
            state: TlsState::Compact,
        },
        threads: 2,
        cpus: vec![0, 1],
        ..LoadPlan::plain(&[&[address]], pacing)
    }
}

/// Returns the settings of a run of `plan`.
pub(crate) fn settings(plan: &LoadPlan) -> Settings {
    Settings { load: Some(plan.into()), ..Settings::default() }
}

/// Returns the goal `text`, missed by `share` of the operations.
fn goal(text: &str, share: f64) -> Check {
    let goal: Goal = text.parse().expect("a goal");
    let what = match goal {
        Goal::Latency { .. } => "late, failed or unsent",
        Goal::Errors { .. } => "failed",
    };
    let limit = goal.bad_ratio_max();
    let seen = Measure::ratio(what, share).at_most(limit);
    Check::new(CheckId::Goal(goal), Level::of(share > limit, false), [seen])
}

/// Makes the manifest of a load, or of a search.
pub(crate) fn manifest(search: bool) -> Manifest {
    manifest_of(&plan(), search)
}

pub(crate) fn manifest_of(plan: &LoadPlan, search: bool) -> Manifest {
    let command_line = ["plimsoll", "load", "--header", "<redacted>"].map(str::to_owned).to_vec();
    Manifest {
        schema: SCHEMA.to_owned(),
        plimsoll_version: "0.1.0".to_owned(),
        command: if search { "find" } else { "load" }.to_owned(),
        kind: match plan.pacing {
            _ if search => RunKind::Search,
            Pacing::Hold(_) => RunKind::Hold,
            _ => RunKind::Load,
        },
        command_line,
        target: "https://127.0.0.1:8443/".to_owned(),
        started_at: "2026-11-21T02:15:30Z".to_owned(),
        clock: ClockPair { monotonic: Nanos::from_secs(69), unix_ns: 1_795_227_330_000_000_000 },
        host: ArchivedHost { kernel: "Linux 6.1".to_owned(), cpus: 2, cpu_model: None },
        seed: plan.seed,
        settings: settings(plan),
        search: search.then(|| SearchHead {
            axis: Axis::Rate,
            slo: "p99<50ms,errors<0.1%".to_owned(),
            mode: Mode::Quick,
        }),
        plan: ArchivedPlan::of(plan),
        merged_from: Vec::new(),
    }
}

pub(crate) fn send_lag(us: u64, level: Level) -> Check {
    let span = |name, most: f64| Measure::span(name, Nanos(us * 1_000)).at_most(most);
    Check::new(CheckId::SendLag, level, [span("p99", 2.5), span("p99.9", 5.0)])
}

fn busiest(share: f64, level: Level) -> Check {
    let busiest = Measure::ratio("busiest thread", share).at_most(0.9);
    Check::new(CheckId::GeneratorCpu, level, [busiest])
}

/// Returns a check of a count that fails below `least`.
pub(crate) fn count(id: CheckId, seen: u64, least: u64) -> Check {
    let level = Level::of(seen < least, false);
    Check::new(id, level, [Measure::count("", seen).at_least(least as f64)])
}

fn head(seconds: f64, verdict: Verdict, reasons: Vec<Check>) -> SummaryHead {
    SummaryHead {
        command: "load".to_owned(),
        target: "https://127.0.0.1:8443/".to_owned(),
        started_at: "2026-11-21T02:15:30Z".to_owned(),
        window: Nanos::from_secs_f64(seconds),
        partial: false,
        settings: settings(&plan()),
        verdict,
        reasons,
        result: RunResult::Load,
        archive: Some("plimsoll-20261121T021530Z".to_owned()),
    }
}

pub(crate) fn load_good() -> Summary {
    let pass = |id, measures: Vec<Measure>| Check::new(id, Level::Pass, measures);
    let reasons = vec![
        goal("p99<50ms", 0.0),
        goal("errors<0.1%", 0.0),
        pass(
            CheckId::OwnDelay,
            vec![
                Measure::ratio("late only because of plimsoll", 0.0),
                Measure::span("receive lag p99", Nanos(63_000)),
                Measure::count("stamped", 6_250),
            ],
        ),
        send_lag(36, Level::Pass),
        pass(
            CheckId::RateFidelity,
            vec![Measure::ratio("started of the planned operations", 1.0).at_least(0.99)],
        ),
        pass(
            CheckId::Scheduling,
            vec![
                Measure::ratio("ready but not running", 0.004).at_most(1.0 / 3.0),
                Measure::span("mean wait", Nanos(12_000)),
                Measure::ratio("stolen", 0.0).at_most(0.1),
                Measure::count("throttled periods", 0).at_most(0.0),
            ],
        ),
        pass(
            CheckId::Stationarity,
            vec![Measure::new("one half over the other", 1.0, Unit::Factor).at_most(1.1)],
        ),
    ];
    Summary::new(head(10.0, Verdict::Good, reasons), &tally(50_000, 1_900, 10))
}

pub(crate) fn load_empty() -> Summary {
    Summary::new(head(0.0, Verdict::Good, Vec::new()), &Tally::default())
}

/// Returns a load with failures of every sort whose reasons are known.
pub(crate) fn load_with_reasons() -> Summary {
    let mut summary = load_bad();
    let mut reasons = ErrorReasons::default();
    let connection = || Some(SocketAddr::from(([127, 0, 0, 1], 40_000)));
    let first = Nanos::from_millis(2_500);
    for (class, count, reason) in [
        (
            ErrorClass::Status5xx,
            1_100,
            Reason::status(503, b"<html>No server is available to handle this request.", &[]),
        ),
        (ErrorClass::Status5xx, 20, Reason::status(504, b"", &[])),
        (ErrorClass::ResetByPeer, 40, Reason::Unanswered { reset: true }),
        (ErrorClass::TlsClosed, 2, Reason::other(&"one")),
        (ErrorClass::TlsClosed, 1, Reason::other(&"another")),
        (
            ErrorClass::UnrequestedAnswer,
            7,
            Reason::Unrequested { status: Some(408), idle_ms: 1_000, was_used: false },
        ),
        (
            ErrorClass::TlsUntrusted,
            1,
            Reason::Certificate { fault: CertificateFault::WeakKey { bits: 1_024 } },
        ),
        (ErrorClass::TlsAlert, 1, Reason::Alert { alert: "protocol_version".to_owned() }),
    ] {
        for _ in 0..count {
            reasons.note(class, reason.clone(), first, connection);
        }
    }
    summary.failures.error_reasons = summary::reasons(&reasons);
    summary.failures.lost_idle_classes = BTreeMap::from([("unrequested-answer".to_owned(), 7)]);
    summary.failures.lost_in_use_classes = BTreeMap::from([("reset-by-peer".to_owned(), 40)]);
    (summary.connections.lost_idle, summary.connections.lost_in_use) = (7, 40);
    summary
}

pub(crate) fn load_bad() -> Summary {
    let mut tally = tally(47_210, 21_000, 10);
    tally.scheduled = 50_000;
    tally.late = 4_120;
    tally.generator.busiest_thread = 0.74;
    tally.unsent = 1_500;
    tally.failures.operations.add(ErrorClass::Status5xx, 1_120);
    tally.failures.operations.add(ErrorClass::ConnectRefused, 129);
    tally.failures.operations.add(ErrorClass::ResetByPeer, 40);
    tally.failures.operations.add(ErrorClass::LocalFiles, 1);
    tally.failures.attempts.add(ErrorClass::ConnectRefused, 200);
    tally.failures.attempts.add(ErrorClass::TlsClosed, 3);
    tally.connections.failed = 203;
    tally.connections.reset_by_peer = 40;
    tally.connections.closed_by_peer = 7;
    tally.handshakes.failed = 3;
    tally.answers.status.add(503, 1_120);
    assert!(tally.balances());
    let reasons = vec![
        goal("p99<50ms", 0.1382),
        goal("errors<0.1%", 0.0258),
        busiest(0.74, Level::Warn),
        Check::new(
            CheckId::Stable,
            Level::Warn,
            [Measure::new("backlog grows by", 61.0, Unit::PerS).at_most(25.0)],
        ),
    ];
    Summary::new(head(10.0, Verdict::Bad, reasons), &tally).with_timers(
        &[
            cliff(
                (30_012, 1_104, Closer::Status(504)),
                Owner::Sut,
                Some("HAProxy timeout server"),
                "HAProxy timeout server is set to 30.0 s",
            ),
            cliff(
                (17_003, 40, Closer::PeerReset),
                Owner::Sut,
                None,
                "closed by the server, without an answer",
            ),
        ],
        None,
        Horizon { answer_ms: 150_050.0, connection_ms: 10_000.0, probe_ms: None },
    )
}

/// Returns a cliff in operations at some ms.
fn cliff(
    (ms, count, closer): (u64, u64, Closer),
    owner: Owner,
    label: Option<&str>,
    evidence: &str,
) -> Cliff {
    let confidence =
        if label.is_some() { cliff::Confidence::Certain } else { cliff::Confidence::Possible };
    Cliff {
        at: Nanos::from_millis(ms),
        count,
        share: 0.984,
        stretch: Stretch::Operation,
        closer,
        label: label.map(str::to_owned),
        owner,
        confidence,
        evidence: evidence.to_owned(),
    }
}

/// Makes the findings of a timeout probe of a proxy.
pub(crate) fn timers() -> Vec<ProbedTimer> {
    let row = |kind, after_ms, closer, owner, label: Option<&str>, evidence: &str| ProbedTimer {
        kind,
        connections: 3,
        after_ms,
        closer,
        label: label.map(str::to_owned),
        owner,
        evidence: evidence.to_owned(),
    };
    let nothing = "nothing ended the wait";
    let alone = "nothing behind the server has heard of this connection";
    let nginx = Some("near 60 s (nginx, AWS load balancer idle, Apache httpd)");
    vec![
        row(ProbeKind::Connected, None, Closer::Us, Owner::Unknown, None, nothing),
        row(ProbeKind::TlsDone, Some(60_004.0), Closer::PeerFin, Owner::Sut, nginx, alone),
        row(
            ProbeKind::HalfBody,
            Some(17_021.0),
            Closer::Status(408),
            Owner::Backend,
            None,
            "it came from behind the proxy",
        ),
    ]
}

pub(crate) fn load_invalid() -> Summary {
    let mut tally = tally(50_000, 1_900, 10);
    tally.spans.send_lag.clear();
    spread(&mut tally.spans.send_lag, 50_000, 2_700);
    let reasons = vec![send_lag(8_100, Level::Fail), goal("p99<50ms", 0.0)];
    Summary::new(head(10.0, Verdict::Invalid, reasons), &tally)
}

pub(crate) fn load_closed() -> Summary {
    let mut head = head(10.0, Verdict::Good, Vec::new());
    head.settings.load.as_mut().expect("a load").arrivals = Starts::Closed;
    head.archive = None;
    Summary::new(head, &tally(512_340, 1_900, 10))
}

/// Returns a load whose target refuses all connections.
pub(crate) fn load_refused() -> Summary {
    let mut tally = Tally { scheduled: 500, ..Tally::default() };
    tally.failures.operations.add(ErrorClass::ConnectRefused, 500);
    tally.failures.attempts.add(ErrorClass::ConnectRefused, 600);
    tally.connections.failed = 600;
    tally.generator.busiest_thread = 0.004;
    tally.generator.processes = 1;
    tally.generator.threads = 2;
    let reasons = vec![count(CheckId::Answers, 0, 1)];
    let mut head = head(10.0, Verdict::Bad, reasons);
    head.archive = None;
    Summary::new(head, &tally)
}

/// Returns a load in which every answer is an error, without SLO.
pub(crate) fn load_all_5xx() -> Summary {
    let mut tally = tally(500, 1_900, 10);
    tally.ok = 0;
    tally.spans.corrected.clear();
    tally.spans.uncorrected.clear();
    tally.answers.status = plimsoll_model::tally::StatusCounts::default();
    tally.answers.status.add(503, 500);
    tally.failures.operations.add(ErrorClass::Status5xx, 500);
    let mut head = head(10.0, Verdict::Good, Vec::new());
    head.archive = None;
    Summary::new(head, &tally)
}

/// Returns a load that was stopped while connections were being opened.
pub(crate) fn load_stopped_early() -> Summary {
    let value = "no, interrupted before the first operation";
    let reasons = vec![Check::failed(CheckId::RunComplete, value)];
    let mut head = head(0.0, Verdict::Invalid, reasons);
    head.partial = true;
    head.archive = None;
    Summary::new(head, &Tally::default())
}

pub(crate) fn load_partial() -> Summary {
    let mut tally = tally(20_971, 1_900, 4);
    tally.scheduled += 9;
    tally.failures.operations.add(ErrorClass::Interrupted, 9);
    let reasons = vec![goal("p99<50ms", 0.0)];
    let mut head = head(4.2, Verdict::Good, reasons);
    head.partial = true;
    Summary::new(head, &tally)
}

/// Returns runs of many kinds: name, summary and trials of each.
pub(crate) fn all() -> Vec<(&'static str, Summary, Vec<TrialRecord>)> {
    let (several, several_trials) = find_several();
    let (regular, trials) = find_regular();
    let (limited, limited_trials) = find_generator_limited();
    let (fails, fails_trials) = find_fails_at_minimum();
    let (unfinished, unfinished_trials) = find_unfinished();
    let (refused, refused_trials) = find_refused();
    let (unstable, unstable_trials) = find_unstable();
    vec![
        ("load_good", load_good(), vec![]),
        ("load_bad", load_bad(), vec![]),
        ("load_reasons", load_with_reasons(), vec![]),
        ("load_invalid", load_invalid(), vec![]),
        ("load_partial", load_partial(), vec![]),
        ("load_refused", load_refused(), vec![]),
        ("load_closed", load_closed(), vec![]),
        ("find_regular", regular, trials),
        ("find_several", several, several_trials),
        ("find_generator_limited", limited, limited_trials),
        ("find_fails_at_minimum", fails, fails_trials),
        ("find_unfinished", unfinished, unfinished_trials),
        ("find_refused", refused, refused_trials),
        ("find_unstable", unstable, unstable_trials),
        ("find_repeated", find_repeated(), vec![]),
        ("find_storm", find_storm(), vec![]),
        ("hold_good", hold_good(), vec![]),
        ("hold_bad", hold_bad(), vec![]),
        ("hold_cycles", hold_cycles(), vec![]),
        ("hold_cut_short", hold_cut_short(), vec![]),
        ("hold_nothing", hold_nothing(), vec![]),
        ("compare_lower", compare_lower(), vec![]),
        ("compare_duet", compare_duet(), vec![]),
        ("compare_undecided", compare_undecided(), vec![]),
        ("sizing_better", sizing_better(), vec![]),
    ]
}

/// Returns a trial of `seconds` at `per_s` whose verdict and loss follow from `verdict`.
pub(crate) fn trial(
    number: u32,
    phase: Phase,
    per_s: u64,
    seconds: u64,
    verdict: Verdict,
) -> TrialRecord {
    let scheduled = per_s * seconds;
    let typical_us = if verdict == Verdict::Bad { 40_000 } else { 900 + per_s / 10 };
    let mut tally = tally(scheduled, typical_us, seconds);
    let mut reasons = vec![goal("errors<0.1%", 0.0)];
    match verdict {
        Verdict::Good => reasons.push(goal("p99<50ms", 0.0)),
        Verdict::Bad => {
            tally.late = scheduled / 43;
            tally.outstanding = vec![100, 1_512];
            reasons.insert(0, goal("p99<50ms", 0.0233));
        }
        Verdict::Invalid => {
            reasons.insert(0, send_lag(8_100, Level::Fail));
            reasons.insert(1, busiest(0.97, Level::Fail));
        }
    }
    let request = TrialRequest {
        number,
        phase,
        rate: rate(per_s as f64),
        duration: Nanos::from_secs(seconds),
        split: 1,
    };
    TrialRecord {
        further: Vec::new(),
        judgement: Judgement {
            verdict,
            reasons,
            loss_ratio: tally.bad() as f64 / tally.scheduled as f64,
        },
        measurement: TrialMeasurement {
            seconds: Vec::new(),
            request,
            window: Nanos::from_secs(seconds),
            aborted: false,
            tally,
            sut_busiest_thread: (verdict == Verdict::Bad || phase == Phase::Confirm)
                .then_some(0.984),
            split: 1,
            observations: Observations::default(),
        },
    }
}

pub(crate) fn trials() -> Vec<TrialRecord> {
    [
        (Phase::Qualify, 100, 2, Verdict::Good),
        (Phase::Expand, 8_000, 5, Verdict::Good),
        (Phase::Expand, 16_000, 5, Verdict::Good),
        (Phase::Expand, 32_000, 5, Verdict::Bad),
        (Phase::Narrow, 22_600, 5, Verdict::Invalid),
        (Phase::Narrow, 18_900, 5, Verdict::Bad),
        (Phase::Narrow, 18_200, 5, Verdict::Good),
        (Phase::Confirm, 18_200, 20, Verdict::Good),
    ]
    .into_iter()
    .zip(1..)
    .map(|((phase, per_s, seconds, verdict), number)| trial(number, phase, per_s, seconds, verdict))
    .collect()
}

pub(crate) fn tipping_point() -> TippingPoint {
    TippingPoint {
        lower: Some(rate(18_200.0)),
        upper: Some(rate(18_900.0)),
        conditional_throughput: Some(rate(18_150.0)),
        trials: 7,
        invalid_trials: 1,
        confidence: Some(0.9),
        safe: Some(rate(17_300.0)),
        run: Some(Nanos::from_secs(20)),
        spread: Some(0.012),
        drift_per_min: Some(-0.01),
        notes: vec!["an overload on purpose met the objective: searched on".to_owned()],
        outcome: Outcome::Regular,
        ..TippingPoint::default()
    }
}

pub(crate) fn find(tip: TippingPoint) -> FindSummary {
    let head = FindHead {
        axis: Axis::Rate,
        slo: "p99<50ms,errors<0.1%".to_owned(),
        mode: Mode::Quick,
        search: Nanos::from_secs(52),
        confirm: Nanos::from_secs(20),
    };
    FindSummary::new(head, tip)
}

fn find_with(tip: TippingPoint, trials: &[TrialRecord], verdict: Verdict) -> Summary {
    let mut head = head(20.0, verdict, Vec::new());
    head.command = "find".to_owned();
    let shown = trials.last().expect("fixtures have trials");
    head.result = find(tip).into();
    Summary::new(head, &shown.measurement.tally)
}

/// Returns the regular search with a cause that is only correlated.
pub(crate) fn find_correlated() -> (Summary, Vec<TrialRecord>) {
    let (mut summary, trials) = find_regular();
    for cause in summary.causes.iter_mut().flatten() {
        cause.grade = Grade::Correlated;
        cause.missing = Some(Missing::BackendLimit);
        cause.confirmations.clear();
    }
    (summary, trials)
}

pub(crate) fn find_regular() -> (Summary, Vec<TrialRecord>) {
    let trials = trials();
    let longest =
        Horizon { answer_ms: 5_050.0, connection_ms: 20_000.0, probe_ms: Some(150_000.0) };
    let cliffs = [cliff((3_000, 220, Closer::Success), Owner::Backend, None, "good answers")];
    let mut summary = find_with(tipping_point(), &trials, Verdict::Good);
    summary.causes = Some(causes::causes());
    (summary.with_timers(&cliffs, Some(timers()), longest), trials)
}

/// Returns six searches, of which one ended without an interval.
pub(crate) fn find_repeated() -> Summary {
    let search = |number, lower: Option<f64>, upper, outcome: Outcome, exit_code| RepeatedSearch {
        number,
        outcome,
        lower,
        upper,
        verdict: if exit_code == 0 { Verdict::Good } else { Verdict::Invalid },
        exit_code,
        trials: 14 + number,
        seconds: 170.0 + f64::from(number),
        archive: Some(format!("search-{number}")),
    };
    let found =
        |number, lower, upper| search(number, Some(lower), Some(upper), Outcome::Regular, 0);
    let limited = Outcome::GeneratorLimited { why: "send-lag, generator-cpu".to_owned() };
    let searches = vec![
        found(1, 12_800.0, 16_127.0),
        found(2, 12_222.0, 12_800.0),
        search(3, Some(9_600.0), None, limited, 98),
        found(4, 12_800.0, 13_405.0),
        found(5, 14_039.0, 14_703.0),
        found(6, 12_900.0, 13_500.0),
    ];
    let mut head = head(1_046.0, Verdict::Invalid, Vec::new());
    head.command = "lab".to_owned();
    let tip = TippingPoint {
        lower: Some(rate(12_222.0)),
        upper: Some(rate(16_127.0)),
        trials: 105,
        ..tipping_point()
    };
    head.result = find(tip).into();
    let repeat = RepeatSummary {
        asked: 6,
        used: 5,
        confidence: Some(0.9375),
        left_out: 0,
        fresh_sut: true,
        searches,
    };
    Summary { repeat: Some(repeat), ..Summary::new(head, &Tally::default()) }
}

pub(crate) fn find_generator_limited() -> (Summary, Vec<TrialRecord>) {
    let trials = vec![
        trial(1, Phase::Qualify, 100, 2, Verdict::Good),
        trial(2, Phase::Expand, 16_000, 5, Verdict::Good),
        trial(3, Phase::Expand, 32_000, 5, Verdict::Invalid),
        trial(4, Phase::Expand, 32_000, 5, Verdict::Invalid),
    ];
    let tip = TippingPoint {
        outcome: Outcome::GeneratorLimited { why: "send-lag, generator-cpu".to_owned() },
        lower: Some(rate(16_000.0)),
        trials: 2,
        invalid_trials: 2,
        run: Some(Nanos::from_secs(15)),
        ..TippingPoint::default()
    };
    (find_with(tip, &trials, Verdict::Invalid), trials)
}

pub(crate) fn find_fails_at_minimum() -> (Summary, Vec<TrialRecord>) {
    // 70/s answered and 30/s failed.
    let mut first = trial(1, Phase::Qualify, 70, 2, Verdict::Bad);
    first.measurement.request.rate = rate(100.0);
    let tally = &mut first.measurement.tally;
    tally.scheduled += 60;
    tally.failures.operations.add(ErrorClass::TlsUntrusted, 60);
    first.judgement.loss_ratio = tally.bad() as f64 / tally.scheduled as f64;
    let trials = vec![first];
    let tip = TippingPoint {
        outcome: Outcome::FailsAtMinimum,
        upper: Some(rate(100.0)),
        trials: 1,
        run: Some(Nanos::from_secs(15)),
        ..TippingPoint::default()
    };
    (find_with(tip, &trials, Verdict::Bad), trials)
}

/// Returns a search whose target refuses all connections.
pub(crate) fn find_refused() -> (Summary, Vec<TrialRecord>) {
    let (mut summary, mut trials) = find_fails_at_minimum();
    let tally = &mut trials[0].measurement.tally;
    *tally = Tally { scheduled: 200, ..Tally::default() };
    tally.failures.operations.add(ErrorClass::ConnectRefused, 200);
    tally.failures.attempts.add(ErrorClass::ConnectRefused, 300);
    tally.connections.failed = 300;
    trials[0].judgement.loss_ratio = 1.0;
    if let Some(find) = summary.result.find_mut() {
        find.confirm_s = 0.0;
    }
    let mut head = head(20.0, Verdict::Bad, Vec::new());
    head.command = summary.command;
    head.result = summary.result;
    (Summary::new(head, &trials[0].measurement.tally), trials)
}

pub(crate) fn find_unfinished() -> (Summary, Vec<TrialRecord>) {
    let trials: Vec<_> = trials().into_iter().take(4).collect();
    let tip = TippingPoint {
        outcome: Outcome::Unfinished { why: Stopped::Interrupted },
        lower: Some(rate(16_000.0)),
        upper: Some(rate(32_000.0)),
        trials: 4,
        run: Some(Nanos::from_secs(15)),
        ..TippingPoint::default()
    };
    let mut summary = find_with(tip, &trials, Verdict::Invalid);
    summary.partial = true;
    (summary, trials)
}
