//! The hosts that hold connections, and holds on them that a procedure steers.

use std::cell::RefCell;

use plimsoll_capacity::staircase::HoldProcedure;
use plimsoll_fleet::coordinator::Newcomers;
use plimsoll_model::event::Event;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::tally::Tally;
use plimsoll_probe::limits::HostLimits;
use plimsoll_tune::doctor::Shape;

use super::controller::{Driven, HoldContext, ProcedureController, Speed};
use super::memory::{Bounds, Memory, gauges_of, kept_by};
use crate::exit::Result;
use crate::plan::load::LoadJob;
use crate::preflight;
use crate::preflight::Server;
use crate::session::Session;
use crate::survey::Room;

/// The hosts that hold the connections of an experiment.
pub(super) struct Holders {
    /// The processes on this host.
    pub(super) shape: Shape,
    pub(super) limits: HostLimits,
    /// Room of other hosts, if they hold the connections.
    pub(super) room: Option<Room>,
    /// Every process that uses memory for the connections is known: clients and SUT, beside the kernel. Searches take
    /// it as given: memory of other programs only lowers the limit, which is what is available on the host.
    pub(super) is_all_ours: bool,
}

impl Holders {
    /// Returns the holders of `job`, which gets the source addresses that it needs. `opening_max` of its connections to
    /// `server` are opened at once.
    pub(super) fn of(job: &mut LoadJob, opening_max: u32, server: &Server) -> Self {
        // Those of other hosts are compared with their shares when they have answered.
        let is_here = job.hosts.is_none();
        let limits = if is_here { preflight::host_limits() } else { HostLimits::default() };
        preflight::spread_sources(job, &limits);
        let shape = preflight::shape(job, opening_max, server);
        Self { shape, limits, room: None, is_all_ours: true }
    }

    /// Has other hosts hold the connections, which have this room.
    pub(super) fn move_to(&mut self, room: Room) {
        self.limits.ports_per_source = Some(room.ports_per_source);
        self.room = Some(room);
    }

    /// Has `procedure` steer a hold of `plan`, which `newcomers` join; `emit` gets every event.
    pub(super) fn steer<S: HoldProcedure>(
        &self,
        procedure: S,
        plan: &LoadPlan,
        newcomers: Option<&dyn Newcomers>,
        speed: Speed,
        session: &Session<'_>,
        emit: &dyn Fn(Event),
    ) -> Result<Driven<S>> {
        let server = session.server();
        let (sut, is_elsewhere) = (&**server, self.room.is_some());
        let memory = Memory { clients: session.agents().pids(), sut, is_elsewhere };
        let counted = RefCell::new(Tally::default());
        let emit = |event: Event| {
            if S::USES_TALLY
                && let Event::Interval(interval) = &event
            {
                counted.borrow_mut().merge_following(&interval.tally);
            }
            emit(event);
        };
        let context = HoldContext {
            read: &|depth| memory.read(depth),
            kept: &|| kept_by(sut),
            server: &|| gauges_of(sut, is_elsewhere),
            emit: &emit,
            counted: &counted,
            is_paused: &|| session.is_paused(),
        };
        let bounds = Bounds::of(self, &session.agents());
        let mut controller = ProcedureController::new(procedure, bounds, speed, context);
        let load = session.steer(plan, newcomers, &mut controller, &mut |event| emit(event))?;
        Ok(controller.end(load))
    }
}
