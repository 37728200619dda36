//! The seconds of storms: the counts of the agents, and the readings of the server's host.
//!
//! [`StormRecorder`] listens to the events of a run. A storm step opens a [`StormSeconds`]; its first second is the one
//! with the cut, and each later interval adds one, up to 600. [`StormSeconds::with`] joins them with the readings
//! that ended in the same second: the longest accept queue and the CPU use of the server's processes. The server's
//! own count of failed handshakes before and after a storm gives the wasted ones. Start with
//! [`StormRecorder::handle_event`].

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::hold::HoldStep;
use plimsoll_model::host::{Change, Label, Metric, Reading, Role, Sample};
use plimsoll_model::storm::StormSecond;
use plimsoll_model::tally::{Interval, Tally};

use crate::causes::Readings;

/// Seconds of a storm that are reported.
const SECONDS_MAX: usize = 600;
const SECOND: Nanos = Nanos::from_secs(1);

/// The seconds of all storms, as they are counted.
#[derive(Default)]
pub(super) struct StormRecorder {
    is_storm: bool,
    /// CLOCK_MONOTONIC of second 0.
    epoch: Nanos,
    pub(super) storms: Vec<StormSeconds>,
}

/// The seconds of one storm; the cut is in the first one.
#[derive(Default)]
pub(super) struct StormSeconds {
    /// CLOCK_MONOTONIC when the first one began.
    began: Nanos,
    seconds: Vec<StormSecond>,
    /// TLS handshakes that failed by the server's own count before the storm.
    failed_before: Option<u64>,
    /// TLS handshakes that the server began during the storm and could not end.
    pub(super) wasted: Option<u64>,
}

impl StormRecorder {
    /// `failed` reads the server's count of TLS handshakes that failed.
    pub(super) fn handle_event(&mut self, event: &Event, failed: &dyn Fn() -> Option<u64>) {
        match event {
            Event::LoadStarted { epoch, .. } => self.epoch = *epoch,
            Event::HoldStep(HoldStep::Storm { .. }) => {
                self.is_storm = true;
                self.storms
                    .push(StormSeconds { failed_before: failed(), ..StormSeconds::default() });
            }
            Event::TrialEnded(_) => {
                if let Some(storm) = self.storms.last_mut().filter(|_| self.is_storm) {
                    let both = failed().zip(storm.failed_before);
                    storm.wasted = both.and_then(|(now, before)| now.checked_sub(before));
                }
                self.is_storm = false;
            }
            Event::Interval(interval) if self.is_storm => {
                let Some(storm) = self.storms.last_mut() else { return };
                if storm.seconds.is_empty() {
                    if interval.tally.storm.cut == 0 {
                        return;
                    }
                    storm.began = self.epoch + Nanos(u64::from(interval.second) * SECOND.0);
                }
                if storm.seconds.len() < SECONDS_MAX {
                    storm.seconds.push(counted(interval));
                }
            }
            _ => {}
        }
    }
}

impl StormSeconds {
    /// Returns the seconds, with what the hosts were read in each.
    pub(super) fn with(&self, readings: &Readings) -> Vec<StormSecond> {
        let with = |(number, second): (usize, &StormSecond)| {
            let from = self.began + Nanos(number as u64 * SECOND.0);
            let (accept_queue, server_cpu) = read(readings, from, from + SECOND);
            StormSecond { accept_queue, server_cpu, ..*second }
        };
        self.seconds.iter().enumerate().map(with).collect()
    }
}

fn counted(interval: &Interval) -> StormSecond {
    let Tally { storm, handshakes, spans, .. } = &interval.tally;
    StormSecond {
        back: storm.back,
        attempts: storm.attempts,
        retries: storm.retries,
        gave_up: storm.gave_up,
        refused: storm.refused,
        handshakes: handshakes.full + handshakes.resumed,
        resumed: handshakes.resumed,
        p99_ms: spans.corrected.quantile(0.99).map(Nanos::as_millis_f64),
        accept_queue: None,
        server_cpu: None,
    }
}

/// Returns the most connections that waited to be accepted on the server's host, and the CPU seconds per second of its
/// processes, in the readings that ended within a time; nothing if there are none.
fn read(readings: &Readings, from: Nanos, to: Nanos) -> (Option<u64>, Option<f64>) {
    let pairs =
        readings.values().flat_map(|all| all.windows(2)).filter_map(|pair| pair.first_chunk());
    let (mut queue, mut cpu) = (None, None);
    for [before, after] in pairs.filter(|[_, after]| (from..to).contains(&after.end)) {
        let Some(used) = server_cpu(before, after) else { continue };
        cpu = Some(cpu.map_or(used, |most: f64| most.max(used)));
        queue = queue.max(after.sum(Metric::ListenQueue, &[]).map(|waiting| waiting as u64));
    }
    (queue, cpu)
}

/// Returns the CPU seconds per second of the server's processes; `None` on a host without any.
fn server_cpu(before: &Reading, after: &Reading) -> Option<f64> {
    let used = |info: &Sample| {
        let wanted = [(Label::Process, info.series.label(Label::Process)?)];
        Change::new(before, after).rate(Metric::ProcessCpuSeconds, &wanted)
    };
    after.processes(Role::Server).filter_map(used).reduce(|sum, used| sum + used)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn reading(second: u64, cpu_s: f64, waiting: f64) -> Reading {
        let at = Nanos::from_secs(second);
        let mut reading = Reading { begin: at, end: at, ..Reading::default() };
        let process = (Label::Process, "haproxy");
        reading.add(Metric::ProcessInfo, &[process, (Label::Role, "server")], 1.0);
        reading.add(Metric::ProcessCpuSeconds, &[process, (Label::Thread, "haproxy/0")], cpu_s);
        reading.add(Metric::ListenQueue, &[(Label::Listener, "127.0.0.1:8443")], waiting);
        reading.sort();
        reading
    }

    fn interval(second: u32, cut: u64, back: u64) -> Event {
        let mut tally = Tally::default();
        (tally.storm.cut, tally.storm.back) = (cut, back);
        Event::Interval(Box::new(Interval { second, tally }))
    }

    #[test]
    fn a_second_of_a_storm_has_what_its_host_was_read_then() {
        let mut seconds = StormRecorder::default();
        let epoch = Nanos::from_secs(100);
        let mut handle = |event: &Event| seconds.handle_event(event, &|| None);
        handle(&Event::LoadStarted { trial: None, planned: None, epoch });
        handle(&interval(0, 0, 0));
        handle(&Event::HoldStep(HoldStep::Storm { cut: 7, jitter: None }));
        // The order was on its way.
        for second in [interval(1, 0, 0), interval(2, 7, 3), interval(3, 0, 4)] {
            handle(&second);
        }
        let all = vec![reading(101, 1.0, 0.0), reading(102, 1.5, 5.0), reading(103, 2.4, 1.0)];
        let readings = BTreeMap::from([("here".to_owned(), all)]);
        let storms = seconds.storms;
        let shown: Vec<_> = storms[0].with(&readings);
        let figures: Vec<_> =
            shown.iter().map(|one| (one.back, one.accept_queue, one.server_cpu)).collect();
        assert_eq!(figures[0], (3, Some(5), Some(0.5)));
        assert_eq!((figures[1].0, figures[1].1), (4, Some(1)));
        assert!(figures[1].2.is_some_and(|cpu| (cpu - 0.9).abs() < 1e-9), "{figures:?}");
        assert_eq!(figures.len(), 2);
        // No host was read.
        assert_eq!(storms[0].with(&BTreeMap::new())[0].server_cpu, None);
    }
}
