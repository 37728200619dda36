//! Limits of a running HAProxy that commands at HAProxy's statistics socket change.
//!
//! `lever` dispatches on the intervention. Each function reads the current limit over the socket, asks the caller's
//! `NewLimit` for the new value, and returns a `Lever` with the commands that set and restore it, plus both values.
//! Nothing is changed before the lever is used. The `maxconn` that is changed is the lowest of process and frontends.
//! A frontend's session rate has no command, so the limit of the process takes its place. Start reading at `lever`.

use plimsoll_model::confirmation::Intervention;
use plimsoll_model::host::{LimitKind, LimitUse};
use plimsoll_probe::haproxy_socket::HaproxySocket;
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_probe::server_limits;

use crate::error::Result;
use crate::lever::{Lever, Moved, NewLimit, impossible};

/// Returns the lever of an intervention on the HAProxy behind `socket`.
pub(crate) fn lever(
    socket: &HaproxySocket,
    intervention: Intervention,
    to: NewLimit<'_>,
) -> Result<Moved> {
    match intervention {
        Intervention::Maxconn => maxconn(socket, to),
        Intervention::ServerMaxconn => server_maxconn(socket, to),
        Intervention::SessionRate => session_rate(socket, to),
        Intervention::FewerBackends => fewer_backends(socket, to),
        _ => Err(impossible("no command of HAProxy changes this limit")),
    }
}

fn maxconn(socket: &HaproxySocket, to: NewLimit<'_>) -> Result<Moved> {
    let of_clients = |limit: LimitUse| {
        let of = match (limit.id.kind, limit.id.scope) {
            (LimitKind::Maxconn, _) => "global".to_owned(),
            (LimitKind::FrontendMaxconn, Some(frontend)) => format!("frontend {frontend}"),
            _ => return None,
        };
        Some((limit.max as u64, of))
    };
    let all = server_limits::read(&CounterSource::Haproxy(socket.clone()));
    let lowest = all.into_iter().filter_map(of_clients).min_by_key(|(max, _)| *max);
    let (limit, of) = lowest.ok_or_else(|| impossible("HAProxy reports no maxconn"))?;
    let to = to(limit)?;
    let command = |value: u64| vec![format!("set maxconn {of} {value}")];
    Ok((Lever::commands(socket, command(to), command(limit)), limit, to))
}

fn server_maxconn(socket: &HaproxySocket, to: NewLimit<'_>) -> Result<Moved> {
    let (mut change, mut restore, mut before, mut after) = (Vec::new(), Vec::new(), 0, 0);
    for LimitUse { id, max, .. } in server_limits::read_rates(socket) {
        let (LimitKind::ServerMaxconn, Some(name)) = (id.kind, id.scope) else { continue };
        let limit = max as u64;
        let changed = to(limit)?;
        change.push(format!("set maxconn server {name} {changed}"));
        restore.push(format!("set maxconn server {name} {limit}"));
        (before, after) = (before + limit, after + changed);
    }
    if change.is_empty() {
        return Err(impossible("no server behind HAProxy has a maxconn"));
    }
    Ok((Lever::commands(socket, change, restore), before, after))
}

/// Creates a lever on the lowest rate limit. Commands change only limits of the process, so the limit of a frontend is
/// lowered by a lower limit of the process. Without any limit, the limit of connections is set.
fn session_rate(socket: &HaproxySocket, to: NewLimit<'_>) -> Result<Moved> {
    let all = server_limits::read_rates(socket);
    let of_process =
        |kind| all.iter().find(|limit| limit.id.kind == kind).map(|limit| limit.max as u64);
    let lowest = session_limits(&all).min_by_key(|(limit, _)| *limit);
    let (from, (name, own)) = lowest.unwrap_or((0, ("connections", LimitKind::ConnectionRate)));
    let to = to(from)?;
    if from > 0 && to > from && of_process(own) != Some(from) {
        return Err(impossible("a frontend's rate limit is only changed by its configuration"));
    }
    let command = |value: u64| vec![format!("set rate-limit {name} global {value}")];
    // 0 is no limit.
    let restore = command(of_process(own).unwrap_or(0));
    Ok((Lever::commands(socket, command(to), restore), from, to))
}

/// Limits on new connections: each with the words of the command that changes it, and the kind of limit that this
/// command sets.
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

fn fewer_backends(socket: &HaproxySocket, to: NewLimit<'_>) -> Result<Moved> {
    let servers = server_limits::haproxy_servers(socket);
    let from = servers.len() as u64;
    let to = to(from).map_err(|_| {
        let why = "backends less would be a large change; use --backends 4";
        impossible(&format!("one of {from} {why}"))
    })?;
    let states = |state: &str| -> Vec<String> {
        let out = servers.iter().skip(to as usize);
        out.map(|name| format!("set server {name} state {state}")).collect()
    };
    Ok((Lever::commands(socket, states("maint"), states("ready")), from, to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_haproxy::ScriptedHaproxy;

    /// Returns the values of a lever on the session rate and its commands, if HAProxy answers `show info` with `answer`.
    fn moved_session_rate(answer: fn(&str) -> &'static str, to: u64) -> (u64, u64, Vec<String>) {
        let haproxy = ScriptedHaproxy::start(4, answer);
        let (mut lever, from, to) =
            lever(&haproxy.socket(), Intervention::SessionRate, &|_| Ok(to)).expect("a lever");
        lever.set(true).expect("changed");
        drop(lever);
        (from, to, haproxy.commands().split_off(2))
    }

    #[test]
    fn the_lowest_limit_on_sessions_moves_or_connections_get_one() {
        let commands = |name: &str, values: [u64; 2]| -> Vec<String> {
            values.iter().map(|value| format!("set rate-limit {name} global {value}")).collect()
        };
        let limited = |line: &str| match line {
            "show info" => "ConnRate: 1\nConnRateLimit: 90\nSessRate: 1\nSessRateLimit: 60\n",
            _ => "\n",
        };
        assert_eq!(moved_session_rate(limited, 48), (60, 48, commands("sessions", [48, 60])));
        let free = |line: &str| match line {
            "show info" => "ConnRate: 1\nConnRateLimit: 0\nSessRate: 1\nSessRateLimit: 0\n",
            _ => "\n",
        };
        assert_eq!(moved_session_rate(free, 50), (0, 50, commands("connections", [50, 0])));
    }
}
