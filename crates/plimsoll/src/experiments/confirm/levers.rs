//! The lever for each intervention on the server under test, its new value, and the predicted change of the capacity if
//! the cause is the limit.

use std::path::Path;

use plimsoll_capacity::diagnose::confirm::{DOSE, lowered};
use plimsoll_lab::{LabError, Lever, NewLimit, WatchedServer};
use plimsoll_model::cause::{Cause, Finding};
use plimsoll_model::confirmation::Intervention;
use plimsoll_probe::host::cpus_allowed;

use super::{Change, PlannedChange};
use crate::experiments::in_turn::{CpuUse, FinishedLoad};
use crate::kernel_files::PROC;

const NO_LIMIT: &str = "the server has no such limit";
/// Least share of a limit that must be left: a larger change would move the capacity whatever the limit is.
const LEFT_MIN: f64 = 0.6;

/// Returns the first intervention on the cause of `finding` that is possible here, from what the saturating load
/// `seen` used; else why none is.
pub(super) fn first_possible(
    finding: &Finding,
    seen: &FinishedLoad,
    server: &dyn WatchedServer,
) -> Result<PlannedChange, String> {
    let mut why = None;
    for intervention in finding.cause.interventions() {
        match plan(*intervention, finding, seen, server) {
            Ok(planned) => return Ok(planned),
            Err(error) => {
                why.get_or_insert_with(|| error.to_string());
            }
        }
    }
    Err(why.unwrap_or_else(|| {
        "no change of this resource can be made and undone while the server runs".to_owned()
    }))
}

fn plan(
    intervention: Intervention,
    finding: &Finding,
    seen: &FinishedLoad,
    server: &dyn WatchedServer,
) -> Result<PlannedChange, LabError> {
    match intervention {
        Intervention::ServerCpuQuota => server_quota(finding, seen, server),
        Intervention::ThreadCpuQuota => thread_quota(seen),
        Intervention::BackendCpuQuota => {
            let pids = server.backend_pids();
            let used = seen.backends.ok_or_else(|| not("the backends' CPU cannot be read"))?;
            quota(intervention, &pids, used, cpus(&pids))
        }
        Intervention::Maxconn
        | Intervention::ServerMaxconn
        | Intervention::SessionRate
        | Intervention::FewerBackends => of_server(intervention, server, &fewer),
        Intervention::Ports => ports(server),
        Intervention::AcceptQueue => accept_queue(server, &fewer),
        Intervention::RequestsPerConnection
        | Intervention::Resumption
        | Intervention::CertificateKey
        | Intervention::LoadConnections
        | Intervention::SourceAddresses
        | Intervention::BodySize => Err(not("this is a change of the load")),
    }
}

/// Returns a lever that doubles the same limit, if the running server's can be raised. HAProxy's global maxconn cannot,
/// and neither can what other processes or the machine have: CPUs, quotas, backends.
pub(super) fn raised(
    intervention: Intervention,
    server: &dyn WatchedServer,
) -> Result<PlannedChange, LabError> {
    let twice = |limit: u64| if limit > 0 { Ok(2 * limit) } else { Err(not(NO_LIMIT)) };
    match intervention {
        Intervention::Maxconn | Intervention::ServerMaxconn | Intervention::SessionRate => {
            of_server(intervention, server, &twice)
        }
        Intervention::AcceptQueue => accept_queue(server, &twice),
        _ => Err(not("it takes a restart, another machine or another process to raise it")),
    }
}

/// Returns a lever that lets the server accept `per_s` connections per second, if it has no limit on new ones.
pub(super) fn limited(per_s: u64, server: &dyn WatchedServer) -> Result<PlannedChange, LabError> {
    let to = |limit| match limit {
        0 => Ok(per_s),
        _ => Err(not("the server has a limit on new connections already")),
    };
    of_server(Intervention::SessionRate, server, &to)
}

fn of_server(
    intervention: Intervention,
    server: &dyn WatchedServer,
    to: NewLimit<'_>,
) -> Result<PlannedChange, LabError> {
    let (lever, from, to) = Lever::of_commands(server.statistics().as_ref(), intervention, to)?;
    Ok(planned(lever, intervention, from, to))
}

fn server_quota(
    finding: &Finding,
    seen: &FinishedLoad,
    server: &dyn WatchedServer,
) -> Result<PlannedChange, LabError> {
    let pids = server.pids();
    let capacity = match finding.cause {
        // What it uses is one CPU, whatever it may use.
        Cause::SerialisedProcess => 1.0,
        Cause::CpuQuota => {
            let quota = finding.evidence.iter().find_map(|evidence| evidence.limit);
            quota.ok_or_else(|| not("the quota is not known"))?
        }
        _ => cpus(&pids),
    };
    let used = seen.server_cpu().ok_or_else(|| not("the server's CPU cannot be read"))?;
    quota(Intervention::ServerCpuQuota, &pids, used, capacity)
}

fn quota(
    intervention: Intervention,
    pids: &[u32],
    used: CpuUse,
    capacity: f64,
) -> Result<PlannedChange, LabError> {
    let to = lowered(used.ran, used.ran + used.waited, capacity);
    let lever = Lever::quota(pids, to)?;
    Ok(lowered_to(lever, intervention, to, 1.0 - DOSE))
}

/// Plans a quota for the hot thread, which does its part of the work; the others continue.
fn thread_quota(seen: &FinishedLoad) -> Result<PlannedChange, LabError> {
    let (Some((pid, thread, used)), Some(all)) = (seen.busiest, seen.server_cpu()) else {
        return Err(not("the CPU of the server's threads cannot be read"));
    };
    let to = lowered(used, used, 1.0);
    let part = (used / all.ran).clamp(0.0, 1.0);
    let lever = Lever::thread_quota(pid, thread, to)?;
    Ok(lowered_to(lever, Intervention::ThreadCpuQuota, to, 1.0 - DOSE * part))
}

/// Returns a limit that is lowered by the usual part, to `to`.
fn lowered_to(
    lever: Lever,
    intervention: Intervention,
    to: f64,
    predicted_ratio: f64,
) -> PlannedChange {
    let (change, from) = (Change::Server(lever), to / (1.0 - DOSE));
    PlannedChange { change, intervention, from, to, left_ratio: None, predicted_ratio }
}

/// Returns CPUs that these processes may use.
fn cpus(pids: &[u32]) -> f64 {
    cpus_allowed(Path::new(PROC), pids).len().max(1) as f64
}

fn ports(server: &dyn WatchedServer) -> Result<PlannedChange, LabError> {
    let hosts = server.isolated().ok_or_else(|| {
        not("the ports are this host's; use --isolate netns, where the server has its own")
    })?;
    let (lever, from, to) = Lever::ports(hosts.sut.network, 1.0 - DOSE)?;
    Ok(planned(lever, Intervention::Ports, from.into(), to.into()))
}

fn accept_queue(server: &dyn WatchedServer, to: NewLimit<'_>) -> Result<PlannedChange, LabError> {
    let changed = |full: u32| Ok(u32::try_from(to(full.into())?).unwrap_or(full));
    let (lever, from, to) = Lever::accept_queues(&server.pids(), changed)?;
    Ok(planned(lever, Intervention::AcceptQueue, from.into(), to.into()))
}

fn planned(lever: Lever, intervention: Intervention, from: u64, to: u64) -> PlannedChange {
    let (from, to) = (from as f64, to as f64);
    let change = Change::Server(lever);
    PlannedChange { change, intervention, from, to, left_ratio: None, predicted_ratio: to / from }
}

/// Returns a whole number reduced by about a fifth, at least by one.
fn fewer(limit: u64) -> Result<u64, LabError> {
    if limit == 0 {
        return Err(not(NO_LIMIT));
    }
    let less = ((limit as f64 * (1.0 - DOSE)).round() as u64).min(limit.saturating_sub(1));
    if less as f64 >= LEFT_MIN * limit as f64 && less > 0 {
        Ok(less)
    } else {
        Err(not(&format!("{limit} less one would be a large change, which proves nothing")))
    }
}

fn not(why: &str) -> LabError {
    LabError::Lever(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_lowered_by_about_a_fifth() {
        for (limit, less) in [(3, 2), (4, 3), (5, 4), (10, 8), (731, 585)] {
            assert_eq!(fewer(limit).ok(), Some(less), "{limit}");
        }
        for limit in 0..3 {
            assert!(fewer(limit).is_err(), "{limit}");
        }
    }
}
