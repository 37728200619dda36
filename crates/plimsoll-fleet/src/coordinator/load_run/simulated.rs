//! A load over a thousand hosts in simulated time: frames are delayed, hosts are lost or hang, are started again and
//! report once more, the instant of the start comes too late to some. Frames of one host keep their order, as in a
//! pipe; hosts overtake each other.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use plimsoll_model::Rate;

use super::tests::{plan, started};
use super::*;
use crate::message::AgentFault;

const AGENTS: usize = 1_000;
const SECONDS: usize = 3;

/// SplitMix64: a world is its seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most.max(1)
    }

    /// Returns a delay: mostly a millisecond, sometimes seconds.
    fn delay(&mut self) -> Nanos {
        let most_ms = if self.below(100) == 0 { 4_000 } else { 3 };
        Nanos(self.below(most_ms * 1_000_000))
    }
}

/// An arrival at the coordinator.
enum Arrival {
    Frame(FromAgent),
    /// A frame of a host that was lost before.
    Restarted(FromAgent),
    Lost,
}

/// A host with one thread.
struct Host {
    /// Operations that are due in each second.
    due: [u64; SECONDS],
    /// It is lost, or hangs without a word, so long after the start.
    fate: Option<(Nanos, bool)>,
    epoch: Nanos,
    /// Arrival of its last frame.
    last: Nanos,
}

struct World {
    chance: Chance,
    hosts: Vec<Host>,
    arrivals: BinaryHeap<Reverse<(Nanos, usize, usize)>>,
    content: Vec<Option<Arrival>>,
    /// Operations counted in frames that arrived, and were not lost with their host.
    scheduled: u64,
    finished: u64,
}

impl World {
    fn new(seed: u64, plan: &LoadPlan) -> Self {
        let mut chance = Chance(seed);
        let Pacing::Open { profile, arrivals } = &plan.pacing else { panic!("no schedule") };
        let profile = Arc::new(profile.clone());
        let host = |index: usize| {
            let shard = Shard { index: index as u32, of: AGENTS as u32 };
            let mut due = [0; SECONDS];
            for at in Schedule::new(Arc::clone(&profile), *arrivals, shard, plan.seed) {
                due[(at.0 / SECOND.0) as usize] += 1;
            }
            let span = SECONDS as u64 * SECOND.0;
            let fate =
                (chance.below(50) == 0).then(|| (Nanos(chance.below(span)), chance.below(5) == 0));
            Host { due, fate, epoch: Nanos::ZERO, last: Nanos::ZERO }
        };
        let hosts = (0..AGENTS).map(host).collect();
        let (arrivals, content) = (BinaryHeap::new(), Vec::new());
        Self { chance, hosts, arrivals, content, scheduled: 0, finished: 0 }
    }

    /// Sends an item from host `index` at `at`.
    fn send(&mut self, index: usize, at: Nanos, arrival: Arrival) {
        let host = &mut self.hosts[index];
        host.last = host.last.max(at + self.chance.delay());
        self.arrivals.push(Reverse((host.last, self.content.len(), index)));
        self.content.push(Some(arrival));
    }

    fn carry_out(&mut self, action: Action, now: Nanos) {
        let Action::Send(index, command) = action else { return };
        let at = now + self.chance.delay();
        match command {
            ToAgent::Start { epoch_monotonic } => {
                self.hosts[index].epoch = epoch_monotonic;
                let margin = epoch_monotonic.since(at);
                self.send(index, at, Arrival::Frame(FromAgent::Armed { margin }));
            }
            ToAgent::Go => self.go(index, at),
            // Only a load that failed, or lost a host that hung, is stopped.
            _ => self.send(index, at, Arrival::Frame(ended())),
        }
    }

    fn go(&mut self, index: usize, at: Nanos) {
        if at >= self.hosts[index].epoch {
            self.hosts[index].fate = Some((Nanos::ZERO, false));
            let (fault, message) = (AgentFault::Host, "late".to_owned());
            return self.send(index, at, Arrival::Frame(FromAgent::Failed { fault, message }));
        }
        let Host { due, fate, epoch, .. } = self.hosts[index];
        let end = fate.map_or(Nanos::MAX, |(after, _)| epoch + after);
        let mut in_flight = 0;
        for (second, due) in due.into_iter().enumerate() {
            let at = epoch + Nanos((second as u64 + 1) * SECOND.0);
            if at >= end {
                break;
            }
            in_flight += due;
            let is_last = second + 1 == SECONDS;
            let ok = if is_last { in_flight } else { self.chance.below(in_flight + 1) };
            in_flight -= ok;
            let tally = Tally { scheduled: due, ok, ..Tally::default() };
            let interval = Box::new(Interval { second: second as u32, tally });
            self.send(index, at, Arrival::Frame(FromAgent::Load(LoadEvent::Interval(interval))));
        }
        match fate {
            None => {
                let at = epoch + Nanos(SECONDS as u64 * SECOND.0);
                self.send(index, at, Arrival::Frame(ended()));
            }
            Some((_, false)) => {
                self.send(index, end, Arrival::Lost);
                if self.chance.below(2) == 0 {
                    self.restart(index, end);
                }
            }
            // It hangs: nothing is heard of it any more.
            Some((_, true)) => {}
        }
    }

    /// Restarts a lost host, which sends the messages of a load too late for this one.
    fn restart(&mut self, index: usize, at: Nanos) {
        let ready = FromAgent::Load(LoadEvent::Ready { opened: 1, failed: 0, first_error: None });
        let tally = Tally { scheduled: 1_000, ok: 1_000, ..Tally::default() };
        let interval =
            FromAgent::Load(LoadEvent::Interval(Box::new(Interval { second: 0, tally })));
        for frame in [ready, interval, ended()] {
            self.send(index, at, Arrival::Restarted(frame));
        }
    }

    fn deliver(&mut self, run: &mut LoadRun) -> bool {
        let timeout = run.poll_timeout();
        let next = self.arrivals.peek().map(|Reverse((at, ..))| *at);
        if next.is_none_or(|at| timeout < at) {
            run.handle_timeout(timeout);
        } else if let Some(Reverse((at, content, index))) = self.arrivals.pop() {
            match self.content[content].take() {
                Some(Arrival::Frame(frame)) => {
                    if let FromAgent::Load(LoadEvent::Interval(interval)) = &frame {
                        self.scheduled += interval.tally.scheduled;
                        self.finished += interval.tally.ok;
                    }
                    run.handle_frame(index, frame, at);
                }
                Some(Arrival::Restarted(frame)) => run.handle_frame(index, frame, at),
                Some(Arrival::Lost) => run.handle_loss(index, "was lost", at),
                None => {}
            }
        }
        let now = next.map_or(timeout, |at| at.min(timeout));
        while let Some(action) = run.poll_action() {
            self.carry_out(action, now);
        }
        !run.is_over()
    }
}

fn ended() -> FromAgent {
    FromAgent::Load(LoadEvent::Ended { window: Nanos(SECONDS as u64 * SECOND.0) })
}

/// Runs one load of a world; returns the number of lost hosts.
fn load(seed: u64) -> u32 {
    let rate = Rate::per_second(AGENTS as f64 * 1.7).unwrap();
    let profile = Profile::constant(rate, Nanos(SECONDS as u64 * SECOND.0));
    let whole = profile.ops_total;
    let pacing = Pacing::Open { profile, arrivals: Arrivals::Poisson };
    let plan = LoadPlan { pacing, seed, ..plan() };
    let member = |index| Member {
        name: format!("host {index}"),
        shard: Shard { index: index as u32, of: AGENTS as u32 },
        threads: 1,
    };
    let control = LoadControl::new(&|| false);
    let terms = Terms::new(&plan, &control, AGENTS, StartOf::There);
    let mut run = LoadRun::new((0..AGENTS).map(member).collect(), terms, Nanos::ZERO);
    let mut world = World::new(seed, &plan);
    for index in 0..AGENTS {
        let ready = FromAgent::Load(LoadEvent::Ready { opened: 1, failed: 0, first_error: None });
        world.send(index, Nanos::ZERO, Arrival::Frame(ready));
    }
    let mut steps = 0;
    while world.deliver(&mut run) {
        steps += 1;
        assert!(steps < 20 * AGENTS, "seed {seed} does not end");
    }
    let mut seconds = Vec::new();
    while let Some(event) = run.poll_event() {
        if let Event::Interval(interval) = event {
            seconds.push(interval.second);
        }
    }
    assert!(seconds.is_sorted_by(|a, b| a < b), "seed {seed}: {seconds:?}");
    let outcome = match run.into_outcome() {
        Ok(outcome) => outcome,
        // A host that got the instant too late four times.
        Err(FleetError::Lost { .. }) => return AGENTS as u32,
        Err(other) => panic!("seed {seed}: {other}"),
    };
    let tally = &outcome.tally;
    assert!(tally.balances(), "seed {seed}");
    assert_eq!(tally.scheduled, whole, "seed {seed}");
    assert_eq!(tally.scheduled - tally.unsent, world.scheduled, "seed {seed}");
    assert_eq!(tally.ok, world.finished, "seed {seed}");
    let lost = world.hosts.iter().filter(|host| host.fate.is_some()).count() as u32;
    assert_eq!(outcome.lost_agents, lost, "seed {seed}");
    lost
}

/// Runs a load whose hosts send seconds twice, or in another order, which no pipe does.
fn disordered_load(seed: u64) {
    const FEW: usize = 20;
    let mut chance = Chance(seed);
    let whole = plan();
    let member = |index| Member {
        name: format!("host {index}"),
        shard: Shard { index: index as u32, of: FEW as u32 },
        threads: 1,
    };
    let control = LoadControl::new(&|| false);
    let terms = Terms::new(&whole, &control, FEW, StartOf::Here);
    let mut run = LoadRun::new((0..FEW).map(member).collect(), terms, Nanos::ZERO);
    let interval = |second, scheduled| {
        let tally = Tally { scheduled, ok: scheduled, ..Tally::default() };
        FromAgent::Load(LoadEvent::Interval(Box::new(Interval { second, tally })))
    };
    let mut frames: Vec<(usize, FromAgent)> = Vec::new();
    for index in 0..FEW {
        run.handle_frame(
            index,
            FromAgent::Load(LoadEvent::Ready { opened: 0, failed: 0, first_error: None }),
            Nanos::ZERO,
        );
        let seconds = (0..4).map(|_| interval(chance.below(5) as u32, chance.below(9)));
        frames.extend(seconds.map(|frame| (index, frame)));
        frames.push((index, ended()));
        frames.push((index, FromAgent::Load(LoadEvent::Draining { in_flight: chance.below(9) })));
    }
    // Fisher and Yates.
    for at in (1..frames.len()).rev() {
        frames.swap(at, chance.below(at as u64 + 1) as usize);
    }
    let (mut handed_out, mut seconds) = (0, Vec::new());
    for (index, frame) in frames {
        run.handle_frame(index, frame, Nanos(SECOND.0));
        while let Some(event) = run.poll_event() {
            if let Event::Interval(interval) = event {
                handed_out += interval.tally.scheduled;
                seconds.push(interval.second);
            }
        }
    }
    assert!(run.is_over(), "seed {seed}");
    assert!(seconds.is_sorted_by(|a, b| a < b), "seed {seed}: {seconds:?}");
    let outcome = run.into_outcome().unwrap();
    // What came after the end of its host belongs to no load.
    assert_eq!(outcome.tally.scheduled, handed_out, "seed {seed}");
    assert!(outcome.tally.balances(), "seed {seed}");
}

#[test]
fn frames_in_an_order_that_no_pipe_has_end_a_load_all_the_same() {
    (0..200).for_each(disordered_load);
}

/// Returns a second of an agent with `answers` answers, whose latencies spread over three powers of ten, as on a busy
/// host.
fn busy_second(second: u32, answers: u64, chance: &mut Chance) -> Interval {
    let mut tally = Tally { scheduled: answers, ok: answers, ..Tally::default() };
    for _ in 0..answers {
        let spread = 1 + chance.below(1_000);
        let service = Nanos(30_000 + spread * spread * 40);
        tally.spans.uncorrected.record(service);
        tally.spans.corrected.record(service + Nanos(chance.below(50_000)));
        tally.spans.send_lag.record(Nanos(chance.below(200_000)));
    }
    tally.answers.status.add(200, answers);
    Interval { second, tally }
}

#[test]
fn twenty_agents_merge_to_what_one_would_have_counted() {
    const FEW: usize = 20;
    let mut run = started(&plan(), FEW);
    let mut alone = Tally::default();
    for second in 0..3 {
        for index in 0..FEW {
            // The one host is fed the same operations, in its own order.
            let seed = u64::from(second) * 100 + index as u64;
            let interval = busy_second(second, 300, &mut Chance(seed));
            let again = busy_second(second, 300, &mut Chance(seed)).tally;
            alone.merge_following(&again);
            let frame =
                crate::frame::encode(&FromAgent::Load(LoadEvent::Interval(Box::new(interval))))
                    .unwrap();
            let frame = crate::frame::read(frame.as_slice()).unwrap().unwrap();
            run.handle_frame(index, frame, Nanos(SECOND.0));
        }
    }
    (0..FEW).for_each(|index| run.handle_frame(index, ended(), Nanos(SECOND.0)));
    let merged = run.into_outcome().unwrap().tally;
    assert_eq!((merged.scheduled, merged.ok), (18_000, 18_000));
    for (name, merged, alone) in [
        ("corrected", &merged.spans.corrected, &alone.spans.corrected),
        ("uncorrected", &merged.spans.uncorrected, &alone.spans.uncorrected),
        ("send lag", &merged.spans.send_lag, &alone.spans.send_lag),
    ] {
        assert_eq!(merged.count(), 18_000, "{name}");
        assert!(merged.buckets().eq(alone.buckets()), "{name}");
    }
}

/// CPU of the coordinator for each agent and second, from the frame's bytes to the merged second.
#[test]
#[ignore = "measures CPU"]
fn the_coordinators_cpu_for_each_frame() {
    let mut run = started(&plan(), AGENTS);
    for answers in [100, 2_000] {
        let mut chance = Chance(answers);
        let frame = |second: usize, chance: &mut Chance| {
            let interval = busy_second(second as u32, answers, chance);
            crate::frame::encode(&FromAgent::Load(LoadEvent::Interval(Box::new(interval)))).unwrap()
        };
        let frames: Vec<Vec<u8>> =
            (0..AGENTS).map(|_| frame(answers as usize, &mut chance)).collect();
        let bytes: usize = frames.iter().map(Vec::len).sum();
        let began = plimsoll_sys::clock::thread_cpu_ns();
        for (index, frame) in frames.iter().enumerate() {
            let frame = crate::frame::read(frame.as_slice()).unwrap().unwrap();
            run.handle_frame(index, frame, Nanos(SECOND.0));
            while run.poll_event().is_some() {}
        }
        let each_us =
            (plimsoll_sys::clock::thread_cpu_ns() - began) as f64 / AGENTS as f64 / 1_000.0;
        println!(
            "{answers} answers a second: {:.1} kB a frame, {each_us:.0} us of CPU each",
            bytes as f64 / AGENTS as f64 / 1_000.0
        );
        // At a frame a second, a thousand agents need less than a core; a debug build says nothing of that.
        assert!(cfg!(debug_assertions) || each_us < 1_000.0);
    }
}

#[test]
fn a_thousand_hosts_are_accounted_for_whatever_happens() {
    let lost: Vec<_> = (0..10).map(load).collect();
    assert!(lost.iter().any(|lost| (1..AGENTS as u32).contains(lost)), "{lost:?}");
}

#[test]
#[ignore = "takes minutes"]
fn a_thousand_seeds_of_a_thousand_hosts() {
    let lost: Vec<_> = (0..1_000).map(load).collect();
    let failed = lost.iter().filter(|lost| **lost == AGENTS as u32).count();
    println!(
        "{} hosts lost in loads that ran, {failed} loads did not start",
        lost.iter().sum::<u32>() - 1_000 * failed as u32
    );
    assert!(failed < 1_000);
}
