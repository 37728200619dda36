//! The check, before the first packet, whether each limit of this host allows the planned connections.
//!
//! This module lists the processes to run here and decides how the command continues; [`Needs`] has the arithmetic.
//! Pure but for [`host_limits`]; a refusal is [`Stop::TooMany`].

use std::path::Path;

use plimsoll_lab::describe;
use plimsoll_model::SutKind;
use plimsoll_model::units::grouped;
use plimsoll_probe::limits::HostLimits;
use plimsoll_sys::limits::raise_descriptor_limit;
use plimsoll_tune::doctor::{Hop, Need, Needs, PROXY_BYTES, Part, Processes, Shape, Verdict};

use crate::exit::{Result, Stop};
use crate::flags::values;
use crate::plan::load::LoadJob;

/// Memory of our client for one held TLS connection, bytes.
pub(crate) const CLIENT_BYTES: u64 = 450;
/// Memory of our server for one held TLS connection, bytes; other servers need more.
pub(crate) const SERVER_BYTES: u64 = 600;
/// Ports in the kernel's default `ip_local_port_range`, 32768 to 60999, where it cannot be read.
const PORTS_DEFAULT: u64 = 28_232;

/// Fraction of each source address's ports that is planned with; other programs use some.
const PORT_FILL: f64 = 0.8;
/// Above this fraction of one address's ports, clients use more addresses.
const ONE_SOURCE_FILL: f64 = 0.5;

/// The server that accepts the connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// An existing server on another host.
    Elsewhere,
    /// An existing server on this host; its needs are estimated like the needs of `plimsoll serve`.
    Running,
    /// The laboratory's.
    Laboratory(SutKind),
}

impl Server {
    /// Returns its processes on this host. The backends behind a proxy are not among them: an idle client
    /// keeps no connection to a backend, so a few are shared by all.
    fn part(&self) -> Option<Part> {
        let serve = Part::servers(SERVER_BYTES);
        let proxy = Part { sockets: 1, ..Part::proxy(PROXY_BYTES, Processes::AtLeast(1)) };
        match self {
            Self::Elsewhere => None,
            Self::Running => Some(Part { processes: Processes::Running, ..serve }),
            Self::Laboratory(kind) => {
                let kind = describe(*kind);
                let part = if kind.is_proxy() { proxy } else { serve };
                Some(Part { is_privileged: kind.keeps_privileges, ..part })
            }
        }
    }
}

/// Returns this host's limits; the limits of descriptors are the ones that agents get.
pub(crate) fn host_limits() -> HostLimits {
    HostLimits {
        // Less than the hard limit where that is "unlimited".
        descriptors_per_process: Some(raise_descriptor_limit()),
        ..HostLimits::read(Path::new("/"))
    }
}

/// Returns the number of ports of one address that connections may come from.
pub(crate) fn ports_per_source(limits: &HostLimits) -> u64 {
    limits.ports_per_source.unwrap_or(PORTS_DEFAULT)
}

/// Gives a hold as many source addresses as its connections need, where clients have many. Elsewhere,
/// one address is what the kernel chooses, and more must be named.
pub(crate) fn spread_sources(job: &mut LoadJob, limits: &HostLimits) {
    let plan = &job.plan;
    // The same port reaches each of them.
    let destinations = plan.destinations.iter().flat_map(|server| &server.addresses).count().max(1);
    let ports = ports_per_source(limits) as f64 * destinations as f64;
    let connections = plan.connections as f64;
    if connections > ports * ONE_SOURCE_FILL {
        job.spread((connections / (ports * PORT_FILL)).ceil().max(1.0) as u32);
    }
}

/// Returns the processes of this host for `job`, of whose connections `opening_max` are opened at once.
pub(crate) fn shape(job: &LoadJob, opening_max: u32, server: &Server) -> Shape {
    let plan = &job.plan;
    let destinations: usize = plan.destinations.iter().map(|server| server.addresses.len()).sum();
    // None named is one: the kernel's choice.
    let sources = (plan.sources.len() as u64).max(1);
    let mut shape = clients(plan.connections, opening_max.into(), sources, destinations);
    shape.parts[0].processes = match job.processes {
        values::Processes::Auto => Processes::AtLeast(1),
        values::Processes::Exactly(count) => Processes::Exactly(u64::from(count)),
    };
    shape.parts.extend(server.part());
    // Connections to a Unix socket have no ports.
    if plan.unix_socket.is_some() {
        shape.hops.clear();
    }
    shape.memory_is_watched = matches!(server, Server::Laboratory(_));
    shape
}

/// Returns the clients of a hold alone, from `sources` addresses to `destinations` others.
pub(crate) fn clients(
    connections: u64,
    opening_max: u64,
    sources: u64,
    destinations: usize,
) -> Shape {
    let clients = Part::clients(CLIENT_BYTES);
    let hop = Hop {
        name: clients.name.clone(),
        sources: Some(sources),
        destinations: destinations as u64,
        by_kernel: false,
    };
    Shape {
        connections,
        parts: vec![clients],
        hops: vec![hop],
        opening_max,
        opened_per_s: 0,
        // A hold ends that way.
        closes_by_reset: true,
        memory_is_watched: false,
    }
}

/// The connections that this host can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fit {
    /// Connections to hold.
    pub(crate) connections: u64,
    /// Notes on limits that may be reached.
    pub(crate) notes: Vec<String>,
}

/// Returns the connections that this host can hold: all of `shape`, or with `up_to` as many as fit. Refused
/// otherwise, with every limit that is too low.
pub(crate) fn check(shape: &Shape, limits: &HostLimits, up_to: bool) -> Result<Fit> {
    let asked = shape.connections;
    let needs = Needs::of(shape, limits);
    if needs.are_met() {
        return Ok(Fit { connections: asked, notes: warnings(&needs).collect() });
    }
    let fits = needs.fits();
    if up_to && fits > 0 {
        let lowered = Needs::of(&Shape { connections: fits, ..shape.clone() }, limits);
        let first =
            format!("this host can hold {} of {} connections", grouped(fits), grouped(asked));
        let notes = std::iter::once(first).chain(warnings(&lowered)).collect();
        return Ok(Fit { connections: fits, notes });
    }
    let mut lines = vec![format!(
        "this host cannot hold {} connections; it can hold {}{}",
        grouped(asked),
        grouped(fits),
        if fits > 0 { "; --up-to holds as many" } else { "" }
    )];
    lines.extend(needs.short().map(ToString::to_string));
    Err(Stop::TooMany(lines))
}

/// Returns the highest level of a search that this host can hold, at most `shape.connections`, and the
/// limit that prevents a higher one. Refused where not even `lowest` fits.
pub(crate) fn highest(
    shape: &Shape,
    limits: &HostLimits,
    lowest: u64,
) -> Result<(u64, Option<String>)> {
    let needs = Needs::of(shape, limits);
    if needs.are_met() {
        return Ok((shape.connections, None));
    }
    let fits = needs.fits();
    if fits < lowest {
        let least = Shape { connections: lowest, ..shape.clone() };
        return check(&least, limits, false).map(|fit| (fit.connections, None));
    }
    let first = needs.short().find(|need| need.fits == fits).or_else(|| needs.short().next());
    let fix =
        |need: &Need| need.fix.as_ref().map_or_else(String::new, |fix| format!("; {}", fix.now));
    let why =
        first.map(|need| format!("{} for {} connections{}", need.limit, grouped(fits), fix(need)));
    Ok((fits, why))
}

fn warnings(needs: &Needs) -> impl Iterator<Item = String> {
    let may_be_reached = needs.lines.iter().filter(|need| need.verdict == Verdict::Warn);
    may_be_reached.map(|need| format!("this limit may be reached: {need}"))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;
    use crate::plan::tests::hold_job;

    const HERE: &str = "https://127.0.0.1:8443/";
    /// 62 addresses that hosts may have.
    const SOURCES: [&str; 2] = ["--source", "127.1.0.0/26"];

    const EMBEDDED: Server = Server::Laboratory(SutKind::Embedded);
    const HAPROXY: Server = Server::Laboratory(SutKind::Haproxy);
    const NGINX: Server = Server::Laboratory(SutKind::Nginx);

    fn large() -> HostLimits {
        HostLimits {
            descriptors_per_process: Some(20_000),
            file_max: Some(5_000_000),
            files_in_use: Some(2_000),
            epoll_watches_max: Some(5_000_000),
            ports_per_source: Some(28_232),
            port_range: Some((32_768, 60_999)),
            memory_total_bytes: Some(24_000_000_000),
            memory_available_bytes: Some(22_000_000_000),
            ..HostLimits::default()
        }
    }

    fn shape_of(flags: &[&str], server: &Server) -> Shape {
        let job = hold_job(&[&[HERE], flags].concat());
        shape(&job.load, job.hold.opening_max, server)
    }

    fn million(server: &Server) -> Shape {
        shape_of(&[&["-c", "1M"], &SOURCES[..]].concat(), server)
    }

    fn refusal(shape: &Shape, limits: &HostLimits) -> Vec<String> {
        match check(shape, limits, false) {
            Err(Stop::TooMany(lines)) => lines,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_job_becomes_what_runs_here() {
        let flags = ["-c", "9k", "--processes", "3", "--opening", "70"];
        let shape = shape_of(&flags, &Server::Elsewhere);
        assert_eq!((shape.connections, shape.opening_max, shape.parts.len()), (9_000, 70, 1));
        assert_eq!(shape.parts[0].processes, Processes::Exactly(3));
        assert_eq!((shape.hops[0].sources, shape.hops[0].destinations), (Some(1), 1));
        assert_eq!(million(&Server::Elsewhere).hops[0].sources, Some(62));
        for (server, sockets, is_watched) in [
            (Server::Elsewhere, 1, false),
            (Server::Running, 2, false),
            (EMBEDDED, 2, true),
            (HAPROXY, 2, true),
            (NGINX, 2, true),
        ] {
            let shape = million(&server);
            assert_eq!(
                (shape.sockets_each(), shape.memory_is_watched),
                (sockets, is_watched),
                "{server:?}"
            );
        }
    }

    #[test]
    fn connections_to_a_unix_socket_need_neither_ports_nor_addresses() {
        let job = hold_job(&[HERE, "-c", "1M", "--unix-socket", "s"]);
        assert!(shape(&job.load, 1, &Server::Running).hops.is_empty());
        assert_eq!((job.load.free_sources, job.load.both_ends_here), (None, true));
    }

    #[test]
    fn a_large_host_holds_a_million() {
        for server in [Server::Elsewhere, Server::Running, EMBEDDED] {
            let fit = Fit { connections: 1_000_000, notes: Vec::new() };
            assert_eq!(check(&million(&server), &large(), false), Ok(fit), "{server:?}");
        }
        // Limits that cannot be read are not checked.
        let unknown = check(&million(&Server::Running), &HostLimits::default(), false);
        assert_eq!(unknown.map(|fit| fit.connections), Ok(1_000_000));
    }

    #[test]
    fn each_limit_is_named_with_what_it_needs_and_what_lifts_it() {
        let small = HostLimits {
            descriptors_per_process: Some(1_024),
            file_max: Some(100_000),
            epoll_watches_max: Some(400_000),
            ports_per_source: Some(1_000),
            memory_total_bytes: Some(4_000_000_000),
            memory_available_bytes: Some(1_200_000_000),
            ..large()
        };
        let asked = shape_of(&["-c", "1M", "--processes", "2"], &Server::Running);
        assert_eq!(
            refusal(&asked, &small),
            [
                "this host cannot hold 1,000,000 connections; it can hold 1,000; --up-to holds as \
                 many",
                "open files of a process (clients): needs 500,064, has 1,024; ulimit -Hn 500064 \
                 as root, LimitNOFILE=500064 in systemd, or 1,042 processes",
                "fs.file-max: needs 2,002,000, has 100,000; sysctl -w fs.file-max=2110000",
                "fs.epoll.max_user_watches: needs 2,000,000, has 400,000; sysctl -w \
                 fs.epoll.max_user_watches=2100000",
                "source ports (clients): needs 1,000,000, has 1,000; sysctl -w \
                 net.ipv4.ip_local_port_range=\"1024 65535\" and 16 source addresses (--source), \
                 or more server ports",
                "memory of the host: needs 9.3 GB, has 1.0 GB; use a host with more memory, or \
                 hold fewer connections",
            ]
        );
        let fit = check(&asked, &small, true).unwrap();
        let notes = vec!["this host can hold 1,000 of 1,000,000 connections".to_owned()];
        assert_eq!(fit, Fit { connections: 1_000, notes });
    }

    #[test]
    fn a_server_elsewhere_takes_half_of_the_files() {
        let tight = HostLimits { epoll_watches_max: Some(1_000_000), ..large() };
        let lines = refusal(&million(&Server::Running), &tight);
        assert!(lines.len() == 2 && lines[1].starts_with("fs.epoll.max_user_watches"), "{lines:?}");
        assert!(check(&million(&Server::Elsewhere), &tight, false).is_ok());
    }

    #[test]
    fn memory_that_is_watched_and_limits_that_may_be_passed_are_noted() {
        let poor = HostLimits {
            memory_available_bytes: Some(1_300_000_000),
            file_max: Some(1_000_000),
            may_exceed_file_max: true,
            ..large()
        };
        let lines = refusal(&million(&Server::Running), &poor);
        assert!(lines.len() == 2 && lines[1].starts_with("memory of the host"), "{lines:?}");
        for server in [EMBEDDED, HAPROXY] {
            let fit = check(&million(&server), &poor, false).unwrap();
            let names: Vec<_> =
                fit.notes.iter().filter_map(|note| note.split(": ").nth(1)).collect();
            assert_eq!(names, ["fs.file-max", "memory of the host"], "{server:?}");
        }
        // The workers of nginx have no privilege left.
        let lines = refusal(&million(&NGINX), &poor);
        assert!(lines.len() == 2 && lines[1].starts_with("fs.file-max"), "{lines:?}");
    }

    #[test]
    fn a_search_goes_as_high_as_the_first_limit_and_names_it() {
        let shape = shape_of(&["-c", "200k"], &Server::Elsewhere);
        let (fits, why) = highest(&shape, &large(), 100).unwrap();
        assert_eq!(fits, 28_232);
        let why = why.unwrap();
        assert!(why.starts_with("source ports (clients) for 28,232 connections; "), "{why}");
        let few = shape_of(&["-c", "20k"], &Server::Elsewhere);
        assert_eq!(highest(&few, &large(), 100), Ok((20_000, None)));
        let lines = match highest(&shape, &large(), 30_000) {
            Err(Stop::TooMany(lines)) => lines,
            other => panic!("{other:?}"),
        };
        assert!(lines[0].starts_with("this host cannot hold 30,000 connections"), "{lines:?}");
    }

    #[test]
    fn nothing_fits_is_refused_even_up_to() {
        let none = HostLimits { descriptors_per_process: Some(64), ..large() };
        assert!(check(&million(&Server::Running), &none, true).is_err());
    }

    #[test]
    fn this_host_is_readable() {
        let limits = host_limits();
        assert!(limits.descriptors_per_process > Some(0) && ports_per_source(&limits) > 0);
    }

    #[test]
    fn loopback_gets_as_many_addresses_as_its_connections_need() {
        let limits = HostLimits { ports_per_source: Some(28_232), ..HostLimits::default() };
        let sources = |connections: &str, url: &str| {
            let mut job = hold_job(&[url, "--connections", connections]);
            spread_sources(&mut job.load, &limits);
            job.load.plan.sources
        };
        let here = "https://127.0.0.1:8443/";
        assert!(sources("14k", here).is_empty());
        assert_eq!(sources("15k", here).len(), 1);
        let million = sources("1M", here);
        assert_eq!(million.len(), 45);
        assert_eq!(million[44], IpAddr::from([127, 0, 0, 45]));
        assert!(sources("1M", "https://[::1]:8443/").is_empty());
        assert!(sources("1M", "https://10.1.2.3:8443/").is_empty());
    }
}
