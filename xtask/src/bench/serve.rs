//! What a request costs the backend that plimsoll brings, beside nginx and HAProxy answering from
//! memory. All three run at once and are loaded in turn; what is idle costs the others nothing.

mod duel;

use anyhow::{Result, bail};

use crate::bench::client::{Connection, Extent, Load};
use crate::bench::page::Section;
use crate::bench::server::{Server, ServerKind};
use crate::bench::tool::Tool;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU, footprint};
use duel::{Duel, Stint};

const ROUNDS: u32 = 5;
const SECONDS: u32 = 5;
const CONNECTIONS: u32 = 100;

/// Measures all rounds and fills the section.
pub(crate) fn measure(bench: &Bench, section: &mut Section) -> Result<()> {
    let Bench { settings, tools, scratch } = bench;
    let rounds = settings.rounds_or(ROUNDS);
    let extent = Extent {
        connections: settings.connections_or(CONNECTIONS),
        seconds: settings.seconds_or(SECONDS),
    };
    section.method = method(rounds, extent);
    if !tools.has(Tool::Wrk) {
        bail!("{}", Tool::Wrk.missing());
    }
    let mut servers = Vec::new();
    for kind in ServerKind::ALL {
        section.note_command(kind.shown());
        // Each has files of its own.
        let folder = scratch.join(format!("serve-{kind:?}"));
        std::fs::create_dir_all(&folder)?;
        match Server::start(kind, &tools.plimsoll, &folder) {
            Ok(server) => servers.push((kind, server)),
            Err(error) => section.fail(format!("{error:#}")),
        }
    }
    let mut duels = [Duel::new(false), Duel::new(true)];
    for round in 0..rounds {
        for duel in &mut duels {
            servers.rotate_left(1);
            for (kind, server) in &servers {
                let stint = stint(bench, server, extent, duel.is_tls(), section);
                let what = format!("{}, {}, round {}", kind.name(), duel.name(), round + 1);
                match &stint {
                    Ok(stint) => println!("serve: {what}: {}", stint.line()),
                    Err(error) => section.fail(format!("{what}: {error:#}")),
                }
                duel.add(*kind, stint.ok());
            }
        }
    }
    duels.iter().for_each(|duel| section.read(duel.reading()));
    section.figures = duel::table(&duels);
    Ok(())
}

/// wrk against one server, and what it cost the server.
fn stint(
    bench: &Bench,
    server: &Server,
    extent: Extent,
    is_tls: bool,
    section: &mut Section,
) -> Result<Stint> {
    let load = Load { is_tls, connection: Connection::Kept };
    let Some(job) = bench.tools.job(Tool::Wrk, &server.url(is_tls), extent, load) else {
        bail!("wrk cannot make this load");
    };
    section.note_command(job.shown());
    let before_s = footprint::cpu_s(server.pid());
    let (sample, rate_per_s) = job.run_wrk()?;
    let cpu_s = footprint::cpu_s(server.pid()) - before_s;
    Ok(Stint { cpu_s, ops: sample.ops, failed: sample.failed, rate_per_s })
}

fn method(rounds: u32, extent: Extent) -> String {
    let Extent { connections, seconds } = extent;
    format!(
        "Each figure is the median over {rounds} rounds of {seconds} s, with the range in brackets. \
         Every server is one\nprocess with one thread on CPU {SERVER_CPU} and answers `pong`; wrk \
         on CPU {CLIENT_CPU} asks as fast as it can over\n{connections} keep-alive connections. The \
         servers take turns, and who goes first changes.\n\n\
         What counts is the server's user and system time per request, which is what requests per \
         second and core\ncome to. The requests per second that were seen are a server's limit \
         only where it was busy all the time\n(full). Elsewhere wrk or something else on the \
         machine was, and the figures favour the slower servers: a fast\none has fewer requests to \
         answer each time it wakes.\n"
    )
}
