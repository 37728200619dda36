//! The task of a proxy under test, independent of the program.
//!
//! `RunningSut` fills one [`ProxyPlan`], and the description of each program turns it into a configuration;
//! `ProxyPlan::tuned` writes the one of `tune` instead. TLS, if used, ends at the proxy; backends are plain. All
//! timeouts have one value in whole milliseconds, at most 2^31 - 1, because HAProxy counts them in 31 bits. Start
//! reading at the fields of [`ProxyPlan`].

use std::net::SocketAddr;
use std::path::PathBuf;

use plimsoll_model::Nanos;
use plimsoll_model::cliff::{Awaits, KnownTimer, Owner};
use plimsoll_model::target::Protocol;
use plimsoll_tune::proxy::{Dialect, Places, ProxyGoal, Version};

use crate::settings::SutSettings;

/// The task of one proxy: TLS towards the clients if [`Self::tls`] is set, none towards the backends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyPlan {
    /// Listening address for clients. Several processes of HAProxy or nginx may share it: they bind with
    /// `SO_REUSEPORT`.
    pub(crate) listen: SocketAddr,
    /// Servers without TLS behind the proxy; at least one, or every request fails.
    pub(crate) backends: Vec<SocketAddr>,
    /// PEM file with the certificate chain, leaf first, and then the key: every program reads both from one file.
    pub(crate) certificate_pem_path: PathBuf,
    /// Client connections held at once; at least 1. A proxy needs about twice as many file descriptors: see
    /// `descriptors_needed` in `sut/haproxy.rs` and `sut/nginx.rs`.
    pub(crate) connections_max: u64,
    /// Value of every timeout of the proxy. It is longer than the longest wait of the load, so that no timer of the SUT
    /// ends a measured operation.
    pub(crate) timeout: Nanos,
    /// Threads of HAProxy, worker processes of nginx; at least 1.
    pub(crate) threads: u32,
    /// CPUs that the threads are pinned to, round robin; empty pins nothing.
    pub(crate) cpus: Vec<u32>,
    /// TLS sessions that HAProxy caches; `None` leaves its default of 20,000, about 4 MB in each
    /// process. nginx caches none by default.
    pub(crate) tls_sessions_max: Option<u32>,
    /// Protocol of clients and backends.
    pub(crate) protocol: Protocol,
    /// `true` if clients connect over TLS.
    pub(crate) tls: bool,
    /// `true` if TLS sessions may be resumed, as the programs allow by themselves; otherwise there are
    /// neither tickets nor a session cache.
    pub(crate) resumes: bool,
    /// Socket at which HAProxy answers `show info` and `show stat`, and nginx its stub_status; at most 97
    /// bytes, a limit of HAProxy's.
    pub(crate) stats_socket: PathBuf,
    /// nginx serves stub_status there; a build without that module refuses it.
    pub(crate) stub_status: bool,
    /// Other settings.
    pub(crate) settings: SutSettings,
    /// An existing directory that the proxy may write into: nginx's pid and temporary files.
    pub(crate) scratch: PathBuf,
}

impl ProxyPlan {
    /// Returns the place of log lines, if there are any: a socket for HAProxy, a file for nginx.
    pub(crate) fn log(&self) -> PathBuf {
        self.scratch.join("access.log")
    }

    /// Returns the configuration that `tune` writes for `goal`, with the addresses and places of this laboratory.
    pub(crate) fn tuned(&self, dialect: &Dialect, version: Version, goal: &ProxyGoal) -> String {
        let goal = ProxyGoal {
            cores: self.threads,
            certificate: self.certificate_pem_path.clone(),
            backends: self.backends.iter().map(ToString::to_string).collect(),
            named_backends: Vec::new(),
            listen: self.listen.to_string(),
            places: Places {
                user: None,
                chroot: None,
                statistics: self.stub_status.then(|| self.stats_socket.clone()),
                log: Some(self.log()),
                state: self.scratch.clone(),
            },
            ..goal.clone()
        };
        dialect.configure(version, &goal).text
    }

    /// Returns the timeout in whole milliseconds, rounded up, at most what the timers of all programs can hold.
    pub(crate) fn timeout_ms(&self) -> u64 {
        // HAProxy counts ticks of 1 ms in 31 bits: 24.8 days.
        self.timeout.0.div_ceil(1_000_000).clamp(1, i32::MAX as u64)
    }

    /// Returns the timers of `program` that can end an operation of a client; all have the plan's timeout.
    pub(crate) fn timers(
        &self,
        program: &str,
        named: impl IntoIterator<Item = (&'static str, Awaits)>,
    ) -> Vec<KnownTimer> {
        let timer = |(name, awaits)| KnownTimer {
            name: format!("{program} {name}"),
            at: Nanos::from_millis(self.timeout_ms()),
            owner: Owner::Sut,
            awaits,
        };
        named.into_iter().map(timer).collect()
    }

    /// Returns the CPU of each of `threads` threads, in order; empty if no thread is pinned.
    pub(crate) fn cpu_per_thread(&self, threads: u32) -> Vec<u32> {
        self.cpus.iter().copied().cycle().take(threads as usize * self.cpus.len().min(1)).collect()
    }

    /// Creates a plan for tests with files under `scratch`.
    #[cfg(test)]
    pub(crate) fn sample(scratch: &std::path::Path) -> Self {
        Self {
            // -c and -t accept an address that is in use, so a fixed port causes no conflict.
            listen: SocketAddr::from(([127, 0, 0, 1], 8443)),
            backends: vec![
                SocketAddr::from(([127, 0, 0, 1], 9001)),
                SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 9002)),
            ],
            certificate_pem_path: scratch.join("lab.pem"),
            connections_max: 1_000,
            timeout: Nanos::from_secs(160),
            threads: 2,
            cpus: vec![1, 3],
            tls_sessions_max: None,
            protocol: Protocol::Http1,
            tls: true,
            resumes: true,
            stats_socket: scratch.join("stats.sock"),
            stub_status: true,
            settings: SutSettings::default(),
            scratch: scratch.to_owned(),
        }
    }

    /// Creates a plan like [`Self::sample`], with Debian's configuration.
    #[cfg(test)]
    pub(crate) fn debian(scratch: &std::path::Path) -> Self {
        let configuration = crate::settings::ProxyConfiguration::Debian;
        let settings = SutSettings { configuration, ..SutSettings::default() };
        Self { settings, ..Self::sample(scratch) }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn timeouts_round_up_and_stay_in_range() {
        let mut plan = ProxyPlan::sample(Path::new("/scratch"));
        for (timeout, ms) in [
            (Nanos::ZERO, 1),                  // 0 would mean "none"
            (Nanos(1), 1),                     // never shorter than asked
            (Nanos(160_000_000_001), 160_001), // rounded up
            (Nanos::MAX, 2_147_483_647),       // as long as the timer can hold
        ] {
            plan.timeout = timeout;
            assert_eq!(plan.timeout_ms(), ms, "{timeout:?}");
        }
    }

    #[test]
    fn threads_take_the_cpus_in_turn() {
        let mut plan = ProxyPlan::sample(Path::new("/scratch"));
        assert_eq!(plan.cpu_per_thread(3), [1, 3, 1]);
        assert_eq!(plan.cpu_per_thread(1), [1]);
        plan.cpus.clear();
        assert!(plan.cpu_per_thread(3).is_empty());
    }
}
