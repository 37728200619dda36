//! Two servers in turn: blocks of A and of B, seconds each, so that whatever the host does to one it does
//! to the other as well.
//!
//! Where the loads are not the user's, each block has two: one below capacity, the same for both,
//! whose latency is compared, and one that saturates, whose goodput is. Both are chosen from a few short loads
//! before the first round. A duet has both blocks at the same time (`duet.rs`).

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;

use plimsoll_capacity::compare::{
    Blocks, Comparison, Pair, ROUNDS_MIN, compare, compare_any, orders,
};
use plimsoll_capacity::stats::upper_median;
use plimsoll_lab::Placement;
use plimsoll_model::Nanos;
use plimsoll_model::compare::{
    Arm, BlockLoad, BlockStart, BlockSummary, CompareSummary, Finding, MeasuredSummary, Metric,
    NoiseSummary, Order, OtherSummary, RoundSummary,
};
use plimsoll_model::event::Event;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::result::RunResult;
use plimsoll_model::trial::{Check, CheckId, Level, Measure};
use plimsoll_model::units::grouped;
use plimsoll_report::terminal::render_round_line;
use plimsoll_report::tui::Budget;

use super::in_turn::{End, FIRST, Load, Loads, Servers, SideServer, saturating};
use crate::exit::Stop;
use crate::plan::compare::CompareJob;
use crate::plan::load::LoadJob;
use crate::session::{Experiment, Outcome, Session};

mod block;
mod duet;

use duet::Duet;

/// More connections saturate a server that was not saturated, if they raise its goodput by this.
const RISE: f64 = 1.1;
/// How many times the usual connections are tried, where the user named no number.
pub(crate) const CONNECTIONS_TIMES_MAX: u64 = 8;
/// Part of the lesser goodput at which latencies are compared: busy, and far from a queue that grows.
const EQUAL_LOAD: f64 = 0.7;
/// A server whose busiest thread is less busy than this is not saturated.
const SATURATED_MIN: f64 = 0.9;

/// `plimsoll compare`.
pub(crate) struct CompareExperiment {
    job: CompareJob,
    loads: [LoadJob; 2],
    /// The most connections that both allow.
    connections_max: u64,
    /// Where each of them is, if they are.
    placements: [Option<Placement>; 2],
    /// Once it has begun.
    duet: Option<Duet>,
    runs: Loads,
    seen: Seen,
}

/// What was measured so far.
#[derive(Default)]
struct Seen {
    blocks: Vec<BlockSummary>,
    rounds: Vec<RoundSummary>,
    load: Option<BlockLoad>,
}

/// One of the two.
pub(crate) struct Side {
    /// What is sent to it.
    pub(crate) load: LoadJob,
    /// The most connections that may be tried; at least those of the load.
    pub(crate) connections_max: u64,
    /// Who answers.
    pub(crate) server: SideServer,
    /// Which CPUs are its own, in a laboratory.
    pub(crate) placement: Option<Placement>,
}

impl CompareExperiment {
    pub(crate) fn new(job: CompareJob, sides: [Side; 2]) -> Self {
        let mut arms = job.arms.iter();
        let connections_max = sides.iter().map(|side| side.connections_max).min().unwrap_or(1);
        let placements = sides.each_ref().map(|side| side.placement.clone());
        let [(load_a, a), (load_b, b)] = sides.map(|Side { mut load, server, .. }| {
            if arms.next().is_some_and(|arm| !arm.has_seed) {
                load.plan.seed = job.seed;
            }
            load.target_name = job.target_name();
            (load.out, load.json) = (job.out.clone(), job.json.clone());
            (load.ui, load.details) = (job.ui, job.details);
            (load, server)
        });
        let named = |arm: Arm, server| (arm.name().to_owned(), server);
        let runs = Loads::new(vec![named(Arm::A, a), named(Arm::B, b)]);
        let mut loads = [load_a, load_b];
        if let Some(first) = placements[0].as_ref().filter(|_| job.duet) {
            // The session's agents stay in the first half, whichever server is there.
            for load in &mut loads {
                load.plan.cpus.clone_from(&first.clients);
            }
        }
        let seen = Seen::default();
        Self { job, loads, connections_max, placements, duet: None, runs, seen }
    }

    /// Both servers, for the session.
    pub(crate) fn servers(&self) -> Servers {
        self.runs.servers.clone()
    }

    fn measure(&mut self, session: &Session<'_>) -> Result<(), End> {
        let is_own_load = self.job.of.is_load();
        if self.job.duet {
            let load = self.load().clone();
            self.duet = Some(Duet::begin(session, &load, &self.placements)?);
        }
        let mut restart = Nanos::ZERO;
        if !is_own_load {
            self.seen.load = Some(self.choose(session)?);
            // The first rounds meet servers as new as those of the others.
            let at = session.elapsed();
            self.runs.start_afresh()?;
            restart = session.elapsed().since(at);
        }
        let began = session.elapsed();
        let rounds = self.plan_blocks(session, restart);
        let orders = orders(rounds as usize, self.job.seed);
        for (order, number) in orders.into_iter().zip(1u32..) {
            self.runs.begin_round(session, number, self.job.budget)?;
            self.measure_round(session, order, number, rounds)?;
            if number == 1 && is_own_load {
                let all = Nanos(session.elapsed().since(began).0.saturating_mul(rounds.into()));
                session.note(format!("{rounds} rounds take about {all}"));
            }
            let invalid = self.seen.rounds.iter().filter(|round| round.ratio.is_none()).count();
            if (rounds as usize).saturating_sub(invalid) < ROUNDS_MIN {
                let why = "so many rounds were INVALID that too few could be left";
                return Err(End::Stopped(why.to_owned()));
            }
        }
        Ok(())
    }

    /// How many rounds fit where starting the servers again takes `restart`, and how long the loads
    /// of their blocks are.
    fn plan_blocks(&mut self, session: &Session<'_>, restart: Nanos) -> u32 {
        let (Some(load), Some(budget)) = (&mut self.seen.load, self.job.budget) else {
            return self.job.rounds;
        };
        let each = restart.as_secs_f64() / 2.0;
        let blocks = Blocks::within(
            budget.since(session.elapsed()),
            self.job.rounds as usize,
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

    /// Finds loads for the blocks: connections that saturate both, and a rate below what either
    /// takes. What a block costs beside its loads is told in `equal_s` until the blocks are planned.
    fn choose(&mut self, session: &Session<'_>) -> Result<BlockLoad, End> {
        let usual = self.loads.iter().map(|load| load.plan.connections).max().unwrap_or(1);
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
        self.job.budget.is_none_or(|budget| session.elapsed() + span <= budget)
    }

    /// What each serves over so many connections.
    fn first_loads(&mut self, session: &Session<'_>, connections: u64) -> Result<[f64; 2], End> {
        let first = |plan: &LoadPlan| saturating(plan, connections, FIRST);
        let loads = if self.duet.is_some() {
            self.begin_block(session, 0, Arm::A);
            self.run_both(session, Arm::A, first)?
        } else {
            let mut run = |arm: Arm| {
                self.begin_block(session, 0, arm);
                let plan = first(&self.loads[arm.index()].plan);
                self.runs.run(session, arm.name(), &plan)
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
        order: Order,
        number: u32,
        rounds: u32,
    ) -> Result<(), End> {
        let arms = match order {
            Order::Ab => Arm::BOTH,
            Order::Ba => [Arm::B, Arm::A],
        };
        for arm in arms {
            let began = session.elapsed();
            let mut blocks = if self.duet.is_some() {
                self.run_blocks_at_once(session, number, arm)?
            } else {
                vec![self.run_block(session, number, arm)?]
            };
            let seconds = session.elapsed().since(began).as_secs_f64();
            blocks.iter_mut().for_each(|block| block.seconds = seconds);
            self.seen.blocks.append(&mut blocks);
        }
        let metric = self.job.metrics[0];
        let round = self.round(metric, number, order);
        session.note(render_round_line(metric, self.job.of.unit(metric), rounds, &round));
        self.seen.rounds.push(round);
        Ok(())
    }

    /// What a round says of one figure.
    fn round(&self, metric: Metric, number: u32, order: Order) -> RoundSummary {
        let blocks = &self.seen.blocks;
        let measured = |arm| {
            let own = blocks.iter().filter(|block| block.round == number && block.arm == arm);
            MeasuredSummary {
                value: figure_of_round(metric, blocks, number, arm),
                invalid: own.clone().find_map(|block| block.invalid.clone()),
                seconds: own.map(|block| block.seconds).sum(),
            }
        };
        let (a, b) = (measured(Arm::A), measured(Arm::B));
        let ratio = pair(a.value, b.value).map(|pair| pair.b / pair.a);
        RoundSummary { number, order, a, b, ratio }
    }

    fn run_block(
        &mut self,
        session: &Session<'_>,
        round: u32,
        arm: Arm,
    ) -> Result<BlockSummary, End> {
        let start = self.begin_block(session, round, arm);
        let mut block = block::begun(start, session.elapsed());
        let plan = of_round(&self.loads[arm.index()].plan, round);
        let Some(load) = self.seen.load else {
            let open = !matches!(plan.pacing, Pacing::Closed { .. });
            let own = self.runs.run(session, arm.name(), &plan)?;
            block::add_own_load(&mut block, &own, open);
            block::add_host_speed(&mut block, &[&own]);
            return Ok(block);
        };
        // First what the other one has not heated up.
        let below = self.runs.run(session, arm.name(), &block::equal(&plan, &load))?;
        let full = self.runs.run(session, arm.name(), &block::full(&plan, &load))?;
        block::add_loads(&mut block, &below, &full);
        block::add_host_speed(&mut block, &[&below, &full]);
        Ok(block)
    }

    /// The blocks of both at the same time, `first` on the first half of the CPUs.
    fn run_blocks_at_once(
        &mut self,
        session: &Session<'_>,
        round: u32,
        first: Arm,
    ) -> Result<Vec<BlockSummary>, End> {
        let start = self.begin_block(session, round, first);
        let second = BlockStart { number: start.number + 1, arm: first.other(), ..start };
        let at = session.elapsed();
        let Some(load) = self.seen.load else { return Ok(Vec::new()) };
        let equal = |plan: &LoadPlan| block::equal(&of_round(plan, round), &load);
        let below = self.run_both(session, first, equal)?;
        let full = |plan: &LoadPlan| block::full(&of_round(plan, round), &load);
        let full = self.run_both(session, first, full)?;
        let loads = below.iter().zip(&full);
        Ok([start, second]
            .into_iter()
            .zip(loads)
            .map(|(start, (below, full))| {
                let mut block = block::begun(start, at);
                block::add_loads(&mut block, below, full);
                block
            })
            .collect())
    }

    /// Loads both at the same time with what `load` makes of their plans, `first` on the first half of the CPUs; its
    /// load is the first of those returned.
    fn run_both(
        &mut self,
        session: &Session<'_>,
        first: Arm,
        load: impl Fn(&LoadPlan) -> LoadPlan,
    ) -> Result<[Load; 2], End> {
        let Some(duet) = &mut self.duet else {
            return Err(End::Unmeasured("not a duet; report this as a bug".to_owned()));
        };
        let arms = [first, first.other()];
        let exchange = duet.place(&self.runs.servers, arms, session)?;
        let plans = [0, 1].map(|half| {
            let plan = load(&self.loads[arms[half].index()].plan);
            LoadPlan { cpus: duet.clients(half).to_vec(), ..plan }
        });
        let both = [0, 1].map(|half| (arms[half].name(), &plans[half]));
        let meanwhile = |running: &Receiver<()>| exchange.run(running);
        self.runs.run_both(session, both, &mut duet.agents, arms[1].index(), &meanwhile)
    }

    fn begin_block(&self, session: &Session<'_>, round: u32, arm: Arm) -> BlockStart {
        self.runs.servers.turn_to(arm.index());
        let number = if round == 0 { 0 } else { self.seen.blocks.len() as u32 + 1 };
        let start = BlockStart { number, round, arm };
        session.emit(&Event::BlockStarted(start));
        start
    }

    fn judge(&self) -> CompareSummary {
        let Self { job, seen, .. } = self;
        let pairs = |metric| pairs(metric, seen);
        let figures: Vec<_> = job.metrics.iter().map(|metric| pairs(*metric)).collect();
        let (place, found) = compare_any(&figures, job.threshold).unzip();
        let place = place.unwrap_or(0);
        let (metric, deciding) = (job.metrics[place], &figures[place]);
        let others = job.of.metrics().iter().filter(|other| **other != metric);
        let rounds = seen.rounds.iter().map(|round| self.round(metric, round.number, round.order));
        let [a, b] = &job.arms;
        CompareSummary {
            a: a.text.clone(),
            b: b.text.clone(),
            metric,
            unit: job.of.unit(metric).to_owned(),
            finding: found.map_or(Finding::Undecided, |found| found.finding),
            ratio: found.map(|found| found.ratio),
            ratio_low: found.map(|found| found.low),
            ratio_high: found.map(|found| found.high),
            ratio_observed: found.and_then(|found| found.observed),
            confidence: found.map(|found| found.confidence),
            p: found.map(|found| found.p),
            difference_max: found.map(|found| found.difference_max),
            threshold: job.threshold,
            noise: found.map(|found| NoiseSummary {
                cv: found.variation,
                half_width: found.half_width,
                floor: found.floor,
                detectable: found.detectable,
            }),
            rounds_planned: job.rounds,
            rounds_used: deciding.len() as u32,
            rounds_invalid: (seen.rounds.len() - deciding.len()) as u32,
            rounds: rounds.collect(),
            others: others
                .filter_map(|metric| {
                    let found = compare(&pairs(*metric), job.threshold)?;
                    Some(other(*metric, job.of.unit(*metric), &found))
                })
                .collect(),
            load: seen.load,
            blocks: seen.blocks.clone(),
            duet: job.duet,
            stopped: self.runs.stopped.clone(),
        }
    }

    /// Warns where the load did not saturate the servers, as far as that was seen.
    fn saturation(&self) -> Option<Check> {
        self.seen.load?;
        let blocks = self.seen.blocks.iter();
        let busy = upper_median(blocks.filter_map(|block| block.sut_busiest_thread))?;
        let measure = Measure::ratio("busiest thread", busy).at_least(SATURATED_MIN);
        Some(Check::new(CheckId::Saturated, Level::of(false, busy < SATURATED_MIN), [measure]))
    }
}

impl Experiment for CompareExperiment {
    fn load(&mut self) -> &mut LoadJob {
        // The agents are started for the larger pool.
        let [a, b] = &mut self.loads;
        if a.plan.connections < b.plan.connections { b } else { a }
    }

    fn budget(&self) -> Option<Budget> {
        self.job.budget.map(Budget::Elapsed)
    }

    fn always_archives(&self) -> bool {
        true
    }

    fn command_line(&self) -> Vec<String> {
        self.job.command_line(crate::flags::own_args())
    }

    fn settings(&mut self) -> BTreeMap<String, String> {
        self.job.settings()
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<Outcome, Stop> {
        let ended = self.measure(session);
        self.runs.end(ended)?;
        let compare = self.judge();
        let (usable, made) = (compare.rounds_used, compare.rounds.len() as u32);
        let mut outcome = self.runs.outcome(session, compare.ratio.is_some(), usable, made);
        outcome.reasons.extend(self.saturation());
        outcome.result = RunResult::Compare { compare: Box::new(compare) };
        Ok(outcome)
    }
}

fn other(metric: Metric, unit: &str, found: &Comparison) -> OtherSummary {
    OtherSummary {
        metric,
        unit: unit.to_owned(),
        finding: found.finding,
        a: found.a,
        b: found.b,
        ratio: found.ratio,
        ratio_low: found.low,
        ratio_high: found.high,
        p: found.p,
        detectable: found.detectable,
    }
}

/// The plan of a round: both sides see the same arrivals.
fn of_round(plan: &LoadPlan, round: u32) -> LoadPlan {
    let seed = plan.seed.wrapping_mul(1_000).wrapping_add(round.into());
    LoadPlan { seed, ..plan.clone() }
}

/// The figure of one side in a round that nothing has spoilt.
fn figure_of_round(metric: Metric, blocks: &[BlockSummary], round: u32, arm: Arm) -> Option<f64> {
    BlockSummary::figure_of_round(blocks, round, arm, |block| {
        block::figure(metric, block).filter(|_| block.invalid.is_none())
    })
}

fn pair(a: Option<f64>, b: Option<f64>) -> Option<Pair> {
    Pair::new(a?, b?)
}

/// The finished rounds that have a figure on both sides, with the speed of the host where the yardstick ran.
fn pairs(metric: Metric, seen: &Seen) -> Vec<Pair> {
    let of = |round, arm| figure_of_round(metric, &seen.blocks, round, arm);
    let expected = |round, arm| {
        BlockSummary::figure_of_round(&seen.blocks, round, arm, |block| expected(metric, block))
    };
    let finished = seen.rounds.iter().map(|round| round.number);
    let pair = |round| {
        let pair = pair(of(round, Arm::A), of(round, Arm::B))?;
        let both = expected(round, Arm::A).zip(expected(round, Arm::B));
        Some(both.map_or(pair, |(a, b)| pair.expecting(a, b)))
    };
    finished.filter_map(pair).collect()
}

/// What the figure of a block is in proportion to if it follows the speed of the server's host as a whole.
fn expected(metric: Metric, block: &BlockSummary) -> Option<f64> {
    let piece = block.yardstick_us?;
    match metric {
        // That of the clients' host.
        Metric::ClientCpu => None,
        metric if metric.more_is_better() => Some(1.0 / piece),
        _ => Some(piece),
    }
}
