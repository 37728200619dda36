//! Figures so far, for scrapers and collectors.

use std::collections::BTreeMap;

use plimsoll_model::host::{Change, Reading};
use tokio::sync::watch;

use super::feed::Message;
use super::shared::Shared;
use crate::metrics::{Family, RunMetrics, Statsd, exposition, of_hosts};

/// The figures of a run and of its hosts.
#[derive(Debug)]
pub(super) struct Figures {
    run: Option<RunMetrics>,
    hosts: BTreeMap<String, Reading>,
    statsd: Option<Statsd>,
    is_over: bool,
    /// Number of reads after the end.
    read_at_end: watch::Sender<u32>,
}

impl Figures {
    pub(super) fn new(statsd: Option<Statsd>) -> Self {
        let read_at_end = watch::Sender::new(0);
        Self { run: None, hosts: BTreeMap::new(), statsd, is_over: false, read_at_end }
    }

    pub(super) fn handle(&mut self, message: Message) {
        match message {
            // A run, or the next search of one.
            Message::Begin(head) => {
                let before = self.run.take();
                self.run = Some(RunMetrics::new(&head.manifest, head.deadline, before));
            }
            Message::Event(event, _) => {
                if let Some(run) = &mut self.run {
                    run.handle_event(&event);
                }
                if let Some(statsd) = &self.statsd {
                    statsd.handle_event(&event);
                }
            }
            Message::Reading(host, reading) => {
                if let (Some(statsd), Some(before)) = (&self.statsd, self.hosts.get(&host)) {
                    statsd.send_host(&host, &Change::new(before, &reading));
                }
                self.hosts.insert(host, *reading);
            }
            Message::Missed(_) | Message::End(_) => {}
        }
    }

    /// Nothing changes any more: the last families.
    pub(super) fn finish(&mut self) -> Vec<Family> {
        self.is_over = true;
        if let Some(run) = &mut self.run {
            run.finish();
        }
        self.families()
    }

    /// Every family of the run and of its hosts.
    pub(super) fn families(&self) -> Vec<Family> {
        let mut families = self.run.as_ref().map(RunMetrics::families).unwrap_or_default();
        families.extend(of_hosts(&self.hosts));
        families
    }
}

impl Shared<Figures> {
    /// The answer to a scrape.
    pub(super) fn scrape(&self) -> String {
        let figures = self.lock();
        if figures.is_over {
            figures.read_at_end.send_modify(|times| *times += 1);
        }
        exposition(&figures.families())
    }

    /// Waits until the last figures were read so many times.
    pub(super) async fn read_at_end(&self, times: u32) {
        let mut read = self.lock().read_at_end.subscribe();
        let _ = read.wait_for(|read| *read >= times).await;
    }
}
