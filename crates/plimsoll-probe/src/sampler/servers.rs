//! What HAProxy and nginx report of themselves.

use std::path::Path;

use plimsoll_model::host::{Label, Metric, Reading};

use super::add_limit;
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
    ("CurrConns", Metric::HaproxyCurrentConnections),
    ("ConnRate", Metric::HaproxyConnectionRate),
    ("SslRate", Metric::HaproxySslRate),
    ("SslFrontendKeyRate", Metric::HaproxyKeyRate),
    ("Idle_pct", Metric::HaproxyIdlePercent),
    ("Run_queue", Metric::HaproxyRunQueue),
    ("Tasks", Metric::HaproxyTasks),
];

/// Reads the server at `source`, the `index`th of all.
pub(super) fn read(source: &CounterSource, index: usize, reading: &mut Reading) {
    let name = index.to_string();
    let failed = match source {
        CounterSource::Haproxy(socket) => {
            let ask = |question| CounterSource::ask_haproxy(socket, question);
            match ask("show info\n").and_then(|info| Ok((info, ask("show stat\n")?))) {
                Ok((info, stat)) if add_info(&info, &name, reading) => {
                    add_proxies(&stat, &name, reading);
                    let limits = server_limits::of_haproxy(&info, &stat);
                    let range = port_range(Path::new("/proc/sys/net/ipv4/ip_local_port_range"));
                    let ports =
                        range.map(|(first, last)| u64::from(last.saturating_sub(first)) + 1);
                    let rates = server_limits::of_rates(&info, &stat, ports);
                    for limit in limits.into_iter().chain(rates) {
                        let (used, max) = (limit.used as f64, limit.limit as f64);
                        add_limit(reading, &limit.name, "HAProxy", Some(used), Some(max));
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
    };
    if let Some(reason) = failed {
        reading.miss(source.to_string(), reason);
    }
}

/// `CurrConns: 3`; false when there is no such line at all.
fn add_info(info: &str, name: &str, reading: &mut Reading) -> bool {
    let mut is_known = false;
    for line in info.lines() {
        let Some((field, value)) = line.split_once(": ") else { continue };
        let metric = INFO.iter().find(|(known, _)| *known == field).map(|(_, metric)| *metric);
        if let (Some(metric), Ok(value)) = (metric, value.trim().parse()) {
            reading.add(metric, &[(Label::Process, name)], value);
            is_known = true;
        }
    }
    is_known
}

fn add_proxies(stat: &str, name: &str, reading: &mut Reading) {
    let columns = ["pxname", "svname", "scur", "qcur", "econ", "dreq", "dcon"];
    for [proxy, kind, sessions, queued, failed, denied, refused] in table(stat, columns) {
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
            }
            _ => {}
        }
    }
}

fn add_nginx(status: &[(&str, u64)], name: &str, reading: &mut Reading) {
    for (field, value) in status {
        let labels = [(Label::Process, name)];
        let metric = match *field {
            "accepts" => Metric::NginxAccepted,
            "handled" => Metric::NginxHandled,
            "requests" => Metric::NginxRequests,
            state => {
                let labels = [(Label::Process, name), (Label::State, state)];
                reading.add(Metric::NginxConnections, &labels, *value as f64);
                continue;
            }
        };
        reading.add(metric, &labels, *value as f64);
    }
}
