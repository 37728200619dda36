//! Metrics that are sent to a collector: every ten seconds, and at the end.

use std::io;
use std::sync::mpsc::SyncSender;

use plimsoll_model::Nanos;
use tokio::task::JoinHandle;

use crate::archive::ClockPair;
use crate::metrics::{Collector, Family, Span, post};

/// Time from one push to the next.
const EVERY: Nanos = Nanos::from_secs(10);

/// Pushes to one collector. A push that takes long is not overtaken: the next one is left out.
pub(super) struct Pushes {
    collector: Collector,
    version: &'static str,
    /// Start of the counters.
    clock: ClockPair,
    notes: SyncSender<String>,
    /// The last that was known, on CLOCK_MONOTONIC.
    at: Nanos,
    pushed: Nanos,
    under_way: Option<JoinHandle<io::Result<()>>>,
    is_told: bool,
}

impl Pushes {
    pub(super) const fn new(
        collector: Collector,
        version: &'static str,
        clock: ClockPair,
        notes: SyncSender<String>,
    ) -> Self {
        let at = clock.monotonic;
        Self { collector, version, clock, notes, at, pushed: at, under_way: None, is_told: false }
    }

    /// Sends `families` if they are due at the instant `at`, at which something happened.
    pub(super) async fn tick(&mut self, at: Nanos, families: impl FnOnce() -> Vec<Family>) {
        self.at = self.at.max(at);
        let is_under_way = self.under_way.as_ref().is_some_and(|push| !push.is_finished());
        if is_under_way || at.since(self.pushed) < EVERY {
            return;
        }
        self.pushed = at;
        self.complete().await;
        self.under_way = Some(tokio::spawn(self.push(families())));
    }

    /// Sends the last `families`, after what is under way.
    pub(super) async fn finish(mut self, families: Vec<Family>) {
        self.complete().await;
        self.under_way = Some(tokio::spawn(self.push(families)));
        self.complete().await;
    }

    fn push(&self, families: Vec<Family>) -> impl Future<Output = io::Result<()>> + use<> {
        let span = Span { begun: self.clock.unix_ns, now: self.clock.unix_ns_at(self.at) };
        let (collector, version) = (self.collector.clone(), self.version);
        async move { post(&collector, version, &families, span).await }
    }

    /// Waits for the push in progress. Only the first failure is reported, since a collector may start later.
    async fn complete(&mut self) {
        let Some(push) = self.under_way.take() else { return };
        if let Ok(Err(error)) = push.await
            && !std::mem::replace(&mut self.is_told, true)
        {
            let note = format!(
                "--otlp: cannot send metrics to {}: {error}; the run continues",
                self.collector
            );
            let _ = self.notes.try_send(note);
        }
    }
}
