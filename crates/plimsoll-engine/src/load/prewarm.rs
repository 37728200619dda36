//! Opening the pools before the load begins.

use plimsoll_model::ErrorClass;
use plimsoll_model::plan::{LoadPlan, Pacing};

use super::pool::Pool;
use super::reasons::Why;

/// Connections that one worker opens at once before the start: enough to keep a server's core
/// busy, little enough that none of them waits long.
const PREWARM_AT_ONCE: u32 = 32;

/// Connections that are left to open, and the results of the others.
#[derive(Debug)]
pub(super) struct Prewarm {
    /// By destination.
    left: Vec<u32>,
    pub(super) opened: u64,
    pub(super) failed: u64,
    pub(super) first_error: Option<String>,
}

impl Prewarm {
    pub(super) fn new(plan: &LoadPlan, pools: &[Pool]) -> Self {
        let is_warm = plan.prewarm && plan.keepalive && !matches!(plan.pacing, Pacing::Hold(_));
        let left = pools.iter().map(|pool| if is_warm { pool.cap } else { 0 }).collect();
        Self { left, opened: 0, failed: 0, first_error: None }
    }

    /// Returns a destination that has another connection to open; `None` while enough are being opened.
    pub(super) fn next(&mut self, pools: &[Pool]) -> Option<u32> {
        let mut all = self.left.iter_mut().zip(pools).zip(0..);
        let may_open = |left: u32, opening| left > 0 && opening < PREWARM_AT_ONCE;
        let ((left, _), destination) =
            all.find(|((left, pool), _)| may_open(**left, pool.opening))?;
        *left -= 1;
        Some(destination)
    }

    /// Reports whether every connection is open or has failed.
    pub(super) fn is_done(&self, pools: &[Pool]) -> bool {
        self.left.iter().all(|left| *left == 0) && pools.iter().all(|pool| pool.opening == 0)
    }

    pub(super) fn count_failure(&mut self, destination: u32, class: ErrorClass, why: &dyn Why) {
        self.failed += 1;
        if self.first_error.is_none() {
            self.first_error = Some(format!("{}: {why}", class.name()));
        }
        if matches!(class, ErrorClass::Timeout | ErrorClass::ConnectTimeout) {
            // Each of the others would wait as long, and the start with it.
            self.left[destination as usize] = 0;
        }
    }
}
