//! The stamps of the kernel on what is sent and what arrives.

use plimsoll_model::Nanos;

use super::Meter;
use crate::load::conn::ConnHot;
use crate::load::stamps::{CATCHING_UP, Stamped};
use crate::load::transport::Transport;

impl Meter {
    /// Returns the time at which the request of the connection's operation, which is about to leave, is sent.
    pub(crate) fn time_of_sending(&mut self, index: u32, hot: &ConnHot, now: Nanos) -> Nanos {
        if !self.stamps.samples(index, hot, 0) {
            return now;
        }
        let leaves = Transport::now();
        self.stamps.add_sending(index, leaves.since(now));
        leaves
    }

    /// Returns the parts of the latency of an operation that has ended well, if it is stamped.
    pub(crate) fn take_stamped(
        &mut self,
        index: u32,
        hot: &ConnHot,
        now: Nanos,
    ) -> Option<Stamped> {
        if !self.stamps.samples(index, hot, 0) {
            return None;
        }
        let is_sent_with_syn = self.stamps.are_with_syn && !hot.reused;
        let sent = if is_sent_with_syn { hot.since } else { hot.request_began() };
        // Arrived since the clock was read.
        let arrival = self.stamps.arrival.map(|arrival| arrival.min(now));
        let Some(arrival) = arrival.filter(|arrival| *arrival >= sent) else {
            self.tally().stamps.missing += 1;
            return None;
        };
        let receive_lag = now.since(arrival);
        let ns = |us: u32| Nanos(u64::from(us) * 1000);
        let [sending, arrears, handshake] = match &self.stamps.delays {
            Some(delays) => {
                let delays = delays.get(index as usize).copied().unwrap_or_default();
                [ns(delays.sending), ns(delays.arrears), ns(delays.handshake)]
            }
            // What is left of it since it was sent, and at most the time to its sending.
            None => {
                let left = self.stamps.arrears.left(now) + Nanos(now.since(sent).0 / CATCHING_UP);
                let sending = left.min(sent.since(hot.intended));
                [sending, sending, Nanos::ZERO]
            }
        };
        let without = |ours: Nanos| {
            let ours = receive_lag + handshake + ours;
            Nanos(now.since(hot.intended).0.saturating_sub(ours.0))
        };
        Some(Stamped {
            wire: Nanos(arrival.since(sent).0.saturating_sub(handshake.0)),
            receive_lag,
            undelayed: without(sending),
            undelayed_min: without(arrears),
        })
    }
}
