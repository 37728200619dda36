//! The end of the way up: the resource that is used up first, and the distance at which to stop.

use plimsoll_model::hold::{Confidence, Projection, Side};
use plimsoll_model::host::LimitId;
use plimsoll_model::units::grouped;

use crate::staircase::{Gauge, gauges_of, project};

/// Share of a projected limit that is used.
const STOP_AT: f64 = 0.85;
/// Levels below this part of the largest say little about it: what a process takes once, and
/// chance, weigh too much there.
const WINDOW: f64 = 0.1;
/// Levels that a fit needs; where there are fewer in the window, it reaches further down.
const WINDOW_LEVELS: usize = 4;
/// Levels, the empty one apart, from which a projection may end the search.
const TRUSTED_LEVELS: usize = 3;

/// The first limit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ceiling {
    pub(super) projection: Projection,
    pub(super) side: Side,
    /// Connections at which the resource ends: with caution if the fit is sound.
    pub(super) end: u64,
    /// The highest level to try.
    pub(super) stop: u64,
    /// Enough levels were fitted for it to end the search.
    pub(super) is_trusted: bool,
    /// The fit is so loose that it is only good for a guess.
    pub(super) is_vague: bool,
}

impl Ceiling {
    /// Describes the ceiling: `open files of server runs out at about 9,900 connections (confidence good)`.
    pub(super) fn words(&self) -> String {
        let Projection { resource, ends_at, confidence, .. } = &self.projection;
        let end = grouped(ends_at.unwrap_or(self.end));
        match confidence {
            Confidence::Exact => format!("{resource} runs out at {end} connections"),
            other => format!("{resource} runs out at about {end} connections ({})", word(*other)),
        }
    }
}

fn word(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::Low => "a rough guess",
        Confidence::Fair => "confidence fair",
        Confidence::Good => "confidence good",
        Confidence::Exact => "exact",
    }
}

/// Returns the projected limit of each resource, in the order of the last level's gauges.
pub(super) fn projections(levels: &[(u64, Vec<Gauge>)]) -> Vec<(Projection, Side)> {
    let Some((_, last)) = levels.last() else { return Vec::new() };
    last.iter()
        .filter_map(|gauge| Some((projection(levels, &gauge.resource)?, gauge.side)))
        .collect()
}

fn projection(levels: &[(u64, Vec<Gauge>)], resource: &LimitId) -> Option<Projection> {
    let all = gauges_of(levels, resource);
    let largest = all.last()?.0;
    let is_near = |held: u64| held as f64 >= largest as f64 * WINDOW;
    let occupied: Vec<_> = all.iter().copied().filter(|(held, _)| *held > 0).collect();
    let near: Vec<_> = occupied.iter().copied().filter(|(held, _)| is_near(*held)).collect();
    if near.len() >= WINDOW_LEVELS {
        project(&near)
    } else if occupied.len() >= TRUSTED_LEVELS {
        project(&occupied)
    } else {
        project(&all)
    }
}

/// Returns the resource that ends first, of those for which `counts` is true.
pub(super) fn first(
    levels: &[(u64, Vec<Gauge>)],
    counts: impl Fn(Side) -> bool,
) -> Option<Ceiling> {
    let occupied = levels.iter().filter(|(held, _)| *held > 0).count();
    let ceilings = projections(levels).into_iter().filter(|(_, side)| counts(*side)).filter_map(
        |(projection, side)| {
            let is_exact = projection.confidence == Confidence::Exact;
            // A wide interval is a reason to learn more, in small steps, and not to stop.
            let is_vague = projection.confidence == Confidence::Low && !projection.superlinear;
            let end = if is_vague { projection.ends_at } else { projection.ends_at_min }?;
            // A counted limit of the clients may be filled: it ends no process.
            let stop = match side {
                Side::Generator if is_exact => end,
                _ => (end as f64 * STOP_AT) as u64,
            };
            let is_trusted = is_exact || occupied >= TRUSTED_LEVELS;
            Some(Ceiling { projection, side, end, stop, is_trusted, is_vague })
        },
    );
    ceilings.min_by_key(|ceiling| ceiling.end)
}
