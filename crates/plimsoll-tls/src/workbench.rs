//! What the sessions of one thread share while bytes move.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use plimsoll_model::tally::TlsMessageCounts;

use crate::TlsError;
use crate::keyring::Keyring;

/// Sessions of one thread that may hold a part of a record or message at once: with records of
/// 16 KiB they take 64 MiB.
const PARTIALS_MAX: usize = 4096;

/// Expanded keys, scratch space and counters for the sessions of one thread. Any session may be
/// used with any workbench; what it finds there only saves time.
pub struct Workbench {
    pub(crate) keys: Keyring,
    pub(crate) messages: TlsMessageCounts,
    pub(crate) scratch: Vec<u8>,
    partials: Arc<AtomicUsize>,
    unparked: u64,
    without_secrets: u64,
}

impl std::fmt::Debug for Workbench {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workbench").field("unparked", &self.unparked).finish_non_exhaustive()
    }
}

impl Workbench {
    /// Keeps about `keys` expanded keys, two of which serve a busy connection; each takes up to
    /// 1 kB, and making one about 2 us.
    pub fn new(keys: usize) -> Self {
        Self {
            keys: Keyring::new(keys),
            messages: TlsMessageCounts::default(),
            scratch: Vec::new(),
            partials: Arc::default(),
            unparked: 0,
            without_secrets: 0,
        }
    }

    /// TLS messages after handshakes since the last call.
    pub const fn take_messages(&mut self) -> TlsMessageCounts {
        std::mem::replace(
            &mut self.messages,
            TlsMessageCounts { tickets: 0, key_updates_received: 0, key_updates_sent: 0 },
        )
    }

    /// Sessions that were to be parked and kept their rustls object: an unknown cipher suite, or
    /// a KeyUpdate before the session had settled.
    pub const fn unparked(&self) -> u64 {
        self.unparked
    }

    /// Parked sessions whose traffic secrets did not give rustls's keys: they work by these keys
    /// until a KeyUpdate is due. Anything but 0 is a bug here or in rustls.
    pub const fn without_secrets(&self) -> u64 {
        self.without_secrets
    }

    pub(crate) const fn count_without_secrets(&mut self) {
        self.without_secrets += 1;
    }

    pub(crate) const fn count_unparked(&mut self) {
        self.unparked += 1;
    }

    /// The right to hold bytes until it is dropped.
    pub(crate) fn permit(&self) -> Result<Permit, TlsError> {
        if self.partials.load(Relaxed) >= PARTIALS_MAX {
            return Err(TlsError::TooManyPartials { most: PARTIALS_MAX });
        }
        self.partials.fetch_add(1, Relaxed);
        Ok(Permit(Arc::clone(&self.partials)))
    }
}

/// Counts one session that holds bytes.
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::ErrorClass;

    use super::*;

    #[test]
    fn partials_are_bounded_and_come_free_again() {
        let bench = Workbench::new(0);
        let mut permits: Vec<_> = (0..PARTIALS_MAX).map(|_| bench.permit().unwrap()).collect();
        let error = bench.permit().err().unwrap();
        assert_eq!(error.class(), ErrorClass::LocalMemory, "{error}");
        permits.pop();
        assert!(bench.permit().is_ok());
    }
}
