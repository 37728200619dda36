//! The memory of one program at one size, over all rounds.

use crate::bench::spread::Spread;

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
