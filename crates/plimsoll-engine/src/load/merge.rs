//! The merge of the workers' events into events of the load.

use std::collections::{BTreeMap, VecDeque};

use plimsoll_model::Nanos;
use plimsoll_model::event::LoadEvent;
use plimsoll_model::row::RowBatch;
use plimsoll_model::seconds::Seconds;
use plimsoll_model::tally::{GeneratorUse, Interval, Tally};
use plimsoll_sys::{clock, limits};

use super::control::WorkerEvent;

/// The workers' reports, and the part not yet passed on.
#[derive(Debug, Default)]
pub(super) struct Merge {
    workers: usize,
    ready: usize,
    opened: u64,
    failed: u64,
    first_error: Option<String>,
    /// Not passed on yet.
    refused: Option<String>,
    has_refused: bool,
    seconds: Seconds,
    rows: VecDeque<RowBatch>,
    /// By number of the steer: how many workers have done it, the last second in which one did, and the connections
    /// that they had tried.
    steered: BTreeMap<u32, (usize, u32, u64)>,
    draining: usize,
    in_flight: u64,
    window: Nanos,
    cpu_ns: (u64, u64),
    /// [`LoadEvent::Ended`] was passed on.
    pub(super) done: bool,
}

impl Merge {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            workers,
            seconds: Seconds::new(workers),
            cpu_ns: clock::process_cpu_ns(),
            ..Self::default()
        }
    }

    /// Handles an event of a worker.
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
            WorkerEvent::Steered { id, second, tried } => {
                let (workers, last, all) = self.steered.entry(id).or_default();
                *workers += 1;
                *last = second.max(*last);
                *all += tried;
            }
            WorkerEvent::Ended { worker, window } => {
                self.seconds.end(worker as usize);
                self.window = self.window.max(window);
            }
            WorkerEvent::Interval { worker, interval } => {
                self.seconds.add(worker as usize, interval);
            }
            WorkerEvent::Refused(what) => {
                if !std::mem::replace(&mut self.has_refused, true) {
                    self.refused = Some(what);
                }
            }
            WorkerEvent::Rows(batch) => self.rows.push_back(batch),
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<LoadEvent> {
        if let Some(what) = self.refused.take() {
            return Some(LoadEvent::Refused(what));
        }
        if self.ready == self.workers {
            self.ready = usize::MAX;
            let (opened, failed) = (self.opened, self.failed);
            return Some(LoadEvent::Ready { opened, failed, first_error: self.first_error.take() });
        }
        if let Some(batch) = self.rows.pop_front() {
            return Some(LoadEvent::Rows(batch));
        }
        if let Some(interval) = self.seconds.poll() {
            return Some(LoadEvent::Interval(self.with_process_use(interval)));
        }
        let (all, complete_below) = (self.workers, self.seconds.complete_below());
        let done = self.steered.iter().find_map(|(id, (workers, last, tried))| {
            let is_done = *workers == all && u64::from(*last) < complete_below;
            is_done.then_some((*id, *tried))
        });
        if let Some((id, tried)) = done {
            self.steered.remove(&id);
            return Some(LoadEvent::Steered { id, tried });
        }
        if self.draining == self.workers {
            self.draining = usize::MAX;
            return Some(LoadEvent::Draining { in_flight: self.in_flight });
        }
        if self.seconds.is_over() && !self.done {
            self.done = true;
            return Some(LoadEvent::Ended { window: self.window });
        }
        None
    }

    /// Handles the end of all workers: nothing more will be reported.
    pub(super) fn handle_loss(&mut self) {
        for worker in 0..self.workers {
            self.seconds.end(worker);
        }
    }

    /// Adds the figures of the whole process: its CPU since the last second, its memory.
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
