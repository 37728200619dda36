//! Whole seconds of a load, merged from the load's parts: threads of a process, or agents.
//!
//! Each part delivers ascending seconds with [`Seconds::add`]; equal seconds are merged. [`Seconds::poll`] hands out
//! a second, in order, once every part has delivered it, has ended or was lost. A part that ended still counts with
//! the connections of its last second; a lost part counts with none. [`Seconds::join`] admits a part later. Start
//! reading at [`Seconds::poll`].

use std::collections::VecDeque;

use crate::tally::{Interval, Tally};

/// The seconds that the parts of one load have delivered, until every part has delivered them.
///
/// After any change call [`Self::poll`] until there is none left.
#[derive(Debug, Default)]
pub struct Seconds {
    parts: Vec<Part>,
    /// Ascending by their seconds.
    pending: VecDeque<Box<Interval>>,
    handed_out: u32,
}

/// The state of one part.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// Every second below was delivered.
    delivered: u32,
    /// Connections at the end of the last second that was delivered.
    held: u64,
    /// No further second will come.
    is_over: bool,
}

impl Seconds {
    /// Creates the seconds of a load with `parts` parts.
    pub fn new(parts: usize) -> Self {
        Self { parts: vec![Part::default(); parts], pending: VecDeque::new(), handed_out: 0 }
    }

    /// Adds a part that begins with second `first`.
    pub fn join(&mut self, first: u32) {
        let delivered = first.max(self.handed_out);
        self.parts.push(Part { delivered, ..Part::default() });
    }

    /// Adds a second that a part delivers. Seconds of a part ascend; if one ever doesn't, it counts as the next one
    /// rather than be lost.
    pub fn add(&mut self, part: usize, mut interval: Box<Interval>) {
        let part = &mut self.parts[part];
        interval.second = interval.second.max(part.delivered);
        part.delivered = interval.second.saturating_add(1);
        part.held = interval.tally.connections.held_end;
        self.merge(interval);
    }

    /// Ends a part. Parts do not end in the same second: the part counts as holding its connections until all have
    /// ended.
    pub fn end(&mut self, part: usize) {
        self.parts[part].is_over = true;
    }

    /// Ends a part that was lost with its connections; `tally` accounts for its open operations.
    pub fn lose(&mut self, part: usize, tally: Tally) {
        let lost = &mut self.parts[part];
        let second = lost.delivered.max(self.handed_out);
        *lost = Part { held: 0, is_over: true, ..*lost };
        if tally != Tally::default() {
            self.merge(Box::new(Interval { second, tally }));
        }
    }

    /// Returns the next second that no part can add to any more.
    pub fn poll(&mut self) -> Option<Box<Interval>> {
        let second = self.pending.front()?.second;
        if u64::from(second) >= self.complete_below() {
            return None;
        }
        let mut interval = self.pending.pop_front()?;
        let ended_before = |part: &&Part| part.is_over && part.delivered <= second;
        interval.tally.connections.held_end +=
            self.parts.iter().filter(ended_before).map(|part| part.held).sum::<u64>();
        self.handed_out = second.saturating_add(1);
        Some(interval)
    }

    /// Returns the second below which every part has delivered its seconds, or never will.
    pub fn complete_below(&self) -> u64 {
        let open = self.parts.iter().filter(|part| !part.is_over);
        open.map(|part| u64::from(part.delivered)).min().unwrap_or(u64::MAX)
    }

    /// Returns the second below which every second was handed out.
    pub const fn handed_out(&self) -> u32 {
        self.handed_out
    }

    /// Returns the number of seconds that some part has delivered.
    pub fn delivered(&self) -> u32 {
        self.parts.iter().map(|part| part.delivered).max().unwrap_or(0)
    }

    /// Returns a part's connections at the end of its last second.
    pub fn held(&self, part: usize) -> u64 {
        self.parts[part].held
    }

    /// Reports whether every part has ended.
    pub fn is_over(&self) -> bool {
        self.parts.iter().all(|part| part.is_over)
    }

    fn merge(&mut self, interval: Box<Interval>) {
        let at = self.pending.partition_point(|other| other.second < interval.second);
        match self.pending.get_mut(at) {
            Some(merged) if merged.second == interval.second => {
                merged.tally.merge_parallel(&interval.tally);
            }
            _ => self.pending.insert(at, interval),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorClass;

    fn second(second: u32, held_end: u64) -> Box<Interval> {
        let mut tally = Tally::default();
        tally.connections.held_end = held_end;
        Box::new(Interval { second, tally })
    }

    /// The second and the connections of each that is complete.
    fn complete(seconds: &mut Seconds) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| seconds.poll())
            .map(|interval| (interval.second, interval.tally.connections.held_end))
            .collect()
    }

    #[test]
    fn connections_do_not_depend_on_which_part_ends_first() {
        let mut seconds = Seconds::new(3);
        seconds.add(0, second(0, 50));
        seconds.add(1, second(0, 40));
        assert_eq!(complete(&mut seconds), []);
        seconds.add(2, second(0, 30));
        seconds.end(2);
        assert_eq!(complete(&mut seconds), [(0, 120)]);
        seconds.add(0, second(1, 50));
        seconds.add(1, second(1, 39));
        seconds.end(1);
        assert_eq!(complete(&mut seconds), [(1, 50 + 39 + 30)]);
        seconds.add(0, second(2, 48));
        seconds.end(0);
        assert_eq!(complete(&mut seconds), [(2, 48 + 39 + 30)]);
        assert!(seconds.is_over());
    }

    #[test]
    fn a_part_that_joins_is_awaited_from_its_first_second_on() {
        let mut seconds = Seconds::new(1);
        seconds.add(0, second(0, 10));
        seconds.join(2);
        assert_eq!(complete(&mut seconds), [(0, 10)]);
        (1..4).for_each(|at| seconds.add(0, second(at, 10)));
        assert_eq!(complete(&mut seconds), [(1, 10)]);
        seconds.add(1, second(2, 3));
        assert_eq!(complete(&mut seconds), [(2, 13)]);
        seconds.lose(1, Tally::default());
        assert_eq!(complete(&mut seconds), [(3, 10)]);
    }

    #[test]
    fn what_a_lost_part_had_in_hand_counts_in_the_first_second_that_is_left() {
        let mut seconds = Seconds::new(2);
        for at in 0..3 {
            seconds.add(0, second(at, 10));
        }
        seconds.add(1, second(0, 7));
        assert_eq!(complete(&mut seconds), [(0, 17)]);
        let mut tally = Tally::default();
        tally.failures.operations.add(ErrorClass::AgentLost, 5);
        seconds.lose(1, tally);
        let next = seconds.poll().expect("complete without the lost part");
        assert_eq!((next.second, next.tally.errors_total()), (1, 5));
        assert_eq!(complete(&mut seconds), [(2, 10)]);
    }

    #[test]
    fn a_second_that_comes_twice_is_the_next_one() {
        let mut seconds = Seconds::new(1);
        seconds.add(0, second(4, 1));
        seconds.add(0, second(4, 2));
        assert_eq!(complete(&mut seconds), [(4, 1), (5, 2)]);
        assert_eq!((seconds.handed_out(), seconds.delivered()), (6, 6));
    }
}
