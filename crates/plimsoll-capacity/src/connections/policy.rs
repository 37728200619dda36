//! The policy: the next level, or the outcome, as a function of the levels so far.
//!
//! [`Known::after`] derives the bounds from the judged levels, [`decide`] maps them to a [`Decision`], and [`next`]
//! to a phase and a number of connections. Steps upwards are a factor of 2, 1.5 or less, the smaller the nearer the
//! first projected limit. Steps between the bounds follow, and then a soak and a second ramp confirm the result. No
//! state is stored: equal evidence gives an equal decision. Start reading at [`decide`].

use plimsoll_model::hold::{Projection, Side};
use plimsoll_model::trial::{Outcome, Phase, Stopped, Verdict};

use super::bounds::{Bounds, Collapse};
use super::ceiling::{self, Ceiling};
use super::evidence::Evidence;
use super::level::JudgedLevel;
use super::settings::ConnectionSettings;
use crate::staircase::Gauge;

/// INVALID levels in a row after which the generator is the limit.
const INVALID_MAX: usize = 2;
/// The most times that a lower bound may fail its soak.
const UNCONFIRMED_MAX: u32 = 2;

/// The evidence at the end of a level.
#[derive(Clone, Debug)]
pub(super) struct Known<'a> {
    pub(super) settings: &'a ConnectionSettings,
    evidence: &'a Evidence,
    pub(super) levels: &'a [JudgedLevel],
    pub(super) bounds: Bounds,
}

impl<'a> Known<'a> {
    /// Returns what was known after the first `count` levels.
    pub(super) fn after(count: usize, of: &'a Evidence, settings: &'a ConnectionSettings) -> Self {
        let levels = &of.levels[..count];
        Self { settings, evidence: of, levels, bounds: Bounds::of(levels, settings) }
    }

    /// Returns the gauges that were read up to the end of the level.
    pub(super) fn gauges(&self) -> &'a [(u64, Vec<Gauge>)] {
        &self.evidence.gauges[..self.levels.last().map_or(0, |level| level.readings)]
    }

    /// Returns the most connections that answered, at any level.
    pub(super) fn answered_max(&self) -> u64 {
        self.levels.iter().map(|level| level.answered).max().unwrap_or(0)
    }

    pub(super) fn is_out_of_time(&self) -> bool {
        let spent = self.levels.last().map(|level| level.ended.since(self.evidence.began));
        spent.is_some_and(|spent| spent >= self.settings.limits.budget)
    }

    /// Reports whether the last level, which was INVALID, is worth another try.
    fn may_repeat(&self, last: &JudgedLevel) -> bool {
        let levels = self.levels.iter().rev();
        let invalid = levels.take_while(|level| level.verdict() == Verdict::Invalid);
        !last.is_hard_limit && invalid.count() < INVALID_MAX
    }

    /// Returns the number of soaks that ended with `verdict`.
    pub(super) fn soaks(&self, verdict: Verdict) -> u32 {
        let is_soak = |level: &&JudgedLevel| level.phase == Phase::Confirm;
        self.levels.iter().filter(is_soak).filter(|level| level.verdict() == verdict).count() as u32
    }
}

/// A decision on the bounds.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decision {
    /// The last level is repeated.
    Again,
    /// Another level is tried.
    Level(Phase, u64),
    /// The bounds are found, and are to be confirmed.
    Found(Outcome),
    /// The projected limit of a resource ends the search; its bounds are to be confirmed.
    Limited(Ceiling),
    /// There is nothing more to try.
    End(Outcome),
}

/// Returns the next level; `None` at the end of the search.
pub(super) fn next(known: &Known<'_>) -> Option<(Phase, u64)> {
    let last = known.levels.last();
    if let Some(last) = last.filter(|last| is_after_bounds(last)) {
        let is_repeated = last.is_soak(Verdict::Invalid) && known.may_repeat(last);
        let phase = if is_repeated { Phase::Confirm } else { Phase::Reramp };
        return (is_repeated || last.is_soak(Verdict::Good)).then_some((phase, last.target));
    }
    match decide(known) {
        Decision::Again => last.map(|last| (last.phase, last.target)),
        Decision::Level(phase, target) => Some((phase, target)),
        Decision::Found(_) | Decision::Limited(_) => {
            let soaks = known.settings.limits.soak.0 > 0;
            let phase = if soaks { Phase::Confirm } else { Phase::Reramp };
            known.bounds.good().map(|good| (phase, good))
        }
        Decision::End(_) => None,
    }
}

/// Reports whether a level describes the bounds and leaves them as they are.
pub(super) fn is_after_bounds(level: &JudgedLevel) -> bool {
    let is_failed_soak = level.is_soak(Verdict::Bad);
    level.phase.is_after_search() && !is_failed_soak
}

/// Decides how the search for the bounds continues.
pub(super) fn decide(known: &Known<'_>) -> Decision {
    let (settings, bounds) = (known.settings, &known.bounds);
    let Some(last) = known.levels.last() else {
        return Decision::Level(Phase::Qualify, settings.lowest.min(settings.cap));
    };
    if last.verdict() == Verdict::Invalid {
        return match known.may_repeat(last) {
            true => Decision::Again,
            false => Decision::Found(limited_by_us(last)),
        };
    }
    if let Some(Collapse { why, is_sought, .. }) = bounds.collapse {
        return Decision::End(match is_sought {
            true => Outcome::Regular,
            false => Outcome::Unfinished { why: Stopped::ServerFailed { why } },
        });
    }
    if bounds.is_undecided() {
        return Decision::Again;
    }
    let has_no_good = last.phase == Phase::Confirm && bounds.good().is_none();
    if has_no_good || known.soaks(Verdict::Bad) >= UNCONFIRMED_MAX {
        return Decision::End(Outcome::Unfinished { why: Stopped::SoakFailed });
    }
    match (bounds.good(), bounds.bad) {
        (Some(good), None) => expand(known, good),
        _ => narrow(known),
    }
}

fn limited_by_us(last: &JudgedLevel) -> Outcome {
    let ran_out = last.cut.as_ref().map(|resource| format!("{resource} ran out during the ramp"));
    Outcome::GeneratorLimited { why: ran_out.unwrap_or_else(|| last.judgement.why()) }
}

fn expand(known: &Known<'_>, good: u64) -> Decision {
    let settings = known.settings;
    if good >= settings.cap {
        return Decision::Found(settings.at_cap.clone());
    }
    if known.is_out_of_time() {
        let cap = "the time limit of this mode; a slower mode continues".to_owned();
        return Decision::Found(Outcome::NotReached { cap });
    }
    let next = higher(known, good);
    match first_passed(known, next, |side| !settings.push || is_ours(side)) {
        None => Decision::Level(Phase::Expand, next),
        Some(first) if first.stop as f64 >= good as f64 * 1.02 => {
            Decision::Level(Phase::Expand, first.stop)
        }
        Some(first) => Decision::Limited(first),
    }
}

/// Returns the next level above `good`, as far as the first limit allows large steps.
fn higher(known: &Known<'_>, good: u64) -> u64 {
    // Limits of the clients are known beforehand and end no process: they need no small steps.
    let first = ceiling::first(known.gauges(), |side| side != Side::Generator);
    let first = first.as_ref();
    let is_far =
        |factor: &f64| first.is_none_or(|first| first.end as f64 > 2.0 * factor * good as f64);
    let step = |factor: f64| (factor * good as f64).ceil() as u64;
    let next = [2.0, 1.5].into_iter().find(is_far).map(step).unwrap_or_else(|| {
        // If the distance to the stop is known, one step of half of it replaces many small ones.
        let sound = first.filter(|first| first.is_trusted && !first.is_vague);
        let half = sound.map_or(0, |first| good + first.stop.saturating_sub(good) / 2);
        half.max(step(known.settings.limits.small_step))
    });
    next.clamp(good + 1, known.settings.cap)
}

/// Returns the first limit of those for which `counts` is true, if it ends the search below `next`.
fn first_passed(known: &Known<'_>, next: u64, counts: impl Fn(Side) -> bool) -> Option<Ceiling> {
    ceiling::first(known.gauges(), counts).filter(|first| first.is_trusted && first.stop < next)
}

/// Returns the projected limit of the server that a search without `push` would have stopped at.
pub(super) fn would_have_stopped(known: &Known<'_>) -> Option<Projection> {
    let is_expansion = match decide(known) {
        Decision::Level(phase, _) => phase == Phase::Expand,
        Decision::Limited(_) => true,
        _ => false,
    };
    let good = known.bounds.good().filter(|_| is_expansion)?;
    let passed = first_passed(known, higher(known, good), |side| !is_ours(side))?;
    Some(passed.projection)
}

/// Reports whether a shortage ends the search: a resource of the clients, whatever the server does; and a host
/// is never filled to its end.
pub(super) fn is_ours(side: Side) -> bool {
    side != Side::Server
}

fn narrow(known: &Known<'_>) -> Decision {
    let Known { settings, bounds, .. } = known;
    match bounds.next(settings.limits.width_max) {
        Some(target) if !known.is_out_of_time() => Decision::Level(Phase::Narrow, target),
        Some(_) => Decision::Found(Outcome::Unfinished { why: Stopped::TimeLimit }),
        None if bounds.good().is_none() => Decision::End(Outcome::FailsAtMinimum),
        None => Decision::Found(Outcome::Regular),
    }
}
