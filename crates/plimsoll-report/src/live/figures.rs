//! Figures so far, for scrapers and collectors.

use std::sync::Arc;

use plimsoll_model::Nanos;
use plimsoll_model::host::Change;
use tokio::sync::watch;

use super::feed::Message;
use super::shared::Shared;
use crate::metrics::{Family, RunMetrics, Statsd, exposition, of_hosts};
use crate::state::RunState;

/// The figures of a run and of its hosts.
#[derive(Debug)]
pub(super) struct Figures {
    /// `None` before a run begins.
    metrics: Option<RunMetrics>,
    run: RunState,
    statsd: Option<Statsd>,
    is_over: bool,
    /// Number of reads after the end.
    read_at_end: watch::Sender<u32>,
}

impl Figures {
    pub(super) fn new(statsd: Option<Statsd>) -> Self {
        let read_at_end = watch::Sender::new(0);
        let run = RunState::default();
        Self { metrics: None, run, statsd, is_over: false, read_at_end }
    }

    pub(super) fn handle(&mut self, message: Message) {
        match message {
            // A run, or the next search of one.
            Message::Begin(head) => {
                self.run = self.run.next_search();
                self.metrics = Some(RunMetrics::new(&head.manifest, head.deadline));
            }
            Message::Event(event, _) => {
                // No figure counts from the start of the run.
                self.run.handle_event(&event, Nanos::ZERO);
                if let Some(statsd) = &self.statsd {
                    statsd.handle_event(&event);
                }
            }
            Message::Reading(host, reading) => {
                let reading = Arc::from(reading);
                let before = self.run.handle_reading(&host, Arc::clone(&reading));
                if let (Some(statsd), Some(before)) = (&self.statsd, before) {
                    statsd.send_host(&host, &Change::new(&before, &reading));
                }
            }
            Message::Missed(_) | Message::End(_) => {}
        }
    }

    /// Records that the run has ended, and returns the last families.
    pub(super) fn finish(&mut self) -> Vec<Family> {
        self.is_over = true;
        if let Some(metrics) = &mut self.metrics {
            metrics.finish();
        }
        self.families()
    }

    /// Returns every family of the run and of its hosts.
    pub(super) fn families(&self) -> Vec<Family> {
        let of_run = self.metrics.as_ref().map(|metrics| metrics.families(&self.run));
        let mut families = of_run.unwrap_or_default();
        families.extend(of_hosts(&self.run.hosts));
        families
    }
}

impl Shared<Figures> {
    /// Returns the answer to a scrape.
    pub(super) fn scrape(&self) -> String {
        let figures = self.lock();
        if figures.is_over {
            figures.read_at_end.send_modify(|times| *times += 1);
        }
        exposition(&figures.families())
    }

    /// Waits until the last figures were read `times` times.
    pub(super) async fn read_at_end(&self, times: u32) {
        let mut read = self.lock().read_at_end.subscribe();
        let _ = read.wait_for(|read| *read >= times).await;
    }
}
