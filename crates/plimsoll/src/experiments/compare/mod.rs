//! Two servers in turn: blocks of A and of B, seconds each, so that whatever the host does to one it does
//! to the other as well.
//!
//! If the loads are not the user's, each block has two: one below capacity, the same for both,
//! whose latency is compared, and one that saturates, whose goodput is. Both are chosen from a few short loads
//! before the first round. A duet has both blocks at the same time (`duet.rs`).

use std::sync::mpsc::Receiver;

use plimsoll_capacity::compare::{Blocks, Pair, ROUNDS_MIN, compare, compare_any, turns};
use plimsoll_capacity::stats::median_of;
use plimsoll_lab::Placement;
use plimsoll_model::Nanos;
use plimsoll_model::compare::{
    Arm, BlockLoad, BlockSummary, CompareSummary, MeasuredSummary, Metric, OtherSummary,
    RoundSummary,
};
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::settings::Settings;
use plimsoll_model::trial::{Check, CheckId, Level, Measure};
use plimsoll_model::units::grouped;
use plimsoll_report::terminal::render_round_line;
use plimsoll_report::tui::Budget;

use super::in_turn::block::figure;
use super::in_turn::{ComparedServers, End, FIRST, FinishedLoad, Side, Turns, block, saturating};
use crate::exit::Result;
use crate::plan::compare::CompareJob;
use crate::plan::load::LoadJob;
use crate::session::{Experiment, ExperimentResult, Session};

mod duet;

use duet::Duet;

/// More connections saturate a server that was not saturated, if they raise its goodput by this.
const RISE: f64 = 1.1;
/// The most times the usual connections that are tried, if the user gave no number.
pub(crate) const CONNECTIONS_TIMES_MAX: u64 = 8;
/// Part of the lesser goodput at which latencies are compared: busy, and far from a queue that grows.
const EQUAL_LOAD: f64 = 0.7;
/// A server whose busiest thread is less busy than this is not saturated.
const SATURATED_MIN: f64 = 0.9;

/// `plimsoll compare`.
pub(crate) struct CompareExperiment {
    job: CompareJob,
    /// The most connections that both allow.
    connections_max: u64,
    /// CPUs of each server, if they are pinned.
    placements: [Option<Placement>; 2],
    /// Once it has begun.
    duet: Option<Duet>,
    turns: Turns,
    /// Rounds by the first figure.
    rounds: Vec<RoundSummary>,
    /// The loads of each block, where they are not the user's.
    load: Option<BlockLoad>,
}

impl CompareExperiment {
    pub(crate) fn new(job: CompareJob, mut sides: [Side; 2]) -> Self {
        let connections_max = sides.iter().map(|side| side.connections_max).min().unwrap_or(1);
        let placements = sides.each_ref().map(|side| side.placement.clone());
        for (Side { load, .. }, arm) in sides.iter_mut().zip(&job.arms) {
            if !arm.has_seed {
                load.plan.seed = job.turns.seed;
            }
            if let Some(first) = placements[0].as_ref().filter(|_| job.duet) {
                // The session's agents stay in the first half, whichever server is there.
                load.plan.cpus.clone_from(&first.clients);
            }
        }
        let turns = Turns::new(job.turns.clone(), &job.target_name(), sides.into());
        let (rounds, load) = (Vec::new(), None);
        Self { job, connections_max, placements, duet: None, turns, rounds, load }
    }

    /// Returns both servers, for the session.
    pub(crate) fn servers(&self) -> ComparedServers {
        self.turns.servers.clone()
    }

    fn measure(&mut self, session: &Session<'_>) -> Result<(), End> {
        let is_own_load = self.job.of.is_load();
        if self.job.duet {
            let load = self.turns.largest().clone();
            self.duet = Some(Duet::begin(session, &load, &self.placements)?);
        }
        let mut restart = Nanos::ZERO;
        if !is_own_load {
            self.load = Some(self.choose(session)?);
            // The first rounds meet servers as new as those of the others.
            let at = session.elapsed();
            self.turns.start_afresh()?;
            restart = session.elapsed().since(at);
        }
        let began = session.elapsed();
        let rounds = self.plan_blocks(session, restart);
        let turns = turns(2, rounds as usize, self.job.turns.seed);
        for (turn, number) in turns.into_iter().zip(1u32..) {
            self.turns.begin_round(session, number)?;
            self.measure_round(session, Arm::at(turn[0]), number, rounds)?;
            if number == 1 && is_own_load {
                let all = Nanos(session.elapsed().since(began).0.saturating_mul(rounds.into()));
                session.note(format!("{rounds} rounds take about {all}"));
            }
            let invalid = self.rounds.iter().filter(|round| round.ratio.is_none()).count();
            if (rounds as usize).saturating_sub(invalid) < ROUNDS_MIN {
                let why = "too many rounds were INVALID: too few valid ones would be left";
                return Err(End::Stopped(why.to_owned()));
            }
        }
        Ok(())
    }

    /// Plans the rounds that fit if starting the servers again takes `restart`, and the length of the loads
    /// of their blocks are.
    fn plan_blocks(&mut self, session: &Session<'_>, restart: Nanos) -> u32 {
        let (Some(load), Some(budget)) = (&mut self.load, self.job.turns.budget) else {
            return self.job.turns.rounds;
        };
        let each = restart.as_secs_f64() / 2.0;
        let blocks = Blocks::within(
            budget.since(session.elapsed()),
            self.job.turns.rounds as usize,
            Nanos::from_secs_f64(load.equal_s + each),
        );
        (load.equal_s, load.saturated_s) =
            (blocks.equal.as_secs_f64(), blocks.saturated.as_secs_f64());
        session.note(format!(
            "{} rounds; in each block {:.1} s at {:.0}/s and {} s saturated by {} connections",
            blocks.rounds,
            load.equal_s,
            load.equal_per_s,
            load.saturated_s,
            grouped(load.connections)
        ));
        blocks.rounds as u32
    }

    /// Finds loads for the blocks: connections that saturate both sides, and a rate that both sustain. Until the blocks
    /// are planned, `equal_s` has the time of a block beside its loads.
    fn choose(&mut self, session: &Session<'_>) -> Result<BlockLoad, End> {
        let usual = self.turns.loads.iter().map(|load| load.plan.connections).max().unwrap_or(1);
        let most = self.connections_max.min(usual * CONNECTIONS_TIMES_MAX);
        let began = session.elapsed();
        let mut connections = usual;
        let mut goodput = self.first_loads(session, connections)?;
        // A block has two loads.
        let at_once = if self.duet.is_some() { 1 } else { 2 };
        let between = session.elapsed().since(began).since(Nanos(at_once * FIRST.0));
        let between = Nanos(between.0 * 2 / at_once);
        let mut step = session.elapsed().since(began);
        // What is left after another step has to be enough for the fewest rounds.
        while connections * 2 <= most && self.has_time(session, step + Blocks::shortest(between)) {
            let began = session.elapsed();
            let more = self.first_loads(session, connections * 2)?;
            if !more.iter().zip(&goodput).any(|(more, less)| *more > less * RISE) {
                break;
            }
            step = session.elapsed().since(began);
            (connections, goodput) = (connections * 2, more);
        }
        let [a, b] = goodput;
        session.note(format!(
            "saturated by {} connections, A serves about {a:.0}/s and B {b:.0}/s",
            grouped(connections)
        ));
        Ok(BlockLoad {
            connections,
            saturated_s: FIRST.as_secs_f64(),
            equal_per_s: (a.min(b) * EQUAL_LOAD).max(1.0).round(),
            equal_s: between.as_secs_f64(),
        })
    }

    fn has_time(&self, session: &Session<'_>, span: Nanos) -> bool {
        self.job.turns.budget.is_none_or(|budget| session.elapsed() + span <= budget)
    }

    /// Measures what each server carries over this many connections.
    fn first_loads(&mut self, session: &Session<'_>, connections: u64) -> Result<[f64; 2], End> {
        let first = |plan: &LoadPlan| saturating(plan, connections, FIRST);
        let loads = if self.duet.is_some() {
            self.turns.begin_block(session, 0, Arm::A);
            self.run_both(session, Arm::A, first)?
        } else {
            let mut run = |arm: Arm| {
                self.turns.begin_block(session, 0, arm);
                let plan = first(&self.turns.loads[arm.index()].plan);
                self.turns.run(session, arm.index(), &plan)
            };
            [run(Arm::A)?, run(Arm::B)?]
        };
        for (arm, load) in Arm::BOTH.iter().zip(&loads) {
            if let Some(why) = &load.invalid {
                return Err(End::Stopped(format!("{}: {why}", arm.name())));
            }
        }
        Ok(loads.map(|load| load.goodput))
    }

    fn measure_round(
        &mut self,
        session: &Session<'_>,
        first: Arm,
        number: u32,
        rounds: u32,
    ) -> Result<(), End> {
        for arm in [first, first.other()] {
            match self.load.filter(|_| self.job.duet) {
                Some(load) => self.run_blocks_at_once(session, number, arm, &load)?,
                None => self.run_block(session, number, arm)?,
            }
        }
        self.turns.rounds_made = number;
        let metric = self.job.metrics[0];
        let round = self.round(metric, number, first);
        session.note(render_round_line(metric, rounds, &round));
        self.rounds.push(round);
        Ok(())
    }

    /// Summarises one figure of a round.
    fn round(&self, metric: Metric, number: u32, first: Arm) -> RoundSummary {
        let measured = |arm| {
            let is_own = |block: &&BlockSummary| block.round == number && block.arm == arm;
            let own = self.turns.blocks.iter().filter(is_own);
            MeasuredSummary {
                value: self.turns.figure(number, arm, |block| figure(metric, block)),
                invalid: own.clone().find_map(|block| block.invalid.clone()),
                seconds: own.map(|block| block.seconds).sum(),
            }
        };
        let (a, b) = (measured(Arm::A), measured(Arm::B));
        let pair = a.value.zip(b.value).and_then(|(a, b)| Pair::new(a, b));
        RoundSummary { number, first, a, b, ratio: pair.map(|pair| pair.b / pair.a) }
    }

    /// Returns the finished rounds that have a figure on both sides.
    fn pairs(&self, metric: Metric) -> Vec<Pair> {
        let expected = |piece| match metric {
            // That of the clients' host.
            Metric::ClientCpu => None,
            metric if metric.more_is_better() => Some(1.0 / piece),
            _ => Some(piece),
        };
        self.turns.pairs(Arm::BOTH, |block| figure(metric, block), expected)
    }

    fn run_block(&mut self, session: &Session<'_>, round: u32, arm: Arm) -> Result<(), End> {
        let mut block = self.turns.begin_block(session, round, arm);
        let plan = of_round(&self.turns.loads[arm.index()].plan, round);
        if let Some(load) = self.load {
            // First what the other one has not heated up.
            let below = self.turns.run(session, arm.index(), &block::equal(&plan, &load))?;
            let full = self.turns.run(session, arm.index(), &block::full(&plan, &load))?;
            block::add_loads(&mut block, Some(&below), &full);
            block::add_host_speed(&mut block, &[&below, &full]);
        } else {
            let own = self.turns.run(session, arm.index(), &plan)?;
            block::add_own_load(&mut block, &own, !matches!(plan.pacing, Pacing::Closed { .. }));
            block::add_host_speed(&mut block, &[&own]);
        }
        self.turns.end_block(session, block);
        Ok(())
    }

    /// Runs the blocks of both sides at the same time, `first` on the first half of the CPUs.
    fn run_blocks_at_once(
        &mut self,
        session: &Session<'_>,
        round: u32,
        first: Arm,
        load: &BlockLoad,
    ) -> Result<(), End> {
        let block = self.turns.begin_block(session, round, first);
        let equal = |plan: &LoadPlan| block::equal(&of_round(plan, round), load);
        let below = self.run_both(session, first, equal)?;
        let full = |plan: &LoadPlan| block::full(&of_round(plan, round), load);
        let full = self.run_both(session, first, full)?;
        let (number, arm) = (block.number + 1, first.other());
        let second = BlockSummary { number, arm, ..block.clone() };
        for (mut block, (below, full)) in [block, second].into_iter().zip(below.iter().zip(&full)) {
            block::add_loads(&mut block, Some(below), full);
            self.turns.end_block(session, block);
        }
        Ok(())
    }

    /// Loads both at the same time with what `load` makes of their plans, `first` on the first half of the CPUs; its
    /// load is the first of those returned.
    fn run_both(
        &mut self,
        session: &Session<'_>,
        first: Arm,
        load: impl Fn(&LoadPlan) -> LoadPlan,
    ) -> Result<[FinishedLoad; 2], End> {
        let Some(duet) = &mut self.duet else {
            return Err(End::Unmeasured("not a duet; report this as a bug".to_owned()));
        };
        let arms = [first, first.other()];
        let exchange = duet.place(&self.turns.servers, arms, session)?;
        let plans = [0, 1].map(|half| {
            let plan = load(&self.turns.loads[arms[half].index()].plan);
            LoadPlan { cpus: duet.clients(half).to_vec(), ..plan }
        });
        let both = [0, 1].map(|half| (arms[half].index(), &plans[half]));
        let meanwhile = |running: &Receiver<()>| exchange.run(running);
        self.turns.run_both(session, both, &mut duet.agents, &meanwhile)
    }

    fn judge(&self) -> CompareSummary {
        let Self { job, turns, .. } = self;
        let figures: Vec<_> = job.metrics.iter().map(|metric| self.pairs(*metric)).collect();
        let (place, found) = compare_any(&figures, job.threshold).unzip();
        let place = place.unwrap_or(0);
        let (metric, deciding) = (job.metrics[place], &figures[place]);
        let others = job.of.metrics().iter().filter(|other| **other != metric);
        let rounds = self.rounds.iter().map(|round| self.round(metric, round.number, round.first));
        let [a, b] = &job.arms;
        CompareSummary {
            a: a.text.clone(),
            b: b.text.clone(),
            metric,
            unit: job.of.unit(metric).to_owned(),
            difference: found,
            threshold: job.threshold,
            rounds_planned: job.turns.rounds,
            rounds_used: deciding.len() as u32,
            rounds_invalid: (self.rounds.len() - deciding.len()) as u32,
            rounds: rounds.collect(),
            others: others
                .filter_map(|metric| {
                    let difference = compare(&self.pairs(*metric), job.threshold)?;
                    let unit = job.of.unit(*metric).to_owned();
                    Some(OtherSummary { metric: *metric, unit, difference })
                })
                .collect(),
            load: self.load,
            blocks: turns.blocks.clone(),
            duet: job.duet,
            stopped: turns.stopped.clone(),
        }
    }

    /// Warns where the load did not saturate the servers, as far as that was seen.
    fn saturation(&self) -> Option<Check> {
        self.load?;
        let busy = self.turns.blocks.iter().filter_map(|block| block.sut_busiest_thread);
        let busy = median_of(busy)?;
        let measure = Measure::ratio("busiest thread", busy).at_least(SATURATED_MIN);
        Some(Check::new(CheckId::Saturated, Level::of(false, busy < SATURATED_MIN), [measure]))
    }
}

impl Experiment for CompareExperiment {
    fn load(&mut self) -> &mut LoadJob {
        self.turns.largest()
    }

    fn kind(&self) -> RunKind {
        RunKind::Compare
    }

    fn budget(&self) -> Option<Budget> {
        self.job.turns.budget.map(Budget::Elapsed)
    }

    fn always_archives(&self) -> bool {
        true
    }

    fn command_line(&self) -> Vec<String> {
        self.job.command_line(crate::flags::own_args())
    }

    fn settings(&mut self) -> Settings {
        self.job.turns.settings(self.job.turns.rounds, self.job.duet)
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<ExperimentResult> {
        let ended = self.measure(session);
        self.turns.end(ended)?;
        let compare = self.judge();
        let is_settled = compare.difference.is_some();
        let mut outcome = self.turns.outcome(session, is_settled, compare.rounds_used);
        outcome.reasons.extend(self.saturation());
        outcome.result = RunResult::Compare { compare: Box::new(compare) };
        Ok(outcome)
    }
}

/// Returns the plan of a round: both sides see the same arrivals.
fn of_round(plan: &LoadPlan, round: u32) -> LoadPlan {
    let seed = plan.seed.wrapping_mul(1_000).wrapping_add(round.into());
    LoadPlan { seed, ..plan.clone() }
}
