//! The servers that are measured in turn, of which one is loaded.

use std::cell::RefCell;
use std::rc::Rc;

use plimsoll_lab::{
    HostView, Isolated, LabError, LabPlan, Laboratory, NamedServer, ServerEnd, SutAddress,
    WatchedServer,
};
use plimsoll_model::cliff::KnownTimer;
use plimsoll_model::host::LimitUse;
use plimsoll_model::plan::LoadPlan;
use plimsoll_probe::server_counters::ServerCounters;

/// One of them.
pub(crate) enum SideServer {
    /// Somebody else runs it.
    Named(NamedServer),
    /// Ours; gone when it could not be started afresh.
    Laboratory { lab: Option<Box<Laboratory>>, plan: Box<LabPlan>, at: Rc<SutAddress> },
}

impl SideServer {
    fn watched(&self) -> Option<&dyn WatchedServer> {
        match self {
            Self::Named(server) => Some(server),
            Self::Laboratory { lab, .. } => lab.as_deref().map(|lab| lab as &dyn WatchedServer),
        }
    }

    fn watched_mut(&mut self) -> Option<&mut dyn WatchedServer> {
        match self {
            Self::Named(server) => Some(server),
            Self::Laboratory { lab, .. } => {
                lab.as_deref_mut().map(|lab| lab as &mut dyn WatchedServer)
            }
        }
    }

    /// Starts a laboratory again, at the same address. A process may be faster than another one of the same
    /// program for all its life, by where its memory lies: that is no difference of two servers.
    fn start_afresh(&mut self) -> Result<(), LabError> {
        let Self::Laboratory { lab, plan, at } = self else { return Ok(()) };
        // What is kept for the user would be in the way.
        if !plan.keep_config {
            // Ended before another begins at the same address.
            *lab = None;
            *lab = Some(Box::new(Laboratory::start(plan, Rc::clone(at))?));
        }
        Ok(())
    }
}

/// All servers, for a session that watches the one that is loaded.
#[derive(Clone)]
pub(crate) struct Servers(Rc<RefCell<InTurn>>);

struct InTurn {
    /// Each with its name.
    servers: Vec<(String, SideServer)>,
    /// The place of the one that is loaded.
    loaded: usize,
}

impl Servers {
    /// The first is loaded first.
    pub(in crate::experiments) fn new(servers: Vec<(String, SideServer)>) -> Self {
        Self(Rc::new(RefCell::new(InTurn { servers, loaded: 0 })))
    }

    /// Says which one the next load goes to, by its place.
    pub(in crate::experiments) fn turn_to(&self, place: usize) {
        self.0.borrow_mut().loaded = place;
    }

    /// The processes of the one at `place`, and of its backends.
    pub(in crate::experiments) fn pids_of(&self, place: usize) -> (Vec<u32>, Vec<u32>) {
        self.at(place, |server| (server.pids(), server.backend_pids())).unwrap_or_default()
    }

    /// Starts those afresh that are ours.
    pub(in crate::experiments) fn start_afresh(&self) -> Result<(), LabError> {
        let servers = &mut self.0.borrow_mut().servers;
        servers.iter_mut().try_for_each(|(_, server)| server.start_afresh())
    }

    /// Applies `look` to the server at `place`; `None` if it could not be started again.
    pub(in crate::experiments) fn at<T>(
        &self,
        place: usize,
        look: impl FnOnce(&dyn WatchedServer) -> T,
    ) -> Option<T> {
        let turn = self.0.borrow();
        turn.servers.get(place).and_then(|(_, server)| server.watched()).map(look)
    }

    fn of_loaded<T: Default>(&self, look: impl FnOnce(&dyn WatchedServer) -> T) -> T {
        let loaded = self.0.borrow().loaded;
        self.at(loaded, look).unwrap_or_default()
    }
}

impl WatchedServer for Servers {
    fn pids(&self) -> Vec<u32> {
        self.of_loaded(|server| server.pids())
    }

    fn backend_pids(&self) -> Vec<u32> {
        self.of_loaded(|server| server.backend_pids())
    }

    fn ended(&mut self) -> Option<ServerEnd> {
        self.0.borrow_mut().servers.iter_mut().find_map(|(name, server)| {
            server.watched_mut()?.ended().map(|end| match end {
                ServerEnd::Server(how) => ServerEnd::Server(format!("{name}: {how}")),
                ServerEnd::Laboratory(how) => ServerEnd::Laboratory(format!("{name}: {how}")),
            })
        })
    }

    fn counters(&mut self) -> Option<ServerCounters> {
        let turn = &mut *self.0.borrow_mut();
        let (_, server) = turn.servers.get_mut(turn.loaded)?;
        server.watched_mut()?.counters()
    }

    fn limits(&self) -> Vec<LimitUse> {
        self.of_loaded(|server| server.limits())
    }

    fn timers(&self, plan: &LoadPlan) -> Vec<KnownTimer> {
        self.of_loaded(|server| server.timers(plan))
    }

    /// All have the same clients.
    fn isolated(&self) -> Option<Isolated> {
        self.of_loaded(|server| server.isolated())
    }

    fn hosts(&self) -> Vec<HostView> {
        let of = |(name, server): &(String, SideServer)| {
            let hosts = server.watched().map(|server| server.hosts()).unwrap_or_default();
            let named =
                |host: HostView| HostView { name: format!("{name}: {}", host.name), ..host };
            hosts.into_iter().map(named).collect::<Vec<_>>()
        };
        self.0.borrow().servers.iter().flat_map(of).collect()
    }

    fn backend_is_ours(&self) -> bool {
        self.of_loaded(|server| server.backend_is_ours())
    }
}
