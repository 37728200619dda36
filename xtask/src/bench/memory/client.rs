//! User memory of clients: plimsoll idle and waiting, peers waiting.

use anyhow::Result;

use crate::bench::memory::holder::{FEW, Holder, Way};
use crate::bench::memory::weight::{Load, Pair};
use crate::bench::memory::{holder, weight};
use crate::bench::page::Section;
use crate::bench::server::{Server, ServerKind};
use crate::bench::target::{Reading, Target};
use crate::bench::tool::Tool;
use crate::bench::{Bench, memory};

/// What plimsoll may need, kB per connection.
const KB_MAX: f64 = 0.45;
/// A virtual user of k6 is a JavaScript machine of 1 to 5 MB.
const K6_CONNECTIONS_MAX: u32 = 200;

/// One client at one size.
pub(super) struct Client {
    way: Way,
    size: u32,
    pair: Pair,
}

/// Every client at the sizes that are asked of it. Missing peers are named in the section.
pub(super) fn entries(bench: &Bench, sizes: &[u32], section: &mut Section) -> Vec<Client> {
    let silent = Way::of_plimsoll(bench);
    let new = |way, size| Client { way, size, pair: Pair::default() };
    let mut clients: Vec<Client> = sizes.iter().map(|size| new(silent, *size)).collect();
    let Some(least) = sizes.first().copied() else { return clients };
    for tool in [Tool::Plimsoll].into_iter().chain(Tool::PEERS) {
        if bench.tools.has(tool) {
            let size = if tool == Tool::K6 { least.min(K6_CONNECTIONS_MAX) } else { least };
            clients.push(new(Way::Awaiting(tool), size));
        } else {
            section.note_missing(tool.missing());
        }
    }
    clients
}

impl Client {
    fn name(&self) -> &'static str {
        match self.way {
            Way::Hold => "`plimsoll hold`, idle",
            Way::Idle => "`plimsoll load --rate 1`, idle",
            Way::Awaiting(Tool::Plimsoll) => "`plimsoll load`, awaiting answers",
            Way::Awaiting(tool) => tool.name(),
        }
    }

    /// One round, with TLS and without.
    pub(super) fn measure(&mut self, bench: &Bench, round: u32, section: &mut Section) {
        let what = format!("{}, {} connections, round {round}", self.name(), self.size);
        let (way, size) = (self.way, self.size);
        self.pair
            .measure(&what, section, |is_tls, section| weigh(bench, way, size, is_tls, section));
    }
}

/// With few connections, then with many, each in a process of its own.
fn weigh(
    bench: &Bench,
    way: Way,
    size: u32,
    is_tls: bool,
    section: &mut Section,
) -> Result<[Load; 2]> {
    let server = Server::start(ServerKind::Plimsoll, &bench.tools.plimsoll, &bench.scratch)?;
    if is_tls {
        section.note_command(holder::shown(way, "https://ADDRESS/", size));
    }
    let few = Holder::start(bench, way, &server, is_tls, FEW)?;
    let light = few.weigh(few.pid())?;
    few.kill()?;
    let many = Holder::start(bench, way, &server, is_tls, size)?;
    let heavy = many.weigh(many.pid())?;
    if way == Way::Hold {
        // What it says of itself, which is no judge here.
        match many.interrupt(bench) {
            Ok(summary) => {
                let own = &summary["generator"]["user_bytes_per_connection"];
                let held = &summary["hold"]["held"];
                println!("memory: it says {own} bytes for each of {held} connections");
            }
            Err(error) => section.fail(format!("plimsoll hold, interrupted: {error:#}")),
        }
    } else {
        many.kill()?;
    }
    Ok([light, heavy])
}

/// That plimsoll needs little, beside the best of the others.
pub(super) fn reading(clients: &[Client]) -> Reading {
    let target = Target::ClientMemory;
    let silent = |client: &&Client| matches!(client.way, Way::Hold | Way::Idle);
    // The largest, which is what one process is filled with.
    let Some(ours) = clients.iter().filter(silent).max_by_key(|client| client.size) else {
        return Reading::not_measured(target, "no figures");
    };
    let peers = clients.iter().filter(|client| client.way.tool() != Tool::Plimsoll);
    let peers = peers.map(|client| (client.name(), &client.pair.tls));
    weight::reading(target, KB_MAX, (ours.size, &ours.pair.tls), peers)
}

pub(super) fn table(clients: &[Client]) -> String {
    memory::rows("client", clients.iter().map(|client| (client.name(), client.size, &client.pair)))
}

#[cfg(test)]
mod tests {
    use crate::bench::claim::Outcome;

    use super::*;

    fn client(way: Way, size: u32, kb: u64) -> Client {
        let mut client = Client { way, size, pair: Pair::default() };
        let few = Load { connections: 0, bytes: 0 };
        client.pair.tls.add(Some([few, Load { connections: 1_000, bytes: kb * 1_000 * 1_000 }]));
        client
    }

    #[test]
    fn the_fullest_process_is_judged_beside_the_best_peer() {
        let clients = [
            client(Way::Hold, 15_000, 9),
            client(Way::Hold, 2_000, 0),
            client(Way::Awaiting(Tool::Plimsoll), 2_000, 1),
            client(Way::Awaiting(Tool::Wrk), 2_000, 54),
            client(Way::Awaiting(Tool::Oha), 2_000, 36),
        ];
        let reading = reading(&clients);
        assert_eq!(reading.peer, "oha: 36.00 (36.00 - 36.00)");
        assert_eq!(reading.ratio, "0.250 (0.250 - 0.250)");
        assert_eq!(reading.outcome, Outcome::NotReached);
        let alone = super::reading(&clients[1..2]);
        assert_eq!((alone.outcome, alone.peer.as_str()), (Outcome::Reached, "-"));
        assert_eq!(super::reading(&clients[2..]).outcome, Outcome::NotMeasured);
    }
}
