//! Changes of the load that test a cause without a change of the server. Where the CPU is the limit, the capacity changes
//! by the factor by which an operation's cost does, which is measured for each far below the capacity. Where each
//! connection or address has a limit of its own, it changes as their number does.

use plimsoll_model::confirmation::Intervention;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::{Nanos, Rate};

use super::{Change, Planned};
use crate::exit::Stop;
use crate::experiments::remedies::more_sources;

/// Requests on a connection when what a connection costs is measured: most of the work is requests.
const PROBED: u64 = 20;
/// How much more an operation is to cost with fewer requests on a connection.
const DEARER: f64 = 0.3;
const REQUESTS_MAX: u64 = 10_000;
/// A smaller change of the cost is lost in the noise.
const CHANGE_MIN: f64 = 0.1;
/// Part of the lower bound at which costs are measured.
const LOW: f64 = 0.4;
/// How long each is measured.
const SPAN: Nanos = Nanos::from_secs(4);
/// Source addresses, where connections are renewed and the plan names none.
const SOURCES: u64 = 64;

/// CPU seconds of the server for an operation of this load; `None` where that cannot be read.
pub(super) type Demand<'a> = &'a mut dyn FnMut(&LoadPlan) -> Result<Option<f64>, Stop>;

/// The changes of `plan` that test a resource, of which an operation's demand is `demand`, and which of
/// `interventions` are possible. `lower` is the lower bound of the tipping point.
pub(super) fn plan_changes(
    interventions: &[Intervention],
    plan: &LoadPlan,
    lower: f64,
    demand: Demand<'_>,
) -> Result<Vec<Planned>, Stop> {
    match interventions {
        [Intervention::LoadConnections] => Ok(fewer_connections(plan).into_iter().collect()),
        [Intervention::SourceAddresses] => Ok(more_addresses(plan).into_iter().collect()),
        _ => changes_of_cost(interventions, plan, lower, demand),
    }
}

/// Why none of these changes is possible.
pub(super) const fn why_none(interventions: &[Intervention]) -> &'static str {
    match interventions {
        [Intervention::LoadConnections] => "the load has too few connections to leave a fifth out",
        [Intervention::SourceAddresses] => {
            "this host has no further address from which the server can be reached"
        }
        _ => {
            "what an operation costs the server's CPU does not depend on its connections, or cannot be read \
             (--watch pid:N)"
        }
    }
}

/// A fifth less: each waits for its answers, so that all together carry a fifth less.
fn fewer_connections(plan: &LoadPlan) -> Option<Planned> {
    let fewer = plan.connections * 4 / 5;
    let changed = LoadPlan { connections: fewer, ..plan.clone() };
    let numbers = (plan.connections as f64, fewer as f64);
    let ratio = numbers.1 / numbers.0;
    planned(Intervention::LoadConnections, numbers, ratio, (plan.clone(), changed))
        .filter(|_| fewer > 0)
}

/// Twice as many, over which the same connections are spread.
fn more_addresses(plan: &LoadPlan) -> Option<Planned> {
    let from = plan.sources.len().max(1);
    let sources = more_sources(plan, 2 * from as u64);
    let is_possible = sources.len() == 2 * from;
    let sham = LoadPlan { sources: sources.iter().copied().take(from).collect(), ..plan.clone() };
    let changed = LoadPlan { sources, ..plan.clone() };
    planned(Intervention::SourceAddresses, (from as f64, 2.0 * from as f64), 2.0, (sham, changed))
        .filter(|_| is_possible)
}

/// Changes of what an operation costs the server's CPU.
fn changes_of_cost(
    interventions: &[Intervention],
    plan: &LoadPlan,
    lower: f64,
    demand: Demand<'_>,
) -> Result<Vec<Planned>, Stop> {
    let mut base = plan.clone();
    if base.sources.is_empty() {
        base.sources = more_sources(&base, SOURCES);
    }
    let Some(costs) = Costs::measure(&base, lower, demand)? else { return Ok(Vec::new()) };
    let mut planned = Vec::new();
    for intervention in interventions {
        planned.extend(match intervention {
            Intervention::RequestsPerConnection => costs.fewer_requests(&base),
            Intervention::Resumption => costs.resumption(&base, lower, demand)?,
            _ => None,
        });
    }
    Ok(planned)
}

/// What operations cost the server.
struct Costs {
    /// Of the load as it is, for each operation.
    usual: f64,
    /// Of a new connection beside its requests; `None` where nothing is sent on connections.
    connection: Option<f64>,
}

impl Costs {
    fn measure(base: &LoadPlan, lower: f64, demand: Demand<'_>) -> Result<Option<Self>, Stop> {
        let Some(usual) = demand(&slow(base, lower))? else { return Ok(None) };
        if base.handshake_only {
            return Ok(Some(Self { usual, connection: None }));
        }
        let own = per_operation(base);
        // Ten times as many where each has few, else few.
        let probed = if own > 0.0 { (10.0 / own).round() as u64 } else { PROBED };
        let renewed = renewing(base, probed);
        let Some(changed) = demand(&slow(&renewed, lower))? else { return Ok(None) };
        let connection = (changed - usual) / (1.0 / probed as f64 - own);
        Ok(Some(Self { usual, connection: Some(connection).filter(|cost| *cost > 0.0) }))
    }

    /// So many requests on each connection that an operation costs about a third more; where each has
    /// one already, two.
    fn fewer_requests(&self, base: &LoadPlan) -> Option<Planned> {
        let (connection, own) = (self.connection?, per_operation(base));
        let wanted = DEARER * self.usual / connection + own;
        let requests = if own >= 1.0 { 2 } else { requests_for(wanted) };
        let of = requests as f64;
        let changed = self.usual + connection * (1.0 / of - own);
        let from = if own > 0.0 { (1.0 / own).round() } else { 0.0 };
        planned(
            Intervention::RequestsPerConnection,
            (from, of),
            self.usual / changed,
            (base.clone(), renewing(base, requests)),
        )
    }

    /// Sessions that are resumed, with so many connections that half of the work is theirs.
    fn resumption(
        &self,
        base: &LoadPlan,
        lower: f64,
        demand: Demand<'_>,
    ) -> Result<Option<Planned>, Stop> {
        if base.tls.resume_ratio > 0.0 {
            return Ok(None);
        }
        let full = match self.connection {
            Some(connection) if per_operation(base) < 1.0 => {
                renewing(base, requests_for(self.usual / connection))
            }
            _ => base.clone(),
        };
        let mut resumed = full.clone();
        resumed.tls.resume_ratio = 1.0;
        let costs = (demand(&slow(&full, lower / 2.0))?, demand(&slow(&resumed, lower / 2.0))?);
        let (Some(before), Some(after)) = costs else { return Ok(None) };
        Ok(planned(Intervention::Resumption, (0.0, 1.0), before / after, (full, resumed)))
    }
}

fn planned(
    intervention: Intervention,
    (from, to): (f64, f64),
    predicted_ratio: f64,
    (sham, changed): (LoadPlan, LoadPlan),
) -> Option<Planned> {
    let matters = predicted_ratio > 0.0 && predicted_ratio.ln().abs() >= CHANGE_MIN;
    let change = Change::Load { sham: Box::new(sham), changed: Box::new(changed) };
    matters.then_some(Planned { change, intervention, from, to, predicted_ratio })
}

/// New connections for each operation.
fn per_operation(plan: &LoadPlan) -> f64 {
    match (plan.keepalive, plan.requests_per_connection) {
        (false, _) => 1.0,
        (true, None) => 0.0,
        (true, Some(requests)) => 1.0 / requests.max(1) as f64,
    }
}

/// Requests on a connection where so many connections are wanted for each.
fn requests_for(per_operation: f64) -> u64 {
    ((1.0 / per_operation).round() as u64).clamp(1, REQUESTS_MAX)
}

/// The same load with so many requests on each connection.
fn renewing(plan: &LoadPlan, requests: u64) -> LoadPlan {
    LoadPlan {
        keepalive: true,
        prewarm: true,
        requests_per_connection: Some(requests),
        staggered: true,
        ..plan.clone()
    }
}

/// The same load far below the capacity.
fn slow(plan: &LoadPlan, lower: f64) -> LoadPlan {
    let rate = Rate::per_second(LOW * lower).unwrap_or_default();
    let profile = Profile::constant(rate, SPAN);
    LoadPlan { pacing: Pacing::Open { profile, arrivals: Arrivals::Uniform }, ..plan.clone() }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::cause::Cause;

    use super::*;
    use crate::plan::tests::load_job;

    /// A server on which a request costs 30 us, a full handshake 400 us, and a resumed one 100 us.
    fn demand(plan: &LoadPlan) -> Result<Option<f64>, Stop> {
        let handshake = 400e-6 - 300e-6 * plan.tls.resume_ratio;
        Ok(Some(30e-6 + handshake * per_operation(plan)))
    }

    fn changes(flags: &[&str]) -> Vec<(Intervention, f64, f64, f64)> {
        let words = [&["https://127.0.0.1:9/"], flags].concat();
        let plan = load_job(&words).plan;
        let all = [Intervention::RequestsPerConnection, Intervention::Resumption];
        let planned = plan_changes(&all, &plan, 10_000.0, &mut demand).unwrap();
        planned.iter().map(|p| (p.intervention, p.from, p.to, p.predicted_ratio)).collect()
    }

    #[test]
    fn held_connections_are_renewed() {
        let found = changes(&[]);
        let (intervention, from, to, ratio) = found[0];
        assert_eq!((intervention, from, to), (Intervention::RequestsPerConnection, 0.0, 44.0));
        assert!((ratio - 30.0 / (30.0 + 400.0 / 44.0)).abs() < 1e-9, "{ratio}");
        let (intervention, from, to, ratio) = found[1];
        assert_eq!((intervention, from, to), (Intervention::Resumption, 0.0, 1.0));
        assert!((ratio - (30.0 + 400.0 / 13.0) / (30.0 + 100.0 / 13.0)).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn single_requests_share_a_connection() {
        let found = changes(&["--no-keepalive"]);
        let (intervention, from, to, ratio) = found[0];
        assert_eq!((intervention, from, to), (Intervention::RequestsPerConnection, 1.0, 2.0));
        assert!((ratio - 430.0 / 230.0).abs() < 1e-9, "{ratio}");
        assert!((found[1].3 - 430.0 / 130.0).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn limits_of_each_connection_and_address_follow_their_number() {
        let plan = load_job(&["https://127.0.0.1:9/", "-c", "50"]).plan;
        let mut unread =
            |_: &LoadPlan| -> Result<Option<f64>, Stop> { panic!("no cost is measured") };
        let mut of = |cause: Cause, plan: &LoadPlan| {
            let mut all =
                plan_changes(cause.load_interventions(), plan, 100.0, &mut unread).unwrap();
            all.pop()
        };
        let fewer = of(Cause::PathLatency, &plan).unwrap();
        assert_eq!((fewer.from, fewer.to, fewer.predicted_ratio), (50.0, 40.0, 0.8));
        let more = of(Cause::AddressLimit, &plan).unwrap();
        assert_eq!((more.from, more.to, more.predicted_ratio), (1.0, 2.0, 2.0));
        let Change::Load { sham, changed } = more.change else { panic!("a load") };
        assert_eq!((sham.sources.len(), changed.sources.len()), (1, 2));
        assert_eq!(sham.connections, changed.connections);
        assert!(of(Cause::PathLatency, &LoadPlan { connections: 1, ..plan }).is_none());
    }

    #[test]
    fn what_costs_the_same_tests_nothing() {
        let plan = load_job(&["https://127.0.0.1:9/"]).plan;
        let all = [Intervention::RequestsPerConnection, Intervention::Resumption];
        let of = |demand: Demand<'_>| plan_changes(&all, &plan, 10_000.0, demand).unwrap().len();
        assert_eq!(of(&mut |_: &LoadPlan| Ok(Some(30e-6))), 0);
        assert_eq!(of(&mut |_: &LoadPlan| Ok(None)), 0);
    }
}
