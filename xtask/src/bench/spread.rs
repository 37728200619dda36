//! The median of a few figures beside their range.

use std::fmt;

/// Median, least and greatest of some figures; NaN when there were none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
    decimals: usize,
}

impl Spread {
    pub(crate) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let half = sorted.len() / 2;
        let is_even = sorted.len().is_multiple_of(2);
        let median = if is_even && half > 0 { (at(half - 1) + at(half)) / 2.0 } else { at(half) };
        Self { median, min: at(0), max: at(sorted.len().saturating_sub(1)), decimals: 2 }
    }

    /// Shown with so many digits behind the point.
    pub(crate) const fn decimals(mut self, decimals: usize) -> Self {
        self.decimals = decimals;
        self
    }
}

/// `7.30 (7.10 - 7.55)`: the median, then the range.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, min, max, decimals } = self;
        write!(f, "{median:.decimals$} ({min:.decimals$} - {max:.decimals$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        for (figures, shown) in [
            (vec![3.0, 1.0, 2.0], "2.00 (1.00 - 3.00)"), // unsorted
            (vec![1.0, 2.0, 4.0, 9.0], "3.00 (1.00 - 9.00)"), // between the middle two
            (vec![5.0], "5.00 (5.00 - 5.00)"),
            (vec![], "NaN (NaN - NaN)"), // never a number that was not measured
        ] {
            assert_eq!(Spread::of(figures).to_string(), shown);
        }
    }
}
