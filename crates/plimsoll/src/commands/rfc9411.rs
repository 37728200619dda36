//! `find rfc9411` and `lab rfc9411`: one case of RFC 9411, object by object.
//!
//! ```text
//! for each object: reference -> what the SUT can do at all -> steps 1 to 3 -> isolation
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use plimsoll_capacity::rfc9411::thresholds;
use plimsoll_fleet::ServerGroup;
use plimsoll_lab::{
    LabError, LabPlan, Laboratory, NamedServer, OwnServers, Placement, WatchedServer,
};
use plimsoll_model::Nanos;
use plimsoll_model::rfc9411::{
    Case, Ending, Kind, ObjectResult, Rfc9411Summary, SUSTAIN_RECOMMENDED,
};
use plimsoll_model::search::Mode;
use plimsoll_model::summary::{Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::Verdict;
use plimsoll_probe::memory::HostMemory;
use plimsoll_report::archive::SearchHead;
use plimsoll_sys::signal::Interrupts;
use plimsoll_tls::KeyKind;

use crate::commands::lab::Site;
use crate::commands::{hold, search};
use crate::exit::Stop;
use crate::hosts::{archived_host, start_load_agents};
use crate::plan::rfc9411::Rfc9411Job;
use crate::plan::watch::Watched;
use crate::preflight::Server;
use crate::run::{Run, RunHead};
use crate::{preflight, run};

mod iteration;
mod object;

use iteration::Bench;
use object::{Measured, Scene};

/// What throughput is counted at: the RFC prefers layer 2 and wants any other named.
const THROUGHPUT_LAYER: &str = "layer 4: TCP payload in both directions, TLS records included, TCP/IP and Ethernet headers not";
/// No think time is longer, where connections are held.
const HELD_WAIT: Nanos = Nanos::from_secs(24 * 3600);

/// `plimsoll find rfc9411`.
pub(super) fn run_find(mut job: Rfc9411Job, watched: Watched) -> Result<(), Stop> {
    let server = Server::of(&job.load);
    let notes = preflight(&mut job, server)?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let mut server = NamedServer::new(watched.pids, None)?;
    let set_up = SetUp { command: "find", placement: Placement::default(), notes };
    run(&set_up, &mut job, &mut server, &interrupts)
}

/// `plimsoll lab rfc9411`.
pub(super) fn run_lab(site: Site, mut job: Rfc9411Job) -> Result<(), Stop> {
    let fits = preflight(&mut job, hold::server_of(&site.sut))?;
    let interrupts = run::install_interrupts()?;
    let placement = Placement::of_host();
    let plan = &mut job.load.plan;
    let lab_plan = LabPlan {
        connections: plan.connections,
        longest_wait: match job.case.kind() {
            Kind::Concurrency => HELD_WAIT,
            _ => plan.linger,
        },
        placement: Some(placement.clone()),
        resumes: false,
        ..site.plan
    };
    let mut lab = Laboratory::start(&lab_plan, site.at)?;
    job.load.target_name = lab.name();
    if !placement.clients.is_empty() {
        plan.cpus = placement.clients.clone();
        plan.threads = placement.clients.len() as u32;
    }
    let notes = [lab.notes(), &fits].concat();
    let set_up = SetUp { command: "lab", placement, notes };
    run(&set_up, &mut job, &mut lab, &interrupts)
}

/// Held connections need what any hold needs: refused here where this host does not have it.
fn preflight(job: &mut Rfc9411Job, server: Server) -> Result<Vec<String>, Stop> {
    if job.case.kind() != Kind::Concurrency {
        return Ok(Vec::new());
    }
    let limits = preflight::host_limits();
    hold::spread_sources(&mut job.load.plan, &limits);
    let shape = preflight::shape(&job.load, iteration::OPENING_MAX, server);
    let fit = preflight::check(&shape, &limits, false)?;
    Ok(fit.notes)
}

/// What is tested, and from where.
struct SetUp {
    command: &'static str,
    placement: Placement,
    notes: Vec<String>,
}

/// Measures, reports, and says how the command ends.
fn run(
    set_up: &SetUp,
    job: &mut Rfc9411Job,
    server: &mut dyn WatchedServer,
    interrupts: &Interrupts,
) -> Result<(), Stop> {
    let agents = start_load_agents(&mut job.load.plan, job.load.processes)?;
    let job: &Rfc9411Job = job;
    let head = RunHead {
        command: set_up.command,
        job: &job.load,
        search: Some(SearchHead {
            axis: job.case.axis(),
            slo: format!("criteria of RFC 9411, case {}", job.case),
            mode: Mode::Rfc9411,
        }),
        always_archive: true,
    };
    let run = Run::begin(head)?;
    let mut scene = Scene {
        bench: Bench { agents, run: RefCell::new(run), interrupts, server },
        job,
        responder: Responder::start(job, &set_up.placement)?,
        trials: Vec::new(),
        notes: Vec::new(),
        most_bit_s: None,
    };
    for note in set_up.notes.iter().chain(&opening_notes(job)) {
        scene.note(note.clone());
    }
    let measured = scene.measure_case()?;
    let Scene { bench, trials, notes, responder, .. } = scene;
    let Bench { agents, run, .. } = bench;
    drop((agents, responder));
    let run = run.into_inner();
    let interrupted = interrupts.is_raised();
    let summary = summarise(set_up, job, measured, notes, &run, interrupted);
    let verdict = summary.verdict;
    run.finish(&summary, &trials)?;
    if interrupted {
        return Err(run::interrupted_stop(interrupts));
    }
    search::stop_of(verdict)
}

/// Our own server, which answers as fast as anything can.
struct Responder {
    address: SocketAddr,
    /// Its certificate, where TLS is spoken.
    roots: Option<String>,
    _servers: ServerGroup,
}

impl Responder {
    /// On the CPUs that the SUT has, where it is here: it takes its place.
    fn start(job: &Rfc9411Job, placement: &Placement) -> Result<Self, Stop> {
        let tls = job.load.plan.targets.first().is_some_and(|target| target.url.tls);
        let identity = plimsoll_tls::self_signed(&["localhost".to_owned()], KeyKind::EcdsaP256)
            .map_err(LabError::from)?;
        let roots = tls.then(|| identity.chain_pem.clone());
        let (address, servers) = OwnServers::new(&placement.sut).start_one(tls, identity)?;
        Ok(Self { address, roots, _servers: servers })
    }
}

fn opening_notes(job: &Rfc9411Job) -> Vec<String> {
    let mut notes = vec![format!("RFC 9411 case {}: {}", job.case, job.case.title())];
    notes.push(format!("criteria: {}", thresholds(job.case).join("; ")));
    if job.sustain < SUSTAIN_RECOMMENDED {
        notes.push(shorter(job.sustain));
    }
    notes
}

fn shorter(sustain: Nanos) -> String {
    format!(
        "the sustain phase of {sustain} is shorter than the {SUSTAIN_RECOMMENDED} that RFC 9411 \
         recommends"
    )
}

fn summarise(
    set_up: &SetUp,
    job: &Rfc9411Job,
    measured: Measured,
    mut notes: Vec<String>,
    run: &Run,
    interrupted: bool,
) -> Summary {
    let Measured { results, reference, tally, window } = measured;
    if job.sustain < SUSTAIN_RECOMMENDED {
        notes.insert(0, shorter(job.sustain));
    }
    notes.extend(tickets(&tally));
    let verdict = verdict(&results, job.target.is_some());
    let deciding =
        results.iter().find(|result| result.verdict == verdict).or_else(|| results.last());
    let reasons = deciding
        .map(|result| result.checks.iter().chain(&result.criteria).cloned().collect())
        .unwrap_or_default();
    let block = Rfc9411Summary {
        case: job.case,
        title: job.case.title().to_owned(),
        init_s: iteration::init(job.sustain).as_secs_f64(),
        sustain_s: job.sustain.as_secs_f64(),
        sustain_recommended_s: SUSTAIN_RECOMMENDED.as_secs_f64(),
        shorter_than_recommended: job.sustain < SUSTAIN_RECOMMENDED,
        throughput_layer: THROUGHPUT_LAYER.to_owned(),
        environment: environment(job, set_up),
        reference,
        results,
        notes,
    };
    let head = SummaryHead {
        command: set_up.command.to_owned(),
        target: job.load.target_name.clone(),
        started_at: run.started_at.clone(),
        window,
        partial: interrupted,
        settings: run::settings(&job.load, &job.load.plan),
        verdict,
        reasons,
        find: None,
        hold: None,
        archive: run.archive_dir(),
    };
    Summary { rfc9411: Some(block), ..Summary::new(head, &tally) }
}

/// Section 4.3 wants neither side to offer resumption; what the SUT does is its own affair, and
/// costs it something.
fn tickets(tally: &Tally) -> Option<String> {
    (tally.tls_messages.tickets > 0).then(|| {
        "the SUT sends session tickets, as TLS 1.3 servers do even where their session cache is \
         off; RFC 9411 wants no resumption on either side, and none was offered"
            .to_owned()
    })
}

/// GOOD where every object has a result; a target that was asked for must have been met.
fn verdict(results: &[ObjectResult], target_given: bool) -> Verdict {
    let of = |result: &ObjectResult| match &result.ending {
        Ending::Maximum if target_given => Verdict::Bad,
        _ => result.verdict,
    };
    let any = |wanted| results.iter().any(|result| of(result) == wanted);
    if any(Verdict::Bad) {
        Verdict::Bad
    } else if any(Verdict::Invalid) || results.is_empty() {
        Verdict::Invalid
    } else {
        Verdict::Good
    }
}

/// What section 6.1 wants to be told of both sides, as far as it is known here.
fn environment(job: &Rfc9411Job, set_up: &SetUp) -> BTreeMap<String, String> {
    let host = archived_host();
    let mut out = BTreeMap::from([
        ("generator".to_owned(), format!("plimsoll {}", env!("CARGO_PKG_VERSION"))),
        ("generator-kernel".to_owned(), host.kernel),
        ("generator-cpus".to_owned(), host.cpus.to_string()),
        ("sut".to_owned(), job.load.target_name.clone()),
    ]);
    out.extend(host.cpu_model.map(|model| ("generator-cpu-model".to_owned(), model)));
    if let Some(bytes) = HostMemory::read(Path::new("/proc")).total_bytes {
        let text = format!("{:.1} GB", bytes as f64 / 1e9);
        out.insert("generator-memory".to_owned(), text);
    }
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    if !set_up.placement.sut.is_empty() {
        out.insert("sut-cpus".to_owned(), list(&set_up.placement.sut));
        out.insert("client-cpus".to_owned(), list(&set_up.placement.clients));
    }
    let mut addresses = job.load.plan.destinations.iter().flat_map(|server| &server.addresses);
    let split =
        match (addresses.clone().any(SocketAddr::is_ipv4), addresses.any(SocketAddr::is_ipv6)) {
            (true, false) => "100:0",
            (false, true) => "0:100",
            _ => "both, in turn",
        };
    out.insert("ipv4-to-ipv6".to_owned(), split.to_owned());
    let sources = job.load.plan.sources.len();
    let sources = if sources == 0 { "the kernel's choice".to_owned() } else { sources.to_string() };
    out.insert("client-addresses".to_owned(), sources);
    if job.case == Case::TrafficMix {
        let encrypted = job.load.plan.targets.iter().filter(|target| target.url.tls).count();
        let all = job.load.plan.targets.len();
        out.insert("mix".to_owned(), format!("{all} targets in turn, {encrypted} over TLS"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(ending: Ending, verdict: Verdict) -> ObjectResult {
        ObjectResult {
            object: "1 KB".to_owned(),
            object_bytes: Some(1_000),
            scenario: None,
            transactions_per_connection: 1,
            unit: "connections/s".to_owned(),
            initial: 10.0,
            target: 100.0,
            target_source: "--target".to_owned(),
            ending,
            load: None,
            failed_load: None,
            verdict,
            kpis: None,
            criteria: Vec::new(),
            checks: Vec::new(),
            isolation: None,
            series: Vec::new(),
            iterations: Vec::new(),
        }
    }

    #[test]
    fn the_worst_object_decides_and_a_given_target_must_be_met() {
        let why = || "why".to_owned();
        let met = || result(Ending::TargetMet, Verdict::Good);
        let most = || result(Ending::Maximum, Verdict::Good);
        let limited = || result(Ending::GeneratorLimited { why: why() }, Verdict::Invalid);
        let failed = || result(Ending::Unqualified { why: why() }, Verdict::Bad);
        for (results, given, expected) in [
            (vec![met(), met()], true, Verdict::Good),
            (vec![met(), most()], false, Verdict::Good),
            (vec![met(), most()], true, Verdict::Bad),
            (vec![met(), limited()], false, Verdict::Invalid),
            (vec![limited(), failed()], false, Verdict::Bad),
            (vec![], false, Verdict::Invalid),
        ] {
            assert_eq!(verdict(&results, given), expected, "{results:?}");
        }
    }
}
