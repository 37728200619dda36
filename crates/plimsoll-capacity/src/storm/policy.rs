//! The next storm, or the end of the search: a pure function of the evidence.
//!
//! A wrong guess costs storms and never a bound: the length of a storm, or how many clients were back in time, only
//! decides which storm comes next.

use plimsoll_model::trial::{Outcome, Phase, Unsettled};
use plimsoll_model::units::grouped;

use super::evidence::Evidence;
use super::fit::Fit;
use super::settings::StormSettings;

/// The first storm, as a share of the connections.
const FIRST: f64 = 0.1;
/// A storm after a GOOD one is larger by a factor between these.
const UP: (f64, f64) = (1.5, 4.0);
/// Share of the predicted limit that is tried.
const PREDICTED: f64 = 0.9;
/// A storm after BAD ones alone is smaller by this factor.
const DOWN: u64 = 4;
/// A bracket wider than this, relative, is narrowed by what was back in time.
const WIDE: f64 = 1.25;
/// Storms that an interval needs.
const TRIALS_MIN: usize = 6;
/// A wider interval says nothing, relative.
const WIDTH_MAX: f64 = 0.6;
/// A storm that differs more from one to the next (a standard deviation) is no number.
const SPREAD_MAX: f64 = 0.15;
/// Standard deviations by which the verdicts may be less likely than the model predicts.
const SURPRISE_MAX: f64 = 4.0;
/// Sizes that are compared for the next storm.
const CANDIDATES: u32 = 48;

/// Ratio of the smallest storm that does not end to the largest that ends, at which the search for them stops.
const ENDLESS_WIDTH: f64 = 1.25;

/// Storms by their end.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Ends {
    /// The largest storm, below those that do not, that ended by itself.
    pub(super) ended_max: Option<u64>,
    /// The smallest storm that did not.
    pub(super) endless_min: Option<u64>,
    /// Clients of a storm that does not end have stopped trying, to see with how many it ends.
    pub(super) has_tried_withdrawal: bool,
}

impl Ends {
    /// Returns the next storm that shows where storms no longer end: the largest one first. The smallest that does not
    /// end is repeated, to measure what it needs to end.
    fn next(self, evidence: &Evidence, highest: u64) -> Option<u64> {
        if evidence.at(highest) == (0, 0) {
            return Some(highest);
        }
        let endless = self.endless_min?;
        self.between().or_else(|| (!self.has_tried_withdrawal).then_some(endless))
    }

    /// Returns a size between storms that ended and that did not, while those are far apart.
    fn between(self) -> Option<u64> {
        let (ended, endless) = (self.ended_max? as f64, self.endless_min? as f64);
        (endless > ENDLESS_WIDTH * ended).then(|| (ended * endless).sqrt().round() as u64)
    }

    /// Reports whether the next storm that does not end is the one whose clients stop trying.
    pub(super) fn is_withdrawal_next(self) -> bool {
        self.endless_min.is_some() && !self.has_tried_withdrawal && self.between().is_none()
    }
}

/// The next step of a search.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Next {
    /// A storm that cuts this number of connections.
    Storm(u64, Phase),
    /// The search has ended.
    Finish(Outcome),
}

/// Returns the next step; `exhausted` if no further storm may be made.
pub(super) fn next(
    evidence: &Evidence,
    fit: Option<&Fit>,
    settings: &StormSettings,
    ends: Ends,
    exhausted: Option<Unsettled>,
) -> Next {
    if let Some(outcome) = settled(evidence, fit, settings) {
        let further = ends.next(evidence, settings.highest);
        let further = further.filter(|_| exhausted.is_none() && outcome == Outcome::Regular);
        return match further {
            Some(cut) => Next::Storm(cut, Phase::Overload),
            None => Next::Finish(outcome),
        };
    }
    if let Some(why) = exhausted {
        return Next::Finish(unsettled(evidence, fit, why));
    }
    let (lowest, highest) = (settings.lowest, settings.highest);
    match (evidence.good_max(), evidence.bad_min()) {
        (None, None) => {
            let first = (settings.connections as f64 * FIRST) as u64;
            Next::Storm(first.clamp(lowest, highest), Phase::Qualify)
        }
        (None, Some(bad)) => Next::Storm((bad.cut / DOWN).max(lowest), Phase::Qualify),
        (Some(good), None) => {
            let cut = good.cut as f64;
            let up = good.recovered.map_or(2.0, |recovered| {
                let left = settings.recover.as_secs_f64() / recovered.as_secs_f64().max(1e-3);
                (PREDICTED * left).clamp(UP.0, UP.1)
            });
            Next::Storm(((cut * up).ceil() as u64).clamp(lowest, highest), Phase::Expand)
        }
        (Some(good), Some(bad)) => {
            let wide = bad.cut as f64 > WIDE * good.cut as f64;
            let hinted = (good.cut + 1..bad.cut).contains(&bad.back_in_time);
            let cut = match (wide && hinted, fit) {
                (true, _) => bad.back_in_time,
                (false, Some(fit)) => most_informative(fit),
                (false, None) => good.cut,
            };
            Next::Storm(cut.clamp(lowest, highest), Phase::Narrow)
        }
    }
}

/// Returns the size that says most about the largest storm.
fn most_informative(fit: &Fit) -> u64 {
    let (from, to) = (fit.quantile(0.02).max(1.0).ln(), fit.quantile(0.98).max(1.0).ln());
    let at = |step: u32| from + (to - from) * f64::from(step) / f64::from(CANDIDATES);
    let sizes = (0..=CANDIDATES).map(|step| at(step).exp().round() as u64);
    let informative = sizes.map(|cut| (cut, fit.information(cut.max(1))));
    informative.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(1, |(cut, _)| cut)
}

/// Returns the outcome, once no further storm is needed.
fn settled(evidence: &Evidence, fit: Option<&Fit>, settings: &StormSettings) -> Option<Outcome> {
    let fit = fit?;
    let (good_at_highest, bad_at_highest) = evidence.at(settings.highest);
    let (_, bad_at_lowest) = evidence.at(settings.lowest);
    if evidence.good_max().is_none() && bad_at_lowest >= 2 {
        return Some(Outcome::FailsAtMinimum);
    }
    let is_above = evidence.bad_min().is_none() || fit.lower >= settings.highest;
    if good_at_highest >= 2 && bad_at_highest == 0 && is_above {
        let highest = grouped(settings.highest);
        let cap = match settings.highest == settings.connections {
            true => format!("all {highest} connections were cut"),
            false => format!("{highest} connections, --max"),
        };
        return Some(Outcome::NotReached { cap });
    }
    let is_enough = evidence.storms.len() >= TRIALS_MIN && fit.width() <= settings.limits.width_max;
    (is_enough && contradiction(fit).is_none() && has_both(evidence)).then_some(Outcome::Regular)
}

fn has_both(evidence: &Evidence) -> bool {
    evidence.good_max().is_some() && evidence.bad_min().is_some()
}

/// Returns the reason for which one number does not explain the storms.
fn contradiction(fit: &Fit) -> Option<Unsettled> {
    if fit.surprise() > SURPRISE_MAX {
        return Some(Unsettled::Contradiction { sds: fit.surprise() });
    }
    (fit.spread() > SPREAD_MAX).then(|| Unsettled::Spread { sd: fit.spread() })
}

/// Returns the outcome if no further storm may be made, for `why`.
pub(super) fn unsettled(evidence: &Evidence, fit: Option<&Fit>, why: Unsettled) -> Outcome {
    let Some(fit) = fit.filter(|_| has_both(evidence)) else {
        return match evidence.good_max() {
            Some(_) => Outcome::Bounds { why },
            None => Outcome::Undecided { why },
        };
    };
    match contradiction(fit) {
        Some(why) => Outcome::Bounds { why },
        None if fit.width() > WIDTH_MAX => Outcome::Bounds { why },
        None => Outcome::Regular,
    }
}
