//! The storms that were judged, in their order: the only state that answers depend on.

use plimsoll_model::Nanos;

/// A storm and how its clients came back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Storm {
    /// Connections cut.
    pub(super) cut: u64,
    /// `true` if the storm was judged GOOD.
    pub(super) good: bool,
    /// Time until the last client was back; `None` if not all came back.
    pub(super) recovered: Option<Nanos>,
    /// Clients that were back in time.
    pub(super) back_in_time: u64,
}

/// Storms that were judged GOOD or BAD; they are only ever added.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Evidence {
    pub(super) storms: Vec<Storm>,
}

impl Evidence {
    /// Returns the largest storm that was GOOD.
    pub(super) fn good_max(&self) -> Option<Storm> {
        self.storms.iter().filter(|storm| storm.good).max_by_key(|storm| storm.cut).copied()
    }

    /// Returns the smallest storm that was BAD.
    pub(super) fn bad_min(&self) -> Option<Storm> {
        self.storms.iter().filter(|storm| !storm.good).min_by_key(|storm| storm.cut).copied()
    }

    /// Storms of exactly `cut` connections that were GOOD, and BAD.
    pub(super) fn at(&self, cut: u64) -> (u32, u32) {
        let of = |good| self.storms.iter().filter(|s| s.cut == cut && s.good == good).count();
        (of(true) as u32, of(false) as u32)
    }
}
