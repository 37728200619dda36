//! Servers on other hosts: the server under test and its backends, each run by the agent of its host.
//!
//! [`FarServers`] is an [`AgentSet`] with one agent per host. [`FarServers::serve`], [`FarServers::start_sut`] and
//! [`FarServers::address`] each send one order and wait for its answer, up to a timeout; periodic reports in between
//! are skipped. [`FarServers::poll`] never waits: it stores the latest [`SutStatus`] and a line per lost host. Start
//! reading at [`FarServers::start_sut`].

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use plimsoll_model::plan::{Listener, ServePlan};

use crate::agent_set::{AgentSet, remote_launches};
use crate::error::{FleetError, Result};
use crate::hosts::LoadHosts;
use crate::link::ReadingSink;
use crate::message::{FromAgent, HostPart, SutPlan, SutStarted, SutStatus, ToAgent};

/// Timeout of a host that is asked for its way to another one.
const ADDRESS_WAIT: Duration = Duration::from_secs(20);
/// Timeout of servers to listen.
const LISTEN_WAIT: Duration = Duration::from_secs(10);
/// Timeout of a server under test to be checked and to listen: a large proxy reserves memory at its start.
const SUT_WAIT: Duration = Duration::from_secs(60);
/// Timeout of its counters.
const COUNT_WAIT: Duration = Duration::from_secs(2);
/// Timeout of the agents to end their programs: SIGTERM, a second, SIGKILL, and the way there.
const EXIT_WAIT: Duration = Duration::from_secs(6);

/// Agents on other hosts that run servers, one on each. Dropping it ends them and what they run.
#[derive(Debug)]
pub struct FarServers {
    agents: AgentSet,
    status: SutStatus,
    lost: Vec<String>,
}

impl FarServers {
    /// Starts an agent on each of `hosts`.
    pub fn start(hosts: &LoadHosts) -> Result<Self> {
        let agents = AgentSet::start(remote_launches(hosts, 0, &|| false)?, EXIT_WAIT, &|| false)?;
        Ok(Self { agents, status: SutStatus::default(), lost: Vec::new() })
    }

    /// Returns the name of host `index`.
    pub fn name(&self, index: usize) -> &str {
        self.agents.name(index)
    }

    /// Returns the number of CPUs of host `index`.
    pub fn cpus(&self, index: usize) -> u32 {
        self.agents.machine(index).cpus.max(1)
    }

    /// Files that each agent may have open, the lowest limit.
    pub fn descriptors_max(&self) -> u64 {
        self.agents.descriptors_max()
    }

    /// Takes the remarks on the hosts since the last call.
    pub fn take_notes(&mut self) -> Vec<String> {
        self.agents.take_notes()
    }

    /// Has each host read what it does once a second from now on; `sink` gets it.
    pub fn watch(&self, sink: ReadingSink) -> Result<()> {
        self.agents.watch(sink)
    }

    /// Returns the address of host `index` on its way to `to`, which is how `to` reaches it.
    pub fn address(&mut self, index: usize, to: SocketAddr) -> Result<IpAddr> {
        let part = HostPart { connections: 1, destinations: vec![to], ..HostPart::default() };
        self.agents.send(index, &ToAgent::Survey(Box::new(part)))?;
        match self.answer(index, "say how it is reached", ADDRESS_WAIT)? {
            FromAgent::Surveyed(survey) => survey.address.ok_or_else(|| FleetError::Hosts {
                lines: vec![format!("{} has no route to {}", self.agents.name(index), to.ip())],
            }),
            other => Err(self.agents.unexpected(index, &other)),
        }
    }

    /// Has host `index` serve; returns where, in the order of the plan.
    pub fn serve(&mut self, index: usize, plan: ServePlan) -> Result<Vec<Listener>> {
        self.agents.send(index, &ToAgent::Serve(Box::new(plan)))?;
        match self.answer(index, "listen", LISTEN_WAIT)? {
            FromAgent::Listening(listeners) => Ok(listeners),
            other => Err(self.agents.unexpected(index, &other)),
        }
    }

    /// Has host `index` run the server under test.
    pub fn start_sut(&mut self, index: usize, plan: SutPlan) -> Result<SutStarted> {
        self.agents.send(index, &ToAgent::StartSut(Box::new(plan)))?;
        match self.answer(index, "start the server under test", SUT_WAIT)? {
            FromAgent::SutStarted(started) => Ok(*started),
            other => Err(self.agents.unexpected(index, &other)),
        }
    }

    /// Returns the next answer of host `index`, which is no periodic report.
    fn answer(&mut self, index: usize, what: &'static str, waited: Duration) -> Result<FromAgent> {
        let deadline = Instant::now() + waited;
        while let Some((from, frame)) = self.agents.next_frame(deadline)? {
            // The others come once a second, whatever was asked.
            let is_answer = !matches!(frame, FromAgent::ServeCounters(_) | FromAgent::SutStatus(_));
            if from == index && is_answer {
                return Ok(frame);
            }
        }
        Err(self.agents.slow(index, what, waited))
    }

    /// Takes the reports that have come; never waits.
    pub fn poll(&mut self) {
        self.take_until(Instant::now(), false);
    }

    /// Asks host `index` for what the server under test has counted; `false` where it does not answer.
    pub fn count_sut(&mut self, index: usize) -> bool {
        // Reports that are on their way are older than the question.
        self.poll();
        self.agents.send(index, &ToAgent::CountSut).is_ok()
            && self.take_until(Instant::now() + COUNT_WAIT, true)
    }

    /// Takes reports until `deadline`, or until a status where one is wanted: then `true`.
    fn take_until(&mut self, deadline: Instant, is_status_wanted: bool) -> bool {
        while let Some((index, event)) = self.agents.poll_event(deadline) {
            let frame = match self.agents.unless_closed(index, event) {
                Ok(frame) => frame,
                Err(error) => {
                    self.lost.push(error.to_string());
                    continue;
                }
            };
            match frame {
                FromAgent::SutStatus(status) => {
                    self.status = *status;
                    if is_status_wanted {
                        return true;
                    }
                }
                FromAgent::ServeCounters(_) => {}
                other => self.lost.push(self.agents.unexpected(index, &other).to_string()),
            }
        }
        false
    }

    /// Returns the last status of the server under test.
    pub const fn status(&self) -> &SutStatus {
        &self.status
    }

    /// Returns a line for each host that was lost, in that order.
    pub fn lost(&self) -> &[String] {
        &self.lost
    }
}
