//! The loads that may be offered: a geometric grid that starts at the lowest load.
//!
//! Two searches with the same settings use the same loads, so their intervals are equal, touch or
//! lie whole cells apart.

/// A grid with the same number of cells in every doubling, each no wider than the mode asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// The load that the grid starts at, operations per second.
    pub(crate) lowest: f64,
    cells_per_doubling: f64,
}

/// A bracket this much wider than asked, in cells, is not split: rounding in log2 and exp2.
const EPSILON: f64 = 1e-6;

impl Grid {
    /// Creates a grid from `lowest` operations per second up; `width_max` is relative, 0.05 for 5 %.
    pub(crate) fn new(lowest: f64, width_max: f64) -> Self {
        Self { lowest, cells_per_doubling: (2f64.ln() / (1.0 + width_max).ln()).ceil() }
    }

    /// Moves the cells to another lowest load.
    pub(crate) const fn from(&self, lowest: f64) -> Self {
        Self { lowest, ..*self }
    }

    fn position(&self, rate: f64) -> f64 {
        (rate / self.lowest).log2() * self.cells_per_doubling
    }

    /// The load of a cell's lower edge.
    fn at(&self, cell: f64) -> f64 {
        self.lowest * (cell / self.cells_per_doubling).exp2()
    }

    /// Cells from `low` to `high`.
    fn cells(&self, low: f64, high: f64) -> f64 {
        self.position(high) - self.position(low)
    }

    /// Returns the grid's load that is closest to `rate`.
    pub(crate) fn nearest(&self, rate: f64) -> f64 {
        self.at(self.position(rate).round())
    }

    /// Reports whether `high` is at most `cells` above `low`.
    pub(crate) fn within(&self, low: f64, high: f64, cells: u32) -> bool {
        self.cells(low, high) <= f64::from(cells) + EPSILON
    }

    /// Returns the grid's load `cells` away from `rate` (negative is below), wherever `rate` lies.
    pub(crate) fn step(&self, rate: f64, cells: i64) -> f64 {
        let position = self.position(rate);
        let from =
            if cells < 0 { (position - EPSILON).ceil() } else { (position + EPSILON).floor() };
        self.at(from + cells as f64)
    }

    /// Returns the lowest load of the grid that is not below `rate`.
    pub(crate) fn ceil(&self, rate: f64) -> f64 {
        self.at((self.position(rate) - EPSILON).ceil())
    }

    /// Returns the load that splits a bracket so that the upper part is a power of two of `unit` cells; `None` when no
    /// load of the grid lies strictly inside.
    pub(crate) fn split(&self, low: f64, high: f64, unit: u32) -> Option<f64> {
        let units = self.cells(low, high) / f64::from(unit);
        let upper_units = (units / 2.0).log2().round().max(0.0).exp2();
        let first = (self.position(low) + EPSILON).floor() + 1.0;
        let last = (self.position(high) - EPSILON).ceil() - 1.0;
        let cell = (self.position(high) - upper_units * f64::from(unit)).round();
        (first <= last).then(|| self.at(cell.clamp(first, last)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn cells_are_no_wider_than_asked() {
        for (width, cells) in [(0.05, 15.0), (0.02, 36.0), (0.01, 70.0)] {
            let grid = Grid::new(100.0, width);
            assert_eq!(grid.cells_per_doubling, cells);
            assert!(grid.step(100.0, 1) / 100.0 - 1.0 <= width);
            assert_eq!(grid.step(200.0, cells as i64), 400.0);
        }
    }

    proptest! {
        #[test]
        fn a_split_lies_inside_and_bisection_ends(
            low in 1.0f64..1e6, factor in 1.001f64..8.0, unit in 1u32..5, up in any::<bool>(),
        ) {
            let grid = Grid::new(1.0, 0.02);
            let (mut low, mut high) = (low, low * factor);
            let mut splits = 0;
            while !grid.within(low, high, unit) {
                let middle = grid.split(low, high, unit).expect("wider than a cell");
                prop_assert!(low < middle && middle < high);
                if up { low = middle } else { high = middle }
                splits += 1;
                prop_assert!(splits < 12);
            }
        }

        #[test]
        fn steps_leave_the_load_behind(rate in 1.0f64..1e6, cells in 1i64..40) {
            let grid = Grid::new(1.0, 0.05);
            prop_assert!(grid.step(rate, cells) > rate);
            prop_assert!(grid.step(rate, -cells) < rate);
        }
    }
}
