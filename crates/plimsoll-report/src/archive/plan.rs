//! The plan of a load as an archive has it: what is named here, and nothing else.
//!
//! A plan holds credentials in many of its fields: headers, bodies, users, scripts, topics, queries. So an archive's
//! plan is copied field by field, and a field that [`LoadPlan`] gets does not compile here before it is decided what of
//! it is written. That is: numbers, addresses, words of a fixed set, and URLs as they may be shown. Of texts and bytes
//! it is how many they are.

use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;

use plimsoll_model::Nanos;
use plimsoll_model::plan::{
    AddressRange, Endpoint, Http2Plan, LoadPart, LoadPlan, Pacing, ProxyHeader, Session, Timeouts,
};
use plimsoll_model::row::RowPlan;
use plimsoll_model::settings::{MqttSettings, TlsSettings};
use plimsoll_model::target::{Messages, Publish, Qos, Script, Target};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A plan in an archive, for people: texts and bytes are counts, so it is no plan to run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArchivedPlan(Value);

impl ArchivedPlan {
    /// Takes what is archived of a plan.
    pub fn of(plan: &LoadPlan) -> Self {
        // Numbers, texts and lists: nothing that JSON lacks.
        Self(serde_json::to_value(NamedPlan::of(plan)).unwrap_or(Value::Null))
    }
}

impl Deref for ArchivedPlan {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

/// Declares the part of a plan that an archive has. Each field is listed once, with the value that is written of it;
/// the one behind `without` is not written.
macro_rules! archived {
    ($($(#[$about:meta])* $name:ident $(<$life:lifetime>)? of $plan:ident $(without $left:ident)? {
        $($(#[$of:meta])* $field:ident: $type:ty = $value:expr,)*
    })*) => {$(
        $(#[$about])*
        #[derive(Serialize)]
        struct $name $(<$life>)? {
            $($(#[$of])* $field: $type,)*
        }

        impl $(<$life>)? $name $(<$life>)? {
            fn of(plan: &$($life)? $plan) -> Self {
                let $plan { $($field,)* $($left: _)? } = plan;
                Self { $($field: $value,)* }
            }
        }
    )*};
}

archived! {
    NamedPlan<'a> of LoadPlan {
        targets: Vec<ArchivedTarget<'a>> = targets.iter().map(ArchivedTarget::of).collect(),
        target_destination: &'a [u32] = target_destination,
        destinations: Vec<ArchivedServer<'a>> = destinations.iter().map(ArchivedServer::of).collect(),
        /// All connections go to a Unix socket, whose path is not written.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        unix_socket: bool = unix_socket.is_some(),
        pacing: &'a Pacing = pacing,
        connections: u64 = *connections,
        keepalive: bool = *keepalive,
        handshake_only: bool = *handshake_only,
        requests_per_connection: Option<u64> = *requests_per_connection,
        session: Option<Session> = *session,
        staggered: bool = *staggered,
        prewarm: bool = *prewarm,
        timeouts: Timeouts = *timeouts,
        tls: TlsSettings = tls.into(),
        sources: &'a [IpAddr] = sources,
        threads: u32 = *threads,
        cpus: &'a [u32] = cpus,
        seed: u64 = *seed,
        part: &'a LoadPart = part,
        abort_bad_ops: Option<u64> = *abort_bad_ops,
        #[serde(skip_serializing_if = "Option::is_none")]
        rows: Option<RowPlan> = *rows,
        #[serde(skip_serializing_if = "Option::is_none")]
        mqtt: Option<MqttSettings> = mqtt.as_ref().map(MqttSettings::from),
        #[serde(skip_serializing_if = "Option::is_none")]
        proxy: Option<ArchivedProxy> = proxy.as_ref().map(ArchivedProxy::of),
        #[serde(skip_serializing_if = "Option::is_none")]
        http2: Option<Http2Plan> = *http2,
    }

    /// Without its topic.
    ArchivedPublish of Publish without topic {
        qos: Qos = *qos,
        retain: bool = *retain,
    }

    /// The numbers of its steps.
    ArchivedScript of Script {
        opening: usize = opening.len(),
        operation: usize = operation.len(),
        rest: Nanos = *rest,
    }

    ArchivedMessages of Messages {
        is_binary: bool = *is_binary,
        payload_bytes_max: Option<u32> = *payload_bytes_max,
        skipped: u32 = *skipped,
        #[serde(rename = "has_expectation")]
        expected: bool = expected.is_some(),
    }

    /// Without its names, which URLs have.
    ArchivedServer<'a> of Endpoint without name {
        addresses: &'a [SocketAddr] = addresses.as_slice(),
        tls: bool = tls.is_some(),
    }

    /// Without the prefix of its identifiers.
    ArchivedProxy of ProxyHeader without id_prefix {
        sources: Option<AddressRange> = *sources,
    }
}

#[derive(Serialize)]
struct ArchivedTarget<'a> {
    method: &'a str,
    url: String,
    headers: usize,
    body: Value,
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
            body: json!({ "bytes": body.len() }),
            publish: publish.as_ref().map(ArchivedPublish::of),
            script: script.as_ref().map(ArchivedScript::of),
            websocket: websocket.as_ref().map(ArchivedMessages::of),
        }
    }
}
