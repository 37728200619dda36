//! Which program is the system under test (SUT).

use std::path::{Path, PathBuf};

use plimsoll_tls::KeyKind;

use crate::error::LabError;
use crate::{haproxy, nginx};

/// The program under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sut {
    /// Our own TLS server, which answers itself.
    Embedded,
    /// HAProxy at this path.
    Haproxy(PathBuf),
    /// nginx at this path.
    Nginx(PathBuf),
}

impl Sut {
    /// The HAProxy that is named, or else the installed one.
    pub fn haproxy(named: Option<&Path>) -> Result<Self, LabError> {
        let missing = LabError::NotInstalled { program: "haproxy", package: "haproxy" };
        haproxy::find(named).map(Self::Haproxy).ok_or(missing)
    }

    /// The nginx that is named, or else the installed one.
    pub fn nginx(named: Option<&Path>) -> Result<Self, LabError> {
        let missing = LabError::NotInstalled { program: "nginx", package: "nginx-light" };
        nginx::find(named).map(Self::Nginx).ok_or(missing)
    }

    /// HAProxy where it is installed, else our own server.
    pub fn installed() -> Self {
        haproxy::find(None).map_or(Self::Embedded, Self::Haproxy)
    }

    /// Whether our own server is the SUT.
    pub const fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded)
    }

    /// The key of the certificate of a SUT whose rate is searched.
    ///
    /// Our own server costs what our own client costs, request for request (6.7 us each over TLS,
    /// see docs/journal), so that on one core each the client would be the limit. An RSA handshake
    /// costs the server twice what it costs the client; HAProxy and nginx need no such help.
    pub const fn key_kind(&self) -> KeyKind {
        if self.is_embedded() { KeyKind::Rsa2048 } else { KeyKind::EcdsaP256 }
    }
}

/// `haproxy 2.6`, or `3 x haproxy 2.6`.
pub(crate) fn several(processes: u32, name: &str) -> String {
    if processes == 1 { name.to_owned() } else { format!("{processes} x {name}") }
}
