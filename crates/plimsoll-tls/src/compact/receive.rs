//! The receiving half of a compact connection.
//!
//! [`Compact::receive`] decrypts the whole records at the front of its input and returns the number of bytes
//! consumed; the caller buffers an incomplete record. Application data stays in `plaintext`; handshake messages and
//! alerts are decrypted there too, handled, and truncated away. A fault of the peer queues an alert and sets
//! [`Flags::FAILED`], after which nothing is read. At most 32 records without data may follow one another. Start
//! reading at [`Compact::receive`].

use rustls::AlertDescription;

use super::messages::Message;
use super::{Compact, FATAL, Flags, MessageReader, WARNING, messages};
use crate::record::Fault;
use crate::{ThreadContext, TlsError, record};

/// Records without data (empty ones, KeyUpdates, warnings) that may follow each other. 32 is what
/// OpenSSL and BoringSSL allow.
const WITHOUT_DATA_MAX: u8 = 32;

const UNEXPECTED: AlertDescription = AlertDescription::UnexpectedMessage;

impl Compact {
    /// Takes the whole records at the front of `input` and appends their data to `plaintext`;
    /// returns the number of bytes taken. `message` is what an earlier record left of a message.
    pub(crate) fn receive(
        &mut self,
        thread: &mut ThreadContext,
        message: &mut MessageReader,
        input: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<usize, TlsError> {
        let mut taken = 0;
        loop {
            let rest = &input[taken..];
            if self.flags.has(Flags::FAILED) {
                return Err(TlsError::Record { reason: "an earlier one was wrong".to_owned() });
            }
            if self.flags.has(Flags::PEER_CLOSED) {
                // "Any data received after a closure alert has been received MUST be ignored."
                return Ok(input.len());
            }
            let Some(length) = self.record_length(rest)? else { return Ok(taken) };
            let Some(whole) = rest.get(..length) else { return Ok(taken) };
            self.receive_record(thread, message, whole, plaintext)?;
            taken += length;
        }
    }

    /// Returns the bytes of the record that begins with `bytes`; `None` while its header is not complete.
    pub(crate) fn record_length(&mut self, bytes: &[u8]) -> Result<Option<usize>, TlsError> {
        let (Some(length), Some(header)) = (record::length(bytes), bytes.first_chunk()) else {
            return Ok(None);
        };
        match record::check_header(self.suite, header) {
            Ok(()) => Ok(Some(length)),
            Err(fault) => Err(self.fail(fault)),
        }
    }

    fn receive_record(
        &mut self,
        thread: &mut ThreadContext,
        message: &mut MessageReader,
        whole: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let before = plaintext.len();
        let kind = self.open(thread, whole, plaintext).map_err(|fault| self.fail(fault))?;
        if kind == record::APPLICATION_DATA {
            return self.receive_data(message, plaintext.len() - before);
        }
        let content = &plaintext[before..];
        let outcome = match kind {
            _ if content.is_empty() => {
                Err(self.fail(Fault { alert: UNEXPECTED, reason: "it is empty and no data" }))
            }
            record::HANDSHAKE => {
                self.receive_messages(thread, message, content).map_err(|fault| self.fail(fault))
            }
            record::ALERT if message.is_between_messages() => self.receive_alert(content),
            _ => {
                Err(self.fail(Fault { alert: UNEXPECTED, reason: "its content has no place here" }))
            }
        };
        plaintext.truncate(before);
        outcome
    }

    /// Opens the next record of the receiving direction.
    fn open(
        &mut self,
        thread: &mut ThreadContext,
        whole: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<u8, Fault> {
        let exhausted = Fault {
            alert: AlertDescription::InternalError,
            reason: "the peer has used its key for too many records",
        };
        let next = self.rx.sequence.checked_add(1).ok_or(exhausted)?;
        let material = self.material();
        let key = thread.keys.key(self.suite, material, &self.rx.secret).map_err(|_| exhausted)?;
        let kind = record::open(self.suite, key, self.rx.sequence, whole, plaintext)?;
        self.rx.sequence = next;
        Ok(kind)
    }

    fn receive_data(&mut self, message: &MessageReader, bytes: usize) -> Result<(), TlsError> {
        if !message.is_between_messages() {
            let reason = "data came between two parts of a handshake message";
            return Err(self.fail(Fault { alert: UNEXPECTED, reason }));
        }
        if bytes > 0 {
            self.without_data = 0;
            return Ok(());
        }
        self.count_without_data().map_err(|fault| self.fail(fault))
    }

    fn count_without_data(&mut self) -> Result<(), Fault> {
        self.without_data = self.without_data.saturating_add(1);
        if self.without_data > WITHOUT_DATA_MAX {
            let reason = "too many records without data have followed each other";
            return Err(Fault { alert: UNEXPECTED, reason });
        }
        Ok(())
    }

    fn receive_messages(
        &mut self,
        thread: &mut ThreadContext,
        reader: &mut MessageReader,
        mut content: &[u8],
    ) -> Result<(), Fault> {
        let tls13 = self.suite.is_tls13();
        while let Some(message) = reader.next(&mut content, self.side(), tls13)? {
            match message.kind {
                messages::NEW_SESSION_TICKET => thread.messages.tickets += 1,
                messages::KEY_UPDATE => {
                    if !content.is_empty() {
                        let reason = "a KeyUpdate does not end its record";
                        return Err(Fault { alert: UNEXPECTED, reason });
                    }
                    thread.messages.key_updates_received += 1;
                    self.receive_key_update(message)?;
                }
                // HelloRequest or ClientHello: the reader lets nothing else pass.
                _ => self.refuse_renegotiation()?,
            }
        }
        Ok(())
    }

    fn receive_key_update(&mut self, message: Message) -> Result<(), Fault> {
        self.count_without_data()?;
        match message.first {
            0 => {}
            1 => self.flags.set(Flags::KEY_UPDATE_DUE),
            _ => {
                return Err(Fault {
                    alert: AlertDescription::IllegalParameter,
                    reason: "a KeyUpdate asks for something that does not exist",
                });
            }
        }
        self.update(|compact| &mut compact.rx)
    }

    fn refuse_renegotiation(&mut self) -> Result<(), Fault> {
        if self.flags.has(Flags::REFUSED) {
            let reason = "the peer insists on renegotiation";
            return Err(Fault { alert: UNEXPECTED, reason });
        }
        self.flags.set(Flags::REFUSED);
        self.flags.set(Flags::REFUSAL_DUE);
        Ok(())
    }

    fn receive_alert(&mut self, content: &[u8]) -> Result<(), TlsError> {
        let &[level, description] = content else {
            let alert = AlertDescription::DecodeError;
            return Err(self.fail(Fault { alert, reason: "an alert is not two bytes long" }));
        };
        let alert = AlertDescription::from(description);
        // In answer to an alert nothing is sent, unless its level makes no sense.
        let answer = match (level, alert) {
            (WARNING | FATAL, AlertDescription::CloseNotify) => {
                self.flags.set(Flags::PEER_CLOSED);
                return Ok(());
            }
            (WARNING, AlertDescription::UserCanceled) => None,
            (WARNING, _) if !self.suite.is_tls13() => None,
            (WARNING, _) => Some(AlertDescription::DecodeError),
            (FATAL, _) => {
                self.flags.set(Flags::FAILED);
                self.flags.set(Flags::ENDED);
                return Err(TlsError::alert_received(alert));
            }
            _ => Some(AlertDescription::IllegalParameter),
        };
        match answer {
            None => self.count_without_data().map_err(|fault| self.fail(fault)),
            Some(answer) => {
                self.fail(Fault { alert: answer, reason: "" });
                Err(TlsError::alert_received(alert))
            }
        }
    }
}
