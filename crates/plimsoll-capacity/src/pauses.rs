//! Pauses in which nothing is answered, by the operations that are open meanwhile.

use plimsoll_model::tally::OUTSTANDING_SAMPLE;

use crate::stats::median_of;

/// A pause leaves open the operations that came due in this time, and at least this number.
const PAUSE_MIN_S: f64 = 0.02;
const PAUSE_OPS_MIN: f64 = 3.0;
/// Standard deviations by which the operations in flight differ at random.
const CHANCE: f64 = 3.0;
/// In a pause the open operations grow by at least this share of what comes due: a server beside a neighbour
/// answers less, but it answers.
pub(crate) const GROWTH_MIN: f64 = 0.7;
/// Growth over fewer samples may have begun, or ended, between two of them.
const GROWTH_SAMPLES: usize = 3;

/// Returns the samples of `outstanding` operations at which a pause began, at a load of `per_s`, and the number of
/// samples with many more open operations than usual.
pub(crate) fn begins(outstanding: &[u32], per_s: f64) -> (Vec<usize>, usize) {
    let open: Vec<f64> = outstanding.iter().map(|ops| f64::from(*ops)).collect();
    let Some(usual) = median_of(open.iter().copied()) else { return (Vec::new(), 0) };
    let raised = (PAUSE_MIN_S * per_s).max(PAUSE_OPS_MIN).max(CHANCE * usual.sqrt());
    let is_raised = |ops: &f64| *ops >= usual + raised;
    let (mut begins, mut count, mut from) = (Vec::new(), 0, 0);
    for stretch in open.chunk_by(|one, next| is_raised(one) == is_raised(next)) {
        if is_raised(&stretch[0]) {
            count += stretch.len();
            if stands_still(stretch, per_s) {
                begins.push(from);
            }
        }
        from += stretch.len();
    }
    (begins, count)
}

/// Reports whether the open operations grew up to their peak as they do while nothing is answered.
fn stands_still(open: &[f64], per_s: f64) -> bool {
    let most = open.iter().copied().fold(0.0, f64::max);
    let samples = open.iter().position(|ops| *ops == most).unwrap_or_default();
    let due = per_s * samples as f64 * OUTSTANDING_SAMPLE.as_secs_f64();
    samples < GROWTH_SAMPLES || most - open[0] >= GROWTH_MIN * due
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of a load of 1,000/s that finds a queue of `queue` ahead of it.
    fn with(queue: &[u32]) -> Vec<u32> {
        [&[1; 20][..], queue, &[1; 20]].concat()
    }

    #[test]
    fn a_server_that_answers_half_does_not_pause() {
        assert_eq!(begins(&with(&[80, 180, 280, 380, 480, 200]), 1_000.0), (vec![20], 6));
        assert_eq!(begins(&with(&[80, 130, 180, 230, 280, 120]), 1_000.0), (vec![], 6));
        // Too short to say how fast it grew.
        assert_eq!(begins(&with(&[80, 130]), 1_000.0), (vec![20], 2));
        assert_eq!(begins(&[], 1_000.0), (vec![], 0));
    }
}
