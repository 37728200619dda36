//! Limits of a server's own configuration, and how much of each is in use: HAProxy's `maxconn`, of
//! the process and of each frontend.

use std::path::Path;

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
    of_haproxy(&ask("show info\n"), &ask("show stat\n"))
}

/// The processes of the HAProxy behind `socket`, by its own word; none where it does not answer.
pub fn haproxy_processes(socket: &Path) -> Vec<u32> {
    let info = CounterSource::ask_haproxy(socket, "show info\n").unwrap_or_default();
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
    let figure = |name: &str| -> Option<u64> {
        let line = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))?;
        line.trim().parse().ok()
    };
    let known = |name: &str, used: &str, limit: &str| {
        let (used, limit) = (figure(used)?, figure(limit)?);
        (limit > 0).then(|| ServerLimit { name: name.to_owned(), used, limit })
    };
    [known("maxconn", "CurrConns", "Maxconn"), known("maxsslconn", "CurrSslConns", "MaxSslConns")]
        .into_iter()
        .flatten()
        .collect()
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

/// `show stat`: what bounds a rate of requests rather than a number of connections. Sessions per second
/// of each frontend with a `rate-limit`, and the requests that each server with a `maxconn` has.
pub(crate) fn of_rates(stat: &str) -> Vec<ServerLimit> {
    let columns = ["pxname", "svname", "rate", "rate_lim", "scur", "slim"];
    let of_line = |[proxy, name, rate, rate_limit, sessions, sessions_max]: [&str; 6]| {
        let (name, used, limit) = match name {
            "FRONTEND" => (format!("rate-limit of frontend {proxy}"), rate, rate_limit),
            "BACKEND" => return None,
            server => (format!("maxconn of server {proxy}/{server}"), sessions, sessions_max),
        };
        let (used, limit) = (used.parse().ok()?, limit.parse().ok()?);
        (limit > 0).then_some(ServerLimit { name, used, limit })
    };
    table(stat, columns).into_iter().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
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
        let stat = "# pxname,svname,scur,slim,rate,rate_lim\ntls,FRONTEND,3,200,440,450\n\
                    plain,FRONTEND,3,200,440,0\nb,s1,4,4,90,\nb,s2,4,,90,\nb,BACKEND,8,20,180,\n\n";
        let expected = [
            allowance("rate-limit of frontend tls", 440, 450),
            allowance("maxconn of server b/s1", 4, 4),
        ];
        assert_eq!(of_rates(stat), expected);
        assert_eq!(of_rates("# a,b\n1,2\n"), []);
    }

    #[test]
    fn what_is_not_reported_is_no_limit() {
        for broken in ["", "Unknown command\n", "# a,b\n1,2\n", "Maxconn: x\nCurrConns: 1\n"] {
            assert_eq!(of_process(broken), []);
            assert_eq!(of_frontends(broken), []);
        }
        assert_eq!(
            read(&CounterSource::Haproxy(Path::new("/nowhere/haproxy.sock").to_owned())),
            []
        );
    }
}
