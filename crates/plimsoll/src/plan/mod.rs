//! Checked conversion of flags into plans that agents can carry out.
//!
//! Everything that can be wrong before a run is found here, so that nothing has been started when
//! it is. Files, standard input and names come in through [`Inputs`].

use crate::exit::Result;
use crate::flags::shared::RequestFlags;
use crate::flags::{ConfirmFlags, FindExperiment, LabExperiment, LabFlags, ServerExperiment};

mod bodies;
pub(crate) mod carried;
pub(crate) mod compare;
pub(crate) mod connections;
mod destination;
mod distinct;
mod events;
mod grpc;
pub(crate) mod handshakes;
mod headers;
pub(crate) mod hold;
pub(crate) mod host_goal;
pub(crate) mod host_watch;
pub(crate) mod hosts;
mod http2;
pub(crate) mod in_turn;
pub(crate) mod inputs;
pub(crate) mod lab;
mod list;
pub(crate) mod live;
pub(crate) mod load;
mod mqtt;
mod outputs;
mod pacing;
mod parts;
mod protocol;
pub(crate) mod publish;
pub(crate) mod rfc9411;
pub(crate) mod rows;
mod script;
pub(crate) mod search;
pub(crate) mod serve;
pub(crate) mod sizing;
mod slurm;
mod sources;
pub(crate) mod storm;
mod targets;
#[cfg(test)]
pub(crate) mod tests;
mod tls;
pub(crate) mod tuned_proxy;
pub(crate) mod watch;

pub(crate) use destination::Destination;
pub(crate) use inputs::Inputs;

use connections::ConnectionsJob;
use hold::HoldJob;
use load::LoadJob;
use rfc9411::Rfc9411Job;
use search::{CauseTest, RateJob, SearchJob};
use storm::StormJob;

/// One experiment, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Job {
    /// A search over loads, for a rate of requests or of handshakes.
    Rate(RateJob),
    /// A search over levels of held connections.
    Connections(ConnectionsJob),
    /// A search over storms.
    Storm(StormJob),
    /// A number of connections, held.
    Hold(HoldJob),
    /// One test case of RFC 9411.
    Rfc9411(Rfc9411Job),
}

impl Job {
    /// Returns the load: requests and destination.
    pub(crate) fn load(&self) -> &LoadJob {
        match self {
            Self::Rate(job) => &job.load,
            Self::Connections(job) => &job.load,
            Self::Storm(job) => &job.load,
            Self::Hold(job) => &job.load,
            Self::Rfc9411(job) => &job.load,
        }
    }

    /// Returns [`Self::load`] mutably.
    pub(crate) fn load_mut(&mut self) -> &mut LoadJob {
        match self {
            Self::Rate(job) => &mut job.load,
            Self::Connections(job) => &mut job.load,
            Self::Storm(job) => &mut job.load,
            Self::Hold(job) => &mut job.load,
            Self::Rfc9411(job) => &mut job.load,
        }
    }

    /// Returns the search, if the job is one.
    pub(crate) fn search(&self) -> Option<&SearchJob> {
        match self {
            Self::Rate(job) => Some(&job.search),
            Self::Connections(job) => Some(&job.search),
            Self::Storm(job) => Some(&job.search),
            Self::Hold(_) | Self::Rfc9411(_) => None,
        }
    }

    /// Returns the value of --repeat, where it is given.
    pub(crate) fn repeat(&self) -> Option<u32> {
        self.search().and_then(|search| search.repeat)
    }
}

/// Checks and resolves the flags of `find`.
pub(crate) fn find(flags: &FindExperiment, inputs: &mut Inputs) -> Result<Job> {
    match flags {
        FindExperiment::Rate(ServerExperiment { kind, server, request, output, .. }) => {
            let to = Destination::named("plimsoll find rate", server, request);
            let job = search::rate(&kind.flags, &to, output, inputs)?;
            Ok(tested(job, kind.more, CauseTest::ByLoad))
        }
        FindExperiment::Deliveries(ServerExperiment { kind, server, request, output, .. }) => {
            let to = Destination::named("plimsoll find deliveries", server, request);
            hosts::check_none(&server.hosts, "find deliveries")?;
            search::deliveries(kind, &to, output, inputs).map(Job::Rate)
        }
        FindExperiment::Handshakes(ServerExperiment { kind, server, request, output, .. }) => {
            let request = RequestFlags { script: request.clone(), ..RequestFlags::default() };
            let to = Destination::named("plimsoll find handshakes", server, &request);
            let to = Destination { only_connects: true, ..to };
            let job = search::handshakes(&kind.flags, &to, output, inputs)?;
            Ok(tested(job, kind.more, CauseTest::ByLoad))
        }
        FindExperiment::Connections(ServerExperiment { kind, server, request, output, .. }) => {
            let to = Destination::named("plimsoll find connections", server, request);
            connections::plan(kind, &to, output, inputs).map(Job::Connections)
        }
        FindExperiment::Storm(ServerExperiment { kind, server, request, output, .. }) => {
            let to = Destination::named("plimsoll find storm", server, request);
            let may_be_remote = kind.more.yes_storm_remote;
            storm::plan(&kind.flags, may_be_remote, &to, output, inputs).map(Job::Storm)
        }
        FindExperiment::Rfc9411(ServerExperiment { kind, server, request, output, .. }) => {
            hosts::check_none(&server.hosts, "find rfc9411")?;
            refuse_if!(server.unix_socket.is_some();
                "find rfc9411 measures TCP connections, and --unix-socket names none";
                "drop it, or use find rate");
            let to = Destination::named("plimsoll find rfc9411", server, request);
            rfc9411::plan(kind, &to, output, inputs).map(Job::Rfc9411)
        }
    }
}

/// Returns a search for a rate that tests its cause in the way `by`, if `flags` ask for that.
fn tested(job: RateJob, flags: ConfirmFlags, by: CauseTest) -> Job {
    Job::Rate(RateJob { cause_test: flags.confirm_cause.then_some(by), ..job })
}

/// The limits of a server on another machine are not lowered from here.
const fn cause_test(to: &Destination) -> CauseTest {
    if to.is_far { CauseTest::ByLoad } else { CauseTest::ByServer }
}

/// Checks and resolves the flags of `lab` for the server that it will start at `to`.
pub(crate) fn lab(flags: &LabExperiment, to: &Destination, inputs: &mut Inputs) -> Result<Job> {
    match flags {
        LabExperiment::Rate(LabFlags { kind, request, output, .. }) => {
            let job = search::rate(&kind.flags, &to.with(request), output, inputs)?;
            Ok(tested(job, kind.more.confirm, cause_test(to)))
        }
        LabExperiment::Handshakes(LabFlags { kind, output, .. }) => {
            let job = search::handshakes(&kind.flags, to, output, inputs)?;
            Ok(tested(job, kind.more.confirm, cause_test(to)))
        }
        LabExperiment::Connections(LabFlags { kind, request, output, .. }) => {
            connections::plan(&kind.flags, &to.with(request), output, inputs).map(Job::Connections)
        }
        LabExperiment::Storm(LabFlags { kind, request, output, .. }) => {
            storm::plan(kind, false, &to.with(request), output, inputs).map(Job::Storm)
        }
        LabExperiment::Hold(LabFlags { kind, request, output, .. }) => {
            hold::plan(kind, &to.with(request), output, inputs).map(Job::Hold)
        }
        LabExperiment::Rfc9411(LabFlags { kind, request, output, .. }) => {
            rfc9411::plan_lab(kind, &to.with(request), output, inputs).map(Job::Rfc9411)
        }
    }
}
