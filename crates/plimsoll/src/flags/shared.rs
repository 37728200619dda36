//! Groups of flags that several commands have in common. What was typed, not what it means.

use std::path::PathBuf;

use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_model::plan::{Group, TlsVersion};

use super::values::{
    Cidr, InputFile, OutputFile, Processes, TargetFormat, TlsStateFlag, cidr, connections, header,
    input_file, output_file, positive_count, positive_duration, processes, ratio, threads,
};

/// What every client of a server that somebody else runs is told.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct ClientFlags {
    #[command(flatten)]
    pub(crate) request: RequestFlags,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) trust: TrustFlags,

    #[command(flatten)]
    pub(crate) handshake: HandshakeFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// What is sent.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Request")]
pub(crate) struct RequestFlags {
    /// Requests in vegeta's http or json format, taken in turn; - reads standard input
    #[arg(long, value_name = "FILE|-", value_parser = input_file)]
    pub(crate) targets: Option<InputFile>,

    /// Format of --targets: http or json [default: what its first line looks like]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) format: Option<TargetFormat>,

    /// HTTP method [default: GET, or POST when there is a body]
    #[arg(short = 'X', long, value_name = "METHOD")]
    pub(crate) method: Option<String>,

    /// Header of each request, such as 'sleep: 20'; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(crate) headers: Vec<(String, String)>,

    /// Body of each request, from a file; - reads standard input
    #[arg(long, value_name = "FILE|-", value_parser = input_file, conflicts_with = "data")]
    pub(crate) body: Option<InputFile>,

    /// Body of each request, as typed
    #[arg(long, value_name = "TEXT")]
    pub(crate) data: Option<String>,
}

/// Which connections carry it.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Connections")]
pub(crate) struct ConnectionFlags {
    /// Connections in the pool [default: 100]
    #[arg(short = 'c', long, value_name = "N", value_parser = connections)]
    pub(crate) connections: Option<u64>,

    /// Open a new connection for each request
    #[arg(long)]
    pub(crate) no_keepalive: bool,

    /// Close a connection after N requests
    #[arg(long, value_name = "N", value_parser = positive_count)]
    pub(crate) requests_per_connection: Option<u64>,

    /// Connect, make the TLS handshake and close: nothing is sent, a handshake is an operation
    #[arg(long)]
    pub(crate) handshake_only: bool,

    /// Longest wait for TCP connect and TLS handshake
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive_duration)]
    pub(crate) connect_timeout: Nanos,

    /// Addresses to send from, taken in turn: 10.0.0.5 or 127.0.0.0/8; at most 65,536 are used
    #[arg(long, value_name = "CIDR,...", value_delimiter = ',', value_parser = cidr)]
    pub(crate) source: Vec<Cidr>,

    /// Worker threads in each process [default: one per usable CPU, at most 16]
    #[arg(short = 't', long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<u32>,

    /// Processes that share the load; auto takes as many as descriptor limits require
    #[arg(long, value_name = "N|auto", default_value = "auto", value_parser = processes)]
    pub(crate) processes: Processes,
}

/// Who is trusted, and who we are.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "TLS")]
pub(crate) struct TrustFlags {
    /// Accept any certificate
    #[arg(short = 'k', long, conflicts_with = "cacert")]
    pub(crate) insecure: bool,

    /// Trust only the certificates in this PEM file [default: the host's store]
    #[arg(long, value_name = "FILE")]
    pub(crate) cacert: Option<PathBuf>,

    /// Client certificate chain, PEM; needs --key
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: Option<PathBuf>,

    /// Private key of --cert, PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,

    /// Name to send and to check the certificate against [default: the URL's host]
    #[arg(long, value_name = "NAME")]
    pub(crate) sni: Option<String>,
}

/// What changes the cost of a handshake.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "TLS")]
pub(crate) struct HandshakeFlags {
    /// Only this version: 1.2 or 1.3 [default: 1.3, else 1.2]
    #[arg(long, value_name = "VERSION")]
    pub(crate) tls: Option<TlsVersion>,

    /// Key exchanges by preference: x25519, secp256r1, secp384r1, x25519mlkem768
    /// [default: the first three]
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) groups: Vec<Group>,

    /// Share of new connections that try to resume a session, 0 to 1
    #[arg(long, value_name = "RATIO", default_value = "0", value_parser = ratio)]
    pub(crate) resume: f64,

    /// Make one key share per thread and use it for all handshakes: cheaper, and no longer what
    /// real clients do
    #[arg(long)]
    pub(crate) reuse_key_share: bool,

    /// What is kept of a connection after its handshake: compact (secrets only) or rustls
    #[arg(long, value_name = "STATE", default_value = "compact", hide_possible_values = true)]
    pub(crate) tls_state: TlsStateFlag,
}

/// Where the result goes.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputFlags {
    /// Directory for this run's archive, which `plimsoll report` reads
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Write one JSON object (plimsoll.summary/1); - writes it to standard output
    #[arg(long, value_name = "FILE|-", value_parser = output_file)]
    pub(crate) json: Option<OutputFile>,

    /// No progress display
    #[arg(long)]
    pub(crate) no_ui: bool,
}
