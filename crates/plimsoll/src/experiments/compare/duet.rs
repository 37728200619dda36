//! Both servers at the same time, each in its own half of the CPUs: what the host does to one, it does to the
//! other in the same second. The halves are exchanged within each round, so that the faster one favours
//! neither.

use plimsoll_fleet::LoadAgents;
use plimsoll_lab::Placement;
use plimsoll_model::compare::Arm;
use plimsoll_sys::affinity;

use crate::experiments::in_turn::{End, Servers};
use crate::hosts::start_load_agents;
use crate::plan::load::LoadJob;
use crate::session::Session;

/// The two halves, and who loads the second.
pub(super) struct Duet {
    /// They load the server in the second half; the session's load the one in the first.
    pub(super) agents: LoadAgents,
    halves: [Placement; 2],
}

impl Duet {
    /// Starts the agents of the second half, whose load is `load` at first.
    pub(super) fn begin(
        session: &Session<'_>,
        load: &LoadJob,
        placements: &[Option<Placement>; 2],
    ) -> Result<Self, End> {
        let [Some(first), Some(second)] = placements.clone() else {
            return Err(End::Unmeasured("a duet needs two laboratories".to_owned()));
        };
        let network = session.server().isolated().map(|hosts| hosts.clients);
        let mut plan = load.plan.clone();
        plan.cpus.clone_from(&second.clients);
        let agents = start_load_agents(&mut plan, load.processes, network)?;
        Ok(Self { agents, halves: [first, second] })
    }

    /// The CPUs of a half's clients.
    pub(super) fn clients(&self, half: usize) -> &[u32] {
        &self.halves[half].clients
    }

    /// Moves the servers of `arms`, and their backends, to the first and to the second half, wherever they are.
    pub(super) fn place(
        &self,
        servers: &Servers,
        arms: [Arm; 2],
        session: &Session<'_>,
    ) -> Result<(), End> {
        let cpus = self.halves.each_ref().map(Placement::cpus);
        for (arm, to) in arms.iter().zip(&cpus) {
            let moved = |cpu: u32| {
                let place = cpus.iter().find_map(|half| half.iter().position(|own| *own == cpu));
                place.and_then(|place| to.get(place)).copied().unwrap_or(cpu)
            };
            let (server, backends) = servers.pids_of(arm.index());
            let pids = [server, backends].concat();
            let all = pids.iter().try_for_each(|pid| affinity::move_threads(*pid, moved));
            all.map_err(|error| {
                // A process that has ended explains itself better.
                let ended = session.server_end().map(|end| end.reason().to_owned());
                End::Unmeasured(ended.unwrap_or_else(|| {
                    format!("{} cannot be moved to other CPUs: {error}", arm.name())
                }))
            })?;
        }
        Ok(())
    }
}
