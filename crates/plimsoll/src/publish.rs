//! Publishes figures while a command runs, from a thread of the lowest priority.
//!
//! [`Publisher::during`] opens the sockets, starts the thread and runs the command's work with a [`Publisher`]. The
//! work hands events and readings to the feed, a bounded queue that never blocks the run. Sockets are opened before
//! the thread starts, so that a port in use is an error of the command. At the end the thread serves the last figures
//! until they are read; an interrupt shortens this to one second. Start with [`Publisher::during`].

use std::cell::RefCell;
use std::io;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_model::event::Event;
use plimsoll_model::host::Reading;
use plimsoll_model::summary::Summary;
use plimsoll_report::archive::ClockPair;
use plimsoll_report::clean;
use plimsoll_report::live::{Feed, MetricsAt, Outlets, PageAt, RunHead, feed};
use plimsoll_sys::signal::Interrupts;
use plimsoll_sys::{address, affinity, clock, thread};

use crate::clock::now;
use crate::exit::{Result, Stop};
use crate::plan::live::LiveJob;
use crate::plan::publish::{MetricsJob, PublishJob};

/// Period of looking for the end of the last scrapes, or an interrupt.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// An open page has so long to become the report of a run that was interrupted; a busy browser needs more than a second.
const INTERRUPTED_WAIT: Duration = Duration::from_secs(3);

/// The publisher of a run; it publishes nothing unless a flag asks for it.
#[derive(Clone, Default)]
pub(crate) struct Publisher {
    feed: Option<Rc<RefCell<Feed>>>,
    /// Address of the page for a browser. With the token in it, it is for the terminal alone.
    pub(crate) page: Option<String>,
}

impl Publisher {
    /// Does `work` while what it hands over is published as `job` says, and then waits until the last figures
    /// were read, unless an interrupt ends that.
    pub(crate) fn during<T>(
        job: &PublishJob,
        interrupts: &Interrupts,
        work: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        if !job.is_asked() {
            return work(&Self::default());
        }
        let (feed, thread, page) = start(job)?;
        let feed = Rc::new(RefCell::new(feed));
        let done = work(&Self { feed: Some(Rc::clone(&feed)), page });
        if let Some(feed) = Rc::into_inner(feed) {
            close(feed.into_inner(), thread, job, interrupts);
        }
        done
    }

    /// Reports whether a live page, Prometheus, StatsD or OTLP was asked for.
    pub(crate) const fn is_asked(&self) -> bool {
        self.feed.is_some()
    }

    /// Publishes the start of a run.
    pub(crate) fn begin(&self, head: impl FnOnce() -> RunHead) {
        self.with_feed(|feed| feed.begin(head()));
    }

    /// Publishes an event.
    pub(crate) fn handle_event(&self, event: &Event) {
        self.with_feed(|feed| feed.handle_event(event, now()));
    }

    /// Publishes a reading of a host.
    pub(crate) fn handle_reading(&self, host: &str, reading: &Reading) {
        self.with_feed(|feed| feed.handle_reading(host, reading));
    }

    /// Publishes the end of the run.
    pub(crate) fn end(&self, summary: &Summary) {
        self.with_feed(|feed| feed.end(summary));
    }

    /// Calls `pass` with the feed, if something is published.
    fn with_feed(&self, pass: impl FnOnce(&Feed)) {
        if let Some(feed) = &self.feed {
            pass(&feed.borrow());
        }
    }

    /// Returns the next line for the user, if there is one.
    pub(crate) fn note(&self) -> Option<String> {
        self.feed.as_ref()?.borrow().note()
    }
}

/// A started publisher: its feed, its thread, and the address of its page.
type Started = (Feed, JoinHandle<io::Result<()>>, Option<String>);

/// Opens what the system may refuse, then starts the thread.
fn start(job: &PublishJob) -> Result<Started> {
    let metrics = job.prometheus.as_ref().map(metrics).transpose()?;
    let (page, url) = job.live.as_ref().map(page).transpose()?.unzip();
    let statsd = job.statsd.map(|to| {
        let cannot = |error| Stop::CannotRun(format!("--statsd {to}: {error}"));
        sender(to).map(|socket| (socket, to)).map_err(cannot)
    });
    let outlets = Outlets {
        version: env!("CARGO_PKG_VERSION"),
        clock: ClockPair { monotonic: now(), unix_ns: clock::realtime_ns() },
        page,
        metrics,
        linger: job.linger,
        statsd: statsd.transpose()?,
        collector: job.collector.clone(),
    };
    let (feed, inbox) = feed();
    let cpus = job.cpus.clone();
    let work = move || {
        affinity::prefer_others();
        if !cpus.is_empty() {
            let _ = affinity::pin_thread(&cpus);
        }
        outlets.publish(inbox)
    };
    let thread = thread::spawn("plimsoll-live", None, work)
        .map_err(|error| Stop::CannotRun(format!("cannot start a thread: {error}")))?;
    Ok((feed, thread, url))
}

/// Listens for scrapers, and says where.
fn metrics(job: &MetricsJob) -> Result<MetricsAt> {
    let (listener, address) = listen(job.address, "--prometheus")?;
    say(&format!("metrics at http://{address}/metrics"));
    Ok(MetricsAt { listener, name: Some(job.name.clone()) })
}

/// Listens for browsers and prints the URL; also returns it.
fn page(job: &LiveJob) -> Result<(PageAt, String)> {
    let (listener, address) = listen(job.address, "--live")?;
    let token = job.token.as_ref().map(|token| format!("{token}/")).unwrap_or_default();
    let (host, others) = match address.ip() {
        ip if !ip.is_unspecified() => (ip, ""),
        IpAddr::V4(_) => (Ipv4Addr::LOCALHOST.into(), ", and at every other address of this host"),
        IpAddr::V6(_) => (Ipv6Addr::LOCALHOST.into(), ", and at every other address of this host"),
    };
    let shown = SocketAddr::new(host, address.port());
    let url = format!("http://{shown}/{token}");
    say(&format!("live page at {url}{others}"));
    if !address.ip().is_loopback() {
        say("it is not encrypted: anyone on the network path can read it; ssh -L protects it");
    }
    let at = PageAt { listener, name: Some(job.name.clone()), token: job.token.clone() };
    Ok((at, url))
}

fn listen(at: SocketAddr, flag: &str) -> Result<(TcpListener, SocketAddr)> {
    let cannot =
        |error: io::Error| Stop::CannotRun(format!("{flag}: cannot listen on {at}: {error}"));
    let listener = TcpListener::bind(at).map_err(cannot)?;
    let address = listener.local_addr().map_err(cannot)?;
    Ok((listener, address))
}

fn sender(to: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(address::any_like(to))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Ends publishing, after the report was written.
fn close(
    feed: Feed,
    thread: JoinHandle<io::Result<()>>,
    job: &PublishJob,
    interrupts: &Interrupts,
) {
    let is_interrupted = interrupts.is_raised();
    let notes = feed.close();
    if is_interrupted {
        // After an interrupt the command does not wait for a scraper; open pages are still notified.
        wait(&thread, || false, INTERRUPTED_WAIT);
        return;
    }
    if job.prometheus.is_some() && !job.linger.is_zero() {
        say(&format!(
            "serving the last metrics until they were scraped twice, at most for {} s; Ctrl-C ends this",
            job.linger.as_secs_f64()
        ));
    }
    wait(&thread, || interrupts.is_raised(), Duration::MAX);
    notes.try_iter().for_each(|note| say(&note));
    if thread.is_finished()
        && let Ok(Err(error)) = thread.join()
    {
        say(&format!("publishing has failed: {error}"));
    }
}

/// Waits for the thread, at most so long, or until something else `is_over`.
fn wait(thread: &JoinHandle<io::Result<()>>, is_over: impl Fn() -> bool, most: Duration) {
    let mut waited = Duration::ZERO;
    while !thread.is_finished() && !is_over() && waited < most {
        std::thread::sleep(LOOK_AGAIN);
        waited += LOOK_AGAIN;
    }
}

fn say(line: &str) {
    // The reader may have exited; the run matters more.
    let _ = writeln!(io::stderr(), "{}", clean(line));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_refused() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = holder.local_addr().unwrap();
        let prometheus = Some(MetricsJob { address, name: "localhost".to_owned() });
        let job = PublishJob { prometheus, ..PublishJob::default() };
        let stop = start(&job).err().unwrap();
        assert_eq!(stop.code(), 1);
        assert!(stop.complaint().unwrap().contains("--prometheus: cannot listen on"));
    }
}
