//! The machine and the server as they were observed in one trial.

use plimsoll_model::Nanos;
use plimsoll_model::observation::SutCpu;
use plimsoll_model::trial::TrialMeasurement;

/// A second in which the server wanted a CPU for less says nothing of who had it.
const WANTED_MIN: Nanos = Nanos::from_millis(100);

/// Observations of the machine and the server in one trial, if there were any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Conditions {
    pub(super) steal: Option<f64>,
    pub(super) run_delay: Option<f64>,
    pub(super) host_cpu: Option<f64>,
    /// See [`starved`].
    pub(super) starved: Option<f64>,
    /// CPU time of the server for each answer, microseconds; of its busiest thread if no more is
    /// known.
    pub(super) cost_us: Option<f64>,
}

impl Conditions {
    pub(crate) fn of(measurement: &TrialMeasurement, carried_per_s: f64) -> Self {
        let observations = &measurement.observations;
        let scheduling = observations.scheduling;
        let steal = scheduling.and_then(|s| s.steal);
        let of_sut = observations.sut_cpu;
        let ran = of_sut.map(|cpu| cpu.ran.as_secs_f64() / measurement.window.as_secs_f64());
        let busy = ran.or(measurement.sut_busiest_thread).filter(|_| carried_per_s > 0.0);
        Self {
            steal,
            run_delay: scheduling.and_then(|s| s.run_delay),
            host_cpu: observations.host_cpu,
            starved: starved(measurement),
            cost_us: busy.map(|busy| 1e6 * busy / carried_per_s),
        }
    }
}

/// Returns the share of the time in which the server's threads wanted a CPU, and others had it: of the second in which
/// that was most, if seconds are known.
pub(crate) fn starved(measurement: &TrialMeasurement) -> Option<f64> {
    let observations = &measurement.observations;
    let by_second = measurement.seconds.iter().filter_map(|second| second.sut_cpu);
    let worst = by_second.filter_map(|cpu| waited_share(cpu, WANTED_MIN)).reduce(f64::max);
    let share = worst.or_else(|| waited_share(observations.sut_cpu?, Nanos::ZERO))?;
    let steal = observations.scheduling.and_then(|scheduling| scheduling.steal);
    Some(share + steal.unwrap_or_default())
}

/// Returns the share of the time in which a CPU was wanted that none was had; `None` if one was wanted for no longer
/// than `least`.
fn waited_share(cpu: SutCpu, least: Nanos) -> Option<f64> {
    let wanted = cpu.ran + cpu.waited;
    (wanted > least).then(|| cpu.waited.as_secs_f64() / wanted.as_secs_f64())
}

#[cfg(test)]
impl Conditions {
    /// Conditions of which only the server's waits for a CPU are known.
    pub(super) fn starved(share: f64) -> Self {
        Self { starved: Some(share), ..Self::default() }
    }
}
