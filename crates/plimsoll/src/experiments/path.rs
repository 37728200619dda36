//! The path to the server, at loads that the server does not feel: how long a round trip takes, and how
//! often a segment has to be sent again.

use plimsoll_model::Nanos;
use plimsoll_model::observation::Observations;
use plimsoll_model::summary::PathSummary;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{CheckId, Outcome, TrialRecord, Verdict};

/// The state of the path while a search runs.
#[derive(Default)]
pub(super) struct PathWatch {
    operations: u64,
    sent_again: u64,
    round_trip: Option<Nanos>,
}

impl PathWatch {
    /// Segments sent again for each operation so far; at the first trial, in that one.
    pub(super) fn loss(&self, tally: &Tally, observations: &Observations) -> Option<f64> {
        let here = (tally.scheduled, observations.network?.sent_again);
        let seen = (self.operations, self.sent_again);
        let (operations, sent_again) = if self.operations == 0 { here } else { seen };
        Some(sent_again as f64 / operations.max(1) as f64)
    }

    /// Takes a judged trial: the first one, and those that the server served.
    pub(super) fn add(&mut self, trial: &TrialRecord) {
        let measurement = &trial.measurement;
        if self.operations > 0 && trial.judgement.verdict != Verdict::Good {
            return;
        }
        if let Some(network) = measurement.observations.network {
            self.operations += measurement.tally.scheduled;
            self.sent_again += network.sent_again;
        }
        let fastest = measurement.tally.spans.connect.min();
        self.round_trip = [self.round_trip, fastest].into_iter().flatten().min();
    }

    /// Returns the figures for the summary.
    pub(super) fn summary(&self) -> Option<PathSummary> {
        let round_trip = self.round_trip?;
        let sent_again = self.sent_again as f64 / self.operations as f64;
        Some(PathSummary {
            round_trip_ms: round_trip.as_millis_f64(),
            sent_again_per_op: (self.operations > 0).then_some(sent_again),
        })
    }

    /// Returns `path: round trip 120 us (the fastest connection), 3 segments in 250 operations`.
    pub(super) fn note(&self) -> Option<String> {
        let round_trip = self.round_trip?;
        let lost = match (self.operations, self.sent_again) {
            (0, _) => String::new(),
            (operations, 0) => format!(", no retransmission in {operations} operations"),
            (operations, again) => {
                format!(", {again} retransmissions in {operations} operations")
            }
        };
        Some(format!("path: round trip {round_trip} (the fastest connection){lost}"))
    }
}

/// Returns the outcome of a search that the generator ended, where it was the path instead: nothing else
/// made a trial INVALID.
pub(super) fn network_limited(outcome: &Outcome, trials: &[TrialRecord]) -> Option<Outcome> {
    let invalid = || trials.iter().filter(|trial| trial.judgement.verdict == Verdict::Invalid);
    let is_path =
        |trial: &TrialRecord| trial.judgement.deciding().all(|check| check.id == CheckId::PathLoss);
    let is_limited =
        matches!(outcome, Outcome::GeneratorLimited { .. } | Outcome::Unconfirmed { .. });
    if !is_limited || !invalid().all(is_path) {
        return None;
    }
    let waited = invalid().filter_map(|trial| {
        let check = trial.judgement.reasons.iter().find(|c| c.id == CheckId::PathLoss)?;
        check.measures.first().map(|measure| measure.value)
    });
    let why = format!(
        "{:.1} % of the operations waited until TCP sent a lost segment again",
        waited.max_by(f64::total_cmp)? * 100.0
    );
    Some(Outcome::NetworkLimited { why })
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Rate;
    use plimsoll_model::observation::NetworkUse;
    use plimsoll_model::trial::{
        Check, Judgement, Level, Measure, Phase, TrialMeasurement, TrialRequest,
    };

    use super::*;

    fn trial(check: CheckId, verdict: Verdict, sent_again: u64) -> TrialRecord {
        let network = Some(NetworkUse { sent_again, ..NetworkUse::default() });
        let mut tally = Tally { scheduled: 1_000, ..Tally::default() };
        tally.spans.connect.record(Nanos::from_millis(2));
        let level = Level::of(verdict != Verdict::Good, false);
        let checks = vec![Check::new(check, level, [Measure::ratio("", 0.042)])];
        TrialRecord {
            further: Vec::new(),
            measurement: TrialMeasurement {
                seconds: Vec::new(),
                request: TrialRequest {
                    number: 1,
                    phase: Phase::Expand,
                    rate: Rate::ZERO,
                    duration: Nanos::from_secs(3),
                    split: 1,
                },
                window: Nanos::from_secs(3),
                aborted: false,
                tally,
                sut_busiest_thread: None,
                split: 1,
                observations: Observations { network, ..Observations::default() },
            },
            judgement: Judgement { verdict, reasons: checks, loss_ratio: 0.0 },
        }
    }

    #[test]
    fn loss_is_that_of_the_first_trial_and_of_those_that_were_served() {
        let loss = |watch: &PathWatch, sent_again| {
            let trial = trial(CheckId::Stable, Verdict::Good, sent_again).measurement;
            watch.loss(&trial.tally, &trial.observations)
        };
        let mut watch = PathWatch::default();
        assert_eq!(loss(&watch, 20), Some(0.02));
        watch.add(&trial(CheckId::PathLoss, Verdict::Invalid, 20));
        watch.add(&trial(CheckId::Stable, Verdict::Good, 40));
        // An overload drops segments of its own.
        watch.add(&trial(CheckId::Stable, Verdict::Bad, 900));
        assert_eq!(loss(&watch, 500), Some(0.03));
        let seen = watch.summary().expect("connections were opened");
        assert!((seen.round_trip_ms - 2.0).abs() < 0.01, "{seen:?}");
        assert_eq!(seen.sent_again_per_op, Some(0.03));
    }

    #[test]
    fn the_path_is_the_limit_where_nothing_else_was() {
        let ended = |trials: &[TrialRecord]| {
            let why = "path-loss".to_owned();
            network_limited(&Outcome::GeneratorLimited { why }, trials)
        };
        let lost = || trial(CheckId::PathLoss, Verdict::Invalid, 20);
        let Some(Outcome::NetworkLimited { why }) = ended(&[lost(), lost()]) else { panic!() };
        assert!(why.starts_with("4.2 % of the operations"), "{why}");
        let lagging = trial(CheckId::SendLag, Verdict::Invalid, 20);
        assert_eq!((ended(&[lost(), lagging]), ended(&[])), (None, None));
    }
}
