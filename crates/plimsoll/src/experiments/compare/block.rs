//! One block: what one side does in its turn, and the figures of it.

use plimsoll_model::compare::{BlockLoad, BlockStart, BlockSummary, Metric};
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::tally::Tally;
use plimsoll_model::{Histogram, Nanos, Rate};
use plimsoll_probe::threads::RunTimes;

use crate::experiments::in_turn::{Load, saturating};

/// The load at which latencies are compared.
pub(super) fn equal(plan: &LoadPlan, load: &BlockLoad) -> LoadPlan {
    let arrivals = match plan.pacing {
        Pacing::Open { arrivals, .. } => arrivals,
        Pacing::Closed { .. } | Pacing::Hold(_) => Arrivals::Uniform,
    };
    let rate = Rate::per_second(load.equal_per_s).unwrap_or_default();
    let profile = Profile::constant(rate, Nanos::from_secs_f64(load.equal_s));
    let pacing = Pacing::Open { profile, arrivals };
    LoadPlan { pacing, connections: load.connections, ..plan.clone() }
}

/// The load that saturates both.
pub(super) fn full(plan: &LoadPlan, load: &BlockLoad) -> LoadPlan {
    saturating(plan, load.connections, Nanos::from_secs_f64(load.saturated_s))
}

/// A block without figures.
pub(super) fn begun(start: BlockStart, at: Nanos) -> BlockSummary {
    let BlockStart { number, round, arm } = start;
    BlockSummary { number, round, arm, start_s: at.as_secs_f64(), ..BlockSummary::default() }
}

/// Adds what the two loads say that are not the user's: one below saturation, and one that saturates.
pub(super) fn add_loads(block: &mut BlockSummary, below: &Load, full: &Load) {
    add_latency(block, &below.tally.spans.corrected);
    add_load(block, below);
    block.goodput_per_s = Some(full.goodput);
    add_load(block, full);
    add_server(block, &[below, full]);
}

/// Adds what a load below saturation says of latency.
fn add_latency(block: &mut BlockSummary, corrected: &Histogram) {
    let quantile = |quantile| corrected.quantile(quantile).map(Nanos::as_millis_f64);
    (block.p50_ms, block.p99_ms) = (quantile(0.5), quantile(0.99));
}

/// Adds what the server's threads did in all of a block's loads.
fn add_server(block: &mut BlockSummary, loads: &[&Load]) {
    let times: Option<Vec<RunTimes>> = loads.iter().map(|load| load.server).collect();
    let ok: u64 = loads.iter().map(|load| load.tally.ok).sum();
    let Some(times) = times.filter(|_| ok > 0) else { return };
    let sum =
        |of: fn(&RunTimes) -> Nanos| times.iter().map(|one| of(one).as_secs_f64()).sum::<f64>();
    let (ran, waited) = (sum(|one| one.ran), sum(|one| one.waited));
    block.server_cpu_us = Some(ran * 1e6 / ok as f64);
    block.sut_waited = (ran > 0.0).then(|| waited / (ran + waited));
}

/// Adds how fast the host was in loads that ran alone, by their lengths.
pub(super) fn add_host_speed(block: &mut BlockSummary, loads: &[&Load]) {
    let weigh = |load: &&Load| {
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
fn add_load(block: &mut BlockSummary, load: &Load) {
    block.sut_busiest_thread = load.sut_busiest_thread;
    block.generator_busiest_thread = load.tally.generator.busiest_thread;
    block.invalid = block.invalid.take().or_else(|| load.invalid.clone());
}

/// Adds what the user's own load says.
pub(super) fn add_own_load(block: &mut BlockSummary, load: &Load, open: bool) {
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

/// The figure of a block.
pub(super) const fn figure(metric: Metric, block: &BlockSummary) -> Option<f64> {
    match metric {
        Metric::Goodput => block.goodput_per_s,
        Metric::ServerCpu => block.server_cpu_us,
        Metric::P50 => block.p50_ms,
        Metric::P99 => block.p99_ms,
        Metric::Throughput => block.throughput_per_s,
        Metric::ClientCpu => block.client_cpu_us,
    }
}
