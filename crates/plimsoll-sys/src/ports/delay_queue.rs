//! A queue of slots that all wait for the same time.

use std::collections::VecDeque;

/// Deadlines are rounded up to this, so that one mark represents all slots of a second.
const GRAIN_NS: u64 = 1_000_000_000;

/// First in, first out; a slot comes out once its time has come. 4 bytes a slot.
#[derive(Debug, Default)]
pub(super) struct DelayQueue {
    slots: VecDeque<u32>,
    /// Ascending; at most one for each second of the wait.
    marks: VecDeque<Mark>,
}

/// A number of slots, from the front, that are ready at the same time.
#[derive(Debug)]
struct Mark {
    ready_ns: u64,
    count: u32,
}

impl DelayQueue {
    /// Lets `slot` wait until `ready_ns`, or up to a second longer. Never earlier than the slots
    /// before it.
    pub(super) fn push(&mut self, slot: u32, ready_ns: u64) {
        let ready_ns = ready_ns.div_ceil(GRAIN_NS).saturating_mul(GRAIN_NS);
        self.slots.push_back(slot);
        match self.marks.back_mut() {
            Some(mark) if mark.ready_ns >= ready_ns => mark.count += 1,
            _ => self.marks.push_back(Mark { ready_ns, count: 1 }),
        }
    }

    /// Removes a slot whose wait has ended.
    pub(super) fn pop(&mut self, now_ns: u64) -> Option<u32> {
        let mark = self.marks.front_mut().filter(|mark| mark.ready_ns <= now_ns)?;
        mark.count -= 1;
        if mark.count == 0 {
            self.marks.pop_front();
        }
        self.slots.pop_front()
    }

    /// Returns the time at which the next slot is ready.
    pub(super) fn next_ready_ns(&self) -> Option<u64> {
        self.marks.front().map(|mark| mark.ready_ns)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_out_in_order_and_never_early() {
        let mut queue = DelayQueue::default();
        queue.push(7, 5_000_000_001);
        queue.push(8, 5_900_000_000);
        queue.push(9, 7_000_000_000);
        assert_eq!(queue.next_ready_ns(), Some(6_000_000_000));
        assert_eq!(queue.pop(5_999_999_999), None);
        assert_eq!(queue.pop(6_000_000_000), Some(7));
        assert_eq!(queue.pop(6_000_000_000), Some(8));
        assert_eq!((queue.pop(6_000_000_000), queue.len()), (None, 1));
        assert_eq!(queue.pop(7_000_000_000), Some(9));
        assert_eq!((queue.pop(u64::MAX), queue.next_ready_ns()), (None, None));
    }
}
