//! `find connections` and `lab connections` into jobs: a load whose connections are held, and the
//! range of levels that is searched.

use plimsoll_capacity::connections::ConnectionLimits;
use plimsoll_model::Nanos;
use plimsoll_model::pace::Arrivals;
use plimsoll_model::plan::{HoldPlan, Pacing};
use plimsoll_model::search::Axis;
use plimsoll_model::units::grouped;

use super::load::{LoadJob, assemble};
use super::search::SearchJob;
use super::{Destination, Inputs, search};
use crate::exit::Result;
use crate::flags::search::ConnectionsFlags;
use crate::flags::shared::{OutputFlags, PoolFlags};

/// The first level.
const LOWEST: u64 = 100;
/// Connections that are being opened at once.
const OPENING_MAX: u32 = 512;

/// A search for the most connections that can be held, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConnectionsJob {
    /// Requests and their target; the pacing is a hold.
    pub(crate) load: LoadJob,
    /// Settings of the search.
    pub(crate) search: SearchJob,
    /// Settings of opening; sweeps take the place of heartbeats.
    pub(crate) hold: HoldPlan,
    /// The first level, and the highest; lowest <= highest.
    pub(crate) lowest: u64,
    /// The highest level; the load's plan has it, too.
    pub(crate) highest: u64,
    /// The user named the highest level.
    pub(crate) highest_given: bool,
    /// Time for which the last good level is held.
    pub(crate) soak: Nanos,
    /// Continue until the server fails.
    pub(crate) push: bool,
}

/// Plans the search for the most connections that can be held.
pub(super) fn plan(
    flags: &ConnectionsFlags,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs,
) -> Result<ConnectionsJob> {
    let search = search::search(Axis::Connections, &flags.search, Arrivals::Uniform, to)?;
    let limits = ConnectionLimits::of(search.mode);
    let highest = flags.max.unwrap_or(limits.cap);
    let lowest = flags.min.unwrap_or_else(|| LOWEST.min(highest));
    refuse_if!(lowest > highest;
        "the lowest level, {} connections, is above the highest, {}",
            grouped(lowest), grouped(highest);
        "raise --max, or lower --min");
    let hold = HoldPlan {
        connections_per_s: flags.rate.get(),
        opening_max: OPENING_MAX,
        heartbeat: None,
        replace: false,
    };
    let pool = PoolFlags { connections: Some(highest), ..PoolFlags::default() };
    let parts = search::parts(&search, &flags.load, to, &pool, output, Pacing::Hold(hold));
    let mut load = assemble(parts, inputs)?;
    let targets = load.plan.targets.len() as u64;
    refuse_if!(targets > lowest;
        "{targets} targets share the {lowest} connections of the lowest level";
        "give --min {targets} or more, or fewer targets");
    load.plan.prewarm = false;
    // Opening a connection has the same time limit as an answer.
    let patience = load.plan.timeouts.deadline.unwrap_or_default() + load.plan.timeouts.linger;
    load.plan.timeouts.connect = load.plan.timeouts.connect.min(patience);
    Ok(ConnectionsJob {
        load,
        search,
        hold,
        lowest,
        highest,
        highest_given: flags.max.is_some(),
        soak: flags.soak.unwrap_or(limits.soak),
        push: flags.push,
    })
}
