//! `find rfc9411` and `lab rfc9411`: one case of RFC 9411, object by object.
//!
//! ```text
//! for each object: reference -> capacity of the SUT -> steps 1 to 3 -> isolation
//! ```

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use plimsoll_capacity::rfc9411::thresholds;
use plimsoll_lab::{LabPlan, Laboratory, Placement};
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::rfc9411::{
    Case, Ending, Kind, ObjectResult, Rfc9411Summary, SUSTAIN_RECOMMENDED,
};
use plimsoll_model::search::Mode;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::Verdict;
use plimsoll_probe::memory::HostMemory;
use plimsoll_report::archive::SearchHead;

use super::hold::LAB_WAIT;
use super::holders::Holders;
use super::laboratory::pin_clients;
use super::reference::{NullResponder, Reference};
use super::{RunsInLab, tipping};
use crate::exit::Result;
use crate::hosts::archived_host;
use crate::plan::load::LoadJob;
use crate::plan::rfc9411::Rfc9411Job;
use crate::preflight;
use crate::preflight::Server;
use crate::session::{Experiment, ExperimentResult, Session};

mod iteration;
mod object;

use object::CaseRun;

/// The layer at which throughput is counted: the RFC prefers layer 2 and requires any other to be
/// named.
const THROUGHPUT_LAYER: &str = "layer 4: TCP payload in both directions, TLS records included, TCP/IP and Ethernet headers not";

/// `find rfc9411`, and the same in a laboratory.
pub(super) struct CaseExperiment {
    job: Rfc9411Job,
    placement: Placement,
}

impl CaseExperiment {
    /// Creates the experiment; refuses held connections if this host lacks what a hold needs.
    pub(super) fn new(mut job: Rfc9411Job, server: &Server) -> Result<(Self, Vec<String>)> {
        let mut notes = Vec::new();
        if job.flags.case.kind() == Kind::Concurrency {
            let holders = Holders::of(&mut job.load, iteration::OPENING_MAX, server);
            notes = preflight::check(&holders.shape, &holders.limits, false)?.notes;
        }
        Ok((Self { job, placement: Placement::default() }, notes))
    }
}

impl RunsInLab for CaseExperiment {
    fn lab_plan(&self, plan: LabPlan) -> LabPlan {
        LabPlan {
            connections: self.job.load.plan.connections,
            longest_wait: match self.job.flags.case.kind() {
                Kind::Concurrency => LAB_WAIT,
                _ => self.job.load.plan.timeouts.linger,
            },
            placement: Some(Placement::of_host()),
            resumes: false,
            ..plan
        }
    }

    fn enter(&mut self, lab: &Laboratory, plan: &LabPlan) -> Vec<String> {
        self.job.load.target_name.clone_from(&lab.name);
        pin_clients(&mut self.job.load.plan, plan);
        self.placement = plan.placement.clone().unwrap_or_default();
        Vec::new()
    }
}

impl Experiment for CaseExperiment {
    fn load(&mut self) -> &mut LoadJob {
        &mut self.job.load
    }

    fn kind(&self) -> RunKind {
        RunKind::Rfc9411
    }

    fn search_head(&self) -> Option<SearchHead> {
        let case = self.job.flags.case;
        let slo = format!("criteria of RFC 9411, case {case}");
        Some(SearchHead { axis: case.axis(), slo, mode: Mode::Rfc9411 })
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<ExperimentResult> {
        let Self { job, placement } = self;
        let case = job.flags.case;
        session.note(format!("RFC 9411 case {case}: {}", case.title()));
        session.note(format!("criteria: {}", thresholds(case).join("; ")));
        let sustain = job.flags.sustain;
        if sustain < SUSTAIN_RECOMMENDED {
            let than = format!("shorter than the {SUSTAIN_RECOMMENDED} that RFC 9411 recommends");
            session.note(format!("the sustain phase of {sustain} is {than}"));
        }
        // Runs on the CPUs of the SUT, if the SUT is on this host.
        let own = Reference { cpus: placement.sut.clone(), identity: None };
        let mut run = CaseRun {
            session,
            job,
            kind: case.kind(),
            responder: NullResponder::start(own, &job.load.plan, session)?,
            trials: Vec::new(),
            results: Vec::new(),
            reference: None,
            notes: Vec::new(),
            most_bit_s: None,
        };
        run.measure()?;
        let partial = session.is_interrupted();
        Ok(ExperimentResult { partial, ..outcome(run, placement) })
    }
}

fn outcome(run: CaseRun<'_, '_>, placement: &Placement) -> ExperimentResult {
    let CaseRun { job, trials, results, reference, mut notes, .. } = run;
    let (mut tally, window) = tipping::all_trials(&trials);
    // Those sums are of whole iterations, and each would count as one second.
    let per_s = trials.iter().map(|trial| trial.measurement.tally.handshakes_per_s_max);
    tally.handshakes_per_s_max = per_s.max().unwrap_or(0);
    notes.extend(tickets(&tally));
    let verdict = verdict(&results, job.flags.target.is_some());
    let deciding =
        results.iter().find(|result| result.verdict == verdict).or_else(|| results.last());
    let reasons = deciding
        .map(|result| result.checks.iter().chain(&result.criteria).cloned().collect())
        .unwrap_or_default();
    let (case, sustain) = (job.flags.case, job.flags.sustain);
    let block = Rfc9411Summary {
        case,
        title: case.title().to_owned(),
        init_s: iteration::init(sustain).as_secs_f64(),
        sustain_s: sustain.as_secs_f64(),
        sustain_recommended_s: SUSTAIN_RECOMMENDED.as_secs_f64(),
        shorter_than_recommended: sustain < SUSTAIN_RECOMMENDED,
        throughput_layer: THROUGHPUT_LAYER.to_owned(),
        environment: environment(job, placement),
        reference,
        results,
        notes,
    };
    let result = RunResult::Rfc9411 { rfc9411: Box::new(block) };
    ExperimentResult { result, trials, ..ExperimentResult::new(tally, window, verdict, reasons) }
}

/// Section 4.3 says that neither side offers resumption. A SUT that sends tickets all the same
/// does more work than the case asks for.
fn tickets(tally: &Tally) -> Option<String> {
    (tally.tls_messages.tickets > 0).then(|| {
        "the SUT sends session tickets, as TLS 1.3 servers do even where their session cache is \
         off; RFC 9411 wants no resumption on either side, and none was offered"
            .to_owned()
    })
}

/// Returns the verdict: GOOD if every object has a result, and a requested target was met.
fn verdict(results: &[ObjectResult], target_given: bool) -> Verdict {
    let of = |result: &ObjectResult| match &result.ending {
        Ending::Maximum if target_given => Verdict::Bad,
        _ => result.verdict,
    };
    tipping::worst(results.iter().map(of))
}

/// Returns the facts of both sides that section 6.1 requires to be reported, as far as they are known here.
fn environment(job: &Rfc9411Job, placement: &Placement) -> BTreeMap<String, String> {
    let host = archived_host();
    let plan = &job.load.plan;
    let memory = HostMemory::read(Path::new("/proc")).total_bytes;
    let list = |cpus: &[u32]| {
        let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
        (!placement.sut.is_empty()).then(|| cpus.join(" "))
    };
    let mut addresses = plan.destinations.iter().flat_map(|server| &server.addresses);
    let split =
        match (addresses.clone().any(SocketAddr::is_ipv4), addresses.any(SocketAddr::is_ipv6)) {
            (true, false) => "100:0",
            (false, true) => "0:100",
            _ => "both, in turn",
        };
    let sources = match plan.sources.len() {
        0 => "the kernel's choice".to_owned(),
        sources => sources.to_string(),
    };
    let encrypted = plan.targets.iter().filter(|target| target.url.tls).count();
    let mix = format!("{} targets in turn, {encrypted} over TLS", plan.targets.len());
    let facts = [
        ("generator", Some(format!("plimsoll {}", env!("CARGO_PKG_VERSION")))),
        ("generator-kernel", Some(host.kernel)),
        ("generator-cpus", Some(host.cpus.to_string())),
        ("generator-cpu-model", host.cpu_model),
        ("generator-memory", memory.map(|bytes| format!("{:.1} GB", bytes as f64 / 1e9))),
        ("sut", Some(job.load.target_name.clone())),
        ("sut-cpus", list(&placement.sut)),
        ("client-cpus", list(&placement.clients)),
        ("ipv4-to-ipv6", Some(split.to_owned())),
        ("client-addresses", Some(sources)),
        ("mix", (job.flags.case == Case::TrafficMix).then_some(mix)),
    ];
    facts.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))).collect()
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
