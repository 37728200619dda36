//! Figures of the hosts of a run: `hosts` of the summary.
//!
//! [`HostSummary::add`] folds the readings of a host in order and stores roles, maxima, lost sources and a histogram
//! of the yardstick's times; [`HostSummary::finish`] turns that histogram into speeds relative to the median.
//! [`HostFigures::between`] computes rates between any two readings. A value that was not read is `None`. Shares are
//! 0 to 1, `run_delay` is seconds per second over all threads. Start reading at [`HostFigures::between`].

use serde::{Deserialize, Serialize};

use super::metric::{Label, Metric};
use super::reading::{Change, Reading};
use super::source::{EndStatus, Source, SourceKind, SourceState};
use crate::stats::mean;
use crate::{Histogram, Nanos};

/// One host over a whole run. What was not read is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct HostSummary {
    /// Roles of its processes in the run: `backend`, `client`, `server`.
    pub roles: Vec<String>,
    pub cpus: Option<f64>,
    pub established_max: Option<f64>,
    pub cpu_max: Option<f64>,
    pub memory_max: Option<f64>,
    pub packets_per_s_max: Option<f64>,
    pub bytes_per_s_max: Option<f64>,
    /// `None` if the yardstick did not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed: Option<HostSpeed>,
    /// CPU time of the yardstick's piece of work, between each two readings.
    #[serde(skip)]
    pieces: Histogram,
    /// The sources that the last reading did not have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources_lost: Vec<SourceSummary>,
    /// Time at which the first reading began.
    #[serde(skip)]
    began: Option<Nanos>,
    /// In the trial of the highest load that met the SLO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<HostFigures>,
    /// In a trial above the tipping point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<HostFigures>,
}

/// A source that could not be read at the end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see HostSummary")]
pub struct SourceSummary {
    pub kind: SourceKind,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// From the first reading of the host to the first one without the source.
    pub after_s: f64,
    /// Why it could not be read; `None` for a process that ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The process's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<EndStatus>,
}

impl SourceSummary {
    /// Returns the summary of `source`; `None` if it can be read.
    fn of(source: &Source, began: Nanos) -> Option<Self> {
        let (reason, ended) = match &source.state {
            SourceState::Reading => return None,
            SourceState::Missing { reason, .. } => (Some(reason.clone()), None),
            SourceState::Ended { status, .. } => (None, Some(*status)),
        };
        let (kind, name, pid) = (source.kind, source.name.clone(), source.pid);
        let after_s = source.since()?.since(began).as_secs_f64();
        Some(Self { kind, name, pid, after_s, reason, ended })
    }

    /// Returns the source with its state, whose instants count from the first reading of the host.
    pub fn source(&self) -> Source {
        let since = Nanos::from_secs_f64(self.after_s);
        let state = match self.ended {
            Some(status) => SourceState::Ended { since, status },
            None => SourceState::Missing { since, reason: self.reason.clone().unwrap_or_default() },
        };
        Source { kind: self.kind, name: self.name.clone(), pid: self.pid, state }
    }
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

/// Figures of a host over some seconds. A value that was not read is `None`.
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
    pub yardstick_us: Option<f64>,
    /// Mean of the CPUs.
    pub cpu_hertz: Option<f64>,
}

impl HostFigures {
    /// Summarises the change from the first reading to the last.
    pub fn between(first: &Reading, last: &Reading) -> Self {
        let change = Change::new(first, last);
        let rate = |metric| change.rate(metric, &[]);
        let cpus = last.sum(Metric::HostCpus, &[]).filter(|cpus| *cpus > 0.0);
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

impl HostSummary {
    /// Summarises all of a host's readings, in order.
    pub fn of(readings: &[Reading]) -> Self {
        let mut summary = Self::default();
        let before = std::iter::once(None).chain(readings.iter().map(Some));
        before.zip(readings).for_each(|(before, now)| summary.add(before, now));
        summary.finish()
    }

    /// Compares what can be compared only when all readings were added.
    pub fn finish(mut self) -> Self {
        let us = |quantile| self.pieces.quantile(quantile).map(|took| took.0 as f64 / 1e3);
        self.speed = us(0.5).zip(us(0.9)).zip(us(1.0)).map(|((median_us, p90_us), max_us)| {
            HostSpeed { min: median_us / max_us, p10: median_us / p90_us, median_us }
        });
        self.pieces = Histogram::default();
        self.began = None;
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
        let began = *self.began.get_or_insert(now.begin);
        let lost = now.sources.iter().filter_map(|source| SourceSummary::of(source, began));
        self.sources_lost = lost.collect();
        self.cpus = now.sum(Metric::HostCpus, &[]).or(self.cpus);
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
        reading.add(Metric::HostCpus, &[], 2.0);
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
    fn sources_that_the_last_reading_lacks_are_kept() {
        let mut readings = [1, 2, 4].map(|second| reading(second, [10.0, 20.0], 0.0, 900.0));
        let source = |name: &str, state| Source {
            kind: SourceKind::Process,
            name: name.to_owned(),
            pid: Some(7),
            state,
        };
        let (since, status) = (Nanos::from_secs(4), EndStatus::Killed(9));
        let missing =
            SourceState::Missing { since: Nanos::from_secs(2), reason: "gone".to_owned() };
        readings[1].add_source(source("back", missing));
        readings[2].add_source(source("back", SourceState::Reading));
        readings[2].add_source(source("haproxy", SourceState::Ended { since, status }));
        let lost = HostSummary::of(&readings).sources_lost;
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert_eq!((lost[0].name.as_str(), lost[0].after_s), ("haproxy", 3.0));
        assert_eq!((lost[0].ended, lost[0].reason.as_ref()), (Some(status), None));
        let json = serde_json::to_value(&lost[0]).expect("JSON");
        assert_eq!(json["ended"], serde_json::json!({ "killed": 9 }));
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
