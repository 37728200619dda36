//! Blocks: the loads of one server in its turn, their figures, and the rounds that they make.
//!
//! [`Turns::begin_block`] and [`Turns::end_block`] enclose the loads of one server; round 0 is the one in which loads
//! are chosen. The `add_…` functions copy figures of finished loads into the [`BlockSummary`]: latency, goodput, CPU
//! times and the speed of the host. [`Turns::pairs`] then makes one pair of figures per finished round, without
//! rounds that have an INVALID block. Start with [`Turns::pairs`].

use plimsoll_capacity::compare::Pair;
use plimsoll_model::compare::{Arm, BlockLoad, BlockStart, BlockSummary, Metric};
use plimsoll_model::event::Event;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::tally::Tally;
use plimsoll_model::{Histogram, Nanos, Rate};
use plimsoll_probe::threads::RunTimes;

use super::{FinishedLoad, Turns, saturating};
use crate::session::Session;

impl Turns {
    /// Begins a block of `arm` in `round`, from 1; round 0 is before them, while loads are chosen.
    pub(in crate::experiments) fn begin_block(
        &self,
        session: &Session<'_>,
        round: u32,
        arm: Arm,
    ) -> BlockSummary {
        let number = if round == 0 { 0 } else { self.blocks.len() as u32 + 1 };
        session.emit(&Event::BlockStarted(BlockStart { number, round, arm }));
        let start_s = session.elapsed().as_secs_f64();
        BlockSummary { number, round, arm, start_s, ..BlockSummary::default() }
    }

    /// Adds a block that has ended.
    pub(in crate::experiments) fn end_block(&mut self, session: &Session<'_>, block: BlockSummary) {
        let seconds = session.elapsed().as_secs_f64() - block.start_s;
        self.blocks.push(BlockSummary { seconds, ..block });
    }

    /// Returns the figure of `arm` in a round; `None` if one of its blocks has none, or is INVALID.
    pub(in crate::experiments) fn figure(
        &self,
        round: u32,
        arm: Arm,
        figure: impl Fn(&BlockSummary) -> Option<f64>,
    ) -> Option<f64> {
        BlockSummary::figure_of_round(&self.blocks, round, arm, |block| {
            figure(block).filter(|figure| block.invalid.is_none() && figure.is_finite())
        })
    }

    /// Returns the finished rounds in which both of `arms` have a figure. Where the yardstick ran in every block of a
    /// round, the pair has what the figure is in proportion to if it follows the speed of the server's host as a whole:
    /// `expected` of the yardstick's time.
    pub(in crate::experiments) fn pairs(
        &self,
        arms: [Arm; 2],
        figure: impl Fn(&BlockSummary) -> Option<f64>,
        expected: impl Fn(f64) -> Option<f64>,
    ) -> Vec<Pair> {
        let of_host = |block: &BlockSummary| expected(block.yardstick_us?);
        let pair = |round| {
            let [a, b] = arms.map(|arm| self.figure(round, arm, &figure));
            let pair = Pair::new(a?, b?)?;
            let [a, b] =
                arms.map(|arm| BlockSummary::figure_of_round(&self.blocks, round, arm, of_host));
            Some(a.zip(b).map_or(pair, |(a, b)| pair.expecting(a, b)))
        };
        (1..=self.rounds_made).filter_map(pair).collect()
    }
}

/// Returns the load at which latencies are compared.
pub(in crate::experiments) fn equal(plan: &LoadPlan, load: &BlockLoad) -> LoadPlan {
    let arrivals = match plan.pacing {
        Pacing::Open { arrivals, .. } => arrivals,
        Pacing::Closed { .. } | Pacing::Hold(_) => Arrivals::Uniform,
    };
    let rate = Rate::per_second(load.equal_per_s).unwrap_or_default();
    let profile = Profile::constant(rate, Nanos::from_secs_f64(load.equal_s));
    let pacing = Pacing::Open { profile, arrivals };
    LoadPlan { pacing, connections: load.connections, ..plan.clone() }
}

/// Returns the load that saturates both.
pub(in crate::experiments) fn full(plan: &LoadPlan, load: &BlockLoad) -> LoadPlan {
    saturating(plan, load.connections, Nanos::from_secs_f64(load.saturated_s))
}

/// Adds what loads say that are not the user's: one that saturates, after one below saturation if there was one.
pub(in crate::experiments) fn add_loads(
    block: &mut BlockSummary,
    below: Option<&FinishedLoad>,
    full: &FinishedLoad,
) {
    if let Some(below) = below {
        add_latency(block, &below.tally.spans.corrected);
        add_load(block, below);
    }
    block.goodput_per_s = Some(full.goodput);
    add_load(block, full);
    add_server(block, &below.into_iter().chain([full]).collect::<Vec<_>>());
}

/// Adds what a load below saturation says of latency.
fn add_latency(block: &mut BlockSummary, corrected: &Histogram) {
    let quantile = |quantile| corrected.quantile(quantile).map(Nanos::as_millis_f64);
    (block.p50_ms, block.p99_ms) = (quantile(0.5), quantile(0.99));
}

/// Adds what the server's threads did in all of a block's loads.
fn add_server(block: &mut BlockSummary, loads: &[&FinishedLoad]) {
    let times: Option<Vec<RunTimes>> = loads.iter().map(|load| load.server).collect();
    let ok: u64 = loads.iter().map(|load| load.tally.ok).sum();
    let Some(times) = times.filter(|_| ok > 0) else { return };
    let sum =
        |of: fn(&RunTimes) -> Nanos| times.iter().map(|one| of(one).as_secs_f64()).sum::<f64>();
    let (ran, waited) = (sum(|one| one.ran), sum(|one| one.waited));
    if ran > 0.0 {
        block.server_cpu_us = Some(ran * 1e6 / ok as f64);
        block.sut_waited = Some(waited / (ran + waited));
    }
}

/// Adds how fast the host was in loads that ran alone, by their lengths.
pub(in crate::experiments) fn add_host_speed(block: &mut BlockSummary, loads: &[&FinishedLoad]) {
    let weigh = |load: &&FinishedLoad| {
        let window = load.window.as_secs_f64();
        Some((load.yardstick?.as_secs_f64() * window, window))
    };
    let weighed: Option<Vec<(f64, f64)>> = loads.iter().map(weigh).collect();
    block.yardstick_us = weighed.and_then(|weighed| {
        let window: f64 = weighed.iter().map(|(_, window)| window).sum();
        let sum: f64 = weighed.iter().map(|(sum, _)| sum).sum();
        (window > 0.0).then(|| sum / window * 1e6)
    });
}

/// Adds what any load says.
fn add_load(block: &mut BlockSummary, load: &FinishedLoad) {
    block.sut_busiest_thread = load.sut_busiest_thread;
    block.generator_busiest_thread = load.tally.generator.busiest_thread;
    block.invalid = block.invalid.take().or_else(|| load.invalid.clone());
}

/// Adds what the user's own load says.
pub(in crate::experiments) fn add_own_load(
    block: &mut BlockSummary,
    load: &FinishedLoad,
    open: bool,
) {
    add_load(block, load);
    if open {
        add_latency(block, &load.tally.spans.corrected);
    }
    let Tally { scheduled, unsent, .. } = load.tally;
    let (seconds, sent) = (load.window.as_secs_f64(), scheduled.saturating_sub(unsent));
    let per = |all: f64, of: f64| (of > 0.0).then(|| all / of);
    let generator = &load.tally.generator;
    let cpu = generator.cpu_user.as_secs_f64() + generator.cpu_system.as_secs_f64();
    block.throughput_per_s = per(load.tally.ok_in_window(), seconds);
    block.client_cpu_us = per(cpu * 1e6, sent as f64);
}

/// Returns the figure of a block.
pub(in crate::experiments) const fn figure(metric: Metric, block: &BlockSummary) -> Option<f64> {
    match metric {
        Metric::Goodput => block.goodput_per_s,
        Metric::ServerCpu => block.server_cpu_us,
        Metric::P50 => block.p50_ms,
        Metric::P99 => block.p99_ms,
        Metric::Throughput => block.throughput_per_s,
        Metric::ClientCpu => block.client_cpu_us,
    }
}
