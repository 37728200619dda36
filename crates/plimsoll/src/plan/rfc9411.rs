//! `--mode rfc9411` into a job: the case, its objects, and the sessions that request them.
//!
//! The case decides what is raised, how many transactions a connection has and what a result is
//! judged by; so flags that decide these in other modes are refused here.

use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{HoldPlan, Pacing, Session, Trust};
use plimsoll_model::rfc9411::{Case, KB, Kind, Object, SUSTAIN_RECOMMENDED};
use plimsoll_model::target::Target;
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use super::find::watched;
use super::hold::HoldJob;
use super::lab::{Hosts, hosts};
use super::load::{LoadJob, Parts, assemble};
use super::pacing::arrivals;
use super::{Inputs, handshakes, sources, targets};
use crate::exit::Stop;
use crate::flags::rfc9411::{Rfc9411Flags, TargetLoad};
use crate::flags::search::{ClimbFlags, LoadOnlyFlags, SearchFlags};
use crate::flags::shared::{
    ConnectionFlags, HandshakeFlags, OutputFlags, RequestFlags, TrustFlags,
};
use crate::flags::{FindFlags, LabFlags};

/// Sessions at once when nobody says: an overloaded SUT shall have its queue.
const CONNECTIONS_DEFAULT: u64 = 1_000;
/// Transactions per connection of the throughput cases, scenario 2 and the concurrency cases.
const TRANSACTIONS: u32 = 10;
/// Of the largest object of the throughput cases, for the isolation check.
const LARGEST_BYTES: u64 = 256 * KB;
/// Step 1 of less could not be seen in samples of a second.
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
    /// A large object, where it can be asked for: what the throughput's maximum is measured with.
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
    /// Processes of this host to observe as the SUT.
    pub(crate) watch_pids: Vec<u32>,
}

impl Rfc9411Job {
    /// What a host needs for the connections of a concurrency case is what it needs for a hold.
    pub(crate) fn as_hold(&self) -> HoldJob {
        let hold =
            HoldPlan { connections_per_s: 1.0, opening_max: 1, heartbeat: None, replace: false };
        HoldJob {
            load: self.load.clone(),
            hold,
            span: self.sustain,
            up_to: false,
            levels: vec![self.load.plan.connections],
        }
    }
}

/// A laboratory for one case, checked; its SUT is not yet known by address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LabRfc9411Job {
    /// What it is made of.
    pub(crate) hosts: Hosts,
    /// The case.
    pub(crate) case: Case,
    /// Connections that the clients have at most.
    pub(crate) connections: u64,
    flags: LabFlags,
}

/// Everything typed that bears on a case.
struct Asked<'a> {
    usage: &'a str,
    axis: Option<&'a str>,
    url: Option<&'a str>,
    rfc9411: &'a Rfc9411Flags,
    search: &'a SearchFlags,
    climb: &'a ClimbFlags,
    foreign: &'a LoadOnlyFlags,
    request: &'a RequestFlags,
    connection: &'a ConnectionFlags,
    trust: &'a TrustFlags,
    handshake: &'a HandshakeFlags,
    output: &'a OutputFlags,
}

/// Refuses flags of this mode in another one.
pub(super) fn refuse_stray(flags: &Rfc9411Flags) -> Result<(), Stop> {
    match flags.first_typed() {
        None => Ok(()),
        Some(flag) => Err(Stop::usage(
            format_args!("{flag} is for the cases of RFC 9411"),
            "add --mode rfc9411, or drop it",
        )),
    }
}

/// Checks and resolves the flags of `find --mode rfc9411`.
pub(crate) fn build(flags: &FindFlags, inputs: &mut Inputs<'_>) -> Result<Rfc9411Job, Stop> {
    // The case says what is raised, so the word before the URL may be left out.
    let (axis, url) = match (flags.axis.as_deref(), flags.url.as_deref()) {
        (Some(url), None) if url.contains("://") => (None, Some(url)),
        other => other,
    };
    let asked = Asked {
        usage: "plimsoll find rate",
        axis,
        url,
        rfc9411: &flags.rfc9411,
        search: &flags.search,
        climb: &flags.climb,
        foreign: &flags.foreign,
        request: &flags.client.request,
        connection: &flags.client.connection,
        trust: &flags.client.trust,
        handshake: &flags.client.handshake,
        output: &flags.client.output,
    };
    let mut job = resolve(&asked, inputs)?;
    let (watch_pids, counts) = watched(&flags.watch, inputs)?;
    if counts.is_some() {
        return Err(Stop::usage(
            "--mode rfc9411 counts by itself, and reads no server's statistics",
            "use --watch pid:N, or drop it",
        ));
    }
    job.watch_pids = watch_pids;
    Ok(job)
}

/// Checks the flags of `lab --mode rfc9411`; the case against a stand-in address is built as well,
/// so that whatever is wrong with it is said before anything is started.
pub(crate) fn build_lab(flags: &LabFlags, inputs: &mut Inputs<'_>) -> Result<LabRfc9411Job, Stop> {
    let mut job = LabRfc9411Job {
        hosts: hosts(&flags.hosts)?,
        case: case(&flags.rfc9411)?,
        connections: CONNECTIONS_DEFAULT,
        flags: flags.clone(),
    };
    let url = if job.is_tls() { "https://127.0.0.1:443/" } else { "http://127.0.0.1:80/" };
    job.connections = job.resolve(url, Trust::Insecure, inputs)?.load.plan.connections;
    Ok(job)
}

impl LabRfc9411Job {
    /// Whether the SUT's clients speak TLS.
    pub(crate) fn is_tls(&self) -> bool {
        self.case.tls() == Some(true)
    }

    /// How long a client waits for an answer.
    pub(crate) fn linger(&self) -> Nanos {
        self.flags.search.linger
    }

    /// The case, once the SUT answers at `url` with a certificate that `trust` accepts.
    pub(crate) fn resolve(
        &self,
        url: &str,
        trust: Trust,
        inputs: &mut Inputs<'_>,
    ) -> Result<Rfc9411Job, Stop> {
        let flags = &self.flags;
        if self.case == Case::TrafficMix {
            return Err(Stop::usage(
                "--case 7.1 needs a list of targets, and the laboratory has one server",
                "use plimsoll find rate --targets FILE --mode rfc9411 --case 7.1",
            ));
        }
        let mut headers = flags.headers.clone();
        // Our own backends answer with as many bytes as that header says.
        headers.push(("size".to_owned(), SIZE.to_owned()));
        let request = RequestFlags { headers, ..RequestFlags::default() };
        // The axis that nobody typed is rate.
        let axis = Some(flags.find.as_str()).filter(|axis| *axis != "rate");
        let asked = Asked {
            usage: "plimsoll lab",
            axis,
            url: Some(url),
            rfc9411: &flags.rfc9411,
            search: &flags.search,
            climb: &flags.climb,
            foreign: &flags.foreign,
            request: &request,
            connection: &flags.connection,
            trust: &TrustFlags::default(),
            handshake: &flags.handshake,
            output: &flags.output,
        };
        let mut job = resolve(&asked, inputs)?;
        job.load.plan.tls.trust = trust;
        Ok(job)
    }
}

fn case(flags: &Rfc9411Flags) -> Result<Case, Stop> {
    flags.case.ok_or_else(|| {
        Stop::usage("--mode rfc9411 measures one case", "say which: --case 7.1 to --case 7.9")
    })
}

fn resolve(asked: &Asked<'_>, inputs: &mut Inputs<'_>) -> Result<Rfc9411Job, Stop> {
    let case = case(asked.rfc9411)?;
    check_axis(case, asked)?;
    refuse_other_modes(asked)?;
    refuse_requests(case, asked)?;
    let target = target(case, asked.rfc9411)?;
    let objects = objects(case, asked)?;
    check_measured(case, asked.rfc9411, objects.len())?;
    let transactions = match asked.connection.requests_per_connection {
        Some(count) => u32::try_from(count).unwrap_or(u32::MAX),
        None => TRANSACTIONS,
    };
    let sizes = Sizes(asked, case);
    let mut plans = Vec::new();
    for object in &objects {
        let targets = sizes.targets(*object, objects.len(), inputs)?;
        plans.push(ObjectPlan { object: *object, targets });
    }
    let first = plans.first().map(|plan| plan.targets.clone()).unwrap_or_default();
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
        sustain: asked.rfc9411.sustain.unwrap_or(SUSTAIN_RECOMMENDED),
        transactions,
        arrivals: asked.search.arrivals.map_or(Arrivals::Uniform, arrivals),
        measured_cps: asked.rfc9411.measured_cps.clone(),
        measured_tps: asked.rfc9411.measured_tps.clone(),
        ports_allow,
        watch_pids: Vec::new(),
    })
}

/// The word before the URL must not contradict the case.
fn check_axis(case: Case, asked: &Asked<'_>) -> Result<(), Stop> {
    let (allowed, counts): (&[&str], _) = match case.kind() {
        Kind::Concurrency => (&["connections"], "held connections"),
        Kind::ConnectionRate if case.tls() == Some(true) => {
            (&["rate", "handshakes"], "connections per second")
        }
        Kind::ConnectionRate => (&["rate"], "connections per second"),
        Kind::Mix | Kind::Throughput | Kind::Latency => (&["rate"], "transactions per second"),
    };
    match asked.axis {
        Some(axis) if !allowed.contains(&axis) => Err(Stop::usage(
            format_args!("--case {case} counts {counts}, and the axis is {axis:?}"),
            format_args!("write {} there, or drop it", allowed.join(" or ")),
        )),
        _ => Ok(()),
    }
}

fn refuse_other_modes(asked: &Asked<'_>) -> Result<(), Stop> {
    let Asked { search, climb, foreign, connection, handshake, .. } = asked;
    let typed = [
        ("--slo", search.slo.is_some(), "the RFC's criteria judge"),
        ("--deadline", search.deadline.is_some(), "the RFC's criteria judge"),
        ("--min", search.min.is_some(), "step 1 begins at a tenth of --target"),
        ("--max", search.max.is_some(), "step 3 ends at --target"),
        ("--probe-timeouts", search.probe_timeouts.is_some(), "there is no timeout probe"),
        ("--rate", climb.rate.is_some(), "the load follows from --target"),
        ("--for", climb.soak.is_some(), "the length is --sustain"),
        ("--push", climb.push, "step 3 ends at --target"),
        ("--stages", foreign.stages.is_some(), "the phases follow from --sustain"),
        ("--duration", foreign.duration.is_some(), "the length is --sustain"),
        ("--requests", foreign.requests.is_some(), "the length is --sustain"),
        ("--no-keepalive", connection.no_keepalive, "the case says how many transactions"),
        ("--handshake-only", connection.handshake_only, "the case says how many transactions"),
        ("--resume", handshake.resume > 0.0, "every handshake must be a full one"),
    ];
    match typed.iter().find(|(_, given, _)| *given) {
        None => Ok(()),
        Some((flag, _, why)) => Err(Stop::usage(
            format_args!("{flag} has no place in --mode rfc9411: {why}"),
            format_args!("drop {flag}"),
        )),
    }
}

fn refuse_requests(case: Case, asked: &Asked<'_>) -> Result<(), Stop> {
    if case == Case::TrafficMix {
        return Ok(());
    }
    let Asked { request, connection, .. } = asked;
    let typed = [
        ("--targets", request.targets.is_some(), "requests its objects one after another"),
        ("--method", request.method.is_some(), "requests objects with GET"),
        ("--body", request.body.is_some(), "requests objects with GET"),
        ("--data", request.data.is_some(), "requests objects with GET"),
        (
            "--requests-per-connection",
            connection.requests_per_connection.is_some(),
            "says how many transactions a connection has",
        ),
    ];
    match typed.iter().find(|(_, given, _)| *given) {
        None => Ok(()),
        Some((flag, _, why)) => Err(Stop::usage(
            format_args!("--case {case} {why}, so {flag} has no place there"),
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
            format_args!("--case {case} needs to know how many connections"),
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

fn objects(case: Case, asked: &Asked<'_>) -> Result<Vec<Object>, Stop> {
    let given = &asked.rfc9411.object_size;
    if given.is_empty() {
        return Ok(case.objects());
    }
    if case == Case::TrafficMix {
        return Err(Stop::usage(
            "--case 7.1 requests what its targets say, so --object-size has no place there",
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
struct Sizes<'a>(&'a Asked<'a>, Case);

impl Sizes<'_> {
    fn has_template(&self) -> bool {
        let in_header = self.0.request.headers.iter().any(|(_, value)| value.contains(SIZE));
        in_header || self.0.url.is_some_and(|url| url.contains(SIZE))
    }

    /// The requests of one object; `of` objects are measured in all.
    fn targets(
        &self,
        object: Object,
        of: usize,
        inputs: &mut Inputs<'_>,
    ) -> Result<Vec<Target>, Stop> {
        let sizes = object.bytes();
        if sizes.is_empty() {
            return self.parse(self.0.url, &self.0.request.headers, inputs);
        }
        if !self.has_template() && self.0.url.is_some() {
            if of == 1 && sizes.len() == 1 {
                // The one object is what the URL names; the first answers show whether it is.
                return self.parse(self.0.url, &self.0.request.headers, inputs);
            }
            return Err(Stop::usage(
                format_args!(
                    "--case {} asks for objects of several sizes, and the URL is the same for all",
                    self.1
                ),
                "write {size} where the bytes go, as in http://host/{size} or -H 'size: {size}', \
                 or choose one with --object-size",
            ));
        }
        let mut all = Vec::new();
        for bytes in sizes {
            let bytes = bytes.to_string();
            let url = self.0.url.map(|url| url.replace(SIZE, &bytes));
            let headers: Vec<_> = self
                .0
                .request
                .headers
                .iter()
                .map(|(name, value)| (name.clone(), value.replace(SIZE, &bytes)))
                .collect();
            all.extend(self.parse(url.as_deref(), &headers, inputs)?);
        }
        Ok(all)
    }

    fn parse(
        &self,
        url: Option<&str>,
        headers: &[(String, String)],
        inputs: &mut Inputs<'_>,
    ) -> Result<Vec<Target>, Stop> {
        let flags = RequestFlags { headers: headers.to_vec(), ..self.0.request.clone() };
        targets::targets(url, &flags, self.0.usage, inputs)
    }
}

/// The load of an iteration; `first` are the requests of the first object.
fn load(
    case: Case,
    asked: &Asked<'_>,
    target: Option<TargetLoad>,
    first: &[Target],
    inputs: &mut Inputs<'_>,
) -> Result<LoadJob, Stop> {
    let connections = match (case.kind(), target) {
        (Kind::Concurrency, Some(TargetLoad::Units(count))) => count.get() as u64,
        _ => asked.connection.connections.unwrap_or(CONNECTIONS_DEFAULT),
    };
    let connection = ConnectionFlags {
        connections: Some(connections),
        requests_per_connection: None,
        ..asked.connection.clone()
    };
    let profile = Profile::constant(one_per_second()?, Nanos::from_secs(1));
    // The requests are known already; what is assembled here is all the rest.
    let url = first.first().map(|target| target.url.to_string());
    let request = RequestFlags::default();
    let parts = Parts {
        usage: asked.usage,
        url: url.as_deref(),
        request: &request,
        connection: &connection,
        trust: asked.trust,
        handshake: asked.handshake,
        output: asked.output,
        pacing: Pacing::Open { profile, arrivals: Arrivals::Uniform },
        ops_total: None,
        deadline: None,
        slo: None,
        linger: asked.search.linger,
        seed: asked.search.seed,
    };
    let mut job = assemble(parts, inputs)?;
    job.target_name = targets::name(first);
    job.plan.targets = first.to_vec();
    job.plan.target_destination = vec![0; first.len()];
    if case == Case::TrafficMix {
        let mut servers = targets::servers(first, asked.trust.sni.as_deref(), inputs)?;
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

/// Whoever closes first keeps the port for a minute, and that is us: gives a load over loopback
/// addresses enough, refuses a target that the ports do not allow, and says what they do allow.
fn spread_over_ports(
    load: &mut LoadJob,
    case: Case,
    target: Option<TargetLoad>,
    transactions: u32,
    inputs: &Inputs<'_>,
) -> Result<f64, Stop> {
    if case.kind() == Kind::Concurrency {
        // Each is opened once; how many there may be is what the preflight of holds says.
        return Ok(f64::INFINITY);
    }
    let per_s = match (target, case.kind()) {
        (Some(TargetLoad::Units(rate)), Kind::ConnectionRate) => Some(rate.get()),
        (Some(TargetLoad::Units(rate)), _) => Some(rate.get() / f64::from(transactions)),
        _ => None,
    };
    let plan = &mut load.plan;
    if plan.sources.is_empty() && handshakes::is_loopback_v4(plan) {
        plan.sources = handshakes::loopback_sources(per_s.and_then(Rate::per_second), inputs);
    }
    let servers: usize = plan.destinations.iter().map(|one| one.addresses.len()).sum();
    let sources = plan.sources.len().max(1);
    let allowed = handshakes::rate_per_pair(inputs) * (servers * sources) as f64;
    if let Some(per_s) = per_s.filter(|per_s| *per_s > allowed) {
        let wanted = (per_s / allowed * sources as f64).ceil() as usize;
        return Err(Stop::usage(
            format_args!(
                "--target needs {} connections/s, more than the {} that the ports of {} allow: \
                 each rests 60 s",
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
