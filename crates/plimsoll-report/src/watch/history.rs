//! The last readings, for graphs and for slopes.

use std::collections::VecDeque;

use plimsoll_model::host::{Change, Reading};

/// Readings kept: one per column of a graph, and one more for the first difference.
pub(super) const READINGS_MAX: usize = 61;
/// Intervals over which the growth of a limit's use is taken.
const SLOPE_INTERVALS: usize = 10;

/// The last minute of a host, at one reading per second.
#[derive(Clone, Debug, Default)]
pub struct History(VecDeque<Reading>);

impl History {
    /// Adds a reading; the oldest is dropped when there are too many.
    pub fn push(&mut self, reading: Reading) {
        if self.0.len() == READINGS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(reading);
    }

    /// Returns the last interval; `None` before the second reading.
    pub fn change(&self) -> Option<Change<'_>> {
        self.changes().last()
    }

    /// Returns every interval, the oldest first.
    pub(super) fn changes(&self) -> impl Iterator<Item = Change<'_>> {
        self.0.iter().zip(self.0.iter().skip(1)).map(|(before, after)| Change::new(before, after))
    }

    /// Returns the interval over which a slope is taken.
    pub(super) fn slope(&self) -> Option<(&Reading, Change<'_>)> {
        let last = self.0.back()?;
        let before = self.0.get(self.0.len().saturating_sub(SLOPE_INTERVALS + 1))?;
        (self.0.len() > 1).then(|| (before, Change::new(before, last)))
    }
}
