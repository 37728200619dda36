//! Steps 1 to 3 of a case of RFC 9411, for one object: the load of each iteration, and the conclusion.
//!
//! [`proceed`] tries 10 % of the target (step 1), then the target (step 2). If the target fails, step 3 (of all cases
//! but latency) searches a lower load in short iterations: a rate by [`RateSearch`], a number of connections by
//! bisection. The result is then tried at full length, at most four times, each time about 5 % lower. Two INVALID
//! iterations in a row end a step: the generator is the limit. A target that was not judged has not failed, and is tried
//! once more if step 3 finds no load that fails. Loads are in the case's unit. Start reading at `Procedure::steps`.

use std::rc::Rc;

use plimsoll_model::rfc9411::{Ending, Kind, Step};
use plimsoll_model::slo::Slo;
use plimsoll_model::trial::{Outcome, Stopped, TrialMeasurement, Verdict};
use plimsoll_model::{Nanos, Rate};

use super::criteria::JudgedIteration;
use crate::search::{Mode, RateSearch, SearchSettings, SearchStep};

/// Share of the target in step 1.
const INITIAL_SHARE: f64 = 0.1;
/// Relative distance between the maximum and a load that failed.
const WIDTH_MAX: f64 = 0.05;
/// Loads that are tried at full length, each a width below the last.
const FINAL_TRIES: u32 = 4;
/// INVALID iterations in a row that end a step.
const INVALID_MAX: u32 = 2;
/// Bounds of the search for a rate; iterations of step 3 are seconds each.
const RATE_SEARCH_MAX: u32 = 60;
const RATE_SEARCH_BUDGET: Nanos = Nanos::from_secs(3_600);
/// Longest sustain phase of step 1 and of a bisection over connections.
const SUSTAIN_INITIAL_MAX: Nanos = Nanos::from_secs(60);
/// Rest after an iteration that failed: what the SUT still has in its queues would fail the next one.
const REST_AFTER_BAD: Nanos = Nanos::from_secs(5);

/// The parameters of a procedure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The subject of the case, which decides how a maximum is searched.
    pub kind: Kind,
    /// The target, in the case's unit; above zero.
    pub target: f64,
    /// The sustain phase of step 2 and of the last iteration.
    pub sustain: Nanos,
}

/// One iteration to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Iterate {
    /// The step that asks for it.
    pub step: Step,
    /// In the case's unit.
    pub load: f64,
    /// Length of the sustain phase, in whole seconds.
    pub sustain: Nanos,
    /// Rest before it.
    pub rest: Nanos,
}

/// The result of the procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// End of the procedure.
    pub ending: Ending,
    /// The load that the case reports. The iteration at it was GOOD at full length, unless the generator was the limit.
    pub load: Option<f64>,
    /// The lowest load above it that failed.
    pub failed_load: Option<f64>,
    /// The iteration at the reported load; without a load, the last one.
    pub shown: Option<Rc<JudgedIteration>>,
}

/// The end of a procedure before its last step.
enum Cut<E> {
    Ended(Ending, Option<f64>),
    Failed(E),
}

struct Procedure<F> {
    settings: Settings,
    iterate: F,
    /// The lowest load that failed.
    failed: Option<f64>,
    /// The rest before the next iteration.
    rest: Nanos,
    /// The GOOD iteration that the case would report, with its load.
    good: Option<(f64, Rc<JudgedIteration>)>,
    last: Option<Rc<JudgedIteration>>,
}

/// Returns the load of step 1.
pub fn initial_load(kind: Kind, target: f64) -> f64 {
    let tenth = target * INITIAL_SHARE;
    if kind == Kind::Concurrency { tenth.round().max(1.0) } else { tenth }
}

/// Runs the three steps for one object. `iterate` runs an iteration, or says why it must stop.
///
/// # Errors
///
/// Returns the error of `iterate`.
pub fn proceed<E>(
    settings: Settings,
    iterate: impl FnMut(Iterate) -> Result<Result<JudgedIteration, Stopped>, E>,
) -> Result<Conclusion, E> {
    let (failed, rest, good, last) = (None, Nanos::ZERO, None, None);
    let mut procedure = Procedure { settings, iterate, failed, rest, good, last };
    let (ending, load) = match procedure.steps() {
        Ok(end) => end,
        Err(Cut::Ended(ending, load)) => (ending, load),
        Err(Cut::Failed(error)) => return Err(error),
    };
    let Procedure { failed, good, last, .. } = procedure;
    let good = good.filter(|_| load.is_some()).map(|(_, judged)| judged);
    Ok(Conclusion {
        ending,
        load,
        failed_load: failed.filter(|failed| load.is_none_or(|load| *failed > load)),
        shown: good.or(last),
    })
}

impl<E, F: FnMut(Iterate) -> Result<Result<JudgedIteration, Stopped>, E>> Procedure<F> {
    fn steps(&mut self) -> Result<(Ending, Option<f64>), Cut<E>> {
        let Settings { kind, target, sustain } = self.settings;
        let initial = initial_load(kind, target);
        let short = sustain.min(SUSTAIN_INITIAL_MAX);
        if let Some(why) = self.step(Step::Initial, initial, short, None)? {
            return Ok((Ending::Unqualified { why }, None));
        }
        let is_rate = !matches!(kind, Kind::Latency | Kind::Concurrency);
        let limited = match self.step(Step::Target, target, sustain, None) {
            Ok(None) => return Ok((Ending::TargetMet, Some(target))),
            Ok(Some(why)) if kind == Kind::Latency => {
                return Ok((Ending::TargetMissed { why }, None));
            }
            Ok(Some(_)) => None,
            // Below the target there may be a load that the generator can make.
            Err(Cut::Ended(limited @ Ending::GeneratorLimited { .. }, _)) if is_rate => {
                Some(limited)
            }
            Err(cut) => return Err(cut),
        };
        let mut load = match is_rate {
            true => self.search_rate(initial, target)?,
            false => self.bisect(initial, target, short)?,
        };
        let mut last = String::new();
        for _ in 0..FINAL_TRIES {
            let Some(why) = self.step(Step::Final, load, sustain, None)? else {
                // Above a maximum a load has failed.
                let ending = match limited {
                    _ if load >= target => Ending::TargetMet,
                    Some(limited) if self.failed.is_none() => limited,
                    _ => Ending::Maximum,
                };
                return Ok((ending, Some(load)));
            };
            last = why;
            load /= 1.0 + WIDTH_MAX;
            load = if is_rate { load } else { load.floor().max(1.0) };
            if load <= initial {
                break;
            }
        }
        let why = format!("at full length the criteria failed at every load tried: {last}");
        Ok((Ending::NoMaximum { why }, None))
    }

    /// Runs an iteration until it is valid; returns the criteria that failed. `reached` is the load to report if the
    /// generator is the limit.
    fn step(
        &mut self,
        step: Step,
        load: f64,
        sustain: Nanos,
        reached: Option<f64>,
    ) -> Result<Option<String>, Cut<E>> {
        let mut why = String::new();
        for _ in 0..INVALID_MAX {
            let judged = self.iterate(step, load, sustain)?;
            let judgement = &judged.judgement;
            why = judgement.why();
            let is_bad = judgement.verdict == Verdict::Bad;
            self.rest = if is_bad { REST_AFTER_BAD } else { Nanos::ZERO };
            if is_bad {
                self.failed = Some(self.failed.map_or(load, |failed| failed.min(load)));
            }
            if judgement.verdict != Verdict::Invalid {
                return Ok(is_bad.then_some(why));
            }
        }
        Err(Cut::Ended(Ending::GeneratorLimited { why }, reached))
    }

    fn iterate(
        &mut self,
        step: Step,
        load: f64,
        sustain: Nanos,
    ) -> Result<Rc<JudgedIteration>, Cut<E>> {
        let ran = (self.iterate)(Iterate { step, load, sustain, rest: self.rest });
        let judged = match ran.map_err(Cut::Failed)? {
            Ok(judged) => Rc::new(judged),
            Err(why) => return Err(Cut::Ended(Ending::Unfinished { why }, None)),
        };
        let is_best = self.good.as_ref().is_none_or(|(best, _)| load >= *best);
        if judged.judgement.verdict == Verdict::Good && (is_best || step == Step::Final) {
            self.good = Some((load, Rc::clone(&judged)));
        }
        self.last = Some(Rc::clone(&judged));
        Ok(judged)
    }

    /// Searches a number of connections; returns the highest that was GOOD in a short iteration.
    fn bisect(&mut self, mut good: f64, mut bad: f64, sustain: Nanos) -> Result<f64, Cut<E>> {
        loop {
            let middle = (good * bad).sqrt().round();
            if bad <= good * (1.0 + WIDTH_MAX) || middle <= good || middle >= bad {
                return Ok(good);
            }
            match self.step(Step::Search, middle, sustain, Some(good))? {
                None => good = middle,
                Some(_) => bad = middle,
            }
        }
    }

    /// Searches a rate in short iterations; returns the load of the final one.
    fn search_rate(&mut self, lowest: f64, target: f64) -> Result<f64, Cut<E>> {
        let mut search = rate_search(lowest, target);
        let found = loop {
            match search.next_step() {
                SearchStep::Done(found) => break found,
                // The final iteration takes the place of the search's own confirmations.
                SearchStep::Trial(request) if request.phase.is_after_search() => {
                    let found = search.answer();
                    self.failed = found.upper.map(Rate::get).or(self.failed);
                    return Ok(request.rate.get());
                }
                SearchStep::Trial(request) => {
                    // Samples are a second each.
                    let seconds = request.duration.as_secs_f64().max(1.0) as u64;
                    let window = Nanos::from_secs(seconds).min(self.settings.sustain);
                    let judged = self.iterate(Step::Search, request.rate.get(), window)?;
                    let tally = judged.observed.sustain.clone();
                    let measured = TrialMeasurement::of(request, window, tally);
                    search.handle_judged(measured, judged.judgement.clone());
                    self.rest = search.rest();
                }
            }
        };
        self.failed = found.upper.map(Rate::get).or(self.failed);
        match (found.outcome, found.lower.map(Rate::get)) {
            (Outcome::GeneratorLimited { why } | Outcome::Unconfirmed { why }, lower) => {
                Err(Cut::Ended(Ending::GeneratorLimited { why }, lower))
            }
            // It failed at full length and did not in the short iterations.
            (Outcome::NotReached { .. }, Some(lower)) if self.failed.is_some() => {
                Ok(lower / (1.0 + WIDTH_MAX))
            }
            (
                Outcome::NotReached { .. } | Outcome::Regular | Outcome::Unfinished { .. },
                Some(lower),
            ) => Ok(lower),
            (Outcome::Unfinished { why }, None) => {
                Err(Cut::Ended(Ending::Unfinished { why }, None))
            }
            _ => {
                let why = "no load of step 3 kept the criteria".to_owned();
                Err(Cut::Ended(Ending::NoMaximum { why }, None))
            }
        }
    }
}

fn rate_search(lowest: f64, target: f64) -> RateSearch {
    let lowest = Rate::per_second(lowest).unwrap_or_default();
    let settings = SearchSettings {
        lowest,
        floor: lowest,
        cap: Rate::per_second(target),
        cap_reason: "the target".to_owned(),
        budget: RATE_SEARCH_BUDGET,
        trials_max: RATE_SEARCH_MAX,
        ..SearchSettings::new(Mode::Quick)
    };
    RateSearch::new(settings, Slo { goals: Vec::new() })
}
