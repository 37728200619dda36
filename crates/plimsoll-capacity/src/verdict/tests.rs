//! One trial, one defect: each check fails for its own reason and for no other.

use plimsoll_model::observation::Observations;
use plimsoll_model::trial::{Phase, TrialRequest, Verdict};

use super::*;

const OPS: u64 = 10_000;

/// 10,000 operations in 5 s, all answered in 1 ms, nothing wrong.
fn measurement() -> TrialMeasurement {
    let mut tally = Tally { scheduled: OPS, ok: OPS, ..Tally::default() };
    tally.spans.corrected.record_n(Nanos::from_millis(1), OPS);
    tally.spans.uncorrected.record_n(Nanos::from_millis(1), OPS);
    tally.spans.send_lag.record_n(Nanos(20_000), OPS);
    tally.connections.opened = 100;
    tally.generator.busiest_thread = 0.4;
    tally.outstanding = vec![2; 50];
    TrialMeasurement {
        seconds: Vec::new(),
        request: TrialRequest {
            number: 1,
            phase: Phase::Narrow,
            rate: Rate::per_second(2_000.0).expect("finite"),
            duration: Nanos::from_secs(5),
            split: 1,
        },
        window: Nanos::from_secs(5),
        aborted: false,
        tally,
        sut_busiest_thread: None,
        split: 1,
        observations: Observations::default(),
    }
}

/// `late` of the operations took 100 ms.
fn with_late(late: u64) -> TrialMeasurement {
    let mut measurement = measurement();
    let spans = &mut measurement.tally.spans;
    spans.corrected.clear();
    spans.corrected.record_n(Nanos::from_millis(1), OPS - late);
    spans.corrected.record_n(Nanos::from_millis(100), late);
    measurement.tally.late = late;
    measurement
}

fn with_errors(class: ErrorClass, errors: u64) -> TrialMeasurement {
    let mut measurement = measurement();
    let tally = &mut measurement.tally;
    tally.ok -= errors;
    tally.failures.operations.add(class, errors);
    tally.spans.corrected.clear();
    tally.spans.corrected.record_n(Nanos::from_millis(1), tally.ok);
    measurement
}

fn context() -> Context {
    Context { unloaded: crate::Unloaded::of(&measurement().tally) }
}

fn verdict(measurement: &TrialMeasurement) -> Verdict {
    judge(measurement, &Slo::default(), &context()).verdict
}

fn failing(measurement: &TrialMeasurement) -> Vec<String> {
    judge(measurement, &Slo::default(), &context())
        .reasons
        .into_iter()
        .filter(|check| check.level == Level::Fail)
        .map(|check| check.id.name().into_owned())
        .collect()
}

#[test]
fn goals_pass_at_their_limit_and_fail_above_it() {
    assert_eq!(verdict(&measurement()), Verdict::Good);
    assert_eq!(verdict(&with_late(100)), Verdict::Good);
    assert_eq!(failing(&with_late(101)), ["p99<50ms"]);
    assert_eq!(verdict(&with_late(101)), Verdict::Bad);
    assert_eq!(verdict(&with_errors(ErrorClass::Status5xx, 10)), Verdict::Good);
    assert_eq!(failing(&with_errors(ErrorClass::Status5xx, 11)), ["errors<0.1%"]);
    assert_eq!(failing(&with_errors(ErrorClass::Timeout, 11)), ["errors<0.1%"]);
}

#[test]
fn late_failed_and_unsent_add_up_in_a_latency_goal() {
    let mut measurement = with_late(50);
    let tally = &mut measurement.tally;
    tally.ok -= 60;
    tally.unsent = 51;
    tally.pool_exhausted = 51;
    tally.failures.operations.add(ErrorClass::ResetByPeer, 9);
    tally.spans.corrected.clear();
    tally.spans.corrected.record_n(Nanos::from_millis(1), OPS - 110);
    tally.spans.corrected.record_n(Nanos::from_millis(100), 50);
    // The pool ran dry because the server got slower.
    tally.spans.uncorrected.record_n(Nanos::from_millis(40), 2 * OPS);
    let judgement = judge(&measurement, &Slo::default(), &context());
    assert_eq!(judgement.verdict, Verdict::Bad, "{:?}", judgement.reasons);
    assert_eq!(judgement.loss_ratio, 0.011);
    let missed = judgement.reasons[0].deciding().expect("a figure");
    assert_eq!((missed.value, missed.unit), (0.011, Unit::Ratio));
    assert!(missed.at_most.is_some_and(|most| (most - 0.01).abs() < 1e-9), "{missed:?}");
}

#[test]
fn a_small_pool_is_not_the_servers_fault() {
    let mut measurement = with_late(3_000);
    measurement.tally.pool_exhausted = 5_000;
    assert_eq!(failing(&measurement), ["pool", "p99<50ms"]);
    assert_eq!(verdict(&measurement), Verdict::Invalid);
    // The same waits with a server that takes its time are its own.
    measurement.tally.spans.uncorrected.record_n(Nanos::from_millis(2), 2 * OPS);
    assert_eq!(verdict(&measurement), Verdict::Bad);
}

#[test]
fn a_server_that_answers_in_bursts_keeps_connections_busy_by_itself() {
    let mut measurement = with_late(3_000);
    measurement.tally.pool_exhausted = 5_000;
    let spans = &mut measurement.tally.spans;
    spans.uncorrected.clear();
    // The median is the unloaded one, the mean is eleven times as long.
    spans.uncorrected.record_n(Nanos::from_millis(1), OPS * 6 / 10);
    spans.uncorrected.record_n(Nanos::from_millis(25), OPS * 4 / 10);
    assert_eq!(failing(&measurement), ["p99<50ms"]);
    assert_eq!(verdict(&measurement), Verdict::Bad);
}

#[test]
fn lag_spoils_only_what_it_can_explain() {
    let lagging = |late: u64, lagged: u64| {
        let mut measurement = with_late(late);
        measurement.tally.spans.send_lag.record_n(Nanos::from_millis(8), lagged);
        measurement
    };
    // 3 % of the operations were sent 8 ms late.
    assert_eq!(verdict(&lagging(0, 300)), Verdict::Good);
    assert_eq!(failing(&lagging(500, 300)), ["send-lag", "p99<50ms"]);
    assert_eq!(verdict(&lagging(500, 300)), Verdict::Invalid);
    // 80 % late cannot come from 3 % sent late.
    assert_eq!(verdict(&lagging(8_000, 300)), Verdict::Bad);
    // p99 is fine, p99.9 is not.
    assert_eq!(verdict(&lagging(200, 50)), Verdict::Invalid);
    assert_eq!(verdict(&lagging(2_000, 50)), Verdict::Bad);
    // Errors do not come from lag.
    let mut errors = with_errors(ErrorClass::Status5xx, 500);
    errors.tally.spans.send_lag.record_n(Nanos::from_millis(8), 300);
    assert_eq!(verdict(&errors), Verdict::Bad);
}

#[test]
fn a_busy_generator_spoils_bad_trials_and_only_them() {
    for (late, busiest, expected) in
        [(0, 0.97, Verdict::Good), (500, 0.97, Verdict::Invalid), (500, 0.80, Verdict::Bad)]
    {
        let mut measurement = with_late(late);
        measurement.tally.generator.busiest_thread = busiest;
        assert_eq!(verdict(&measurement), expected, "{late} late, busiest {busiest}");
        let judgement = judge(&measurement, &Slo::default(), &context());
        let cpu = judgement.reasons.iter().find(|check| check.id == CheckId::GeneratorCpu);
        assert!(cpu.is_some_and(|check| check.level != Level::Pass));
    }
}

#[test]
fn what_was_not_offered_or_not_counted_is_always_invalid() {
    let mut short = measurement();
    short.tally.scheduled = OPS * 98 / 100;
    short.tally.ok = short.tally.scheduled;
    short.tally.spans.corrected.clear();
    short.tally.spans.corrected.record_n(Nanos::from_millis(1), short.tally.ok);
    assert_eq!(failing(&short), ["rate-fidelity"]);

    let mut unsent = measurement();
    unsent.tally.ok -= 150;
    unsent.tally.unsent = 150;
    unsent.tally.spans.corrected.clear();
    unsent.tally.spans.corrected.record_n(Nanos::from_millis(1), OPS - 150);
    assert_eq!(failing(&unsent), ["rate-fidelity", "p99<50ms"]);
    unsent.tally.connections.failed = 3;
    assert_eq!(failing(&unsent), ["p99<50ms"]);

    let mut lost = measurement();
    lost.tally.ok -= 1;
    assert_eq!(failing(&lost), ["accounting"]);

    assert_eq!(failing(&with_errors(ErrorClass::LocalPorts, 1)), ["local-errors"]);
    let mut files = measurement();
    files.tally.failures.attempts.add(ErrorClass::LocalFiles, 2);
    let judgement = judge(&files, &Slo::default(), &context());
    assert_eq!(judgement.verdict, Verdict::Invalid);
    let files = judgement.reasons[0].deciding().map(|seen| (&*seen.name, seen.value));
    assert_eq!(files, Some(("local-files", 2.0)));

    let mut nothing = measurement();
    nothing.tally = Tally::default();
    assert_eq!(failing(&nothing), ["rate-fidelity"]);
}

#[test]
fn an_aborted_trial_is_bad_and_its_outstanding_operations_count() {
    let mut aborted = measurement();
    aborted.aborted = true;
    aborted.window = Nanos::from_secs(1);
    aborted.tally.scheduled = 1_990;
    aborted.tally.ok = 1_500;
    aborted.tally.spans.corrected.clear();
    aborted.tally.spans.corrected.record_n(Nanos::from_millis(1), 1_500);
    aborted.tally.outstanding.truncate(10);
    assert_eq!(failing(&aborted), ["p99<50ms"]);
    assert_eq!(verdict(&aborted), Verdict::Bad);
    // Classed as interrupted they are the same, and no error of the server's.
    aborted.tally.failures.operations.add(ErrorClass::Interrupted, 490);
    assert_eq!(failing(&aborted), ["p99<50ms"]);
    // A guard stopped it before a goal was missed.
    let mut guarded = measurement();
    guarded.aborted = true;
    assert_eq!(failing(&guarded), ["aborted"]);
    assert_eq!(verdict(&guarded), Verdict::Bad);
}

#[test]
fn an_interrupt_decides_nothing() {
    assert_eq!(verdict(&with_errors(ErrorClass::Interrupted, 200)), Verdict::Invalid);
    assert_eq!(verdict(&with_errors(ErrorClass::Interrupted, 5)), Verdict::Good);
}

#[test]
fn a_growing_backlog_is_bad_before_the_deadline_notices() {
    let mut growing = measurement();
    growing.tally.outstanding = (0..50).map(|i| i * 10).collect();
    assert_eq!(failing(&growing), ["stable"]);
    assert_eq!(verdict(&growing), Verdict::Bad);
    let load = judge_load(
        &growing.tally,
        growing.window,
        Some(&Slo::default()),
        true,
        &Observations::default(),
    );
    assert_eq!(load.verdict, Verdict::Good);
    assert!(load.reasons.iter().any(|c| c.id == CheckId::Stable && c.level == Level::Warn));
}

#[test]
fn plain_loads() {
    let seconds = Nanos::from_secs(5);
    let good = measurement().tally;
    assert_eq!(
        judge_load(&good, seconds, None, true, &Observations::default()).verdict,
        Verdict::Good
    );
    let late = with_late(5_000).tally;
    assert_eq!(
        judge_load(&late, seconds, None, true, &Observations::default()).verdict,
        Verdict::Good
    );
    assert_eq!(
        judge_load(&late, seconds, Some(&Slo::default()), true, &Observations::default()).verdict,
        Verdict::Bad
    );
    let mut lagging = good;
    lagging.spans.send_lag.record_n(Nanos::from_millis(30), OPS);
    assert_eq!(
        judge_load(&lagging, seconds, None, true, &Observations::default()).verdict,
        Verdict::Invalid
    );
    let closed = judge_load(&lagging, seconds, None, false, &Observations::default());
    assert_eq!(closed.verdict, Verdict::Good);
    assert!(
        closed.reasons.iter().all(|c| ![CheckId::SendLag, CheckId::RateFidelity].contains(&c.id))
    );
}

#[test]
fn a_load_that_nothing_answered_is_no_success() {
    let seconds = Nanos::from_secs(5);
    let mut refused = Tally { scheduled: 50, ..Tally::default() };
    refused.failures.operations.add(ErrorClass::ConnectRefused, 50);
    refused.connections.failed = 50;
    // Operations that no connection was ever there for lag without any meaning.
    refused.spans.send_lag.record_n(Nanos::from_millis(30), 50);
    let load = judge_load(&refused, seconds, None, true, &Observations::default());
    assert_eq!(load.verdict, Verdict::Bad, "{:?}", load.reasons);
    assert_eq!(load.reasons.first().map(|check| &check.id), Some(&CheckId::Answers));
    // A bad answer is an answer; what was cut short proves nothing.
    let mut answered = refused.clone();
    answered.answers.status.add(503, 1);
    assert_eq!(
        judge_load(&answered, seconds, None, true, &Observations::default()).verdict,
        Verdict::Good
    );
    let mut stopped = Tally { scheduled: 1, ..Tally::default() };
    stopped.failures.operations.add(ErrorClass::Interrupted, 1);
    assert_eq!(
        judge_load(&stopped, seconds, None, true, &Observations::default()).verdict,
        Verdict::Good
    );
    let mut ours = Tally { scheduled: 50, ..Tally::default() };
    ours.failures.operations.add(ErrorClass::LocalPorts, 50);
    assert_eq!(
        judge_load(&ours, seconds, None, true, &Observations::default()).verdict,
        Verdict::Invalid
    );
}

#[test]
fn answers_that_are_all_redirects_or_one_refusal_warn() {
    for (statuses, check) in [
        (&[(301, 9), (302, 1)][..], Some(CheckId::Redirects)),
        (&[(404, 10)], Some(CheckId::Refused)),
        (&[(200, 1), (301, 9)], None),
        (&[(200, 10)], None),
    ] {
        let mut tally = measurement().tally;
        statuses.iter().for_each(|(status, answers)| tally.answers.status.add(*status, *answers));
        let made = uniform(&tally).map(|check| (check.id, check.level));
        assert_eq!(made, check.map(|id| (id, Level::Warn)), "{statuses:?}");
    }
}
