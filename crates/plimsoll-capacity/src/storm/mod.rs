//! The search for the largest storm: the most held connections that may be cut at one instant and come back in time,
//! while the others keep their objective.
//!
//! ```text
//! Baseline -> Ramp -> base line? --yes--> Storm -> Hold -> Sweep -> judged
//!              ^         | no, wait         | too late         |
//!              |         v                  v                  |
//!              +---- Trim, Ramp, Settle, Measure, Sweep <------+
//! ```
//!
//! Pure: the same controller that carries out holds carries out [`StormSearch`]. The evidence is the list of judged
//! storms (`evidence`); `fit` and `policy` are functions of it. Between storms the connections must all be there again
//! and answer as fast as at first, and the server's memory must no longer change: a storm that would start from another
//! state is INVALID.

mod evidence;
mod fit;
mod jitter;
mod judge;
mod policy;
mod settings;
mod watch;
mod withdraw;

use std::collections::VecDeque;

use plimsoll_model::hold::{MemoryReading, Swept};
use plimsoll_model::observation::Observations;
use plimsoll_model::storm::{EndsBelow, Jitter, StormCounts, StormTrial};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{
    BaseProperty, Check, CheckId, Judgement, Level, Measure, Met, NotRecovered, Outcome, Phase,
    Stopped, TippingPoint, TrialMeasurement, TrialRecord, TrialRequest, Unsettled, Verdict,
};
use plimsoll_model::{Nanos, Rate};

use crate::losses::lost_by_peer;
use crate::staircase::{Done, HoldProcedure, Step};

use evidence::{Evidence, Storm};
use fit::{Fit, fit};
use jitter::JitterSearch;
use judge::{judge, judge_base};
use policy::{Ends, Next, next, unsettled};
use watch::{Finding, Watch};
use withdraw::Withdrawals;

pub use judge::without_cut;
pub use settings::{StormLimits, StormSettings};

/// Wait before the state of the server is compared with the base line.
const SETTLE: Nanos = Nanos::from_secs(1);
/// Time after the last client is back in which the connections that were not cut are still watched.
const AFTER: Nanos = Nanos::from_secs(1);
/// The base line must be there again within the longest of this and of two times for recovery.
const RETURN_MAX: Nanos = Nanos::from_secs(60);
/// Latency at the base line may be larger by this factor, or by [`LATENCY_MORE`].
const LATENCY_FACTOR: f64 = 2.0;
const LATENCY_MORE: Nanos = Nanos::from_millis(10);
/// Or by this share of the limit that the objective sets.
const LATENCY_SHARE: f64 = 0.5;
/// The longest latency may be larger by this: a new connection that takes longer waits in a queue.
const WORST_MORE: Nanos = Nanos::from_secs(1);
/// Memory that differs by less than this, relative, has settled.
const MEMORY_SETTLED: f64 = 0.1;
/// This host is busy if a thread of the client waits for a CPU for more than this share of the time, and for this much
/// longer than at the base line.
const WAITED_MIN: f64 = 0.05;
const WAITED_FACTOR: f64 = 2.0;
/// INVALID storms in a row after which the generator is the limit.
const INVALID_MAX: u32 = 2;
/// Sweeps of which one must meet the objective before the first storm.
const BASE_TRIES: u32 = 5;

/// The state of the search within its current storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Baseline,
    /// Clients of the last storm give up, and surplus attempts end.
    Calming,
    Ramping,
    Settling,
    Measuring,
    /// A sweep that compares the server with the base line.
    Comparing,
    Storming,
    /// A storm that is being ended.
    Ending,
    Watching,
    Checking,
    Ended,
}

/// The storm in progress.
#[derive(Clone, Debug, Default)]
struct Current {
    cut: u64,
    /// Clients wait a random part of this.
    jitter: Option<Nanos>,
    began: Nanos,
    tally: Tally,
    swept: Option<Swept>,
    watch: Watch,
    finding: Option<Finding>,
    /// Clients are to stop trying if it does not end, and those that did.
    tries_withdrawal: bool,
    withdrawals: Option<Withdrawals>,
    is_back: bool,
}

/// The base line: the state of the server before the first storm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BaseLine {
    /// 99th percentile of the latency of a sweep.
    pub p99: Option<Nanos>,
    /// The longest latency of that sweep.
    pub worst: Option<Nanos>,
    /// Share of the time for which the client's thread that waited most was ready and had no CPU, in the worst second.
    pub waited: f64,
    /// The server's memory.
    pub sut_bytes: Option<u64>,
}

/// The search.
#[derive(Clone, Debug)]
pub struct StormSearch {
    settings: StormSettings,
    stage: Stage,
    evidence: Evidence,
    /// Storms with jitter are no evidence on the others.
    jitter: JitterSearch,
    /// The load below which a storm that does not end would, once that was tried.
    ends_below: Option<EndsBelow>,
    has_tried_withdrawal: bool,
    request: Option<TrialRequest>,
    current: Current,
    /// The base line, once it was measured.
    base: Option<BaseLine>,
    base_tries: u32,
    held: u64,
    /// The server's memory at each look since the last storm, if it is known.
    memory: Vec<u64>,
    baseline: MemoryReading,
    /// Beginning of the search for the base line after the last storm.
    returning_since: Nanos,
    began: Option<Nanos>,
    ended: Nanos,
    invalid_in_row: u32,
    invalid: u32,
    outcome: Option<Outcome>,
    records: VecDeque<TrialRecord>,
    storms: Vec<StormTrial>,
    /// Counts since the last step.
    counted: Tally,
}

impl StormSearch {
    /// Creates a search before its first connection.
    pub fn new(settings: StormSettings) -> Self {
        Self {
            settings,
            stage: Stage::Baseline,
            evidence: Evidence::default(),
            jitter: JitterSearch::default(),
            ends_below: None,
            has_tried_withdrawal: false,
            request: None,
            current: Current::default(),
            base: None,
            base_tries: 0,
            held: 0,
            memory: Vec::new(),
            baseline: MemoryReading::default(),
            returning_since: Nanos::ZERO,
            began: None,
            ended: Nanos::ZERO,
            invalid_in_row: 0,
            invalid: 0,
            outcome: None,
            records: VecDeque::new(),
            storms: Vec::new(),
            counted: Tally::default(),
        }
    }

    /// Returns the state before the first storm; `None` if the connections never reached it.
    pub const fn base(&self) -> Option<BaseLine> {
        self.base
    }

    /// Returns the storms in their order, without their seconds.
    pub fn storms(&self) -> &[StormTrial] {
        &self.storms
    }

    /// Returns the jitter that makes the largest storm safe, if it was searched for.
    pub fn jitter(&self) -> Option<Jitter> {
        self.jitter.answer(self.settings.highest)
    }

    /// Returns the load below which a storm that does not end by itself would end, if there was one.
    pub const fn ends_below(&self) -> Option<EndsBelow> {
        self.ends_below
    }

    /// Returns the memory before anything was held.
    pub const fn baseline(&self) -> &MemoryReading {
        &self.baseline
    }

    /// Returns the time from the first storm to the end.
    pub fn took(&self) -> Nanos {
        self.began.map_or(Nanos::ZERO, |began| self.ended.since(began))
    }

    fn fit(&self) -> Option<Fit> {
        fit(&self.evidence, self.settings.confidence)
    }

    /// Returns the answer so far; after [`Step::End`], the answer.
    pub fn tipping_point(&self) -> TippingPoint {
        let outcome = self.outcome.clone().unwrap_or_default();
        let rate = |cut: u64| Rate::per_second(cut as f64);
        let fit = self.fit();
        let good = self.evidence.good_max().map(|good| good.cut);
        let bad = self.evidence.bad_min().map(|bad| bad.cut);
        let claims = matches!(outcome, Outcome::Regular);
        let interval = fit.as_ref().filter(|_| claims);
        let lower = interval.map(|fit| fit.lower).or(good);
        let upper = match interval {
            Some(fit) => Some(fit.upper),
            None => bad.filter(|bad| good.is_none_or(|good| *bad > good)),
        };
        let is_at_least = matches!(outcome, Outcome::NotReached { .. });
        // The storm that 9 of 10 survive; only an answer has one.
        let claimed = fit.as_ref().filter(|_| good.is_some() && (claims || is_at_least));
        // More cannot be cut than are held.
        let safe = claimed.and_then(Fit::safe).map(|safe| safe.min(self.settings.highest));
        let lower = lower.map(|lower| lower.min(self.settings.highest));
        let upper = upper.filter(|_| !is_at_least);
        let met = self.evidence.storms.iter().filter(|s| s.good && Some(s.cut) >= lower);
        TippingPoint {
            lower: lower.and_then(rate),
            upper: upper.and_then(rate),
            confidence: interval.map(|_| self.settings.confidence),
            safe: safe.and_then(rate),
            met: Some(Met { trials: met.count() as u32, longest: self.settings.recover })
                .filter(|met| met.trials > 0),
            spread: interval.map(Fit::spread),
            trials: self.evidence.storms.len() as u32,
            invalid_trials: self.invalid,
            outcome,
            ..TippingPoint::default()
        }
    }

    // ---- the base line

    /// The sweep that follows a return: the server is as before, or it is waited for.
    fn compare(&mut self, swept: Swept, now: Nanos) {
        let Some(base) = self.base else { return self.take_base(swept, now) };
        let latencies = &self.counted.spans.corrected;
        let is_whole = self.held == self.settings.connections && swept.answered == self.held;
        let slow = |name, now: Option<Nanos>, base: Option<Nanos>, more: Nanos| {
            let (now, base) = (now?, base?);
            let most = Nanos((base.0 as f64 * LATENCY_FACTOR) as u64).max(base + more);
            (now > most).then(|| Measure::span(name, now).at_most(most.as_millis_f64()))
        };
        let deadline = self.settings.slo.deadline().unwrap_or_default();
        let more = LATENCY_MORE.max(Nanos((deadline.0 as f64 * LATENCY_SHARE) as u64));
        let found = if is_whole {
            let slow = slow("p99", latencies.quantile(0.99), base.p99, more)
                .or_else(|| slow("max", latencies.max(), base.worst, WORST_MORE));
            let unsettled = || Some((BaseProperty::Memory, self.unsettled()?));
            slow.map(|slow| (BaseProperty::Latency, slow)).or_else(unsettled)
        } else {
            let open = Measure::count("open and answered", swept.answered.min(self.held));
            let all = self.settings.connections as f64;
            Some((BaseProperty::Connections, open.at_least(all)))
        };
        let Some(difference) = found else { return self.begin_next(now) };
        let most = RETURN_MAX.max(Nanos(2 * self.settings.recover.0));
        if now.since(self.returning_since) < most {
            self.stage = Stage::Calming;
            return;
        }
        self.give_up_return(difference, most, now);
    }

    /// Takes the state before the first storm, which must meet the objective.
    fn take_base(&mut self, swept: Swept, now: Nanos) {
        let connections = self.settings.connections;
        if self.held < connections || swept.answered < swept.connections {
            let answered = swept.answered.min(self.held);
            let why = Stopped::BaseIncomplete { answered, asked: connections };
            return self.finish(Outcome::Unfinished { why }, now);
        }
        let judgement = judge_base(&self.counted, &self.settings);
        if judgement.verdict != Verdict::Good {
            // A slow moment of this host or of the server is waited for.
            self.base_tries += 1;
            if self.base_tries < BASE_TRIES {
                self.stage = Stage::Settling;
                return;
            }
            let checks = || judgement.deciding().cloned().collect();
            let outcome = match judgement.verdict {
                Verdict::Invalid => Outcome::GeneratorLimited { why: judgement.why() },
                _ => Outcome::Unfinished { why: Stopped::BaseMissed { checks: checks() } },
            };
            return self.finish(outcome, now);
        }
        let waited = self.counted.generator.waited.unwrap_or_default();
        let sut_bytes = self.memory.last().copied();
        let latencies = &self.counted.spans.corrected;
        let (p99, worst) = (latencies.quantile(0.99), latencies.max());
        self.base = Some(BaseLine { p99, worst, waited, sut_bytes });
        self.began = Some(now);
        self.begin_next(now);
    }

    /// Returns the change of the server's memory; `None` if it is as before the last storm, or no longer changes.
    fn unsettled(&self) -> Option<Measure> {
        let (now, looks) = self.memory.split_last()?;
        let before = self.storms.last().and_then(|storm| storm.sut_bytes);
        let changes = looks.last().into_iter().chain(&before);
        let changes = changes.map(|then| now.abs_diff(*then) as f64 / (*then).max(1) as f64);
        let least = changes.min_by(f64::total_cmp).filter(|least| *least > MEMORY_SETTLED)?;
        Some(Measure::ratio("change of memory", least).at_most(MEMORY_SETTLED))
    }

    /// Ends the search: the server does not come back, although its clients no longer try, and the next storm would
    /// start from another state.
    fn give_up_return(
        &mut self,
        (differs, measure): (BaseProperty, Measure),
        waited: Nanos,
        now: Nanos,
    ) {
        let busy = self.busy_host();
        let check = Check::new(CheckId::BaseLine, Level::Fail, [measure]);
        let request = self.request_of(self.current.cut, Phase::Narrow);
        let judgement = Judgement::of([check].into_iter().chain(busy.clone()).collect(), 0.0);
        self.current = Current { began: now, cut: self.current.cut, ..Current::default() };
        self.push_record(request, judgement, now);
        self.invalid += 1;
        let judged = judge_base(&self.counted, &self.settings);
        let cut = self.storms.last().map_or(0, |storm| storm.cut);
        let state = NotRecovered { cut, waited, differs };
        let outcome = match (busy, judged.verdict) {
            (Some(busy), _) => Outcome::GeneratorLimited { why: busy.id.name().into_owned() },
            (None, Verdict::Invalid) => Outcome::GeneratorLimited { why: judged.why() },
            // A server whose connections meet the SLO has not failed; the next storm would find another one.
            (None, Verdict::Good) if differs != BaseProperty::Connections => {
                unsettled(&self.evidence, self.fit().as_ref(), Unsettled::NotRecovered(state))
            }
            _ => Outcome::Unfinished { why: Stopped::NotRecovered(state) },
        };
        self.finish(outcome, now);
    }

    /// The client's threads wait for a CPU, and longer than at the base line: other programs have this host's.
    fn busy_host(&self) -> Option<Check> {
        let most = WAITED_MIN.max(WAITED_FACTOR * self.base?.waited);
        let waited = self.counted.generator.waited.filter(|waited| *waited > most)?;
        let measures = [Measure::ratio("ready but not running", waited).at_most(most)];
        Some(Check::new(CheckId::Scheduling, Level::Fail, measures))
    }

    // ---- storms

    fn request_of(&self, cut: u64, phase: Phase) -> TrialRequest {
        let number = self.request.map_or(0, |request| request.number) + 1;
        TrialRequest {
            number,
            phase,
            rate: Rate::per_second(cut as f64).unwrap_or_default(),
            duration: self.settings.recover,
            split: 1,
        }
    }

    fn exhausted(&self, now: Nanos) -> Option<Unsettled> {
        let limits = &self.settings.limits;
        let made = self.evidence.storms.len() as u32 + self.invalid;
        if made >= limits.trials_max {
            return Some(Unsettled::Trials { most: limits.trials_max });
        }
        let spent = self.began.map_or(Nanos::ZERO, |began| now.since(began));
        (spent >= limits.budget).then_some(Unsettled::Time { budget: limits.budget })
    }

    /// Begins the next storm, or ends the search.
    fn begin_next(&mut self, now: Nanos) {
        // The clients are quiet and the server is as before: it was their retries that kept the storm alive.
        self.confirm_endless();
        let fit = self.fit();
        let exhausted = self.exhausted(now);
        match next(&self.evidence, fit.as_ref(), &self.settings, self.ends(), exhausted) {
            Next::Finish(outcome) => match self.next_jitter(fit.as_ref(), &outcome, now) {
                Some(jitter) => {
                    self.outcome = Some(outcome);
                    self.begin_storm(self.settings.highest, Phase::Overload, Some(jitter), now);
                }
                None => self.finish(outcome, now),
            },
            Next::Storm(cut, phase) => self.begin_storm(cut, phase, None, now),
        }
    }

    fn begin_storm(&mut self, cut: u64, phase: Phase, jitter: Option<Nanos>, now: Nanos) {
        self.request = Some(self.request_of(cut, phase));
        let ends = self.ends();
        let is_endless = jitter.is_none() && ends.endless_min.is_some_and(|least| cut >= least);
        let tries_withdrawal = is_endless && ends.is_withdrawal_next();
        self.has_tried_withdrawal |= tries_withdrawal;
        let watch = Watch::new(is_endless && !tries_withdrawal);
        self.current =
            Current { cut, jitter, began: now, watch, tries_withdrawal, ..Current::default() };
        self.stage = Stage::Storming;
    }

    /// Returns the next jitter to try, once the largest storm without it is known.
    fn next_jitter(&mut self, fit: Option<&Fit>, outcome: &Outcome, now: Nanos) -> Option<Nanos> {
        let StormSettings { try_jitter, highest, recover, limits, .. } = &self.settings;
        let fit = fit.filter(|_| *try_jitter && *outcome == Outcome::Regular)?;
        let began = *self.jitter.began.get_or_insert(now);
        let next = self.jitter.next(*highest, fit.lower, *recover)?;
        (now.since(began) < limits.budget).then_some(next)
    }

    /// The settings that a storm is judged by: clients that wait have as much more time.
    fn settings_of_storm(&self) -> StormSettings {
        let jitter = self.current.jitter;
        let pause = jitter.unwrap_or(self.settings.pause);
        let recover = self.settings.recover + jitter.unwrap_or_default();
        StormSettings { recover, pause, ..self.settings.clone() }
    }

    /// Returns the sizes of storms that ended, and that did not.
    fn ends(&self) -> Ends {
        let of = |is_endless| {
            let as_asked = self.storms.iter().filter(|one| one.jitter_s.is_none());
            let each = as_asked.filter(move |one| one.endless.is_some() == is_endless);
            each.filter(|one| one.verdict != Verdict::Invalid).map(|one| one.cut)
        };
        let endless_min = of(true).min();
        let below = of(false).filter(|cut| endless_min.is_none_or(|least| *cut < least));
        let has_tried_withdrawal = self.has_tried_withdrawal;
        Ends { ended_max: below.max(), endless_min, has_tried_withdrawal }
    }

    /// Adds the verdict on the last storm that it did not end by itself.
    fn confirm_endless(&mut self) {
        if let Some(Finding::Endless(endless)) = self.current.finding.take()
            && let Some(storm) = self.storms.last_mut()
        {
            storm.endless = Some(endless);
        }
    }

    /// Ends the storm: it is judged, and the server is left to return to its base line.
    fn conclude(&mut self, now: Nanos) {
        let Some(request) = self.request else { return };
        let current = &self.current;
        let counts = &current.tally.storm;
        let recovered = counts.recovery.max().filter(|_| current.is_back);
        let settings = self.settings_of_storm();
        let late = counts.recovery.count_above(settings.recover);
        let back_in_time = (counts.recovery.count() - late).min(current.cut);
        let unjudged = Storm { cut: current.cut, good: false, recovered, back_in_time };
        let judgement = judge(&unjudged, &current.tally, current.swept, &settings);
        let (jitter, verdict) = (current.jitter, judgement.verdict);
        let storm = Storm { good: verdict == Verdict::Good, ..unjudged };
        if let Some(withdrawals) = current.withdrawals {
            self.ends_below = Some(withdrawals.found);
        }
        self.storms.push(self.summary(request.number, verdict, recovered));
        self.push_record(request, judgement.clone(), now);
        if let Some(jitter) = jitter {
            self.jitter.add(jitter, verdict);
        } else if verdict == Verdict::Invalid {
            self.invalid += 1;
            self.invalid_in_row += 1;
            if self.invalid_in_row >= INVALID_MAX {
                return self.finish(Outcome::GeneratorLimited { why: judgement.why() }, now);
            }
        } else {
            self.invalid_in_row = 0;
            self.evidence.storms.push(storm);
        }
        self.returning_since = now;
        self.memory.clear();
        self.stage = Stage::Calming;
    }

    fn summary(&self, trial: u32, verdict: Verdict, recovered: Option<Nanos>) -> StormTrial {
        let Current { cut, tally, .. } = &self.current;
        let counts = &tally.storm;
        let handshakes = tally.handshakes.full + tally.handshakes.resumed;
        StormTrial {
            trial,
            cut: *cut,
            verdict,
            recovered_s: recovered.map(Nanos::as_secs_f64),
            missing: counts.missing(),
            attempts: counts.attempts,
            retries: counts.retries,
            gave_up: counts.gave_up,
            wasted_max: counts.gave_up_sent,
            wasted: None,
            refused: counts.refused,
            lost: lost_by_peer(&tally.failures.lost_held),
            resumed_share: (handshakes > 0)
                .then(|| tally.handshakes.resumed as f64 / handshakes as f64),
            p99_ms: tally.spans.corrected.quantile(0.99).map(Nanos::as_millis_f64),
            sut_bytes: self.memory.last().copied(),
            jitter_s: self.current.jitter.map(Nanos::as_secs_f64),
            endless: None,
            seconds: Vec::new(),
        }
    }

    fn push_record(&mut self, request: TrialRequest, judgement: Judgement, now: Nanos) {
        let Current { began, tally, .. } = &self.current;
        let measurement = TrialMeasurement {
            observations: Observations { began: Some(*began), ..Observations::default() },
            ..TrialMeasurement::of(request, now.since(*began), tally.clone())
        };
        self.records.push_back(TrialRecord { measurement, judgement, further: Vec::new() });
    }

    fn finish(&mut self, outcome: Outcome, now: Nanos) {
        // An outcome that is known before storms with jitter remains.
        self.outcome.get_or_insert(outcome);
        self.ended = now;
        self.stage = Stage::Ended;
    }
}

impl HoldProcedure for StormSearch {
    fn step(&self) -> Step {
        let connections = self.settings.connections;
        match self.stage {
            Stage::Baseline => Step::Baseline,
            Stage::Ending => Step::Trim { connections },
            // One is opened anew: it waits behind everything that is left in the server's accept queue.
            Stage::Calming => Step::Trim { connections: connections - 1 },
            Stage::Ramping => Step::Ramp { connections },
            Stage::Settling => Step::Settle(SETTLE),
            Stage::Measuring => Step::Measure,
            Stage::Comparing | Stage::Checking => Step::Sweep,
            Stage::Storming => Step::Storm { cut: self.current.cut, jitter: self.current.jitter },
            Stage::Watching => Step::Hold(AFTER),
            Stage::Ended => Step::End,
        }
    }

    fn handle_tally(&mut self, tally: Tally, held: u64) {
        self.held = held;
        if matches!(self.stage, Stage::Storming | Stage::Ending | Stage::Watching) {
            self.current.tally.merge_following(&tally);
        }
        self.counted = tally;
    }

    fn handle(&mut self, done: Done, now: Nanos) {
        self.ended = now;
        match (self.stage, done) {
            (Stage::Baseline, Done::Read { memory, .. }) => {
                self.baseline = memory;
                self.stage = Stage::Ramping;
            }
            (Stage::Calming, Done::Trimmed) => self.stage = Stage::Ramping,
            (Stage::Ramping, Done::Ramped { held, .. }) => {
                self.held = held;
                self.stage = Stage::Settling;
                if held == 0 && self.base.is_none() {
                    self.finish(Outcome::Unfinished { why: Stopped::NoneOpened }, now);
                }
            }
            (Stage::Settling, Done::Waited) => self.stage = Stage::Measuring,
            (Stage::Measuring, Done::Read { memory, .. }) => {
                self.memory.extend(memory.sut_bytes);
                self.stage = Stage::Comparing;
            }
            (Stage::Comparing, Done::Swept(swept)) => self.compare(swept, now),
            (Stage::Storming, Done::Stormed) => match &mut self.current.withdrawals {
                Some(withdrawals) => {
                    withdrawals.end(&self.current.tally.storm);
                    self.stage = Stage::Ending;
                }
                None => {
                    self.current.is_back = true;
                    self.stage = Stage::Watching;
                }
            },
            (Stage::Ending, Done::Trimmed) => self.conclude(now),
            (Stage::Watching, Done::Waited) => self.stage = Stage::Checking,
            (Stage::Checking, Done::Swept(swept)) => {
                self.current.swept = Some(swept);
                self.conclude(now);
            }
            _ => {}
        }
    }

    fn handle_storm(&mut self, counts: &StormCounts, since: Nanos) {
        if self.stage != Stage::Storming {
            return;
        }
        let settings = self.settings_of_storm();
        let current = &mut self.current;
        if let Some(withdrawals) = &mut current.withdrawals {
            if withdrawals.look(counts, since, &settings) {
                self.stage = Stage::Ending;
            }
            return;
        }
        let finding = current.watch.look(counts, since, &settings);
        match finding {
            Finding::Wait => return,
            Finding::Endless(_) if current.tries_withdrawal => {
                current.withdrawals = Some(Withdrawals::new(counts, since, &settings));
            }
            Finding::Ends | Finding::Endless(_) => self.stage = Stage::Ending,
        }
        self.current.finding = Some(finding);
    }

    fn poll_withdrawal(&mut self) -> Option<f64> {
        self.current.withdrawals.as_mut()?.poll()
    }

    fn handle_stop(&mut self) {
        if self.stage != Stage::Ended {
            self.outcome.get_or_insert_default();
            self.stage = Stage::Ended;
        }
    }

    fn trial(&self) -> Option<TrialRequest> {
        self.request
    }

    fn poll_record(&mut self) -> Option<TrialRecord> {
        self.records.pop_front()
    }
}
