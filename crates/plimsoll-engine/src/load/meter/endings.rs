//! Counting how long operations, openings and connections lasted that somebody ended, so that a
//! hidden timer shows. Nothing is counted for what ends well, or by our own will.

use plimsoll_model::ending::{Closer, Stretch};
use plimsoll_model::{ErrorClass, Nanos};

use super::Meter;
use crate::load::conn::{ConnHot, Peer, State};
use crate::load::conns::Conns;

impl Meter {
    /// Counts the current operation, sent at `since`, as failed in `class`.
    pub(crate) fn count_failed_operation(
        &mut self,
        conns: &Conns,
        index: u32,
        class: ErrorClass,
        now: Nanos,
    ) {
        let connection = conns.slab.connection_of(index);
        let is_reset = conns[connection].peer == Peer::Reset;
        let closer = match class {
            // The class does not say how the connection ended, which a hidden timer is known by.
            ErrorClass::KeepaliveRace if is_reset => Some(Closer::PeerReset),
            class => Closer::of_class(class),
        };
        self.count_ending(&conns[index], Stretch::Operation, closer, now);
    }

    /// Counts an answer with a failing `status` to the current operation.
    pub(crate) fn count_failing_answer(&mut self, hot: &ConnHot, status: u16, now: Nanos) {
        self.count_ending(hot, Stretch::Operation, Closer::of_status(status), now);
    }

    /// Counts a connection that could not be opened.
    pub(crate) fn count_failed_opening(&mut self, hot: &ConnHot, class: ErrorClass, now: Nanos) {
        self.count_ending(hot, Stretch::Opening, Closer::of_class(class), now);
    }

    /// Counts the end of a usable connection by the peer. Call it while the connection is still in the state in which
    /// the end found it: only an idle one has been idle.
    pub(crate) fn count_lifetime(&mut self, conns: &Conns, index: u32, closer: Closer, now: Nanos) {
        let hot = &conns[index];
        let lasted = Nanos::from_millis(conns.slab.age_ms(index, now).into());
        self.tally().endings.record(Stretch::Lifetime, closer, lasted, hot.ops_total, now);
        if hot.state == State::Idle {
            self.count_ending(hot, Stretch::Idle, Some(closer), now);
        }
    }

    /// `since` to now: the operation, the attempt, or the rest of an idle connection.
    fn count_ending(
        &mut self,
        hot: &ConnHot,
        stretch: Stretch,
        closer: Option<Closer>,
        now: Nanos,
    ) {
        if let Some(closer) = closer {
            let lasted = now.since(hot.since);
            self.tally().endings.record(stretch, closer, lasted, hot.ops_total, now);
        }
    }
}
