//! Two servers in turn: blocks of A and of B, seconds each, so that whatever the host does to one it does
//! to the other as well.
//!
//! Where the loads are not the user's, each block has two: one below capacity, the same for both,
//! whose latency is compared, and one that saturates, whose goodput is. Both are chosen from a few short loads
//! before the first round.

use std::collections::BTreeMap;

use plimsoll_capacity::compare::{
    Blocks, Comparison, Pair, ROUNDS_MIN, compare, compare_any, orders,
};
use plimsoll_model::Nanos;
use plimsoll_model::compare::{
    Arm, BlockLoad, BlockStart, BlockSummary, CompareSummary, Finding, MeasuredSummary, Metric,
    NoiseSummary, Order, OtherSummary, RoundSummary,
};
use plimsoll_model::event::Event;
use plimsoll_model::plan::Pacing;
use plimsoll_model::trial::{Check, CheckId, Level, Measure};
use plimsoll_model::units::grouped;
use plimsoll_report::terminal::render_round_line;
use plimsoll_report::tui::Budget;

use super::in_turn::{End, FIRST, Loads, ROUNDS_PER_START, Servers, SideServer, saturating};
use crate::exit::Stop;
use crate::plan::compare::CompareJob;
use crate::plan::load::LoadJob;
use crate::session::{Experiment, Outcome, Session};

mod block;

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
}

impl CompareExperiment {
    pub(crate) fn new(job: CompareJob, sides: [Side; 2]) -> Self {
        let mut arms = job.arms.iter();
        let connections_max = sides.iter().map(|side| side.connections_max).min().unwrap_or(1);
        let [(load_a, a), (load_b, b)] = sides.map(|Side { mut load, server, .. }| {
            if arms.next().is_some_and(|arm| !arm.has_seed) {
                load.plan.seed = job.seed;
            }
            load.target_name = job.target_name();
            (load.out, load.json, load.ui) = (job.out.clone(), job.json.clone(), job.ui);
            (load, server)
        });
        let named = |arm: Arm, server| (arm.name().to_owned(), server);
        let runs = Loads::new(vec![named(Arm::A, a), named(Arm::B, b)]);
        Self { job, loads: [load_a, load_b], connections_max, runs, seen: Seen::default() }
    }

    /// Both servers, for the session.
    pub(crate) fn servers(&self) -> Servers {
        self.runs.servers.clone()
    }

    fn measure(&mut self, session: &Session<'_>) -> Result<(), End> {
        let is_own_load = self.job.of.is_load();
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
        let each = restart.as_secs_f64() / f64::from(2 * ROUNDS_PER_START);
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
        let between = session.elapsed().since(began).since(Nanos(2 * FIRST.0));
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
        let mut goodput = [0.0; 2];
        for arm in Arm::BOTH {
            self.begin_block(session, 0, arm);
            let plan = saturating(&self.loads[arm.index()].plan, connections, FIRST);
            let load = self.runs.run(session, arm.name(), &plan)?;
            if let Some(why) = load.invalid {
                return Err(End::Stopped(format!("{}: {why}", arm.name())));
            }
            goodput[arm.index()] = load.goodput;
        }
        Ok(goodput)
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
            let mut block = self.run_block(session, number, arm)?;
            block.seconds = session.elapsed().since(began).as_secs_f64();
            self.seen.blocks.push(block);
        }
        let metric = self.job.metrics[0];
        let round = self.round(metric, number, order);
        session.note(render_round_line(metric, self.job.of.unit(metric), rounds, &round));
        self.seen.rounds.push(round);
        Ok(())
    }

    /// What a round says of one figure.
    fn round(&self, metric: Metric, number: u32, order: Order) -> RoundSummary {
        let measured = |arm| {
            let of = |block: &&BlockSummary| block.round == number && block.arm == arm;
            let block = self.seen.blocks.iter().find(of);
            MeasuredSummary {
                value: block.and_then(|block| figure_of(metric, block)),
                invalid: block.and_then(|block| block.invalid.clone()),
                seconds: block.map_or(0.0, |block| block.seconds),
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
        // Both see the same arrivals.
        let mut plan = self.loads[arm.index()].plan.clone();
        plan.seed = plan.seed.wrapping_mul(1_000).wrapping_add(round.into());
        let Some(load) = self.seen.load else {
            let open = !matches!(plan.pacing, Pacing::Closed { .. });
            let own = self.runs.run(session, arm.name(), &plan)?;
            block::add_own_load(&mut block, &own, open);
            return Ok(block);
        };
        // First what the other one has not heated up.
        let below = self.runs.run(session, arm.name(), &block::equal(&plan, &load))?;
        block::add_latency(&mut block, &below.tally.spans.corrected);
        block::add_load(&mut block, &below);
        let duration = Nanos::from_secs_f64(load.saturated_s);
        let full = saturating(&plan, load.connections, duration);
        let full = self.runs.run(session, arm.name(), &full)?;
        block.goodput_per_s = Some(full.goodput);
        block::add_load(&mut block, &full);
        block::add_server(&mut block, &[&below, &full]);
        Ok(block)
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
        let pairs = |metric| pairs(metric, &seen.blocks);
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
            confidence: found.map(|found| found.confidence),
            p: found.map(|found| found.p),
            difference_max: found.map(|found| found.difference_max),
            threshold: job.threshold,
            noise: found.map(|found| NoiseSummary {
                cv: found.variation,
                half_width: found.half_width,
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
            stopped: self.runs.stopped.clone(),
        }
    }

    /// Warns where the load did not saturate the servers, as far as that was seen.
    fn saturation(&self) -> Option<Check> {
        self.seen.load?;
        let mut busy: Vec<f64> =
            self.seen.blocks.iter().filter_map(|block| block.sut_busiest_thread).collect();
        busy.sort_by(f64::total_cmp);
        let busy = *busy.get(busy.len() / 2)?;
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
        self.job.args_redacted(std::env::args())
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
        outcome.compare = Some(compare);
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

/// The figure of a block that nothing has spoilt.
fn figure_of(metric: Metric, block: &BlockSummary) -> Option<f64> {
    block::figure(metric, block).filter(|_| block.invalid.is_none())
}

fn pair(a: Option<f64>, b: Option<f64>) -> Option<Pair> {
    Pair::new(a?, b?)
}

/// The rounds that have a figure on both sides.
fn pairs(metric: Metric, blocks: &[BlockSummary]) -> Vec<Pair> {
    let of = |round: &[BlockSummary], arm| {
        round.iter().find(|block| block.arm == arm).and_then(|block| figure_of(metric, block))
    };
    let rounds = blocks.chunk_by(|one, next| one.round == next.round);
    rounds.filter_map(|round| pair(of(round, Arm::A), of(round, Arm::B))).collect()
}
