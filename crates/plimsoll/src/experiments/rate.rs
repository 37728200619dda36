//! The search for a rate of requests, handshakes or deliveries: trials as loads, one after another.
//!
//! [`find`] is the loop: [`GoalSearch`] names the next trial, `run_trial` makes it as one load, the measurement goes
//! back to the search, and pool and remedies may change the plan for the next trial. The search decides everything;
//! this file only runs loads and collects observations. `drive` surrounds the loop with the reference run, the
//! timeout probe and the test of the cause. Trials after the answer (`measure_usage`) change no bound. Start with
//! [`find`].

use std::ops::ControlFlow;

use plimsoll_capacity::diagnose::missing_loads;
use plimsoll_capacity::{Context, GoalSearch, Mode, SearchSettings, SearchStep, judge};
use plimsoll_lab::{LabPlan, Laboratory, Placement, ServerEnd};
use plimsoll_model::cause::Finding;
use plimsoll_model::event::Event;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::result::RunKind;
use plimsoll_model::search::Axis;
use plimsoll_model::summary::{FindSummary, PathSummary};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{
    Outcome, Phase, Recovery, Stopped, TippingPoint, TrialRecord, TrialRequest, TrialsAtLoad,
};
use plimsoll_model::{Nanos, Rate};
use plimsoll_report::archive::SearchHead;
use plimsoll_report::tui::Budget;
use plimsoll_sys::affinity::usable_cpus;
use plimsoll_tls::KeyKind;

use super::laboratory::pin_clients;
use super::path::{PathWatch, network_limited};
use super::pool::Pool;
use super::reference::Reference;
use super::remedies::{PROCESSES_MAX, Remedies};
use super::timers::TimerWatch;
use super::tipping::Pass;
use super::{RunsInLab, confirm, tipping};
use crate::exit::Result;
use crate::flags::values::Processes;
use crate::hosts::DESCRIPTOR_RESERVE;
use crate::plan::load::LoadJob;
use crate::plan::search::{CauseTest, RateJob, SearchJob};
use crate::preflight;
use crate::session::{Experiment, ExperimentResult, Measurement, Observed, Session};

/// Rate that any machine can generate: a search that stays below needs no reference run.
const REFERENCE_FROM_PER_S: f64 = 1_000.0;

/// The first connections of a trial have no ticket to offer: this little less than what was asked
/// for is as it should be.
const RESUMED_SHORT: f64 = 0.05;

/// Length of a trial that is made for the use of resources alone: at least three readings.
const USAGE_TRIAL: Nanos = Nanos::from_secs(4);
/// Length if the lowest load failed: some pauses of a server that makes one every two seconds.
const FAILURE_TRIAL: Nanos = Nanos::from_secs(24);
/// A quick search that has taken so long makes none: it is to end within four minutes.
const QUICK_ENDS: Nanos = Nanos::from_secs(225);

/// Budget of a quick search with a limit raised: the test of a cause and this take less than five minutes.
const QUICK_AGAIN: Nanos = Nanos::from_secs(150);

/// Life of a connection to the embedded server, in requests.
const EMBEDDED_REQUESTS_PER_CONNECTION: u64 = 20;
/// Source addresses of such connections.
const EMBEDDED_SOURCES: u32 = 8;

/// `find rate`, `find handshakes`, and the same in a laboratory.
pub(super) struct RateExperiment {
    job: RateJob,
    reference: Reference,
}

impl RateExperiment {
    pub(super) fn new(job: RateJob) -> Self {
        Self { job, reference: Reference::default() }
    }
}

impl RunsInLab for RateExperiment {
    fn lab_plan(&self, plan: LabPlan) -> LabPlan {
        LabPlan {
            connections: pool(&self.job).most,
            longest_wait: self.job.load.plan.timeouts.linger,
            placement: Some(Placement::of_host()),
            ..plan
        }
    }

    fn enter(&mut self, lab: &Laboratory, lab_plan: &LabPlan) -> Vec<String> {
        self.job.load.target_name.clone_from(&lab.name);
        pin_clients(&mut self.job.load.plan, lab_plan);
        let mut notes = Vec::new();
        if lab_plan.sut.description().costs_as_client && renew_connections(&mut self.job.load) {
            notes.push(format!(
                "each connection is replaced after {EMBEDDED_REQUESTS_PER_CONNECTION} requests, \
                 with a full handshake (RSA-2048); otherwise the embedded server would need as \
                 little CPU as the client, and the client would be the limit"
            ));
        }
        if self.job.search.axis == Axis::Handshakes {
            let key = match lab_plan.sut.description().key_kind() {
                KeyKind::Rsa2048 => "RSA-2048",
                KeyKind::EcdsaP256 => "ECDSA P-256",
            };
            notes.push(format!(
                "each operation is one handshake with an {key} certificate; no request is sent"
            ));
        }
        // While the reference runs, the SUT's CPUs have nothing else to do.
        let cpus = lab_plan.placement.as_ref().map(|placement| placement.sut.clone());
        let identity = Some(lab.identity().clone());
        self.reference = Reference { cpus: cpus.unwrap_or_default(), identity };
        notes
    }
}

impl Experiment for RateExperiment {
    fn load(&mut self) -> &mut LoadJob {
        &mut self.job.load
    }

    fn kind(&self) -> RunKind {
        RunKind::Search
    }

    fn search_head(&self) -> Option<SearchHead> {
        Some(tipping::search_head(&self.job.search))
    }

    fn budget(&self) -> Option<Budget> {
        Some(Budget::Trials(budget_of_trials(&self.job)))
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<ExperimentResult> {
        let RateJob { load, search, .. } = &self.job;
        for note in &search.notes {
            session.note(note.clone());
        }
        session.note(tipping::objective(search));
        session.note(tipping::budget(search, budget_of_trials(&self.job)));
        // Before the probe: a machine that is busy with this would disturb it.
        let is_slow = search.max.is_some_and(|max| max.get() <= REFERENCE_FROM_PER_S);
        let reference = std::mem::take(&mut self.reference);
        // The null server would be on this host, and its clients on others.
        let is_elsewhere = load.hosts.is_some();
        let has_null = !is_slow && !is_elsewhere && self.job.deliveries.is_none();
        let alone = if has_null { reference.run(&load.plan, session) } else { None };
        let mut timers = TimerWatch::start(&load.plan, search.probe, session);
        let mut found = find(&self.job, alone, Pass::First, session, &mut timers)?;
        timers.finish(session);
        std::mem::swap(&mut self.job.load.plan, &mut found.plan);
        session.emit(&Event::SearchEnded(Box::new(found.tipping.clone())));
        let mut outcome = outcome(&self.job, found, timers, session);
        let has_ended = outcome.partial || session.server_end().is_some();
        let test = self.job.cause_test.filter(|_| !has_ended);
        if let Some((by, find)) = test.zip(outcome.result.find()) {
            let mut causes = session.causes(find, &outcome.trials).unwrap_or_default();
            let lower = find.found.lower.unwrap_or_default().get();
            confirm::run(by, &self.job.load.plan, lower, &mut causes, session)?;
            if let Some(first) = causes.first_mut().filter(|_| by == CauseTest::ByServer) {
                self.raise_limit(first, find, session)?;
            }
            outcome.causes = Some(causes).filter(|causes| !causes.is_empty());
            outcome.partial = session.is_interrupted();
        }
        Ok(outcome)
    }
}

impl RateExperiment {
    /// Searches again with the confirmed limit of `finding` raised, where the running server's can be.
    fn raise_limit(
        &self,
        finding: &mut Finding,
        found: &FindSummary,
        session: &Session<'_>,
    ) -> Result<()> {
        let has_ended = session.is_interrupted() || session.server_end().is_some();
        let tip = found.at_any_speed().filter(|_| !has_ended);
        let Some((lower, tip)) = found.found.lower.zip(tip.map(|(from, to)| (from * to).sqrt()))
        else {
            return Ok(());
        };
        let Some(raised) = confirm::raise(finding, tip, session) else { return Ok(()) };
        let mut remedied = raised.remedied.clone();
        if remedied.why.is_some() {
            finding.remedied = Some(Box::new(remedied));
            return Ok(());
        }
        let began = session.elapsed();
        let mut job = self.job.clone();
        job.search.min = Some(lower);
        job.search.further.clear();
        let mut timers = TimerWatch::start(&job.load.plan, None, session);
        let again = find(&job, None, Pass::Again, session, &mut timers)?;
        drop(raised);
        let outcome = outcome(&job, again, timers, session);
        if let Some(find) = outcome.result.find() {
            remedied.causes = session.causes(find, &outcome.trials).unwrap_or_default();
            remedied.take_result(&find.found.outcome, find.found.bounds(), tip);
        }
        remedied.seconds = session.elapsed().since(began).as_secs_f64();
        finding.remedied = Some(Box::new(remedied));
        Ok(())
    }
}

/// Replaces connections after some requests, unless the flags set their life; true if it does.
fn renew_connections(load: &mut LoadJob) -> bool {
    let plan = &mut load.plan;
    if !plan.keepalive || plan.requests_per_connection.is_some() {
        return false;
    }
    plan.requests_per_connection = Some(EMBEDDED_REQUESTS_PER_CONNECTION);
    if let Some(mqtt) = &mut plan.mqtt {
        // What is published while a subscriber is away is not lost by the server.
        mqtt.deliveries = None;
    }
    plan.staggered = true;
    // Closed connections keep their ports for a while; eight addresses have eight times more.
    load.spread(EMBEDDED_SOURCES);
    true
}

/// The result of a search.
struct Found {
    tipping: TippingPoint,
    trials: Vec<TrialRecord>,
    path: Option<PathSummary>,
    /// The plan of the job with what was added to it meanwhile.
    plan: LoadPlan,
    /// Remedies that were applied, in words.
    remedies: Vec<String>,
    search: Nanos,
    confirm: Nanos,
    is_server_to_blame: bool,
}

fn find(
    job: &RateJob,
    alone: Option<Rate>,
    pass: Pass,
    session: &Session<'_>,
    timers: &mut TimerWatch,
) -> Result<Found> {
    let mut plan = job.load.plan.clone();
    let workers = |plan: &LoadPlan| u64::from(plan.threads) * session.agents().count() as u64;
    // An INVALID trial may be retried with up to `most` times the usual threads.
    let most = split_most(workers(&plan), cpus(&plan));
    let reference = alone.and_then(|alone| times(alone, most));
    let mut settings = SearchSettings { reference, ..settings(job) };
    if pass == Pass::Again && job.search.mode == Mode::Quick {
        settings.budget = settings.budget.min(QUICK_AGAIN);
    }
    let SearchJob { slo, further, .. } = &job.search;
    let mut search = GoalSearch::new(&settings, slo.clone(), further.clone());
    let mut trials = Vec::new();
    let mut path = PathWatch::default();
    let mut pool = pool(job);
    let mut remedies = Remedies::new(job);
    let mut applied = Vec::new();
    let mut apply = |remedy: Option<String>| {
        remedy.iter().for_each(|line| session.note(line.clone()));
        applied.extend(remedy);
    };
    let (mut searching, mut confirming) = (Nanos::ZERO, Nanos::ZERO);
    let stopped = |search: &mut GoalSearch, why| (search.handle_stop(&why), false);
    let (mut tipping, is_server_to_blame) = loop {
        let (request, began) = match next_trial(&mut search, session, timers) {
            ControlFlow::Continue(next) => next,
            ControlFlow::Break(end) => break end,
        };
        let abort = search.abort_bad_ops(&request);
        plan.connections = pool.for_load(request.rate);
        apply(remedies.prepare(plan.connections, &mut plan, session));
        let split = honoured_split(&request, workers(&plan), cpus(&plan));
        let asked = TrialRequest { split, ..request };
        let trial = Trial { plan: &plan, request: &asked, abort, pass };
        let observed = run_trial(job, &trial, session, &mut |event| timers.handle_event(event))?;
        if observed.outcome.interrupted {
            break stopped(&mut search, Stopped::Interrupted);
        }
        if let Some(ServerEnd::Laboratory(how)) = session.server_end() {
            // The trial is not counted: the laboratory failed in it.
            break stopped(&mut search, Stopped::LaboratoryEnded { how });
        }
        let mut measurement = observed.into_measurement(request);
        measurement.split = split;
        measurement.observations.reference = alone.and_then(|alone| times(alone, split));
        measurement.observations.loss_unloaded =
            path.loss(&measurement.tally, &measurement.observations);
        measurement.observations.pool_grown_in_vain = pool.in_vain(&measurement);
        measurement.observations.connections_are_fixed = job.pool_fixed;
        let record = search.handle_result(measurement);
        if pass == Pass::First {
            session.emit(&Event::TrialEnded(Box::new(record.clone())));
            session.emit(&Event::Answer(Box::new(search.answer())));
        }
        path.add(&record);
        apply(pool.add(&record));
        apply(remedies.add(&record, plan.connections, &mut plan, session));
        if trials.is_empty() {
            path.note().into_iter().for_each(|note| session.note(note));
        }
        trials.push(record);
        let took = session.elapsed().since(began);
        if request.phase.is_after_search() {
            confirming = confirming + took;
        } else {
            searching = searching + took;
        }
    };
    name_network(&mut tipping, &trials);
    let path = path.summary();
    let began = session.elapsed();
    let listen = &mut |event: &Event| timers.handle_event(event);
    if pass == Pass::First {
        measure_usage((job, &plan), &pool, &tipping, &mut trials, session, listen)?;
    }
    confirming = confirming + session.elapsed().since(began);
    let tip = tipping.lower.or_else(|| trials.last().map(|trial| trial.measurement.request.rate));
    plan.connections = tip.map_or(plan.connections, |tip| pool.for_load(tip));
    Ok(Found {
        tipping,
        trials,
        path,
        plan,
        remedies: applied,
        search: searching,
        confirm: confirming,
        is_server_to_blame,
    })
}

/// Returns the next trial and the time at which the rest before it began; or the result of the search, and `true` if
/// its server is to blame for the end.
fn next_trial(
    search: &mut GoalSearch,
    session: &Session<'_>,
    timers: &mut TimerWatch,
) -> ControlFlow<(TippingPoint, bool), (TrialRequest, Nanos)> {
    let request = match search.next_step() {
        SearchStep::Done(tipping) => {
            let is_unfinished = matches!(tipping.outcome, Outcome::Unfinished { .. });
            return ControlFlow::Break((tipping, is_unfinished && search.is_sut_gone()));
        }
        SearchStep::Trial(request) => request,
    };
    if request.phase != Phase::Qualify {
        timers.wait(session);
    }
    let began = session.elapsed();
    session.rest(search.rest());
    if let Some(end) = session.server_end() {
        let is_server = matches!(end, ServerEnd::Server(_));
        return ControlFlow::Break((search.handle_stop(&end.into()), is_server));
    }
    if session.is_interrupted() {
        return ControlFlow::Break((search.handle_stop(&Stopped::Interrupted), false));
    }
    ControlFlow::Continue((request, began))
}

/// Names the network as the limit in every outcome that it alone prevented.
fn name_network(tipping: &mut TippingPoint, trials: &[TrialRecord]) {
    let goals = tipping.goals.iter_mut().map(|goal| &mut goal.found.outcome);
    for outcome in goals.chain([&mut tipping.outcome]) {
        if let Some(limited) = network_limited(outcome, trials) {
            *outcome = limited;
        }
    }
}

fn settings(job: &RateJob) -> SearchSettings {
    let defaults = SearchSettings::new(job.search.mode);
    SearchSettings {
        lowest: job.search.lowest(),
        floor: job.search.min.unwrap_or(defaults.floor),
        cap: job.search.max,
        cap_reason: job.search.cap_reason.clone().unwrap_or(defaults.cap_reason),
        confidence: job.search.confidence,
        budget: job.search.budget(),
        // A budget that was asked for is kept.
        extension: if job.search.budget.is_some() { Nanos::ZERO } else { defaults.extension },
        trials_max: trials_max(&job.search, defaults.trials_max),
        ..defaults
    }
}

/// Returns the most trial and rest time of all objectives.
fn budget_of_trials(job: &RateJob) -> Nanos {
    GoalSearch::budget(&settings(job), job.search.further.len())
}

/// Returns the number of trials of a search, which is larger in a longer budget than the one of the mode.
fn trials_max(search: &SearchJob, usual: u32) -> u32 {
    let times = search.budget().as_secs_f64() / search.mode.limits().budget.as_secs_f64();
    (f64::from(usual) * times.max(1.0)).ceil() as u32
}

/// Returns the pool of the first trial.
fn pool(job: &RateJob) -> Pool {
    let processes = match job.load.processes {
        Processes::Auto => PROCESSES_MAX,
        Processes::Exactly(count) => count,
    };
    let each = preflight::host_limits().descriptors_per_process.unwrap_or(u64::MAX);
    let fits = each.saturating_sub(DESCRIPTOR_RESERVE).saturating_mul(processes.into());
    let named = job.load.plan.mqtt.as_ref().and_then(|mqtt| mqtt.client_ids.listed());
    let fits = fits.min(named.unwrap_or(u64::MAX));
    Pool::new(job.load.plan.connections, job.load.plan.streams(), job.pool_fixed, fits)
}

/// A trial to run.
struct Trial<'a> {
    plan: &'a LoadPlan,
    request: &'a TrialRequest,
    /// Bad operations that end it early.
    abort: u64,
    pass: Pass,
}

/// Runs one trial: a load, the SUT's CPU time from its start to the end of sending, and all other observations.
fn run_trial(
    job: &RateJob,
    &Trial { plan, request, abort, pass }: &Trial<'_>,
    session: &Session<'_>,
    listen: &mut dyn FnMut(&Event),
) -> Result<Observed> {
    let mut plan = plan.clone();
    let each = job.deliveries.unwrap_or(1) as f64;
    let rate = Rate::per_second(request.rate.get() / each).unwrap_or(request.rate);
    plan.pacing = Pacing::Open {
        profile: Profile::constant(rate, request.duration),
        arrivals: if request.phase == Phase::Safe {
            Arrivals::Poisson
        } else {
            job.search.arrivals
        },
    };
    plan.threads = plan.threads.saturating_mul(request.split);
    plan.abort_bad_ops = (abort < u64::MAX).then_some(abort);
    // Every trial draws its own arrivals, and a search can still be repeated exactly.
    plan.seed = plan.seed.wrapping_add(u64::from(request.number));
    let load = Measurement {
        plan: &plan,
        trial: (pass == Pass::First).then_some(*request),
        is_steady: true,
        // While the timeout probe asks, too, the SUT counts more than the trial.
        is_alone: job.search.probe.is_none() || request.phase != Phase::Qualify,
        deliveries: job.deliveries,
    };
    session.run_load(&load, listen)
}

/// Runs trials at loads that the search left out, so that the use of a resource per operation is known from several.
/// They come after the answer and change nothing of it; a server that did not come back is left alone.
fn measure_usage(
    (job, plan): (&RateJob, &LoadPlan),
    pool: &Pool,
    tipping: &TippingPoint,
    trials: &mut Vec<TrialRecord>,
    session: &Session<'_>,
    listen: &mut dyn FnMut(&Event),
) -> Result<()> {
    let is_back = !matches!(tipping.recovery, Some(Recovery::No(_)));
    let (loads, duration) = match (&tipping.outcome, tipping.lower) {
        (Outcome::Regular, Some(lower)) if is_back => (missing_loads(trials, lower), USAGE_TRIAL),
        // Trials that failed were ended early. Errors have a class, late answers have no reason yet.
        (Outcome::FailsAtMinimum, _) => {
            let is_slow = |tally: &Tally| tally.ok > 10 * tally.errors_total();
            let answered = trials.iter().rfind(|trial| is_slow(&trial.measurement.tally));
            let load = answered.map(|trial| trial.measurement.request.rate);
            (load.into_iter().collect(), FAILURE_TRIAL)
        }
        _ => return Ok(()),
    };
    for rate in loads.into_iter().filter(|_| session.is_archived()) {
        let is_quick = job.search.mode == Mode::Quick && job.search.budget.is_none();
        let is_late = is_quick && session.elapsed() >= QUICK_ENDS;
        if is_late || session.is_interrupted() || session.server_end().is_some() {
            break;
        }
        let number = trials.last().map_or(0, |trial| trial.measurement.request.number) + 1;
        let request = TrialRequest { number, phase: Phase::Usage, rate, duration, split: 1 };
        let plan = LoadPlan { connections: pool.for_load(rate), ..plan.clone() };
        let trial = Trial { plan: &plan, request: &request, abort: u64::MAX, pass: Pass::First };
        let observed = run_trial(job, &trial, session, listen)?;
        if observed.outcome.interrupted {
            break;
        }
        let measurement = observed.into_measurement(request);
        let judgement = judge(&measurement, &job.search.slo, &Context::default());
        let record = TrialRecord { measurement, judgement, further: Vec::new() };
        session.emit(&Event::TrialEnded(Box::new(record.clone())));
        trials.push(record);
    }
    Ok(())
}

/// Returns the number of CPUs that an agent's threads may use.
fn cpus(plan: &LoadPlan) -> usize {
    if plan.cpus.is_empty() { usable_cpus().len() } else { plan.cpus.len() }
}

/// Returns the factor by which a trial multiplies the usual threads, which are `workers`: the one that it asks for if
/// each thread then has a CPU, otherwise 1. Threads that share a CPU would prove nothing.
fn honoured_split(request: &TrialRequest, workers: u64, cpus: usize) -> u32 {
    let fits = workers * u64::from(request.split) <= cpus as u64;
    if fits { request.split.max(1) } else { 1 }
}

/// Returns the largest factor of 1, 2, 4 and 8 by which a trial can multiply the usual threads.
fn split_most(workers: u64, cpus: usize) -> u32 {
    let fits = |split: &u32| workers.max(1) * u64::from(*split) <= cpus as u64;
    (1..=3).map(|doubled| 1 << doubled).take_while(fits).last().unwrap_or(1)
}

fn times(rate: Rate, split: u32) -> Option<Rate> {
    Rate::per_second(rate.get() * f64::from(split))
}

fn outcome(
    job: &RateJob,
    found: Found,
    timers: TimerWatch,
    session: &Session<'_>,
) -> ExperimentResult {
    let Found { tipping, trials, .. } = found;
    let at_lower = tipping.lower.and_then(|lower| TrialsAtLoad::at_lower_bound(&trials, lower));
    let (tally, window) = match at_lower {
        Some(at) => (at.tally, at.window),
        None => tipping::all_trials(&trials),
    };
    let mut notes = found.remedies;
    notes.extend_from_slice(&tipping.notes);
    if job.search.axis == Axis::Handshakes {
        notes.extend(resumption(job.load.plan.tls.resume_ratio, &tally));
    }
    let head = tipping::find_head(&job.search, found.search, found.confirm);
    let verdict = tipping::verdict(&tipping, found.is_server_to_blame);
    let reasons = tipping::reasons(&tipping, &trials, verdict);
    let find = FindSummary {
        path: found.path,
        budget_s: Some(budget_of_trials(job).as_secs_f64()),
        ..FindSummary::new(head, TippingPoint { notes, ..tipping })
    };
    ExperimentResult {
        partial: session.is_interrupted(),
        result: find.into(),
        timers: Some(timers.found(&job.load.plan, &trials)),
        trials,
        ..ExperimentResult::new(tally, window, verdict, reasons)
    }
}

/// Returns a line if fewer handshakes were resumed than were asked for: then the figure belongs to
/// another mix, and full handshakes cost a server many times what resumed ones do.
fn resumption(asked: f64, tally: &Tally) -> Option<String> {
    let all = tally.handshakes.full + tally.handshakes.resumed;
    let share = tally.handshakes.resumed as f64 / all.max(1) as f64;
    (all > 0 && share < asked - RESUMED_SHORT).then(|| {
        format!(
            "--resume {asked}: only {:.0} % of the handshakes were resumed; the server sent no ticket \
             before the connection was closed, or did not accept it",
            share * 100.0
        )
    })
}

#[cfg(test)]
mod tests {
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
