//! What a diagnosis rests on: trials, and what the hosts did meanwhile.

use std::collections::BTreeMap;

use plimsoll_model::host::{Change, Metric, Reading};
use plimsoll_model::trial::{TrialRecord, Verdict};
use plimsoll_model::{Nanos, host};

/// Trials of one search with the readings of every host.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// The interval that holds the tipping point.
    pub tip: (f64, f64),
    /// The strictest latency limit.
    pub deadline: Option<Nanos>,
    /// Those of which a host was read at least twice.
    pub trials: Vec<Trial<'a>>,
}

/// One trial.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    /// Offered.
    pub load: f64,
    /// Good answers per second.
    pub goodput: f64,
    /// What was judged.
    pub verdict: Verdict,
    /// It was ended early.
    pub aborted: bool,
    /// Full TLS handshakes per operation.
    pub handshakes: f64,
    /// Every host, by name.
    pub hosts: Vec<During<'a>>,
}

/// What one host did during one trial.
#[derive(Clone, Copy, Debug)]
pub struct During<'a> {
    /// Its name.
    pub host: &'a str,
    /// At least two.
    pub readings: &'a [Reading],
}

impl<'a> Record<'a> {
    /// The record of `trials` from the readings of a whole run. Trials of archives that do not say when
    /// they began are left out.
    pub fn new(
        trials: &[TrialRecord],
        hosts: &'a BTreeMap<String, Vec<Reading>>,
        tip: (f64, f64),
        deadline: Option<Nanos>,
    ) -> Self {
        let trials = trials.iter().filter_map(|trial| Trial::new(trial, hosts)).collect();
        Self { tip, deadline, trials }
    }
}

impl<'a> Trial<'a> {
    fn new(record: &TrialRecord, hosts: &'a BTreeMap<String, Vec<Reading>>) -> Option<Self> {
        let m = &record.measurement;
        let began = m.observations.began?;
        let ended = began + m.window;
        let during = |(host, all): (&'a String, &'a Vec<Reading>)| {
            let from = all.partition_point(|reading| reading.begin < began);
            let to = all.partition_point(|reading| reading.end <= ended);
            let readings = all.get(from..to).filter(|readings| readings.len() > 1)?;
            Some(During { host, readings })
        };
        let hosts: Vec<_> = hosts.iter().filter_map(during).collect();
        let seconds = m.window.as_secs_f64();
        (!hosts.is_empty() && seconds > 0.0).then(|| Self {
            load: m.request.rate.get(),
            goodput: m.tally.ok.saturating_sub(m.tally.late) as f64 / seconds,
            verdict: record.judgement.verdict,
            aborted: m.aborted,
            handshakes: m.tally.handshakes.full as f64 / m.tally.ok.max(1) as f64,
            hosts,
        })
    }

    /// What `host` did.
    pub(super) fn on(&self, host: &str) -> Option<During<'a>> {
        self.hosts.iter().find(|during| during.host == host).copied()
    }
}

impl<'a> During<'a> {
    /// From the first reading to the last.
    pub(super) fn change(&self) -> Change<'a> {
        Change::new(&self.readings[0], &self.readings[self.readings.len() - 1])
    }

    /// The sum of all series of a counter, per second.
    pub(super) fn rate(&self, metric: Metric) -> Option<f64> {
        self.change().rate(metric, &[])
    }

    /// The mean, over the readings, of the sum of all series of a gauge.
    pub(super) fn mean(&self, metric: Metric) -> Option<f64> {
        let sums: Vec<f64> =
            self.readings.iter().filter_map(|reading| reading.sum(metric, &[])).collect();
        (!sums.is_empty()).then(|| sums.iter().sum::<f64>() / sums.len() as f64)
    }

    /// Every limit: its name, what it holds for, its mean use, its highest use, and the limit.
    pub(super) fn limits(&self) -> Vec<(host::LimitUse, f64)> {
        let last = &self.readings[self.readings.len() - 1];
        let over_time = |limit: host::LimitUse| {
            let labels = [
                (host::Label::Limit, limit.limit.as_str()),
                (host::Label::Scope, limit.scope.as_str()),
            ];
            let uses: Vec<f64> = self
                .readings
                .iter()
                .filter_map(|reading| reading.sum(Metric::LimitUsed, &labels))
                .collect();
            let mean = uses.iter().sum::<f64>() / uses.len() as f64;
            let most = uses.iter().copied().fold(0.0, f64::max);
            (host::LimitUse { used: mean, ..limit }, most)
        };
        host::limits(last).map(over_time).collect()
    }
}
