//! Servers that are measured in turn: how many rounds, in which time, and where the result goes.

use plimsoll_model::Nanos;
use plimsoll_model::settings::{Settings, TurnsSettings};

use super::load::LoadJob;
use crate::flags::shared::OutputFlags;

/// The rounds of a comparison or of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TurnsJob {
    /// Rounds to make, at most.
    pub(crate) rounds: u32,
    /// No round begins that would end after this.
    pub(crate) budget: Option<Nanos>,
    /// Seed of the order, and of arrivals that have no own.
    pub(crate) seed: u64,
    /// Output of the archive and the summary, and their display.
    pub(crate) output: OutputFlags,
}

impl TurnsJob {
    /// Returns the settings that shape the measurement, of which `rounds` were planned.
    pub(crate) fn settings(&self, rounds: u32, duet: bool) -> Settings {
        let budget_s = self.budget.map(Nanos::as_secs_f64);
        let turns = TurnsSettings { rounds, budget_s, seed: self.seed, duet };
        Settings { turns: Some(turns), ..Settings::default() }
    }

    /// Reports `load` as one of this measurement, which reports call `target`.
    pub(crate) fn adopt(&self, load: &mut LoadJob, target: &str) {
        target.clone_into(&mut load.target_name);
        load.output = self.output.clone();
    }
}
