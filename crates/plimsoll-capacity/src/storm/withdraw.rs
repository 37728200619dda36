//! The load below which a storm that does not end by itself would end: clients stop trying, a quarter at a time, until
//! the others come back.
//!
//! A server with such a storm has two limits. The storm begins with one number of clients, and the retries of fewer
//! sustain it, because each handshake for a client that has left delays the next.

use plimsoll_model::Nanos;
use plimsoll_model::storm::{EndsBelow, StormCounts};

use super::settings::StormSettings;

/// Part of the clients still trying that stops each time.
const SHARE: f64 = 0.25;
/// Counts are of whole seconds, and come as late.
const REPORTED: Nanos = Nanos::from_secs(1);
/// The others have at least this time to come back: the server first makes the handshakes that wait in its queue.
const WAIT_MIN: Nanos = Nanos::from_secs(10);
/// The storm has ended once this part of the clients that still tried is back.
const ENDED: f64 = 0.5;
/// Fewer clients say nothing of a rate.
const CLIENTS_MIN: u64 = 10;
/// Part of the search's budget that may be spent.
const BUDGET: f64 = 0.25;

/// The withdrawals from one storm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Withdrawals {
    /// The first one and the last one, after the cut.
    began: Nanos,
    last: Nanos,
    /// Clients that were back at the last one.
    back: u64,
    /// The order for the last one is still to be given.
    is_due: bool,
    pub(super) found: EndsBelow,
}

impl Withdrawals {
    /// Creates the first withdrawal from a storm that does not end, `since` after the cut.
    pub(super) fn new(counts: &StormCounts, since: Nanos, settings: &StormSettings) -> Self {
        let found = EndsBelow {
            cut: counts.cut,
            ended_with: None,
            lasted_with: counts.trying(),
            watched_s: wait(settings).as_secs_f64(),
        };
        Self { began: since, last: since, back: back(counts), is_due: true, found }
    }

    /// Returns the share of the clients that stops trying now, once for each withdrawal.
    pub(super) fn poll(&mut self) -> Option<f64> {
        std::mem::take(&mut self.is_due).then_some(SHARE)
    }

    /// Takes the counts since the cut, `since` after it. Returns whether the storm has ended, or will not within the
    /// budget.
    pub(super) fn look(
        &mut self,
        counts: &StormCounts,
        since: Nanos,
        settings: &StormSettings,
    ) -> bool {
        // The attempts of those that stop must have ended.
        let stopped = self.last + attempt(settings) + REPORTED;
        if since < stopped {
            return false;
        }
        let came = back(counts).saturating_sub(self.back);
        let clients = counts.trying() + came;
        if came as f64 >= ENDED * clients as f64 {
            self.found.ended_with = Some(clients);
            return true;
        }
        if since < stopped + wait(settings) {
            return false;
        }
        self.found.lasted_with = clients;
        let budget = Nanos::from_secs_f64(BUDGET * settings.limits.budget.as_secs_f64());
        if clients < CLIENTS_MIN || since.since(self.began) > budget {
            return true;
        }
        (self.last, self.back, self.is_due) = (since, back(counts), true);
        false
    }

    /// Notes that all clients that still tried are back.
    pub(super) fn end(&mut self, counts: &StormCounts) {
        self.found.ended_with = Some(back(counts).saturating_sub(self.back));
    }
}

/// Returns the longest time of one attempt of a client.
fn attempt(settings: &StormSettings) -> Nanos {
    settings.patience + settings.pause
}

/// Time in which the clients that still try may come back.
fn wait(settings: &StormSettings) -> Nanos {
    WAIT_MIN.max(settings.recover).max(Nanos(2 * attempt(settings).0))
}

fn back(counts: &StormCounts) -> u64 {
    counts.back.saturating_sub(counts.lost_again)
}
