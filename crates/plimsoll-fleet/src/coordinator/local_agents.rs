//! Agents on this host that make load: how many, the part of each, and the loop that reads them.

use std::time::{Duration, Instant};

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::plan::LoadPlan;
use plimsoll_sys::{affinity, clock};

use crate::agent_set::{AGENT_EXIT_WAIT, AgentSet, AgentSpec};
use crate::coordinator::hold_controller::{HoldController, Order};
use crate::coordinator::load_run::{Action, LoadRun, Terms};
use crate::coordinator::outcome::{LoadControl, LoadOutcome};
use crate::error::FleetError;
use crate::link::LinkEvent;
use crate::message::ToAgent;

/// How often an interrupt is checked for.
const LOOK_FOR_INTERRUPT: Duration = Duration::from_millis(50);

/// How many agents hold `connections` when each may open `descriptors_per_process` files, of which
/// `reserve` are no connections.
pub fn agents_needed(
    connections: u64,
    descriptors_per_process: u64,
    reserve: u64,
) -> Result<u32, FleetError> {
    let refused = FleetError::DescriptorLimit { have: descriptors_per_process, reserve };
    let usable = descriptors_per_process.checked_sub(reserve).filter(|usable| *usable > 0);
    match usable.map(|usable| u32::try_from(connections.div_ceil(usable))) {
        Some(Ok(agents)) => Ok(agents.max(1)),
        _ => Err(refused),
    }
}

/// Agents on this host that make load; reusable for many loads in a row. Dropping it ends them.
#[derive(Debug)]
pub struct LocalAgents {
    agents: AgentSet,
    spec: AgentSpec,
}

impl LocalAgents {
    /// Starts the agents. They are killed when this process ends, and ignore SIGINT and SIGTERM, which a
    /// terminal or a service manager sends to all processes at once.
    pub fn start(spec: AgentSpec) -> Result<Self, FleetError> {
        let agents = AgentSet::start("agent", &spec.command, spec.ties(), AGENT_EXIT_WAIT)?;
        Ok(Self { agents, spec })
    }

    /// Starts more of them between two loads, until there are `count`. Where that fails, there are as
    /// many as before.
    pub fn grow_to(&mut self, count: u32) -> Result<(), FleetError> {
        let wanted = AgentSpec { count, ..self.spec.clone() };
        let more: Vec<_> = wanted.ties().into_iter().skip(self.count()).collect();
        if !more.is_empty() {
            self.agents.replace_lost()?;
            self.agents.add(more)?;
            self.spec = wanted;
        }
        Ok(())
    }

    /// How many there are.
    pub const fn count(&self) -> usize {
        self.agents.len()
    }

    /// Their processes.
    pub fn pids(&self) -> Vec<u32> {
        self.agents.pids().collect()
    }

    /// Each agent's limit of open files.
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
    ) -> Result<LoadOutcome, FleetError> {
        self.run(plan, control, None, sink)
    }

    /// Makes one hold with all agents, as [`Self::run_load`] makes a load; `controller` says what it
    /// does while it runs, and when it is over.
    pub fn run_hold(
        &mut self,
        plan: &LoadPlan,
        control: &LoadControl<'_>,
        controller: &mut dyn HoldController,
        sink: &mut dyn FnMut(Event),
    ) -> Result<LoadOutcome, FleetError> {
        // Beside a hundred agents and their servers, a coordinator of normal priority gets 1 % of a CPU.
        affinity::with_preference(|| {
            affinity::prefer_latency();
            self.run(plan, control, Some(controller), sink)
        })
    }

    fn run(
        &mut self,
        plan: &LoadPlan,
        control: &LoadControl<'_>,
        mut controller: Option<&mut dyn HoldController>,
        sink: &mut dyn FnMut(Event),
    ) -> Result<LoadOutcome, FleetError> {
        self.agents.replace_lost()?;
        let (agents, threads) = spread(self.agents.len(), plan.threads, plan.connections);
        let names = (0..agents).map(|index| self.agents.name(index).to_owned()).collect();
        for index in 0..agents {
            let cpus = self.spec.cpus_of(index);
            let part = share_of_plan(plan, index, agents, threads, cpus);
            if let Err(error) = self.agents.send(index, &ToAgent::Prepare(Box::new(part))) {
                // The parts differ by a few bytes, so one may just be too large: no agent may be
                // left with a load that never starts.
                (0..index).for_each(|prepared| self.agents.kill(prepared));
                return Err(error);
            }
        }
        let mut run = LoadRun::new(names, Terms::new(plan, control, agents), now());
        loop {
            while let Some(action) = run.poll_action() {
                match action {
                    Action::Send(index, command) => self.agents.send(index, &command)?,
                    Action::Kill(index) => self.agents.kill(index),
                }
            }
            while let Some(event) = run.poll_event() {
                sink(event);
            }
            if run.is_over() {
                return run.into_outcome();
            }
            if let (Some(controller), Some(view)) = (&mut controller, run.view(now())) {
                match controller.poll(&view) {
                    None => {}
                    Some(Order::Steer(steer)) => {
                        run.steer(steer);
                        continue;
                    }
                    Some(Order::Finish) => {
                        run.finish(now());
                        continue;
                    }
                }
            }
            let overdue = Duration::from(run.poll_timeout().since(now()));
            let wait = overdue.min(LOOK_FOR_INTERRUPT);
            match self.agents.poll_event(Instant::now() + wait) {
                Some((index, LinkEvent::Frame(frame))) => run.handle_frame(index, *frame, now()),
                Some((index, LinkEvent::Closed(error))) => {
                    let how = self.agents.how_it_ended(index, error);
                    run.handle_loss(index, &how, now());
                }
                None => {}
            }
            if (control.interrupted)() {
                run.handle_interrupt(now());
            }
            (0..agents)
                .for_each(|index| run.handle_last_frame(index, self.agents.last_frame_at(index)));
            run.handle_timeout(now());
        }
    }
}

fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}

/// How many agents and threads per agent take part, so that each thread has a connection. Every
/// agent has the same number of threads, or the threads' shares would not add up.
fn spread(agents: usize, threads: u32, connections: u64) -> (usize, u32) {
    let connections = connections.max(1);
    let threads = u64::from(threads.max(1)).min(connections);
    let agents = (connections / threads).min(agents as u64).max(1);
    // Neither became larger than it was.
    (agents as usize, threads as u32)
}

/// The part of agent `index` out of `of`. Workers are pinned to the plan's CPUs as far as the
/// agent may use them, each agent starting after the CPUs of the one before.
fn share_of_plan(
    plan: &LoadPlan,
    index: usize,
    of: usize,
    threads: u32,
    agent_cpus: &[u32],
) -> LoadPlan {
    let mut cpus = plan.cpus.clone();
    cpus.retain(|cpu| agent_cpus.is_empty() || agent_cpus.contains(cpu));
    if !cpus.is_empty() {
        let first = index * threads as usize % cpus.len();
        cpus.rotate_left(first);
    }
    LoadPlan { shard: plan.shard.split(index as u32, of as u32), threads, cpus, ..plan.clone() }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::pace::Shard;

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
        for (agents, threads, connections, expected) in [
            (4, 2, 100, (4, 2)),
            // Five connections keep two agents with two threads each busy.
            (4, 2, 5, (2, 2)),
            (4, 2, 1, (1, 1)),
            (1, 8, 3, (1, 3)),
            (2, 0, 0, (1, 1)),
        ] {
            assert_eq!(spread(agents, threads, connections), expected);
        }
    }

    #[test]
    fn parts_tile_the_plan_and_the_cpus() {
        let whole = LoadPlan { cpus: vec![0, 1, 2, 3], threads: 2, ..plan() };
        let part = |index, cpus: &[u32]| share_of_plan(&whole, index, 3, 2, cpus);
        assert_eq!(part(1, &[]).shard, Shard { index: 1, of: 3 });
        assert_eq!(part(0, &[]).cpus, [0, 1, 2, 3]);
        assert_eq!(part(1, &[]).cpus, [2, 3, 0, 1]);
        assert_eq!(part(1, &[1, 2, 3]).cpus, [3, 1, 2]);
    }
}
