//! The contrast of two colours, as WCAG 2.2 counts it.

/// Returns the contrast of two colours as CSS computes them, `rgb(1, 2, 3)` or `rgba(1, 2, 3, 0.5)`: from 1 to 21. What
/// is translucent is seen on `background`, which is not. `None` for any other notation.
pub(super) fn ratio(colour: &str, background: &str) -> Option<f64> {
    let (below, _) = parse(background)?;
    let (above, alpha) = parse(colour)?;
    let mixed = [0, 1, 2].map(|at| above[at] * alpha + below[at] * (1.0 - alpha));
    let (one, other) = (luminance(mixed), luminance(below));
    Some((one.max(other) + 0.05) / (one.min(other) + 0.05))
}

fn parse(colour: &str) -> Option<([f64; 3], f64)> {
    let (_, list) = colour.strip_suffix(')')?.split_once('(')?;
    let numbers: Vec<f64> =
        list.split(',').map(|part| part.trim().parse()).collect::<Result<_, _>>().ok()?;
    match numbers[..] {
        [r, g, b] => Some(([r, g, b], 1.0)),
        [r, g, b, alpha] => Some(([r, g, b], alpha)),
        _ => None,
    }
}

/// Relative luminance of an sRGB colour.
fn luminance(channels: [f64; 3]) -> f64 {
    let linear = channels.map(|channel| {
        let share = channel / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_those_of_the_specification() {
        let near = |colour, background, expected: f64| {
            let seen = ratio(colour, background).unwrap();
            assert!((seen - expected).abs() < 0.01, "{colour} on {background}: {seen}");
        };
        near("rgb(0, 0, 0)", "rgb(255, 255, 255)", 21.0);
        near("rgb(255, 255, 255)", "rgb(255, 255, 255)", 1.0);
        // The grey that just passes on white, and the next that does not.
        near("rgb(118, 118, 118)", "rgb(255, 255, 255)", 4.54);
        near("rgb(119, 119, 119)", "rgb(255, 255, 255)", 4.48);
        // Half of black on white is that grey of 127.5.
        near("rgba(0, 0, 0, 0.5)", "rgb(255, 255, 255)", 3.98);
        assert_eq!(ratio("color(srgb 1 1 1)", "rgb(0, 0, 0)"), None);
    }
}
