//! One iteration of a case: ramp up, sustain, ramp down; and the short closed loops that measure
//! the capacity of generator and SUT.

use plimsoll_capacity::rfc9411::IterationRecord;
use plimsoll_fleet::coordinator::{HoldController, HoldView, Order};
use plimsoll_model::event::Event;
use plimsoll_model::pace::{Arrivals, Profile, Stage};
use plimsoll_model::plan::{HoldPlan, LoadPlan, Pacing, Steer};
use plimsoll_model::rfc9411::Step;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::TrialRequest;
use plimsoll_model::{Nanos, Rate};

use crate::exit::Result;
use crate::plan::rfc9411::Rfc9411Job;
use crate::session::{Measurement, Session};

/// A ramp is a tenth of the sustain phase, within these.
const RAMP_MAX: Nanos = Nanos::from_secs(30);
const RAMP_MIN: Nanos = Nanos::from_secs(1);
/// Section 4.3.4 recommends at least 5 s without load with its sustain phase of 300 s; shorter ones
/// get their part of it.
const INIT_PARTS: u64 = 60;
const INIT_MAX: Nanos = Nanos::from_secs(5);
/// Sessions at once of a closed loop: enough to keep every thread of a server busy.
const CLOSED_CONNECTIONS: u64 = 100;
/// Longest closed loop.
const CLOSED_MAX: Nanos = Nanos::from_secs(3);
/// Failures beyond which an iteration cannot meet F any more: twice its limit, and enough that the
/// verdict does not depend on a few.
const ABORT_SHARE: f64 = 2e-5;
const ABORT_MIN: f64 = 20.0;
/// Connections that a hold opens at once.
pub(super) const OPENING_MAX: u32 = 512;
/// Factor by which a ramp of connections may exceed its plan.
const RAMP_SLACK: f64 = 1.1;
/// Longest wait for seconds that an agent does not deliver.
const COVER_WAIT: Nanos = Nanos::from_secs(5);
const SECOND: Nanos = Nanos::from_secs(1);

/// The figures of a closed loop.
#[derive(Default)]
pub(super) struct Reached {
    /// Good answers.
    pub(super) transactions_per_s: f64,
    /// Connections that were closed by FIN.
    pub(super) connections_per_s: f64,
    /// At the sockets, both directions.
    pub(super) bit_s: f64,
    pub(super) tally: Tally,
}

/// Returns the length of the ramps around a sustain phase, in whole seconds.
pub(super) fn ramp(sustain: Nanos) -> Nanos {
    let tenth = Nanos::from_secs(sustain.0 / 10 / SECOND.0);
    tenth.clamp(RAMP_MIN, RAMP_MAX)
}

/// Returns the time without load before an iteration.
pub(super) fn init(sustain: Nanos) -> Nanos {
    Nanos(sustain.0 / INIT_PARTS).min(INIT_MAX)
}

/// Transactions of each session of a plan.
pub(super) fn transactions(plan: &LoadPlan) -> u32 {
    plan.session.map_or(1, |session| session.transactions)
}

/// Runs `plan` as the iteration `request` that `step` of a case asks for: sessions at a rate of transactions, or
/// connections that are opened at `ramp_per_s` and held.
pub(super) fn run(
    (session, job, step): (&Session<'_>, &Rfc9411Job, Step),
    mut plan: LoadPlan,
    ramp_per_s: Option<f64>,
    request: TrialRequest,
) -> Result<IterationRecord> {
    let (ramp_up, planned_ops) = match ramp_per_s {
        Some(per_s) => (hold(&mut plan, per_s, request), None),
        None => offer(&mut plan, job.arrivals(), request),
    };
    let (plan, trial, transactions) = (&plan, Some(request), transactions(&plan));
    // Its ramps are in its halves, so they cannot be compared.
    let load = Measurement { plan, trial, is_steady: false, is_alone: true, deliveries: None };
    let mut controller = RampController::new(plan.connections, request.duration, ramp_up);
    let mut intervals = Vec::new();
    let mut keep = |event: &Event| {
        if let Event::Interval(interval) = event {
            intervals.push((**interval).clone());
        }
    };
    let observed = match ramp_per_s {
        Some(_) => session.run_hold(&load, &mut controller, &mut keep)?,
        None => session.run_load(&load, &mut keep)?,
    };
    let (case, measurement) = (job.flags.case, observed.into_measurement(request));
    let RampController { sustain_from, .. } = controller;
    Ok(IterationRecord {
        case,
        step,
        measurement,
        intervals,
        ramp_up,
        sustain_from,
        planned_ops,
        transactions,
    })
}

/// Plans sessions at a rate of transactions; returns the ramp, and all transactions if each session has one.
fn offer(plan: &mut LoadPlan, arrivals: Arrivals, request: TrialRequest) -> (Nanos, Option<u64>) {
    let each = f64::from(transactions(plan));
    let ramp_up = ramp(request.duration);
    let rate = Rate::per_second(request.rate.get() / each).unwrap_or_default();
    let profile = Profile::from_stages(vec![
        Stage { duration: ramp_up, from: Rate::ZERO, to: rate },
        Stage { duration: request.duration, from: rate, to: rate },
        Stage { duration: ramp_up, from: rate, to: Rate::ZERO },
    ]);
    let planned = profile.ops_total;
    plan.abort_bad_ops = Some((planned as f64 * each * ABORT_SHARE).max(ABORT_MIN) as u64);
    plan.seed = plan.seed.wrapping_add(u64::from(request.number));
    plan.pacing = Pacing::Open { profile, arrivals };
    (ramp_up, (each == 1.0).then_some(planned))
}

/// Plans connections that are opened at a rate and held; returns the ramp.
fn hold(plan: &mut LoadPlan, connections_per_s: f64, request: TrialRequest) -> Nanos {
    limit_connections(plan, (request.rate.get() as u64).max(1));
    let ramp_up = Nanos::from_secs_f64(plan.connections as f64 / connections_per_s);
    // X = (ramp-up time + steady-state time) / 10, section 7.5: the last transaction comes at the end.
    // The sustain phase begins with a whole second, and a ramp may take a little longer than planned.
    let ramp_s = (ramp_up.as_secs_f64() * RAMP_SLACK).ceil() + 1.0;
    let whole_s = ramp_s + request.duration.as_secs_f64();
    let think = Nanos::from_secs_f64(whole_s / f64::from(transactions(plan)));
    plan.pacing = Pacing::Hold(HoldPlan {
        connections_per_s,
        opening_max: OPENING_MAX,
        heartbeat: Some(think),
        replace: false,
    });
    ramp_up
}

fn limit_connections(plan: &mut LoadPlan, connections: u64) {
    plan.connections = connections;
    plan.threads = plan.threads.min(u32::try_from(connections).unwrap_or(u32::MAX));
}

/// Runs the sessions of `plan` as a closed loop; not part of the record, because no case asks for it.
pub(super) fn closed_loop(
    session: &Session<'_>,
    mut plan: LoadPlan,
    sustain: Nanos,
) -> Result<Reached> {
    let connections = plan.connections.min(CLOSED_CONNECTIONS);
    limit_connections(&mut plan, connections);
    plan.keepalive = false;
    plan.pacing = Pacing::Closed { duration: Some(sustain.min(CLOSED_MAX)), ops_total: None };
    let outcome = session.run_unrecorded(&plan, &mut |event| {
        if let Event::Note(_) = event {
            session.emit(event);
        }
    })?;
    let tally = outcome.tally;
    // What connections and bytes have after the end of the window is taken from the transactions on them.
    let share = tally.ok_in_window() / tally.ok.max(1) as f64;
    let per_s = |count: u64| count as f64 * share / outcome.window.as_secs_f64().max(1e-3);
    Ok(Reached {
        transactions_per_s: per_s(tally.ok),
        connections_per_s: per_s(tally.connections.finished),
        bit_s: per_s((tally.bytes.sent + tally.bytes.received) * 8),
        tally,
    })
}

/// Ramps to a number of connections and holds them for the sustain phase.
struct RampController {
    connections: u64,
    sustain: Nanos,
    /// The number of the order to ramp, once it was given.
    ramp: Option<u32>,
    /// The first second of the sustain phase: as planned, until the ramp is done.
    sustain_from: u32,
    /// The end of the sustain phase, once the ramp is done.
    until: Option<Nanos>,
}

impl RampController {
    fn new(connections: u64, sustain: Nanos, ramp_up: Nanos) -> Self {
        let sustain_from = (ramp_up.0 / SECOND.0) as u32;
        Self { connections, sustain, ramp: None, sustain_from, until: None }
    }
}

impl HoldController for RampController {
    fn poll(&mut self, view: &HoldView<'_>) -> Option<Order> {
        let Some(ramp) = self.ramp else {
            self.ramp = Some(view.given + 1);
            return Some(Order::Steer(Steer::Ramp { connections: self.connections }));
        };
        if let Some(until) = self.until {
            let counted = view.covered >= until || view.now >= until + COVER_WAIT;
            return (view.now >= until && counted).then_some(Order::Finish);
        }
        if view.done >= ramp {
            // The second under way belongs to the ramp.
            let ramped = view.now.since(view.epoch).0 / SECOND.0 + 1;
            self.sustain_from = u32::try_from(ramped).unwrap_or(u32::MAX);
            self.until = Some(view.epoch + Nanos::from_secs(ramped) + self.sustain);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_follow_from_the_sustain_phase() {
        for (sustain_s, ramp_s, init_ms) in [(300, 30, 5_000), (60, 6, 1_000), (1, 1, 16)] {
            let sustain = Nanos::from_secs(sustain_s);
            assert_eq!(ramp(sustain), Nanos::from_secs(ramp_s));
            assert_eq!(init(sustain).0 / 1_000_000, init_ms);
        }
        assert_eq!(ramp(Nanos::from_secs(3_600)), RAMP_MAX);
        assert_eq!(init(Nanos::from_secs(3_600)), INIT_MAX);
    }

    fn view(total: &Tally, at_ms: u64, done: u32) -> HoldView<'_> {
        let epoch = Nanos::from_secs(100);
        let now = epoch + Nanos::from_millis(at_ms);
        HoldView {
            now,
            epoch,
            total,
            covered: now,
            delivered: now,
            held: 10,
            given: done.max(1),
            done,
            agents: 1,
        }
    }

    #[test]
    fn a_hold_is_sustained_in_whole_seconds_after_its_ramp() {
        let total = Tally::default();
        let mut controller = RampController::new(10, Nanos::from_secs(2), Nanos::ZERO);
        let mut first = view(&total, 0, 0);
        first.given = 0;
        let ramp = Order::Steer(Steer::Ramp { connections: 10 });
        assert_eq!(controller.poll(&first), Some(ramp));
        assert_eq!(controller.poll(&view(&total, 900, 0)), None);
        assert_eq!(controller.poll(&view(&total, 1_300, 1)), None);
        assert_eq!(controller.sustain_from, 2);
        assert_eq!(controller.poll(&view(&total, 3_900, 1)), None);
        assert_eq!(controller.poll(&view(&total, 4_000, 1)), Some(Order::Finish));
        // The wait for an agent that does not deliver its seconds is bounded.
        controller.until = Some(Nanos::from_secs(104));
        let mut late = view(&total, 8_900, 1);
        late.covered = late.epoch;
        assert_eq!(controller.poll(&late), None);
        late.now = late.now + Nanos::from_millis(200);
        assert_eq!(controller.poll(&late), Some(Order::Finish));
    }
}
