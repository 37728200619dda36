//! `find rfc9411` and `lab rfc9411` into a job: the case, its objects, and the sessions that request
//! them.
//!
//! The case decides what is raised, how many transactions a connection has and what a result is
//! judged by.

use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{Pacing, Session};
use plimsoll_model::rfc9411::{Case, KB, Kind, Object};
use plimsoll_model::target::{Protocol, Target, TargetUrl};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use super::load::{LoadJob, Parts, assemble};
use super::pacing::arrivals;
use super::{Destination, Inputs, handshakes, sources, targets};
use crate::exit::Stop;
use crate::flags::rfc9411::{Rfc9411Flags, TargetLoad};
use crate::flags::shared::{OutputFlags, PoolFlags, RequestFlags, ResumeFlags, ServerFlags};

/// Default of --connections: enough that an overloaded SUT builds up a queue.
const CONNECTIONS_DEFAULT: u64 = 1_000;
/// Transactions per connection of the throughput cases, scenario 2 and the concurrency cases.
const TRANSACTIONS: u32 = 10;
/// Of the largest object of the throughput cases, for the isolation check.
const LARGEST_BYTES: u64 = 256 * KB;
/// The lowest target: a tenth of less could not be measured in samples of one second.
pub(crate) const TARGET_MIN: f64 = 10.0;
/// Where the bytes of an object stand in a URL or header.
const SIZE: &str = "{size}";

/// One object with its requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectPlan {
    /// What it is.
    pub(crate) object: Object,
    /// The requests, in turn; all to the servers of the job's plan.
    pub(crate) targets: Vec<Target>,
}

/// One case, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rfc9411Job {
    /// The case.
    pub(crate) case: Case,
    /// The load of an iteration: each sets targets, session and pacing.
    pub(crate) load: LoadJob,
    /// What is measured, one after another; at least one.
    pub(crate) objects: Vec<ObjectPlan>,
    /// The large object that the maximum throughput is measured with, where it can be requested.
    pub(crate) largest: Option<ObjectPlan>,
    /// The target, where it was given.
    pub(crate) target: Option<TargetLoad>,
    /// Of step 2 and the last iteration.
    pub(crate) sustain: Nanos,
    /// Transactions on a connection, where the case has more than one.
    pub(crate) transactions: u32,
    /// How sessions are spread.
    pub(crate) arrivals: Arrivals,
    /// One for each object, or none.
    pub(crate) measured_cps: Vec<Rate>,
    /// One for each object, or none.
    pub(crate) measured_tps: Vec<Rate>,
    /// Connections per second that the source ports allow.
    pub(crate) ports_allow: f64,
}

/// The inputs of a case's plan.
struct CaseInputs<'a> {
    flags: &'a Rfc9411Flags,
    to: &'a Destination,
    output: &'a OutputFlags,
}

/// Plans a case against an existing server.
pub(super) fn plan(
    flags: &Rfc9411Flags,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs<'_>,
) -> Result<Rfc9411Job, Stop> {
    resolve(&CaseInputs { flags, to, output }, inputs)
}

/// Plans a case against the server of a laboratory.
pub(super) fn plan_lab(
    flags: &Rfc9411Flags,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs<'_>,
) -> Result<Rfc9411Job, Stop> {
    if flags.case == Case::TrafficMix {
        return Err(Stop::usage(
            "--case 7.1 needs a list of targets, and the laboratory has one server",
            "use plimsoll find rfc9411 --case 7.1 --targets FILE",
        ));
    }
    let mut to = to.clone();
    // Our own backends answer with the number of bytes in that header.
    to.request.header.headers.push(("size".to_owned(), SIZE.to_owned()));
    plan(flags, &to, output, inputs)
}

fn resolve(asked: &CaseInputs<'_>, inputs: &mut Inputs<'_>) -> Result<Rfc9411Job, Stop> {
    let CaseInputs { flags, .. } = asked;
    let case = flags.case;
    refuse_requests(case, asked)?;
    let target = target(case, flags)?;
    let objects = objects(case, flags)?;
    check_measured(case, flags, objects.len())?;
    let transactions = match flags.requests_per_connection {
        Some(count) => u32::try_from(count).unwrap_or(u32::MAX),
        None => TRANSACTIONS,
    };
    let sizes = Sizes(asked.to, case);
    let mut plans = Vec::new();
    for object in &objects {
        let targets = sizes.targets(*object, objects.len(), inputs)?;
        plans.push(ObjectPlan { object: *object, targets });
    }
    let first = plans.first().map(|plan| plan.targets.clone()).unwrap_or_default();
    if first.iter().any(Target::closes_connection) {
        return Err(Stop::usage(
            "header Connection: close ends each connection after one request",
            "drop it; --requests-per-connection says how many each carries",
        ));
    }
    let mut load = load(case, asked, target, &first, inputs)?;
    check_scheme(case, &first)?;
    let ports_allow = spread_over_ports(&mut load, case, target, transactions, inputs)?;
    let largest = Object::Bytes(LARGEST_BYTES);
    let largest = match case.kind() {
        Kind::ConnectionRate if sizes.has_template() => {
            Some(ObjectPlan { object: largest, targets: sizes.targets(largest, 1, inputs)? })
        }
        _ => None,
    };
    Ok(Rfc9411Job {
        case,
        load,
        objects: plans,
        largest,
        target,
        sustain: flags.sustain,
        transactions,
        arrivals: arrivals(flags.arrivals.arrivals),
        measured_cps: flags.measured_cps.clone(),
        measured_tps: flags.measured_tps.clone(),
        ports_allow,
    })
}

fn refuse_requests(case: Case, asked: &CaseInputs<'_>) -> Result<(), Stop> {
    if case == Case::TrafficMix {
        return Ok(());
    }
    let Destination { server, request, .. } = asked.to;
    let typed = [
        ("--targets", server.targets.is_some(), "requests its objects one after another"),
        ("--method", request.method.is_some(), "requests objects with GET"),
        ("--body", request.body.is_some(), "requests objects with GET"),
        ("--data", request.data.is_some(), "requests objects with GET"),
        (
            "--requests-per-connection",
            asked.flags.requests_per_connection.is_some(),
            "sets the transactions per connection",
        ),
    ];
    match typed.iter().find(|(_, given, _)| *given) {
        None => Ok(()),
        Some((flag, _, why)) => Err(Stop::usage(
            format_args!("--case {case} {why}, so {flag} does not apply"),
            format_args!("drop {flag}, or use --case 7.1"),
        )),
    }
}

fn target(case: Case, flags: &Rfc9411Flags) -> Result<Option<TargetLoad>, Stop> {
    let given = flags.target;
    match (case.kind(), given) {
        (Kind::Latency, Some(_)) => Err(Stop::usage(
            format_args!("--case {case} runs at half of what other cases reached, not at a target"),
            "drop --target; see --measured-cps and --measured-tps",
        )),
        (Kind::Concurrency, None) => Err(Stop::usage(
            format_args!("--case {case} needs the number of connections"),
            "give --target, such as --target 10k",
        )),
        (Kind::ConnectionRate | Kind::Concurrency, Some(TargetLoad::BitsPerSecond(_))) => {
            Err(Stop::usage(
                format_args!("--case {case} counts {}, not bits", case.unit()),
                "write --target 10k",
            ))
        }
        (Kind::Concurrency, Some(TargetLoad::Units(count)))
            if count.get() < 1.0 || count.get().fract() != 0.0 =>
        {
            Err(Stop::usage("--target is no whole number of connections", "write --target 10k"))
        }
        (Kind::ConnectionRate | Kind::Throughput | Kind::Mix, Some(TargetLoad::Units(rate)))
            if rate.get() < TARGET_MIN =>
        {
            Err(Stop::usage(
                format_args!("--target {rate} is too low: step 1 runs at a tenth of it"),
                "give 10/s or more",
            ))
        }
        _ => Ok(given),
    }
}

fn objects(case: Case, flags: &Rfc9411Flags) -> Result<Vec<Object>, Stop> {
    let given = &flags.object_size;
    if given.is_empty() {
        return Ok(case.objects());
    }
    if case == Case::TrafficMix {
        return Err(Stop::usage(
            "--case 7.1 requests its targets, so --object-size does not apply",
            "drop it",
        ));
    }
    if given.contains(&Object::Mixed) && case.kind() != Kind::Throughput {
        return Err(Stop::usage(
            format_args!("--case {case} has no mixed objects"),
            "use --object-size mixed with --case 7.3 or 7.7",
        ));
    }
    let mut objects = Vec::new();
    for object in given {
        if !objects.contains(object) {
            objects.push(*object);
        }
    }
    Ok(objects)
}

fn check_measured(case: Case, flags: &Rfc9411Flags, objects: usize) -> Result<(), Stop> {
    let needs_cps = matches!(case.kind(), Kind::Latency | Kind::Concurrency);
    let needs_tps = case.kind() == Kind::Latency;
    for (flag, count, needed) in [
        ("--measured-cps", flags.measured_cps.len(), needs_cps),
        ("--measured-tps", flags.measured_tps.len(), needs_tps),
    ] {
        if count > 0 && !needed {
            return Err(Stop::usage(
                format_args!("--case {case} does not build on another case, so {flag} has no use"),
                "drop it",
            ));
        }
        if count > 0 && count != objects {
            return Err(Stop::usage(
                format_args!("{flag} has {count} figures for {objects} object sizes"),
                format_args!("give one for each, or choose with --object-size"),
            ));
        }
    }
    Ok(())
}

/// Where the size of an object is written into its request.
struct Sizes<'a>(&'a Destination, Case);

impl Sizes<'_> {
    fn has_template(&self) -> bool {
        let Self(to, _) = self;
        let in_header = to.request.header.headers.iter().any(|(_, value)| value.contains(SIZE));
        in_header || to.server.url.as_ref().is_some_and(|url| url.contains(SIZE))
    }

    /// The requests of one object; `of` objects are measured in all.
    fn targets(
        &self,
        object: Object,
        of: usize,
        inputs: &mut Inputs<'_>,
    ) -> Result<Vec<Target>, Stop> {
        let Self(to, case) = self;
        let sizes = object.bytes();
        if sizes.is_empty() {
            return targets::targets(to, inputs);
        }
        if !self.has_template() && to.server.url.is_some() {
            if of == 1 && sizes.len() == 1 {
                // The URL names the only object; the first answers show its size.
                return targets::targets(to, inputs);
            }
            return Err(Stop::usage(
                format_args!(
                    "--case {case} asks for objects of several sizes, and the URL is the same for \
                     all"
                ),
                "write {size} where the bytes go, as in http://host/{size} or -H 'size: {size}', \
                 or choose one with --object-size",
            ));
        }
        let mut all = Vec::new();
        for bytes in sizes {
            let bytes = bytes.to_string();
            let mut sized = (*to).clone();
            sized.server.url = sized.server.url.map(|url| url.replace(SIZE, &bytes));
            for (_, value) in &mut sized.request.header.headers {
                *value = value.replace(SIZE, &bytes);
            }
            all.extend(targets::targets(&sized, inputs)?);
        }
        Ok(all)
    }
}

/// The load of an iteration; `first` are the requests of the first object.
fn load(
    case: Case,
    asked: &CaseInputs<'_>,
    target: Option<TargetLoad>,
    first: &[Target],
    inputs: &mut Inputs<'_>,
) -> Result<LoadJob, Stop> {
    let connections = match (case.kind(), target) {
        (Kind::Concurrency, Some(TargetLoad::Units(count))) => count.get() as u64,
        _ => asked.flags.connections.unwrap_or(CONNECTIONS_DEFAULT),
    };
    let pool = PoolFlags { connections: Some(connections), ..PoolFlags::default() };
    let profile = Profile::constant(one_per_second()?, Nanos::from_secs(1));
    // The requests are known; the rest of the load is assembled here, for which the server is enough.
    let server_of = |target: &Target| TargetUrl { path: "/".to_owned(), ..target.url.clone() };
    let url = first.first().map(|target| server_of(target).to_string());
    let server = ServerFlags { url, targets: None, format: None, ..asked.to.server.clone() };
    let to = Destination { server, request: RequestFlags::default(), ..asked.to.clone() };
    let parts = Parts {
        to: &to,
        pool: &pool,
        client: &asked.flags.client,
        handshake: &asked.flags.handshake,
        resume: ResumeFlags::default(),
        output: asked.output,
        pacing: Pacing::Open { profile, arrivals: Arrivals::Uniform },
        ops_total: None,
        deadline: None,
        slo: None,
        linger: asked.flags.trial.linger,
        seed: asked.flags.trial.seed,
    };
    let mut job = assemble(parts, inputs)?;
    job.target_name = targets::name(first);
    job.plan.targets = first.to_vec();
    job.plan.target_destination = vec![0; first.len()];
    if case == Case::TrafficMix {
        let mut servers = targets::servers(first, &asked.to.server, inputs)?;
        sources::keep_reachable(&mut servers.destinations, &job.plan.sources)?;
        job.plan.destinations = servers.destinations;
        job.plan.target_destination = servers.target_destination;
    }
    job.plan.prewarm = false;
    job.plan.keepalive = case.kind() == Kind::Concurrency;
    job.plan.session = Some(Session { transactions: 1 });
    Ok(job)
}

fn one_per_second() -> Result<Rate, Stop> {
    Rate::per_second(1.0)
        .ok_or_else(|| Stop::CannotRun("no rate to start from; report this as a bug".to_owned()))
}

fn check_scheme(case: Case, targets: &[Target]) -> Result<(), Stop> {
    let is_wrong = |target: &&Target| target.url.protocol != Protocol::Http1;
    if let Some(wrong) = targets.iter().find(is_wrong) {
        let what = format_args!("RFC 9411 measures HTTP, and {} is not", wrong.url);
        return Err(Stop::usage(what, "write http:// or https://"));
    }
    let Some(wanted) = case.tls() else { return Ok(()) };
    let Some(wrong) = targets.iter().find(|target| target.url.tls != wanted) else { return Ok(()) };
    let (is, other) = if wanted { ("HTTPS", "http") } else { ("HTTP", "https") };
    let sibling = Case::ALL.iter().find(|one| one.kind() == case.kind() && one.tls() != case.tls());
    Err(Stop::usage(
        format_args!("--case {case} is about {is}, and {} is {other}", wrong.url),
        format_args!(
            "write {}://, or use --case {}",
            is.to_ascii_lowercase(),
            sibling.map_or("7.1", |case| case.name())
        ),
    ))
}

/// Ports of connections that we close first stay in TIME_WAIT for a minute. Gives a load enough
/// addresses where clients have many, refuses a target that the ports do not allow, and returns the rate that they
/// allow.
fn spread_over_ports(
    load: &mut LoadJob,
    case: Case,
    target: Option<TargetLoad>,
    transactions: u32,
    inputs: &Inputs<'_>,
) -> Result<f64, Stop> {
    if case.kind() == Kind::Concurrency {
        // Each is opened once; the preflight of holds checks their number.
        return Ok(f64::INFINITY);
    }
    let per_s = match (target, case.kind()) {
        (Some(TargetLoad::Units(rate)), Kind::ConnectionRate) => Some(rate.get()),
        (Some(TargetLoad::Units(rate)), _) => Some(rate.get() / f64::from(transactions)),
        _ => None,
    };
    load.spread(handshakes::sources_for(per_s.and_then(Rate::per_second), inputs));
    let plan = &load.plan;
    let servers: usize = plan.destinations.iter().map(|one| one.addresses.len()).sum();
    let sources = plan.sources.len().max(1);
    let allowed = handshakes::rate_per_pair(inputs) * (servers * sources) as f64;
    if let Some(per_s) = per_s.filter(|per_s| *per_s > allowed) {
        let wanted = (per_s / allowed * sources as f64).ceil() as usize;
        return Err(Stop::usage(
            format_args!(
                "--target needs {} connections/s, more than the {} that the ports of {} allow: \
                 each stays in TIME_WAIT for 60 s",
                grouped(per_s.ceil() as u64),
                grouped(allowed as u64),
                handshakes::addresses(sources)
            ),
            format_args!("give {} with --source, or lower --target", handshakes::addresses(wanted)),
        ));
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests;
