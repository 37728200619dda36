//! Searches with a generator that is the limit, or that disturbs.

use std::ops::Range;

use plimsoll_model::slo::Slo;
use plimsoll_model::trial::Outcome;

use crate::kinds::Fault;
use crate::methods::Method;
use crate::score::{each_seed, quantile};

/// The figures of a table's row.
#[derive(Clone, Debug)]
pub(crate) struct FaultScore {
    pub(crate) name: &'static str,
    pub(crate) method: &'static str,
    pub(crate) searches: usize,
    /// Says that the generator was the limit.
    pub(crate) owned: usize,
    /// Says that the server is the limit, where it is not.
    pub(crate) blamed: usize,
    pub(crate) trials: Vec<u32>,
    /// Sorted; none if nothing was GOOD.
    pub(crate) lowers: Vec<f64>,
    limit_per_s: f64,
}

impl FaultScore {
    /// Median lower bound over what the generator can make.
    pub(crate) fn lower_share(&self) -> Option<f64> {
        let usable = self.limit_per_s.is_finite() && self.limit_per_s > 0.0;
        (usable && !self.lowers.is_empty()).then(|| quantile(&self.lowers, 0.5) / self.limit_per_s)
    }
}

/// `seeds` searches with one fault.
pub(crate) fn fault_score(fault: &Fault, method: Method, seeds: Range<u64>) -> FaultScore {
    let found =
        each_seed(seeds, |seed| method.search(&mut fault.world(seed), seed, &Slo::default()));
    let mut score = FaultScore {
        name: fault.name,
        method: method.name(),
        searches: found.len(),
        owned: 0,
        blamed: 0,
        trials: found.iter().map(|found| found.trials).collect(),
        lowers: found.iter().filter_map(|found| found.lower).collect(),
        limit_per_s: fault.limit_per_s,
    };
    for found in &found {
        let owned = found.tipping.as_ref().is_some_and(|tipping| {
            matches!(
                tipping.outcome,
                Outcome::GeneratorLimited { .. } | Outcome::Unconfirmed { .. }
            )
        });
        score.owned += usize::from(owned);
        // If the server is the limit after all, naming it is right.
        score.blamed += usize::from(fault.limit_per_s.is_finite() && found.blames_the_server());
    }
    score.trials.sort_unstable();
    score.lowers.sort_by(f64::total_cmp);
    score
}
