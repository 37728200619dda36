//! The plan that a coordinator sends to an agent; everything in it is resolved and checked.
//!
//! [`LoadPlan`] describes one load completely, so that an agent needs neither DNS nor files. [`Pacing`] states when
//! operations start, [`LoadPart`] which share of the load the receiver makes; [`LoadPlan::shard_of_thread`] splits
//! that by thread. [`ServePlan`] is the counterpart for servers. Types with secrets are serialisable only within
//! frames (`framed!`). Start reading at [`LoadPlan`]; [`LoadPlan::plain`] is the smallest valid plan.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::framed::framed;
use crate::pace::{Arrivals, Profile, Shard};
use crate::row::RowPlan;
use crate::target::{
    Body, BodyStore, Credentials, Filters, MqttVersion, Protocol, Script, Subscription, Target,
    TargetUrl, Will,
};

mod hold;
mod tls;

pub use hold::{HoldPlan, Steer};
pub use tls::{
    CertificateKey, Group, Identity, ServerName, TicketKey, TlsOptions, TlsState, TlsVersion, Trust,
};

/// The rule by which operations start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// On a schedule, whatever the earlier operations did.
    Open {
        /// The whole load's profile; an agent executes its shard of it.
        profile: Profile,
        /// Distribution of the starts.
        arrivals: Arrivals,
    },
    /// Each connection sends its next operation when the last one ended.
    Closed {
        /// Time after which no operation starts.
        duration: Option<Nanos>,
        /// Number of operations to start in all.
        ops_total: Option<u64>,
    },
    /// Connections are opened at a rate and held; see [`Steer`] for how far.
    Hold(HoldPlan),
}

/// A server to connect to, shared by every target with the same scheme, host and port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Endpoint {
    /// `host:port` as reports show it.
    pub name: String,
    /// Every address the name resolved to; connections go round robin.
    pub addresses: Vec<SocketAddr>,
    /// TLS towards this server; `None` is plain TCP.
    pub tls: Option<ServerName>,
}

/// A connection with a planned life: opened, used for a fixed number of transactions in sequence, closed by our
/// FIN, and gone once the peer's FIN has come. No request announces the end.
///
/// In an open or closed loop each arrival is one; its transactions are operations, the first due
/// with the arrival, each further one with the answer before it. The connections of a hold end
/// their heartbeats after that number, and are closed by FIN however many there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Requests on the connection; at least 1.
    pub transactions: u32,
}

/// Longest times that clients wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timeouts {
    /// An answer after this is late.
    pub deadline: Option<Nanos>,
    /// For an answer past the deadline.
    pub linger: Nanos,
    /// For TCP connect plus TLS handshake of one connection.
    pub connect: Nanos,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { deadline: None, linger: Nanos::from_secs(5), connect: Nanos::from_secs(5) }
    }
}

/// One receiver's part of a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadPart {
    /// The part of the receiver's first thread among all threads of the load; the others follow. The whole load if the
    /// receiver runs alone.
    pub shard: Shard,
    /// The threads of the load that share the receiver's source ports, by their indices in it; `None` for all.
    pub on_host: Option<Range<u32>>,
    /// Offset of the numbers of the receiver's connections, which client identifiers and the like contain. The numbers
    /// of a host that joins a hold follow all others.
    pub numbers_from: u32,
}

impl LoadPart {
    /// The whole load, with no other participant.
    pub const WHOLE: Self = Self { shard: Shard::WHOLE, on_host: None, numbers_from: 0 };
}

/// Everything an agent needs to make one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct LoadPlan {
    /// At least one; operations use them in turn.
    #[serde(with = "crate::framed")]
    pub targets: Vec<Target>,
    /// For each target its server, as an index into `destinations`.
    pub target_destination: Vec<u32>,
    /// Servers, without repetition.
    pub destinations: Vec<Endpoint>,
    /// Unix socket that all connections go to. The addresses of the servers are then loopback ones that nothing uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_socket: Option<PathBuf>,
    /// Schedule of the operations.
    pub pacing: Pacing,
    /// Size of the connection pool over all agents; at least 1.
    pub connections: u64,
    /// Reuse connections; otherwise one operation each.
    pub keepalive: bool,
    /// An operation is a connection: it is ok once TCP and TLS are established, and nothing is
    /// sent on it. Never with `keepalive`.
    pub handshake_only: bool,
    /// Operations after which a connection is closed.
    pub requests_per_connection: Option<u64>,
    /// Each arrival opens its own connection; never with `keepalive` or `handshake_only`, except in holds.
    pub session: Option<Session>,
    /// Give the connections of the prewarmed pool ages spread evenly over that number, so that
    /// they are not all replaced at the same moment.
    pub staggered: bool,
    /// Open the pool before the schedule's first instant.
    pub prewarm: bool,
    /// Longest times that clients wait.
    pub timeouts: Timeouts,
    /// TLS knobs.
    #[serde(with = "crate::framed")]
    pub tls: TlsOptions,
    /// Source addresses, round robin; empty lets the kernel choose, or takes as many of 127.0.0.0/8
    /// as a large load to loopback needs.
    pub sources: Vec<IpAddr>,
    /// Worker threads in each agent; at least 1.
    pub threads: u32,
    /// CPUs that workers are pinned to, round robin; empty pins nothing.
    pub cpus: Vec<u32>,
    /// Seed of arrivals and of everything else that is random.
    pub seed: u64,
    /// The receiver's part of the load.
    pub part: LoadPart,
    /// Stop early once more than this many operations over all agents are bad (late, failed or
    /// unsent), because the verdict can no longer change.
    pub abort_bad_ops: Option<u64>,
    /// Record single operations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowPlan>,
    /// Contents of each CONNECT; for MQTT alone.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::framed")]
    pub mqtt: Option<MqttPlan>,
    /// Each connection begins with a header of the PROXY protocol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy: Option<ProxyHeader>,
    /// Sharing of connections; for HTTP/2 alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http2: Option<Http2Plan>,
}

/// The header of the PROXY protocol, version 2, that each connection begins with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyHeader {
    /// Addresses that are named as the client's, in turn; `None`: the connection's own.
    pub sources: Option<AddressRange>,
    /// Prefix of unique identifiers; the connection's number in the load follows.
    pub id_prefix: String,
}

/// Addresses that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressRange {
    /// The first of them.
    pub first: IpAddr,
    /// Number of addresses; at least 1.
    pub count: u64,
}

impl AddressRange {
    /// Returns the address in place `n`, counted from 0, and starting again after the last.
    pub fn nth(&self, n: u64) -> IpAddr {
        let n = n % self.count.max(1);
        match self.first {
            IpAddr::V4(first) => Ipv4Addr::from(u32::from(first).wrapping_add(n as u32)).into(),
            IpAddr::V6(first) => Ipv6Addr::from(u128::from(first).wrapping_add(n.into())).into(),
        }
    }
}

/// Sharing of HTTP/2 connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http2Plan {
    /// Most operations at once on one connection, if the server allows as many; at least 1.
    pub streams: u32,
}

/// The CONNECT of MQTT clients, and their use of the session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct MqttPlan {
    /// The version that is spoken.
    pub version: MqttVersion,
    /// Client identifiers.
    #[serde(with = "crate::framed")]
    pub client_ids: ClientIds,
    /// Users with their passwords, in turn; empty: none is named.
    #[serde(with = "crate::framed")]
    pub users: Arc<[Credentials]>,
    /// Seconds within which the client sends something; 0 for no bound.
    pub keep_alive_s: u16,
    /// The broker resumes the stored session of the client.
    pub resumes_session: bool,
    /// Seconds for which the broker keeps a session without a connection; MQTT 5 alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_expiry_s: Option<u32>,
    /// Publishes above QoS 0 that may be open at once on one connection, if the broker allows as many; at
    /// least 1.
    pub in_flight: u16,
    /// Message that the broker publishes if a client is lost without DISCONNECT.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::framed")]
    pub will: Option<Will>,
    /// Each connection subscribes to this before it counts as usable.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::framed")]
    pub subscribe: Option<Subscription>,
    /// Counting of deliveries, if the load subscribes to its own messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<DeliveryPlan>,
}

/// Counting of the deliveries of a load's own messages. Each payload begins with a stamp, see
/// [`crate::target::Filling::stamp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryPlan {
    /// Number that distinguishes this run from others whose messages the broker may still have.
    pub run: u32,
}

/// The client identifiers of a load.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub enum ClientIds {
    /// This, a number for each shard and one for each of its connections.
    Prefix(String),
    /// The identifier of each connection by its number; at least one per connection.
    Listed(Arc<[String]>),
}

framed!(MqttPlan, ClientIds, LoadPlan, ServePlan);

impl ClientIds {
    /// Returns the number of distinct client identifiers; `None` if it is unlimited.
    pub fn listed(&self) -> Option<u64> {
        match self {
            Self::Prefix(_) => None,
            Self::Listed(all) => Some(all.len() as u64),
        }
    }
}

impl MqttPlan {
    /// Returns the client identifier of the connection with this number.
    pub fn client_id(&self, number: u64) -> String {
        match &self.client_ids {
            ClientIds::Prefix(prefix) => format!("{prefix}{number:x}"),
            ClientIds::Listed(all) => nth(all, number).cloned().unwrap_or_default(),
        }
    }

    /// Returns the user of the connection with this number.
    pub fn user(&self, number: u64) -> Option<&Credentials> {
        nth(&self.users, number)
    }

    /// Returns the subscriptions of this number of connections.
    pub fn filters(&self, connections: u64) -> Filters {
        let mut filters = Filters::default();
        match &self.subscribe {
            Some(one) if one.filter.contains('%') => {
                for number in 0..connections {
                    filters.add(&self.filled(&one.filter, number), 1);
                }
            }
            Some(one) => filters.add(&one.filter, connections),
            None => {}
        }
        filters
    }

    /// Fills a topic or filter of the connection with a number: `%c` is its client identifier, `%i` its number, `%u`
    /// its user, and `%%` a percent sign.
    pub fn filled(&self, template: &str, number: u64) -> String {
        let mut filled = String::new();
        let mut rest = template;
        while let Some((before, behind)) = rest.split_once('%') {
            filled.push_str(before);
            let mut behind = behind.chars();
            match behind.next() {
                Some('c') => filled.push_str(&self.client_id(number)),
                Some('i') => filled.push_str(&number.to_string()),
                Some('u') => filled.push_str(self.user(number).map_or("", |user| &user.name)),
                Some(other) => filled.push(other),
                None => {}
            }
            rest = behind.as_str();
        }
        filled.push_str(rest);
        filled
    }
}

/// The one in place `n`; after the last one comes the first.
fn nth<T>(all: &[T], n: u64) -> Option<&T> {
    all.get(n.checked_rem(all.len() as u64)? as usize)
}

impl LoadPlan {
    /// Returns the protocol that is spoken with every server.
    pub fn protocol(&self) -> Protocol {
        self.targets.first().map_or(Protocol::Http1, |target| target.url.protocol)
    }

    /// Reports whether connections may carry several operations at once.
    pub fn shares_connections(&self) -> bool {
        let is_hold = matches!(self.pacing, Pacing::Hold(_));
        let is_shared = match self.protocol() {
            Protocol::Http2 => true,
            Protocol::Mqtt => self
                .mqtt
                .as_ref()
                .is_some_and(|mqtt| mqtt.in_flight > 1 || mqtt.deliveries.is_some()),
            Protocol::Http1 | Protocol::WebSocket | Protocol::Script => false,
        };
        is_shared && self.keepalive && !is_hold && self.session.is_none()
    }

    /// Returns the most operations in flight at once on one connection.
    pub fn streams(&self) -> u32 {
        if !self.shares_connections() {
            return 1;
        }
        let streams = self.http2.map(|http2| http2.streams);
        let in_flight = self.mqtt.as_ref().map(|mqtt| mqtt.in_flight.into());
        streams.or(in_flight).unwrap_or(1).max(1)
    }

    /// Returns the store of the large bodies of its targets; all of them are in one.
    pub fn bodies(&self) -> Option<&Arc<dyn BodyStore>> {
        self.targets.iter().find_map(|target| target.body.store())
    }

    /// Takes the large bodies from `store`; `false` if one is not there.
    pub fn attach_bodies(&mut self, store: Option<&Arc<dyn BodyStore>>) -> bool {
        self.targets.iter_mut().all(|target| target.body.attach(store))
    }

    /// Returns the script of each connection, if the protocol is a script.
    pub fn script(&self) -> Option<&Script> {
        self.targets.first().and_then(|target| target.script.as_ref())
    }

    /// Returns the shard of one of the receiver's threads.
    pub fn shard_of_thread(&self, index: u32) -> Shard {
        let Shard { index: first, of } = self.part.shard;
        Shard { index: first + index, of: of.max(self.threads).max(1) }
    }

    /// Returns the shard of the source ports for the thread that makes `shard` of the load, one of the threads on its
    /// host.
    pub fn ports_of_thread(&self, shard: Shard) -> Shard {
        let Shard { index, of } = shard;
        let host = self.part.on_host.clone().filter(|host| host.contains(&index)).unwrap_or(0..of);
        Shard { index: index - host.start, of: host.end - host.start }
    }

    /// Creates the simplest complete plan, which tests vary: `GET /ping` without TLS, kept alive over 8 connections,
    /// one worker thread, nothing late. Each entry is one server with its addresses; the requests go to the first.
    pub fn plain(servers: &[&[SocketAddr]], pacing: Pacing) -> Self {
        let first = servers.first().and_then(|addresses| addresses.first());
        let targets: Vec<_> = first
            .map(|address| Target {
                method: "GET".to_owned(),
                url: TargetUrl {
                    protocol: Protocol::Http1,
                    tls: false,
                    host: address.ip().to_string(),
                    port: address.port(),
                    path: "/ping".to_owned(),
                },
                headers: Vec::new(),
                body: Body::default(),
                publish: None,
                script: None,
                websocket: None,
            })
            .into_iter()
            .collect();
        let destination = |addresses: &&[SocketAddr]| Endpoint {
            name: addresses.first().map(ToString::to_string).unwrap_or_default(),
            addresses: addresses.to_vec(),
            tls: None,
        };
        Self {
            target_destination: vec![0; targets.len()],
            targets,
            destinations: servers.iter().map(destination).collect(),
            unix_socket: None,
            pacing,
            connections: 8,
            keepalive: true,
            handshake_only: false,
            requests_per_connection: None,
            session: None,
            staggered: false,
            prewarm: true,
            timeouts: Timeouts::default(),
            tls: TlsOptions::default(),
            sources: Vec::new(),
            threads: 1,
            cpus: Vec::new(),
            seed: 1,
            part: LoadPart::WHOLE,
            abort_bad_ops: None,
            rows: None,
            mqtt: None,
            proxy: None,
            http2: None,
        }
    }
}

/// The listeners of a backend agent, and its behavior.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct ServePlan {
    /// Sockets to listen on.
    pub listeners: Vec<Listener>,
    /// Certificate for the TLS listeners.
    #[serde(with = "crate::framed")]
    pub identity: Option<Identity>,
    /// Key of the tickets; `None` lets each process use its own key.
    #[serde(with = "crate::framed")]
    pub ticket_key: Option<TicketKey>,
    /// State that a TLS connection stores after its handshake.
    pub tls_state: TlsState,
    /// Worker threads; at least 1.
    pub threads: u32,
    /// CPUs that workers are pinned to, round robin; empty pins nothing.
    pub cpus: Vec<u32>,
    /// StatsD counters go to this address over UDP.
    pub statsd: Option<SocketAddr>,
    /// Seed of the random sleeps.
    pub seed: u64,
    /// Longest wait for a complete request head, and for more of a request body.
    pub request_timeout: Nanos,
    /// Longest wait for the next request on a kept-alive connection.
    pub idle_timeout: Nanos,
    /// Delay of each acknowledgement of an MQTT publish.
    pub acknowledgement_delay: Nanos,
    /// MQTT publishes above QoS 0 that a client may have without their acknowledgement; at least 1.
    pub receive_maximum: u16,
    /// Faults of MQTT deliveries.
    pub delivery_faults: DeliveryFaults,
    /// Each connection must begin with a header of the PROXY protocol, version 2.
    pub accept_proxy: bool,
}

/// Deliberate faults of a server's deliveries. Each thread counts by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryFaults {
    /// One message in this number is not delivered; 0 for none.
    pub lose_every: u32,
    /// One message in this number is delivered twice, unless it is not delivered at all; 0 for none.
    pub repeat_every: u32,
}

/// One listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listener {
    /// Address and port; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// `true` for TLS.
    pub tls: bool,
    /// Protocol of the socket.
    pub spoken: Spoken,
}

/// The protocol of one listening address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spoken {
    /// HTTP/1.1, HTTP/2, and WebSocket if a request asks for it.
    #[default]
    Http,
    /// MQTT.
    Mqtt,
    /// No script: received bytes are sent back.
    Echo,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framed;
    use crate::framed::Framed;
    use crate::target::Publish;

    #[test]
    fn clients_have_names_users_and_topics_of_their_own() {
        let user = |name: &str| Credentials { name: name.to_owned(), password: None };
        let mut plan = MqttPlan {
            version: MqttVersion::V5,
            client_ids: ClientIds::Prefix("p-".to_owned()),
            users: [].into(),
            keep_alive_s: 0,
            resumes_session: false,
            session_expiry_s: None,
            in_flight: 1,
            will: None,
            subscribe: None,
            deliveries: None,
        };
        assert_eq!((plan.client_id(17).as_str(), plan.user(17)), ("p-11", None));
        assert_eq!(plan.filled("a/%c/%i/%u/100%%", 17), "a/p-11/17//100%");
        plan.users = [user("ann"), user("bob")].into();
        plan.client_ids = ClientIds::Listed(["x".to_owned(), "y".to_owned()].into());
        assert_eq!(plan.filled("%u%c", 1), "boby");
        assert_eq!(plan.filled("%u%c", 2), "annx");
    }

    #[test]
    fn plans_travel_in_frames() {
        let [a, b]: [SocketAddr; 2] = ["127.0.0.1:1", "[::1]:2"].map(|text| text.parse().unwrap());
        let mut plan =
            LoadPlan::plain(&[&[a, b]], Pacing::Closed { duration: None, ops_total: None });
        plan.targets[0].headers.push(("a".to_owned(), "b".to_owned()));
        plan.targets[0].body = "body".into();
        plan.targets[0].script = Some(Script::echo(b"said".to_vec()));
        plan.tls.identity =
            Some(Identity { chain_pem: "chain".to_owned(), key_pem: "key".to_owned() });
        let publish = Publish { topic: "t".to_owned(), ..Publish::default() };
        plan.mqtt = Some(MqttPlan {
            version: MqttVersion::V5,
            client_ids: ClientIds::Listed(["x".to_owned()].into()),
            users: [Credentials { name: "ann".to_owned(), password: Some("p".to_owned()) }].into(),
            keep_alive_s: 1,
            resumes_session: true,
            session_expiry_s: Some(2),
            in_flight: 3,
            will: Some(Will { publish: publish.clone(), message: b"bye".to_vec() }),
            subscribe: Some(Subscription { filter: "#".to_owned(), ..Subscription::default() }),
            deliveries: Some(DeliveryPlan { run: 4 }),
        });
        plan.targets[0].publish = Some(publish);
        let json = framed::json(&plan);
        assert_eq!(LoadPlan::read(&json).unwrap(), plan);
        // Fields that are not needed are absent.
        let plain = LoadPlan::plain(&[&[a]], plan.pacing);
        let json = framed::json(&plain);
        assert_eq!((json.get("mqtt"), json["tls"]["identity"].is_null()), (None, true));
        assert_eq!(LoadPlan::read(&json).unwrap(), plain);
    }

    #[test]
    fn threads_share_the_ports_of_their_host_alone() {
        let whole = LoadPlan::plain(&[], Pacing::Closed { duration: None, ops_total: None });
        let third = Shard { index: 5, of: 9 };
        assert_eq!(whole.ports_of_thread(third), third);
        let on_host =
            LoadPlan { part: LoadPart { on_host: Some(4..6), ..LoadPart::WHOLE }, ..whole };
        assert_eq!(on_host.ports_of_thread(third), Shard { index: 1, of: 2 });
    }

    #[test]
    fn a_range_begins_again_after_its_last_address() {
        let nth = |first: &str, count, n| {
            AddressRange { first: first.parse().unwrap(), count }.nth(n).to_string()
        };
        assert_eq!(
            [0, 2, 3].map(|n| nth("10.0.0.254", 3, n)),
            ["10.0.0.254", "10.0.1.0", "10.0.0.254"]
        );
        assert_eq!(nth("fd00::1", u64::MAX, 1 << 32), "fd00::1:0:1");
    }
}
