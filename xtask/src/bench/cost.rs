//! What a request costs plimsoll's client, side by side with wrk and oha, and how well it keeps a
//! pace. Rounds are interleaved, so that a change of the machine's mood hits both tools; results
//! are ratios first and absolute figures second.

mod comparison;
mod pace;

use anyhow::Context;
use anyhow::Result;

use crate::bench::Bench;
use crate::bench::CLIENT_CPU;
use crate::bench::SERVER_CPU;
use crate::bench::client::Extent;
use crate::bench::client::Load;
use crate::bench::client::Sample;
use crate::bench::client::Tool;
use crate::bench::page::Section;
use crate::bench::server::Server;
use comparison::Comparison;
use pace::Pace;

const ROUNDS: u32 = 5;
const SECONDS: u32 = 10;
/// The pace that plimsoll must keep, operations per second.
const PACE_PER_S: u32 = 5_000;

/// One comparison: the same load by plimsoll and by a peer, against the same server.
struct Scenario {
    name: &'static str,
    peer: Tool,
    load: Load,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "keep-alive HTTP/1.1 request, plain",
        peer: Tool::Wrk,
        load: Load { is_tls: false, is_kept_alive: true },
    },
    Scenario {
        name: "keep-alive HTTP/1.1 request, TLS 1.3",
        peer: Tool::Wrk,
        load: Load { is_tls: true, is_kept_alive: true },
    },
    Scenario {
        name: "request on a new full TLS 1.3 connection",
        peer: Tool::Oha,
        load: Load { is_tls: true, is_kept_alive: false },
    },
];

/// Measures all rounds and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let Bench { settings, tools, scratch } = bench;
    let rounds = settings.rounds_or(ROUNDS);
    let extent =
        Extent { connections: settings.connections, seconds: settings.seconds_or(SECONDS) };
    section.method = method(rounds, extent, settings.server.name());
    let server = Server::start(settings.server, &tools.plimsoll, scratch)?;
    let mut comparisons: Vec<Comparison> = SCENARIOS
        .iter()
        .map(|scenario| Comparison::new(scenario.name, scenario.peer, tools.has(scenario.peer)))
        .collect();
    let mut pace = Pace::new(PACE_PER_S);
    for round in 0..rounds {
        for (scenario, comparison) in SCENARIOS.iter().zip(&mut comparisons) {
            let jobs = Turn { bench, server: &server, extent, round };
            if let Err(error) = jobs.compare(scenario, comparison, section) {
                section.fail(format!("{}, round {}: {error:#}", scenario.name, round + 1));
            }
        }
        println!("cost, round {}: pace of {PACE_PER_S}/s", round + 1);
        let job = tools.plimsoll_pace(&server.url(false), extent, PACE_PER_S);
        section.note_command(job.shown());
        match job.run_pace() {
            Ok(sample) => pace.add(sample),
            Err(error) => section.fail(format!("pace, round {}: {error:#}", round + 1)),
        }
    }
    section.claims.extend(comparisons.iter().map(Comparison::claim));
    section.claims.extend(pace.claims());
    section.figures = comparison::table(&comparisons);
    Ok(())
}

fn method(rounds: u32, extent: Extent, server: &str) -> String {
    let Extent { connections, seconds } = extent;
    format!(
        "Each figure is the median over {rounds} rounds of {seconds} s, with the range in brackets.\n\
         The tools take turns within each round, and who goes first alternates.\n\
         The server ({server}) is one process on CPU {SERVER_CPU}; the client runs on CPU \
         {CLIENT_CPU} with\n{connections} connections: as fast as it can to compare cost, and at \
         {PACE_PER_S} operations/s, plimsoll alone,\nover plain keep-alive connections for the \
         pace.\n\
         TLS is 1.3 with an ECDSA P-256 certificate that no client verifies.\n\
         nginx resumes no session, so every handshake is a full one.\n"
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
    /// Both tools in one scenario. Who goes first alternates, because the second finds a warm
    /// machine.
    fn compare(
        &self,
        scenario: &Scenario,
        comparison: &mut Comparison,
        section: &mut Section,
    ) -> Result<()> {
        let tools = &self.bench.tools;
        let url = self.server.url(scenario.load.is_tls);
        let mut order = [Tool::Plimsoll, scenario.peer];
        if self.round % 2 == 1 {
            order.reverse();
        }
        let mut samples: [Option<Sample>; 2] = [None, None];
        for tool in order.into_iter().filter(|tool| tools.has(*tool)) {
            let job = tools.job(tool, &url, self.extent, &scenario.load);
            section.note_command(job.shown());
            let sample = job.run()?;
            println!(
                "cost, round {}: {}: {}: {:.2} us over {} operations, {} failed",
                self.round + 1,
                scenario.name,
                tool.name(),
                sample.cpu_us_per_op(),
                sample.ops,
                sample.failed
            );
            samples[usize::from(tool != Tool::Plimsoll)] = Some(sample);
        }
        let [ours, theirs] = samples;
        comparison.add(ours.context("plimsoll always runs")?, theirs);
        Ok(())
    }
}
