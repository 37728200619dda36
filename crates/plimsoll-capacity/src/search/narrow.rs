//! Closing in: which load of a bracket to measure next, from what the ledger holds.
//!
//! Bounds come from MLRsearch's classification alone; the bracket only says where to look.

use plimsoll_model::Nanos;
use plimsoll_model::trial::{Outcome, Phase};

use crate::classify::{LoadClass, SearchGoal, classify};

use super::ledger::Entry;
use super::noise::carries_unevenly;
use super::{OVERSHOOT_MAX, RateSearch, State, Want};

/// Stages of narrowing: cells of the grid that the bracket may be wide at the end of each.
const STAGE_CELLS: [u32; 3] = [4, 2, 1];
const STAGE_LAST: usize = STAGE_CELLS.len() - 1;
/// Share of trial time that may be bad at a lower bound.
const EXCEED_RATIO: f64 = 0.5;
/// Loads with mixed verdicts that show a noise wider than a cell.
const MIXED_LOADS_NOISY: usize = 2;
/// A majority of five from then on.
const REPEATS_NOISY: u64 = 5;
/// Moves of the bracket without a trial in between; each one uses up a measured load.
const MOVES_MAX: usize = 1_000;

/// Where the tipping point is believed to be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bracket {
    stage: usize,
    pub(crate) low: f64,
    /// The lowest load believed bad.
    pub(crate) high: f64,
    probe: Probe,
}

/// How the next load inside a bracket is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Probe {
    /// In the middle.
    Split,
    /// A bound was overturned by noise, so the truth is likely near it: so many cells below the
    /// upper bound, doubling on each miss.
    Down(i64),
    /// So many cells above the lower bound.
    Up(i64),
    /// Where an overloaded server's own pace says that the truth is, operations per second.
    Expect(f64),
}

impl Bracket {
    pub(crate) fn new(low: f64, high: f64) -> Self {
        Self { stage: 0, low, high, probe: Probe::Split }
    }

    /// Looks near `per_s` first.
    pub(crate) fn expecting(self, per_s: f64) -> Self {
        let inside = per_s > self.low && per_s < self.high;
        Self { probe: if inside { Probe::Expect(per_s) } else { Probe::Split }, ..self }
    }

    /// The lower bound turned out to be an upper one: look below it.
    pub(crate) fn overturned(self) -> Self {
        Self { stage: STAGE_LAST, low: self.low, high: self.low, probe: Probe::Down(1) }
    }
}

impl RateSearch {
    fn stage_trial(&self, stage: usize) -> (Nanos, u64) {
        let (first, last) = (self.limits.initial_trial, self.limits.final_trial);
        match stage {
            0 => (first, 1),
            // The geometric mean of the two.
            1 => {
                let mean_s = (first.as_secs_f64() * last.as_secs_f64()).sqrt();
                (Nanos::from_secs_f64(mean_s), 2.min(self.limits.repeats))
            }
            _ => (last, self.repeats()),
        }
    }

    /// Full-length trials that decide a bound. One load near the tipping point may well be GOOD
    /// once and BAD once; where two are, noise is wider than a cell and a majority of three errs
    /// too often.
    fn repeats(&self) -> u64 {
        // With bounds that are kept apart three verdicts are as clear.
        let near = self.ledger.mixed() >= MIXED_LOADS_NOISY && self.noise.is_none();
        if near { self.limits.repeats.max(REPEATS_NOISY) } else { self.limits.repeats }
    }

    pub(super) fn is_noisy(&self) -> bool {
        self.ledger.mixed() >= MIXED_LOADS_NOISY
            || carries_unevenly(&self.ledger, self.limits.width_max)
    }

    fn stage_goal(&self, stage: usize, load: f64) -> SearchGoal {
        let (shortest, repeats) = self.stage_trial(stage);
        let final_trial = self.trial_length(load, shortest);
        SearchGoal {
            final_trial,
            duration_sum: Nanos(final_trial.0.saturating_mul(repeats)),
            exceed_ratio: EXCEED_RATIO,
        }
    }

    /// What decides a bound at `load` for good.
    pub(super) fn final_goal(&self, load: f64) -> SearchGoal {
        self.stage_goal(STAGE_LAST, load)
    }

    pub(super) fn final_class(&self, entry: &Entry) -> LoadClass {
        self.entry_class(STAGE_LAST, entry)
    }

    fn entry_class(&self, stage: usize, entry: &Entry) -> LoadClass {
        if entry.condemned {
            return LoadClass::Upper;
        }
        classify(&entry.trials, &self.stage_goal(stage, entry.load))
    }

    fn class(&self, stage: usize, load: f64) -> LoadClass {
        match self.ledger.entries().find(|entry| entry.load == load) {
            Some(entry) => self.entry_class(stage, entry),
            None => LoadClass::Undecided,
        }
    }

    pub(super) fn final_class_at(&self, load: f64) -> LoadClass {
        self.class(STAGE_LAST, load)
    }

    pub(super) fn final_trial_at(&self, load: f64) -> Want {
        self.trial_at(STAGE_LAST, load)
    }

    fn trial_at(&self, stage: usize, load: f64) -> Want {
        Want::Trial(Phase::Narrow, load, self.stage_goal(stage, load).final_trial)
    }

    /// Moves the bracket as far as the ledger decides it, then asks for the trial that is missing.
    pub(super) fn plan_narrow(&mut self, mut bracket: Bracket) -> Want {
        self.observe_noise();
        for _ in 0..MOVES_MAX {
            if let Some(noise) = self.noise
                && self.grid.within(bracket.low, bracket.high, self.width_cells())
            {
                return self.spread(noise);
            }
            if let Some(want) = self.settle_low(&mut bracket) {
                self.state = State::Narrow(bracket);
                return want;
            }
            if let Some(want) = self.settle_high(&mut bracket) {
                return want;
            }
            if self.class(bracket.stage, bracket.high) != LoadClass::Upper {
                // The upper bound moved: its new place is judged in the next round.
                continue;
            }
            let cells = STAGE_CELLS[bracket.stage].max(self.width_cells());
            if self.grid.within(bracket.low, bracket.high, cells) {
                if bracket.stage == STAGE_LAST {
                    return self.confirm(bracket.low, bracket.high);
                }
                bracket.deepen(self.grid.within(bracket.low, bracket.high, 1));
                continue;
            }
            let Some(inside) = self.inside(&bracket) else {
                // No load of the grid lies inside, so the bracket is within a cell after all.
                let why = "an interval that cannot be split".to_owned();
                return Want::Finish(Outcome::Unfinished { why });
            };
            match self.class(bracket.stage, inside) {
                LoadClass::Undecided => {
                    let want = self.trial_at(bracket.stage, inside);
                    self.state = State::Narrow(bracket);
                    return want;
                }
                LoadClass::Upper => bracket.miss_above(inside),
                LoadClass::Lower => bracket.miss_below(inside),
            }
        }
        Want::Finish(Outcome::Unfinished { why: "verdicts that contradict each other".to_owned() })
    }

    /// The relevant lower bound: the largest one below every upper bound. Settled first, because
    /// a lower bound that was luck makes all work above it void.
    fn settle_low(&self, bracket: &mut Bracket) -> Option<Want> {
        let stage = bracket.stage;
        let upper = self
            .ledger
            .entries()
            .find(|entry| self.entry_class(stage, entry) == LoadClass::Upper)
            .map(|entry| entry.load);
        if let Some(upper) = upper.filter(|upper| *upper < bracket.high) {
            bracket.miss_above(upper);
        }
        if bracket.low >= bracket.high {
            let below = |entry: &&Entry| entry.load < bracket.high;
            let fallback = self.ledger.entries().find(below).map(|entry| entry.load);
            let believed = self
                .ledger
                .entries()
                .rev()
                .filter(below)
                .find(|entry| entry.leans_good())
                .map(|entry| entry.load);
            let Some(low) = believed.or(fallback) else {
                return Some(Want::Finish(Outcome::FailsAtMinimum));
            };
            bracket.low = low;
            bracket.probe = Probe::Down(1);
        }
        let better = self
            .ledger
            .entries()
            .rev()
            .find(|e| e.load < bracket.high && self.entry_class(stage, e) == LoadClass::Lower)
            .map(|entry| entry.load);
        if let Some(better) = better.filter(|better| *better > bracket.low) {
            bracket.miss_below(better);
        }
        match self.class(stage, bracket.low) {
            LoadClass::Undecided => Some(self.trial_at(stage, bracket.low)),
            // An upper bound at `low` has become `high` above.
            LoadClass::Lower | LoadClass::Upper => None,
        }
    }

    fn settle_high(&mut self, bracket: &mut Bracket) -> Option<Want> {
        match self.class(bracket.stage, bracket.high) {
            LoadClass::Upper => None,
            LoadClass::Undecided => {
                self.state = State::Narrow(*bracket);
                Some(self.trial_at(bracket.stage, bracket.high))
            }
            LoadClass::Lower => self.look_above(bracket),
        }
    }

    /// The upper bound was bad luck: the next load above it that leans bad, or a step outward.
    fn look_above(&mut self, bracket: &mut Bracket) -> Option<Want> {
        let cells = match bracket.probe {
            Probe::Up(cells) => cells * 2,
            Probe::Split | Probe::Down(_) | Probe::Expect(_) => {
                i64::from(STAGE_CELLS[bracket.stage])
            }
        };
        bracket.probe = Probe::Up(cells);
        bracket.low = bracket.high;
        let known = self
            .ledger
            .entries()
            .find(|entry| entry.load > bracket.low && entry.leans_bad())
            .map(|entry| entry.load);
        let limit = self.cap().min(self.first_bad * OVERSHOOT_MAX);
        let above = known.unwrap_or_else(|| self.grid.step(bracket.low, cells).min(limit));
        // Above the generator's ceiling no load can be judged; expansion knows how to go near it.
        let judged = self.ceiling.as_ref().is_none_or(|(ceiling, _)| above < *ceiling);
        if above > bracket.low && judged {
            bracket.high = above;
            return None;
        }
        if bracket.low >= self.cap() {
            return Some(Want::Finish(self.met_at_cap()));
        }
        // Twice the load at which expansion ended is GOOD, so it ended by bad luck; or what is
        // left lies below the generator's ceiling.
        Some(self.expand_again(bracket.low))
    }

    fn inside(&self, bracket: &Bracket) -> Option<f64> {
        let probed = match bracket.probe {
            Probe::Split => None,
            Probe::Down(cells) => Some(self.grid.step(bracket.high, -cells)),
            Probe::Up(cells) => Some(self.grid.step(bracket.low, cells)),
            // The highest load of the grid that should be GOOD.
            Probe::Expect(per_s) => Some(self.grid.step(per_s, 0)),
        };
        probed
            .filter(|load| *load > bracket.low && *load < bracket.high)
            .filter(|load| !near(*load, bracket.low) && !near(*load, bracket.high))
            .or_else(|| self.grid.split(bracket.low, bracket.high, STAGE_CELLS[bracket.stage]))
    }
}

impl Bracket {
    /// On to a finer stage: the next, or the last where no coarser one has anything to find.
    fn deepen(&mut self, narrow: bool) {
        self.stage = if narrow { STAGE_LAST } else { self.stage + 1 };
        self.probe = Probe::Split;
    }

    /// `load` inside the bracket is an upper bound.
    fn miss_above(&mut self, load: f64) {
        self.high = load;
        self.probe = match self.probe {
            Probe::Down(cells) => Probe::Down(cells * 2),
            Probe::Expect(_) => Probe::Down(1),
            Probe::Split | Probe::Up(_) => Probe::Split,
        };
    }

    /// `load` inside the bracket is a lower bound.
    fn miss_below(&mut self, load: f64) {
        self.low = load;
        self.probe = match self.probe {
            Probe::Up(cells) => Probe::Up(cells * 2),
            Probe::Expect(_) => Probe::Up(1),
            Probe::Split | Probe::Down(_) => Probe::Split,
        };
    }
}

/// Equal but for rounding: the same cell of the grid reached from two sides.
fn near(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() < 1e-9
}
