//! The client CPU of plimsoll and of a peer in one scenario, over all rounds.

use std::fmt::Write;

use crate::bench::claim::Claim;
use crate::bench::client::Sample;
use crate::bench::client::Tool;
use crate::bench::spread::Spread;

/// All rounds of one scenario.
pub(crate) struct Comparison {
    name: &'static str,
    peer: Tool,
    peer_is_here: bool,
    ours: Vec<Sample>,
    theirs: Vec<Sample>,
}

impl Comparison {
    pub(crate) const fn new(name: &'static str, peer: Tool, peer_is_here: bool) -> Self {
        Self { name, peer, peer_is_here, ours: Vec::new(), theirs: Vec::new() }
    }

    /// Adds one round; `theirs` is missing when the peer is.
    pub(crate) fn add(&mut self, ours: Sample, theirs: Option<Sample>) {
        self.ours.push(ours);
        self.theirs.extend(theirs);
    }

    /// Each round's own ratio: what slowed both tools in a round cancels out.
    fn ratio(&self) -> Spread {
        let pairs = self.ours.iter().zip(&self.theirs);
        Spread::of(pairs.map(|(a, b)| a.cpu_us_per_op() / b.cpu_us_per_op()))
    }

    /// That plimsoll needs no more than the peer.
    pub(crate) fn claim(&self) -> Claim {
        let what = format!("client CPU per {}", self.name);
        let aim = format!("at most {}'s", self.peer.name());
        let ratio = self.ratio();
        if ratio.median.is_nan() {
            return Claim::not_measured(what, aim, self.peer_missing());
        }
        Claim::new(what, aim, format!("{ratio} of it"), ratio.median <= 1.0)
    }

    fn peer_missing(&self) -> String {
        let (peer, advice) = (self.peer.name(), self.peer.advice());
        if self.peer_is_here {
            "no figures".to_owned()
        } else {
            format!("{peer}: missing ({advice})")
        }
    }

    fn row(&self) -> String {
        let ours = Spread::of(self.ours.iter().map(Sample::cpu_us_per_op));
        let failed: u64 = self.ours.iter().chain(&self.theirs).map(|sample| sample.failed).sum();
        if self.theirs.is_empty() {
            return format!("| {} | {ours} | {} | - | {failed} |", self.name, self.peer_missing());
        }
        let theirs = Spread::of(self.theirs.iter().map(Sample::cpu_us_per_op));
        let (peer, ratio) = (self.peer.name(), self.ratio());
        format!("| {} | {ours} | {peer}: {theirs} | {ratio} | {failed} |", self.name)
    }
}

/// All scenarios, for the page.
pub(crate) fn table(comparisons: &[Comparison]) -> String {
    let mut text = String::from(
        "User and system time of the client and its children, in microseconds per successful \
         operation;\na ratio below 1 means that plimsoll needs less.\n\n\
         | per | plimsoll, us | peer, us | ratio | failed |\n|---|---|---|---|---|\n",
    );
    for comparison in comparisons {
        let _ = writeln!(text, "{}", comparison.row());
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::bench::claim::Outcome;

    use super::*;

    fn sample(cpu_s: f64) -> Sample {
        Sample { cpu_s, ops: 1_000_000, failed: 1 }
    }

    #[test]
    fn ratios_are_paired_by_round() {
        let mut comparison = Comparison::new("request", Tool::Wrk, true);
        // The second round was slow for both; the ratio does not show it.
        comparison.add(sample(6.0), Some(sample(8.0)));
        comparison.add(sample(12.0), Some(sample(16.0)));
        let expected = "| request | 9.00 (6.00 - 12.00) | wrk: 12.00 (8.00 - 16.00) \
                        | 0.75 (0.75 - 0.75) | 4 |";
        assert_eq!(comparison.row(), expected);
        assert_eq!(comparison.claim().outcome, Outcome::Reached);
        // Three rounds of five were dearer than the peer's.
        comparison.add(sample(9.0), Some(sample(8.0)));
        comparison.add(sample(9.0), Some(sample(8.0)));
        comparison.add(sample(9.0), Some(sample(8.0)));
        assert_eq!(comparison.claim().outcome, Outcome::NotReached);
    }

    #[test]
    fn a_missing_peer_is_named() {
        let mut comparison = Comparison::new("request", Tool::Oha, false);
        comparison.add(sample(6.0), None);
        let expected =
            "| request | 6.00 (6.00 - 6.00) | oha: missing (cargo install oha) | - | 1 |";
        assert_eq!(comparison.row(), expected);
        assert_eq!(comparison.claim().outcome, Outcome::NotMeasured);
    }
}
