//! A server, a generator and a seed: runs trials and returns measurements.
//!
//! [`World::run`] makes the schedule that a real load would have and follows each operation through the generator
//! (`Sending`) and the server (`Serving`); `Op` is the result. The operations are then counted: into a tally, by
//! second, and by sample of 100 ms. An aborted trial counts only the events up to the cut. Times are nanoseconds
//! since the epoch of the trial. Equal seeds give equal results. Start with [`World::run`].

use std::sync::Arc;

use fastrand::Rng;

use plimsoll_model::observation::Observations;
use plimsoll_model::pace::{Arrivals, Profile, Schedule, Shard};
use plimsoll_model::tally::{OUTSTANDING_SAMPLE, Tally};
use plimsoll_model::trial::{TrialMeasurement, TrialRequest, TrialSecond};
use plimsoll_model::{ErrorClass, Nanos};

use crate::generator::{Generator, Sending};
use crate::sut::{Fate, Serving, Sut};

/// The conditions of a trial.
#[derive(Clone, Debug)]
pub struct World {
    /// The server.
    pub sut: Sut,
    /// Generator of the load.
    pub generator: Generator,
    /// An answer after this is late.
    pub deadline: Nanos,
    /// Time for which an operation is waited for past its deadline.
    pub linger: Nanos,
    /// `true` if the measurements tell how busy the server was.
    pub observed: bool,
    /// Distribution of starts.
    pub arrivals: Arrivals,
    rng: Rng,
}

/// One operation's life, ns since the trial's epoch.
struct Op {
    intended: u64,
    /// When it could be sent and when it was; `None` is unsent.
    sent: Option<(u64, u64)>,
    end: u64,
    fate: Fate,
}

impl Op {
    fn is_bad(&self, deadline: Nanos) -> bool {
        self.sent.is_none() || self.fate != Fate::Answered || self.end - self.intended > deadline.0
    }
}

impl World {
    /// Creates a world with a generator that is no limit and a deadline of 50 ms.
    pub fn new(sut: Sut, seed: u64) -> Self {
        Self {
            sut,
            generator: Generator::default(),
            deadline: Nanos::from_millis(50),
            linger: Nanos::from_secs(2),
            observed: false,
            arrivals: Arrivals::Poisson,
            rng: Rng::with_seed(seed),
        }
    }

    /// Runs one trial; with `abort_bad_ops` it ends early once more operations than that are bad.
    pub fn run(&mut self, request: TrialRequest, abort_bad_ops: Option<u64>) -> TrialMeasurement {
        let mut sending = Sending::new(self.generator, request.duration, &mut self.rng);
        let mut serving = Serving::new(self.sut, request.duration, &mut self.rng);
        let ops = self.live(&request, &mut sending, &mut serving);
        let cut = abort_bad_ops.and_then(|most| {
            // A late operation shows itself when its deadline passes.
            let mut bad = ops.iter().filter(|op| op.is_bad(self.deadline));
            bad.nth(usize::try_from(most).ok()?).map(|op| op.intended + self.deadline.0)
        });
        let cut = cut.filter(|cut| *cut < request.duration.0);
        let window = cut.map_or(request.duration, Nanos);
        let mut tally = Tally::default();
        for op in &ops {
            count(&mut tally, op, cut.unwrap_or(u64::MAX), self.deadline);
        }
        tally.outstanding = outstanding(&ops, window);
        tally.pool_exhausted = sending.waits;
        tally.connections.opened = self.generator.connections as u64;
        let sent_per_s = tally.scheduled as f64 / window.as_secs_f64().max(1e-9);
        tally.generator.busiest_thread = (sent_per_s / self.generator.capacity_per_s).min(1.0);
        tally.generator.processes = 1;
        tally.generator.threads = 1;
        TrialMeasurement {
            seconds: by_second(&ops, window, self.deadline),
            request,
            window,
            aborted: cut.is_some(),
            tally,
            sut_busiest_thread: self.observed.then(|| serving.busiest(request.duration)),
            split: 1,
            observations: Observations::default(),
        }
    }

    fn live(
        &mut self,
        request: &TrialRequest,
        sending: &mut Sending,
        serving: &mut Serving,
    ) -> Vec<Op> {
        let mut profile = Profile::constant(request.rate, request.duration);
        let offered = (self.generator.offers_per_s_max * request.duration.as_secs_f64()) as u64;
        profile.ops_total = profile.ops_total.min(offered);
        let schedule =
            Schedule::new(Arc::new(profile), self.arrivals, Shard::WHOLE, self.rng.u64(..));
        let patience = self.deadline.0 + self.linger.0;
        let mut ops = Vec::with_capacity(schedule.left() as usize);
        for intended in schedule.map(|at| at.0) {
            let give_up = intended + patience;
            let Some(sent) = sending.send(intended, give_up) else {
                ops.push(Op { intended, sent: None, end: give_up, fate: Fate::Answered });
                continue;
            };
            let (end, fate) = serving.handle_request(sent.at, &mut self.rng);
            let waited = if end > give_up {
                (give_up, Fate::Failed(ErrorClass::Timeout))
            } else {
                (end, fate)
            };
            // Sent after its timeout: the generator's own lag.
            let (end, fate) = (waited.0.max(sent.at), waited.1);
            sending.handle_end(end);
            ops.push(Op { intended, sent: Some((sent.ready, sent.at)), end, fate });
        }
        ops
    }
}

/// Counts an operation as it stands at `cut`.
fn count(tally: &mut Tally, op: &Op, cut: u64, deadline: Nanos) {
    if op.intended > cut {
        return;
    }
    tally.scheduled += 1;
    if let Some((ready, at)) = op.sent
        && at <= cut
    {
        tally.spans.send_lag.record(Nanos(at - ready));
    }
    if op.end > cut {
        return;
    }
    let Some((_, at)) = op.sent else {
        tally.unsent += 1;
        return;
    };
    match op.fate {
        Fate::Failed(class) => tally.failures.operations.count(class),
        Fate::Answered => {
            tally.ok += 1;
            tally.late += u64::from(op.is_bad(deadline));
            tally.spans.corrected.record(Nanos(op.end - op.intended));
            tally.spans.uncorrected.record(Nanos(op.end - at));
        }
    }
}

/// Returns the operations sent and ended in each whole second of the window.
fn by_second(ops: &[Op], window: Nanos, deadline: Nanos) -> Vec<TrialSecond> {
    let mut seconds = vec![TrialSecond::default(); (window.0 / 1_000_000_000) as usize];
    for op in ops {
        if let Some((_, at)) = op.sent
            && let Some(second) = seconds.get_mut((at / 1_000_000_000) as usize)
        {
            second.sent += 1;
        }
        if let Some(second) = seconds.get_mut((op.end / 1_000_000_000) as usize) {
            second.ok += u64::from(op.sent.is_some() && op.fate == Fate::Answered);
            second.bad += u64::from(op.is_bad(deadline));
        }
    }
    seconds
}

/// Returns the operations due and not finished, every 100 ms of the window.
fn outstanding(ops: &[Op], window: Nanos) -> Vec<u32> {
    let samples = (window.0 / OUTSTANDING_SAMPLE.0) as usize;
    let mut change = vec![0i64; samples + 1];
    // An operation counts from the first sample at or after its start to the one before its end.
    let sample = |at: u64| (at.div_ceil(OUTSTANDING_SAMPLE.0) as usize).saturating_sub(1);
    for op in ops {
        for (at, by) in [(op.intended, 1), (op.end, -1)] {
            if let Some(slot) = change.get_mut(sample(at)) {
                *slot += by;
            }
        }
    }
    let mut level = 0;
    change
        .into_iter()
        .take(samples)
        .map(|by| {
            level += by;
            u32::try_from(level).unwrap_or_default()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Rate;
    use plimsoll_model::trial::Phase;

    use super::*;
    use crate::sut::{Overload, Service, Stalls};

    fn request(per_s: f64) -> TrialRequest {
        TrialRequest {
            number: 1,
            phase: Phase::Narrow,
            rate: Rate::per_second(per_s).expect("finite"),
            duration: Nanos::from_secs(20),
            split: 1,
        }
    }

    fn run(world: &mut World, per_s: f64) -> Tally {
        let tally = world.run(request(per_s), None).tally;
        assert!(tally.balances());
        assert_eq!(tally.spans.corrected.count(), tally.ok);
        tally
    }

    #[test]
    fn one_exponential_worker_has_the_textbook_quantiles() {
        // M/M/1 at 50 %: time in the server is exponential with rate mu - lambda.
        let sut =
            Sut { service: Service::Exponential, base: Nanos::ZERO, ..Sut::with_capacity(2_000.0) };
        let tally = run(&mut World::new(sut, 7), 1_000.0);
        let p90 = tally.spans.corrected.quantile(0.9).expect("values").as_millis_f64();
        assert!((p90 / std::f64::consts::LN_10 - 1.0).abs() < 0.08, "{p90} ms");
        // Little's law: rate 1000/s times 1 ms.
        let mean = tally.outstanding.iter().sum::<u32>() as f64 / tally.outstanding.len() as f64;
        assert!((mean - 1.0).abs() < 0.4, "{mean}");
    }

    #[test]
    fn the_same_seed_gives_the_same_measurement() {
        let sut = Sut::with_capacity(1_000.0).noise(0.1);
        let measure = |seed| World::new(sut, seed).run(request(990.0), None);
        assert_eq!(measure(1), measure(1));
        assert_ne!(measure(1), measure(2));
    }

    #[test]
    fn overload_queues_rejects_or_drops() {
        let run = |overload| {
            let sut = Sut { overload, ..Sut::with_capacity(500.0) };
            run(&mut World::new(sut, 3), 1_000.0)
        };
        let queued = run(Overload::Queue);
        assert!(queued.late > 1_500 && queued.unsent + queued.errors_total() > 10_000);
        let rejected = run(Overload::Reject(10));
        assert_eq!((rejected.late, rejected.unsent), (0, 0));
        let errors = rejected.failures.operations.get(ErrorClass::Status5xx) as f64;
        assert!((errors / 10_000.0 - 1.0).abs() < 0.05, "{errors}");
        let dropped = run(Overload::Drop(10));
        assert!(dropped.failures.operations.get(ErrorClass::Timeout) > 0);
    }

    #[test]
    fn a_stall_delays_what_comes_during_it() {
        let stalls = Stalls { trials_share: 1.0, length: Nanos::from_secs(1) };
        let sut = Sut { stalls: Some(stalls), ..Sut::with_capacity(10_000.0) };
        let tally = run(&mut World::new(sut, 5), 1_000.0);
        assert!((900..1_200).contains(&tally.late), "{}", tally.late);
    }

    #[test]
    fn a_slow_generator_lags_and_a_small_pool_waits() {
        let mut slow = World::new(Sut::with_capacity(10_000.0), 1);
        slow.generator.capacity_per_s = 900.0;
        let lag = run(&mut slow, 1_000.0).spans.send_lag.quantile(0.99).expect("values");
        assert!(lag > Nanos::from_millis(500), "{lag}");

        let sut = Sut { base: Nanos::from_millis(10), ..Sut::with_capacity(10_000.0) };
        let mut small = World::new(sut, 1);
        small.generator.connections = 5;
        let tally = run(&mut small, 1_000.0);
        assert!(tally.pool_exhausted > 1_000);
        assert!(tally.spans.send_lag.quantile(0.99) < Some(Nanos::from_millis(1)));
        assert!(tally.spans.uncorrected.quantile(0.99) < Some(Nanos::from_millis(15)));
    }

    #[test]
    fn an_aborted_trial_stops_at_its_count() {
        let mut world = World::new(Sut::with_capacity(500.0), 2);
        let measurement = world.run(request(1_000.0), Some(100));
        assert!(measurement.aborted && measurement.window < Nanos::from_secs(1));
        assert!(measurement.tally.scheduled > measurement.tally.ok);
        assert_eq!(
            measurement.tally.outstanding.len(),
            (measurement.window.0 / 100_000_000) as usize
        );
    }
}
