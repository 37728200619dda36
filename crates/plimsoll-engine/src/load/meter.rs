//! The accounts of one worker: counts, rows and reasons of the current second, and their delivery at its end.
//!
//! [`Meter`] counts into the [`Interval`] of one second; the loop adds to it through [`Meter::tally`] and the methods
//! of the submodules. [`Meter::advance`] samples the outstanding operations every 100 ms and sends the interval to
//! the owner once its second has ended ([`Meter::hand_over`]). Seconds are counted from the epoch, and each interval
//! starts with empty histograms. Start reading at [`Meter::advance`].

mod delivering;
mod endings;
mod noting;
mod recording;
mod stamping;

use plimsoll_model::pace::Shard;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::tally::{Interval, OUTSTANDING_SAMPLE, Tally};
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_sys::thread::RunQueue;
use plimsoll_sys::{clock, thread};

use super::control::{Owner, WorkerEvent};
use super::deliveries::Deliveries;
use super::reasons::FailingAnswers;
use super::rows::Rows;
use super::stamps::{Stamped, Stamps};

/// Shortest stretch whose CPU share is worth reporting.
const SHARE_WALL_MIN: Nanos = Nanos::from_millis(100);
const SECOND: Nanos = Nanos::from_secs(1);

/// Counts into one [`Interval`] at a time.
pub(crate) struct Meter {
    interval: Box<Interval>,
    epoch: Nanos,
    interval_began: Nanos,
    cpu_at_begin_ns: u64,
    /// At the epoch.
    queued_at_begin: Option<RunQueue>,
    next_sample: Nanos,
    sampling_ends: Nanos,
    status: u16,
    status_answers: u64,
    pub(super) rows: Rows,
    pub(super) stamps: Stamps,
    failing: FailingAnswers,
    deliveries: Option<Box<Deliveries>>,
    /// Operations that the seconds handed over have scheduled and not ended.
    #[cfg(debug_assertions)]
    unended_before: i64,
}

impl Meter {
    /// Creates the meter of the worker that makes `shard` of the load.
    pub(crate) fn new(plan: &LoadPlan, shard: Shard, has_stamps: bool, now: Nanos) -> Self {
        Self {
            interval: Box::new(Interval { second: 0, tally: Tally::default() }),
            epoch: Nanos::MAX,
            interval_began: now,
            cpu_at_begin_ns: clock::thread_cpu_ns(),
            queued_at_begin: None,
            next_sample: Nanos::MAX,
            sampling_ends: Nanos::MAX,
            status: 0,
            status_answers: 0,
            rows: Rows::new(plan, shard),
            stamps: Stamps::new(plan, shard, has_stamps),
            failing: FailingAnswers::default(),
            deliveries: Deliveries::new(plan, shard),
            #[cfg(debug_assertions)]
            unended_before: 0,
        }
    }

    /// Sets the epoch, for which the first operation is intended; samples are taken until `window` after it.
    pub(crate) fn start(&mut self, epoch: Nanos, window: Option<Nanos>) {
        self.epoch = epoch;
        self.interval_began = epoch;
        self.cpu_at_begin_ns = clock::thread_cpu_ns();
        self.queued_at_begin = thread::run_queue();
        self.next_sample = epoch + OUTSTANDING_SAMPLE;
        self.sampling_ends = window.map_or(Nanos::MAX, |window| epoch + window);
    }

    /// Returns the counts of the present second.
    pub(crate) fn tally(&mut self) -> &mut Tally {
        &mut self.interval.tally
    }

    /// Operations that were scheduled and have not ended.
    #[cfg(debug_assertions)]
    pub(super) fn unended(&self) -> i64 {
        self.unended_before + self.interval.tally.unended()
    }

    pub(crate) fn second(&self) -> u32 {
        self.interval.second
    }

    pub(crate) fn count_status(&mut self, status: u16) {
        if status != self.status {
            self.flush_status();
            self.status = status;
        }
        self.status_answers += 1;
    }

    fn flush_status(&mut self) {
        if self.status_answers > 0 {
            self.interval.tally.answers.status.add(self.status, self.status_answers);
            self.status_answers = 0;
        }
    }

    /// Counts an operation that ended well. `corrected` is its latency from the intended start, `uncorrected` from the
    /// actual one; `stamped` has the parts that the kernel's stamp shows.
    pub(crate) fn count_ok(
        &mut self,
        corrected: Nanos,
        uncorrected: Nanos,
        stamped: Option<Stamped>,
        deadline: Option<Nanos>,
    ) {
        let tally = &mut self.interval.tally;
        tally.ok += 1;
        tally.spans.corrected.record(corrected);
        tally.spans.uncorrected.record(uncorrected);
        if let Some(stamped) = stamped {
            tally.spans.wire.record(stamped.wire);
            tally.spans.receive_lag.record(stamped.receive_lag);
            tally.spans.stamped.record(corrected);
            tally.spans.undelayed.record(stamped.undelayed);
            tally.spans.undelayed_min.record(stamped.undelayed_min);
        }
        if deadline.is_some_and(|deadline| corrected > deadline) {
            tally.late += 1;
        }
    }

    pub(crate) fn count_error(&mut self, class: ErrorClass) {
        self.interval.tally.failures.operations.count(class);
    }

    /// Counts an attempt to connect that has failed for `class`.
    pub(crate) fn count_failed_attempt(&mut self, class: ErrorClass) {
        let tally = self.tally();
        tally.connections.failed += 1;
        tally.failures.attempts.count(class);
    }

    /// Returns the time at which [`Self::advance`] has something to do next.
    pub(crate) fn next_deadline(&self) -> Nanos {
        if self.epoch == Nanos::MAX {
            return Nanos::MAX;
        }
        (self.interval_began + SECOND).min(self.next_sample)
    }

    /// Reports whether the present second has ended.
    pub(crate) fn ends_second(&self, now: Nanos) -> bool {
        self.epoch != Nanos::MAX && now >= self.interval_began + SECOND
    }

    /// Takes the samples that are due and hands over the seconds that have ended.
    pub(super) fn advance(&mut self, now: Nanos, outstanding: u64, held: u64, owner: &Owner) {
        while self.next_sample <= now {
            // A sample at the very end of the window belongs to it.
            if self.next_sample > self.sampling_ends {
                self.next_sample = Nanos::MAX;
                break;
            }
            let sample = u32::try_from(outstanding).unwrap_or(u32::MAX);
            // One that falls on the boundary of two seconds is the earlier one's last.
            self.interval.tally.outstanding.push(sample);
            self.next_sample = self.next_sample + OUTSTANDING_SAMPLE;
        }
        if self.ends_second(now) {
            self.hand_over(now, held, owner);
            let second = now.since(self.epoch).0 / SECOND.0;
            self.interval.second = u32::try_from(second).unwrap_or(u32::MAX);
            self.interval_began = self.epoch + Nanos(second * SECOND.0);
        }
    }

    /// Hands over what has been counted since the last second ended.
    pub(super) fn hand_over(&mut self, now: Nanos, held: u64, owner: &Owner) {
        self.stamps.end_second(&mut self.interval.tally);
        if let Some(batch) = self.rows.take() {
            owner.send(WorkerEvent::Rows(batch));
        }
        self.flush_status();
        let cpu_ns = clock::thread_cpu_ns();
        let wall_ns = now.since(self.interval_began).0.max(1);
        let tally = &mut self.interval.tally;
        // The clocks are read microseconds apart: over a very short stretch that is no share.
        if wall_ns >= SHARE_WALL_MIN.0 {
            let share = cpu_ns.saturating_sub(self.cpu_at_begin_ns) as f64 / wall_ns as f64;
            tally.generator.busiest_thread = share.min(1.0);
        }
        // While answers are waited for, a thread that does little would look undisturbed.
        if self.interval_began < self.sampling_ends
            && let (Some(before), Some(queued)) = (self.queued_at_begin, thread::run_queue())
        {
            let waited = queued.waited_ns.saturating_sub(before.waited_ns);
            let turns = queued.turns.saturating_sub(before.turns).max(1);
            let since_ns = now.since(self.epoch).0.max(1);
            tally.generator.waited = Some((waited as f64 / since_ns as f64).min(1.0));
            tally.generator.wait_mean = Some(Nanos(waited / turns));
        }
        tally.generator.threads = 1;
        tally.connections.held_end = held;
        #[cfg(debug_assertions)]
        {
            self.unended_before += tally.unended();
        }
        self.cpu_at_begin_ns = cpu_ns;
        let second = self.interval.second;
        // Fresh rather than used and emptied: histograms are as large as their values need.
        let fresh = Box::new(Interval { second, tally: Tally::default() });
        let full = std::mem::replace(&mut self.interval, fresh);
        self.interval.second = second;
        self.interval.tally.connections.held_max = held;
        owner.send(WorkerEvent::Interval { worker: owner.worker, interval: full });
    }
}
