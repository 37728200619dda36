//! Rows of single operations: which are recorded, and what became of them.
//!
//! An operation is chosen when it comes due, before anything is known of it. A load without rows pays a
//! branch for each operation; one with rows copies 48 bytes for each that is recorded.

use plimsoll_model::pace::Shard;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::row::{Row, RowBatch};

use crate::slots::slot_mut;

/// Rows that a thread keeps until its second is over: 6 MB, of which only what is filled costs memory.
/// A thread makes fewer operations in a second; more can only end at once when all that wait are given up.
const ROWS_MAX: usize = 1 << 17;
/// An odd number that the schedule does not use: which operations are recorded has nothing to do with when
/// they are due.
const MIX: u64 = 0xD1B5_4A32_D192_ED03;

/// Mixes a seed by the last steps of SplitMix64: every bit of the seed decides every bit of the result.
pub(super) const fn mixed(seed: u64) -> u64 {
    let x = (seed ^ (seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// One worker's rows; `None` if nothing is recorded.
pub(super) struct Rows(Option<Box<Recorder>>);

struct Recorder {
    every: u32,
    /// Operations that are passed over before the next that is recorded; below `every`.
    left: u32,
    /// By slot: whether its current operation is recorded.
    marked: Vec<bool>,
    pub(super) batch: RowBatch,
}

impl Rows {
    pub(super) fn new(plan: &LoadPlan, shard: Shard) -> Self {
        let recorder = plan.rows.map(|rows| {
            let every = rows.every.max(1);
            let seed = plan.seed ^ u64::from(shard.index).wrapping_add(1).wrapping_mul(MIX);
            let left = (mixed(seed) % u64::from(every)) as u32;
            Box::new(Recorder { every, left, marked: Vec::new(), batch: RowBatch::default() })
        });
        Self(recorder)
    }

    /// Reports whether the operation that comes due now is recorded.
    #[inline]
    pub(super) fn choose(&mut self) -> bool {
        let Some(recorder) = &mut self.0 else { return false };
        let is_chosen = recorder.left == 0;
        recorder.left = if is_chosen { recorder.every - 1 } else { recorder.left - 1 };
        is_chosen
    }

    /// Notes whether the connection's current operation is recorded.
    #[inline]
    pub(super) fn attach(&mut self, index: u32, is_recorded: bool) {
        if let Some(recorder) = &mut self.0 {
            *slot_mut(&mut recorder.marked, index, || false) = is_recorded;
        }
    }

    /// Reports whether the connection's current operation is recorded.
    #[inline]
    pub(super) fn records(&self, index: u32) -> bool {
        let Some(recorder) = &self.0 else { return false };
        recorder.marked.get(index as usize).copied().unwrap_or(false)
    }

    pub(super) fn push(&mut self, row: Row) {
        let Some(recorder) = &mut self.0 else { return };
        let batch = &mut recorder.batch;
        if batch.rows.capacity() == 0 {
            batch.rows.reserve_exact(ROWS_MAX);
        }
        if batch.rows.len() < ROWS_MAX {
            batch.rows.push(row);
        } else {
            batch.dropped += 1;
        }
    }

    /// Takes the rows since the last call; `None` if there are none.
    pub(super) fn take(&mut self) -> Option<RowBatch> {
        let batch = &mut self.0.as_mut()?.batch;
        (*batch != RowBatch::default()).then(|| std::mem::take(batch))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use plimsoll_model::pace::{Arrivals, Profile};
    use plimsoll_model::plan::Pacing;
    use plimsoll_model::row::{RowEnd, RowPlan};
    use plimsoll_model::{Nanos, Rate};

    use super::*;

    fn rows(every: u32, index: u32, seed: u64) -> Rows {
        let address: SocketAddr = ([127, 0, 0, 1], 80).into();
        let profile = Profile::constant(Rate::ZERO, Nanos::from_secs(1));
        let pacing = Pacing::Open { profile, arrivals: Arrivals::Uniform };
        let plan = LoadPlan {
            rows: Some(RowPlan { every }),
            seed,
            ..LoadPlan::plain(&[&[address]], pacing)
        };
        Rows::new(&plan, Shard { index, of: 4 })
    }

    #[test]
    fn every_kth_operation_is_chosen_from_a_place_that_the_seed_decides() {
        let mut places = std::collections::BTreeSet::new();
        for seed in 0..40 {
            let mut rows = rows(7, 2, seed);
            let chosen: Vec<_> = (0..70).filter(|_| rows.choose()).collect();
            assert_eq!(chosen.len(), 10);
            assert!(chosen.windows(2).all(|pair| pair[1] - pair[0] == 7), "{chosen:?}");
            places.insert(chosen[0]);
        }
        assert_eq!(places.len(), 7, "{places:?}");
        let mut all = rows(1, 0, 1);
        assert!((0..10).all(|_| all.choose()));
        assert!(!Rows(None).choose());
    }

    #[test]
    fn a_full_buffer_drops_and_counts() {
        let mut rows = rows(1, 0, 1);
        let row = Row {
            intended: Nanos(1),
            sent: None,
            ended: Nanos(2),
            status: 0,
            end: RowEnd::Unsent,
            body_bytes: 0,
            target: 0,
        };
        assert_eq!(rows.take(), None);
        (0..ROWS_MAX + 3).for_each(|_| rows.push(row));
        let batch = rows.take().expect("there are some");
        assert_eq!((batch.rows.len(), batch.dropped), (ROWS_MAX, 3));
        assert_eq!(batch.rows.capacity(), ROWS_MAX);
        assert_eq!(rows.take(), None);
    }
}
