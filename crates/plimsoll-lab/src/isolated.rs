//! The hosts of a laboratory as network namespaces: clients, SUT and backends, each with its own
//! addresses and TCP counters.
//!
//! Links run from the clients to the SUT and from the SUT to the backends, without a bridge: no
//! other parts talk to each other, and a bridge costs CPU for every packet. No end is in the host's own namespace, so
//! that addresses cannot be in the way of the host's routes.

use std::cell::Cell;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use plimsoll_sys::namespace::{Namespace, Prefix};
use plimsoll_sys::output_file;

use crate::error::{LabError, Result};

/// Every address of these is the clients'; RFC 2544 keeps 198.18.0.0/15 for measurements.
const SOURCES: Prefix = Prefix { first: Ipv4Addr::new(198, 18, 0, 0), bits: 16 };
/// The SUT's interface to them.
const CLIENTS: &str = "clients";
/// The prefix of a link: two hosts.
const LINK_BITS: u8 = 30;

/// The host of the clients; the laboratories of a comparison share it.
#[derive(Debug)]
pub struct ClientHost {
    network: Namespace,
    settings: Vec<(PathBuf, String)>,
    laboratories: Cell<u8>,
}

impl ClientHost {
    /// Creates the network namespaces, which needs CAP_SYS_ADMIN.
    pub fn new() -> Result<Self> {
        let settings = settings(Path::new("/proc/sys/net"));
        let network = namespace(&settings)?;
        network.own(SOURCES).map_err(LabError::Isolation)?;
        // A kernel may have namespaces and no veth: one that is gone again at once shows it.
        namespace(&[])?.join("a", &namespace(&[])?, "b").map_err(LabError::Isolation)?;
        Ok(Self { network, settings, laboratories: Cell::new(0) })
    }

    /// Returns the first of many addresses that clients may use.
    pub const fn first_source() -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 0, 1)
    }
}

/// One host of a laboratory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsolatedHost {
    /// Network of the host.
    pub network: Namespace,
    /// Listening address of its servers.
    pub address: Ipv4Addr,
}

/// Runs `work` in the network of a host; `None` is this one's.
pub(crate) fn on_host<T: Send>(
    host: Option<&IsolatedHost>,
    work: impl FnOnce() -> T + Send,
) -> Result<T> {
    match host {
        Some(host) => host.network.run(work).map_err(LabError::Isolation),
        None => Ok(work()),
    }
}

/// Returns the listening address of servers on a host; `None` is this one, by its loopback.
pub(crate) fn ip_of(host: Option<&IsolatedHost>) -> IpAddr {
    host.map_or(Ipv4Addr::LOCALHOST, |host| host.address).into()
}

/// The hosts of one laboratory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolated {
    /// The network of the clients.
    pub clients: Namespace,
    /// Address of the clients on the link to the SUT.
    first_hop: Ipv4Addr,
    /// The host of the system under test.
    pub sut: IsolatedHost,
    /// The host of the backends.
    pub backends: IsolatedHost,
}

impl Isolated {
    /// Switches the SUT's interface to its clients on or off. No connection ends: its packets are lost meanwhile.
    pub(crate) fn switch_link(&self, on: bool) -> Result<(), LabError> {
        let network = &self.sut.network;
        network.switch(CLIENTS, on).map_err(LabError::Link)?;
        match on {
            true => network.add_route(SOURCES, self.first_hop).map_err(LabError::Link),
            false => Ok(()),
        }
    }

    /// Creates hosts that have the clients of `clients`.
    pub fn beside(clients: &ClientHost) -> Result<Self> {
        let number = clients.laboratories.get();
        clients.laboratories.set(number + 1);
        let sut = namespace(&clients.settings)?;
        let backends = namespace(&clients.settings)?;
        // Four addresses for each link: of the network, both ends, broadcast.
        let address = |last| Ipv4Addr::new(198, 19, number, last);
        let joined = || {
            clients.network.join(&format!("sut{number}"), &sut, CLIENTS)?;
            clients.network.add_address(&format!("sut{number}"), address(2), LINK_BITS)?;
            sut.add_address(CLIENTS, address(1), LINK_BITS)?;
            sut.add_route(SOURCES, address(2))?;
            sut.join("backends", &backends, "sut")?;
            sut.add_address("backends", address(5), LINK_BITS)?;
            backends.add_address("sut", address(6), LINK_BITS)
        };
        joined().map_err(LabError::Isolation)?;
        Ok(Self {
            clients: clients.network.clone(),
            first_hop: address(2),
            sut: IsolatedHost { network: sut, address: address(1) },
            backends: IsolatedHost { network: backends, address: address(6) },
        })
    }
}

/// Returns a namespace with the settings of this host.
fn namespace(settings: &[(PathBuf, String)]) -> Result<Namespace> {
    let network = Namespace::new().map_err(LabError::Isolation)?;
    let differs = |(path, value): &&(PathBuf, String)| {
        fs::read_to_string(path).is_ok_and(|own| own != *value)
    };
    let copy = || {
        // One that a namespace cannot change is the host's anyway.
        for (path, value) in settings.iter().filter(differs) {
            drop(output_file::write_setting(path, value));
        }
    };
    network.run(copy).map_err(LabError::Isolation)?;
    Ok(network)
}

/// Returns the settings that each namespace has for itself and that begin with the kernel's default: what was
/// set on this host is to be measured.
fn settings(below: &Path) -> Vec<(PathBuf, String)> {
    let folder = fs::read_dir(below.join("ipv4")).into_iter().flatten().flatten();
    let files = folder.map(|entry| entry.path()).filter(|path| path.is_file());
    let read = |path: PathBuf| fs::read_to_string(&path).ok().map(|value| (path, value));
    files.chain([below.join("core/somaxconn")]).filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::disallowed_macros, reason = "a test that checks nothing says so")]
    fn clients() -> Option<ClientHost> {
        let made = ClientHost::new();
        if let Err(error) = &made {
            eprintln!("SKIPPED: network namespaces need root: {error}");
        }
        made.ok()
    }

    #[test]
    fn hosts_have_what_is_set_on_this_one() {
        let Some(clients) = clients() else { return };
        let path = Path::new("/proc/sys/net/core/somaxconn");
        let read = || fs::read_to_string(path).unwrap();
        let settings = [(path.to_owned(), "1234\n".to_owned())];
        let host = read();
        assert_eq!(namespace(&settings).unwrap().run(read).unwrap(), "1234\n");
        assert_eq!(clients.network.run(read).unwrap(), host);
        assert_eq!(read(), host);
    }

    #[test]
    fn two_laboratories_share_their_clients() {
        let Some(clients) = clients() else { return };
        let [a, b] = [0, 1].map(|_| Isolated::beside(&clients).unwrap());
        assert_eq!(a.clients, b.clients);
        assert!(a.sut.network != b.sut.network && a.sut.address != b.sut.address);
        let names = a.clients.run(|| fs::read_to_string("/proc/thread-self/net/dev").unwrap());
        let names = names.unwrap();
        assert!(names.contains("sut0:") && names.contains("sut1:"), "{names}");
    }
}
