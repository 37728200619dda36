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
//!
//! Judged levels are `evidence`. The bounds (`bounds`), the next level (`policy`) and the answer (`answer`) are
//! functions of it; [`ConnectionSearch`] itself carries out one `level` after the other.

mod answer;
mod bounds;
mod ceiling;
mod evidence;
mod level;
mod policy;
mod settings;

use std::collections::VecDeque;

use plimsoll_model::Nanos;
use plimsoll_model::hold::{ConnectionsFound, MemoryReading, Plateau, Projection, Swept};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Phase, TippingPoint, TrialRecord, TrialRequest};

use crate::staircase::{Attempts, Done, Gauge, HoldProcedure, Step};

use bounds::COLLAPSE;
use evidence::Evidence;
use level::LevelTrial;
use policy::Known;

pub use settings::{ConnectionLimits, ConnectionSettings};

/// Time between two sweeps of a soak: a server may close connections that are idle for longer.
const SOAK_SWEEP_EVERY: Nanos = Nanos::from_secs(15);
/// A ramp is ended after this number of failures, or this share of its level.
const FAILURES_MIN: u64 = 100;
const FAILURES_SHARE: f64 = 0.02;

/// The state of the search within its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Baseline,
    Trimming,
    /// After a trim, until the server has closed its ends.
    Resting,
    /// Until this number of connections was tried.
    Ramping(u64),
    /// A ramp that is being ended at its current level.
    Halting,
    Settling,
    Measuring,
    Sweeping,
    Soaking,
    Ended,
}

/// The search.
#[derive(Clone, Debug)]
pub struct ConnectionSearch {
    settings: ConnectionSettings,
    evidence: Evidence,
    level: LevelTrial,
    stage: Stage,
    /// Connections held, and those that ramps have tried.
    held: u64,
    tried: u64,
    /// The number of tries is unknown: a ramp was ended early.
    must_trim: bool,
    records: VecDeque<TrialRecord>,
}

impl ConnectionSearch {
    /// Creates a search before its first level.
    pub fn new(settings: ConnectionSettings) -> Self {
        let lowest = settings.lowest.min(settings.cap);
        Self {
            evidence: Evidence::default(),
            level: LevelTrial::new(1, Phase::Qualify, lowest, 0, &settings, Nanos::ZERO),
            stage: Stage::Baseline,
            held: 0,
            tried: 0,
            must_trim: false,
            records: VecDeque::new(),
            settings,
        }
    }

    /// Returns the reading before anything was held.
    pub const fn baseline(&self) -> &MemoryReading {
        &self.evidence.baseline
    }

    /// Returns the levels of the first way up.
    pub fn levels(&self) -> &[Plateau] {
        &self.evidence.plateaus
    }

    /// Returns the time spent on searching, and on the soak and the second ramp.
    pub fn times(&self) -> (Nanos, Nanos) {
        answer::times(&self.evidence.levels)
    }

    /// Returns the projected limit of each resource.
    pub fn projections(&self) -> Vec<Projection> {
        let projections = ceiling::projections(&self.evidence.gauges);
        projections.into_iter().map(|(projection, _)| projection).collect()
    }

    /// Returns the answer so far; after [`Step::End`], the answer.
    pub fn tipping_point(&self) -> TippingPoint {
        answer::tipping_point(&self.evidence, &self.settings)
    }

    /// Returns the findings beside the bounds.
    pub fn found(&self) -> ConnectionsFound {
        answer::found(&self.evidence, &self.settings)
    }

    fn begin_level(&mut self, phase: Phase, target: u64, now: Nanos) {
        let number = self.level.request.number + 1;
        self.level = LevelTrial::new(number, phase, target, self.held, &self.settings, now);
        let is_above = self.held > target || phase == Phase::Reramp;
        if is_above || self.must_trim {
            self.evidence.is_ramp_over = true;
            self.stage = Stage::Trimming;
        } else {
            self.approach();
        }
    }

    /// Opens what the level needs beyond what is held.
    fn approach(&mut self) {
        let missing = self.level.target.saturating_sub(self.held);
        let ramp = Stage::Ramping(self.tried + missing);
        self.stage = if missing > 0 { ramp } else { Stage::Settling };
    }

    fn handle_ramped(&mut self, held: u64, took: Nanos, now: Nanos) {
        self.level.held = held;
        self.level.ramp_took = took;
        match self.stage {
            Stage::Ramping(tried) => self.tried = tried,
            _ => self.must_trim = true,
        }
        self.stage = Stage::Settling;
        if held == 0 {
            self.conclude(now);
        }
    }

    fn handle_read(&mut self, memory: MemoryReading, gauges: Vec<Gauge>) {
        let level = &self.level;
        let missing = level.target.saturating_sub(level.held);
        self.evidence.is_ramp_over |= missing > self.settings.missing_max(level.target);
        self.evidence.read(level, memory, gauges);
        self.stage = if level.soak_left > Nanos::ZERO { Stage::Soaking } else { Stage::Sweeping };
    }

    fn handle_swept(&mut self, swept: Swept, now: Nanos) {
        self.level.handle_swept(swept);
        self.evidence.swept(self.level.held, self.level.worst_sweep);
        let is_over = self.level.is_incomplete();
        self.stage = match self.level.soak_left {
            _ if is_over => return self.conclude(now),
            left if left > Nanos::ZERO => Stage::Soaking,
            _ if self.level.sweeps_left > 0 => Stage::Sweeping,
            _ => return self.conclude(now),
        };
    }

    /// Ends the level: it is judged, reported, and followed by the next one.
    fn conclude(&mut self, now: Nanos) {
        let readings = self.evidence.gauges.len();
        let (judged, record) = self.level.judge(&self.settings, now, readings);
        self.records.push_back(record);
        self.evidence.levels.push(judged);
        let known = Known::after(self.evidence.levels.len(), &self.evidence, &self.settings);
        let (next, is_failed) = (policy::next(&known), known.bounds.bad.is_some());
        self.evidence.is_ramp_over |= is_failed;
        match next {
            Some((phase, target)) => self.begin_level(phase, target, now),
            None => self.stage = Stage::Ended,
        }
    }
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
            Stage::Ramping(connections) => Step::Ramp { connections },
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
                self.level.began = now;
                self.evidence.begin(memory, gauges, now);
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
            (Stage::Ramping(_) | Stage::Halting, Done::Ramped { held, took }) => {
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
            && matches!(self.stage, Stage::Ramping(_))
        {
            self.level.cut = Some(full.resource.to_string());
            self.stage = Stage::Halting;
        }
    }

    fn handle_attempts(&mut self, attempts: Attempts) {
        let share = (self.level.target as f64 * FAILURES_SHARE) as u64;
        let is_hopeless = attempts.failed_in_ramp >= FAILURES_MIN.max(share);
        let has_collapsed = (attempts.held as f64) < self.level.held_before as f64 * COLLAPSE;
        if matches!(self.stage, Stage::Ramping(_)) && (is_hopeless || has_collapsed) {
            self.stage = Stage::Halting;
        }
    }

    fn handle_stop(&mut self) {
        if self.stage != Stage::Ended {
            self.evidence.is_stopped = true;
            self.stage = Stage::Ended;
        }
    }

    fn trial(&self) -> Option<TrialRequest> {
        (!matches!(self.stage, Stage::Baseline | Stage::Ended)).then_some(self.level.request)
    }

    fn poll_record(&mut self) -> Option<TrialRecord> {
        self.records.pop_front()
    }
}
