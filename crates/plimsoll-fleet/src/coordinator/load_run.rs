//! One load over several agents, as a pure machine: frames, losses and `now` go in; commands to
//! agents and events come out.
//!
//! ```text
//!  Preparing --all Ready--> Running --every agent ended or lost--> over
//!      |                       |
//!      +--- interrupt, loss, failure, too many bad: Stop to all ---+--> over
//! ```
//!
//! After any `handle_*`, call [`LoadRun::poll_action`] and [`LoadRun::poll_event`] until they are
//! empty.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::collections::btree_map::Entry;

use plimsoll_model::ErrorClass;
use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::plan::Pacing;
use plimsoll_model::tally::Interval;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::TrialRequest;

use crate::coordinator::LoadControl;
use crate::coordinator::LoadOutcome;
use crate::error::FleetError;
use crate::message::FromAgent;
use crate::message::ToAgent;

/// From the command to start to the schedule's first instant: every agent has long got it by then.
const START_DELAY: Nanos = Nanos::from_millis(50);
/// An agent that says nothing for so long in a load without a planned end is taken for hung.
const SILENCE_MAX: Nanos = Nanos::from_secs(30);
/// How long preparing may take, besides opening connections.
const PREPARE_WAIT: Nanos = Nanos::from_secs(30);
/// Connections per second and agent that are opened in advance at the very least.
const PREWARM_PER_S_MIN: u64 = 200;

/// What the coordinator must do.
#[derive(Debug, PartialEq)]
pub(super) enum Action {
    /// Say this to an agent.
    Send(usize, ToAgent),
    /// The agent is counted as lost; make that true.
    Kill(usize),
}

/// What a load's plan and control say about time and limits.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    trial: Option<TrialRequest>,
    /// How long operations are started, where that is known.
    planned: Option<Nanos>,
    /// From the planned end until an agent is killed.
    patience: Nanos,
    prepare_wait: Nanos,
    stop_grace: Nanos,
    overrun: Nanos,
    abort_bad_ops: Option<u64>,
}

impl Terms {
    pub(super) fn new(plan: &LoadPlan, control: &LoadControl<'_>, agents: usize) -> Self {
        let planned = match &plan.pacing {
            Pacing::Open { profile, .. } => Some(profile.duration()),
            Pacing::Closed { duration, .. } => *duration,
            Pacing::Hold(_) => None,
        };
        let prewarm = if plan.prewarm { plan.connections / agents.max(1) as u64 } else { 0 };
        let deadline = plan.deadline.unwrap_or_default();
        Self {
            trial: control.trial,
            planned,
            patience: plan.connect_timeout + deadline + plan.linger + control.overrun,
            prepare_wait: PREPARE_WAIT
                + plan.connect_timeout
                + Nanos::from_secs(prewarm / PREWARM_PER_S_MIN),
            stop_grace: control.stop_grace,
            overrun: control.overrun,
            abort_bad_ops: plan.abort_bad_ops,
        }
    }
}

/// Where an agent is in the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Preparing,
    Ready,
    Running,
    Ended,
    Lost,
}

/// One agent's part.
#[derive(Debug)]
struct Part {
    name: String,
    stage: Stage,
    /// Every second below was delivered.
    next_second: u32,
    /// Operations that came due, as far as delivered.
    scheduled: u64,
    /// The ones among them that ended.
    finished: u64,
    /// Operations in flight when the agent started its last one.
    in_flight: Option<u64>,
    heard: Nanos,
}

impl Part {
    const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Ended | Stage::Lost)
    }

    const fn unfinished(&self) -> u64 {
        self.scheduled.saturating_sub(self.finished)
    }
}

/// The machine.
#[derive(Debug)]
pub(super) struct LoadRun {
    terms: Terms,
    parts: Vec<Part>,
    started: Nanos,
    epoch: Option<Nanos>,
    /// When all agents were told to stop, and when the last of them must have ended.
    stopped: Option<(Nanos, Nanos)>,
    /// Seconds that not every agent has delivered yet.
    pending: BTreeMap<u32, Tally>,
    /// Every second below was handed out.
    next_second: u32,
    total: Tally,
    bad: u64,
    window: Option<Nanos>,
    opened: u64,
    open_failed: u64,
    open_error: Option<String>,
    draining_told: bool,
    aborted: bool,
    interrupted: bool,
    /// Why there will be no outcome.
    failure: Option<FleetError>,
    notes: Vec<String>,
    events: VecDeque<Event>,
    actions: VecDeque<Action>,
}

impl LoadRun {
    /// A load whose agents, called `names`, have just been told to prepare.
    pub(super) fn new(names: Vec<String>, terms: Terms, now: Nanos) -> Self {
        let part = |name| Part {
            name,
            stage: Stage::Preparing,
            next_second: 0,
            scheduled: 0,
            finished: 0,
            in_flight: None,
            heard: now,
        };
        Self {
            terms,
            parts: names.into_iter().map(part).collect(),
            started: now,
            epoch: None,
            stopped: None,
            pending: BTreeMap::new(),
            next_second: 0,
            total: Tally::default(),
            bad: 0,
            window: None,
            opened: 0,
            open_failed: 0,
            open_error: None,
            draining_told: false,
            aborted: false,
            interrupted: false,
            failure: None,
            notes: Vec::new(),
            events: VecDeque::new(),
            actions: VecDeque::new(),
        }
    }

    /// Takes what an agent said.
    pub(super) fn handle_frame(&mut self, index: usize, frame: FromAgent, now: Nanos) {
        let part = &mut self.parts[index];
        if part.is_over() {
            // Said before it learned that it was given up.
            return;
        }
        part.heard = now;
        match (frame, part.stage) {
            (FromAgent::Ready { opened, failed, first_error }, Stage::Preparing) => {
                part.stage = Stage::Ready;
                self.opened += opened;
                self.open_failed += failed;
                self.open_error = self.open_error.take().or(first_error);
                self.start_if_ready(now);
            }
            (FromAgent::Interval(interval), _) => self.handle_interval(index, *interval, now),
            (FromAgent::Draining { in_flight }, _) => {
                part.in_flight = Some(in_flight);
                self.tell_draining();
            }
            (FromAgent::LoadEnded { window }, _) => self.handle_load_ended(index, window),
            (FromAgent::Failed { fault, message }, Stage::Preparing | Stage::Ready) => {
                part.stage = Stage::Ended;
                let agent = part.name.clone();
                self.fail(FleetError::Failed { agent, fault, message }, now);
            }
            (FromAgent::Failed { message, .. }, _) => {
                self.give_up(index, &format!("failed: {message}"), now);
            }
            (other, _) => {
                let how = format!("sent an unexpected message ({})", other.kind());
                self.give_up(index, &how, now);
            }
        }
        self.hand_out_seconds();
    }

    /// Takes note that an agent is gone; `how` completes *agent 2 …*.
    pub(super) fn handle_loss(&mut self, index: usize, how: &str, now: Nanos) {
        if !self.parts[index].is_over() {
            self.lose(index, how, now);
            self.hand_out_seconds();
        }
    }

    /// The user wants to stop.
    pub(super) fn handle_interrupt(&mut self, now: Nanos) {
        if !self.interrupted && !self.is_over() {
            self.interrupted = true;
            self.stop(self.terms.stop_grace, now);
        }
    }

    /// Gives up agents that are overdue.
    pub(super) fn handle_timeout(&mut self, now: Nanos) {
        if self.is_over() || now < self.poll_timeout() {
            return;
        }
        let is_open_ended = self.is_open_ended();
        for index in 0..self.parts.len() {
            let part = &self.parts[index];
            let is_overdue = match part.stage {
                Stage::Ended | Stage::Lost => false,
                // The others wait for those that are still preparing.
                Stage::Ready => self.stopped.is_some(),
                Stage::Preparing | Stage::Running => {
                    !is_open_ended || now >= part.heard + SILENCE_MAX
                }
            };
            if is_overdue {
                self.give_up(index, "did not answer in time and was killed", now);
            }
        }
        self.hand_out_seconds();
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Nanos {
        match (self.stopped, self.epoch, self.terms.planned) {
            (Some((_, deadline)), _, _) => deadline,
            (None, None, _) => self.started + self.terms.prepare_wait,
            (None, Some(epoch), Some(planned)) => epoch + planned + self.terms.patience,
            (None, Some(_), None) => {
                let running = self.parts.iter().filter(|part| !part.is_over());
                running.map(|part| part.heard).min().unwrap_or(Nanos::MAX) + SILENCE_MAX
            }
        }
    }

    /// The next thing to do.
    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The next event for the sinks.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether every agent has ended or is lost.
    pub(super) fn is_over(&self) -> bool {
        self.parts.iter().all(Part::is_over)
    }

    /// What the load came to, once it is over.
    pub(super) fn into_outcome(self) -> Result<LoadOutcome, FleetError> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let lost_agents = self.parts.iter().filter(|part| part.stage == Stage::Lost).count();
        Ok(LoadOutcome {
            tally: self.total,
            window: self.window.unwrap_or_default(),
            aborted: self.aborted,
            interrupted: self.interrupted,
            lost_agents: lost_agents as u32,
            notes: self.notes,
        })
    }

    fn is_open_ended(&self) -> bool {
        self.stopped.is_none() && self.epoch.is_some() && self.terms.planned.is_none()
    }

    fn note(&mut self, line: String) {
        self.events.push_back(Event::Note(line.clone()));
        self.notes.push(line);
    }

    fn start_if_ready(&mut self, now: Nanos) {
        let all_ready = self.parts.iter().all(|part| part.stage == Stage::Ready);
        if !all_ready || self.stopped.is_some() {
            return;
        }
        let epoch = now + START_DELAY;
        self.epoch = Some(epoch);
        for (index, part) in self.parts.iter_mut().enumerate() {
            part.stage = Stage::Running;
            self.actions.push_back(Action::Send(index, ToAgent::Start { epoch_monotonic: epoch }));
        }
        self.events
            .push_back(Event::LoadStarted { trial: self.terms.trial, planned: self.terms.planned });
        if self.open_failed > 0 {
            let why = self.open_error.take().map_or_else(String::new, |why| format!(": {why}"));
            let asked = self.opened + self.open_failed;
            let failed = self.open_failed;
            self.note(format!(
                "{failed} of {asked} connections could not be opened in advance{why}"
            ));
        }
    }

    fn handle_interval(&mut self, index: usize, interval: Interval, now: Nanos) {
        let part = &mut self.parts[index];
        // Seconds ascend by contract. If one ever doesn't, its operations still count, a second
        // later, rather than be lost.
        let second = interval.second.max(part.next_second);
        part.next_second = second.saturating_add(1);
        let mut tally = interval.tally;
        tally.generator.processes = 1;
        let bad = tally.bad();
        part.scheduled += tally.scheduled;
        part.finished += tally.ok + tally.errors_total() + tally.unsent;
        self.add(second, tally);
        self.bad += bad;
        let is_bad_enough = self.terms.abort_bad_ops.is_some_and(|limit| self.bad > limit);
        if is_bad_enough && self.epoch.is_some() && self.stopped.is_none() {
            self.aborted = true;
            self.stop(self.terms.stop_grace, now);
        }
    }

    fn add(&mut self, second: u32, tally: Tally) {
        match self.pending.entry(second) {
            Entry::Vacant(entry) => {
                entry.insert(tally);
            }
            Entry::Occupied(entry) => entry.into_mut().merge_parallel(&tally),
        }
    }

    fn handle_load_ended(&mut self, index: usize, window: Nanos) {
        let part = &mut self.parts[index];
        part.stage = Stage::Ended;
        let unfinished = part.scheduled.abs_diff(part.finished);
        if unfinished > 0 {
            let name = part.name.clone();
            self.note(format!(
                "{name} did not account for {unfinished} operations; this is a bug in plimsoll"
            ));
        }
        self.window = Some(self.window.unwrap_or_default().max(window));
        self.tell_draining();
    }

    /// Once: when no agent starts operations any more, and some wait for answers.
    fn tell_draining(&mut self) {
        let is_draining = self.parts.iter().all(|part| part.is_over() || part.in_flight.is_some());
        if is_draining && !self.draining_told && !self.is_over() {
            self.draining_told = true;
            let open = self.parts.iter().filter(|part| !part.is_over());
            let in_flight = open.filter_map(|part| part.in_flight).sum();
            self.events.push_back(Event::Draining { in_flight });
        }
    }

    fn stop(&mut self, grace: Nanos, now: Nanos) {
        if self.stopped.is_some() {
            return;
        }
        self.stopped = Some((now, now + grace + self.terms.overrun));
        for (index, part) in self.parts.iter().enumerate() {
            if !part.is_over() {
                self.actions.push_back(Action::Send(index, ToAgent::Stop { grace }));
            }
        }
    }

    /// There can be no outcome: the load was never under way.
    fn fail(&mut self, failure: FleetError, now: Nanos) {
        // A load that the user stopped doesn't miss an agent.
        if self.failure.is_none() && !self.interrupted {
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
        let second = part.next_second.max(self.next_second);
        let name = part.name.clone();
        part.stage = Stage::Lost;
        let Some(epoch) = self.epoch else {
            self.fail(FleetError::Lost { agent: name, how: how.to_owned() }, now);
            return;
        };
        if unfinished > 0 {
            let mut tally = Tally::default();
            tally.errors.add(ErrorClass::AgentLost, unfinished);
            self.add(second, tally);
            self.bad += unfinished;
        }
        self.note(format!(
            "{name} {how}; {unfinished} operations that it had in hand count as agent-lost, and \
             its share of the load is missing from then on"
        ));
        let ran = now.since(epoch).min(self.terms.planned.unwrap_or(Nanos::MAX));
        if self.is_over() && self.window.is_none() {
            self.window = Some(ran);
        }
    }

    /// Hands out the seconds that every agent has delivered, or never will.
    fn hand_out_seconds(&mut self) {
        while let Some(second) = self.pending.first_key_value().map(|(second, _)| *second) {
            let is_complete =
                self.parts.iter().all(|part| part.is_over() || part.next_second > second);
            let Some(tally) = is_complete.then(|| self.pending.remove(&second)).flatten() else {
                return;
            };
            self.total.merge_following(&tally);
            self.next_second = second.saturating_add(1);
            self.events.push_back(Event::Interval(Box::new(Interval { second, tally })));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use plimsoll_model::Rate;
    use plimsoll_model::pace::Arrivals;
    use plimsoll_model::pace::Profile;
    use plimsoll_model::pace::Shard;
    use plimsoll_model::plan::TlsOptions;
    use proptest::prelude::*;

    use crate::message::AgentFault;

    use super::*;

    /// Two seconds at 10/s.
    pub(in crate::coordinator) fn plan() -> LoadPlan {
        let rate = Rate::per_second(10.0).unwrap();
        LoadPlan {
            targets: Vec::new(),
            target_destination: Vec::new(),
            destinations: Vec::new(),
            pacing: Pacing::Open {
                profile: Profile::constant(rate, Nanos::from_secs(2)),
                arrivals: Arrivals::Uniform,
            },
            connections: 8,
            keepalive: true,
            handshake_only: false,
            requests_per_connection: None,
            staggered: false,
            prewarm: false,
            deadline: None,
            linger: Nanos::from_secs(3),
            connect_timeout: Nanos::from_secs(5),
            tls: TlsOptions::default(),
            sources: Vec::new(),
            threads: 1,
            cpus: Vec::new(),
            seed: 1,
            shard: Shard::WHOLE,
            abort_bad_ops: None,
        }
    }

    const NOW: Nanos = Nanos::from_secs(1000);

    fn load(plan: &LoadPlan, agents: usize) -> LoadRun {
        let control = LoadControl::new(&|| false);
        let names = (0..agents).map(|index| format!("agent {}", index + 1)).collect();
        LoadRun::new(names, Terms::new(plan, &control, agents), NOW)
    }

    fn started(plan: &LoadPlan, agents: usize) -> LoadRun {
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
        FromAgent::Ready { opened: 4, failed: 0, first_error: None }
    }

    fn ended(ms: u64) -> FromAgent {
        FromAgent::LoadEnded { window: Nanos::from_millis(ms) }
    }

    /// A second in which `scheduled` operations came due and `ok` of them, or of earlier ones,
    /// were answered.
    fn second(second: u32, scheduled: u64, ok: u64) -> FromAgent {
        let mut tally = Tally { scheduled, ok, ..Tally::default() };
        tally.spans.corrected.record_n(Nanos::from_millis(u64::from(second) + 1), ok);
        FromAgent::Interval(Box::new(Interval { second, tally }))
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
        run.handle_frame(1, FromAgent::Draining { in_flight: 1 }, NOW);
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
    fn too_many_bad_operations_stop_all_agents_once() {
        let mut run = started(&LoadPlan { abort_bad_ops: Some(3), ..plan() }, 2);
        for (index, unsent, expected) in [(0, 3, false), (1, 1, true), (1, 9, true)] {
            let tally = Tally { scheduled: unsent, unsent, ..Tally::default() };
            let interval = Box::new(Interval { second: 0, tally });
            run.handle_frame(index, FromAgent::Interval(interval), NOW);
            assert_eq!(run.aborted, expected);
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
        // What it still says is not heard, its end no news.
        run.handle_frame(1, second(1, 3, 3), deadline);
        run.handle_loss(1, "ended", deadline);
        let outcome = run.into_outcome().unwrap();
        assert_eq!(outcome.tally.errors.get(ErrorClass::AgentLost), 3);
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
    fn an_agent_that_cannot_prepare_is_an_error_and_the_others_are_stopped() {
        let mut run = load(&plan(), 3);
        run.handle_frame(0, ready(), NOW);
        let fault = AgentFault::Usage;
        let message = "no such host".to_owned();
        run.handle_frame(1, FromAgent::Failed { fault, message }, NOW);
        let stop = ToAgent::Stop { grace: Nanos::ZERO };
        assert_eq!(actions(&mut run), [Action::Send(0, stop.clone()), Action::Send(2, stop)]);
        // Was on its way already: nothing may start now.
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

    /// What an agent does: for each second (came due, answered of those in hand), then its end.
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
            prop_assert_eq!(outcome.tally.scheduled, scheduled);
            prop_assert_eq!(outcome.tally.ok, ok);
            prop_assert_eq!(outcome.tally.spans.corrected.count(), ok);
            prop_assert_eq!(outcome.tally.errors.get(ErrorClass::AgentLost), lost);
            prop_assert!(outcome.tally.balances());
            let lost_agents = scripts.iter().filter(|script| script.is_lost).count();
            prop_assert_eq!(outcome.lost_agents as usize, lost_agents);
        }
    }
}
