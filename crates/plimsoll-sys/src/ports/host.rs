//! Ports of the host: its range, reserved ports, and listeners.

use std::io;
use std::ops::RangeInclusive;
use std::path::Path;

use super::set::PortSet;
use crate::sock_diag;

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
    /// Reads the range below `proc_root` (`/proc`), and the listeners of this network namespace. Those that cannot be
    /// read are found by refusals.
    pub fn read(proc_root: &Path) -> io::Result<Self> {
        let sysctls = proc_root.join("sys/net/ipv4");
        let range = std::fs::read_to_string(sysctls.join("ip_local_port_range"))?;
        let range = parse_range(&range).ok_or_else(|| {
            let text = format!("ip_local_port_range holds {:?}, not two ports", range.trim());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        let reserved = std::fs::read_to_string(sysctls.join("ip_local_reserved_ports"));
        let usable = PortSet::new(range, &parse_list(&reserved.unwrap_or_default()));
        let queues = sock_diag::listen_queues().unwrap_or_default();
        let ports = queues.iter().map(|queue| queue.address.port());
        let mut listening: Vec<_> = ports.filter(|port| usable.contains(*port)).collect();
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

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_host_is_read_from_its_files() {
        let root = tempfile::tempdir().unwrap();
        let sysctls = root.path().join("sys/net/ipv4");
        std::fs::create_dir_all(&sysctls).unwrap();
        assert!(HostPorts::read(root.path()).is_err());
        // Ports of services that hardly any host has.
        std::fs::write(sysctls.join("ip_local_port_range"), "700\t709\n").unwrap();
        std::fs::write(sysctls.join("ip_local_reserved_ports"), "80,703,705-706\n").unwrap();
        let ports = HostPorts::read(root.path()).unwrap();
        assert_eq!(ports.usable, PortSet::new(700..=709, &[703..=703, 705..=706]));
        assert_eq!((&ports.listening[..], ports.available()), (&[][..], 7));
        std::fs::write(sysctls.join("ip_local_port_range"), "many\n").unwrap();
        let error = HostPorts::read(root.path()).unwrap_err();
        assert_eq!(error.to_string(), "ip_local_port_range holds \"many\", not two ports");
    }

    #[test]
    fn a_port_with_listeners_is_not_available() {
        assert!(!HostPorts::read(Path::new("/proc")).unwrap().usable.is_empty());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let _on_another_address = TcpListener::bind(("127.0.0.2", port)).unwrap();
        let _outside_the_range = TcpListener::bind("127.0.0.1:0").unwrap();
        let root = tempfile::tempdir().unwrap();
        let sysctls = root.path().join("sys/net/ipv4");
        std::fs::create_dir_all(&sysctls).unwrap();
        std::fs::write(sysctls.join("ip_local_port_range"), format!("{port}\t{port}\n")).unwrap();
        let ports = HostPorts::read(root.path()).unwrap();
        assert_eq!((&ports.listening[..], ports.available()), (&[port][..], 0));
    }
}
