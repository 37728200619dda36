//! A sweep of a hold: every connection that was held when it began has to answer once more.
//!
//! Each connection is sent a request at its turn. A busy connection has a heartbeat in flight, whose end the sweep
//! waits for instead: a second request behind the first would measure this program's own queue. A connection that was
//! lost before its turn counts as an unsent operation.
//!
//! A sweep asks whether all answer, not how many a second the server can take: it has a bounded
//! number of requests in flight, as a ramp has of openings. What waits for a place keeps its
//! intended start, so that latency from there shows a server that did not keep the pace.

use plimsoll_model::Nanos;

/// Requests of a sweep in flight at once, over all workers. HAProxy opens a connection to its
/// backends for each request that finds none idle: with half a million connections asked at
/// 12,500/s it had opened 55,000 when it fell silent.
pub(super) const IN_FLIGHT_MAX: u64 = 4_096;
/// Time after which an unanswered request makes room for another: a sweep of connections that are all silent continues
/// at 1,024/s.
const SILENT_AFTER: Nanos = Nanos::from_secs(4);

/// The bound on requests in flight.
#[derive(Debug)]
pub(super) struct Places {
    /// When the latest requests were sent, as many as there are places.
    sent_at: Box<[Nanos]>,
    sent: usize,
    in_flight: usize,
    /// Time at which the last place that a request may have waited for became free.
    free_since: Nanos,
}

impl Places {
    fn new(places: u64) -> Self {
        let sent_at = vec![Nanos::ZERO; places.max(1) as usize].into_boxed_slice();
        Self { sent_at, sent: 0, in_flight: 0, free_since: Nanos::ZERO }
    }

    /// Since when there is a place, or when there will be one even if nothing is answered.
    pub(super) fn free_at(&self) -> Nanos {
        if self.in_flight < self.sent_at.len() {
            return self.free_since;
        }
        self.sent_at[self.sent % self.sent_at.len()] + SILENT_AFTER
    }

    /// A request is sent.
    pub(super) fn take(&mut self, now: Nanos) {
        self.sent_at[self.sent % self.sent_at.len()] = now;
        self.sent += 1;
        self.in_flight += 1;
    }

    fn give_back(&mut self, now: Nanos) {
        if self.in_flight == self.sent_at.len() {
            self.free_since = now;
        }
        self.in_flight -= 1;
    }
}

/// A sweep in progress.
#[derive(Debug)]
pub(super) struct SweepRun {
    pub(super) id: u32,
    pub(super) places: Places,
    began: Nanos,
    gap_ns: f64,
    /// Before the first request, in gaps, so that workers take turns; 0 <= turn < 1.
    turn: f64,
    /// Every slot below it has had its turn.
    pub(super) cursor: u32,
    /// Requests that have come due.
    due: u64,
    /// Connections whose turn is still to come.
    pub(super) planned: u64,
    /// Connections whose operation has not ended; planned <= left.
    left: u64,
}

impl SweepRun {
    pub(super) fn new(
        id: u32,
        began: Nanos,
        over: Nanos,
        conns: u64,
        turn: f64,
        places: u64,
    ) -> Self {
        Self {
            id,
            places: Places::new(places),
            began,
            gap_ns: over.0 as f64 / conns.max(1) as f64,
            turn,
            cursor: 0,
            due: 0,
            planned: conns,
            left: conns,
        }
    }

    /// Returns the time at which the next request is due by the schedule.
    pub(super) fn intended(&self) -> Option<Nanos> {
        let gaps = self.due as f64 + self.turn;
        (self.planned > 0).then(|| self.began + Nanos((gaps * self.gap_ns) as u64))
    }

    /// Returns the time at which the next request may be sent.
    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.intended().map(|intended| intended.max(self.places.free_at()))
    }

    /// The connection at `index`, the next one of those planned, has its turn.
    pub(super) const fn take_turn(&mut self, index: u32) {
        self.cursor = index + 1;
        self.due += 1;
        self.planned -= 1;
    }

    /// The operation of a connection has ended; it had a place if it was `sent`.
    pub(super) fn end_one(&mut self, sent: bool, now: Nanos) {
        self.left -= 1;
        if sent {
            self.places.give_back(now);
        }
    }

    /// Reports whether every operation has ended.
    pub(super) const fn is_done(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Nanos = Nanos::from_secs(1);

    #[test]
    fn no_more_are_in_flight_than_there_are_places() {
        let mut sweep = SweepRun::new(1, S, S, 10, 0.0, 2);
        let gap = Nanos::from_millis(100);
        for turn in 0..2 {
            assert_eq!(sweep.next_due(), Some(S + Nanos(turn * gap.0)));
            sweep.places.take(S + Nanos(turn * gap.0));
            sweep.due += 1;
        }
        // Both are taken: the next one waits for an answer, or for the first to have been silent.
        assert_eq!(sweep.intended(), Some(S + Nanos(2 * gap.0)));
        assert_eq!(sweep.next_due(), Some(S + SILENT_AFTER));
        let answered = S + Nanos::from_millis(350);
        sweep.places.give_back(answered);
        assert_eq!(sweep.next_due(), Some(answered));
        sweep.places.take(answered);
        sweep.due += 1;
        assert_eq!(sweep.next_due(), Some(S + gap + SILENT_AFTER));
        // With places to spare the schedule decides.
        sweep.places.give_back(answered);
        sweep.places.give_back(answered);
        sweep.due = 9;
        assert_eq!(sweep.next_due(), Some(S + Nanos(9 * gap.0)));
    }

    #[test]
    fn silent_connections_slow_a_sweep_and_do_not_stop_it() {
        let (places, conns) = (8, 100);
        let mut sweep = SweepRun::new(1, S, S, conns, 0.0, places);
        let mut sent_at = Vec::new();
        while sweep.planned > 0 {
            let due = sweep.next_due().expect("some are planned");
            sweep.places.take(due);
            sweep.due += 1;
            sweep.planned -= 1;
            sent_at.push(due);
        }
        for (earlier, later) in sent_at.iter().zip(&sent_at[places as usize..]) {
            assert_eq!(*later, *earlier + SILENT_AFTER);
        }
    }
}
