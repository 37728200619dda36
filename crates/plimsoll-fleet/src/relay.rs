//! The relay of a host: where its part of a load needs more open files than one process may have, the agent that the
//! load's coordinator knows starts agents on its own host, and is their coordinator. One link and one frame a second
//! lead to the host, however many processes it has.

use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, mpsc};

use plimsoll_model::event::LoadEvent;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{LoadPart, LoadPlan};
use plimsoll_sys::thread::lock;

use crate::agent;
use crate::agent_set::{AgentCommand, AgentSpec};
use crate::coordinator::LoadAgents;
use crate::error::{FleetError, Result};
use crate::message::{FromAgent, ToAgent};

/// Agents of this host that make a load together, led by a coordinator elsewhere. They end with it.
#[derive(Debug)]
pub struct Relay {
    orders: Sender<(ToAgent, u32)>,
}

/// The processes that make load on this host, this one first.
#[derive(Clone, Debug)]
pub struct Makers(Arc<Mutex<Vec<u32>>>);

impl Default for Makers {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(vec![std::process::id()])))
    }
}

impl Makers {
    /// Returns the process ids of the agents below.
    pub fn pids(&self) -> Vec<u32> {
        lock(&self.0).clone()
    }

    fn set(&self, agents: Vec<u32>) {
        let mut pids = lock(&self.0);
        pids.truncate(1);
        pids.extend(agents);
    }
}

impl Relay {
    /// Starts none yet; whatever they report goes to `events`, and who they are to `makers`.
    pub fn start(command: AgentCommand, events: Sender<FromAgent>, makers: Makers) -> Result<Self> {
        let (orders, inbox) = mpsc::channel();
        // The agents end with the thread that started them.
        agent::start("relay", move || run(&command, &inbox, &events, &makers))?;
        Ok(Self { orders })
    }

    /// Prepares a load of `processes` processes.
    pub fn prepare(&self, plan: Box<LoadPlan>, processes: u32) {
        // The thread ends after this handle.
        let _ = self.orders.send((ToAgent::Prepare(plan), processes));
    }

    /// Carries out an order to the load that was prepared.
    pub fn handle(&self, order: ToAgent) {
        let _ = self.orders.send((order, 0));
    }
}

/// Returns the number of processes of `descriptors` open files, `reserve` of which are no connections, for the part of
/// a host. A thread and its connections are in one process.
pub fn processes_needed(plan: &LoadPlan, descriptors: u64, reserve: u64) -> u32 {
    let each = plan.connections.div_ceil(u64::from(plan.part.shard.of.max(1))).max(1);
    let threads = descriptors.saturating_sub(reserve) / each;
    let threads = u32::try_from(threads).unwrap_or(u32::MAX).max(1);
    plan.threads.div_ceil(threads).max(1)
}

fn run(
    command: &AgentCommand,
    inbox: &Receiver<(ToAgent, u32)>,
    events: &Sender<FromAgent>,
    makers: &Makers,
) {
    let mut agents = None;
    while let Ok((order, processes)) = inbox.recv() {
        // An order to a load crosses its end on the way.
        let ToAgent::Prepare(plan) = order else { continue };
        let made = start(&mut agents, command, processes).and_then(|agents| {
            agents.replace_lost()?;
            makers.set(agents.pids());
            let window = agents.run_part(&plan, parts(&plan, processes), inbox, events)?;
            let _ = events.send(FromAgent::Load(LoadEvent::Ended { window }));
            Ok(())
        });
        if let Err(error) = made {
            let _ = events.send(match error {
                FleetError::Refused { what } => FromAgent::Load(LoadEvent::Refused(what)),
                error => FromAgent::Failed { fault: error.fault(), message: error.to_string() },
            });
        }
    }
}

/// Starts agents up to this number; existing ones stay.
fn start<'a>(
    agents: &'a mut Option<LoadAgents>,
    command: &AgentCommand,
    processes: u32,
) -> Result<&'a mut LoadAgents> {
    match agents {
        Some(agents) => {
            agents.grow_to(processes)?;
            Ok(agents)
        }
        None => {
            let spec = AgentSpec { command: command.clone(), ..AgentSpec::new(processes) };
            Ok(agents.insert(LoadAgents::start(spec)?))
        }
    }
}

/// Returns the part of each process: the threads of the host, one after the other.
fn parts(plan: &LoadPlan, processes: u32) -> Vec<LoadPlan> {
    let Shard { index, of } = plan.part.shard;
    let begin = |process: u32| {
        (u64::from(plan.threads) * u64::from(process) / u64::from(processes.max(1))) as u32
    };
    let part = |process: u32| LoadPlan {
        part: LoadPart { shard: Shard { index: index + begin(process), of }, ..plan.part.clone() },
        threads: begin(process + 1) - begin(process),
        ..plan.clone()
    };
    (0..processes).map(part).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::coordinator::tests::plan;

    #[test]
    fn who_makes_load_is_this_process_and_the_agents_of_the_last_load() {
        let makers = Makers::default();
        let own = std::process::id();
        assert_eq!(makers.pids(), [own]);
        for agents in [vec![7, 8], vec![9]] {
            makers.set(agents.clone());
            assert_eq!(makers.clone().pids(), [vec![own], agents].concat());
        }
    }

    fn host(threads: u32, first: u32, of: u32, connections: u64) -> LoadPlan {
        let part = LoadPart { shard: Shard { index: first, of }, ..LoadPart::WHOLE };
        LoadPlan { threads, part, connections, ..plan() }
    }

    #[test]
    fn a_host_has_the_processes_that_its_files_require() {
        for (threads, of, connections, processes) in [
            // 250 each.
            (4, 8, 2_000, 1),
            // 9,000 each: two threads in a process.
            (4, 8, 72_000, 2),
            (5, 10, 90_000, 3),
            // 19,936 fill a process, one more does not fit anywhere.
            (2, 4, 79_744, 2),
            (2, 4, 79_748, 2),
        ] {
            let plan = host(threads, 0, of, connections);
            assert_eq!(processes_needed(&plan, 20_000, 64), processes, "{connections}");
        }
    }

    proptest! {
        #[test]
        fn processes_tile_the_threads_of_their_host(
            threads in 1u32..40, first in 0u32..40, processes in 1u32..40,
        ) {
            let processes = processes.min(threads);
            let plan = host(threads, first, 100, 1_000);
            let parts = parts(&plan, processes);
            prop_assert_eq!(parts.len() as u32, processes);
            let mut next = first;
            for part in parts {
                prop_assert!(part.threads > 0);
                prop_assert_eq!(part.part.shard, Shard { index: next, of: 100 });
                next += part.threads;
            }
            prop_assert_eq!(next, first + threads);
        }
    }
}
