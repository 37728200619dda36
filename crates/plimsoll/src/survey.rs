//! What each host of a load lacks for its part, before the first packet: every host compares its own limits, routes
//! and clock with its part, and one table says what is missing where.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use plimsoll_fleet::hosts::{HostName, fold};
use plimsoll_fleet::message::{HostNeed, HostPart, HostSurvey};
use plimsoll_model::Nanos;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::units::grouped;
use plimsoll_sys::clock;
use plimsoll_tune::doctor::{Hop, Need, Needs, Part, Shape, Verdict};

use crate::preflight;

/// A clock that is so far off makes certificates look invalid, or valid; one that is less far off is noted.
const CLOCK_OFF_MAX: Nanos = Nanos::from_secs(60);
const CLOCK_OFF_NOTED: Nanos = Nanos::from_secs(2);
/// Connections that a thread opens at once, beside holds, which say it.
const OPENING_EACH: u64 = 32;
/// Widths of the columns are at most these; more text pushes the next ones aside.
const COLUMN_MAX: usize = 40;

/// The part of a host with so many of all `threads` of the load.
pub(crate) fn part(plan: &LoadPlan, threads: u32, all: u64) -> HostPart {
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
        destinations: addresses.copied().collect(),
    }
}

/// What this host lacks for its part: an agent answers with it.
pub(crate) fn survey(part: &HostPart) -> HostSurvey {
    let clients = Part::clients(preflight::CLIENT_BYTES);
    let hop = Hop {
        name: clients.name.clone(),
        sources: Some(1),
        destinations: part.destinations.len() as u64,
    };
    let shape = Shape {
        connections: part.connections,
        parts: vec![clients],
        hops: vec![hop],
        opening_max: part.opening_max,
        opened_per_s: 0,
        closes_by_reset: part.is_hold,
        memory_is_watched: false,
    };
    let needs = Needs::of(&shape, &preflight::host_limits());
    let of = |verdict| needs.lines.iter().filter(move |need| need.verdict == verdict).map(line);
    let mut missing: Vec<_> = of(Verdict::Short).collect();
    missing.extend(part.destinations.iter().filter_map(|to| no_route(*to)));
    missing.dedup();
    HostSurvey {
        missing,
        tight: of(Verdict::Warn).collect(),
        realtime: Nanos(clock::realtime_ns()),
        at: Nanos(clock::monotonic_ns()),
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

/// What the kernel says of the way to an address. Nothing is sent: a UDP socket only chooses its route.
fn no_route(to: SocketAddr) -> Option<HostNeed> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let connected = UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(to));
    let error = connected.err()?;
    Some(HostNeed {
        what: format!("route to {}", to.ip()),
        needs: "one".to_owned(),
        has: "none".to_owned(),
        fix: error.to_string(),
    })
}

/// How far the clock of a host is off, in nanoseconds, where `at` is the instant of its survey on the clock here.
pub(crate) fn clock_off_ns(survey: &HostSurvey, at: Nanos) -> i64 {
    let here = clock::realtime_ns().saturating_sub(clock::monotonic_ns().saturating_sub(at.0));
    survey.realtime.0.cast_signed().saturating_sub(here.cast_signed())
}

/// What all hosts lack, and what may become tight.
pub(crate) struct Findings {
    /// A table, where something is missing.
    pub(crate) missing: Vec<String>,
    /// A note each.
    pub(crate) notes: Vec<String>,
}

/// Puts the answers of all hosts together, each with how far its clock is off.
pub(crate) fn findings(surveys: &[(HostName, HostSurvey, i64)]) -> Findings {
    let (mut missing, mut notes) = (Rows::default(), Rows::default());
    for (host, survey, off_ns) in surveys {
        survey.missing.iter().for_each(|need| missing.add(host, need.clone()));
        survey.tight.iter().for_each(|need| notes.add(host, need.clone()));
        let off = Nanos(off_ns.unsigned_abs());
        if off > CLOCK_OFF_NOTED {
            let rows = if off > CLOCK_OFF_MAX { &mut missing } else { &mut notes };
            rows.add(host, clock_need(*off_ns));
        }
    }
    let note = |(need, hosts): (&HostNeed, &Vec<HostName>)| {
        let HostNeed { what, needs, has, fix } = need;
        format!("{}: {what}: needs {needs}, has {has}; {fix}", fold(hosts))
    };
    Findings { missing: missing.table(), notes: notes.0.iter().map(note).collect() }
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

/// What hosts need, with those that need the same.
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
    use plimsoll_fleet::hosts::parse;

    use super::*;
    use crate::plan::tests::{hold_job, load_job};

    fn need(what: &str, needs: &str, has: &str, fix: &str) -> HostNeed {
        let [what, needs, has, fix] = [what, needs, has, fix].map(str::to_owned);
        HostNeed { what, needs, has, fix }
    }

    fn surveyed(host: &str, missing: &[HostNeed], off_ns: i64) -> (HostName, HostSurvey, i64) {
        let survey = HostSurvey { missing: missing.to_vec(), ..HostSurvey::default() };
        (parse(host).unwrap().remove(0), survey, off_ns)
    }

    #[test]
    fn hosts_that_lack_the_same_share_a_row_of_one_table() {
        let files = need("fs.file-max", "60,000", "1,024", "sysctl -w fs.file-max=60000");
        let route = need("route to 192.0.2.1", "one", "none", "Network is unreachable");
        let found = findings(&[
            surveyed("client01", std::slice::from_ref(&files), 0),
            surveyed("client02", &[files, route], 1_000_000),
            surveyed("client03", &[], -3_600_000_000_000),
            surveyed("client04", &[], 3_000_000_000),
        ]);
        assert_eq!(
            found.missing,
            [
                "hosts          what                                     needs             has  what raises it",
                "client03       clock (certificates are checked by it)     2 s  3,600 s behind  chronyc makestep, or timedatectl set-ntp true",
                "client[01-02]  fs.file-max                             60,000           1,024  sysctl -w fs.file-max=60000",
                "client02       route to 192.0.2.1                         one            none  Network is unreachable",
            ]
        );
        assert!(found.notes.len() == 1 && found.notes[0].starts_with("client04: clock "));
        assert!(findings(&[surveyed("client01", &[], 0)]).missing.is_empty());
    }

    #[test]
    fn a_host_compares_its_part_with_what_it_has() {
        let url = "http://127.0.0.1:9/";
        let hold = hold_job(&[url, "-c", "9k", "--opening", "70"]).load.plan;
        let of_third = part(&hold, 2, 6);
        assert_eq!(
            (of_third.connections, of_third.opening_max, of_third.is_hold),
            (3_000, 24, true)
        );
        let load = part(&load_job(&[url, "-c", "100"]).plan, 2, 6);
        assert_eq!((load.connections, load.opening_max, load.is_hold), (34, 64, false));
        let small = survey(&load);
        assert_eq!(small.missing, []);
        assert!(clock_off_ns(&small, small.at).unsigned_abs() < CLOCK_OFF_NOTED.0);
        let huge = survey(&HostPart { connections: 1 << 40, ..load });
        assert!(huge.missing.iter().any(|need| need.what.contains("source ports")), "{huge:?}");
    }

    #[test]
    fn an_address_without_a_route_is_missing() {
        // Nothing is sent to it; a broadcast address is refused by the socket as a route is by the kernel.
        let refused = no_route("255.255.255.255:80".parse().unwrap()).expect("refused");
        assert_eq!(
            (refused.what.as_str(), refused.has.as_str()),
            ("route to 255.255.255.255", "none")
        );
        assert_eq!(no_route("127.0.0.1:80".parse().unwrap()), None);
    }
}
