//! The end of a process's output: enough for an error message, bounded however much it writes.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use plimsoll_sys::thread::{lock, spawn};
use std::io;

/// About fifty lines.
const TAIL_BYTES_MAX: usize = 4096;

/// Reads a stream on its own thread and keeps its last bytes.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: Arc<Mutex<VecDeque<u8>>>,
    ended: Receiver<()>,
}

impl Tail {
    /// Reads `stream` to its end.
    pub(crate) fn follow(mut stream: impl Read + Send + 'static) -> io::Result<Self> {
        let bytes = Arc::new(Mutex::new(VecDeque::new()));
        let (end, ended) = mpsc::channel();
        let into = bytes.clone();
        let _follower = spawn("tail", None, move || {
            let mut chunk = [0; 1024];
            while let Ok(length @ 1..) = stream.read(&mut chunk) {
                append(&mut lock(&into), &chunk[..length]);
            }
            // The receiver may be gone.
            let _ = end.send(());
        })?;
        Ok(Self { bytes, ended })
    }

    /// Returns the end of the stream as text. Waits up to `wait` for the stream to be over: what a
    /// process wrote last may still be in the pipe, and its children may hold it open.
    pub(crate) fn text(&self, wait: Duration) -> String {
        let _ = self.ended.recv_timeout(wait);
        let mut bytes = lock(&self.bytes);
        String::from_utf8_lossy(bytes.make_contiguous()).trim().to_owned()
    }
}

fn append(tail: &mut VecDeque<u8>, chunk: &[u8]) {
    tail.extend(chunk);
    let surplus = tail.len().saturating_sub(TAIL_BYTES_MAX);
    tail.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept() {
        let text = "a".repeat(10_000) + "the end\n";
        let tail = Tail::follow(io::Cursor::new(text.into_bytes())).unwrap();
        let kept = tail.text(Duration::from_secs(10));
        assert!(kept.ends_with("athe end"));
        assert_eq!(kept.len(), TAIL_BYTES_MAX - 1);
    }
}
