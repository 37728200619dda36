//! Agents that make load, on this host or on others: their number, the part of each, and the loop that reads them.
//!
//! [`LoadAgents::run_load`] splits a plan by threads, sends each agent its part and drives a [`LoadRun`], the state
//! machine of one load. The loop in [`LoadAgents::run`] carries out its actions, gives its events to the sink, and
//! feeds it frames, losses and timeouts. Further orders come from the [`Lead`]: a hold controller, a coordinator
//! above, or none. Every thread that takes part has a connection. Start reading at [`LoadAgents::run`].

pub(super) mod joining;

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{LoadPart, LoadPlan};
use plimsoll_model::summary::LoadHostSummary;
use plimsoll_sys::{affinity, clock};

use crate::agent_set::{AGENT_EXIT_WAIT, AgentSet, AgentSpec, LOOK_FOR_INTERRUPT, remote_launches};
use crate::coordinator::above::Above;
use crate::coordinator::hold_controller::{HoldController, Order};
use crate::coordinator::load_run::{Action, LoadRun, Member, PartDone, StartOf, Terms};
use crate::coordinator::outcome::{LoadControl, LoadOutcome, SurveyedHost};
use crate::error::{FleetError, Result};
use crate::hosts::clock::Sample;
use crate::hosts::{HostName, LoadHost, LoadHosts};
use crate::link::{LinkEvent, ReadingSink};
use crate::message::{FromAgent, HostPart, HostSurvey, ToAgent};

use joining::Joining;

/// Most threads of an agent on another host, unless more are asked for.
const THREADS_MAX: u32 = 16;
/// A host whose seconds may begin further from those here is named: a twentieth of a second.
const STRAY_MAX: Nanos = Nanos::from_millis(50);
/// Time for which an agent of a relay may be overdue: less than the relay itself may be.
const PART_OVERRUN: Nanos = Nanos::from_secs(7);
/// Timeout of the answers of all hosts that compare themselves with their parts.
const SURVEY_WAIT: Duration = Duration::from_secs(20);
/// Threads are multiplied at most by this: a host has at most about a thousand processes.
const THREADS_TIMES_MAX: u32 = 1_024;

/// Returns the number of agents that hold `connections` when each may open `descriptors_per_process` files, of which
/// `reserve` are no connections.
pub fn agents_needed(connections: u64, descriptors_per_process: u64, reserve: u64) -> Result<u32> {
    let refused = FleetError::DescriptorLimit { have: descriptors_per_process, reserve };
    let usable = descriptors_per_process.checked_sub(reserve).filter(|usable| *usable > 0);
    match usable.map(|usable| u32::try_from(connections.div_ceil(usable))) {
        Some(Ok(agents)) => Ok(agents.max(1)),
        _ => Err(refused),
    }
}

/// Agents that make load; reusable for many loads in a row. Dropping it ends them.
#[derive(Debug)]
pub struct LoadAgents {
    agents: AgentSet,
    /// The agents of this host; `None` if they are on other ones.
    spec: Option<AgentSpec>,
    /// The part of each other host; none on this one.
    shares: Vec<Share>,
    /// Threads of each other host, over those that it was named with or has CPUs for.
    threads_times: u32,
}

/// The part of a host in the loads.
#[derive(Debug, Default)]
struct Share {
    threads: u32,
    /// Clock at the start of the load for which that was known least well.
    worst: Option<Sample>,
    /// Clock at the start of the last load.
    at_start: Option<Sample>,
    /// Drift of its clock in a load, and the uncertainty of that; the most.
    drift_ns: i64,
    /// Time between the order to start and the instant of a start; the least.
    margin: Option<Nanos>,
    /// Ports of one of its addresses, once it has said so.
    ports_per_source: Option<u64>,
    /// Operations that were due there, and those that were answered well, in all loads.
    scheduled: u64,
    ok: u64,
    /// The most of all loads.
    busiest_thread: f64,
    send_lag_p99: Option<Nanos>,
    /// Reason for the loss.
    lost: Option<String>,
}

impl Share {
    /// Notes the host's part in a load.
    fn note_done(&mut self, done: &PartDone) {
        self.scheduled += done.scheduled;
        self.ok += done.ok;
        self.busiest_thread = self.busiest_thread.max(done.busiest_thread);
        self.send_lag_p99 = self.send_lag_p99.max(done.send_lag.quantile(0.99));
    }

    /// Notes the accuracy of its clock when a load begins.
    fn note_start(&mut self, clock: Sample) {
        self.at_start = Some(clock);
        if self.worst.is_none_or(|worst| clock.bound() > worst.bound()) {
            self.worst = Some(clock);
        }
    }

    /// Notes the clock when a load has ended: a difference that both bounds explain is no drift.
    fn note_end(&mut self, clock: Sample) {
        let Some(start) = self.at_start.take() else { return };
        let moved = clock.offset_ns.saturating_sub(start.offset_ns);
        let bound = start.bound().0.saturating_add(clock.bound().0);
        let bound = i64::try_from(bound).unwrap_or(i64::MAX);
        let beyond = moved.signum() * moved.saturating_abs().saturating_sub(bound).max(0);
        if beyond.saturating_abs() > self.drift_ns.saturating_abs() {
            self.drift_ns = beyond;
        }
    }

    fn note_margin(&mut self, margin: Nanos) {
        self.margin = Some(self.margin.map_or(margin, |least| least.min(margin)));
    }
}

impl LoadAgents {
    /// Starts agents on this host. They are killed when this process ends, and ignore SIGINT and SIGTERM,
    /// which a terminal or a service manager sends to all processes at once.
    pub fn start(spec: AgentSpec) -> Result<Self> {
        let agents = AgentSet::start(spec.launches("agent"), AGENT_EXIT_WAIT, &|| false)?;
        Ok(Self { agents, spec: Some(spec), shares: Vec::new(), threads_times: 1 })
    }

    /// Starts an agent on each of `hosts`, or waits until they connect. A host that names no threads has `threads`
    /// of them, or as many as CPUs.
    pub fn start_on(
        hosts: &LoadHosts,
        threads: Option<u32>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let launches = remote_launches(hosts, 0, interrupted)?;
        let agents = AgentSet::start(launches, AGENT_EXIT_WAIT, interrupted)?;
        let share = |(index, host): (usize, &LoadHost)| {
            let threads = host.threads.or(threads).unwrap_or_else(|| threads_of(&agents, index));
            Share { threads, ..Share::default() }
        };
        let shares = hosts.hosts.iter().enumerate().map(share).collect();
        Ok(Self { agents, spec: None, shares, threads_times: 1 })
    }

    /// Returns the mean number of worker threads of an agent; `None` if no agent is on another host.
    pub fn threads(&self) -> Option<u32> {
        let all: u32 = self.shares.iter().map(|share| share.threads).sum();
        let mean = all.checked_div(self.shares.len() as u32)?;
        Some(mean.max(1))
    }

    /// Multiplies the threads of other hosts if a process would have more connections than the files that it may open,
    /// `reserve` of which are no connections. A thread and its connections are in one process, and a host may have many
    /// processes. The factor is the same for all hosts, so that their shares stay.
    pub fn make_room(&mut self, connections: u64, reserve: u64) {
        let descriptors = self.agents.descriptors_max();
        let times =
            threads_times(connections, self.threads_of_all(), descriptors.saturating_sub(reserve));
        for share in &mut self.shares {
            share.threads = share.threads.saturating_mul(times);
        }
        self.threads_times = self.threads_times.saturating_mul(times);
    }

    /// Asks each other host what it lacks for its part, which `part` computes from its threads and the threads of all
    /// hosts.
    pub fn survey(
        &mut self,
        part: impl Fn(u32, u64) -> HostPart,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<SurveyedHost>> {
        let all = self.threads_of_all();
        for (index, share) in self.shares.iter().enumerate() {
            self.agents.send(index, &ToAgent::Survey(Box::new(part(share.threads, all))))?;
        }
        let mut answers: Vec<Option<HostSurvey>> = vec![None; self.shares.len()];
        let deadline = Instant::now() + SURVEY_WAIT;
        while let Some(silent) = answers.iter().position(Option::is_none) {
            if interrupted() {
                return Err(FleetError::Interrupted);
            }
            let next_look = Instant::now() + LOOK_FOR_INTERRUPT;
            let Some((index, frame)) = self.agents.next_frame(next_look.min(deadline))? else {
                if Instant::now() < deadline {
                    continue;
                }
                return Err(self.agents.slow(silent, "compare itself with its part", SURVEY_WAIT));
            };
            match frame {
                FromAgent::Surveyed(survey) => answers[index] = Some(*survey),
                other => return Err(self.agents.unexpected(index, &other)),
            }
        }
        let hosts: Vec<_> = self.agents.hosts().zip(answers.into_iter().flatten()).collect();
        let hosts = hosts.into_iter().enumerate();
        Ok(hosts.map(|(index, (name, survey))| self.surveyed(index, name, survey, all)).collect())
    }

    /// Takes the answer of host `index`, which has a part of `all` threads.
    fn surveyed(
        &mut self,
        index: usize,
        name: HostName,
        survey: HostSurvey,
        all: u64,
    ) -> SurveyedHost {
        let share = &mut self.shares[index];
        share.ports_per_source = Some(survey.ports_per_source);
        let read_at = self.agents.clock(index).map_or(survey.at, |clock| clock.here(survey.at));
        SurveyedHost { name, threads: (share.threads, all), survey, read_at }
    }

    /// Has each other host read what it does once a second from now on; `sink` gets it.
    pub fn watch(&self, sink: ReadingSink) -> Result<()> {
        self.agents.watch(sink)
    }

    /// Returns the summary of each other host, by its name.
    pub fn hosts(&self) -> BTreeMap<String, LoadHostSummary> {
        let summary = |(index, share): (usize, &Share)| {
            let ms = |ns: i64| ns as f64 / 1e6;
            let worst = |value: fn(&Sample) -> Nanos| {
                share.worst.as_ref().map(value).unwrap_or_default().as_millis_f64()
            };
            let summary = LoadHostSummary {
                threads: share.threads,
                clock_bound_ms: worst(Sample::bound),
                round_trip_ms: worst(|clock| clock.round_trip),
                clock_offset_ms: share.worst.map_or(0.0, |clock| ms(clock.offset_ns)),
                clock_drift_ms: ms(share.drift_ns),
                start_margin_ms: share.margin.map(|margin| margin.as_millis_f64()),
                ports_per_source: share.ports_per_source,
                scheduled: share.scheduled,
                ok: share.ok,
                busiest_thread: share.busiest_thread,
                send_lag_p99_ms: share.send_lag_p99.map(Nanos::as_millis_f64),
                lost: share.lost.clone(),
            };
            (self.agents.name(index).to_owned(), summary)
        };
        self.shares.iter().enumerate().map(summary).collect()
    }

    /// Takes the remarks on the hosts since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        self.agents.take_notes()
    }

    /// Starts more of them between two loads, until there are `count`. Where that fails, there are as
    /// many as before. Another host has one, whatever is asked for.
    pub fn grow_to(&mut self, count: u32) -> Result<()> {
        let Some(spec) = &mut self.spec else {
            let lines = vec!["each host has one agent".to_owned()];
            return Err(FleetError::Hosts { lines });
        };
        let wanted = AgentSpec { count, ..spec.clone() };
        let more: Vec<_> = wanted.launches("agent").into_iter().skip(self.agents.len()).collect();
        if !more.is_empty() {
            self.agents.replace_lost(&|| false)?;
            self.agents.add(more)?;
            *spec = wanted;
        }
        Ok(())
    }

    /// Puts others in the place of those that were lost, between two loads.
    pub(crate) fn replace_lost(&mut self) -> Result<()> {
        self.agents.replace_lost(&|| false)
    }

    /// Returns the number of agents.
    pub const fn count(&self) -> usize {
        self.agents.len()
    }

    /// Returns the process ids of the agents on this host.
    pub fn pids(&self) -> Vec<u32> {
        if self.spec.is_some() { self.agents.pids().collect() } else { Vec::new() }
    }

    /// Returns the lowest limit of open files of all agents.
    pub fn descriptors_max(&self) -> u64 {
        self.agents.descriptors_max()
    }

    /// Makes one load with all agents, and hands its events to `sink` in order: the start, one
    /// interval per second merged over all agents, notes. An agent that is lost on the way makes
    /// the outcome partial; its place is filled before the next load.
    pub fn run_load(
        &mut self,
        plan: &LoadPlan,
        control: &LoadControl<'_>,
        sink: &mut dyn FnMut(Event),
    ) -> Result<LoadOutcome> {
        let parts = self.parts(plan, control.interrupted)?;
        self.run(plan, parts, control, Lead::Plan, sink)
    }

    /// Makes one hold with all agents, as [`Self::run_load`] makes a load; `controller` says what it
    /// does while it runs, and when it is over.
    pub fn run_hold(
        &mut self,
        plan: &LoadPlan,
        control: &LoadControl<'_>,
        controller: &mut dyn HoldController,
        sink: &mut dyn FnMut(Event),
    ) -> Result<LoadOutcome> {
        // Beside a hundred agents and their servers, a coordinator of normal priority gets 1 % of a CPU.
        affinity::with_preference(|| {
            affinity::prefer_latency();
            let parts = self.parts(plan, control.interrupted);
            self.run(plan, parts?, control, Lead::Controller(controller), sink)
        })
    }

    /// Makes a part of a load with `parts`, led by a coordinator above, from its word to prepare to the end.
    /// Returns the time from the start to the end of sending.
    pub(crate) fn run_part(
        &mut self,
        plan: &LoadPlan,
        parts: Vec<LoadPlan>,
        orders: &Receiver<(ToAgent, u32)>,
        events: &Sender<FromAgent>,
    ) -> Result<Nanos> {
        // Given up here before it is above.
        let never = || false;
        let control = LoadControl { overrun: PART_OVERRUN, ..LoadControl::new(&never) };
        let mut above = Above::new(orders, events);
        let lead = Lead::Above(&mut above);
        self.run(plan, parts, &control, lead, &mut |_| {}).map(|outcome| outcome.window)
    }

    /// Returns the threads of each agent in a load with this plan, which may have more than usual.
    fn threads_of_each(&self, plan: &LoadPlan) -> Vec<u32> {
        let Some(mean) = self.threads() else { return vec![plan.threads; self.agents.len()] };
        let of_plan = u64::from(plan.threads.max(1));
        let of = |share: &Share| u64::from(share.threads) * of_plan / u64::from(mean);
        self.shares.iter().map(|share| of(share).max(1) as u32).collect()
    }

    /// Returns the threads of all other hosts.
    fn threads_of_all(&self) -> u64 {
        self.shares.iter().map(|share| u64::from(share.threads)).sum()
    }

    fn note_loss(&mut self, index: usize, how: &str) {
        if let Some(share) = self.shares.get_mut(index) {
            share.lost = Some(how.to_owned());
        }
    }

    /// Keeps something of an agent's host and its clock, where it is another one.
    fn note_clock(&mut self, index: usize, note: impl FnOnce(&mut Share, Sample)) {
        if let (Some(share), Some(clock)) = (self.shares.get_mut(index), self.agents.clock(index)) {
            note(share, clock);
        }
    }

    /// Returns a line for each host whose seconds are so far from those here that they are others.
    fn strays(&self) -> Vec<String> {
        let line = |(index, share): (usize, &Share)| {
            let bound = share.worst.as_ref().map(Sample::bound).unwrap_or_default();
            let apart = bound + Nanos(share.drift_ns.unsigned_abs());
            (apart > STRAY_MAX).then(|| {
                format!(
                    "{}: its seconds may begin {:.0} ms apart from the others', so that figures by \
                     the second are blurred by as much",
                    self.agents.name(index),
                    apart.as_millis_f64()
                )
            })
        };
        self.shares.iter().enumerate().filter_map(line).collect()
    }

    /// Returns the part of each agent, once those that were lost are replaced.
    fn parts(&mut self, plan: &LoadPlan, interrupted: &dyn Fn() -> bool) -> Result<Vec<LoadPlan>> {
        self.agents.replace_lost(interrupted)?;
        let threads = spread(&self.threads_of_each(plan), plan.connections);
        let part = |index| match &self.spec {
            Some(spec) => share_of_plan(plan, index, &threads, spec.cpus_of(index)),
            // Each host has source ports of its own.
            None => {
                let mut plan = share_of_plan(plan, index, &threads, &[]);
                let first = plan.part.shard.index;
                plan.part.on_host = Some(first..first + plan.threads);
                plan
            }
        };
        Ok((0..threads.len()).map(part).collect())
    }

    fn run(
        &mut self,
        plan: &LoadPlan,
        parts: Vec<LoadPlan>,
        control: &LoadControl<'_>,
        mut lead: Lead<'_>,
        sink: &mut dyn FnMut(Event),
    ) -> Result<LoadOutcome> {
        let agents = parts.len();
        // Where there are fewer connections than threads, some agents take no part, and more would not either.
        let mut joining = match &lead {
            Lead::Controller(_) if agents == self.agents.len() => {
                control.newcomers.map(Joining::new)
            }
            _ => None,
        };
        let members = self.prepare(parts)?;
        let start = match (&lead, &self.spec) {
            (Lead::Above(_), _) => StartOf::Told,
            (_, Some(_)) => StartOf::Here,
            (_, None) => StartOf::There,
        };
        let mut run = LoadRun::new(members, Terms::new(plan, control, agents, start), now());
        loop {
            self.take_notes().into_iter().for_each(|note| sink(Event::Note(note)));
            while let Some(action) = run.poll_action() {
                self.carry_out(action)?;
            }
            while let Some(event) = run.poll_event() {
                match &lead {
                    Lead::Above(above) => above.handle_event(event),
                    Lead::Plan | Lead::Controller(_) => sink(event),
                }
            }
            if run.is_over() {
                if let Lead::Above(above) = &mut lead {
                    above.tell_state(&mut run);
                }
                self.note_end(&run);
                self.strays().into_iter().for_each(|stray| sink(Event::Note(stray)));
                return run.into_outcome();
            }
            if lead.poll(&mut run) {
                continue;
            }
            if let Some(joining) = &mut joining {
                self.poll_newcomer(joining, &run);
            }
            let overdue = Duration::from(run.poll_timeout().since(now()));
            let wait = overdue.min(LOOK_FOR_INTERRUPT);
            match self.agents.poll_event(Instant::now() + wait) {
                Some((index, event)) if index >= run.agents() => {
                    if let Some(joining) = &mut joining {
                        self.handle_newcomer(joining, event, &mut run, plan);
                    }
                }
                Some((index, event)) => self.handle_event(index, event, &mut run),
                None => {}
            }
            if (control.interrupted)() {
                run.handle_interrupt(now());
            }
            run.handle_round_trip(self.agents.longest_round_trip());
            (0..run.agents())
                .for_each(|index| run.handle_last_frame(index, self.agents.last_frame_at(index)));
            if self.agents.handled_until >= run.poll_timeout() {
                run.handle_timeout(now());
            }
        }
    }

    /// Sends each agent its part; returns the agents as members of the load.
    fn prepare(&mut self, parts: Vec<LoadPlan>) -> Result<Vec<Member>> {
        let named = |(index, part): (usize, &LoadPlan)| Member {
            name: self.agents.name(index).to_owned(),
            shard: part.part.shard,
            threads: part.threads,
        };
        let members = parts.iter().enumerate().map(named).collect();
        for (index, part) in parts.into_iter().enumerate() {
            if let Err(error) = self.agents.send(index, &ToAgent::Prepare(Box::new(part))) {
                // The parts differ by a few bytes, so one may just be too large: no agent may be
                // left with a load that never starts.
                (0..index).for_each(|prepared| self.agents.kill(prepared));
                return Err(error);
            }
        }
        Ok(members)
    }

    fn carry_out(&mut self, action: Action) -> Result<()> {
        match action {
            Action::Send(index, command) => {
                if let ToAgent::Start { .. } = command {
                    self.note_clock(index, Share::note_start);
                }
                self.agents.send(index, &command)?;
            }
            Action::Kill(index) => {
                self.note_loss(index, "did not answer in time, or sent what it should not");
                self.agents.kill(index);
            }
        }
        Ok(())
    }

    /// Handles the event of an agent that takes part.
    fn handle_event(&mut self, index: usize, event: LinkEvent, run: &mut LoadRun) {
        match event {
            LinkEvent::Frame(frame) => {
                if let FromAgent::Armed { margin } = *frame {
                    self.note_clock(index, |share, _| share.note_margin(margin));
                }
                run.handle_frame(index, *frame, now());
            }
            LinkEvent::Closed(ending) => {
                let how = self.agents.how_it_ended(index, ending);
                self.note_loss(index, &how);
                run.handle_loss(index, &how, now());
            }
        }
    }

    /// Keeps the clocks and the work of each agent's host at the end of `run`.
    fn note_end(&mut self, run: &LoadRun) {
        let agents = run.agents();
        self.agents.discard(agents);
        (0..agents).for_each(|index| self.note_clock(index, Share::note_end));
        for (share, done) in self.shares.iter_mut().zip(run.done_by_each()) {
            share.note_done(done);
        }
    }
}

/// The source of orders while a load runs.
enum Lead<'a> {
    /// The plan alone.
    Plan,
    Controller(&'a mut dyn HoldController),
    Above(&'a mut Above<'a>),
}

impl Lead<'_> {
    /// Gives the next order; `false` where there is none.
    fn poll(&mut self, run: &mut LoadRun) -> bool {
        match self {
            Self::Plan => false,
            Self::Controller(controller) => {
                let Some(view) = run.view(now()) else { return false };
                match controller.poll(&view) {
                    None => return false,
                    Some(Order::Steer(steer)) => {
                        run.steer(steer);
                    }
                    Some(Order::Finish) => run.finish(now()),
                }
                true
            }
            Self::Above(above) => above.poll(run, now()),
        }
    }
}

fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}

/// Returns the default number of threads of an agent on another host.
fn threads_of(agents: &AgentSet, index: usize) -> u32 {
    agents.machine(index).cpus.clamp(1, THREADS_MAX)
}

/// Returns the factor by which the threads that hold the connections grow, if each may have as many as `usable`.
fn threads_times(connections: u64, threads: u64, usable: u64) -> u32 {
    let needed = connections.div_ceil(usable.max(1));
    u32::try_from(needed.div_ceil(threads.max(1))).unwrap_or(u32::MAX).clamp(1, THREADS_TIMES_MAX)
}

/// Returns the threads of each agent that take part, so that each has a connection: the agents with most threads lose
/// some first, and the last agents take no part where there are fewer connections than agents.
fn spread(threads: &[u32], connections: u64) -> Vec<u32> {
    let mut threads: Vec<u32> = threads.iter().map(|threads| (*threads).max(1)).collect();
    let mut surplus = threads
        .iter()
        .map(|threads| u64::from(*threads))
        .sum::<u64>()
        .saturating_sub(connections.max(1));
    while surplus > 0 {
        let most = threads.iter().max().copied().unwrap_or(0);
        for threads in threads.iter_mut().rev().filter(|threads| **threads == most) {
            if surplus > 0 {
                *threads -= 1;
                surplus -= 1;
            }
        }
    }
    threads.retain(|threads| *threads > 0);
    threads
}

/// Returns the part of the plan for agent `index`; `threads` has the number of threads of every agent. Workers are
/// pinned to those CPUs of the plan that the agent may use, the first one after the workers of the agents before it.
fn share_of_plan(plan: &LoadPlan, index: usize, threads: &[u32], agent_cpus: &[u32]) -> LoadPlan {
    let first: u32 = threads[..index].iter().sum();
    let mut cpus = plan.cpus.clone();
    cpus.retain(|cpu| agent_cpus.is_empty() || agent_cpus.contains(cpu));
    if !cpus.is_empty() {
        let first = first as usize % cpus.len();
        cpus.rotate_left(first);
    }
    let shard = Shard { index: first, of: threads.iter().sum() };
    let part = LoadPart { shard, ..plan.part.clone() };
    LoadPlan { part, threads: threads[index], cpus, ..plan.clone() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::coordinator::load_run::tests::plan;

    #[test]
    fn agents_that_are_needed() {
        for (connections, descriptors, reserve, agents) in [
            // Fits into one.
            (100, 20_000, 100, Some(1)),
            // Exactly full, and one more.
            (19_900, 20_000, 100, Some(1)),
            (19_901, 20_000, 100, Some(2)),
            (1_000_000, 20_000, 100, Some(51)),
            // Even an empty load needs an agent.
            (0, 1024, 100, Some(1)),
            // No room for any connection.
            (1, 100, 100, None),
            (1, 64, 100, None),
            (u64::MAX, 101, 100, None),
        ] {
            assert_eq!(agents_needed(connections, descriptors, reserve).ok(), agents);
        }
    }

    #[test]
    fn every_thread_has_a_connection() {
        for (threads, connections, expected) in [
            (vec![2, 2, 2, 2], 100, vec![2, 2, 2, 2]),
            (vec![2, 2, 2, 2], 5, vec![2, 1, 1, 1]),
            (vec![2, 2, 2, 2], 1, vec![1]),
            (vec![8], 3, vec![3]),
            (vec![0, 0], 0, vec![1]),
            // Unequal hosts stay unequal as far as possible.
            (vec![8, 4, 2], 14, vec![8, 4, 2]),
            (vec![8, 4, 2], 10, vec![4, 4, 2]),
            (vec![8, 4, 2], 5, vec![2, 2, 1]),
        ] {
            assert_eq!(spread(&threads, connections), expected, "{threads:?} {connections}");
        }
    }

    #[test]
    fn parts_tile_the_plan_and_the_cpus() {
        let whole = LoadPlan { cpus: vec![0, 1, 2, 3], ..plan() };
        let part = |index, cpus: &[u32]| share_of_plan(&whole, index, &[2, 2, 3], cpus);
        assert_eq!((part(1, &[]).part.shard, part(1, &[]).threads), (Shard { index: 2, of: 7 }, 2));
        assert_eq!((part(2, &[]).part.shard, part(2, &[]).threads), (Shard { index: 4, of: 7 }, 3));
        assert_eq!(part(0, &[]).cpus, [0, 1, 2, 3]);
        assert_eq!(part(1, &[]).cpus, [2, 3, 0, 1]);
        assert_eq!(part(1, &[1, 2, 3]).cpus, [3, 1, 2]);
    }

    #[test]
    fn threads_are_multiplied_until_their_connections_fit_into_a_process() {
        for (connections, threads, times) in [
            (100, 4, 1),
            (79_744, 4, 1),
            (79_745, 4, 2),
            (1_000_000, 10, 6),
            (0, 1, 1),
            (u64::MAX, 1, THREADS_TIMES_MAX),
        ] {
            assert_eq!(threads_times(connections, threads, 19_936), times, "{connections}");
        }
        assert_eq!(threads_times(100, 4, 0), 25);
    }

    fn clock(offset_us: i64, round_trip_us: u64) -> Sample {
        let offset_ns = offset_us * 1_000;
        Sample { offset_ns, round_trip: Nanos(round_trip_us * 1_000), at: Nanos::ZERO }
    }

    #[test]
    fn a_clock_drifts_by_what_its_bounds_do_not_explain() {
        let mut share = Share { threads: 1, ..Share::default() };
        // Known within 0.1 ms at each end.
        for (from, to, drift_us) in
            [(70, 250, 0), (0, -900, -700), (0, 400, -700), (5, 1_205, 1_000)]
        {
            share.note_start(clock(from, 200));
            share.note_end(clock(to, 200));
            assert_eq!(share.drift_ns, drift_us * 1_000);
        }
        share.note_start(clock(3, 900));
        share.note_start(clock(4, 300));
        assert_eq!(share.worst.map(|clock| clock.bound()), Some(Nanos(450_000)));
        share.note_margin(Nanos(7));
        share.note_margin(Nanos(9));
        assert_eq!(share.margin, Some(Nanos(7)));
    }

    proptest! {
        #[test]
        fn threads_of_unequal_agents_make_the_whole_load(
            threads in prop::collection::vec(1u32..9, 1..6),
            connections in 1u64..60,
        ) {
            let whole = LoadPlan { connections, ..plan() };
            let threads = spread(&threads, connections);
            let all: u32 = threads.iter().sum();
            let (mut seen, mut opened) = (Vec::new(), 0);
            for index in 0..threads.len() {
                let part = share_of_plan(&whole, index, &threads, &[]);
                for thread in 0..part.threads {
                    let shard = part.shard_of_thread(thread);
                    prop_assert_eq!(shard.of, all);
                    prop_assert!(shard.share(connections) > 0);
                    seen.push(shard.index);
                    opened += shard.share(connections);
                }
            }
            prop_assert_eq!(seen, (0..all).collect::<Vec<_>>());
            prop_assert_eq!(opened, connections);
        }
    }
}
