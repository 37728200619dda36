//! Trials without single operations: queues are followed as curves, so that a trial costs tens of
//! microseconds whatever its rate and length.
//!
//! Exact for equal gaps between starts and a fixed time per request (what a search offers, and a
//! server of hard capacity); what happens in one instant may come one operation early or late.
//! Approximate: latencies between two bends of a curve are recorded in up to 64 steps, but the
//! counts above the deadline are exact; what ran out of patience still takes the server's time; a
//! leak makes its step from trial to trial; the number in flight ripples by a normal draw. [`crate::World`] follows
//! every operation, and the tests hold the two against each other.

mod count;
mod flow;
mod host;
mod seconds;
mod slices;
mod stretch;
mod witness;

use fastrand::Rng;

use plimsoll_model::Nanos;
use plimsoll_model::observation::Observations;
use plimsoll_model::tally::{OUTSTANDING_SAMPLE, Tally};
use plimsoll_model::trial::{Phase, TrialMeasurement, TrialRequest};

use crate::anomalies::{Anomalies, WarmUp};
use crate::generator::Generator;
use crate::sut::{Overload, Sut, factor, normal};

use count::Counting;
use flow::{Cursor, Flow, Rates, seconds};
use host::History;
use seconds::BySecond;
use slices::Slices;

/// A server, a generator and a seed. State carries over from trial to trial, and through idle time.
#[derive(Clone, Debug)]
pub struct Fluid {
    /// The server. Its service times are fixed, whatever it says.
    pub sut: Sut,
    /// Anomalies of the server.
    pub anomalies: Anomalies,
    /// Generator of the load.
    pub generator: Generator,
    /// An answer after this is late.
    pub deadline: Nanos,
    /// Time for which an operation is waited for past its deadline.
    pub linger: Nanos,
    /// `true` if the measurements have witnesses: the server's CPU time, as a whole and by second, and the
    /// yardstick of its host.
    pub observed: bool,
    rng: Rng,
    /// Age of the server, seconds.
    age_s: f64,
    served: f64,
    /// Time under load, seconds.
    loaded_s: f64,
    collapsed: bool,
    /// Time in which the load was low enough for a collapse to end.
    calm_s: f64,
    /// Histograms that are used again: allocating them costs more than filling them.
    spare: Option<Tally>,
    history: History,
    /// Errors of the witnesses; apart from the chance of the world, which is the same without them.
    witness_rng: Rng,
}

/// The draws of one trial, and the state it starts from.
struct Trial {
    rates: Rates,
    duration: Nanos,
    base_s: f64,
    patience_s: f64,
    /// Share of the requests that fail by chance, and how many in each second.
    failing: f64,
    failing_by_second: Vec<u64>,
    /// The host's speed in each [`SLICE_S`]; empty if it is constant.
    host: Vec<f64>,
}

/// Length of the slices in which a capacity varies, seconds: those of the samples of the backlog.
const SLICE_S: f64 = OUTSTANDING_SAMPLE.0 as f64 / 1e9;

impl Fluid {
    /// Creates a world with a generator that is no limit and a deadline of 50 ms.
    pub fn new(sut: Sut, seed: u64) -> Self {
        Self {
            sut,
            anomalies: Anomalies::default(),
            generator: Generator::default(),
            deadline: Nanos::from_millis(50),
            linger: Nanos::from_secs(2),
            observed: false,
            rng: Rng::with_seed(seed),
            age_s: 0.0,
            served: 0.0,
            loaded_s: 0.0,
            collapsed: false,
            calm_s: 0.0,
            spare: None,
            history: History::new(seed),
            witness_rng: Rng::with_seed(seed ^ 0x0817_7E55),
        }
    }

    /// Returns the server's capacity at this age, requests per second, without noise and in good health.
    pub fn capacity_now(&self) -> f64 {
        let leak = self.anomalies.leak.unwrap_or_default();
        let lost = leak.per_minute * self.age_s / 60.0 + leak.per_million * self.served / 1e6;
        self.sut.capacity_per_s * (1.0 - lost).max(0.01)
    }

    /// Returns the age of the server.
    pub fn age(&self) -> Nanos {
        Nanos::from_secs_f64(self.age_s)
    }

    /// Returns the stretches of constant speed of its host between two ages, up to now: the speed, and for
    /// how long.
    pub fn host_speeds(&self, from: Nanos, to: Nanos) -> Vec<(f64, Nanos)> {
        let stretches = self.history.between(seconds(from), seconds(to).min(self.age_s));
        stretches.into_iter().map(|(speed, s)| (speed, Nanos::from_secs_f64(s))).collect()
    }

    /// Lets the server grow older.
    fn grow(&mut self, span_s: f64) {
        self.age_s += span_s;
        if let Some(speed) = self.anomalies.speed {
            self.history.extend(&speed.course, self.age_s);
        }
    }

    /// Lets time pass without load.
    pub fn idle(&mut self, span: Nanos) {
        self.grow(seconds(span));
        self.calm_s += seconds(span);
        let heals = self.anomalies.metastable.is_some_and(|m| self.calm_s >= seconds(m.calm_for));
        self.collapsed &= !heals;
    }

    /// Reuses the memory of a tally.
    pub fn recycle(&mut self, tally: Tally) {
        self.spare = Some(tally);
    }

    /// Runs one trial; with `abort_bad_ops` it ends early once more operations than that are bad.
    pub fn run(&mut self, request: TrialRequest, abort_bad_ops: Option<u64>) -> TrialMeasurement {
        let split = if self.generator.splits { request.split.max(1) } else { 1 };
        let began = Some(self.age());
        let trial = self.draw(&request, split);
        let flow = trial.rates.flow();
        let mut tally = self.spare.take().unwrap_or_default();
        tally.clear();
        let counting = Counting {
            trial: &trial,
            flow: &flow,
            deadline_s: seconds(self.deadline),
            pool: self.generator.connections as f64,
            drops: matches!(self.sut.overload, Overload::Drop(_)),
            local_share: self.local_share(trial.rates.offered),
            timer: self.anomalies.timer,
        };
        let cut = abort_bad_ops.and_then(|most| counting.cut(most as f64));
        let window = cut.map_or(request.duration, Nanos::from_secs_f64);
        counting.count(&mut tally, cut, &mut self.rng);
        tally.outstanding = self.outstanding(&counting, window);
        tally.connections.opened = self.generator.connections as u64;
        self.generator_use(&mut tally, &trial, window, split);
        self.pass(&trial, &flow, window);
        let busiest = (flow.busy_s() / trial.rates.window_s).min(1.0);
        let mut by_second = BySecond::of(&counting, seconds(window));
        if self.observed {
            self.witness(&trial, &flow, &mut by_second.seconds);
        }
        TrialMeasurement {
            request,
            window,
            aborted: cut.is_some(),
            observations: Observations {
                began,
                sut_cpu: self.observed.then(|| self.sut_cpu(&trial, &flow, window)),
                failed_by_second: Some(by_second.failed),
                late_or_lost_by_second: Some(by_second.late_or_lost),
                ..self.observations(&trial, &tally, window)
            },
            tally,
            sut_busiest_thread: self.observed.then_some(busiest),
            split,
            seconds: by_second.seconds,
        }
    }

    /// Returns the share of operations for which this machine has no source port.
    fn local_share(&self, offered: f64) -> f64 {
        (1.0 - self.generator.ports_per_s_max / offered.max(1e-9)).max(0.0)
    }

    fn draw(&mut self, request: &TrialRequest, split: u32) -> Trial {
        let (generator, sut) = (self.generator, self.sut);
        let window_s = seconds(request.duration);
        let offered = request.rate.get().min(generator.offers_per_s_max);
        // Whole operations, so that they add up.
        let offered = (offered * window_s).round().max(1.0) / window_s;
        let span = |at: f64, length: Nanos| (at * window_s, at * window_s + seconds(length));
        let pause = (self.rng.f64() < generator.pauses_share)
            .then(|| span(self.rng.f64(), generator.pause));
        let stall = sut
            .stalls
            .filter(|stalls| self.rng.f64() < stalls.trials_share)
            .map(|stalls| span(self.rng.f64(), stalls.length));
        let stalls = stall.into_iter().chain(self.pauses(window_s)).collect();
        let mut capacity = self.capacity_now() * factor(sut.noise, &mut self.rng);
        if let Some(bimodal) = self.anomalies.bimodal
            && self.rng.f64() < bimodal.share
        {
            capacity *= bimodal.slow;
        }
        let failing_by_second = self.failing(offered, window_s);
        let failing = failing_by_second.iter().sum::<u64>() as f64;
        let host = self.host_speeds_of(window_s);
        let slices = self.slices(request, offered, window_s, &host);
        let mut base_s = seconds(sut.base) + 1.0 / self.sut.capacity_per_s;
        if let Some(warm_up) = self.anomalies.warm_up {
            base_s += seconds(warm_up.extra) * self.cold(&warm_up, 0.5 * window_s);
        }
        let healed_s = match self.anomalies.metastable {
            Some(m) if self.collapsed && offered < m.calm * self.capacity_now() => {
                (seconds(m.calm_for) - self.calm_s).max(0.0)
            }
            _ => f64::INFINITY,
        };
        let hanging = self.anomalies.timer.map_or(0.0, |timer| timer.share);
        let patience_s = seconds(self.deadline) + seconds(self.linger);
        let rates = Rates {
            offered,
            window_s,
            patience_s,
            generator: generator.capacity_per_s * f64::from(split) * (1.0 - generator.rival),
            pause,
            accepted: (1.0 - hanging - failing / (offered * window_s))
                * (1.0 - self.local_share(offered)),
            capacity,
            slices,
            stalls,
            pool: generator.connections.max(1) as f64 / base_s,
            queue_max: match sut.overload {
                Overload::Queue => None,
                Overload::Reject(ops) | Overload::Drop(ops) => Some(ops as f64),
            },
            metastable: self.anomalies.metastable,
            collapsed: self.collapsed,
            healed_s,
        };
        let failing = failing / (offered * window_s);
        Trial {
            rates,
            duration: request.duration,
            base_s,
            patience_s,
            failing,
            failing_by_second,
            host,
        }
    }

    /// Returns the host's speed in each [`SLICE_S`] of a trial that begins now; empty if it is constant.
    fn host_speeds_of(&mut self, window_s: f64) -> Vec<f64> {
        let Some(speed) = self.anomalies.speed else { return Vec::new() };
        let slices = 0..(window_s / SLICE_S).ceil() as usize;
        let middle = |slice: usize| self.age_s + (slice as f64 + 0.5) * SLICE_S;
        slices.map(|slice| self.history.at(&speed.course, middle(slice))).collect()
    }

    /// Returns the variation of the capacity within a trial that begins now.
    fn slices(
        &mut self,
        request: &TrialRequest,
        offered: f64,
        window_s: f64,
        host: &[f64],
    ) -> Slices {
        let mut slices = Slices::STEADY;
        if let Some(jitter) = self.anomalies.jitter {
            let rng = &mut self.rng;
            slices.multiply(window_s, seconds(jitter.slice), |_, _| {
                (1.0 + jitter.sd * normal(rng).clamp(-3.0, 3.0)).max(0.05)
            });
        }
        if request.phase == Phase::Safe {
            // Random arrivals, as far as a queue feels them: the counts of short slices are random.
            slices.multiply(window_s, SLICE_S, |_, length_s| {
                (1.0 + normal(&mut self.rng) / (offered * length_s).sqrt()).max(0.05)
            });
        }
        if let Some(rival) = self.anomalies.rival {
            slices.multiply(window_s, SLICE_S, |start_s, _| {
                if rival.is_there(self.age_s + start_s) { rival.left } else { 1.0 }
            });
        }
        if let Some(warm_up) = self.anomalies.warm_up {
            slices.multiply(window_s, SLICE_S, |start_s, _| {
                1.0 - (1.0 - warm_up.cold) * self.cold(&warm_up, start_s)
            });
        }
        if let Some(speed) = self.anomalies.speed {
            slices.multiply(window_s, SLICE_S, |start_s, _| {
                let slice = (start_s / SLICE_S + 1e-9) as usize;
                host.get(slice).map_or(1.0, |host| speed.capacity_share(*host))
            });
        }
        slices
    }

    /// Returns the share of its warm-up that the server still lacks, `after_s` seconds into a trial that begins
    /// now.
    fn cold(&self, warm_up: &WarmUp, after_s: f64) -> f64 {
        (-(self.loaded_s + after_s) / seconds(warm_up.within)).exp()
    }

    /// Returns operations of each second of a trial that fail by chance.
    fn failing(&mut self, offered: f64, window_s: f64) -> Vec<u64> {
        let together = self.anomalies.errors_together.max(1);
        let times = offered * window_s * self.anomalies.errors / f64::from(together);
        let mut seconds = vec![0; (window_s.ceil() as usize).max(1)];
        for _ in 0..poisson(times, &mut self.rng) as u64 {
            let second = self.rng.usize(..seconds.len());
            let left = (offered as u64).saturating_sub(seconds[second]);
            seconds[second] += u64::from(together).min(left);
        }
        seconds
    }

    /// Returns the pauses of the server's own clock within a trial that begins now.
    fn pauses(&self, window_s: f64) -> Vec<(f64, f64)> {
        let Some(pauses) = self.anomalies.pauses else { return Vec::new() };
        let (every, length) = (seconds(pauses.every), seconds(pauses.length));
        let mut at = every - self.age_s % every - every;
        let mut spans = Vec::new();
        while at < window_s {
            if at + length > 0.0 {
                spans.push((at.max(0.0), at + length));
            }
            at += every;
        }
        spans
    }

    /// Returns the operations due and not finished, every 100 ms of the window.
    fn outstanding(&mut self, counting: &Counting<'_>, window: Nanos) -> Vec<u32> {
        let samples = window.0 / OUTSTANDING_SAMPLE.0;
        let rates = &counting.trial.rates;
        let (mut here, mut before) = (Cursor::new(counting.flow), Cursor::new(counting.flow));
        let mut hung = Cursor::new(counting.flow);
        let hung_s = counting.timer.map(|timer| seconds(timer.after).min(rates.patience_s));
        // In the part of an answer that takes no server, operations come and go one by one.
        let ripple = (rates.offered * counting.trial.base_s).sqrt();
        (1..=samples)
            .map(|sample| {
                let t = sample as f64 * seconds(OUTSTANDING_SAMPLE);
                let now = here.at(t);
                let past = before.at((t - counting.trial.base_s).max(0.0));
                let hanging = hung_s.map_or(0.0, |after| {
                    let timer = counting.timer.map_or(0.0, |timer| timer.share);
                    timer * (now.sent - hung.at((t - after).max(0.0)).sent)
                });
                let serving = now.due - now.sent + (now.accepted - past.answered);
                let refused = now.refused - past.refused;
                let ripple = ripple * normal(&mut self.rng) * 0.5;
                // No wait is longer than the client's timeout.
                let patient = now.due - rates.offered * (t - rates.patience_s).max(0.0);
                let open = (serving + refused + hanging).min(patient);
                (open + ripple).round().max(0.0) as u32
            })
            .collect()
    }

    fn generator_use(&mut self, tally: &mut Tally, trial: &Trial, window: Nanos, split: u32) {
        let sent_per_s = tally.scheduled as f64 / seconds(window).max(1e-9);
        let free = 1.0 - self.generator.rival;
        let busy = (sent_per_s / trial.rates.generator).min(1.0) * free;
        // Two threads' worth of noise in what the kernel accounts.
        let busy = busy * (1.0 + 0.02 * normal(&mut self.rng)) + 0.01 * self.rng.f64();
        tally.generator.busiest_thread = busy.clamp(0.0, 1.0);
        tally.generator.processes = 1;
        tally.generator.threads = split;
    }

    /// Takes the trial's end over as the state of the next one.
    fn pass(&mut self, trial: &Trial, flow: &Flow, window: Nanos) {
        let window_s = seconds(window);
        self.grow(window_s);
        self.loaded_s += window_s;
        self.served += Cursor::new(flow).at(window_s).answered;
        let Some(metastable) = self.anomalies.metastable else { return };
        let low = trial.rates.offered < metastable.calm * self.capacity_now();
        self.calm_s = if low { self.calm_s + window_s } else { 0.0 };
        self.collapsed &= trial.rates.healed_s > window_s;
        self.collapsed |= flow.collapsed_at.is_some_and(|at| at <= window_s);
        if !self.collapsed {
            return;
        }
        let heals = low && self.calm_s >= seconds(metastable.calm_for);
        self.collapsed = !heals;
    }
}

/// Returns a Poisson count with this mean; above 30 the distribution is nearly normal.
fn poisson(mean: f64, rng: &mut Rng) -> f64 {
    if mean > 30.0 {
        return (mean + mean.sqrt() * normal(rng)).round().max(0.0);
    }
    let (mut count, mut left) = (0.0, (-mean).exp());
    loop {
        left /= 1.0 - rng.f64();
        if left >= 1.0 {
            return count;
        }
        count += 1.0;
    }
}

#[cfg(test)]
mod tests;
