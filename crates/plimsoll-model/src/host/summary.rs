//! What the hosts of a run did, in a few figures: `hosts` of the summary.

use serde::{Deserialize, Serialize};

use super::metric::{Label, Metric};
use super::reading::{Change, Reading};
use crate::{Histogram, Nanos};

/// One host over a whole run. What was not read is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/json.md")]
pub struct HostSummary {
    /// What its processes did in the run: `backend`, `client`, `server`.
    pub roles: Vec<String>,
    pub cpus: Option<f64>,
    pub established_max: Option<f64>,
    pub cpu_max: Option<f64>,
    pub memory_max: Option<f64>,
    pub packets_per_s_max: Option<f64>,
    pub bytes_per_s_max: Option<f64>,
    /// `None` where the yardstick did not run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<HostSpeed>,
    /// CPU time of the yardstick's piece of work, between each two readings.
    #[serde(skip)]
    pieces: Histogram,
    /// In the trial of the highest load that met the SLO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub below: Option<HostFigures>,
    /// In a trial above the tipping point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub above: Option<HostFigures>,
}

/// Speed of the CPUs of a host between two readings, 1 for the median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see HostSummary")]
pub struct HostSpeed {
    pub min: f64,
    pub p10: f64,
    /// CPU time of the yardstick's piece of work that is 1, microseconds.
    pub median_us: f64,
}

/// What a host did in some seconds. What was not read is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see HostSummary")]
pub struct HostFigures {
    pub cpu: Option<f64>,
    pub busiest_cpu: Option<f64>,
    pub softirq: Option<f64>,
    pub steal: Option<f64>,
    pub run_delay: Option<f64>,
    pub memory_bytes: Option<f64>,
    pub established: Option<f64>,
    pub bytes_per_s: Option<f64>,
    pub packets_per_s: Option<f64>,
    pub retransmits_per_s: Option<f64>,
    pub drops_per_s: Option<f64>,
    pub listen_overflows_per_s: Option<f64>,
    /// CPU time of the yardstick's piece of work, microseconds.
    #[serde(default)]
    pub yardstick_us: Option<f64>,
    /// Mean of the CPUs.
    #[serde(default)]
    pub cpu_hertz: Option<f64>,
}

impl HostFigures {
    /// From the first reading to the last.
    pub fn between(first: &Reading, last: &Reading) -> Self {
        let change = Change::new(first, last);
        let rate = |metric| change.rate(metric, &[]);
        let cpus = last.sum(Metric::HostInfo, &[]).filter(|cpus| *cpus > 0.0);
        let mode = |mode| {
            let labels = [(Label::Mode, mode)];
            Some((Change::new(first, last).rate(Metric::CpuSeconds, &labels)? / cpus?).min(1.0))
        };
        let busy: Vec<f64> = change.busy_cpus().into_iter().map(|(_, busy)| busy).collect();
        let drops = [Metric::NetworkDrops, Metric::SoftnetDropped].map(rate);
        Self {
            cpu: mean(busy.iter().copied()),
            busiest_cpu: busy.into_iter().reduce(f64::max),
            softirq: mode("softirq"),
            steal: mode("steal"),
            run_delay: rate(Metric::ProcessRunDelaySeconds),
            memory_bytes: last
                .sum(Metric::MemoryTotalBytes, &[])
                .zip(last.sum(Metric::MemoryAvailableBytes, &[]))
                .map(|(total, available)| total - available),
            established: last.sum(Metric::TcpEstablished, &[]),
            bytes_per_s: rate(Metric::NetworkBytes),
            packets_per_s: rate(Metric::NetworkPackets),
            retransmits_per_s: rate(Metric::TcpRetransmitted),
            drops_per_s: drops.into_iter().flatten().reduce(|all, one| all + one),
            listen_overflows_per_s: rate(Metric::TcpListenOverflows),
            yardstick_us: yardstick_us(change),
            cpu_hertz: mean(last.of(Metric::CpuFrequency, &[]).map(|sample| sample.value)),
        }
    }
}

/// CPU time of the yardstick's piece of work: its mean on each CPU, and of these the mean.
fn yardstick_us(change: Change<'_>) -> Option<f64> {
    let pieces = change.growth(Metric::YardstickPieces, &[]);
    mean(pieces.filter(|(_, pieces)| *pieces > 0.0).filter_map(|(series, pieces)| {
        let cpu = [(Label::Cpu, series.label(Label::Cpu)?)];
        Some(1e6 * change.grown(Metric::YardstickSeconds, &cpu)? / pieces)
    }))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    (count > 0.0).then(|| sum / count)
}

impl HostSummary {
    /// All of a host's readings, in order.
    pub fn of(readings: &[Reading]) -> Self {
        let mut summary = Self::default();
        let before = std::iter::once(None).chain(readings.iter().map(Some));
        before.zip(readings).for_each(|(before, now)| summary.add(before, now));
        summary.finish()
    }

    /// Compares what can be compared only when all readings were added.
    pub fn finish(mut self) -> Self {
        let us = |quantile| self.pieces.quantile(quantile).map(|took| took.0 as f64 / 1e3);
        self.speed = match (us(0.5), us(0.9), us(1.0)) {
            (Some(median_us), Some(p90_us), Some(max_us)) => {
                Some(HostSpeed { min: median_us / max_us, p10: median_us / p90_us, median_us })
            }
            _ => None,
        };
        self.pieces = Histogram::default();
        self
    }

    /// Adds the reading `now`, which follows `before`.
    pub fn add(&mut self, before: Option<&Reading>, now: &Reading) {
        for info in now.of(Metric::ProcessInfo, &[]) {
            let role = info.series.label(Label::Role).unwrap_or_default();
            if !self.roles.iter().any(|known| known == role) {
                self.roles.push(role.to_owned());
                self.roles.sort();
            }
        }
        self.cpus = now.sum(Metric::HostInfo, &[]).or(self.cpus);
        let Some(before) = before else { return };
        let figures = HostFigures::between(before, now);
        if let Some(us) = figures.yardstick_us {
            self.pieces.record(Nanos((1e3 * us) as u64));
        }
        for (most, figure) in [
            (&mut self.established_max, figures.established),
            (&mut self.cpu_max, figures.cpu),
            (&mut self.memory_max, figures.memory_bytes),
            (&mut self.packets_per_s_max, figures.packets_per_s),
            (&mut self.bytes_per_s_max, figures.bytes_per_s),
        ] {
            *most = [*most, figure].into_iter().flatten().reduce(f64::max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(second: u64, idle: [f64; 2], bytes: f64, available: f64) -> Reading {
        let at = Nanos::from_secs(second);
        let mut reading = Reading { begin: at, end: at, ..Reading::default() };
        reading.add(Metric::HostInfo, &[], 2.0);
        for (cpu, idle) in ["0", "1"].into_iter().zip(idle) {
            let labels = [(Label::Cpu, cpu), (Label::Mode, "idle")];
            reading.add(Metric::CpuSeconds, &labels, idle);
        }
        let role = [(Label::Process, "haproxy"), (Label::Role, "server")];
        reading.add(Metric::ProcessInfo, &role, 1.0);
        reading.add(Metric::NetworkBytes, &[(Label::Device, "lo")], bytes);
        reading.add(Metric::MemoryTotalBytes, &[], 1_000.0);
        reading.add(Metric::MemoryAvailableBytes, &[], available);
        reading.sort();
        reading
    }

    #[test]
    fn the_most_of_any_second_is_kept() {
        let readings = [
            reading(1, [10.0, 20.0], 0.0, 900.0),
            reading(2, [10.5, 20.75], 4_000.0, 300.0),
            reading(3, [11.5, 21.75], 5_000.0, 800.0),
        ];
        let mut summary = HostSummary::default();
        let mut before = None;
        for now in &readings {
            summary.add(before, now);
            before = Some(now);
        }
        let near = |seen: Option<f64>, expected: f64| {
            assert!(seen.is_some_and(|seen| (seen - expected).abs() < 1e-9), "{seen:?} {expected}");
        };
        near(summary.cpu_max, 0.375);
        near(summary.bytes_per_s_max, 4_000.0);
        near(summary.memory_max, 700.0);
        near(summary.cpus, 2.0);
        assert_eq!((summary.roles, summary.established_max), (vec!["server".to_owned()], None));
        let whole = HostFigures::between(&readings[0], &readings[2]);
        near(whole.busiest_cpu, 0.25);
        near(whole.cpu, 0.1875);
        assert_eq!((whole.softirq, whole.drops_per_s), (None, None));
    }

    #[test]
    fn speed_is_relative_to_the_median_and_the_mean_of_the_cpus() {
        let mut sums = [0.0, 0.0];
        let mut readings = Vec::new();
        // CPU 1 is slower by 20 us all the time, both in every fifth second.
        for second in 0..11 {
            let at = Nanos::from_secs(second);
            let mut reading = Reading { begin: at, end: at, ..Reading::default() };
            for (cpu, sum) in ["0", "1"].into_iter().zip(&mut sums) {
                let us = [390.0, 410.0][usize::from(cpu == "1")];
                *sum += 2.0 * us * if second % 5 == 0 { 1.25 } else { 1.0 } / 1e6;
                reading.add(Metric::YardstickSeconds, &[(Label::Cpu, cpu)], *sum);
                reading.add(Metric::YardstickPieces, &[(Label::Cpu, cpu)], 2.0 * second as f64);
            }
            reading.sort();
            readings.push(reading);
        }
        let speed = HostSummary::of(&readings).speed.unwrap();
        let near = |seen: f64, expected: f64| assert!((seen / expected - 1.0).abs() < 0.002);
        near(speed.median_us, 400.0);
        near(speed.min, 0.8);
        near(speed.p10, 0.8);
        assert_eq!(HostSummary::of(&readings[..1]).speed, None);
    }
}
