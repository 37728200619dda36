//! The heat map: how many operations of a column took how long.

use plimsoll_model::{Histogram, Nanos};
use serde::Serialize;

use super::number;

/// Rows in each factor of ten: each is 10 % longer than the one before.
const ROWS_PER_DECADE: usize = 24;
/// From 1 us ...
const LEAST_EXPONENT: i32 = -6;
/// ... to 10,000 s, which is more than any latency that is recorded.
const DECADES: usize = 10;
/// A map of fewer decades looks as if little differences were large.
const DECADES_MIN: usize = 3;

/// The map.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Heat {
    /// The limits of the rows, milliseconds, ascending; one more than there are rows.
    pub rows: Vec<f64>,
    /// Seconds of one column.
    pub column_s: f64,
    /// Each column: row, operations, row, operations, …
    pub corrected: Vec<Cells>,
    /// Cells of latency from the actual send.
    pub uncorrected: Vec<Cells>,
}

/// A column: row, operations, row, operations, …
pub type Cells = Vec<u64>;

/// The rows that a map has, of all there could be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    first: usize,
    count: usize,
}

impl Range {
    /// Rows of a run in progress, whose longest latency is not known: 0.1 ms to 10 s.
    pub(super) const LIVE: Self = Self { first: 2 * ROWS_PER_DECADE, count: 5 * ROWS_PER_DECADE };

    /// Returns the decades in which `columns` have operations.
    pub(super) fn of<'a>(columns: impl Iterator<Item = &'a Cells>) -> Self {
        let rows = columns.flat_map(|cells| cells.iter().step_by(2).map(|row| *row as usize));
        let (mut first, mut last) = (usize::MAX, 0);
        for row in rows {
            first = first.min(row / ROWS_PER_DECADE);
            last = last.max(row / ROWS_PER_DECADE);
        }
        if first > last {
            return Self::LIVE;
        }
        let end = (last + 1).max(first + DECADES_MIN).min(DECADES);
        let first = first.min(end - DECADES_MIN);
        Self { first: first * ROWS_PER_DECADE, count: (end - first) * ROWS_PER_DECADE }
    }

    /// Returns the limits of the rows, milliseconds.
    pub(super) fn edges(self) -> Vec<f64> {
        let edge = |row: usize| number::short(edge_s(row) * 1e3).unwrap_or_default();
        (self.first..=self.first + self.count).map(edge).collect()
    }

    /// Returns the cells of a column, with the rows of this map; what lies outside is in its first or last row.
    pub(super) fn cells(self, all: &Cells) -> Cells {
        let mut cells = Cells::new();
        for pair in all.chunks_exact(2) {
            let row =
                (pair[0] as usize).clamp(self.first, self.first + self.count - 1) - self.first;
            push(&mut cells, row, pair[1]);
        }
        cells
    }
}

fn push(cells: &mut Cells, row: usize, count: u64) {
    match cells.len() {
        length if length > 0 && cells[length - 2] == row as u64 => cells[length - 1] += count,
        _ => cells.extend([row as u64, count]),
    }
}

/// Returns the lower edge of a row, seconds.
fn edge_s(row: usize) -> f64 {
    10_f64.powf(f64::from(LEAST_EXPONENT) + row as f64 / ROWS_PER_DECADE as f64)
}

fn row_of(span: Nanos) -> usize {
    let exponent = span.as_secs_f64().max(1e-9).log10() - f64::from(LEAST_EXPONENT);
    ((exponent * ROWS_PER_DECADE as f64).max(0.0) as usize).min(DECADES * ROWS_PER_DECADE - 1)
}

/// Returns the cells of a histogram, in all rows there could be.
pub(super) fn cells(histogram: &Histogram) -> Cells {
    let mut cells = Cells::new();
    let (mut row, mut end) = (0, Nanos::ZERO);
    for (span, count) in histogram.buckets() {
        // Most buckets are in the row of the one before, and a logarithm for each takes as long as reading them.
        if span >= end {
            row = row_of(span);
            end = Nanos::from_secs_f64(edge_s(row + 1));
        }
        push(&mut cells, row, count);
    }
    cells
}
