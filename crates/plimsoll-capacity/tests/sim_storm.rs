//! Whole searches for the largest storm against simulated servers, many seeds of each kind.

use fastrand::Rng;
use plimsoll_capacity::staircase::{Done, HoldProcedure, Step};
use plimsoll_capacity::storm::StormLimits;
use plimsoll_capacity::{Mode, StormSearch, StormSettings};
use plimsoll_model::Nanos;
use plimsoll_model::hold::{MemoryReading, Swept};
use plimsoll_model::slo::Slo;
use plimsoll_model::storm::{Reconnect, StormCounts};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Outcome, Stopped, TippingPoint, Verdict};
use testkit::StormServer;

const SEEDS: u64 = 1_000;
/// Requests of sweeps, and new connections between storms, per second.
const PER_S: f64 = 2_000.0;
/// Period of looking at a storm in progress.
const LOOK: Nanos = Nanos::from_millis(500);

/// A server and its clients.
struct World {
    server: StormServer,
    connections: u64,
    /// Standard deviation of the server's speed from storm to storm, logarithmic.
    noise: f64,
    /// Share of storms in which the server is half as fast for no reason.
    hiccups: f64,
    /// Latency of the connections that are not cut, while more clients than this number come back.
    slow_above: u64,
    /// The server does not come back from a storm that takes longer.
    survives: Nanos,
    /// Latency of sweeps after a storm that takes longer, and the share of time for which the client waits for a CPU.
    slower: (Nanos, f64),
    held: u64,
    is_broken: bool,
    now: Nanos,
    tally: Tally,
    rng: Rng,
}

impl World {
    fn new(server: StormServer, connections: u64, seed: u64) -> Self {
        Self {
            server,
            connections,
            noise: 0.0,
            hiccups: 0.0,
            slow_above: u64::MAX,
            survives: Nanos::MAX,
            slower: (Nanos::from_millis(2), 0.0),
            held: 0,
            is_broken: false,
            now: Nanos::from_secs(1),
            tally: Tally::default(),
            rng: Rng::with_seed(seed),
        }
    }

    /// A standard normal number.
    fn normal(&mut self) -> f64 {
        let (a, b) = (1.0 - self.rng.f64(), self.rng.f64());
        (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
    }

    /// One request on each connection.
    fn answer(&mut self, requests: u64, latency: Nanos) {
        self.tally.scheduled += requests;
        self.tally.ok += requests;
        self.tally.spans.corrected.record_n(latency, requests);
    }

    /// Lets a storm go on until all are back, or the search ends it.
    fn storm(&mut self, cut: u64, search: &mut StormSearch) -> Done {
        let factor = (self.noise * self.normal()).exp();
        let hiccup = if self.rng.f64() < self.hiccups { 0.5 } else { 1.0 };
        let handshakes_per_s = self.server.handshakes_per_s * factor * hiccup;
        let server = StormServer { handshakes_per_s, ..self.server };
        let mut storm = server.storm(cut, self.rng.u64(..));
        let (mut since, mut reported) = (Nanos::ZERO, StormCounts::default());
        loop {
            since = since + LOOK;
            storm.advance(since);
            if storm.is_over() {
                break;
            }
            search.handle_storm(&reported, since);
            // Seconds are reported once they are over.
            if since.0.is_multiple_of(Nanos::from_secs(1).0) {
                reported = storm.counts().since(&StormCounts::default());
            }
            if let Some(share) = search.poll_withdrawal() {
                storm.withdraw(share);
            }
            if let Step::Trim { .. } = search.step() {
                break;
            }
        }
        self.now = self.now + since;
        self.tally.storm = storm.counts().clone();
        let latency = if cut > self.slow_above { 200 } else { 2 };
        self.answer(self.connections - cut, Nanos::from_millis(latency));
        let is_over = storm.is_over();
        self.now = self.now + storm.calm();
        self.is_broken |= since > self.survives;
        self.held = self.connections - storm.counts().missing();
        if is_over { Done::Stormed } else { Done::Trimmed }
    }

    fn carry_out(&mut self, step: Step, search: &mut StormSearch) -> Done {
        match step {
            Step::Baseline | Step::Measure => {
                Done::Read { memory: MemoryReading::default(), gauges: Vec::new() }
            }
            Step::Ramp { connections } => {
                let missing = connections - self.held;
                let took = Nanos::from_secs_f64(missing as f64 / PER_S);
                self.now = self.now + took;
                let is_slow = self.slower.0 > Nanos::from_millis(2);
                self.held = if self.is_broken && !is_slow { self.held } else { connections };
                Done::Ramped { held: self.held, took }
            }
            Step::Trim { connections } => {
                self.held = self.held.min(connections);
                Done::Trimmed
            }
            Step::Settle(span) | Step::Hold(span) => {
                self.now = self.now + span;
                Done::Waited
            }
            Step::Sweep => {
                self.now = self.now + Nanos::from_secs_f64(self.held as f64 / PER_S);
                let usual = (Nanos::from_millis(2), 0.0);
                let (latency, waited) = if self.is_broken { self.slower } else { usual };
                self.answer(self.held, latency);
                self.tally.generator.waited = Some(waited);
                Done::Swept(Swept { connections: self.held, answered: self.held })
            }
            Step::Storm { cut, jitter } => {
                let asked = self.server.reconnect;
                self.server.reconnect = jitter.map_or(asked, Reconnect::jittered);
                let done = self.storm(cut, search);
                self.server.reconnect = asked;
                done
            }
            Step::ReadKept | Step::End => panic!("a search asks for neither"),
        }
    }

    fn search(&mut self, settings: StormSettings) -> (TippingPoint, StormSearch) {
        let mut search = StormSearch::new(settings);
        for _ in 0..3_000 {
            let step = search.step();
            if step == Step::End {
                return (search.tipping_point(), search);
            }
            let done = self.carry_out(step, &mut search);
            search.handle_tally(std::mem::take(&mut self.tally), self.held);
            search.handle(done, self.now);
            while search.poll_record().is_some() {}
        }
        panic!("no end: {:?}", search.storms());
    }
}

fn settings(world: &World, recover: Nanos) -> StormSettings {
    StormSettings {
        slo: Slo::default(),
        connections: world.connections,
        lowest: 1,
        highest: world.connections,
        recover,
        patience: world.server.patience,
        pause: world.server.reconnect.pause_max(),
        try_jitter: false,
        confidence: 0.9,
        limits: *StormLimits::of(Mode::Quick),
    }
}

fn server(handshakes_per_s: f64, patience: Nanos, reconnect: Reconnect) -> StormServer {
    StormServer { handshakes_per_s, queue_max: usize::MAX, patience, reconnect }
}

/// Results over all seeds.
#[derive(Debug, Default)]
struct Score {
    intervals: u64,
    contain: u64,
    /// Exit code 0, and off by more than a tenth.
    wrong: u64,
    unsafe_storms: u64,
    safe_storms: u64,
    storms: u64,
}

impl Score {
    fn add(&mut self, tipping: &TippingPoint, truth: u64) {
        let whole = |rate: Option<plimsoll_model::Rate>| rate.map(|rate| rate.get());
        self.storms += u64::from(tipping.trials);
        let (lower, upper) = (whole(tipping.lower), whole(tipping.upper));
        let truth = truth as f64;
        let is_in = |slack: f64| {
            lower.is_none_or(|lower| lower <= truth * (1.0 + slack))
                && upper.is_none_or(|upper| upper >= truth * (1.0 - slack))
        };
        if tipping.outcome == Outcome::Regular {
            self.intervals += 1;
            self.contain += u64::from(is_in(0.0));
        }
        self.wrong += u64::from(!is_in(0.1));
        if let Some(safe) = whole(tipping.safe) {
            self.safe_storms += 1;
            self.unsafe_storms += u64::from(safe > truth);
        }
    }

    fn check(&self, least_intervals: f64) {
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        assert!(share(self.intervals, SEEDS) >= least_intervals, "{self:?}");
        assert!(share(self.contain, self.intervals) >= 0.88, "{self:?}");
        assert!(share(self.wrong, SEEDS) < 0.01, "{self:?}");
        assert!(share(self.unsafe_storms, self.safe_storms) <= 0.1, "{self:?}");
        assert!(share(self.storms, SEEDS) <= 16.0, "{self:?}");
    }
}

/// Searches servers of many speeds, and compares the interval with the truth.
fn assert_found(noise: f64, hiccups: f64, reconnect: Reconnect, least_intervals: f64) {
    let mut score = Score::default();
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let connections = 300 + rng.u64(0..1_200);
        let recover = Nanos::from_secs(2 + rng.u64(0..6));
        let share = 0.15 + 0.7 * rng.f64();
        let per_s = connections as f64 * share / recover.as_secs_f64();
        let server = server(per_s, Nanos::from_secs(10), reconnect);
        let truth = server.largest(recover, connections);
        if truth == 0 || truth == connections {
            score.intervals += 1;
            score.contain += 1;
            continue;
        }
        let mut world = World { noise, hiccups, ..World::new(server, connections, seed) };
        let (tipping, _) = world.search(settings(&world, recover));
        score.add(&tipping, truth);
    }
    score.check(least_intervals);
}

#[test]
fn a_server_of_one_speed_is_found() {
    assert_found(0.0, 0.0, Reconnect::Immediate, 0.99);
}

#[test]
fn a_server_whose_speed_differs_from_storm_to_storm_is_found() {
    assert_found(0.03, 0.0, Reconnect::Immediate, 0.97);
}

#[test]
fn a_storm_that_fails_for_another_reason_moves_no_bound() {
    assert_found(0.02, 0.02, Reconnect::Immediate, 0.9);
}

#[test]
fn clients_with_jitter_are_found() {
    let reconnect = "backoff:1s..8s,jitter".parse().expect("a policy");
    assert_found(0.02, 0.0, reconnect, 0.9);
}

#[test]
fn the_jitter_that_makes_the_largest_storm_safe_is_found() {
    let (mut found, mut near, seeds) = (0, 0, 200);
    for seed in 0..seeds {
        let mut rng = Rng::with_seed(seed);
        let connections = 500 + rng.u64(0..1_000);
        let recover = Nanos::from_secs(2 + rng.u64(0..3));
        let times = 1.5 + 4.0 * rng.f64();
        let per_s = connections as f64 / times / recover.as_secs_f64();
        let server = server(per_s, Nanos::from_secs(10), Reconnect::Immediate);
        let mut world = World { noise: 0.01, ..World::new(server, connections, seed) };
        let asked = StormSettings { try_jitter: true, ..settings(&world, recover) };
        let (tipping, search) = world.search(asked);
        if tipping.outcome != Outcome::Regular {
            continue;
        }
        let truth = server.largest(recover, connections) as f64;
        let (lower, upper) = tipping.lower.zip(tipping.upper).expect("an interval");
        assert!(lower.get() < 1.1 * truth && upper.get() > 0.9 * truth, "{seed}: {tipping:?}");
        let Some(enough_s) = search.jitter().and_then(|jitter| jitter.enough_s) else { continue };
        found += 1;
        // What waits at the end of the jitter is served within the time for recovery.
        let needed_s = (times - 1.0) * recover.as_secs_f64();
        near += u64::from((0.9..1.5).contains(&(enough_s / needed_s)));
    }
    assert!(found * 100 >= 95 * seeds && near * 100 >= 90 * found, "{near} of {found} of {seeds}");
}

#[test]
fn a_storm_that_does_not_end_is_named_and_one_that_ends_is_not() {
    let (mut named, mut possible) = (0, 0);
    for seed in 0..100 {
        let mut rng = Rng::with_seed(seed);
        let patience = Nanos::from_secs(1 + rng.u64(0..2));
        let per_s = 100.0 + 100.0 * rng.f64();
        let server = server(per_s, patience, Reconnect::Immediate);
        // Two patiences of handshakes: one that cuts more never ends.
        let limit = 2.0 * per_s * patience.as_secs_f64();
        let connections = (3.0 * limit) as u64;
        let recover = Nanos::from_secs_f64(0.8 * patience.as_secs_f64());
        let mut world = World::new(server, connections, seed);
        let (tipping, search) = world.search(settings(&world, recover));
        assert_eq!(tipping.outcome, Outcome::Regular, "seed {seed}");
        for storm in search.storms() {
            assert!(
                storm.endless.is_none() || storm.cut as f64 > 0.97 * limit,
                "{storm:?} {limit}"
            );
        }
        let endless = || search.storms().iter().filter(|storm| storm.cut as f64 > 1.02 * limit);
        let least = endless().filter(|storm| storm.endless.is_some()).map(|storm| storm.cut).min();
        let called_ended = endless().filter(|storm| storm.endless.is_none());
        assert_eq!(called_ended.filter(|storm| Some(storm.cut) < least).count(), 0, "seed {seed}");
        possible += u32::from(endless().count() > 0);
        named += u32::from(endless().any(|storm| storm.endless.is_some()));
    }
    assert!(possible == 100 && named == possible, "{named} of {possible}");
}

#[test]
fn the_clients_with_which_a_storm_would_end_are_found() {
    let (mut found, mut near, seeds) = (0, 0, 100);
    for seed in 0..seeds {
        let mut rng = Rng::with_seed(seed);
        let patience = Nanos::from_secs(1 + rng.u64(0..2));
        let per_s = 100.0 + 100.0 * rng.f64();
        // One patience of handshakes: the attempts of more clients never let the queue become shorter.
        let truth = per_s * patience.as_secs_f64();
        let server = server(per_s, patience, Reconnect::Immediate);
        let server = StormServer { queue_max: (1.5 * truth) as usize, ..server };
        let connections = (6.0 * truth) as u64;
        let recover = Nanos::from_secs_f64(0.8 * patience.as_secs_f64());
        let mut world = World::new(server, connections, seed);
        let (tipping, search) = world.search(settings(&world, recover));
        assert_eq!(tipping.outcome, Outcome::Regular, "seed {seed}");
        let Some(ends) = search.ends_below() else { continue };
        found += 1;
        let of = |clients: u64| clients as f64 / truth;
        // What waits in the queue is served first: a little below the limit that takes longer than it is waited for.
        assert!(of(ends.lasted_with) > 0.7, "seed {seed}: {ends:?}, truth {truth}");
        let Some(ended) = ends.ended_with else { continue };
        assert!(of(ended) < 1.05, "seed {seed}: {ends:?}, truth {truth}");
        near += u32::from(of(ended) > 0.5);
    }
    assert!(found >= 95 && near >= 90, "{near} of {found} of {seeds}");
}

#[test]
fn the_connections_that_are_not_cut_decide_too() {
    for seed in 0..100 {
        let server = server(1e6, Nanos::from_secs(10), Reconnect::Immediate);
        let mut world = World { slow_above: 300, ..World::new(server, 1_000, seed) };
        let (tipping, search) = world.search(settings(&world, Nanos::from_secs(5)));
        let (lower, upper) = (tipping.lower.expect("one"), tipping.upper.expect("one"));
        assert!(lower.get() <= 300.0 && upper.get() >= 300.0, "seed {seed}: {tipping:?}");
        assert!(search.storms().iter().all(|storm| storm.recovered_s.is_some()));
    }
}

#[test]
fn a_server_that_survives_all_and_one_that_survives_none() {
    let fast = server(1e5, Nanos::from_secs(10), Reconnect::Immediate);
    let mut world = World::new(fast, 1_000, 1);
    let (tipping, _) = world.search(settings(&world, Nanos::from_secs(5)));
    assert!(matches!(tipping.outcome, Outcome::NotReached { .. }), "{tipping:?}");
    let mut world = World { slow_above: 0, ..World::new(fast, 1_000, 1) };
    let (tipping, _) = world.search(settings(&world, Nanos::from_secs(5)));
    assert_eq!(tipping.outcome, Outcome::FailsAtMinimum, "{tipping:?}");
    assert_eq!(tipping.lower, None);
}

#[test]
fn a_server_that_does_not_come_back_ends_the_search() {
    let server = server(100.0, Nanos::from_secs(10), Reconnect::Immediate);
    let survives = Nanos::from_secs(5);
    let mut world = World { survives, ..World::new(server, 1_000, 1) };
    let (tipping, search) = world.search(settings(&world, Nanos::from_secs(5)));
    let Outcome::Unfinished { why } = &tipping.outcome else { panic!("{tipping:?}") };
    assert!(matches!(why, Stopped::NotRecovered(_)), "{why:?}");
    assert_eq!(tipping.invalid_trials, 1);
    assert_eq!(search.storms().last().map(|storm| storm.verdict), Some(Verdict::Bad));
}

/// Returns the answer with a server that answers after `latency` once a storm took longer than 5 s, while the client
/// waits for a CPU for that share of the time.
fn answer_when_slower(latency_ms: u64, waited: f64) -> TippingPoint {
    let server = server(100.0, Nanos::from_secs(10), Reconnect::Immediate);
    let (survives, slower) = (Nanos::from_secs(5), (Nanos::from_millis(latency_ms), waited));
    let mut world = World { survives, slower, ..World::new(server, 1_000, 1) };
    let slo = "p99<50ms".parse().expect("an objective");
    let asked = StormSettings { slo, ..settings(&world, Nanos::from_secs(5)) };
    world.search(asked).0
}

#[test]
fn a_server_that_only_became_slower_has_not_failed() {
    // Half of what the objective allows above the base line is no other state.
    let usual = answer_when_slower(20, 0.0);
    assert_eq!((usual.outcome, usual.invalid_trials), (Outcome::Regular, 0));
    // 45 ms of 50 are one, and meet it: the answer from the storms so far remains.
    let slower = answer_when_slower(45, 0.0);
    assert_eq!((slower.outcome, slower.invalid_trials), (Outcome::Regular, 1));
    let failed = answer_when_slower(80, 0.0).outcome;
    assert!(matches!(failed, Outcome::Unfinished { .. }), "{failed:?}");
    // Other programs have this host.
    let busy = answer_when_slower(80, 0.3).outcome;
    assert!(matches!(busy, Outcome::GeneratorLimited { .. }), "{busy:?}");
}
