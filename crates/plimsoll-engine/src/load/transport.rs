//! The transport of one worker: opens connections, watches them, stamps what arrives, and takes ports back.
//!
//! The slab stores the sockets, because each is in the record that the loop touches anyway.

use std::collections::VecDeque;
use std::ops::Range;

use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::tally::Tally;
use plimsoll_sys::arrival::ArrivalClock;
use plimsoll_sys::poll::{Poller, Ready};
use plimsoll_sys::ports::{Closed, Lease};
use plimsoll_sys::socket::{Connecting, FirstBytes, Socket};
use plimsoll_sys::{Errno, clock};

use super::origin::{Begun, OriginError, Origins};
use super::segments::Segments;

/// Events per wait. The schedule is checked between two events, so this bounds only how often the
/// poller is called.
const EVENT_BATCH: usize = 256;

/// The socket of a connection that was cut without a word to its server.
pub(super) struct LeftOpen {
    pub(super) socket: Socket,
    pub(super) lease: Option<Lease>,
}

/// Opens, watches, reads and counts the sockets of one worker.
pub(super) struct Transport {
    poller: Poller,
    /// Events of the last wait that [`Self::next_ready`] has not returned.
    events: Range<usize>,
    /// Events of connections with more to read than one turn allows; at most one of each.
    unread: VecDeque<Ready>,
    origins: Origins,
    segments: Segments,
    /// `None` if the kernel gives no stamps.
    arrivals: Option<ArrivalClock>,
}

impl Transport {
    /// Creates the transport of the worker that makes `shard` of the load.
    pub(super) fn new(plan: &LoadPlan, shard: Shard) -> Result<Self, Errno> {
        Ok(Self {
            poller: Poller::new(EVENT_BATCH)?,
            events: 0..0,
            unread: VecDeque::new(),
            origins: Origins::new(plan, shard),
            segments: Segments::default(),
            // The kernel stamps no bytes of a Unix socket.
            arrivals: ArrivalClock::new().ok().filter(|_| plan.unix_socket.is_none()),
        })
    }

    /// Returns the present time.
    #[inline]
    pub(super) fn now() -> Nanos {
        Nanos(clock::monotonic_ns())
    }

    // ---- events

    /// Waits for events up to `timeout`, not at all while something is unread.
    pub(super) fn wait(&mut self, timeout: Nanos) -> Result<(), Errno> {
        let timeout = if self.unread.is_empty() { timeout } else { Nanos::ZERO };
        self.events = 0..self.poller.wait(Some(timeout.0))?;
        Ok(())
    }

    /// Returns the next event of the last wait.
    #[inline]
    pub(super) fn next_ready(&mut self) -> Option<Ready> {
        self.poller.event(self.events.next()?)
    }

    /// Schedules another read of a connection that has used its read budget: the edge-triggered poller will not report
    /// the rest again.
    pub(super) fn read_later(&mut self, ready: Ready) {
        // Few connections exceed the budget at the same time.
        if !self.unread.iter().any(|other| other.token == ready.token) {
            self.unread.push_back(ready);
        }
    }

    /// Returns the number of connections that are to be read once more.
    pub(super) fn unread(&self) -> usize {
        self.unread.len()
    }

    pub(super) fn next_unread(&mut self) -> Option<Ready> {
        self.unread.pop_front()
    }

    // ---- opening and closing

    /// Begins a connection to `destination`, whose events have this token; returns it, and whether it is
    /// established already.
    pub(super) fn begin(
        &mut self,
        plan: &LoadPlan,
        destination: u32,
        first_bytes: FirstBytes,
        token: u64,
        now: Nanos,
    ) -> Result<(Begun, bool), OriginError> {
        let begun = self.origins.connect(&plan.sources, destination, first_bytes, now)?;
        let is_established = match begun.progress {
            Connecting::Done => Ok(true),
            // A connect to this host is complete when the call returns.
            _ if begun.is_local && first_bytes == FirstBytes::AtOnce => begun.socket.is_connected(),
            Connecting::InProgress => Ok(false),
        };
        let watched = self.poller.add(&begun.socket, token);
        match watched.and(is_established) {
            Ok(is_established) => Ok((begun, is_established)),
            Err(errno) => {
                if let Some(lease) = begun.lease {
                    self.origins.give_back(lease, Closed::HereFirst, now);
                }
                Err(errno.into())
            }
        }
    }

    /// Counts what a socket has sent that is about to be closed.
    pub(super) fn count_segments(&mut self, socket: &Socket) {
        self.segments.count(socket);
    }

    /// Gives back the port of a closed connection that held `lease`.
    pub(super) fn give_back(&mut self, lease: Lease, closed: Closed) {
        self.origins.give_back(lease, closed, Self::now());
    }

    /// Resets what was left open.
    pub(super) fn reset_left(&mut self, LeftOpen { socket, lease }: LeftOpen, now: Nanos) {
        // Fails only on a socket that is already dead, whose close needs no RST.
        let _ = socket.reset_on_close();
        drop(socket);
        if let Some(lease) = lease {
            self.origins.give_back(lease, Closed::Reset, now);
        }
    }

    /// Returns the next connection's place among the addresses.
    pub(super) const fn turn(&self) -> u64 {
        self.origins.turn()
    }

    // ---- bytes

    /// Reports whether the kernel can stamp what arrives.
    pub(super) const fn has_stamps(&self) -> bool {
        self.arrivals.is_some()
    }

    /// Reads what has arrived, on request with the time of arrival.
    #[inline]
    pub(super) fn recv(
        &self,
        socket: &Socket,
        buffer: &mut [u8],
        is_stamped: bool,
    ) -> Result<(usize, Option<Nanos>), Errno> {
        if !is_stamped {
            return Ok((socket.recv(buffer)?, None));
        }
        let (received, stamp) = socket.recv_stamped(buffer)?;
        let arrival = stamp.zip(self.arrivals.as_ref());
        Ok((received, arrival.map(|(stamp, clock)| Nanos(clock.monotonic_ns(stamp)))))
    }

    /// Ends the second: hands its counts over, compares the clocks again, and drops samples between clocks that differ.
    pub(super) fn end_second(&mut self, tally: &mut Tally) {
        self.segments.end_second(tally);
        if self.arrivals.as_mut().is_some_and(ArrivalClock::renew) {
            tally.stamps.clock_set += 1;
            tally.stamps.missing += tally.spans.clear_stamped();
        }
    }

    /// Pretends that the host's time was set back by `ns` since the last second.
    #[cfg(test)]
    pub(super) fn pretend_set(&mut self, ns: i64) {
        if let Some(clock) = &mut self.arrivals {
            clock.pretend_set(ns);
        }
    }

    /// Returns the number of ports towards the first address that are known here to be in TIME_WAIT.
    #[cfg(test)]
    pub(super) fn time_wait(&self) -> u32 {
        self.origins.time_wait()
    }
}
