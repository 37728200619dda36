//! Watches the memory of the machine while something else runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::bench::footprint;

const INTERVAL: Duration = Duration::from_millis(100);

/// A thread that reads what memory is available until it is ended.
pub(super) struct Witness {
    least_bytes: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl Witness {
    pub(super) fn start() -> Result<Self> {
        let least_bytes = Arc::new(AtomicU64::new(footprint::available_bytes()?));
        let is_over = Arc::new(AtomicBool::new(false));
        let (least, over) = (Arc::clone(&least_bytes), Arc::clone(&is_over));
        let thread = thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                least.fetch_min(footprint::available_bytes()?, Ordering::Relaxed);
                thread::sleep(INTERVAL);
            }
            Ok(())
        });
        Ok(Self { least_bytes, is_over, thread })
    }

    /// The least that was available, bytes.
    pub(super) fn end(self) -> Result<u64> {
        self.is_over.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(watched) => watched?,
            Err(_) => bail!("the thread that watches memory panicked"),
        }
        Ok(self.least_bytes.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_kept() {
        let witness = Witness::start().unwrap();
        witness.least_bytes.fetch_min(7, Ordering::Relaxed);
        assert_eq!(witness.end().unwrap(), 7);
    }
}
