//! `plimsoll load` into a job: the plan for the agents, and the settings for the coordinator.
//!
//! [`assemble`] is common to all commands that make load: it takes the [`Parts`] that a command has chosen, checks
//! them, and returns a [`LoadJob`]. Cheap checks come first, then files, then names of servers, so that an error is
//! found early. `LoadJob::plan` is for the agents; the other fields stay with the coordinator. [`build`] is the entry
//! of `load`: it resolves the pacing and adds events and rows. Start with [`assemble`].

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use plimsoll_fleet::hosts::{Launcher, LoadHosts};
use plimsoll_model::Nanos;
use plimsoll_model::plan::{LoadPart, LoadPlan, Pacing, ProxyHeader, Timeouts};
use plimsoll_model::row::RowPlan;
use plimsoll_model::settings::Settings;
use plimsoll_model::slo::Slo;

use super::pacing::pacing;
use super::parts::Parts;
use super::publish::PublishJob;
use super::rows::RowJob;
use super::{
    Destination, Inputs, headers, hosts, http2, mqtt, outputs, publish, rows, sources, targets, tls,
};
use crate::exit::Result;
use crate::flags::LoadFlags;
use crate::flags::hosts::AgentLossFlag;
use crate::flags::shared::{EventFlags, OutputFlags, ServerFlags};
use crate::flags::values::Processes;

/// Default of `--connections`.
pub(super) const CONNECTIONS_DEFAULT: u64 = 100;

/// One load, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadJob {
    /// The whole load.
    pub(crate) plan: LoadPlan,
    /// Objectives that decide between exit codes 0 and 99.
    pub(crate) slo: Option<Slo>,
    /// Agents to spread it over; never more than connections.
    pub(crate) processes: Processes,
    /// Other hosts that make it; `None`: this one does.
    pub(crate) hosts: Option<LoadHosts>,
    /// Threads on each host that names none itself; `None` for one per CPU.
    pub(crate) threads_each: Option<u32>,
    /// The loss of an agent ends a load.
    pub(crate) stops_at_loss: bool,
    /// Output of the archive and the summary, and their display.
    pub(crate) output: OutputFlags,
    /// Files of rows of single operations.
    pub(crate) rows: Option<RowJob>,
    /// Receivers of figures during the run.
    pub(crate) publish: PublishJob,
    /// Settings that `plan` does not have.
    pub(crate) settings: Settings,
    /// Name of the target in reports.
    pub(crate) target_name: String,
    /// Every server has an address of this host.
    pub(crate) both_ends_here: bool,
    /// First of the addresses that clients have without naming them, as on loopback; `None` if there are none.
    pub(crate) free_sources: Option<Ipv4Addr>,
    /// Events during the load.
    pub(crate) events: EventFlags,
}

impl LoadJob {
    /// Gives the clients `count` addresses, where they have many and none was named.
    pub(crate) fn spread(&mut self, count: u32) {
        if let Some(first) = self.free_sources.filter(|_| self.plan.sources.is_empty()) {
            let first = u32::from(first);
            self.plan.sources =
                (first..first + count).map(|bits| Ipv4Addr::from(bits).into()).collect();
        }
    }
}

/// Checks and resolves the flags of `load`.
pub(crate) fn build(flags: &LoadFlags, inputs: &mut Inputs) -> Result<LoadJob> {
    let (pacing, rate) = pacing(&flags.pace)?;
    let ops_total = match &pacing {
        Pacing::Open { profile, .. } => Some(profile.ops_total),
        Pacing::Closed { ops_total, .. } => *ops_total,
        Pacing::Hold(_) => None,
    };
    let slo = flags.pace.slo.clone();
    check_handshake_only(flags)?;
    let parts = Parts {
        to: &Destination {
            only_connects: flags.handshake_only,
            ..Destination::named("plimsoll load", &flags.server, &flags.request)
        },
        pool: &flags.pool,
        client: &flags.client,
        handshake: &flags.handshake,
        resume: flags.resume,
        output: &flags.output,
        pacing,
        ops_total,
        deadline: flags.pace.deadline.or_else(|| slo.as_ref().and_then(Slo::deadline)),
        slo,
        linger: flags.pace.linger,
        seed: flags.pace.seed,
    };
    let mut job = assemble(parts, inputs)?;
    flags.events.check_load()?;
    job.events = flags.events.clone();
    if flags.handshake_only {
        job.plan.handshake_only = true;
        job.plan.keepalive = false;
        job.plan.prewarm = false;
    }
    job.settings.rate = rate;
    job.settings.slo.clone_from(&job.slo);
    job.rows = rows::plan(&flags.rows, &job.plan.pacing, job.plan.targets.len())?;
    if let Some(RowJob { place, every, .. }) = &job.rows {
        outputs::check_rows(place, &flags.output)?;
        job.plan.rows = Some(RowPlan { every: *every });
    }
    Ok(job)
}

/// Puts a job together. Cheap checks come first, then files, then names.
pub(super) fn assemble(parts: Parts<'_>, inputs: &mut Inputs) -> Result<LoadJob> {
    let Parts { to, pool, client, output, .. } = parts;
    check_waits(parts.deadline, parts.linger)?;
    check_request_source(to)?;
    check_answers(&parts)?;
    let (connections, threads) = workers(&parts, inputs)?;
    let named = if to.is_far { "--clients" } else { "--hosts" };
    let hosts = hosts::hosts(&to.server.hosts, named, client, inputs)?;
    check_hosts_have_connections(hosts.as_ref(), connections)?;
    outputs::check(output)?;
    let tls = tls::options(to, parts.handshake, parts.resume)?;
    let targets = targets::targets(to, inputs)?;
    let keepalive = headers::keepalive(&targets, &parts)?;
    let mqtt = mqtt::plan(&targets, &parts, connections, inputs)?;
    let unix_socket = to.server.unix_socket.as_deref();
    check_unix_socket(unix_socket)?;
    let mut servers = targets::servers(&targets, &to.server, inputs)?;
    let sources = sources::addresses(&client.source);
    sources::check_owned(&sources, inputs)?;
    sources::keep_reachable(&mut servers.destinations, &sources)?;
    let addresses = || servers.destinations.iter().flat_map(|server| &server.addresses);
    let is_here = |a: &SocketAddr| a.ip().is_loopback() || (inputs.owns)(a.ip());
    check_hosts_reach(hosts.as_ref(), addresses().all(|a| a.ip().is_loopback()))?;
    let is_ours = hosts.is_none();
    let is_lab_here = to.is_laboratory() && !to.is_far;
    let both_ends_here = is_ours && (is_lab_here || addresses().all(is_here));
    let has_ports = is_ours && unix_socket.is_none();
    let is_loopback = has_ports && addresses().all(|a| a.is_ipv4() && a.ip().is_loopback());
    let free_sources = to.sources.or_else(|| is_loopback.then_some(Ipv4Addr::LOCALHOST));
    Ok(LoadJob {
        target_name: targets::name(&targets),
        both_ends_here,
        free_sources,
        events: EventFlags::default(),
        settings: Settings {
            source_ranges: client.source.iter().map(ToString::to_string).collect(),
            proxy_source: to.server.proxy_source.map(|range| range.to_string()),
            refused: servers.refused,
            hosts: hosts.as_ref().map(hosts::name),
            ..Settings::default()
        },
        plan: LoadPlan {
            targets,
            target_destination: servers.target_destination,
            destinations: servers.destinations,
            unix_socket: unix_socket.map(Path::to_owned),
            pacing: parts.pacing,
            connections,
            keepalive,
            handshake_only: false,
            requests_per_connection: pool.requests_per_connection,
            staggered: false,
            session: None,
            // A pool that is opened during the run would add latency to its first second.
            prewarm: keepalive,
            timeouts: Timeouts {
                deadline: parts.deadline,
                linger: parts.linger,
                connect: client.connect_timeout,
            },
            tls,
            sources,
            threads,
            cpus: Vec::new(),
            seed: parts.seed,
            part: LoadPart::WHOLE,
            abort_bad_ops: None,
            rows: None,
            mqtt,
            proxy: proxy(&to.server),
            http2: http2::plan(&to.request),
        },
        rows: None,
        slo: parts.slo,
        processes: client.processes,
        hosts,
        threads_each: client.threads,
        stops_at_loss: to.server.hosts.on_agent_loss == Some(AgentLossFlag::Stop),
        output: output.clone(),
        publish: publish::of_output(output, inputs)?,
    })
}

/// Returns the size of the connection pool, and the threads of a process.
fn workers(parts: &Parts<'_>, inputs: &Inputs) -> Result<(u64, u32)> {
    let Parts { to, pool, client, ops_total, .. } = parts;
    refuse_if!(pool.no_keepalive && pool.requests_per_connection.is_some_and(|requests| requests > 1);
        "--no-keepalive closes after one request, --requests-per-connection later";
        "drop one of them");
    let default = match http2::is_asked(&to.request) {
        true => http2::CONNECTIONS_DEFAULT,
        false => CONNECTIONS_DEFAULT,
    };
    // An explicit number is opened; the default is lowered to the number of requests.
    let connections =
        pool.connections.unwrap_or_else(|| default.min(ops_total.unwrap_or(u64::MAX)).max(1));
    let needs_more = |flag: &str, workers: u32| {
        refuse!("{flag} {workers} share {connections} connections";
            "give --connections {workers} or more, or a smaller {flag}")
    };
    let shared_by = match client.processes {
        Processes::Exactly(count) if u64::from(count) > connections => {
            return needs_more("--processes", count);
        }
        Processes::Exactly(count) => count,
        Processes::Auto => 1,
    };
    let threads = match client.threads {
        Some(count) if u64::from(count) > connections => {
            return needs_more("--threads", count);
        }
        Some(count) => count,
        None => {
            let share = u32::try_from(connections).unwrap_or(u32::MAX) / shared_by;
            inputs.threads_default(shared_by).min(share.max(1))
        }
    };
    Ok((connections, threads))
}

/// The kernel's limit on the path of a Unix socket, its end included.
const UNIX_PATH_MAX: usize = 108;

fn check_unix_socket(path: Option<&Path>) -> Result<()> {
    let bytes = path.map_or(0, |path| path.as_os_str().len());
    refuse_if!(bytes >= UNIX_PATH_MAX;
        "--unix-socket: a path of {bytes} bytes";
        "the kernel's limit is {}: name it from its folder", UNIX_PATH_MAX - 1);
    Ok(())
}

fn check_waits(deadline: Option<Nanos>, linger: Nanos) -> Result<()> {
    refuse_if!(deadline.is_none() && linger == Nanos::ZERO;
        "--linger 0 without a deadline waits for no answer";
        "give --deadline 1s, or a longer --linger");
    Ok(())
}

/// Checks that each host gets a connection: each makes a part of the load.
fn check_hosts_have_connections(hosts: Option<&LoadHosts>, connections: u64) -> Result<()> {
    let count = hosts.map_or(0, |hosts| hosts.hosts.len());
    refuse_if!(count as u64 > connections;
        "{count} hosts share {connections} connections";
        "give --connections {count} or more, or fewer hosts");
    Ok(())
}

/// Refuses a server on loopback with other hosts, whose loopback addresses are other servers.
fn check_hosts_reach(hosts: Option<&LoadHosts>, is_loopback: bool) -> Result<()> {
    // Hosts of another launcher, and agents that connect by themselves, may be this host.
    let is_elsewhere =
        |hosts: &LoadHosts| !matches!(hosts.launcher, Launcher::Other(_) | Launcher::Joined(_));
    refuse_if!(is_loopback && hosts.is_some_and(is_elsewhere);
        "the URL names loopback, which is each of these hosts itself";
        "name an address of the server that they reach");
    Ok(())
}

/// Refuses `--method` with `--targets` before any file is read.
fn check_request_source(to: &Destination) -> Result<()> {
    refuse_if!(to.server.targets.is_some() && to.request.method.is_some();
        "--targets names the method of each request, and --method another"; "drop --method");
    Ok(())
}

/// Without messages of ours, none of the server's is an answer.
fn check_answers(parts: &Parts<'_>) -> Result<()> {
    let why = match parts.pacing {
        _ if parts.to.only_connects => "--handshake-only sends no messages",
        Pacing::Hold(_) => "the heartbeats of held WebSockets are pings, which pongs answer",
        _ => return Ok(()),
    };
    if let Some(flag) = parts.to.request.websocket.first_of_answers() {
        refuse!("{flag} is about answers to messages"; "drop it: {why}");
    }
    Ok(())
}

/// Refuses flags that describe a request with --handshake-only, which sends none.
fn check_handshake_only(flags: &LoadFlags) -> Result<()> {
    let request = &flags.request;
    let described = [
        ("--requests-per-connection", flags.pool.requests_per_connection.is_some()),
        ("--method", request.method.is_some()),
        ("--header", !request.header.headers.is_empty()),
        ("--body", request.body.is_some()),
        ("--data", request.data.is_some()),
        ("--rows", flags.rows.rows.is_some()),
    ];
    if let Some((flag, _)) = described.iter().find(|(_, given)| *given && flags.handshake_only) {
        refuse!("--handshake-only sends no request, and {flag} is about requests";
            "drop one of them");
    }
    Ok(())
}

/// Returns the headers of the PROXY protocol; `None` if none were asked for.
fn proxy(flags: &ServerFlags) -> Option<ProxyHeader> {
    flags.proxy_protocol?;
    let id_prefix = format!("plimsoll-{:x}-", std::process::id());
    Some(ProxyHeader { sources: flags.proxy_source.map(|range| range.range()), id_prefix })
}
