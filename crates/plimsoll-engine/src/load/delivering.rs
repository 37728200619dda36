//! The deliveries of what a load publishes itself.

use plimsoll_model::Nanos;
use plimsoll_proto::conversation::Shared;
use plimsoll_sys::clock;

use super::control::Stop;
use super::deliveries::QUIET;
use super::worker::Worker;

impl Worker {
    /// A publish is acknowledged, or at QoS 0 sent.
    pub(super) fn expect_deliveries(&mut self, index: u32) {
        if let Some(deliveries) = &mut self.deliveries {
            let connection = self.conns.slab.connection_of(index);
            deliveries.expect(connection, &mut self.meter.tally().answers.deliveries);
        }
    }

    /// A publish is refused, or not acknowledged.
    pub(super) fn lose_sight_of_deliveries(&mut self, index: u32) {
        if let Some(deliveries) = &mut self.deliveries {
            let connection = self.conns.slab.connection_of(index);
            deliveries.lose_sight(connection, &mut self.meter.tally().answers.deliveries);
        }
    }

    /// The broker has delivered a message on a connection.
    pub(super) fn count_delivery(&mut self, index: u32) {
        let Some(deliveries) = &mut self.deliveries else { return };
        let stamp = match self.conns.slab.parser(index).shared() {
            Some(Shared::Mqtt(window)) => window.delivery(),
            _ => None,
        };
        let tally = self.meter.tally();
        let now = Nanos(clock::monotonic_ns());
        deliveries.came = now;
        if deliveries.take(index, stamp, &mut tally.answers.deliveries)
            && let Some(stamp) = stamp
        {
            tally.spans.delivery.record(now.since(stamp.intended));
            tally.spans.delivery_uncorrected.record(now.since(stamp.began));
        }
    }

    /// Nothing more is published here: whether nothing more is to be delivered, either, or it is waited for no longer.
    pub(super) fn have_deliveries_settled(&mut self, now: Nanos) -> bool {
        let Some(deliveries) = &mut self.deliveries else { return true };
        let control = &self.owner.control;
        // Before this worker counts among those that miss nothing further.
        control.add_missing(std::mem::take(&mut deliveries.missing));
        if deliveries.settles_by.is_none() {
            control.count_settling();
            deliveries.came = now;
        }
        let by = *deliveries.settles_by.get_or_insert(now + self.plan.timeouts.linger);
        let by = by.min(deliveries.came + QUIET);
        // What other agents get or publish is not known here.
        let is_whole = self.plan.part.shard.of <= self.plan.threads;
        let has_all = is_whole && control.has_settled(self.plan.threads.max(1));
        has_all || now >= by || control.asked_to_stop(now) == Stop::Now
    }
}
