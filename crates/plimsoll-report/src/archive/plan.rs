//! The plan of a load as an archive has it: what is named here, and nothing else.
//!
//! A plan holds credentials in many of its fields: headers, bodies, users, scripts, topics, queries. So an archive's plan
//! is copied field by field, and a field that [`LoadPlan`] gets does not compile here before it is decided what of it is
//! written. That is: numbers, addresses, words of a fixed set, and URLs as they may be shown. Of texts and bytes it is
//! how many they are.

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{
    AddressRange, CertificateKey, ClientIds, Endpoint, Group, Http2Plan, LoadPlan, MqttPlan,
    Pacing, ProxyHeader, Session, TlsOptions, TlsState, TlsVersion, Trust,
};
use plimsoll_model::row::RowPlan;
use plimsoll_model::target::{
    Messages, MqttVersion, Publish, Qos, Script, Subscription, Target, Will,
};
use serde::Serialize;
use serde_json::Value;

/// Returns the plan of an archive.
pub(super) fn archived(plan: &LoadPlan) -> Value {
    // Numbers, texts and lists: nothing that JSON lacks.
    serde_json::to_value(ArchivedPlan::of(plan)).unwrap_or(Value::Null)
}

#[derive(Serialize)]
struct ArchivedPlan<'a> {
    targets: Vec<ArchivedTarget<'a>>,
    target_destination: &'a [u32],
    destinations: Vec<ArchivedServer<'a>>,
    /// All connections go to a Unix socket, whose path is not written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unix_socket: bool,
    pacing: &'a Pacing,
    connections: u64,
    keepalive: bool,
    handshake_only: bool,
    requests_per_connection: Option<u64>,
    session: Option<Session>,
    staggered: bool,
    prewarm: bool,
    deadline: Option<Nanos>,
    linger: Nanos,
    connect_timeout: Nanos,
    tls: ArchivedTls<'a>,
    sources: &'a [IpAddr],
    threads: u32,
    cpus: &'a [u32],
    seed: u64,
    shard: Shard,
    on_host: Option<&'a Range<u32>>,
    numbers_from: u32,
    abort_bad_ops: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<RowPlan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mqtt: Option<ArchivedMqtt>,
    #[serde(skip_serializing_if = "Option::is_none")]
    proxy: Option<ArchivedProxy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    http2: Option<Http2Plan>,
}

impl<'a> ArchivedPlan<'a> {
    fn of(plan: &'a LoadPlan) -> Self {
        let LoadPlan {
            targets,
            target_destination,
            destinations,
            unix_socket,
            pacing,
            connections,
            keepalive,
            handshake_only,
            requests_per_connection,
            session,
            staggered,
            prewarm,
            deadline,
            linger,
            connect_timeout,
            tls,
            sources,
            threads,
            cpus,
            seed,
            shard,
            on_host,
            numbers_from,
            abort_bad_ops,
            rows,
            mqtt,
            proxy,
            http2,
        } = plan;
        Self {
            targets: targets.iter().map(ArchivedTarget::of).collect(),
            target_destination,
            destinations: destinations.iter().map(ArchivedServer::of).collect(),
            unix_socket: unix_socket.is_some(),
            pacing,
            connections: *connections,
            keepalive: *keepalive,
            handshake_only: *handshake_only,
            requests_per_connection: *requests_per_connection,
            session: *session,
            staggered: *staggered,
            prewarm: *prewarm,
            deadline: *deadline,
            linger: *linger,
            connect_timeout: *connect_timeout,
            tls: ArchivedTls::of(tls),
            sources,
            threads: *threads,
            cpus,
            seed: *seed,
            shard: *shard,
            on_host: on_host.as_ref(),
            numbers_from: *numbers_from,
            abort_bad_ops: *abort_bad_ops,
            rows: *rows,
            mqtt: mqtt.as_ref().map(ArchivedMqtt::of),
            proxy: proxy.as_ref().map(ArchivedProxy::of),
            http2: *http2,
        }
    }
}

#[derive(Serialize)]
struct ArchivedTarget<'a> {
    method: &'a str,
    url: String,
    headers: usize,
    body: Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    publish: Option<ArchivedPublish>,
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<ArchivedScript>,
    #[serde(skip_serializing_if = "Option::is_none")]
    websocket: Option<ArchivedMessages>,
}

impl<'a> ArchivedTarget<'a> {
    fn of(target: &'a Target) -> Self {
        let Target { method: _, url, headers, body, publish, script, websocket } = target;
        Self {
            method: target.method_shown(),
            url: url.to_string(),
            headers: headers.len(),
            body: Bytes { bytes: body.len() },
            publish: publish.as_ref().map(ArchivedPublish::of),
            script: script.as_ref().map(ArchivedScript::of),
            websocket: websocket.as_ref().map(ArchivedMessages::of),
        }
    }
}

/// Something of which only the length is written.
#[derive(Serialize)]
struct Bytes {
    bytes: usize,
}

/// Without its topic.
#[derive(Serialize)]
struct ArchivedPublish {
    qos: Qos,
    retain: bool,
}

impl ArchivedPublish {
    const fn of(publish: &Publish) -> Self {
        let Publish { topic: _, qos, retain } = publish;
        Self { qos: *qos, retain: *retain }
    }
}

/// The numbers of its steps.
#[derive(Serialize)]
struct ArchivedScript {
    opening: usize,
    operation: usize,
    rest: Nanos,
}

impl ArchivedScript {
    const fn of(script: &Script) -> Self {
        let Script { opening, operation, rest } = script;
        Self { opening: opening.len(), operation: operation.len(), rest: *rest }
    }
}

#[derive(Serialize)]
struct ArchivedMessages {
    is_binary: bool,
    payload_bytes_max: Option<u32>,
    skipped: u32,
    has_expectation: bool,
}

impl ArchivedMessages {
    const fn of(messages: &Messages) -> Self {
        let Messages { is_binary, payload_bytes_max, skipped, expected } = messages;
        Self {
            is_binary: *is_binary,
            payload_bytes_max: *payload_bytes_max,
            skipped: *skipped,
            has_expectation: expected.is_some(),
        }
    }
}

/// Without its names, which URLs have.
#[derive(Serialize)]
struct ArchivedServer<'a> {
    addresses: &'a [SocketAddr],
    tls: bool,
}

impl<'a> ArchivedServer<'a> {
    const fn of(server: &'a Endpoint) -> Self {
        let Endpoint { name: _, addresses, tls } = server;
        Self { addresses: addresses.as_slice(), tls: tls.is_some() }
    }
}

#[derive(Serialize)]
struct ArchivedTls<'a> {
    trust: &'static str,
    has_client_certificate: bool,
    version: Option<TlsVersion>,
    groups: &'a [Group],
    resume_ratio: f64,
    reuse_key_share: bool,
    state: TlsState,
    offers_http2: bool,
    certificate_key: Option<CertificateKey>,
}

impl<'a> ArchivedTls<'a> {
    const fn of(tls: &'a TlsOptions) -> Self {
        let TlsOptions {
            trust,
            identity,
            version,
            groups,
            resume_ratio,
            reuse_key_share,
            state,
            offers_http2,
            certificate_key,
        } = tls;
        Self {
            trust: match trust {
                Trust::System => "system",
                Trust::Roots(_) => "roots",
                Trust::Insecure => "insecure",
            },
            has_client_certificate: identity.is_some(),
            version: *version,
            groups: groups.as_slice(),
            resume_ratio: *resume_ratio,
            reuse_key_share: *reuse_key_share,
            state: *state,
            offers_http2: *offers_http2,
            certificate_key: *certificate_key,
        }
    }
}

#[derive(Serialize)]
struct ArchivedMqtt {
    version: MqttVersion,
    /// Number of listed identifiers; `None` if each connection has a generated one.
    client_ids: Option<usize>,
    users: usize,
    keep_alive_s: u16,
    resumes_session: bool,
    session_expiry_s: Option<u32>,
    in_flight: u16,
    will: Option<ArchivedWill>,
    subscribe: Option<ArchivedSubscription>,
    counts_deliveries: bool,
}

impl ArchivedMqtt {
    fn of(mqtt: &MqttPlan) -> Self {
        let MqttPlan {
            version,
            client_ids,
            users,
            keep_alive_s,
            resumes_session,
            session_expiry_s,
            in_flight,
            will,
            subscribe,
            deliveries,
        } = mqtt;
        Self {
            version: *version,
            client_ids: match client_ids {
                ClientIds::Prefix(_) => None,
                ClientIds::Listed(all) => Some(all.len()),
            },
            users: users.len(),
            keep_alive_s: *keep_alive_s,
            resumes_session: *resumes_session,
            session_expiry_s: *session_expiry_s,
            in_flight: *in_flight,
            will: will.as_ref().map(ArchivedWill::of),
            subscribe: subscribe.as_ref().map(ArchivedSubscription::of),
            counts_deliveries: deliveries.is_some(),
        }
    }
}

#[derive(Serialize)]
struct ArchivedWill {
    publish: ArchivedPublish,
    message: Bytes,
}

impl ArchivedWill {
    const fn of(will: &Will) -> Self {
        let Will { publish, message } = will;
        Self { publish: ArchivedPublish::of(publish), message: Bytes { bytes: message.len() } }
    }
}

/// Without its filter.
#[derive(Serialize)]
struct ArchivedSubscription {
    qos: Qos,
}

impl ArchivedSubscription {
    const fn of(subscription: &Subscription) -> Self {
        let Subscription { filter: _, qos } = subscription;
        Self { qos: *qos }
    }
}

/// Without the prefix of its identifiers.
#[derive(Serialize)]
struct ArchivedProxy {
    sources: Option<AddressRange>,
}

impl ArchivedProxy {
    const fn of(proxy: &ProxyHeader) -> Self {
        let ProxyHeader { sources, id_prefix: _ } = proxy;
        Self { sources: *sources }
    }
}
