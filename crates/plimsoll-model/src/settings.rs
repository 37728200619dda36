//! The settings that shape a measurement, as a summary and a manifest have them.
//!
//! No secrets: what a plan has of credentials, topics and scripts is a count here, or nothing.

use std::net::SocketAddr;
use std::slice;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::pace::Arrivals;
use crate::plan::{
    CertificateKey, Group, HoldPlan, LoadPlan, MqttPlan, Pacing, TlsOptions, TlsState, TlsVersion,
    Trust,
};
use crate::slo::Slo;
use crate::target::{MqttVersion, Protocol, Qos, Will};

/// `settings` of a summary and of a manifest: `load` has the plan's settings, the other fields have settings of flags
/// and hosts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct Settings {
    /// `None` if several loads take turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<LoadSettings>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turns: Option<TurnsSettings>,
    /// The rate of an open loop as its flags give it, the first step being its beginning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rate: Vec<RateStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slo: Option<Slo>,
    /// Ranges that the source addresses are from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_ranges: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_ports: Option<SourcePorts>,
    /// The range of the addresses in headers of the PROXY protocol; `None`: each connection's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_source: Option<String>,
    /// Names of which an address did not accept a connection.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<ResolvedName>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<PlannedEvent>,
    /// Number of times that a hold fills and drains its connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u32>,
    /// Value of `--reconnect`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconnect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolate: Option<Isolate>,
    /// Hosts that make the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<String>,
    /// Hosts of the server and its backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sut_hosts: Option<String>,
    /// A line about the source of the server's counters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch: Option<String>,
    /// Settings of each run that a merged one was made of. The fields beside it are from the first run, with the
    /// connections of all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Self>,
}

/// Declares settings that a plan has. Each is listed once, with its value.
macro_rules! settings {
    ($($(#[$about:meta])* $name:ident of $plan:ty, $given:pat => {
        $($(#[$of:meta])* $field:ident: $type:ty = $value:expr,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
        pub struct $name {
            $($(#[$of])* pub $field: $type,)*
        }

        impl From<&$plan> for $name {
            fn from($given: &$plan) -> Self {
                Self { $($field: $value,)* }
            }
        }
    )*};
}

settings! {
    /// Settings of a load.
    LoadSettings of LoadPlan, plan => {
        arrivals: Starts = starts(&plan.pacing),
        protocol: Protocol = plan.protocol(),
        operation: Operation = operation(plan),
        /// QoS of a publish.
        qos: Option<Qos> = plan.targets.first().and_then(|target| Some(target.publish.as_ref()?.qos)),
        /// Number of stages of a rate that changes.
        stages: Option<u64> = stages(&plan.pacing),
        connections: u64 = plan.connections,
        unix_socket: bool = plan.unix_socket.is_some(),
        /// Most operations at once on a shared connection.
        streams: Option<u32> = plan.shares_connections().then(|| plan.streams()),
        keep_alive: bool = plan.keepalive,
        /// Operations after which a connection is closed.
        requests_per_connection: Option<u64> = plan.requests_per_connection,
        deadline_ms: Option<f64> = plan.timeouts.deadline.map(Nanos::as_millis_f64),
        linger_s: f64 = plan.timeouts.linger.as_secs_f64(),
        connect_timeout_s: f64 = plan.timeouts.connect.as_secs_f64(),
        seed: u64 = plan.seed,
        /// Number of targets.
        targets: u64 = plan.targets.len() as u64,
        /// Number of source addresses; 0 if the kernel chooses.
        sources: u64 = plan.sources.len() as u64,
        proxy_protocol: bool = plan.proxy.is_some(),
        /// One operation in this number is recorded.
        rows_every: Option<u32> = plan.rows.map(|rows| rows.every),
        pinned_cpus: Vec<u32> = plan.cpus.clone(),
        #[serde(skip_serializing_if = "Option::is_none")]
        hold: Option<HoldSettings> = match &plan.pacing { Pacing::Hold(hold) => Some(hold.into()), _ => None },
        #[serde(skip_serializing_if = "Option::is_none")]
        mqtt: Option<MqttSettings> = plan.mqtt.as_ref().map(MqttSettings::from),
        #[serde(skip_serializing_if = "Option::is_none")]
        tls: Option<TlsSettings> = plan.destinations.iter().any(|one| one.tls.is_some()).then(|| (&plan.tls).into()),
    }

    /// The ramp of a hold.
    HoldSettings of HoldPlan, plan => {
        connections_per_s: f64 = plan.connections_per_s,
        opening_max: u32 = plan.opening_max,
        /// `None` is silence.
        heartbeat_s: Option<f64> = plan.heartbeat.map(Nanos::as_secs_f64),
        replace: bool = plan.replace,
    }

    /// TLS, without certificates and keys.
    TlsSettings of TlsOptions,
    TlsOptions {
        trust, identity, version, groups, resume_ratio, reuse_key_share, state, offers_http2, certificate_key, tickets_max,
    } => {
        trust: TrustKind = match trust {
            Trust::System => TrustKind::System,
            Trust::Roots(_) => TrustKind::Roots,
            Trust::Insecure => TrustKind::Insecure,
        },
        has_client_certificate: bool = identity.is_some(),
        /// `None` offers 1.3 and 1.2.
        version: Option<TlsVersion> = *version,
        /// Empty for the default: x25519, secp256r1, secp384r1.
        groups: Vec<Group> = groups.clone(),
        resume_ratio: f64 = *resume_ratio,
        reuse_key_share: bool = *reuse_key_share,
        state: TlsState = *state,
        offers_http2: bool = *offers_http2,
        certificate_key: Option<CertificateKey> = *certificate_key,
        tickets_max: u32 = *tickets_max,
    }

    /// MQTT clients, without topics, names and passwords.
    MqttSettings of MqttPlan,
    MqttPlan {
        version, client_ids, users, keep_alive_s, resumes_session, session_expiry_s, in_flight, will, subscribe, deliveries,
    } => {
        version: MqttVersion = *version,
        /// Number of listed identifiers; `None` if each connection has a generated one.
        client_ids: Option<u64> = client_ids.listed(),
        users: u64 = users.len() as u64,
        keep_alive_s: u16 = *keep_alive_s,
        resumes_session: bool = *resumes_session,
        session_expiry_s: Option<u32> = *session_expiry_s,
        in_flight: u16 = *in_flight,
        will: Option<WillSettings> = will.as_ref().map(WillSettings::from),
        subscribe_qos: Option<Qos> = subscribe.as_ref().map(|one| one.qos),
        counts_deliveries: bool = deliveries.is_some(),
    }

    /// A will, without its topic.
    WillSettings of Will, Will { publish, message } => {
        qos: Qos = publish.qos,
        retain: bool = publish.retain,
        message_bytes: usize = message.len(),
    }
}

named! {
    /// The rule by which operations start.
    pub enum Starts {
        /// On a schedule with exponential gaps.
        Poisson = "poisson",
        /// On a schedule with equal gaps.
        Uniform = "uniform",
        /// The next operation starts when the last one on the connection has ended: the server sets the pace.
        Closed = "closed-loop",
        /// Connections are held.
        Held = "held-connections",
    }
}

named! {
    /// The operation of a load.
    pub enum Operation {
        /// A request and its answer.
        Request = "request",
        /// A new TLS connection on which nothing is sent.
        TlsHandshake = "tls-handshake",
        /// A new MQTT connection, up to CONNACK.
        MqttConnect = "mqtt-connect",
        /// A new connection, up to the end of its script's opening.
        ScriptOpening = "script-opening",
        /// A check that the server of a held connection answers.
        Ping = "ping",
        /// An MQTT publish, up to its acknowledgement.
        Publish = "publish",
        /// A WebSocket message and the next one from the server.
        Message = "message",
        /// One pass of a script.
        Script = "script",
    }
}

named! {
    /// The roots that certificates are checked against.
    pub enum TrustKind {
        /// The host's.
        System = "system",
        /// Given ones.
        Roots = "roots",
        /// None: certificates are not checked.
        Insecure = "insecure",
    }
}

/// Rounds of servers that take turns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Settings")]
pub struct TurnsSettings {
    pub rounds: u32,
    pub budget_s: Option<f64>,
    pub seed: u64,
    pub duet: bool,
}

/// A rate, and the time in which the load gets there.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Settings")]
pub struct RateStep {
    pub per_s: f64,
    pub within_s: f64,
}

/// The highest rate of new connections that the source ports allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Settings")]
pub struct SourcePorts {
    pub handshakes_per_s: u64,
    pub addresses: u64,
}

/// A name with the addresses that it resolved to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedName {
    /// The name.
    pub host: String,
    /// Addresses that a load goes to; at least one.
    pub kept: Vec<SocketAddr>,
    /// Addresses that did not accept a connection; they are among `kept` if none did.
    pub refused: Vec<SocketAddr>,
}

/// An event of a load, without the words of a script.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see Settings")]
pub struct PlannedEvent {
    pub what: String,
    pub at_s: f64,
}

named! {
    /// The place of clients and servers of a laboratory.
    pub enum Isolate {
        /// Network namespaces of their own.
        Netns = "netns",
        /// This host's network.
        None = "none",
    }
}

impl Settings {
    /// Returns the settings of each run that a merged one was made of; of another run its own.
    pub fn of_parts(&self) -> &[Self] {
        if self.parts.is_empty() { slice::from_ref(self) } else { &self.parts }
    }

    /// Returns `true` if the server sets the pace.
    pub fn is_closed_loop(&self) -> bool {
        self.has_load(|load| load.arrivals == Starts::Closed)
    }

    /// Returns `true` if `is` holds for the load.
    pub fn has_load(&self, is: impl Fn(&LoadSettings) -> bool) -> bool {
        self.load.as_ref().is_some_and(is)
    }
}

impl LoadSettings {
    /// Returns `true` if an operation is a new connection and no request.
    pub const fn opens_connections(&self) -> bool {
        use Operation::{MqttConnect, ScriptOpening, TlsHandshake};
        matches!(self.operation, TlsHandshake | MqttConnect | ScriptOpening)
    }
}

const fn starts(pacing: &Pacing) -> Starts {
    match pacing {
        Pacing::Open { arrivals: Arrivals::Poisson, .. } => Starts::Poisson,
        Pacing::Open { arrivals: Arrivals::Uniform, .. } => Starts::Uniform,
        Pacing::Closed { .. } => Starts::Closed,
        Pacing::Hold(_) => Starts::Held,
    }
}

fn stages(pacing: &Pacing) -> Option<u64> {
    let Pacing::Open { profile, .. } = pacing else { return None };
    let is_steady =
        profile.stages.len() <= 1 && profile.stages.iter().all(|one| one.from == one.to);
    (!is_steady).then_some(profile.stages.len() as u64)
}

fn operation(plan: &LoadPlan) -> Operation {
    let is_hold = matches!(plan.pacing, Pacing::Hold(_));
    let has_opening = plan.script().is_some_and(|script| !script.opening.is_empty());
    match plan.protocol() {
        Protocol::Mqtt if plan.handshake_only => Operation::MqttConnect,
        Protocol::Script if plan.handshake_only && has_opening => Operation::ScriptOpening,
        _ if plan.handshake_only => Operation::TlsHandshake,
        Protocol::Mqtt | Protocol::WebSocket | Protocol::Http2 if is_hold => Operation::Ping,
        Protocol::Mqtt => Operation::Publish,
        Protocol::WebSocket => Operation::Message,
        Protocol::Script => Operation::Script,
        Protocol::Http1 | Protocol::Http2 => Operation::Request,
    }
}
