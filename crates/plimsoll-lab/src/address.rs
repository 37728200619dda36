//! The address and the certificate of a SUT: both known before it is started, so that loads against
//! it can be planned first.

use std::net::SocketAddr;

use plimsoll_model::plan::Identity;
use plimsoll_model::target::Protocol;
use plimsoll_sys::socket::ReservedPort;
use plimsoll_tls::KeyKind;

use crate::error::{LabError, Result};
use crate::isolated::{ClientHost, Isolated, IsolatedHost, ip_of, on_host};

/// A port that is reserved for a SUT, the SUT's certificate, and the hosts of its laboratory.
#[derive(Debug)]
pub struct SutAddress {
    pub(crate) listen: SocketAddr,
    /// The certificate of the SUT, which is its own root, and its key.
    pub identity: Identity,
    /// Names in a certificate that was made here; none in another.
    pub(crate) names: Vec<String>,
    /// The hosts of the laboratory; `None` if all share this host's network.
    pub isolated: Option<Isolated>,
    /// Shared by every process of the SUT; `None` if it is on another machine.
    port: Option<ReservedPort>,
}

impl SutAddress {
    /// Reserves any free port: of a new host beside `clients`, or of loopback. The certificate has a key of
    /// this kind.
    pub fn reserve(key: KeyKind, clients: Option<&ClientHost>) -> Result<Self> {
        let isolated = clients.map(Isolated::beside).transpose()?;
        let names = vec!["localhost".to_owned(), ip_of(sut_of(isolated.as_ref())).to_string()];
        let identity = plimsoll_tls::self_signed(&names, key)?;
        Ok(Self { names, ..Self::new(identity, isolated)? })
    }

    /// Creates an address of another machine, and a certificate for it with a key of this kind.
    pub fn elsewhere(key: KeyKind, listen: SocketAddr) -> Result<Self> {
        let identity = plimsoll_tls::self_signed(&[listen.ip().to_string()], key)?;
        Ok(Self { listen, identity, names: Vec::new(), isolated: None, port: None })
    }

    /// Reserves this address of this machine, for a SUT with this certificate.
    pub(crate) fn named(listen: SocketAddr, identity: Identity) -> Result<Self> {
        let port = ReservedPort::bind(listen)
            .map_err(|source| LabError::NoAddress { listen, source: source.into() })?;
        Ok(Self { listen, identity, names: Vec::new(), isolated: None, port: Some(port) })
    }

    /// Creates an address with an existing certificate.
    pub fn with_identity(identity: Identity, clients: Option<&ClientHost>) -> Result<Self> {
        Self::new(identity, clients.map(Isolated::beside).transpose()?)
    }

    fn new(identity: Identity, isolated: Option<Isolated>) -> Result<Self> {
        let sut = sut_of(isolated.as_ref());
        let reserved = on_host(sut, || ReservedPort::bind((ip_of(sut), 0).into()))?;
        let (port, listen) = reserved
            .and_then(|port| port.local_address().map(|address| (port, address)))
            .map_err(|error| LabError::NoPort(error.into()))?;
        Ok(Self { listen, identity, names: Vec::new(), isolated, port: Some(port) })
    }

    /// Lets a program listen that does not ask to share the port.
    pub(crate) fn admit_any(&self) -> Result<()> {
        let admitted = self.port.as_ref().map_or(Ok(()), ReservedPort::admit_any);
        admitted.map_err(|error| LabError::NoPort(error.into()))
    }

    /// Returns the URL for clients.
    pub fn url(&self, protocol: Protocol, tls: bool) -> String {
        format!("{}://{}/", protocol.scheme(tls), self.listen)
    }
}

/// Returns the host of the SUT.
fn sut_of(isolated: Option<&Isolated>) -> Option<&IsolatedHost> {
    isolated.map(|hosts| &hosts.sut)
}
