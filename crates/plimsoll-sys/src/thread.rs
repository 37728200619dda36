//! Named threads, pinned where asked.

use std::io;
use std::thread::Builder;
use std::thread::JoinHandle;

use crate::affinity;

/// Starts a thread called `name`, pinned to `cpu` where one is given. A CPU that does not exist
/// leaves the thread unpinned.
pub fn spawn<T: Send + 'static>(
    name: &str,
    cpu: Option<u32>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        if let Some(cpu) = cpu {
            let _ = affinity::pin_thread(&[cpu]);
        }
        work()
    })
}
