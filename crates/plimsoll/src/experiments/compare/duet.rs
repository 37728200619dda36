//! Both servers at the same time, each in its own half of the CPUs: what the host does to one, it does to the
//! other in the same second. The halves are exchanged all the time, so that the faster one favours neither, and
//! what slows one CPU for a while slows both servers.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use plimsoll_fleet::LoadAgents;
use plimsoll_lab::{Placement, WatchedServer};
use plimsoll_model::compare::Arm;
use plimsoll_sys::affinity;

use crate::experiments::in_turn::{ComparedServers, End};
use crate::hosts::start_load_agents;
use crate::plan::load::LoadJob;
use crate::session::Session;

/// Period of exchanging the halves. A virtual CPU is slow for a second or for several: in blocks of 6 s without
/// exchange, CPU per answer of two equal servers differed by 7 % (standard deviation), whichever the half.
const EXCHANGE_EVERY: Duration = Duration::from_millis(100);

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

    /// Returns the CPUs of a half's clients.
    pub(super) fn clients(&self, half: usize) -> &[u32] {
        &self.halves[half].clients
    }

    /// Moves the servers of `arms`, and their backends, to the first and to the second half, wherever they are, and
    /// returns how all of them are moved while they are loaded.
    pub(super) fn place(
        &self,
        servers: &ComparedServers,
        arms: [Arm; 2],
        session: &Session<'_>,
    ) -> Result<Exchange, End> {
        let pids = |server: &dyn WatchedServer| [server.pids(), server.backend_pids()].concat();
        let pids = arms.map(|arm| servers.at(arm.index(), pids).unwrap_or_default());
        let cpus = self.halves.each_ref().map(Placement::cpus);
        let mut exchange = Exchange { pids, cpus };
        for (half, arm) in arms.iter().enumerate() {
            exchange.move_to(half, half).map_err(|error| {
                // A process that has ended explains itself better.
                let ended = session.server_end().map(|end| end.reason().to_owned());
                End::Unmeasured(ended.unwrap_or_else(|| {
                    format!("{} cannot be moved to other CPUs: {error}", arm.name())
                }))
            })?;
        }
        exchange.pids[0].extend(session.agents().pids());
        exchange.pids[1].extend(self.agents.pids());
        Ok(exchange)
    }
}

/// The threads of each half when a load begins, and the CPUs of the halves.
pub(super) struct Exchange {
    pids: [Vec<u32>; 2],
    cpus: [Vec<u32>; 2],
}

impl Exchange {
    /// Exchanges the halves again and again until the other end of `running` is gone; then all are where they were.
    pub(super) fn run(&self, running: &Receiver<()>) {
        let mut is_exchanged = false;
        let mut goes_on = true;
        while goes_on {
            goes_on = running.recv_timeout(EXCHANGE_EVERY) == Err(RecvTimeoutError::Timeout);
            is_exchanged = goes_on && !is_exchanged;
            for half in 0..2 {
                let to = if is_exchanged { 1 - half } else { half };
                // One that has ended is noticed elsewhere; one that stays is still measured beside the other.
                let _ = self.move_to(half, to);
            }
        }
    }

    /// Moves who begins in one half to another, wherever they are.
    fn move_to(&self, half: usize, to: usize) -> io::Result<()> {
        let moved = |cpu: u32| {
            let place = self.cpus.iter().find_map(|half| half.iter().position(|own| *own == cpu));
            place.and_then(|place| self.cpus[to].get(place)).copied().unwrap_or(cpu)
        };
        self.pids[half].iter().try_for_each(|pid| affinity::move_threads(*pid, moved))
    }
}
