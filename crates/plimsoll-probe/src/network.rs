//! The host's network: packets dropped by interfaces and by the kernel's queues, TCP retransmissions,
//! and link utilisation. Counters since boot: a figure is the difference of two readings.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use procfs_core::FromRead;
use procfs_core::net::{DeviceStatus, InterfaceDeviceStatus};

/// The loopback interface.
const LOOPBACK: &str = "lo";

/// One interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Interface {
    dropped: u64,
    rx_bytes: u64,
    tx_bytes: u64,
    /// Bits per second, where it has a line rate.
    speed: Option<u64>,
}

/// Counters of this network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkTotals {
    interfaces: BTreeMap<String, Interface>,
    /// Packets dropped because a CPU's input queue was full.
    softnet_dropped: u64,
    segments_out: u64,
    segments_again: u64,
}

/// The difference of two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NetworkChange {
    /// Packets dropped by interfaces, and by the queues of the CPUs.
    pub drops: u64,
    /// Segments retransmitted, as a fraction of segments sent.
    pub retransmits: f64,
    /// Segments retransmitted.
    pub sent_again: u64,
    /// Utilisation of the busiest link in its busier direction; `None` where no interface has a line
    /// rate.
    pub link: Option<f64>,
}

impl NetworkTotals {
    /// Reads `proc/thread-self/net` and `sys/class/net` below `root` (`/`): the network namespace of the
    /// calling thread. `None` where TCP's counters are
    /// missing: then the rest has no use.
    pub fn read(root: &Path) -> Option<Self> {
        let net = root.join("proc/thread-self/net");
        let (segments_out, segments_again) = segments(&fs::read_to_string(net.join("snmp")).ok()?)?;
        let devices = InterfaceDeviceStatus::from_file(net.join("dev"));
        let interface = |device: DeviceStatus| {
            let speed = root.join("sys/class/net").join(&device.name).join("speed");
            // Virtual interfaces report -1, or nothing.
            let mbit = fs::read_to_string(speed).ok().and_then(|text| text.trim().parse().ok());
            let interface = Interface {
                dropped: device.recv_drop.saturating_add(device.sent_drop),
                rx_bytes: device.recv_bytes,
                tx_bytes: device.sent_bytes,
                speed: mbit.filter(|mbit: &u64| *mbit > 0).map(|mbit| mbit * 1_000_000),
            };
            (device.name, interface)
        };
        let interfaces =
            devices.map(|all| all.0.into_values().map(interface).collect()).unwrap_or_default();
        let softnet = fs::read_to_string(net.join("softnet_stat")).unwrap_or_default();
        let softnet_dropped = softnet_dropped(&softnet);
        Some(Self { interfaces, softnet_dropped, segments_out, segments_again })
    }

    /// These and the counters of `host`, another network namespace of the same kernel.
    pub fn with(mut self, host: &str, of: Self) -> Self {
        let named = of.interfaces.into_iter().map(|(name, one)| (format!("{host}/{name}"), one));
        self.interfaces.extend(named);
        // The queues of the CPUs are the kernel's.
        self.softnet_dropped = self.softnet_dropped.max(of.softnet_dropped);
        self.segments_out += of.segments_out;
        self.segments_again += of.segments_again;
        self
    }

    /// The difference to `earlier`, `wall_s` seconds ago: on the loopback interface, or on all
    /// others.
    pub fn since(&self, earlier: &Self, wall_s: f64, loopback: bool) -> NetworkChange {
        let mut change = NetworkChange {
            drops: self.softnet_dropped.saturating_sub(earlier.softnet_dropped),
            ..NetworkChange::default()
        };
        for (name, now) in &self.interfaces {
            let Some(before) = earlier.interfaces.get(name) else { continue };
            if name.ends_with(LOOPBACK) != loopback {
                continue;
            }
            change.drops += now.dropped.saturating_sub(before.dropped);
            let bytes = now
                .rx_bytes
                .saturating_sub(before.rx_bytes)
                .max(now.tx_bytes.saturating_sub(before.tx_bytes));
            if let Some(speed) = now.speed.filter(|_| wall_s > 0.0) {
                let load = bytes as f64 * 8.0 / wall_s / speed as f64;
                change.link = Some(change.link.unwrap_or(0.0).max(load));
            }
        }
        let sent = self.segments_out.saturating_sub(earlier.segments_out);
        let again = self.segments_again.saturating_sub(earlier.segments_again);
        change.retransmits = again as f64 / sent.max(1) as f64;
        change.sent_again = again;
        change
    }
}

/// `/proc/net/softnet_stat`: one line for each CPU, hexadecimal; the second number is dropped.
fn softnet_dropped(text: &str) -> u64 {
    let dropped = |line: &str| u64::from_str_radix(line.split_ascii_whitespace().nth(1)?, 16).ok();
    text.lines().filter_map(dropped).fold(0, u64::saturating_add)
}

/// `/proc/net/snmp`: OutSegs and RetransSegs of TCP, by the names in the line above the numbers.
fn segments(snmp: &str) -> Option<(u64, u64)> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let named = |wanted: &str| {
        let at = names.split_ascii_whitespace().position(|name| name == wanted)?;
        numbers.split_ascii_whitespace().nth(at)?.parse::<u64>().ok()
    };
    Some((named("OutSegs")?, named("RetransSegs")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18.
    const DEV: &str = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo \
colls carrier compressed
    lo:    3193      29    0    0    0     0          0         0     3193      29    0    0    0     0       0          0
  eth0: 180082527    8940    0    3    0     0          0         0   662547    6107    0    1    0     0       0          0
";
    const SNMP: &str = "\
Ip: Forwarding DefaultTTL
Ip: 1 64
Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors
Tcp: 1 200 120000 -1 24 2 0 0 3 8919 6091 7 0 7 0
Udp: InDatagrams
Udp: 5
";
    const SOFTNET: &str =
        "0000000c 00000000 00000000 00000000\n000022fd 0000001f 00000000 00000000\n";

    #[test]
    fn the_files_of_this_kernel_are_understood() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/thread-self/net/dev", DEV),
            ("proc/thread-self/net/snmp", SNMP),
            ("proc/thread-self/net/softnet_stat", SOFTNET),
            ("sys/class/net/eth0/speed", "1000\n"),
            ("sys/class/net/lo/speed", "-1\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let speed = Some(1_000_000_000);
        let expected = NetworkTotals {
            interfaces: [
                ("eth0", Interface { dropped: 4, rx_bytes: 180_082_527, tx_bytes: 662_547, speed }),
                ("lo", Interface { dropped: 0, rx_bytes: 3_193, tx_bytes: 3_193, speed: None }),
            ]
            .map(|(name, interface)| (name.to_owned(), interface))
            .into(),
            softnet_dropped: 31,
            segments_out: 6_091,
            segments_again: 7,
        };
        assert_eq!(NetworkTotals::read(root.path()), Some(expected));
        for broken in ["", "Tcp: OutSegs\n", "Tcp: OutSegs\nTcp: 5\n"] {
            assert_eq!(segments(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn two_readings_make_a_change() {
        let totals = |dropped, rx_bytes, softnet_dropped, out, again| NetworkTotals {
            interfaces: [
                ("lo".to_owned(), Interface { dropped: 9, ..Interface::default() }),
                (
                    "eth0".to_owned(),
                    Interface { dropped, rx_bytes, tx_bytes: 0, speed: Some(1_000_000_000) },
                ),
            ]
            .into(),
            softnet_dropped,
            segments_out: out,
            segments_again: again,
        };
        let before = totals(3, 0, 1, 1_000, 5);
        let after = totals(5, 125_000_000, 2, 2_000, 6);
        let change = after.since(&before, 2.0, false);
        let expected =
            NetworkChange { drops: 3, retransmits: 0.001, sent_again: 1, link: Some(0.5) };
        assert_eq!(change, expected);
        assert_eq!(
            after.since(&before, 2.0, true),
            NetworkChange { drops: 1, link: None, ..expected }
        );
    }

    #[test]
    fn this_host_is_readable() {
        let totals = NetworkTotals::read(Path::new("/")).expect("Linux has these files");
        assert!(totals.interfaces.contains_key(LOOPBACK));
        assert_eq!(NetworkTotals::read(Path::new("/nowhere")), None);
    }
}
