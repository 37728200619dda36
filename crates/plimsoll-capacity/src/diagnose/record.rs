//! The record of a diagnosis: trials, and the readings of hosts during them.
//!
//! [`Trial::all`] joins the time window of each trial with the readings of every host ([`During`]). A rate needs two
//! readings; a level of held connections needs one, and a GOOD level counts its last three. Trials without a time of
//! start or without readings are left out. [`missing_loads`] lists loads up to the lower bound that no GOOD trial
//! covers within 12 %. Start reading at [`Record`], then at [`During::rate`].

use std::collections::BTreeMap;

use plimsoll_model::host::{Change, Label, Metric, Reading, Role};
use plimsoll_model::search::Axis;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{TrialRecord, Verdict};
use plimsoll_model::{ErrorClass, Nanos, Rate, host};

use crate::cliffs::retransmitted;
use crate::stats;

/// Readings that count of a level of held connections, the last ones.
const HELD_READINGS: usize = 3;

/// Readings before a storm that show its hosts without one, the last ones.
const READINGS_BEFORE: usize = 3;

/// A server of which fewer operations are slow, as a share of all, is not slow.
const SLOW_MIN: f64 = 0.001;

/// Shares of the lower bound at which the use of resources is to be known, and how near a trial has to be.
const LOADS: [f64; 3] = [0.5, 0.75, 0.95];
const LOAD_NEAR: f64 = 0.12;

/// Returns the loads up to `lower` at which none of the `trials` shows how much of each resource it uses.
pub fn missing_loads(trials: &[TrialRecord], lower: Rate) -> Vec<Rate> {
    let is_known = |wanted: f64| {
        trials.iter().any(|TrialRecord { measurement: m, judgement, .. }| {
            let is_near = (m.request.rate.get() / wanted - 1.0).abs() <= LOAD_NEAR;
            is_near && judgement.verdict == Verdict::Good && !m.aborted
        })
    };
    let wanted = LOADS.map(|share| share * lower.get()).into_iter();
    wanted.filter(|load| !is_known(*load)).filter_map(Rate::per_second).collect()
}

/// Trials of one search with the readings of every host.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// The axis of the search.
    pub axis: Axis,
    /// The interval that holds the tipping point; `None` if a search ended without one.
    pub tip: Option<(f64, f64)>,
    /// The strictest latency limit.
    pub deadline: Option<Nanos>,
    /// A round trip to the server, if it was measured.
    pub round_trip: Option<Nanos>,
    /// Trials during which a host was read.
    pub trials: Vec<Trial<'a>>,
}

/// One trial.
#[derive(Clone, Debug)]
pub struct Trial<'a> {
    /// Offered.
    pub load: f64,
    /// Good answers per second, or connections held.
    pub goodput: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// `true` if the trial was ended early.
    pub aborted: bool,
    /// Full TLS handshakes per operation.
    pub handshakes: f64,
    /// The clients' view.
    pub clients: Clients,
    /// Every host, by name.
    pub hosts: Vec<During<'a>>,
}

/// The clients' view of one trial. Shares are of all answers.
#[derive(Clone, Debug, Default)]
pub struct Clients {
    /// Median time from sending a request to its answer, seconds.
    pub service: Option<f64>,
    /// Operations due and not finished, every 100 ms.
    pub outstanding: Vec<u32>,
    /// Answered with 429.
    pub refused: f64,
    /// Answered with 503.
    pub unavailable: f64,
    /// Answered with 504.
    pub timed_out: f64,
    /// Connections in use where operations waited for a free one.
    pub all_busy: Option<f64>,
    /// Segments that their sockets sent again, over those they sent.
    pub sent_again: f64,
    /// Share of the answers that came when a lost segment has been sent again once.
    pub waited: f64,
    /// Operations failed, and nearly all of them by an answer: nothing was slow.
    pub is_refused_only: bool,
}

/// One host during one trial.
#[derive(Clone, Copy, Debug)]
pub struct During<'a> {
    /// Name of the host.
    pub host: &'a str,
    /// At least two; of a level of held connections at least one.
    pub readings: &'a [Reading],
}

impl Clients {
    fn of(tally: &Tally) -> Self {
        let status = &tally.answers.status;
        let answers: u64 = status.iter().map(|(_, answers)| answers).sum();
        let share = |wanted: u16| status.get(wanted) as f64 / answers.max(1) as f64;
        let is_full = tally.pool_exhausted > 0;
        Self {
            service: tally.spans.uncorrected.quantile(0.5).map(Nanos::as_secs_f64),
            outstanding: tally.outstanding.clone(),
            refused: share(429),
            unavailable: share(503),
            timed_out: share(504),
            all_busy: is_full.then_some(tally.slots_max() as f64),
            sent_again: tally.segments.sent_again_ratio(),
            waited: retransmitted(&tally.spans) as f64 / tally.ok.max(1) as f64,
            is_refused_only: is_refused_only(tally),
        }
    }
}

/// Reports whether operations failed by their answers, and hardly any was late, unsent or without an answer.
fn is_refused_only(tally: &Tally) -> bool {
    let statuses = [ErrorClass::Status4xx, ErrorClass::Status5xx];
    let refused: u64 = statuses.into_iter().map(|class| tally.failures.operations.get(class)).sum();
    let in_time = tally.ok.saturating_sub(tally.late);
    let slow = tally.scheduled.saturating_sub(in_time + refused);
    refused > 0 && (slow as f64) < SLOW_MIN * tally.scheduled as f64
}

impl<'a> Trial<'a> {
    /// Returns the trials of a search along `axis` with the readings of its whole run. Trials of archives without their
    /// starting times are left out.
    pub fn all(
        axis: Axis,
        trials: &[TrialRecord],
        hosts: &'a BTreeMap<String, Vec<Reading>>,
    ) -> Vec<Self> {
        trials.iter().filter_map(|trial| Self::new(axis, trial, hosts)).collect()
    }

    fn new(
        axis: Axis,
        record: &TrialRecord,
        hosts: &'a BTreeMap<String, Vec<Reading>>,
    ) -> Option<Self> {
        let m = &record.measurement;
        let began = m.observations.began?;
        let ended = began + m.window;
        let is_held = axis == Axis::Connections;
        let is_good = record.judgement.verdict == Verdict::Good;
        let during = |(host, all): (&'a String, &'a Vec<Reading>)| {
            let (from, to) = within(all, began, ended);
            // A level is reached at its end.
            let from =
                if is_held && is_good { from.max(to.saturating_sub(HELD_READINGS)) } else { from };
            // One shows what is held, a rate takes two.
            let least = if is_held { 1 } else { 2 };
            let readings = all.get(from..to).filter(|readings| readings.len() >= least)?;
            Some(During { host, readings })
        };
        let hosts: Vec<_> = hosts.iter().filter_map(during).collect();
        let (seconds, load) = (m.window.as_secs_f64(), m.request.rate.get());
        let held = if is_good { load } else { m.tally.connections.held_max as f64 };
        let good = m.tally.ok.saturating_sub(m.tally.late) as f64 / seconds;
        (!hosts.is_empty() && seconds > 0.0).then(|| Self {
            load,
            goodput: if is_held { held } else { good },
            verdict: record.judgement.verdict,
            aborted: m.aborted,
            handshakes: m.tally.handshakes.full as f64 / m.tally.ok.max(1) as f64,
            clients: Clients::of(&m.tally),
            hosts,
        })
    }

    /// Returns the hosts before a storm, and from the cut until the last client was back. `None` if one of the two was
    /// not read.
    pub(super) fn of_storm(
        record: &TrialRecord,
        hosts: &'a BTreeMap<String, Vec<Reading>>,
    ) -> Option<(Self, Self)> {
        let m = &record.measurement;
        let began = m.observations.began?;
        let storm = &m.tally.storm;
        let lasted = storm.recovery.max().filter(|_| storm.missing() == 0).unwrap_or(m.window);
        let readings = |of: fn(&'a [Reading], Nanos, Nanos) -> &'a [Reading]| -> Vec<During<'a>> {
            let during = |(host, all): (&'a String, &'a Vec<Reading>)| {
                let readings = of(all, began, began + lasted);
                (readings.len() >= 2).then_some(During { host, readings })
            };
            hosts.iter().filter_map(during).collect()
        };
        let before = readings(|all, began, _| {
            let to = all.partition_point(|reading| reading.end <= began);
            &all[to.saturating_sub(READINGS_BEFORE)..to]
        });
        let during = readings(|all, began, ended| {
            let (from, to) = within(all, began, ended);
            all.get(from..to).unwrap_or_default()
        });
        let per_s = storm.back as f64 / lasted.as_secs_f64().max(1e-3);
        let trial = |load, verdict, hosts: Vec<During<'a>>| Self {
            load,
            goodput: load,
            verdict,
            aborted: false,
            handshakes: m.tally.handshakes.full as f64 / m.tally.storm.attempts.max(1) as f64,
            clients: Clients::default(),
            hosts,
        };
        let are_read = !before.is_empty() && !during.is_empty();
        are_read.then(|| (trial(0.0, Verdict::Good, before), trial(per_s, Verdict::Bad, during)))
    }

    /// Returns the readings of `host`.
    pub(super) fn on(&self, host: &str) -> Option<During<'a>> {
        self.hosts.iter().find(|during| during.host == host).copied()
    }
}

/// Returns the first of the readings that were made between two instants, and the one behind the last.
fn within(all: &[Reading], began: Nanos, ended: Nanos) -> (usize, usize) {
    let from = all.partition_point(|reading| reading.begin < began);
    (from, all.partition_point(|reading| reading.end <= ended))
}

impl<'a> During<'a> {
    /// Returns the change from the first reading to the last.
    pub(super) fn change(&self) -> Change<'a> {
        Change::new(self.first(), self.last())
    }

    /// Returns the sum of all series of a counter with `labels`, per second.
    pub(super) fn rate(&self, metric: Metric, labels: &[(Label, &str)]) -> Option<f64> {
        self.change().rate(metric, labels)
    }

    /// Reports whether the host has a process of this role.
    pub(super) fn has(&self, role: Role) -> bool {
        self.last().processes(role).next().is_some()
    }

    /// Returns the earliest reading.
    pub(super) const fn first(&self) -> &'a Reading {
        &self.readings[0]
    }

    /// Returns the latest reading.
    pub(super) const fn last(&self) -> &'a Reading {
        &self.readings[self.readings.len() - 1]
    }

    /// Returns the mean, over the readings, of the sum of all series of a gauge with `labels`.
    pub(super) fn mean(&self, metric: Metric, labels: &[(Label, &str)]) -> Option<f64> {
        stats::mean(self.readings.iter().filter_map(|reading| reading.sum(metric, labels)))
    }

    /// Returns every limit with its mean use, and its highest use.
    pub(super) fn limits(&self) -> Vec<(host::LimitUse, f64)> {
        let over_time = |limit: host::LimitUse| {
            let labels = limit.id.labels();
            let used = self.mean(Metric::LimitUsed, &labels).unwrap_or_default();
            let uses = self.readings.iter().filter_map(|one| one.sum(Metric::LimitUsed, &labels));
            let most = uses.fold(0.0, f64::max);
            (host::LimitUse { used, ..limit }, most)
        };
        host::limits(self.last()).map(over_time).collect()
    }
}
