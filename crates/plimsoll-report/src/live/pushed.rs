//! Metrics that are sent to a collector: every ten seconds, and at the end.

use std::fmt;
use std::io;
use std::sync::mpsc::SyncSender;

use axum::http::Uri;
use plimsoll_model::Nanos;
use plimsoll_model::target::shown_url;
use thiserror::Error;
use tokio::task::JoinHandle;

use crate::archive::ClockPair;
use crate::metrics::{Family, Span, Target, post};

/// Time from one push to the next.
const EVERY: Nanos = Nanos::from_secs(10);
/// The path of the protocol, where the URL has none.
const PATH: &str = "/v1/metrics";
/// The port of the protocol, where the URL has none.
const PORT: u16 = 4_318;

/// A collector of OTLP over plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector(Target);

/// Why a URL names no collector.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CollectorError {
    /// It is encrypted.
    #[error(
        "OTLP is sent over plain HTTP only; name a collector on this host or network, such as http://127.0.0.1:4318"
    )]
    Tls,
    /// Nothing else would be found there.
    #[error("write it like http://127.0.0.1:4318")]
    NoUrl,
}

impl Collector {
    /// The collector at `url`.
    pub fn parse(url: &str) -> Result<Self, CollectorError> {
        let uri: Uri = url.parse().map_err(|_| CollectorError::NoUrl)?;
        let authority = uri.authority().ok_or(CollectorError::NoUrl)?;
        match uri.scheme_str() {
            Some("http") if !authority.as_str().contains('@') => {}
            Some("https") => return Err(CollectorError::Tls),
            _ => return Err(CollectorError::NoUrl),
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self(Target {
            address: format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(PORT)),
            host: authority.as_str().to_owned(),
            path: if path == "/" { PATH.to_owned() } else { path.to_owned() },
        }))
    }
}

/// Shows the URL as it may be shown.
impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_url(&format!("http://{}{}", self.0.host, self.0.path)))
    }
}

/// Pushes to one collector. A push that takes long is not overtaken: the next one is left out.
pub(super) struct Pushes {
    collector: Collector,
    version: &'static str,
    /// When counting began.
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

    /// Something happened `at` an instant: sends `families` if it is time to.
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
        let (target, version) = (self.collector.0.clone(), self.version);
        async move { post(&target, version, &families, span).await }
    }

    /// Waits for what is under way. The first failure is told; a collector may come later.
    async fn complete(&mut self) {
        let Some(push) = self.under_way.take() else { return };
        if let Ok(Err(error)) = push.await
            && !std::mem::replace(&mut self.is_told, true)
        {
            let note = format!(
                "--otlp: cannot send metrics to {}: {error}; the run goes on",
                self.collector
            );
            let _ = self.notes.try_send(note);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_collector() {
        for (url, address, shown) in [
            ("http://127.0.0.1:4318", "127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("http://otel/", "otel:4318", "http://otel/v1/metrics"),
            ("http://[::1]:80/push?x=1", "[::1]:80", "http://[::1]:80/push?<redacted>"),
        ] {
            let collector = Collector::parse(url).unwrap();
            assert_eq!(
                (collector.0.address.as_str(), collector.to_string()),
                (address, shown.to_owned())
            );
        }
        assert_eq!(Collector::parse("https://otel:4318"), Err(CollectorError::Tls));
        for url in
            ["otel:4318", "http://", "", "http://user:secret@otel/", "ftp://otel/", "/v1/metrics"]
        {
            assert_eq!(Collector::parse(url), Err(CollectorError::NoUrl), "{url}");
        }
    }
}
