//! The search for held connections: level by level, until the server fails or a resource is about
//! to run out.
//!
//! ```text
//! qualify -> expand (x2 while the first limit is far, then 5 to 10 %) --BAD--> narrow
//!               | 85 % of the first limit, or the cap                            |
//!               +---------------------> confirm (soak) <-------------------------+
//!                                          reramp (from zero) -> done
//! ```
//!
//! Each level is a trial: ramp, settle, read, and sweeps with one request on every connection.
//! Pure, like the staircase of a hold, and carried out by the same controller. A server that has lost
//! half of its connections is not tested further.

mod bounds;
mod ceiling;
mod level;
mod settings;

use std::collections::VecDeque;

use plimsoll_model::hold::{
    ConnectionsFound, FailedAt, MemoryReading, Plateau, Projection, ServerFailure, Side, Swept,
};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{
    Outcome, Phase, Recovery, Stopped, TippingPoint, TrialRecord, TrialRequest, Verdict,
};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use crate::staircase::{Attempts, Done, Gauge, HoldProcedure, Step};

use bounds::Bounds;
use ceiling::Ceiling;
use level::{Judged, Level};

pub use settings::{ConnectionLimits, ConnectionSettings};

/// Between two sweeps of a soak: a server may close what is idle for longer.
const SOAK_SWEEP_EVERY: Nanos = Nanos::from_secs(15);
/// A ramp with so many failures, or this share of its level, is ended.
const FAILURES_MIN: u64 = 100;
const FAILURES_SHARE: f64 = 0.02;
/// Losing this share of the held connections is a collapse, not a limit to narrow down.
const COLLAPSE: f64 = 0.5;
/// INVALID levels in a row after which the generator is the limit.
const INVALID_MAX: u32 = 2;
/// The most times that a lower bound may fail its soak.
const UNCONFIRMED_MAX: u32 = 2;

/// The state of the search within its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Baseline,
    Trimming,
    /// After a trim, until the server has closed its ends.
    Resting,
    Ramping,
    /// A ramp that is being ended at its current level.
    Halting,
    Settling,
    Measuring,
    Sweeping,
    Soaking,
    Ended,
}

/// Verdicts on the current level, which is repeated where they are not enough.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    good: u32,
    bad: u32,
}

/// The search.
#[derive(Clone, Debug)]
pub struct ConnectionSearch {
    settings: ConnectionSettings,
    stage: Stage,
    level: Level,
    /// Connections held, and those that ramps have tried.
    held: u64,
    tried: u64,
    /// Connections to have been tried at the end of the current ramp.
    ramp_to: u64,
    /// The number of tries is unknown: a ramp was ended early.
    must_trim: bool,
    /// Nothing was closed and nothing failed so far, so memory is that of a first ramp.
    is_first_ramp: bool,
    began: Option<Nanos>,
    baseline: MemoryReading,
    plateaus: Vec<Plateau>,
    gauges: Vec<(u64, Vec<Gauge>)>,
    bounds: Bounds,
    votes: Votes,
    /// Most connections that answered, at any level.
    answered_max: u64,
    invalid_in_row: u32,
    /// With `push`: the projection that would have ended the search.
    predicted: Option<Projection>,
    outcome: Option<Outcome>,
    /// The answer without its outcome and bounds.
    answer: TippingPoint,
    /// Findings beside the answer, without the first limit.
    found: ConnectionsFound,
    records: VecDeque<TrialRecord>,
    /// Durations of the search, and of confirmation and re-ramp.
    times: (Nanos, Nanos),
}

impl ConnectionSearch {
    /// A search before its first level.
    pub fn new(settings: ConnectionSettings) -> Self {
        let lowest = settings.lowest.min(settings.cap);
        Self {
            stage: Stage::Baseline,
            level: Level::new(1, Phase::Qualify, lowest, 0, &settings, Nanos::ZERO),
            held: 0,
            tried: 0,
            ramp_to: 0,
            must_trim: false,
            is_first_ramp: true,
            began: None,
            baseline: MemoryReading::default(),
            plateaus: Vec::new(),
            gauges: Vec::new(),
            bounds: Bounds::default(),
            votes: Votes::default(),
            answered_max: 0,
            invalid_in_row: 0,
            predicted: None,
            outcome: None,
            answer: TippingPoint::default(),
            found: ConnectionsFound {
                soak_s: settings.limits.soak.as_secs_f64(),
                ..ConnectionsFound::default()
            },
            records: VecDeque::new(),
            times: (Nanos::ZERO, Nanos::ZERO),
            settings,
        }
    }

    /// Returns the reading before anything was held.
    pub const fn baseline(&self) -> &MemoryReading {
        &self.baseline
    }

    /// The levels of the first way up.
    pub fn levels(&self) -> &[Plateau] {
        &self.plateaus
    }

    /// Time spent on searching, and on the soak and the second ramp.
    pub const fn times(&self) -> (Nanos, Nanos) {
        self.times
    }

    /// The projected limit of each resource.
    pub fn projections(&self) -> Vec<Projection> {
        ceiling::projections(&self.gauges).into_iter().map(|(projection, _)| projection).collect()
    }

    /// The answer so far; after [`Step::End`], the answer.
    pub fn tipping_point(&self) -> TippingPoint {
        let rate = |connections: Option<u64>| Rate::per_second(connections? as f64);
        let answer = self.answer.clone();
        TippingPoint {
            outcome: self.outcome.clone().unwrap_or(answer.outcome),
            lower: rate(self.bounds.good()),
            upper: rate(self.bounds.bad),
            ..answer
        }
    }

    /// Returns the findings beside the bounds.
    pub fn found(&self) -> ConnectionsFound {
        let first = ceiling::first(&self.gauges, |_| true);
        ConnectionsFound {
            first_limit_of: first.as_ref().map(|first| first.side),
            first_limit: first.map(|first| first.projection),
            ..self.found.clone()
        }
    }

    // ---- levels

    fn begin_level(&mut self, phase: Phase, target: u64, now: Nanos) {
        let number = self.level.request.number + 1;
        self.level = Level::new(number, phase, target, self.held, &self.settings, now);
        let is_above = self.held > target || phase == Phase::Reramp;
        if is_above || self.must_trim {
            self.is_first_ramp = false;
            self.stage = Stage::Trimming;
        } else {
            self.approach();
        }
    }

    /// Opens what the level needs beyond what is held.
    fn approach(&mut self) {
        let missing = self.level.target.saturating_sub(self.held);
        self.ramp_to = self.tried + missing;
        self.stage = if missing > 0 { Stage::Ramping } else { Stage::Settling };
    }

    fn handle_ramped(&mut self, held: u64, took: Nanos, now: Nanos) {
        self.level.held = held;
        self.level.ramp_took = took;
        if self.stage == Stage::Halting {
            self.must_trim = true;
        } else {
            self.tried = self.ramp_to;
        }
        self.stage = Stage::Settling;
        if held == 0 {
            self.conclude(now);
        }
    }

    fn handle_read(&mut self, memory: MemoryReading, gauges: Vec<Gauge>) {
        let level = &self.level;
        let missing = level.target.saturating_sub(level.held);
        self.is_first_ramp &= missing <= self.settings.missing_max(level.target);
        // A repeated level adds no information on memory.
        let is_new = self.gauges.last().is_none_or(|(held, _)| *held < level.held);
        if self.is_first_ramp && is_new {
            let (asked, held, ramp) = (level.target, level.held, level.ramp_took);
            self.plateaus.push(Plateau { asked, held, ramp, memory, swept: None });
            self.gauges.push((held, gauges));
        }
        self.stage = if level.soak_left > Nanos::ZERO { Stage::Soaking } else { Stage::Sweeping };
    }

    fn handle_swept(&mut self, swept: Swept, now: Nanos) {
        self.level.handle_swept(swept);
        if self.is_first_ramp
            && let Some(plateau) = self.plateaus.last_mut()
            && plateau.held == self.level.held
        {
            plateau.swept = self.level.worst_sweep;
        }
        let is_over = self.level.is_incomplete();
        self.stage = match self.level.soak_left {
            _ if is_over => return self.conclude(now),
            left if left > Nanos::ZERO => Stage::Soaking,
            _ if self.level.sweeps_left > 0 => Stage::Sweeping,
            _ => return self.conclude(now),
        };
    }

    /// The level is over: judged, reported, and followed by the next one.
    fn conclude(&mut self, now: Nanos) {
        let judged = self.level.judge(&self.settings);
        self.answered_max = self.answered_max.max(judged.answered);
        let measurement = self.level.measurement(now);
        let took = measurement.window;
        let phase = self.level.request.phase;
        if phase.is_after_search() {
            self.times.1 = self.times.1 + took;
        } else {
            self.times.0 = self.times.0 + took;
        }
        let judgement = judged.judgement.clone();
        let verdict = judgement.verdict;
        self.records.push_back(TrialRecord { measurement, judgement, further: Vec::new() });
        if verdict == Verdict::Invalid {
            return self.handle_invalid(&judged, now);
        }
        self.answer.trials += 1;
        self.invalid_in_row = 0;
        match phase {
            Phase::Confirm => self.handle_confirmed(verdict, &judged, now),
            Phase::Reramp => {
                self.answer.recovery = Some(match verdict {
                    Verdict::Good => Recovery::Yes,
                    Verdict::Bad | Verdict::Invalid => Recovery::No(took),
                });
                self.stage = Stage::Ended;
            }
            _ => self.handle_verdict(verdict, &judged, now),
        }
    }

    fn handle_invalid(&mut self, judged: &Judged, now: Nanos) {
        self.answer.invalid_trials += 1;
        self.invalid_in_row += 1;
        let request = self.level.request;
        if request.phase.is_after_search() {
            self.answer.confirmations.invalid += u32::from(request.phase == Phase::Confirm);
            self.stage = Stage::Ended;
            return;
        }
        if self.invalid_in_row < INVALID_MAX && !judged.is_hard_limit {
            return self.begin_level(request.phase, self.level.target, now);
        }
        let why = self.level.cut.as_ref().map_or_else(
            || judged.judgement.why(),
            |resource| format!("{resource} ran out during the ramp"),
        );
        self.finish(Outcome::GeneratorLimited { why }, now);
    }

    fn handle_verdict(&mut self, verdict: Verdict, judged: &Judged, now: Nanos) {
        if self.has_collapsed(judged) {
            return self.handle_collapse(judged);
        }
        let target = self.level.target;
        match verdict {
            Verdict::Good => self.votes.good += 1,
            Verdict::Bad | Verdict::Invalid => self.votes.bad += 1,
        }
        let Votes { good, bad } = self.votes;
        let is_good = (good > 0 && bad == 0) || good > 1;
        // One slow moment of this host or of the server is no limit.
        let is_doubtful = (judged.only_goals || judged.only_slow) && bad == 1;
        if !is_good && (is_doubtful || (good, bad) == (1, 1)) {
            return self.begin_level(self.level.request.phase, target, now);
        }
        self.votes = Votes::default();
        if is_good {
            // Where a few may be missing, what was there counts.
            self.bounds.handle_good(target, judged.answered);
        } else {
            self.is_first_ramp = false;
            self.bounds.handle_bad(target, judged.answered);
        }
        if self.bounds.bad.is_some() {
            self.narrow(now);
        } else {
            self.expand(now);
        }
    }

    // ---- up

    fn expand(&mut self, now: Nanos) {
        let Some(good) = self.bounds.good() else { return self.end(Outcome::FailsAtMinimum) };
        if good >= self.settings.cap {
            return self.finish(self.settings.at_cap.clone(), now);
        }
        if self.is_out_of_time(now) {
            let cap = "the time limit of this mode; a slower mode continues".to_owned();
            return self.finish(Outcome::NotReached { cap }, now);
        }
        // Limits of the clients are known beforehand and end no process: they need no small steps.
        let first = ceiling::first(&self.gauges, |side| side != Side::Generator);
        let next = self.step_from(good, first.as_ref()).clamp(good + 1, self.settings.cap);
        let binding = ceiling::first(&self.gauges, |side| !self.settings.push || is_ours(side));
        let is_passed = |first: &Ceiling| first.is_trusted && first.stop < next;
        if self.settings.push && self.predicted.is_none() {
            // The projection that would have ended the search.
            let first = ceiling::first(&self.gauges, |side| !is_ours(side));
            self.predicted = first.filter(is_passed).map(|first| first.projection);
        }
        match binding.filter(is_passed) {
            None => self.begin_level(Phase::Expand, next, now),
            Some(first) if first.stop as f64 >= good as f64 * 1.02 => {
                self.begin_level(Phase::Expand, first.stop, now);
            }
            Some(first) => {
                let outcome = self.stopped_by(&first);
                self.finish(outcome, now);
            }
        }
    }

    /// The next level as far as the first limit allows large steps.
    fn step_from(&self, good: u64, first: Option<&Ceiling>) -> u64 {
        let is_far =
            |factor: &f64| first.is_none_or(|first| first.end as f64 > 2.0 * factor * good as f64);
        let step = |factor: f64| (factor * good as f64).ceil() as u64;
        if let Some(factor) = [2.0, 1.5].into_iter().find(is_far) {
            return step(factor);
        }
        // Where the distance to the stop is known, one step of half of it replaces many small ones.
        let known = first.filter(|first| first.is_trusted && !first.is_vague);
        let half = known.map_or(0, |first| good + first.stop.saturating_sub(good) / 2);
        half.max(step(self.settings.limits.small_step))
    }

    fn stopped_by(&mut self, first: &Ceiling) -> Outcome {
        let words = first.words();
        if first.side == Side::Generator {
            return Outcome::GeneratorLimited { why: words };
        }
        self.found.stopped_by = Some(first.projection.clone());
        let push = match first.side {
            Side::Server => "; --push continues until the server fails",
            _ => "",
        };
        Outcome::NotReached { cap: format!("{words}; the search stops at 85 % of that{push}") }
    }

    fn is_out_of_time(&self, now: Nanos) -> bool {
        now.since(self.began.unwrap_or(now)) >= self.settings.limits.budget
    }

    // ---- between the bounds

    fn narrow(&mut self, now: Nanos) {
        let width = self.settings.limits.width_max;
        match self.bounds.next(width) {
            Some(target) if !self.is_out_of_time(now) => {
                self.begin_level(Phase::Narrow, target, now);
            }
            Some(_) => {
                self.finish(Outcome::Unfinished { why: Stopped::TimeLimit }, now);
            }
            None if self.bounds.good().is_none() => self.end(Outcome::FailsAtMinimum),
            None => {
                if self.settings.push && self.found.failed_at.is_none() {
                    self.record_failure(self.answered_max, ServerFailure::AcceptsNoMore);
                }
                self.finish(Outcome::Regular, now);
            }
        }
    }

    /// Records where the server failed, against the prediction.
    fn record_failure(&mut self, at: u64, why: ServerFailure) {
        let last = || ceiling::first(&self.gauges, |side| !is_ours(side)).map(|c| c.projection);
        let predicted = self.predicted.clone().or_else(last);
        let end = predicted.as_ref().and_then(|predicted| predicted.ends_at);
        let off = end.filter(|_| at > 0).map(|end| end as f64 / at as f64 - 1.0);
        self.found.failed_at = Some(FailedAt { at, why, predicted, predicted_off: off });
    }

    fn has_collapsed(&self, judged: &Judged) -> bool {
        let before = self.level.held_before.max(self.bounds.good().unwrap_or(0));
        let half = before as f64 * COLLAPSE;
        before > 0 && judged.answered as f64 <= half && judged.lost as f64 >= half
    }

    /// The server has lost half of its connections; the level is not repeated.
    fn handle_collapse(&mut self, judged: &Judged) {
        let at = judged.held_max;
        let why = ServerFailure::Lost { count: judged.lost, held: at };
        let good = self.bounds.good().unwrap_or(0);
        let is_pushed = self.settings.push && good > 0;
        // At no more connections than it held before, their number was not the cause.
        if at > good || is_pushed {
            self.bounds.handle_collapse(at + 1);
        }
        self.record_failure(at, why);
        self.end(match is_pushed {
            true => Outcome::Regular,
            false => Outcome::Unfinished { why: Stopped::ServerFailed { why } },
        });
    }

    // ---- the end

    /// The bounds are found: they are confirmed, if there is anything to confirm.
    fn finish(&mut self, outcome: Outcome, now: Nanos) {
        let soaks = self.settings.limits.soak > Nanos::ZERO;
        self.outcome = Some(outcome);
        self.votes = Votes::default();
        self.invalid_in_row = 0;
        match self.bounds.good() {
            Some(good) if soaks => self.begin_level(Phase::Confirm, good, now),
            Some(good) => self.begin_level(Phase::Reramp, good, now),
            None => self.stage = Stage::Ended,
        }
    }

    fn handle_confirmed(&mut self, verdict: Verdict, judged: &Judged, now: Nanos) {
        let target = self.level.target;
        if verdict == Verdict::Good {
            self.answer.confirmations.good += 1;
            self.found.soak_held = Some(judged.answered);
            return self.begin_level(Phase::Reramp, target, now);
        }
        self.answer.confirmations.bad += 1;
        self.answer.notes.push(format!(
            "{} connections passed the search, but not {} of soak: {}",
            grouped(target),
            self.settings.limits.soak,
            judged.judgement.why()
        ));
        self.bounds.handle_unconfirmed(target);
        if self.has_collapsed(judged) {
            let soak = self.settings.limits.soak;
            let why = ServerFailure::LostInSoak { count: judged.lost, soak };
            self.record_failure(target, why);
            return self.end(Outcome::Unfinished { why: Stopped::ServerFailed { why } });
        }
        if self.answer.confirmations.bad >= UNCONFIRMED_MAX || self.bounds.good().is_none() {
            return self.end(Outcome::Unfinished { why: Stopped::SoakFailed });
        }
        self.outcome = None;
        self.narrow(now);
    }

    /// There is nothing more to try.
    fn end(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
        self.stage = Stage::Ended;
    }
}

/// Reports whether a shortage ends the search: a resource of the clients, whatever the server does; and a host
/// is never filled to its end.
fn is_ours(side: Side) -> bool {
    side != Side::Server
}

impl HoldProcedure for ConnectionSearch {
    fn step(&self) -> Step {
        let target = self.level.target;
        match self.stage {
            Stage::Baseline => Step::Baseline,
            // From none again, or down to the level.
            Stage::Trimming if self.level.request.phase == Phase::Reramp => {
                Step::Trim { connections: 0 }
            }
            Stage::Trimming => Step::Trim { connections: target.min(self.held) },
            Stage::Ramping => Step::Ramp { connections: self.ramp_to },
            Stage::Halting => Step::Ramp { connections: 0 },
            Stage::Resting | Stage::Settling => Step::Settle(self.settings.limits.settle),
            Stage::Measuring => Step::Measure,
            Stage::Sweeping => Step::Sweep,
            Stage::Soaking => Step::Hold(self.level.soak_left.min(SOAK_SWEEP_EVERY)),
            Stage::Ended => Step::End,
        }
    }

    fn handle(&mut self, done: Done, now: Nanos) {
        match (self.stage, done) {
            (Stage::Baseline, Done::Read { memory, gauges }) => {
                self.began = Some(now);
                self.level.began = now;
                self.baseline = memory;
                self.gauges.push((0, gauges));
                self.approach();
            }
            (Stage::Trimming, Done::Trimmed) => {
                self.tried = self.held;
                self.must_trim = false;
                self.level.held_before = self.held;
                self.level.held = self.held;
                self.stage = Stage::Resting;
            }
            (Stage::Resting, Done::Waited) => self.approach(),
            (Stage::Ramping | Stage::Halting, Done::Ramped { held, took }) => {
                self.handle_ramped(held, took, now);
            }
            (Stage::Settling, Done::Waited) => self.stage = Stage::Measuring,
            (Stage::Measuring, Done::Read { memory, gauges }) => self.handle_read(memory, gauges),
            (Stage::Soaking, Done::Waited) => {
                let Step::Hold(span) = self.step() else { return };
                self.level.soak_left = self.level.soak_left.since(span);
                self.level.sweeps_left = self.level.sweeps_left.max(1);
                self.stage = Stage::Sweeping;
            }
            (Stage::Sweeping, Done::Swept(swept)) => self.handle_swept(swept, now),
            _ => {}
        }
    }

    fn handle_tally(&mut self, tally: Tally, held: u64) {
        self.held = held;
        match self.stage {
            Stage::Sweeping => self.level.swept.merge_following(&tally),
            _ => self.level.ramp.merge_following(&tally),
        }
    }

    fn handle_guard(&mut self, gauges: &[Gauge]) {
        let full = gauges.iter().find(|gauge| gauge.used >= gauge.limit);
        if let Some(full) = full
            && self.stage == Stage::Ramping
        {
            self.level.cut = Some(full.resource.to_string());
            self.stage = Stage::Halting;
        }
    }

    fn handle_attempts(&mut self, attempts: Attempts) {
        let share = (self.level.target as f64 * FAILURES_SHARE) as u64;
        let is_hopeless = attempts.failed_in_ramp >= FAILURES_MIN.max(share);
        let has_collapsed = (attempts.held as f64) < self.level.held_before as f64 * COLLAPSE;
        if self.stage == Stage::Ramping && (is_hopeless || has_collapsed) {
            self.stage = Stage::Halting;
        }
    }

    fn handle_stop(&mut self) {
        if self.stage != Stage::Ended {
            self.end(Outcome::Unfinished { why: Stopped::LoadEnded });
        }
    }

    fn trial(&self) -> Option<TrialRequest> {
        (!matches!(self.stage, Stage::Baseline | Stage::Ended)).then_some(self.level.request)
    }

    fn poll_record(&mut self) -> Option<TrialRecord> {
        self.records.pop_front()
    }
}
