//! The interval of several whole searches, by order statistics, which holds whatever the
//! results' distribution looks like.

use crate::stats::median_interval;

/// The interval over several searches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Combined {
    /// Lower end: a lower bound of one of them.
    pub lower: f64,
    /// Upper end: an upper bound of one of them.
    pub upper: f64,
    /// Confidence that it contains the median of all such searches; `None` for a single one.
    pub confidence: Option<f64>,
    /// Searches left out at each end.
    pub left_out: usize,
}

/// Combines the intervals of searches: all of them if they are few; if the interval without the
/// outermost has a confidence of 95 %, too, that one. `None` without any.
pub fn combine(intervals: &[(f64, f64)]) -> Option<Combined> {
    let sorted = |end: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = intervals.iter().map(end).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (lowers, uppers) = (sorted(|interval| interval.0), sorted(|interval| interval.1));
    let last = intervals.len().checked_sub(1)?;
    let all = (intervals.len() > 1).then(|| 1.0 - 0.5f64.powi(last as i32));
    let (left_out, confidence) = match median_interval(intervals.len()) {
        Some(((rank, _), confidence)) => (rank, Some(confidence)),
        None => (0, all),
    };
    let (lower, upper) = (lowers[left_out], uppers[last - left_out]);
    Some(Combined { lower, upper, confidence, left_out })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(count: u32) -> Option<Combined> {
        let intervals: Vec<_> = (0..count).map(|i| f64::from(i * 7 % count)).collect();
        combine(&intervals.iter().map(|low| (*low, low + 1.5)).collect::<Vec<_>>())
    }

    #[test]
    fn six_searches_give_97_percent() {
        assert_eq!(of(0), None);
        let confidence = |count| of(count).unwrap().confidence;
        assert_eq!((confidence(1), confidence(2)), (None, Some(0.5)));
        assert_eq!((confidence(3), confidence(5)), (Some(0.75), Some(0.9375)));
        let six = of(6).unwrap();
        assert_eq!((six.lower, six.upper, six.left_out), (0.0, 6.5, 0));
        assert!((six.confidence.unwrap() - 0.969).abs() < 1e-3);
    }

    #[test]
    fn of_many_the_outermost_are_left_out() {
        let nine = of(9).unwrap();
        assert_eq!((nine.lower, nine.upper, nine.left_out), (1.0, 8.5, 1));
        assert!(nine.confidence.unwrap() >= 0.95);
    }

    #[test]
    fn it_holds_the_median_as_often_as_it_says() {
        let mut rng = fastrand::Rng::with_seed(6);
        let rounds = 4_000;
        for count in [3, 6, 9] {
            let holds = (0..rounds).filter(|_| {
                // Capacities are skewed; each search sees its own within 2 %.
                let found: Vec<_> =
                    (0..count).map(|_| rng.f64().powi(2)).map(|c| (c * 0.99, c * 1.01)).collect();
                let all = combine(&found).unwrap();
                (all.lower..=all.upper).contains(&0.25)
            });
            let (share, stated) = (holds.count() as f64 / f64::from(rounds), {
                let same: Vec<_> = (0..count).map(|_| (1.0, 1.0)).collect();
                combine(&same).unwrap().confidence.unwrap()
            });
            assert!(share >= stated - 0.015, "{count}: {share}, stated {stated}");
        }
    }
}
