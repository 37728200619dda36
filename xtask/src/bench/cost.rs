//! What a request and a connection cost plimsoll's client, side by side with every peer on the
//! machine, and how well it keeps a pace. Rounds are interleaved, so that a change of the machine's
//! mood hits all tools; results are ratios first and absolute figures second.

mod comparison;
mod pace;

use anyhow::{Result, bail};

use crate::bench::client::{Connection, Extent, Load, Sample};
use crate::bench::page::Section;
use crate::bench::server::Server;
use crate::bench::target::Target;
use crate::bench::tool::Tool;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU};
use comparison::{Comparison, Goal};
use pace::Pace;

const ROUNDS: u32 = 5;
const SECONDS: u32 = 5;
const CONNECTIONS: u32 = 100;
/// Each tool holds so many on one core without more than queues.
const CONNECTIONS_MAX: u32 = 1_000;
/// The pace that plimsoll must keep, operations per second.
const PACE_PER_S: u32 = 5_000;

/// The same load by every tool that can make it, against the same server.
struct Scenario {
    name: &'static str,
    load: Load,
    /// Without one, the figure is plimsoll's own.
    goal: Option<Goal>,
}

const SCENARIOS: [Scenario; 5] = [
    Scenario {
        name: "keep-alive HTTP/1.1 request, plain",
        load: Load { is_tls: false, connection: Connection::Kept },
        goal: Some(Goal { target: Target::RequestPlain, ratio_max: 0.8, yardstick: Tool::Wrk }),
    },
    Scenario {
        name: "keep-alive HTTP/1.1 request, TLS 1.3",
        load: Load { is_tls: true, connection: Connection::Kept },
        goal: Some(Goal { target: Target::RequestTls, ratio_max: 0.8, yardstick: Tool::Wrk }),
    },
    Scenario {
        name: "request on a new full TLS 1.3 connection",
        load: Load { is_tls: true, connection: Connection::PerRequest },
        goal: Some(Goal { target: Target::NewConnection, ratio_max: 0.5, yardstick: Tool::Oha }),
    },
    Scenario {
        name: "request on a new resumed TLS 1.3 connection",
        load: Load { is_tls: true, connection: Connection::Resumed },
        goal: None,
    },
    Scenario {
        name: "new full TLS 1.3 connection without a request",
        load: Load { is_tls: true, connection: Connection::HandshakeOnly },
        goal: None,
    },
];

/// Measures all rounds and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let Bench { settings, tools, scratch } = bench;
    let rounds = settings.rounds_or(ROUNDS);
    let connections = settings.connections_or(CONNECTIONS);
    if connections > CONNECTIONS_MAX {
        bail!("--connections {connections}: cost is measured with at most {CONNECTIONS_MAX}");
    }
    let extent = Extent { connections, seconds: settings.seconds_or(SECONDS) };
    section.method = method(rounds, extent, settings.server.name());
    let server = Server::start(settings.server, &tools.plimsoll, scratch)?;
    section.note_command(settings.server.shown());
    let new = |scenario: &Scenario| {
        Comparison::new(scenario.name, scenario.goal, |tool| {
            excuse(bench, tool, scenario.load.connection)
        })
    };
    let mut comparisons: Vec<Comparison> = SCENARIOS.iter().map(new).collect();
    let mut pace = Pace::new(PACE_PER_S);
    for round in 0..rounds {
        for (scenario, comparison) in SCENARIOS.iter().zip(&mut comparisons) {
            let turn = Turn { bench, server: &server, extent, round };
            turn.compare(scenario, comparison, section);
        }
        println!("cost, round {}: pace of {PACE_PER_S}/s", round + 1);
        let job = tools.plimsoll_pace(&server.url(false), extent, PACE_PER_S);
        section.note_command(job.shown());
        match job.run_pace() {
            Ok(sample) => pace.add(sample),
            Err(error) => section.fail(format!("pace, round {}: {error:#}", round + 1)),
        }
    }
    comparisons.iter().filter_map(Comparison::reading).for_each(|reading| section.read(reading));
    section.claims.extend(pace.claims());
    section.figures = comparison::table(&comparisons);
    Ok(())
}

/// Why a tool takes no part in a scenario.
fn excuse(bench: &Bench, tool: Tool, connection: Connection) -> Option<String> {
    let is_h2load = tool == Tool::H2load;
    if !bench.tools.has(tool) {
        return Some(tool.missing());
    }
    match connection {
        Connection::PerRequest if is_h2load => Some("opens no connection per request".to_owned()),
        Connection::HandshakeOnly if !bench.tools.plimsoll_knows("load", "--handshake-only") => {
            Some("not measured: this build has no `--handshake-only`".to_owned())
        }
        _ => None,
    }
}

fn method(rounds: u32, extent: Extent, server: &str) -> String {
    let Extent { connections, seconds } = extent;
    format!(
        "Each figure is the median over {rounds} rounds of {seconds} s, with the range in brackets.\n\
         The tools take turns within each round, and who goes first changes.\n\
         The server ({server}) is one process on CPU {SERVER_CPU}; the client runs on CPU \
         {CLIENT_CPU} with\n{connections} connections: as fast as it can to compare cost, and at \
         {PACE_PER_S} operations/s, plimsoll alone,\nover plain keep-alive connections for the \
         pace.\n\
         TLS is 1.3 with an ECDSA P-256 certificate that no client verifies.\n\
         No client but the one that is asked to resumes a session: nginx and HAProxy offer it on a\n\
         port of its own.\n"
    )
}

/// One round.
struct Turn<'a> {
    bench: &'a Bench,
    server: &'a Server,
    extent: Extent,
    round: u32,
}

impl Turn<'_> {
    /// All tools in one scenario. One that fails does not stop the others.
    fn compare(&self, scenario: &Scenario, comparison: &mut Comparison, section: &mut Section) {
        for tool in comparison.order(self.round) {
            let sample = self.sample(scenario, tool, section);
            let what = format!("{}, round {}, {}", scenario.name, self.round + 1, tool.name());
            match &sample {
                Ok(sample) => println!(
                    "cost: {what}: {:.2} us over {} operations, {} failed",
                    sample.cpu_us_per_op(),
                    sample.ops,
                    sample.failed
                ),
                Err(error) => section.fail(format!("{what}: {error:#}")),
            }
            comparison.add(tool, sample.ok());
        }
    }

    fn sample(&self, scenario: &Scenario, tool: Tool, section: &mut Section) -> Result<Sample> {
        let url = match scenario.load.connection {
            Connection::Resumed => self.server.tickets_url(),
            _ => self.server.url(scenario.load.is_tls),
        };
        let Some(job) = self.bench.tools.job(tool, &url, self.extent, scenario.load) else {
            bail!("it cannot make this load");
        };
        section.note_command(job.shown());
        job.run()
    }
}
