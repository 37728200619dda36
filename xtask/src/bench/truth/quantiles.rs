//! The quantiles of corrected latency beside the exact ones of the service times.

use crate::bench::claim::Claim;
use crate::bench::spread::Spread;
use crate::bench::truth::figure;
use crate::bench::truth::shot::{Case, Shot};

const QUANTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];
/// A quantile may be off by this share of the exact one...
const OFF_SHARE_MAX: f64 = 0.02;
/// ...or by so much, whichever is more.
const OFF_MS_MAX: f64 = 0.5;

/// One quantile as it should be and as it was reported, milliseconds.
#[derive(Clone, Copy, Debug)]
struct Pair {
    exact_ms: f64,
    reported_ms: f64,
}

impl Pair {
    fn off_ms(&self) -> f64 {
        self.reported_ms - self.exact_ms
    }

    /// The error as a share of what is allowed; up to 1 is good.
    fn strain(&self) -> f64 {
        self.off_ms().abs() / (self.exact_ms * OFF_SHARE_MAX).max(OFF_MS_MAX)
    }
}

/// All rounds of one case.
pub(super) struct Quantiles {
    case: Case,
    rounds: Vec<[Pair; 3]>,
    /// Why rounds called themselves INVALID.
    invalid: Vec<String>,
}

impl Quantiles {
    pub(super) const fn new(case: Case) -> Self {
        Self { case, rounds: Vec::new(), invalid: Vec::new() }
    }

    pub(super) const fn case(&self) -> Case {
        self.case
    }

    /// Adds a round. One without figures adds nothing.
    pub(super) fn add(&mut self, shot: &Shot) {
        let mut log = shot.log.clone();
        if let Some(log) = &mut log {
            log.sort_by(f64::total_cmp);
        }
        let pair = |(name, q): (&str, f64)| {
            let exact_s = match &log {
                Some(log) => nearest_rank(log, q)?,
                None => self.case.service.quantile(q)?,
            };
            let reported_ms = figure(shot, &format!("latency_ms.corrected.{name}"))?;
            Some(Pair { exact_ms: exact_s * 1e3, reported_ms })
        };
        if let [Some(p50), Some(p90), Some(p99)] = QUANTILES.map(pair) {
            self.rounds.push([p50, p90, p99]);
        }
        self.invalid.extend(shot.finished.invalid());
    }

    fn spread(&self, index: usize, value: impl Fn(&Pair) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(|pairs| value(&pairs[index]))).decimals(3)
    }

    /// That every quantile is near enough.
    pub(super) fn claim(&self) -> Claim {
        let what = format!("{}: p50, p90, p99", self.case.name());
        let aim = "within 2 % or 0.5 ms of exact";
        let strains = [0, 1, 2].map(|index| self.spread(index, Pair::strain).median);
        let worst = strains.into_iter().zip(QUANTILES).max_by(|(a, _), (b, _)| a.total_cmp(b));
        let Some((strain, (name, _))) = worst.filter(|(strain, _)| !strain.is_nan()) else {
            return Claim::not_measured(what, aim, "no figures");
        };
        let mut found = format!("at worst {:.0} % of what is allowed ({name})", strain * 100.0);
        if let Some(why) = self.invalid.first() {
            let (some, all) = (self.invalid.len(), self.rounds.len());
            found.push_str(&format!("; {some} of {all} rounds INVALID: {why}"));
        }
        Claim::new(what, aim, found, strain <= 1.0)
    }

    /// Rows of the table: exact, reported, and their difference.
    pub(super) fn rows(&self) -> [String; 3] {
        [0, 1, 2].map(|index| {
            let exact = self.spread(index, |pair| pair.exact_ms);
            let reported = self.spread(index, |pair| pair.reported_ms);
            let off = self.spread(index, Pair::off_ms);
            let (name, _) = QUANTILES[index];
            format!("| {} | {name} | {exact} | {reported} | {off} |", self.case.name())
        })
    }
}

/// The smallest value that at least the share `q` of all does not exceed.
fn nearest_rank(sorted: &[f64], q: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use crate::bench::claim::Outcome;
    use crate::bench::invocation::Finished;
    use crate::bench::reference::Service;
    use crate::bench::truth::shot::Maker;

    use super::*;

    fn shot(p50: f64, p99: f64, log: Option<Vec<f64>>) -> Shot {
        let corrected = json!({"p50": p50, "p90": 45.0, "p99": p99});
        let summary = json!({"latency_ms": {"corrected": corrected}, "verdict": "good"});
        Shot { finished: Finished { summary, seconds: 20.0 }, log }
    }

    fn quantiles() -> Quantiles {
        let service = Service::Uniform(Duration::from_millis(50));
        Quantiles::new(Case { maker: Maker::Plimsoll, service })
    }

    #[test]
    fn ranks_are_exact() {
        let values: Vec<f64> = (1..=1_000).map(f64::from).collect();
        for (q, expected) in [(0.0, 1.0), (0.5, 500.0), (0.99, 990.0), (0.9991, 1_000.0)] {
            assert_eq!(nearest_rank(&values, q), Some(expected), "{q}");
        }
        assert_eq!(nearest_rank(&[7.0], 0.99), Some(7.0));
        assert_eq!(nearest_rank(&[], 0.5), None);
    }

    #[test]
    fn errors_count_by_share_or_by_milliseconds() {
        for (exact_ms, reported_ms, strain) in [
            (10.0, 10.25, 0.5), // 0.5 ms are more than 2 %
            (10.0, 9.5, 1.0),   // too low is as wrong as too high
            (50.0, 51.0, 1.0),  // 2 % are more than 0.5 ms
            (50.0, 52.0, 2.0),
        ] {
            let pair = Pair { exact_ms, reported_ms };
            assert!((pair.strain() - strain).abs() < 1e-9, "{pair:?}");
        }
    }

    #[test]
    fn the_worst_quantile_decides_by_its_median() {
        let mut quantiles = quantiles();
        quantiles.add(&shot(25.25, 49.5, None));
        assert_eq!(quantiles.claim().found, "at worst 50 % of what is allowed (p50)");
        quantiles.add(&shot(25.25, 52.0, None));
        quantiles.add(&shot(25.25, 52.0, None));
        let claim = quantiles.claim();
        assert_eq!((claim.outcome, claim.found.contains("(p99)")), (Outcome::NotReached, true));
        assert!(quantiles.rows()[0].contains("| p50 | 25.000 (25.000 - 25.000) | 25.250 "));
    }

    #[test]
    fn a_log_goes_before_the_law() {
        let mut quantiles = quantiles();
        // All requests took 45 ms: an answer by the law would be wrong by far.
        quantiles.add(&shot(45.0, 45.1, Some(vec![0.045; 10])));
        assert_eq!(quantiles.claim().outcome, Outcome::Reached);
    }

    #[test]
    fn nothing_is_claimed_without_figures() {
        let mut quantiles = quantiles();
        let finished = Finished { summary: json!({"latency_ms": {}}), seconds: 20.0 };
        quantiles.add(&Shot { finished, log: None });
        assert_eq!(quantiles.claim().outcome, Outcome::NotMeasured);
    }
}
