//! Limits of a server's own configuration, and how much of each is in use: HAProxy's `maxconn`, of
//! the process and of each frontend.

use std::path::Path;

use plimsoll_model::host::{LimitId, LimitKind, LimitUse};

use crate::haproxy_socket::HaproxySocket;
use crate::server_counters::{CounterSource, frontends, table};
use crate::server_timers::is_haproxy;

/// The scope of the limits of an HAProxy process.
const PROCESS: &str = "HAProxy";

/// Reads them from a server; none of nginx, which does not report any.
pub fn read(source: &CounterSource) -> Vec<LimitUse> {
    let CounterSource::Haproxy(socket) = source else { return Vec::new() };
    let ask = |question| CounterSource::ask_haproxy(socket, question).unwrap_or_default();
    of_haproxy(&ask("show info"), &ask("show stat"))
}

/// Reads HAProxy's limits of rates, and its `maxconn` of each server.
pub fn read_rates(socket: &HaproxySocket) -> Vec<LimitUse> {
    let ask = |question| CounterSource::ask_haproxy(socket, question).unwrap_or_default();
    of_rates(&ask("show info"), &ask("show stat"), None)
}

/// Returns the servers behind HAProxy that it sends requests to, as `backend/server`.
pub fn haproxy_servers(socket: &HaproxySocket) -> Vec<String> {
    let stat = CounterSource::ask_haproxy(socket, "show stat").unwrap_or_default();
    servers_in_use(&stat)
}

fn servers_in_use(stat: &str) -> Vec<String> {
    let servers = table(stat, ["pxname", "svname", "status"]).into_iter();
    let in_use = servers.filter(|[_, name, status]| {
        // A server without health checks is `no check`.
        !["FRONTEND", "BACKEND", ""].contains(name) && !status.starts_with("MAINT")
    });
    in_use.map(|[proxy, name, _]| format!("{proxy}/{name}")).collect()
}

/// Returns the processes of the HAProxy behind `socket`, as it reports them; none if it does not answer. An HAProxy on
/// another host or in a container reports ids that are meaningless here, or belong to another process.
pub fn haproxy_processes(socket: &HaproxySocket) -> Vec<u32> {
    let info = CounterSource::ask_haproxy(socket, "show info").unwrap_or_default();
    let pids = info.lines().filter_map(|line| line.strip_prefix("Pid: ")?.trim().parse().ok());
    pids.filter(|pid| is_haproxy(Path::new("/"), *pid)).collect()
}

/// Returns the limits in HAProxy's answers to `show info` and `show stat`.
pub(crate) fn of_haproxy(info: &str, stat: &str) -> Vec<LimitUse> {
    let mut limits = of_process(info);
    limits.extend(of_frontends(stat));
    limits
}

/// `show info`: a line for each figure, `Maxconn: 220`. 0 is no limit.
fn of_process(answer: &str) -> Vec<LimitUse> {
    let limits = [
        (LimitKind::Maxconn, "CurrConns", "Maxconn"),
        (LimitKind::MaxSslConn, "CurrSslConns", "MaxSslConns"),
    ];
    limits.into_iter().filter_map(|(kind, used, max)| known(answer, kind, used, max)).collect()
}

/// Reads a limit of the process from two lines of `show info`.
fn known(info: &str, kind: LimitKind, used: &str, max: &str) -> Option<LimitUse> {
    let figure = |name: &str| -> Option<u64> {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))?;
        line.trim().parse().ok()
    };
    in_use(LimitId::of(kind, PROCESS), figure(used), figure(max))
}

/// The use of a limit, if both figures are known; 0 is no limit.
fn in_use(id: LimitId, used: Option<u64>, max: Option<u64>) -> Option<LimitUse> {
    let (used, max) = (used? as f64, max.filter(|max| *max > 0)? as f64);
    Some(LimitUse { id, used, max })
}

/// `show stat`: scur and slim of each frontend.
fn of_frontends(answer: &str) -> Vec<LimitUse> {
    let of_frontend = |[proxy, used, max]: [&str; 3]| {
        let id = LimitId::of(LimitKind::FrontendMaxconn, proxy);
        in_use(id, used.parse().ok(), max.parse().ok())
    };
    let frontends = frontends(answer, ["pxname", "scur", "slim"]).unwrap_or_default();
    frontends.into_iter().filter_map(of_frontend).collect()
}

/// Reads limits of a rate of requests rather than of a number of connections. In `show info`: new connections, sessions
/// and TLS sessions per second of the process. In `show stat`: sessions per second of each frontend with a
/// `rate-limit`, the requests that each server with a `maxconn` has, and the connections to each server, of which
/// `ports` are possible: connections in TIME_WAIT are not known.
pub(crate) fn of_rates(info: &str, stat: &str, ports: Option<u64>) -> Vec<LimitUse> {
    let rates = [
        (LimitKind::ConnectionRate, "ConnRate", "ConnRateLimit"),
        (LimitKind::SessionRate, "SessRate", "SessRateLimit"),
        (LimitKind::TlsRate, "SslRate", "SslRateLimit"),
    ];
    let of_process = rates.into_iter().filter_map(|(kind, used, max)| known(info, kind, used, max));
    of_process.chain(of_servers(stat, ports)).collect()
}

fn of_servers(stat: &str, ports: Option<u64>) -> impl Iterator<Item = LimitUse> {
    let columns = [
        "pxname",
        "svname",
        "rate",
        "rate_lim",
        "scur",
        "slim",
        "addr",
        "idle_conn_cur",
        "safe_conn_cur",
    ];
    table(stat, columns).into_iter().flat_map(move |line| {
        let [proxy, name, rate, rate_max, sessions, sessions_max, address, idle, safe] = line;
        let number = |text: &str| text.parse::<u64>().ok();
        match name {
            "FRONTEND" => {
                let id = LimitId::of(LimitKind::FrontendRate, proxy);
                [in_use(id, number(rate), number(rate_max)), None]
            }
            "BACKEND" => [None, None],
            server => {
                let idle = number(idle).unwrap_or(0) + number(safe).unwrap_or(0);
                let used = number(sessions).map(|sessions| sessions + idle);
                // A server at a Unix socket needs no port.
                let ports = ports.filter(|_| address.contains(':'));
                let of = |kind| LimitId::of(kind, format!("{proxy}/{server}"));
                [
                    in_use(of(LimitKind::ServerMaxconn), number(sessions), number(sessions_max)),
                    in_use(of(LimitKind::ServerPorts), used, ports),
                ]
            }
        }
        .into_iter()
        .flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowance(id: &str, used: f64, max: f64) -> LimitUse {
        LimitUse { id: id.parse().unwrap(), used, max }
    }

    #[test]
    fn haproxys_limits_are_understood() {
        // HAProxy 2.6, shortened.
        let info = "Name: HAProxy\nMaxconn: 220\nHard_maxconn: 220\nCurrConns: 3\nCumConns: 9\n\
                    MaxSslConns: 0\nCurrSslConns: 3\n";
        assert_eq!(of_process(info), [allowance("maxconn of HAProxy", 3.0, 220.0)]);
        let stat = "# pxname,svname,qcur,qmax,scur,smax,slim,stot\ntls,FRONTEND,,,3,100,200,2418\n\
                    backends,b1,0,0,0,9,,9\nbackends,BACKEND,0,0,0,20,20,91244\n\n";
        assert_eq!(of_frontends(stat), [allowance("maxconn of frontend tls", 3.0, 200.0)]);
    }

    #[test]
    fn limits_of_rates_are_understood() {
        let info = "ConnRate: 7\nConnRateLimit: 280\nSessRate: 7\nSessRateLimit: 0\nSslRate: 3\n";
        let stat = "# pxname,svname,scur,slim,rate,rate_lim,addr,idle_conn_cur,safe_conn_cur\n\
                    tls,FRONTEND,3,200,440,450,,,\nplain,FRONTEND,3,200,440,0,,,\n\
                    b,s1,4,4,90,,10.0.0.1:80,0,2\nb,s2,4,,90,,unix@x,1,1\nb,BACKEND,8,20,180,,,,\n\n";
        let of_configuration = [
            allowance("maxconnrate of HAProxy", 7.0, 280.0),
            allowance("rate-limit of frontend tls", 440.0, 450.0),
            allowance("maxconn of server b/s1", 4.0, 4.0),
        ];
        assert_eq!(of_rates(info, stat, None), of_configuration);
        let with_ports = of_rates(info, stat, Some(28_232));
        assert_eq!(with_ports[..3], of_configuration);
        assert_eq!(with_ports[3..], [allowance("ports to server b/s1", 6.0, 28_232.0)]);
        assert_eq!(of_rates("", "# a,b\n1,2\n", Some(1)), []);
    }

    #[test]
    fn servers_that_get_requests_are_known() {
        let stat = "# pxname,svname,status\ntls,FRONTEND,OPEN\nb,s1,no check\nb,s2,MAINT\n\
                    b,s3,UP\nb,BACKEND,UP\n\n";
        assert_eq!(servers_in_use(stat), ["b/s1", "b/s3"]);
        assert!(servers_in_use("Unknown command\n").is_empty());
    }

    #[test]
    fn what_is_not_reported_is_no_limit() {
        for broken in ["", "Unknown command\n", "# a,b\n1,2\n", "Maxconn: x\nCurrConns: 1\n"] {
            assert_eq!(of_process(broken), []);
            assert_eq!(of_frontends(broken), []);
        }
        assert_eq!(read(&CounterSource::Haproxy(Path::new("/nowhere/haproxy.sock").into())), []);
    }
}
