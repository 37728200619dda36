//! `plimsoll lab`: backends, SUT and clients on this machine, and the search between them.

use plimsoll_fleet::AgentSpec;
use plimsoll_fleet::ServerGroup;
use plimsoll_model::Nanos;
use plimsoll_model::plan::Identity;
use plimsoll_model::plan::Listener;
use plimsoll_model::plan::ServePlan;
use plimsoll_model::plan::Trust;

use crate::commands::search;
use crate::commands::sut;
use crate::exit::Stop;
use crate::flags::LabFlags;
use crate::hosts::Placement;
use crate::hosts::fleet_stop;
use crate::plan;
use crate::plan::Inputs;
use crate::plan::lab::Sut;
use crate::run;

/// Timers of the laboratory's own servers: longer than anything a search waits for.
const SERVER_TIMEOUT: Nanos = Nanos::from_secs(600);

pub(crate) fn run(flags: &LabFlags) -> Result<(), Stop> {
    let interrupts = run::install_interrupts()?;
    let mut stdin = std::io::stdin();
    let mut inputs = Inputs::of_host(&mut stdin);
    let job = plan::lab::build(flags, &mut inputs)?;
    let program = sut::program(&job)?;
    let placement = Placement::of_host();
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let identity =
        plimsoll_tls::self_signed(&names).map_err(|error| Stop::CannotRun(error.to_string()))?;
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
    let watch = started.into_watch();
    search::run("lab", &mut find, watch, &notes, &interrupts)
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
