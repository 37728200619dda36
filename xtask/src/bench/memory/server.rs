//! User memory of servers, each holding connections that plimsoll opened.

use anyhow::Result;

use crate::bench::Bench;
use crate::bench::claim::Outcome;
use crate::bench::memory;
use crate::bench::memory::holder;
use crate::bench::memory::holder::FEW;
use crate::bench::memory::holder::Holder;
use crate::bench::memory::holder::Way;
use crate::bench::memory::weight::Load;
use crate::bench::memory::weight::Weight;
use crate::bench::page::Section;
use crate::bench::server::Server;
use crate::bench::server::ServerKind;
use crate::bench::target::Reading;
use crate::bench::target::Target;

/// What `serve` may need, kB per connection.
const KB_MAX: f64 = 0.6;

/// One server at one size.
pub(super) struct Held {
    kind: ServerKind,
    size: u32,
    tls: Weight,
    plain: Weight,
}

/// Every server at every size.
pub(super) fn entries(sizes: &[u32]) -> Vec<Held> {
    let new = |kind, size| Held { kind, size, tls: Weight::default(), plain: Weight::default() };
    let all = |kind| sizes.iter().map(move |size| new(kind, *size));
    ServerKind::ALL.into_iter().flat_map(all).collect()
}

impl Held {
    /// One round, with TLS and without.
    pub(super) fn measure(&mut self, bench: &Bench, round: u32, section: &mut Section) {
        for is_tls in [true, false] {
            let loads = self.weigh(bench, is_tls, section);
            let tls = if is_tls { "TLS 1.3" } else { "plain" };
            let name = self.kind.name();
            let what = format!("{name}, {} connections, {tls}, round {round}", self.size);
            match &loads {
                Ok(loads) => println!("memory: {what}: {loads:?}"),
                Err(error) => section.fail(format!("{what}: {error:#}")),
            }
            let weight = if is_tls { &mut self.tls } else { &mut self.plain };
            weight.add(loads.ok());
        }
    }

    /// The same process with few connections, then with many: a new one for each round, because
    /// none gives everything back.
    fn weigh(&self, bench: &Bench, is_tls: bool, section: &mut Section) -> Result<[Load; 2]> {
        let way = Way::of_plimsoll(bench);
        let server = Server::start(self.kind, &bench.tools.plimsoll, &bench.scratch)?;
        section.note_command(self.kind.shown());
        section.note_command(holder::shown(way, "https://ADDRESS/", self.size));
        let few = Holder::start(bench, way, &server, is_tls, FEW)?;
        let light = few.weigh(server.pid())?;
        few.kill()?;
        let many = Holder::start(bench, way, &server, is_tls, self.size)?;
        let heavy = many.weigh(server.pid())?;
        many.kill()?;
        Ok([light, heavy])
    }
}

/// That `serve` needs little, beside the better of the others.
pub(super) fn reading(servers: &[Held]) -> Reading {
    let target = Target::ServerMemory;
    let ours = servers.iter().filter(|held| held.kind == ServerKind::Plimsoll);
    let Some(ours) = ours.max_by_key(|held| held.size) else {
        return Reading::not_measured(target, "no figures");
    };
    let kb = ours.tls.kb();
    if kb.median.is_nan() {
        return Reading::not_measured(target, "no figures");
    }
    let same = |held: &&Held| held.kind != ServerKind::Plimsoll && held.size == ours.size;
    let peers = servers.iter().filter(same).filter(|held| !held.tls.kb().median.is_nan());
    let best = peers.min_by(|a, b| a.tls.kb().median.total_cmp(&b.tls.kb().median));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    Reading {
        target,
        peer: or_none(best.map(|best| format!("{}: {}", best.kind.name(), best.tls.kb()))),
        ours: format!("{kb}, {} connections", ours.size),
        ratio: or_none(best.map(|best| ours.tls.ratio(&best.tls).to_string())),
        outcome: Outcome::of(kb.median <= KB_MAX),
    }
}

pub(super) fn table(servers: &[Held]) -> String {
    memory::rows("server", servers.iter().map(|h| (h.kind.name(), h.size, &h.tls, &h.plain)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_size_is_compared() {
        let mut servers = entries(&[2_000, 15_000]);
        let bytes = [100, 500, 1_000, 4_000, 20_000, 30_000];
        for (held, each) in servers.iter_mut().zip(bytes) {
            let few = Load { connections: 0, bytes: 0 };
            held.tls.add(Some([few, Load { connections: 1_000, bytes: each * 1_000 }]));
        }
        let reading = reading(&servers);
        assert_eq!(reading.ours, "0.50 (0.50 - 0.50), 15000 connections");
        assert_eq!(reading.peer, "nginx: 4.00 (4.00 - 4.00)");
        assert_eq!(reading.outcome, Outcome::Reached);
        assert_eq!(super::reading(&[]).outcome, Outcome::NotMeasured);
    }
}
