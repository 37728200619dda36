//! One iteration of a case: ramp up, sustain, ramp down; and the short closed loops that measure
//! the capacity of generator and SUT.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use plimsoll_fleet::coordinator::{HoldController, HoldView, Order};
use plimsoll_lab::ClientHost;
use plimsoll_model::event::Event;
use plimsoll_model::pace::{Arrivals, Profile, Stage};
use plimsoll_model::plan::{
    Endpoint, HoldPlan, LoadPlan, Pacing, ServerName, Session as Sessions, Steer, Trust,
};
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::target::{Body, Protocol, Target, TargetUrl};
use plimsoll_model::trial::TrialRequest;
use plimsoll_model::{Nanos, Rate};

use crate::exit::Stop;
use crate::session::{Measurement, Observed, Session};

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
/// How much longer than planned a ramp of connections may take.
const RAMP_SLACK: f64 = 1.1;
/// How long seconds that an agent does not deliver are waited for.
const COVER_WAIT: Nanos = Nanos::from_secs(5);
const SECOND: Nanos = Nanos::from_secs(1);
/// Source addresses of the loops against our own responder.
const LOOP_SOURCES: u32 = 64;

/// What is sent in a load, and how.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    /// Every iteration's plan but for its pacing.
    pub(super) plan: LoadPlan,
    /// Transactions per connection.
    pub(super) transactions: u32,
    pub(super) arrivals: Arrivals,
}

/// One iteration as it was run.
pub(super) struct Iterated {
    pub(super) observed: Observed,
    pub(super) intervals: Vec<Interval>,
    /// First second of the sustain phase.
    pub(super) sustain_from: u32,
    pub(super) sustain_seconds: u32,
    /// Transactions planned in all, where each session has one.
    pub(super) planned_ops: Option<u64>,
    pub(super) ramp_up: Nanos,
}

/// What a closed loop reached.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Reached {
    /// Good answers.
    pub(super) transactions_per_s: f64,
    /// Connections that were closed by FIN.
    pub(super) connections_per_s: f64,
    /// At the sockets, both directions.
    pub(super) bit_s: f64,
}

impl Reached {
    fn of(tally: &Tally, window: Nanos) -> Self {
        // What connections and bytes have after the end of the window is taken from the transactions on them.
        let share = tally.ok_in_window() / tally.ok.max(1) as f64;
        let per_s = |count: u64| count as f64 * share / window.as_secs_f64().max(1e-3);
        Self {
            transactions_per_s: per_s(tally.ok),
            connections_per_s: per_s(tally.connections.finished),
            bit_s: per_s((tally.bytes.sent + tally.bytes.received) * 8),
        }
    }
}

/// Length of the ramps around a sustain phase, in whole seconds.
pub(super) fn ramp(sustain: Nanos) -> Nanos {
    let tenth = Nanos::from_secs(sustain.0 / 10 / SECOND.0);
    tenth.clamp(RAMP_MIN, RAMP_MAX)
}

/// Time without load before an iteration.
pub(super) fn init(sustain: Nanos) -> Nanos {
    Nanos(sustain.0 / INIT_PARTS).min(INIT_MAX)
}

/// `sustain` in whole seconds, at least one.
pub(super) fn whole_seconds(sustain: Nanos) -> u32 {
    u32::try_from((sustain.0 / SECOND.0).max(1)).unwrap_or(u32::MAX)
}

/// X = (ramp-up time + steady-state time) / 10, section 7.5: the last transaction comes at the end.
/// The sustain phase begins with a whole second, and a ramp may take a little longer than planned.
fn think_time(ramp_up: Nanos, sustain_seconds: u32, transactions: u32) -> Nanos {
    let ramp_s = ramp_up.as_secs_f64() * RAMP_SLACK;
    let whole_s = ramp_s.ceil() + 1.0 + f64::from(sustain_seconds);
    Nanos::from_secs_f64(whole_s / f64::from(transactions.max(1)))
}

/// Runs sessions at a rate of transactions.
pub(super) fn sessions(
    session: &Session<'_>,
    traffic: &Traffic,
    request: TrialRequest,
) -> Result<Iterated, Stop> {
    let seconds = whole_seconds(request.duration);
    let sustain = Nanos::from_secs(u64::from(seconds));
    let ramp = ramp(sustain);
    let load = request.rate.get();
    let rate = Rate::per_second(load / f64::from(traffic.transactions)).unwrap_or_default();
    let profile = Profile::from_stages(vec![
        Stage { duration: ramp, from: Rate::ZERO, to: rate },
        Stage { duration: sustain, from: rate, to: rate },
        Stage { duration: ramp, from: rate, to: Rate::ZERO },
    ]);
    let transactions = profile.ops_total as f64 * f64::from(traffic.transactions);
    let mut plan = traffic.plan.clone();
    plan.abort_bad_ops = Some((transactions * ABORT_SHARE).max(ABORT_MIN) as u64);
    plan.session = Some(Sessions { transactions: traffic.transactions });
    plan.seed = plan.seed.wrapping_add(u64::from(request.number));
    let planned_ops = (traffic.transactions == 1).then_some(profile.ops_total);
    plan.pacing = Pacing::Open { profile, arrivals: traffic.arrivals };
    let mut intervals = Vec::new();
    let observed =
        session.run_load(&iteration(&plan, request), &mut |event| keep(event, &mut intervals))?;
    Ok(Iterated {
        observed,
        intervals,
        sustain_from: (ramp.0 / SECOND.0) as u32,
        sustain_seconds: seconds,
        planned_ops,
        ramp_up: ramp,
    })
}

/// Holds connections, opened at `ramp_per_s`.
pub(super) fn held(
    session: &Session<'_>,
    traffic: &Traffic,
    request: TrialRequest,
    ramp_per_s: f64,
) -> Result<Iterated, Stop> {
    let seconds = whole_seconds(request.duration);
    let connections = (request.rate.get() as u64).max(1);
    let ramp_up = Nanos::from_secs_f64(connections as f64 / ramp_per_s);
    let think = think_time(ramp_up, seconds, traffic.transactions);
    let mut plan = traffic.plan.clone();
    plan.connections = connections;
    plan.threads = plan.threads.min(u32::try_from(connections).unwrap_or(u32::MAX));
    plan.session = Some(Sessions { transactions: traffic.transactions });
    plan.pacing = Pacing::Hold(HoldPlan {
        connections_per_s: ramp_per_s,
        opening_max: OPENING_MAX,
        heartbeat: Some(think),
        replace: false,
    });
    let mut controller =
        RampController { connections, seconds, doing: Doing::Nothing, sustain_from: 0 };
    let mut intervals = Vec::new();
    let load = iteration(&plan, request);
    let observed =
        session.run_hold(&load, &mut controller, &mut |event| keep(event, &mut intervals))?;
    Ok(Iterated {
        observed,
        intervals,
        sustain_from: controller.sustain_from,
        sustain_seconds: seconds,
        planned_ops: None,
        ramp_up,
    })
}

fn iteration(plan: &LoadPlan, request: TrialRequest) -> Measurement<'_> {
    // Its ramps are in its halves, so they cannot be compared.
    Measurement { plan, trial: Some(request), is_steady: false, is_alone: true, deliveries: None }
}

fn keep(event: &Event, intervals: &mut Vec<Interval>) {
    if let Event::Interval(interval) = event {
        intervals.push((**interval).clone());
    }
}

/// A closed loop of sessions; not part of the record, because no case asks for it.
pub(super) fn closed_loop(
    session: &Session<'_>,
    traffic: &Traffic,
    sustain: Nanos,
) -> Result<(Reached, Tally), Stop> {
    let mut plan = traffic.plan.clone();
    plan.session = Some(Sessions { transactions: traffic.transactions });
    plan.connections = plan.connections.min(CLOSED_CONNECTIONS);
    plan.threads = plan.threads.min(u32::try_from(plan.connections).unwrap_or(u32::MAX));
    plan.keepalive = false;
    let duration = Some(sustain.min(CLOSED_MAX));
    plan.pacing = Pacing::Closed { duration, ops_total: None };
    let outcome = session.run_unrecorded(&plan, &mut |event| {
        if let Event::Note(_) = event {
            session.emit(event);
        }
    })?;
    Ok((Reached::of(&outcome.tally, outcome.window), outcome.tally))
}

impl Traffic {
    /// The same sessions against our own null responder, for objects of `bytes`.
    pub(super) fn against(&self, responder: SocketAddr, trust: Option<&str>, bytes: u64) -> Self {
        let mut plan = self.plan.clone();
        let url = TargetUrl {
            protocol: Protocol::Http1,
            tls: trust.is_some(),
            host: responder.ip().to_string(),
            port: responder.port(),
            path: "/".to_owned(),
        };
        plan.targets = vec![Target {
            method: "GET".to_owned(),
            url,
            headers: vec![("size".to_owned(), bytes.to_string())],
            body: Body::default(),
            publish: None,
            script: None,
            websocket: None,
        }];
        plan.target_destination = vec![0];
        plan.destinations = vec![Endpoint {
            name: responder.to_string(),
            addresses: vec![responder],
            tls: trust.map(|_| ServerName("localhost".to_owned())),
        }];
        if let Some(roots) = trust {
            plan.tls.trust = Trust::Roots(roots.to_owned());
        }
        plan.tls.identity = None;
        // The addresses that clients have without naming them, where the responder is.
        let first = match responder.ip().is_loopback() {
            true => Ipv4Addr::LOCALHOST,
            false => ClientHost::first_source(),
        };
        let first = u32::from(first);
        plan.sources =
            (first..first + LOOP_SOURCES).map(|bits| IpAddr::V4(Ipv4Addr::from(bits))).collect();
        Self { plan, ..self.clone() }
    }

    /// The same with another number of transactions on each connection.
    pub(super) fn with_transactions(&self, transactions: u32) -> Self {
        Self { transactions, ..self.clone() }
    }
}

/// What a hold of a case is doing.
#[derive(Clone, Copy, Debug)]
enum Doing {
    Nothing,
    Ramping { id: u32 },
    Sustaining { until: Nanos },
}

/// Ramps to a number of connections and holds them for the sustain phase.
struct RampController {
    connections: u64,
    seconds: u32,
    doing: Doing,
    /// In seconds of the load, once the ramp is done.
    sustain_from: u32,
}

impl HoldController for RampController {
    fn poll(&mut self, view: &HoldView<'_>) -> Option<Order> {
        match self.doing {
            Doing::Nothing => {
                self.doing = Doing::Ramping { id: view.given + 1 };
                Some(Order::Steer(Steer::Ramp { connections: self.connections }))
            }
            Doing::Ramping { id } if view.done >= id => {
                // The second under way belongs to the ramp.
                let ramped = view.now.since(view.epoch).0 / SECOND.0 + 1;
                self.sustain_from = u32::try_from(ramped).unwrap_or(u32::MAX);
                let seconds = ramped + u64::from(self.seconds);
                self.doing = Doing::Sustaining { until: view.epoch + Nanos::from_secs(seconds) };
                None
            }
            Doing::Ramping { .. } => None,
            Doing::Sustaining { until } => {
                let counted = view.covered >= until || view.now >= until + COVER_WAIT;
                (view.now >= until && counted).then_some(Order::Finish)
            }
        }
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
        let mut controller =
            RampController { connections: 10, seconds: 2, doing: Doing::Nothing, sustain_from: 0 };
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
        controller.doing = Doing::Sustaining { until: Nanos::from_secs(104) };
        let mut late = view(&total, 8_900, 1);
        late.covered = late.epoch;
        assert_eq!(controller.poll(&late), None);
        late.now = late.now + Nanos::from_millis(200);
        assert_eq!(controller.poll(&late), Some(Order::Finish));
    }
}
