//! The workers' words, merged into the load's: whole seconds, and what all workers have done.

use std::collections::{BTreeMap, VecDeque};

use plimsoll_model::Nanos;
use plimsoll_model::tally::{GeneratorUse, Interval, Tally};
use plimsoll_sys::{clock, limits};

use super::{LoadEvent, WorkerEvent};

/// What the workers of a load have said, and what of it the owner has not been told.
#[derive(Debug)]
pub(super) struct Merge {
    workers: usize,
    ready: usize,
    opened: u64,
    failed: u64,
    first_error: Option<String>,
    /// Ascending by their seconds.
    pending: VecDeque<Box<Interval>>,
    /// Of each worker: every second below this one has been delivered.
    delivered: Vec<u64>,
    /// Of each worker: nothing more will come.
    ended: Vec<bool>,
    /// Of each worker: its connections at the end of its last second.
    held: Vec<u64>,
    /// By number: how many workers have done it, and the last second in which one did.
    steered: BTreeMap<u32, (usize, u32)>,
    draining: usize,
    in_flight: u64,
    window: Nanos,
    cpu_ns: (u64, u64),
    done: bool,
}

impl Merge {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            workers,
            ready: 0,
            opened: 0,
            failed: 0,
            first_error: None,
            pending: VecDeque::new(),
            delivered: vec![0; workers],
            ended: vec![false; workers],
            held: vec![0; workers],
            steered: BTreeMap::new(),
            draining: 0,
            in_flight: 0,
            window: Nanos::ZERO,
            cpu_ns: clock::process_cpu_ns(),
            done: false,
        }
    }

    /// Takes a worker's word.
    pub(super) fn handle_event(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Ready { opened, failed, first_error } => {
                self.ready += 1;
                self.opened += opened;
                self.failed += failed;
                self.first_error = self.first_error.take().or(first_error);
            }
            WorkerEvent::Draining { in_flight } => {
                self.draining += 1;
                self.in_flight += in_flight;
            }
            WorkerEvent::Steered { worker, id, second } => {
                // A worker that hands a second over and then finishes a steer in the same one
                // has more of it to say.
                debug_assert!(u64::from(second) >= self.delivered[worker as usize]);
                let (workers, last) = self.steered.entry(id).or_default();
                *workers += 1;
                *last = second.max(*last);
            }
            WorkerEvent::Ended { worker, window } => {
                self.ended[worker as usize] = true;
                self.window = self.window.max(window);
            }
            WorkerEvent::Interval { worker, interval } => {
                self.delivered[worker as usize] = u64::from(interval.second) + 1;
                self.held[worker as usize] = interval.tally.connections.held_end;
                self.add(interval);
            }
        }
    }

    fn add(&mut self, interval: Box<Interval>) {
        let at = self.pending.partition_point(|other| other.second < interval.second);
        match self.pending.get_mut(at) {
            Some(merged) if merged.second == interval.second => {
                merged.tally.merge_parallel(&interval.tally);
            }
            _ => self.pending.insert(at, interval),
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<LoadEvent> {
        if self.ready == self.workers {
            self.ready = usize::MAX;
            let (opened, failed) = (self.opened, self.failed);
            return Some(LoadEvent::Ready { opened, failed, first_error: self.first_error.take() });
        }
        let complete_below = self.complete_below();
        if self.pending.front().is_some_and(|first| u64::from(first.second) < complete_below) {
            let mut interval = self.pending.pop_front()?;
            interval.tally.connections.held_end += self.held_by_ended(interval.second);
            return Some(LoadEvent::Interval(self.with_process_use(interval)));
        }
        let all = self.workers;
        let is_done =
            |(workers, last): &(usize, u32)| *workers == all && u64::from(*last) < complete_below;
        let done = self.steered.iter().find(|(_, so_far)| is_done(so_far)).map(|(id, _)| *id);
        if let Some(id) = done {
            self.steered.remove(&id);
            return Some(LoadEvent::Steered { id });
        }
        if self.draining == self.workers {
            self.draining = usize::MAX;
            return Some(LoadEvent::Draining { in_flight: self.in_flight });
        }
        if self.ended.iter().all(|ended| *ended) && !self.done {
            self.done = true;
            return Some(LoadEvent::Ended { window: self.window });
        }
        None
    }

    /// Every worker is gone: what they delivered is all there will be.
    pub(super) fn handle_loss(&mut self) {
        self.ended.fill(true);
    }

    /// The owner has been told that the load has ended.
    pub(super) const fn is_done(&self) -> bool {
        self.done
    }

    /// Every worker has delivered the seconds below this one, or never will.
    fn complete_below(&self) -> u64 {
        let workers = self.delivered.iter().zip(&self.ended);
        let open = workers.filter(|(_, ended)| !**ended).map(|(below, _)| *below);
        open.min().unwrap_or(u64::MAX)
    }

    /// Workers do not end in the same second: whoever ended before `second` held until then.
    fn held_by_ended(&self, second: u32) -> u64 {
        let workers = self.ended.iter().zip(&self.delivered).zip(&self.held);
        let before = workers.filter(|((ended, below), _)| **ended && **below <= u64::from(second));
        before.map(|(_, held)| *held).sum()
    }

    /// Adds what only the process as a whole knows: its CPU since the last second, its memory.
    fn with_process_use(&mut self, mut interval: Box<Interval>) -> Box<Interval> {
        let before = std::mem::replace(&mut self.cpu_ns, clock::process_cpu_ns());
        let tally: &mut Tally = &mut interval.tally;
        tally.generator = GeneratorUse {
            cpu_user: Nanos(self.cpu_ns.0.saturating_sub(before.0)),
            cpu_system: Nanos(self.cpu_ns.1.saturating_sub(before.1)),
            rss_bytes_max: limits::resident_bytes(),
            processes: 1,
            threads: self.workers as u32,
            ..tally.generator
        };
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second_of(worker: u32, second: u32, held_end: u64) -> WorkerEvent {
        let mut tally = Tally::default();
        tally.connections.held_end = held_end;
        WorkerEvent::Interval { worker, interval: Box::new(Interval { second, tally }) }
    }

    const fn end_of(worker: u32) -> WorkerEvent {
        WorkerEvent::Ended { worker, window: Nanos::ZERO }
    }

    /// The second and the connections of each interval that is due.
    fn due(merge: &mut Merge) -> Vec<(u32, u64)> {
        let mut due = Vec::new();
        while let Some(event) = merge.poll_event() {
            if let LoadEvent::Interval(interval) = event {
                due.push((interval.second, interval.tally.connections.held_end));
            }
        }
        due
    }

    #[test]
    fn connections_do_not_depend_on_which_worker_ends_first() {
        let mut merge = Merge::new(3);
        merge.handle_event(second_of(0, 0, 50));
        merge.handle_event(second_of(1, 0, 40));
        assert_eq!(due(&mut merge), []);
        merge.handle_event(second_of(2, 0, 30));
        merge.handle_event(end_of(2));
        assert_eq!(due(&mut merge), [(0, 120)]);
        merge.handle_event(second_of(0, 1, 50));
        merge.handle_event(second_of(1, 1, 39));
        merge.handle_event(end_of(1));
        assert_eq!(due(&mut merge), [(1, 50 + 39 + 30)]);
        merge.handle_event(second_of(0, 2, 48));
        merge.handle_event(end_of(0));
        assert_eq!(due(&mut merge), [(2, 48 + 39 + 30)]);
        assert!(merge.is_done());
    }

    #[test]
    fn seconds_of_workers_that_vanish_are_told() {
        let mut merge = Merge::new(2);
        merge.handle_event(second_of(0, 4, 7));
        assert_eq!(due(&mut merge), []);
        merge.handle_loss();
        assert_eq!(due(&mut merge), [(4, 7)]);
        assert!(merge.is_done());
    }
}
