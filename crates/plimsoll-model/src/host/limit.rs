//! Limits of hosts, processes and servers, and the use of each.
//!
//! [`LimitKind`] is the table of resources with their units. A [`LimitId`] adds the scope (process, control group,
//! listener, frontend or server; none for the whole host) and is spelled `open files of haproxy` in JSON. The sampler
//! writes use and maximum as two samples with labels of the limit; [`limits`] reads them back as [`LimitUse`].
//! [`LimitKind::full_at`] states from which share on a limit counts as full. Start reading at [`limits`].

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::metric::{Label, Metric};
use super::reading::Reading;
use crate::catalogue::catalogue;
use crate::trial::Unit;

/// The scope of a limit that holds for the whole host, in the labels of a reading.
const HOST: &str = "host";
/// The scope named `host`, in the labels of a reading. Nothing else has this name: those of processes are shorter, and
/// those of proxies have no spaces.
const NAMED_HOST: &str = "the one named host";

catalogue! {
    /// Resource that a limit bounds.
    LimitKind,
    /// The unit in which use and limit are counted.
    unit: Unit;

    Count {
        OpenFiles = "open files": "Open files, of a process or of the host (`fs.file-max`).";
        Threads = "threads": "Threads of the host.";
        CgroupThreads = "cgroup threads": "Threads of a control group (`pids.max`).";
        Orphans = "orphaned sockets": "`net.ipv4.tcp_max_orphans`.";
        TimeWait = "TIME_WAIT sockets": "`net.ipv4.tcp_max_tw_buckets`.";
        TrackedConnections = "tracked connections": "`net.netfilter.nf_conntrack_max`.";
        AcceptQueue = "accept queue": "Connections that wait in the accept queue of a listener.";
        EpollWatches = "epoll watches": "`fs.epoll.max_user_watches`.";
        Ports = "ports": "Source ports of clients.";
        WorkerConnections = "worker_connections": "Connections of an nginx worker.";
        MaxConnections = "max_connections": "Connections of a mosquitto broker.";
        Maxconn = "maxconn": "Connections of an HAProxy process.";
        MaxSslConn = "maxsslconn": "TLS connections of an HAProxy process.";
        FrontendMaxconn = "maxconn of frontend": "Connections of an HAProxy frontend.";
        ServerMaxconn = "maxconn of server": "Requests that HAProxy sends to a server at a time.";
        ServerPorts = "ports to server": "Source ports from HAProxy to a server.";
        ConnectionRate = "maxconnrate": "New connections per second of an HAProxy process.";
        SessionRate = "maxsessrate": "Sessions per second of an HAProxy process.";
        TlsRate = "maxsslrate": "TLS sessions per second of an HAProxy process.";
        FrontendRate = "rate-limit of frontend": "Sessions per second of an HAProxy frontend.";
    }
    Bytes {
        Memory = "memory": "Memory of the host.";
        CgroupMemory = "cgroup memory": "Memory of a control group.";
        AddressSpace = "address space": "Address space of a process (`ulimit -v`).";
        TcpMemory = "TCP memory": "`net.ipv4.tcp_mem`: data in all socket buffers.";
    }
}

impl LimitKind {
    /// Returns the share of the limit from which on it counts as full.
    pub const fn full_at(self) -> f64 {
        match self {
            // nginx closes idle connections when fewer than a sixteenth are free.
            Self::WorkerConnections => 0.93,
            _ => 0.98,
        }
    }

    /// Returns the text between name and scope: a space if the name ends with the type of its scope, else ` of `.
    const fn joint(self) -> &'static str {
        match self {
            Self::FrontendMaxconn
            | Self::ServerMaxconn
            | Self::ServerPorts
            | Self::FrontendRate => " ",
            _ => " of ",
        }
    }
}

/// One limit: its kind and its scope. JSON has it as text: `open files of haproxy`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LimitId {
    /// Resource that is bounded.
    pub kind: LimitKind,
    /// The process, control group, listener, frontend or server with the limit; `None` for the whole host.
    pub scope: Option<String>,
}

impl LimitId {
    /// Creates the limit of a process, control group, listener, frontend or server.
    pub fn of(kind: LimitKind, scope: impl Into<String>) -> Self {
        Self { kind, scope: Some(scope.into()) }
    }

    /// Creates a limit of the whole host.
    pub const fn host(kind: LimitKind) -> Self {
        Self { kind, scope: None }
    }

    /// Returns the labels of its series in a reading.
    pub fn labels(&self) -> [(Label, &str); 2] {
        let scope = match self.scope.as_deref() {
            None => HOST,
            Some(HOST) => NAMED_HOST,
            Some(scope) => scope,
        };
        [(Label::Limit, self.kind.name()), (Label::Scope, scope)]
    }

    fn from_labels(kind: &str, scope: &str) -> Option<Self> {
        let kind = *LimitKind::ALL.iter().find(|known| known.name() == kind)?;
        Some(match scope {
            HOST => Self::host(kind),
            NAMED_HOST => Self::of(kind, HOST),
            scope => Self::of(kind, scope),
        })
    }
}

impl fmt::Display for LimitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        self.scope.iter().try_for_each(|scope| write!(f, "{}{scope}", self.kind.joint()))
    }
}

impl FromStr for LimitId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = |kind: &LimitKind| {
            let rest = text.strip_prefix(kind.name())?;
            match rest {
                "" => Some(Self::host(*kind)),
                _ => Some(Self::of(*kind, rest.strip_prefix(kind.joint())?)),
            }
        };
        // `maxconn` is a prefix of `maxconn of frontend`, so the longest kind that matches counts.
        let known = LimitKind::ALL.iter().filter_map(read).max_by_key(|id| id.kind.name().len());
        known.ok_or_else(|| format!("no such limit: {text}"))
    }
}

written_as_text!(LimitId);

/// A limit with its use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LimitUse {
    /// The limit.
    pub id: LimitId,
    /// Amount in use, in the unit of the kind.
    pub used: f64,
    /// The maximum, in the same unit.
    pub max: f64,
}

impl LimitUse {
    /// Returns the fraction in use; 0 without a maximum.
    pub fn fraction(&self) -> f64 {
        if self.max > 0.0 { self.used / self.max } else { 0.0 }
    }

    /// Returns the seconds until the limit is reached if use grows as it has since `earlier`, `seconds` ago; `None` if
    /// use does not grow.
    pub fn seconds_left(&self, earlier: &Self, seconds: f64) -> Option<f64> {
        let slope = (self.used - earlier.used) / seconds;
        (slope > 0.0).then(|| (self.max - self.used).max(0.0) / slope)
    }
}

/// Returns the limits whose maximum and use were both read.
pub fn limits(reading: &Reading) -> impl Iterator<Item = LimitUse> {
    reading.of(Metric::LimitMax, &[]).filter_map(|max| {
        let label = |label| max.series.label(label);
        let id = LimitId::from_labels(label(Label::Limit)?, label(Label::Scope)?)?;
        let used = reading.sum(Metric::LimitUsed, &id.labels())?;
        Some(LimitUse { id, used, max: max.value })
    })
}

/// Returns the limits with the highest fraction in use, the fullest first, at most `count`.
pub fn fullest_limits(reading: &Reading, count: usize) -> Vec<LimitUse> {
    let mut all: Vec<LimitUse> = limits(reading).collect();
    all.sort_by(|a, b| b.fraction().total_cmp(&a.fraction()));
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_is_read_back_from_labels_and_text() {
        for kind in LimitKind::ALL {
            let named = ["b/s1", "a of b", "host"].map(|scope| LimitId::of(*kind, scope));
            for id in named.into_iter().chain([LimitId::host(*kind)]) {
                assert_eq!(id.to_string().parse(), Ok(id.clone()));
                let [(_, kind), (_, scope)] = id.labels();
                assert_eq!(LimitId::from_labels(kind, scope), Some(id));
            }
        }
        let text = |kind, scope| LimitId::of(kind, scope).to_string();
        assert_eq!(text(LimitKind::FrontendMaxconn, "tls"), "maxconn of frontend tls");
        assert_eq!(text(LimitKind::OpenFiles, "haproxy"), "open files of haproxy");
        assert!("shoes of haproxy".parse::<LimitId>().is_err());
    }

    #[test]
    fn a_process_named_host_is_not_the_host() {
        let mut reading = Reading::default();
        let both = [LimitId::host(LimitKind::OpenFiles), LimitId::of(LimitKind::OpenFiles, "host")];
        for (id, used) in both.iter().zip([300.0, 20.0]) {
            reading.add(Metric::LimitUsed, &id.labels(), used);
            reading.add(Metric::LimitMax, &id.labels(), 1_000.0);
        }
        reading.sort();
        let read = fullest_limits(&reading, 5).into_iter().map(|limit| (limit.id, limit.used));
        assert!(read.eq(both.into_iter().zip([300.0, 20.0])));
    }

    #[test]
    fn the_fullest_comes_first_and_says_when_it_ends() {
        let mut reading = Reading::default();
        let of_haproxy = LimitId::of(LimitKind::OpenFiles, "haproxy");
        for (id, used, max) in
            [(&of_haproxy, 60.0, 100.0), (&LimitId::host(LimitKind::OpenFiles), 10.0, 1_000.0)]
        {
            reading.add(Metric::LimitUsed, &id.labels(), used);
            reading.add(Metric::LimitMax, &id.labels(), max);
        }
        // A limit whose use is not known is not listed.
        reading.add(Metric::LimitMax, &LimitId::host(LimitKind::Ports).labels(), 5.0);
        reading.sort();
        let fullest = fullest_limits(&reading, 5);
        assert_eq!(fullest.len(), 2);
        assert_eq!((&fullest[0].id, fullest[0].fraction()), (&of_haproxy, 0.6));
        let earlier = LimitUse { used: 40.0, ..fullest[0].clone() };
        assert_eq!(fullest[0].seconds_left(&earlier, 2.0), Some(4.0));
        assert_eq!(fullest[1].seconds_left(&fullest[1], 2.0), None);
    }
}
