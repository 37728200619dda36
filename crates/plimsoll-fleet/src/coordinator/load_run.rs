//! One load over several agents, as a pure state machine: its inputs are frames, losses and `now`, its
//! outputs commands to agents and events.
//!
//! ```text
//!  Preparing --all Ready--> Running --every agent ended or lost--> over
//!      |                       |
//!      +--- interrupt, loss, failure, too many bad: Stop to all ---+--> over
//! ```
//!
//! Agents on other hosts start in two phases. All get the instant of the start and report how far it is ahead
//! (`Armed`). If it is ahead for all of them, they get `Go`; otherwise all get a later instant.
//!
//! While a hold is running it can be steered, and finished, and agents can join it (`holding.rs`).
//!
//! After any `handle_*`, call [`LoadRun::poll_action`] and [`LoadRun::poll_event`] until they are
//! empty.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use plimsoll_model::event::{Event, LoadEvent};
use plimsoll_model::hist::Histogram;
use plimsoll_model::pace::{Arrivals, Profile, Schedule, Shard};
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::seconds::Seconds;
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::trial::TrialRequest;
use plimsoll_model::{ErrorClass, Nanos};

use crate::coordinator::outcome::{LoadControl, LoadOutcome, Opened};
use crate::coordinator::steering::Steering;
use crate::error::{FleetError, Result};
use crate::message::{FromAgent, ToAgent};

mod holding;

/// From the command to start to the schedule's first instant: every agent has received it by then.
const START_DELAY: Nanos = Nanos::from_millis(50);
/// Least delay for agents on other hosts; several round trips more if those are long.
const FAR_START_DELAY: Nanos = Nanos::from_secs(1);
const ROUND_TRIPS_TO_START: u64 = 4;
/// Attempts at a start of agents on other hosts, each time at an instant that is twice as far ahead.
const STARTS_MAX: u32 = 4;
/// In a load without a planned end, an agent that sends nothing for this long counts as hung. While the kernel
/// reclaimed memory, agents came to read answers 50 s late (docs/journal/2026-11-24-ports-of-a-proxy.md). One that ends
/// is noticed at once.
const SILENCE_MAX: Nanos = Nanos::from_secs(120);
/// Timeout of preparing, besides opening connections.
const PREPARE_WAIT: Nanos = Nanos::from_secs(30);
/// Bytes of request bodies that reach another host per second, at least; one that is silent meanwhile is lost.
const BODY_BYTES_PER_S_MIN: u64 = 100_000;
/// Connections per second and agent that are opened in advance, at least.
const PREWARM_PER_S_MIN: u64 = 200;
/// Held connections that are closed per second, at least: a reset takes about 20 us of the
/// kernel, and all agents of a hold may share two CPUs with the server's end of it.
const CLOSES_PER_S_MIN: u64 = 20_000;
/// Notes of one agent in a load: one that sends more is given up.
const NOTES_MAX: u32 = 10_000;
/// Seconds that an agent may be ahead of those that all have delivered: each is kept until then.
const SECONDS_AHEAD_MAX: u32 = 3_600;
/// Hosts whose send lag is stored by host: a histogram takes 200 kB.
const LAGS_MAX: usize = 64;
/// The part of the overrun that an agent has which was asked to stop: somebody may be waiting for it, and it has only
/// its last second to report.
const STOP_SHARE: (u64, u64) = (2, 5);
const SECOND: Nanos = Nanos::from_secs(1);

/// An action of the coordinator.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// Send this to an agent.
    Send(usize, ToAgent),
    /// Kill this agent, which counts as lost.
    Kill(usize),
}

/// Times and limits of a load, from its plan and control.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    trial: Option<TrialRequest>,
    is_hold: bool,
    /// Duration in which operations are started, if known.
    planned: Option<Nanos>,
    /// The longest wait for what is in flight when the load ends as planned.
    answer_wait: Nanos,
    /// Time for which an agent may be overdue before it is killed.
    overrun: Nanos,
    prepare_wait: Nanos,
    /// Timeout of what is in flight when the load ends before that.
    stop_grace: Nanos,
    /// From the end of the grace until an agent that was asked to stop is killed.
    stop_wait: Nanos,
    abort_bad_ops: Option<u64>,
    stops_at_loss: bool,
    start: StartOf,
    /// Schedule of operations that a lost agent would still have started; `None` if nothing is due at any time.
    schedule: Option<(Arc<Profile>, Arrivals, u64)>,
}

/// The origin of a load's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum StartOf {
    /// Agents of this host get the instant.
    #[default]
    Here,
    /// Agents on other hosts get it in two phases.
    There,
    /// A coordinator above says it: [`LoadRun::start`].
    Told,
}

/// An agent and its part of the load.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// Shard of its first thread.
    pub(super) shard: Shard,
    pub(super) threads: u32,
}

impl Terms {
    pub(super) fn new(
        plan: &LoadPlan,
        control: &LoadControl<'_>,
        agents: usize,
        start: StartOf,
    ) -> Self {
        let is_hold = matches!(plan.pacing, Pacing::Hold(_));
        let (planned, schedule) = match &plan.pacing {
            Pacing::Open { profile, arrivals } => {
                let schedule = (Arc::new(profile.clone()), *arrivals, plan.seed);
                (Some(profile.duration()), Some(schedule))
            }
            Pacing::Closed { duration, .. } => (*duration, None),
            Pacing::Hold(_) => (None, None),
        };
        // On this host they are shared.
        let sent = plan.bodies().filter(|_| start == StartOf::There);
        let sent_bytes = sent.map_or(0, |store| store.bytes().len() as u64);
        let prewarm = if plan.prewarm { plan.connections / agents.max(1) as u64 } else { 0 };
        let deadline = plan.timeouts.deadline.unwrap_or_default();
        let counts_deliveries = plan.mqtt.as_ref().is_some_and(|mqtt| mqtt.deliveries.is_some());
        let settling = if counts_deliveries { plan.timeouts.linger } else { Nanos::ZERO };
        let answer_wait = plan.timeouts.connect + deadline + plan.timeouts.linger + settling;
        let closing = if is_hold { plan.connections / CLOSES_PER_S_MIN } else { 0 };
        Self {
            trial: control.trial,
            is_hold,
            planned,
            answer_wait,
            overrun: control.overrun,
            prepare_wait: PREPARE_WAIT
                + Nanos::from_secs(sent_bytes / BODY_BYTES_PER_S_MIN)
                + plan.timeouts.connect
                + Nanos::from_secs(prewarm / PREWARM_PER_S_MIN),
            stop_grace: control.stop_grace,
            stop_wait: Nanos(control.overrun.0 * STOP_SHARE.0 / STOP_SHARE.1)
                + Nanos::from_secs(closing),
            abort_bad_ops: plan.abort_bad_ops,
            stops_at_loss: control.stops_at_loss,
            start,
            schedule,
        }
    }
}

/// The state of an agent in the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preparing,
    Ready,
    /// The agent knows the instant of the start, and waits for `Go`.
    Armed,
    Running,
    Ended,
    Lost,
}

/// One agent's part.
#[derive(Debug)]
struct Part {
    member: Member,
    stage: Stage,
    /// Operations that ended, in the seconds delivered.
    finished: u64,
    /// Operations in flight when the agent started its last one.
    in_flight: Option<u64>,
    /// Seconds delivered.
    delivered: u32,
    /// Second of the load that is its second 0.
    first_second: u32,
    /// Connections that the agent has tried, or that ramps have ordered it to try.
    ramped_to: u64,
    /// Connections that the agent had tried when it answered its last order.
    tried: u64,
    last_frame_at: Nanos,
    notes: u32,
    done: PartDone,
}

/// The part of one agent in a load.
#[derive(Clone, Debug, Default)]
pub(super) struct PartDone {
    pub(super) scheduled: u64,
    pub(super) ok: u64,
    /// CPU of its busiest thread in any second, 0 to 1.
    pub(super) busiest_thread: f64,
    /// Lateness of its sends; empty if there are many agents.
    pub(super) send_lag: Histogram,
}

impl PartDone {
    fn add(&mut self, second: &Tally, with_lag: bool) {
        self.scheduled += second.scheduled;
        self.ok += second.ok;
        self.busiest_thread = self.busiest_thread.max(second.generator.busiest_thread);
        if with_lag {
            self.send_lag.merge(&second.spans.send_lag);
        }
    }
}

impl Part {
    fn new(member: Member, stage: Stage, first_second: u32, now: Nanos) -> Self {
        Self {
            member,
            stage,
            finished: 0,
            in_flight: None,
            delivered: first_second,
            first_second,
            ramped_to: 0,
            tried: 0,
            last_frame_at: now,
            notes: 0,
            done: PartDone::default(),
        }
    }

    /// Returns its share of the connections of a ramp.
    fn share(&self, connections: u64) -> u64 {
        let Shard { index, of } = self.member.shard;
        let threads = index..index + self.member.threads;
        threads.map(|index| Shard { index, of }.share(connections)).sum()
    }

    const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Ended | Stage::Lost)
    }

    /// Returns the operations of its schedule that the agent has not counted, by the second in which they are due.
    fn uncounted(&self, terms: &Terms) -> BTreeMap<u32, u64> {
        let Some((profile, arrivals, seed)) = &terms.schedule else { return BTreeMap::new() };
        let mut due = BTreeMap::<u32, u64>::new();
        let Shard { index, of } = self.member.shard;
        for index in index..index + self.member.threads {
            let shard = Shard { index, of };
            for at in Schedule::new(Arc::clone(profile), *arrivals, shard, *seed) {
                let second = u32::try_from(at.0 / SECOND.0).unwrap_or(u32::MAX);
                *due.entry(second).or_default() += 1;
            }
        }
        let mut counted = self.done.scheduled;
        let mut left = BTreeMap::new();
        for (second, operations) in due {
            let of_these = counted.min(operations);
            counted -= of_these;
            if operations > of_these {
                // One that came due at the end of a second may be counted in the next.
                *left.entry(second.max(self.delivered)).or_default() += operations - of_these;
            }
        }
        left
    }

    const fn unfinished(&self) -> u64 {
        self.done.scheduled.saturating_sub(self.finished)
    }
}

/// A start that was announced to agents on other hosts.
#[derive(Clone, Copy, Debug)]
struct Arming {
    epoch: Nanos,
    /// Time by which all agents must have answered; the rest of the time until the start is for `Go`.
    deadline: Nanos,
    tries: u32,
}

/// The state machine.
#[derive(Debug, Default)]
pub(super) struct LoadRun {
    terms: Terms,
    parts: Vec<Part>,
    started: Nanos,
    epoch: Option<Nanos>,
    /// The last start that was announced to agents on other hosts.
    arming: Option<Arming>,
    /// Time by which the last agent must have ended, once all were sent Stop.
    stopped: Option<Nanos>,
    seconds: Seconds,
    /// The outcome so far.
    outcome: LoadOutcome,
    bad: u64,
    steering: Steering,
    /// The number of the last ramp, and its connections.
    ramp: Option<(u32, u64)>,
    /// The order which says that others have joined, while it is carried out.
    spread: Option<u32>,
    /// The longest way to an agent's host and back; zero on this one.
    round_trip: Nanos,
    /// Processes that hosts lost, which go on without them.
    lost_below: u32,
    /// Operations that lost agents would have started, by the second in which they are due.
    unsent: BTreeMap<u32, u64>,
    window: Option<Nanos>,
    opened: Opened,
    /// `true` if the first failure with a reason was reported.
    has_told_failure: bool,
    draining_told: bool,
    /// Why there will be no outcome.
    failure: Option<FleetError>,
    events: VecDeque<Event>,
    actions: VecDeque<Action>,
}

impl LoadRun {
    /// Creates a load whose agents were just sent Prepare.
    pub(super) fn new(members: Vec<Member>, terms: Terms, now: Nanos) -> Self {
        let part = |member| Part::new(member, Stage::Preparing, 0, now);
        Self {
            terms,
            seconds: Seconds::new(members.len()),
            parts: members.into_iter().map(part).collect(),
            started: now,
            ..Self::default()
        }
    }

    /// Handles a frame of an agent.
    pub(super) fn handle_frame(&mut self, index: usize, frame: FromAgent, now: Nanos) {
        let part = &mut self.parts[index];
        if part.is_over() {
            // Sent before it was killed.
            return;
        }
        part.last_frame_at = now;
        match (frame, part.stage) {
            (FromAgent::Load(event), _) => self.handle_load(index, event, now),
            (FromAgent::Armed { margin }, Stage::Ready) if self.arming.is_some() => {
                // An agent that got the instant too late waits for the next one.
                if margin > Nanos::ZERO {
                    part.stage = Stage::Armed;
                    self.go_if_armed(now);
                }
            }
            // An answer to an earlier instant.
            (FromAgent::Armed { .. }, _) => {}
            (FromAgent::Note(_), _) if part.notes == NOTES_MAX => {
                self.give_up(index, &format!("sent more than {NOTES_MAX} notes"), now);
            }
            (FromAgent::Note(line), _) => {
                part.notes += 1;
                let name = &part.member.name;
                let line = format!("{name}: {line}");
                self.note(line);
            }
            (FromAgent::PartLost, _) => {
                self.lost_below += 1;
                if self.terms.stops_at_loss {
                    self.stop(self.terms.stop_grace, now);
                }
            }
            (
                FromAgent::Failed { fault, message },
                Stage::Preparing | Stage::Ready | Stage::Armed,
            ) => {
                part.stage = Stage::Ended;
                self.seconds.end(index);
                let agent = part.member.name.clone();
                self.fail(FleetError::Failed { agent, fault, message }, now);
            }
            (FromAgent::Failed { message, .. }, _) => {
                self.give_up(index, &format!("failed: {message}"), now);
            }
            (other, _) => self.refuse(index, &other, now),
        }
        self.resume_ramp();
        self.hand_out_seconds();
    }

    /// Handles an event of an agent's part of the load.
    fn handle_load(&mut self, index: usize, event: LoadEvent, now: Nanos) {
        let part = &mut self.parts[index];
        match (event, part.stage) {
            (LoadEvent::Ready { opened, failed, first_error }, Stage::Preparing) => {
                part.stage = Stage::Ready;
                self.opened.connections += opened;
                self.opened.failed += failed;
                let known = self.opened.first_error.take();
                self.opened.first_error = known.or(first_error);
                self.start_if_ready(now);
            }
            (LoadEvent::Interval(interval), _) => self.handle_interval(index, interval, now),
            (LoadEvent::Refused(what), _) => self.fail(FleetError::Refused { what }, now),
            (LoadEvent::Rows(batch), _) => self.events.push_back(Event::Rows(batch)),
            (LoadEvent::Draining { in_flight }, _) => {
                part.in_flight = Some(in_flight);
                self.tell_draining();
            }
            (LoadEvent::Ended { window }, _) => self.handle_load_ended(index, window),
            (LoadEvent::Steered { id, tried }, Stage::Running)
                if self.steering.handle_answer(index, id) =>
            {
                part.tried = tried;
            }
            (other, _) => self.refuse(index, &FromAgent::Load(other), now),
        }
    }

    /// Gives up an agent whose message belongs to another stage.
    fn refuse(&mut self, index: usize, message: &FromAgent, now: Nanos) {
        let how = format!("sent an unexpected message ({})", message.kind());
        self.give_up(index, &how, now);
    }

    /// Handles the end of an agent; `how` completes *agent 2 …*.
    pub(super) fn handle_loss(&mut self, index: usize, how: &str, now: Nanos) {
        if !self.parts[index].is_over() {
            self.lose(index, how, now);
            self.resume_ramp();
            self.hand_out_seconds();
        }
    }

    /// Handles an interrupt of the user.
    pub(super) fn handle_interrupt(&mut self, now: Nanos) {
        if !self.outcome.interrupted && !self.is_over() {
            self.outcome.interrupted = true;
            self.stop(self.terms.stop_grace, now);
        }
    }

    /// Records that an agent sent a frame at `at`, which may not be handled yet: a coordinator that is late must not
    /// count its agents as hung.
    pub(super) fn handle_last_frame(&mut self, index: usize, at: Nanos) {
        let part = &mut self.parts[index];
        part.last_frame_at = part.last_frame_at.max(at);
    }

    /// Records the longest round trip to an agent's host.
    pub(super) const fn handle_round_trip(&mut self, round_trip: Nanos) {
        self.round_trip = round_trip;
    }

    /// Kills agents that are overdue.
    pub(super) fn handle_timeout(&mut self, now: Nanos) {
        if self.is_over() || now < self.poll_timeout() {
            return;
        }
        if let Some(arming) = self.arming.filter(|_| self.stopped.is_none())
            && arming.tries < STARTS_MAX
        {
            self.arm(arming.tries + 1, now);
            return;
        }
        // Giving one up may stop the others, which then have their time to end.
        let (is_arming, is_stopped) = (self.arming.is_some(), self.stopped.is_some());
        let is_open_ended = !is_stopped && self.epoch.is_some() && self.terms.planned.is_none();
        for index in 0..self.parts.len() {
            let part = &self.parts[index];
            let is_overdue = match part.stage {
                Stage::Ended | Stage::Lost => false,
                // These agents wait for others that are still preparing or got the instant too late.
                Stage::Ready => is_stopped || is_arming,
                Stage::Armed => is_stopped,
                Stage::Preparing | Stage::Running => {
                    !is_open_ended || now >= part.last_frame_at + SILENCE_MAX
                }
            };
            if is_overdue {
                self.give_up(index, "did not answer in time and was killed", now);
            }
        }
        self.hand_out_seconds();
    }

    /// Returns the time at which [`Self::handle_timeout`] is due.
    pub(super) fn poll_timeout(&self) -> Nanos {
        match (self.stopped, self.epoch, self.terms.planned) {
            (Some(deadline), _, _) => deadline,
            (None, None, _) => match self.arming {
                Some(arming) => arming.deadline,
                None if self.terms.start == StartOf::Told && self.is_ready() => Nanos::MAX,
                None => self.started + self.terms.prepare_wait,
            },
            (None, Some(epoch), Some(planned)) => {
                epoch + planned + self.terms.answer_wait + self.terms.overrun
            }
            (None, Some(_), None) => {
                let running = self.parts.iter().filter(|part| !part.is_over());
                running.map(|part| part.last_frame_at).min().unwrap_or(Nanos::MAX) + SILENCE_MAX
            }
        }
    }

    /// Returns the next action.
    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Returns the next event for the sinks.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Reports whether every agent has ended or is lost.
    pub(super) fn is_over(&self) -> bool {
        self.parts.iter().all(Part::is_over)
    }

    /// Returns the outcome, once the load is over.
    pub(super) fn into_outcome(self) -> Result<LoadOutcome> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let lost_agents = self.lost() + self.lost_below;
        let window = self.window.unwrap_or_default();
        Ok(LoadOutcome { window, lost_agents, ..self.outcome })
    }

    fn note(&mut self, line: String) {
        self.events.push_back(Event::Note(line.clone()));
        self.outcome.notes.push(line);
    }

    fn start_if_ready(&mut self, now: Nanos) {
        if !self.is_ready() || self.stopped.is_some() {
            return;
        }
        match self.terms.start {
            StartOf::Here => self.start(now + START_DELAY),
            StartOf::There => self.arm(1, now),
            StartOf::Told => {}
        }
    }

    /// Starts a load that is ready.
    pub(super) fn start(&mut self, epoch: Nanos) {
        if self.is_ready() && self.stopped.is_none() {
            self.send_to_all(&ToAgent::Start { epoch_monotonic: epoch });
            self.begin(epoch);
        }
    }

    fn is_ready(&self) -> bool {
        self.parts.iter().all(|part| part.stage == Stage::Ready)
    }

    /// Takes the result of opening in advance, once every agent is ready: for a coordinator above.
    pub(super) fn ready(&mut self) -> Option<Opened> {
        self.is_ready().then(|| std::mem::take(&mut self.opened))
    }

    /// Returns the part of each agent, as far as it was delivered.
    pub(super) fn done_by_each(&self) -> impl Iterator<Item = &PartDone> {
        self.parts.iter().map(|part| &part.done)
    }

    /// Returns the number of agents that were lost so far.
    pub(super) fn lost(&self) -> u32 {
        self.parts.iter().filter(|part| part.stage == Stage::Lost).count() as u32
    }

    /// Returns the number of connections that ramps of a hold had tried when the last orders were answered.
    pub(super) fn tried(&self) -> u64 {
        self.parts.iter().map(|part| part.tried).sum()
    }

    /// Orders to a hold up to this number are done.
    pub(super) fn done(&self) -> u32 {
        self.steering.done()
    }

    /// Sends all agents the instant of the start, further ahead with each attempt.
    fn arm(&mut self, tries: u32, now: Nanos) {
        let delay = FAR_START_DELAY + Nanos(self.round_trip.0 * ROUND_TRIPS_TO_START);
        let delay = Nanos(delay.0 << (tries - 1));
        let epoch = now + delay;
        self.arming = Some(Arming { epoch, deadline: now + Nanos(delay.0 / 2), tries });
        for part in &mut self.parts {
            part.stage = Stage::Ready;
        }
        self.send_to_all(&ToAgent::Start { epoch_monotonic: epoch });
    }

    fn go_if_armed(&mut self, now: Nanos) {
        let all_armed = self.parts.iter().all(|part| part.stage == Stage::Armed);
        let Some(arming) = self.arming.filter(|arming| all_armed && now < arming.deadline) else {
            return;
        };
        if self.stopped.is_none() {
            self.arming = None;
            self.send_to_all(&ToAgent::Go);
            self.begin(arming.epoch);
        }
    }

    fn send_to_all(&mut self, command: &ToAgent) {
        let send = |index| Action::Send(index, command.clone());
        self.actions.extend((0..self.parts.len()).map(send));
    }

    fn begin(&mut self, epoch: Nanos) {
        self.epoch = Some(epoch);
        for part in &mut self.parts {
            part.stage = Stage::Running;
        }
        let Terms { trial, planned, .. } = self.terms;
        self.events.push_back(Event::LoadStarted { trial, planned, epoch });
        let Opened { connections, failed, first_error } = std::mem::take(&mut self.opened);
        if failed > 0 {
            let why = first_error.map_or_else(String::new, |why| format!(": {why}"));
            let asked = connections + failed;
            self.note(format!(
                "{failed} of {asked} connections could not be opened in advance{why}"
            ));
        }
    }

    fn handle_interval(&mut self, index: usize, mut interval: Box<Interval>, now: Nanos) {
        let with_lag = self.parts.len() <= LAGS_MAX && self.terms.start == StartOf::There;
        let part = &mut self.parts[index];
        interval.second = interval.second.saturating_add(part.first_second);
        let second = interval.second.max(part.delivered);
        if second >= self.seconds.handed_out().saturating_add(SECONDS_AHEAD_MAX) {
            let how = format!("was more than {SECONDS_AHEAD_MAX} seconds ahead of the others");
            self.give_up(index, &how, now);
            return;
        }
        let tally = &mut interval.tally;
        if let Some((class, counted)) = tally.failures.reasons.earliest()
            && !std::mem::replace(&mut self.has_told_failure, true)
        {
            let reason = counted.reason.clone();
            self.events.push_back(Event::FirstFailure { class, reason });
        }
        part.done.add(tally, with_lag);
        // A relay has counted its own.
        tally.generator.processes = tally.generator.processes.max(1);
        let bad = tally.bad();
        part.finished += tally.ok + tally.errors_total() + tally.unsent;
        part.delivered = part.delivered.max(interval.second.saturating_add(1));
        self.seconds.add(index, interval);
        self.bad += bad;
        let is_bad_enough = self.terms.abort_bad_ops.is_some_and(|limit| self.bad > limit);
        if is_bad_enough && self.epoch.is_some() && self.stopped.is_none() {
            self.outcome.aborted = true;
            self.stop(self.terms.stop_grace, now);
        }
    }

    fn handle_load_ended(&mut self, index: usize, window: Nanos) {
        let part = &mut self.parts[index];
        part.stage = Stage::Ended;
        self.seconds.end(index);
        self.steering.handle_end(index);
        let unfinished = part.done.scheduled.abs_diff(part.finished);
        if unfinished > 0 {
            let name = part.member.name.clone();
            self.note(format!(
                "{name} did not account for {unfinished} operations; this is a bug in plimsoll"
            ));
        }
        self.window = Some(self.window.unwrap_or_default().max(window));
        self.tell_draining();
    }

    /// Reports, once, that no agent starts operations any more and some wait for answers.
    fn tell_draining(&mut self) {
        let is_draining = self.parts.iter().all(|part| part.is_over() || part.in_flight.is_some());
        if is_draining && !self.draining_told && !self.is_over() {
            self.draining_told = true;
            let open = self.parts.iter().filter(|part| !part.is_over());
            let in_flight = open.filter_map(|part| part.in_flight).sum();
            self.events.push_back(Event::Draining { in_flight });
        }
    }

    /// Has every agent end its load, within `grace` for what is in flight. A later call may only shorten it.
    pub(super) fn stop(&mut self, grace: Nanos, now: Nanos) {
        let deadline = now + grace + self.terms.stop_wait;
        if self.stopped.is_some_and(|earlier| earlier <= deadline) {
            return;
        }
        self.stopped = Some(deadline);
        for (index, part) in self.parts.iter().enumerate() {
            if !part.is_over() {
                self.actions.push_back(Action::Send(index, ToAgent::Stop { grace }));
            }
        }
    }

    /// Ends a load that never started, without an outcome.
    fn fail(&mut self, failure: FleetError, now: Nanos) {
        // A lost agent does not matter to a load that the user stopped.
        if self.failure.is_none() && !self.outcome.interrupted {
            self.failure = Some(failure);
        }
        self.stop(Nanos::ZERO, now);
    }

    fn give_up(&mut self, index: usize, how: &str, now: Nanos) {
        self.lose(index, how, now);
        self.actions.push_back(Action::Kill(index));
    }

    fn lose(&mut self, index: usize, how: &str, now: Nanos) {
        let part = &mut self.parts[index];
        let unfinished = part.unfinished();
        let name = part.member.name.clone();
        let (shard, threads, second) = (part.member.shard, part.member.threads, part.delivered);
        let held = if self.terms.is_hold { self.seconds.held(index) } else { 0 };
        part.stage = Stage::Lost;
        self.steering.handle_end(index);
        let mut tally = Tally::default();
        tally.failures.operations.add(ErrorClass::AgentLost, unfinished);
        tally.failures.lost_held.add(ErrorClass::AgentLost, held);
        self.seconds.lose(index, tally);
        self.bad += unfinished;
        let Some(epoch) = self.epoch else {
            self.fail(FleetError::Lost { agent: name, how: how.to_owned() }, now);
            return;
        };
        let share = f64::from(threads) / f64::from(shard.of.max(1)) * 100.0;
        let unsent = self.parts[index].uncounted(&self.terms);
        let rest = if self.terms.schedule.is_some() { "counts as unsent" } else { "is missing" };
        self.note(format!(
            "{name} {how}; {unfinished} operations that it had in flight count as agent-lost, and \
             its share of the load ({share:.0} %) {rest} from second {second} on"
        ));
        for (second, operations) in unsent {
            *self.unsent.entry(second).or_default() += operations;
        }
        if self.terms.stops_at_loss {
            self.stop(self.terms.stop_grace, now);
        }
        let ran = now.since(epoch).min(self.terms.planned.unwrap_or(Nanos::MAX));
        if self.is_over() && self.window.is_none() {
            self.window = Some(ran);
        }
    }

    /// Emits the seconds that every agent has delivered or will never deliver.
    fn hand_out_seconds(&mut self) {
        while let Some(mut interval) = self.seconds.poll() {
            let unsent = self.unsent.remove(&interval.second).unwrap_or(0);
            interval.tally.scheduled += unsent;
            interval.tally.unsent += unsent;
            self.outcome.tally.merge_following(&interval.tally);
            self.events.push_back(Event::Interval(interval));
        }
    }
}

#[cfg(test)]
mod simulated;
#[cfg(test)]
pub(super) mod tests;
