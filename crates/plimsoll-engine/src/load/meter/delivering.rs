//! The deliveries of what a load publishes itself.

use plimsoll_model::Nanos;
use plimsoll_model::plan::LoadPlan;

use super::Meter;
use crate::load::conns::Conns;
use crate::load::control::{Control, Stop};
use crate::load::deliveries::QUIET;
use crate::load::transport::Transport;

impl Meter {
    /// Returns the number of the publish that comes next on a connection; `None` if deliveries are not counted.
    pub(crate) fn number_of_publish(&mut self, connection: u32) -> Option<u32> {
        Some(self.deliveries.as_mut()?.number(connection))
    }

    /// Expects the deliveries of a publish that is acknowledged, or at QoS 0 sent.
    pub(crate) fn expect_deliveries(&mut self, conns: &Conns, index: u32) {
        if let Some(deliveries) = &mut self.deliveries {
            let connection = conns.slab.connection_of(index);
            deliveries.expect(connection, &mut self.interval.tally.answers.deliveries);
        }
    }

    /// Counts a publish that is refused, or not acknowledged.
    pub(crate) fn lose_sight_of_deliveries(&mut self, conns: &Conns, index: u32) {
        if let Some(deliveries) = &mut self.deliveries {
            let connection = conns.slab.connection_of(index);
            deliveries.lose_sight(connection, &mut self.interval.tally.answers.deliveries);
        }
    }

    /// Counts a message that the broker has delivered on a connection.
    pub(crate) fn count_delivery(&mut self, conns: &mut Conns, index: u32) {
        let Some(deliveries) = &mut self.deliveries else { return };
        let stamp = conns.slab.parser(index).shared().and_then(|window| window.delivery());
        let tally = &mut self.interval.tally;
        let now = Transport::now();
        deliveries.came = now;
        if deliveries.take(index, stamp, &mut tally.answers.deliveries)
            && let Some(stamp) = stamp
        {
            tally.spans.delivery.record(now.since(stamp.intended));
            tally.spans.delivery_uncorrected.record(now.since(stamp.began));
        }
    }

    /// Reports whether deliveries are complete or no longer waited for; called once this worker publishes nothing more.
    pub(crate) fn have_deliveries_settled(
        &mut self,
        plan: &LoadPlan,
        control: &Control,
        now: Nanos,
    ) -> bool {
        let Some(deliveries) = &mut self.deliveries else { return true };
        // Before this worker counts among those that miss nothing further.
        control.add_missing(std::mem::take(&mut deliveries.missing));
        if deliveries.settles_by.is_none() {
            control.count_settling();
            deliveries.came = now;
        }
        let by = *deliveries.settles_by.get_or_insert(now + plan.timeouts.linger);
        let by = by.min(deliveries.came + QUIET);
        // What other agents get or publish is not known here.
        let is_whole = plan.part.shard.of <= plan.threads;
        let has_all = is_whole && control.has_settled(plan.threads.max(1));
        has_all || now >= by || control.asked_to_stop(now) == Stop::Now
    }
}
