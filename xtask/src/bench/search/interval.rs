//! The interval in which a search found the tipping point.

use std::fmt;

/// Bounds, in operations per second or connections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) lower: f64,
    pub(crate) upper: f64,
}

impl Interval {
    /// Relative width: `upper / lower - 1`.
    pub(crate) fn width(&self) -> f64 {
        self.upper / self.lower - 1.0
    }

    /// Whether both have a load in common; a bound is part of its interval.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.lower <= other.upper && other.lower <= self.upper
    }

    pub(crate) fn contains(&self, load: f64) -> bool {
        (self.lower..=self.upper).contains(&load)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:.1}, {:.1}]", self.lower, self.upper)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_touch_overlap() {
        let first = Interval { lower: 1_000.0, upper: 1_050.0 };
        for (lower, upper, expected) in [
            (1_010.0, 1_020.0, true), // inside
            (900.0, 1_200.0, true),   // around
            (1_050.0, 1_100.0, true), // touches above
            (950.0, 1_000.0, true),   // touches below
            (1_050.1, 1_100.0, false),
            (900.0, 999.9, false),
        ] {
            let other = Interval { lower, upper };
            assert_eq!(first.overlaps(&other), expected, "{other:?}");
            assert_eq!(other.overlaps(&first), expected, "{other:?}");
        }
    }

    #[test]
    fn bounds_belong_to_the_interval() {
        let interval = Interval { lower: 440.0, upper: 450.0 };
        assert!(interval.contains(440.0) && interval.contains(450.0));
        assert!(!interval.contains(439.9) && !interval.contains(450.1));
        assert!((Interval { lower: 100.0, upper: 105.0 }.width() - 0.05).abs() < 1e-12);
    }
}
