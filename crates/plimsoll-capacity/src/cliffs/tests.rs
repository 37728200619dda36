//! Timers among simulated loads.

use plimsoll_model::tally::{Interval, Tally};

use super::*;

/// Returns the cliffs of one second of a load.
fn find_in(tally: &Tally) -> Vec<Cliff> {
    let slow = slow_in(tally);
    find(&[Load { tally, slow: &slow, rate: None, sent_again: None }], &[])
}

/// The slow answers of a load of one second.
fn slow_in(tally: &Tally) -> SlowAnswers {
    let mut slow = SlowAnswers::default();
    slow.handle_second(&Interval { second: 0, tally: tally.clone() });
    slow
}

fn ms(ms: u64) -> Nanos {
    Nanos::from_millis(ms)
}

/// Answers around 10 ms, and `count` ends of one kind at `at`, spread over `over`.
fn tally(stretch: Stretch, closer: Closer, at: Nanos, ops: [u32; 2], over: Nanos) -> Tally {
    let mut tally = Tally::default();
    for i in 0..1_000 {
        tally.spans.uncorrected.record(ms(5 + i % 10));
    }
    for i in 0..100u64 {
        let ops = ops[i as usize % 2];
        tally.endings.record(stretch, closer, at, ops, Nanos(over.0 / 100 * i));
    }
    tally
}

#[test]
fn a_gateway_timeout_is_found_and_named() {
    let at = Nanos::from_secs(30);
    let tally = tally(Stretch::Operation, Closer::Status(504), at, [0, 0], at);
    let [cliff] = &find_in(&tally)[..] else { panic!("{:?}", find_in(&tally)) };
    assert_eq!((cliff.owner, cliff.count), (Owner::Sut, 100));
    assert!(cliff.label.as_ref().is_some_and(|label| label.starts_with("near 30 s")), "{cliff:?}");
}

#[test]
fn few_that_end_after_the_time_of_a_pile_belong_to_its_timer() {
    let at = Nanos::from_secs(1);
    let counts = |few_at: Nanos| {
        let mut tally = tally(Stretch::Idle, Closer::PeerAnswer, at, [0, 0], at);
        for i in 0..3 {
            tally.endings.record(Stretch::Idle, Closer::PeerFin, few_at + Nanos(i), 1, at);
        }
        let found = find_in(&tally);
        found.iter().map(|cliff| (cliff.closer, cliff.count)).collect::<Vec<_>>()
    };
    let pile = (Closer::PeerAnswer, 100);
    assert_eq!(counts(ms(1_002)), [pile, (Closer::PeerFin, 3)]);
    assert_eq!(counts(ms(1_100)), [pile]);
}

#[test]
fn a_limit_on_requests_is_no_timer() {
    let at = Nanos::from_secs(10);
    let find_with = |ops| find_in(&tally(Stretch::Lifetime, Closer::PeerAnswer, at, ops, at)).len();
    assert_eq!(find_with([100, 100]), 0);
    assert_eq!(find_with([99, 104]), 1);
}

#[test]
fn ends_at_one_instant_are_doubted_only_if_their_ages_differ_more() {
    let at = Nanos::from_secs(5);
    // How far apart connections were opened, and how far apart they ended.
    for (ages_ms, ends_ms, confidence) in [
        (40, 1, Confidence::Possible),
        // Opened together and closed by a timer: instants agree because ages do.
        (0, 40, Confidence::Likely),
        (4, 4, Confidence::Likely),
        (40, 5_000, Confidence::Likely),
    ] {
        let mut tally = Tally::default();
        for i in 0..100u64 {
            let age = at + Nanos(ages_ms * 10_000 * i);
            let now = Nanos(ends_ms * 10_000 * i);
            tally.endings.record(Stretch::Idle, Closer::PeerFin, age, i as u32 % 2, now);
        }
        let found = find_in(&tally);
        assert_eq!(found[0].confidence, confidence, "{ages_ms} {ends_ms} {found:?}");
        let is_doubted = found[0].evidence.contains("one event");
        assert_eq!(is_doubted, confidence == Confidence::Possible, "{found:?}");
    }
}

#[test]
fn the_age_of_a_connection_does_not_repeat_what_ended_it() {
    let at = Nanos::from_secs(3);
    let mut tally = tally(Stretch::Operation, Closer::Status(504), at, [0, 0], at);
    for i in 0..50 {
        let (at, now) = (at + ms(9), Nanos(i * 100_000_000));
        tally.endings.record(Stretch::Lifetime, Closer::PeerAnswer, at, i as u32, now);
    }
    assert_eq!(find_in(&tally).len(), 1);
}

#[test]
fn a_syn_that_was_sent_again_is_told_from_a_far_address() {
    let connects = |late_ms: u64| {
        let mut tally = Tally::default();
        for i in 0..200 {
            tally.spans.connect.record(ms(late_ms + i % 33));
            tally.spans.connect.record(ms(if i % 2 == 0 { 1 } else { late_ms }));
        }
        find_in(&tally)
    };
    let [cliff] = &connects(1_000)[..] else { panic!("{:?}", connects(1_000)) };
    assert_eq!((cliff.owner, cliff.closer), (Owner::Client, Closer::Success));
    assert_eq!(cliff.label.as_deref(), Some("near 1 s (first SYN retransmission)"));
    assert_eq!(connects(1_500), []);
}

#[test]
fn answers_as_slow_as_most_are_no_cliff() {
    let mut tally = Tally::default();
    for i in 0..1_000 {
        tally.spans.uncorrected.record(ms(3_000 + i % 5));
    }
    assert_eq!(find_in(&tally), []);
}

/// A trial at a rate, of one second: answers around 5 ms, and others.
struct Trial(u64, Tally, SlowAnswers);

fn trial(rate: u64, fast: u64, others: &[(Nanos, u64)]) -> Trial {
    let mut tally = Tally::default();
    for i in 0..fast {
        tally.spans.connect.record(Nanos(100_000));
        tally.spans.uncorrected.record(Nanos(4_000_000 + i % 100 * 20_000));
    }
    for (at, count) in others {
        for i in 0..*count {
            // As late as timers are noticed.
            tally.spans.uncorrected.record(*at + Nanos(i % 10 * at.0 / 2_000));
        }
    }
    let slow = slow_in(&tally);
    Trial(rate, tally, slow)
}

fn find_in_trials<'a>(trials: &'a [Trial], sent_again: u64) -> Vec<Cliff> {
    let sent_again = Some(sent_again / trials.len() as u64);
    let load = |trial: &'a Trial| {
        let Trial(rate, tally, slow) = trial;
        let rate = Rate::per_second(*rate as f64);
        Load { tally, slow, rate, sent_again }
    };
    find(&trials.iter().map(load).collect::<Vec<_>>(), &[])
}

#[test]
fn a_queue_moves_with_the_load_and_a_timer_does_not() {
    let queue = Nanos(142_500_000);
    let overloaded = |others: u64| trial(800, others, &[(queue, 3_000)]);
    // 100 connections of which each is served every 143 ms.
    assert_eq!(find_in_trials(&[trial(400, 9_000, &[]), overloaded(50)], 0), []);
    // Also while the queue fills and empties, so that most answers are fast.
    let found = find_in_trials(&[trial(400, 9_000, &[]), overloaded(9_000)], 0);
    assert_eq!(found, []);
    // The same answers at the lower load, too.
    let found = find_in_trials(&[trial(400, 9_000, &[(queue, 1_000)]), overloaded(9_000)], 0);
    assert_eq!((found.len(), found[0].confidence), (1, Confidence::Likely), "{found:?}");
    // Only the overload was observed.
    let found = find_in_trials(&[overloaded(9_000), overloaded(9_000)], 0);
    assert_eq!((found.len(), found[0].confidence), (1, Confidence::Possible), "{found:?}");
}

#[test]
fn a_timer_is_found_behind_the_queue_of_an_overload() {
    let timer = Nanos::from_secs(5);
    let calm = || trial(400, 3_000, &[(timer, 2)]);
    let mut trials: Vec<_> = (0..10).map(|_| calm()).collect();
    trials.push(trial(1_000, 2_000, &[(ms(143), 1_500), (timer, 5)]));
    trials.push(trial(1_000, 2_000, &[(ms(143), 1_500), (timer, 5)]));
    let found = find_in_trials(&trials, 0);
    let [cliff] = &found[..] else { panic!("{found:?}") };
    assert_eq!((cliff.count, cliff.owner), (30, Owner::Backend), "{cliff:?}");
}

#[test]
fn a_delayed_ack_is_found_among_some_answers_and_in_all() {
    // A kernel of 250 Hz is up to a tick late.
    let delayed: Vec<_> = (0..40).map(|i| (Nanos(40_400_000 + i * 100_000), 5)).collect();
    for fast in [2_000, 10] {
        let trials = [trial(100, fast, &delayed), trial(200, fast, &delayed)];
        let found = find_in_trials(&trials, 0);
        let [cliff] = &found[..] else { panic!("{found:?}") };
        assert_eq!((cliff.owner, cliff.confidence), (Owner::Sut, Confidence::Possible));
        assert!(cliff.label.as_ref().is_some_and(|label| label.contains("Nagle")), "{cliff:?}");
    }
    // 40 ms of work are no delayed ACK.
    let work: Vec<_> = (0..40).map(|i| (Nanos(30_000_000 + i * 500_000), 5)).collect();
    assert_eq!(find_in_trials(&[trial(100, 2_000, &work)], 0), []);
}

#[test]
fn what_was_sent_again_is_the_paths() {
    let late: Vec<_> = (0..8).map(|i| (Nanos(200_400_000 + i * 1_000_000), 5)).collect();
    let trials = [trial(100, 2_000, &late), trial(200, 2_000, &late)];
    let found = find_in_trials(&trials, 80);
    let [cliff] = &found[..] else { panic!("{found:?}") };
    assert_eq!((cliff.owner, cliff.confidence), (Owner::Network, Confidence::Likely));
    assert_eq!(cliff.label.as_deref(), Some("TCP retransmission"));
    // Without a segment sent again here, the answers may be the backend's.
    let exact = [trial(100, 2_000, &[(ms(200), 50)]), trial(200, 2_000, &[(ms(200), 50)])];
    let found = find_in_trials(&exact, 0);
    assert_eq!((found[0].owner, found[0].confidence), (Owner::Backend, Confidence::Possible));
}
