//! The memory of one program at one size, over all rounds.

use anyhow::Result;

use crate::bench::claim::Outcome;
use crate::bench::page::Section;
use crate::bench::spread::Spread;
use crate::bench::target::{Reading, Target};

/// Memory with connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    pub(super) connections: usize,
    pub(super) bytes: u64,
}

/// One kind of connection of one program.
#[derive(Debug, Default)]
pub(super) struct Weight {
    /// Per connection, one per round; `None` where it failed.
    kb_each: Vec<Option<f64>>,
    /// All of it, MB.
    mb_whole: Vec<f64>,
}

impl Weight {
    /// Adds a round: with few connections, and with many.
    pub(super) fn add(&mut self, loads: Option<[Load; 2]>) {
        self.kb_each.push(loads.and_then(kb_each));
        self.mb_whole.extend(loads.map(|[_, many]| many.bytes as f64 / 1e6));
    }

    pub(super) fn kb(&self) -> Spread {
        Spread::of(self.kb_each.iter().flatten().copied())
    }

    /// Round by round over `other`.
    pub(super) fn ratio(&self, other: &Self) -> Spread {
        let pairs = self.kb_each.iter().zip(&other.kb_each);
        let both = pairs.filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?));
        Spread::of(both).decimals(3)
    }

    pub(super) fn shown(&self) -> String {
        shown(self.kb())
    }

    pub(super) fn whole_shown(&self) -> String {
        shown(Spread::of(self.mb_whole.iter().copied()).decimals(1))
    }
}

/// The memory of one program at one size, with TLS and without.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub(super) tls: Weight,
    pub(super) plain: Weight,
}

impl Pair {
    /// One round of `what`. What cannot be weighed is said in the section.
    pub(super) fn measure(
        &mut self,
        what: &str,
        section: &mut Section,
        weigh: impl Fn(bool, &mut Section) -> Result<[Load; 2]>,
    ) {
        for (is_tls, name) in [(true, "TLS 1.3"), (false, "plain")] {
            let loads = weigh(is_tls, section);
            match &loads {
                Ok([few, many]) => println!(
                    "memory: {what}, {name}: {} bytes with {} connections, {} with {}",
                    few.bytes, few.connections, many.bytes, many.connections
                ),
                Err(error) => section.fail(format!("{what}, {name}: {error:#}")),
            }
            let weight = if is_tls { &mut self.tls } else { &mut self.plain };
            weight.add(loads.ok());
        }
    }
}

/// That `ours`, with so many connections, needs at most `kb_max` each; beside the best of `peers`.
pub(super) fn reading<'a>(
    target: Target,
    kb_max: f64,
    (size, ours): (u32, &Weight),
    peers: impl Iterator<Item = (&'a str, &'a Weight)>,
) -> Reading {
    let kb = ours.kb();
    if kb.median.is_nan() {
        return Reading::not_measured(target, "no figures");
    }
    let measured = peers.filter(|(_, weight)| !weight.kb().median.is_nan());
    let best = measured.min_by(|(_, a), (_, b)| a.kb().median.total_cmp(&b.kb().median));
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    Reading {
        target,
        peer: or_none(best.map(|(name, weight)| format!("{name}: {}", weight.kb()))),
        ours: format!("{kb}, {size} connections"),
        ratio: or_none(best.map(|(_, weight)| ours.ratio(weight).to_string())),
        outcome: Outcome::of(kb.median <= kb_max),
    }
}

fn shown(spread: Spread) -> String {
    if spread.median.is_nan() { "-".to_owned() } else { spread.to_string() }
}

/// May be below zero, where memory of the start was given back.
fn kb_each([few, many]: [Load; 2]) -> Option<f64> {
    let connections = many.connections.checked_sub(few.connections).filter(|more| *more > 0)?;
    Some((many.bytes as f64 - few.bytes as f64) / connections as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_cost_cancels_out() {
        let load = |connections, bytes| Load { connections, bytes };
        let mut weight = Weight::default();
        weight.add(Some([load(20, 5_000_000), load(2_020, 9_000_000)]));
        weight.add(None);
        assert_eq!(weight.shown(), "2.00 (2.00 - 2.00)");
        assert_eq!(weight.whole_shown(), "9.0 (9.0 - 9.0)");
        assert_eq!(kb_each([load(20, 7), load(20, 9)]), None);
        let mut half = Weight::default();
        half.add(Some([load(20, 0), load(1_020, 1_000_000)]));
        half.add(Some([load(20, 0), load(1_020, 9)]));
        assert_eq!(half.ratio(&weight).to_string(), "0.500 (0.500 - 0.500)");
        assert_eq!(Weight::default().shown(), "-");
    }
}
