//! Several laboratories in turn, each saturated for seconds: what a server carries at each value of its
//! settings, and how far that is from the first.

use plimsoll_capacity::compare::{ROUNDS_MIN, compare, turns};
use plimsoll_capacity::stats::median_of;
use plimsoll_model::Nanos;
use plimsoll_model::compare::{Arm, BlockSummary, Difference};
use plimsoll_model::host::LimitKind;
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::settings::Settings;
use plimsoll_model::sizing::{SizingSummary, SizingValue};

use super::in_turn::{ComparedServers, End, FIRST, FinishedLoad, Side, Turns, block, saturating};
use crate::exit::Result;
use crate::plan::in_turn::TurnsJob;
use crate::plan::load::LoadJob;
use crate::plan::sizing::BLOCK_MIN;
use crate::session::{Experiment, ExperimentResult, Session};

/// The shortest and the longest time that a value is saturated in one round, whole seconds.
const BLOCK_SECONDS: (u64, u64) = (2, 5);
/// One value: what its report shows, its figures still missing, and what loads it.
pub(crate) type Sized = (SizingValue, Side);

/// `plimsoll lab sweep`, and `tune --try`.
pub(crate) struct SizingExperiment {
    unit: &'static str,
    values: Vec<SizingValue>,
    turns: Turns,
    block: Nanos,
    rounds_planned: u32,
}

impl SizingExperiment {
    /// Creates a sweep over at least two values; `target` is the name of all of them in reports.
    pub(crate) fn new(job: TurnsJob, unit: &'static str, target: &str, values: Vec<Sized>) -> Self {
        let (mut values, sides): (Vec<_>, Vec<_>) = values.into_iter().unzip();
        let rounds_planned = job.rounds;
        let turns = Turns::new(job, target, sides);
        for (value, load) in values.iter_mut().zip(&turns.loads) {
            value.connections = load.plan.connections;
        }
        let block = Nanos::from_secs(BLOCK_SECONDS.0);
        Self { unit, values, turns, block, rounds_planned }
    }

    /// Returns all servers, for the session.
    pub(crate) fn servers(&self) -> ComparedServers {
        self.turns.servers.clone()
    }

    fn measure(&mut self, session: &Session<'_>) -> Result<(), End> {
        let began = session.elapsed();
        for place in 0..self.values.len() {
            self.run_load(session, place, FIRST)?;
            let limits = session.server().limits();
            let limit = limits.iter().find(|limit| limit.id.kind == LimitKind::Maxconn);
            let own = &mut self.values[place].connections_max;
            *own = own.or_else(|| limit.map(|limit| limit.max as u64));
        }
        let count = self.values.len() as u64;
        let between = (session.elapsed().since(began).0 / count).saturating_sub(FIRST.0);
        let budget = self.turns.job.budget.unwrap_or(Nanos::MAX);
        self.plan_rounds(budget.since(session.elapsed()), Nanos(between));
        session.note(format!(
            "{} values, {} rounds; in each every value is saturated for {} s",
            count,
            self.rounds_planned,
            self.block.as_secs_f64()
        ));
        let turns = turns(self.values.len(), self.rounds_planned as usize, self.turns.job.seed);
        for (turn, number) in turns.into_iter().zip(1u32..) {
            self.turns.begin_round(session, number)?;
            for place in turn {
                let mut block = self.turns.begin_block(session, number, Arm::at(place));
                let load = self.run_load(session, place, self.block)?;
                block::add_loads(&mut block, None, &load);
                block::add_host_speed(&mut block, &[&load]);
                self.turns.end_block(session, block);
            }
            self.turns.rounds_made = number;
            session.note(self.round_line(number));
        }
        Ok(())
    }

    /// Plans the number of rounds that fit, and longer blocks if there is time left.
    fn plan_rounds(&mut self, left: Nanos, between: Nanos) {
        let values = self.values.len() as f64;
        let shortest = values * (BLOCK_MIN + between).as_secs_f64();
        let fit = (left.as_secs_f64() / shortest) as u32;
        self.rounds_planned = fit.clamp(ROUNDS_MIN as u32, self.turns.job.rounds);
        let each = left.as_secs_f64() / (f64::from(self.rounds_planned) * values);
        let seconds = (each - between.as_secs_f64()) as u64;
        self.block = Nanos::from_secs(seconds.clamp(BLOCK_SECONDS.0, BLOCK_SECONDS.1));
    }

    fn round_line(&self, number: u32) -> String {
        let figure = |place| self.turns.figure(number, Arm::at(place), |block| block.goodput_per_s);
        let text = |goodput: Option<f64>| {
            goodput.map_or_else(|| "INVALID".to_owned(), |goodput| format!("{goodput:.0}"))
        };
        let figures: Vec<_> = (0..self.values.len()).map(|place| text(figure(place))).collect();
        format!("round {number} of {}: {} {}", self.rounds_planned, figures.join(", "), self.unit)
    }

    fn run_load(
        &mut self,
        session: &Session<'_>,
        place: usize,
        span: Nanos,
    ) -> Result<FinishedLoad, End> {
        let plan = &self.turns.loads[place].plan;
        let plan = saturating(plan, plan.connections, span);
        self.turns.run(session, place, &plan)
    }

    /// Returns the figures of every value.
    fn judge(&self) -> SizingSummary {
        let per_cpu = |block: &BlockSummary| Some(1e6 / block.server_cpu_us?);
        let values = self.values.iter().enumerate().map(|(place, value)| {
            let goodput = self.figures(place, |block| block.goodput_per_s);
            SizingValue {
                rounds_used: goodput.len() as u32,
                goodput_per_s: median_of(goodput),
                server_cpu_us: median_of(self.figures(place, |block| block.server_cpu_us)),
                per_cpu_per_s: median_of(self.figures(place, per_cpu)),
                sut_busiest_thread: median_of(
                    self.figures(place, |block| block.sut_busiest_thread),
                ),
                goodput: self.difference(place, |block| block.goodput_per_s),
                per_cpu: self.difference(place, per_cpu),
                ..value.clone()
            }
        });
        SizingSummary {
            unit: self.unit.to_owned(),
            block_s: self.block.as_secs_f64(),
            rounds_planned: self.rounds_planned,
            rounds_made: self.turns.rounds_made,
            values: values.collect(),
            blocks: self.turns.blocks.clone(),
            stopped: self.turns.stopped.clone(),
        }
    }

    fn figures(&self, place: usize, of: impl Fn(&BlockSummary) -> Option<f64>) -> Vec<f64> {
        let rounds = 1..=self.turns.rounds_made;
        rounds.filter_map(|round| self.turns.figure(round, Arm::at(place), &of)).collect()
    }

    /// The first value has no difference from itself.
    fn difference(
        &self,
        place: usize,
        of: impl Fn(&BlockSummary) -> Option<f64>,
    ) -> Option<Difference> {
        let arms = [Arm::A, Arm::at(place)];
        // As measured: values differ in what they do to the caches that the yardstick shares with the server.
        let pairs = self.turns.pairs(arms, of, |_| None);
        compare(&pairs, 0.0).filter(|_| place > 0)
    }
}

impl Experiment for SizingExperiment {
    fn load(&mut self) -> &mut LoadJob {
        self.turns.largest()
    }

    fn kind(&self) -> RunKind {
        RunKind::Sizing
    }

    fn always_archives(&self) -> bool {
        true
    }

    fn settings(&mut self) -> Settings {
        self.turns.job.settings(self.rounds_planned, false)
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<ExperimentResult> {
        let ended = self.measure(session);
        self.turns.end(ended)?;
        let sizing = self.judge();
        let fewest = sizing.values.iter().map(|value| value.rounds_used).min().unwrap_or(0);
        let is_sized = !sizing.is_cut_short();
        let mut outcome = self.turns.outcome(session, is_sized, fewest);
        outcome.result = RunResult::Sizing { sizing: Box::new(sizing) };
        Ok(outcome)
    }
}
