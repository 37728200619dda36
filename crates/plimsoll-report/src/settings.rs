//! The words of a run's settings, made once for every report.
//!
//! [`rows`] maps the name of each setting that the run has to its value in words; a setting that does not apply is
//! absent. `of_run` collects the rows from `of_turns`, `of_load`, `of_mqtt` and `of_tls`. For a merged run,
//! `connections` and `rate` join the shares of the parts with ` + `, and other names list the distinct values. Gates
//! compare these rows to name the first setting that differs. Start reading at `of_run`.

use std::collections::BTreeMap;

use plimsoll_model::plan::TlsVersion;
use plimsoll_model::settings::{
    LoadSettings, MqttSettings, Operation, RateStep, Settings, SourcePorts, Starts, TlsSettings,
    TrustKind, TurnsSettings,
};
use plimsoll_model::target::{Protocol, Qos};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use crate::terminal::layout::trimmed;

/// The settings in words, by name.
pub type Rows = BTreeMap<&'static str, String>;

/// Settings of which each part of a merged run has its share.
const SHARES: [&str; 2] = ["connections", "rate"];

/// A setting with its words; `None` if the run does not have it.
type Row = (&'static str, Option<String>);

/// Returns the settings in words; of a merged run the values of its parts.
pub fn rows(settings: &Settings) -> Rows {
    let mut values: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for part in settings.of_parts() {
        for (name, value) in of_run(part) {
            let known = values.entry(name).or_default();
            known.extend(value.filter(|value| SHARES.contains(&name) || !known.contains(value)));
        }
    }
    values.retain(|_, values| !values.is_empty());
    let between = |name| if SHARES.contains(&name) { " + " } else { ", " };
    values.into_iter().map(|(name, values)| (name, values.join(between(name)))).collect()
}

fn of_run(settings: &Settings) -> Vec<Row> {
    let mut rows = vec![
        ("slo", settings.slo.as_ref().map(ToString::to_string)),
        ("source-ports", settings.source_ports.map(|ports| format!("allow {}", allowed(ports)))),
        ("addresses", refused(settings)),
        ("events", events(settings)),
        ("cycles", settings.cycles.map(|count| count.to_string())),
        ("reconnect", settings.reconnect.clone()),
        ("isolate", settings.isolate.map(|isolate| isolate.name().to_owned())),
        ("hosts", settings.hosts.clone()),
        ("sut-hosts", settings.sut_hosts.clone()),
        ("watch", settings.watch.clone()),
    ];
    if let Some(turns) = &settings.turns {
        rows.extend(of_turns(turns));
    }
    if let Some(load) = &settings.load {
        rows.extend(of_load(load));
        rows.extend([("rate", rate(load, &settings.rate)), ("sources", sources(load, settings))]);
        let from = || settings.proxy_source.as_deref().unwrap_or("own addresses");
        rows.push(("proxy-protocol", load.proxy_protocol.then(|| format!("v2, {}", from()))));
        rows.extend(load.mqtt.iter().flat_map(of_mqtt));
        rows.extend(load.tls.iter().flat_map(of_tls));
    }
    rows
}

fn of_turns(turns: &TurnsSettings) -> [Row; 4] {
    [
        ("rounds", Some(turns.rounds.to_string())),
        ("seed", Some(turns.seed.to_string())),
        ("budget", turns.budget_s.map(span)),
        ("duet", yes(turns.duet)),
    ]
}

fn of_load(load: &LoadSettings) -> Vec<Row> {
    let streams = if load.protocol == Protocol::Mqtt { "inflight" } else { "streams" };
    let every = |every: u32| format!("one operation in {}", grouped(every.into()));
    let cpus: Vec<_> = load.pinned_cpus.iter().map(u32::to_string).collect();
    let hold = load.hold.as_ref();
    vec![
        ("arrivals", Some(load.arrivals.name().replace('-', " "))),
        ("stages", load.stages.map(|stages| stages.to_string())),
        ("operation", operation(load)),
        ("connections", Some(grouped(load.connections))),
        ("unix-socket", yes(load.unix_socket)),
        ("http", (load.protocol == Protocol::Http2).then(|| "2".to_owned())),
        (streams, load.streams.map(|streams| grouped(streams.into()))),
        ("keep-alive", Some(keep_alive(load))),
        ("deadline", Some(deadline(load).unwrap_or_else(none))),
        ("linger", Some(span(load.linger_s))),
        ("connect-timeout", Some(span(load.connect_timeout_s))),
        ("seed", Some(load.seed.to_string())),
        ("targets", (load.targets > 1).then(|| load.targets.to_string())),
        ("rows", load.rows_every.map(every)),
        ("pinned-cpus", Some(cpus.join(" ")).filter(|cpus| !cpus.is_empty())),
        ("heartbeat", hold.map(|hold| hold.heartbeat_s.map_or_else(none, span))),
        ("opening", hold.map(|hold| grouped(hold.opening_max.into()))),
        ("replace", yes(hold.is_some_and(|hold| hold.replace))),
    ]
}

fn of_mqtt(mqtt: &MqttSettings) -> [Row; 8] {
    let seconds = |seconds: u32| format!("{} s", grouped(seconds.into()));
    let keep_alive = Some(mqtt.keep_alive_s).filter(|keep_alive_s| *keep_alive_s > 0);
    [
        ("mqtt", Some(mqtt.version.name().to_owned())),
        ("subscribe", mqtt.subscribe_qos.map(qos)),
        ("mqtt-keep-alive", Some(keep_alive.map_or_else(none, |limit| seconds(limit.into())))),
        ("client-ids", mqtt.client_ids.map(grouped)),
        ("users", Some(grouped(mqtt.users)).filter(|_| mqtt.users > 0)),
        ("clean-start", mqtt.resumes_session.then(|| "no".to_owned())),
        ("session-expiry", mqtt.session_expiry_s.map(seconds)),
        ("will", mqtt.will.as_ref().map(|will| qos(will.qos))),
    ]
}

fn of_tls(tls: &TlsSettings) -> [Row; 7] {
    let groups: Vec<_> = tls.groups.iter().map(|group| group.name()).collect();
    let groups = if groups.is_empty() { "x25519 secp256r1 secp384r1" } else { &groups.join(" ") };
    let certificates = match tls.trust {
        TrustKind::System => "checked",
        TrustKind::Roots => "checked against given roots",
        TrustKind::Insecure => "not checked",
    };
    [
        ("tls", Some(tls.version.map_or("1.3 or 1.2", TlsVersion::name).to_owned())),
        ("tls-groups", Some(groups.to_owned())),
        ("tls-resume", Some(format!("{} %", trimmed(format!("{:.2}", tls.resume_ratio * 100.0))))),
        ("tls-key-share", tls.reuse_key_share.then(|| "reused".to_owned())),
        ("tls-state", Some(tls.state.name().to_owned())),
        ("tls-certificates", Some(certificates.to_owned())),
        ("tls-client-certificate", yes(tls.has_client_certificate)),
    ]
}

fn yes(is: bool) -> Option<String> {
    is.then(|| "yes".to_owned())
}

fn none() -> String {
    "none".to_owned()
}

fn qos(qos: Qos) -> String {
    format!("QoS {}", qos as u8)
}

fn span(seconds: f64) -> String {
    Nanos((seconds * 1e9).round() as u64).to_string()
}

/// Returns the latency limit of one operation, if there is one.
pub(crate) fn deadline(load: &LoadSettings) -> Option<String> {
    load.deadline_ms.map(|ms| span(ms / 1e3))
}

/// Names the operation, if it is not a request.
pub(crate) fn operation(load: &LoadSettings) -> Option<String> {
    let name = match load.operation {
        Operation::Request => return None,
        Operation::TlsHandshake => "TLS handshake",
        Operation::MqttConnect => "MQTT connect",
        Operation::ScriptOpening => "script opening",
        Operation::Message => "message and the next one from the server",
        Operation::Publish | Operation::Ping | Operation::Script => load.operation.name(),
    };
    let publish = load.qos.filter(|_| load.operation == Operation::Publish);
    Some(publish.map_or_else(|| name.to_owned(), |level| format!("{name}, {}", qos(level))))
}

fn keep_alive(load: &LoadSettings) -> String {
    match (load.keep_alive, load.requests_per_connection) {
        _ if load.opens_connections() => "no, handshakes only".to_owned(),
        (false, _) => "no".to_owned(),
        (true, None) => "yes".to_owned(),
        (true, Some(requests)) => format!("for {} requests", grouped(requests)),
    }
}

fn rate(load: &LoadSettings, steps: &[RateStep]) -> Option<String> {
    let new_connections = |per_s| Rate::per_second(per_s).unwrap_or_default();
    if let Some(hold) = &load.hold {
        return Some(format!("{} new connections", new_connections(hold.connections_per_s)));
    }
    if load.arrivals == Starts::Closed {
        return Some("as fast as answers come".to_owned());
    }
    let steps = steps.iter().enumerate().map(|(index, step)| {
        // In the format of `--rate`, with four decimals.
        let rate = format!("{}/s", trimmed(format!("{:.4}", step.per_s)));
        if index == 0 { rate } else { format!("{rate} in {}", span(step.within_s)) }
    });
    Some(steps.collect::<Vec<_>>().join(", ")).filter(|words| !words.is_empty())
}

fn sources(load: &LoadSettings, settings: &Settings) -> Option<String> {
    let ranges = &settings.source_ranges;
    match load.sources {
        0 => None,
        count if ranges.is_empty() => Some(count.to_string()),
        count => Some(format!("{} of {}", grouped(count), ranges.join(" "))),
    }
}

/// Returns `21,000 handshakes/s from 64 addresses`.
pub fn allowed(ports: SourcePorts) -> String {
    let SourcePorts { handshakes_per_s, addresses } = ports;
    let plural = if addresses == 1 { "" } else { "es" };
    format!(
        "{} handshakes/s from {} address{plural}",
        grouped(handshakes_per_s),
        grouped(addresses)
    )
}

/// Names the addresses that did not accept a connection, if any.
pub fn refused(settings: &Settings) -> Option<String> {
    let listed = |all: &[std::net::SocketAddr]| {
        let all: Vec<_> = all.iter().map(ToString::to_string).collect();
        all.join(", ")
    };
    let names = settings.refused.iter().map(|name| {
        let (host, kept, refused) = (&name.host, listed(&name.kept), listed(&name.refused));
        match kept == refused {
            true => format!("{host}: none accepted a connection: {refused}"),
            false => format!("{host}: {kept}; no connection accepted by {refused}"),
        }
    });
    Some(names.collect::<Vec<_>>().join("; ")).filter(|names| !names.is_empty())
}

fn events(settings: &Settings) -> Option<String> {
    let events = settings.events.iter().map(|event| format!("{} at {} s", event.what, event.at_s));
    Some(events.collect::<Vec<_>>().join(", ")).filter(|events| !events.is_empty())
}

#[cfg(test)]
mod tests {
    use plimsoll_model::settings::ResolvedName;

    use super::*;
    use crate::fixtures;

    #[test]
    fn a_rate_is_spelled_as_its_flag() {
        let load = LoadSettings::from(&fixtures::plan());
        let steps = [(0.0, 0.0), (0.25, 2.0), (5e4, 0.0)];
        let steps = steps.map(|(per_s, within_s)| RateStep { per_s, within_s });
        assert_eq!(rate(&load, &steps).unwrap(), "0/s, 0.25/s in 2.00 s, 50000/s in 0 ns");
        assert_eq!(rate(&load, &[]), None);
        let closed = LoadSettings { arrivals: Starts::Closed, ..load };
        assert_eq!(rate(&closed, &[]).unwrap(), "as fast as answers come");
    }

    #[test]
    fn addresses_that_did_not_accept_a_connection_are_named() {
        let words = |kept: &[&str], not: &[&str]| {
            let addresses = |all: &[&str]| all.iter().map(|one| one.parse().unwrap()).collect();
            let (kept, not) = (addresses(kept), addresses(not));
            let name = ResolvedName { host: "both".to_owned(), kept, refused: not };
            refused(&Settings { refused: vec![name], ..Settings::default() }).unwrap()
        };
        let (v4, v6) = ("127.0.0.1:80", "[::1]:80");
        let expected = "both: 127.0.0.1:80; no connection accepted by [::1]:80";
        assert_eq!(words(&[v4], &[v6]), expected);
        let expected = "both: none accepted a connection: [::1]:80, 127.0.0.1:80";
        assert_eq!(words(&[v6, v4], &[v6, v4]), expected);
        assert_eq!(refused(&Settings::default()), None);
    }

    #[test]
    fn a_tls_plan_names_what_shapes_it_and_no_secret() {
        let settings = Settings { load: Some((&fixtures::plan()).into()), ..Settings::default() };
        let rows = rows(&settings);
        assert_eq!(rows["arrivals"], "poisson");
        assert_eq!(rows["tls"], "1.3");
        assert_eq!(rows["keep-alive"], "yes");
        assert_eq!(rows["tls-client-certificate"], "yes");
        let text = format!("{settings:?} {rows:?}");
        assert!(!text.contains(fixtures::SECRET), "{text}");
    }
}
