//! The evidence of a search for connections: the levels that were judged, in their order, and the readings of the first
//! ramp. It is only appended to; the bounds, the policy and the answer are functions of it.

use plimsoll_model::Nanos;
use plimsoll_model::hold::{MemoryReading, Plateau, Swept};

use super::level::{JudgedLevel, LevelTrial};
use crate::staircase::Gauge;

/// The levels, and the readings of the first ramp.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// Start of the first level.
    pub(super) began: Nanos,
    /// Memory while nothing was held.
    pub(super) baseline: MemoryReading,
    pub(super) levels: Vec<JudgedLevel>,
    pub(super) plateaus: Vec<Plateau>,
    /// The gauges of each level, the empty one first.
    pub(super) gauges: Vec<(u64, Vec<Gauge>)>,
    /// `true` if connections were closed or failed, so that memory differs from a first ramp.
    pub(super) is_ramp_over: bool,
    /// The hold ended before the search did.
    pub(super) is_stopped: bool,
}

impl Evidence {
    /// Begins with the readings while nothing is held.
    pub(super) fn begin(&mut self, memory: MemoryReading, gauges: Vec<Gauge>, now: Nanos) {
        self.began = now;
        self.baseline = memory;
        self.gauges.push((0, gauges));
    }

    /// Appends the readings at a level; a repeated level adds no information on memory.
    pub(super) fn read(&mut self, level: &LevelTrial, memory: MemoryReading, gauges: Vec<Gauge>) {
        let is_new = self.gauges.last().is_none_or(|(held, _)| *held < level.held);
        if is_new && !self.is_ramp_over {
            let (asked, held, ramp) = (level.target, level.held, level.ramp_took);
            self.plateaus.push(Plateau { asked, held, ramp, memory, swept: None });
            self.gauges.push((held, gauges));
        }
    }

    /// Adds the worst sweep of a level with `held` connections to its readings.
    pub(super) fn swept(&mut self, held: u64, worst: Option<Swept>) {
        if !self.is_ramp_over
            && let Some(plateau) = self.plateaus.last_mut()
            && plateau.held == held
        {
            plateau.swept = worst;
        }
    }
}
