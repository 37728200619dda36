//! `plimsoll lab`: backends, SUT and clients on this machine, and the search between them.

use std::net::Ipv4Addr;

use plimsoll_fleet::{AgentSpec, ServerGroup};
use plimsoll_model::Nanos;
use plimsoll_model::cliff::{Awaits, KnownTimer, Owner};
use plimsoll_model::plan::{Identity, Listener, LoadPlan, ServePlan, TlsState};
use plimsoll_tls::KeyKind;

use crate::commands::laboratory::Laboratory;
use crate::commands::reference::Reference;
use crate::commands::{climb, hold, rfc9411, search, serve, sut};
use crate::exit::Stop;
use crate::flags::values::ModeFlag;
use crate::flags::{LabExperiment, LabFlags};
use crate::hosts::{Placement, fleet_stop};
use crate::plan::Inputs;
use crate::plan::find::Axis;
use crate::{plan, run};

/// How long a connection to the embedded server lives, in requests.
const EMBEDDED_REQUESTS_PER_CONNECTION: u64 = 20;
/// Timers of the laboratory's own servers: longer than anything a search waits for.
const SERVER_TIMEOUT: Nanos = Nanos::from_secs(600);
/// Every timer of a proxy outlasts the linger by this, so that none of them fires inside what is
/// measured.
const TIMEOUT_PAST_LINGER: Nanos = Nanos::from_secs(60);

/// What is said when our own server stands in.
pub(super) const NO_HAPROXY: &str = "HAProxy is not installed, so our own TLS server is tested; \
                                     for the real one: apt-get install haproxy";

pub(crate) fn run(flags: &LabFlags) -> Result<(), Stop> {
    if let Some(LabExperiment::Hold(flags)) = &flags.experiment {
        return hold::run_lab(flags);
    }
    if flags.mode == ModeFlag::Rfc9411 && flags.unexpected.is_none() {
        return rfc9411::run_lab(flags);
    }
    let mut stdin = std::io::stdin();
    let mut inputs = Inputs::of_host(&mut stdin);
    let job = plan::lab::build(flags, &mut inputs)?;
    let program = sut::program(&job.hosts)?;
    if job.search.axis == Axis::Connections {
        return climb::run_lab(&job, &program, &mut inputs);
    }
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let placement = Placement::of_host();
    let identity = identity(&program)?;
    let trust = job.hosts.trust(&identity.chain_pem);

    let timeout = match program {
        sut::Program::Embedded => SERVER_TIMEOUT,
        sut::Program::Haproxy(_) | sut::Program::Nginx(_) => job.linger() + TIMEOUT_PAST_LINGER,
    };
    let room = sut::Room {
        connections: job.connections(),
        timeout,
        cpus: placement.sut.clone(),
        may_split: false,
        tls_state: TlsState::Compact,
        tls: true,
        resumes: true,
    };
    // Backends first: what is bound later is dropped first, the SUT before them.
    let Laboratory { backends, sut, url, target_name, mut notes } =
        Laboratory::start(&program, &job.hosts, &identity, &room, Some(&placement))?;
    let mut find = job.find(&url, trust, &mut inputs)?;
    find.load.target_name = target_name;
    if !placement.clients.is_empty() {
        find.load.plan.cpus = placement.clients.clone();
        find.load.plan.threads = placement.clients.len() as u32;
    }
    if matches!(program, sut::Program::Embedded) && renew_connections(&mut find.load.plan) {
        notes.push(format!(
            "every {EMBEDDED_REQUESTS_PER_CONNECTION} requests a connection is replaced, with a \
             full handshake (RSA-2048): our server is as cheap as our client otherwise, and the \
             client would be the limit"
        ));
    }
    if find.search.axis == Axis::Handshakes {
        let key = match key_kind(&program) {
            KeyKind::Rsa2048 => "RSA-2048",
            KeyKind::EcdsaP256 => "ECDSA P-256",
        };
        notes.push(format!("each handshake: certificate {key}, nothing is sent"));
    }
    let mut watch = sut.into_watch();
    watch.behind = backends.as_ref().map(ServerGroup::pids).unwrap_or_default();
    let proxied = !matches!(program, sut::Program::Embedded);
    watch.timers.extend(sleep_timer(&find.load.plan, proxied));
    // While the reference runs, the SUT's CPUs have nothing else to do.
    let reference = Reference { cpus: placement.sut, identity: Some(identity) };
    search::run("lab", &mut find, watch, reference, &notes, &interrupts)
}

/// The certificate of the SUT, made for this run.
pub(super) fn identity(program: &sut::Program) -> Result<Identity, Stop> {
    self_signed(key_kind(program))
}

/// A certificate for this host.
pub(super) fn self_signed(kind: KeyKind) -> Result<Identity, Stop> {
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    plimsoll_tls::self_signed(&names, kind).map_err(|error| Stop::CannotRun(error.to_string()))
}

/// The timers of our own servers.
pub(super) fn server_timers(owner: Owner, name: &str) -> Vec<KnownTimer> {
    let timer = |(flag, awaits)| KnownTimer {
        name: format!("{name} {flag}"),
        at: SERVER_TIMEOUT,
        owner,
        awaits,
    };
    let timers = [("--request-timeout", Awaits::Request), ("--idle-timeout", Awaits::NextRequest)];
    timers.map(timer).to_vec()
}

/// The fixed sleep that the requests ask of the backends.
fn sleep_timer(plan: &LoadPlan, proxied: bool) -> Option<KnownTimer> {
    let headers = plan.targets.iter().flat_map(|target| &target.headers);
    let mut named = headers.filter(|(name, _)| name.eq_ignore_ascii_case("sleep-fixed"));
    Some(KnownTimer {
        name: "the header sleep-fixed".to_owned(),
        at: Nanos::from_millis(named.next()?.1.trim().parse().ok()?),
        owner: if proxied { Owner::Backend } else { Owner::Sut },
        awaits: Awaits::Answer,
    })
}

/// Our own server costs what our own client costs, request for request (6.7 us each over TLS, see
/// docs/journal), so that on one core each the client would be the limit. An RSA handshake costs
/// the server twice what it costs the client; HAProxy and nginx need no such help.
const fn key_kind(program: &sut::Program) -> KeyKind {
    match program {
        sut::Program::Embedded => KeyKind::Rsa2048,
        sut::Program::Haproxy(_) | sut::Program::Nginx(_) => KeyKind::EcdsaP256,
    }
}

/// Replaces connections now and then, unless the flags say how long they live; true if it does.
fn renew_connections(plan: &mut LoadPlan) -> bool {
    if !plan.keepalive || plan.requests_per_connection.is_some() {
        return false;
    }
    plan.requests_per_connection = Some(EMBEDDED_REQUESTS_PER_CONNECTION);
    plan.staggered = true;
    if plan.sources.is_empty() {
        // Closed connections keep their ports for a while; eight addresses have eight times more.
        plan.sources = (1..=8).map(|host| Ipv4Addr::new(127, 0, 0, host).into()).collect();
    }
    true
}

/// Who runs our own servers.
#[derive(Clone, Debug)]
pub(super) struct Staff {
    /// Processes that share the ports.
    pub(super) processes: u32,
    /// CPUs they are pinned to, a thread on each; empty pins nothing.
    pub(super) cpus: Vec<u32>,
    /// Every timer of theirs.
    pub(super) timeout: Nanos,
    /// What is kept of a TLS connection.
    pub(super) tls_state: TlsState,
}

impl Staff {
    /// One process, a thread per CPU, with the timers of a search.
    pub(super) fn new(cpus: &[u32]) -> Self {
        Self {
            processes: 1,
            cpus: cpus.to_vec(),
            timeout: SERVER_TIMEOUT,
            tls_state: TlsState::Compact,
        }
    }
}

/// Starts plain HTTP servers on ports of their own.
pub(super) fn start_backends(count: u32, staff: &Staff) -> Result<ServerGroup, Stop> {
    let listener = Listener { address: ([127, 0, 0, 1], 0).into(), tls: false };
    start_servers(vec![listener; count as usize], None, staff)
}

/// Starts our own servers.
pub(super) fn start_servers(
    listeners: Vec<Listener>,
    identity: Option<Identity>,
    staff: &Staff,
) -> Result<ServerGroup, Stop> {
    let shares_tickets = identity.is_some() && staff.processes > 1;
    let plan = ServePlan {
        listeners,
        identity,
        ticket_key: shares_tickets.then(serve::ticket_key).transpose()?,
        threads: staff.cpus.len().max(1) as u32,
        cpus: staff.cpus.clone(),
        tls_state: staff.tls_state,
        statsd: None,
        seed: 1,
        request_timeout: staff.timeout,
        idle_timeout: staff.timeout,
    };
    let spec = AgentSpec {
        cpus: if staff.cpus.is_empty() { Vec::new() } else { vec![staff.cpus.clone()] },
        ..AgentSpec::new(staff.processes)
    };
    ServerGroup::start(&spec, &plan).map_err(|error| fleet_stop(&error))
}

pub(super) fn placement_note(backends: &str, placement: &Placement) -> String {
    if placement.sut.is_empty() {
        return format!(
            "{backends}; one CPU: SUT, clients and backends share it, so the figure is a lower bound"
        );
    }
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    format!(
        "{backends}; CPUs: SUT {}, clients {}, backends {}",
        list(&placement.sut),
        list(&placement.clients),
        list(&placement.backends)
    )
}
