//! Counts of the clients whose connections a storm cut.

use serde::{Deserialize, Serialize};

use crate::{Histogram, Nanos};

/// Counts of a storm's clients: those whose connections were cut. Their requests are not among the operations of the
/// load. A client is back when its new connection has answered a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StormCounts {
    /// Connections cut.
    pub cut: u64,
    /// Attempts to come back.
    pub attempts: u64,
    /// Attempts after the first of a client.
    pub retries: u64,
    /// Clients that came back; one that was lost again counts again.
    pub back: u64,
    /// Attempts that ended with the client's patience.
    pub gave_up: u64,
    /// Attempts of `gave_up` that had sent the first bytes of TLS or of the protocol, which the server may still
    /// process.
    pub gave_up_sent: u64,
    /// Attempts that the server or the network ended.
    pub refused: u64,
    /// Clients that were lost again after they had come back.
    pub lost_again: u64,
    /// Clients that stopped trying.
    pub withdrawn: u64,
    /// The longest time by which an attempt was made too late by this program.
    pub lag_max: Nanos,
    /// Time from the cut until a client was back.
    pub recovery: Histogram,
}

impl StormCounts {
    /// Reports whether there was no storm.
    pub const fn is_none(&self) -> bool {
        self.cut == 0 && self.attempts == 0 && self.back == 0 && self.lost_again == 0
    }

    /// Returns the counts since `before`, without histogram and lag, which cannot be taken apart.
    pub fn since(&self, before: &Self) -> Self {
        let since = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before));
        Self {
            cut: since(|counts| counts.cut),
            attempts: since(|counts| counts.attempts),
            retries: since(|counts| counts.retries),
            back: since(|counts| counts.back),
            gave_up: since(|counts| counts.gave_up),
            gave_up_sent: since(|counts| counts.gave_up_sent),
            refused: since(|counts| counts.refused),
            lost_again: since(|counts| counts.lost_again),
            withdrawn: since(|counts| counts.withdrawn),
            ..Self::default()
        }
    }

    /// Adds the counts of another thread, agent or second.
    pub(crate) fn merge(&mut self, other: &Self) {
        add_fields!(self, other, cut, attempts, retries, back, gave_up, gave_up_sent);
        add_fields!(self, other, refused, lost_again, withdrawn);
        self.lag_max = self.lag_max.max(other.lag_max);
        self.recovery.merge(&other.recovery);
    }

    /// Returns the number of clients that are not back.
    pub const fn missing(&self) -> u64 {
        (self.cut + self.lost_again).saturating_sub(self.back)
    }

    /// Returns the number of clients that are not back and still try.
    pub const fn trying(&self) -> u64 {
        self.missing().saturating_sub(self.withdrawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_were_lost_again_are_missing() {
        let counts = StormCounts { cut: 10, back: 10, lost_again: 2, ..StormCounts::default() };
        assert_eq!(counts.missing(), 2);
    }
}
