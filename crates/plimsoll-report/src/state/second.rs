//! The figures of a second.

use plimsoll_model::summary::{FullQuantiles, LagQuantiles};
use plimsoll_model::tally::Tally;

/// Figures of one second, or of several that were merged, which screen, page and tables show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Second {
    /// Operations that came due.
    pub(crate) offered: u64,
    /// Operations that were answered or failed.
    pub(crate) ended: u64,
    pub(crate) corrected: FullQuantiles,
    pub(crate) uncorrected: FullQuantiles,
    pub(crate) send_lag: LagQuantiles,
    /// Connections at its end.
    pub(crate) held: u64,
    /// Connections that became usable in it.
    pub(crate) opened: u64,
    pub(crate) lost: u64,
}

impl Second {
    pub(crate) fn of(tally: &Tally) -> Self {
        Self {
            offered: tally.scheduled,
            ended: tally.ok + tally.errors_total(),
            corrected: (&tally.spans.corrected).into(),
            uncorrected: (&tally.spans.uncorrected).into(),
            send_lag: (&tally.spans.send_lag).into(),
            held: tally.connections.held_end,
            opened: tally.connections.opened,
            lost: tally.lost(),
        }
    }
}
