//! Limits and how much of each is in use.

use super::metric::{Label, Metric};
use super::reading::Reading;

/// One limit.
#[derive(Clone, Debug, PartialEq)]
pub struct LimitUse {
    /// Its name: `open files`.
    pub limit: String,
    /// What it holds for: `host`, or a process.
    pub scope: String,
    /// In use.
    pub used: f64,
    /// The limit.
    pub max: f64,
}

impl LimitUse {
    /// The fraction in use.
    pub fn fraction(&self) -> f64 {
        if self.max > 0.0 { self.used / self.max } else { 0.0 }
    }

    /// Seconds until it is reached, when it goes on as since `earlier`, `seconds` ago; `None` while it
    /// does not grow.
    pub fn seconds_left(&self, earlier: &Self, seconds: f64) -> Option<f64> {
        let slope = (self.used - earlier.used) / seconds;
        (slope > 0.0).then(|| (self.max - self.used).max(0.0) / slope)
    }
}

/// Every limit that was read, with its use.
pub fn limits(reading: &Reading) -> impl Iterator<Item = LimitUse> {
    reading.of(Metric::LimitMax, &[]).filter_map(|max| {
        let limit = max.series.label(Label::Limit)?;
        let scope = max.series.label(Label::Scope)?;
        let used =
            reading.sum(Metric::LimitUsed, &[(Label::Limit, limit), (Label::Scope, scope)])?;
        let (limit, scope) = (limit.to_owned(), scope.to_owned());
        Some(LimitUse { limit, scope, used, max: max.value })
    })
}

/// The limits that are used most, the fullest first, at most `count`.
pub fn fullest_limits(reading: &Reading, count: usize) -> Vec<LimitUse> {
    let mut all: Vec<LimitUse> = limits(reading).collect();
    all.sort_by(|a, b| b.fraction().total_cmp(&a.fraction()));
    all.truncate(count);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_comes_first_and_says_when_it_ends() {
        let mut reading = Reading::default();
        for (limit, scope, used, max) in
            [("open files", "haproxy", 60.0, 100.0), ("open files", "host", 10.0, 1_000.0)]
        {
            let labels = [(Label::Limit, limit), (Label::Scope, scope)];
            reading.add(Metric::LimitUsed, &labels, used);
            reading.add(Metric::LimitMax, &labels, max);
        }
        // A limit whose use is not known is not listed.
        reading.add(Metric::LimitMax, &[(Label::Limit, "ports"), (Label::Scope, "host")], 5.0);
        reading.sort();
        let fullest = fullest_limits(&reading, 5);
        assert_eq!(fullest.len(), 2);
        assert_eq!((fullest[0].scope.as_str(), fullest[0].fraction()), ("haproxy", 0.6));
        let earlier = LimitUse { used: 40.0, ..fullest[0].clone() };
        assert_eq!(fullest[0].seconds_left(&earlier, 2.0), Some(4.0));
        assert_eq!(fullest[1].seconds_left(&fullest[1], 2.0), None);
    }
}
