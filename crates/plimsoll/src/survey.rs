//! The survey before the first packet: every host compares its own limits, routes
//! and clock with its part, and one table says what is missing where.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as SocketName, UnixListener};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use plimsoll_fleet::coordinator::SurveyedHost;
use plimsoll_fleet::hosts::{HostName, fold};
use plimsoll_fleet::message::{HostNeed, HostPart, HostSurvey};
use plimsoll_model::Nanos;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::units::grouped;
use plimsoll_sys::{address, clock};
use plimsoll_tune::doctor::{Need, Needs, Shape, Verdict};

use crate::clock::now;
use crate::preflight;

/// A clock that is so far off makes certificates look invalid, or valid; one that is less far off is noted.
const CLOCK_OFF_MAX: Nanos = Nanos::from_secs(60);
const CLOCK_OFF_NOTED: Nanos = Nanos::from_secs(2);
/// Connections that a thread opens at once, beside holds, which say it.
const OPENING_EACH: u64 = 32;
/// Widths of the columns are at most these; more text pushes the next ones aside.
const COLUMN_MAX: usize = 40;

/// Name of the abstract socket that marks a host as busy with a load. A network namespace has the name once for all
/// users, and it disappears with its process.
const IN_A_LOAD: &[u8] = b"plimsoll-load";
/// A run that has just ended may have it for so long.
const STILL_ENDING: Duration = Duration::from_secs(2);
/// Period of attempts.
const TRY_AGAIN: Duration = Duration::from_millis(50);

/// Returns the part of a host with `threads` of the `all` threads of the load; `is_alone` if no other run may make load
/// there.
pub(crate) fn part(plan: &LoadPlan, threads: u32, all: u64, is_alone: bool) -> HostPart {
    let share = |whole: u64| (whole * u64::from(threads)).div_ceil(all.max(1));
    let (opening_max, is_hold) = match &plan.pacing {
        Pacing::Hold(hold) => (share(hold.opening_max.into()), true),
        Pacing::Open { .. } | Pacing::Closed { .. } => (u64::from(threads) * OPENING_EACH, false),
    };
    let addresses = plan.destinations.iter().flat_map(|server| &server.addresses);
    HostPart {
        connections: share(plan.connections),
        opening_max,
        is_hold,
        is_alone,
        destinations: addresses.copied().collect(),
    }
}

/// Surveys this host for its part: an agent's answer.
pub(crate) fn survey(part: &HostPart) -> HostSurvey {
    let HostPart { connections, opening_max, .. } = *part;
    let shape = preflight::clients(connections, opening_max, 1, part.destinations.len());
    let shape = Shape { closes_by_reset: part.is_hold, ..shape };
    let limits = preflight::host_limits();
    let needs = Needs::of(&shape, &limits);
    let of = |verdict| {
        needs.worst_first().into_iter().filter(move |need| need.verdict == verdict).map(line)
    };
    let routes: Vec<_> = part.destinations.iter().map(|to| route(*to)).collect();
    let address = routes.first().and_then(|route| route.as_ref().ok().copied());
    let mut missing: Vec<_> = routes.into_iter().filter_map(Result::err).collect();
    missing.dedup();
    missing.extend(if part.is_alone { other_run() } else { None });
    let ports = shape.hops.iter().filter_map(|hop| hop.connections_max(&limits)).min();
    HostSurvey {
        short: of(Verdict::Short).collect(),
        missing,
        tight: of(Verdict::Warn).collect(),
        fits: needs.fits(),
        fits_ports: ports.unwrap_or(u64::MAX),
        ports_per_source: preflight::ports_per_source(&limits),
        address,
        realtime: Nanos(clock::realtime_ns()),
        at: now(),
    }
}

fn line(need: &Need) -> HostNeed {
    HostNeed {
        what: need.limit.clone(),
        needs: need.need_text(),
        has: need.have_text(),
        fix: need.fix.as_ref().map(|fix| fix.now.clone()).unwrap_or_default(),
    }
}

/// Returns another run that makes load on this host. If there is none, none can start until this process exits.
fn other_run() -> Option<HostNeed> {
    static MINE: OnceLock<UnixListener> = OnceLock::new();
    let deadline = Instant::now() + STILL_ENDING;
    while MINE.get().is_none() {
        let bound = SocketName::from_abstract_name(IN_A_LOAD)
            .and_then(|name| UnixListener::bind_addr(&name));
        match bound {
            // Only this thread sets it.
            Ok(listener) => drop(MINE.set(listener)),
            Err(error) if error.kind() != ErrorKind::AddrInUse => return None,
            Err(_) if Instant::now() < deadline => thread::sleep(TRY_AGAIN),
            Err(_) => {
                return Some(HostNeed {
                    what: "host to itself".to_owned(),
                    needs: "no other run".to_owned(),
                    has: "one that makes load".to_owned(),
                    fix: "wait until that run has ended; two would measure each other".to_owned(),
                });
            }
        }
    }
    None
}

/// Returns the address of this host on the way to another one, as the kernel chooses it. Nothing is sent: a UDP socket
/// only chooses its route.
fn route(to: SocketAddr) -> Result<IpAddr, HostNeed> {
    let chosen = UdpSocket::bind(address::any_like(to))
        .and_then(|socket| socket.connect(to).and_then(|()| socket.local_addr()));
    chosen.map(|address| address.ip()).map_err(|error| HostNeed {
        what: format!("route to {}", to.ip()),
        needs: "one".to_owned(),
        has: "none".to_owned(),
        fix: error.to_string(),
    })
}

/// Returns the error of a host's clock when it read it, in nanoseconds.
fn clock_off_ns(survey: &HostSurvey, read_at: Nanos) -> i64 {
    let since = clock::monotonic_ns().saturating_sub(read_at.0);
    let here = clock::realtime_ns().saturating_sub(since);
    survey.realtime.0.cast_signed().saturating_sub(here.cast_signed())
}

/// The lacks of all hosts, and the limits that may become tight.
pub(crate) struct Findings {
    /// Fewer connections would fit.
    pub(crate) is_short: bool,
    /// Something is missing for any number of connections.
    pub(crate) is_missing: bool,
    /// A table of both.
    pub(crate) table: Vec<String>,
    /// A note each.
    pub(crate) notes: Vec<String>,
}

/// Puts the answers of all hosts together.
pub(crate) fn findings(surveys: &[SurveyedHost]) -> Findings {
    let (mut missing, mut notes) = (Rows::default(), Rows::default());
    for SurveyedHost { name, survey, read_at, .. } in surveys {
        survey.missing.iter().for_each(|need| missing.add(name, need.clone()));
        survey.tight.iter().for_each(|need| notes.add(name, need.clone()));
        let off_ns = clock_off_ns(survey, *read_at);
        let off = Nanos(off_ns.unsigned_abs());
        if off > CLOCK_OFF_NOTED {
            let rows = if off > CLOCK_OFF_MAX { &mut missing } else { &mut notes };
            rows.add(name, clock_need(off_ns));
        }
    }
    let is_missing = !missing.0.is_empty();
    let is_short = surveys.iter().any(|host| !host.survey.short.is_empty());
    for SurveyedHost { name, survey, .. } in surveys {
        survey.short.iter().for_each(|need| missing.add(name, need.clone()));
    }
    let note = |(need, hosts): (&HostNeed, &Vec<HostName>)| {
        let HostNeed { what, needs, has, fix } = need;
        format!("{}: {what}: needs {needs}, has {has}; {fix}", fold(hosts))
    };
    Findings {
        is_short,
        is_missing,
        table: missing.table(),
        notes: notes.0.iter().map(note).collect(),
    }
}

/// Returns the first thing that a host lacks for its part.
pub(crate) fn lacks(host: &SurveyedHost) -> Option<String> {
    let off_ns = clock_off_ns(&host.survey, host.read_at);
    let clock = (Nanos(off_ns.unsigned_abs()) > CLOCK_OFF_MAX).then(|| clock_need(off_ns));
    let HostSurvey { missing, short, .. } = &host.survey;
    let first = clock.or_else(|| missing.iter().chain(short).next().cloned());
    first.map(|HostNeed { what, needs, has, fix }| {
        format!("{what}: needs {needs}, has {has}; {fix}")
    })
}

/// The room of other hosts, each in proportion to its threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Connections of all hosts together.
    pub(crate) connections: u64,
    /// Connections of all hosts for which there are source ports.
    pub(crate) ports: u64,
    /// Ports of one address of the host that has the fewest.
    pub(crate) ports_per_source: u64,
    /// The limit that allows no more, where the surveyed load needed more, and what raises it.
    pub(crate) limit: Option<String>,
}

impl Room {
    /// Computes the room of hosts that have compared themselves with their parts.
    pub(crate) fn of(surveys: &[SurveyedHost]) -> Self {
        // The connections of all hosts together, if `host` has room for `fits`.
        let all = |host: &SurveyedHost, fits: u64| {
            let (threads, all) = host.threads;
            let together = u128::from(fits) * u128::from(all) / u128::from(threads.max(1));
            u64::try_from(together).unwrap_or(u64::MAX)
        };
        let room = |host: &SurveyedHost| all(host, host.survey.fits);
        let connections = surveys.iter().map(room).min().unwrap_or(u64::MAX);
        let fewest: Vec<_> = surveys.iter().filter(|host| room(host) == connections).collect();
        let limit = fewest.iter().find_map(|host| {
            let HostNeed { what, fix, .. } = host.survey.short.first()?;
            let alike = |other: &&&SurveyedHost| {
                other.survey.short.first().is_some_and(|need| need.what == *what)
            };
            let names: Vec<_> = fewest.iter().filter(alike).map(|host| host.name.clone()).collect();
            let fix = if fix.is_empty() { String::new() } else { format!("; {fix}") };
            let hosts = fold(&names);
            Some(format!("{what} of {hosts} for {} connections{fix}", grouped(connections)))
        });
        Self {
            connections,
            ports: surveys.iter().map(|host| all(host, host.survey.fits_ports)).min().unwrap_or(0),
            ports_per_source: surveys
                .iter()
                .map(|host| host.survey.ports_per_source)
                .min()
                .unwrap_or(0),
            limit,
        }
    }
}

fn clock_need(off_ns: i64) -> HostNeed {
    let direction = if off_ns > 0 { "ahead" } else { "behind" };
    HostNeed {
        what: "clock (certificates are checked by it)".to_owned(),
        needs: format!("{} s", CLOCK_OFF_NOTED.as_secs_f64()),
        has: format!("{} s {direction}", grouped(off_ns.unsigned_abs() / 1_000_000_000)),
        fix: "chronyc makestep, or timedatectl set-ntp true".to_owned(),
    }
}

/// The needs of hosts, with the hosts that share each.
#[derive(Default)]
struct Rows(BTreeMap<HostNeed, Vec<HostName>>);

impl Rows {
    fn add(&mut self, host: &HostName, need: HostNeed) {
        self.0.entry(need).or_default().push(host.clone());
    }

    /// Hosts, what is missing, what it needs and has, what raises it; under headings.
    fn table(&self) -> Vec<String> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let headings = ["hosts", "what", "needs", "has", "what raises it"].map(str::to_owned);
        let row = |(need, hosts): (&HostNeed, &Vec<HostName>)| {
            let HostNeed { what, needs, has, fix } = need.clone();
            [fold(hosts), what, needs, has, fix]
        };
        let rows: Vec<_> = std::iter::once(headings).chain(self.0.iter().map(row)).collect();
        let width = |column: usize| {
            let widths = rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or(0).min(COLUMN_MAX)
        };
        let widths = [0, 1, 2, 3].map(width);
        let line = |[hosts, what, needs, has, fix]: &[String; 5]| {
            let [first, second, third, fourth] = widths;
            let line =
                format!("{hosts:first$}  {what:second$}  {needs:>third$}  {has:>fourth$}  {fix}");
            line.trim_end().to_owned()
        };
        rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use plimsoll_fleet::hosts::parse;

    use super::*;
    use crate::plan::tests::{hold_job, load_job};

    fn need(what: &str, needs: &str, has: &str, fix: &str) -> HostNeed {
        let [what, needs, has, fix] = [what, needs, has, fix].map(str::to_owned);
        HostNeed { what, needs, has, fix }
    }

    fn surveyed(host: &str, missing: &[HostNeed], off_ms: i64) -> SurveyedHost {
        let (realtime, at) = (Nanos(clock::realtime_ns()), now());
        let realtime = Nanos(realtime.0.saturating_add_signed(off_ms * 1_000_000));
        let missing = missing.to_vec();
        let survey = HostSurvey { missing, realtime, at, ..HostSurvey::default() };
        SurveyedHost { name: parse(host).unwrap().remove(0), threads: (1, 4), survey, read_at: at }
    }

    /// Returns a host with a part of the threads, and room for `fits` connections.
    fn roomy(host: &str, threads: (u32, u64), fits: u64, short: &[HostNeed]) -> SurveyedHost {
        let of = surveyed(host, &[], 0);
        let survey = HostSurvey {
            short: short.to_vec(),
            fits,
            fits_ports: fits * 2,
            ports_per_source: fits * 3,
            ..of.survey
        };
        SurveyedHost { threads, survey, ..of }
    }

    #[test]
    fn hosts_that_lack_the_same_share_a_row_of_one_table() {
        let files = need("fs.file-max", "60,000", "1,024", "sysctl -w fs.file-max=60000");
        let need_files = files.clone();
        let route = need("route to 192.0.2.1", "one", "none", "Network is unreachable");
        let found = findings(&[
            surveyed("client01", std::slice::from_ref(&files), 0),
            surveyed("client02", &[files, route], 1),
            surveyed("client03", &[], -3_600_900),
            surveyed("client04", &[], 3_000),
        ]);
        assert!(found.is_missing && !found.is_short);
        assert_eq!(
            found.table,
            [
                "hosts          what                                     needs             has  what raises it",
                "client03       clock (certificates are checked by it)     2 s  3,600 s behind  chronyc makestep, or timedatectl set-ntp true",
                "client[01-02]  fs.file-max                             60,000           1,024  sysctl -w fs.file-max=60000",
                "client02       route to 192.0.2.1                         one            none  Network is unreachable",
            ]
        );
        assert!(found.notes.len() == 1 && found.notes[0].starts_with("client04: clock "));
        assert!(findings(&[surveyed("client01", &[], 0)]).table.is_empty());
        let alone = |needs: &[HostNeed], off_ms| lacks(&surveyed("client05", needs, off_ms));
        let files = "fs.file-max: needs 60,000, has 1,024; sysctl -w fs.file-max=60000";
        assert_eq!(alone(&[need_files], 0).as_deref(), Some(files));
        assert!(alone(&[], -3_600_900).is_some_and(|why| why.starts_with("clock ")));
        assert_eq!(alone(&[], 3_000), None);
    }

    #[test]
    fn hosts_have_room_for_as_many_as_the_fullest_one_allows() {
        let ports = need("source ports (clients)", "500", "110", "sysctl -w range");
        let files = need("fs.file-max", "500", "400", "");
        // Their parts are a quarter, a quarter and a half.
        let hosts = [
            roomy("client01", (2, 8), 110, std::slice::from_ref(&ports)),
            roomy("client02", (2, 8), 110, &[ports, files.clone()]),
            roomy("client03", (4, 8), 400, &[files]),
        ];
        let found = findings(&hosts);
        assert!(found.is_short && !found.is_missing && found.table.len() == 3, "{:?}", found.table);
        let room = Room::of(&hosts);
        assert_eq!((room.connections, room.ports, room.ports_per_source), (440, 880, 330));
        let limit = "source ports (clients) of client[01-02] for 440 connections; sysctl -w range";
        assert_eq!(room.limit.as_deref(), Some(limit));
        let roomy = Room::of(&[roomy("client01", (2, 2), u64::MAX / 4, &[])]);
        assert_eq!((roomy.connections, roomy.limit), (u64::MAX / 4, None));
    }

    #[test]
    fn a_host_compares_its_part_with_what_it_has() {
        let url = "http://127.0.0.1:9/";
        let hold = hold_job(&[url, "-c", "9k", "--opening", "70"]).load.plan;
        let of_third = part(&hold, 2, 6, false);
        assert_eq!(
            (of_third.connections, of_third.opening_max, of_third.is_hold),
            (3_000, 24, true)
        );
        let load = part(&load_job(&[url, "-c", "100"]).plan, 2, 6, false);
        assert_eq!((load.connections, load.opening_max, load.is_hold), (34, 64, false));
        let small = survey(&load);
        assert!(small.short.is_empty() && small.missing.is_empty(), "{small:?}");
        assert!(small.fits >= load.connections && small.fits_ports >= small.ports_per_source);
        assert!(clock_off_ns(&small, small.at).unsigned_abs() < CLOCK_OFF_NOTED.0);
        let huge = survey(&HostPart { connections: 1 << 40, ..load });
        assert!(huge.short.iter().any(|need| need.what.contains("source ports")), "{huge:?}");
    }

    #[test]
    fn an_address_without_a_route_is_missing() {
        // Nothing is sent to it; a broadcast address is refused by the socket as a route is by the kernel.
        let refused = route("255.255.255.255:80".parse().unwrap()).expect_err("refused");
        assert_eq!(
            (refused.what.as_str(), refused.has.as_str()),
            ("route to 255.255.255.255", "none")
        );
        assert_eq!(route("127.0.0.1:80".parse().unwrap()), Ok(Ipv4Addr::LOCALHOST.into()));
    }
}
