//! `plimsoll watch`. What was typed, not what it means.

use std::path::PathBuf;

use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_model::target::TargetUrl;
use plimsoll_probe::haproxy_socket::HaproxySocket;

use super::publish::PublishFlags;
use super::values::{
    ListenAt, OutputFile, listen_at, output_file, positive_duration, process_id, status_url,
};

const WATCH_EXAMPLES: &str = "\
Draws established TCP connections, packets, bytes, memory and each CPU on a screen of the terminal, with the limits
beside them; ? lists the keys. If standard output is no terminal it writes one line for each interval.

Examples:
  plimsoll watch
  plimsoll watch --haproxy /run/haproxy/admin.sock --pid 4711
  plimsoll watch --nginx http://127.0.0.1/status --duration 10m --out night
  plimsoll watch --prometheus 9477 --no-ui
  plimsoll watch --statsd-listen 8125 --json -

Exit codes: 0 done, 1 could not run, 2 bad usage, 130 interrupted";

/// `plimsoll watch`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = WATCH_EXAMPLES, next_help_heading = "Watch")]
pub(crate) struct WatchFlags {
    /// Time from one reading to the next, 100ms to 1h
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = positive_duration)]
    pub(crate) interval: Nanos,

    /// Stop after this time [default: until Ctrl-C]
    #[arg(short = 'd', long, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) duration: Option<Nanos>,

    /// Watch this process: its threads, memory and open files; repeatable
    #[arg(long, value_name = "N", value_parser = process_id)]
    pub(crate) pid: Vec<u32>,

    /// Read HAProxy's statistics socket, and watch its processes; repeatable
    ///
    /// A path, or HOST:PORT, unix@PATH, abns@NAME, ipv4@HOST:PORT, ipv6@HOST:PORT as in its configuration.
    #[arg(long, value_name = "SOCKET")]
    pub(crate) haproxy: Vec<HaproxySocket>,

    /// Read nginx's stub_status page; repeatable
    #[arg(long, value_name = "URL", value_parser = status_url)]
    pub(crate) nginx: Vec<TargetUrl>,

    /// Receive StatsD datagrams here; a bare port listens on 127.0.0.1 only
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_at)]
    pub(crate) statsd_listen: Option<ListenAt>,

    #[command(flatten)]
    pub(crate) publish: PublishFlags,

    /// Write one JSON object for each interval (plimsoll.watch/1); - writes to standard output
    #[arg(long, value_name = "FILE|-", value_parser = output_file, help_heading = "Output")]
    pub(crate) json: Option<OutputFile>,

    /// Archive the readings in this directory
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub(crate) out: Option<PathBuf>,

    /// Show nothing
    #[arg(short = 'q', long, visible_alias = "quiet", help_heading = "Output")]
    pub(crate) no_ui: bool,
}
