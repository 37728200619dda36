//! Published while a run goes on: the page with its stream, metrics for scrapers, and metrics that are sent.
//!
//! All in one thread of its own, which owns what it publishes. The run hands over copies through a queue with
//! a bound and never waits: a viewer, a scraper or a collector that is slow or gone costs the run nothing.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

mod feed;
mod figures;
mod pushed;
mod server;
#[cfg(test)]
mod tests;

pub use feed::{Feed, Inbox, feed};
pub use pushed::{Collector, CollectorError};

use feed::Message;
use figures::{Figures, SharedFigures};
use pushed::Pushes;

use crate::archive::{ClockPair, Manifest};
use crate::metrics::Statsd;
use plimsoll_model::Nanos;

/// Scrapes that have to see the last figures before the program may end: the first may have begun earlier.
const LAST_SCRAPES: u32 = 2;
/// Answers under way at the end have so long.
const CLOSING: Duration = Duration::from_secs(1);

/// Where a run is published; sockets are open, so that what the system refuses is known before a run begins.
#[derive(Debug)]
pub struct Outlets {
    /// Version of plimsoll.
    pub version: &'static str,
    /// The clocks at the beginning.
    pub clock: ClockPair,
    /// Listens for scrapers.
    pub metrics: Option<TcpListener>,
    /// How long scrapers may take to read the last figures.
    pub linger: Duration,
    /// Sends StatsD from this socket to this address.
    pub statsd: Option<(UdpSocket, SocketAddr)>,
    /// Is sent OTLP.
    pub collector: Option<Collector>,
}

/// What is known of a run when it begins.
#[derive(Clone, Debug)]
pub struct RunHead {
    /// Without secrets, as in an archive.
    pub manifest: Manifest,
    /// The deadline of one operation, which becomes an edge of the histograms.
    pub deadline: Option<Nanos>,
}

impl Outlets {
    /// Publishes what `inbox` brings until the other end is gone, and what was last there as long as it is waited
    /// for. Belongs into a thread of its own.
    pub fn publish(self, inbox: Inbox) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        runtime.block_on(self.publish_async(inbox))
    }

    async fn publish_async(self, inbox: Inbox) -> io::Result<()> {
        let Inbox { mut messages, notes } = inbox;
        let statsd = self.statsd.map(|(socket, to)| Statsd::new(socket, to)).transpose()?;
        let figures = SharedFigures::new(Figures::new(statsd));
        let (close, closing) = watch::channel(false);
        let mut servers = JoinSet::new();
        let has_scrapers = self.metrics.is_some();
        if let Some(listener) = self.metrics {
            let router = server::metrics(figures.clone());
            servers.spawn(server::serve(listener_of(listener)?, router, closing.clone()));
        }
        let (version, clock) = (self.version, self.clock);
        let mut pushes =
            self.collector.map(|collector| Pushes::new(collector, version, clock, notes));
        while let Some(message) = messages.recv().await {
            let at = message.at();
            match message {
                Message::Begin(head) => figures.lock().begin(&head),
                Message::Event(event, _) => figures.lock().handle_event(&event),
                Message::Reading(host, reading) => figures.lock().handle_reading(host, *reading),
            }
            if let (Some(pushes), Some(at)) = (&mut pushes, at) {
                pushes.tick(at, || figures.lock().families()).await;
            }
        }
        let last = figures.lock().finish();
        if let Some(pushes) = pushes {
            pushes.finish(last).await;
        }
        if has_scrapers {
            let _ = timeout(self.linger, figures.read_at_end(LAST_SCRAPES)).await;
        }
        let _ = close.send(true);
        let _ = timeout(CLOSING, async { while servers.join_next().await.is_some() {} }).await;
        Ok(())
    }
}

fn listener_of(listener: TcpListener) -> io::Result<tokio::net::TcpListener> {
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}
