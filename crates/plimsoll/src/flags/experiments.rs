//! `plimsoll find` and `plimsoll lab`: the experiments of each, with the flags of each. What was
//! typed, not what it means.

use clap::{Args, Subcommand};

use super::hold::HoldFlags;
use super::hosts::LabHostFlags;
use super::mqtt::MqttFlags;
use super::programs::SutFlags;
use super::rfc9411::Rfc9411Flags;
use super::script::ScriptFlags;
use super::search::{ConnectionsFlags, HandshakesFlags, RateFlags};
use super::shared::{HeaderFlags, OutputFlags, RequestFlags, ServerFlags, ServerWatchFlags};
use super::storm::{RemoteFlags, StormFlags};
use super::sweep::SweepFlags;
use super::values::{BrokerFlag, Cidr, IsolateFlag, ProtocolFlag, backends};

/// Examples below the help of `find`.
pub(super) const FIND_EXAMPLES: &str = "\
Examples:
  plimsoll find rate http://127.0.0.1:8080
  plimsoll find rate https://localhost:8443/ -k --mode quick --slo 'p99<20ms'
  plimsoll find deliveries mqtt://127.0.0.1 --topic news --subscribe news
  plimsoll find handshakes https://localhost:8443/ -k --mode quick
  plimsoll find connections https://localhost:8443/ -k --watch pid:4711
  plimsoll find storm https://localhost:8443/ -k -c 10k
  plimsoll find rfc9411 'http://10.0.0.1/{size}' --case 7.2 --target 20k

`plimsoll find EXPERIMENT -h` shows examples and flags of an experiment.

Exit codes: 0 done, 1 could not run, 2 bad usage, 97 unstable or undecided (no interval is claimed), 98 invalid (the
generator or the path was the limit), 99 the SLO is missed even at the lowest load, 130 interrupted";

/// Examples below the help of `lab`.
pub(super) const LAB_EXAMPLES: &str = "\
Examples:
  plimsoll lab
  plimsoll lab --sut haproxy --mode standard
  plimsoll lab rate --sut embedded -H 'sleep: 20' --json lab.json
  plimsoll lab connections --sut haproxy
  plimsoll lab hold --connections 10k
  plimsoll lab rfc9411 --case 7.6 --sustain 30s
  plimsoll lab sweep --vary tls=on,off --vary sut-cpus=1,2
  plimsoll lab --clients 'client[1-4]' --sut-host proxy1 --backends-on 'b[1-2]'

`plimsoll lab EXPERIMENT -h` shows examples and flags of an experiment; without one, rate is run.

Exit codes: 0 done, 1 could not run, 2 bad usage, 97 unstable or undecided (no interval is claimed), 98 invalid (the
generator was the limit), 99 the SLO is missed even at the lowest load, 130 interrupted";

macro_rules! examples {
    ($($line:literal)*) => {
        concat!(
            "Examples:\n",
            $("  plimsoll ", $line, "\n",)*
            "\nExit codes: 0 done, 1 could not run, 2 bad usage, 97 unstable or undecided (no interval is claimed), 98 \
             invalid (the generator or the path was the limit), 99 the SLO is missed even at the lowest load, 130 \
             interrupted"
        )
    };
}

const FIND_RATE: &str = examples!(
    "find rate http://127.0.0.1:8080/"
    "find rate https://proxy.example/ --mode quick --slo 'p99<20ms'"
    "find rate http://10.0.0.1/ --watch pid:4711 --confirm-cause"
);
const FIND_DELIVERIES: &str = examples!(
    "find deliveries mqtt://127.0.0.1 --topic news --subscribe news"
    "find deliveries mqtt://10.0.0.1 --topic t/%i --subscribe t/%i --qos 1"
);
const FIND_HANDSHAKES: &str = examples!(
    "find handshakes https://localhost:8443/ -k --mode quick"
    "find handshakes https://proxy.example/ --resume 0.5 --tls 1.3"
);
const FIND_CONNECTIONS: &str = examples!(
    "find connections https://localhost:8443/ -k --watch pid:4711"
    "find connections wss://chat.example/ws --max 500k --push"
);
const FIND_STORM: &str = examples!(
    "find storm https://localhost:8443/ -k -c 10k --recover 10s"
    "find storm mqtt://127.0.0.1 -c 50k --reconnect backoff:1s..60s,jitter"
);
const LAB_STORM: &str = examples!(
    "lab storm --sut haproxy"
    "lab storm -c 20k --recover 10s --connect-timeout 2s"
);
const LAB_RATE: &str = examples!(
    "lab"
    "lab rate --sut haproxy --mode standard --slo 'p99<20ms'"
    "lab rate --sut embedded -H 'sleep: 20' --json lab.json"
);
const LAB_HANDSHAKES: &str = examples!(
    "lab handshakes --sut haproxy"
    "lab handshakes --resume 0.5 --tls 1.3"
);
const LAB_CONNECTIONS: &str = examples!(
    "lab connections --sut haproxy"
    "lab connections --max 100k --push"
);
const FIND_RFC9411: &str = "\
Examples:
  plimsoll find rfc9411 'http://10.0.0.1/{size}' --case 7.2 --target 20k
  plimsoll find rfc9411 'https://10.0.0.1/{size}' -k --case 7.6 --sustain 30s

Exit codes: 0 done, 1 could not run, 2 bad usage, 98 invalid (the generator was the limit), 99 the criteria are missed,
130 interrupted";
const LAB_RFC9411: &str = "\
Examples:
  plimsoll lab rfc9411 --case 7.2 --target 20k
  plimsoll lab rfc9411 --case 7.6 --sustain 30s

Exit codes: 0 done, 1 could not run, 2 bad usage, 98 invalid (the generator was the limit), 99 the criteria are missed,
130 interrupted";

/// `plimsoll find`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum FindExperiment {
    /// Find the highest rate of requests that meets the SLO
    #[command(allow_negative_numbers = true, after_help = FIND_RATE)]
    Rate(ServerExperiment<ExtendedFlags<RateFlags, ConfirmFlags>>),
    /// Find the highest rate of MQTT deliveries that meets the SLO
    #[command(allow_negative_numbers = true, after_help = FIND_DELIVERIES)]
    Deliveries(ServerExperiment<RateFlags>),
    /// Find the highest rate of new TLS connections that meets the SLO
    #[command(allow_negative_numbers = true, after_help = FIND_HANDSHAKES)]
    Handshakes(ServerExperiment<ExtendedFlags<HandshakesFlags, ConfirmFlags>, ScriptFlags>),
    /// Find how many connections the server can hold at once
    #[command(allow_negative_numbers = true, after_help = FIND_CONNECTIONS)]
    Connections(ServerExperiment<ConnectionsFlags>),
    /// Find the largest storm of reconnecting clients that the server survives
    #[command(allow_negative_numbers = true, after_help = FIND_STORM)]
    Storm(ServerExperiment<ExtendedFlags<StormFlags, RemoteFlags>>),
    /// Run one test case of RFC 9411 (benchmarking of network security devices)
    #[command(allow_negative_numbers = true, after_help = FIND_RFC9411)]
    Rfc9411(ServerExperiment<Rfc9411Flags>),
}

/// Flags of an experiment with an existing server: those of its kind, of the server, and of the requests.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct ServerExperiment<K: Args, R: Args = RequestFlags> {
    #[command(flatten)]
    pub(crate) kind: K,
    #[command(flatten)]
    pub(crate) watch: ServerWatchFlags,
    #[command(flatten)]
    pub(crate) server: ServerFlags,
    #[command(flatten)]
    pub(crate) request: R,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Flags of a kind of experiment, and further ones that only some commands have.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct ExtendedFlags<K: Args, M: Args> {
    #[command(flatten)]
    pub(crate) flags: K,
    #[command(flatten)]
    pub(crate) more: M,
}

impl FindExperiment {
    /// Returns the flags that every experiment has.
    pub(crate) fn common(&self) -> (&ServerWatchFlags, &ServerFlags, &OutputFlags) {
        match self {
            Self::Rate(ServerExperiment { watch, server, output, .. })
            | Self::Deliveries(ServerExperiment { watch, server, output, .. })
            | Self::Handshakes(ServerExperiment { watch, server, output, .. })
            | Self::Connections(ServerExperiment { watch, server, output, .. })
            | Self::Storm(ServerExperiment { watch, server, output, .. })
            | Self::Rfc9411(ServerExperiment { watch, server, output, .. }) => {
                (watch, server, output)
            }
        }
    }
}

/// `plimsoll lab`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum LabCommand {
    /// One laboratory.
    #[command(flatten)]
    Experiment(Box<LabExperiment>),
    /// Measure the server at each value of its settings in turn: a sizing table
    Sweep(Box<SweepFlags>),
}

impl LabCommand {
    /// Returns the experiment in one laboratory.
    pub(crate) fn experiment(&self) -> Option<&LabExperiment> {
        match self {
            Self::Experiment(experiment) => Some(experiment),
            Self::Sweep(_) => None,
        }
    }
}

/// The experiment in one laboratory.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum LabExperiment {
    /// Find the highest rate of requests that meets the SLO (the default)
    #[command(allow_negative_numbers = true, after_help = LAB_RATE)]
    Rate(LabFlags<ExtendedFlags<RateFlags, LabSearchFlags>>),
    /// Find the highest rate of new TLS connections that meets the SLO
    #[command(allow_negative_numbers = true, after_help = LAB_HANDSHAKES)]
    Handshakes(LabFlags<ExtendedFlags<HandshakesFlags, LabSearchFlags>, ()>),
    /// Find how many connections the server can hold at once
    #[command(allow_negative_numbers = true, after_help = LAB_CONNECTIONS)]
    Connections(LabFlags<ExtendedFlags<ConnectionsFlags, FreshFlags>>),
    /// Find the largest storm of reconnecting clients that the server survives
    #[command(allow_negative_numbers = true, after_help = LAB_STORM)]
    Storm(LabFlags<StormFlags>),
    /// Hold a given number of connections, and measure what each one costs
    #[command(allow_negative_numbers = true, after_help = super::hold::LAB_EXAMPLES)]
    Hold(LabFlags<HoldFlags>),
    /// Run one test case of RFC 9411 (benchmarking of network security devices)
    #[command(allow_negative_numbers = true, after_help = LAB_RFC9411)]
    Rfc9411(LabFlags<Rfc9411Flags>),
}

/// Flags of an experiment of `lab`: those of the laboratory, of its kind, and of the requests.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct LabFlags<K: Args, R: Args = HeaderFlags> {
    #[command(flatten)]
    pub(crate) hosts: HostFlags,
    #[command(flatten)]
    pub(crate) kind: K,
    #[command(flatten)]
    pub(crate) request: R,
    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Flags of a search for a rate that only laboratories have.
#[derive(Args, Clone, Copy, Debug, PartialEq)]
pub(crate) struct LabSearchFlags {
    #[command(flatten)]
    pub(crate) confirm: ConfirmFlags,
    #[command(flatten)]
    pub(crate) fresh: FreshFlags,
}

impl LabExperiment {
    fn common(&self) -> (&HostFlags, &OutputFlags) {
        match self {
            Self::Rate(LabFlags { hosts, output, .. })
            | Self::Handshakes(LabFlags { hosts, output, .. })
            | Self::Connections(LabFlags { hosts, output, .. })
            | Self::Storm(LabFlags { hosts, output, .. })
            | Self::Hold(LabFlags { hosts, output, .. })
            | Self::Rfc9411(LabFlags { hosts, output, .. }) => (hosts, output),
        }
    }

    /// Returns the flags of the laboratory's hosts.
    pub(crate) fn hosts(&self) -> &HostFlags {
        self.common().0
    }

    /// Returns the addresses that connections are to come from.
    pub(crate) fn sources(&self) -> &[Cidr] {
        let client = match self {
            Self::Rate(of) => &of.kind.flags.load.client,
            Self::Handshakes(of) => &of.kind.flags.load.client,
            Self::Connections(of) => &of.kind.flags.load.client,
            Self::Storm(of) => &of.kind.load.client,
            Self::Hold(of) => &of.kind.client,
            Self::Rfc9411(of) => &of.kind.client,
        };
        &client.source
    }

    /// Reports whether each search is to have a laboratory of its own.
    pub(crate) fn is_fresh(&self) -> bool {
        match self {
            Self::Rate(of) => of.kind.more.fresh.fresh_sut,
            Self::Handshakes(of) => of.kind.more.fresh.fresh_sut,
            Self::Connections(of) => of.kind.more.fresh_sut,
            Self::Storm(_) | Self::Hold(_) | Self::Rfc9411(_) => false,
        }
    }

    /// Reports whether clients speak TLS: they do unless a test case is about plain HTTP.
    pub(crate) fn is_tls(&self) -> bool {
        match self {
            Self::Rfc9411(of) => of.kind.case.tls() == Some(true),
            _ => true,
        }
    }

    /// Returns the output flags.
    pub(crate) fn output(&self) -> &OutputFlags {
        self.common().1
    }
}

/// The test of the cause that a search names.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq)]
#[command(next_help_heading = "Search")]
pub(crate) struct ConfirmFlags {
    /// Test the cause that is found, in pairs of loads with and without a change; up to 5 minutes more
    ///
    /// Lowers its limit by a fifth (lab), or changes what an operation costs (find), in six pairs of loads, and
    /// compares the change of the capacity with the predicted one. Then raises the limit, if the running server allows
    /// it (lab), and searches again.
    #[arg(long, conflicts_with = "repeat")]
    pub(crate) confirm_cause: bool,
}

/// Flags with which each of several searches in a laboratory begins.
#[derive(Args, Clone, Copy, Debug, PartialEq)]
#[command(next_help_heading = "Search")]
pub(crate) struct FreshFlags {
    /// With --repeat: start server and backends afresh for each search
    #[arg(long, requires = "repeat")]
    pub(crate) fresh_sut: bool,
}

/// Flags of a laboratory's hosts.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Laboratory")]
pub(crate) struct HostFlags {
    #[command(flatten)]
    pub(crate) server: SutFlags,

    /// Protocol of clients over TLS: http, ws (WebSocket), mqtt or tcp (a script)
    ///
    /// With mqtt and tcp, HAProxy is in TCP mode, and the backends are `plimsoll serve --mqtt` and `--tcp`, which
    /// echoes.
    #[arg(long, value_name = "PROTOCOL", default_value = "http", hide_possible_values = true)]
    pub(crate) protocol: ProtocolFlag,

    /// Broker behind HAProxy with --protocol mqtt: embedded (plimsoll serve --mqtt) or mosquitto
    #[arg(long, value_name = "BROKER", default_value = "embedded", hide_possible_values = true)]
    pub(crate) broker: BrokerFlag,

    /// Backends behind the server
    #[arg(long, value_name = "N", default_value = "4", value_parser = backends)]
    pub(crate) backends: u32,

    /// Separation of clients, server and backends: netns (needs root), none or auto
    ///
    /// netns: network namespaces joined by veth. none: all on loopback. auto: netns if possible; none in compare, lab
    /// sweep and tune --try.
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true)]
    pub(crate) isolate: IsolateFlag,

    /// Keep the generated configuration
    #[arg(long)]
    pub(crate) keep: bool,

    /// Let the clients verify neither the server's certificate nor its signature
    ///
    /// This saves them a quarter of the CPU time per handshake.
    #[arg(short = 'k', long)]
    pub(crate) insecure: bool,

    #[command(flatten)]
    pub(crate) machines: LabHostFlags,

    #[command(flatten)]
    pub(crate) mqtt: MqttFlags,

    #[command(flatten)]
    pub(crate) script: ScriptFlags,
}
