//! The trials around the tipping point, and the causes that they suggest.

use plimsoll_model::cause::{Cause, Evidence, EvidenceUnit, Grade, Missing, Projected, Resource};
use plimsoll_model::host::{Label, Metric, Role};

use super::candidate::Candidate;
use super::record::{During, Record, Trial};
use super::usage;

/// A server whose threads are all below this does not lack CPU.
const FREE: f64 = 0.7;

/// A resource that may be the limit.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    pub(super) cause: Cause,
    pub(super) resource: Resource,
    pub(super) host: String,
    pub(super) grade: Grade,
    pub(super) evidence: Vec<Evidence>,
    pub(super) predicted_at: Option<Projected>,
    /// Evidence that is missing for the grade `predicted`.
    pub(super) missing: Missing,
}

/// The trials on both sides of the tipping point; there is at least one of the two.
pub(super) struct Around<'a> {
    /// `None` if no load met the goals.
    pub(super) below: Option<&'a Trial<'a>>,
    /// `None` if none above lasted long enough to be read.
    pub(super) above: Option<&'a Trial<'a>>,
}

/// One host above the tipping point, and below it if it was read there.
#[derive(Clone, Copy)]
pub(super) struct Scene<'a> {
    pub(super) record: &'a Record<'a>,
    pub(super) candidates: &'a [Candidate],
    pub(super) below: Option<&'a Trial<'a>>,
    pub(super) above: &'a Trial<'a>,
    pub(super) before: Option<During<'a>>,
    pub(super) after: During<'a>,
}

impl Scene<'_> {
    /// Reports whether no thread on the host is so busy that it could not do more.
    pub(super) fn is_free(&self) -> bool {
        usage::threads(&self.after).iter().all(|thread| thread.used < FREE)
    }

    /// Reports whether the host has a process of the server, or of a server behind it.
    pub(super) fn serves(&self) -> bool {
        self.after.has(Role::Server) || self.after.has(Role::Backend)
    }

    /// Returns the mean of a gauge below the tipping point.
    pub(super) fn mean_before(&self, metric: Metric, labels: &[(Label, &str)]) -> Option<f64> {
        self.before?.mean(metric, labels)
    }

    /// Creates a suspect whose evidence is a value that moved.
    pub(super) fn suspect(&self, cause: Cause, resource: Resource, moved: Moved) -> Suspect {
        Suspect {
            cause,
            resource,
            host: self.after.host.to_owned(),
            grade: Grade::Correlated,
            evidence: vec![moved.evidence()],
            predicted_at: None,
            missing: Missing::Use,
        }
    }
}

/// One value below and above the tipping point.
pub(super) struct Moved {
    pub(super) counter: String,
    pub(super) unit: EvidenceUnit,
    pub(super) below: Option<f64>,
    pub(super) above: f64,
    pub(super) limit: Option<f64>,
}

impl Moved {
    /// Returns the value as a finding shows it.
    pub(super) fn evidence(self) -> Evidence {
        Evidence {
            counter: self.counter,
            unit: self.unit,
            below: self.below,
            above: Some(self.above),
            limit: self.limit,
        }
    }

    /// Makes the evidence of `counter`.
    pub(super) fn of(
        counter: impl Into<String>,
        unit: EvidenceUnit,
        below: Option<f64>,
        above: f64,
    ) -> Self {
        Self { counter: counter.into(), unit, below, above, limit: None }
    }

    /// Makes the evidence of `above` operations in service, next to a `limit` of them.
    pub(super) fn in_service(above: f64, limit: f64) -> Self {
        let limit = Some(limit);
        Self { limit, ..Self::of("operations in service", EvidenceUnit::Count, None, above) }
    }
}
