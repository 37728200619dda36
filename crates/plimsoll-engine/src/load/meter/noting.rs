//! The reasons of failures, noted in the tally of the current second.
//!
//! [`Meter::note`] adds a [`Reason`] to its error class, with the time since the epoch and the local address.
//! [`Meter::store`] collects bytes of an answer that may be a failure. [`Meter::note_failing_answer`] makes the
//! reason of a failing answer from its status, gRPC status or MQTT reason code; secrets of the target ([`private`])
//! are removed from its text. Start reading at [`Meter::note`].

use plimsoll_model::reason::{MqttPacket, Reason};
use plimsoll_model::target::{MqttVersion, Target};
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::conversation::Answer;
use plimsoll_proto::http1::ResponseError;
use plimsoll_proto::mqtt;

use super::Meter;
use crate::load::conn::State;
use crate::load::conns::Conns;
use crate::load::reasons::{Why, body_of, private, status_of};

impl Meter {
    /// Notes why something failed in `class`.
    pub(crate) fn note(
        &mut self,
        conns: &Conns,
        index: u32,
        class: ErrorClass,
        reason: Reason,
        now: Nanos,
    ) {
        let local = || conns.local_address(conns.slab.connection_of(index)).ok();
        let since_epoch = now.since(self.epoch);
        self.tally().failures.reasons.note(class, reason, since_epoch, local);
    }

    /// Notes why a connection could not even begin.
    pub(crate) fn note_unattached(&mut self, class: ErrorClass, reason: Reason, now: Nanos) {
        let since_epoch = now.since(self.epoch);
        self.tally().failures.reasons.note(class, reason, since_epoch, || None);
    }

    /// Notes why a connection could not be opened. What we gave up ourselves has no reason.
    pub(crate) fn note_failed_opening(
        &mut self,
        conns: &Conns,
        index: u32,
        class: ErrorClass,
        why: &dyn Why,
        now: Nanos,
    ) {
        let reason = match (conns[index].state, class) {
            (State::Handshaking, ErrorClass::TlsClosed) => Reason::HandshakeCut { reset: false },
            (State::Handshaking, ErrorClass::ConnectReset) => Reason::HandshakeCut { reset: true },
            (_, ErrorClass::Interrupted) => return,
            _ => why.reason(),
        };
        self.note(conns, index, class, reason, now);
    }

    /// Notes that a reset or an end of the stream has cut off or replaced the answer to the open operation.
    pub(crate) fn note_cut_off(
        &mut self,
        conns: &Conns,
        index: u32,
        class: ErrorClass,
        reset: bool,
        now: Nanos,
    ) {
        let hot = &conns[index];
        let reason = match (hot.answer_begun, hot.reused) {
            (false, false) => Reason::Unanswered { reset },
            // The class says it.
            (false, true) => return,
            (true, _) => ResponseError::Truncated.reason(),
        };
        self.note(conns, index, class, reason, now);
    }

    /// Notes that the server has sent `bytes` on an idle connection.
    pub(crate) fn note_unrequested(&mut self, conns: &Conns, index: u32, bytes: &[u8], now: Nanos) {
        let hot = &conns[index];
        let status = status_of(bytes);
        let reason = match status {
            // What comes late behind an answer is its rest.
            None if hot.reused => Reason::Surplus,
            status => {
                let idle_ms = now.since(hot.since).0 / 1_000_000;
                Reason::Unrequested { status, idle_ms, was_used: hot.reused }
            }
        };
        self.note(conns, index, ErrorClass::UnrequestedAnswer, reason, now);
    }

    /// Stores a part of an answer that is not complete, if its status is a failure.
    pub(crate) fn store_failing_part(&mut self, conns: &mut Conns, index: u32, bytes: &[u8]) {
        if let Some(status) = conns.slab.parser(index).failing_status() {
            self.store_failing(conns, index, status, bytes);
        }
    }

    /// Stores a part of the answer to the operation of `index`, or the packets with which a broker refuses it.
    pub(crate) fn store(&mut self, conns: &Conns, index: u32, bytes: &[u8]) {
        let slab = &conns.slab;
        self.failing.append(slab.token(index), bytes, |token| slab.index_of(token).is_some());
    }

    /// Stores a part of an answer with a failing `status`.
    pub(crate) fn store_failing(&mut self, conns: &Conns, index: u32, status: u16, bytes: &[u8]) {
        let reasons = &self.tally().failures.reasons;
        if ErrorClass::of_status(status).is_some_and(|class| !reasons.has_body(class, status)) {
            self.store(conns, index, bytes);
        }
    }

    /// Notes why the answer to an operation of `target` is a failure.
    pub(crate) fn note_failing_answer(
        &mut self,
        target: Option<&Target>,
        conns: &Conns,
        index: u32,
        class: ErrorClass,
        answer: &Answer,
        now: Nanos,
    ) {
        let known = || target.map(private).unwrap_or_default();
        let reason = match (answer.status, answer.grpc_status(), answer.mqtt_reason()) {
            (status @ 400.., ..) => {
                let stored = self.failing.take(conns.slab.token(index));
                let streamed = conns.slab.said(conns.slab.connection_of(index), index);
                let body = if stored.is_empty() { streamed } else { body_of(&stored) };
                match body.is_empty() {
                    true => Reason::status(status, b"", &[]),
                    false => Reason::status(status, body, &known()),
                }
            }
            (1.., Some(status @ 1..), _) => {
                let message = conns.slab.said(conns.slab.connection_of(index), index);
                Reason::grpc(status, message, &known())
            }
            (_, _, Some(code)) => {
                let stored = self.failing.take(conns.slab.token(index));
                let name = mqtt::reason_name(MqttVersion::V5, code);
                let text = mqtt::reason_string(&stored);
                Reason::mqtt(MqttPacket::Puback, code, name, text, &known())
            }
            // What failed without an answer was noted when it did.
            _ => return,
        };
        self.note(conns, index, class, reason, now);
    }

    /// Counts a usable connection that ends without our doing.
    pub(crate) fn count_lost(&mut self, class: ErrorClass, is_in_use: bool) {
        let tally = self.tally();
        match is_in_use {
            true => tally.failures.lost_in_use.count(class),
            false => tally.failures.lost_idle.count(class),
        }
    }
}
