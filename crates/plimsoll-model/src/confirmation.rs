//! The test of a cause: the change that was made, the predicted effect and the observed one.
//!
//! An [`Intervention`] names a limit that is lowered, or a property of the load. A [`Confirmation`] records the
//! prediction, fixed before the first pair, and [`ConfirmationPair`]s of a changed load and a sham that makes the
//! steps without the change. The ratio of the two must match the prediction for [`ConfirmationResult::Confirmed`].
//! [`Remedied`] is the opposite test: a limit is raised and the search repeated. Ratios are after over before. Start
//! reading at [`Confirmation`].

use serde::{Deserialize, Serialize};

use crate::cause::Finding;
use crate::compare::Difference;
use crate::trial::Outcome;

named! {
    /// A change that tests a cause: one limit of the server, lowered by about a fifth, or the load.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Intervention {
        /// A quota for the CPU time of all the server's threads.
        ServerCpuQuota = "server-cpu-quota",
        /// A CPU quota for the server's busiest thread alone.
        ThreadCpuQuota = "thread-cpu-quota",
        /// A CPU quota for the backends.
        BackendCpuQuota = "backend-cpu-quota",
        /// HAProxy's `maxconn`, of the frontend or of the process, whichever is lower.
        Maxconn = "maxconn",
        /// HAProxy's `maxconn` of every server behind it.
        ServerMaxconn = "server-maxconn",
        /// A limit of HAProxy's sessions per second, below the one that it has.
        SessionRate = "session-rate",
        /// Backends that HAProxy sends nothing to.
        FewerBackends = "fewer-backends",
        /// The ports that the server's host connects to its backends from.
        Ports = "ports",
        /// The connections that may wait to be accepted.
        AcceptQueue = "accept-queue",
        /// Requests on each connection of the load; 0 is no limit.
        RequestsPerConnection = "requests-per-connection",
        /// The share of the load's connections that resume a TLS session.
        Resumption = "resumption",
        /// The share of the load's connections that ask for an ECDSA certificate; the others ask for an RSA one.
        CertificateKey = "certificate-key",
        /// The connections of the load.
        LoadConnections = "load-connections",
        /// The source addresses of the load's connections.
        SourceAddresses = "source-addresses",
        /// The bytes that an operation of the load sends or receives, whichever are more.
        BodySize = "body-size",
    }
}

/// Unit of the value that an intervention changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterventionUnit {
    /// CPUs: CPU seconds per second.
    Cpus,
    /// Connections or requests at once.
    Connections,
    /// Sessions per second.
    SessionsPerS,
    /// Backends.
    Backends,
    /// Ports.
    Ports,
    /// IP addresses.
    Addresses,
    /// Bytes.
    Bytes,
    /// Requests on a connection.
    Requests,
    /// A share, 0 to 1.
    Ratio,
}

impl Intervention {
    /// Returns the unit of the value that the intervention changes.
    pub const fn unit(self) -> InterventionUnit {
        match self {
            Self::ServerCpuQuota | Self::ThreadCpuQuota | Self::BackendCpuQuota => {
                InterventionUnit::Cpus
            }
            Self::Maxconn | Self::ServerMaxconn | Self::AcceptQueue | Self::LoadConnections => {
                InterventionUnit::Connections
            }
            Self::SessionRate => InterventionUnit::SessionsPerS,
            Self::FewerBackends => InterventionUnit::Backends,
            Self::Ports => InterventionUnit::Ports,
            Self::RequestsPerConnection => InterventionUnit::Requests,
            Self::Resumption | Self::CertificateKey => InterventionUnit::Ratio,
            Self::SourceAddresses => InterventionUnit::Addresses,
            Self::BodySize => InterventionUnit::Bytes,
        }
    }
}

/// The result of a test of a cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfirmationResult {
    /// The limit was moved, and the capacity moved by the predicted size.
    Confirmed,
    /// The limit was moved, and the capacity moved in the predicted direction by at least half of the predicted size,
    /// but not by the whole size.
    Moved,
    /// The limit was moved, and the capacity moved by less than half of the predicted size: the limit is
    /// another one.
    Refuted,
    /// Neither can be said.
    #[default]
    Undecided,
}

/// One of the two loads of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ConfirmationArm {
    /// Makes the steps with the existing value.
    Sham,
    /// The changed value.
    Changed,
}

/// A pair of loads, one right after the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfirmationPair {
    /// The arm whose load was first.
    pub first: ConfirmationArm,
    /// Good answers of the sham in a second, the mean of its seconds without the least and the greatest.
    pub sham_per_s: f64,
    /// Goodput with the changed value.
    pub changed_per_s: f64,
    /// The reason why the pair is not counted, if there is one.
    pub invalid: Option<String>,
}

/// One change that may raise the answer, of the running server or of the load, with which the search was made again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remedied {
    /// The change.
    pub intervention: Intervention,
    /// The value that limited, in the unit of the intervention.
    pub from: f64,
    /// The new value.
    pub to: f64,
    /// Predicted ratio of the tipping points, after the change over before it: the ratio of the values, or less if the
    /// next limit allows less. Fixed before the search; `None` if there was nothing to confirm.
    pub predicted_ratio: Option<f64>,
    /// Why it was not made, if that is so.
    pub why: Option<String>,
    /// The outcome of the search; `None` without one.
    pub outcome: Option<Outcome>,
    /// The lower bound of the search, in its unit.
    pub lower: Option<f64>,
    /// Upper bound of the search.
    pub upper: Option<f64>,
    /// The middle of its interval over that before.
    pub ratio: Option<f64>,
    /// The limiting resources then, the surest first.
    pub causes: Vec<Finding>,
    /// Duration of the search.
    pub seconds: f64,
}

impl Remedied {
    /// Creates a change before its search.
    pub const fn new(intervention: Intervention, from: f64, to: f64) -> Self {
        Self {
            intervention,
            from,
            to,
            predicted_ratio: None,
            why: None,
            outcome: None,
            lower: None,
            upper: None,
            ratio: None,
            causes: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Takes the result of the search; `tip` is the middle of the interval before the change.
    pub fn take_result(&mut self, outcome: &Outcome, bounds: (Option<f64>, Option<f64>), tip: f64) {
        (self.lower, self.upper) = bounds;
        let middle = self.lower.zip(self.upper).map(|(lower, upper)| (lower * upper).sqrt());
        self.ratio = middle.map(|middle| middle / tip);
        self.outcome = Some(outcome.clone());
    }
}

/// The test of a cause.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Confirmation {
    /// The change; `None` if nothing could be changed.
    pub intervention: Option<Intervention>,
    /// The value that limits, in the unit of the intervention.
    pub from: f64,
    /// The new value.
    pub to: f64,
    /// CPU time that a quota left the work over what it took without one, measured before the first pair; `None` for
    /// other changes, and if it could not be read.
    pub left_ratio: Option<f64>,
    /// Capacity after over capacity before, if the cause is the limit; fixed before the first pair.
    pub predicted_ratio: f64,
    /// CPU time of a good answer with the change over that without; `None` if it could not be read.
    pub cost_ratio: Option<f64>,
    /// The result.
    pub result: ConfirmationResult,
    /// Why it is undecided, if no figure says so.
    pub why: Option<String>,
    /// The capacity with the change relative to the capacity of the sham; `None` with too few pairs.
    pub shift: Option<Difference>,
    /// Capacity of the shams over that without any step, before the first pair and after the last.
    pub sham_ratio: Option<f64>,
    /// Pairs to be counted: fixed before the first pair, and doubled if they were undecided.
    pub pairs_planned: u32,
    /// All that were made, in order.
    pub pairs: Vec<ConfirmationPair>,
    /// Capacity without any step.
    pub untouched_per_s: Vec<f64>,
    /// Duration of the whole test.
    pub seconds: f64,
}

impl Confirmation {
    /// Creates a confirmation that could not be made.
    pub fn impossible(why: String) -> Self {
        Self { predicted_ratio: 1.0, why: Some(why), ..Self::default() }
    }

    /// Returns the pairs that count.
    pub fn counted(&self) -> impl Iterator<Item = &ConfirmationPair> {
        self.pairs.iter().filter(|pair| pair.invalid.is_none())
    }
}
