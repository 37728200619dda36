//! Several agents of one kind: started together, read through one channel, ended together.

use std::sync::mpsc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use plimsoll_model::Nanos;
use plimsoll_sys::namespace::Namespace;
use plimsoll_sys::process::Ties;

use crate::error::FleetError;
use crate::frame::FrameError;
use crate::link::{Link, LinkEvent, Received};
use crate::message::{FromAgent, ToAgent, VERSION};

pub use crate::link::AgentCommand;

/// Timeout of an agent's first message. Starting a process needs milliseconds, and longer on a host
/// that is out of memory.
const HELLO_WAIT: Duration = Duration::from_secs(10);
/// Added for each agent, because they start together on the same CPUs: ten times what a start
/// costs.
const HELLO_WAIT_EACH: Duration = Duration::from_millis(100);

/// How long an agent that makes load or serves may take to end: one second, and half as much again
/// on a busy host.
pub(crate) const AGENT_EXIT_WAIT: Duration = Duration::from_millis(1500);

/// Which agents to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSpec {
    /// How to start one.
    pub command: AgentCommand,
    /// How many; at least 1.
    pub count: u32,
    /// CPUs of each agent, round robin; empty allows all CPUs.
    pub cpus: Vec<Vec<u32>>,
    /// Added to their nice value.
    pub nice: i32,
    /// The network namespace that they run in; `None` leaves them in this process's.
    pub network: Option<Namespace>,
}

impl AgentSpec {
    /// `count` agents of this program, on any CPU.
    pub fn new(count: u32) -> Self {
        Self {
            command: AgentCommand::this_program(),
            count: count.max(1),
            cpus: Vec::new(),
            nice: 0,
            network: None,
        }
    }

    /// How agents that make load or serve are tied to this process.
    pub(crate) fn ties(&self) -> Vec<Ties> {
        (0..self.count.max(1) as usize)
            .map(|index| Ties {
                dies_with_parent: true,
                ignores_stop_signals: true,
                cpus: self.cpus_of(index).to_vec(),
                nice: self.nice,
                network: self.network.clone(),
                ..Ties::default()
            })
            .collect()
    }

    /// The CPUs of agent `index`; empty means all.
    pub(crate) fn cpus_of(&self, index: usize) -> &[u32] {
        match self.cpus.len() {
            0 => &[],
            sets => &self.cpus[index % sets],
        }
    }
}

/// One agent of the set.
#[derive(Debug)]
struct Place {
    link: Link,
    ties: Ties,
    descriptors_max: u64,
    is_lost: bool,
}

/// The agents, by index. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct AgentSet {
    /// The name of its members in messages, before the number.
    role: &'static str,
    command: AgentCommand,
    places: Vec<Place>,
    next_id: u64,
    sender: Sender<(u64, Received)>,
    events: Receiver<(u64, Received)>,
    /// Timeout of its members' exit.
    exit_wait: Duration,
}

impl AgentSet {
    /// Starts one agent per entry of `ties` and waits for the first message of each.
    pub(crate) fn start(
        role: &'static str,
        command: &AgentCommand,
        ties: Vec<Ties>,
        exit_wait: Duration,
    ) -> Result<Self, FleetError> {
        let (sender, events) = mpsc::channel();
        let command = command.clone();
        let mut set =
            Self { role, command, places: Vec::new(), next_id: 0, sender, events, exit_wait };
        set.start_more(ties)?;
        Ok(set)
    }

    /// Adds one agent per entry of `ties`, or none of them. To be called between two loads, when no
    /// agent sends anything.
    pub(crate) fn add(&mut self, ties: Vec<Ties>) -> Result<(), FleetError> {
        let before = self.places.len();
        let added = self.start_more(ties);
        if added.is_err() {
            // Dropping a link ends its agent.
            self.places.truncate(before);
        }
        added
    }

    fn start_more(&mut self, ties: Vec<Ties>) -> Result<(), FleetError> {
        let before = self.places.len();
        for ties in ties {
            let link = self.start_link(self.places.len(), &ties)?;
            self.places.push(Place { link, ties, descriptors_max: 0, is_lost: false });
        }
        self.await_hellos((before..self.places.len()).collect())
    }

    fn start_link(&mut self, index: usize, ties: &Ties) -> Result<Link, FleetError> {
        self.next_id += 1;
        let name = format!("{} {}", self.role, index + 1);
        Link::start(self.next_id, name, &self.command, ties, self.sender.clone())
    }

    fn await_hellos(&mut self, mut waiting: Vec<usize>) -> Result<(), FleetError> {
        let wait = HELLO_WAIT + HELLO_WAIT_EACH * u32::try_from(waiting.len()).unwrap_or(0);
        let deadline = Instant::now() + wait;
        while let Some(first) = waiting.first().copied() {
            let slow = FleetError::Slow {
                agent: self.name(first).to_owned(),
                what: "start",
                waited: wait,
            };
            let (index, event) = self.poll_event(deadline).ok_or(slow)?;
            let LinkEvent::Frame(frame) = self.unless_closed(index, event)? else { continue };
            match *frame {
                FromAgent::Hello { version, .. } if version != VERSION => {
                    return Err(FleetError::Version {
                        agent: self.name(index).to_owned(),
                        theirs: version,
                        ours: VERSION.to_owned(),
                    });
                }
                FromAgent::Hello { descriptors_max, .. } => {
                    self.places[index].descriptors_max = descriptors_max;
                    waiting.retain(|waiting| *waiting != index);
                }
                other => return Err(self.unexpected(index, &other)),
            }
        }
        Ok(())
    }

    /// Replaces every agent that is lost. To be called between two loads, when no agent sends
    /// anything.
    pub(crate) fn replace_lost(&mut self) -> Result<(), FleetError> {
        while let Some((index, event)) = self.poll_event(Instant::now()) {
            if let LinkEvent::Closed(error) = event {
                self.how_it_ended(index, error);
            }
        }
        let lost: Vec<_> = (0..self.len()).filter(|index| self.is_lost(*index)).collect();
        for index in &lost {
            let ties = self.places[*index].ties.clone();
            let link = self.start_link(*index, &ties)?;
            self.places[*index].link = link;
            self.places[*index].is_lost = false;
        }
        self.await_hellos(lost)
    }

    pub(crate) const fn len(&self) -> usize {
        self.places.len()
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        &self.places[index].link.name
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().map(|place| place.link.pid())
    }

    /// When an agent's last frame was received, handled or not.
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

    /// Sends `command` to one agent; see [`Link::send`].
    pub(crate) fn send(&self, index: usize, command: &ToAgent) -> Result<(), FleetError> {
        self.places[index].link.send(command)
    }

    /// The next event of any agent; `None` after `deadline`.
    pub(crate) fn poll_event(&mut self, deadline: Instant) -> Option<(usize, LinkEvent)> {
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(wait) {
                Ok((id, received)) => {
                    let index = self.places.iter().position(|place| place.link.id == id);
                    // Other events are of an agent that was replaced or killed.
                    if let Some(index) = index.filter(|index| !self.places[*index].is_lost) {
                        return Some((index, received.into()));
                    }
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    /// Turns the end of an agent's output into an error.
    pub(crate) fn unless_closed(
        &mut self,
        index: usize,
        event: LinkEvent,
    ) -> Result<LinkEvent, FleetError> {
        match event {
            LinkEvent::Closed(error) => Err(FleetError::Lost {
                agent: self.name(index).to_owned(),
                how: self.how_it_ended(index, error),
            }),
            event @ LinkEvent::Frame(_) => Ok(event),
        }
    }

    /// The error for a message that is not expected at this point.
    pub(crate) fn unexpected(&self, index: usize, frame: &FromAgent) -> FleetError {
        let agent = self.name(index).to_owned();
        match frame {
            FromAgent::Failed { fault, message } => {
                FleetError::Failed { agent, fault: *fault, message: message.clone() }
            }
            other => FleetError::Unexpected { agent, message: other.kind().to_owned() },
        }
    }

    /// How an agent that closed its output ended; the agent is lost from now on.
    pub(crate) fn how_it_ended(&mut self, index: usize, error: Option<FrameError>) -> String {
        self.places[index].is_lost = true;
        self.places[index].link.how_it_ended(error)
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
