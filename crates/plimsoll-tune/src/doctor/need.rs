//! One limit against what is needed of it.

use std::fmt;

use plimsoll_model::units::grouped;

/// No host has memory for more: the upper bound of what is searched for.
pub(super) const CONNECTIONS_MAX: u64 = 1 << 32;
/// What the kernel reports for "no limit" is above this.
const UNLIMITED: u64 = 1 << 60;

/// Whether a limit is high enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// High enough.
    Ok,
    /// It may be reached; no connection fails because of it.
    Warn,
    /// Too low: connections would fail.
    Short,
    /// The kernel does not report the limit.
    Unknown,
}

/// The unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Items: files, ports, threads.
    Count,
    /// Bytes.
    Bytes,
}

/// One limit against what is needed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The limit, by its documented name.
    pub limit: String,
    /// The unit of `need` and `have`.
    pub unit: Unit,
    /// What the connections need; for limits of the whole host, including what is in use already.
    pub need: u64,
    /// The limit; `None` where the kernel does not report it.
    pub have: Option<u64>,
    /// The comparison.
    pub verdict: Verdict,
    /// How to raise the limit; `None` where that is not necessary.
    pub fix: Option<String>,
    /// The most connections that it allows.
    pub fits: u64,
}

/// `name: needs 5, has 4; how to raise it`.
impl fmt::Display for Need {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (need, have) = (self.need_text(), self.have_text());
        write!(formatter, "{}: needs {need}, has {have}", self.limit)?;
        self.fix.iter().try_for_each(|fix| write!(formatter, "; {fix}"))
    }
}

impl Need {
    /// `need` with its unit.
    pub(super) fn need_text(&self) -> String {
        amount(self.need, self.unit)
    }

    /// `have` with its unit.
    pub(super) fn have_text(&self) -> String {
        self.have.map_or_else(|| "?".to_owned(), |have| amount(have, self.unit))
    }
}

fn amount(count: u64, unit: Unit) -> String {
    match unit {
        _ if count >= UNLIMITED => "unlimited".to_owned(),
        Unit::Count => grouped(count),
        Unit::Bytes if count >= 1_000_000_000 => format!("{:.1} GB", count as f64 / 1e9),
        Unit::Bytes => format!("{:.0} MB", count as f64 / 1e6),
    }
}
