//! The way out of a connection: the answer is written in pieces, and handed to the kernel.

use plimsoll_model::Nanos;
use plimsoll_proto::http1::{BodyLength, encode};

use super::{Exchange, FILL_BYTES, Flushed, OUT_BYTES, Step};
use crate::pump::{Link, SendOutcome, Unsent, send_plain};
use crate::server::conn::{BLOCKED, BODILESS, CHUNKED, HEAD_SENT, KEEP_ALIVE, Phase};
use crate::server::service::Service;

impl<S: Service> Exchange<S> {
    /// Writes as much of the answer as is due and as fits one flush.
    pub(super) fn write_answer(&mut self, index: u32) -> Step {
        if !self.conns.slab[index].flags.has(HEAD_SENT) {
            self.write_head(index);
        }
        loop {
            self.write_piece(index);
            let conn = &mut self.conns.slab[index];
            if conn.piece_left > 0 || self.out.len() >= OUT_BYTES {
                return Step::More(0);
            }
            if conn.pieces_further == 0 {
                if conn.flags.has(CHUNKED) && !conn.flags.has(BODILESS) {
                    encode::last_chunk(&mut self.out);
                }
                self.finish_answer(index);
                return Step::More(0);
            }
            conn.pieces_further -= 1;
            conn.piece_left = conn.piece_bytes;
            self.out_tail_body = 0;
            let delay = self.service.next_delay(self.conns.slab[index].token);
            if delay > Nanos::ZERO {
                self.sleep(index, delay);
                return Step::More(0);
            }
        }
    }

    fn write_head(&mut self, index: u32) {
        let conn = &mut self.conns.slab[index];
        let length = match conn.flags.has(CHUNKED) {
            true => BodyLength::Chunked,
            false => {
                let pieces = u64::from(conn.pieces_further) + 1;
                BodyLength::Fixed(u64::from(conn.piece_bytes) * pieces)
            }
        };
        encode::response_head(&mut self.out, 200, length, conn.flags.has(KEEP_ALIVE));
        self.out_tail_body = 0;
        conn.flags.set(HEAD_SENT);
        if conn.flags.has(BODILESS) {
            (conn.piece_bytes, conn.piece_left, conn.pieces_further) = (0, 0, 0);
        }
    }

    fn write_piece(&mut self, index: u32) {
        let conn = &mut self.conns.slab[index];
        while conn.piece_left > 0 && self.out.len() < OUT_BYTES {
            let written = (conn.piece_bytes - conn.piece_left) as usize;
            let count = FILL_BYTES.min(conn.piece_left as usize);
            let from = written % S::PATTERN.len();
            let bytes = &self.fill[from..from + count];
            if conn.flags.has(CHUNKED) {
                encode::chunk(&mut self.out, bytes);
            } else {
                self.out.extend_from_slice(bytes);
                self.out_tail_body += count;
            }
            conn.piece_left -= count as u32;
        }
    }

    pub(super) fn finish_answer(&mut self, index: u32) {
        self.counters.requests.add(1);
        let conn = &mut self.conns.slab[index];
        conn.phase = match conn.flags.has(KEEP_ALIVE) {
            true => Phase::Idle,
            false => Phase::Closing,
        };
        self.conns.set_deadline(index, self.timeouts.idle);
    }

    /// Hands everything written so far to the kernel. Nothing is written while something is unsent.
    pub(super) fn flush(&mut self, index: u32, finish: bool) -> Flushed {
        let mut unsent = self.conns.take_unsent(index);
        let (conn, session) = self.conns.slab.with_tls(index);
        let Some(socket) = &conn.socket else { return Flushed::Broken };
        let sent = match session {
            Some(session) => {
                let is_last = finish && !session.is_handshaking();
                let link = Link { socket, session, unsent: &mut unsent };
                match is_last {
                    true => self.pump.send_last(link, &self.out),
                    false => self.pump.send(link, &self.out),
                }
            }
            None => {
                let bytes = if unsent.is_empty() { &self.out } else { unsent.bytes() };
                let sent = send_plain(socket, bytes, false);
                let mut left = &bytes[sent.bytes..];
                if conn.phase == Phase::Sending {
                    // Body bytes are made again when there is room, instead of being kept.
                    let again = left.len().min(self.out_tail_body);
                    conn.piece_left += again as u32;
                    left = &left[..left.len() - again];
                }
                unsent = Unsent::new(left);
                sent
            }
        };
        self.abandon_output();
        self.conns.keep_unsent(index, unsent);
        self.counters.tx_bytes.add(sent.bytes as u64);
        match sent.outcome {
            SendOutcome::All => Flushed::All(sent.bytes),
            SendOutcome::Blocked => {
                self.conns.slab[index].flags.set(BLOCKED);
                if sent.bytes > 0 {
                    self.postpone_stall(index);
                }
                Flushed::Blocked
            }
            SendOutcome::Refused(_) | SendOutcome::Failed(_) => Flushed::Broken,
        }
    }

    pub(super) fn abandon_output(&mut self) {
        self.out.clear();
        self.out_tail_body = 0;
    }

    /// A peer that reads, however slowly, is not given up.
    fn postpone_stall(&mut self, index: u32) {
        if self.conns.slab[index].phase == Phase::Idle && self.is_switched(index) {
            self.await_message(index);
        } else if matches!(
            self.conns.slab[index].phase,
            Phase::Sending | Phase::Closing | Phase::Idle
        ) {
            self.conns.set_deadline(index, self.timeouts.idle);
        }
    }
}
