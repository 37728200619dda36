//! Many operations at once on one connection: streams of HTTP/2, publishes of MQTT.
//!
//! Each operation on a shared connection has its own slot, a *lane*, without a socket: times, timers, rows and stamps
//! work by slot as they do elsewhere. The connection is in its pool's ring while another stream may begin on it, and
//! moves to the end of the ring with each one that does.
//!
//! The effects of one event leave together, in one record and one call: `Worker::flush_streams`.

use plimsoll_model::plan::LoadPlan;
use plimsoll_model::tally::Tally;
use plimsoll_proto::conversation::Traits;

/// Times that an operation is sent again if servers have not begun it. A server that ends each connection after 1,000
/// requests, as nginx does, leaves some untouched several times; one that ends all of them at once must not keep an
/// operation for ever.
pub(super) const AGAIN_MAX: u8 = 8;

/// One worker's part in it.
pub(super) struct Streams {
    /// Output gathers in the connections' clients.
    pub(super) do_gather: bool,
    /// Most at once on one connection; `None` if connections are not shared.
    pub(super) most: Option<u32>,
    /// The fewest that a server allows.
    pub(super) allowed: u32,
    /// `true` if the size of requests' fields has been compared with what a server accepts.
    pub(super) has_compared_headers: bool,
    /// Tokens of connections with something to send.
    pub(super) unflushed: Vec<u64>,
    /// Lent to the connection that sends; empty between calls.
    pub(super) output: Vec<u8>,
}

impl Streams {
    pub(super) fn new(plan: &LoadPlan) -> Self {
        let is_shared = plan.shares_connections();
        Self {
            do_gather: is_shared || Traits::of(plan.protocol()).has_streams,
            most: is_shared.then(|| plan.streams()),
            allowed: u32::MAX,
            has_compared_headers: false,
            unflushed: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Reports whether connections carry several operations at once.
    pub(super) const fn are_shared(&self) -> bool {
        self.most.is_some()
    }

    /// Ends the second.
    pub(super) fn end_second(&self, tally: &mut Tally) {
        let most = self.most.unwrap_or(1);
        tally.answers.streams.allowed = (self.allowed < most).then_some(self.allowed);
        if self.are_shared() || tally.answers.streams.allowed.is_some() {
            tally.answers.streams.each = most;
        }
    }
}
