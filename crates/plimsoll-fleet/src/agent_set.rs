//! Several agents of one kind: started together, read through one channel, ended together.
//!
//! [`AgentSet::start`] starts a [`Link`] per [`Launch`], at most six logins to other hosts at once, and checks the
//! first message, the machine and the clock of each agent ([`Opening`]). All links feed one channel;
//! [`AgentSet::poll_event`] yields events in the order of arrival, with the agent's index, and skips those of agents
//! that were replaced or killed. Dropping the set ends its agents. Start reading at [`AgentSet::start`], then at
//! [`AgentSet::poll_event`].

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_model::Nanos;
use plimsoll_sys::clock;
use plimsoll_sys::namespace::Namespace;
use plimsoll_sys::process::{Group, Ties};

use crate::error::{FleetError, Result};
use crate::hosts::clock::Sample;
use crate::hosts::{HostName, Launcher, LoadHosts, Program, fold, identity};
use crate::joined::Gate;
use crate::link::{
    AgentPlace, Ending, Launch, Link, LinkEvent, ReadingSink, Readings, Received, Remote,
};
use crate::message::{FromAgent, Machine, ToAgent, ToSupervisor, VERSION};

pub use crate::link::AgentCommand;

/// Timeout of an agent's first message. Starting a process needs milliseconds, and longer on a host
/// that is out of memory.
const HELLO_WAIT: Duration = Duration::from_secs(10);
/// Added for each agent, because they start together on the same CPUs: ten times what a start
/// costs.
const HELLO_WAIT_EACH: Duration = Duration::from_millis(100);

/// The most time for the end of an agent that makes load or serves: one second, and half as much again
/// on a busy host.
pub(crate) const AGENT_EXIT_WAIT: Duration = Duration::from_millis(1500);

/// The agents to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSpec {
    /// Command that starts one.
    pub command: AgentCommand,
    /// Number of agents; at least 1.
    pub count: u32,
    /// CPUs of each agent, round robin; empty allows all CPUs.
    pub cpus: Vec<Vec<u32>>,
    /// Added to their nice value.
    pub nice: i32,
    /// The network namespace that they run in; `None` leaves them in this process's.
    pub network: Option<Namespace>,
}

impl AgentSpec {
    /// Creates the specification of `count` agents of this program, on any CPU.
    pub fn new(count: u32) -> Self {
        Self {
            command: AgentCommand::this_program(),
            count: count.max(1),
            cpus: Vec::new(),
            nice: 0,
            network: None,
        }
    }

    /// Returns the launches of the agents, which are called `role`, tied to this process.
    pub(crate) fn launches(&self, role: &str) -> Vec<Launch> {
        (0..self.count.max(1) as usize)
            .map(|index| Launch {
                name: format!("{role} {}", index + 1),
                place: AgentPlace::Here(self.command.clone()),
                ties: Ties {
                    dies_with_parent: true,
                    ignores_stop_signals: true,
                    cpus: self.cpus_of(index).to_vec(),
                    nice: self.nice,
                    network: self.network.clone(),
                    ..Ties::default()
                },
            })
            .collect()
    }

    /// Returns the CPUs of agent `index`; empty means all.
    pub(crate) fn cpus_of(&self, index: usize) -> &[u32] {
        match self.cpus.len() {
            0 => &[],
            sets => &self.cpus[index % sets],
        }
    }
}

/// Returns the launches of the agents of other hosts, numbered from `first` on: each is one process, which ends when it
/// hears nothing for a while.
pub(crate) fn remote_launches(
    hosts: &LoadHosts,
    first: usize,
    interrupted: &dyn Fn() -> bool,
) -> Result<Vec<Launch>> {
    let program = Program::of_this_process()
        .map_err(|source| FleetError::Start { name: "agents on other hosts".to_owned(), source })?;
    let gate = match &hosts.launcher {
        Launcher::Joined(listen) => {
            let names = hosts.hosts.iter().map(|host| host.name.clone()).collect();
            let gate = Gate::open(listen, names)?;
            gate.await_all(interrupted)?;
            Some(gate)
        }
        _ => None,
    };
    let launch = |(rank, host): (usize, &HostName)| Launch {
        name: host.to_string(),
        place: AgentPlace::There(Arc::new(Remote {
            host: host.clone(),
            rank: first + rank,
            launcher: hosts.launcher.clone(),
            path: hosts.path.clone(),
            program: program.clone(),
            gate: gate.clone(),
        })),
        ties: Ties {
            // In its own session ssh has no terminal to ask on, and its children are killed with it.
            group: Group::Session,
            dies_with_parent: true,
            ignores_stop_signals: true,
            ..Ties::default()
        },
    };
    Ok(hosts.hosts.iter().map(|host| &host.name).enumerate().map(launch).collect())
}

/// Logins at the same time: an sshd drops some of more than ten by default, and one jump host may be before all hosts.
const FANOUT: usize = 6;
/// Attempts at a login that an sshd drops. An sshd drops some of many logins at random, and drops them again if they
/// are retried too soon or together.
const LOGINS_MAX: u32 = 4;
const LOGIN_WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3));
/// Timeout of a copy of the program to another host.
const COPYING_WAIT: Duration = Duration::from_secs(300);
/// Timeout of the pings that compare the clocks.
const CLOCK_WAIT: Duration = Duration::from_secs(10);
/// Period of checking whether they were answered.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Period of checking for an interrupt.
pub(crate) const LOOK_FOR_INTERRUPT: Duration = Duration::from_millis(50);
/// Time for which messages that agents sent after a load are discarded.
const LEFTOVERS_WAIT: Duration = Duration::from_secs(1);

/// One agent of the set.
#[derive(Debug)]
struct Place {
    link: Link,
    launch: Launch,
    descriptors_max: u64,
    machine: Machine,
    /// Time by which the agent must have sent its first message.
    deadline: Instant,
    is_lost: bool,
}

/// The agents, by index. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct AgentSet {
    places: Vec<Place>,
    next_id: u64,
    sender: Sender<(u64, Received)>,
    events: Receiver<(u64, Received)>,
    readings: Readings,
    /// Time up to which everything that arrived has been handled, once the last event is. Deadlines of agents are compared
    /// with it: a coordinator that is late must not count those as hung whose answers wait.
    pub(crate) handled_until: Nanos,
    /// Lines for the reader.
    pub(crate) notes: Vec<String>,
    /// Timeout of its members' exit.
    exit_wait: Duration,
}

impl AgentSet {
    /// Starts one agent per entry of `launches` and waits for the first message of each.
    pub(crate) fn start(
        launches: Vec<Launch>,
        exit_wait: Duration,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Self> {
        let (sender, events) = mpsc::channel();
        let (places, notes, readings) = (Vec::new(), Vec::new(), Readings::default());
        let handled_until = Nanos::ZERO;
        let mut set =
            Self { places, next_id: 0, sender, events, readings, handled_until, notes, exit_wait };
        set.open((0..).zip(launches).collect(), interrupted)?;
        Ok(set)
    }

    /// Adds one agent per entry of `launches`, or none of them. To be called between two loads, when no
    /// agent sends anything.
    pub(crate) fn add(&mut self, launches: Vec<Launch>) -> Result<()> {
        let before = self.places.len();
        let added = self.open((before..).zip(launches).collect(), &|| false);
        if added.is_err() {
            // Dropping a link ends its agent.
            self.places.truncate(before);
        }
        added
    }

    /// Starts another agent while the others run. Its first message comes from [`Self::poll_event`], and is for
    /// [`Self::greet`].
    pub(crate) fn begin(&mut self, launch: Launch) -> Result<usize> {
        let place = self.place(launch, HELLO_WAIT)?;
        self.places.push(place);
        Ok(self.places.len() - 1)
    }

    /// Takes the first message of an agent that was begun.
    pub(crate) fn greet(&mut self, index: usize, event: LinkEvent) -> Result<()> {
        self.hello(index, event)?;
        self.check_machines()
    }

    /// Returns the time by which a started agent must have sent its first message.
    pub(crate) fn greeting_deadline(&self, index: usize) -> Instant {
        self.places[index].deadline
    }

    /// Reports whether the clock of an agent's host has been compared with the one here.
    pub(crate) fn is_clock_settled(&self, index: usize) -> bool {
        self.places[index].link.is_clock_settled()
    }

    /// Ends the agents from `index` on, as if they had not been begun.
    pub(crate) fn discard(&mut self, index: usize) {
        // Dropping a link ends its agent.
        self.places.truncate(index);
    }

    /// Starts an agent at each of these indices, and waits for the first message of each. New indices come last.
    fn open(
        &mut self,
        launches: Vec<(usize, Launch)>,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<()> {
        let wait = HELLO_WAIT + HELLO_WAIT_EACH * u32::try_from(launches.len()).unwrap_or(u32::MAX);
        let mut launches = launches.into_iter();
        let mut opening = Opening::default();
        loop {
            while opening.has_room() {
                let Some((index, launch)) = launches.next() else { break };
                let place = self.place(launch, wait)?;
                opening.add(index, &place.launch);
                match self.places.get_mut(index) {
                    Some(lost) => *lost = place,
                    None => self.places.push(place),
                }
            }
            if opening.is_done() {
                break;
            }
            self.await_hello(&mut opening, interrupted)?;
        }
        opening.finish()?;
        self.check_machines()?;
        self.await_clocks(interrupted)
    }

    fn place(&mut self, launch: Launch, wait: Duration) -> Result<Place> {
        self.next_id += 1;
        let link = Link::start(self.next_id, &launch, self.sender.clone(), &self.readings)?;
        let wait = launch.remote().map_or(wait, |remote| remote.opening_wait());
        Ok(Place {
            link,
            launch,
            descriptors_max: 0,
            machine: Machine::default(),
            deadline: Instant::now() + wait,
            is_lost: false,
        })
    }

    /// Waits for the first message of one of those that are being opened. The first failure on this host
    /// is an error; those of other hosts are collected.
    fn await_hello(&mut self, opening: &mut Opening, interrupted: &dyn Fn() -> bool) -> Result<()> {
        if interrupted() {
            return Err(FleetError::Interrupted);
        }
        let next_look = Instant::now() + LOOK_FOR_INTERRUPT;
        while let Some(index) = opening.due() {
            let launch = self.places[index].launch.clone();
            self.places[index] = self.place(launch, HELLO_WAIT)?;
            opening.waiting.push(index);
        }
        let next_login = opening.postponed.iter().map(|(at, _)| *at).min();
        let deadline = |index: &usize| self.places[*index].deadline;
        let Some(first) = opening.waiting.iter().copied().min_by_key(deadline) else {
            if let Some(at) = next_login {
                thread::sleep(at.min(next_look).saturating_duration_since(Instant::now()));
            }
            return Ok(());
        };
        let deadline = self.places[first].deadline;
        let until = next_login.map_or(deadline, |at| at.min(deadline)).min(next_look);
        let (index, opened) = match self.poll_event(until) {
            // A login or a look for interrupts is due, or the first one was put off meanwhile.
            None if Instant::now() < self.places[first].deadline => return Ok(()),
            None => {
                let launch = &self.places[first].launch;
                let waited = launch.remote().map_or(HELLO_WAIT, |remote| remote.opening_wait());
                let slow = self.slow(first, launch.first_step(), waited);
                self.kill(first);
                (first, Err(slow))
            }
            Some((index, event)) => (index, self.hello(index, event)),
        };
        opening.waiting.retain(|waiting| *waiting != index);
        let Err(failure) = opened else { return Ok(()) };
        let Place { link, launch, .. } = &self.places[index];
        let Some(remote) = launch.remote() else { return Err(failure) };
        if link.was_dropped && opening.postpone(index) {
            return Ok(());
        }
        let how = match failure {
            FleetError::Lost { how, .. } if link.was_dropped => {
                format!("{how}; it was tried {LOGINS_MAX} times")
            }
            FleetError::Lost { how, .. } => how,
            FleetError::Slow { what, waited, .. } => {
                format!("did not {what} within {} s", waited.as_secs())
            }
            other => other.to_string(),
        };
        opening.failures.push((remote.host.clone(), how));
        Ok(())
    }

    fn hello(&mut self, index: usize, event: LinkEvent) -> Result<()> {
        match self.unless_closed(index, event)? {
            FromAgent::Hello { version, .. } if version != VERSION => Err(FleetError::Version {
                agent: self.name(index).to_owned(),
                theirs: version,
                ours: VERSION.to_owned(),
            }),
            // On this host an agent is this program.
            FromAgent::Hello { machine, .. }
                if self.is_elsewhere(index) && machine.build != identity() =>
            {
                Err(FleetError::Lost {
                    agent: self.name(index).to_owned(),
                    how: format!(
                        "has another build of plimsoll {VERSION} ({}); here is {}",
                        machine.build,
                        identity()
                    ),
                })
            }
            FromAgent::Hello { descriptors_max, machine, .. } => {
                let place = &mut self.places[index];
                (place.descriptors_max, place.machine) = (descriptors_max, machine);
                self.watch_host(index)
            }
            other => Err(self.unexpected(index, &other)),
        }
    }

    /// Has each other host read what it does once a second, also those that take a lost one's place; `sink` gets it.
    pub(crate) fn watch(&self, sink: ReadingSink) -> Result<()> {
        // Only one sink is ever set; a second one would get nothing.
        let _ = self.readings.set(sink);
        (0..self.len()).try_for_each(|index| self.watch_host(index))
    }

    fn watch_host(&self, index: usize) -> Result<()> {
        if self.is_elsewhere(index) && self.readings.get().is_some() {
            return self.send(index, &ToAgent::Watch);
        }
        Ok(())
    }

    fn is_elsewhere(&self, index: usize) -> bool {
        self.places[index].launch.remote().is_some()
    }

    /// Refuses two names of one machine, whose CPUs and ports would count twice.
    fn check_machines(&self) -> Result<()> {
        // The user decides where agents that connect by themselves run.
        let places = self.places.iter().filter(|place| place.launch.logs_in());
        let places: Vec<_> = places.collect();
        let mut lines = Vec::new();
        for (at, place) in places.iter().enumerate() {
            let earlier = places[..at].iter().find(|other| other.machine.is_same(&place.machine));
            lines.extend(earlier.map(|other| {
                format!("{} and {} are the same machine", other.link.name, place.link.name)
            }));
        }
        if lines.is_empty() { Ok(()) } else { Err(FleetError::Hosts { lines }) }
    }

    /// Waits until the clocks of other hosts were compared with this one.
    fn await_clocks(&self, interrupted: &dyn Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + CLOCK_WAIT;
        while let Some(index) = (0..self.len()).find(|index| !self.is_clock_settled(*index)) {
            if interrupted() {
                return Err(FleetError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(self.slow(index, "answer pings", CLOCK_WAIT));
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Replaces every agent that is lost. To be called between two loads, when no agent sends
    /// anything.
    pub(crate) fn replace_lost(&mut self, interrupted: &dyn Fn() -> bool) -> Result<()> {
        // The answer of an agent that continues to send arrives during the next load.
        let until = Instant::now() + LEFTOVERS_WAIT;
        while Instant::now() < until
            && let Some((index, event)) = self.poll_event(Instant::now())
        {
            if let LinkEvent::Closed(ending) = event {
                self.how_it_ended(index, ending);
            }
        }
        let places = self.places.iter().enumerate().filter(|(_, place)| place.is_lost);
        let lost = places.map(|(index, place)| (index, place.launch.clone())).collect();
        self.open(lost, interrupted)
    }

    pub(crate) const fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        &self.places[index].link.name
    }

    /// Returns the other hosts, in order.
    pub(crate) fn hosts(&self) -> impl Iterator<Item = HostName> + '_ {
        self.places.iter().filter_map(|place| Some(place.launch.remote()?.host.clone()))
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().filter_map(|place| place.link.pid())
    }

    /// Returns the time at which an agent's last frame was received, handled or not.
    pub(crate) fn last_frame_at(&self, index: usize) -> Nanos {
        self.places[index].link.last_frame_at()
    }

    pub(crate) fn is_lost(&self, index: usize) -> bool {
        self.places[index].is_lost
    }

    /// Files that each of them may have open.
    pub(crate) fn descriptors_max(&self) -> u64 {
        self.places.iter().map(|place| place.descriptors_max).min().unwrap_or(0)
    }

    /// Returns the machine of an agent.
    pub(crate) fn machine(&self, index: usize) -> &Machine {
        &self.places[index].machine
    }

    /// Returns the offset of the clock of another agent's host; `None` on this host.
    pub(crate) fn clock(&self, index: usize) -> Option<Sample> {
        self.places[index].link.clock()
    }

    /// Returns the longest round trip to any agent in the last minute.
    pub(crate) fn longest_round_trip(&self) -> Nanos {
        let trips = self.places.iter().map(|place| place.link.longest_round_trip());
        trips.max().unwrap_or_default()
    }

    /// Returns lines for the reader since the last call.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        let first = self.places.first().and_then(|place| place.launch.remote());
        let gate = first.and_then(|remote| remote.gate.as_ref());
        notes.extend(gate.iter().flat_map(|gate| gate.take_notes()));
        notes
    }

    /// Sends `command` to one agent; see [`Link::send`].
    pub(crate) fn send(&self, index: usize, command: &ToAgent) -> Result<()> {
        self.places[index].link.send(command)
    }

    /// Sends `order` to a supervisor.
    pub(crate) fn send_to_supervisor(&self, index: usize, order: &ToSupervisor) -> Result<()> {
        self.places[index].link.send_to_supervisor(order)
    }

    /// Returns the next event of any agent; `None` after `deadline`.
    pub(crate) fn poll_event(&mut self, deadline: Instant) -> Option<(usize, LinkEvent)> {
        let silent = |place: &Place| place.link.silence().filter(|_| !place.is_lost);
        let seen = self.places.iter().map(silent).position(|silence| silence.is_some());
        if let Some(index) = seen {
            let silence = silent(&self.places[index]).unwrap_or_default();
            return Some((index, LinkEvent::Closed(Ending::Silent(silence))));
        }
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            let Ok((id, received)) = self.events.recv_timeout(wait) else {
                self.handled_until = Nanos(clock::monotonic_ns());
                return None;
            };
            let index = self.places.iter().position(|place| place.link.id == id);
            // Other events are of an agent that was replaced or killed.
            let Some(index) = index.filter(|index| !self.places[*index].is_lost) else { continue };
            let name = self.name(index);
            match received {
                Received::Payload(waiting) => {
                    self.handled_until = waiting.at;
                    return Some((index, LinkEvent::decoded(&waiting.payload)));
                }
                Received::Closed(ending) => return Some((index, LinkEvent::Closed(ending))),
                Received::Noise(noise) => {
                    let note = format!("{name} printed before its agent started: {noise}");
                    self.notes.push(note);
                }
                Received::Copying => {
                    self.notes.push(format!("plimsoll is copied to {name}"));
                    self.places[index].deadline = Instant::now() + COPYING_WAIT;
                }
            }
        }
    }

    /// Waits for the next frame until `deadline`; the end of an agent's output is an error.
    pub(crate) fn next_frame(&mut self, deadline: Instant) -> Result<Option<(usize, FromAgent)>> {
        let Some((index, event)) = self.poll_event(deadline) else { return Ok(None) };
        Ok(Some((index, self.unless_closed(index, event)?)))
    }

    /// Returns the frame; the end of an agent's output is an error.
    pub(crate) fn unless_closed(&mut self, index: usize, event: LinkEvent) -> Result<FromAgent> {
        match event {
            LinkEvent::Closed(ending) => Err(FleetError::Lost {
                agent: self.name(index).to_owned(),
                how: self.how_it_ended(index, ending),
            }),
            LinkEvent::Frame(frame) => Ok(*frame),
        }
    }

    /// Returns the error for an agent that did not do `what` in time.
    pub(crate) fn slow(&self, index: usize, what: &'static str, waited: Duration) -> FleetError {
        FleetError::Slow { agent: self.name(index).to_owned(), what, waited }
    }

    /// Returns the error for a message that is not expected at this point.
    pub(crate) fn unexpected(&self, index: usize, frame: &FromAgent) -> FleetError {
        let agent = self.name(index).to_owned();
        match frame {
            FromAgent::Failed { fault, message } => {
                FleetError::Failed { agent, fault: *fault, message: message.clone() }
            }
            other => FleetError::Unexpected { agent, message: other.kind() },
        }
    }

    /// Returns the end of an agent that closed its output; the agent is lost from now on.
    pub(crate) fn how_it_ended(&mut self, index: usize, ending: Ending) -> String {
        self.places[index].is_lost = true;
        self.places[index].link.how_it_ended(ending)
    }

    /// Kills an agent.
    pub(crate) fn kill(&mut self, index: usize) {
        self.places[index].is_lost = true;
        self.places[index].link.kill();
    }

    /// Asks all to exit, waits, and kills those that don't.
    pub(crate) fn dismiss(&mut self) {
        for place in &mut self.places {
            place.link.ask_to_exit();
        }
        let deadline = Instant::now() + self.exit_wait;
        for place in &mut self.places {
            place.link.end_by(deadline);
        }
    }
}

impl Drop for AgentSet {
    fn drop(&mut self) {
        self.dismiss();
    }
}

/// Agents whose first message is awaited.
#[derive(Debug, Default)]
struct Opening {
    waiting: Vec<usize>,
    /// Agents whose login was dropped, each with the time of the next attempt.
    postponed: Vec<(Instant, usize)>,
    /// Number of drops, by agent.
    dropped: BTreeMap<usize, u32>,
    /// Other hosts are logged in to.
    is_remote: bool,
    /// Hosts that cannot take part, and why.
    failures: Vec<(HostName, String)>,
}

impl Opening {
    const fn has_room(&self) -> bool {
        !self.is_remote || self.waiting.len() < FANOUT
    }

    const fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.postponed.is_empty()
    }

    /// Returns an agent whose login is to be tried again now.
    fn due(&mut self) -> Option<usize> {
        let now = Instant::now();
        let at = self.postponed.iter().position(|(at, _)| *at <= now)?;
        self.has_room().then(|| self.postponed.remove(at).1)
    }

    /// Tries the login of this agent again a while later; `false` where it was dropped too often.
    fn postpone(&mut self, index: usize) -> bool {
        let times = self.dropped.entry(index).or_default();
        *times += 1;
        let is_kept = *times < LOGINS_MAX;
        if is_kept {
            let chance = RandomState::new().build_hasher().finish();
            self.postponed.push((Instant::now() + login_wait(chance), index));
        }
        is_kept
    }

    fn add(&mut self, index: usize, launch: &Launch) {
        self.is_remote |= launch.logs_in();
        self.waiting.push(index);
    }

    /// Returns an error if hosts failed, with one line for all hosts that failed in the same way.
    fn finish(self) -> Result<()> {
        let mut alike: BTreeMap<String, Vec<HostName>> = BTreeMap::new();
        for (host, how) in self.failures {
            alike.entry(how).or_default().push(host);
        }
        if alike.is_empty() {
            return Ok(());
        }
        let line = |(how, hosts): (String, Vec<HostName>)| format!("{} {how}", fold(&hosts));
        Err(FleetError::Hosts { lines: alike.into_iter().map(line).collect() })
    }
}

/// Returns a time between the two of [`LOGIN_WAIT`]; `chance`, a random number, selects it.
fn login_wait(chance: u64) -> Duration {
    let (least, most) = LOGIN_WAIT;
    least + (most - least).mul_f64(chance as f64 / u64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use crate::hosts::LoadHost;
    use crate::inbox::Room;

    #[test]
    fn an_interrupt_ends_the_wait_for_the_first_message() {
        let command = AgentCommand { program: "sleep".into(), arguments: vec!["1000".into()] };
        let launches = AgentSpec { command, ..AgentSpec::new(2) }.launches("agent");
        let looks = std::cell::Cell::new(0);
        let interrupted = || looks.replace(looks.get() + 1) > 3;
        let started = AgentSet::start(launches, Duration::ZERO, &interrupted);
        assert!(matches!(started, Err(FleetError::Interrupted)), "{started:?}");
    }

    #[test]
    fn lost_hosts_are_logged_in_to_again_a_few_at_once() {
        let host = |index| LoadHost {
            name: HostName { user: None, host: format!("host-{index}"), port: None },
            threads: None,
        };
        let hosts = LoadHosts {
            hosts: (0..FANOUT + 2).map(host).collect(),
            launcher: Launcher::Other(["sh", "-c", "exec sleep 1000"].map(str::to_owned).to_vec()),
            path: None,
            file: None,
        };
        let launches = remote_launches(&hosts, 0, &|| false).unwrap();
        let mut set = AgentSet::start(Vec::new(), Duration::ZERO, &|| false).unwrap();
        for launch in launches {
            let index = set.begin(launch).unwrap();
            set.kill(index);
        }
        let looks = std::cell::Cell::new(0);
        let replaced = set.replace_lost(&|| looks.replace(looks.get() + 1) > 3);
        assert!(matches!(replaced, Err(FleetError::Interrupted)), "{replaced:?}");
        assert_eq!((0..set.len()).filter(|index| !set.is_lost(*index)).count(), FANOUT);
    }

    #[test]
    fn what_waits_is_handled_before_time_goes_on() {
        let command = AgentCommand { program: "sleep".into(), arguments: vec!["1000".into()] };
        let launch = AgentSpec { command, ..AgentSpec::new(1) }.launches("agent").remove(0);
        let mut set = AgentSet::start(Vec::new(), Duration::ZERO, &|| false).unwrap();
        let index = set.begin(launch).unwrap();
        let frame = frame::encode(&FromAgent::PartLost).unwrap();
        for at in [Nanos(5), Nanos(8)] {
            let waiting = Room::default().admit(frame[4..].to_vec(), at, || {});
            set.sender.send((set.places[index].link.id, Received::Payload(waiting))).unwrap();
        }
        for at in [Nanos(5), Nanos(8)] {
            assert!(matches!(set.poll_event(Instant::now()), Some((0, LinkEvent::Frame(_)))));
            assert_eq!(set.handled_until, at);
        }
        let before = Nanos(clock::monotonic_ns());
        assert!(set.poll_event(Instant::now()).is_none() && set.handled_until >= before);
    }

    #[test]
    fn logins_that_were_dropped_are_tried_again_at_different_times_and_not_for_ever() {
        assert_eq!([0, u64::MAX].map(login_wait), [LOGIN_WAIT.0, LOGIN_WAIT.1]);
        let mut opening = Opening::default();
        let tries = (0..).take_while(|_| opening.postpone(7)).count();
        assert_eq!(tries as u32, LOGINS_MAX - 1);
        assert_eq!(opening.due(), None);
        opening.postponed[0].0 = Instant::now();
        assert_eq!(opening.due(), Some(7));
        assert!(!opening.is_done());
        assert!(opening.postpone(8));
    }
}
