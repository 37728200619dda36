//! `plimsoll lab`: backends, SUT and clients on this machine, and the search between them.

use std::net::Ipv4Addr;

use plimsoll_fleet::AgentSpec;
use plimsoll_fleet::ServerGroup;
use plimsoll_model::Nanos;
use plimsoll_model::plan::Identity;
use plimsoll_model::plan::Listener;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::plan::ServePlan;
use plimsoll_model::plan::TlsState;
use plimsoll_model::plan::Trust;
use plimsoll_tls::KeyKind;

use crate::commands::search;
use crate::commands::sut;
use crate::exit::Stop;
use crate::flags::LabFlags;
use crate::hosts::Placement;
use crate::hosts::fleet_stop;
use crate::plan;
use crate::plan::Inputs;
use crate::plan::find::Axis;
use crate::plan::lab::Sut;
use crate::run;

/// How long a connection to the embedded server lives, in requests.
const EMBEDDED_REQUESTS_PER_CONNECTION: u64 = 20;
/// Timers of the laboratory's own servers: longer than anything a search waits for.
const SERVER_TIMEOUT: Nanos = Nanos::from_secs(600);

pub(crate) fn run(flags: &LabFlags) -> Result<(), Stop> {
    let mut stdin = std::io::stdin();
    let mut inputs = Inputs::of_host(&mut stdin);
    let job = plan::lab::build(flags, &mut inputs)?;
    let program = sut::program(&job)?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let placement = Placement::of_host();
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let identity = plimsoll_tls::self_signed(&names, key_kind(&program))
        .map_err(|error| Stop::CannotRun(error.to_string()))?;
    let trust = Trust::Roots(identity.chain_pem.clone());

    let mut notes = Vec::new();
    // Kept alive to the end of the search; dropped in reverse order, the SUT before its backends.
    let backends;
    let started = match &program {
        sut::Program::Embedded => {
            notes.push(placement_note("no backends: the SUT answers itself", &placement));
            sut::start_embedded(&identity, &placement.sut)?
        }
        program => {
            backends = start_backends(job.backends, &placement.backends)?;
            let addresses: Vec<_> =
                backends.listeners().iter().map(|listener| listener.address).collect();
            let text = format!("{} backends", addresses.len());
            notes.push(placement_note(&text, &placement));
            sut::start_proxy(program, &job, &identity, addresses, &placement.sut)?
        }
    };
    if job.sut == Sut::Auto && matches!(program, sut::Program::Embedded) {
        notes.push(
            "HAProxy is not installed, so our own TLS server is tested; for the real one: \
             apt-get install haproxy"
                .to_owned(),
        );
    }
    let url = format!("https://{}/", started.address);
    notes.insert(0, format!("SUT {} at {url}", started.name));
    notes.extend(started.note.clone());

    let mut find = job.find(&url, trust, &mut inputs)?;
    find.load.target_name = format!("{} at {url}", started.name);
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
    let watch = started.into_watch();
    search::run("lab", &mut find, watch, &notes, &interrupts)
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

fn start_backends(count: u32, cpus: &[u32]) -> Result<ServerGroup, Stop> {
    let listener = Listener { address: ([127, 0, 0, 1], 0).into(), tls: false };
    start_servers(vec![listener; count as usize], None, cpus)
}

/// Starts our own servers in one process, a thread per CPU.
pub(super) fn start_servers(
    listeners: Vec<Listener>,
    identity: Option<Identity>,
    cpus: &[u32],
) -> Result<ServerGroup, Stop> {
    let plan = ServePlan {
        listeners,
        identity,
        threads: cpus.len().max(1) as u32,
        cpus: cpus.to_vec(),
        tls_state: TlsState::Compact,
        statsd: None,
        seed: 1,
        request_timeout: SERVER_TIMEOUT,
        idle_timeout: SERVER_TIMEOUT,
    };
    let spec = AgentSpec {
        cpus: if cpus.is_empty() { Vec::new() } else { vec![cpus.to_vec()] },
        ..AgentSpec::new(1)
    };
    ServerGroup::start(&spec, &plan).map_err(|error| fleet_stop(&error))
}

fn placement_note(backends: &str, placement: &Placement) -> String {
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
