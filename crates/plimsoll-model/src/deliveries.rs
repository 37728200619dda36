//! A load whose operations are the deliveries of what it publishes.

use crate::tally::{ErrorCounts, StampCounts, Tally};
use crate::{ErrorClass, Nanos};

impl Tally {
    /// Converts a stretch of publishes into one of their deliveries: each publish is to be delivered `each`
    /// times. What is lost shows only when the load has ended: see [`Self::end_deliveries`].
    #[must_use]
    pub fn into_deliveries(mut self, each: u64, deadline: Option<Nanos>) -> Self {
        let failed = std::mem::take(&mut self.failures.operations);
        for (class, publishes) in failed.iter() {
            self.failures.operations.add(class, publishes * each);
        }
        self.scheduled *= each;
        self.unsent *= each;
        self.ok = self.answers.deliveries.delivered;
        self.late = deadline.map_or(0, |deadline| self.spans.delivery.count_above(deadline));
        // The kernel's stamps and the gauge belong to publishes.
        self.spans.clear_stamped();
        self.spans.ttfb.clear();
        self.spans.corrected = self.spans.delivery.clone();
        self.spans.uncorrected = self.spans.delivery_uncorrected.clone();
        self.stamps = StampCounts::default();
        self.outstanding.clear();
        self
    }

    /// Ends the counts with the load: missing deliveries are lost. Delivered publishes that count as failed have not
    /// failed.
    pub fn end_deliveries(&mut self) {
        let ended = self.ok + self.errors_total() + self.unsent;
        self.failures
            .operations
            .add(ErrorClass::DeliveryLost, self.scheduled.saturating_sub(ended));
        let mut excess = ended.saturating_sub(self.scheduled);
        let failed = std::mem::take(&mut self.failures.operations);
        let mut left = ErrorCounts::default();
        for (class, deliveries) in failed.iter() {
            let came = excess.min(deliveries);
            excess -= came;
            left.add(class, deliveries - came);
        }
        self.failures.operations = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten publishes, each to be delivered to three.
    fn published(delivered: u64, failed: u64) -> Tally {
        let mut tally = Tally { scheduled: 10, ok: 10 - failed, ..Tally::default() };
        tally.failures.operations.add(ErrorClass::Timeout, failed);
        tally.answers.deliveries.delivered = delivered;
        tally.spans.delivery.record_n(Nanos::from_millis(20), 4);
        tally.spans.delivery.record_n(Nanos::from_millis(2), delivered - 4);
        tally.outstanding.push(3);
        tally
    }

    #[test]
    fn every_delivery_ends_in_exactly_one_class() {
        for (delivered, failed, lost, timeouts) in [(30, 0, 0, 0), (25, 0, 5, 0), (29, 1, 0, 1)] {
            let tally = published(delivered, failed);
            let mut tally = tally.into_deliveries(3, Some(Nanos::from_millis(10)));
            tally.end_deliveries();
            assert!(tally.balances(), "{tally:?}");
            assert_eq!((tally.scheduled, tally.ok, tally.late), (30, delivered, 4));
            assert_eq!(tally.failures.operations.get(ErrorClass::DeliveryLost), lost);
            assert_eq!(tally.failures.operations.get(ErrorClass::Timeout), timeouts);
            assert_eq!(tally.spans.corrected.count(), delivered);
            assert!(tally.outstanding.is_empty());
        }
    }
}
