//! The inbox of unhandled frames: bounded in bytes for each agent. One that sends faster than it is
//! heard waits, by way of its pipe or connection.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_model::Nanos;
use plimsoll_sys::thread::lock;

use crate::frame::AGENT_FRAME_BYTES_MAX;

/// Bytes of one agent's frames that may wait.
const WAITING_BYTES_MAX: usize = AGENT_FRAME_BYTES_MAX;
/// Period in which a thread that waits for room reports that its agent is alive.
const ALIVE_EVERY: Duration = Duration::from_secs(1);

/// The room for one agent's frames.
#[derive(Clone, Debug, Default)]
pub(crate) struct Room(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    used_bytes: Mutex<usize>,
    freed: Condvar,
}

/// An encoded frame that waits to be handled. Its room is free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) payload: Vec<u8>,
    /// Time of its arrival.
    pub(crate) at: Nanos,
    room: Arc<Shared>,
}

impl Room {
    /// Waits until there is room for a payload that arrived at `at`, and calls `alive` meanwhile. An empty room has room
    /// for any frame.
    pub(crate) fn admit(&self, payload: Vec<u8>, at: Nanos, mut alive: impl FnMut()) -> Waiting {
        let bytes = payload.len();
        let is_full = |used: &mut usize| *used > 0 && *used + bytes > WAITING_BYTES_MAX;
        let mut used_bytes = lock(&self.0.used_bytes);
        while is_full(&mut used_bytes) {
            let freed = self.0.freed.wait_timeout(used_bytes, ALIVE_EVERY);
            used_bytes = freed.unwrap_or_else(PoisonError::into_inner).0;
            alive();
        }
        *used_bytes += bytes;
        Waiting { payload, at, room: Arc::clone(&self.0) }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        *lock(&self.room.used_bytes) -= self.payload.len();
        self.room.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[test]
    fn an_agent_waits_until_what_it_sent_is_handled() {
        let room = Room::default();
        let (sender, frames) = mpsc::channel();
        let (waits, is_waiting) = mpsc::channel();
        let of_reader = room.clone();
        let reader = thread::spawn(move || {
            for frame in 0..64_u8 {
                let payload = vec![frame; WAITING_BYTES_MAX / 3];
                // The receiver is gone once the wait has ended.
                let alive = || _ = waits.send(());
                if sender.send(of_reader.admit(payload, Nanos::ZERO, alive)).is_err() {
                    return frame;
                }
            }
            64
        });
        // It has sent three frames, and waits with the fourth.
        is_waiting.recv().expect("the room is full");
        assert_eq!(*lock(&room.0.used_bytes), WAITING_BYTES_MAX / 3 * 3);
        for frame in 0..32 {
            let waiting: Waiting = frames.recv().unwrap();
            assert_eq!(waiting.payload[0], frame);
            // Those that wait, and this one.
            assert!(*lock(&room.0.used_bytes) <= WAITING_BYTES_MAX);
        }
        // The remaining frames are not handled: the reader ends.
        drop(frames);
        assert!(reader.join().unwrap() < 40);
        assert_eq!(*lock(&room.0.used_bytes), 0);
    }

    #[test]
    fn a_frame_larger_than_the_room_is_admitted_alone() {
        let room = Room::default();
        let large = room.admit(vec![0; 2 * WAITING_BYTES_MAX], Nanos::ZERO, || {});
        drop(large);
        assert_eq!(room.admit(vec![1], Nanos::ZERO, || {}).payload, [1]);
    }
}
