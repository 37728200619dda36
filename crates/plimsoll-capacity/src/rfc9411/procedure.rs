//! Steps 1 to 3 of a case, for one object: which load comes next, and how it ends.

use plimsoll_model::observation::Observations;
use plimsoll_model::rfc9411::{Ending, Step};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Judgement, Outcome, TrialMeasurement, TrialRequest, Verdict};
use plimsoll_model::{Nanos, Rate};

use crate::search::{Mode, RateSearch, SearchSettings, Step as SearchStep};

/// Of the target: step 1.
const INITIAL_SHARE: f64 = 0.1;
/// Of each other: the maximum and a load that failed.
const WIDTH_MAX: f64 = 0.05;
/// Loads that are tried at full length, each a width below the last.
const FINAL_TRIES: u32 = 4;
/// INVALID iterations in a row that end a step.
const INVALID_MAX: u32 = 2;
/// Iterations of the search for a number of connections.
const COUNT_SEARCH_MAX: u32 = 40;
/// Iterations of the search for a rate, and their time; those of step 3 are seconds each.
const RATE_SEARCH_MAX: u32 = 60;
const RATE_SEARCH_BUDGET: Nanos = Nanos::from_secs(3_600);

/// Rest after an iteration at full length that failed: what the SUT still has in its queues would
/// fail the next one.
const REST_AFTER_BAD: Nanos = Nanos::from_secs(5);

/// How a maximum is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// By the rate search, in short iterations.
    Rate,
    /// By bisection over whole connections.
    Count,
    /// Not at all: 7.4 and 7.8 have steps 1 and 2 only.
    No,
}

/// The parameters of a procedure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The target, in the case's unit; above zero.
    pub target: f64,
    /// The sustain phase of step 2 and of the last iteration.
    pub sustain: Nanos,
    /// That of step 1.
    pub sustain_initial: Nanos,
    /// How step 3 searches.
    pub search: Search,
}

/// One iteration to run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planned {
    /// 1 for the first.
    pub number: u32,
    /// Why.
    pub step: Step,
    /// In the case's unit.
    pub load: f64,
    /// Length of the sustain phase.
    pub sustain: Nanos,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Run this and hand in what was judged of it.
    Run(Planned),
    /// It is over.
    Done(Conclusion),
}

/// The result of the procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct Conclusion {
    /// How it ended.
    pub ending: Ending,
    /// The load that the case reports; the iteration at it was GOOD at full length, except where
    /// the generator was the limit.
    pub load: Option<f64>,
    /// The lowest load above it that failed.
    pub failed_load: Option<f64>,
}

#[derive(Clone, Debug)]
enum State {
    Initial,
    Target,
    Rates(Box<RateSearch>),
    Counts { good: f64, bad: f64, tries: u32 },
    Final { load: f64, tries: u32 },
    Done(Conclusion),
}

/// The three steps for one object.
#[derive(Clone, Debug)]
pub struct Procedure {
    settings: Settings,
    state: State,
    pending: Option<(Planned, Option<TrialRequest>)>,
    number: u32,
    invalid_in_a_row: u32,
    /// The lowest load that failed.
    failed: Option<f64>,
    /// Before the next iteration.
    rest: Nanos,
}

impl Procedure {
    /// Nothing has been run yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::Initial,
            pending: None,
            number: 0,
            invalid_in_a_row: 0,
            failed: None,
            rest: Nanos::ZERO,
        }
    }

    /// The load of step 1.
    pub fn initial(&self) -> f64 {
        let tenth = self.settings.target * INITIAL_SHARE;
        match self.settings.search {
            Search::Count => tenth.round().max(1.0),
            Search::Rate | Search::No => tenth,
        }
    }

    /// What to do next; the same answer until it is handled.
    pub fn next_step(&mut self) -> Next {
        if let Some((planned, _)) = self.pending {
            return Next::Run(planned);
        }
        // Each state either asks for an iteration or moves on; none comes back to an earlier one.
        loop {
            let Settings { target, sustain, sustain_initial, .. } = self.settings;
            match &mut self.state {
                State::Done(conclusion) => return Next::Done(conclusion.clone()),
                State::Initial => {
                    let load = self.initial();
                    return self.ask(Step::Initial, load, sustain_initial, None);
                }
                State::Target => return self.ask(Step::Target, target, sustain, None),
                State::Final { load, .. } => {
                    let load = *load;
                    return self.ask(Step::Final, load, sustain, None);
                }
                State::Counts { good, bad, tries } => {
                    let middle = (*good * *bad).sqrt().round();
                    let settled = *bad <= *good * (1.0 + WIDTH_MAX)
                        || middle <= *good
                        || middle >= *bad
                        || *tries >= COUNT_SEARCH_MAX;
                    if settled {
                        self.state = State::Final { load: *good, tries: 0 };
                    } else {
                        *tries += 1;
                        return self.ask(Step::Search, middle, sustain_initial, None);
                    }
                }
                State::Rates(search) => match search.next_step() {
                    SearchStep::Trial(request) if request.phase.is_after_search() => {
                        // It would confirm in its own way; here that is the last iteration.
                        let tipping = search.handle_stop("the last iteration".to_owned());
                        self.failed = tipping.upper.map(Rate::get).or(self.failed);
                        self.state = State::Final { load: request.rate.get(), tries: 0 };
                    }
                    SearchStep::Trial(request) => {
                        let load = request.rate.get();
                        let length = request.duration.min(sustain);
                        return self.ask(Step::Search, load, length, Some(request));
                    }
                    SearchStep::Done(tipping) => {
                        let lower = tipping.lower.map(Rate::get);
                        self.failed = tipping.upper.map(Rate::get).or(self.failed);
                        self.end_search(tipping.outcome, lower);
                    }
                },
            }
        }
    }

    fn ask(
        &mut self,
        step: Step,
        load: f64,
        sustain: Nanos,
        request: Option<TrialRequest>,
    ) -> Next {
        self.number += 1;
        let planned = Planned { number: self.number, step, load, sustain };
        self.pending = Some((planned, request));
        Next::Run(planned)
    }

    fn end_search(&mut self, outcome: Outcome, lower: Option<f64>) {
        match (outcome, lower) {
            (Outcome::GeneratorLimited { why } | Outcome::Unconfirmed { why }, lower) => {
                self.done(Ending::GeneratorLimited { why }, lower);
            }
            // It failed at full length and did not in the short iterations.
            (Outcome::NotReached { .. }, Some(lower)) => {
                self.state = State::Final { load: lower / (1.0 + WIDTH_MAX), tries: 0 };
            }
            (Outcome::Regular | Outcome::Unfinished { .. }, Some(lower)) => {
                self.state = State::Final { load: lower, tries: 0 };
            }
            (Outcome::Unfinished { why }, None) => self.done(Ending::Unfinished { why }, None),
            _ => {
                let why = "no load of step 3 kept the criteria".to_owned();
                self.done(Ending::NoMaximum { why }, None);
            }
        }
    }

    fn done(&mut self, ending: Ending, load: Option<f64>) {
        let failed_load = self.failed.filter(|failed| load.is_none_or(|load| *failed > load));
        self.pending = None;
        self.state = State::Done(Conclusion { ending, load, failed_load });
    }

    /// Takes what was judged of the iteration that was asked for. `sustain` and `window` are what
    /// its sustain phase counted, and how long that was.
    pub fn handle(&mut self, judgement: &Judgement, sustain: &Tally, window: Nanos) {
        let Some((planned, request)) = self.pending.take() else { return };
        let verdict = judgement.verdict;
        if let (State::Rates(search), Some(request)) = (&mut self.state, request) {
            search.handle_judged(measurement(request, sustain, window), judgement.clone());
            self.rest = search.rest();
            return;
        }
        self.rest = if verdict == Verdict::Bad { REST_AFTER_BAD } else { Nanos::ZERO };
        if verdict == Verdict::Invalid {
            self.invalid_in_a_row += 1;
            if self.invalid_in_a_row >= INVALID_MAX {
                self.end_invalid(judgement.why());
            }
            return;
        }
        self.invalid_in_a_row = 0;
        let good = verdict == Verdict::Good;
        if !good {
            let lowest = self.failed.map_or(planned.load, |failed| failed.min(planned.load));
            self.failed = Some(lowest);
        }
        let why = || judgement.why();
        let lower = self.lower(planned.load);
        match &mut self.state {
            State::Initial if good => self.state = State::Target,
            State::Initial => self.done(Ending::Unqualified { why: why() }, None),
            State::Target if good => self.done(Ending::TargetMet, Some(planned.load)),
            State::Target => self.search_below(why()),
            State::Counts { good: low, .. } if good => *low = planned.load,
            State::Counts { bad, .. } => *bad = planned.load,
            State::Final { .. } if good => self.done(Ending::Maximum, Some(planned.load)),
            State::Final { load, tries } => {
                *tries += 1;
                *load = lower;
                self.end_final(why());
            }
            State::Rates(_) | State::Done(_) => {}
        }
    }

    fn lower(&self, load: f64) -> f64 {
        let lower = load / (1.0 + WIDTH_MAX);
        if self.settings.search == Search::Count { lower.floor().max(1.0) } else { lower }
    }

    fn end_final(&mut self, why: String) {
        let State::Final { load, tries } = self.state else { return };
        if tries >= FINAL_TRIES || load <= self.initial() {
            let why = format!("at full length the criteria failed at every load tried: {why}");
            self.done(Ending::NoMaximum { why }, None);
        }
    }

    /// Step 2 failed.
    fn search_below(&mut self, why: String) {
        let Settings { target, search, .. } = self.settings;
        let initial = self.initial();
        self.state = match search {
            Search::No => return self.done(Ending::TargetMissed { why }, None),
            Search::Count => State::Counts { good: initial, bad: target, tries: 0 },
            Search::Rate => State::Rates(Box::new(rate_search(initial, target))),
        };
    }

    /// Two INVALID iterations: below the target there may be a load that the generator can make.
    fn end_invalid(&mut self, why: String) {
        self.invalid_in_a_row = 0;
        match self.state {
            State::Target if self.settings.search == Search::Rate => self.search_below(why),
            State::Counts { good, .. } => self.done(Ending::GeneratorLimited { why }, Some(good)),
            _ => self.done(Ending::GeneratorLimited { why }, None),
        }
    }

    /// Ends it with what was reached, because of an interrupt or a SUT that died.
    pub fn handle_stop(&mut self, why: String) -> Conclusion {
        if !matches!(self.state, State::Done(_)) {
            self.done(Ending::Unfinished { why: why.clone() }, None);
        }
        match &self.state {
            State::Done(conclusion) => conclusion.clone(),
            _ => Conclusion {
                ending: Ending::Unfinished { why },
                load: None,
                failed_load: self.failed,
            },
        }
    }

    /// How long to rest before the next iteration.
    pub const fn rest(&self) -> Nanos {
        self.rest
    }
}

fn rate_search(lowest: f64, target: f64) -> RateSearch {
    let settings = SearchSettings {
        lowest: Rate::per_second(lowest).unwrap_or_default(),
        floor: Rate::per_second(lowest).unwrap_or_default(),
        cap: Rate::per_second(target),
        cap_reason: "the target".to_owned(),
        budget: RATE_SEARCH_BUDGET,
        trials_max: RATE_SEARCH_MAX,
        ..SearchSettings::new(Mode::Quick)
    };
    RateSearch::new(settings, plimsoll_model::slo::Slo { goals: Vec::new() })
}

fn measurement(request: TrialRequest, sustain: &Tally, window: Nanos) -> TrialMeasurement {
    TrialMeasurement {
        seconds: Vec::new(),
        request,
        window,
        aborted: false,
        tally: sustain.clone(),
        sut_busiest_thread: None,
        split: 1,
        observations: Observations::default(),
    }
}
