//! The sending half of a compact connection.

use rustls::AlertDescription;

use super::{Compact, FATAL, Flags, WARNING};
use crate::record::Fault;
use crate::suite::Material;
use crate::{ThreadContext, TlsError, record};

/// KeyUpdate, one byte long, with and without a request for one in return.
const KEY_UPDATE_REQUESTED: [u8; 5] = [24, 0, 0, 1, 1];
const KEY_UPDATE_NOT_REQUESTED: [u8; 5] = [24, 0, 0, 1, 0];

impl Compact {
    /// Appends what is due, then `bytes` as records.
    pub(crate) fn send(
        &mut self,
        thread: &mut ThreadContext,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        self.transmit(thread, out);
        if bytes.is_empty() {
            return Ok(());
        }
        if self.flags.has(Flags::ENDED) {
            return Err(TlsError::Record { reason: "none may follow an alert of ours".to_owned() });
        }
        if self.material() == Material::Key {
            self.check_last_of(bytes)?;
        }
        for content in bytes.chunks(record::PLAINTEXT_BYTES_MAX) {
            self.send_record(thread, content, out).map_err(|fault| self.fail(fault))?;
        }
        Ok(())
    }

    /// Refuses bytes that the key cannot protect any more, if there will be no other key.
    fn check_last_of(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        let further = bytes.len().div_ceil(record::PLAINTEXT_BYTES_MAX) as u64 - 1;
        if self.tx.sequence.saturating_add(further) < self.suite.records_max() {
            return Ok(());
        }
        self.queue_close_notify();
        Err(TlsError::KeyExhausted)
    }

    fn send_record(
        &mut self,
        thread: &mut ThreadContext,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        debug_assert!(content.len() <= record::PLAINTEXT_BYTES_MAX);
        self.answer_key_update(thread, out)?;
        // Our own KeyUpdate is the last record under the old key.
        let last = self.tx.sequence.saturating_add(1) >= self.suite.records_max();
        if last && self.material() == Material::TrafficSecret {
            self.send_key_update(thread, KEY_UPDATE_REQUESTED, out)?;
        }
        self.seal(thread, record::APPLICATION_DATA, content, out)
    }

    /// Appends alerts that are due. A KeyUpdate that is due goes in front of them, but does not
    /// go out by itself: it may wait for the next record (RFC 8446 4.6.3).
    pub(crate) fn transmit(&mut self, thread: &mut ThreadContext, out: &mut Vec<u8>) {
        if !self.wants_transmit() {
            return;
        }
        // Sealing fails only for a key that has no record left; then silence is all we can do.
        let _ = self.answer_key_update(thread, out);
        if self.flags.has(Flags::REFUSAL_DUE) {
            self.flags.clear(Flags::REFUSAL_DUE);
            let refusal = [WARNING, u8::from(AlertDescription::NoRenegotiation)];
            let _ = self.seal(thread, record::ALERT, &refusal, out);
        }
        if self.alert != 0 {
            let alert = [FATAL, std::mem::take(&mut self.alert)];
            let _ = self.seal(thread, record::ALERT, &alert, out);
        }
        if self.flags.has(Flags::CLOSE_DUE) {
            self.flags.clear(Flags::CLOSE_DUE);
            let close = [WARNING, u8::from(AlertDescription::CloseNotify)];
            let _ = self.seal(thread, record::ALERT, &close, out);
        }
    }

    /// Announces that nothing more will be sent, unless that was done.
    pub(crate) const fn queue_close_notify(&mut self) {
        if !self.flags.has(Flags::ENDED) {
            self.flags.set(Flags::ENDED);
            self.flags.set(Flags::CLOSE_DUE);
        }
    }

    fn answer_key_update(
        &mut self,
        thread: &mut ThreadContext,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        if !self.flags.has(Flags::KEY_UPDATE_DUE) {
            return Ok(());
        }
        self.flags.clear(Flags::KEY_UPDATE_DUE);
        self.send_key_update(thread, KEY_UPDATE_NOT_REQUESTED, out)
    }

    /// Sends the KeyUpdate message under the old key, then switches to the new key.
    fn send_key_update(
        &mut self,
        thread: &mut ThreadContext,
        message: [u8; 5],
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        self.seal(thread, record::HANDSHAKE, &message, out)?;
        thread.messages.key_updates_sent += 1;
        self.update(|compact| &mut compact.tx)
    }

    fn seal(
        &mut self,
        thread: &mut ThreadContext,
        kind: u8,
        content: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        let exhausted =
            Fault { alert: AlertDescription::InternalError, reason: "our key has no record left" };
        let next = self.tx.sequence.checked_add(1).ok_or(exhausted)?;
        let material = self.material();
        let key = thread.keys.key(self.suite, material, &self.tx.secret).map_err(|_| exhausted)?;
        record::seal(self.suite, key, self.tx.sequence, kind, content, out)?;
        self.tx.sequence = next;
        Ok(())
    }
}
