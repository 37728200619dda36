//! `plimsoll hold` and `plimsoll lab hold` into jobs: a load whose connections are held.

use plimsoll_model::Nanos;
use plimsoll_model::cycles::GrowthLimit;
use plimsoll_model::plan::{HoldPlan, Pacing};
use plimsoll_model::units::grouped;

use super::load::{LoadJob, assemble};
use super::parts::Parts;
use super::{Destination, Inputs};
use crate::exit::Result;
use crate::flags::shared::{OutputFlags, PoolFlags};
use crate::flags::{HoldFlags, ServerExperiment};

/// `lab hold` without --connections: done in half a minute.
const LAB_CONNECTIONS_DEFAULT: u64 = 10_000;
/// Time for which `hold`, and `lab hold`, hold the highest level.
const SPAN_DEFAULT: Nanos = Nanos::from_secs(60);
const LAB_SPAN_DEFAULT: Nanos = Nanos::from_secs(5);
/// Time for which each of --cycles is held.
const CYCLE_SPAN_DEFAULT: Nanos = Nanos::from_secs(1);
/// The levels of a laboratory, in percent of --connections.
const LAB_LEVELS_PERCENT: [u64; 5] = [10, 25, 50, 75, 100];

/// One hold, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HoldJob {
    /// Requests and their target; the pacing is a hold.
    pub(crate) load: LoadJob,
    /// Settings of opening and using connections.
    pub(crate) hold: HoldPlan,
    /// Time for which the highest level is held.
    pub(crate) span: Nanos,
    /// Hold as many as fit.
    pub(crate) up_to: bool,
    /// Connections of each level, ascending; the last is the number to hold.
    pub(crate) levels: Vec<u64>,
    /// Fill and drain again and again.
    pub(crate) cycles: Option<Cycles>,
}

/// Cycles of a hold.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cycles {
    /// Number of cycles.
    pub(crate) count: u32,
    /// The most that the server's memory may grow by per cycle.
    pub(crate) growth_max: Option<GrowthLimit>,
}

impl HoldJob {
    /// Lowers the number of connections to `fits`.
    pub(crate) fn lower_to(&mut self, connections: u64) {
        self.load.plan.connections = connections;
        self.levels.retain(|level| *level < connections);
        self.levels.push(connections);
    }
}

/// Checks and resolves the flags of `hold`.
pub(crate) fn build(command: &ServerExperiment<HoldFlags>, inputs: &mut Inputs) -> Result<HoldJob> {
    refuse_if!(command.kind.connections.is_none();
        "hold needs the number of connections";
        "for example: plimsoll hold https://127.0.0.1:8443/ --connections 10k");
    let to = Destination::named("plimsoll hold", &command.server, &command.request);
    let job = plan(&command.kind, &to, &command.output, inputs)?;
    // More targets than connections: some would never be requested.
    let (targets, connections) = (job.load.plan.targets.len() as u64, job.load.plan.connections);
    refuse_if!(targets > connections;
        "{} targets share {connections} connections", grouped(targets);
        "give --connections {targets} or more, or fewer targets");
    Ok(job)
}

/// Plans a hold; in a laboratory, with lower levels first.
pub(super) fn plan(
    flags: &HoldFlags,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs,
) -> Result<HoldJob> {
    let connections = flags.connections.unwrap_or(LAB_CONNECTIONS_DEFAULT);
    let cycles = flags.cycles.map(|count| Cycles { count, growth_max: flags.fail_if });
    let in_steps = cycles.is_none() && to.is_laboratory();
    let span = match cycles {
        Some(_) => CYCLE_SPAN_DEFAULT,
        None if in_steps => LAB_SPAN_DEFAULT,
        None => SPAN_DEFAULT,
    };
    let mut levels = vec![connections];
    if in_steps {
        levels = LAB_LEVELS_PERCENT.map(|percent| connections * percent / 100).to_vec();
        levels.retain(|level| *level > 0);
        levels.dedup();
    }
    let hold = HoldPlan {
        connections_per_s: flags.rate.get(),
        opening_max: flags.opening,
        heartbeat: (flags.heartbeat > Nanos::ZERO).then_some(flags.heartbeat),
        replace: flags.replace,
    };
    let pool = PoolFlags { connections: Some(connections), ..PoolFlags::default() };
    let parts = Parts {
        to,
        pool: &pool,
        client: &flags.client,
        handshake: &flags.handshake,
        resume: flags.resume,
        output,
        pacing: Pacing::Hold(hold),
        ops_total: None,
        deadline: Some(flags.deadline),
        slo: None,
        linger: flags.linger,
        seed: flags.seed,
    };
    let mut load = assemble(parts, inputs)?;
    // The ramp opens the connections, at its own pace.
    load.plan.prewarm = false;
    load.events = flags.events.clone();
    load.settings.cycles = cycles.map(|cycles| cycles.count);
    Ok(HoldJob { load, hold, span: flags.span.unwrap_or(span), up_to: flags.up_to, levels, cycles })
}
