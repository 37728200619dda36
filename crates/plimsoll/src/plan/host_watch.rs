//! `plimsoll watch` into a job.

use std::net::SocketAddr;
use std::time::Duration;

use plimsoll_model::Nanos;
use plimsoll_model::host::Role;
use plimsoll_probe::sampler::Scope;
use plimsoll_probe::server_counters::CounterSource;

use super::publish::{PublishJob, listen_address};
use super::{Inputs, outputs, publish};
use crate::exit::Result;
use crate::flags::WatchFlags;
use crate::flags::values::ListenAt;

/// The shortest and the longest time between two readings.
const INTERVAL_MIN: Nanos = Nanos::from_millis(100);
const INTERVAL_MAX: Nanos = Nanos::from_secs(3_600);

/// Readings, their period, and their receivers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WatchJob {
    /// The flags, checked.
    pub(crate) flags: WatchFlags,
    pub(crate) scope: Scope,
    pub(crate) publish: PublishJob,
    pub(crate) statsd_listen: Option<SocketAddr>,
}

/// Checks and resolves the flags of `watch`.
pub(crate) fn build(flags: &WatchFlags, inputs: &Inputs) -> Result<WatchJob> {
    refuse_if!(!(INTERVAL_MIN..=INTERVAL_MAX).contains(&flags.interval);
        "--interval {} is not between 100 ms and 1 h", flags.interval; "use --interval 1s");
    outputs::check_json(flags.json.as_ref())?;
    let mut scope = Scope::default();
    for pid in &flags.pid {
        scope.add_process(inputs.process("--pid ", *pid)?, Role::Server);
    }
    for socket in &flags.haproxy {
        let pids = plimsoll_probe::server_limits::haproxy_processes(socket);
        let new = |pid: &u32| !flags.pid.contains(pid) && (inputs.is_alive)(*pid);
        pids.into_iter().filter(new).for_each(|pid| scope.add_process(pid, Role::Server));
        scope.servers.push(CounterSource::Haproxy(socket.clone()));
    }
    scope.servers.extend(flags.nginx.iter().cloned().map(CounterSource::Nginx));
    let listen = |at: &ListenAt| listen_address(at, "--statsd-listen", inputs);
    let mut publish = publish::build(&flags.publish, inputs)?;
    // The last reading is no result that a scraper must not miss.
    publish.linger = flags.publish.metrics_linger.map_or(Duration::ZERO, Duration::from);
    Ok(WatchJob {
        flags: flags.clone(),
        scope,
        publish,
        statsd_listen: flags.statsd_listen.as_ref().map(listen).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Command, parse_words};

    fn built(words: &[&str]) -> Result<WatchJob> {
        let Command::Watch(flags) = parse_words(words)? else { panic!("{words:?}") };
        build(&flags, &Inputs::of_host(std::io::empty()))
    }

    #[test]
    fn flags_become_a_job() {
        let job = built(&["watch", "--prometheus", "9477", "--statsd", "127.0.0.1"]).unwrap();
        let prometheus = job.publish.prometheus.map(|at| at.address);
        assert_eq!(prometheus, Some("127.0.0.1:9477".parse().unwrap()));
        assert_eq!(job.publish.statsd, Some("127.0.0.1:8125".parse().unwrap()));
        let WatchFlags { interval, duration, no_ui, .. } = job.flags;
        assert_eq!((interval, duration, no_ui), (Nanos::from_secs(1), None, false));
    }

    #[test]
    fn bad_input_is_one_line() {
        for (words, complaint) in [
            (&["watch", "--interval", "50ms"][..], "between 100 ms and 1 h"),
            (&["watch", "--prometheus", "9000-9001"], "--prometheus takes one port"),
            (&["watch", "--statsd", "a/b"], "--statsd \"a/b\" is not HOST:PORT"),
            (&["watch", "--json", "no/such/file"], "lies in no directory that exists"),
        ] {
            let stop = built(words).unwrap_err();
            assert_eq!(stop.code(), 2, "{words:?}");
            let text = stop.complaint().unwrap();
            assert!(text.contains(complaint) && !text.contains('\n'), "{text}");
        }
    }
}
