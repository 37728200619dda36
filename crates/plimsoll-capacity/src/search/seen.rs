//! The machine and the server as they were observed in one trial.

use plimsoll_model::Nanos;
use plimsoll_model::trial::TrialMeasurement;

/// Observations of the machine and the server in one trial, if there were any.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Seen {
    pub(super) steal: Option<f64>,
    pub(super) run_delay: Option<f64>,
    pub(super) host_cpu: Option<f64>,
    /// Share of the time in which the server's threads wanted a CPU, and others had it.
    pub(super) starved: Option<f64>,
    /// CPU time of the server for each answer, microseconds; of its busiest thread where no more is
    /// known.
    pub(super) cost_us: Option<f64>,
}

impl Seen {
    pub(crate) fn of(measurement: &TrialMeasurement, carried_per_s: f64) -> Self {
        let observations = &measurement.observations;
        let scheduling = observations.scheduling;
        let steal = scheduling.and_then(|s| s.steal);
        let of_sut = observations.sut_cpu;
        let starved = of_sut.filter(|cpu| cpu.ran + cpu.waited > Nanos::ZERO).map(|cpu| {
            let (ran, waited) = (cpu.ran.as_secs_f64(), cpu.waited.as_secs_f64());
            waited / (ran + waited) + steal.unwrap_or_default()
        });
        let ran = of_sut.map(|cpu| cpu.ran.as_secs_f64() / measurement.window.as_secs_f64());
        let busy = ran.or(measurement.sut_busiest_thread).filter(|_| carried_per_s > 0.0);
        Self {
            steal,
            run_delay: scheduling.and_then(|s| s.run_delay),
            host_cpu: observations.host_cpu,
            starved,
            cost_us: busy.map(|busy| 1e6 * busy / carried_per_s),
        }
    }
}

#[cfg(test)]
impl Seen {
    /// Nothing but how much of the time the server waited for a CPU.
    pub(super) fn starved(share: f64) -> Self {
        Self { starved: Some(share), ..Self::default() }
    }
}
