//! `--watch`: what is observed of an existing server.

use plimsoll_lab::{LabError, NamedServer, Ways};
use plimsoll_probe::server_counters::CounterSource;

use super::Inputs;
use crate::exit::Result;
use crate::flags::FindExperiment;
use crate::flags::values::Watch;

/// The observations of the server beside its answers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Watched {
    /// Processes of the server on this host.
    pub(crate) pids: Vec<u32>,
    /// Processes behind it on this host.
    pub(crate) backends: Vec<u32>,
    /// Source of its counters.
    pub(crate) counts: Option<CounterSource>,
}

impl Watched {
    /// Returns the ways in which the server can be disturbed.
    pub(crate) fn ways(&self) -> Ways {
        Ways { processes: !self.pids.is_empty(), ..Ways::default() }
    }

    /// Returns the named server.
    pub(crate) fn server(self) -> Result<NamedServer, LabError> {
        NamedServer::new(self.pids, self.backends, self.counts)
    }
}

/// Checks what is to be observed.
pub(crate) fn watched(watch: &[Watch], inputs: &Inputs) -> Result<Watched> {
    let mut watched = Watched::default();
    for what in watch {
        match what {
            Watch::Pid(pid) => watched.pids.push(inputs.process("--watch pid:", *pid)?),
            Watch::Backend(pid) => watched.backends.push(inputs.process("--watch backend:", *pid)?),
            Watch::Counts(source) => {
                refuse_if!(watched.counts.replace(source.clone()).is_some();
                    "--watch names two servers that count the same requests";
                    "give only the one that the clients connect to");
            }
            Watch::Later(typed) => {
                refuse!("--watch {typed} is not available yet";
                    "use pid:N, backend:N, haproxy:SOCKET or nginx:URL, or drop it");
            }
        }
    }
    Ok(watched)
}

/// Checks what is to be observed in an experiment.
pub(crate) fn of_experiment(experiment: &FindExperiment, inputs: &Inputs) -> Result<Watched> {
    let watched = watched(&experiment.common().0.watch, inputs)?;
    refuse_if!(watched.counts.is_some() && matches!(experiment, FindExperiment::Rfc9411(_));
        "rfc9411 does its own counting and reads no server statistics";
        "use --watch pid:N, or drop it");
    Ok(watched)
}
