//! `plimsoll lab sweep`: a sizing table. What was typed, not what it means.

use clap::Args;
use plimsoll_model::Nanos;

use super::shared::OutputFlags;
use super::values::{positive_duration, rounds, seed};

const EXAMPLES: &str = "\
Each value has a laboratory of its own, all of them up at the same time. They take turns of a few seconds, in a random
order and back again; each turn saturates one of them by a closed loop. The table has requests/s (or handshakes/s),
requests/s per CPU of the server, and the difference from the first value with its 98 % interval.

Keys: sut, sut-cpus, backends, tls (on, off), key (ecdsa-p256, rsa2048), resume (0 to 1), keep-alive
(on, off), connections, size (of answers), logging (on, off), threads (HAProxy's nbthread, nginx's
worker_processes), HAProxy's tune.*, and nginx's ssl_buffer_size, proxy_buffer_size,
proxy_buffering, sendfile and gzip.

Examples:
  plimsoll lab sweep --vary tls=on,off
  plimsoll lab sweep --vary key=ecdsa-p256,rsa2048 -- handshakes --sut haproxy
  plimsoll lab sweep --vary sut-cpus=1,2 --vary size=100,16KiB -- --sut nginx
  plimsoll lab sweep --vary tune.bufsize=16384,32768 --vary logging=off,on

Exit codes: 0 measured, 1 could not run, 2 bad usage, 97 undecided (the budget ended too early),
130 interrupted";

/// `plimsoll lab sweep`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = EXAMPLES, next_help_heading = "Sweep")]
pub(crate) struct SweepFlags {
    /// Setting and its values; the others are compared with the first; repeatable, for every combination
    #[arg(long, value_name = "KEY=V1,V2,...", required = true)]
    pub(crate) vary: Vec<String>,

    /// Flags of plimsoll lab for all values, after --: rate (the default) or handshakes, and its flags
    #[arg(last = true, value_name = "FLAGS", help_heading = None::<&str>)]
    pub(crate) all: Vec<String>,

    /// Most rounds, 8 to 200; each measures every value once [default: 24]
    #[arg(long, value_name = "N", value_parser = rounds)]
    pub(crate) rounds: Option<u32>,

    /// Time for the whole sweep [default: 4m, or what eight rounds need]
    ///
    /// No round starts that would end after it.
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) budget: Option<Nanos>,

    /// Random seed of the order
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}
