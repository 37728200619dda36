//! User memory of servers, each holding connections that plimsoll opened.

use anyhow::Result;

use crate::bench::memory::holder::{FEW, Holder, Way};
use crate::bench::memory::weight::{Load, Pair};
use crate::bench::memory::{holder, weight};
use crate::bench::page::Section;
use crate::bench::server::{Server, ServerKind};
use crate::bench::target::{Reading, Target};
use crate::bench::{Bench, memory};

/// What `serve` may need, kB per connection.
const KB_MAX: f64 = 0.6;

/// One server at one size.
pub(super) struct Held {
    kind: ServerKind,
    size: u32,
    pair: Pair,
}

/// Every server at every size.
pub(super) fn entries(sizes: &[u32]) -> Vec<Held> {
    let new = |kind, size| Held { kind, size, pair: Pair::default() };
    let all = |kind| sizes.iter().map(move |size| new(kind, *size));
    ServerKind::ALL.into_iter().flat_map(all).collect()
}

impl Held {
    /// One round, with TLS and without.
    pub(super) fn measure(&mut self, bench: &Bench, round: u32, section: &mut Section) {
        let what = format!("{}, {} connections, round {round}", self.kind.name(), self.size);
        let (kind, size) = (self.kind, self.size);
        self.pair
            .measure(&what, section, |is_tls, section| weigh(bench, kind, size, is_tls, section));
    }
}

/// The same process with few connections, then with many: a new one for each round, because
/// none gives everything back.
fn weigh(
    bench: &Bench,
    kind: ServerKind,
    size: u32,
    is_tls: bool,
    section: &mut Section,
) -> Result<[Load; 2]> {
    let way = Way::of_plimsoll(bench);
    let server = Server::start(kind, &bench.tools.plimsoll, &bench.scratch)?;
    section.note_command(kind.shown());
    section.note_command(holder::shown(way, "https://ADDRESS/", size));
    let few = Holder::start(bench, way, &server, is_tls, FEW)?;
    let light = few.weigh(server.pid())?;
    few.kill()?;
    let many = Holder::start(bench, way, &server, is_tls, size)?;
    let heavy = many.weigh(server.pid())?;
    many.kill()?;
    Ok([light, heavy])
}

/// That `serve` needs little, beside the better of the others.
pub(super) fn reading(servers: &[Held]) -> Reading {
    let target = Target::ServerMemory;
    let ours = servers.iter().filter(|held| held.kind == ServerKind::Plimsoll);
    let Some(ours) = ours.max_by_key(|held| held.size) else {
        return Reading::not_measured(target, "no figures");
    };
    let same = |held: &&Held| held.kind != ServerKind::Plimsoll && held.size == ours.size;
    let peers = servers.iter().filter(same).map(|held| (held.kind.name(), &held.pair.tls));
    weight::reading(target, KB_MAX, (ours.size, &ours.pair.tls), peers)
}

pub(super) fn table(servers: &[Held]) -> String {
    memory::rows("server", servers.iter().map(|held| (held.kind.name(), held.size, &held.pair)))
}

#[cfg(test)]
mod tests {
    use crate::bench::claim::Outcome;

    use super::*;

    #[test]
    fn the_same_size_is_compared() {
        let mut servers = entries(&[2_000, 15_000]);
        let bytes = [100, 500, 1_000, 4_000, 20_000, 30_000];
        for (held, each) in servers.iter_mut().zip(bytes) {
            let few = Load { connections: 0, bytes: 0 };
            held.pair.tls.add(Some([few, Load { connections: 1_000, bytes: each * 1_000 }]));
        }
        let reading = reading(&servers);
        assert_eq!(reading.ours, "0.50 (0.50 - 0.50), 15000 connections");
        assert_eq!(reading.peer, "nginx: 4.00 (4.00 - 4.00)");
        assert_eq!(reading.outcome, Outcome::Reached);
        assert_eq!(super::reading(&[]).outcome, Outcome::NotMeasured);
    }
}
