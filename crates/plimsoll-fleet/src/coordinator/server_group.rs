//! Serve agents that share their ports: the simulated backends, or the embedded SUT.
//!
//! [`ServerGroup::start`] lets the first process bind the ports, which may be 0, and gives the others the resulting
//! listeners. Processes report their counters periodically; [`ServerGroup::poll_status`] stores the latest of each
//! and returns the sum, so a process that ended keeps its last report. [`ServerGroup::count`] requests the counters
//! of this moment. Start reading at [`ServerGroup::start`].

use std::time::{Duration, Instant};

use plimsoll_model::plan::{Listener, ServePlan};

use crate::agent_set::{AGENT_EXIT_WAIT, AgentSet, AgentSpec};
use crate::error::Result;
use crate::link::LinkEvent;
use crate::message::{FromAgent, ServeCounters, ToAgent};

/// Timeout of servers to listen.
const LISTEN_WAIT: Duration = Duration::from_secs(10);
/// Added for each of them, because they start together on the same CPUs.
const LISTEN_WAIT_EACH: Duration = Duration::from_millis(100);

/// Time for which the last counters of processes that have ended are waited for.
const LAST_COUNTERS_WAIT: Duration = Duration::from_secs(1);
/// Timeout of servers to report their counters.
const COUNT_WAIT: Duration = Duration::from_secs(1);
/// Period of checking whether all of them have arrived.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The state of a group of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerStatus {
    /// All processes; one that ended keeps its last report.
    pub counters: ServeCounters,
    /// A line for each process that ended early, in that order.
    pub lost: Vec<String>,
}

/// Running servers. Dropping it ends them.
#[derive(Debug)]
pub struct ServerGroup {
    agents: AgentSet,
    listeners: Vec<Listener>,
    /// The latest of each process.
    counters: Vec<ServeCounters>,
    lost: Vec<String>,
}

impl ServerGroup {
    /// Starts the processes of `spec` and waits until each accepts connections. The first one binds
    /// the ports, which may be 0; the others share what it got.
    pub fn start(spec: &AgentSpec, plan: &ServePlan) -> Result<Self> {
        let agents = AgentSet::start(spec.launches("server"), AGENT_EXIT_WAIT, &|| false)?;
        let counters = vec![ServeCounters::default(); agents.len()];
        let mut group = Self { agents, listeners: Vec::new(), counters, lost: Vec::new() };
        group.serve(0, plan)?;
        group.listeners = group.await_listening(vec![0])?;
        let plan = ServePlan { listeners: group.listeners.clone(), ..plan.clone() };
        let others: Vec<_> = (1..group.agents.len()).collect();
        for index in &others {
            group.serve(*index, &plan)?;
        }
        group.await_listening(others)?;
        Ok(group)
    }

    fn serve(&self, index: usize, plan: &ServePlan) -> Result<()> {
        let mut plan = plan.clone();
        // Every process draws its own sleeps.
        plan.seed = plan.seed.wrapping_add(index as u64);
        if !plan.cpus.is_empty() {
            let first = index * plan.threads as usize % plan.cpus.len();
            plan.cpus.rotate_left(first);
        }
        self.agents.send(index, &ToAgent::Serve(Box::new(plan)))
    }

    /// Waits for each of `waiting`; returns where the last one listens.
    fn await_listening(&mut self, mut waiting: Vec<usize>) -> Result<Vec<Listener>> {
        let waited = LISTEN_WAIT + LISTEN_WAIT_EACH * u32::try_from(waiting.len()).unwrap_or(0);
        let deadline = Instant::now() + waited;
        let mut listening = Vec::new();
        while let Some(first) = waiting.first().copied() {
            let Some((index, frame)) = self.agents.next_frame(deadline)? else {
                return Err(self.agents.slow(first, "listen", waited));
            };
            match frame {
                FromAgent::Listening(listeners) if waiting.contains(&index) => {
                    listening = listeners;
                    waiting.retain(|waiting| *waiting != index);
                }
                FromAgent::ServeCounters(counters) => self.counters[index] = counters,
                other => return Err(self.agents.unexpected(index, &other)),
            }
        }
        Ok(listening)
    }

    /// Returns the listeners, in the order of the plan, with the ports that they got.
    pub fn listeners(&self) -> &[Listener] {
        &self.listeners
    }

    /// Returns the process ids of the servers.
    pub fn pids(&self) -> Vec<u32> {
        self.agents.pids().collect()
    }

    /// Reads the processes' reports for `wait` (zero: those that are there) and returns the state.
    pub fn poll_status(&mut self, wait: Duration) -> ServerStatus {
        let deadline = Instant::now() + wait;
        while let Some((index, event)) = self.agents.poll_event(deadline) {
            self.handle_event(index, event);
        }
        ServerStatus { counters: self.sum(), lost: self.lost.clone() }
    }

    /// Takes the counters of a process, or notes what is wrong with it; `true` for counters.
    fn handle_event(&mut self, index: usize, event: LinkEvent) -> bool {
        let problem = match self.agents.unless_closed(index, event) {
            Ok(FromAgent::ServeCounters(counters)) => {
                self.counters[index] = counters;
                return true;
            }
            Ok(other) => self.agents.unexpected(index, &other),
            Err(lost) => lost,
        };
        self.lost.push(problem.to_string());
        false
    }

    fn sum(&self) -> ServeCounters {
        let mut sum = ServeCounters::default();
        self.counters.iter().for_each(|of_process| sum.merge(of_process));
        sum
    }

    /// Asks every process for its counters as they are now; `None` when one is lost or does not
    /// answer at once.
    pub fn count(&mut self) -> Option<ServeCounters> {
        // Reports in transit are older than the request.
        let _ = self.poll_status(Duration::ZERO);
        for index in 0..self.agents.len() {
            self.agents.send(index, &ToAgent::Count).ok()?;
        }
        let deadline = Instant::now() + COUNT_WAIT;
        // A periodic report that crosses the question will do: it is newer than the poll above.
        let mut has_answered = vec![false; self.agents.len()];
        while has_answered.contains(&false) {
            let (index, event) = self.agents.poll_event(deadline)?;
            if !self.handle_event(index, event) {
                return None;
            }
            has_answered[index] = true;
        }
        Some(self.sum())
    }

    /// Ends them, waits until they are gone, and returns their last counters.
    pub fn stop(mut self) -> ServeCounters {
        self.agents.dismiss();
        // They have ended; their last reports may still be in our own threads.
        let deadline = Instant::now() + LAST_COUNTERS_WAIT;
        while (0..self.agents.len()).any(|index| !self.agents.is_lost(index))
            && Instant::now() < deadline
        {
            self.poll_status(LOOK_AGAIN);
        }
        self.poll_status(Duration::ZERO).counters
    }
}
