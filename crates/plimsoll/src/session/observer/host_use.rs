//! The use of a host, or of every network of a laboratory, while a load ran: the difference of two readings.
//!
//! A [`HostReading`] has one reading of the CPUs and one per network: the network of this host, or the namespaces of
//! an isolated laboratory. [`HostUse`] compares two of them and returns fractions: busy and stolen CPU time, memory
//! stalls, the use of the links and the share of retransmitted segments. [`Carriers`] selects the interfaces towards
//! the servers; other interfaces do not count. Missing TCP counters give `None`. Start with [`HostUse::network`].

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use plimsoll_lab::Isolated;
use plimsoll_model::Nanos;
use plimsoll_model::host::{Change, Label, Metric, Reading};
use plimsoll_model::observation::NetworkUse;
use plimsoll_probe::{host, sampler};
use plimsoll_sys::address;
use plimsoll_sys::namespace::Namespace;

use crate::clock::now;
use crate::kernel_files::ROOT;

/// The loopback interface.
const LOOPBACK: &str = "lo";

/// The interfaces whose drops and load count.
#[derive(Clone, Debug)]
pub(super) enum Carriers {
    /// The loopback interface.
    Loopback,
    /// All interfaces but loopback.
    All,
    /// The interfaces that the kernel uses towards the servers.
    Named(BTreeSet<String>),
}

impl Carriers {
    /// Returns the interfaces towards `servers`, and those below them; all of them if the kernel has no route.
    pub(super) fn towards(servers: impl IntoIterator<Item = IpAddr>) -> Self {
        let interfaces: Option<BTreeSet<String>> =
            servers.into_iter().map(address::interface_towards).collect();
        let below = |device: String| host::with_lower_devices(Path::new(ROOT), &device);
        let named = interfaces.map(|all| all.into_iter().flat_map(below).collect());
        named.filter(|all: &BTreeSet<String>| !all.is_empty()).map_or(Self::All, Self::Named)
    }

    fn has(&self, device: &str) -> bool {
        match self {
            Self::Loopback => device == LOOPBACK,
            Self::All => device != LOOPBACK,
            Self::Named(devices) => devices.contains(device),
        }
    }
}

/// The counters of CPUs and networks at one time.
#[derive(Debug)]
pub(super) struct HostReading {
    at: Nanos,
    cpu: Reading,
    /// One reading per network: this host's, or one for each host of a laboratory.
    networks: Vec<Reading>,
    throttled: Option<u64>,
}

impl HostReading {
    /// Creates a host reading from a reading that another host sent.
    pub(super) fn of(reading: &Reading) -> Self {
        let throttled = reading.sum(Metric::CgroupThrottledPeriods, &[]);
        Self {
            at: reading.begin,
            cpu: reading.clone(),
            networks: vec![reading.clone()],
            throttled: throttled.map(|periods| periods as u64),
        }
    }

    pub(super) fn now(isolated: Option<&Isolated>) -> Self {
        let root = Path::new(ROOT);
        Self {
            at: now(),
            cpu: sampler::read_cpu(root),
            networks: networks(isolated),
            throttled: host::throttled_periods(root),
        }
    }
}

/// Reads the networks; a network that cannot be read is empty.
fn networks(isolated: Option<&Isolated>) -> Vec<Reading> {
    let read = || sampler::read_network(Path::new(ROOT));
    let Some(Isolated { clients, sut, backends, .. }) = isolated else { return vec![read()] };
    let of = |network: &Namespace| network.run(read).unwrap_or_default();
    [clients, &sut.network, &backends.network].map(of).into()
}

/// From one look to another.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostUse<'a> {
    first: &'a HostReading,
    last: &'a HostReading,
}

impl<'a> HostUse<'a> {
    pub(super) const fn new(first: &'a HostReading, last: &'a HostReading) -> Self {
        Self { first, last }
    }

    fn cpu(&self) -> Change<'a> {
        Change::new(&self.first.cpu, &self.last.cpu)
    }

    /// Fractions of the CPU time that were busy, and that the hypervisor gave to others, which is busy, too; `None`
    /// when no tick has passed.
    pub(super) fn busy_and_stolen(&self) -> Option<(f64, f64)> {
        let cpu = self.cpu();
        cpu.grown(Metric::CpuSeconds, &[]).filter(|ticks| *ticks > 0.0)?;
        let busy = cpu.busy_cpus();
        let cpus = Some(busy.len()).filter(|cpus| *cpus > 0)? as f64;
        let stolen = cpu.rate(Metric::CpuSeconds, &[(Label::Mode, "steal")])?;
        Some((busy.into_iter().map(|(_, busy)| busy).sum::<f64>() / cpus, stolen / cpus))
    }

    /// Periods in which a control group of ours had used up its CPU time.
    pub(super) fn throttled_periods(&self) -> Option<u64> {
        let (before, after) = self.first.throttled.zip(self.last.throttled)?;
        Some(after.saturating_sub(before))
    }

    /// Returns the fraction of the time in which all tasks that were not idle waited for memory; 0 if the kernel does
    /// not report it.
    pub(super) fn memory_stalled(&self) -> f64 {
        let labels = [(Label::Resource, "memory"), (Label::Kind, "full")];
        let stalled = self.cpu().grown(Metric::PressureSeconds, &labels).unwrap_or(0.0);
        let wall = self.wall_s();
        if wall > 0.0 { (stalled / wall).min(1.0) } else { 0.0 }
    }

    /// Returns what `carriers` did, and TCP's sums over each network with all programs in it. `None` if TCP's
    /// counters are missing: then the rest has no use.
    pub(super) fn network(&self, carriers: &Carriers) -> Option<NetworkUse> {
        let mut seen = NetworkUse::default();
        let (mut sent, mut again, mut drops) = (0.0, 0.0, 0.0);
        for (before, after) in self.first.networks.iter().zip(&self.last.networks) {
            let change = Change::new(before, after);
            sent += change.grown(Metric::TcpSegments, &[(Label::Direction, "transmit")])?;
            again += change.grown(Metric::TcpRetransmitted, &[])?;
            let devices = |metric| {
                let named = change.growth(metric, &[]).filter_map(|(series, grown)| {
                    series.label(Label::Device).map(|device| (device, grown))
                });
                named.filter(|(device, _)| carriers.has(device))
            };
            drops += devices(Metric::NetworkDrops).map(|(_, dropped)| dropped).sum::<f64>();
            let loads = devices(Metric::NetworkBytes).filter_map(|(device, bytes)| {
                let bytes_per_s = host::link_bytes_per_s(Path::new(ROOT), device)?;
                Some(bytes / self.wall_s() / bytes_per_s)
            });
            seen.link = loads.chain(seen.link).reduce(f64::max);
        }
        // The packet queues belong to the CPUs, so that every namespace reads the same counters.
        let (before, after) = (self.first.networks.first()?, self.last.networks.first()?);
        drops += Change::new(before, after).grown(Metric::SoftnetDropped, &[]).unwrap_or(0.0);
        seen.drops = drops as u64;
        seen.sent_again = again as u64;
        seen.retransmits = again / sent.max(again).max(1.0);
        Some(seen)
    }

    fn wall_s(&self) -> f64 {
        self.last.at.since(self.first.at).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Value<'a> = (Metric, &'a [(Label, &'a str)], f64);

    const SENT: &[(Label, &str)] = &[(Label::Direction, "transmit")];
    const LO: &[(Label, &str)] = &[(Label::Device, LOOPBACK), (Label::Direction, "receive")];
    const VETH: &[(Label, &str)] = &[(Label::Device, "sut0"), (Label::Direction, "receive")];
    const CPU_1: &[(Label, &str)] = &[(Label::Cpu, "1")];
    const FULL: &[(Label, &str)] = &[(Label::Resource, "memory"), (Label::Kind, "full")];

    fn reading(values: &[Value<'_>]) -> Reading {
        let mut reading = Reading::default();
        for (metric, labels, value) in values {
            reading.add(*metric, labels, *value);
        }
        reading.sort();
        reading
    }

    fn cpu(idle: f64, user: f64, steal: f64) -> Reading {
        let mode = |mode| [(Label::Cpu, "0"), (Label::Mode, mode)];
        reading(&[
            (Metric::CpuSeconds, &mode("idle"), idle),
            (Metric::CpuSeconds, &mode("iowait"), 5.0),
            (Metric::CpuSeconds, &mode("user"), user),
            (Metric::CpuSeconds, &mode("steal"), steal),
            (Metric::PressureSeconds, FULL, idle / 5.0),
        ])
    }

    fn network(sent: f64, again: f64, dropped: [f64; 3]) -> Reading {
        let [lo, veth, queue] = dropped;
        reading(&[
            (Metric::TcpSegments, SENT, sent),
            (Metric::TcpRetransmitted, &[], again),
            (Metric::NetworkDrops, LO, lo),
            (Metric::NetworkDrops, VETH, veth),
            (Metric::NetworkBytes, VETH, sent * 100.0),
            (Metric::SoftnetDropped, CPU_1, queue),
        ])
    }

    fn at(second: u64, cpu: Reading, networks: Vec<Reading>) -> HostReading {
        let at = Nanos::from_secs(second);
        let cpu = Reading { begin: at, end: at, ..cpu };
        HostReading { at, cpu, networks, throttled: Some(7 * second) }
    }

    #[test]
    fn shares_are_of_the_time_between_two_looks() {
        let first = at(1, cpu(100.0, 50.0, 1.0), Vec::new());
        let last = at(3, cpu(100.5, 51.0, 1.5), Vec::new());
        let seen = HostUse::new(&first, &last);
        assert_eq!(seen.busy_and_stolen(), Some((0.75, 0.25)));
        assert_eq!(HostUse::new(&first, &first).busy_and_stolen(), None);
        assert_eq!(seen.throttled_periods(), Some(14));
        assert!((seen.memory_stalled() - 0.05).abs() < 1e-9);
        // A kernel that reports nothing.
        let none = at(3, Reading::default(), vec![Reading::default()]);
        let unknown = HostUse::new(&none, &none);
        assert_eq!((unknown.busy_and_stolen(), unknown.network(&Carriers::All)), (None, None));
        assert_eq!(unknown.memory_stalled(), 0.0);
    }

    #[test]
    fn networks_are_added_up_and_the_queues_of_the_cpus_count_once() {
        let both = |one: fn() -> Reading| vec![one(), one()];
        let first = at(1, Reading::default(), both(|| network(1_000.0, 5.0, [1.0, 1.0, 1.0])));
        let last = at(2, Reading::default(), both(|| network(2_000.0, 6.0, [3.0, 5.0, 9.0])));
        let seen = |carriers| HostUse::new(&first, &last).network(&carriers).unwrap();
        let expected = NetworkUse { drops: 16, retransmits: 0.001, sent_again: 2, link: None };
        assert_eq!(seen(Carriers::All), expected);
        assert_eq!(seen(Carriers::Loopback), NetworkUse { drops: 12, ..expected });
        let named = |device: &str| Carriers::Named([device.to_owned()].into());
        assert_eq!(seen(named("sut0")), expected);
        // Another program's interface.
        assert_eq!(seen(named("eth9")), NetworkUse { drops: 8, ..expected });
    }

    #[test]
    fn this_host_is_readable() {
        let first = HostReading::now(None);
        let seen = HostUse::new(&first, &first);
        assert!(seen.network(&Carriers::Loopback).is_some_and(|network| network.sent_again == 0));
        let Carriers::Named(devices) = Carriers::towards([IpAddr::from([127, 0, 0, 1])]) else {
            panic!("every host has a loopback interface");
        };
        assert_eq!(Vec::from_iter(devices), [LOOPBACK]);
        assert!(matches!(Carriers::towards([]), Carriers::All));
    }
}
