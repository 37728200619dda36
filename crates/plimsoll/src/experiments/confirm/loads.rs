//! Changes of the load that test a cause without a change of the server. Where the CPU is the limit, the capacity
//! changes by the factor by which an operation's cost does, and where a link is, by the factor of its bytes: both are
//! measured for each. Where each connection or address has its own limit, it changes as their number does.

use plimsoll_capacity::stats::median_of;
use plimsoll_model::confirmation::Intervention;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{CertificateKey, LoadPlan, Pacing};
use plimsoll_model::{Nanos, Rate};

use super::{Change, PlannedChange};
use crate::exit::Result;
use crate::experiments::in_turn::saturating;
use crate::experiments::remedies::more_sources;

/// Requests on a connection when what a connection costs is measured: most of the work is requests.
const PROBED: u64 = 20;
/// Additional cost of an operation with fewer requests on a connection.
const DEARER: f64 = 0.3;
const REQUESTS_MAX: u64 = 10_000;
/// A smaller change of the cost is lost in the noise.
const CHANGE_MIN: f64 = 0.1;
/// Part of the lower bound at which costs are measured.
const LOW: f64 = 0.4;
/// The load if operations cost twice as much.
const LOW_OF_DEAR: f64 = LOW / 2.0;
/// Measurements of each of two kinds of handshakes, in turn.
const ROUNDS: u32 = 3;
/// Duration of each measurement.
const SPAN: Nanos = Nanos::from_secs(4);
/// Number of changes to make, at most.
pub(super) const LOAD_CHANGES: usize = 2;
/// Begin of the type of gRPC's messages, which state their own length.
const GRPC: &str = "application/grpc";
/// Source addresses, where connections are renewed and the plan names none.
const SOURCES: u64 = 64;

/// The cost of an operation of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperationCost {
    /// CPU seconds of the server; `None` if they cannot be read.
    pub(super) cpu_s: Option<f64>,
    /// Bytes on the client's sockets, TLS included.
    pub(super) sent_bytes: f64,
    pub(super) received_bytes: f64,
}

/// Measures the cost of an operation of a load; `None` if it does not succeed.
pub(super) type Measure<'a> = &'a mut dyn FnMut(&LoadPlan) -> Result<Option<OperationCost>>;

/// Returns the first [`LOAD_CHANGES`] of `interventions` on `plan` that are possible. `lower` is the lower bound of the
/// tipping point, and `measure` says what operations take.
pub(super) fn plan_changes(
    interventions: &[Intervention],
    plan: &LoadPlan,
    lower: f64,
    measure: Measure<'_>,
) -> Result<Vec<PlannedChange>> {
    let mut changes = Changes { plan, lower, measure, cpu_costs: None };
    let mut planned = Vec::new();
    for intervention in interventions {
        if planned.len() < LOAD_CHANGES {
            planned.extend(changes.plan(*intervention)?);
        }
    }
    Ok(planned)
}

/// Returns the reason why none of these changes is possible.
pub(super) const fn why_none(interventions: &[Intervention]) -> &'static str {
    match interventions {
        [Intervention::LoadConnections, ..] => {
            "the load has too few connections to leave a fifth out"
        }
        [Intervention::SourceAddresses, ..] => {
            "this host has no further address from which the server can be reached"
        }
        [Intervention::BodySize, ..] => {
            "the load has no body that may be longer, and the server sends no part of an answer (Range)"
        }
        _ => {
            "what an operation costs the server's CPU does not depend on its connections, or cannot be read \
             (--watch pid:N)"
        }
    }
}

/// Changes of one load.
struct Changes<'a> {
    plan: &'a LoadPlan,
    lower: f64,
    measure: Measure<'a>,
    /// `Some(None)` where they cannot be read.
    cpu_costs: Option<Option<CpuCosts>>,
}

impl Changes<'_> {
    fn plan(&mut self, intervention: Intervention) -> Result<Option<PlannedChange>> {
        match intervention {
            Intervention::LoadConnections => Ok(fewer_connections(self.plan)),
            Intervention::SourceAddresses => Ok(more_addresses(self.plan)),
            Intervention::BodySize => self.body_size(),
            Intervention::RequestsPerConnection => {
                Ok(self.cpu_costs()?.and_then(|costs| costs.fewer_requests()))
            }
            Intervention::Resumption => self.resumption(),
            Intervention::CertificateKey => self.certificate_key(),
            _ => Ok(None),
        }
    }

    /// Bodies of requests that are a quarter longer, or a fifth less of each answer, whichever is more of the bytes.
    fn body_size(&mut self) -> Result<Option<PlannedChange>> {
        let usual = self.slow(self.plan);
        let Some(before) = (self.measure)(&usual)? else { return Ok(None) };
        let is_upload = before.sent_bytes > before.received_bytes;
        let changed = if is_upload {
            longer_bodies(self.plan)
        } else {
            shorter_answers(self.plan, before.received_bytes)
        };
        let Some(changed) = changed else { return Ok(None) };
        let slow = self.slow(&changed);
        let Some(after) = (self.measure)(&slow)? else { return Ok(None) };
        let bytes =
            |cost: &OperationCost| if is_upload { cost.sent_bytes } else { cost.received_bytes };
        let numbers = (bytes(&before), bytes(&after));
        let plans = (self.plan.clone(), changed);
        Ok(planned(Intervention::BodySize, numbers, numbers.0 / numbers.1, plans))
    }

    /// Plans resumed sessions, with so short connections that handshakes are half of the work.
    fn resumption(&mut self) -> Result<Option<PlannedChange>> {
        let Some(full) = self.full_handshakes()? else { return Ok(None) };
        let mut resumed = full.clone();
        resumed.tls.resume_ratio = 1.0;
        self.handshakes(Intervention::Resumption, full, resumed)
    }

    /// Plans the cheaper type of key, if the server has certificates of both.
    fn certificate_key(&mut self) -> Result<Option<PlannedChange>> {
        let Some(full) = self.full_handshakes()? else { return Ok(None) };
        let with = |key: CertificateKey| {
            let mut plan = full.clone();
            plan.tls.certificate_key = Some(key);
            plan
        };
        let (rsa, ecdsa) = (with(CertificateKey::Rsa), with(CertificateKey::Ecdsa));
        self.handshakes(Intervention::CertificateKey, rsa, ecdsa)
    }

    /// Returns the plan with full handshakes only, which are half of the work; `None` if the plan resumes sessions or
    /// their cost cannot be measured.
    fn full_handshakes(&mut self) -> Result<Option<LoadPlan>> {
        if self.plan.tls.resume_ratio > 0.0 {
            return Ok(None);
        }
        Ok(self.cpu_costs()?.map(|costs| match costs.connection {
            Some(connection) if per_operation(&costs.base) < 1.0 => {
                renewing(&costs.base, requests_for(costs.usual_s / connection))
            }
            _ => costs.base,
        }))
    }

    /// Plans the change of all handshakes from `before` to `after`, if that changes their cost.
    fn handshakes(
        &mut self,
        intervention: Intervention,
        before: LoadPlan,
        after: LoadPlan,
    ) -> Result<Option<PlannedChange>> {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            let Some(dear) = self.handshake_s(&before)? else { return Ok(None) };
            let Some(cheap) = self.handshake_s(&after)? else { return Ok(None) };
            ratios.push(dear / cheap);
        }
        let ratio = median_of(ratios.iter().copied()).unwrap_or(1.0);
        Ok(planned(intervention, (0.0, 1.0), ratio, (before, after)))
    }

    /// Returns the CPU seconds of an operation of `plan`, of which handshakes are at least half.
    fn handshake_s(&mut self, plan: &LoadPlan) -> Result<Option<f64>> {
        // What a handshake alone costs depends on how busy the server is: HAProxy took 1.45 times as long for RSA as
        // for ECDSA at 80 % of the lower bound, and 1.82 times where its CPU was full.
        if plan.handshake_only {
            self.cpu_s(&saturating(plan, plan.connections, SPAN))
        } else {
            self.cpu_s(&at(plan, LOW_OF_DEAR * self.lower))
        }
    }

    /// Returns `plan` at the part [`LOW`] of the lower bound.
    fn slow(&self, plan: &LoadPlan) -> LoadPlan {
        at(plan, LOW * self.lower)
    }

    /// Returns the CPU seconds of an operation of `plan`.
    fn cpu_s(&mut self, plan: &LoadPlan) -> Result<Option<f64>> {
        Ok((self.measure)(plan)?.and_then(|cost| cost.cpu_s))
    }

    fn cpu_costs(&mut self) -> Result<Option<CpuCosts>> {
        if self.cpu_costs.is_none() {
            self.cpu_costs = Some(self.measure_cpu_costs()?);
        }
        Ok(self.cpu_costs.clone().flatten())
    }

    fn measure_cpu_costs(&mut self) -> Result<Option<CpuCosts>> {
        let mut base = self.plan.clone();
        if base.sources.is_empty() {
            base.sources = more_sources(&base, SOURCES);
        }
        let Some(usual_s) = self.cpu_s(&self.slow(&base))? else { return Ok(None) };
        if base.handshake_only {
            return Ok(Some(CpuCosts { base, usual_s, connection: None }));
        }
        let own = per_operation(&base);
        // Ten times as many where each has few, else few.
        let probed = if own > 0.0 { (10.0 / own).round() as u64 } else { PROBED };
        let Some(changed) = self.cpu_s(&self.slow(&renewing(&base, probed)))? else {
            return Ok(None);
        };
        let connection = (changed - usual_s) / (1.0 / probed as f64 - own);
        let connection = Some(connection).filter(|cost| *cost > 0.0);
        Ok(Some(CpuCosts { base, usual_s, connection }))
    }
}

/// The cost of operations in the server's CPU.
#[derive(Clone)]
struct CpuCosts {
    /// The load, from as many addresses as renewed connections need.
    base: LoadPlan,
    /// CPU seconds for each of its operations.
    usual_s: f64,
    /// CPU seconds of a new connection beside its requests; `None` if nothing is sent on connections.
    connection: Option<f64>,
}

impl CpuCosts {
    /// Returns the number of requests per connection at which an operation costs about a third more; if each has
    /// one already, two.
    fn fewer_requests(self) -> Option<PlannedChange> {
        let (connection, own) = (self.connection?, per_operation(&self.base));
        let wanted = DEARER * self.usual_s / connection + own;
        let requests = if own >= 1.0 { 2 } else { requests_for(wanted) };
        let of = requests as f64;
        let changed_s = self.usual_s + connection * (1.0 / of - own);
        let from = if own > 0.0 { (1.0 / own).round() } else { 0.0 };
        let renewed = renewing(&self.base, requests);
        planned(
            Intervention::RequestsPerConnection,
            (from, of),
            self.usual_s / changed_s,
            (self.base, renewed),
        )
    }
}

/// Plans a fifth fewer connections: each waits for its answers, so that all together carry a fifth less.
fn fewer_connections(plan: &LoadPlan) -> Option<PlannedChange> {
    let fewer = plan.connections * 4 / 5;
    let changed = LoadPlan { connections: fewer, ..plan.clone() };
    let numbers = (plan.connections as f64, fewer as f64);
    let ratio = numbers.1 / numbers.0;
    planned(Intervention::LoadConnections, numbers, ratio, (plan.clone(), changed))
        .filter(|_| fewer > 0)
}

/// Plans twice as many source addresses, over which the same connections are spread.
fn more_addresses(plan: &LoadPlan) -> Option<PlannedChange> {
    let from = plan.sources.len().max(1);
    let sources = more_sources(plan, 2 * from as u64);
    let is_possible = sources.len() == 2 * from;
    let sham = LoadPlan { sources: sources.iter().copied().take(from).collect(), ..plan.clone() };
    let changed = LoadPlan { sources, ..plan.clone() };
    planned(Intervention::SourceAddresses, (from as f64, 2.0 * from as f64), 2.0, (sham, changed))
        .filter(|_| is_possible)
}

/// Returns the load with bodies that are a quarter longer, by spaces, which change nothing in JSON, XML and text.
fn longer_bodies(plan: &LoadPlan) -> Option<LoadPlan> {
    let mut longer = plan.clone();
    for target in &mut longer.targets {
        let is_grpc = |(name, value): &(String, String)| {
            name.eq_ignore_ascii_case("content-type") && value.starts_with(GRPC)
        };
        let is_http = target.url.protocol.is_http();
        // A large one is shared, and stays as it is.
        if !is_http || target.headers.iter().any(is_grpc) || !target.body.is_own() {
            return None;
        }
        let mut body = target.body.to_vec();
        body.resize(body.len() * 5 / 4, b' ');
        target.body = body.into();
    }
    Some(longer)
}

/// Returns the first four fifths of each answer, of which `received_bytes` are received.
fn shorter_answers(plan: &LoadPlan, received_bytes: f64) -> Option<LoadPlan> {
    let last_byte = ((0.8 * received_bytes) as u64).checked_sub(1)?;
    let mut shorter = plan.clone();
    for target in &mut shorter.targets {
        let has_range = target.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("range"));
        if !target.url.protocol.is_http() || has_range {
            return None;
        }
        target.headers.push(("Range".to_owned(), format!("bytes=0-{last_byte}")));
    }
    Some(shorter)
}

fn planned(
    intervention: Intervention,
    (from, to): (f64, f64),
    predicted_ratio: f64,
    (sham, changed): (LoadPlan, LoadPlan),
) -> Option<PlannedChange> {
    let matters = predicted_ratio > 0.0 && predicted_ratio.ln().abs() >= CHANGE_MIN;
    let change = Change::Load { sham: Box::new(sham), changed: Box::new(changed) };
    matters.then_some(PlannedChange {
        change,
        intervention,
        from,
        to,
        left_ratio: None,
        predicted_ratio,
    })
}

/// Returns the number of new connections per operation.
fn per_operation(plan: &LoadPlan) -> f64 {
    match (plan.keepalive, plan.requests_per_connection) {
        (false, _) => 1.0,
        (true, None) => 0.0,
        (true, Some(requests)) => 1.0 / requests.max(1) as f64,
    }
}

/// Returns the requests on each connection for a number of connections per operation.
fn requests_for(per_operation: f64) -> u64 {
    ((1.0 / per_operation).round() as u64).clamp(1, REQUESTS_MAX)
}

/// Returns the load with this many requests on each connection.
fn renewing(plan: &LoadPlan, requests: u64) -> LoadPlan {
    LoadPlan {
        keepalive: true,
        prewarm: true,
        requests_per_connection: Some(requests),
        staggered: true,
        ..plan.clone()
    }
}

/// Returns the load at a rate below the capacity.
fn at(plan: &LoadPlan, per_s: f64) -> LoadPlan {
    let rate = Rate::per_second(per_s).unwrap_or_default();
    let profile = Profile::constant(rate, SPAN);
    LoadPlan { pacing: Pacing::Open { profile, arrivals: Arrivals::Uniform }, ..plan.clone() }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::cause::Cause;

    use super::*;
    use crate::plan::tests::load_job;

    /// A server on which a request costs 30 us, a full handshake 400 us with RSA and 130 us with ECDSA, and a resumed
    /// one 100 us; it answers with 10 kB, or with the part that is asked for.
    fn measure(plan: &LoadPlan) -> Result<Option<OperationCost>> {
        let full =
            if plan.tls.certificate_key == Some(CertificateKey::Ecdsa) { 130e-6 } else { 400e-6 };
        let handshake = full - (full - 100e-6) * plan.tls.resume_ratio;
        let target = &plan.targets[0];
        let range = target.headers.iter().find(|(name, _)| name == "Range");
        let part = range.and_then(|(_, value)| value.rsplit_once('-')?.1.parse::<f64>().ok());
        Ok(Some(OperationCost {
            cpu_s: Some(30e-6 + handshake * per_operation(plan)),
            sent_bytes: 200.0 + target.body.len() as f64,
            received_bytes: 300.0 + part.map_or(10_000.0, |last| last + 1.0),
        }))
    }

    fn told(of: Cause, plan: &LoadPlan) -> Vec<(Intervention, f64, f64, f64)> {
        let all = of.load_interventions();
        let planned = plan_changes(all, plan, 10_000.0, &mut measure).unwrap();
        planned.iter().map(|p| (p.intervention, p.from, p.to, p.predicted_ratio)).collect()
    }

    fn changes(flags: &[&str]) -> Vec<(Intervention, f64, f64, f64)> {
        told(Cause::TlsHandshakes, &load_job(&[&["https://127.0.0.1:9/"], flags].concat()).plan)
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
        assert_eq!(found.len(), LOAD_CHANGES);
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
    fn handshakes_alone_are_resumed_or_signed_by_another_key() {
        let plan = load_job(&["https://127.0.0.1:9/", "--no-keepalive"]).plan;
        let found = told(Cause::ServerCpu, &LoadPlan { handshake_only: true, ..plan });
        let (intervention, from, to, ratio) = found[1];
        assert_eq!(found[0].0, Intervention::Resumption);
        assert_eq!((intervention, from, to), (Intervention::CertificateKey, 0.0, 1.0));
        assert!((ratio - 430.0 / 160.0).abs() < 1e-9, "{ratio}");
    }

    #[test]
    fn what_fills_a_link_is_made_longer_or_shorter() {
        let plan = load_job(&["https://127.0.0.1:9/"]).plan;
        let of = |plan: &LoadPlan| told(Cause::Link, plan);
        // Four fifths of 10,300 bytes, and 300 of headers.
        assert_eq!(of(&plan), [(Intervention::BodySize, 10_300.0, 8_540.0, 10_300.0 / 8_540.0)]);
        let upload = load_job(&["https://127.0.0.1:9/", "--data", &"x".repeat(20_000)]).plan;
        assert_eq!(
            of(&upload),
            [(Intervention::BodySize, 20_200.0, 25_200.0, 20_200.0 / 25_200.0)]
        );
        let of_part = load_job(&["https://127.0.0.1:9/", "-H", "range: bytes=0-99"]).plan;
        assert_eq!(of(&of_part), []);
    }

    #[test]
    fn limits_of_each_connection_and_address_follow_their_number() {
        let plan = load_job(&["https://127.0.0.1:9/", "-c", "50"]).plan;
        let mut unread =
            |_: &LoadPlan| -> Result<Option<OperationCost>> { panic!("nothing is measured") };
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
        let cost = |cpu_s| OperationCost { cpu_s, sent_bytes: 100.0, received_bytes: 1_000.0 };
        for cause in [Cause::ServerCpu, Cause::Link] {
            for cpu_s in [Some(30e-6), None] {
                let mut measure = |_: &LoadPlan| Ok(Some(cost(cpu_s)));
                let all = cause.load_interventions();
                assert_eq!(plan_changes(all, &plan, 10_000.0, &mut measure).unwrap().len(), 0);
            }
        }
    }
}
