//! `--watch`: what is observed of an existing server.

use plimsoll_lab::{LabError, NamedServer, Ways};
use plimsoll_probe::server_counters::CounterSource;

use super::Inputs;
use crate::exit::{Result, Stop};
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

    /// The server with it.
    pub(crate) fn server(self) -> Result<NamedServer, LabError> {
        Ok(NamedServer::new(self.pids, self.counts)?.before(self.backends))
    }
}

/// Checks what is to be observed.
pub(crate) fn watched(watch: &[Watch], inputs: &Inputs) -> Result<Watched> {
    let Watched { mut pids, mut backends, mut counts } = Watched::default();
    let alive = |kind: &str, pid: u32| {
        if (inputs.is_alive)(pid) {
            return Ok(pid);
        }
        Err(Stop::CannotRun(format!(
            "--watch {kind}:{pid}: this host has no such process; find it with pidof, or drop \
             --watch"
        )))
    };
    for what in watch {
        match what {
            Watch::Pid(pid) => pids.push(alive("pid", *pid)?),
            Watch::Backend(pid) => backends.push(alive("backend", *pid)?),
            Watch::Counts(source) if counts.is_none() => counts = Some(source.clone()),
            Watch::Counts(_) => {
                refuse!("--watch names two servers that count the same requests";
                    "give only the one that the clients connect to");
            }
            Watch::Later(typed) => {
                refuse!("--watch {typed} is not available yet";
                    "use pid:N, backend:N, haproxy:SOCKET or nginx:URL, or drop it");
            }
        }
    }
    Ok(Watched { pids, backends, counts })
}

/// Checks what is to be observed in an experiment.
pub(crate) fn of_experiment(experiment: &FindExperiment, inputs: &Inputs) -> Result<Watched> {
    let watched = watched(experiment.watch(), inputs)?;
    refuse_if!(watched.counts.is_some() && matches!(experiment, FindExperiment::Rfc9411(_));
        "rfc9411 does its own counting and reads no server statistics";
        "use --watch pid:N, or drop it");
    Ok(watched)
}
