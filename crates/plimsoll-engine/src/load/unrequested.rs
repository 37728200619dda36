//! Messages of WebSocket that answer nothing.
//!
//! A message that the server sends on its own while an operation awaits its answer cannot be distinguished from the
//! answer, unless the plan says what an answer is. The message counts as this answer, the answer counts as the next
//! operation's, and so on: in the end more messages have come than were sent. A load listens for a moment after its
//! last answer, so that the last message is not missed. If each operation has its own connection, the first connection
//! of each thread stays open and listens until then.

use plimsoll_model::Nanos;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_proto::conversation::Traits;
use plimsoll_sys::clock;

/// Bounds of the time for which a load listens after its last answer. The time itself is twice the longest answer,
/// since a message that is mistaken for an answer at most halves a measured time.
pub(super) const LISTEN_MIN: Nanos = Nanos::from_millis(100);
pub(super) const LISTEN_MAX: Nanos = Nanos::from_secs(1);

/// One worker's part of it.
pub(super) struct Unrequested {
    /// `true` if messages are answers at all.
    pub(super) is_judged: bool,
    /// `true` if a message has come that nothing awaited.
    pub(super) has_come: bool,
    /// `true` if one of them would have been an answer: there is nothing left to find out.
    pub(super) has_surplus: bool,
    /// The longest time from an operation's sending to its answer.
    pub(super) slowest: Nanos,
    /// Token of the connection that stays open after its answer.
    pub(super) listener: Option<u64>,
    pub(super) settles_at: Option<Nanos>,
    /// The CLOCK_MONOTONIC that this process reads.
    pub(super) clock: u32,
}

impl Unrequested {
    pub(super) fn new(plan: &LoadPlan) -> Self {
        let is_hold = matches!(plan.pacing, Pacing::Hold(_));
        Self {
            is_judged: Traits::of(plan.protocol()).judges_messages && !is_hold,
            has_come: false,
            has_surplus: false,
            slowest: Nanos::ZERO,
            listener: None,
            settles_at: None,
            clock: clock::monotonic_clock(),
        }
    }

    /// Notes the time that an operation's answer took.
    #[inline]
    pub(super) fn note_answer(&mut self, took: Nanos) {
        if self.is_judged {
            self.slowest = self.slowest.max(took);
        }
    }
}
