//! The machine fed by hand: scripts of frames and losses, and what comes out.

use plimsoll_model::Rate;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{HoldPlan, Steer, Timeouts};
use plimsoll_model::reason::Reason;
use proptest::prelude::*;

use crate::message::AgentFault;

use super::*;

/// Returns a plan of two seconds at 10/s.
pub(crate) fn plan() -> LoadPlan {
    let rate = Rate::per_second(10.0).unwrap();
    let profile = Profile::constant(rate, Nanos::from_secs(2));
    let pacing = Pacing::Open { profile, arrivals: Arrivals::Uniform };
    let timeouts = Timeouts { linger: Nanos::from_secs(3), ..Timeouts::default() };
    LoadPlan { prewarm: false, timeouts, ..LoadPlan::plain(&[], pacing) }
}

const NOW: Nanos = Nanos::from_secs(1000);

fn load(plan: &LoadPlan, agents: usize) -> LoadRun {
    placed(plan, agents, StartOf::Here)
}

fn placed(plan: &LoadPlan, agents: usize, start: StartOf) -> LoadRun {
    let control = LoadControl::new(&|| false);
    let member = |index| Member {
        name: format!("agent {}", index + 1),
        shard: Shard { index: index as u32, of: agents as u32 },
        threads: 1,
    };
    LoadRun::new((0..agents).map(member).collect(), Terms::new(plan, &control, agents, start), NOW)
}

pub(super) fn started(plan: &LoadPlan, agents: usize) -> LoadRun {
    let mut run = load(plan, agents);
    for index in 0..agents {
        assert_eq!(run.poll_action(), None);
        run.handle_frame(index, ready(), NOW);
    }
    let start = ToAgent::Start { epoch_monotonic: NOW + START_DELAY };
    for index in 0..agents {
        assert_eq!(run.poll_action(), Some(Action::Send(index, start.clone())));
    }
    assert!(matches!(run.poll_event(), Some(Event::LoadStarted { .. })));
    run
}

fn ready() -> FromAgent {
    FromAgent::Load(LoadEvent::Ready { opened: 4, failed: 0, first_error: None })
}

fn ended(ms: u64) -> FromAgent {
    FromAgent::Load(LoadEvent::Ended { window: Nanos::from_millis(ms) })
}

/// Returns a second in which `scheduled` operations came due and `ok` of them, or of earlier ones,
/// were answered.
fn second(second: u32, scheduled: u64, ok: u64) -> FromAgent {
    let mut tally = Tally { scheduled, ok, ..Tally::default() };
    tally.spans.corrected.record_n(Nanos::from_millis(u64::from(second) + 1), ok);
    FromAgent::Load(LoadEvent::Interval(Box::new(Interval { second, tally })))
}

fn actions(run: &mut LoadRun) -> Vec<Action> {
    std::iter::from_fn(|| run.poll_action()).collect()
}

fn seconds(run: &mut LoadRun) -> Vec<(u32, u64)> {
    std::iter::from_fn(|| run.poll_event())
        .filter_map(|event| match event {
            Event::Interval(interval) => Some((interval.second, interval.tally.ok)),
            _ => None,
        })
        .collect()
}

fn armed(margin_ms: u64) -> FromAgent {
    FromAgent::Armed { margin: Nanos::from_millis(margin_ms) }
}

/// Returns a run of two ready agents on other hosts, and the instant that they got.
fn told() -> (LoadRun, Nanos) {
    let mut run = placed(&plan(), 2, StartOf::There);
    run.handle_round_trip(Nanos::from_millis(100));
    run.handle_frame(0, ready(), NOW);
    assert_eq!(actions(&mut run), []);
    run.handle_frame(1, ready(), NOW);
    let epoch = NOW + Nanos::from_millis(1_400);
    assert_eq!(actions(&mut run), sent(2, &ToAgent::Start { epoch_monotonic: epoch }));
    (run, epoch)
}

fn sent(agents: usize, command: &ToAgent) -> Vec<Action> {
    (0..agents).map(|index| Action::Send(index, command.clone())).collect()
}

#[test]
fn other_hosts_go_when_all_know_the_instant() {
    let (mut run, epoch) = told();
    run.handle_frame(1, armed(900), NOW);
    assert_eq!((actions(&mut run), run.epoch), (vec![], None));
    run.handle_frame(0, armed(800), NOW + Nanos::from_millis(600));
    assert_eq!((actions(&mut run), run.epoch), (sent(2, &ToAgent::Go), Some(epoch)));
    // One that was sent again by whatever accident is no failure.
    run.handle_frame(0, armed(800), NOW + Nanos::from_millis(600));
    assert_eq!(actions(&mut run), []);
}

#[test]
fn a_host_that_was_told_too_late_delays_all() {
    let (mut run, _) = told();
    run.handle_frame(1, armed(900), NOW);
    // The word reached this one when the instant had passed.
    run.handle_frame(0, armed(0), NOW + Nanos::from_millis(1_500));
    assert_eq!(actions(&mut run), []);
    let now = run.poll_timeout();
    assert_eq!(now, NOW + Nanos::from_millis(700));
    run.handle_timeout(now);
    let epoch = now + Nanos::from_millis(2_800);
    assert_eq!(actions(&mut run), sent(2, &ToAgent::Start { epoch_monotonic: epoch }));
    run.handle_frame(0, armed(2_500), now);
    // Its answer to the first instant does not count for the second.
    assert_eq!(actions(&mut run), []);
    run.handle_frame(1, armed(2_600), now);
    assert_eq!((actions(&mut run), run.epoch), (sent(2, &ToAgent::Go), Some(epoch)));
}

#[test]
fn a_host_that_never_knows_the_instant_ends_the_load_before_it_begins() {
    let (mut run, _) = told();
    let mut killed = Vec::new();
    for _ in 0..STARTS_MAX {
        run.handle_frame(1, armed(900), NOW);
        run.handle_timeout(run.poll_timeout());
        let stop = |action: &Action| matches!(action, Action::Send(_, ToAgent::Go));
        let actions = actions(&mut run);
        assert!(!actions.iter().any(stop), "{actions:?}");
        killed.extend(actions.into_iter().filter(|action| matches!(action, Action::Kill(_))));
    }
    assert_eq!(killed, [Action::Kill(0)]);
    run.handle_frame(1, ended(0), NOW);
    let failure = run.into_outcome().unwrap_err();
    assert!(matches!(failure, FleetError::Lost { agent, .. } if agent == "agent 1"));
}

#[test]
fn an_agent_that_floods_is_given_up() {
    let note = || FromAgent::Note("again".to_owned());
    let mut run = started(&plan(), 2);
    (0..NOTES_MAX).for_each(|_| run.handle_frame(0, note(), NOW));
    assert_eq!(actions(&mut run), []);
    run.handle_frame(0, note(), NOW);
    assert_eq!(actions(&mut run), [Action::Kill(0)]);
    assert_eq!(run.lost(), 1);

    let mut run = started(&plan(), 2);
    (0..SECONDS_AHEAD_MAX).for_each(|at| run.handle_frame(1, second(at, 0, 0), NOW));
    assert_eq!(actions(&mut run), []);
    run.handle_frame(1, second(0, 0, 0), NOW);
    assert_eq!(actions(&mut run), [Action::Kill(1)]);
    // A second of the far future at once.
    let mut run = started(&plan(), 2);
    run.handle_frame(1, second(u32::MAX, 0, 0), NOW);
    assert_eq!(actions(&mut run), [Action::Kill(1)]);
}

#[test]
fn an_interrupt_before_the_word_ends_the_load() {
    let (mut run, _) = told();
    run.handle_frame(0, armed(900), NOW);
    run.handle_interrupt(NOW);
    run.handle_frame(1, armed(900), NOW);
    let actions = actions(&mut run);
    assert!(actions.iter().all(|action| matches!(action, Action::Send(_, ToAgent::Stop { .. }))));
    for index in 0..2 {
        run.handle_frame(index, ended(0), NOW);
    }
    assert!(run.into_outcome().unwrap().interrupted);
}

#[test]
fn a_relay_tells_what_its_first_agents_could_not_open() {
    let mut run = placed(&plan(), 2, StartOf::Told);
    let first_error = Some("refused".to_owned());
    let short = FromAgent::Load(LoadEvent::Ready {
        opened: 3,
        failed: 1,
        first_error: first_error.clone(),
    });
    run.handle_frame(0, short, NOW);
    assert_eq!(run.ready(), None);
    run.handle_frame(1, ready(), NOW);
    assert_eq!(run.ready(), Some(Opened { connections: 7, failed: 1, first_error }));
}

#[test]
fn a_relay_starts_when_it_is_told_and_tells_what_it_lost() {
    let mut run = placed(&plan(), 2, StartOf::Told);
    run.start(NOW);
    run.handle_frame(0, ready(), NOW);
    assert_eq!((actions(&mut run), run.ready()), (vec![], None));
    run.handle_frame(1, ready(), NOW);
    let opened = Opened { connections: 8, ..Opened::default() };
    assert_eq!((actions(&mut run), run.ready()), (vec![], Some(opened)));
    // It may have to wait for other hosts.
    assert_eq!(run.poll_timeout(), Nanos::MAX);
    let epoch = NOW + Nanos::from_secs(3);
    run.start(epoch);
    assert_eq!(actions(&mut run), sent(2, &ToAgent::Start { epoch_monotonic: epoch }));
    run.handle_loss(1, "fell", NOW);
    assert_eq!((run.lost(), run.epoch), (1, Some(epoch)));
}

#[test]
fn a_process_that_a_host_lost_makes_the_load_partial_and_may_end_it() {
    for stops in [false, true] {
        let mut run = started(&plan(), 1);
        run.terms.stops_at_loss = stops;
        run.handle_frame(0, FromAgent::Note("agent 3 fell".to_owned()), NOW);
        run.handle_frame(0, FromAgent::PartLost, NOW);
        assert_eq!(!actions(&mut run).is_empty(), stops);
        run.handle_frame(0, ended(1_000), NOW);
        let outcome = run.into_outcome().unwrap();
        assert_eq!((outcome.lost_agents, outcome.is_partial()), (1, true));
        assert_eq!(outcome.notes, ["agent 1: agent 3 fell"]);
    }
}

#[test]
fn a_second_is_handed_out_once_every_agent_has_delivered_it() {
    let mut run = started(&plan(), 2);
    run.handle_frame(0, second(0, 5, 5), NOW);
    run.handle_frame(0, second(1, 5, 5), NOW);
    assert_eq!(seconds(&mut run), []);
    run.handle_frame(1, second(0, 5, 4), NOW);
    assert_eq!(seconds(&mut run), [(0, 9)]);
    // The first agent is done: the second one alone decides.
    run.handle_frame(0, ended(2000), NOW);
    assert_eq!(seconds(&mut run), []);
    run.handle_frame(1, second(1, 5, 5), NOW);
    run.handle_frame(1, FromAgent::Load(LoadEvent::Draining { in_flight: 1 }), NOW);
    run.handle_frame(1, second(2, 0, 1), NOW);
    run.handle_frame(1, ended(2100), NOW);
    let events: Vec<_> = std::iter::from_fn(|| run.poll_event()).collect();
    assert!(
        matches!(
            &events[..],
            [
                Event::Interval(first),
                Event::Draining { in_flight: 1 },
                Event::Interval(last)
            ] if first.second == 1 && last.second == 2
        ),
        "{events:?}"
    );
    let outcome = run.into_outcome().unwrap();
    assert!(outcome.tally.balances() && !outcome.is_partial());
    assert_eq!((outcome.tally.scheduled, outcome.tally.generator.processes), (20, 2));
    assert_eq!(outcome.window, Nanos::from_millis(2100));
    assert_eq!(outcome.notes, Vec::<String>::new());
}

#[test]
fn the_first_failure_is_told_once_and_reasons_are_merged() {
    let mut run = started(&plan(), 2);
    let reason = |index: usize| Reason::other(&format_args!("agent {index}"));
    for index in [1, 0] {
        let mut tally = Tally { scheduled: 10, ok: 10, ..Tally::default() };
        let class = ErrorClass::Status5xx;
        tally.failures.reasons.note(class, Reason::status(503, b"", &[]), Nanos(20), || None);
        tally.failures.reasons.note(class, reason(index), Nanos(7), || None);
        let interval = Box::new(Interval { second: 0, tally });
        run.handle_frame(index, FromAgent::Load(LoadEvent::Interval(interval)), NOW);
        run.handle_frame(index, ended(1000), NOW);
    }
    let first = std::iter::from_fn(|| run.poll_event()).filter_map(|event| match event {
        Event::FirstFailure { reason, .. } => Some(reason),
        _ => None,
    });
    assert_eq!(first.collect::<Vec<_>>(), [reason(1)]);
    let outcome = run.into_outcome().unwrap();
    let counts: Vec<_> = outcome
        .tally
        .failures
        .reasons
        .iter()
        .flat_map(|(_, all)| all)
        .map(|one| one.count)
        .collect();
    assert_eq!(counts, [1, 1, 2]);
}

#[test]
fn too_many_bad_operations_stop_all_agents_once() {
    let mut run = started(&LoadPlan { abort_bad_ops: Some(3), ..plan() }, 2);
    for (index, unsent, expected) in [(0, 3, false), (1, 1, true), (1, 9, true)] {
        let tally = Tally { scheduled: unsent, unsent, ..Tally::default() };
        let interval = Box::new(Interval { second: 0, tally });
        run.handle_frame(index, FromAgent::Load(LoadEvent::Interval(interval)), NOW);
        assert_eq!(run.outcome.aborted, expected);
    }
    let stop = ToAgent::Stop { grace: Nanos::from_secs(1) };
    let expected = [Action::Send(0, stop.clone()), Action::Send(1, stop)];
    assert_eq!(actions(&mut run), expected);
    // An interrupt adds nothing to say.
    run.handle_interrupt(NOW);
    assert_eq!(actions(&mut run), []);
}

#[test]
fn a_hung_agent_is_killed_and_its_operations_are_counted() {
    let mut run = started(&plan(), 2);
    run.handle_frame(0, second(0, 5, 5), NOW);
    run.handle_frame(0, ended(2000), NOW);
    run.handle_frame(1, second(0, 7, 4), NOW);
    // 50 ms to the epoch, 2 s of load, 5 s to connect, 3 s of linger, 10 s of overrun.
    let deadline = NOW + Nanos::from_millis(20_050);
    assert_eq!(run.poll_timeout(), deadline);
    run.handle_timeout(Nanos(deadline.0 - 1));
    assert!(!run.is_over());
    run.handle_timeout(deadline);
    assert_eq!(actions(&mut run), [Action::Kill(1)]);
    // Its later messages are ignored, and so is its exit.
    run.handle_frame(1, second(1, 3, 3), deadline);
    run.handle_loss(1, "ended", deadline);
    let outcome = run.into_outcome().unwrap();
    assert_eq!(outcome.tally.failures.operations.get(ErrorClass::AgentLost), 3);
    assert!(outcome.tally.balances() && outcome.is_partial());
    assert_eq!((outcome.lost_agents, outcome.notes.len()), (1, 1));
}

#[test]
fn silence_is_the_limit_of_a_load_without_an_end() {
    let pacing = Pacing::Closed { duration: None, ops_total: Some(1000) };
    let mut run = started(&LoadPlan { pacing, ..plan() }, 2);
    let later = NOW + Nanos::from_secs(29);
    run.handle_frame(0, second(0, 5, 5), later);
    run.handle_timeout(NOW + SILENCE_MAX);
    assert_eq!(actions(&mut run), [Action::Kill(1)]);
    assert_eq!(run.poll_timeout(), later + SILENCE_MAX);
}

#[test]
fn a_frame_that_waits_to_be_handled_is_no_silence() {
    let mut run = started(&hold_plan(), 2);
    let late = NOW + SILENCE_MAX;
    run.handle_last_frame(1, late);
    run.handle_last_frame(1, NOW);
    run.handle_timeout(late);
    assert_eq!(actions(&mut run), [Action::Kill(0)]);
    assert_eq!(run.poll_timeout(), late + SILENCE_MAX);
}

#[test]
fn an_agent_that_cannot_prepare_is_an_error_and_the_others_are_stopped() {
    let mut run = load(&plan(), 3);
    run.handle_frame(0, ready(), NOW);
    let fault = AgentFault::Usage;
    let message = "no such host".to_owned();
    run.handle_frame(1, FromAgent::Failed { fault, message }, NOW);
    let stop = ToAgent::Stop { grace: Nanos::ZERO };
    assert_eq!(actions(&mut run), [Action::Send(0, stop.clone()), Action::Send(2, stop)]);
    // The message was already in transit: nothing may start now.
    run.handle_frame(2, ready(), NOW);
    assert_eq!(actions(&mut run), []);
    run.handle_frame(0, ended(0), NOW);
    run.handle_loss(2, "ended unasked", NOW);
    assert!(run.is_over());
    let error = run.into_outcome().unwrap_err();
    assert_eq!((error.fault(), error.to_string().as_str()), (fault, "agent 2: no such host"));
}

#[test]
fn an_interrupt_before_the_start_is_an_empty_outcome() {
    let mut run = load(&plan(), 1);
    run.handle_interrupt(NOW);
    run.handle_frame(0, ready(), NOW);
    run.handle_frame(0, ended(0), NOW);
    let outcome = run.into_outcome().unwrap();
    assert!(outcome.interrupted && outcome.tally.balances());
    assert_eq!(outcome.tally.scheduled, 0);
}

#[test]
fn a_slow_start_is_an_error_that_names_the_agent() {
    let mut run = load(&plan(), 2);
    run.handle_frame(0, ready(), NOW);
    run.handle_timeout(run.poll_timeout());
    let stop = ToAgent::Stop { grace: Nanos::ZERO };
    assert_eq!(actions(&mut run), [Action::Send(0, stop), Action::Kill(1)]);
    run.handle_frame(0, ended(0), NOW);
    let error = run.into_outcome().unwrap_err().to_string();
    assert!(error.starts_with("agent 2 did not answer in time"), "{error}");
}

#[test]
fn what_a_lost_agent_would_have_sent_is_unsent_and_the_plan_is_accounted_for() {
    for stops in [false, true] {
        let mut run = started(&plan(), 2);
        run.terms.stops_at_loss = stops;
        run.handle_frame(0, second(0, 5, 5), NOW);
        // One of the second's operations is only counted in the next.
        run.handle_frame(1, second(0, 4, 3), NOW);
        run.handle_loss(1, "ended", NOW);
        let stop = ToAgent::Stop { grace: Nanos::from_secs(1) };
        let expected = if stops { vec![Action::Send(0, stop)] } else { Vec::new() };
        assert_eq!(actions(&mut run), expected);
        if !stops {
            run.handle_frame(0, second(1, 5, 5), NOW);
        }
        run.handle_frame(0, ended(2000), NOW);
        let outcome = run.into_outcome().unwrap();
        assert!(outcome.tally.balances() && outcome.is_partial());
        assert_eq!(outcome.tally.failures.operations.get(ErrorClass::AgentLost), 1);
        let note = &outcome.notes[0];
        assert!(note.ends_with("(50 %) counts as unsent from second 1 on"), "{note}");
        // A load that ends here has no more than was due until then.
        let scheduled = if stops { 15 } else { 20 };
        assert_eq!((outcome.tally.scheduled, outcome.tally.unsent), (scheduled, 6));
    }
}

#[test]
fn other_hosts_get_the_start_a_second_ahead_and_more_on_a_long_way() {
    use StartOf::{Here, There};
    for (start, round_trip_ms, ahead_ms) in
        [(Here, 0, 50), (There, 0, 1_000), (There, 1, 1_004), (There, 300, 2_200)]
    {
        let mut run = placed(&plan(), 1, start);
        run.handle_round_trip(Nanos::from_millis(round_trip_ms));
        run.handle_frame(0, ready(), NOW);
        let epoch_monotonic = NOW + Nanos::from_millis(ahead_ms);
        assert_eq!(actions(&mut run), [Action::Send(0, ToAgent::Start { epoch_monotonic })]);
    }
}

/// Returns a hold of 1,000 connections.
fn hold_plan() -> LoadPlan {
    let pacing = Pacing::Hold(HoldPlan {
        connections_per_s: 100.0,
        opening_max: 8,
        heartbeat: None,
        replace: false,
    });
    LoadPlan { pacing, connections: 1_000, ..plan() }
}

fn held(second: u32, held_end: u64) -> FromAgent {
    let mut tally = Tally::default();
    tally.connections.held_end = held_end;
    FromAgent::Load(LoadEvent::Interval(Box::new(Interval { second, tally })))
}

#[test]
fn a_hold_is_steered_and_finished_and_an_agent_that_is_lost_holds_nothing_up() {
    let mut run = started(&hold_plan(), 2);
    let ramp = Steer::Ramp { connections: 1_000 };
    run.steer(ramp);
    assert_eq!(actions(&mut run), [order(0, 1, ramp), order(1, 1, ramp)]);
    run.handle_frame(0, held(0, 500), NOW);
    run.handle_frame(1, held(0, 400), NOW);
    run.handle_frame(0, steered(1, 500), NOW);
    let view = run.view(NOW).unwrap();
    assert_eq!((view.held, view.given, view.done, view.agents), (900, 1, 0, 2));
    assert_eq!(view.covered, view.epoch + Nanos::from_secs(1));
    run.handle_frame(0, held(1, 500), NOW);
    let view = run.view(NOW).unwrap();
    assert_eq!(view.delivered, view.covered + SECOND);
    run.handle_loss(1, "ended unasked", NOW);
    let view = run.view(NOW).unwrap();
    assert_eq!((view.held, view.done, view.agents), (500, 1, 1));
    let sweep = Steer::Sweep { over: Nanos::from_secs(1) };
    run.steer(sweep);
    assert_eq!(actions(&mut run), [order(0, 2, sweep)]);
    // Nothing is planned, so only silence is a fault, and a finished hold ends in bounded time: requests in flight
    // have as long as they are waited for.
    assert_eq!(run.poll_timeout(), NOW + SILENCE_MAX);
    run.finish(NOW);
    let grace = Nanos::from_secs(5 + 3);
    assert_eq!(actions(&mut run), [Action::Send(0, ToAgent::Stop { grace })]);
    assert!(run.view(NOW).is_none());
    run.steer(sweep);
    assert_eq!(actions(&mut run), []);
    run.handle_frame(0, steered(2, 500), NOW);
    run.handle_frame(0, ended(5_000), NOW);
    let outcome = run.into_outcome().unwrap();
    assert!(!outcome.interrupted && !outcome.aborted);
    assert_eq!(outcome.tally.failures.lost_held.get(ErrorClass::AgentLost), 400);
    assert_eq!((outcome.lost_agents, outcome.window), (1, Nanos::from_secs(5)));
}

fn steered(id: u32, tried: u64) -> FromAgent {
    FromAgent::Load(LoadEvent::Steered { id, tried })
}

fn order(index: usize, id: u32, steer: Steer) -> Action {
    Action::Send(index, ToAgent::Steer { id, steer })
}

/// Returns a host that joins after `before` threads.
fn newcomer(before: u32, threads: u32) -> Member {
    let shard = Shard { index: before, of: before + threads };
    Member { name: format!("host {before}"), shard, threads }
}

#[test]
fn a_host_that_joins_a_hold_opens_its_share_of_what_is_left_of_the_ramp() {
    let mut run = started(&hold_plan(), 1);
    let ramp = |connections| Steer::Ramp { connections };
    run.steer(ramp(1_000));
    assert_eq!(actions(&mut run), [order(0, 1, ramp(1_000))]);
    run.handle_frame(0, held(0, 100), NOW);
    let (epoch, at) = (run.view(NOW).unwrap().epoch, NOW + Nanos::from_millis(1_700));
    assert_eq!(run.next_second(at), Some((2, epoch + Nanos::from_secs(2))));
    run.join(newcomer(1, 1), 2, NOW);
    assert_eq!(actions(&mut run), [order(0, 2, Steer::Spread { of: 2 })]);
    // Its seconds are not awaited before it begins, and are the load's from there on.
    run.handle_frame(0, held(1, 750), NOW);
    assert_eq!(run.view(NOW).unwrap().covered, epoch + Nanos::from_secs(2));
    // The first has tried 750 of 1,000, which is more than its half: the second gets the rest.
    run.handle_frame(0, steered(2, 750), NOW);
    assert_eq!(actions(&mut run), [order(0, 1, ramp(501)), order(1, 1, ramp(501))]);
    run.handle_frame(0, steered(1, 750), NOW);
    run.handle_frame(0, held(2, 750), NOW);
    let view = run.view(NOW).unwrap();
    assert_eq!((view.covered, view.given, view.done), (epoch + Nanos::from_secs(2), 2, 0));
    run.handle_frame(1, held(0, 250), NOW);
    run.handle_frame(1, steered(1, 250), NOW);
    let view = run.view(NOW).unwrap();
    let covered = epoch + Nanos::from_secs(3);
    assert_eq!((view.covered, view.done, view.held), (covered, 2, 1_000));
    run.handle_loss(1, "ended unasked", NOW);
    let events: Vec<_> = std::iter::from_fn(|| run.poll_event()).collect();
    let share = |event: &Event| matches!(event, Event::Note(line) if line.contains("(50 %)"));
    assert!(events.iter().any(share), "{events:?}");
    run.finish(NOW);
    assert_eq!(run.next_second(at), None);
}

#[test]
fn a_ramp_goes_on_without_those_that_are_lost_while_a_host_joins() {
    let mut run = started(&hold_plan(), 2);
    run.steer(Steer::Ramp { connections: 600 });
    run.join(newcomer(2, 1), 1, NOW);
    run.handle_frame(0, steered(2, 100), NOW);
    assert_eq!(actions(&mut run).len(), 2 + 2);
    run.handle_loss(1, "ended unasked", NOW);
    // A third each; what the lost one would have opened is missing.
    let ramp = Steer::Ramp { connections: 600 };
    assert_eq!(actions(&mut run), [order(0, 1, ramp), order(2, 1, ramp)]);
}

proptest! {
    /// Whichever agent joins at any time, all agents together try exactly the connections that ramps ask for.
    #[test]
    fn ramps_add_up_with_any_joining_order(
        steps in prop::collection::vec((1_u64..300, prop::option::of((1_u32..4, 0_u64..300))), 1..8),
    ) {
        let mut run = started(&hold_plan(), 2);
        let mut connections = 0;
        for (more, joins) in steps {
            connections += more;
            let id = run.steer(Steer::Ramp { connections }).unwrap();
            if let Some((threads, behind)) = joins {
                // Each lacks as much of its part when it is told to stop.
                let tried: Vec<_> =
                    run.parts.iter().map(|part| part.ramped_to.saturating_sub(behind).max(part.tried)).collect();
                let first = run.threads();
                run.join(newcomer(first, threads), 1, NOW);
                for (index, tried) in tried.into_iter().enumerate() {
                    run.handle_frame(index, steered(id + 1, tried), NOW);
                }
            }
            let told: u64 = run.parts.iter().map(|part| part.ramped_to).sum();
            prop_assert_eq!(told, connections);
            for index in 0..run.parts.len() {
                let tried = run.parts[index].ramped_to;
                run.handle_frame(index, steered(id, tried), NOW);
            }
            prop_assert_eq!(run.done(), run.steering.given());
        }
    }
}

#[test]
fn what_was_held_at_the_end_does_not_depend_on_who_ends_first() {
    let mut run = started(&hold_plan(), 3);
    for (index, held_end) in [(0, 500), (1, 400), (2, 300)] {
        run.handle_frame(index, held(0, held_end), NOW);
    }
    run.handle_frame(0, ended(1_000), NOW);
    run.handle_frame(1, held(1, 390), NOW);
    run.handle_loss(2, "ended unasked", NOW);
    run.handle_frame(1, ended(2_000), NOW);
    let outcome = run.into_outcome().unwrap();
    assert_eq!(outcome.tally.connections.held_end, 500 + 390);
}

#[test]
fn an_order_that_was_never_given_cannot_be_answered() {
    let mut run = started(&hold_plan(), 1);
    run.handle_frame(0, steered(1, 500), NOW);
    assert_eq!(actions(&mut run), [Action::Kill(0)]);
    assert!(run.is_over());
}

#[test]
fn closing_a_million_connections_may_take_its_time() {
    let plan = LoadPlan { connections: 1_000_000, ..hold_plan() };
    let mut run = started(&plan, 1);
    run.finish(NOW);
    // 8 s for answers, 4 s to report, 50 s for a million resets.
    assert_eq!(run.poll_timeout(), NOW + Nanos::from_secs(62));
    actions(&mut run);
    // Somebody who does not want to wait for the answers shortens it, and a second time nothing.
    run.handle_interrupt(NOW);
    let grace = Nanos::from_secs(1);
    assert_eq!(actions(&mut run), [Action::Send(0, ToAgent::Stop { grace })]);
    assert_eq!(run.poll_timeout(), NOW + Nanos::from_secs(55));
    run.stop(Nanos::from_secs(9), NOW);
    assert_eq!(actions(&mut run), []);
}

#[test]
fn an_agent_that_ignores_stop_is_killed_five_seconds_later() {
    let mut run = started(&plan(), 2);
    run.handle_interrupt(NOW);
    let stop = |index| Action::Send(index, ToAgent::Stop { grace: Nanos::from_secs(1) });
    assert_eq!(actions(&mut run), [stop(0), stop(1)]);
    run.handle_frame(0, ended(100), NOW);
    let deadline = NOW + Nanos::from_secs(5);
    assert_eq!(run.poll_timeout(), deadline);
    run.handle_timeout(Nanos(deadline.0 - 1));
    assert!(!run.is_over());
    run.handle_timeout(deadline);
    assert_eq!(actions(&mut run), [Action::Kill(1)]);
    assert!(run.is_over());
}

/// The script of an agent: for each second (came due, answered of those in hand), then its end.
#[derive(Clone, Debug)]
struct Script {
    seconds: Vec<(u64, u64)>,
    is_lost: bool,
}

fn script() -> impl Strategy<Value = Script> {
    let seconds = prop::collection::vec((0u64..20, 0u64..20), 0..4);
    (seconds, any::<bool>()).prop_map(|(seconds, is_lost)| Script { seconds, is_lost })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_is_lost_in_any_order(
        scripts in prop::collection::vec(script(), 1..4),
        order in prop::collection::vec(0usize..3, 32),
    ) {
        let mut run = started(&plan(), scripts.len());
        let mut queues: Vec<VecDeque<Option<FromAgent>>> = Vec::new();
        let (mut scheduled, mut ok, mut lost) = (0, 0, 0);
        for script in &scripts {
            let mut queue = VecDeque::new();
            let mut in_hand = 0;
            let last = script.seconds.len();
            for (index, (due, done)) in script.seconds.iter().enumerate() {
                in_hand += due;
                let is_closing = index + 1 == last && !script.is_lost;
                let done = if is_closing { in_hand } else { (*done).min(in_hand) };
                in_hand -= done;
                queue.push_back(Some(second(index as u32, *due, done)));
                scheduled += due;
                ok += done;
            }
            queue.push_back((!script.is_lost).then(|| ended(2000)));
            lost += in_hand;
            queues.push(queue);
        }
        let mut order = order.into_iter().chain((0..scripts.len()).cycle());
        while !run.is_over() {
            let index = order.next().unwrap() % scripts.len();
            match queues[index].pop_front() {
                Some(Some(frame)) => run.handle_frame(index, frame, NOW),
                Some(None) => run.handle_loss(index, "ended unasked", NOW),
                None => {}
            }
        }
        let handed_out = seconds(&mut run);
        let ascending: Vec<_> = handed_out.iter().map(|(second, _)| *second).collect();
        prop_assert!(ascending.is_sorted_by(|a, b| a < b), "{:?}", ascending);
        prop_assert_eq!(handed_out.iter().map(|(_, ok)| ok).sum::<u64>(), ok);
        let outcome = run.into_outcome().unwrap();
        // Nothing is invented but what lost agents would have sent.
        prop_assert_eq!(outcome.tally.scheduled - outcome.tally.unsent, scheduled);
        prop_assert_eq!(outcome.tally.ok, ok);
        prop_assert_eq!(outcome.tally.spans.corrected.count(), ok);
        prop_assert_eq!(outcome.tally.failures.operations.get(ErrorClass::AgentLost), lost);
        prop_assert!(outcome.tally.balances());
        let lost_agents = scripts.iter().filter(|script| script.is_lost).count();
        prop_assert_eq!(outcome.lost_agents as usize, lost_agents);
    }
}
