//! Whole searches for held connections against simulated servers, 1,000 seeds of each kind.

use fastrand::Rng;
use plimsoll_capacity::connections::ConnectionLimits;
use plimsoll_capacity::staircase::{Attempts, Done, Gauge, HoldProcedure, Step};
use plimsoll_capacity::{ConnectionSearch, ConnectionSettings, Mode};
use plimsoll_model::hold::{MemoryReading, ServerFailure, Side, Swept};
use plimsoll_model::host::{LimitId, LimitKind};
use plimsoll_model::slo::Slo;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Outcome, Recovery, Stopped, TippingPoint, TrialRecord};
use plimsoll_model::{ErrorClass, Nanos};
use testkit::Holding;

const SEEDS: u64 = 1_000;
/// New connections, and requests of sweeps, per second.
const PER_S: u64 = 2_000;

/// A server that holds connections, and the clients that hold the other ends.
struct World {
    /// Killed when it has used up its memory.
    memory: Option<Holding>,
    /// Connections it takes; more are refused.
    takes: u64,
    /// More are not refused, but wait in the kernel's queue and are never answered.
    queues: bool,
    /// From this number of connections on, answers are late.
    slow_from: u64,
    /// Closes what was idle for so long.
    idle_timeout: Option<Nanos>,
    /// Bytes that are lost with every second.
    leaks_per_s: u64,
    /// Share of answers that are a 503.
    fails: f64,
    /// Descriptors of the clients.
    descriptors: u64,
    /// Long holds after which this host sends late.
    spoiled: u32,
    sends_late: bool,
    held: u64,
    tried: u64,
    now: Nanos,
    /// Counts since the last report to the search.
    tally: Tally,
}

impl World {
    fn new() -> Self {
        Self {
            memory: None,
            takes: u64::MAX,
            queues: false,
            slow_from: u64::MAX,
            idle_timeout: None,
            leaks_per_s: 0,
            fails: 0.0,
            descriptors: 10_000_000,
            spoiled: 0,
            sends_late: false,
            held: 0,
            tried: 0,
            now: Nanos::from_secs(1),
            tally: Tally::default(),
        }
    }

    fn pass(&mut self, span: Nanos) {
        self.now = self.now + span;
        if let Some(memory) = &mut self.memory {
            memory.base_bytes += (self.leaks_per_s as f64 * span.as_secs_f64()) as u64;
        }
        self.look_after_memory();
        if self.idle_timeout.is_some_and(|timeout| span >= timeout) {
            self.lose(self.held, ErrorClass::ClosedByPeer);
        }
    }

    /// The server is killed when it holds more than it can.
    fn look_after_memory(&mut self) {
        let held = self.held;
        if self.memory.as_mut().is_some_and(|memory| !memory.hold(held).alive) {
            self.lose(held, ErrorClass::ResetByPeer);
        }
    }

    fn is_killed(&mut self) -> bool {
        let held = self.held;
        self.memory.as_mut().is_some_and(|memory| !memory.hold(held).alive)
    }

    fn lose(&mut self, count: u64, class: ErrorClass) {
        self.held -= count;
        self.tally.failures.lost_held.add(class, count);
    }

    fn ramp(&mut self, connections: u64) {
        let attempts = connections.saturating_sub(self.tried);
        self.tried = connections.max(self.tried);
        let dies_at = self.memory.as_ref().map_or(u64::MAX, Holding::connections_max);
        let taken = match self.queues {
            true => attempts,
            false => attempts.min(self.takes.saturating_sub(self.held)),
        };
        let taken = if self.is_killed() { 0 } else { taken };
        let reached = (self.held + taken).min(dies_at);
        self.tally.connections.held_max = self.tally.connections.held_max.max(reached);
        self.tally.connections.opened += taken;
        self.tally.connections.failed += attempts - taken;
        self.tally.failures.attempts.add(ErrorClass::ConnectRefused, attempts - taken);
        self.held += taken;
        self.pass(Nanos(attempts * 1_000_000_000 / PER_S));
    }

    fn sweep(&mut self) -> Swept {
        let connections = self.held;
        let silent = if self.queues { connections.saturating_sub(self.takes) } else { 0 };
        let answered = connections - silent;
        let failed = (answered as f64 * self.fails) as u64;
        let is_slow = connections >= self.slow_from || self.sends_late;
        let latency = Nanos::from_millis(if is_slow { 80 } else { 1 });
        if self.sends_late {
            self.tally.spans.send_lag.record_n(latency, connections);
        }
        self.tally.scheduled += connections;
        self.tally.ok += answered - failed;
        self.tally.spans.corrected.record_n(latency, answered - failed);
        self.tally.failures.operations.add(ErrorClass::Timeout, silent);
        self.tally.failures.operations.add(ErrorClass::Status5xx, failed);
        self.lose(silent, ErrorClass::Timeout);
        self.pass(Nanos(connections * 1_000_000_000 / PER_S));
        Swept { connections, answered }
    }

    fn gauges(&mut self) -> Vec<Gauge> {
        let held = self.held;
        let files = Gauge {
            resource: LimitId::of(LimitKind::OpenFiles, "clients"),
            side: Side::Generator,
            used: held as f64,
            limit: self.descriptors as f64,
            per_connection: Some(1.0),
        };
        let memory = self.memory.as_mut().map(|memory| Gauge {
            resource: LimitId::of(LimitKind::AddressSpace, "server"),
            side: Side::Server,
            used: memory.hold(held).resident_bytes as f64,
            limit: memory.limit_bytes as f64,
            per_connection: None,
        });
        memory.into_iter().chain([files]).collect()
    }

    fn carry_out(&mut self, step: Step) -> Done {
        match step {
            Step::Baseline | Step::Measure => {
                Done::Read { memory: MemoryReading::default(), gauges: self.gauges() }
            }
            Step::Ramp { connections } => {
                let began = self.now;
                self.ramp(connections);
                Done::Ramped { held: self.held, took: self.now.since(began) }
            }
            Step::Trim { connections } => {
                self.held = self.held.min(connections);
                self.tried = self.held;
                Done::Trimmed
            }
            Step::Settle(span) | Step::Hold(span) => {
                self.pass(span);
                self.sends_late = matches!(step, Step::Hold(_)) && self.spoiled > 0;
                self.spoiled -= u32::from(self.sends_late);
                Done::Waited
            }
            Step::Sweep => Done::Swept(self.sweep()),
            Step::Storm { .. } | Step::ReadKept | Step::End => {
                panic!("a search asks for none of them")
            }
        }
    }

    /// Searches to the end.
    fn search(&mut self, settings: ConnectionSettings) -> Answer {
        let mut search = ConnectionSearch::new(settings);
        let mut records: Vec<TrialRecord> = Vec::new();
        for _ in 0..3_000 {
            let step = search.step();
            if step == Step::End {
                return Answer { tipping: search.tipping_point(), records, search };
            }
            let done = self.carry_out(step);
            search.handle_tally(std::mem::take(&mut self.tally), self.held);
            search.handle(done, self.now);
            while let Some(record) = search.poll_record() {
                records.push(record);
            }
        }
        panic!("no end: {records:?}");
    }
}

struct Answer {
    tipping: TippingPoint,
    records: Vec<TrialRecord>,
    search: ConnectionSearch,
}

impl Answer {
    fn bounds(&self) -> (u64, u64) {
        let whole = |rate: Option<plimsoll_model::Rate>| rate.map(|rate| rate.get() as u64);
        (whole(self.tipping.lower).unwrap_or(0), whole(self.tipping.upper).unwrap_or(u64::MAX))
    }
}

fn settings(mode: Mode) -> ConnectionSettings {
    // The simulated time of large levels is not what these tests are about.
    let limits =
        ConnectionLimits { budget: Nanos::from_secs(100_000), ..*ConnectionLimits::of(mode) };
    ConnectionSettings {
        slo: Slo::default(),
        lowest: 100,
        cap: 5_000_000,
        at_cap: Outcome::NotReached { cap: "5,000,000 connections, --max".to_owned() },
        limits,
        push: false,
    }
}

/// A server whose memory ends somewhere between 400 and 40,000 connections.
fn with_memory(rng: &mut Rng) -> World {
    let connection_bytes = rng.u64(4_000..60_000);
    let connections = (400.0 * 100f64.powf(rng.f64())) as u64;
    let base = rng.u64(5_000_000..60_000_000);
    let limit = base + connections * connection_bytes;
    let mut memory = Holding::with_limit(limit, rng.u64(..));
    memory.base_bytes = base;
    memory.connection_bytes = connection_bytes;
    memory.block = [1, 4, 16, 32][rng.usize(0..4)];
    memory.reading_noise = [0.0, 0.0005, 0.002][rng.usize(0..3)];
    World { memory: Some(memory), ..World::new() }
}

#[test]
fn memory_that_ends_stops_the_search_before_the_server_dies() {
    let (mut off, mut shares) = (Vec::new(), Vec::new());
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let mut world = with_memory(&mut rng);
        let dies_at = world.memory.as_ref().map_or(0, Holding::connections_max);
        let answer = world.search(settings(Mode::Quick));
        assert!(!world.is_killed(), "seed {seed}: killed at {dies_at}");
        let Outcome::NotReached { cap } = &answer.tipping.outcome else {
            panic!("seed {seed}: {:?}", answer.tipping);
        };
        assert!(
            cap.contains("address space of server") && cap.contains("85 %"),
            "seed {seed}: {cap}"
        );
        assert_eq!(answer.tipping.recovery, Some(Recovery::Yes));
        let first = answer.search.found().first_limit.expect("memory is watched");
        let end = first.ends_at.expect("it grows") as f64;
        off.push((end / dies_at as f64 - 1.0).abs());
        shares.push(answer.bounds().0 as f64 / dies_at as f64);
    }
    off.sort_by(f64::total_cmp);
    let within = off.iter().filter(|off| **off <= 0.10).count();
    assert!(within as u64 >= SEEDS * 99 / 100, "{within} within 10 %, worst {:?}", off.last());
    assert!(shares.iter().all(|share| (0.4..0.9).contains(share)), "{shares:?}");
    let full = shares.iter().filter(|share| **share > 0.75).count();
    assert!(full as u64 >= SEEDS * 9 / 10, "{full} went as far as 75 %");
}

#[test]
fn a_push_ends_where_the_server_dies_and_says_how_far_off_the_projection_was() {
    let mut close = 0;
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let mut world = with_memory(&mut rng);
        let dies_at = world.memory.as_ref().map_or(0, Holding::connections_max);
        let answer = world.search(ConnectionSettings { push: true, ..settings(Mode::Quick) });
        assert!(world.is_killed(), "seed {seed}: {:?}", answer.tipping);
        assert_eq!(answer.tipping.outcome, Outcome::Regular, "seed {seed}");
        let (lower, upper) = answer.bounds();
        assert!(lower <= dies_at && dies_at < upper, "seed {seed}: {lower} {dies_at} {upper}");
        let failed_at = answer.search.found().failed_at.expect("it died");
        assert_eq!(failed_at.at, dies_at, "seed {seed}");
        let off = failed_at.predicted_off.expect("memory was predicted");
        close += u64::from(off.abs() <= 0.10);
    }
    assert!(close >= SEEDS * 99 / 100, "{close} of {SEEDS} predicted within 10 %");
}

/// Searches servers that take a given number of connections, and checks that the truth is in the interval.
fn assert_found(mode: Mode, make: impl Fn(u64, &mut Rng) -> World) {
    let width = ConnectionLimits::of(mode).width_max;
    let mut levels = Vec::new();
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        // The lowest level has to be held; 100 to 20,000.
        let takes = (100.0 * 200f64.powf(rng.f64())) as u64;
        let mut world = make(takes, &mut rng);
        let answer = world.search(settings(mode));
        assert_eq!(answer.tipping.outcome, Outcome::Regular, "seed {seed}");
        let (lower, upper) = answer.bounds();
        assert!(lower <= takes && takes < upper, "seed {seed}: {lower} <= {takes} < {upper}");
        let is_narrow = upper as f64 <= lower as f64 * (1.0 + width) || upper == lower + 1;
        assert!(is_narrow, "seed {seed}: [{lower}, {upper}]");
        assert_eq!(answer.tipping.confirmations.good, 1, "seed {seed}");
        assert_eq!(answer.tipping.recovery, Some(Recovery::Yes), "seed {seed}");
        levels.push(answer.records.len());
    }
    levels.sort_unstable();
    let median = levels[levels.len() / 2];
    assert!(median <= 25, "{median} levels");
}

#[test]
fn a_server_that_refuses_more_is_found() {
    for mode in Mode::ALL {
        assert_found(*mode, |takes, _| World { takes, ..World::new() });
    }
}

#[test]
fn a_server_that_lets_more_wait_unanswered_is_found() {
    assert_found(Mode::Quick, |takes, _| World { takes, queues: true, ..World::new() });
}

#[test]
fn a_server_that_becomes_slow_is_found() {
    assert_found(Mode::Standard, |takes, _| World { slow_from: takes + 1, ..World::new() });
}

#[test]
fn a_leak_is_no_reason_to_kill_the_server() {
    let mut killed = 0;
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let mut world = with_memory(&mut rng);
        // As much in a minute as a fiftieth of what the connections may take.
        if let Some(memory) = &world.memory {
            world.leaks_per_s = (memory.limit_bytes - memory.base_bytes) / (50 * 60);
        }
        world.search(settings(Mode::Quick));
        killed += u64::from(world.is_killed());
    }
    assert!(killed <= SEEDS / 100, "{killed} of {SEEDS} killed");
}

#[test]
fn a_hidden_idle_timer_is_told_and_no_capacity() {
    for seed in 0..SEEDS {
        let mut rng = Rng::with_seed(seed);
        let timeout = Nanos::from_millis(rng.u64(1_000..10_000));
        let mut world = World { idle_timeout: Some(timeout), ..World::new() };
        let answer = world.search(ConnectionSettings { cap: 1_000, ..settings(Mode::Quick) });
        let Outcome::Unfinished { why } = &answer.tipping.outcome else {
            panic!("seed {seed}: {:?}", answer.tipping);
        };
        assert!(matches!(why, Stopped::ServerFailed { .. }), "{why:?}");
        let notes = answer.tipping.notes.join(" ");
        assert!(notes.contains("of soak"), "{notes}");
    }
}

#[test]
fn servers_that_hold_nothing_and_clients_that_are_full_have_their_outcomes() {
    let outcome = |world: World, settings: ConnectionSettings| {
        let mut world = world;
        world.search(settings).tipping.outcome
    };
    let dead = World { takes: 0, ..World::new() };
    assert_eq!(outcome(dead, settings(Mode::Quick)), Outcome::FailsAtMinimum);
    let mute = World { takes: 0, queues: true, ..World::new() };
    assert_eq!(outcome(mute, settings(Mode::Quick)), Outcome::FailsAtMinimum);
    let failing = World { fails: 0.5, ..World::new() };
    assert_eq!(outcome(failing, settings(Mode::Quick)), Outcome::FailsAtMinimum);
    let cap = ConnectionSettings { cap: 700, ..settings(Mode::Quick) };
    assert_eq!(outcome(World::new(), cap.clone()), cap.at_cap);
    let limited = Outcome::GeneratorLimited { why: "this host makes no more".to_owned() };
    let ours = ConnectionSettings { at_cap: limited.clone(), ..cap };
    assert_eq!(outcome(World::new(), ours), limited);
    // What is counted and ours is filled to the last one.
    let mut few = World { descriptors: 1_234, ..World::new() };
    let answer = few.search(settings(Mode::Quick));
    assert!(matches!(answer.tipping.outcome, Outcome::GeneratorLimited { .. }));
    assert_eq!(answer.bounds().0, 1_234);
    // The server takes fewer than the lowest level, and that is found, too.
    let mut small = World { takes: 37, ..World::new() };
    let answer = small.search(settings(Mode::Quick));
    assert_eq!((answer.tipping.outcome.clone(), answer.bounds()), (Outcome::Regular, (37, 38)));
}

#[test]
fn bounds_whose_soak_this_host_spoils_are_confirmed_by_another_one_or_not_at_all() {
    let full = || World { takes: 1_000, ..World::new() };
    let clean = full().search(settings(Mode::Quick));
    let once = World { spoiled: 1, ..full() }.search(settings(Mode::Quick));
    assert_eq!((once.tipping.outcome.clone(), once.bounds()), (Outcome::Regular, clean.bounds()));
    assert_eq!((once.tipping.confirmations.good, once.tipping.confirmations.invalid), (1, 1));
    for cap in [5_000_000, 700] {
        let mut world = World { spoiled: u32::MAX, ..full() };
        let spoiled = world.search(ConnectionSettings { cap, ..settings(Mode::Quick) });
        let Outcome::Unconfirmed { why } = &spoiled.tipping.outcome else {
            panic!("{:?}", spoiled.tipping)
        };
        assert!(why.contains("send-lag"), "{why}");
        assert_eq!((spoiled.tipping.confirmations.invalid, spoiled.tipping.recovery), (2, None));
    }
}

#[test]
fn a_server_that_vanishes_keeps_its_levels_and_is_not_asked_again() {
    let mut world = World::new();
    let mut search = ConnectionSearch::new(settings(Mode::Quick));
    let mut records = Vec::new();
    while search.step() != Step::End {
        let done = world.carry_out(search.step());
        search.handle_tally(std::mem::take(&mut world.tally), world.held);
        search.handle(done, world.now);
        while let Some(record) = search.poll_record() {
            records.push(record);
        }
        if records.len() == 3 && world.takes > 0 {
            world.takes = 0;
            world.lose(world.held, ErrorClass::ResetByPeer);
        }
        // As the controller does during every ramp.
        let attempts = Attempts { held: world.held, ..Attempts::default() };
        search.handle_attempts(attempts);
    }
    let tipping = search.tipping_point();
    let Outcome::Unfinished { why } = &tipping.outcome else { panic!("{tipping:?}") };
    let failed = ServerFailure::Lost { count: 400, held: 400 };
    assert_eq!(*why, Stopped::ServerFailed { why: failed });
    assert_eq!(tipping.lower.map(plimsoll_model::Rate::get), Some(400.0));
    assert_eq!(records.len(), 4);
}

#[test]
fn what_this_machine_lacks_is_never_the_servers_fault() {
    let mut world = World::new();
    let mut search = ConnectionSearch::new(settings(Mode::Quick));
    while search.step() != Step::End {
        let mut done = world.carry_out(search.step());
        if world.held > 300 {
            let missing = world.held - 300;
            world.held = 300;
            world.tally.connections.failed += missing;
            world.tally.failures.attempts.add(ErrorClass::LocalFiles, missing);
            if let Done::Ramped { held, .. } = &mut done {
                *held = 300;
            }
        }
        search.handle_tally(std::mem::take(&mut world.tally), world.held);
        search.handle(done, world.now);
    }
    let tipping = search.tipping_point();
    let Outcome::GeneratorLimited { why } = &tipping.outcome else { panic!("{tipping:?}") };
    assert!(why.contains("local-files"), "{why}");
    assert_eq!(tipping.lower.map(plimsoll_model::Rate::get), Some(200.0));
}
