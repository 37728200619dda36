//! `plimsoll serve`. What was typed, not what it means.

use std::num::{NonZeroU16, NonZeroU32};
use std::path::PathBuf;

use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_model::units::parse_duration;

use super::values::{
    ListenAt, Processes, TlsStateFlag, connections, listen_at, positive_duration, processes, seed,
    threads,
};

const SERVE_EXAMPLES: &str = "\
Answers `pong`. Request headers: `sleep: MS` answers after a random time of up to MS ms, `sleep-fixed: MS` after
exactly MS, `times: N` writes N further chunks, each after its own sleep, `size: BYTES` sets the body's size. HTTP/2 is
spoken with clients that ask for it by ALPN or start with it. A gRPC call gets its own message back. A request to switch
to WebSocket is accepted: each message is echoed after the sleep that the request asked for; with `push: MS` the server
also sends a message of its own every MS ms, of `size` bytes, with its time of sending.

Examples:
  plimsoll serve
  plimsoll serve --http 8080 --https 8443
  plimsoll serve --http 0.0.0.0:8000-8099 --processes 2
  plimsoll serve --mqtt 1883 --mqtts 8883 --mqtt-delay 10ms
  plimsoll serve --tcp 7000 --tcp-tls 7443
  plimsoll serve --https '[::1]:8443' --cert server.pem --key server.key

Exit codes: 0 ended by Ctrl-C or SIGTERM, 1 could not run, 2 bad usage";

/// `plimsoll serve`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = SERVE_EXAMPLES, next_help_heading = "Listen")]
pub(crate) struct ServeFlags {
    /// Serve HTTP/1.1 and HTTP/2 here; a bare port listens on 127.0.0.1 [default: 8080]; repeatable
    ///
    /// Port 0 lets the kernel choose. The default holds if no other address is given.
    #[arg(long, value_name = "ADDR:PORT[-PORT]", value_parser = listen_at)]
    pub(crate) http: Vec<ListenAt>,

    /// Serve HTTP/1.1 and HTTP/2 over TLS here; repeatable
    #[arg(long, value_name = "ADDR:PORT[-PORT]", value_parser = listen_at)]
    pub(crate) https: Vec<ListenAt>,

    /// Serve MQTT here; repeatable
    ///
    /// Every client is accepted. A publish is acknowledged, and delivered only to the connection that published it, if
    /// that connection has subscribed to its topic.
    #[arg(long, value_name = "ADDR:PORT[-PORT]", value_parser = listen_at)]
    pub(crate) mqtt: Vec<ListenAt>,

    /// Serve MQTT over TLS here; repeatable
    #[arg(long, value_name = "ADDR:PORT[-PORT]", value_parser = listen_at)]
    pub(crate) mqtts: Vec<ListenAt>,

    /// Echo all bytes here, over plain TCP; repeatable
    #[arg(long, value_name = "ADDR:PORT[-PORT]", value_parser = listen_at)]
    pub(crate) tcp: Vec<ListenAt>,

    /// Echo all bytes here, over TLS; repeatable
    #[arg(long, value_name = "ADDR:PORT[-PORT]", value_parser = listen_at)]
    pub(crate) tcp_tls: Vec<ListenAt>,

    /// Require a header of the PROXY protocol, version 2, as the first bytes of every connection
    #[arg(long)]
    pub(crate) accept_proxy: bool,

    /// Certificate chain for --https, --mqtts and --tcp-tls, PEM [default: a new self-signed one]
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,

    /// Private key of --cert, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Processes that share the ports; auto starts as many as the open file limit requires
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = processes)]
    #[arg(help_heading = "Workers")]
    pub(crate) processes: Processes,

    /// Connections to expect, for --processes auto
    #[arg(short = 'c', long, value_name = "N", value_parser = connections)]
    #[arg(help_heading = "Workers")]
    pub(crate) connections: Option<u64>,

    /// Worker threads in each process [default: one per usable CPU, at most 16]
    #[arg(short = 't', long, value_name = "N", value_parser = threads, help_heading = "Workers")]
    pub(crate) threads: Option<u32>,

    /// State kept per TLS connection after its handshake: compact (traffic secrets only) or rustls
    #[arg(long, value_name = "STATE", default_value = "compact", hide_possible_values = true)]
    #[arg(help_heading = "Listen")]
    pub(crate) tls_state: TlsStateFlag,

    /// Timeout for a complete request head, and for each part of a body
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = positive_duration)]
    #[arg(help_heading = "Behaviour")]
    pub(crate) request_timeout: Nanos,

    /// Timeout for the next request on a connection
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = positive_duration)]
    #[arg(help_heading = "Behaviour")]
    pub(crate) idle_timeout: Nanos,

    /// Delay of each acknowledgement of an MQTT publish
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = parse_duration)]
    #[arg(help_heading = "Behaviour")]
    pub(crate) mqtt_delay: Nanos,

    /// Unacknowledged MQTT publishes above QoS 0 that a client may have
    ///
    /// It is announced to clients of version 5, and a client that has more is disconnected.
    #[arg(long, value_name = "N", default_value = "65535", help_heading = "Behaviour")]
    pub(crate) mqtt_receive_maximum: NonZeroU16,

    /// Drop one in N of the MQTT messages to be delivered: the last of each N that a thread counts
    #[arg(long, value_name = "N", help_heading = "Behaviour")]
    pub(crate) mqtt_lose_every: Option<NonZeroU32>,

    /// Deliver one in N of the MQTT messages twice, counted in the same way
    #[arg(long, value_name = "N", help_heading = "Behaviour")]
    pub(crate) mqtt_repeat_every: Option<NonZeroU32>,

    /// Random seed of the delays
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed, help_heading = "Behaviour")]
    pub(crate) seed: u64,

    /// Send StatsD counters to this address, over UDP
    #[arg(long, value_name = "HOST:PORT", help_heading = "Output")]
    pub(crate) statsd: Option<String>,

    /// Show no progress
    #[arg(short = 'q', long, visible_alias = "quiet", help_heading = "Output")]
    pub(crate) no_ui: bool,
}
