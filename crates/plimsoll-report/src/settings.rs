//! The settings that shape a measurement, from the plan, named once for every report.

use std::collections::BTreeMap;

use plimsoll_model::plan::{LoadPlan, MqttPlan, Pacing, TlsVersion, Trust};
use plimsoll_model::target::{Protocol, Subscription, Will};
use plimsoll_model::units::grouped;

use crate::terminal::layout::trimmed;

/// The key of the arrivals: `poisson`, `uniform` [`CLOSED`] or [`HOLD`].
pub const ARRIVALS: &str = "arrivals";
/// The value of [`ARRIVALS`] for a closed loop.
pub const CLOSED: &str = "closed loop";
/// There are no arrivals: connections are held.
pub const HOLD: &str = "held connections";
/// The key of the latency limit of one operation.
pub const DEADLINE: &str = "deadline";
/// The key of keep-alive: `yes`, `no`, or for how many requests.
pub const KEEP_ALIVE: &str = "keep-alive";
/// The key that is there when an operation is not a request.
pub const OPERATION: &str = "operation";
/// The value of [`OPERATION`] when it is a new TLS connection on which nothing is sent.
pub const HANDSHAKE: &str = "TLS handshake";
/// The value of [`OPERATION`] when it is a new MQTT connection, up to CONNACK.
pub const SESSION: &str = "MQTT connect";
/// The value of [`OPERATION`] when it is a new connection, up to the end of its script's opening.
pub const OPENING: &str = "script opening";
/// The value of [`OPERATION`] when a held connection checks that its server answers.
pub const PING: &str = "ping";
/// The key that is there when an address of the target's name did not accept a connection.
pub const ADDRESSES: &str = "addresses";
/// The key of the pool's size.
pub const CONNECTIONS: &str = "connections";
/// Number of times that a hold fills and drains its connections.
pub const CYCLES: &str = "cycles";
/// The key that is there when all connections go to a Unix socket.
pub const UNIX_SOCKET: &str = "unix-socket";
/// The key that is there when single operations are recorded.
pub const ROWS: &str = "rows";

/// The key of HTTP's version, where that is [`HTTP2`].
const HTTP: &str = "http";
const HTTP2: &str = "2";
/// The key that is there when the load and the server are in network namespaces of one machine.
pub const ISOLATE: &str = "isolate";

fn is(settings: &BTreeMap<String, String>, key: &str, value: &str) -> bool {
    settings.get(key).is_some_and(|set| set == value)
}

/// `true` if the server set the pace.
pub(crate) fn is_closed_loop(settings: &BTreeMap<String, String>) -> bool {
    is(settings, ARRIVALS, CLOSED)
}

/// `true` if operations go over HTTP/2.
pub(crate) fn is_http2(settings: &BTreeMap<String, String>) -> bool {
    is(settings, HTTP, HTTP2)
}

/// `true` if an operation checks that the server of a held connection answers.
pub(crate) fn are_pings(settings: &BTreeMap<String, String>) -> bool {
    is(settings, OPERATION, PING)
}

/// `true` if an operation is a new connection and no request.
pub(crate) fn is_new_connection(settings: &BTreeMap<String, String>) -> bool {
    settings.get(OPERATION).is_some_and(|what| [HANDSHAKE, SESSION, OPENING].contains(&&**what))
}

/// `true` if connections are kept for any number of requests.
pub(crate) fn keeps_connections(settings: &BTreeMap<String, String>) -> bool {
    is(settings, KEEP_ALIVE, "yes")
}

/// Names the operation, if it is not a request.
fn operation(plan: &LoadPlan) -> Option<String> {
    let is_hold = matches!(plan.pacing, Pacing::Hold(_));
    let publish = plan.targets.first().and_then(|target| target.publish.as_ref());
    let has_opening = plan.script().is_some_and(|script| !script.opening.is_empty());
    Some(match plan.protocol() {
        Protocol::Mqtt if plan.handshake_only => SESSION.to_owned(),
        Protocol::Script if plan.handshake_only && has_opening => OPENING.to_owned(),
        _ if plan.handshake_only => HANDSHAKE.to_owned(),
        Protocol::Mqtt | Protocol::WebSocket | Protocol::Http2 if is_hold => PING.to_owned(),
        Protocol::Mqtt => match publish {
            Some(publish) => format!("publish, QoS {}", publish.qos as u8),
            None => "publish".to_owned(),
        },
        Protocol::WebSocket => "message and the next one from the server".to_owned(),
        Protocol::Script => "script".to_owned(),
        Protocol::Http1 | Protocol::Http2 => return None,
    })
}

/// The settings of `plan`, for `settings` of a summary and a manifest. No secrets.
pub fn from_plan(plan: &LoadPlan) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut set = |name: &str, value: String| {
        out.insert(name.to_owned(), value);
    };
    set(ARRIVALS, arrivals(&plan.pacing));
    if let Pacing::Open { profile, .. } = &plan.pacing
        && (profile.stages.len() > 1 || profile.stages.iter().any(|s| s.from != s.to))
    {
        set("stages", profile.stages.len().to_string());
    }
    if let Some(operation) = operation(plan) {
        set(OPERATION, operation);
    }
    set(CONNECTIONS, grouped(plan.connections));
    if plan.unix_socket.is_some() {
        set(UNIX_SOCKET, "yes".to_owned());
    }
    if plan.protocol() == Protocol::Http2 {
        set(HTTP, HTTP2.to_owned());
    }
    if plan.shares_connections() {
        let name = if plan.protocol() == Protocol::Mqtt { "inflight" } else { "streams" };
        set(name, grouped(plan.streams().into()));
    }
    set(KEEP_ALIVE, keepalive(plan));
    set(
        DEADLINE,
        plan.timeouts.deadline.map_or_else(|| "none".to_owned(), |limit| limit.to_string()),
    );
    set("linger", plan.timeouts.linger.to_string());
    set("connect-timeout", plan.timeouts.connect.to_string());
    set("seed", plan.seed.to_string());
    if let Pacing::Hold(hold) = &plan.pacing {
        let heartbeat = hold.heartbeat.map_or_else(|| "none".to_owned(), |every| every.to_string());
        set("heartbeat", heartbeat);
        set("opening", grouped(u64::from(hold.opening_max)));
        if hold.replace {
            set("replace", "yes".to_owned());
        }
    }
    if let Some(said) = &plan.mqtt {
        mqtt(said, &mut set);
    }
    if plan.targets.len() > 1 {
        set("targets", plan.targets.len().to_string());
    }
    if !plan.sources.is_empty() {
        set("sources", plan.sources.len().to_string());
    }
    if let Some(rows) = plan.rows {
        set(ROWS, format!("one operation in {}", grouped(rows.every.into())));
    }
    if !plan.cpus.is_empty() {
        let cpus: Vec<_> = plan.cpus.iter().map(u32::to_string).collect();
        set("pinned-cpus", cpus.join(" "));
    }
    if plan.destinations.iter().any(|destination| destination.tls.is_some()) {
        tls(plan, &mut set);
    }
    out
}

/// Settings of MQTT clients, without texts: topics, names and passwords.
fn mqtt(said: &MqttPlan, set: &mut impl FnMut(&str, String)) {
    set("mqtt", said.version.name().to_owned());
    if let Some(Subscription { qos, .. }) = &said.subscribe {
        set("subscribe", format!("QoS {}", *qos as u8));
    }
    let seconds = |seconds: u32| format!("{} s", grouped(seconds.into()));
    set(
        "mqtt-keep-alive",
        match said.keep_alive_s {
            0 => "none".to_owned(),
            keep_alive_s => seconds(keep_alive_s.into()),
        },
    );
    if let Some(names) = said.clients_max() {
        set("client-ids", grouped(names));
    }
    if !said.users.is_empty() {
        set("users", grouped(said.users.len() as u64));
    }
    if said.resumes_session {
        set("clean-start", "no".to_owned());
    }
    if let Some(expiry_s) = said.session_expiry_s {
        set("session-expiry", seconds(expiry_s));
    }
    if let Some(Will { publish, .. }) = &said.will {
        set("will", format!("QoS {}", publish.qos as u8));
    }
}

fn arrivals(pacing: &Pacing) -> String {
    match pacing {
        Pacing::Open { arrivals, .. } => arrivals.name(),
        Pacing::Closed { .. } => CLOSED,
        Pacing::Hold(_) => HOLD,
    }
    .to_owned()
}

fn keepalive(plan: &LoadPlan) -> String {
    match (plan.keepalive, plan.requests_per_connection) {
        _ if plan.handshake_only => "no, handshakes only".to_owned(),
        (false, _) => "no".to_owned(),
        (true, None) => "yes".to_owned(),
        (true, Some(requests)) => format!("for {} requests", grouped(requests)),
    }
}

fn tls(plan: &LoadPlan, set: &mut impl FnMut(&str, String)) {
    let tls = &plan.tls;
    set("tls", tls.version.map_or("1.3 or 1.2", TlsVersion::name).to_owned());
    let groups: Vec<_> = tls.groups.iter().map(|group| group.name()).collect();
    let groups =
        if groups.is_empty() { "x25519 secp256r1 secp384r1".to_owned() } else { groups.join(" ") };
    set("tls-groups", groups);
    set("tls-resume", format!("{} %", trimmed(format!("{:.2}", tls.resume_ratio * 100.0))));
    if tls.reuse_key_share {
        set("tls-key-share", "reused".to_owned());
    }
    set("tls-state", tls.state.name().to_owned());
    let certificates = match tls.trust {
        Trust::System => "checked",
        Trust::Roots(_) => "checked against given roots",
        Trust::Insecure => "not checked",
    };
    set("tls-certificates", certificates.to_owned());
    if tls.identity.is_some() {
        set("tls-client-certificate", "yes".to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn a_tls_plan_names_what_shapes_it_and_no_secret() {
        let settings = from_plan(&fixtures::plan());
        let text = format!("{settings:?}");
        assert_eq!(settings.get(ARRIVALS).map(String::as_str), Some("poisson"));
        assert_eq!(settings.get("tls").map(String::as_str), Some("1.3"));
        assert_eq!(settings.get("keep-alive").map(String::as_str), Some("yes"));
        assert_eq!(settings.get("tls-client-certificate").map(String::as_str), Some("yes"));
        assert!(!text.contains(fixtures::SECRET), "{text}");
    }
}
