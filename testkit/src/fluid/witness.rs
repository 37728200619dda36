//! Observations beside the tally of a trial.

use plimsoll_model::Nanos;
use plimsoll_model::observation::{Observations, Scheduling, SutCpu};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::TrialSecond;

use crate::anomalies::HostSpeed;
use crate::sut::normal;

use super::flow::{Cursor, Flow, Point, seconds};
use super::{Fluid, SLICE_S, Trial};

/// CPU time of the yardstick's piece of work at the usual speed of the host.
const YARDSTICK: Nanos = Nanos::from_millis(2);
/// Standard deviation of the yardstick's mean in one second, relative.
const YARDSTICK_SD: f64 = 0.02;
/// Deviation of a reading of the server's CPU time in one second.
const SUT_CPU_SD: f64 = 0.01;
/// Share of the server's CPU time that is system time: a proxy mostly moves bytes.
const SYSTEM_SHARE: f64 = 0.5;

impl Fluid {
    pub(super) fn observations(
        &mut self,
        trial: &Trial,
        tally: &Tally,
        window: Nanos,
    ) -> Observations {
        let sent_per_s = tally.scheduled as f64 / seconds(window).max(1e-9);
        let wants = (sent_per_s / self.generator.capacity_per_s).min(1.0);
        // The thread waits while another process has its core.
        let waits =
            self.generator.rival * (wants / (1.0 - self.generator.rival).max(0.01)).min(1.0);
        let paused = trial.rates.pause.map_or(0.0, |(from, to)| (to - from) / trial.rates.window_s);
        let quiet = 0.004 * self.rng.f64();
        Observations {
            scheduling: Some(Scheduling {
                run_delay: Some((waits + paused + quiet).min(1.0)),
                // Another process gets the core in slices of milliseconds.
                wait_mean: None,
                steal: Some(0.002 * self.rng.f64()),
                throttled_periods: Some(0),
            }),
            ..Observations::default()
        }
    }

    /// Returns the server's CPU time over the window.
    pub(super) fn sut_cpu(&self, trial: &Trial, flow: &Flow, window: Nanos) -> SutCpu {
        Work::new(self, trial, flow).until(seconds(window))
    }

    /// Adds what the witnesses show in each second.
    pub(super) fn witness(&mut self, trial: &Trial, flow: &Flow, by_second: &mut [TrialSecond]) {
        let mut work = Work::new(self, trial, flow);
        let mut error = |sd: f64| 1.0 + sd * normal(&mut self.witness_rng);
        for (index, second) in by_second.iter_mut().enumerate() {
            let cpu = work.until(index as f64 + 1.0);
            let error_of_cpu = error(SUT_CPU_SD);
            let reads = |span: Nanos| Nanos::from_secs_f64(seconds(span) * error_of_cpu);
            second.sut_cpu = Some(SutCpu {
                ran: reads(cpu.ran),
                system: reads(cpu.system),
                waited: reads(cpu.waited),
            });
            let slowness = slowness_in(&trial.host, index as f64, index as f64 + 1.0);
            let took_s = seconds(YARDSTICK) * slowness * error(YARDSTICK_SD);
            second.yardstick = Some(Nanos::from_secs_f64(took_s));
        }
    }
}

/// Returns the mean time that work took between two instants of a trial, over the usual one.
fn slowness_in(host: &[f64], from_s: f64, to_s: f64) -> f64 {
    let index = |t: f64| ((t / SLICE_S).round() as usize).min(host.len());
    let slices = &host[index(from_s)..index(to_s)];
    if slices.is_empty() {
        return 1.0;
    }
    slices.iter().map(|speed| 1.0 / speed).sum::<f64>() / slices.len() as f64
}

/// The work of one thread that serves every request, followed through a trial.
struct Work<'a> {
    trial: &'a Trial,
    cursor: Cursor<'a>,
    last: Point,
    speed: Option<HostSpeed>,
    idle_cost: f64,
    /// `true` if another program uses the server's CPU at times.
    is_shared: bool,
}

impl<'a> Work<'a> {
    fn new(fluid: &Fluid, trial: &'a Trial, flow: &'a Flow) -> Self {
        Self {
            trial,
            cursor: Cursor::new(flow),
            last: Point::default(),
            speed: fluid.anomalies.speed,
            idle_cost: fluid.anomalies.idle_cost,
            is_shared: fluid.anomalies.rival.is_some(),
        }
    }

    /// From where it was followed to until `to_s`. A request costs what it costs alone on the host, at the
    /// host's speed.
    fn until(&mut self, to_s: f64) -> SutCpu {
        let begin = self.last;
        let mut ran_s = 0.0;
        while self.last.t < to_s {
            let (end_s, share) = self.slice(to_s);
            let next = self.cursor.at(end_s);
            let loaded_s =
                (next.answered - self.last.answered) / (self.trial.rates.capacity * share);
            let idle = (1.0 - loaded_s / (end_s - self.last.t)).clamp(0.0, 1.0);
            ran_s += loaded_s * (1.0 + self.idle_cost * idle);
            self.last = next;
        }
        let wanted_s = self.last.busy_s - begin.busy_s;
        let waited_s = if self.is_shared { (wanted_s - ran_s).max(0.0) } else { 0.0 };
        SutCpu {
            ran: Nanos::from_secs_f64(ran_s),
            system: Nanos::from_secs_f64(SYSTEM_SHARE * ran_s),
            waited: Nanos::from_secs_f64(waited_s),
        }
    }

    /// Returns the time for which the host's speed lasts, at most until `to_s`, and the share of its capacity that the
    /// server has at that speed.
    fn slice(&self, to_s: f64) -> (f64, f64) {
        let host = &self.trial.host;
        let (Some(speed), false) = (self.speed, host.is_empty()) else { return (to_s, 1.0) };
        let index = (self.last.t / SLICE_S + 1e-6) as usize;
        let host = host[index.min(host.len() - 1)];
        (to_s.min((index as f64 + 1.0) * SLICE_S), speed.capacity_share(host))
    }
}
