//! A quantity of plimsoll and of its peers over all rounds, and whether the target is reached.
//!
//! A [`Comparison`] has one [`Entrant`] per program, plimsoll first, and each entrant a [`Series`] with one sample
//! per round. [`Comparison::order`] rotates the start, because the next program finds warm caches.
//! [`Comparison::row`] divides sample by sample, so that a slow round cancels out, and compares the median with the
//! [`Target`]. Only entrants with at most 1 % failed operations take part. Start with [`Comparison::row`].

use std::fmt::Write;

use serde_json::{Value, json};

use crate::bench::results::{Outcome, Row, Spread};

/// One quantity of one program, one sample per round; `None` if the round failed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series(pub(crate) Vec<Option<f64>>);

impl Series {
    pub(crate) fn spread(&self) -> Spread {
        Spread::of(self.0.iter().flatten().copied())
    }

    /// Returns the ratios to `other`, round by round: what slowed both programs in a round cancels out.
    pub(crate) fn over(&self, other: &Self) -> Spread {
        let pairs = self.0.iter().zip(&other.0);
        Spread::of(pairs.filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?)))
    }
}

/// A target.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    /// At most `max` times the figure of the best peer. The target counts as reached only if all of `required` were
    /// measured.
    OfBest { max: f64, required: &'static [&'static str] },
    /// At most `max` times the figure of `peer`.
    OfPeer { max: f64, peer: &'static str },
    /// Less than the figure of every peer.
    BelowAll { required: &'static [&'static str] },
    /// At most `max`, whatever the peers need.
    AtMost { max: f64 },
}

impl Target {
    fn text(self) -> String {
        match self {
            Self::OfBest { max, .. } => format!("{max} of the best peer's or less"),
            Self::OfPeer { max, peer } => format!("{max} of {peer}'s or less"),
            Self::BelowAll { required } => format!("less than {}", required.join(" and ")),
            Self::AtMost { max } => format!("{max} or less"),
        }
    }

    /// Reports whether the target is compared with this peer.
    fn counts(self, name: &str) -> bool {
        match self {
            Self::OfPeer { peer, .. } => name == peer,
            Self::OfBest { .. } | Self::BelowAll { .. } | Self::AtMost { .. } => true,
        }
    }

    fn required(self) -> Vec<&'static str> {
        match self {
            Self::OfBest { required, .. } | Self::BelowAll { required } => required.to_vec(),
            Self::OfPeer { peer, .. } => vec![peer],
            Self::AtMost { .. } => Vec::new(),
        }
    }

    fn is_met(self, ours: f64, ratio: f64) -> bool {
        match self {
            Self::OfBest { max, .. } | Self::OfPeer { max, .. } => ratio <= max,
            Self::BelowAll { .. } => ratio < 1.0,
            Self::AtMost { max } => ours <= max,
        }
    }
}

/// One program in a comparison.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entrant {
    pub(crate) name: &'static str,
    pub(crate) series: Series,
    /// Successful operations; 0 if operations are not counted.
    pub(crate) ops: u64,
    pub(crate) failed: u64,
    /// The reason why the program is not measured, if it is not.
    pub(crate) excuse: Option<String>,
}

impl Entrant {
    pub(crate) fn new(name: &'static str, excuse: Option<String>) -> Self {
        Self { name, excuse, ..Self::default() }
    }

    /// Reports whether the work succeeded: failures cost something else. A hundredth may fail.
    fn is_sound(&self) -> bool {
        !self.series.spread().median.is_nan() && self.failed * 100 <= self.ops
    }
}

/// All programs in one comparison.
#[derive(Clone, Debug)]
pub(crate) struct Comparison {
    pub(crate) id: &'static str,
    /// The measured quantity with its unit.
    pub(crate) what: &'static str,
    pub(crate) target: Option<Target>,
    pub(crate) decimals: usize,
    /// All programs; plimsoll is the first.
    pub(crate) entrants: Vec<Entrant>,
}

impl Comparison {
    /// Returns the indices of the entrants of a round, in order. Each round starts with another one, because later ones
    /// find warm caches.
    pub(crate) fn order(&self, round: u32) -> Vec<usize> {
        let able = (0..self.entrants.len()).filter(|nth| self.entrants[*nth].excuse.is_none());
        let mut order: Vec<usize> = able.collect();
        let first = round as usize % order.len().max(1);
        order.rotate_left(first);
        order
    }

    fn ratio(&self, peer: &Entrant) -> Spread {
        self.entrants[0].series.over(&peer.series).decimals(self.decimals)
    }

    /// Returns the row of the page, if there is a target.
    pub(crate) fn row(&self) -> Option<Row> {
        let target = self.target?;
        let ours = &self.entrants[0];
        let mut row = Row::alone(
            self.id,
            self.what,
            "no figures".to_owned(),
            &target.text(),
            Outcome::NotMeasured,
        );
        if !ours.is_sound() {
            return Some(row);
        }
        let mut peers: Vec<&Entrant> =
            self.entrants[1..].iter().filter(|entrant| entrant.is_sound()).collect();
        // Peers that the target ignores come last; otherwise the peer with the lowest figure comes first.
        let key = |entrant: &Entrant| entrant.series.spread().median;
        peers.sort_by(|a, b| {
            let is_ignored = |entrant: &Entrant| !target.counts(entrant.name);
            is_ignored(a).cmp(&is_ignored(b)).then(key(a).total_cmp(&key(b)))
        });
        row.ours = ours.series.spread().to_string();
        let decisive = peers.first().filter(|peer| target.counts(peer.name));
        let ratio = decisive.map(|peer| self.ratio(peer));
        if let Some(ratio) = ratio {
            row.ratio = ratio.to_string();
        }
        if !peers.is_empty() {
            row.peers = shown(&peers);
        }
        let is_met =
            target.is_met(ours.series.spread().median, ratio.map_or(f64::NAN, |of| of.median));
        let is_whole =
            target.required().iter().all(|name| peers.iter().any(|peer| peer.name == *name));
        row.outcome = match (is_met, ratio.is_some(), is_whole) {
            (true, _, true) => Outcome::Reached,
            // A target that is missed against some peers is missed against all of them.
            (false, true, _) => Outcome::NotReached,
            (false, false, _) if matches!(target, Target::AtMost { .. }) => Outcome::NotReached,
            _ => Outcome::NotMeasured,
        };
        Some(row)
    }

    /// Returns every program's figure for the results file.
    pub(crate) fn figures(&self) -> Vec<Value> {
        let figure = |(nth, entrant): (usize, &Entrant)| {
            let mut figure = json!({"what": self.what, "who": entrant.name});
            match &entrant.excuse {
                Some(excuse) => figure["not_measured"] = json!(excuse),
                None => {
                    figure["spread"] = json!(entrant.series.spread());
                    figure["rounds"] = json!(entrant.series.0);
                    figure["failed"] = json!(entrant.failed);
                }
            }
            if nth > 0 && entrant.is_sound() {
                figure["plimsoll_over_it"] = json!(self.ratio(entrant));
            }
            figure
        };
        self.entrants.iter().enumerate().map(figure).collect()
    }
}

/// Formats the figures of peers: the first with its range, the others by their medians.
fn shown(peers: &[&Entrant]) -> String {
    let mut text = String::new();
    for (nth, peer) in peers.iter().enumerate() {
        let spread = peer.series.spread();
        let _ = match nth {
            0 => write!(text, "{} {spread}", peer.name),
            _ => write!(text, ", {} {}", peer.name, spread.middle()),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(target: Target, peers: &[(&'static str, &[f64])]) -> Comparison {
        let entrant = |(name, samples): &(&'static str, &[f64])| Entrant {
            series: Series(samples.iter().map(|sample| Some(*sample)).collect()),
            ops: 1_000,
            failed: 1,
            ..Entrant::new(name, None)
        };
        let ours: (&str, &[f64]) = ("plimsoll", &[6.0, 12.0]);
        let mut entrants = vec![entrant(&ours)];
        entrants.extend(peers.iter().map(entrant));
        Comparison { id: "x", what: "CPU, us", target: Some(target), decimals: 2, entrants }
    }

    const WRK: (&str, &[f64]) = ("wrk", &[8.0, 16.0]);
    const AB: (&str, &[f64]) = ("ab", &[9.0, 18.0]);

    #[test]
    fn ratios_are_paired_by_round_and_the_best_peer_decides() {
        let target = Target::OfBest { max: 0.8, required: &["wrk"] };
        let row = comparison(target, &[AB, WRK]).row().unwrap();
        // The second round was slow for all; the ratio does not show it.
        assert_eq!(row.peers, "wrk 12.00 (8.00 - 16.00), ab 13.50");
        assert_eq!(row.ratio, "0.75 (0.75 - 0.75)");
        assert_eq!(
            (row.outcome, &*row.target),
            (Outcome::Reached, "0.8 of the best peer's or less")
        );
    }

    #[test]
    fn targets_need_their_peers() {
        use Outcome::{NotMeasured, NotReached, Reached};
        const BEST: Target = Target::OfBest { max: 0.8, required: &["wrk"] };
        const TIGHT: Target = Target::OfBest { max: 0.6, required: &["wrk"] };
        const AB_ONLY: Target = Target::OfPeer { max: 0.7, peer: "ab" };
        const BELOW: Target = Target::BelowAll { required: &["wrk", "ab"] };
        for (target, peers, outcome) in [
            (BEST, &[AB][..], NotMeasured),
            (TIGHT, &[AB], NotReached),
            (BEST, &[AB, WRK], Reached),
            (BEST, &[], NotMeasured),
            (AB_ONLY, &[AB, WRK], Reached), // wrk's 0.75 does not count
            (AB_ONLY, &[WRK], NotMeasured),
            (BELOW, &[AB, WRK], Reached),
            (BELOW, &[AB], NotMeasured),
            (BELOW, &[AB, ("wrk", &[5.0, 10.0])], NotReached),
            (Target::AtMost { max: 9.0 }, &[], Reached),
            (Target::AtMost { max: 8.9 }, &[], NotReached),
        ] {
            let row = comparison(target, peers).row().unwrap();
            assert_eq!(row.outcome, outcome, "{target:?} {peers:?}");
        }
    }

    #[test]
    fn what_mostly_failed_or_did_not_run_decides_nothing() {
        let target = Target::OfBest { max: 0.8, required: &["wrk"] };
        let mut failing = comparison(target, &[WRK, AB]);
        failing.entrants[1].failed = 11;
        failing.entrants[2].excuse = Some("ab: missing".to_owned());
        failing.entrants[2].series = Series::default();
        let row = failing.row().unwrap();
        assert_eq!((row.outcome, &*row.peers), (Outcome::NotMeasured, "-"));
        assert_eq!(failing.order(1), [1, 0]);
        let figures = failing.figures();
        assert_eq!(figures[2]["not_measured"], "ab: missing");
        assert_eq!(figures[1]["rounds"], json!([8.0, 16.0]));
        assert_eq!(figures[1].get("plimsoll_over_it"), None);
    }
}
