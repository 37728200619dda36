//! The changes of the document that viewers have not seen yet, numbered, for an hour at most.
//!
//! A viewer is a position in this list. One that is slow or away for a while continues where it was; one
//! that has fallen out of the list fetches the document again. So no viewer costs memory, and none can
//! delay the others or the run.

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_model::Nanos;

/// Time for which a change is stored.
const KEPT: Nanos = Nanos::from_secs(3_600);
/// The most text that is kept, whatever its age.
const BYTES_MAX: usize = 32 << 20;

/// A change of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Number of the change; without gaps.
    pub(super) seq: u64,
    /// `second`, `host`, `trial`, …
    pub(super) event: &'static str,
    /// One line of JSON.
    pub(super) data: Arc<str>,
}

/// The record after a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Record(Record),
    /// No change yet.
    Wait,
    /// The position is no longer in the list, or was never given.
    Reset,
    /// The run has ended, and all changes were sent.
    Over,
}

/// The changes of a document, or of several, one after the other.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The last number.
    pub(super) seq: u64,
    kept: VecDeque<(Nanos, Record)>,
    bytes: usize,
    /// `true` if the run has ended.
    pub(super) is_over: bool,
}

impl Records {
    /// Adds a change that was made `at`, and forgets those that are too old.
    pub(super) fn push(&mut self, at: Nanos, event: &'static str, data: String) {
        self.seq += 1;
        self.bytes += data.len();
        self.kept.push_back((at, Record { seq: self.seq, event, data: data.into() }));
        while let Some((first, record)) = self.kept.front() {
            if at.since(*first) <= KEPT && self.bytes <= BYTES_MAX {
                break;
            }
            self.bytes -= record.data.len();
            self.kept.pop_front();
        }
    }

    /// Begins another document. No change leads to it: viewers of the former one fetch it.
    pub(super) fn restart(&mut self) {
        self.seq += 1;
        self.kept.clear();
        self.bytes = 0;
    }

    /// Returns the record after the change `seq`.
    pub(super) fn after(&self, seq: u64) -> Next {
        if seq > self.seq {
            return Next::Reset;
        }
        if seq == self.seq {
            return if self.is_over { Next::Over } else { Next::Wait };
        }
        let first = self.kept.front().map_or(u64::MAX, |(_, record)| record.seq);
        match (seq + 1).checked_sub(first).and_then(|index| self.kept.get(index as usize)) {
            Some((_, record)) => Next::Record(record.clone()),
            None => Next::Reset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(seconds: u64) -> Records {
        let mut records = Records::default();
        for second in 1..=seconds {
            records.push(Nanos::from_secs(second), "second", second.to_string());
        }
        records
    }

    /// Returns the records of a viewer from `seq` on until it has to wait.
    fn read(records: &Records, mut seq: u64) -> Vec<u64> {
        let mut seen = Vec::new();
        while let Next::Record(record) = records.after(seq) {
            seq = record.seq;
            seen.push(seq);
        }
        seen
    }

    #[test]
    fn a_viewer_goes_on_where_it_was() {
        let mut records = records(10);
        assert_eq!(read(&records, 0), (1..=10).collect::<Vec<_>>());
        assert_eq!(read(&records, 7), [8, 9, 10]);
        assert_eq!(records.after(10), Next::Wait);
        records.is_over = true;
        assert_eq!(read(&records, 9), [10]);
        assert_eq!(records.after(10), Next::Over);
    }

    #[test]
    fn who_cannot_go_on_begins_again() {
        let records = records(7_300);
        assert_eq!(records.after(7_301), Next::Reset);
        assert_eq!(records.after(0), Next::Reset);
        let kept = KEPT.as_secs_f64() as u64 + 1;
        assert_eq!(records.after(7_300 - kept - 1), Next::Reset);
        assert_eq!(read(&records, 7_300 - kept).len() as u64, kept);
    }

    #[test]
    fn another_document_is_fetched() {
        let mut records = records(10);
        records.restart();
        for seq in 0..=10 {
            assert_eq!(records.after(seq), Next::Reset, "{seq}");
        }
        assert_eq!((records.seq, records.after(11)), (11, Next::Wait));
        records.push(Nanos::ZERO, "second", String::new());
        assert_eq!(read(&records, 11), [12]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut records = Records::default();
        for _ in 0..100 {
            records.push(Nanos::ZERO, "second", "x".repeat(1 << 20));
        }
        assert_eq!((records.kept.len(), records.bytes), (32, BYTES_MAX));
        assert_eq!(records.seq, 100);
        assert_eq!(read(&records, 68).len(), 32);
    }
}
