//! Ports of the host: its range, reserved ports, and listeners.

use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader};
use std::ops::RangeInclusive;
use std::path::Path;

use super::set::PortSet;

/// TCP_LISTEN as `/proc/net/tcp` prints it.
const LISTEN: &str = "0A";

/// The ports of a network namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostPorts {
    /// `net.ipv4.ip_local_port_range` without `ip_local_reserved_ports`, for IPv6, too. A port
    /// outside it must not be asked for: the kernel would silently accept it.
    pub usable: PortSet,
    /// Ascending: ports in the range that have a listener. One listener blocks its port for
    /// every local address. Not taken out of `usable`, whose numbering all shards must share even
    /// if a listener comes or goes while they start.
    pub listening: Vec<u16>,
}

impl HostPorts {
    /// Reads below `proc_root` (`/proc`). Listeners that cannot be read are found by refusals.
    pub fn read(proc_root: &Path) -> io::Result<Self> {
        let sysctls = proc_root.join("sys/net/ipv4");
        let range = std::fs::read_to_string(sysctls.join("ip_local_port_range"))?;
        let range = parse_range(&range).ok_or_else(|| {
            let text = format!("ip_local_port_range holds {:?}, not two ports", range.trim());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        let reserved = std::fs::read_to_string(sysctls.join("ip_local_reserved_ports"));
        let usable = PortSet::new(range, &parse_list(&reserved.unwrap_or_default()));
        let mut listening = Vec::new();
        for table in ["net/tcp", "net/tcp6"] {
            // A kernel without IPv6 has no tcp6.
            if let Ok(file) = File::open(proc_root.join(table)) {
                read_listeners(BufReader::new(file), &mut listening)?;
            }
        }
        listening.retain(|port| usable.contains(*port));
        listening.sort_unstable();
        listening.dedup();
        Ok(Self { usable, listening })
    }

    /// Returns the number of ports that a connection may have.
    pub fn available(&self) -> u32 {
        self.usable.len() - self.listening.len() as u32
    }
}

/// Parses the two numbers of `net.ipv4.ip_local_port_range`: `32768\t60999`.
pub fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut ends = text.split_ascii_whitespace().map(str::parse);
    Some(ends.next()?.ok()?..=ends.next()?.ok()?)
}

/// `8080,9148-9150`; what is no port is passed over.
fn parse_list(text: &str) -> Vec<RangeInclusive<u16>> {
    let entries = text.trim().split(',');
    let parse = |entry: &str| {
        let (first, last) = entry.split_once('-').unwrap_or((entry, entry));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    entries.filter_map(parse).collect()
}

/// Listeners come first in the table; the millions of connections after them are not read.
fn read_listeners(table: impl BufRead, listening: &mut Vec<u16>) -> io::Result<()> {
    for line in table.lines().skip(1) {
        let line = line?;
        // sl, local address, remote address, state.
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, state) = (fields.next(), fields.nth(1));
        if state != Some(LISTEN) {
            break;
        }
        let port = local.and_then(|local| local.rsplit_once(':'));
        listening.extend(port.and_then(|(_, port)| u16::from_str_radix(port, 16).ok()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n   \
        0: 0100007F:9C40 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n   \
        1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n   \
        2: 0100007F:9C41 0100007F:0050 01 00000000:00000000 00:00000000 00000000     0\n   \
        3: 0100007F:9C42 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0\n";

    #[test]
    fn a_host_is_read_from_its_files() {
        let root = tempfile::tempdir().unwrap();
        let sysctls = root.path().join("sys/net/ipv4");
        std::fs::create_dir_all(&sysctls).unwrap();
        std::fs::create_dir_all(root.path().join("net")).unwrap();
        assert!(HostPorts::read(root.path()).is_err());
        std::fs::write(sysctls.join("ip_local_port_range"), "40000\t40009\n").unwrap();
        std::fs::write(sysctls.join("ip_local_reserved_ports"), "80,40003,40005-40006\n").unwrap();
        std::fs::write(root.path().join("net/tcp"), TABLE).unwrap();
        let ports = HostPorts::read(root.path()).unwrap();
        assert_eq!(
            ports.usable,
            PortSet::new(40_000..=40_009, &[40_003..=40_003, 40_005..=40_006])
        );
        // 0x9C40 is 40000. The table is read only as far as its listeners go, and 80 is outside.
        assert_eq!((&ports.listening[..], ports.available()), (&[40_000][..], 6));
        std::fs::write(sysctls.join("ip_local_port_range"), "many\n").unwrap();
        let error = HostPorts::read(root.path()).unwrap_err();
        assert_eq!(error.to_string(), "ip_local_port_range holds \"many\", not two ports");
    }

    #[test]
    fn this_host_is_readable() {
        assert!(!HostPorts::read(Path::new("/proc")).unwrap().usable.is_empty());
    }
}
