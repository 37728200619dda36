//! `--isolate`: whether the hosts of laboratories are network namespaces.

use plimsoll_lab::ClientHost;
use plimsoll_model::settings::Isolate;

use crate::exit::Result;
use crate::flags::LabExperiment;
use crate::flags::values::IsolateFlag;

const SOURCES: &str = "--source names addresses of this host";

/// The result of `--isolate`.
#[derive(Debug, Default)]
pub(super) struct Isolation {
    /// The host of the clients; `None` if all is on loopback.
    pub(super) clients: Option<ClientHost>,
    /// The reason why the laboratory is on loopback, if the user did not ask for that.
    pub(super) note: Option<String>,
}

impl Isolation {
    /// Isolates one laboratory, which has hosts of its own wherever that is possible.
    pub(super) fn of_one(lab: &LabExperiment) -> Result<Self> {
        let flags = lab.hosts();
        if flags.isolate != IsolateFlag::Auto || flags.machines.sut_host.is_some() {
            return Self::asked(&[lab]);
        }
        if !lab.sources().is_empty() {
            return Ok(Self::shared(SOURCES));
        }
        Ok(ClientHost::new().map_or_else(|error| Self::shared(&error.to_string()), Self::separate))
    }

    /// Isolates laboratories that are compared: they have the same clients, on loopback unless hosts are requested.
    pub(super) fn asked(labs: &[&LabExperiment]) -> Result<Self> {
        let wishes = |wish| labs.iter().any(|lab| lab.hosts().isolate == wish);
        if !wishes(IsolateFlag::Netns) {
            return Ok(Self::default());
        }
        refuse_if!(wishes(IsolateFlag::None);
            "A and B have the same clients, and --isolate differs"; "give both the same --isolate");
        refuse_if!(labs.iter().any(|lab| !lab.sources().is_empty());
            "--isolate netns: {SOURCES}"; "use --isolate none");
        Ok(Self::separate(ClientHost::new()?))
    }

    /// Hosts, with these clients.
    const fn separate(clients: ClientHost) -> Self {
        Self { clients: Some(clients), note: None }
    }

    /// Returns all on loopback, for this reason.
    fn shared(why: &str) -> Self {
        Self { clients: None, note: Some(format!("no separate hosts: {why}")) }
    }

    /// Returns the place of clients and servers, for the settings of a run.
    pub(super) const fn place(&self) -> Isolate {
        if self.clients.is_some() { Isolate::Netns } else { Isolate::None }
    }
}
