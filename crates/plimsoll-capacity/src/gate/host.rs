//! The speed of the hosts that two runs were made on, and the change that remains at one speed.
//!
//! The yardstick is a fixed piece of work that is timed in both runs. How much of the host's speed a server feels is
//! not known from two runs: code that stays in the first caches feels nothing of a neighbour, and a chain of cache
//! misses feels all of it. So the change is stated for the usual part, and its interval covers every part.

use plimsoll_model::Nanos;
use plimsoll_model::gate::{Estimate, GateFinding, GateMetric, HostEffect};
use plimsoll_model::settings::{LoadSettings, Starts};
use plimsoll_model::summary::Summary;

use crate::stats::{mean, variance};

/// Fewest seconds of the yardstick that represent a run.
const SECONDS_MIN: usize = 10;
/// Neighbours slow a host for 2 to 8 s at a time, so that seconds are not independent.
const STRETCH_S: f64 = 5.0;
/// Speeds that differ by less are called the same.
const DIFFERENCE_MIN: f64 = 0.01;
/// Part of a change of the host's speed that a server usually feels, as an exponent. HAProxy's CPU time per answer rose
/// by 20 % while pointer chasing and socket calls took 48 % longer.
const USUALLY_FELT: f64 = 0.5;
/// Standard deviation of the difference of two runs of one server, relative, if the host's speed was not measured.
/// Three quick searches in a row on one otherwise idle host had middles of 36,655, 38,754 and 40,470/s: 5 % each.
const UNMEASURED: f64 = 0.07;
/// Answers in time over operations that were scheduled, from which a load with a rate was below the server's capacity.
const UNSATURATED: f64 = 0.99;

/// The speed of a host during a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSpeed {
    /// Mean of the logarithms of the piece's CPU time in seconds.
    log_piece: f64,
    /// Standard error of that mean.
    error: f64,
}

impl RunSpeed {
    /// Creates the speed from the CPU time of the yardstick's piece of work, second by second; `None` for fewer than
    /// ten seconds.
    ///
    /// The mean represents the run, not the median: in a run that was slow for about half of its time, the median is
    /// one of the two speeds at random.
    pub fn of(pieces: &[Nanos]) -> Option<Self> {
        let logs: Vec<f64> = pieces
            .iter()
            .filter(|piece| **piece > Nanos::ZERO)
            .map(|piece| piece.as_secs_f64().ln())
            .collect();
        if logs.len() < SECONDS_MIN {
            return None;
        }
        let log_piece = mean(logs.iter().copied())?;
        let count = logs.len() as f64;
        let error = (variance(&logs) / (count / STRETCH_S).max(1.0)).sqrt();
        Some(Self { log_piece, error })
    }
}

/// The dependence of a figure on the host's speed, as exponents of it.
struct SpeedEffect {
    usual: f64,
    /// With the sign of `usual`.
    most: f64,
}

/// `None` if the figure does not depend on the speed.
fn speed_effect(metric: GateMetric, runs: [&Summary; 2]) -> Option<SpeedEffect> {
    let of = |sign: f64, most: f64| {
        Some(SpeedEffect { usual: sign * most * USUALLY_FELT, most: sign * most })
    };
    match metric {
        GateMetric::Safe | GateMetric::TippingPoint => of(1.0, 1.0),
        GateMetric::Goodput if runs.into_iter().all(is_unsaturated) => None,
        GateMetric::Goodput => of(1.0, 1.0),
        // In a queue (M/M/1) at half of its capacity, the time in the system changes by twice as much as the capacity.
        GateMetric::P50 | GateMetric::P90 | GateMetric::P99 | GateMetric::P999 => of(-1.0, 2.0),
        GateMetric::Errors
        | GateMetric::MachineBytes
        | GateMetric::SutBytes
        | GateMetric::KernelBytes
        | GateMetric::UserBytes => None,
    }
}

/// A load with a rate whose goodput is that rate.
fn is_unsaturated(run: &Summary) -> bool {
    let is_open = |load: &LoadSettings| matches!(load.arrivals, Starts::Poisson | Starts::Uniform);
    let in_time = run.operations.ok.saturating_sub(run.operations.late) as f64;
    run.settings.has_load(is_open) && in_time >= UNSATURATED * run.operations.scheduled as f64
}

/// Restates a finding with both runs at the speed of the baseline's host; wider if that speed was not
/// measured in both.
pub(super) fn at_like_speed(
    found: GateFinding,
    summaries: [&Summary; 2],
    speeds: [Option<RunSpeed>; 2],
) -> GateFinding {
    let Some(SpeedEffect { usual, most }) = speed_effect(found.gate.metric, summaries) else {
        return found;
    };
    let Estimate { value, low, high } = found.change;
    let scaled = |change: f64, log: f64| (1.0 + change) * log.exp() - 1.0;
    let [Some(before), Some(now)] = speeds else {
        let wider = most.abs() * UNMEASURED.ln_1p();
        let change = Estimate { value, low: scaled(low, -wider), high: scaled(high, wider) };
        let host = Some(HostEffect::Unmeasured { widened: wider.exp_m1() });
        return GateFinding { host, ..found.with_change(change) };
    };
    // The run's speed over the baseline's: a shorter piece is a faster host.
    let log_ratio = before.log_piece - now.log_piece;
    let all = -most * log_ratio;
    let change = Estimate {
        value: scaled(value, -usual * log_ratio),
        low: scaled(low, all.min(0.0)),
        high: scaled(high, all.max(0.0)),
    };
    let chance = 2.0 * before.error.hypot(now.error);
    let host = HostEffect::Measured {
        speed: log_ratio.exp(),
        is_distinct: log_ratio.abs() > chance.max(DIFFERENCE_MIN),
        observed: value,
    };
    GateFinding { host: Some(host), ..found.with_change(change) }
}

#[cfg(test)]
mod tests;
