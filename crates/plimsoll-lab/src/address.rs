//! The address and the certificate of a SUT: both known before it is started, so that loads against
//! it can be planned first.

use std::net::SocketAddr;

use plimsoll_model::plan::Identity;
use plimsoll_sys::socket::ReservedPort;
use plimsoll_tls::KeyKind;

use crate::error::LabError;

/// A port of loopback that is reserved for a SUT, and the SUT's certificate.
#[derive(Debug)]
pub struct SutAddress {
    pub(crate) listen: SocketAddr,
    identity: Identity,
    /// Shared by every process of the SUT.
    _port: ReservedPort,
}

impl SutAddress {
    /// Reserves any free port; the certificate has a key of this kind.
    pub fn reserve(key: KeyKind) -> Result<Self, LabError> {
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        Self::with_identity(plimsoll_tls::self_signed(&names, key)?)
    }

    /// The same with a certificate that is there.
    pub fn with_identity(identity: Identity) -> Result<Self, LabError> {
        let reserved = ReservedPort::bind(([127, 0, 0, 1], 0).into());
        let (port, listen) = reserved
            .and_then(|port| port.local_address().map(|address| (port, address)))
            .map_err(|error| LabError::NoPort(error.into()))?;
        Ok(Self { listen, identity, _port: port })
    }

    /// The URL for clients.
    pub fn url(&self, tls: bool) -> String {
        format!("{}://{}/", if tls { "https" } else { "http" }, self.listen)
    }

    /// The certificate of the SUT, which is its own root, and its key.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }
}
