//! The result of a run, by kind, and the statement of a run about the server.
//!
//! [`RunResult`] is untagged: in JSON each kind is a block named by its field (`find`, `hold`, `storm`, …). `Blocks`
//! reads all of them, and the axis of the search distinguishes `Find`, `Connections` and `Storm`.
//! [`Summary::standing`] reduces verdict and outcomes to one of four statements, from which badge, exit code and test
//! cases follow. Start reading at [`RunResult`].

use serde::{Deserialize, Serialize};

use crate::compare::CompareSummary;
use crate::hold::HoldSummary;
use crate::rfc9411::Rfc9411Summary;
use crate::search::Axis;
use crate::sizing::SizingSummary;
use crate::storm::StormSummary;
use crate::summary::{FindSummary, Summary};
use crate::trial::{CheckId, Outcome, Standing, Verdict};

named! {
    /// The kind of a run, known before it has a result.
    #[derive(Default)]
    pub enum RunKind {
        /// One load.
        #[default]
        Load = "load",
        /// A search on any axis.
        Search = "search",
        /// Connections that are held.
        Hold = "hold",
        /// A comparison.
        Compare = "compare",
        /// A sweep over settings.
        Sizing = "sizing",
        /// A case of RFC 9411.
        Rfc9411 = "rfc9411",
    }
}

impl RunKind {
    /// Returns the noun with its article: `a load`, `a search`.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Load => "a load",
            Self::Search => "a search",
            Self::Hold => "a hold",
            Self::Compare => "a comparison",
            Self::Sizing => "a sweep",
            Self::Rfc9411 => "a case of RFC 9411",
        }
    }
}

/// The result of a run. Each kind is a block of the summary's JSON by the name of its field; a load has none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged, from = "Blocks")]
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub enum RunResult {
    /// One load.
    #[default]
    Load,
    /// A search for a rate.
    Find { find: Box<FindSummary> },
    /// Connections that were held.
    Hold { hold: Box<HoldSummary> },
    /// A search for a number of held connections. Neither a repeated search nor one that was killed has a hold.
    Connections {
        find: Box<FindSummary>,
        #[serde(skip_serializing_if = "Option::is_none")]
        hold: Option<Box<HoldSummary>>,
    },
    /// A search for the largest storm. One that was killed has no storms.
    Storm {
        find: Box<FindSummary>,
        #[serde(skip_serializing_if = "Option::is_none")]
        storm: Option<Box<StormSummary>>,
    },
    /// A comparison; its measurements have summaries of their own.
    Compare { compare: Box<CompareSummary> },
    /// A sweep over settings.
    Sizing { sizing: Box<SizingSummary> },
    /// A case of RFC 9411.
    Rfc9411 { rfc9411: Box<Rfc9411Summary> },
}

/// The blocks as JSON has them.
#[derive(Deserialize)]
struct Blocks {
    find: Option<Box<FindSummary>>,
    hold: Option<Box<HoldSummary>>,
    storm: Option<Box<StormSummary>>,
    compare: Option<Box<CompareSummary>>,
    sizing: Option<Box<SizingSummary>>,
    rfc9411: Option<Box<Rfc9411Summary>>,
}

impl From<Blocks> for RunResult {
    fn from(blocks: Blocks) -> Self {
        match blocks {
            Blocks { compare: Some(compare), .. } => Self::Compare { compare },
            Blocks { sizing: Some(sizing), .. } => Self::Sizing { sizing },
            Blocks { rfc9411: Some(rfc9411), .. } => Self::Rfc9411 { rfc9411 },
            Blocks { find: Some(find), hold, .. } if find.axis == Axis::Connections => {
                Self::Connections { find, hold }
            }
            Blocks { find: Some(find), storm, .. } if find.axis == Axis::Storm => {
                Self::Storm { find, storm }
            }
            Blocks { find: Some(find), .. } => Self::Find { find },
            Blocks { hold: Some(hold), .. } => Self::Hold { hold },
            _ => Self::Load,
        }
    }
}

impl From<FindSummary> for RunResult {
    fn from(find: FindSummary) -> Self {
        let find = Box::new(find);
        match find.axis {
            Axis::Connections => Self::Connections { find, hold: None },
            Axis::Storm => Self::Storm { find, storm: None },
            _ => Self::Find { find },
        }
    }
}

impl From<HoldSummary> for RunResult {
    fn from(hold: HoldSummary) -> Self {
        Self::Hold { hold: Box::new(hold) }
    }
}

impl RunResult {
    /// Returns the answer of a search.
    pub fn find(&self) -> Option<&FindSummary> {
        match self {
            Self::Find { find } | Self::Connections { find, .. } | Self::Storm { find, .. } => {
                Some(find)
            }
            _ => None,
        }
    }

    /// Returns the answer of a search, to change it.
    pub fn find_mut(&mut self) -> Option<&mut FindSummary> {
        match self {
            Self::Find { find } | Self::Connections { find, .. } | Self::Storm { find, .. } => {
                Some(find)
            }
            _ => None,
        }
    }

    /// Returns the connections that a hold, or the last level of a search, held.
    pub fn hold(&self) -> Option<&HoldSummary> {
        match self {
            Self::Hold { hold } | Self::Connections { hold: Some(hold), .. } => Some(hold),
            _ => None,
        }
    }

    /// Returns the storms of a search.
    pub fn storm(&self) -> Option<&StormSummary> {
        match self {
            Self::Storm { storm: Some(storm), .. } => Some(storm),
            _ => None,
        }
    }

    /// Returns the connections that were held, to change them.
    pub fn hold_mut(&mut self) -> Option<&mut HoldSummary> {
        match self {
            Self::Hold { hold } | Self::Connections { hold: Some(hold), .. } => Some(hold),
            _ => None,
        }
    }

    /// Returns the kind of the run.
    pub const fn kind(&self) -> RunKind {
        match self {
            Self::Load => RunKind::Load,
            Self::Find { .. } | Self::Connections { .. } | Self::Storm { .. } => RunKind::Search,
            Self::Hold { .. } => RunKind::Hold,
            Self::Compare { .. } => RunKind::Compare,
            Self::Sizing { .. } => RunKind::Sizing,
            Self::Rfc9411 { .. } => RunKind::Rfc9411,
        }
    }

    /// `true` if the run claims no answer, and nothing worse is known: for one SLO of a search, or because a comparison
    /// or a sweep ended before it had enough rounds.
    fn is_unsettled(&self) -> bool {
        match self {
            Self::Compare { compare } => {
                compare.difference.is_none() && compare.rounds_invalid == 0
            }
            Self::Sizing { sizing } => sizing.is_cut_short(),
            _ => self.find().is_some_and(FindSummary::is_unsettled),
        }
    }
}

impl FindSummary {
    /// Returns the outcome for each SLO.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        let only = self.found.goals.is_empty().then_some(&self.found.outcome);
        only.into_iter().chain(self.found.goals.iter().map(|goal| &goal.found.outcome))
    }

    /// `true` if no interval is claimed for one of the SLOs, and nothing worse is said of the others.
    fn is_unsettled(&self) -> bool {
        let mut standings = self.outcomes().map(Outcome::standing);
        self.outcomes().any(|outcome| outcome.standing() == Some(Standing::Open))
            && standings.all(|one| matches!(one, Some(Standing::Open | Standing::Met)))
    }
}

impl Summary {
    /// Returns the statement of the run about the server: badge, exit code and test cases are layouts of it.
    pub fn standing(&self) -> Standing {
        // The end of the laboratory explains everything else.
        let is_lost = self.reasons.iter().any(|check| check.id == CheckId::Laboratory);
        match self.verdict {
            _ if self.result.is_unsettled() && !is_lost => Standing::Open,
            Verdict::Good => Standing::Met,
            Verdict::Bad => Standing::Missed,
            Verdict::Invalid => Standing::Invalid,
        }
    }
}
