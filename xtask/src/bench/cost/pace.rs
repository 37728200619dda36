//! How well plimsoll kept a schedule, over all rounds.

use crate::bench::claim::Claim;
use crate::bench::client::PaceSample;
use crate::bench::spread::Spread;

/// Achieved may differ from offered by so much, %.
const OFF_PERCENT_MAX: f64 = 0.5;
/// Limit of the send lag's p99.
const LAG_MS_MAX: f64 = 1.0;

/// All rounds of the pace test.
pub(crate) struct Pace {
    rate_per_s: u32,
    samples: Vec<PaceSample>,
}

impl Pace {
    pub(crate) const fn new(rate_per_s: u32) -> Self {
        Self { rate_per_s, samples: Vec::new() }
    }

    pub(crate) fn add(&mut self, sample: PaceSample) {
        self.samples.push(sample);
    }

    /// That the schedule was kept.
    pub(crate) fn claims(&self) -> [Claim; 2] {
        let achieved = Spread::of(self.samples.iter().map(|sample| sample.achieved_ratio * 100.0));
        let lag = Spread::of(self.samples.iter().map(|sample| sample.send_lag_ms_p99)).decimals(3);
        let at = format!("at {}/s", self.rate_per_s);
        let claim = |what: String, aim: String, found: Spread, is_reached| {
            if found.median.is_nan() {
                return Claim::not_measured(what, aim, "no figures");
            }
            Claim::new(what, aim, found.to_string(), is_reached)
        };
        [
            claim(
                format!("achieved of offered {at}, %"),
                format!("100 +- {OFF_PERCENT_MAX}"),
                achieved,
                (achieved.median - 100.0).abs() <= OFF_PERCENT_MAX,
            ),
            claim(
                format!("send lag p99 {at}, ms"),
                format!("below {LAG_MS_MAX}"),
                lag,
                lag.median < LAG_MS_MAX,
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::bench::claim::Outcome;

    use super::*;

    #[test]
    fn a_pace_is_kept_within_its_limits() {
        for (achieved_ratio, send_lag_ms_p99, expected) in [
            (0.996, 0.9, [Outcome::Reached, Outcome::Reached]),
            (0.994, 1.0, [Outcome::NotReached, Outcome::NotReached]),
            (1.006, 0.1, [Outcome::NotReached, Outcome::Reached]),
        ] {
            let mut pace = Pace::new(5_000);
            pace.add(PaceSample { achieved_ratio, send_lag_ms_p99 });
            assert_eq!(pace.claims().map(|claim| claim.outcome), expected);
        }
        let unknown = Pace::new(5_000).claims().map(|claim| claim.outcome);
        assert_eq!(unknown, [Outcome::NotMeasured; 2]);
    }
}
