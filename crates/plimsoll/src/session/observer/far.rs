//! Observations of other hosts while they made a load: the worst of each figure.

use std::collections::BTreeMap;

use plimsoll_model::Nanos;
use plimsoll_model::host::{Reading, Role};
use plimsoll_model::observation::{MemoryUse, NetworkUse, Observations, Scheduling};

use super::host_use::{Carriers, HostReading, HostUse};

/// Readings of the hosts that make the load, of one load: the first and the last of each.
#[derive(Debug, Default)]
pub(crate) struct FarReadings {
    /// From when to when they count.
    span: Option<(Nanos, Nanos)>,
    hosts: BTreeMap<String, (Reading, Reading)>,
}

impl FarReadings {
    /// Records the start of a load.
    pub(crate) fn begin(&mut self, at: Nanos) {
        *self = Self { span: Some((at, Nanos::MAX)), hosts: BTreeMap::new() };
    }

    /// Records the end of sending.
    pub(crate) fn end(&mut self, at: Nanos) {
        if let Some((_, end)) = &mut self.span {
            *end = at.min(*end);
        }
    }

    /// Adds a reading of a host.
    pub(crate) fn add(&mut self, host: &str, reading: &Reading) {
        let within = |(begin, end)| reading.begin >= begin && reading.end <= end;
        let makes_load = reading.processes(Role::Client).next().is_some();
        if !makes_load || !self.span.is_some_and(within) {
            return;
        }
        match self.hosts.get_mut(host) {
            Some((_, last)) => last.clone_from(reading),
            None => drop(self.hosts.insert(host.to_owned(), (reading.clone(), reading.clone()))),
        }
    }

    /// Adds what is known to `seen` and `scheduling`; nothing, where no host was read twice.
    pub(crate) fn observe(&self, seen: &mut Observations, scheduling: &mut Scheduling) {
        for (first, last) in self.hosts.values().filter(|(first, last)| last.begin > first.begin) {
            let (first, last) = (HostReading::of(first), HostReading::of(last));
            let host = HostUse::new(&first, &last);
            if let Some((busy, stolen)) = host.busy_and_stolen() {
                seen.host_cpu = highest(seen.host_cpu, Some(busy));
                scheduling.steal = highest(scheduling.steal, Some(stolen));
            }
            scheduling.throttled_periods =
                scheduling.throttled_periods.max(host.throttled_periods());
            if let Some(network) = host.network(&Carriers::All) {
                seen.network = Some(worst(seen.network.unwrap_or_default(), network));
            }
            let stalled = seen.memory.map_or(0.0, |memory| memory.stalled);
            let stalled = stalled.max(host.memory_stalled());
            seen.memory = Some(MemoryUse { resident: 0.0, stalled });
        }
    }
}

/// Packets of all hosts, and shares of the worst one.
fn worst(all: NetworkUse, host: NetworkUse) -> NetworkUse {
    NetworkUse {
        drops: all.drops + host.drops,
        sent_again: all.sent_again + host.sent_again,
        retransmits: all.retransmits.max(host.retransmits),
        link: highest(all.link, host.link),
    }
}

fn highest(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    [one, other].into_iter().flatten().reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use plimsoll_model::host::{Label, Metric};

    use super::*;

    /// Returns a reading of a host of one CPU: its idle time and its retransmitted segments at this second.
    fn reading(second: u64, role: &str, idle: f64, again: f64) -> Reading {
        let at = Nanos::from_secs(second);
        let mut reading = Reading { begin: at, end: at, ..Reading::default() };
        reading.add(Metric::ProcessInfo, &[(Label::Role, role)], 1.0);
        let modes =
            [("idle", idle), ("iowait", 0.0), ("steal", 0.0), ("user", second as f64 - idle)];
        for (mode, seconds) in modes {
            reading.add(Metric::CpuSeconds, &[(Label::Cpu, "0"), (Label::Mode, mode)], seconds);
        }
        reading.add(Metric::TcpSegments, &[(Label::Direction, "transmit")], second as f64 * 1e3);
        reading.add(Metric::TcpRetransmitted, &[], again);
        reading.sort();
        reading
    }

    #[test]
    fn the_worst_host_counts_and_only_what_it_did_in_the_load() {
        let mut far = FarReadings::default();
        // No load yet.
        far.add("client01", &reading(1, "client", 0.0, 90.0));
        far.begin(Nanos::from_secs(2));
        for (second, idle, again) in [(1, 0.0, 0.0), (2, 0.0, 5.0), (3, 0.8, 6.0), (4, 1.5, 9.0)] {
            far.add("client01", &reading(second, "client", idle, again));
            far.add("client02", &reading(second, "client", 0.5 * idle, 0.0));
            // Not a generator.
            far.add("proxy", &reading(second, "server", 0.0, 100.0 * again));
        }
        far.end(Nanos::from_secs(4));
        far.add("client01", &reading(5, "client", 1.5, 500.0));
        let (mut seen, mut scheduling) = (Observations::default(), Scheduling::default());
        far.observe(&mut seen, &mut scheduling);
        let busy = seen.host_cpu.expect("two were read");
        assert!((busy - (1.0 - 0.75 / 2.0)).abs() < 1e-9, "{busy}");
        let network = seen.network.expect("two were read");
        assert_eq!((network.sent_again, network.retransmits), (4, 0.002));
        assert_eq!(scheduling.steal, Some(0.0));
    }

    #[test]
    fn one_reading_says_nothing() {
        let mut far = FarReadings::default();
        far.begin(Nanos::ZERO);
        far.add("client01", &reading(1, "client", 0.0, 0.0));
        let (mut seen, mut scheduling) = (Observations::default(), Scheduling::default());
        far.observe(&mut seen, &mut scheduling);
        assert_eq!((seen, scheduling), (Observations::default(), Scheduling::default()));
    }
}
