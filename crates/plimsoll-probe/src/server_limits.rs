//! Limits of a server's own configuration, and how much of each is in use: HAProxy's `maxconn`, of
//! the process and of each frontend.

use crate::haproxy_socket::HaproxySocket;
use crate::server_counters::{CounterSource, frontends, table};

/// A limit of a server's own configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimit {
    /// Its name in the server's documentation.
    pub name: String,
    /// In use.
    pub used: u64,
    /// The limit.
    pub limit: u64,
}

/// Reads them from a server; none of nginx, which does not report any.
pub fn read(source: &CounterSource) -> Vec<ServerLimit> {
    let CounterSource::Haproxy(socket) = source else { return Vec::new() };
    let ask = |question| CounterSource::ask_haproxy(socket, question).unwrap_or_default();
    of_haproxy(&ask("show info"), &ask("show stat"))
}

/// What bounds a rate at a server, as far as it reports that: HAProxy's limits of rates, and its `maxconn` of
/// each server.
pub fn read_rates(source: &CounterSource) -> Vec<ServerLimit> {
    let CounterSource::Haproxy(socket) = source else { return Vec::new() };
    let ask = |question| CounterSource::ask_haproxy(socket, question).unwrap_or_default();
    of_rates(&ask("show info"), &ask("show stat"), None)
}

/// The servers behind HAProxy that it sends requests to, as `backend/server`.
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

/// The processes of the HAProxy behind `socket`, by its own word; none where it does not answer.
pub fn haproxy_processes(socket: &HaproxySocket) -> Vec<u32> {
    let info = CounterSource::ask_haproxy(socket, "show info").unwrap_or_default();
    info.lines().filter_map(|line| line.strip_prefix("Pid: ")?.trim().parse().ok()).collect()
}

/// The limits in HAProxy's answers to `show info` and `show stat`.
pub(crate) fn of_haproxy(info: &str, stat: &str) -> Vec<ServerLimit> {
    let mut limits = of_process(info);
    limits.extend(of_frontends(stat));
    limits
}

/// `show info`: a line for each figure, `Maxconn: 220`. 0 is no limit.
fn of_process(answer: &str) -> Vec<ServerLimit> {
    [("maxconn", "CurrConns", "Maxconn"), ("maxsslconn", "CurrSslConns", "MaxSslConns")]
        .into_iter()
        .filter_map(|(name, used, limit)| known(answer, name, used, limit))
        .collect()
}

/// The limit called `name`, from two lines of `show info`.
fn known(info: &str, name: &str, used: &str, limit: &str) -> Option<ServerLimit> {
    let figure = |name: &str| -> Option<u64> {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))?;
        line.trim().parse().ok()
    };
    let (used, limit) = (figure(used)?, figure(limit)?);
    (limit > 0).then(|| ServerLimit { name: name.to_owned(), used, limit })
}

/// `show stat`: scur and slim of each frontend.
fn of_frontends(answer: &str) -> Vec<ServerLimit> {
    let of_frontend = |[proxy, used, limit]: [&str; 3]| {
        let (used, limit) = (used.parse().ok()?, limit.parse().ok()?);
        let name = format!("maxconn of frontend {proxy}");
        (limit > 0).then_some(ServerLimit { name, used, limit })
    };
    let frontends = frontends(answer, ["pxname", "scur", "slim"]).unwrap_or_default();
    frontends.into_iter().filter_map(of_frontend).collect()
}

/// What bounds a rate of requests rather than a number of connections. In `show info`: new connections, sessions and
/// TLS sessions per second of the process. In `show stat`: sessions per second of each frontend with a `rate-limit`,
/// the requests that each server with a `maxconn` has, and the connections to each server, of which there are as many
/// as `ports`: those in TIME_WAIT are not known.
pub(crate) fn of_rates(info: &str, stat: &str, ports: Option<u64>) -> Vec<ServerLimit> {
    let rates = [
        ("maxconnrate", "ConnRate", "ConnRateLimit"),
        ("maxsessrate", "SessRate", "SessRateLimit"),
        ("maxsslrate", "SslRate", "SslRateLimit"),
    ];
    let of_process =
        rates.into_iter().filter_map(|(name, used, limit)| known(info, name, used, limit));
    of_process.chain(of_servers(stat, ports)).collect()
}

fn of_servers(stat: &str, ports: Option<u64>) -> impl Iterator<Item = ServerLimit> {
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
        let some = |name: String, used: Option<u64>, limit: Option<u64>| {
            let (used, limit) = (used?, limit.filter(|limit| *limit > 0)?);
            Some(ServerLimit { name, used, limit })
        };
        match name {
            "FRONTEND" => {
                let name = format!("rate-limit of frontend {proxy}");
                [some(name, number(rate), number(rate_max)), None]
            }
            "BACKEND" => [None, None],
            server => {
                let idle = number(idle).unwrap_or(0) + number(safe).unwrap_or(0);
                let used = number(sessions).map(|sessions| sessions + idle);
                // A server at a Unix socket needs no port.
                let ports = ports.filter(|_| address.contains(':'));
                [
                    some(
                        format!("maxconn of server {proxy}/{server}"),
                        number(sessions),
                        number(sessions_max),
                    ),
                    some(format!("ports to server {proxy}/{server}"), used, ports),
                ]
            }
        }
        .into_iter()
        .flatten()
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn allowance(name: &str, used: u64, limit: u64) -> ServerLimit {
        ServerLimit { name: name.to_owned(), used, limit }
    }

    #[test]
    fn haproxys_limits_are_understood() {
        // HAProxy 2.6, shortened.
        let info = "Name: HAProxy\nMaxconn: 220\nHard_maxconn: 220\nCurrConns: 3\nCumConns: 9\n\
                    MaxSslConns: 0\nCurrSslConns: 3\n";
        assert_eq!(of_process(info), [allowance("maxconn", 3, 220)]);
        let stat = "# pxname,svname,qcur,qmax,scur,smax,slim,stot\ntls,FRONTEND,,,3,100,200,2418\n\
                    backends,b1,0,0,0,9,,9\nbackends,BACKEND,0,0,0,20,20,91244\n\n";
        assert_eq!(of_frontends(stat), [allowance("maxconn of frontend tls", 3, 200)]);
    }

    #[test]
    fn limits_of_rates_are_understood() {
        let info = "ConnRate: 7\nConnRateLimit: 280\nSessRate: 7\nSessRateLimit: 0\nSslRate: 3\n";
        let stat = "# pxname,svname,scur,slim,rate,rate_lim,addr,idle_conn_cur,safe_conn_cur\n\
                    tls,FRONTEND,3,200,440,450,,,\nplain,FRONTEND,3,200,440,0,,,\n\
                    b,s1,4,4,90,,10.0.0.1:80,0,2\nb,s2,4,,90,,unix@x,1,1\nb,BACKEND,8,20,180,,,,\n\n";
        let of_configuration = [
            allowance("maxconnrate", 7, 280),
            allowance("rate-limit of frontend tls", 440, 450),
            allowance("maxconn of server b/s1", 4, 4),
        ];
        assert_eq!(of_rates(info, stat, None), of_configuration);
        let with_ports = of_rates(info, stat, Some(28_232));
        assert_eq!(with_ports[..3], of_configuration);
        assert_eq!(with_ports[3..], [allowance("ports to server b/s1", 6, 28_232)]);
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
