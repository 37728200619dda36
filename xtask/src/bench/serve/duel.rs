//! The three servers under the same load, over all rounds.

use std::fmt::Write;

use crate::bench::claim::Outcome;
use crate::bench::server::ServerKind;
use crate::bench::spread::Spread;
use crate::bench::target::{Reading, Target};

/// A server that uses so much of its CPU has no more to give.
const BUSY_MIN: f64 = 0.95;

/// One server under load for a while.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stint {
    /// User and system time of the server.
    pub(super) cpu_s: f64,
    pub(super) ops: u64,
    pub(super) failed: u64,
    pub(super) rate_per_s: f64,
}

impl Stint {
    fn cpu_us_per_op(&self) -> f64 {
        self.cpu_s * 1e6 / self.ops as f64
    }

    /// Share of its CPU that it used, 0 to 1.
    fn busy(&self) -> f64 {
        self.cpu_us_per_op() * self.rate_per_s / 1e6
    }

    pub(super) fn line(&self) -> String {
        let (cpu_us, busy) = (self.cpu_us_per_op(), self.busy());
        format!("{cpu_us:.2} us per request, {:.0}/s, busy {busy:.2}", self.rate_per_s)
    }
}

/// One kind of load.
pub(super) struct Duel {
    is_tls: bool,
    /// In the order of `ServerKind::ALL`, one stint per round; `None` where it failed.
    stints: [Vec<Option<Stint>>; 3],
}

impl Duel {
    pub(super) const fn new(is_tls: bool) -> Self {
        Self { is_tls, stints: [const { Vec::new() }; 3] }
    }

    pub(super) const fn is_tls(&self) -> bool {
        self.is_tls
    }

    pub(super) const fn name(&self) -> &'static str {
        if self.is_tls { "TLS 1.3" } else { "plain" }
    }

    /// Adds a server's round.
    pub(super) fn add(&mut self, kind: ServerKind, stint: Option<Stint>) {
        self.of_mut(kind).push(stint);
    }

    fn of_mut(&mut self, kind: ServerKind) -> &mut Vec<Option<Stint>> {
        let index = ServerKind::ALL.iter().position(|other| *other == kind).unwrap_or(0);
        &mut self.stints[index]
    }

    fn of(&self, kind: ServerKind) -> &[Option<Stint>] {
        let index = ServerKind::ALL.iter().position(|other| *other == kind).unwrap_or(0);
        &self.stints[index]
    }

    fn spread(&self, kind: ServerKind, figure: impl Fn(&Stint) -> f64) -> Spread {
        Spread::of(self.of(kind).iter().flatten().map(figure))
    }

    /// Ours over theirs, round by round.
    fn ratio(&self, peer: ServerKind) -> Spread {
        let pairs = self.of(ServerKind::Plimsoll).iter().zip(self.of(peer));
        let both = pairs.filter_map(|(ours, theirs)| Some(((*ours)?, (*theirs)?)));
        Spread::of(both.map(|(ours, theirs)| ours.cpu_us_per_op() / theirs.cpu_us_per_op()))
    }

    /// That `serve` needs less than either.
    pub(super) fn reading(&self) -> Reading {
        let target = if self.is_tls { Target::ServeTls } else { Target::ServePlain };
        let cpu_us = |kind| self.spread(kind, Stint::cpu_us_per_op);
        let peers = [ServerKind::Nginx, ServerKind::Haproxy];
        let measured = peers.into_iter().filter(|kind| !self.ratio(*kind).median.is_nan());
        // The one beside which we look worst.
        let worst = |a: &ServerKind, b: &ServerKind| {
            self.ratio(*a).median.total_cmp(&self.ratio(*b).median)
        };
        let Some(best) = measured.clone().max_by(worst) else {
            return Reading::not_measured(target, "no figures");
        };
        let ratio = self.ratio(best);
        let outcome = match (ratio.median < 1.0, measured.count() == peers.len()) {
            (false, _) => Outcome::NotReached,
            (true, true) => Outcome::Reached,
            (true, false) => Outcome::NotMeasured,
        };
        Reading {
            target,
            peer: format!("{}: {}", best.name(), cpu_us(best)),
            ours: cpu_us(ServerKind::Plimsoll).to_string(),
            ratio: ratio.to_string(),
            outcome,
        }
    }

    fn row(&self, kind: ServerKind) -> String {
        let cpu_us = self.spread(kind, Stint::cpu_us_per_op);
        if cpu_us.median.is_nan() {
            return format!("| {} | {} | not measured | - | - | - | - |", self.name(), kind.name());
        }
        let ratio = match kind {
            ServerKind::Plimsoll => "-".to_owned(),
            _ => self.ratio(kind).to_string(),
        };
        let rate = self.spread(kind, |stint| stint.rate_per_s).decimals(0);
        let busy = self.spread(kind, Stint::busy);
        let full = if busy.median >= BUSY_MIN { "; full" } else { "" };
        let failed: u64 = self.of(kind).iter().flatten().map(|stint| stint.failed).sum();
        format!(
            "| {} | {} | {cpu_us} | {ratio} | {rate} | {busy}{full} | {failed} |",
            self.name(),
            kind.name()
        )
    }
}

/// All of it, for the page.
pub(super) fn table(duels: &[Duel]) -> String {
    let mut text = String::from(
        "| load | server | CPU per request, us | `serve` over it | requests/s | busy | failed |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for duel in duels {
        for kind in ServerKind::ALL {
            let _ = writeln!(text, "{}", duel.row(kind));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A busy server, whose request takes so many microseconds.
    fn stint(cpu_us: f64) -> Option<Stint> {
        Some(Stint { cpu_s: cpu_us, ops: 1_000_000, failed: 0, rate_per_s: 1e6 / cpu_us })
    }

    #[test]
    fn both_must_be_beaten() {
        for (ours, nginx, haproxy, outcome, peer) in [
            (4.0, stint(5.0), stint(8.0), Outcome::Reached, "nginx: 5.00 (5.00 - 5.00)"),
            (6.0, stint(5.0), stint(8.0), Outcome::NotReached, "nginx: 5.00 (5.00 - 5.00)"),
            (4.0, None, stint(8.0), Outcome::NotMeasured, "HAProxy: 8.00 (8.00 - 8.00)"),
            (9.0, None, stint(8.0), Outcome::NotReached, "HAProxy: 8.00 (8.00 - 8.00)"),
            (4.0, None, None, Outcome::NotMeasured, "-"),
        ] {
            let mut duel = Duel::new(false);
            duel.add(ServerKind::Nginx, nginx);
            duel.add(ServerKind::Plimsoll, stint(ours));
            duel.add(ServerKind::Haproxy, haproxy);
            let reading = duel.reading();
            assert_eq!((reading.outcome, reading.peer.as_str()), (outcome, peer));
        }
    }

    #[test]
    fn a_full_server_is_told_from_one_that_waited() {
        let mut duel = Duel::new(true);
        duel.add(ServerKind::Plimsoll, stint(4.0));
        let idle = stint(4.0).map(|stint| Stint { rate_per_s: 125_000.0, ..stint });
        duel.add(ServerKind::Nginx, idle);
        let rows = table(&[duel]);
        assert!(rows.contains("| 1.00 (1.00 - 1.00); full |"), "{rows}");
        assert!(rows.contains("| 0.50 (0.50 - 0.50) |"), "{rows}");
        assert!(rows.contains("| TLS 1.3 | HAProxy | not measured |"), "{rows}");
    }
}
