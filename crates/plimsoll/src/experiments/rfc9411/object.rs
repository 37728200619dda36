//! One object of a case: the capacity of generator and SUT, then steps 1 to 3, then whether
//! another KPI was at its limit.

use plimsoll_capacity::rfc9411::{
    Conclusion, IterationRecord, Judged, Next, Planned, Procedure, Search, Settings, isolation,
    judge,
};
use plimsoll_model::event::Event;
use plimsoll_model::rfc9411::{
    Ending, Isolation, Iteration, Kind, Object, ObjectResult, Reference, Step,
};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Phase, TrialMeasurement, TrialRecord, TrialRequest, Verdict};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use super::Responder;
use super::iteration::{Iterated, Reached, Traffic, closed_loop, held, init, sessions};
use crate::exit::Stop;
use crate::flags::rfc9411::TargetLoad;
use crate::plan::rfc9411::{ObjectPlan, Rfc9411Job, TARGET_MIN};
use crate::session::{Observed, Session};

/// Longest sustain phase of step 1 and of a bisection over connections.
const SUSTAIN_INITIAL_MAX: Nanos = Nanos::from_secs(60);
/// The load of the latency cases, and the ramp of the concurrency cases, as a fraction of the
/// capacity that other cases measured.
const HALF: f64 = 0.5;
/// The assumed rate of a closed loop that has no target, as a fraction of what the ports allow.
const PORTS_SHARE: f64 = 0.9;
/// What answers in the reference test.
const RESPONDER: &str = "plimsoll serve in place of the SUT, nothing between";

/// A case being measured.
pub(super) struct Scene<'a, 's> {
    pub(super) session: &'a Session<'s>,
    pub(super) job: &'a Rfc9411Job,
    pub(super) responder: Responder,
    pub(super) trials: Vec<TrialRecord>,
    pub(super) notes: Vec<String>,
    /// The throughput's maximum, once it was measured.
    pub(super) most_bit_s: Option<f64>,
}

/// The result of a case.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) results: Vec<ObjectResult>,
    pub(super) reference: Option<Reference>,
    /// All iterations.
    pub(super) tally: Tally,
    pub(super) window: Nanos,
}

/// One thing to measure.
struct Subject<'a> {
    object: &'a ObjectPlan,
    /// Its place among the objects.
    index: usize,
    traffic: Traffic,
    scenario: Option<u32>,
}

/// The load of step 2, and where it comes from.
struct Target {
    load: f64,
    source: String,
    /// What the generator alone reaches, in the same unit.
    generator: Option<f64>,
    /// New connections per second of a concurrency case.
    ramp_per_s: f64,
}

/// What the loads of a procedure showed.
#[derive(Default)]
struct Trail {
    iterations: Vec<Iteration>,
    /// The last GOOD one, or that at the highest load.
    good: Option<(f64, Judged)>,
    last: Option<Judged>,
}

impl Scene<'_, '_> {
    /// Measures every object and scenario, unless it is interrupted.
    pub(super) fn measure_case(&mut self) -> Result<Measured, Stop> {
        let mut measured = Measured::default();
        let job = self.job;
        let scenarios: &[Option<u32>] = match job.case.kind() {
            Kind::Latency => &[Some(1), Some(2)],
            _ => &[None],
        };
        for (index, object) in job.objects.iter().enumerate() {
            for scenario in scenarios {
                if self.stopped() {
                    break;
                }
                let subject = self.subject(index, object, *scenario);
                if job.objects.len() * scenarios.len() > 1 {
                    let words = scenario.map_or_else(String::new, |n| format!(", scenario {n}"));
                    self.note(format!("object {}{words}", object.object));
                }
                let target = self.target(&subject, &mut measured)?;
                let result = self.measure(&subject, &target)?;
                measured.results.push(result);
            }
        }
        for trial in &self.trials {
            measured.tally.merge_following(&trial.measurement.tally);
            measured.window = measured.window + trial.measurement.window;
        }
        // Those sums are of whole iterations, and each would count as one second.
        let per_s = self.trials.iter().map(|trial| trial.measurement.tally.handshakes_per_s_max);
        measured.tally.handshakes_per_s_max = per_s.max().unwrap_or(0);
        Ok(measured)
    }

    fn stopped(&self) -> bool {
        self.session.is_interrupted()
    }

    /// A line for the reader.
    pub(super) fn note(&mut self, line: String) {
        self.session.note(line);
    }

    fn subject<'o>(
        &self,
        index: usize,
        object: &'o ObjectPlan,
        scenario: Option<u32>,
    ) -> Subject<'o> {
        let transactions = match (self.job.case.kind(), scenario) {
            (Kind::ConnectionRate, _) | (Kind::Latency, Some(1)) => 1,
            _ => self.job.transactions,
        };
        Subject { object, index, traffic: self.traffic(object, transactions), scenario }
    }

    fn traffic(&self, object: &ObjectPlan, transactions: u32) -> Traffic {
        let mut plan = self.job.load.plan.clone();
        if plan.targets.len() != object.targets.len() {
            plan.target_destination = vec![0; object.targets.len()];
        }
        plan.targets = object.targets.clone();
        Traffic { plan, transactions, arrivals: self.job.arrivals }
    }

    // ---- capacity

    fn target(&mut self, subject: &Subject<'_>, measured: &mut Measured) -> Result<Target, Stop> {
        let kind = self.job.case.kind();
        // The ramp of a concurrency case is one of connections.
        let traffic = match kind {
            Kind::Concurrency => subject.traffic.with_transactions(1),
            _ => subject.traffic.clone(),
        };
        let bytes = subject.object.object.mean_bytes().map_or(1, |bytes| bytes as u64);
        let null = traffic.against(self.responder.address, self.responder.roots.as_deref(), bytes);
        let alone = self.reach(&null)?;
        self.tell_reference(subject, alone, measured);
        let generator = Some(alone.transactions_per_s).filter(|rate| *rate > 0.0);
        let given = |rates: &[Rate]| rates.get(subject.index).map(|rate| rate.get());
        let of_ports = self.job.ports_allow * f64::from(traffic.transactions) * PORTS_SHARE;
        let (load, source, ramp_per_s) = match (kind, self.job.target) {
            (Kind::Concurrency, Some(TargetLoad::Units(count))) => {
                let known = given(&self.job.measured_cps);
                let (most, source) = self.most(&traffic, known, "--measured-cps")?;
                // A SUT that accepts no connections can hold none.
                let count = if most < TARGET_MIN { 0.0 } else { count.get() };
                let source = if count > 0.0 { "--target".to_owned() } else { source };
                (count, source, most * HALF)
            }
            (Kind::Latency, _) => {
                let (flag, rates) = match subject.scenario {
                    Some(1) => ("--measured-cps", &self.job.measured_cps),
                    _ => ("--measured-tps", &self.job.measured_tps),
                };
                let (most, source) = self.most(&traffic, given(rates), flag)?;
                let half = (most * HALF).min(of_ports);
                (half, format!("half of {}/s ({source})", grouped(most as u64)), 0.0)
            }
            (_, Some(TargetLoad::Units(rate))) => (rate.get(), "--target".to_owned(), 0.0),
            (_, Some(TargetLoad::BitsPerSecond(bits))) => {
                let sut = self.reach(&traffic)?;
                let each = sut.bit_s / sut.transactions_per_s.max(1e-9);
                let load = if sut.bit_s > 0.0 { bits / each } else { 0.0 };
                let words = format!("--target, at {} bits a transaction", grouped(each as u64));
                (load.min(of_ports), words, 0.0)
            }
            (_, None) => {
                let (most, source) = self.most(&traffic, None, "")?;
                (most.min(of_ports), source, 0.0)
            }
        };
        let generator = generator.filter(|_| kind != Kind::Concurrency);
        Ok(Target { load, source, generator, ramp_per_s })
    }

    fn reach(&mut self, traffic: &Traffic) -> Result<Reached, Stop> {
        Ok(closed_loop(self.session, traffic, self.job.sustain)?.0)
    }

    /// The capacity of the SUT for this traffic, and where the figure is from.
    fn most(
        &mut self,
        traffic: &Traffic,
        given: Option<f64>,
        flag: &str,
    ) -> Result<(f64, String), Stop> {
        if let Some(given) = given {
            return Ok((given, flag.to_owned()));
        }
        let (reached, tally) = closed_loop(self.session, traffic, self.job.sustain)?;
        let per_s = reached.transactions_per_s;
        self.note(format!("the SUT in a closed loop: {}/s", grouped(per_s as u64)));
        let failed: Vec<_> =
            tally.errors.iter().map(|(class, ops)| format!("{ops} {}", class.name())).collect();
        let source = match tally.ok {
            0 => format!("a closed loop, in which nothing was answered: {}", failed.join(", ")),
            _ => "a closed loop".to_owned(),
        };
        Ok((per_s, source))
    }

    fn tell_reference(&mut self, subject: &Subject<'_>, alone: Reached, measured: &mut Measured) {
        let each = subject.traffic.transactions;
        self.note(format!(
            "reference, generator against a null responder: {} transactions/s and {} connections/s \
             ({})",
            grouped(alone.transactions_per_s as u64),
            grouped(alone.connections_per_s as u64),
            subject.object.object
        ));
        // The profile with the smallest object is the one that the RFC asks for.
        if measured.reference.is_none() && alone.transactions_per_s > 0.0 {
            let is_rate = each == 1 || self.job.case.kind() == Kind::Concurrency;
            measured.reference = Some(Reference {
                connections_per_s: is_rate.then_some(alone.connections_per_s),
                transactions_per_s: Some(alone.transactions_per_s),
                inspected_throughput_bit_s: Some(alone.bit_s),
                responder: RESPONDER.to_owned(),
            });
        }
    }

    // ---- steps 1 to 3

    fn measure(&mut self, subject: &Subject<'_>, target: &Target) -> Result<ObjectResult, Stop> {
        let search = match self.job.case.kind() {
            Kind::Latency => Search::No,
            Kind::Concurrency => Search::Count,
            Kind::Mix | Kind::ConnectionRate | Kind::Throughput => Search::Rate,
        };
        let sustain = self.job.sustain;
        let mut trail = Trail::default();
        let mut procedure = Procedure::new(Settings {
            target: target.load,
            sustain,
            sustain_initial: sustain.min(SUSTAIN_INITIAL_MAX),
            search,
        });
        let initial = procedure.initial();
        let least = if search == Search::Count { 1.0 } else { TARGET_MIN };
        let conclusion = if target.load < least {
            let why = format!(
                "a target of {:.1} {} shows nothing ({})",
                target.load,
                self.job.case.unit(),
                target.source
            );
            Conclusion { ending: Ending::Unqualified { why }, load: None, failed_load: None }
        } else {
            self.proceed(subject, target, &mut procedure, &mut trail)?
        };
        let isolation = self.isolation(subject, target, &conclusion, &trail)?;
        Ok(self.result(subject, target, initial, conclusion, trail, isolation))
    }

    fn proceed(
        &mut self,
        subject: &Subject<'_>,
        target: &Target,
        procedure: &mut Procedure,
        trail: &mut Trail,
    ) -> Result<Conclusion, Stop> {
        loop {
            let planned = match procedure.next_step() {
                Next::Done(conclusion) => return Ok(conclusion),
                Next::Run(planned) => planned,
            };
            let wait = init(planned.sustain) + procedure.rest();
            self.session.rest(wait);
            if let Some(end) = self.session.server_end() {
                return Ok(procedure.handle_stop(end.reason().to_owned()));
            }
            if self.stopped() {
                return Ok(procedure.handle_stop("interrupted".to_owned()));
            }
            let (iterated, judged) = self.iterate(subject, target, &planned)?;
            if iterated.observed.outcome.interrupted {
                return Ok(procedure.handle_stop("interrupted".to_owned()));
            }
            check_object(subject, planned.step, &iterated.observed.outcome.tally)?;
            let window = Nanos::from_secs(u64::from(iterated.sustain_seconds));
            procedure.handle(&judged.judgement, &judged.observed.sustain, window);
            trail.add(&planned, &iterated, judged);
        }
    }

    fn iterate(
        &mut self,
        subject: &Subject<'_>,
        target: &Target,
        planned: &Planned,
    ) -> Result<(Iterated, Judged), Stop> {
        let request = TrialRequest {
            number: self.trials.len() as u32 + 1,
            phase: match planned.step {
                Step::Initial => Phase::Qualify,
                Step::Search => Phase::Narrow,
                Step::Target | Step::Final => Phase::Confirm,
            },
            rate: Rate::per_second(planned.load).unwrap_or_default(),
            duration: planned.sustain,
            split: 1,
        };
        let mut iterated = match self.job.case.kind() {
            Kind::Concurrency => held(self.session, &subject.traffic, request, target.ramp_per_s)?,
            _ => sessions(self.session, &subject.traffic, request)?,
        };
        iterated.observed.observations.reference = target.generator.and_then(Rate::per_second);
        let Observed { outcome, sut_busiest_thread, observations, seconds, .. } =
            &iterated.observed;
        let judged = judge(&IterationRecord {
            case: self.job.case,
            step: planned.step,
            load: planned.load,
            intervals: &iterated.intervals,
            sustain_from: iterated.sustain_from,
            sustain_seconds: iterated.sustain_seconds,
            whole: &outcome.tally,
            window: outcome.window,
            aborted: outcome.aborted,
            planned_ops: iterated.planned_ops,
            transactions: match self.job.case.kind() {
                Kind::Concurrency => 1,
                _ => subject.traffic.transactions,
            },
            observations,
        });
        let record = TrialRecord {
            further: Vec::new(),
            measurement: TrialMeasurement {
                seconds: seconds.clone(),
                request,
                window: outcome.window,
                aborted: outcome.aborted,
                tally: outcome.tally.clone(),
                sut_busiest_thread: *sut_busiest_thread,
                split: 1,
                observations: *observations,
            },
            judgement: judged.judgement.clone(),
        };
        self.session.emit(&Event::TrialEnded(Box::new(record.clone())));
        self.trials.push(record);
        Ok((iterated, judged))
    }

    // ---- afterwards

    /// Of the cases that count connections: whether another KPI was at its own maximum.
    fn isolation(
        &mut self,
        subject: &Subject<'_>,
        target: &Target,
        conclusion: &Conclusion,
        trail: &Trail,
    ) -> Result<Option<Isolation>, Stop> {
        let Some((_, judged)) = trail.good.as_ref().filter(|_| conclusion.load.is_some()) else {
            return Ok(None);
        };
        match (self.job.case.kind(), &self.job.largest) {
            (Kind::ConnectionRate, Some(largest)) if !self.stopped() => {
                let seen = judged.observed.kpis.inspected_throughput_bit_s;
                let most = match self.most_bit_s {
                    Some(most) => most,
                    None => {
                        let traffic = self.traffic(largest, self.job.transactions);
                        let most = self.reach(&traffic)?.bit_s;
                        self.most_bit_s = Some(most);
                        most
                    }
                };
                let most = most.max(seen);
                Ok(Some(isolation("Inspected Throughput", seen, most)))
            }
            (Kind::ConnectionRate, None) if subject.index == 0 => {
                let note = "isolation was not checked: without {size} in URL or header the \
                            throughput's maximum cannot be measured";
                self.notes.push(note.to_owned());
                Ok(None)
            }
            (Kind::Concurrency, _) => {
                let most = target.ramp_per_s / HALF;
                Ok(Some(isolation("TCP Connections Per Second", target.ramp_per_s, most)))
            }
            _ => Ok(None),
        }
    }

    fn result(
        &self,
        subject: &Subject<'_>,
        target: &Target,
        initial: f64,
        conclusion: Conclusion,
        trail: Trail,
        isolation: Option<Isolation>,
    ) -> ObjectResult {
        let Conclusion { ending, load, failed_load } = conclusion;
        let shown = match (load, trail.good) {
            (Some(_), Some((_, judged))) => Some(judged),
            _ => trail.last,
        };
        let verdict = match &ending {
            Ending::TargetMet | Ending::Maximum => Verdict::Good,
            Ending::Unqualified { .. } | Ending::TargetMissed { .. } | Ending::NoMaximum { .. } => {
                Verdict::Bad
            }
            Ending::GeneratorLimited { .. } | Ending::Unfinished { .. } => Verdict::Invalid,
        };
        let (kpis, criteria, checks, series) = match shown {
            Some(judged) => {
                let Judged { observed, criteria, checks, .. } = judged;
                (Some(observed.kpis), criteria, checks, observed.series)
            }
            None => (None, Vec::new(), Vec::new(), Vec::new()),
        };
        ObjectResult {
            object: subject.object.object.to_string(),
            object_bytes: match subject.object.object {
                Object::Bytes(bytes) => Some(bytes),
                Object::Mixed | Object::Listed => None,
            },
            scenario: subject.scenario,
            transactions_per_connection: subject.traffic.transactions,
            unit: self.job.case.unit().to_owned(),
            initial,
            target: target.load,
            target_source: target.source.clone(),
            ending,
            load,
            failed_load,
            verdict,
            kpis,
            criteria,
            checks,
            isolation,
            series,
            iterations: trail.iterations,
        }
    }
}

impl Trail {
    fn add(&mut self, planned: &Planned, iterated: &Iterated, judged: Judged) {
        let verdict = judged.judgement.verdict;
        let failed: Vec<_> = judged.judgement.deciding().map(|check| check.id.clone()).collect();
        self.iterations.push(Iteration {
            number: planned.number,
            step: planned.step,
            load: planned.load,
            ramp_up_s: iterated.ramp_up.as_secs_f64(),
            sustain_s: f64::from(iterated.sustain_seconds),
            sut_busiest_thread: iterated.observed.sut_busiest_thread,
            verdict,
            why: (!failed.is_empty()).then(|| judged.judgement.why()),
            failed,
        });
        let is_best = self.good.as_ref().is_none_or(|(load, _)| planned.load >= *load);
        if verdict == Verdict::Good && (is_best || planned.step == Step::Final) {
            self.good = Some((planned.load, judged.clone()));
        }
        self.last = Some(judged);
    }
}

/// The case is about objects of a size: answers that are smaller measure something else.
fn check_object(subject: &Subject<'_>, step: Step, tally: &Tally) -> Result<(), Stop> {
    let (Some(bytes), Step::Initial) = (subject.object.object.mean_bytes(), step) else {
        return Ok(());
    };
    let each = tally.bytes.received as f64 / tally.ok.max(1) as f64;
    // Failed transactions have no object, and step 1 fails by them.
    if tally.ok < tally.scheduled || tally.ok == 0 || each >= bytes {
        return Ok(());
    }
    Err(Stop::CannotRun(format!(
        "the case asks for objects of {} and the answers have {} bytes, head included; write \
         {{size}} where the server takes the size from, as in http://host/{{size}} or, for plimsoll \
         serve, -H 'size: {{size}}', or name the size that the URL has with --object-size",
        subject.object.object,
        grouped(each as u64)
    )))
}
