//! Figures that HAProxy and nginx report about themselves.
//!
//! `read` is called once per reading and server: it sends `show info`, `show stat` and `show table` to HAProxy, or
//! requests nginx's stub_status, and adds the figures to a `Reading`. The label `process` is the number of the
//! server. `INFO` maps the lines of `show info` to metrics; limits with their use come from `server_limits`. An error
//! becomes the reason of a missing source. Start reading at `read`.

use std::path::Path;

use plimsoll_model::host::{Label, Metric, Reading, SourceKind};

use super::entry::add_limit;
use crate::limits::port_range;
use crate::server_counters::{CounterSource, nginx_status, table};
use crate::server_limits;

/// A line of HAProxy's `show info` and what it is.
const INFO: &[(&str, Metric)] = &[
    ("CumConns", Metric::HaproxyConnections),
    ("CumReq", Metric::HaproxyRequests),
    ("MaxconnReached", Metric::HaproxyMaxconnReached),
    ("PoolFailed", Metric::HaproxyPoolFailures),
    ("DroppedLogs", Metric::HaproxyDroppedLogs),
    ("SslCacheLookups", Metric::HaproxySslCacheLookups),
    ("SslCacheMisses", Metric::HaproxySslCacheMisses),
    ("CurrConns", Metric::HaproxyCurrentConnections),
    ("ConnRate", Metric::HaproxyConnectionRate),
    ("SslRate", Metric::HaproxySslRate),
    ("SslFrontendKeyRate", Metric::HaproxyKeyRate),
    ("Run_queue", Metric::HaproxyRunQueue),
    ("Tasks", Metric::HaproxyTasks),
];

/// Returns the kind of the server at `source`.
pub(super) const fn kind(source: &CounterSource) -> SourceKind {
    match source {
        CounterSource::Haproxy(_) => SourceKind::Haproxy,
        CounterSource::Nginx(_) | CounterSource::NginxSocket(_) => SourceKind::Nginx,
    }
}

/// Reads the server at `source`, the `index`th of all. Returns why it could not be read.
pub(super) fn read(source: &CounterSource, index: usize, reading: &mut Reading) -> Option<String> {
    let name = index.to_string();
    match source {
        CounterSource::Haproxy(socket) => {
            let ask = |question| CounterSource::ask_haproxy(socket, question);
            match ask("show info").and_then(|info| Ok((info, ask("show stat")?))) {
                Ok((info, stat)) if add_info(&info, &name, reading) => {
                    add_proxies(&stat, &name, reading);
                    // Only operators may ask; others get no tables.
                    add_tables(&ask("show table").unwrap_or_default(), &name, reading);
                    let limits = server_limits::of_haproxy(&info, &stat);
                    let range = port_range(Path::new("/proc/sys/net/ipv4/ip_local_port_range"));
                    let ports =
                        range.map(|(first, last)| u64::from(last.saturating_sub(first)) + 1);
                    let rates = server_limits::of_rates(&info, &stat, ports);
                    for limit in limits.into_iter().chain(rates) {
                        add_limit(reading, &limit.id, Some(limit.used), Some(limit.max));
                    }
                    None
                }
                Ok(_) => Some("the answer is not HAProxy's".to_owned()),
                Err(error) => Some(error.to_string()),
            }
        }
        CounterSource::Nginx(_) | CounterSource::NginxSocket(_) => match nginx_status(source) {
            Ok(status) => {
                add_nginx(&status, &name, reading);
                None
            }
            Err(error) => Some(error.to_string()),
        },
    }
}

/// `CurrConns: 3`; false when there is no such line at all.
fn add_info(info: &str, name: &str, reading: &mut Reading) -> bool {
    let mut is_known = false;
    for line in info.lines() {
        let Some((field, value)) = line.split_once(": ") else { continue };
        if let ("Idle_pct", Ok(percent)) = (field, value.trim().parse::<f64>()) {
            let labels = [(Label::Process, name)];
            reading.add(Metric::HaproxyIdleRatio, &labels, percent / 100.0);
        }
        let metric = INFO.iter().find(|(known, _)| *known == field).map(|(_, metric)| *metric);
        if let (Some(metric), Ok(value)) = (metric, value.trim().parse()) {
            reading.add(metric, &[(Label::Process, name)], value);
            is_known = true;
        }
    }
    is_known
}

fn add_proxies(stat: &str, name: &str, reading: &mut Reading) {
    let columns =
        ["pxname", "svname", "scur", "qcur", "econ", "dreq", "dcon", "eresp", "wretr", "wredis"];
    for line in table(stat, columns) {
        let [proxy, kind, sessions, queued, failed, denied, refused, broken, again, moved] = line;
        let labels = [(Label::Process, name), (Label::Proxy, proxy)];
        let number = |field: &str| field.parse::<f64>().ok();
        match kind {
            "FRONTEND" => {
                reading.add_some(Metric::HaproxySessions, &labels, number(sessions));
                let denied = number(denied).unwrap_or(0.0) + number(refused).unwrap_or(0.0);
                reading.add(Metric::HaproxyDenied, &labels, denied);
            }
            "BACKEND" => {
                reading.add_some(Metric::HaproxyRequestsInService, &labels, number(sessions));
                reading.add_some(Metric::HaproxyQueued, &labels, number(queued));
                reading.add_some(Metric::HaproxyConnectErrors, &labels, number(failed));
                reading.add_some(Metric::HaproxyResponseErrors, &labels, number(broken));
                reading.add_some(Metric::HaproxyRetries, &labels, number(again));
                reading.add_some(Metric::HaproxyRedispatches, &labels, number(moved));
            }
            _ => {}
        }
    }
}

/// `# table: clients, type: ip, size:1048576, used:2`.
fn add_tables(tables: &str, name: &str, reading: &mut Reading) {
    for line in tables.lines().filter_map(|line| line.strip_prefix("# table: ")) {
        let mut fields = line.split(", ");
        let Some(table) = fields.next() else { continue };
        let field = |wanted: &str| {
            fields.clone().find_map(|field| Some(field.strip_prefix(wanted)?.trim()))
        };
        let (kind, used) = (field("type:"), field("used:").and_then(|used| used.parse().ok()));
        let labels =
            [(Label::Process, name), (Label::Name, table), (Label::Kind, kind.unwrap_or("?"))];
        reading.add_some(Metric::HaproxyTableUsed, &labels, used);
    }
}

fn add_nginx(status: &[(&str, u64)], name: &str, reading: &mut Reading) {
    for (field, value) in status {
        let labels = [(Label::Process, name), (Label::State, *field)];
        let (metric, labels) = match *field {
            "accepts" => (Metric::NginxAccepted, &labels[..1]),
            "handled" => (Metric::NginxHandled, &labels[..1]),
            "requests" => (Metric::NginxRequests, &labels[..1]),
            _ => (Metric::NginxConnections, &labels[..]),
        };
        reading.add(metric, labels, *value as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_haproxy_says_of_its_backends_and_tables_is_understood() {
        let mut reading = Reading::default();
        let stat = "# pxname,svname,qcur,scur,econ,eresp,wretr,wredis,dreq,dcon\n\
                    f,FRONTEND,,3,,,,,4,1\nb,s1,0,2,9,9,9,9,,\nb,BACKEND,5,2,1,2,3,4,,\n\n";
        add_proxies(stat, "0", &mut reading);
        add_tables(
            "# table: clients, type: ip, size:1048576, used:2\n# table: , type: string\n\n",
            "0",
            &mut reading,
        );
        let info = "SslCacheLookups: 10\nSslCacheMisses: 7\nIdle_pct: 87\nX: y\n";
        assert!(add_info(info, "0", &mut reading));
        reading.sort();
        for (metric, expected) in [
            (Metric::HaproxyDenied, 5.0),
            (Metric::HaproxyConnectErrors, 1.0),
            (Metric::HaproxyResponseErrors, 2.0),
            (Metric::HaproxyRetries, 3.0),
            (Metric::HaproxyRedispatches, 4.0),
            (Metric::HaproxySslCacheMisses, 7.0),
            (Metric::HaproxyIdleRatio, 0.87),
            (Metric::HaproxyTableUsed, 2.0),
        ] {
            assert_eq!(reading.sum(metric, &[]), Some(expected), "{}", metric.name());
        }
        let by_address = [(Label::Kind, "ip"), (Label::Name, "clients")];
        assert_eq!(reading.sum(Metric::HaproxyTableUsed, &by_address), Some(2.0));
    }
}
