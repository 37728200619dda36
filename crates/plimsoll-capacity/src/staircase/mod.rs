//! Holding connections level by level: what to do next, and when to stop going up.
//!
//! ```text
//! Baseline -> Ramp -> Settle -> Measure -> Sweep --+--> next level, unless a resource runs out
//!               |  guard: out of memory            |
//!               +-------> Ramp to nothing more     +--> Hold -> Sweep -> End
//! ```
//!
//! With cycles, the last sweep is followed by Trim to zero -> Settle -> Read the server's memory, and the next ramp.
//!
//! Pure: the caller carries out [`Staircase::step`] and reports its result to [`Staircase::handle`]. A
//! level above the projected limit is lowered to what fits, unless that is less than 2 % above the
//! last one.

mod project;

use plimsoll_model::Nanos;
use plimsoll_model::cycles::{CycleReading, CyclesSummary, Kept};
use plimsoll_model::hold::{
    HoldEnd, MemoryReading, Plateau, Projection, ServerFailure, Side, Swept,
};
use plimsoll_model::host::LimitId;
use plimsoll_model::storm::StormCounts;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{TrialRecord, TrialRequest};
use plimsoll_model::units::grouped;

use crate::cycles::judge_cycles;

pub(crate) use project::gauges_of;
pub use project::{Gauge, project};

/// The next level is at least this factor above the last one.
const WORTHWHILE: f64 = 1.02;

/// A limit of the server explains a shortfall if at least this share of it was in use. nginx closes
/// idle connections from 15/16 of `worker_connections` on.
const IN_USE_MIN: f64 = 0.9;

/// The levels of a staircase, and how long each part lasts.
#[derive(Clone, Debug, PartialEq)]
pub struct StaircaseSettings {
    /// Connections of each level, ascending, at least one; the last is what is asked for.
    pub levels: Vec<u64>,
    /// Wait at a level before memory is read.
    pub settle: Nanos,
    /// Time for which the last level is held.
    pub hold: Nanos,
    /// `true` if a level that lost connections, or did not answer, is the last one.
    pub ends_at_losses: bool,
    /// `true` if the hold ends once no connection is left.
    pub ends_when_empty: bool,
    /// Times that the last level is filled, held and drained; 0 leaves it held at the end.
    pub cycles: u32,
    /// Shares of the connections, 0 to 1, that are closed and opened again at these instants of the hold, ascending.
    pub reconnects: Vec<(Nanos, f64)>,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Read memory while nothing is held.
    Baseline,
    /// Open connections until this number has been attempted in total; 0 ends a ramp where it is.
    Ramp {
        /// Connections of the whole hold.
        connections: u64,
    },
    /// Give up the attempts in progress, and close connections until this number is held; from then on they count as
    /// the attempted ones.
    Trim {
        /// Connections of the whole hold.
        connections: u64,
    },
    /// Wait for this time.
    Settle(Nanos),
    /// Read memory.
    Measure,
    /// One request on every connection.
    Sweep,
    /// Cut this number of connections at once, until all of their clients are back.
    Storm {
        /// Connections of the whole hold.
        cut: u64,
        /// Each client waits a random part of this before an attempt, instead of what it was asked for.
        jitter: Option<Nanos>,
    },
    /// Read what the server still uses.
    ReadKept,
    /// Hold for this time.
    Hold(Nanos),
    /// Close everything.
    End,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Done {
    /// The end of [`Step::Settle`] and [`Step::Hold`].
    Waited,
    /// The end of [`Step::Ramp`].
    Ramped {
        /// Connections held now.
        held: u64,
        /// Duration of the ramp.
        took: Nanos,
    },
    /// The end of [`Step::Trim`].
    Trimmed,
    /// The end of [`Step::Storm`]: all clients are back.
    Stormed,
    /// The readings of [`Step::Baseline`] and [`Step::Measure`].
    Read {
        /// Memory.
        memory: MemoryReading,
        /// Each resource at this level.
        gauges: Vec<Gauge>,
    },
    /// The result of [`Step::Sweep`].
    Swept(Swept),
    /// The readings of [`Step::ReadKept`].
    Kept(Kept),
}

/// Progress of the current ramp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempts {
    /// Connections opened since the beginning of the hold.
    pub opened: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts of this ramp that failed.
    pub failed_in_ramp: u64,
    /// Held now.
    pub held: u64,
}

/// Decides the next step of a hold: a staircase of given levels, or a search for the level at
/// which the server fails.
pub trait HoldProcedure {
    /// `false` if [`Self::handle_tally`] needs no counts, so that they are not summed.
    const USES_TALLY: bool = true;

    /// Returns the next step.
    fn step(&self) -> Step;
    /// Handles the result of the step at `now`; the result of another step changes nothing.
    fn handle(&mut self, done: Done, now: Nanos);
    /// Takes the counts since the last step, and the connections held now; called before [`Self::handle`].
    fn handle_tally(&mut self, _tally: Tally, _held: u64) {}
    /// Takes the use of the host's memory during a ramp.
    fn handle_guard(&mut self, _gauges: &[Gauge]) {}
    /// Takes the progress of a ramp.
    fn handle_attempts(&mut self, _attempts: Attempts) {}
    /// Handles, during a storm, the counts of its clients at a time after the cut.
    fn handle_storm(&mut self, _counts: &StormCounts, _since: Nanos) {}
    /// Returns, during a storm, the share of its clients that stops trying now.
    fn poll_withdrawal(&mut self) -> Option<f64> {
        None
    }
    /// Ends the hold early: it was interrupted, or every agent was lost.
    fn handle_stop(&mut self);
    /// Returns the levels measured so far, if each is reported separately.
    fn plateaus(&self) -> &[Plateau] {
        &[]
    }
    /// Reports whether a hold ends once no connection is left.
    fn ends_when_empty(&self) -> bool {
        true
    }
    /// Returns the answer of the cycles completed so far; `None` if there are to be none.
    fn cycles(&self) -> Option<CyclesSummary> {
        None
    }
    /// Returns the level that is being tried, if levels are trials.
    fn trial(&self) -> Option<TrialRequest> {
        None
    }
    /// Returns the next level that was judged.
    fn poll_record(&mut self) -> Option<TrialRecord> {
        None
    }
}

/// A ramp that has opened no connection after this number of failures is ended.
const HOPELESS_FAILURES: u64 = 500;

/// The state of the staircase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Baseline,
    Ramping,
    /// A ramp that is being ended at its current level.
    Halting,
    Settling,
    Measuring,
    Sweeping,
    Holding,
    Cutting,
    Returning,
    LastSweep,
    Draining,
    Drained,
    ReadingKept,
    Ended,
}

/// Holds given levels of connections, one after another.
#[derive(Clone, Debug)]
pub struct Staircase {
    settings: StaircaseSettings,
    stage: Stage,
    target: u64,
    held: u64,
    took: Nanos,
    baseline: MemoryReading,
    plateaus: Vec<Plateau>,
    /// The gauges of each level, the empty one first.
    gauges: Vec<(u64, Vec<Gauge>)>,
    cycles: Vec<CycleReading>,
    /// Part of the hold that is over, and its reconnects.
    held_for: Nanos,
    reconnected: usize,
    last_sweep: Option<Swept>,
    /// The reason for which this host cannot hold more.
    cut: Option<String>,
    /// The failure of the server.
    failed_at: Option<ServerFailure>,
    /// No further level follows, whatever this one shows.
    is_last: bool,
    stopped: bool,
}

impl Staircase {
    /// Creates a staircase before its first step.
    pub fn new(settings: StaircaseSettings) -> Self {
        let target = settings.levels.first().copied().unwrap_or(0);
        Self {
            settings,
            stage: Stage::Baseline,
            target,
            held: 0,
            took: Nanos::ZERO,
            baseline: MemoryReading::default(),
            plateaus: Vec::new(),
            gauges: Vec::new(),
            cycles: Vec::new(),
            held_for: Nanos::ZERO,
            reconnected: 0,
            last_sweep: None,
            cut: None,
            failed_at: None,
            is_last: false,
            stopped: false,
        }
    }

    /// Returns the memory before anything was held.
    pub const fn baseline(&self) -> &MemoryReading {
        &self.baseline
    }

    /// Returns the last sweep.
    pub const fn last_sweep(&self) -> Option<Swept> {
        self.last_sweep
    }

    /// Returns the end of the hold.
    pub fn end(&self) -> HoldEnd {
        match (self.full_limit(), &self.failed_at, &self.cut) {
            _ if self.stopped || self.stage != Stage::Ended => HoldEnd::Unfinished,
            _ if self.held == 0 => HoldEnd::NothingHeld,
            (Some(full), _, _) => full,
            (None, Some(why), _) => HoldEnd::ServerFailed { why: *why },
            (None, None, Some(why)) => HoldEnd::CutShort { why: why.clone() },
            (None, None, None) => HoldEnd::Complete,
        }
    }

    /// Returns the projected limit of each resource, by name in the order of the last level's gauges.
    pub fn projections(&self) -> Vec<Projection> {
        let Some((_, last)) = self.gauges.last() else { return Vec::new() };
        last.iter().filter_map(|gauge| self.projection(&gauge.resource)).collect()
    }

    fn projection(&self, resource: &LimitId) -> Option<Projection> {
        project(&gauges_of(&self.gauges, resource))
    }

    /// Returns the reconnect that comes next in this hold.
    fn next_reconnect(&self) -> Option<(Nanos, f64)> {
        let next = self.settings.reconnects.get(self.reconnected).copied();
        next.filter(|(at, _)| *at < self.settings.hold)
    }

    /// Returns the end of the stretch of the hold that is in progress.
    fn hold_until(&self) -> Nanos {
        self.next_reconnect().map_or(self.settings.hold, |(at, _)| at.max(self.held_for))
    }

    /// Returns the connections that stay in the next reconnect.
    fn stay(&self) -> u64 {
        let share = self.next_reconnect().map_or(0.0, |(_, share)| share);
        self.held - (self.held as f64 * share).round() as u64
    }

    /// Returns the stage after a level was swept: the next one, or the hold.
    fn after_level(&mut self) -> Stage {
        if self.settings.ends_at_losses
            && !self.is_last
            && let Some(why) = self.losses()
        {
            self.failed_at = Some(why);
            self.is_last = true;
        }
        match self.next_level() {
            Some(level) => {
                self.target = level;
                Stage::Ramping
            }
            None if self.settings.hold > Nanos::ZERO => Stage::Holding,
            None => self.after_hold(),
        }
    }

    /// Returns the stage after the last level was held: the end, or the rest of a cycle.
    const fn after_hold(&self) -> Stage {
        if self.settings.cycles > 0 { Stage::Draining } else { Stage::Ended }
    }

    /// Returns the losses of the level that was just swept.
    fn losses(&self) -> Option<ServerFailure> {
        let plateau = self.plateaus.last()?;
        let swept = plateau.swept?;
        let Plateau { asked, held, .. } = *plateau;
        if held < asked {
            return Some(ServerFailure::Missing { count: asked - held, asked });
        }
        let count = swept.connections.saturating_sub(swept.answered);
        (count > 0).then_some(ServerFailure::Silent { count, asked })
    }

    /// Returns the limit of the server that the last level exceeded, if connections were missing or silent there.
    fn full_limit(&self) -> Option<HoldEnd> {
        self.losses()?;
        let asked = self.plateaus.last()?.asked;
        let (_, last) = self.gauges.last()?;
        let is_full = |gauge: &&Gauge| {
            gauge.side == Side::Server
                && gauge.used >= gauge.limit * IN_USE_MIN
                && self
                    .projection(&gauge.resource)
                    .and_then(|projection| projection.ends_at)
                    .is_some_and(|end| end <= asked)
        };
        let full = last.iter().filter(is_full);
        let full = full.max_by(|a, b| (a.used / a.limit).total_cmp(&(b.used / b.limit)))?;
        Some(HoldEnd::ServerFull {
            resource: full.resource.clone(),
            unit: full.resource.kind.unit(),
            used: full.used as u64,
            limit: full.limit as u64,
        })
    }

    fn next_level(&mut self) -> Option<u64> {
        if self.is_last {
            return None;
        }
        let next = self.settings.levels.iter().copied().find(|level| *level > self.target)?;
        // A limit of the server does not keep this host from asking for more.
        let gauges = self.gauges.last().into_iter().flat_map(|(_, gauges)| gauges);
        let ours = gauges.filter(|gauge| gauge.side != Side::Server);
        let projections = ours.filter_map(|gauge| self.projection(&gauge.resource));
        let first = projections.filter_map(|p| Some((p.ends_at_min?, p)));
        let Some((end, projection)) = first.min_by_key(|(end, _)| *end).filter(|(e, _)| *e < next)
        else {
            self.cut = None;
            return Some(next);
        };
        let (resource, likely) = (projection.resource, projection.ends_at.unwrap_or(end));
        self.cut = Some(format!("{resource} runs out at about {} connections", grouped(likely)));
        (end as f64 >= self.target as f64 * WORTHWHILE).then_some(end)
    }
}

impl HoldProcedure for Staircase {
    const USES_TALLY: bool = false;

    fn step(&self) -> Step {
        match self.stage {
            Stage::Baseline => Step::Baseline,
            Stage::Ramping | Stage::Returning => Step::Ramp { connections: self.target },
            Stage::Halting => Step::Ramp { connections: 0 },
            Stage::Settling | Stage::Drained => Step::Settle(self.settings.settle),
            Stage::Draining => Step::Trim { connections: 0 },
            Stage::ReadingKept => Step::ReadKept,
            Stage::Measuring => Step::Measure,
            Stage::Sweeping | Stage::LastSweep => Step::Sweep,
            Stage::Holding => Step::Hold(Nanos(self.hold_until().0 - self.held_for.0)),
            Stage::Cutting => Step::Trim { connections: self.stay() },
            Stage::Ended => Step::End,
        }
    }

    fn handle(&mut self, done: Done, _now: Nanos) {
        self.stage = match (self.stage, done) {
            (Stage::Baseline, Done::Read { memory, gauges }) => {
                self.baseline = memory;
                self.gauges.push((0, gauges));
                Stage::Ramping
            }
            (Stage::Ramping | Stage::Halting, Done::Ramped { held, took }) => {
                self.held = held;
                self.took = took;
                if held == 0 { Stage::Ended } else { Stage::Settling }
            }
            (Stage::Settling, Done::Waited) => Stage::Measuring,
            (Stage::Measuring, Done::Read { memory, gauges }) => {
                let (asked, held, ramp) = (self.target, self.held, self.took);
                self.plateaus.push(Plateau { asked, held, ramp, memory, swept: None });
                self.gauges.push((held, gauges));
                Stage::Sweeping
            }
            (Stage::Sweeping, Done::Swept(swept)) => {
                self.last_sweep = Some(swept);
                if let Some(plateau) = self.plateaus.last_mut() {
                    plateau.swept = Some(swept);
                }
                self.after_level()
            }
            (Stage::Holding, Done::Waited) => {
                self.held_for = self.hold_until();
                if self.next_reconnect().is_some() { Stage::Cutting } else { Stage::LastSweep }
            }
            (Stage::Cutting, Done::Trimmed) => Stage::Returning,
            (Stage::Returning, Done::Ramped { held, .. }) => {
                self.held = held;
                self.reconnected += 1;
                Stage::Holding
            }
            (Stage::LastSweep, Done::Swept(swept)) => {
                self.last_sweep = Some(swept);
                self.after_hold()
            }
            (Stage::Draining, Done::Trimmed) => Stage::Drained,
            (Stage::Drained, Done::Waited) => Stage::ReadingKept,
            (Stage::ReadingKept, Done::Kept(kept)) => {
                let full_bytes = self.plateaus.last().and_then(|plateau| plateau.memory.sut_bytes);
                let cycle = self.cycles.len() as u64 + 1;
                self.cycles.push(CycleReading { cycle, held: self.held, full_bytes, kept });
                let is_last = self.is_last || self.cycles.len() >= self.settings.cycles as usize;
                if is_last { Stage::Ended } else { Stage::Ramping }
            }
            (stage, _) => stage,
        };
    }

    // Ends a ramp at its current level when a resource is used up.
    fn handle_guard(&mut self, gauges: &[Gauge]) {
        let full = gauges.iter().find(|gauge| gauge.used >= gauge.limit);
        if let Some(full) = full
            && self.stage == Stage::Ramping
        {
            self.stage = Stage::Halting;
            self.cut = Some(format!("{} ran out during the ramp", full.resource));
            self.is_last = true;
        }
    }

    // Ends a ramp at its current level if the server accepts nothing.
    fn handle_attempts(&mut self, Attempts { opened, failed, .. }: Attempts) {
        if self.stage == Stage::Ramping && opened == 0 && failed >= HOPELESS_FAILURES {
            self.stage = Stage::Halting;
            self.failed_at = Some(ServerFailure::NoneOpened { failed });
            self.is_last = true;
        }
    }

    fn handle_stop(&mut self) {
        self.stopped = self.stopped || self.stage != Stage::Ended;
        self.stage = Stage::Ended;
    }

    fn plateaus(&self) -> &[Plateau] {
        &self.plateaus
    }

    fn ends_when_empty(&self) -> bool {
        self.settings.ends_when_empty
    }

    fn cycles(&self) -> Option<CyclesSummary> {
        let asked = self.settings.cycles;
        (asked > 0).then(|| judge_cycles(asked.into(), self.baseline.sut_bytes, &self.cycles))
    }
}

#[cfg(test)]
mod tests;
