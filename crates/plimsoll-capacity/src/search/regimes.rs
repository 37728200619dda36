//! The observed speeds of a server, with the capacity at each.

use plimsoll_model::Rate;
use plimsoll_model::trial::Regime;

use super::fit::Fit;

/// Speeds that differ by less are one, logarithmic.
const SAME: f64 = 0.03;

/// Returns the regimes of a fit, whose interval applies to the slowest: the slowest first; empty if there was one
/// speed, or no interval.
pub(super) fn regimes(fit: &Fit) -> Vec<Regime> {
    let Some((lower, upper)) = fit.lower.zip(fit.upper) else { return Vec::new() };
    let by_level = fit.paces.regimes(&fit.trials);
    let depth = fit.speeds.depth;
    // How much more each carries than the slowest, and its weight.
    let speeds = match by_level.len() {
        0 | 1 if depth < SAME => return Vec::new(),
        0 | 1 => {
            let slow = fit.speeds.share_of_slow;
            vec![(0.0, slow), (depth, 1.0 - slow)]
        }
        _ => by_level,
    };
    let all: f64 = speeds.iter().map(|(_, weight)| weight).sum();
    let usual = speeds.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(0.0, |(over, _)| *over);
    let regime = |(over, weight): &(f64, f64)| Regime {
        share: weight / all.max(f64::MIN_POSITIVE),
        speed: (over - usual).exp(),
        lower: Rate::per_second(lower * over.exp()),
        upper: Rate::per_second(upper * over.exp()),
    };
    speeds.iter().map(regime).collect()
}
