//! One object of a case: the capacity of generator and SUT, then steps 1 to 3, then whether
//! another KPI was at its limit.

use std::net::{IpAddr, Ipv4Addr};

use plimsoll_capacity::rfc9411::{
    Conclusion, Iterate, JudgedIteration, Settings, initial_load, isolation, judge, proceed,
};
use plimsoll_lab::ClientHost;
use plimsoll_model::Rate;
use plimsoll_model::event::Event;
use plimsoll_model::plan::{LoadPlan, Session as Sessions};
use plimsoll_model::rfc9411::{
    Ending, Isolation, Iteration, Kind, ObjectResult, OtherKpi, Reference, Step,
};
use plimsoll_model::target::Body;
use plimsoll_model::trial::{Phase, Stopped, TrialRecord, TrialRequest};
use plimsoll_model::units::grouped;

use super::iteration::{Reached, closed_loop, init, run, transactions};
use crate::exit::{Result, Stop};
use crate::experiments::load::failed;
use crate::experiments::reference::NullResponder;
use crate::flags::rfc9411::TargetLoad;
use crate::plan::rfc9411::{ObjectPlan, Rfc9411Job, TARGET_MIN};
use crate::session::Session;

/// The load of the latency cases, and the ramp of the concurrency cases, as a fraction of the
/// capacity that other cases measured.
const HALF: f64 = 0.5;
/// The assumed rate of a closed loop that has no target, as a fraction of what the ports allow.
const PORTS_SHARE: f64 = 0.9;
/// Name of the server in the reference test.
const RESPONDER: &str = "plimsoll serve in place of the SUT, nothing between";
/// Source addresses of the loops against our own responder.
const LOOP_SOURCES: u32 = 64;

/// A case being measured.
pub(super) struct CaseRun<'a, 's> {
    pub(super) session: &'a Session<'s>,
    pub(super) job: &'a Rfc9411Job,
    pub(super) kind: Kind,
    pub(super) responder: NullResponder,
    pub(super) trials: Vec<TrialRecord>,
    pub(super) results: Vec<ObjectResult>,
    pub(super) reference: Option<Reference>,
    pub(super) notes: Vec<String>,
    /// The throughput's maximum, once it was measured.
    pub(super) most_bit_s: Option<f64>,
}

/// One thing to measure.
struct Subject<'a> {
    object: &'a ObjectPlan,
    /// Position among the objects.
    index: usize,
    scenario: Option<u32>,
    plan: LoadPlan,
}

/// The load of step 2, and where it comes from.
struct Target {
    load: f64,
    source: String,
    /// Rate that the generator alone reaches, in the same unit.
    generator: Option<Rate>,
    /// New connections per second of a concurrency case.
    ramp_per_s: Option<f64>,
}

impl CaseRun<'_, '_> {
    /// Measures every object and scenario, unless it is interrupted.
    pub(super) fn measure(&mut self) -> Result<()> {
        let job = self.job;
        let scenarios: &[Option<u32>] = match self.kind {
            Kind::Latency => &[Some(1), Some(2)],
            _ => &[None],
        };
        for (index, object) in job.objects.iter().enumerate() {
            for &scenario in scenarios.iter().take_while(|_| !self.session.is_interrupted()) {
                if job.objects.len() * scenarios.len() > 1 {
                    let words = scenario.map_or_else(String::new, |n| format!(", scenario {n}"));
                    self.session.note(format!("object {}{words}", object.object));
                }
                let is_single = self.kind == Kind::ConnectionRate || scenario == Some(1);
                let each = if is_single { 1 } else { job.transactions };
                let plan = self.plan(object, each);
                let result = self.object(&Subject { object, index, scenario, plan })?;
                self.results.push(result);
            }
        }
        Ok(())
    }

    fn plan(&self, object: &ObjectPlan, transactions: u32) -> LoadPlan {
        let mut plan = self.job.load.plan.clone();
        if plan.targets.len() != object.targets.len() {
            plan.target_destination = vec![0; object.targets.len()];
        }
        plan.targets = object.targets.clone();
        plan.session = Some(Sessions { transactions });
        plan
    }

    /// Returns `plan` against the null responder, for objects of `bytes`.
    fn reference_plan(&self, plan: &LoadPlan, bytes: u64) -> LoadPlan {
        let mut plan = self.responder.in_place_of(plan);
        plan.tls.identity = None;
        plan.destinations.truncate(1);
        plan.target_destination = vec![0];
        plan.targets.truncate(1);
        for target in &mut plan.targets {
            (target.method, target.url.path) = ("GET".to_owned(), "/".to_owned());
            target.headers = vec![("size".to_owned(), bytes.to_string())];
            target.body = Body::default();
        }
        // The addresses that clients have without naming them, where the responder is.
        let first = match self.responder.is_loopback {
            true => u32::from(Ipv4Addr::LOCALHOST),
            false => u32::from(ClientHost::first_source()),
        };
        let addresses = (first..first + LOOP_SOURCES).map(Ipv4Addr::from);
        plan.sources = addresses.map(IpAddr::V4).collect();
        plan
    }

    fn reach(&self, plan: LoadPlan) -> Result<Reached> {
        closed_loop(self.session, plan, self.job.flags.sustain)
    }

    // ---- capacity

    fn target(&mut self, subject: &Subject<'_>) -> Result<Target> {
        let Rfc9411Job { flags, .. } = self.job;
        let mut plan = subject.plan.clone();
        if self.kind == Kind::Concurrency {
            // The ramp is one of connections.
            plan.session = Some(Sessions { transactions: 1 });
        }
        let bytes = subject.object.object.mean_bytes().map_or(1, |bytes| bytes as u64);
        let alone = self.reach(self.reference_plan(&plan, bytes))?;
        self.note_reference(subject, &alone);
        let generator = Rate::per_second(alone.transactions_per_s);
        let generator =
            generator.filter(|rate| self.kind != Kind::Concurrency && *rate > Rate::ZERO);
        let of_ports = self.job.ports_allow * f64::from(transactions(&plan)) * PORTS_SHARE;
        let given = "--target".to_owned();
        let mut ramp_per_s = None;
        let (load, source) = match (self.kind, flags.target) {
            (Kind::Concurrency, Some(TargetLoad::Units(count))) => {
                let (most, source) =
                    self.most(plan, "--measured-cps", &flags.measured_cps, subject.index)?;
                ramp_per_s = Some(most * HALF);
                // A SUT that accepts no connections can hold none.
                if most < TARGET_MIN { (0.0, source) } else { (count.get(), given) }
            }
            (Kind::Latency, _) => {
                let (flag, rates) = match subject.scenario {
                    Some(1) => ("--measured-cps", &flags.measured_cps),
                    _ => ("--measured-tps", &flags.measured_tps),
                };
                let (most, source) = self.most(plan, flag, rates, subject.index)?;
                let source = format!("half of {}/s ({source})", grouped(most as u64));
                ((most * HALF).min(of_ports), source)
            }
            (_, Some(TargetLoad::Units(rate))) => (rate.get(), given),
            (_, Some(TargetLoad::BitsPerSecond(bits))) => {
                let sut = self.reach(plan)?;
                let each = sut.bit_s / sut.transactions_per_s.max(1e-9);
                let load = if sut.bit_s > 0.0 { bits / each } else { 0.0 };
                let source = format!("{given}, at {} bits a transaction", grouped(each as u64));
                (load.min(of_ports), source)
            }
            (_, None) => {
                let (most, source) = self.most(plan, "", &[], 0)?;
                (most.min(of_ports), source)
            }
        };
        Ok(Target { load, source, generator, ramp_per_s })
    }

    /// Returns the capacity of the SUT for these sessions, and where the figure is from: the flag that states it for
    /// the object `index`, or a closed loop.
    fn most(
        &self,
        plan: LoadPlan,
        flag: &str,
        stated: &[Rate],
        index: usize,
    ) -> Result<(f64, String)> {
        if let Some(rate) = stated.get(index) {
            return Ok((rate.get(), flag.to_owned()));
        }
        let Reached { transactions_per_s: per_s, tally, .. } = self.reach(plan)?;
        self.session.note(format!("the SUT in a closed loop: {}/s", grouped(per_s as u64)));
        let source = match tally.ok {
            0 => format!("a closed loop, in which nothing was answered: {}", failed(&tally)),
            _ => "a closed loop".to_owned(),
        };
        Ok((per_s, source))
    }

    fn note_reference(&mut self, subject: &Subject<'_>, alone: &Reached) {
        self.session.note(format!(
            "reference, generator against a null responder: {} transactions/s and {} connections/s ({})",
            grouped(alone.transactions_per_s as u64),
            grouped(alone.connections_per_s as u64),
            subject.object.object
        ));
        // The profile with the smallest object is the one that the RFC asks for.
        if self.reference.is_none() && alone.transactions_per_s > 0.0 {
            let is_rate = transactions(&subject.plan) == 1 || self.kind == Kind::Concurrency;
            self.reference = Some(Reference {
                connections_per_s: is_rate.then_some(alone.connections_per_s),
                transactions_per_s: Some(alone.transactions_per_s),
                inspected_throughput_bit_s: Some(alone.bit_s),
                responder: RESPONDER.to_owned(),
            });
        }
    }

    // ---- steps 1 to 3

    fn object(&mut self, subject: &Subject<'_>) -> Result<ObjectResult> {
        let target = self.target(subject)?;
        let unit = self.job.flags.case.axis().name();
        let mut iterations = Vec::new();
        let least = if self.kind == Kind::Concurrency { 1.0 } else { TARGET_MIN };
        let Conclusion { ending, load, failed_load, shown } = if target.load < least {
            let Target { load, source, .. } = &target;
            let why = format!("a target of {load:.1} {unit} shows nothing ({source})");
            let ending = Ending::Unqualified { why };
            Conclusion { ending, load: None, failed_load: None, shown: None }
        } else {
            let (kind, sustain) = (self.kind, self.job.flags.sustain);
            proceed(Settings { kind, target: target.load, sustain }, |asked| {
                self.iterate(subject, &target, &asked, &mut iterations)
            })?
        };
        let isolation = match &shown {
            Some(shown) if load.is_some() => self.isolation(subject, &target, shown)?,
            _ => None,
        };
        let shown = shown.as_deref().cloned();
        let kpis = shown.as_ref().map(|shown| shown.observed.kpis);
        let (criteria, checks, series) = shown.map_or_else(Default::default, |shown| {
            (shown.criteria, shown.checks, shown.observed.series)
        });
        Ok(ObjectResult {
            object: subject.object.object.to_string(),
            object_bytes: match subject.object.object.bytes()[..] {
                [bytes] => Some(bytes),
                _ => None,
            },
            scenario: subject.scenario,
            transactions_per_connection: transactions(&subject.plan),
            unit: unit.to_owned(),
            initial: initial_load(self.kind, target.load),
            target: target.load,
            target_source: target.source,
            verdict: ending.verdict(),
            ending,
            load,
            failed_load,
            kpis,
            criteria,
            checks,
            isolation,
            series,
            iterations,
        })
    }

    /// Runs an iteration and judges it, or says why the case must stop.
    fn iterate(
        &mut self,
        subject: &Subject<'_>,
        target: &Target,
        asked: &Iterate,
        iterations: &mut Vec<Iteration>,
    ) -> Result<Result<JudgedIteration, Stopped>> {
        let session = self.session;
        session.rest(init(asked.sustain) + asked.rest);
        if let Some(end) = session.server_end() {
            return Ok(Err(end.into()));
        }
        if session.is_interrupted() {
            return Ok(Err(Stopped::Interrupted));
        }
        let request = TrialRequest {
            number: self.trials.len() as u32 + 1,
            phase: match asked.step {
                Step::Initial => Phase::Qualify,
                Step::Search => Phase::Narrow,
                Step::Target | Step::Final => Phase::Confirm,
            },
            rate: Rate::per_second(asked.load).unwrap_or_default(),
            duration: asked.sustain,
            split: 1,
        };
        let of = (session, self.job, asked.step);
        let mut ran = run(of, subject.plan.clone(), target.ramp_per_s, request)?;
        ran.measurement.observations.reference = target.generator;
        let judged = judge(&ran);
        let (measurement, judgement) = (ran.measurement, judged.judgement.clone());
        let record = TrialRecord { measurement, judgement, further: Vec::new() };
        session.emit(&Event::TrialEnded(Box::new(record.clone())));
        let checked = check_object(subject, asked.step, &record);
        let sut_busiest_thread = record.measurement.sut_busiest_thread;
        self.trials.push(record);
        if session.is_interrupted() {
            return Ok(Err(Stopped::Interrupted));
        }
        checked?;
        let judgement = &judged.judgement;
        let failed: Vec<_> = judgement.deciding().map(|check| check.id.clone()).collect();
        iterations.push(Iteration {
            number: iterations.len() as u32 + 1,
            step: asked.step,
            load: asked.load,
            ramp_up_s: ran.ramp_up.as_secs_f64(),
            sustain_s: asked.sustain.as_secs_f64(),
            sut_busiest_thread,
            verdict: judgement.verdict,
            why: (!failed.is_empty()).then(|| judgement.why()),
            failed,
        });
        Ok(Ok(judged))
    }

    /// Reports whether another KPI was at its own maximum in the cases that count connections.
    fn isolation(
        &mut self,
        subject: &Subject<'_>,
        target: &Target,
        shown: &JudgedIteration,
    ) -> Result<Option<Isolation>> {
        if let Some(per_s) = target.ramp_per_s {
            return Ok(Some(isolation(OtherKpi::Connections, per_s, per_s / HALF)));
        }
        if self.kind != Kind::ConnectionRate || self.session.is_interrupted() {
            return Ok(None);
        }
        let Some(largest) = &self.job.largest else {
            let note = "isolation was not checked: without {size} in URL or header the \
                        throughput's maximum cannot be measured";
            self.notes.extend((subject.index == 0).then(|| note.to_owned()));
            return Ok(None);
        };
        let most = match self.most_bit_s {
            Some(most) => most,
            None => self.reach(self.plan(largest, self.job.transactions))?.bit_s,
        };
        self.most_bit_s = Some(most);
        let seen = shown.observed.kpis.inspected_throughput_bit_s;
        Ok(Some(isolation(OtherKpi::Throughput, seen, most.max(seen))))
    }
}

/// The case is about objects of a size: answers that are smaller measure something else. Failed transactions have no
/// object, and step 1 fails by them.
fn check_object(subject: &Subject<'_>, step: Step, record: &TrialRecord) -> Result<()> {
    let tally = &record.measurement.tally;
    let each = tally.bytes.received as f64 / tally.ok.max(1) as f64;
    let is_answered = step == Step::Initial && tally.ok > 0 && tally.ok >= tally.scheduled;
    match subject.object.object {
        object if is_answered && object.mean_bytes().is_some_and(|bytes| each < bytes) => {
            Err(Stop::CannotRun(format!(
                "the case asks for objects of {object} and the answers have {} bytes, head included; write {{size}} \
                 where the server takes the size from, as in http://host/{{size}} or, for plimsoll serve, -H 'size: \
                 {{size}}', or name the size that the URL has with --object-size",
                grouped(each as u64)
            )))
        }
        _ => Ok(()),
    }
}
