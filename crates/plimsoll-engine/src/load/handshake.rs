//! Handshake-only loads: an operation is a connection, and ends well once that is usable.
//!
//! Its connection is closed at once, by close_notify and FIN as users close theirs. That leaves a
//! port in TIME_WAIT for 60 s on this side, so where the plan would run out of ports it is reset
//! instead. A reset may overtake what the server still does for the handshake (checking Finished,
//! sending tickets), so it is the exception.

use plimsoll_model::Nanos;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::plan::Pacing;

use super::worker::Worker;

/// How long a port rests after a FIN that was ours: TIME_WAIT on Linux.
const TIME_WAIT_S: f64 = 60.0;
/// Ports of one source address towards one server address that may rest: 70 % of the 28,232 of
/// the default range. Beyond it a free one is found slowly.
const PORTS_RESTING_MAX: f64 = 20_000.0;

impl Worker {
    /// The connection is all that its operation asked for.
    pub(super) fn finish_handshake(&mut self, index: u32, now: Nanos) {
        let hot = &mut self.slab.hot[index as usize];
        let (destination, intended, sent) = (hot.destination, hot.intended, hot.since);
        hot.has_op = false;
        self.in_flight -= 1;
        self.meter.count_ok(now.since(intended), now.since(sent), self.plan.deadline);
        self.close(index, self.resets_handshakes);
        self.open_for_waiting(destination, now);
        self.reopen_closed_loop(destination, now);
    }
}

/// Whether closing by FIN would use up the source ports of the whole load.
pub(super) fn must_reset(plan: &LoadPlan) -> bool {
    if !plan.handshake_only {
        return false;
    }
    let within_time_wait = match &plan.pacing {
        Pacing::Open { profile, .. } => {
            let stages = profile.stages.iter();
            let peak = stages.map(|stage| stage.from.get().max(stage.to.get())).fold(0.0, f64::max);
            (peak * TIME_WAIT_S).min(profile.ops_total as f64)
        }
        // As many as the server answers: without a number there is no bound.
        Pacing::Closed { ops_total, .. } => ops_total.map_or(f64::INFINITY, |ops| ops as f64),
        Pacing::Hold(_) => 0.0,
    };
    let servers: usize = plan.destinations.iter().map(|one| one.addresses.len()).sum();
    let pairs = servers.max(1) * plan.sources.len().max(1);
    within_time_wait > PORTS_RESTING_MAX * pairs as f64
}
