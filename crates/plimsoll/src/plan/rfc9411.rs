//! `find rfc9411` and `lab rfc9411` into a job: the case, its objects, and the sessions that request
//! them.
//!
//! The case decides what is raised, how many transactions a connection has and what a result is
//! judged by.

use plimsoll_model::Rate;
use plimsoll_model::pace::Arrivals;
use plimsoll_model::plan::Session;
use plimsoll_model::rfc9411::{Case, KB, Kind, Object};
use plimsoll_model::target::{Protocol, Target, TargetUrl};
use plimsoll_model::units::grouped;

use super::distinct::distinct;
use super::load::{LoadJob, assemble};
use super::pacing::arrivals;
use super::parts::Parts;
use super::search::placeholder;
use super::{Destination, Inputs, handshakes, sources, targets};
use crate::exit::Result;
use crate::flags::rfc9411::{Rfc9411Flags, TargetLoad};
use crate::flags::shared::{OutputFlags, PoolFlags, RequestFlags, ResumeFlags, ServerFlags};

/// Default of --connections: enough that an overloaded SUT builds up a queue.
const CONNECTIONS_DEFAULT: u64 = 1_000;
/// Transactions per connection of the throughput cases, scenario 2 and the concurrency cases.
const TRANSACTIONS: u32 = 10;
/// Size of the largest object of the throughput cases, for the isolation check.
const LARGEST_BYTES: u64 = 256 * KB;
/// The lowest target: a tenth of less could not be measured in samples of one second.
pub(crate) const TARGET_MIN: f64 = 10.0;
/// The place for the bytes of an object in a URL or header.
const SIZE: &str = "{size}";

/// One object with its requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectPlan {
    pub(crate) object: Object,
    /// The requests, in turn; all to the servers of the job's plan.
    pub(crate) targets: Vec<Target>,
}

/// One case, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rfc9411Job {
    /// The flags, checked against the case.
    pub(crate) flags: Rfc9411Flags,
    /// The load of an iteration, which sets targets, session and pacing.
    pub(crate) load: LoadJob,
    /// The objects to measure, one after another; at least one.
    pub(crate) objects: Vec<ObjectPlan>,
    /// The large object that the maximum throughput is measured with, if it can be requested.
    pub(crate) largest: Option<ObjectPlan>,
    /// Transactions on a connection, if the case has more than one.
    pub(crate) transactions: u32,
    /// Connections per second that the source ports allow.
    pub(crate) ports_allow: f64,
}

impl Rfc9411Job {
    /// Returns the arrivals of sessions.
    pub(crate) fn arrivals(&self) -> Arrivals {
        arrivals(self.flags.arrivals.arrivals)
    }
}

/// Plans a case against the server of a laboratory.
pub(super) fn plan_lab(
    flags: &Rfc9411Flags,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs,
) -> Result<Rfc9411Job> {
    refuse_if!(flags.case == Case::TrafficMix;
        "--case 7.1 needs a list of targets, and the laboratory has one server";
        "use plimsoll find rfc9411 --case 7.1 --targets FILE");
    let mut to = to.clone();
    // Our own backends answer with the number of bytes in that header.
    to.request.header.headers.push(("size".to_owned(), SIZE.to_owned()));
    plan(flags, &to, output, inputs)
}

/// Plans a case against an existing server.
pub(super) fn plan(
    flags: &Rfc9411Flags,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs,
) -> Result<Rfc9411Job> {
    let case = flags.case;
    refuse_requests(flags, to)?;
    check_target(flags)?;
    let sizes = sizes(flags)?;
    check_measured(flags, sizes.len())?;
    let mut objects = Vec::new();
    for &object in &sizes {
        objects.push(requests(case, object, sizes.len(), to, inputs)?);
    }
    let first = objects.first().map(|plan| plan.targets.clone()).unwrap_or_default();
    refuse_if!(first.iter().any(Target::closes_connection);
        "header Connection: close ends each connection after one request";
        "drop it; --requests-per-connection says how many each carries");
    let mut load = load(flags, &first, to, output, inputs)?;
    check_scheme(case, &first)?;
    let given = flags.requests_per_connection;
    let transactions = given.map_or(TRANSACTIONS, |count| u32::try_from(count).unwrap_or(u32::MAX));
    let ports_allow = spread_over_ports(&mut load, flags, transactions, inputs)?;
    let largest = match case.kind() {
        Kind::ConnectionRate if has_template(to) => {
            Some(requests(case, Object::Bytes(LARGEST_BYTES), 1, to, inputs)?)
        }
        _ => None,
    };
    Ok(Rfc9411Job { flags: flags.clone(), load, objects, largest, transactions, ports_allow })
}

fn refuse_requests(flags: &Rfc9411Flags, to: &Destination) -> Result<()> {
    const GET: &str = "requests objects with GET";
    let Destination { server, request, .. } = to;
    let typed = [
        ("--targets", server.targets.is_some(), "requests its objects one after another"),
        ("--method", request.method.is_some(), GET),
        ("--body", request.body.is_some(), GET),
        ("--data", request.data.is_some(), GET),
        (
            "--requests-per-connection",
            flags.requests_per_connection.is_some(),
            "sets the transactions per connection",
        ),
    ];
    let case = flags.case;
    let is_foreign = |(_, given, _): &&(&str, bool, &str)| *given && case != Case::TrafficMix;
    if let Some((flag, _, why)) = typed.iter().find(is_foreign) {
        refuse!("--case {case} {why}, so {flag} does not apply"; "drop {flag}, or use --case 7.1");
    }
    Ok(())
}

fn check_target(flags: &Rfc9411Flags) -> Result<()> {
    let case = flags.case;
    match (case.kind(), flags.target) {
        (Kind::Latency, Some(_)) => refuse!(
            "--case {case} runs at half of what other cases reached, not at a target";
            "drop --target; see --measured-cps and --measured-tps"),
        (Kind::Concurrency, None) => refuse!(
            "--case {case} needs the number of connections"; "give --target, such as --target 10k"),
        (Kind::ConnectionRate | Kind::Concurrency, Some(TargetLoad::BitsPerSecond(_))) => refuse!(
            "--case {case} counts {}, not bits", case.axis().name(); "write --target 10k"),
        (Kind::Concurrency, Some(TargetLoad::Units(count)))
            if count.get() < 1.0 || count.get().fract() != 0.0 =>
        {
            refuse!("--target is no whole number of connections"; "write --target 10k")
        }
        (Kind::ConnectionRate | Kind::Throughput | Kind::Mix, Some(TargetLoad::Units(rate)))
            if rate.get() < TARGET_MIN =>
        {
            refuse!("--target {rate} is too low: step 1 runs at a tenth of it"; "give 10/s or more")
        }
        _ => Ok(()),
    }
}

fn sizes(flags: &Rfc9411Flags) -> Result<Vec<Object>> {
    let (case, given) = (flags.case, &flags.object_size);
    if given.is_empty() {
        return Ok(case.objects());
    }
    refuse_if!(case == Case::TrafficMix;
        "--case 7.1 requests its targets, so --object-size does not apply"; "drop it");
    refuse_if!(given.contains(&Object::Mixed) && case.kind() != Kind::Throughput;
        "--case {case} has no mixed objects"; "use --object-size mixed with --case 7.3 or 7.7");
    Ok(distinct(given.iter().copied()))
}

fn check_measured(flags: &Rfc9411Flags, objects: usize) -> Result<()> {
    let (case, kind) = (flags.case, flags.case.kind());
    let needs_cps = matches!(kind, Kind::Latency | Kind::Concurrency);
    for (flag, count, is_needed) in [
        ("--measured-cps", flags.measured_cps.len(), needs_cps),
        ("--measured-tps", flags.measured_tps.len(), kind == Kind::Latency),
    ] {
        refuse_if!(count > 0 && !is_needed;
            "--case {case} does not build on another case, so {flag} has no use"; "drop it");
        refuse_if!(count > 0 && count != objects;
            "{flag} has {count} figures for {objects} object sizes";
            "give one for each, or choose with --object-size");
    }
    Ok(())
}

/// Reports whether the size of an object can be written into its request.
fn has_template(to: &Destination) -> bool {
    let in_header = to.request.header.headers.iter().any(|(_, value)| value.contains(SIZE));
    in_header || to.server.url.as_ref().is_some_and(|url| url.contains(SIZE))
}

/// Returns the requests of one object; `of` objects are measured in all.
fn requests(
    case: Case,
    object: Object,
    of: usize,
    to: &Destination,
    inputs: &mut Inputs,
) -> Result<ObjectPlan> {
    let sizes = object.bytes();
    let is_fixed = !has_template(to) && to.server.url.is_some();
    if sizes.is_empty() || (is_fixed && of == 1 && sizes.len() == 1) {
        // The URL names the only object; the first answers show its size.
        return Ok(ObjectPlan { object, targets: targets::targets(to, inputs)? });
    }
    refuse_if!(is_fixed;
        "--case {case} asks for objects of several sizes, and the URL is the same for all";
        "write {{size}} where the bytes go, as in http://host/{{size}} or -H 'size: {{size}}', \
         or choose one with --object-size");
    let mut all = Vec::new();
    for bytes in sizes {
        let bytes = bytes.to_string();
        let mut sized = to.clone();
        sized.server.url = sized.server.url.map(|url| url.replace(SIZE, &bytes));
        for (_, value) in &mut sized.request.header.headers {
            *value = value.replace(SIZE, &bytes);
        }
        all.extend(targets::targets(&sized, inputs)?);
    }
    Ok(ObjectPlan { object, targets: all })
}

/// Returns the load of an iteration; `first` are the requests of the first object.
fn load(
    flags: &Rfc9411Flags,
    first: &[Target],
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs,
) -> Result<LoadJob> {
    let is_held = flags.case.kind() == Kind::Concurrency;
    let connections = match flags.target {
        Some(TargetLoad::Units(count)) if is_held => count.get() as u64,
        _ => flags.connections.unwrap_or(CONNECTIONS_DEFAULT),
    };
    let pool = PoolFlags { connections: Some(connections), ..PoolFlags::default() };
    // The requests are known; the rest of the load is assembled here, for which the server is enough.
    let server_of = |target: &Target| TargetUrl { path: "/".to_owned(), ..target.url.clone() };
    let url = first.first().map(|target| server_of(target).to_string());
    let server = ServerFlags { url, targets: None, format: None, ..to.server.clone() };
    let parts = Parts {
        to: &Destination { server, request: RequestFlags::default(), ..to.clone() },
        pool: &pool,
        client: &flags.client,
        handshake: &flags.handshake,
        resume: ResumeFlags::default(),
        output,
        pacing: placeholder(Arrivals::Uniform),
        ops_total: None,
        deadline: None,
        slo: None,
        linger: flags.trial.linger,
        seed: flags.trial.seed,
    };
    let mut job = assemble(parts, inputs)?;
    job.target_name = targets::name(first);
    job.plan.targets = first.to_vec();
    job.plan.target_destination = vec![0; first.len()];
    if flags.case == Case::TrafficMix {
        let mut servers = targets::servers(first, &to.server, inputs)?;
        sources::keep_reachable(&mut servers.destinations, &job.plan.sources)?;
        job.plan.destinations = servers.destinations;
        job.plan.target_destination = servers.target_destination;
    }
    job.plan.prewarm = false;
    job.plan.keepalive = is_held;
    job.plan.session = Some(Session { transactions: 1 });
    Ok(job)
}

fn check_scheme(case: Case, targets: &[Target]) -> Result<()> {
    let is_wrong = |target: &&Target| target.url.protocol != Protocol::Http1;
    if let Some(wrong) = targets.iter().find(is_wrong) {
        refuse!("RFC 9411 measures HTTP, and {} is not", wrong.url; "write http:// or https://");
    }
    let Some(wanted) = case.tls() else { return Ok(()) };
    let Some(wrong) = targets.iter().find(|target| target.url.tls != wanted) else { return Ok(()) };
    let (is, write, other) = match wanted {
        true => ("HTTPS", "https", "http"),
        false => ("HTTP", "http", "https"),
    };
    let sibling = Case::ALL.iter().find(|one| one.kind() == case.kind() && one.tls() != case.tls());
    let sibling = sibling.map_or("7.1", |case| case.name());
    refuse!("--case {case} is about {is}, and {} is {other}", wrong.url;
        "write {write}://, or use --case {sibling}")
}

/// Gives a load enough addresses if clients have many, refuses a target that the ports do not allow, and returns the
/// connections per second that they allow: ports of connections that we close first stay in TIME_WAIT for a minute.
fn spread_over_ports(
    load: &mut LoadJob,
    flags: &Rfc9411Flags,
    transactions: u32,
    inputs: &Inputs,
) -> Result<f64> {
    let each = match flags.case.kind() {
        // Each is opened once; the preflight of holds checks their number.
        Kind::Concurrency => return Ok(f64::INFINITY),
        Kind::ConnectionRate => 1.0,
        _ => f64::from(transactions),
    };
    let per_s = match flags.target {
        Some(TargetLoad::Units(rate)) => Some(rate.get() / each),
        _ => None,
    };
    load.spread(handshakes::sources_for(per_s.and_then(Rate::per_second), inputs));
    let (sources, allowed) = handshakes::allowed_by_ports(&load.plan, inputs);
    if let Some(per_s) = per_s.filter(|per_s| *per_s > allowed) {
        let wanted = (per_s / allowed * sources as f64).ceil() as usize;
        refuse!(
            "--target needs {} connections/s, more than the {} that the ports of {} allow: each \
             stays in TIME_WAIT for 60 s",
                grouped(per_s.ceil() as u64), grouped(allowed as u64), handshakes::addresses(sources);
            "give {} with --source, or lower --target", handshakes::addresses(wanted));
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests;
