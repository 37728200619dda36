//! Publishing during a run: the live page with its stream, metrics for scrapers, and metrics that are pushed.
//!
//! One thread does all of it and owns all published data. The run hands over copies through a queue with
//! a bound and never waits: a viewer, a scraper or a collector that is slow or gone costs the run nothing.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

mod access;
mod connections;
mod document;
mod feed;
mod figures;
mod pushed;
mod records;
mod server;
mod shared;
#[cfg(test)]
mod tests;
mod viewers;

pub use crate::metrics::{Collector, CollectorError};
pub use feed::{Feed, Inbox, feed};
pub use shared::RunHead;

use access::Access;
use connections::Patience;
use document::Document;
use figures::Figures;
use pushed::Pushes;
use shared::Shared;
use viewers::Viewers;

use crate::archive::ClockPair;
use crate::metrics::Statsd;

/// Scrapes that have to see the last figures before the program may end: the first may have begun earlier.
const LAST_SCRAPES: u32 = 2;
/// Pages that are open at the end have so long to become the report.
const LAST_FETCH: Duration = Duration::from_secs(3);
/// Answers under way at the end have so long.
const CLOSING: Duration = Duration::from_secs(1);

/// The outlets of a run; sockets are open, so that refusals of the system are known before a run begins.
#[derive(Debug)]
pub struct Outlets {
    /// Version of plimsoll.
    pub version: &'static str,
    /// The clocks at the beginning.
    pub clock: ClockPair,
    /// Shows the page.
    pub page: Option<PageAt>,
    /// Shows the figures to scrapers.
    pub metrics: Option<MetricsAt>,
    /// Time for scrapers to read the last figures.
    pub linger: Duration,
    /// Sends StatsD from this socket to this address.
    pub statsd: Option<(UdpSocket, SocketAddr)>,
    /// Is sent OTLP.
    pub collector: Option<Collector>,
}

/// The place of the figures.
#[derive(Debug)]
pub struct MetricsAt {
    /// Listens for scrapers.
    pub listener: TcpListener,
    /// The name under which scrapers may ask on loopback, besides the address and `localhost`.
    pub name: Option<String>,
}

/// The place of the page, and its access rules.
#[derive(Debug)]
pub struct PageAt {
    /// Listens for browsers.
    pub listener: TcpListener,
    /// The name under which browsers may ask, besides the address and `localhost`.
    pub name: Option<String>,
    /// The first part of every path; without it there is nothing to be seen.
    pub token: Option<String>,
}

impl Outlets {
    /// Publishes what `inbox` brings until the other end is gone, and what was last there as long as it is waited
    /// for. Run it in its own thread.
    pub fn publish(self, inbox: Inbox) -> io::Result<()> {
        self.publish_with(inbox, Patience::default())
    }

    fn publish_with(self, inbox: Inbox, patience: Patience) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        runtime.block_on(self.publish_async(inbox, patience))
    }

    async fn publish_async(self, inbox: Inbox, patience: Patience) -> io::Result<()> {
        let Inbox { mut messages, notes } = inbox;
        let statsd = self.statsd.map(|(socket, to)| Statsd::new(socket, to)).transpose()?;
        let figures = Shared::new(Figures::new(statsd));
        let document = Shared::new(Document::new(notes.clone()));
        let viewers = Viewers::new(document.clone(), self.clock.unix_ns);
        let (close, closing) = watch::channel(false);
        let mut servers = JoinSet::new();
        let (has_scrapers, has_page) = (self.metrics.is_some(), self.page.is_some());
        if let Some(MetricsAt { listener, name }) = self.metrics {
            let address = listener.local_addr()?;
            let is_loopback = address.ip().is_loopback();
            let access = is_loopback.then_some(Access { address, name, token: None });
            let router = server::metrics(figures.clone(), access);
            let listener = listener_of(listener)?;
            servers.spawn(server::serve(listener, router, patience, closing.clone()));
        }
        if let Some(PageAt { listener, name, token }) = self.page {
            let access = Access { address: listener.local_addr()?, name, token };
            let router = viewers.clone().routes(access);
            servers.spawn(server::serve(listener_of(listener)?, router, patience, closing));
        }
        let (version, clock) = (self.version, self.clock);
        let mut pushes =
            self.collector.map(|collector| Pushes::new(collector, version, clock, notes));
        while let Some(message) = messages.recv().await {
            let at = message.at();
            if has_page {
                document.lock().handle(&message);
            }
            figures.lock().handle(message);
            if let (Some(pushes), Some(at)) = (&mut pushes, at) {
                pushes.tick(at, || figures.lock().families()).await;
            }
        }
        document.lock().close();
        let last = figures.lock().finish();
        if let Some(pushes) = pushes {
            pushes.finish(last).await;
        }
        // Each page fetches itself and its document once more.
        let fetches = u32::try_from(2 * viewers.count()).unwrap_or(0);
        let _ = timeout(LAST_FETCH, document.fetched_at_end(fetches)).await;
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
