//! The parts that a load is assembled from.

use plimsoll_model::Nanos;
use plimsoll_model::plan::Pacing;
use plimsoll_model::slo::Slo;

use super::Destination;
use crate::flags::shared::{ClientFlags, HandshakeFlags, OutputFlags, PoolFlags, ResumeFlags};

/// The parts that every load has, in each kind of experiment.
pub(super) struct Parts<'a> {
    pub(super) to: &'a Destination,
    pub(super) pool: &'a PoolFlags,
    pub(super) client: &'a ClientFlags,
    pub(super) handshake: &'a HandshakeFlags,
    pub(super) resume: ResumeFlags,
    pub(super) output: &'a OutputFlags,
    pub(super) pacing: Pacing,
    /// Operations after which the load ends, where known: bounds the default pool.
    pub(super) ops_total: Option<u64>,
    pub(super) slo: Option<Slo>,
    pub(super) deadline: Option<Nanos>,
    pub(super) linger: Nanos,
    pub(super) seed: u64,
}
