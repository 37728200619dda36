//! The stop of a server's workers.

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_sys::Errno;
use plimsoll_sys::poll::Waker;

/// The signal that makes workers end.
#[derive(Debug)]
pub(super) struct Stop {
    flag: AtomicBool,
    pub(super) waker: Waker,
}

impl Stop {
    pub(super) fn new() -> Result<Self, Errno> {
        Ok(Self { flag: AtomicBool::new(false), waker: Waker::new()? })
    }

    pub(super) fn is_set(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self) {
        self.flag.store(true, Ordering::Relaxed);
        self.waker.wake();
    }
}
