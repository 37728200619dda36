//! The validation criteria of RFC 9411.

/// A validation criterion of section 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Criterion {
    /// Failed application transactions.
    Failed,
    /// Connections that the SUT reset.
    Reset,
    /// Deviation of the forwarding rate.
    Forwarding,
    /// Deviation of the concurrent connections.
    Concurrency,
    /// Distance of the load below its target.
    Target,
}

impl Criterion {
    /// Every criterion.
    pub const ALL: [Self; 5] =
        [Self::Failed, Self::Reset, Self::Forwarding, Self::Concurrency, Self::Target];

    /// Returns the name, with the threshold.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Failed => "F failed transactions <0.001 %",
            Self::Reset => "R connections reset by the SUT <0.001 %",
            Self::Forwarding => "C5 deviation of the forwarding rate <5 %",
            Self::Concurrency => "N10 deviation of concurrent connections <10 %",
            Self::Target => "T below the target <5 %",
        }
    }

    /// Returns the letter in tables.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Failed => "F",
            Self::Reset => "R",
            Self::Forwarding => "C5",
            Self::Concurrency => "N10",
            Self::Target => "T",
        }
    }
}
