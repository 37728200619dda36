//! One experiment, from the first agent to the exit code.
//!
//! A session owns what every experiment needs: agents, the server under test and what is observed of
//! it, the sinks of the run, interrupts, the summary and how the command ends. An [`Experiment`] only
//! says what is driven, and what its outcome is.

use std::cell::{Ref, RefCell};
use std::path::Path;
use std::time::Duration;

use plimsoll_capacity::speed;
use plimsoll_fleet::coordinator::{HoldController, LoadControl, LoadOutcome, Newcomers};
use plimsoll_fleet::{FleetError, LoadAgents};
use plimsoll_lab::{ServerEnd, WatchedServer};
use plimsoll_model::cause::Finding;
use plimsoll_model::cliff::{Cliff, Horizon, ProbedTimer};
use plimsoll_model::disruption::DisruptionSummary;
use plimsoll_model::event::Event;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::settings::Settings;
use plimsoll_model::summary::{self, FindSummary, Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, CheckId, TrialRecord, TrialRequest, Verdict};
use plimsoll_model::{Nanos, units};
use plimsoll_probe::yardstick::Yardstick;
use plimsoll_report::archive::{SearchHead, summarise_hosts};
use plimsoll_report::settings;
use plimsoll_report::tui::Budget;
use plimsoll_sys::clock;
use plimsoll_sys::signal::Interrupts;

use crate::causes;
use crate::clock::now;
use crate::exit::{Result, Stop};
use crate::flags::archived;
use crate::hosts::{fleet_stop, start_hosts, start_load_agents};
use crate::plan::load::LoadJob;
use crate::publish::Publisher;
use crate::run;
use crate::run::{Run, RunHead};
use crate::survey::Room;

pub(crate) mod disruptor;
mod observer;
pub(crate) mod recorder;
mod warnings;

use observer::{FarReadings, ObservationScope, peer_counts};

pub(crate) use observer::{Observed, Observer};
use recorder::{Clients, Recorders, cpus_of_run, record};
use warnings::Warnings;

/// Period in which a pause checks for an interrupt.
const REST_STEP: Duration = Duration::from_millis(50);

/// A procedure that a session drives.
pub(crate) trait Experiment {
    /// Returns the load of the experiment.
    fn load(&mut self) -> &mut LoadJob;

    /// Returns the kind of the run.
    fn kind(&self) -> RunKind;

    /// Returns the settings of the search, as archives describe it.
    fn search_head(&self) -> Option<SearchHead> {
        None
    }

    /// Returns the time budget, if there is one.
    fn budget(&self) -> Option<Budget> {
        None
    }

    /// Reports whether an archive is written even if no place for it was named.
    fn always_archives(&self) -> bool {
        self.search_head().is_some()
    }

    /// Returns the command line as archives have it.
    fn command_line(&self) -> Vec<String> {
        archived::own_line(&[])
    }

    /// Returns the settings that shape the measurement.
    fn settings(&mut self) -> Settings {
        run::settings(self.load())
    }

    /// Returns the fewest connections that are worth a run, where other hosts have no room for all; `None`: all of
    /// them.
    fn least_connections(&self) -> Option<u64> {
        None
    }

    /// Reduces the connections of the plan to the room of the other hosts that make the load. Returns notes.
    fn fit_hosts(&mut self, _: Room) -> Vec<String> {
        Vec::new()
    }

    /// Drives the session until there is an outcome.
    fn drive(&mut self, session: &Session<'_>) -> Result<ExperimentResult>;
}

/// The result of an experiment.
#[derive(Default)]
pub(crate) struct ExperimentResult {
    /// Counts that the figures of the report are drawn from.
    pub(crate) tally: Tally,
    /// Wall time of sending in it.
    pub(crate) window: Nanos,
    /// `true` if the run was cut short.
    pub(crate) partial: bool,
    pub(crate) verdict: Verdict,
    pub(crate) reasons: Vec<Check>,
    pub(crate) trials: Vec<TrialRecord>,
    pub(crate) result: RunResult,
    /// The limiting resources, where the experiment has tested one.
    pub(crate) causes: Option<Vec<Finding>>,
    pub(crate) timers: Option<Timers>,
    /// Events of the load, and their effects.
    pub(crate) events: Vec<DisruptionSummary>,
    /// Why there is nothing to judge, where that is so.
    pub(crate) unmeasured: Option<String>,
}

/// Hidden timers: those found, and those configured.
pub(crate) struct Timers {
    pub(crate) cliffs: Vec<Cliff>,
    /// Only where the timeout probe ran.
    pub(crate) probed: Option<Vec<ProbedTimer>>,
    pub(crate) horizon: Horizon,
}

impl ExperimentResult {
    /// Creates an outcome of one load.
    pub(crate) fn new(tally: Tally, window: Nanos, verdict: Verdict, reasons: Vec<Check>) -> Self {
        Self { tally, window, verdict, reasons, ..Self::default() }
    }
}

/// The surroundings of an experiment.
pub(crate) struct SessionSetup<'a> {
    /// `load`, `find`, `lab hold`.
    pub(crate) command: &'static str,
    /// The server under test.
    pub(crate) server: &'a mut dyn WatchedServer,
    /// Publisher of its figures while it runs.
    pub(crate) publisher: &'a Publisher,
    pub(crate) interrupts: &'a Interrupts,
    /// Lines that are shown first.
    pub(crate) notes: Vec<String>,
}

/// A session that has ended, and is not yet reported.
pub(crate) struct Ended {
    pub(crate) summary: Summary,
    pub(crate) trials: Vec<TrialRecord>,
    pub(crate) run: Run,
    /// End of the command, when not well.
    pub(crate) stop: Option<Stop>,
    /// `true` if the server ended meanwhile.
    pub(crate) server_is_gone: bool,
}

impl Ended {
    /// Reports, and says how the command ends.
    pub(crate) fn report(self) -> Result<()> {
        self.run.finish(&self.summary, &self.trials)?;
        self.stop.map_or(Ok(()), Err)
    }
}

/// Runs `experiment`, writes its report, and returns how the command ends.
pub(crate) fn run(experiment: &mut dyn Experiment, set_up: SessionSetup<'_>) -> Result<()> {
    measure(experiment, set_up)?.report()
}

/// Runs `experiment` without reporting it.
pub(crate) fn measure(experiment: &mut dyn Experiment, set_up: SessionSetup<'_>) -> Result<Ended> {
    let SessionSetup { command, server, publisher, interrupts, mut notes } = set_up;
    let search = experiment.search_head();
    let always_archive = experiment.always_archives() || server.backend_is_ours();
    let watched = server.statistics().and_then(|source| source.note());
    notes.extend(watched.clone());
    let with_watched = |settings| Settings { watch: watched.clone(), ..settings };
    let command_line = experiment.command_line();
    let least = experiment.least_connections();
    let job = experiment.load();
    let refused = settings::refused(&job.settings);
    notes.extend(refused.map(|addresses| format!("addresses of {addresses}")));
    let network = server.isolated().map(|hosts| hosts.clients);
    let agents = match &job.hosts {
        None => start_load_agents(&mut job.plan, job.processes, network)?,
        Some(hosts) => {
            let (each, plan) = (job.threads_each, &mut job.plan);
            let (agents, room, tight) = start_hosts(hosts, each, plan, least, interrupts)?;
            notes.extend(experiment.fit_hosts(room));
            notes.extend(tight);
            agents
        }
    };
    let settings = with_watched(experiment.settings());
    let budget = experiment.budget();
    let publisher = publisher.clone();
    let kind = experiment.kind();
    let job = experiment.load();
    let run = Run::begin(RunHead {
        command,
        kind,
        command_line,
        job,
        settings,
        search,
        budget,
        always_archive,
        publisher,
        interrupts: Some(interrupts),
    })?;
    let archive_dir = run.archive_dir();
    // What other hosts do, their load is judged by.
    let is_read = archive_dir.is_some() || run.wants_readings() || job.hosts.is_some();
    let clients = || match job.hosts {
        None => Clients::Here(agents.pids()),
        Some(_) => Clients::There(&agents),
    };
    let yardstick = Yardstick::start(&cpus_of_run(server, &clients()));
    let recorders = is_read.then(|| {
        let dir = archive_dir.as_deref().map(Path::new);
        record(dir, server, clients(), &yardstick.totals())
    });
    let session = Session {
        scene: ObservationScope::of(job),
        agents: RefCell::new(agents),
        run: RefCell::new(run),
        server: RefCell::new(server),
        server_end: RefCell::new(None),
        yardstick,
        recorders: RefCell::new(recorders),
        far: RefCell::default(),
        stops_at_loss: job.stops_at_loss,
        interrupts,
    };
    for note in notes {
        session.note(note);
    }
    let mut outcome = experiment.drive(&session)?;
    let interrupted = interrupts.is_raised();
    let load_hosts = session.agents().hosts();
    let (mut run, server_end) = session.end();
    if let Some(dropped) = run.rows().map(|rows| rows.dropped).filter(|dropped| *dropped > 0) {
        let dropped = units::grouped(dropped);
        run.handle_event(&Event::Note(format!("rows: {dropped} found no room and are missing")));
    }
    if let Some(ServerEnd::Laboratory(how)) = &server_end {
        outcome.verdict = Verdict::Invalid;
        outcome.reasons.insert(0, Check::failed(CheckId::Laboratory, how));
    }
    let unmeasured = outcome.unmeasured.take();
    let settings = with_watched(experiment.settings());
    let target = experiment.load().target_name.clone();
    let (mut summary, trials) = summarise(command, target, settings, outcome, &run);
    summary.machines.load_hosts = load_hosts;
    let stop = match unmeasured {
        _ if interrupted => Some(run::interrupted_stop(interrupts)),
        Some(why) => Some(Stop::CannotRun(why)),
        None => Stop::of(summary.standing()),
    };
    Ok(Ended { summary, trials, run, stop, server_is_gone: server_end.is_some() })
}

fn summarise(
    command: &str,
    target: String,
    settings: Settings,
    outcome: ExperimentResult,
    run: &Run,
) -> (Summary, Vec<TrialRecord>) {
    let ExperimentResult { tally, window, partial, verdict, reasons, trials, .. } = outcome;
    let head = SummaryHead {
        command: command.to_owned(),
        target,
        started_at: run.started_at.clone(),
        window,
        partial,
        settings,
        verdict,
        reasons,
        result: outcome.result,
        archive: run.archive_dir(),
    };
    let mut summary = Summary::new(head, &tally);
    summary.causes = outcome.causes;
    summary.events = outcome.events;
    summary.rows = run.rows();
    // A search's figures are those of the trials at its lower bound, and failures are in the others.
    summary.failures.error_reasons = summary::reasons(&run.reasons);
    summary.machines.slow = speed::slow_trials(&trials);
    match (run.archive_dir(), summary.result.find()) {
        (Some(dir), Some(find)) => {
            let readings = causes::readings(dir.as_ref());
            summary.machines.hosts = causes::hosts_of_search(&readings, find, &trials);
            let diagnose = || causes::of(&readings, find, &trials);
            summary.causes = summary.causes.take().or_else(diagnose);
        }
        // The run may have gone on for days, so that one reading is kept at a time.
        (Some(dir), None) => {
            summary.machines.hosts = summarise_hosts(dir.as_ref()).unwrap_or_default();
        }
        (None, _) => {}
    }
    if let Some(Timers { cliffs, probed, horizon }) = outcome.timers {
        summary = summary.with_timers(&cliffs, probed, horizon);
    }
    (summary, trials)
}

/// A session, shared with the experiment: a controller reports while a load runs.
pub(crate) struct Session<'a> {
    agents: RefCell<LoadAgents>,
    run: RefCell<Run>,
    server: RefCell<&'a mut dyn WatchedServer>,
    /// End of the server, once it was observed.
    server_end: RefCell<Option<ServerEnd>>,
    /// Measures the CPUs of this host that the run uses.
    yardstick: Yardstick,
    /// Recorders of hosts.
    recorders: RefCell<Option<Recorders>>,
    /// Readings of other hosts in the load.
    far: RefCell<FarReadings>,
    /// The loss of an agent ends a load.
    stops_at_loss: bool,
    pub(crate) interrupts: &'a Interrupts,
    scene: ObservationScope,
}

/// A load to run.
pub(crate) struct Measurement<'a> {
    pub(crate) plan: &'a LoadPlan,
    /// The trial that it is, where it is one.
    pub(crate) trial: Option<TrialRequest>,
    /// The load has one rate, so that its halves are alike.
    pub(crate) is_steady: bool,
    /// `true` if the server's counts meanwhile are this load's alone.
    pub(crate) is_alone: bool,
    /// Deliveries per publish, if its operations are deliveries.
    pub(crate) deliveries: Option<u64>,
}

impl Measurement<'_> {
    /// Returns a stretch of the load, counted in its operations.
    fn in_operations(&self, tally: Tally) -> Tally {
        match self.deliveries {
            Some(each) => tally.into_deliveries(each, self.plan.timeouts.deadline),
            None => tally,
        }
    }
}

/// Runs `plan` by agents that are not the session's: no sink gets its events.
pub(crate) fn run_beside(
    agents: &mut LoadAgents,
    plan: &LoadPlan,
    control: &LoadControl<'_>,
    mut observer: Observer<'_>,
) -> Result<Observed> {
    let outcome = agents.run_load(plan, control, &mut |event| observer.handle_event(&event));
    let outcome = outcome.map_err(|error| fleet_stop(&error))?;
    Ok(observer.finish(outcome, &FarReadings::default()))
}

impl<'a> Session<'a> {
    /// Runs a load and observes it; `listen` gets every event after the observer.
    pub(crate) fn run_load(
        &self,
        of: &Measurement<'_>,
        listen: &mut dyn FnMut(&Event),
    ) -> Result<Observed> {
        self.observe(of, listen, |agents, control, handle| {
            agents.run_load(of.plan, control, handle)
        })
    }

    /// Runs a load of connections that `controller` steers, and observes it.
    pub(crate) fn run_hold(
        &self,
        of: &Measurement<'_>,
        controller: &mut dyn HoldController,
        listen: &mut dyn FnMut(&Event),
    ) -> Result<Observed> {
        self.observe(of, listen, |agents, control, handle| {
            agents.run_hold(of.plan, control, controller, handle)
        })
    }

    fn observe(
        &self,
        of: &Measurement<'_>,
        listen: &mut dyn FnMut(&Event),
        drive: impl FnOnce(
            &mut LoadAgents,
            &LoadControl<'_>,
            &mut dyn FnMut(Event),
        ) -> Result<LoadOutcome, FleetError>,
    ) -> Result<Observed> {
        let mut observer = self.observer(&**self.server.borrow(), of.is_steady);
        // A trial is judged at once, and says itself what was wrong with it.
        let mut warnings = of.trial.is_none().then(|| Warnings::of(of.plan));
        let mut counted = None;
        let mut handle = |mut event: Event| {
            if let Event::Interval(interval) = &mut event {
                interval.tally = of.in_operations(std::mem::take(&mut interval.tally));
            }
            // Not earlier: a server may still work on what an aborted trial has sent.
            if of.is_alone && matches!(event, Event::LoadStarted { .. }) {
                counted = self.server.borrow_mut().counters();
            }
            match &event {
                Event::LoadStarted { epoch, .. } => {
                    self.far.borrow_mut().begin(*epoch);
                }
                Event::Draining { .. } => {
                    self.far.borrow_mut().end(now());
                }
                _ => {}
            }
            observer.handle_event(&event);
            listen(&event);
            self.emit(&event);
            let said = warnings.iter_mut().flat_map(|warnings| warnings.handle_event(&event));
            said.for_each(|warning| self.emit(&warning));
        };
        let mut outcome =
            self.drive(of.trial, |agents, control| drive(agents, control, &mut handle))?;
        outcome.tally = of.in_operations(outcome.tally);
        if of.deliveries.is_some() && !outcome.interrupted {
            outcome.tally.end_deliveries();
        }
        let mut observed = observer.finish(outcome, &self.far.borrow());
        let outcome = &observed.outcome;
        // What an aborted trial has left in flight may be counted at any time.
        if let Some(before) = counted.filter(|_| !outcome.aborted)
            && let Some(after) = self.server.borrow_mut().counters()
        {
            let received = after.since(&before);
            let peer = received.and_then(|all| peer_counts(of.plan, &outcome.tally, &all));
            observed.observations.peer = peer;
        }
        Ok(observed)
    }

    /// Watches a load against `server`; `is_steady`: it has one rate, so that its halves are alike.
    pub(crate) fn observer(&self, server: &dyn WatchedServer, is_steady: bool) -> Observer<'_> {
        Observer::new(&self.scene, is_steady, server, self.yardstick.totals())
    }

    /// Runs a load that is not part of the record: only `listen` gets its events.
    pub(crate) fn run_unrecorded(
        &self,
        plan: &LoadPlan,
        listen: &mut dyn FnMut(&Event),
    ) -> Result<LoadOutcome> {
        self.drive(None, |agents, control| {
            agents.run_load(plan, control, &mut |event| listen(&event))
        })
    }

    /// Runs a hold whose experiment observes it itself, and gets every event first; `newcomers` join it.
    pub(crate) fn steer(
        &self,
        plan: &LoadPlan,
        newcomers: Option<&dyn Newcomers>,
        controller: &mut dyn HoldController,
        handle: &mut dyn FnMut(Event),
    ) -> Result<LoadOutcome> {
        self.drive(None, |agents, control| {
            let control = LoadControl { newcomers, ..*control };
            agents.run_hold(plan, &control, controller, handle)
        })
    }

    /// Runs `work` on the agents until it is done or interrupted.
    fn drive(
        &self,
        trial: Option<TrialRequest>,
        work: impl FnOnce(&mut LoadAgents, &LoadControl<'_>) -> Result<LoadOutcome, FleetError>,
    ) -> Result<LoadOutcome> {
        let interrupted = || self.is_interrupted();
        let stops_at_loss = self.stops_at_loss;
        let control = LoadControl { trial, stops_at_loss, ..LoadControl::new(&interrupted) };
        work(&mut self.agents.borrow_mut(), &control).map_err(|error| match error {
            FleetError::Interrupted => run::interrupted_stop(self.interrupts),
            error => fleet_stop(&error),
        })
    }

    /// Returns the limiting resources of a search that has ended.
    pub(crate) fn causes(
        &self,
        find: &FindSummary,
        trials: &[TrialRecord],
    ) -> Option<Vec<Finding>> {
        self.is_archived().then_some(())?;
        causes::of(&self.readings(), find, trials)
    }

    /// Returns what was read of every host so far; nothing if it is not archived.
    pub(crate) fn readings(&self) -> causes::Readings {
        let dir = self.run.borrow().archive_dir();
        dir.map(|dir| causes::readings(dir.as_ref())).unwrap_or_default()
    }

    /// Hands an event to every sink.
    pub(crate) fn emit(&self, event: &Event) {
        self.run.borrow_mut().handle_event(event);
    }

    /// Allows a key to pause the ramps from now on.
    pub(crate) fn let_pause(&self) {
        self.run.borrow_mut().let_pause();
    }

    /// Reports whether somebody wants ramps to be paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.run.borrow().is_paused()
    }

    /// Shows a line to the user.
    pub(crate) fn note(&self, line: String) {
        self.emit(&Event::Note(line));
    }

    /// Reports whether the run was interrupted. Called several times a second, also while nothing happens,
    /// so it also passes readings of hosts on, and redraws live displays.
    pub(crate) fn is_interrupted(&self) -> bool {
        let mut run = self.run.borrow_mut();
        if let Some(recorders) = &*self.recorders.borrow() {
            pass_on(recorders, &mut run, &mut self.far.borrow_mut());
        }
        run.handle_tick();
        let is_raised = self.interrupts.is_raised();
        if is_raised {
            run.handle_stop();
        }
        is_raised
    }

    /// Returns the time since the run began.
    pub(crate) fn elapsed(&self) -> Nanos {
        self.run.borrow().elapsed()
    }

    /// Waits while the server recovers from an overload.
    pub(crate) fn rest(&self, span: Nanos) {
        let until = clock::monotonic_ns().saturating_add(span.0);
        while clock::monotonic_ns() < until && !self.is_interrupted() {
            std::thread::sleep(REST_STEP);
        }
    }

    /// Returns the processes that make the load.
    pub(crate) fn agents(&self) -> Ref<'_, LoadAgents> {
        self.agents.borrow()
    }

    /// Starts more of them between two loads; false where this host does not let it.
    pub(crate) fn add_agents(&self, count: u32) -> bool {
        self.agents.borrow_mut().grow_to(count).is_ok()
    }

    /// Reports whether the readings of its hosts are archived.
    pub(crate) fn is_archived(&self) -> bool {
        self.run.borrow().archive_dir().is_some()
    }

    /// Returns the server under test.
    pub(crate) fn server(&self) -> Ref<'_, &'a mut dyn WatchedServer> {
        self.server.borrow()
    }

    /// Returns the end of the server, if it has ended; stored once known.
    pub(crate) fn server_end(&self) -> Option<ServerEnd> {
        let mut seen = self.server_end.borrow_mut();
        if seen.is_none() {
            *seen = self.server.borrow_mut().ended();
        }
        seen.clone()
    }

    /// Ends the agents, and checks the server for the last time.
    fn end(self) -> (Run, Option<ServerEnd>) {
        let Self { agents, run, server, server_end, recorders, .. } = self;
        drop(agents);
        let server_end = server_end.into_inner().or_else(|| server.into_inner().ended());
        let mut run = run.into_inner();
        if let Some(mut recorders) = recorders.into_inner() {
            recorders.stop();
            pass_on(&recorders, &mut run, &mut FarReadings::default());
            let dropped = recorders.dropped();
            if dropped > 0 && run.wants_readings() {
                let note = format!("{dropped} readings of hosts came too fast to be shown");
                run.handle_event(&Event::Note(note));
            }
        }
        if let Some(end) = &server_end {
            let what = match end {
                ServerEnd::Server(_) => "server",
                ServerEnd::Laboratory(_) => "laboratory",
            };
            run.handle_event(&Event::Note(format!("the {what} ended: {}", end.reason())));
        }
        (run, server_end)
    }
}

/// Hands the readings that have come to every sink, and to the observer of other hosts.
fn pass_on(recorders: &Recorders, run: &mut Run, far: &mut FarReadings) {
    while let Some((host, reading)) = recorders.next() {
        far.add(&host, &reading);
        run.handle_reading(&host, &reading);
    }
}
