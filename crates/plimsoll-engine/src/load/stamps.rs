//! The choice of the operations that are stamped, and our own delay in their latency.
//!
//! The kernel stamps the arrival of every answer; reading a stamp and recording its durations takes 0.2 us, up to 5 %
//! of a request's CPU. At low rates that is negligible, and every operation is stamped. At others one of [`SAMPLED`]
//! is, chosen by a hash of its connection and its number there, so that no state is stored for it and no cycle of
//! targets is met.

use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::tally::Tally;

use super::conn::{ConnHot, State};
use crate::slots::slot_mut;

/// Operations per second in a thread up to which every one is stamped.
const RATE_OF_ALL_MAX: f64 = 2_000.0;
/// Above that rate, one operation in this number is stamped.
const SAMPLED: u32 = 16;
/// Operations that were sent late arrive at the server together. One with a twentieth of its
/// capacity to spare needs this multiple of the delay to work off the backlog, and those sent
/// meanwhile wait behind it.
pub(super) const CATCHING_UP: u64 = 20;

/// One worker's part in it.
pub(super) struct Stamps {
    /// The kernel stamps what arrives.
    are_given: bool,
    /// About one operation in this number is stamped.
    every: u32,
    /// Operations have connections that are opened for them: they are sent with the SYN.
    pub(super) are_with_syn: bool,
    /// By slot: the delays of its current operation, if that is stamped. A hold, whose
    /// connections must cost nothing, has none.
    pub(super) delays: Option<Vec<Delays>>,
    pub(super) arrears: Arrears,
    /// Arrival of the bytes that are being handled, if the kernel has stamped them.
    pub(super) arrival: Option<Nanos>,
}

/// Delays in us that this process has added to an operation before its answer.
#[derive(Clone, Copy, Default)]
pub(super) struct Delays {
    pub(super) sending: u32,
    /// Delay at the server from earlier operations that were sent late, too; at least `sending`.
    pub(super) arrears: u32,
    /// Reading what the handshake waited for.
    pub(super) handshake: u32,
}

/// Delay at the server, caused by us, of the operations that are sent now.
#[derive(Default)]
pub(super) struct Arrears {
    delay: Nanos,
    at: Nanos,
}

impl Arrears {
    /// Returns the remaining delay at `now`.
    pub(super) fn left(&self, now: Nanos) -> Nanos {
        Nanos(self.delay.0.saturating_sub(now.since(self.at).0 / CATCHING_UP))
    }

    /// Notes an operation sent at `now`, with its delay after the time at which it could have been sent.
    fn add(&mut self, lag: Nanos, now: Nanos) {
        (self.delay, self.at) = (self.left(now).max(lag), now);
    }
}

/// The parts of a stamped operation's latency.
pub(super) struct Stamped {
    pub(super) wire: Nanos,
    pub(super) receive_lag: Nanos,
    pub(super) undelayed: Nanos,
    pub(super) undelayed_min: Nanos,
}

impl Stamps {
    pub(super) fn new(plan: &LoadPlan, shard: Shard, are_given: bool) -> Self {
        let is_hold = matches!(plan.pacing, Pacing::Hold(_));
        let rate = match &plan.pacing {
            Pacing::Open { profile, .. } => profile.mean_rate().get() / f64::from(shard.of.max(1)),
            Pacing::Closed { .. } => f64::INFINITY,
            Pacing::Hold(_) => 0.0,
        };
        Self {
            are_given,
            every: if rate <= RATE_OF_ALL_MAX { 1 } else { SAMPLED },
            are_with_syn: !plan.keepalive,
            delays: (!is_hold).then(Vec::new),
            arrears: Arrears::default(),
            arrival: None,
        }
    }

    /// Reports whether the connection's current operation is stamped, or the one `ahead` after it.
    pub(super) fn samples(&self, index: u32, hot: &ConnHot, ahead: u32) -> bool {
        if !self.are_given {
            return false;
        }
        // Multiples of the golden ratio: the operations of a connection that are stamped are as far
        // apart as can be, and each cycle has its share of them.
        let hash = (index.wrapping_mul(0x85eb_ca6b))
            .wrapping_add(hot.generation.wrapping_mul(0xc2b2_ae35))
            .wrapping_add(hot.ops_total.wrapping_add(ahead).wrapping_mul(0x9e37_79b1));
        hash <= u32::MAX / self.every
    }

    /// Reports whether the connection awaits the answer to an operation that is stamped, or to the one before
    /// such an operation, which may be waiting for the connection.
    pub(super) fn awaits(&self, index: u32, hot: &ConnHot) -> bool {
        matches!(hot.state, State::Busy | State::Handshaking | State::Greeting)
            && (self.samples(index, hot, 0) || self.samples(index, hot, 1))
    }

    /// An operation is sent at `now` on a connection that was free since `free_since` as far as we
    /// had read.
    pub(super) fn count_sent(
        &mut self,
        index: u32,
        hot: &ConnHot,
        intended: Nanos,
        free_since: Nanos,
        now: Nanos,
    ) {
        // The answer before it may have arrived a while ago.
        let freed = self.arrival.map_or(free_since, |arrival| arrival.min(free_since));
        let lag = now.since(intended.max(freed));
        self.arrears.add(lag, now);
        let arrears = us(self.arrears.left(now));
        let is_stamped = self.samples(index, hot, 0);
        if is_stamped && let Some(delays) = self.slot(index) {
            *delays = Delays { sending: us(lag), arrears, handshake: 0 };
        }
    }

    /// Adds the `delay` between the start of a stamped operation's send and its departure.
    pub(super) fn add_sending(&mut self, index: u32, delay: Nanos) {
        if let Some(delays) = self.slot(index) {
            delays.sending = delays.sending.saturating_add(us(delay));
            delays.arrears = delays.arrears.saturating_add(us(delay));
        }
    }

    /// Notes that the handshake of a stamped operation continues with the bytes just read.
    pub(super) fn count_handshake(&mut self, index: u32, hot: &ConnHot, now: Nanos) {
        if let Some(arrival) = self.arrival
            && hot.has_op
            && self.samples(index, hot, 0)
            && let Some(delays) = self.slot(index)
        {
            delays.handshake = delays.handshake.saturating_add(us(now.since(arrival)));
        }
    }

    fn slot(&mut self, index: u32) -> Option<&mut Delays> {
        Some(slot_mut(self.delays.as_mut()?, index, Delays::default))
    }

    /// Ends the second.
    pub(super) const fn end_second(&self, tally: &mut Tally) {
        if self.are_given {
            tally.stamps.every = self.every;
        }
    }
}

pub(super) fn us(span: Nanos) -> u32 {
    u32::try_from(span.0 / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
