//! Repeats of INVALID trials.

use plimsoll_model::trial::{CheckId, Judgement, Phase};

/// INVALID trials in a row at one load that end the search there: a disturbance that spoils one trial
/// in ten hardly ever reaches all of them.
const INVALID_MAX: u32 = 4;

/// Repeats of INVALID trials, over more threads if those may help.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeats {
    pub(super) invalid_in_a_row: u32,
    /// The last INVALID trial may have lacked threads.
    pub(super) may_need_threads: bool,
    /// Factor on the usual number of threads; more once that has helped.
    pub(super) split: u32,
}

impl Default for Repeats {
    fn default() -> Self {
        Self { invalid_in_a_row: 0, may_need_threads: false, split: 1 }
    }
}

impl Repeats {
    /// Counts an INVALID trial; returns whether it is to be repeated at once.
    pub(super) fn count(&mut self, phase: Phase, judgement: &Judgement) -> bool {
        self.may_need_threads = judgement.deciding().any(|check| threads_may_help(&check.id));
        let is_repeated = !matches!(phase, Phase::Sentinel | Phase::Safe);
        self.invalid_in_a_row += u32::from(is_repeated);
        is_repeated
    }

    /// Reports whether there were enough of them; counting then begins anew.
    pub(super) const fn are_over(&mut self) -> bool {
        let are_over = self.invalid_in_a_row >= INVALID_MAX;
        if are_over {
            self.invalid_in_a_row = 0;
        }
        are_over
    }
}

/// Reports whether a check may fail for lack of threads. What else a generator lacks, threads do not give.
const fn threads_may_help(check: &CheckId) -> bool {
    !matches!(
        check,
        CheckId::LocalErrors
            | CheckId::Pool
            | CheckId::PathLoss
            | CheckId::PeerCounters
            | CheckId::Unrequested
            | CheckId::GeneratorNetwork
            | CheckId::GeneratorMemory
    )
}
