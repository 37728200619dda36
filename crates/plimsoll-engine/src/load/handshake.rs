//! Handshake-only loads: an operation is a connection, and ends well once that is usable.
//!
//! Its connection is closed at once, by close_notify and FIN as users close theirs. That leaves a
//! port in TIME_WAIT for 60 s on this side, so where the plan would run out of ports it is reset
//! instead. A reset may overtake what the server still does for the handshake (checking Finished,
//! sending tickets), so it is the exception.
//!
//! Where connections resume, the next ones need this one's tickets. In TLS 1.3 they come after the
//! handshake: the operation ends with the handshake, its connection when they are here.

use plimsoll_model::Nanos;
use plimsoll_model::plan::{LoadPlan, Pacing};

use super::conn::State;
use super::worker::Worker;

/// How long a port rests after a FIN that was ours: TIME_WAIT on Linux.
const TIME_WAIT_S: f64 = 60.0;
/// Ports of one source address towards one server address that may rest: 70 % of the 28,232 of
/// the default range. Beyond it a free one is found slowly.
const PORTS_RESTING_MAX: f64 = 20_000.0;

/// How long tickets are waited for. A server that sends any does so as soon as it has the client's
/// Finished; the store takes what comes later from other connections.
const TICKET_WAIT: Nanos = Nanos::from_millis(500);

impl Worker {
    /// The connection is all that its operation asked for.
    pub(super) fn finish_handshake(&mut self, index: u32, now: Nanos) {
        let hot = &mut self.slab.hot[index as usize];
        let (destination, intended, sent) = (hot.destination, hot.intended, hot.since);
        hot.has_op = false;
        self.in_flight -= 1;
        self.meter.count_ok(now.since(intended), now.since(sent), self.plan.deadline);
        let handshake = self.slab.tls.get(index).and_then(|session| session.handshake());
        // In TLS 1.2 the ticket is part of the handshake.
        let tickets_follow = handshake.is_some_and(|handshake| handshake.version == "TLS 1.3");
        if self.waits_for_tickets() && tickets_follow {
            self.slab.hot[index as usize].since = now;
            return self.arm(index, now + TICKET_WAIT);
        }
        self.end_handshake(index, destination, now);
    }

    fn waits_for_tickets(&self) -> bool {
        self.plan.handshake_only && self.plan.tls.resume_ratio > 0.0
    }

    /// When an idle connection is no longer waited on for tickets; `None` if it is not at all.
    pub(super) fn tickets_due(&self, index: u32) -> Option<Nanos> {
        let since = self.slab.hot[index as usize].since;
        self.waits_for_tickets().then(|| since + TICKET_WAIT)
    }

    /// Something has come after the handshake, or nothing in time: it was for this that the
    /// connection was kept.
    pub(super) fn handle_tickets(&mut self, index: u32, now: Nanos) {
        let hot = &self.slab.hot[index as usize];
        if self.waits_for_tickets() && hot.state == State::Idle && !hot.has_op {
            self.end_handshake(index, hot.destination, now);
        }
    }

    fn end_handshake(&mut self, index: u32, destination: u32, now: Nanos) {
        self.close(index, self.resets_handshakes);
        self.open_for_waiting(destination, now);
        self.reopen_closed_loop(destination, now);
    }
}

/// Whether closing by FIN would use up the source ports of the whole load.
pub(super) fn must_reset(plan: &LoadPlan) -> bool {
    let servers = plan.destinations.iter().map(|one| one.addresses.len()).sum();
    plan.handshake_only && ports_run_out(&plan.pacing, servers, plan.sources.len())
}

fn ports_run_out(pacing: &Pacing, servers: usize, sources: usize) -> bool {
    let within_time_wait = match pacing {
        Pacing::Open { profile, .. } => {
            let stages = profile.stages.iter();
            let peak = stages.map(|stage| stage.from.get().max(stage.to.get())).fold(0.0, f64::max);
            (peak * TIME_WAIT_S).min(profile.ops_total as f64)
        }
        // As many as the server answers: without a number there is no bound.
        Pacing::Closed { ops_total, .. } => ops_total.map_or(f64::INFINITY, |ops| ops as f64),
        Pacing::Hold(_) => 0.0,
    };
    let pairs = servers.max(1) * sources.max(1);
    within_time_wait > PORTS_RESTING_MAX * pairs as f64
}

#[cfg(test)]
mod tests {
    use plimsoll_model::pace::{Arrivals, Profile};
    use plimsoll_model::{Nanos, Rate};

    use super::*;

    #[test]
    fn reset_only_where_ports_would_run_out() {
        let rate = |per_s, s| {
            let rate = Rate::per_second(per_s).unwrap();
            let profile = Profile::constant(rate, Nanos::from_secs(s));
            Pacing::Open { profile, arrivals: Arrivals::Uniform }
        };
        let closed = |ops_total| Pacing::Closed { duration: None, ops_total };
        for (pacing, servers, sources, resets) in [
            (rate(300.0, 3600), 1, 0, false), // 18,000 ports rest at a time
            (rate(400.0, 3600), 1, 0, true),  // 24,000
            (rate(400.0, 3600), 2, 0, false), // 12,000 towards each server address
            (rate(400.0, 3600), 1, 2, false), // 12,000 from each source
            (rate(5000.0, 4), 1, 0, false),   // fast, but no more than 20,000 in all
            (rate(5000.0, 5), 1, 0, true),    // 25,000
            (closed(Some(20_000)), 1, 0, false),
            (closed(Some(20_001)), 1, 0, true),
            (closed(None), 1, 0, true), // nobody knows how many
        ] {
            let what = format!("{pacing:?}, {servers} servers, {sources} sources");
            assert_eq!(ports_run_out(&pacing, servers, sources), resets, "{what}");
        }
    }
}
