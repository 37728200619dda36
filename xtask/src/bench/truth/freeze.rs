//! Whether a server that stood still is visible where it must be, and only there.

use std::time::Duration;

use crate::bench::claim::Claim;
use crate::bench::spread::Spread;
use crate::bench::truth::figure;
use crate::bench::truth::shot::{Case, Shot};

/// The corrected p99 must reach this share of the freeze: of a tenth of all operations, which wait
/// from 0 to the whole freeze, the slowest tenth waits longer than 0.9 of it.
const CORRECTED_SHARE_MIN: f64 = 0.75;
/// The uncorrected p99 must stay below this share.
const UNCORRECTED_SHARE_MAX: f64 = 0.25;

/// All rounds of one case.
pub(super) struct Freeze {
    case: Case,
    freeze: Duration,
    /// Corrected and uncorrected p99, milliseconds.
    rounds: Vec<(f64, f64)>,
}

impl Freeze {
    pub(super) const fn new(case: Case, freeze: Duration) -> Self {
        Self { case, freeze, rounds: Vec::new() }
    }

    pub(super) const fn case(&self) -> Case {
        self.case
    }

    /// Adds a round. One without figures adds nothing.
    pub(super) fn add(&mut self, shot: &Shot) {
        let corrected = figure(shot, "latency_ms.corrected.p99");
        self.rounds.extend(corrected.zip(figure(shot, "latency_ms.uncorrected.p99")));
    }

    /// That it shows in corrected latency and not in uncorrected, in every round.
    pub(super) fn claims(&self) -> [Claim; 2] {
        let freeze_ms = self.freeze.as_secs_f64() * 1e3;
        let least = freeze_ms * CORRECTED_SHARE_MIN;
        let most = freeze_ms * UNCORRECTED_SHARE_MAX;
        let what = format!("{}, frozen for {freeze_ms:.0} ms", self.case.name());
        let corrected = Spread::of(self.rounds.iter().map(|(ms, _)| *ms)).decimals(1);
        let uncorrected = Spread::of(self.rounds.iter().map(|(_, ms)| *ms)).decimals(1);
        let claim = |kind, aim: String, found: Spread, is_reached| {
            let what = format!("{what}: {kind} p99, ms");
            if self.rounds.is_empty() {
                return Claim::not_measured(what, aim, "no figures");
            }
            Claim::new(what, aim, found.to_string(), is_reached)
        };
        [
            claim("corrected", format!("at least {least:.0}"), corrected, corrected.min >= least),
            claim("uncorrected", format!("below {most:.0}"), uncorrected, uncorrected.max < most),
        ]
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::bench::claim::Outcome;
    use crate::bench::invocation::Finished;
    use crate::bench::reference::Service;
    use crate::bench::truth::shot::Maker;

    use super::*;

    fn outcomes(rounds: &[(f64, f64)]) -> [Outcome; 2] {
        let service = Service::Fixed(Duration::from_millis(10));
        let case = Case { maker: Maker::Reference, service };
        let mut freeze = Freeze::new(case, Duration::from_secs(2));
        for (corrected, uncorrected) in rounds {
            let latency =
                json!({"corrected": {"p99": corrected}, "uncorrected": {"p99": uncorrected}});
            let summary = json!({"latency_ms": latency});
            freeze.add(&Shot { finished: Finished { summary, seconds: 20.0 }, log: None });
        }
        freeze.claims().map(|claim| claim.outcome)
    }

    #[test]
    fn every_round_must_show_it_in_the_right_place() {
        use Outcome::{NotMeasured, NotReached, Reached};
        for (rounds, expected) in [
            (vec![(1_800.0, 11.0), (1_500.0, 499.0)], [Reached, Reached]),
            (vec![(1_800.0, 11.0), (1_499.0, 500.0)], [NotReached, NotReached]),
            (vec![(11.0, 11.0)], [NotReached, Reached]), // coordinated omission
            (vec![], [NotMeasured, NotMeasured]),
        ] {
            assert_eq!(outcomes(&rounds), expected, "{rounds:?}");
        }
    }
}
