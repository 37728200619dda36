//! Which lever an intervention is on the server under test, how far it is moved, and what that does to the
//! capacity if the cause is the limit.

use std::path::Path;

use plimsoll_capacity::diagnose::confirm::{DOSE, lowered};
use plimsoll_lab::{LabError, Lever, WatchedServer};
use plimsoll_model::cause::{Cause, Finding};
use plimsoll_model::confirmation::Intervention;
use plimsoll_model::host::{LimitKind, LimitUse};
use plimsoll_probe::haproxy_socket::HaproxySocket;
use plimsoll_probe::host::cpus_allowed;
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_probe::server_limits;

use super::{Change, PlannedChange};
use crate::experiments::in_turn::{CpuUse, Load};
use crate::kernel_files::PROC;

/// Least share of a limit that must be left: a larger change would move the capacity whatever the limit is.
const LEFT_MIN: f64 = 0.6;

/// The new value of a limit.
type To = fn(u64) -> Result<u64, LabError>;

/// The first intervention on the cause of `finding` that is possible here, from what the saturating load
/// `seen` used; else why none is.
pub(super) fn first_possible(
    finding: &Finding,
    seen: &Load,
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
    seen: &Load,
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
        Intervention::Maxconn => maxconn(server, fewer),
        Intervention::ServerMaxconn => server_maxconn(server, fewer),
        Intervention::SessionRate => session_rate(server, fewer),
        Intervention::FewerBackends => fewer_backends(server),
        Intervention::Ports => ports(server),
        Intervention::AcceptQueue => accept_queue(server, fewer),
        Intervention::RequestsPerConnection
        | Intervention::Resumption
        | Intervention::CertificateKey
        | Intervention::LoadConnections
        | Intervention::SourceAddresses
        | Intervention::BodySize => Err(not("this is a change of the load")),
    }
}

/// Returns a lever that doubles the same limit, if the running server's can be raised. HAProxy's global maxconn cannot, and neither
/// can what other processes or the machine have: CPUs, quotas, backends.
pub(super) fn raised(
    intervention: Intervention,
    server: &dyn WatchedServer,
) -> Result<PlannedChange, LabError> {
    let twice = |limit: u64| Ok(2 * limit);
    match intervention {
        Intervention::Maxconn => maxconn(server, twice),
        Intervention::ServerMaxconn => server_maxconn(server, twice),
        Intervention::SessionRate => session_rate(server, twice),
        Intervention::AcceptQueue => accept_queue(server, twice),
        _ => Err(not("it takes a restart, another machine or another process to raise it")),
    }
}

/// Returns a lever that lets HAProxy accept `per_s` connections per second, where it has no limit on new ones.
pub(super) fn limited(per_s: u64, server: &dyn WatchedServer) -> Result<PlannedChange, LabError> {
    let socket = socket(server)?;
    let is_limited = session_limits(&server_limits::read_rates(&socket)).next().is_some();
    if is_limited {
        return Err(not("HAProxy has a rate limit already"));
    }
    let command = |value: u64| vec![format!("set rate-limit connections global {value}")];
    let lever = Lever::haproxy(&socket, command(per_s), command(0));
    Ok(planned(lever, Intervention::SessionRate, 0, per_s))
}

fn server_quota(
    finding: &Finding,
    seen: &Load,
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

/// The hot thread does its part of the work; the others go on.
fn thread_quota(seen: &Load) -> Result<PlannedChange, LabError> {
    let (Some((pid, thread, used)), Some(all)) = (seen.busiest, seen.server_cpu()) else {
        return Err(not("the CPU of the server's threads cannot be read"));
    };
    let to = lowered(used, used, 1.0);
    let part = (used / all.ran).clamp(0.0, 1.0);
    let lever = Lever::thread_quota(pid, thread, to)?;
    Ok(lowered_to(lever, Intervention::ThreadCpuQuota, to, 1.0 - DOSE * part))
}

/// A limit that is lowered by the usual part, to `to`.
fn lowered_to(
    lever: Lever,
    intervention: Intervention,
    to: f64,
    predicted_ratio: f64,
) -> PlannedChange {
    let (change, from) = (Change::Server(lever), to / (1.0 - DOSE));
    PlannedChange { change, intervention, from, to, left_ratio: None, predicted_ratio }
}

/// CPUs that these processes may use.
fn cpus(pids: &[u32]) -> f64 {
    cpus_allowed(Path::new(PROC), pids).len().max(1) as f64
}

fn maxconn(server: &dyn WatchedServer, to: To) -> Result<PlannedChange, LabError> {
    let socket = socket(server)?;
    let of_clients = |limit: LimitUse| {
        let of = match (limit.id.kind, limit.id.scope) {
            (LimitKind::Maxconn, _) => "global".to_owned(),
            (LimitKind::FrontendMaxconn, Some(frontend)) => format!("frontend {frontend}"),
            _ => return None,
        };
        Some((limit.max as u64, of))
    };
    let lowest = server.limits().into_iter().filter_map(of_clients).min_by_key(|(max, _)| *max);
    let (limit, of) = lowest.ok_or_else(|| not("HAProxy reports no maxconn"))?;
    let to = to(limit)?;
    let command = |value: u64| vec![format!("set maxconn {of} {value}")];
    let lever = Lever::haproxy(&socket, command(to), command(limit));
    Ok(planned(lever, Intervention::Maxconn, limit, to))
}

fn server_maxconn(server: &dyn WatchedServer, to: To) -> Result<PlannedChange, LabError> {
    let socket = socket(server)?;
    let (mut change, mut restore, mut before, mut after) = (Vec::new(), Vec::new(), 0, 0);
    for LimitUse { id, max, .. } in server_limits::read_rates(&socket) {
        let (LimitKind::ServerMaxconn, Some(name)) = (id.kind, id.scope) else { continue };
        let limit = max as u64;
        let changed = to(limit)?;
        change.push(format!("set maxconn server {name} {changed}"));
        restore.push(format!("set maxconn server {name} {limit}"));
        (before, after) = (before + limit, after + changed);
    }
    if change.is_empty() {
        return Err(not("no server behind HAProxy has a maxconn"));
    }
    let lever = Lever::haproxy(&socket, change, restore);
    Ok(planned(lever, Intervention::ServerMaxconn, before, after))
}

/// The limits of the process, which commands change; that of a frontend, which none changes, is lowered by
/// one of the process below it.
fn session_rate(server: &dyn WatchedServer, to: To) -> Result<PlannedChange, LabError> {
    let socket = socket(server)?;
    let all = server_limits::read_rates(&socket);
    let of_process =
        |kind| all.iter().find(|limit| limit.id.kind == kind).map(|limit| limit.max as u64);
    let (from, (what, own)) = session_limits(&all)
        .min_by_key(|(limit, _)| *limit)
        .ok_or_else(|| not("HAProxy has no rate limit"))?;
    let to = to(from)?;
    if to > from && of_process(own) != Some(from) {
        return Err(not("a frontend's rate limit is only changed by its configuration"));
    }
    let command = |value: u64| vec![format!("set rate-limit {what} global {value}")];
    // 0 is no limit.
    let lever = Lever::haproxy(&socket, command(to), command(of_process(own).unwrap_or(0)));
    Ok(planned(lever, Intervention::SessionRate, from, to))
}

/// Limits on new connections: each with the words of the command that changes it, and the kind of limit that this command sets.
fn session_limits(all: &[LimitUse]) -> impl Iterator<Item = (u64, (&'static str, LimitKind))> + '_ {
    let command_of = |kind| match kind {
        LimitKind::ConnectionRate => Some(("connections", kind)),
        LimitKind::TlsRate => Some(("ssl-sessions", kind)),
        LimitKind::SessionRate | LimitKind::FrontendRate => {
            Some(("sessions", LimitKind::SessionRate))
        }
        _ => None,
    };
    all.iter().filter_map(move |limit| Some((limit.max as u64, command_of(limit.id.kind)?)))
}

fn fewer_backends(server: &dyn WatchedServer) -> Result<PlannedChange, LabError> {
    let socket = socket(server)?;
    let servers = server_limits::haproxy_servers(&socket);
    let from = servers.len() as u64;
    let to = fewer(from).map_err(|_| {
        not(&format!("one of {from} backends less would be a large change; use --backends 4"))
    })?;
    let states = |state: &str| -> Vec<String> {
        let out = servers.iter().skip(to as usize);
        out.map(|name| format!("set server {name} state {state}")).collect()
    };
    let lever = Lever::haproxy(&socket, states("maint"), states("ready"));
    Ok(planned(lever, Intervention::FewerBackends, from, to))
}

fn ports(server: &dyn WatchedServer) -> Result<PlannedChange, LabError> {
    let hosts = server.isolated().ok_or_else(|| {
        not("the ports are this host's; use --isolate netns, where the server has its own")
    })?;
    let (lever, from, to) = Lever::ports(hosts.sut.network, 1.0 - DOSE)?;
    Ok(planned(lever, Intervention::Ports, from.into(), to.into()))
}

fn accept_queue(server: &dyn WatchedServer, to: To) -> Result<PlannedChange, LabError> {
    let changed = |full: u32| Ok(u32::try_from(to(full.into())?).unwrap_or(full));
    let (lever, from, to) = Lever::accept_queues(&server.pids(), changed)?;
    Ok(planned(lever, Intervention::AcceptQueue, from.into(), to.into()))
}

fn planned(lever: Lever, intervention: Intervention, from: u64, to: u64) -> PlannedChange {
    let (from, to) = (from as f64, to as f64);
    let change = Change::Server(lever);
    PlannedChange { change, intervention, from, to, left_ratio: None, predicted_ratio: to / from }
}

/// About a fifth less of a whole number, at least one.
fn fewer(limit: u64) -> Result<u64, LabError> {
    let less = ((limit as f64 * (1.0 - DOSE)).round() as u64).min(limit.saturating_sub(1));
    if less as f64 >= LEFT_MIN * limit as f64 && less > 0 {
        Ok(less)
    } else {
        Err(not(&format!("{limit} less one would be a large change, which proves nothing")))
    }
}

fn socket(server: &dyn WatchedServer) -> Result<HaproxySocket, LabError> {
    match server.statistics() {
        Some(CounterSource::Haproxy(socket)) => Ok(socket),
        _ => Err(not("the server is no HAProxy with one process, whose settings can be changed")),
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
