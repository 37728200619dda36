//! Sends requests piece by piece, as far as a turn allows, and what must follow them.

use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::{READS_NO_ANSWERS, REPLIES_BYTES_MAX};

use super::conn::State;
use super::reasons::Why as _;
use super::worker::Worker;

/// Sends on one connection before others are served: up to 2 MiB.
pub(super) const SENDS_PER_TURN: u32 = 8;

impl Worker {
    /// Sends as much of what is unsent, and of the request, as the kernel accepts and as one turn allows.
    pub(super) fn push(&mut self, index: u32, now: Nanos) {
        let mut sends_left = SENDS_PER_TURN;
        while sends_left > 0 {
            sends_left -= 1;
            let mut scratch = std::mem::take(&mut self.buffers.scratch);
            let hot = &self.conns[index];
            let request = self.requests.get(hot.target);
            let (piece, is_last) = request.piece(hot.request_sent_bytes as usize, &mut scratch);
            let sent = self.conns.send_request(index, piece, is_last);
            self.buffers.scratch = scratch;
            if !self.handle_sent(index, sent, now) {
                return;
            }
            if !self.has_more_to_send(index) {
                if !self.send_postponed(index, now) {
                    return;
                }
                return self.note_sent(index);
            }
        }
        // The poller, which is edge-triggered, has nothing new to say of a socket that takes everything.
        self.later.unpushed.push(self.conns.slab.token(index));
    }

    /// Continues the sends that the last turn did not complete.
    pub(super) fn push_on(&mut self, now: Nanos) {
        if self.later.unpushed.is_empty() {
            return;
        }
        for token in std::mem::take(&mut self.later.unpushed) {
            if let Some(index) = self.conns.slab.index_of(token) {
                match self.streams.do_gather {
                    true => self.flush_connection(index, now),
                    false if self.has_more_to_send(index) => self.push(index, now),
                    false => {}
                }
            }
        }
    }

    /// Sends what the server was to be answered while the request was on its way; returns whether the
    /// connection is still there.
    fn send_postponed(&mut self, index: u32, now: Nanos) -> bool {
        if self.later.postponed.is_empty() {
            return true;
        }
        let token = self.conns.slab.token(index);
        let Some(place) = self.later.postponed.iter().position(|(of, _)| *of == token) else {
            return true;
        };
        let (_, reply) = self.later.postponed.swap_remove(place);
        let sent = self.conns.send_aside(index, &reply);
        self.handle_sent(index, sent, now);
        self.conns.slab.index_of(token).is_some()
    }

    /// Sends what follows the request, which may not be sent as a whole.
    pub(super) fn send_behind_request(&mut self, index: u32, bytes: &[u8], now: Nanos) {
        if self.conns[index].state != State::Busy || self.request_is_sent(index) {
            let generation = self.conns[index].generation;
            let sent = self.conns.send_aside(index, bytes);
            self.handle_sent(index, sent, now);
            if self.conns[index].generation == generation
                && self.conns.unsent_bytes(index) > REPLIES_BYTES_MAX
            {
                self.part_from_deaf(index, now);
            }
            return;
        }
        let token = self.conns.slab.token(index);
        let slab = &self.conns.slab;
        self.later.postponed.retain(|(of, _)| slab.index_of(*of).is_some());
        match self.later.postponed.iter_mut().find(|(of, _)| *of == token) {
            None => self.later.postponed.push((token, bytes.to_vec())),
            Some((_, earlier)) if self.protocol.last_reply_only => *earlier = bytes.to_vec(),
            Some((_, earlier)) if earlier.len() < REPLIES_BYTES_MAX => {
                earlier.extend_from_slice(bytes);
            }
            Some(_) => self.part_from_deaf(index, now),
        }
    }

    /// Ends a connection whose server reads nothing of what it must be answered.
    fn part_from_deaf(&mut self, index: u32, now: Nanos) {
        // What waits would stay in the kernel.
        self.conns.reset_on_close(index);
        match self.conns[index].state {
            State::Idle => {
                self.meter.note(
                    &self.conns,
                    index,
                    ErrorClass::PeerNotReading,
                    READS_NO_ANSWERS.reason(),
                    now,
                );
                self.end_idle(index, ErrorClass::PeerNotReading, now);
            }
            _ => self.fail(index, ErrorClass::PeerNotReading, &READS_NO_ANSWERS, now),
        }
    }
}
