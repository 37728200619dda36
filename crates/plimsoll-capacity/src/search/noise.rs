//! How much does the capacity differ from trial to trial? Read from verdicts that contradict each
//! other; one that no trial contradicts shows no noise.
//!
//! Model: a trial at load x is GOOD if x lies below that trial's capacity, whose logarithm is
//! normal around the centre. The likelihood is laid out on a grid of centres and deviations, with
//! the same prior weight for each octave of the deviation.

use super::ledger::Ledger;

/// What the verdicts say of the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Noise {
    /// Load at which half of the trials are GOOD, operations per second.
    pub(crate) center: f64,
    /// Relative standard deviation of the capacity from trial to trial.
    pub(crate) sd: f64,
}

/// Verdicts that have nothing to do with the load: a stalled disk, a cron job. So much of all.
const LAPSES: f64 = 0.02;
/// Deviations looked at: from this one up in steps of half an octave.
const SD_LEAST: f64 = 0.003;
const SDS: usize = 13;
/// Centres looked at, spaced evenly between the lowest load that was BAD and the highest GOOD one
/// and a little beyond.
const CENTERS: usize = 48;

/// The standard normal distribution function, to about 1e-3 (a logistic with the same slope).
fn normal_share(z: f64) -> f64 {
    1.0 / (1.0 + (-1.702 * z).exp())
}

/// `None` where the verdicts do not contradict each other.
pub(crate) fn noise(ledger: &Ledger) -> Option<Noise> {
    let trials = || {
        ledger
            .entries()
            .flat_map(|entry| entry.trials.iter().map(|trial| (entry.load.ln(), trial.good)))
    };
    let worst = trials().filter(|(_, good)| !good).map(|(load, _)| load).reduce(f64::min)?;
    let best = trials().filter(|(_, good)| *good).map(|(load, _)| load).reduce(f64::max)?;
    if worst > best {
        return None;
    }
    let (from, to) = (worst - 0.1, best + 0.1);
    let (mut weights, mut center, mut log_sd) = (0.0, 0.0, 0.0);
    for c in 0..CENTERS {
        let at = from + (to - from) * (c as f64 + 0.5) / CENTERS as f64;
        for s in 0..SDS {
            let sd = SD_LEAST * 2f64.powf(s as f64 / 2.0);
            let likelihood: f64 = trials()
                .map(|(load, good)| {
                    let good_share = LAPSES + (1.0 - 2.0 * LAPSES) * normal_share((at - load) / sd);
                    if good { good_share } else { 1.0 - good_share }
                })
                .product();
            weights += likelihood;
            center += likelihood * at;
            log_sd += likelihood * sd.ln();
        }
    }
    (weights > 0.0)
        .then(|| Noise { center: (center / weights).exp(), sd: (log_sd / weights).exp() })
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;

    use super::*;
    use crate::classify::TrialOutcome;

    fn ledger(verdicts: &[(f64, &str)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (load, trials) in verdicts {
            for verdict in trials.bytes() {
                let trial = TrialOutcome {
                    duration: Nanos::from_secs(10),
                    good: verdict == b'G',
                    loss_ratio: 0.0,
                };
                ledger.add(*load, trial, false);
            }
        }
        ledger
    }

    #[test]
    fn verdicts_that_agree_show_no_noise() {
        assert_eq!(noise(&ledger(&[])), None);
        assert_eq!(noise(&ledger(&[(100.0, "GGG"), (102.0, "BBB")])), None);
    }

    #[test]
    fn the_spread_of_contradictions_is_the_noise() {
        let narrow = ledger(&[
            (90.0, "GGGG"),
            (99.0, "GGB"),
            (100.0, "GB"),
            (101.0, "GBB"),
            (110.0, "BBBB"),
        ]);
        let wide = ledger(&[
            (80.0, "GGGG"),
            (90.0, "GGB"),
            (100.0, "GB"),
            (111.0, "GBB"),
            (125.0, "BBBB"),
        ]);
        let (narrow, wide) = (noise(&narrow).expect("mixed"), noise(&wide).expect("mixed"));
        for fit in [narrow, wide] {
            assert!((fit.center / 100.0 - 1.0).abs() < 0.01, "{fit:?}");
        }
        assert!((0.008..0.04).contains(&narrow.sd), "{narrow:?}");
        assert!((0.06..0.2).contains(&wide.sd), "{wide:?}");
    }

    #[test]
    fn one_stray_verdict_among_many_is_a_lapse() {
        let stray =
            ledger(&[(50.0, "GB"), (95.0, "GGG"), (99.0, "GGG"), (101.0, "BBB"), (105.0, "BBB")]);
        let fit = noise(&stray).expect("mixed");
        assert!(fit.sd < 0.02, "{fit:?}");
    }
}
