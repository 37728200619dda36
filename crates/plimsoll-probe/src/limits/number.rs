//! Numbers in the small files of `/proc/sys` and of control groups.

use crate::file;
use std::path::Path;

/// A limit of which some is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Number that may still be used.
    pub left: u64,
    /// The limit.
    pub max: u64,
}

impl Allowance {
    /// Subtracts `used` from `max`.
    pub(super) const fn of(used: u64, max: u64) -> Self {
        Self { left: max.saturating_sub(used), max }
    }

    /// Returns the number in use.
    pub const fn used(&self) -> u64 {
        self.max.saturating_sub(self.left)
    }
}

pub(crate) fn first_number(path: &Path) -> Option<u64> {
    file::text(path).ok()?.split_ascii_whitespace().next()?.parse().ok()
}

pub(super) fn last_number(path: &Path) -> Option<u64> {
    file::text(path).ok()?.split_ascii_whitespace().last()?.parse().ok()
}
