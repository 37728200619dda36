//! The coordinator's side of a supervisor: foreign programs that always end.
//!
//! A supervisor is a child in its own session, so that a terminal's signals do not
//! reach it. It cleans up on command, and when its coordinator has ended, even by SIGKILL.

use std::collections::VecDeque;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plimsoll_sys::namespace::Namespace;
use plimsoll_sys::process::{Group, Ties};

use crate::agent_set::{AgentCommand, AgentSet};
use crate::error::{FleetError, Result};
use crate::link::{AgentPlace, Launch};
use crate::message::{FromAgent, ProgramExit, SupervisedProgram, SupervisorPlan, ToSupervisor};

/// Timeout of programs to end and to become ready; a large proxy reserves memory at its start.
const READY_WAIT: Duration = Duration::from_secs(20);
/// Timeout of a supervisor to end its programs: SIGTERM, a second, SIGKILL, and some more on
/// a busy host.
const EXIT_WAIT: Duration = Duration::from_secs(6);

/// A running supervisor. Dropping it ends everything that it started.
#[derive(Debug)]
pub struct Supervisor {
    agents: AgentSet,
    names: Vec<String>,
    pids: Vec<u32>,
    exited: VecDeque<ProgramExit>,
    /// The directory that the supervisor created and removes.
    scratch: Option<PathBuf>,
    keep: bool,
}

impl Supervisor {
    /// Starts a supervisor, which creates the plan's scratch directory and starts its programs, all of
    /// them in `network`, or in this process's. A plan without programs lets the caller write their
    /// configuration into the directory first.
    pub fn start(
        command: &AgentCommand,
        network: Option<Namespace>,
        mut plan: SupervisorPlan,
    ) -> Result<Self> {
        let ties =
            Ties { group: Group::Session, ignores_stop_signals: true, network, ..Ties::default() };
        let place = AgentPlace::Here(command.clone());
        let launch = Launch { name: "supervisor 1".to_owned(), ties, place };
        let agents = AgentSet::start(vec![launch], EXIT_WAIT, &|| false)?;
        let (scratch, keep) = (plan.scratch_dir.clone(), plan.keep);
        let (names, pids, exited) = (Vec::new(), Vec::new(), VecDeque::new());
        let mut supervisor = Self { agents, names, pids, exited, scratch: None, keep };
        // The directory first: only if the supervisor created it, it is ours to remove.
        let children = std::mem::take(&mut plan.children);
        supervisor.send_plan(plan)?;
        supervisor.scratch = scratch;
        if !children.is_empty() {
            supervisor.start_programs(children)?;
        }
        Ok(supervisor)
    }

    /// Starts more programs and waits until they are ready; returns their pids. After an error the
    /// others keep running.
    pub fn start_programs(&mut self, children: Vec<SupervisedProgram>) -> Result<Vec<u32>> {
        self.send_plan(SupervisorPlan { children, ..SupervisorPlan::default() })
    }

    /// Ends every program and starts it again, with the same arguments; waits until they are ready. After an error some
    /// do not run.
    pub fn restart(&mut self) -> Result<()> {
        self.agents.send_to_supervisor(0, &ToSupervisor::Restart)?;
        let restarted = self.await_ready(&self.names.clone());
        if let Err(FleetError::ProgramEnded(exit)) = &restarted {
            self.exited.push_back(exit.clone());
        }
        self.pids = restarted?;
        Ok(())
    }

    fn send_plan(&mut self, plan: SupervisorPlan) -> Result<Vec<u32>> {
        let names: Vec<_> = plan.children.iter().map(|child| child.name.clone()).collect();
        self.agents.send_to_supervisor(0, &ToSupervisor::Supervise(Box::new(plan)))?;
        let pids = self.await_ready(&names)?;
        self.names.extend(names);
        self.pids.extend_from_slice(&pids);
        Ok(pids)
    }

    /// Waits until the programs of these names are ready; returns their pids.
    fn await_ready(&mut self, names: &[String]) -> Result<Vec<u32>> {
        let deadline = Instant::now() + READY_WAIT;
        while let Some((index, frame)) = self.agents.next_frame(deadline)? {
            match frame {
                FromAgent::ProgramsReady { pids } => return Ok(pids),
                FromAgent::ProgramExited(exit) if names.contains(&exit.name) => {
                    return Err(FleetError::ProgramEnded(exit));
                }
                FromAgent::ProgramExited(exit) => self.exited.push_back(exit),
                other => return Err(self.agents.unexpected(index, &other)),
            }
        }
        let of_programs = Some(names.join(", ")).filter(|names| !names.is_empty());
        let agent = of_programs.unwrap_or_else(|| self.agents.name(0).to_owned());
        Err(FleetError::Slow { agent, what: "become ready", waited: READY_WAIT })
    }

    /// Returns the processes that were started, in order.
    pub fn pids(&self) -> &[u32] {
        &self.pids
    }

    /// Returns the supervisor's own process.
    pub fn pid(&self) -> u32 {
        self.agents.pids().next().unwrap_or(0)
    }

    /// Returns a program that ended, if one did since the last call. Never waits. The end of the supervisor
    /// itself is an error.
    pub fn poll_exited(&mut self) -> Result<Option<ProgramExit>> {
        while let Some((index, frame)) = self.agents.next_frame(Instant::now())? {
            match frame {
                FromAgent::ProgramExited(exit) => self.exited.push_back(exit),
                other => return Err(self.agents.unexpected(index, &other)),
            }
        }
        Ok(self.exited.pop_front())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.agents.dismiss();
        // The supervisor has removed it, unless it was killed.
        if let Some(path) = self.scratch.take().filter(|_| !self.keep) {
            let _ = fs::remove_dir_all(path);
        }
    }
}
