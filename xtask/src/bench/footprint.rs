//! Memory and CPU time of a process and its descendants, as the kernel counts them.
//!
//! The functions read `/proc` once per call and store nothing. [`pss_bytes`] and [`cpu_s`] add up a process tree:
//! memory is the proportional set size, with swapped pages, and CPU time has a resolution of 10 ms. The functions
//! below them read counters of the whole machine: available memory without the inodes of sockets, and TCP
//! connections. Parsers take text, so that tests need no kernel. Start with [`pss_bytes`].

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::bench::process;

/// Clock ticks per second of /proc/PID/stat: USER_HZ, which Linux has fixed at 100 on all
/// architectures that we build for.
const TICKS_PER_S: f64 = 100.0;

/// Returns the user memory in bytes: the proportional set size, in which memory that several processes share
/// counts once.
pub(crate) fn pss_bytes(pid: u32) -> Result<u64> {
    let mut bytes = 0;
    for pid in process::tree(pid) {
        bytes += pss_of(Path::new(&format!("/proc/{pid}/smaps_rollup")))?;
    }
    Ok(bytes)
}

fn pss_of(path: &Path) -> Result<u64> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    pss(&text).with_context(|| format!("{}: no Pss", path.display()))
}

/// Returns the line `Pss:  1234 kB` of smaps_rollup, in bytes. Swapped pages are memory, too.
fn pss(text: &str) -> Option<u64> {
    let kib = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    };
    Some((kib("Pss:")? + kib("SwapPss:").unwrap_or(0)) * 1_024)
}

/// Returns user and system time so far, seconds, to a hundredth.
pub(crate) fn cpu_s(pid: u32) -> f64 {
    process::tree(pid).into_iter().filter_map(own_cpu_s).sum()
}

/// Returns the CPU time without that of its children; `None` once it has ended.
pub(crate) fn own_cpu_s(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(ticks(&stat)? as f64 / TICKS_PER_S)
}

/// Fields 14 and 15 of /proc/PID/stat. The second field is a name in parentheses that may hold
/// blanks and parentheses itself, so counting begins after its end.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ').skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Returns the memory that programs could still have, bytes: `MemAvailable`, less the inodes and dentries of
/// open sockets, which the kernel counts as if they could be given back.
pub(crate) fn available_bytes() -> Result<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").context("/proc/meminfo")?;
    let slabinfo = fs::read_to_string("/proc/slabinfo").context("/proc/slabinfo")?;
    let all = available(&meminfo).context("/proc/meminfo: no MemAvailable")?;
    let of_sockets = socket_files(&slabinfo).context("/proc/slabinfo: no sock_inode_cache")?;
    Ok(all.saturating_sub(of_sockets))
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1_024)
}

/// Inodes of sockets, with a dentry each, bytes. A line is a name, active objects, objects, bytes
/// of an object and more.
fn socket_files(slabinfo: &str) -> Option<u64> {
    let cache = |name: &str| {
        let line = slabinfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        let mut fields = line.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    let ((inodes, inode_bytes), (_, dentry_bytes)) = (cache("sock_inode_cache")?, cache("dentry")?);
    Some(inodes * (inode_bytes + dentry_bytes))
}

/// Returns the number of established connections on the local side of an IPv4 port.
pub(crate) fn established(port: u16) -> Result<usize> {
    let text = fs::read_to_string("/proc/net/tcp").context("/proc/net/tcp")?;
    Ok(text.lines().filter(|line| is_established(line, port)).count())
}

/// Reports whether a line of /proc/net/tcp, `0: 0100007F:1F90 0100007F:D2F0 01 ...`, is such a connection.
fn is_established(line: &str, port: u16) -> bool {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (Some(local), Some(_), Some(state)) = (fields.next(), fields.next(), fields.next()) else {
        return false;
    };
    let local = local.split_once(':').map(|(_, port)| u16::from_str_radix(port, 16));
    state == "01" && local == Some(Ok(port))
}

/// Returns the number of connections that this machine has accepted so far: `PassiveOpens`.
pub(crate) fn accepted() -> Result<u64> {
    tcp_here("PassiveOpens")
}

/// Returns the established connections of this machine, both ends if both are here: `CurrEstab`.
pub(crate) fn established_here() -> Result<u64> {
    tcp_here("CurrEstab")
}

/// Segments that this machine has received so far: `InSegs`.
pub(crate) fn segments_here() -> Result<u64> {
    tcp_here("InSegs")
}

fn tcp_here(name: &str) -> Result<u64> {
    let text = fs::read_to_string("/proc/net/snmp").context("/proc/net/snmp")?;
    tcp(&text, name).with_context(|| format!("/proc/net/snmp: no {name}"))
}

/// Finds a counter of TCP: two lines begin with `Tcp:`, names and numbers.
fn tcp(snmp: &str, wanted: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let index = lines.next()?.split(' ').position(|name| name == wanted)?;
    lines.next()?.split(' ').nth(index)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn memory_is_read() {
        let text = "56-7ff [rollup]\nRss:  4096 kB\nPss:                 123 kB\nPss_Anon:  9 kB\n\
                    SwapPss:               7 kB\n";
        assert_eq!(pss(text), Some(130 * 1_024));
        assert_eq!(pss("Pss: 1 kB\n"), Some(1_024));
        assert_eq!(pss("Pss_Anon: 1 kB\n"), None);
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:  2 kB\n"), Some(2_048));
        let slabinfo = "slabinfo - version: 2.1\nsock_inode_cache   280    300    832   19    4 :\n\
                        dentry 5000 6000 192 21 1 :\n";
        assert_eq!(socket_files(slabinfo), Some(300 * 1_024));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        // A page was touched before this was asked. Of this process alone: other tests start children.
        assert!(pss_of(Path::new("/proc/self/smaps_rollup")).unwrap() >= 4_096);
        assert!(available_bytes().unwrap() > 0);
    }

    #[test]
    fn cpu_time_is_read_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 150 25 900 900 20 0 1 0";
        assert_eq!(ticks(stat), Some(175));
        assert_eq!(ticks("7 (a"), None);
    }

    #[test]
    fn connections_are_counted_on_the_servers_side_only() {
        let line = "   0: 0100007F:1F90 0100007F:D2F0 01 00000000:00000000 00:00000000 0";
        assert!(is_established(line, 8_080));
        assert!(!is_established(line, 54_000));
        assert!(!is_established(&line.replace(" 01 ", " 06 "), 8_080));
        assert!(!is_established("  sl  local_address rem_address   st", 8_080));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let before = accepted().unwrap();
        let _streams = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        assert_eq!(established(address.port()).unwrap(), 3);
        // Others may have connected meanwhile.
        assert!(accepted().unwrap() >= before + 3);
        let snmp = "Ip: x y\nIp: 1 2\nTcp: ActiveOpens PassiveOpens\nTcp: 7 9\nUdp: x\n";
        assert_eq!(tcp(snmp, "PassiveOpens"), Some(9));
        assert_eq!(tcp("Tcp: ActiveOpens\nTcp: 7\n", "PassiveOpens"), None);
    }
}
