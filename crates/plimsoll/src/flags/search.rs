//! `plimsoll find` and `plimsoll lab`: searches for the tipping point. What was typed, not what it
//! means.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use plimsoll_model::slo::Slo;
use plimsoll_model::units::parse_duration;
use plimsoll_model::{Nanos, Rate};

use super::hold::LabHoldFlags;
use super::rfc9411::Rfc9411Flags;
use super::shared::{ClientFlags, ConnectionFlags, HandshakeFlags, OutputFlags};
use super::values::{
    ArrivalsFlag, IsolateFlag, ModeFlag, SutFlag, Watch, backends, header, positive_duration,
    positive_rate, seed, watch,
};

const FIND_EXAMPLES: &str = "\
Examples:
  plimsoll find rate http://127.0.0.1:8080
  plimsoll find rate https://localhost:8443/ -k --mode quick --slo 'p99<20ms,errors<0.1%'
  plimsoll find handshakes https://localhost:8443/ -k --mode quick
  plimsoll find connections https://localhost:8443/ -k --mode quick --watch pid:4711
  plimsoll find rate https://proxy.example/ --connections 500 --min 1k --max 50k --json find.json
  plimsoll find rate 'http://10.0.0.1/{size}' --mode rfc9411 --case 7.2 --target 20k

Exit codes: 0 done, 1 could not run, 2 bad usage, 98 invalid (the generator was the limit), 99 the
SLO is missed even at the lowest rate, 130 interrupted";

const LAB_EXAMPLES: &str = "\
Examples:
  plimsoll lab
  plimsoll lab --sut haproxy --haproxy /usr/sbin/haproxy --mode standard
  plimsoll lab --sut embedded --slo 'p99<20ms,errors<0.1%' -H 'sleep: 20' --json lab.json
  plimsoll lab --find connections --sut haproxy
  plimsoll lab --mode rfc9411 --case 7.6 --sustain 30s
  plimsoll lab hold --connections 10k

Exit codes: 0 done, 1 could not run, 2 bad usage, 98 invalid (the generator was the limit), 99 the
SLO is missed even at the lowest rate, 130 interrupted";

/// `plimsoll find`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = FIND_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct FindFlags {
    /// What to raise: rate (requests per second), handshakes (new TLS connections per second) or
    /// connections (held)
    #[arg(value_name = "AXIS")]
    pub(crate) axis: Option<String>,

    /// What to request, such as https://127.0.0.1:8443/path; or use --targets
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,

    #[command(flatten)]
    pub(crate) search: SearchFlags,

    /// How exact: quick (within 5 %), standard (2 %) or strict (1 %); or a case of RFC 9411:
    /// rfc9411
    #[arg(
        long,
        value_name = "MODE",
        default_value = "standard",
        hide_possible_values = true,
        help_heading = "Search"
    )]
    pub(crate) mode: ModeFlag,

    /// Observe the SUT: pid:N (a process on this host), haproxy:SOCKET or nginx:URL (its own
    /// count of requests, HAProxy's maxconn: statistics socket, stub_status); repeatable
    #[arg(long, value_name = "WHAT", value_parser = watch, help_heading = "Search")]
    pub(crate) watch: Vec<Watch>,

    #[command(flatten)]
    pub(crate) climb: ClimbFlags,

    #[command(flatten)]
    pub(crate) rfc9411: Rfc9411Flags,

    #[command(flatten)]
    pub(crate) foreign: LoadOnlyFlags,

    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What is demanded, and where to look.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Search")]
pub(crate) struct SearchFlags {
    /// Goals that a GOOD trial meets [default: p99<50ms,errors<0.1%]
    #[arg(long, value_name = "GOALS")]
    pub(crate) slo: Option<Slo>,

    /// Short for --slo 'p99<DURATION,errors<0.1%'
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) deadline: Option<Nanos>,

    /// Lowest rate, or number of connections, to try
    #[arg(long, value_name = "RATE", value_parser = positive_rate)]
    pub(crate) min: Option<Rate>,

    /// Highest rate to try; of connections the default is 10k, 200k or 1M, by mode
    #[arg(long, value_name = "RATE", value_parser = positive_rate)]
    pub(crate) max: Option<Rate>,

    /// Spread of the starts: uniform or poisson [default: uniform: a search asks what the SUT
    /// takes, so chance is kept out of the load]
    #[arg(long, value_name = "SPREAD", hide_possible_values = true)]
    pub(crate) arrivals: Option<ArrivalsFlag>,

    /// How long to wait past the deadline before giving up
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    pub(crate) linger: Nanos,

    /// How long connections wait for the server's hidden timers before the search; 0 for not at
    /// all [default: 150s; 0 with --mode quick]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) probe_timeouts: Option<Nanos>,

    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: u64,
}

/// What only the axis connections knows.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Axis connections")]
pub(crate) struct ClimbFlags {
    /// New connections per second, and requests per second of a sweep over them [default: 2k]
    #[arg(short = 'r', long, value_name = "RATE")]
    pub(crate) rate: Option<String>,

    /// How long the highest good level is held in the end [default: by mode 10s, 150s or 300s]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) soak: Option<Nanos>,

    /// Go on past 85 % of the server's projected limits until it gives way, and say how far off
    /// the projection was; this may kill the server
    #[arg(long)]
    pub(crate) push: bool,
}

/// Flags of `load` that a search sets by itself: taken so that the refusal can say why.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct LoadOnlyFlags {
    #[arg(long, hide = true)]
    pub(crate) stages: Option<String>,
    #[arg(short = 'd', long, hide = true)]
    pub(crate) duration: Option<String>,
    #[arg(short = 'n', long, hide = true)]
    pub(crate) requests: Option<String>,
}

/// `plimsoll lab`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = LAB_EXAMPLES, allow_negative_numbers = true)]
#[command(args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct LabFlags {
    #[command(subcommand)]
    pub(crate) experiment: Option<LabExperiment>,

    /// Whatever is no experiment: taken so that the refusal can say what to do.
    #[arg(hide = true, value_name = "EXPERIMENT")]
    pub(crate) unexpected: Option<String>,

    #[command(flatten)]
    pub(crate) hosts: HostFlags,

    /// What to raise: rate (requests per second), handshakes (new TLS connections per second) or
    /// connections (held)
    #[arg(long, value_name = "AXIS", default_value = "rate", help_heading = "Search")]
    pub(crate) find: String,

    #[command(flatten)]
    pub(crate) search: SearchFlags,

    /// How exact: quick (within 5 %), standard (2 %) or strict (1 %); or a case of RFC 9411:
    /// rfc9411
    #[arg(
        long,
        value_name = "MODE",
        default_value = "quick",
        hide_possible_values = true,
        help_heading = "Search"
    )]
    pub(crate) mode: ModeFlag,

    #[command(flatten)]
    pub(crate) climb: ClimbFlags,

    #[command(flatten)]
    pub(crate) rfc9411: Rfc9411Flags,

    #[command(flatten)]
    pub(crate) foreign: LoadOnlyFlags,

    /// Header of each request, such as 'sleep: 20'; repeatable
    #[arg(
        short = 'H',
        long = "header",
        value_name = "NAME: VALUE",
        value_parser = header,
        help_heading = "Request"
    )]
    pub(crate) headers: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) handshake: HandshakeFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Another experiment of the laboratory.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum LabExperiment {
    /// Hold as many connections as asked for, level by level, and measure what each one costs
    Hold(Box<LabHoldFlags>),
}

/// What the laboratory is made of.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Laboratory")]
pub(crate) struct HostFlags {
    /// What is tested: embedded, haproxy or nginx [default: haproxy when one is installed, else
    /// embedded]
    #[arg(long, value_name = "SUT", hide_possible_values = true)]
    pub(crate) sut: Option<SutFlag>,

    /// HAProxy to start [default: the one on the PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) haproxy: Option<PathBuf>,

    /// nginx to start [default: the one on the PATH]
    #[arg(long, value_name = "PATH")]
    pub(crate) nginx: Option<PathBuf>,

    /// Backends behind the SUT
    #[arg(long, value_name = "N", default_value = "4", value_parser = backends)]
    pub(crate) backends: u32,

    /// Separate hosts: none (all on loopback) or auto, which means none today
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true)]
    pub(crate) isolate: IsolateFlag,

    /// Leave the generated config behind
    #[arg(long)]
    pub(crate) keep: bool,

    /// Let the clients check neither the SUT's certificate nor its signature: a handshake costs them
    /// a quarter less
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,
}
