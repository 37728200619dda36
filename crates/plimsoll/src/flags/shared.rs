//! Groups of flags that several commands have in common, as typed.
//!
//! Each struct is one group that commands flatten into their own flags, so that a flag has one definition, one help
//! text and one heading. [`ServerFlags`], [`RequestFlags`] and [`PoolFlags`] describe the server, the request and the
//! connections; [`OutputFlags`], [`EventFlags`] and [`ServerWatchFlags`] the surroundings of a run. Values are parsed
//! here, and `plan` checks combinations. Start with [`ServerFlags`].

use std::path::PathBuf;

use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_model::disruption::Disruption;
use plimsoll_model::plan::{Group, TlsVersion};

use super::hosts::LoadHostFlags;
use super::mqtt::MqttFlags;
use super::publish::PublishFlags;
use super::script::ScriptFlags;
use super::values::{
    Cidr, HttpFlag, InputFile, ListenAt, OutputFile, Processes, ProxyProtocolFlag, Resolved,
    TargetFormat, TlsStateFlag, Watch, cidr, connections, header, input_file, listen_at,
    output_file, positive_count, positive_duration, processes, ratio, resolved, streams, threads,
    watch,
};
use super::websocket::WebSocketFlags;

/// An existing server, how its certificate is verified, and the machines that load it.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct ServerFlags {
    /// URL such as https://127.0.0.1:8443/path: http, https, ws, wss, mqtt, mqtts, tcp or tls
    ///
    /// --targets names a file of requests instead.
    #[arg(value_name = "URL", help_heading = None::<&str>)]
    pub(crate) url: Option<String>,

    /// File of requests in vegeta's http or json format, sent in turn; - reads standard input
    #[arg(long, value_name = "FILE|-", value_parser = input_file, help_heading = "Request")]
    pub(crate) targets: Option<InputFile>,

    /// Format of --targets: http or json [default: detected from the first line]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true, help_heading = "Request")]
    pub(crate) format: Option<TargetFormat>,

    /// Connect to this address instead of those of the URL's host: HOST:PORT:ADDRESS; repeatable
    ///
    /// Several addresses, separated by commas, share the connections; each may have a port of its own. Host header and
    /// TLS name stay those of the URL.
    #[arg(long, value_name = "HOST:PORT:ADDRESS", value_parser = resolved, help_heading = "Connections")]
    pub(crate) resolve: Vec<Resolved>,

    /// Connect to this Unix socket instead of the URL's host and port
    ///
    /// Host header and TLS name stay those of the URL, whose name is not resolved.
    #[arg(long, value_name = "PATH", help_heading = "Connections")]
    #[arg(conflicts_with_all = ["resolve", "source", "hosts", "slurm", "agents", "proxy_protocol"])]
    pub(crate) unix_socket: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) trust: TrustFlags,

    /// Begin each connection with a PROXY protocol header, before TLS: v2
    ///
    /// The server must expect it, as HAProxy does with accept-proxy and nginx with proxy_protocol.
    #[arg(long, value_name = "VERSION", hide_possible_values = true, help_heading = "Connections")]
    pub(crate) proxy_protocol: Option<ProxyProtocolFlag>,

    /// Client addresses that these headers name, used in turn [default: the connection's own]
    #[arg(long, value_name = "CIDR", value_parser = cidr, requires = "proxy_protocol")]
    #[arg(help_heading = "Connections")]
    pub(crate) proxy_source: Option<Cidr>,

    #[command(flatten)]
    pub(crate) hosts: LoadHostFlags,
}

/// Flags of the request.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Request")]
pub(crate) struct RequestFlags {
    /// HTTP method [default: GET, or POST when there is a body]
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,

    #[command(flatten)]
    pub(crate) header: HeaderFlags,

    /// Request body, message or payload from a file; - reads standard input
    ///
    /// Up to 1 GiB (MQTT: 256 MB).
    #[arg(long, value_name = "FILE|-", value_parser = input_file, conflicts_with = "data")]
    pub(crate) body: Option<InputFile>,

    /// Request body, given on the command line and sent unchanged
    #[arg(long, value_name = "TEXT")]
    pub(crate) data: Option<String>,

    /// Call this gRPC method, package.Service/Method, over HTTP/2
    ///
    /// The body is its encoded message, or JSON with --grpc-descriptor. Many servers accept up to 4 MiB.
    #[arg(long, value_name = "METHOD")]
    pub(crate) grpc: Option<String>,

    /// Encode the body, JSON, by this FileDescriptorSet, as protoc and buf write it
    #[arg(long, value_name = "FILE|-", value_parser = input_file, requires = "grpc")]
    pub(crate) grpc_descriptor: Option<InputFile>,

    #[command(flatten)]
    pub(crate) mqtt: MqttFlags,

    #[command(flatten)]
    pub(crate) script: ScriptFlags,

    #[command(flatten)]
    pub(crate) websocket: WebSocketFlags,
}

/// Headers of the requests, and the HTTP that they are sent in.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Request")]
pub(crate) struct HeaderFlags {
    /// Request header, such as 'sleep: 20'; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,

    /// HTTP version: 1.1, or 2 (ALPN on https, prior knowledge on http) [default: 1.1]
    #[arg(long, value_name = "VERSION", hide_possible_values = true)]
    pub(crate) http: Option<HttpFlag>,

    /// With HTTP/2, requests at once on one connection, if the server allows that many [default: 10]
    #[arg(short = 'm', long, value_name = "N", value_parser = streams, help_heading = "Connections")]
    pub(crate) streams: Option<u32>,
}

/// Flags of a pool's connections.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Connections")]
pub(crate) struct PoolFlags {
    /// Connections in the pool [default: 100; with HTTP/2 10; a search adds more, up to 4,096]
    #[arg(short = 'c', long, value_name = "N", value_parser = connections)]
    pub(crate) connections: Option<u64>,

    /// Open a new connection for each request
    #[arg(long)]
    pub(crate) no_keepalive: bool,

    /// Close each connection after N requests
    #[arg(long, value_name = "N", value_parser = positive_count)]
    pub(crate) requests_per_connection: Option<u64>,
}

/// Source addresses of connections, and the threads that open them.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Connections")]
pub(crate) struct ClientFlags {
    /// Timeout for TCP connect and TLS handshake together
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive_duration)]
    pub(crate) connect_timeout: Nanos,

    /// Source addresses, used in turn: 10.0.0.5 or 127.0.0.0/8
    ///
    /// At most 65,536 are used.
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',', value_parser = cidr)]
    pub(crate) source: Vec<Cidr>,

    /// Worker threads per process [default: one per usable CPU, at most 16]
    #[arg(short = 't', long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<u32>,

    /// Client processes; auto starts as many as the open file limit requires
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = processes)]
    pub(crate) processes: Processes,
}

/// Verification of the server's certificate, and the client's own certificate.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TrustFlags {
    /// Do not verify the server's certificate
    #[arg(short = 'k', long, conflicts_with = "cacert")]
    pub(crate) insecure: bool,

    /// Trust only the CA certificates in this PEM file [default: the system's trust store]
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,

    /// Client certificate chain, PEM; requires --key
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,

    /// Private key of --cert, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Server name to send and to verify [default: the URL's host]
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,
}

/// Flags that change the cost of a handshake.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "TLS")]
pub(crate) struct HandshakeFlags {
    /// Allow only this TLS version: 1.2 or 1.3 [default: both, 1.3 preferred]
    #[arg(long, value_name = "VERSION")]
    pub(crate) tls: Option<TlsVersion>,

    /// Key exchange groups in order of preference: x25519, secp256r1, secp384r1, x25519mlkem768
    /// [default: the first three]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) groups: Vec<Group>,

    /// Generate one key share per thread and use it for every handshake: cheaper, but unlike real
    /// clients
    #[arg(long)]
    pub(crate) reuse_key_share: bool,

    /// State kept per TLS connection after its handshake: compact (traffic secrets only) or rustls
    #[arg(long, value_name = "STATE", default_value = "compact", hide_possible_values = true)]
    pub(crate) tls_state: TlsStateFlag,
}

/// Flags of resumption.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq)]
#[command(next_help_heading = "TLS")]
pub(crate) struct ResumeFlags {
    /// Share of connections that attempt session resumption, 0 to 1
    #[arg(long, value_name = "RATIO", default_value = "0", value_parser = ratio)]
    pub(crate) resume: f64,
}

/// Flags of the output.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputFlags {
    /// Directory for the archive of this run, for plimsoll report
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Write the result as one JSON object; - writes to standard output
    ///
    /// The schema is plimsoll.summary/1.
    #[arg(long, value_name = "FILE|-", value_parser = output_file)]
    pub(crate) json: Option<OutputFile>,

    /// End with the whole report: every trial, check, setting and timer; else with what fits on one screen
    #[arg(short = 'v', long)]
    pub(crate) details: bool,

    /// Show no screen and no lines of progress
    #[arg(short = 'q', long, visible_alias = "quiet")]
    pub(crate) no_ui: bool,

    /// Show the growing report in browsers, at an address that is printed [default: a free port of 127.0.0.1]
    ///
    /// At another address than the loopback its path contains a token.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_at, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "0")]
    pub(crate) live: Option<ListenAt>,

    #[command(flatten)]
    pub(crate) publish: PublishFlags,
}

/// Flags of events during a load.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Events")]
pub(crate) struct EventFlags {
    /// Do something to the server meanwhile: reload@30s; repeatable
    ///
    /// Also freeze:2s@30s, script:COMMAND@30s and, of a hold, reconnect:30%@30s. Of lab hold: restart@30s,
    /// certificate@30s, backend-down:1@30s, backend-up@40s, drain@30s and link-down:3s@30s. The instant counts from the
    /// first operation of a load, and of a hold from the moment at which all connections are open. The report states
    /// losses, errors and latency around each event.
    #[arg(long, value_name = "WHAT@WHEN")]
    pub(crate) event: Vec<Disruption>,

    /// Command that reloads the server, for the event reload
    #[arg(long, value_name = "COMMAND", requires = "event")]
    pub(crate) on_reload: Option<String>,
}

/// Flags of what is observed of the server beside the load.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Watch")]
pub(crate) struct ServerWatchFlags {
    /// Observe the server: pid:N, backend:N, haproxy:SOCKET or nginx:URL; repeatable
    ///
    /// pid is a process of it on this host, backend one behind it. haproxy and nginx read its own request counters and
    /// connection limits, from the statistics socket (written as in HAProxy's configuration) or stub_status. Without
    /// pid, HAProxy's socket also names its process.
    #[arg(long, value_name = "WHAT", value_parser = watch)]
    pub(crate) watch: Vec<Watch>,
}
