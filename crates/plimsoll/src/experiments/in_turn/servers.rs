//! The servers that are measured in turn, of which one is loaded.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use plimsoll_lab::{
    HostView, Isolated, LabError, LabPlan, Laboratory, ServerEnd, SutAddress, WatchedServer,
};
use plimsoll_model::cliff::KnownTimer;
use plimsoll_model::host::LimitUse;
use plimsoll_model::plan::LoadPlan;
use plimsoll_probe::server_counters::ServerCounters;

/// One of them.
pub(crate) struct SideServer {
    /// Gone when it could not be started afresh.
    pub(crate) server: Option<Box<dyn WatchedServer>>,
    /// The plan and the address of a laboratory; `None` if somebody else runs the server.
    pub(crate) lab: Option<(LabPlan, Rc<SutAddress>)>,
}

impl SideServer {
    /// Starts a laboratory again, at the same address. A process may be faster than another one of the same
    /// program for all its life, by where its memory lies: that is no difference of two servers.
    fn start_afresh(&mut self) -> Result<(), LabError> {
        let Some((plan, at)) = &self.lab else { return Ok(()) };
        // What is kept for the user would be in the way.
        if !plan.keep_config {
            // Ended before another begins at the same address.
            self.server = None;
            self.server = Some(Box::new(Laboratory::start(plan, Rc::clone(at))?));
        }
        Ok(())
    }
}

/// All servers, for a session that watches the one that is loaded.
#[derive(Clone)]
pub(crate) struct ComparedServers {
    /// Each with its name.
    sides: Rc<RefCell<Vec<(String, SideServer)>>>,
    /// The place of the one that is loaded.
    loaded: Rc<Cell<usize>>,
}

impl ComparedServers {
    /// Creates the servers; the first one is loaded first.
    pub(in crate::experiments) fn new(sides: Vec<(String, SideServer)>) -> Self {
        Self { sides: Rc::new(RefCell::new(sides)), loaded: Rc::default() }
    }

    /// Says which one the next load goes to, by its place.
    pub(in crate::experiments) fn turn_to(&self, place: usize) {
        self.loaded.set(place);
    }

    /// Starts those afresh that are ours.
    pub(in crate::experiments) fn start_afresh(&self) -> Result<(), LabError> {
        self.sides.borrow_mut().iter_mut().try_for_each(|(_, side)| side.start_afresh())
    }

    /// Applies `look` to the server at `place`; `None` if it could not be started again.
    pub(in crate::experiments) fn at<T>(
        &self,
        place: usize,
        look: impl FnOnce(&dyn WatchedServer) -> T,
    ) -> Option<T> {
        self.sides.borrow().get(place).and_then(|(_, side)| side.server.as_deref()).map(look)
    }

    fn of_loaded<T: Default>(&self, look: impl FnOnce(&dyn WatchedServer) -> T) -> T {
        self.at(self.loaded.get(), look).unwrap_or_default()
    }
}

impl WatchedServer for ComparedServers {
    fn pids(&self) -> Vec<u32> {
        self.of_loaded(|server| server.pids())
    }

    fn backend_pids(&self) -> Vec<u32> {
        self.of_loaded(|server| server.backend_pids())
    }

    fn ended(&mut self) -> Option<ServerEnd> {
        self.sides.borrow_mut().iter_mut().find_map(|(name, side)| {
            side.server.as_mut()?.ended().map(|end| match end {
                ServerEnd::Server(how) => ServerEnd::Server(format!("{name}: {how}")),
                ServerEnd::Laboratory(how) => ServerEnd::Laboratory(format!("{name}: {how}")),
            })
        })
    }

    fn counters(&mut self) -> Option<ServerCounters> {
        let mut sides = self.sides.borrow_mut();
        sides.get_mut(self.loaded.get())?.1.server.as_mut()?.counters()
    }

    fn limits(&self) -> Vec<LimitUse> {
        self.of_loaded(|server| server.limits())
    }

    fn timers(&self, plan: &LoadPlan) -> Vec<KnownTimer> {
        self.of_loaded(|server| server.timers(plan))
    }

    /// Returns the namespaces of the laboratory; all sides have the same clients.
    fn isolated(&self) -> Option<Isolated> {
        self.of_loaded(|server| server.isolated())
    }

    fn hosts(&self) -> Vec<HostView> {
        let of = |(name, side): &(String, SideServer)| {
            let hosts = side.server.as_ref().map(|server| server.hosts()).unwrap_or_default();
            let named =
                |host: HostView| HostView { name: format!("{name}: {}", host.name), ..host };
            hosts.into_iter().map(named).collect::<Vec<_>>()
        };
        self.sides.borrow().iter().flat_map(of).collect()
    }

    fn backend_is_ours(&self) -> bool {
        self.of_loaded(|server| server.backend_is_ours())
    }
}
