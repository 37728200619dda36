//! Bounds under noise: where the capacity differs from trial to trial by more than the grid's
//! cells are wide, the interval is made about two standard deviations wide, so that both bounds
//! are loads of which the verdicts speak clearly.

use plimsoll_model::trial::Outcome;

use crate::classify::LoadClass;

use super::noise::{Noise, noise};
use super::{OVERSHOOT_MAX, RateSearch, State, Want};

/// Width of an interval, in standard deviations of the capacity.
const WIDTH_SDS: f64 = 2.0;
/// Shifts of a bound before what was reached is called the answer.
const SHIFTS_MAX: u32 = 12;

/// Bounds that are kept apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    low: f64,
    high: f64,
    /// How far a bound moves that turned out to be the other one, in cells.
    step: i64,
    shifts: u32,
}

impl RateSearch {
    /// Cells of the grid that an interval has to be wide.
    pub(super) fn width_cells(&self) -> u32 {
        self.noise.map_or(1, |noise| self.grid.cells_of(WIDTH_SDS * noise.sd)).max(1)
    }

    /// Looks whether verdicts contradict each other so much that the interval has to be wider.
    pub(super) fn observe_noise(&mut self) {
        if !self.limits.widens || !self.is_noisy() {
            return;
        }
        self.noise =
            noise(&self.ledger).filter(|noise| self.grid.cells_of(WIDTH_SDS * noise.sd) > 1);
    }

    /// Bounds around the centre of the verdicts, as far apart as the noise asks.
    pub(super) fn spread(&mut self, noise: Noise) -> Want {
        let cells = i64::from(self.width_cells());
        let below = (noise.center * (-0.5 * WIDTH_SDS * noise.sd).exp())
            .max(self.settings.lowest.get() * (1.0 + 1e-9));
        let low = self.grid.step(below, 0);
        let high = self.grid.step(low, cells).min(self.cap());
        self.plan_spread(Spread { low, high, step: (cells / 2).max(1), shifts: 0 })
    }

    pub(super) fn plan_spread(&mut self, mut spread: Spread) -> Want {
        let lowest = self.settings.lowest.get();
        while spread.shifts < SHIFTS_MAX {
            match self.final_class_at(spread.low) {
                LoadClass::Lower => {}
                LoadClass::Undecided => {
                    self.state = State::Spread(spread);
                    return self.final_trial_at(spread.low);
                }
                LoadClass::Upper if spread.low <= lowest => break,
                LoadClass::Upper => {
                    spread.low = self.grid.step(spread.low, -spread.step).max(lowest);
                    spread.shifts += 1;
                    continue;
                }
            }
            match self.final_class_at(spread.high) {
                LoadClass::Upper => return self.confirm(spread.low, spread.high),
                LoadClass::Undecided => {
                    self.state = State::Spread(spread);
                    return self.final_trial_at(spread.high);
                }
                LoadClass::Lower => {
                    let limit = self.cap().min(self.first_bad * OVERSHOOT_MAX);
                    let above = self.grid.step(spread.high, spread.step).min(limit);
                    if above <= spread.high {
                        break;
                    }
                    spread.high = above;
                    spread.shifts += 1;
                }
            }
        }
        let why = "verdicts that contradict each other over a wide range of loads".to_owned();
        Want::Finish(Outcome::Unfinished { why })
    }
}
