//! A search as a whole: trials as loads, their verdicts, and the report. Shared by `find` and `lab`.

use std::time::Duration;

use plimsoll_capacity::{RateSearch, SearchSettings, Step};
use plimsoll_fleet::LocalAgents;
use plimsoll_fleet::coordinator::{LoadControl, LoadOutcome};
use plimsoll_lab::{ServerEnd, WatchedServer};
use plimsoll_model::event::Event;
use plimsoll_model::pace::Profile;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::search::Axis;
use plimsoll_model::summary::{FindHead, FindSummary, Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{
    Check, CheckId, Outcome, Phase, TippingPoint, TrialMeasurement, TrialRecord, TrialRequest,
    Verdict,
};
use plimsoll_model::witness::{PeerCounts, Witnesses};
use plimsoll_model::{Nanos, Rate};
use plimsoll_probe::server_counters::ServerCounters;
use plimsoll_report::archive::SearchHead;
use plimsoll_report::terminal::trial_at_lower_bound;
use plimsoll_sys::affinity::usable_cpus;
use plimsoll_sys::clock;
use plimsoll_sys::signal::Interrupts;

use crate::commands::observer::{Observer, Scene};
use crate::commands::reference::Reference;
use crate::commands::timers::TimerWatch;
use crate::exit::Stop;
use crate::hosts::{fleet_stop, start_load_agents};
use crate::plan::search::{RateJob, SearchJob};
use crate::run;
use crate::run::{Run, RunHead};

/// How often a rest looks for an interrupt.
const REST_STEP: Duration = Duration::from_millis(50);

/// Any machine makes so many operations; a search that stays below needs no reference run.
const REFERENCE_FROM_PER_S: f64 = 1_000.0;

/// The first connections of a trial have no ticket to offer: this little less than what was asked
/// for is as it should be.
const RESUMED_SHORT: f64 = 0.05;

/// What a search came to.
struct Found {
    tipping: TippingPoint,
    trials: Vec<TrialRecord>,
    search: Nanos,
    confirm: Nanos,
    sut_end: Option<ServerEnd>,
}

/// Searches, reports, and says how the command ends. `notes` are told first.
pub(crate) fn run(
    command: &'static str,
    job: &mut RateJob,
    server: &mut dyn WatchedServer,
    reference: Reference,
    notes: &[String],
    interrupts: &Interrupts,
) -> Result<(), Stop> {
    let mut agents = start_load_agents(&mut job.load.plan, job.load.processes)?;
    let axis = Some(search_head(&job.search));
    let head = RunHead { command, job: &job.load, search: axis, always_archive: true };
    let mut run = Run::begin(head)?;
    for note in notes.iter().chain(&job.search.notes) {
        run.handle_event(&Event::Note(note.clone()));
    }
    run.handle_event(&Event::Note(objective(&job.search)));
    // Before the probe: a machine that is busy with this would disturb it.
    let is_slow = job.search.max.is_some_and(|max| max.get() <= REFERENCE_FROM_PER_S);
    let alone = match is_slow {
        true => None,
        false => reference.run(&job.load.plan, &mut agents, &mut run, interrupts),
    };
    let mut timers = TimerWatch::start(&job.load.plan, job.search.probe, server, &mut run);
    let found = search(job, alone, &mut agents, server, &mut timers, &mut run, interrupts)?;
    drop(agents);
    timers.finish(&mut run);
    run.handle_event(&Event::SearchEnded(Box::new(found.tipping.clone())));
    let summary = summarise(command, job, &found, &run, interrupts.is_raised());
    let summary = timers.add_to(summary, &job.load.plan, &found.trials);
    run.finish(&summary, &found.trials)?;
    conclude(&found, interrupts)
}

/// `SLO p99<50ms,errors<0.1%`, and whether it was asked for.
pub(super) fn objective(search: &SearchJob) -> String {
    let default = if search.slo_given { "" } else { " (the default; change it with --slo)" };
    format!("SLO {}{default}", search.slo)
}

/// What an archive says of the search.
pub(super) fn search_head(search: &SearchJob) -> SearchHead {
    SearchHead { axis: search.axis, slo: search.slo.to_string(), mode: search.mode.into() }
}

fn search(
    job: &RateJob,
    alone: Option<Rate>,
    agents: &mut LocalAgents,
    server: &mut dyn WatchedServer,
    timers: &mut TimerWatch,
    run: &mut Run,
    interrupts: &Interrupts,
) -> Result<Found, Stop> {
    let workers =
        |agents: &LocalAgents| u64::from(job.load.plan.threads) * agents.pids().len() as u64;
    // What is INVALID over the usual threads may be judged over more of them.
    let most = split_most(workers(agents), cpus(&job.load.plan));
    let reference = alone.and_then(|alone| times(alone, most));
    let settings = SearchSettings { reference, ..settings(job) };
    let mut search = RateSearch::new(settings, job.search.slo.clone());
    let scene = Scene::of(&job.load, true);
    let mut trials = Vec::new();
    let (mut searching, mut confirming) = (Nanos::ZERO, Nanos::ZERO);
    // Seen during the last trial.
    let mut ended = None;
    let mut sut_end = None;
    let tipping = loop {
        let request = match search.next_step() {
            Step::Done(tipping) => {
                if let (true, Outcome::Unfinished { why }) =
                    (search.is_sut_gone(), &tipping.outcome)
                {
                    sut_end = Some(ServerEnd::Server(why.clone()));
                }
                break tipping;
            }
            Step::Trial(request) => request,
        };
        if request.phase != Phase::Qualify {
            timers.wait(run, interrupts);
        }
        let began = run.elapsed();
        rest(search.rest(), run, interrupts);
        if let Some(end) = ended.take().or_else(|| server.ended()) {
            let tipping = search.handle_stop(end.reason().to_owned());
            sut_end = Some(end);
            break tipping;
        }
        if interrupts.is_raised() {
            break search.handle_stop("interrupted".to_owned());
        }
        let abort = search.abort_bad_ops(&request);
        let split = honoured_split(&request, workers(agents), cpus(&job.load.plan));
        let offered = TrialRequest { split, ..request };
        // While the timeout probe asks, too, the SUT counts more than the trial.
        let counts = job.search.probe.is_none() || request.phase != Phase::Qualify;
        let trial = Trial { job, offered, abort, counts, scene: &scene };
        let (outcome, sut_busiest_thread, mut witnesses) =
            run_trial(&trial, agents, server, run, interrupts)?;
        if outcome.interrupted {
            break search.handle_stop("interrupted".to_owned());
        }
        ended = server.ended();
        if let Some(end @ ServerEnd::Laboratory(how)) = &ended {
            // The trial is not counted: it says how the laboratory broke.
            let tipping = search.handle_stop(how.clone());
            sut_end = Some(end.clone());
            break tipping;
        }
        witnesses.reference = alone.and_then(|alone| times(alone, split));
        let record = search.handle_result(TrialMeasurement {
            request,
            window: outcome.window,
            aborted: outcome.aborted,
            tally: outcome.tally,
            sut_busiest_thread,
            split,
            witnesses,
        });
        run.handle_event(&Event::TrialEnded(Box::new(record.clone())));
        trials.push(record);
        let took = run.elapsed().since(began);
        if request.phase.is_after_search() {
            confirming = confirming + took;
        } else {
            searching = searching + took;
        }
    };
    Ok(Found { tipping, trials, search: searching, confirm: confirming, sut_end })
}

fn settings(job: &RateJob) -> SearchSettings {
    let defaults = SearchSettings::new(job.search.mode);
    SearchSettings {
        lowest: job.search.lowest(),
        cap: job.search.max,
        cap_reason: job.search.cap_reason.clone().unwrap_or(defaults.cap_reason),
        ..defaults
    }
}

/// Waits out what an overload left behind.
pub(super) fn rest(span: Nanos, run: &mut Run, interrupts: &Interrupts) {
    let until = clock::monotonic_ns().saturating_add(span.0);
    while clock::monotonic_ns() < until && !interrupts.is_raised() {
        std::thread::sleep(REST_STEP);
        run.handle_tick();
    }
}

/// What a trial is made with.
struct Trial<'a> {
    job: &'a RateJob,
    offered: TrialRequest,
    abort: u64,
    /// What the SUT counts meanwhile is the trial's alone.
    counts: bool,
    scene: &'a Scene,
}

/// One trial: a load, the SUT's CPU from its start to the end of sending, and what else was seen.
fn run_trial(
    trial: &Trial<'_>,
    agents: &mut LocalAgents,
    server: &mut dyn WatchedServer,
    run: &mut Run,
    interrupts: &Interrupts,
) -> Result<(LoadOutcome, Option<f64>, Witnesses), Stop> {
    let Trial { job, offered: request, .. } = trial;
    let mut plan = job.load.plan.clone();
    plan.pacing = Pacing::Open {
        profile: Profile::constant(request.rate, request.duration),
        arrivals: job.search.arrivals,
    };
    plan.threads = plan.threads.saturating_mul(request.split);
    plan.abort_bad_ops = (trial.abort < u64::MAX).then_some(trial.abort);
    // Every trial draws its own arrivals, and a search can still be repeated exactly.
    plan.seed = plan.seed.wrapping_add(u64::from(request.number));
    let interrupted = || interrupts.is_raised();
    let control = LoadControl { trial: Some(*request), ..LoadControl::new(&interrupted) };
    let mut observer = Observer::new(trial.scene, server.pids(), &server.backend_pids());
    let mut counted = None;
    let outcome = agents
        .run_load(&plan, &control, &mut |event| {
            // Not earlier: a server may still be at what an aborted trial has left it.
            if trial.counts && matches!(event, Event::LoadStarted { .. }) {
                counted = server.counters();
            }
            observer.handle_event(&event);
            run.handle_event(&event);
        })
        .map_err(|error| fleet_stop(&error))?;
    let busiest = observer.sut_busiest_thread();
    let mut witnesses = observer.finish(&outcome);
    // What an aborted trial has left in flight may be counted at any time.
    if let Some(before) = counted.filter(|_| !outcome.aborted)
        && let Some(after) = server.counters()
    {
        witnesses.peer = after.since(&before).map(|sum| peer_counts(&plan, &outcome.tally, sum));
    }
    Ok((outcome, busiest, witnesses))
}

/// The SUT's count beside ours: of requests, or of connections where nothing is sent on them.
fn peer_counts(plan: &LoadPlan, tally: &Tally, received: ServerCounters) -> PeerCounts {
    let sent = tally.scheduled.saturating_sub(tally.unsent);
    if plan.handshake_only {
        // A connection that fails is opened again for the next operation.
        let attempts = tally.connections.opened + tally.connections.failed;
        return PeerCounts {
            sent: attempts.max(sent),
            answered: tally.ok,
            received: received.connections,
        };
    }
    let answered = tally.status.iter().map(|(_, answers)| answers).sum();
    PeerCounts { sent, answered, received: received.requests }
}

/// CPUs that an agent's threads may use.
fn cpus(plan: &LoadPlan) -> usize {
    if plan.cpus.is_empty() { usable_cpus().len() } else { plan.cpus.len() }
}

/// Over how many times the usual threads, `workers` in all, a trial is spread: as many as it asks
/// for, where each of them has a CPU. Threads that share one would prove nothing.
fn honoured_split(request: &TrialRequest, workers: u64, cpus: usize) -> u32 {
    let fits = workers * u64::from(request.split) <= cpus as u64;
    if fits { request.split.max(1) } else { 1 }
}

/// Over how many times the usual threads a trial can be spread at most.
fn split_most(workers: u64, cpus: usize) -> u32 {
    let fits = |split: &u32| workers.max(1) * u64::from(*split) <= cpus as u64;
    (1..=3).map(|doubled| 1 << doubled).take_while(fits).last().unwrap_or(1)
}

fn times(rate: Rate, split: u32) -> Option<Rate> {
    Rate::per_second(rate.get() * f64::from(split))
}

fn summarise(command: &str, job: &RateJob, found: &Found, run: &Run, interrupted: bool) -> Summary {
    let tipping = &found.tipping;
    let at_lower = tipping.lower.and_then(|lower| trial_at_lower_bound(&found.trials, lower));
    let (tally, window) = match at_lower {
        Some(record) => (record.measurement.tally.clone(), record.measurement.window),
        None => all_trials(&found.trials),
    };
    let mut notes = tipping.notes.clone();
    if job.search.axis == Axis::Handshakes {
        notes.extend(resumption(job.load.plan.tls.resume_ratio, &tally));
    }
    let asked = FindHead {
        axis: job.search.axis,
        slo: job.search.slo.to_string(),
        mode: job.search.mode.into(),
        search: found.search,
        confirm: found.confirm,
    };
    let head = SummaryHead {
        command: command.to_owned(),
        target: job.load.target_name.clone(),
        started_at: run.started_at.clone(),
        window,
        partial: interrupted,
        settings: run::settings(&job.load, &job.load.plan),
        verdict: verdict(found),
        reasons: reasons(found),
        find: Some(FindSummary { notes, ..FindSummary::new(asked, tipping) }),
        hold: None,
        archive: run.archive_dir(),
    };
    Summary::new(head, &tally)
}

/// A line when fewer handshakes were resumed than were asked for: then the figure is that of
/// another mix, and full handshakes cost a server many times what resumed ones do.
fn resumption(asked: f64, tally: &Tally) -> Option<String> {
    let all = tally.handshakes.full + tally.handshakes.resumed;
    let share = tally.handshakes.resumed as f64 / all.max(1) as f64;
    (all > 0 && share < asked - RESUMED_SHORT).then(|| {
        format!(
            "--resume {asked}: only {:.0} % of the handshakes were resumed. The server gave no \
             ticket before the connection was closed, or did not take it back",
            share * 100.0
        )
    })
}

pub(super) fn all_trials(trials: &[TrialRecord]) -> (Tally, Nanos) {
    let mut tally = Tally::default();
    let mut window = Nanos::ZERO;
    for record in trials {
        tally.merge_following(&record.measurement.tally);
        window = window + record.measurement.window;
    }
    (tally, window)
}

/// The verdict on the search: GOOD once a load was found that meets the SLO.
fn verdict(found: &Found) -> Verdict {
    verdict_on(&found.tipping, found.sut_end.is_some(), found.sut_end.as_ref())
}

/// The same, on any axis.
pub(super) fn verdict_on(
    tipping: &TippingPoint,
    is_server_to_blame: bool,
    sut_end: Option<&ServerEnd>,
) -> Verdict {
    match tipping.outcome {
        Outcome::Regular | Outcome::NotReached { .. } => Verdict::Good,
        Outcome::FailsAtMinimum => Verdict::Bad,
        Outcome::GeneratorLimited { .. } | Outcome::Unconfirmed { .. } => Verdict::Invalid,
        Outcome::Unfinished { .. } if matches!(sut_end, Some(ServerEnd::Laboratory(_))) => {
            Verdict::Invalid
        }
        Outcome::Unfinished { .. } if is_server_to_blame => Verdict::Bad,
        Outcome::Unfinished { .. } if tipping.lower.is_some() => Verdict::Good,
        Outcome::Unfinished { .. } => Verdict::Invalid,
    }
}

/// The check that what keeps the SUT running still runs.
pub(super) fn laboratory(end: &ServerEnd) -> Option<Check> {
    let ServerEnd::Laboratory(how) = end else { return None };
    Some(Check::failed(CheckId::Laboratory, how))
}

/// What the trial that decided was judged by.
fn reasons(found: &Found) -> Vec<Check> {
    reasons_of(&found.tipping, &found.trials, verdict(found), found.sut_end.as_ref())
}

/// The same, on any axis.
pub(super) fn reasons_of(
    tipping: &TippingPoint,
    trials: &[TrialRecord],
    verdict: Verdict,
    sut_end: Option<&ServerEnd>,
) -> Vec<Check> {
    if let Some(broken) = sut_end.and_then(laboratory) {
        return vec![broken];
    }
    let deciding = match tipping.lower {
        Some(lower) if verdict == Verdict::Good => trial_at_lower_bound(trials, lower),
        _ => trials.last(),
    };
    deciding.map(|record| record.judgement.reasons.clone()).unwrap_or_default()
}

fn conclude(found: &Found, interrupts: &Interrupts) -> Result<(), Stop> {
    conclude_as(verdict(found), interrupts)
}

/// How a command ends after its report.
pub(super) fn conclude_as(verdict: Verdict, interrupts: &Interrupts) -> Result<(), Stop> {
    if interrupts.is_raised() {
        return Err(run::interrupted_stop(interrupts));
    }
    stop_of(verdict)
}

/// The exit code of a verdict.
pub(super) fn stop_of(verdict: Verdict) -> Result<(), Stop> {
    match verdict {
        Verdict::Good => Ok(()),
        Verdict::Bad => Err(Stop::SloMissed),
        Verdict::Invalid => Err(Stop::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::trial::Confirmations;

    use super::*;

    #[test]
    fn a_mix_that_was_not_had_is_told() {
        let told = |asked, full, resumed| {
            let mut tally = Tally::default();
            (tally.handshakes.full, tally.handshakes.resumed) = (full, resumed);
            resumption(asked, &tally)
        };
        assert_eq!(told(0.0, 100, 0), None);
        assert_eq!(told(0.5, 53, 47), None);
        assert_eq!(told(0.5, 0, 0), None);
        assert!(told(0.5, 60, 40).unwrap().starts_with("--resume 0.5: only 40 % of"));
    }

    #[test]
    fn loads_are_split_as_far_as_there_are_cpus() {
        for (workers, cpus, most) in [(1, 1, 1), (1, 2, 2), (2, 2, 1), (1, 7, 4), (1, 64, 8)] {
            assert_eq!(split_most(workers, cpus), most, "{workers} on {cpus}");
        }
    }

    #[test]
    fn a_server_counts_requests_or_connections() {
        let mut plan = crate::commands::reference::tests::plan();
        let mut tally = Tally { scheduled: 110, ok: 90, unsent: 10, ..Tally::default() };
        tally.status.add(200, 90);
        tally.status.add(503, 5);
        (tally.connections.opened, tally.connections.failed) = (98, 4);
        let received = ServerCounters { requests: 97, connections: 99 };
        let requests = PeerCounts { sent: 100, answered: 95, received: 97 };
        assert_eq!(peer_counts(&plan, &tally, received), requests);
        plan.handshake_only = true;
        let connections = PeerCounts { sent: 102, answered: 90, received: 99 };
        assert_eq!(peer_counts(&plan, &tally, received), connections);
    }

    fn found(outcome: Outcome, lower: Option<f64>, sut_end: Option<ServerEnd>) -> Found {
        let tipping = TippingPoint {
            outcome,
            lower: lower.and_then(Rate::per_second),
            upper: None,
            conditional_throughput: None,
            trials: 1,
            invalid_trials: 0,
            confirmations: Confirmations::default(),
            noise: None,
            recovery: None,
            notes: Vec::new(),
        };
        let trials = Vec::new();
        Found { tipping, trials, search: Nanos::ZERO, confirm: Nanos::ZERO, sut_end }
    }

    #[test]
    fn every_outcome_has_the_contracts_exit_code() {
        let why = || "send-lag".to_owned();
        let itself = || Some(ServerEnd::Server(why()));
        let keeper = || Some(ServerEnd::Laboratory(why()));
        for (outcome, lower, sut_end, expected) in [
            (Outcome::Regular, Some(10.0), None, Verdict::Good),
            (Outcome::NotReached { cap: why() }, Some(10.0), None, Verdict::Good),
            (Outcome::FailsAtMinimum, None, None, Verdict::Bad),
            (Outcome::GeneratorLimited { why: why() }, Some(10.0), None, Verdict::Invalid),
            // Bounds that no valid trial confirmed are not an answer.
            (Outcome::Unconfirmed { why: why() }, Some(10.0), None, Verdict::Invalid),
            (Outcome::Unfinished { why: why() }, Some(10.0), None, Verdict::Good),
            (Outcome::Unfinished { why: why() }, None, None, Verdict::Invalid),
            (Outcome::Unfinished { why: why() }, Some(10.0), itself(), Verdict::Bad),
            // What the laboratory lost by its own fault says nothing of the SUT.
            (Outcome::Unfinished { why: why() }, Some(10.0), keeper(), Verdict::Invalid),
        ] {
            let found = found(outcome, lower, sut_end);
            assert_eq!(verdict(&found), expected, "{:?}", found.tipping);
        }
    }

    #[test]
    fn a_split_needs_a_cpu_for_every_thread() {
        let request = |split| TrialRequest {
            number: 1,
            phase: Phase::Expand,
            rate: Rate::ZERO,
            duration: Nanos::from_secs(3),
            split,
        };
        assert_eq!(honoured_split(&request(1), 8, 2), 1);
        assert_eq!(honoured_split(&request(2), 1, 2), 2);
        assert_eq!(honoured_split(&request(2), 2, 2), 1);
        assert_eq!(honoured_split(&request(4), 2, 8), 4);
    }
}
