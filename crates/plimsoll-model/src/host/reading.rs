//! One reading of a host, and the change between two readings.
//!
//! A [`Reading`] is a list of samples, each identified by a [`Series`] (metric and labels). The sampler adds values
//! and then calls [`Reading::sort`], because lookups rely on the order. [`Change`] compares two readings:
//! [`Change::growth`] subtracts counters and leaves out those that went backwards after a restart; rates divide by
//! the time between the middles of the readings. Missing values are absent, never 0. Start reading at [`Reading`] and
//! [`Change::growth`].

use serde::{Deserialize, Serialize};

use super::metric::{Label, Metric, MetricKind, Role};
use super::source::{Source, SourceState};
use crate::Nanos;

/// The owner of a value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Series {
    /// The metric.
    pub metric: Metric,
    /// Labels that distinguish it from the metric's other series, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<(Label, String)>,
}

impl Series {
    /// Returns the value of `label`.
    pub fn label(&self, label: Label) -> Option<&str> {
        self.labels.iter().find(|(name, _)| *name == label).map(|(_, value)| value.as_str())
    }

    fn has(&self, wanted: &[(Label, &str)]) -> bool {
        wanted.iter().all(|(label, value)| self.label(*label) == Some(value))
    }
}

/// One value of one series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The owner of the value.
    pub series: Series,
    /// Seconds, bytes or a count; counters are cumulative.
    pub value: f64,
}

/// A value that could not be read, and why: one line for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// The file, socket or process.
    pub source: String,
    /// Why.
    pub reason: String,
}

/// All that was read of a host at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// CLOCK_MONOTONIC when reading began.
    pub begin: Nanos,
    /// CLOCK_MONOTONIC when it ended.
    pub end: Nanos,
    /// The values, sorted by series.
    pub samples: Vec<Sample>,
    /// Values that could not be read.
    pub missing: Vec<Missing>,
    /// The sources that were asked for, and whether each of them could be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
}

impl Reading {
    /// Adds a value.
    pub fn add(&mut self, metric: Metric, labels: &[(Label, &str)], value: f64) {
        let mut labels: Vec<(Label, String)> =
            labels.iter().map(|(label, text)| (*label, (*text).to_owned())).collect();
        labels.sort();
        self.samples.push(Sample { series: Series { metric, labels }, value });
    }

    /// Adds a value that a source may not have.
    pub fn add_some(&mut self, metric: Metric, labels: &[(Label, &str)], value: Option<f64>) {
        if let Some(value) = value {
            self.add(metric, labels, value);
        }
    }

    /// Notes that `source` could not be read.
    pub fn miss(&mut self, source: impl Into<String>, reason: impl ToString) {
        self.missing.push(Missing { source: source.into(), reason: reason.to_string() });
    }

    /// Adds a source with its state, also as a value and, if it could not be read, to what is missing.
    pub fn add_source(&mut self, source: Source) {
        let labels = [(Label::Kind, source.kind.name()), (Label::Source, source.name.as_str())];
        self.add(Metric::SourceUp, &labels, f64::from(u8::from(source.is_up())));
        match &source.state {
            SourceState::Reading => {}
            SourceState::Missing { reason, .. } => self.miss(source.to_string(), reason),
            SourceState::Ended { .. } => self.miss(source.to_string(), "it has ended"),
        }
        self.sources.push(source);
    }

    /// Returns the sources that could not be read.
    pub fn sources_down(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().filter(|source| !source.is_up())
    }

    /// Puts the samples in order; the later of two of the same series is dropped.
    pub fn sort(&mut self) {
        self.samples.sort_by(|a, b| a.series.cmp(&b.series));
        self.samples.dedup_by(|later, first| later.series == first.series);
    }

    /// Returns the samples of `metric` that have the labels `wanted`.
    pub fn of<'a>(
        &'a self,
        metric: Metric,
        wanted: &'a [(Label, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        let from = self.samples.partition_point(|sample| sample.series.metric < metric);
        self.samples[from..]
            .iter()
            .take_while(move |sample| sample.series.metric == metric)
            .filter(move |sample| sample.series.has(wanted))
    }

    /// Returns the sum of `metric` over the series with the labels `wanted`; `None` without any.
    pub fn sum(&self, metric: Metric, wanted: &[(Label, &str)]) -> Option<f64> {
        self.of(metric, wanted).map(|sample| sample.value).reduce(|sum, value| sum + value)
    }

    /// Returns the samples of [`Metric::ProcessInfo`] of the processes with `role`.
    pub fn processes(&self, role: Role) -> impl Iterator<Item = &Sample> {
        let all = self.of(Metric::ProcessInfo, &[]);
        all.filter(move |info| info.series.label(Label::Role) == Some(role.name()))
    }

    fn value(&self, series: &Series) -> Option<f64> {
        let at = self.samples.binary_search_by(|sample| sample.series.cmp(series)).ok()?;
        Some(self.samples[at].value)
    }
}

/// Two readings of one host, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    before: &'a Reading,
    after: &'a Reading,
}

/// The modes of [`Metric::CpuSeconds`] in which a CPU had nothing to run.
const IDLE_MODES: [&str; 2] = ["idle", "iowait"];

impl<'a> Change<'a> {
    /// Creates the change from `before` to `after`.
    pub const fn new(before: &'a Reading, after: &'a Reading) -> Self {
        Self { before, after }
    }

    /// Returns the time between the middles of both readings, seconds.
    pub fn seconds(&self) -> f64 {
        let middle =
            |reading: &Reading| 0.5 * (reading.begin.as_secs_f64() + reading.end.as_secs_f64());
        middle(self.after) - middle(self.before)
    }

    /// Returns the growth of each series of the counter `metric` with the labels `wanted`. A counter that decreased
    /// belongs to something that was restarted, and is left out.
    pub fn growth(
        &self,
        metric: Metric,
        wanted: &'a [(Label, &'a str)],
    ) -> impl Iterator<Item = (&'a Series, f64)> {
        debug_assert_eq!(metric.kind(), MetricKind::Counter, "{}", metric.name());
        let before = self.before;
        self.after.of(metric, wanted).filter_map(move |sample| {
            // A name that StatsD brings for the first time has been counted from 0 since then.
            let at_first = (metric == Metric::StatsdCount).then_some(0.0);
            let grown = sample.value - before.value(&sample.series).or(at_first)?;
            (grown >= 0.0).then_some((&sample.series, grown))
        })
    }

    /// Returns the sum of [`Self::growth`]; `None` without any.
    pub fn grown(&self, metric: Metric, wanted: &'a [(Label, &'a str)]) -> Option<f64> {
        self.growth(metric, wanted).map(|(_, grown)| grown).reduce(|sum, grown| sum + grown)
    }

    /// Returns [`Self::growth`] per second.
    pub fn rates(
        &self,
        metric: Metric,
        wanted: &'a [(Label, &'a str)],
    ) -> impl Iterator<Item = (&'a Series, f64)> {
        let seconds = self.seconds();
        let growth = self.growth(metric, wanted).filter(move |_| seconds > 0.0);
        growth.map(move |(series, grown)| (series, grown / seconds))
    }

    /// Returns the sum of [`Self::rates`]; `None` without any.
    pub fn rate(&self, metric: Metric, wanted: &'a [(Label, &'a str)]) -> Option<f64> {
        self.rates(metric, wanted).map(|(_, rate)| rate).reduce(|sum, rate| sum + rate)
    }

    /// Returns the busy share of each CPU, 0 to 1, in the order of the reading. Waiting for a disk is idle; time that
    /// the hypervisor took is busy.
    pub fn busy_cpus(&self) -> Vec<(&'a str, f64)> {
        let mut cpus: Vec<(&'a str, f64)> = Vec::new();
        for (series, rate) in self.rates(Metric::CpuSeconds, &[]) {
            let (Some(cpu), Some(mode)) = (series.label(Label::Cpu), series.label(Label::Mode))
            else {
                continue;
            };
            if !IDLE_MODES.contains(&mode) {
                continue;
            }
            match cpus.iter_mut().find(|(name, _)| *name == cpu) {
                Some((_, busy)) => *busy -= rate,
                None => cpus.push((cpu, 1.0 - rate)),
            }
        }
        cpus.iter_mut().for_each(|(_, busy)| *busy = busy.clamp(0.0, 1.0));
        cpus
    }

    /// Returns the earlier reading.
    pub const fn before(&self) -> &'a Reading {
        self.before
    }

    /// Returns the later reading.
    pub const fn after(&self) -> &'a Reading {
        self.after
    }
}

#[cfg(test)]
mod tests {
    use super::super::source::{EndStatus, SourceKind};
    use super::*;

    type Value<'a> = (Metric, &'a [(Label, &'a str)], f64);

    fn reading(second: u64, values: &[Value<'_>]) -> Reading {
        let at = Nanos::from_secs(second);
        let mut reading = Reading { begin: at, end: at, ..Reading::default() };
        for (metric, labels, value) in values {
            reading.add(*metric, labels, *value);
        }
        reading.sort();
        reading
    }

    #[test]
    fn waiting_for_a_disk_is_idle() {
        const IDLE: &[(Label, &str)] = &[(Label::Cpu, "1"), (Label::Mode, "idle")];
        const IOWAIT: &[(Label, &str)] = &[(Label::Cpu, "1"), (Label::Mode, "iowait")];
        const STEAL: &[(Label, &str)] = &[(Label::Cpu, "1"), (Label::Mode, "steal")];
        let all = |second, values: [f64; 3]| {
            let [idle, iowait, steal] = values;
            let cpu = Metric::CpuSeconds;
            reading(second, &[(cpu, IDLE, idle), (cpu, IOWAIT, iowait), (cpu, STEAL, steal)])
        };
        let (before, after) = (all(0, [0.0; 3]), all(2, [0.5, 1.0, 0.5]));
        assert_eq!(Change::new(&before, &after).busy_cpus(), [("1", 0.25)]);
        let figures = crate::host::HostFigures::between(&before, &after);
        assert_eq!((figures.cpu, figures.busiest_cpu), (Some(0.25), Some(0.25)));
    }

    #[test]
    fn rates_are_differences_over_the_time_between() {
        const IN: &[(Label, &str)] = &[(Label::Device, "eth0"), (Label::Direction, "receive")];
        const OUT: &[(Label, &str)] = &[(Label::Direction, "transmit"), (Label::Device, "eth0")];
        let before =
            reading(10, &[(Metric::NetworkBytes, IN, 1_000.0), (Metric::NetworkBytes, OUT, 500.0)]);
        let after = reading(
            12,
            &[
                (Metric::NetworkBytes, OUT, 100.0),
                (Metric::NetworkBytes, IN, 5_000.0),
                (Metric::TcpEstablished, &[], 3.0),
            ],
        );
        let change = Change::new(&before, &after);
        assert_eq!(change.seconds(), 2.0);
        assert_eq!(
            change.rate(Metric::NetworkBytes, &[(Label::Direction, "receive")]),
            Some(2_000.0)
        );
        assert_eq!(change.grown(Metric::NetworkBytes, &[]), Some(4_000.0));
        assert_eq!(change.grown(Metric::TcpOpens, &[]), None);
        // It went backwards: whatever counted it was restarted.
        assert_eq!(change.rate(Metric::NetworkBytes, &[(Label::Direction, "transmit")]), None);
        assert_eq!(change.rate(Metric::TcpOpens, &[]), None);
        // A name that StatsD brings counts from 0; a thread that appears has an unknown past.
        let counts = [
            (Metric::StatsdCount, &[(Label::Name, "hits")][..], 8.0),
            (Metric::ProcessCpuSeconds, &[(Label::Thread, "t/0")][..], 8.0),
        ];
        let (none, some) = (reading(10, &[]), reading(12, &counts));
        let change_of_names = Change::new(&none, &some);
        assert_eq!(change_of_names.rate(Metric::StatsdCount, &[]), Some(4.0));
        assert_eq!(change_of_names.rate(Metric::ProcessCpuSeconds, &[]), None);
        assert_eq!(after.sum(Metric::TcpEstablished, &[]), Some(3.0));
        assert_eq!(after.sum(Metric::TcpSockets, &[]), None);
    }

    #[test]
    fn a_source_is_a_value_and_a_state() {
        let source = |name: &str, state| Source {
            kind: SourceKind::Process,
            name: name.to_owned(),
            pid: Some(12),
            state,
        };
        let mut reading = reading(3, &[]);
        let ended = SourceState::Ended { since: Nanos(5), status: EndStatus::Exited(0) };
        reading.add_source(source("nginx", SourceState::Reading));
        reading.add_source(source("haproxy", ended));
        reading.sort();
        let up = |name| reading.sum(Metric::SourceUp, &[(Label::Source, name)]);
        assert_eq!((up("nginx"), up("haproxy")), (Some(1.0), Some(0.0)));
        let down: Vec<_> = reading.sources_down().map(|source| source.to_string()).collect();
        assert_eq!(down, ["process haproxy (12)"]);
        assert_eq!(reading.missing[0].source, "process haproxy (12)");
        let json = serde_json::to_string(&reading).expect("JSON");
        assert_eq!(serde_json::from_str::<Reading>(&json).expect("the same"), reading);
    }

    #[test]
    fn names_are_unique_and_say_what_they_are() {
        let mut names: Vec<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for metric in Metric::ALL {
            let is_total = metric.name().ends_with("_total");
            assert_eq!(is_total, metric.kind() == MetricKind::Counter, "{}", metric.name());
            let json = serde_json::to_string(metric).expect("a name");
            assert_eq!(json, format!("{:?}", metric.name()));
            assert!(!metric.name().contains("percent"), "{}: a ratio", metric.name());
        }
    }
}
