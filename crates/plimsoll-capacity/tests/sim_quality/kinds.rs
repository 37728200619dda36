//! The simulated servers and generators, and the true capacity of each.

use fastrand::Rng;

use plimsoll_model::trial::{Phase, TrialRequest, Verdict};
use plimsoll_model::{Nanos, Rate};

use plimsoll_capacity::search::Limits;
use plimsoll_capacity::{Context, judge};
use plimsoll_model::slo::{Goal, Slo};
use testkit::{
    Anomalies, Bimodal, Course, Fluid, Generator, HiddenTimer, HostSpeed, Jitter, Leak, Metastable,
    Overload, Pauses, Rival, Service, Stalls, Sut, WarmUp, World,
};

use crate::methods::Sut as Simulated;

/// Capacity of every simulated server when it is new and undisturbed, requests per second.
pub(crate) const CAPACITY_PER_S: f64 = 5_000.0;

/// A server with what is true of it.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) name: String,
    pub(crate) sut: Sut,
    pub(crate) anomalies: Anomalies,
    pub(crate) truth: Truth,
    /// `true` if a search has to state an interval.
    pub(crate) is_steady: bool,
    /// Requests come at random, and are followed one by one.
    pub(crate) is_random: bool,
    /// Somebody else takes a part of the capacity meanwhile: what is left of it.
    pub(crate) rival: Option<f64>,
    /// The server's CPU time can be read.
    pub(crate) is_observed: bool,
    /// Capacity of the new and undisturbed server, requests per second.
    pub(crate) capacity_per_s: f64,
    /// An answer after this is late.
    pub(crate) deadline: Nanos,
}

/// The load that meets the SLO in the long run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Truth {
    /// The capacity itself: any load below it is met for ever, any above fails in the end. Where
    /// it is drawn anew for each trial, the median: half of all trials at it meet the SLO.
    Capacity,
    /// The capacity at the end of the search.
    CapacityAtEnd,
    /// The load that one trial of 5,000 s at most meets, found by bisection.
    LongTrial,
    /// The load that half of the trials of a search meet, found by bisection: its trials are longer than
    /// those that close in and shorter than the confirmations.
    HalfOfTrials,
    /// The load that half of the runs as long as a confirmation meet, found by bisection; where few of them meet with
    /// a slow stretch, as [`Self::AnyRegime`].
    HalfOfRuns,
    /// This share of the capacity: the share in a regime that most runs of 15 s meet.
    Slow(f64),
    /// The capacity at any speed of the host that occurred for as long as a confirmation.
    AnyRegime,
}

/// Most runs meet with a slow stretch if the others last for at most this share of a run.
const OFTEN: f64 = 0.8;
/// If half of the runs or nearly so fall between two visits of a neighbour, either capacity is met by half of the runs.
const MISSED: f64 = 0.4;

pub(crate) fn plain() -> Sut {
    Sut::with_capacity(CAPACITY_PER_S)
}

pub(crate) fn kind(name: impl Into<String>, sut: Sut) -> Kind {
    Kind {
        name: name.into(),
        sut,
        anomalies: Anomalies::default(),
        truth: Truth::Capacity,
        is_steady: true,
        is_random: false,
        rival: None,
        is_observed: false,
        capacity_per_s: CAPACITY_PER_S,
        deadline: Nanos::from_millis(50),
    }
}

fn jitter(name: &'static str, sd: f64) -> Kind {
    let jitter = Some(Jitter { sd, slice: Nanos::from_millis(100) });
    let anomalies = Anomalies { jitter, ..Anomalies::default() };
    Kind { anomalies, truth: Truth::HalfOfTrials, ..kind(name, plain()) }
}

/// Every kind of server, always in this order.
pub(crate) fn servers() -> Vec<Kind> {
    [steady_servers(), unsteady_servers(), servers_with_faults()].into_iter().flatten().collect()
}

/// Caps with noise, random arrivals, and neighbours.
fn steady_servers() -> Vec<Kind> {
    let shared = |name, left| Kind {
        rival: Some(left),
        truth: Truth::AnyRegime,
        is_steady: false,
        ..kind(name, plain())
    };
    let random =
        |name, sut| Kind { is_random: true, truth: Truth::HalfOfTrials, ..kind(name, sut) };
    vec![
        kind("hard cap", plain()),
        kind("hard cap, 503 beyond", Sut { overload: Overload::Reject(50), ..plain() }),
        kind("hard cap, silent drops", Sut { overload: Overload::Drop(50), ..plain() }),
        kind("noise 1 % by trial", plain().noise(0.01)),
        kind("noise 5 % by trial", plain().noise(0.05)),
        kind("noise 10 % by trial", plain().noise(0.10)),
        jitter("noise 1 % within", 0.01),
        jitter("noise 5 % within", 0.05),
        jitter("noise 10 % within", 0.10),
        random("random arrivals", plain()),
        random(
            "random arrivals and service times",
            Sut { service: Service::Exponential, workers: 4, ..plain().noise(0.02) },
        ),
        shared("-30 % for a third of the time", 0.7),
        shared("a neighbour takes half for a third", 0.5),
        Kind {
            is_observed: true,
            truth: Truth::Capacity,
            ..shared("the same neighbour, CPU times read", 0.5)
        },
    ]
}

/// Servers whose capacity moves, whose capacity is small, or that pause or fail now and then.
fn unsteady_servers() -> Vec<Kind> {
    let pauses = |every, length| Anomalies {
        pauses: Some(Pauses { every: Nanos::from_secs(every), length: Nanos::from_millis(length) }),
        ..Anomalies::default()
    };
    let warm_up =
        Some(WarmUp { cold: 0.2, extra: Nanos::from_millis(20), within: Nanos::from_secs(15) });
    let slow = |name, per_s, deadline_ms| Kind {
        deadline: Nanos::from_millis(deadline_ms),
        capacity_per_s: per_s,
        is_steady: false,
        ..kind(name, Sut::with_capacity(per_s))
    };
    let fast = Leak { per_minute: 0.01, per_million: 0.0 };
    let bimodal = Some(Bimodal { share: 0.3, slow: 0.7 });
    vec![
        Kind {
            anomalies: Anomalies { leak: Some(fast), ..Anomalies::default() },
            truth: Truth::CapacityAtEnd,
            is_steady: false,
            ..kind("drift of -1 % a minute", plain())
        },
        Kind {
            anomalies: Anomalies { bimodal, ..Anomalies::default() },
            truth: Truth::AnyRegime,
            is_steady: false,
            ..kind("bimodal: 70 % in 3 of 10 trials", plain())
        },
        Kind {
            anomalies: Anomalies { warm_up, ..Anomalies::default() },
            is_steady: false,
            ..kind("warm-up within 15 s of load", plain())
        },
        slow("holds 20/s", 20.0, 500),
        slow("holds 1.5/s", 1.5, 4_000),
        Kind {
            anomalies: pauses(10, 120),
            truth: Truth::LongTrial,
            is_steady: false,
            ..kind("pause of 120 ms each 10 s", plain())
        },
        Kind {
            anomalies: pauses(60, 2_000),
            is_steady: false,
            ..kind("pause of 2 s each minute", plain())
        },
        Kind {
            anomalies: Anomalies { errors: 0.0008, ..Anomalies::default() },
            is_steady: false,
            ..kind("0.08 % of errors at random", plain())
        },
        Kind {
            anomalies: Anomalies { errors: 0.0008, errors_together: 50, ..Anomalies::default() },
            is_steady: false,
            ..kind("0.08 % of errors, 50 at a time", plain())
        },
        Kind {
            anomalies: Anomalies { errors: 0.0008, errors_together: 500, ..Anomalies::default() },
            is_steady: false,
            ..kind("0.08 % of errors, 500 at a time", plain())
        },
    ]
}

/// Stalls, leaks, metastable states and hidden timers.
fn servers_with_faults() -> Vec<Kind> {
    let stalls = Stalls { trials_share: 0.1, length: Nanos::from_millis(200) };
    let leak = Leak { per_minute: 0.002, per_million: 0.0 };
    let worn = Leak { per_minute: 0.0, per_million: 0.01 };
    let metastable = Metastable {
        queue: Nanos::from_millis(100),
        slow: 0.4,
        calm: 0.3,
        calm_for: Nanos::from_secs(5),
    };
    let timer = HiddenTimer { share: 0.0004, after: Nanos::from_secs(30) };
    vec![
        kind("stall in 1 of 10 trials", Sut { stalls: Some(stalls), ..plain() }),
        Kind {
            anomalies: Anomalies { leak: Some(leak), ..Anomalies::default() },
            truth: Truth::CapacityAtEnd,
            ..kind("leak by time", plain())
        },
        Kind {
            anomalies: Anomalies { leak: Some(worn), ..Anomalies::default() },
            truth: Truth::CapacityAtEnd,
            ..kind("leak by requests", plain())
        },
        Kind {
            anomalies: Anomalies { metastable: Some(metastable), ..Anomalies::default() },
            ..kind("metastable", plain())
        },
        Kind {
            anomalies: Anomalies { timer: Some(timer), ..Anomalies::default() },
            ..kind("hidden timer 30 s", plain())
        },
    ]
}

/// A generator that is the limit in front of a server of 5,000/s, and the rate it can make.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) generator: Generator,
    /// Time in an answer that takes no worker of the server.
    pub(crate) base: Nanos,
    /// The highest rate that it makes faithfully; infinite if the server is the limit after all.
    pub(crate) limit_per_s: f64,
}

/// Every fault of a generator.
pub(crate) fn generators() -> Vec<Fault> {
    let base = Nanos(500_000);
    let slow = Generator { capacity_per_s: 3_000.0, ..Generator::default() };
    let fault = |name, generator, limit_per_s| Fault { name, generator, base, limit_per_s };
    let pauses = |length| Generator {
        pauses_share: 0.1,
        pause: Nanos::from_millis(length),
        ..Generator::default()
    };
    vec![
        fault("one busy core", slow, 3_000.0),
        fault(
            "a rival on the core",
            Generator { capacity_per_s: 6_000.0, rival: 0.5, ..slow },
            3_000.0,
        ),
        fault(
            "send lag: offers too few",
            Generator { offers_per_s_max: 3_000.0, ..Generator::default() },
            3_000.0,
        ),
        fault(
            "source ports run out",
            Generator { ports_per_s_max: 3_000.0, ..Generator::default() },
            3_000.0,
        ),
        Fault {
            base: Nanos::from_millis(10),
            // 30 connections at 10.2 ms each.
            ..fault(
                "too few connections",
                Generator { connections: 30, ..Generator::default() },
                30.0 / 0.0102,
            )
        },
        fault("pauses of 100 ms in 1 of 10 trials", pauses(100), f64::INFINITY),
        fault(
            "pauses of 1 s in every trial",
            Generator { pauses_share: 1.0, ..pauses(1_000) },
            0.0,
        ),
    ]
}

impl Kind {
    /// Returns the goals of a search.
    pub(crate) fn slo(&self) -> Slo {
        let mut slo = Slo::default();
        for goal in &mut slo.goals {
            if let Goal::Latency { limit, .. } = goal {
                *limit = self.deadline;
            }
        }
        slo
    }

    /// A new server of this kind; `usual` is how long a search of it takes.
    pub(crate) fn world(&self, seed: u64, usual: Nanos) -> Simulated {
        if self.is_random {
            return Simulated::World(Box::new(World::new(self.sut, seed)));
        }
        let mut world = Fluid::new(self.sut, seed);
        world.anomalies = self.anomalies;
        world.deadline = self.deadline;
        world.observed = self.is_observed;
        // Its clock does not begin with the search.
        let begin = Nanos::from_millis(seed % 60_000);
        // In the first half.
        let share = 0.15 + 0.4 * Rng::with_seed(seed ^ 0x51A1).f64();
        let at_s = begin.as_secs_f64() + usual.as_secs_f64() * share;
        if let Some(left) = self.rival {
            // It comes then and stays for a third.
            let to_s = at_s + usual.as_secs_f64() / 3.0;
            let (from, to) = (Nanos::from_secs_f64(at_s), Nanos::from_secs_f64(to_s));
            world.anomalies.rival = Some(Rival { from, to, every: Nanos::MAX, left });
        }
        if let Some(HostSpeed { course: Course::Step { at, .. }, .. }) = &mut world.anomalies.speed
        {
            *at = Nanos::from_secs_f64(at_s + 0.15 * usual.as_secs_f64());
        }
        world.idle(begin);
        Simulated::Fluid(Box::new(world))
    }

    /// The true capacities, requests per second, of which an interval has to hold one; `begin` is the
    /// age of the server when the search began, `after` the world when it was over.
    pub(crate) fn true_per_s(
        &self,
        begin: Nanos,
        after: &Simulated,
        long_run: f64,
        run: Nanos,
    ) -> Vec<f64> {
        match (self.truth_of(run), after) {
            (Truth::CapacityAtEnd, Simulated::Fluid(fluid)) => vec![fluid.capacity_now()],
            (Truth::AnyRegime, Simulated::Fluid(fluid)) => self.regimes(begin, fluid, run),
            // A run shorter than the time between two pauses meets one, or none.
            (Truth::LongTrial, _)
                if self.anomalies.pauses.is_some_and(|pauses| pauses.every > run) =>
            {
                vec![long_run, self.capacity_per_s]
            }
            (Truth::LongTrial | Truth::HalfOfTrials | Truth::HalfOfRuns, _) => vec![long_run],
            (Truth::Slow(share), _) => vec![share * self.capacity_per_s],
            (Truth::Capacity | Truth::CapacityAtEnd | Truth::AnyRegime, _) => {
                vec![self.capacity_per_s]
            }
        }
    }

    /// The truth for runs of this length.
    fn truth_of(&self, run: Nanos) -> Truth {
        let fast_mean = match self.anomalies.speed.map(|speed| speed.course) {
            Some(Course::TwoSpeeds { fast_mean, .. }) => Some(fast_mean),
            _ => None,
        };
        let is_rare = fast_mean.is_some_and(|mean| mean.as_secs_f64() > OFTEN * run.as_secs_f64());
        let is_missed = matches!(self.truth, Truth::Slow(_)) && self.missed_rival(run) > MISSED;
        if is_rare || is_missed { Truth::AnyRegime } else { self.truth }
    }

    /// Share of the runs of this length that fall between two visits of the neighbour.
    fn missed_rival(&self, run: Nanos) -> f64 {
        let of = |rival: Rival| {
            let free = rival.every.since(rival.to.since(rival.from)).since(run);
            free.as_secs_f64() / rival.every.as_secs_f64()
        };
        self.anomalies.rival.map_or(0.0, of)
    }

    /// The capacity at each speed that the host had for at least `run` since `begin`; in a search too short for
    /// that, at each speed.
    fn regimes(&self, begin: Nanos, after: &Fluid, run: Nanos) -> Vec<f64> {
        if let Some(left) = self.rival.or_else(|| self.anomalies.rival.map(|rival| rival.left)) {
            return vec![left * self.capacity_per_s, self.capacity_per_s];
        }
        if let Some(bimodal) = self.anomalies.bimodal {
            return vec![bimodal.slow * self.capacity_per_s, self.capacity_per_s];
        }
        let Some(speed) = self.anomalies.speed else { return vec![self.capacity_per_s] };
        let stretches = after.host_speeds(begin, after.age());
        let mut speeds: Vec<f64> = stretches.iter().map(|(speed, _)| *speed).collect();
        speeds.sort_by(f64::total_cmp);
        speeds.dedup();
        let lasted_s = |of: f64| {
            let each = stretches.iter().filter(|(speed, _)| *speed == of);
            each.map(|(_, span)| span.as_secs_f64()).sum::<f64>()
        };
        let is_long = |of: &f64| lasted_s(*of) >= run.as_secs_f64();
        if speeds.iter().any(is_long) {
            speeds.retain(is_long);
        }
        speeds.into_iter().map(|host| self.capacity_per_s * speed.capacity_share(host)).collect()
    }

    /// See [`Truth`]; the capacity if the truth is not found by bisection.
    pub(crate) fn long_run_per_s(&self, limits: &Limits) -> f64 {
        let run = limits.confirm_trial;
        let usual_s =
            (limits.final_trial.as_secs_f64() * limits.confirm_trial.as_secs_f64()).sqrt();
        let (trials, duration) = match self.truth_of(run) {
            Truth::LongTrial => (1, Nanos::from_secs(5_000)),
            Truth::HalfOfTrials => (41, Nanos::from_secs(usual_s as u64)),
            Truth::HalfOfRuns => (401, run),
            Truth::Capacity | Truth::CapacityAtEnd | Truth::Slow(_) | Truth::AnyRegime => {
                return self.capacity_per_s;
            }
        };
        let quiet = Self { sut: self.sut.noise(0.0), ..self.clone() };
        // Three in ten of such runs may miss it.
        let share = 0.5;
        let meets = |per_s: f64| {
            let request = TrialRequest {
                number: 1,
                phase: Phase::Confirm,
                rate: Rate::per_second(per_s).expect("finite"),
                duration,
                split: 1,
            };
            let good = (0..trials).filter(|seed| {
                let measurement = quiet.world(0x70_0F + seed, Nanos::MAX).run(request, None);
                let judgement = judge(&measurement, &Slo::default(), &Context::default());
                judgement.verdict == Verdict::Good
            });
            good.count() as f64 > share * trials as f64
        };
        let (mut low, mut high) = (0.02 * CAPACITY_PER_S, 1.05 * CAPACITY_PER_S);
        while high / low > 1.0005 {
            let middle = (low * high).sqrt();
            if meets(middle) { low = middle } else { high = middle }
        }
        (low * high).sqrt()
    }
}

impl Fault {
    /// The server of 5,000/s behind this generator.
    pub(crate) fn world(&self, seed: u64) -> Simulated {
        let mut world = Fluid::new(Sut { base: self.base, ..plain() }, seed ^ 0xFA_017);
        world.generator = self.generator;
        Simulated::Fluid(Box::new(world))
    }
}
