//! Backends that end and start again while a proxy is under load: each is its own process, at a port that stays
//! its own.

use std::net::SocketAddr;
use std::sync::Mutex;

use plimsoll_fleet::ServerGroup;
use plimsoll_model::plan::{Listener, Spoken};
use plimsoll_sys::process;
use plimsoll_sys::process::Signal;
use plimsoll_sys::socket::ReservedPort;
use plimsoll_sys::thread::lock;

use crate::error::LabError;
use crate::isolated::on_host;
use crate::own_servers::OwnServers;

/// The backends of a laboratory. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct BackendPool {
    servers: OwnServers,
    places: Mutex<Vec<Place>>,
}

/// The place of one backend.
#[derive(Debug)]
struct Place {
    listener: Listener,
    /// Holds the port while there is no backend: a connection to it is refused.
    _port: ReservedPort,
    /// `None` while it is down.
    running: Option<ServerGroup>,
}

impl BackendPool {
    /// Starts this number of backends on free ports.
    pub(crate) fn start(servers: OwnServers, count: u64, spoken: Spoken) -> Result<Self, LabError> {
        let place = |_| -> Result<Place, LabError> {
            let running = servers.start_behind(1, spoken)?;
            let none = || LabError::NoPort(std::io::Error::other("a backend has no listener"));
            let listener = *running.listeners().first().ok_or_else(none)?;
            let reserve = || ReservedPort::bind(listener.address);
            let port = on_host(servers.host.as_ref(), reserve)?;
            let port = port.map_err(|error| LabError::NoPort(error.into()))?;
            Ok(Place { listener, _port: port, running: Some(running) })
        };
        let places = (0..count).map(place).collect::<Result<_, _>>()?;
        Ok(Self { servers, places: Mutex::new(places) })
    }

    /// Returns the listening addresses, also of backends that are down.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        lock(&self.places).iter().map(|place| place.listener.address).collect()
    }

    /// Returns the processes of those that run.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let places = lock(&self.places);
        places
            .iter()
            .filter_map(|place| place.running.as_ref())
            .flat_map(ServerGroup::pids)
            .collect()
    }

    /// Kills the first `count` of those that run: the kernel closes their connections, and refuses new ones.
    pub(crate) fn end(&self, count: u32) {
        let mut places = lock(&self.places);
        let running = places.iter_mut().filter(|place| place.running.is_some());
        for place in running.take(count as usize) {
            for pid in place.running.iter().flat_map(ServerGroup::pids) {
                // It may have ended by itself.
                let _ = process::kill(pid, Signal::KILL);
            }
            place.running = None;
        }
    }

    /// Starts those that are down again, at their addresses.
    pub(crate) fn start_again(&self) -> Result<(), LabError> {
        let mut places = lock(&self.places);
        places.iter_mut().filter(|place| place.running.is_none()).try_for_each(|place| {
            place.running = Some(self.servers.start_at(vec![place.listener], None)?);
            Ok(())
        })
    }
}
