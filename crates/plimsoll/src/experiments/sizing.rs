//! Several laboratories in turn, each saturated for seconds: what a server carries at each value of its
//! settings, and how far that is from the first.

use std::collections::BTreeMap;

use plimsoll_capacity::compare::{Comparison, Pair, ROUNDS_MIN, compare, turns};
use plimsoll_capacity::stats::median_of;
use plimsoll_model::Nanos;
use plimsoll_model::host::LimitKind;
use plimsoll_model::result::RunResult;
use plimsoll_model::sizing::{
    SizingBlock, SizingDifference, SizingRound, SizingSummary, SizingValue,
};

use super::in_turn::{End, FIRST, Load, Loads, Servers, SideServer, saturating};
use crate::exit::Stop;
use crate::plan::load::LoadJob;
use crate::plan::sizing::{BLOCK_MIN, SizingRun};
use crate::session::{Experiment, Outcome, Session};

/// The shortest and the longest time that a value is saturated in one round, whole seconds.
const BLOCK_SECONDS: (u64, u64) = (2, 5);
/// One value: what its report shows, and what loads it.
pub(crate) struct Sized {
    /// Its figures are still missing.
    pub(crate) value: SizingValue,
    pub(crate) load: LoadJob,
    pub(crate) server: SideServer,
}

/// `plimsoll lab sweep`, and `tune --try`.
pub(crate) struct SizingExperiment {
    run: SizingRun,
    unit: &'static str,
    values: Vec<SizingValue>,
    loads: Vec<LoadJob>,
    runs: Loads,
    rounds: Vec<SizingRound>,
    block: Nanos,
    rounds_planned: u32,
}

impl SizingExperiment {
    /// At least two values; `target` is what reports call all of them.
    pub(crate) fn new(
        run: SizingRun,
        unit: &'static str,
        target: &str,
        values: Vec<Sized>,
    ) -> Self {
        let (mut shown, mut loads, mut servers) = (Vec::new(), Vec::new(), Vec::new());
        for Sized { mut value, mut load, server } in values {
            value.connections = load.plan.connections;
            servers.push((value.name.clone(), server));
            load.target_name = target.to_owned();
            (load.out, load.json) = (run.out.clone(), run.json.clone());
            (load.ui, load.details) = (run.ui, run.details);
            shown.push(value);
            loads.push(load);
        }
        Self {
            unit,
            values: shown,
            loads,
            runs: Loads::new(servers),
            rounds: Vec::new(),
            block: Nanos::from_secs(BLOCK_SECONDS.0),
            rounds_planned: run.rounds,
            run,
        }
    }

    /// All servers, for the session.
    pub(crate) fn servers(&self) -> Servers {
        self.runs.servers.clone()
    }

    fn measure(&mut self, session: &Session<'_>) -> Result<(), End> {
        let began = session.elapsed();
        for place in 0..self.loads.len() {
            self.run_block(session, place, FIRST)?;
            let limits = session.server().limits();
            let limit = limits.iter().find(|limit| limit.id.kind == LimitKind::Maxconn);
            let own = &mut self.values[place].connections_max;
            *own = own.or_else(|| limit.map(|limit| limit.max as u64));
        }
        let count = self.loads.len() as u64;
        let between = (session.elapsed().since(began).0 / count).saturating_sub(FIRST.0);
        self.plan_rounds(self.run.budget.since(session.elapsed()), Nanos(between));
        session.note(format!(
            "{} values, {} rounds; in each every value is saturated for {} s",
            count,
            self.rounds_planned,
            self.block.as_secs_f64()
        ));
        let turns = turns(self.loads.len(), self.rounds_planned as usize, self.run.seed);
        for (turn, number) in turns.into_iter().zip(1u32..) {
            self.runs.begin_round(session, number, Some(self.run.budget))?;
            let mut blocks = Vec::new();
            for place in turn {
                let load = self.run_block(session, place, self.block)?;
                blocks.push(block(place, &load));
            }
            session.note(self.round_line(number, &blocks));
            self.rounds.push(SizingRound { number, blocks });
        }
        Ok(())
    }

    /// As many rounds as fit, and longer blocks where there is time left.
    fn plan_rounds(&mut self, left: Nanos, between: Nanos) {
        let values = self.loads.len() as f64;
        let shortest = values * (BLOCK_MIN + between).as_secs_f64();
        let fit = (left.as_secs_f64() / shortest) as u32;
        self.rounds_planned = fit.clamp(ROUNDS_MIN as u32, self.run.rounds);
        let each = left.as_secs_f64() / (f64::from(self.rounds_planned) * values);
        let seconds = (each - between.as_secs_f64()) as u64;
        self.block = Nanos::from_secs(seconds.clamp(BLOCK_SECONDS.0, BLOCK_SECONDS.1));
    }

    fn round_line(&self, number: u32, blocks: &[SizingBlock]) -> String {
        let mut blocks: Vec<_> = blocks.iter().collect();
        blocks.sort_by_key(|block| block.value);
        let figures: Vec<_> = blocks
            .iter()
            .map(|block| match &block.invalid {
                None => format!("{:.0}", block.goodput_per_s),
                Some(_) => "INVALID".to_owned(),
            })
            .collect();
        format!("round {number} of {}: {} {}", self.rounds_planned, figures.join(", "), self.unit)
    }

    fn run_block(&mut self, session: &Session<'_>, place: usize, span: Nanos) -> Result<Load, End> {
        self.runs.servers.turn_to(place);
        let plan = &self.loads[place].plan;
        let plan = saturating(plan, plan.connections, span);
        self.runs.run(session, &self.values[place].name, &plan)
    }

    /// The figures of every value.
    fn judge(&self) -> SizingSummary {
        let values = self.values.iter().enumerate().map(|(place, value)| {
            let goodput = self.figures(place, |block| Some(block.goodput_per_s));
            let cpu = self.figures(place, |block| block.server_cpu_us);
            let per_cpu = |block: &SizingBlock| Some(1e6 / block.server_cpu_us?);
            SizingValue {
                goodput_per_s: median_of(goodput.clone()),
                server_cpu_us: median_of(cpu),
                per_cpu_per_s: median_of(self.figures(place, per_cpu)),
                sut_busiest_thread: median_of(
                    self.figures(place, |block| block.sut_busiest_thread),
                ),
                goodput: self.difference(place, |block| Some(block.goodput_per_s)),
                per_cpu: self.difference(place, per_cpu),
                rounds_used: goodput.len() as u32,
                ..value.clone()
            }
        });
        SizingSummary {
            unit: self.unit.to_owned(),
            block_s: self.block.as_secs_f64(),
            rounds_planned: self.rounds_planned,
            rounds_made: self.rounds.len() as u32,
            values: values.collect(),
            rounds: self.rounds.clone(),
            stopped: self.runs.stopped.clone(),
        }
    }

    fn figures(&self, place: usize, of: impl Fn(&SizingBlock) -> Option<f64>) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| figure(round, place, &of)).collect()
    }

    /// The first value has no difference from itself.
    fn difference(
        &self,
        place: usize,
        of: impl Fn(&SizingBlock) -> Option<f64>,
    ) -> Option<SizingDifference> {
        if place == 0 {
            return None;
        }
        let pair = |round| Pair::new(figure(round, 0, &of)?, figure(round, place, &of)?);
        let pairs: Vec<Pair> = self.rounds.iter().filter_map(pair).collect();
        compare(&pairs, 0.0).map(|found| difference(&found))
    }
}

/// The figure of a value in a round that nothing has spoilt.
fn figure(
    round: &SizingRound,
    place: usize,
    of: &impl Fn(&SizingBlock) -> Option<f64>,
) -> Option<f64> {
    let block = round.blocks.iter().find(|block| block.value as usize == place)?;
    of(block).filter(|figure| block.invalid.is_none() && figure.is_finite())
}

fn block(place: usize, load: &Load) -> SizingBlock {
    let ok = load.tally.ok;
    let ran = load.server.filter(|_| ok > 0).map(|times| times.ran.as_secs_f64());
    SizingBlock {
        value: place as u32,
        goodput_per_s: load.goodput,
        server_cpu_us: ran.filter(|ran| *ran > 0.0).map(|ran| ran * 1e6 / ok as f64),
        sut_busiest_thread: load.sut_busiest_thread,
        invalid: load.invalid.clone(),
    }
}

fn difference(found: &Comparison) -> SizingDifference {
    SizingDifference {
        finding: found.finding,
        ratio: found.ratio,
        ratio_low: found.low,
        ratio_high: found.high,
        confidence: found.confidence,
        p: found.p,
    }
}

impl Experiment for SizingExperiment {
    fn load(&mut self) -> &mut LoadJob {
        // The agents are started for the largest pool.
        let most = self.loads.iter().map(|load| load.plan.connections).max();
        let place = self.loads.iter().position(|load| Some(load.plan.connections) == most);
        &mut self.loads[place.unwrap_or(0)]
    }

    fn always_archives(&self) -> bool {
        true
    }

    fn settings(&mut self) -> BTreeMap<String, String> {
        [
            ("rounds".to_owned(), self.rounds_planned.to_string()),
            ("budget".to_owned(), self.run.budget.to_string()),
            ("seed".to_owned(), self.run.seed.to_string()),
        ]
        .into()
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<Outcome, Stop> {
        let ended = self.measure(session);
        self.runs.end(ended)?;
        let sizing = self.judge();
        let fewest = sizing.values.iter().map(|value| value.rounds_used).min().unwrap_or(0);
        let is_sized = !sizing.is_cut_short();
        let mut outcome = self.runs.outcome(session, is_sized, fewest, sizing.rounds_made);
        outcome.result = RunResult::Sizing { sizing: Box::new(sizing) };
        Ok(outcome)
    }
}
