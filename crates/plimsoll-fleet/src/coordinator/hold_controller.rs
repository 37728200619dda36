//! The controller of a running hold, which decides the next step.

use plimsoll_model::Nanos;
use plimsoll_model::plan::Steer;
use plimsoll_model::tally::Tally;

/// The state of a hold. Times are on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub struct HoldView<'a> {
    /// Now.
    pub now: Nanos,
    /// Start of the hold, which is the start of its first second.
    pub epoch: Nanos,
    /// The seconds that every agent has delivered.
    pub total: &'a Tally,
    /// `total` covers everything up to here.
    pub covered: Nanos,
    /// Some agent has delivered everything up to here. A steer that is done was done before: an
    /// agent reports it after it has delivered the second.
    pub delivered: Nanos,
    /// Connections usable now, as far as the agents have reported.
    pub held: u64,
    /// Steers given so far; they are numbered from 1.
    pub given: u32,
    /// Every steer up to this number is done.
    pub done: u32,
    /// Agents that are not lost.
    pub agents: u32,
}

/// The next order of a controller.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Order {
    /// Send this to every agent.
    Steer(Steer),
    /// Close everything; the hold is over.
    Finish,
}

/// Steers a hold. Asked after each message of an agent and at least every 50 ms, from the start of
/// the hold until [`Order::Finish`], an interrupt, or the loss of the last agent.
pub trait HoldController {
    /// Returns the next order; `None` to wait.
    fn poll(&mut self, view: &HoldView<'_>) -> Option<Order>;
}
