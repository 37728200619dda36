//! How much does the capacity differ from trial to trial? Read from verdicts that contradict each
//! other, and from what overloaded trials carried.
//!
//! Model: a trial at load x is GOOD if x lies below that trial's capacity, whose logarithm is
//! normal around the centre; an overloaded trial mostly carries just its capacity, and otherwise
//! shows nothing but that it was BAD. The likelihood is laid out on a grid of centres and
//! deviations, with the same prior weight for each octave of the deviation.

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

/// Share of overloaded trials that carry their capacity, not more or less.
const CARRIES: f64 = 0.7;
/// What the others carry is spread evenly over so much, relative.
const CARRIES_ANYTHING: f64 = 0.5;

/// The likelihood of one trial, `distance` (logarithmic) below the centre.
fn likelihood(distance: f64, good: bool, carried: Option<f64>, sd: f64) -> f64 {
    let good_share = LAPSES + (1.0 - 2.0 * LAPSES) * normal_share(distance / sd);
    match (good, carried) {
        (true, _) => good_share,
        (false, None) => 1.0 - good_share,
        (false, Some(off)) => {
            let density = (-0.5 * (off / sd).powi(2)).exp() / (sd * std::f64::consts::TAU.sqrt());
            CARRIES * density + (1.0 - CARRIES) * (1.0 - good_share) / CARRIES_ANYTHING
        }
    }
}

/// Whether what overloaded trials carried differs by more than `relative`; three or more of them.
pub(crate) fn carries_unevenly(ledger: &Ledger, relative: f64) -> bool {
    let carried = || ledger.all().filter_map(|(_, _, seen)| seen.carried_per_s.map(f64::ln));
    let count = carried().count() as f64;
    let mean = carried().sum::<f64>() / count;
    let variance = carried().map(|c| (c - mean).powi(2)).sum::<f64>() / (count - 1.0);
    count >= 3.0 && variance.sqrt() > relative
}

/// `None` where no trial was BAD, or none GOOD.
pub(crate) fn noise(ledger: &Ledger) -> Option<Noise> {
    let trials: Vec<(f64, bool, Option<f64>)> = ledger
        .all()
        .map(|(load, good, seen)| (load.ln(), good, seen.carried_per_s.map(f64::ln)))
        .collect();
    let worst = trials.iter().filter(|t| !t.1).map(|t| t.0).reduce(f64::min)?;
    let best = trials.iter().filter(|t| t.1).map(|t| t.0).reduce(f64::max)?;
    let (from, to) = (worst.min(best) - 0.1, worst.max(best) + 0.1);
    let (mut weights, mut center, mut log_sd) = (0.0, 0.0, 0.0);
    for c in 0..CENTERS {
        let at = from + (to - from) * (c as f64 + 0.5) / CENTERS as f64;
        for s in 0..SDS {
            let sd = SD_LEAST * 2f64.powf(s as f64 / 2.0);
            let weight: f64 = trials
                .iter()
                .map(|&(load, good, carried)| {
                    likelihood(at - load, good, carried.map(|carried| carried - at), sd)
                })
                .product();
            weights += weight;
            center += weight * at;
            log_sd += weight * sd.ln();
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
    use crate::search::ledger::Seen;

    fn ledger(verdicts: &[(f64, &str)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (load, trials) in verdicts {
            for verdict in trials.bytes() {
                let trial = TrialOutcome {
                    duration: Nanos::from_secs(10),
                    good: verdict == b'G',
                    loss_ratio: 0.0,
                };
                ledger.add(*load, trial, Seen::default());
            }
        }
        ledger
    }

    #[test]
    fn verdicts_that_agree_show_little_noise() {
        assert_eq!(noise(&ledger(&[])), None);
        assert_eq!(noise(&ledger(&[(100.0, "GGG")])), None);
        let fit = noise(&ledger(&[(99.0, "GGGG"), (101.0, "BBBB")])).expect("both");
        assert!(fit.sd < 0.01, "{fit:?}");
    }

    #[test]
    fn what_overloaded_trials_carry_shows_the_noise_that_verdicts_hide() {
        let ledger = |carried: [f64; 5]| {
            let mut ledger = ledger(&[(100.0, "GG")]);
            for carried_per_s in carried {
                let outcome =
                    TrialOutcome { duration: Nanos::from_secs(10), good: false, loss_ratio: 1.0 };
                let seen = Seen { carried_per_s: Some(carried_per_s), ..Seen::default() };
                ledger.add(110.0, outcome, seen);
            }
            ledger
        };
        let steady = ledger([102.0, 102.1, 101.9, 102.0, 102.2]);
        assert!(!carries_unevenly(&steady, 0.02));
        assert!(noise(&steady).expect("both").sd < 0.01);
        let uneven = ledger([102.0, 96.0, 106.0, 99.0, 108.0]);
        assert!(carries_unevenly(&uneven, 0.02));
        assert!((0.03..0.09).contains(&noise(&uneven).expect("both").sd));
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
