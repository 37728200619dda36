//! The median of a sample, and the interval around it that order statistics give.

/// Nominal confidence of the interval.
const CONFIDENCE: f64 = 0.95;

/// The median of an ascending sample; `None` when it is empty.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        len if len % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// The median of values in any order; `None` where there are none.
pub fn median_of(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    median(&sorted)
}

/// The narrowest symmetric interval of ranks, from 0, that holds the median of any distribution
/// with at least 95 % confidence, and that confidence; `None` for fewer than six values.
///
/// The median lies below the value of rank r when at most r of n values are below the median:
/// heads of n tosses of a coin.
pub(crate) fn median_interval(n: usize) -> Option<((usize, usize), f64)> {
    // 2^-1074 is the smallest number there is.
    if n > 1000 {
        return None;
    }
    let mut tosses = 0.5f64.powi(n as i32);
    let mut below = 0.0;
    let mut found = None;
    for rank in 0..n / 2 {
        below += tosses;
        let confidence = 1.0 - 2.0 * below;
        if confidence < CONFIDENCE {
            break;
        }
        found = Some(((rank, n - 1 - rank), confidence));
        tosses *= (n - rank) as f64 / (rank + 1) as f64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 4.0, 9.0]), Some(3.0));
        assert_eq!((median_of([]), median_of([9.0, 1.0, 4.0, 2.0])), (None, Some(3.0)));
    }

    #[test]
    fn intervals_of_the_standard_table() {
        assert_eq!(median_interval(5), None);
        // Ranks from 1, and the coverage in percent.
        for (n, low, high, percent) in [
            (6, 1, 6, 96.9),
            (8, 1, 8, 99.2),
            (9, 2, 8, 96.1),
            (10, 2, 9, 97.9),
            (12, 3, 10, 96.1),
            (15, 4, 12, 96.5),
        ] {
            let (ranks, confidence) = median_interval(n).unwrap();
            assert_eq!((ranks.0 + 1, ranks.1 + 1), (low, high), "{n}");
            assert!((confidence * 100.0 - percent).abs() < 0.05, "{n}: {confidence}");
        }
    }
}
