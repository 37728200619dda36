//! Numbers of the document: short, and the same each time.

use plimsoll_model::Nanos;

/// Returns the number with four significant digits; `None` if it is none.
pub(super) fn short(value: f64) -> Option<f64> {
    if !value.is_finite() {
        return None;
    }
    if value == 0.0 {
        return Some(0.0);
    }
    // Read back from text, because a division leaves digits behind.
    format!("{value:.3e}").parse().ok()
}

/// Milliseconds with four significant digits.
pub(super) fn ms(span: Nanos) -> Option<f64> {
    short(span.as_secs_f64() * 1e3)
}

/// Returns an instant, seconds, to the hundredth.
pub(super) fn instant(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}
