//! Pauses in which nothing is answered, by the operations that are open meanwhile.

use crate::stats::median_of;

/// A pause leaves what came due in so many seconds, and at least so many operations.
const PAUSE_MIN_S: f64 = 0.02;
const PAUSE_OPS_MIN: f64 = 3.0;
/// By so many standard deviations the operations in flight differ by chance.
const CHANCE: f64 = 3.0;

/// The samples of `outstanding` operations at a load of `per_s` from which on much more was open than usual, and how
/// many samples were so.
pub(crate) fn begins(outstanding: &[u32], per_s: f64) -> (Vec<usize>, usize) {
    let open: Vec<f64> = outstanding.iter().map(|ops| f64::from(*ops)).collect();
    let Some(usual) = median_of(open.iter().copied()) else { return (Vec::new(), 0) };
    let raised = (PAUSE_MIN_S * per_s).max(PAUSE_OPS_MIN).max(CHANCE * usual.sqrt());
    let is_raised = |ops: Option<&f64>| ops.is_some_and(|ops| *ops >= usual + raised);
    let begins = (0..open.len())
        .filter(|at| is_raised(open.get(*at)) && (*at == 0 || !is_raised(open.get(at - 1))))
        .collect();
    (begins, open.iter().filter(|ops| is_raised(Some(ops))).count())
}
