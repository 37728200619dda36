//! Receives what a proxy logs, as a log daemon does, and throws it away.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::thread::JoinHandle;

use plimsoll_sys::affinity;
use plimsoll_sys::thread::spawn;

/// The longest line that HAProxy sends by default, and its header.
const LINE_BYTES_MAX: usize = 2_048;

/// A socket like /dev/log. Dropping it ends its thread.
#[derive(Debug)]
pub(crate) struct LogReceiver {
    socket: UnixDatagram,
    thread: Option<JoinHandle<()>>,
}

impl LogReceiver {
    /// Receives at `path`, on `cpus`, or on any where there are none.
    pub(crate) fn start(path: &Path, cpus: Vec<u32>) -> io::Result<Self> {
        let socket = UnixDatagram::bind(path)?;
        let receiver = socket.try_clone()?;
        let thread = spawn("log", None, move || {
            // On a CPU of the server it would be part of what is measured.
            if !cpus.is_empty() {
                let _ = affinity::pin_thread(&cpus);
            }
            let mut line = [0; LINE_BYTES_MAX];
            while matches!(receiver.recv(&mut line), Ok(bytes) if bytes > 0) {}
        })?;
        Ok(Self { socket, thread: Some(thread) })
    }
}

impl Drop for LogReceiver {
    fn drop(&mut self) {
        let ended = self.socket.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take().filter(|_| ended.is_ok()) {
            // It cannot panic, and there is nothing to do if it did.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_and_the_thread_ends() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("log.sock");
        let receiver = LogReceiver::start(&path, Vec::new()).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        // More than a queue holds: each waits until there is room.
        for _ in 0..2_000 {
            sender.send_to(b"<134>haproxy[1]: line", &path).unwrap();
        }
        drop(receiver);
        assert!(sender.send_to(b"line", &path).is_err());
    }
}
