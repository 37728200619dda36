//! The shared part of the sessions of one thread while bytes move.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use plimsoll_model::tally::TlsMessageCounts;

use crate::TlsError;
use crate::key_cache::{KEY_BYTES, KeyCache};

/// Memory for expanded keys in one thread: the keys of about 12,000 busy sessions.
const KEYS_BYTES_MAX: usize = 16 << 20;
/// One key for each direction.
const KEYS_PER_SESSION: usize = 2;
/// Checking a session's secrets costs 2 % of a client's handshake: this many are checked, and one of every
/// [`CHECKED_EVERY`] others.
const CHECKED_FIRST: u64 = 16;
const CHECKED_EVERY: u64 = 64;
/// Memory for records that have come in part, in one thread: about 32,000 at their longest.
const PARTIALS_BYTES_MAX: usize = 512 << 20;

/// Expanded keys, scratch space and counters for the sessions of one thread. Any session may be
/// used with any of them; what it finds there only saves time.
pub struct ThreadContext {
    pub(crate) keys: KeyCache,
    pub(crate) messages: TlsMessageCounts,
    pub(crate) scratch: Vec<u8>,
    partials_bytes: Arc<AtomicUsize>,
    /// Sessions that were to be compact and kept their rustls object: an unknown cipher suite, or
    /// a KeyUpdate before the session had settled.
    pub(crate) kept_in_rustls: u64,
    compacted: u64,
    /// Compact sessions whose traffic secrets do not give rustls's keys: they work by these keys
    /// until a KeyUpdate is due. A bug here or in rustls.
    pub(crate) without_secrets: u64,
}

impl std::fmt::Debug for ThreadContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadContext")
            .field("kept_in_rustls", &self.kept_in_rustls)
            .finish_non_exhaustive()
    }
}

impl ThreadContext {
    /// Keeps the expanded keys of `sessions` busy sessions, as far as 16 MiB go. Making one takes
    /// about 2 us.
    pub fn new(sessions: u64) -> Self {
        let keys_max = (KEYS_BYTES_MAX / KEY_BYTES) as u64;
        let keys = sessions.saturating_mul(KEYS_PER_SESSION as u64).min(keys_max);
        Self {
            keys: KeyCache::new(keys as usize),
            messages: TlsMessageCounts::default(),
            scratch: Vec::new(),
            partials_bytes: Arc::default(),
            kept_in_rustls: 0,
            compacted: 0,
            without_secrets: 0,
        }
    }

    /// Returns the number of expanded keys at present.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Frees the expanded keys, 1.4 kB a session. A session that continues makes its own again.
    pub fn free_keys(&mut self) {
        self.keys.clear();
    }

    /// Returns the counts of TLS messages after handshakes since the last call.
    pub fn take_messages(&mut self) -> TlsMessageCounts {
        std::mem::take(&mut self.messages)
    }

    /// Counts a session that is made compact; returns whether its secrets are checked against rustls's keys: a
    /// difference would show in all of them.
    pub(crate) const fn is_checked(&mut self) -> bool {
        self.compacted += 1;
        self.compacted <= CHECKED_FIRST
            || self.compacted.is_multiple_of(CHECKED_EVERY)
            || self.without_secrets > 0
    }

    /// Permits to hold `bytes` until the permit is dropped.
    pub(crate) fn permit(&self, bytes: usize) -> Result<Permit, TlsError> {
        if self.partials_bytes.load(Relaxed) + bytes > PARTIALS_BYTES_MAX {
            return Err(TlsError::TooManyPartials { most_bytes: PARTIALS_BYTES_MAX });
        }
        self.partials_bytes.fetch_add(bytes, Relaxed);
        Ok(Permit { held_bytes: Arc::clone(&self.partials_bytes), bytes })
    }
}

/// Counts the bytes that one session holds.
pub(crate) struct Permit {
    held_bytes: Arc<AtomicUsize>,
    bytes: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.held_bytes.fetch_sub(self.bytes, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::ErrorClass;

    use super::*;

    #[test]
    fn the_first_sessions_are_checked_and_some_of_the_others() {
        let mut thread = ThreadContext::new(0);
        let checked =
            |thread: &mut ThreadContext, of: u64| (0..of).filter(|_| thread.is_checked()).count();
        assert_eq!(checked(&mut thread, CHECKED_FIRST), CHECKED_FIRST as usize);
        assert_eq!(checked(&mut thread, 10 * CHECKED_EVERY), 10);
        thread.without_secrets += 1;
        assert_eq!(checked(&mut thread, 100), 100);
    }

    #[test]
    fn the_keys_of_ten_thousand_busy_sessions_fit() {
        assert_eq!(ThreadContext::new(10_000).keys.keys_max, 20_000);
        assert!(ThreadContext::new(u64::MAX).keys.keys_max * KEY_BYTES <= KEYS_BYTES_MAX);
    }

    #[test]
    fn partials_are_bounded_in_bytes_and_come_free_again() {
        let thread = ThreadContext::new(0);
        let record_bytes = 16 << 10;
        let records = PARTIALS_BYTES_MAX / record_bytes;
        assert!(records > 10_000, "{records}");
        let mut permits: Vec<_> =
            (0..records).map(|_| thread.permit(record_bytes).unwrap()).collect();
        let error = thread.permit(record_bytes).err().unwrap();
        assert_eq!(error.class(), ErrorClass::LocalMemory, "{error}");
        permits.pop();
        assert!(thread.permit(record_bytes).is_ok());
    }
}
