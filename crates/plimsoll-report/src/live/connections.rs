//! Connections: their limit, which one makes room for others, and which one is given up. One mechanism for browsers and
//! scrapers; where they come from is no matter, since many may share an address.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use plimsoll_sys::thread;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Connections at once.
const CONNECTIONS_MAX: usize = 64;
/// Period of checking whether one is idle, while all of them are busy.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Time limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// With the first request.
    pub(super) first: Duration,
    /// With the next one.
    pub(super) next: Duration,
    /// With reading anything of what is sent.
    pub(super) unread: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        let (first, later) = (Duration::from_secs(2), Duration::from_secs(10));
        Self { first, next: later, unread: later }
    }
}

/// The activity of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// The client has sent no request.
    Silent,
    /// The client has sent a request and may send another.
    Asked,
    /// The client receives the stream of events.
    Looks,
}

#[derive(Debug)]
struct Connected {
    doing: Doing,
    /// Time at which the connection was accepted or last had a request.
    since: Instant,
    /// Notified when the connection has to go; identifies it, too.
    ended: Arc<Notify>,
}

/// The connections of a listener, the oldest first.
#[derive(Clone, Debug)]
pub(super) struct Connections {
    inside: Arc<Inside>,
    patience: Patience,
}

#[derive(Debug, Default)]
struct Inside {
    known: Mutex<Vec<Connected>>,
    freed: Notify,
}

impl Connections {
    pub(super) fn new(patience: Patience) -> Self {
        Self { inside: Arc::default(), patience }
    }

    /// Returns a place for a connection; where there is none, one that says nothing goes, or one that has not asked for
    /// a while.
    pub(super) async fn place(&self) -> Place {
        loop {
            if let Some(place) = self.place_now(Instant::now()) {
                return place;
            }
            let _ = timeout(LOOK_AGAIN, self.inside.freed.notified()).await;
        }
    }

    fn place_now(&self, now: Instant) -> Option<Place> {
        let mut connected = self.inside.known();
        if connected.len() >= CONNECTIONS_MAX {
            let index = least_wanted(&connected, now, self.patience.first)?;
            connected.remove(index).ended.notify_one();
        }
        let ended = Arc::<Notify>::default();
        connected.push(Connected { doing: Doing::Silent, since: now, ended: Arc::clone(&ended) });
        let mark = Mark { inside: Arc::clone(&self.inside), ended };
        Some(Place { mark, first: self.patience.first })
    }
}

/// Returns the connection to close if another one comes: the oldest that has said nothing, else the one that has not
/// asked for longest, and not within `quiet`. Who looks on is bounded elsewhere.
fn least_wanted(connected: &[Connected], now: Instant, quiet: Duration) -> Option<usize> {
    let silent = connected.iter().position(|one| one.doing == Doing::Silent);
    let is_quiet = |(_, one): &(usize, &Connected)| {
        one.doing == Doing::Asked && now.saturating_duration_since(one.since) > quiet
    };
    let quiet = connected.iter().enumerate().filter(is_quiet).min_by_key(|(_, one)| one.since);
    silent.or_else(|| quiet.map(|(index, _)| index))
}

impl Inside {
    fn known(&self) -> MutexGuard<'_, Vec<Connected>> {
        thread::lock(&self.known)
    }
}

/// The place of one connection, which is free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) mark: Mark,
    first: Duration,
}

impl Place {
    /// Waits until the connection must be closed: on request, or because the client was silent for too long.
    pub(super) async fn is_over(&self) {
        let ended = &self.mark.ended;
        if timeout(self.first, ended.notified()).await.is_err() && !self.mark.is_silent() {
            ended.notified().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.mark.inside.known().retain(|one| !self.mark.is_of(one));
        self.mark.inside.freed.notify_one();
    }
}

/// A connection, to note what it does.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    inside: Arc<Inside>,
    ended: Arc<Notify>,
}

impl Mark {
    pub(super) fn set(&self, doing: Doing) {
        if let Some(own) = self.inside.known().iter_mut().find(|one| self.is_of(one)) {
            (own.doing, own.since) = (doing, Instant::now());
        }
    }

    fn is_silent(&self) -> bool {
        let known = self.inside.known();
        known.iter().find(|one| self.is_of(one)).is_none_or(|one| one.doing == Doing::Silent)
    }

    fn is_of(&self, one: &Connected) -> bool {
        Arc::ptr_eq(&self.ended, &one.ended)
    }
}

/// A stream whose other end has to read: an error, once nothing can be written for so long.
#[derive(Debug)]
pub(super) struct Read<S> {
    stream: S,
    within: Duration,
    /// Since when nothing can be written.
    stuck: Option<Pin<Box<Sleep>>>,
}

impl<S> Read<S> {
    pub(super) const fn new(stream: S, within: Duration) -> Self {
        Self { stream, within, stuck: None }
    }

    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stuck = None;
            return written;
        }
        let within = self.within;
        let stuck = self.stuck.get_or_insert_with(|| Box::pin(sleep(within)));
        ready!(stuck.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Read<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Read<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.bounded(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_ones_make_room_first_and_then_quiet_ones_but_none_that_looks_on() {
        let (began, quiet) = (Instant::now(), Duration::from_secs(2));
        let one = |doing, second| Connected {
            doing,
            since: began + Duration::from_secs(second),
            ended: Arc::default(),
        };
        let wanted = |connected: &[Connected], second| {
            least_wanted(connected, began + Duration::from_secs(second), quiet)
        };
        let busy = [one(Doing::Looks, 0), one(Doing::Asked, 3), one(Doing::Asked, 1)];
        assert_eq!((wanted(&busy, 3), wanted(&busy, 4)), (None, Some(2)));
        let mixed = [one(Doing::Asked, 0), one(Doing::Silent, 3), one(Doing::Silent, 4)];
        assert_eq!(wanted(&mixed, 9), Some(1));
        assert_eq!(wanted(&[one(Doing::Looks, 0)], 3_600), None);
    }
}
