//! Means and medians of figures, in any unit; results are in the same.

/// The 97.5th percentile of the standard normal distribution: the ends of an interval of 95 %.
pub const Z_975: f64 = 1.96;

/// Returns the arithmetic mean; `None` of no values.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let add = |(sum, count): (f64, f64), value| (sum + value, count + 1.0);
    let (sum, count) = values.into_iter().fold((0.0, 0.0), add);
    (count > 0.0).then(|| sum / count)
}

/// Returns the median of an ascending sample; `None` if it is empty. Of an even number of values it is the mean of the
/// middle two.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// Returns the median of values in any order; `None` if there are none.
///
/// ```
/// use plimsoll_model::stats::median_of;
///
/// assert_eq!(median_of([9.0, 1.0, 2.0]), Some(2.0));
/// assert_eq!(median_of([4.0, 1.0, 2.0, 9.0]), Some(3.0));
/// assert_eq!(median_of([]), None);
/// ```
pub fn median_of(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    median(&sorted)
}

/// Returns the median of values in any order, the upper of the middle two if their number is even, in linear time;
/// `None` if there are none.
pub fn upper_median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().collect();
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means() {
        assert_eq!((mean([]), mean([1.0, 2.0, 6.0])), (None, Some(3.0)));
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
        assert_eq!((median_of([]), median_of([9.0, 1.0, 4.0, 2.0])), (None, Some(3.0)));
    }

    #[test]
    fn upper_medians() {
        assert_eq!((upper_median([]), upper_median([4.0, 9.0, 1.0, 2.0])), (None, Some(4.0)));
        assert_eq!(upper_median([9.0, 1.0, 2.0]), Some(2.0));
    }
}
