//! The controller against a scripted hold: every order is carried out as the script says.

use std::cell::{Cell, RefCell};

use plimsoll_capacity::{Staircase, StaircaseSettings};
use plimsoll_model::ErrorClass;
use plimsoll_model::cycles::Kept;
use plimsoll_model::hold::HoldEnd;

use super::*;

const BOUNDS: Bounds = Bounds {
    descriptors: Some(20_000),
    ports: Some(28_000),
    watches: None,
    files: None,
    tcp_memory_bytes: None,
    sockets_each: 2,
    is_all_ours: false,
};

/// Simulated agents: what is held and counted.
struct World {
    tally: Tally,
    held: u64,
    given: u32,
    done: u32,
    now: Nanos,
    /// Connections that the server accepts; the others are refused.
    takes: u64,
    /// Connections lost while the highest level is held.
    loses: u64,
    /// Returns the available bytes for a number of held connections.
    available: fn(u64) -> u64,
    /// `true` if no order is ever done; else each is done at once.
    is_stuck: bool,
    /// From when to when somebody wants ramps to be paused.
    pause: Option<(Nanos, Nanos)>,
    /// For how long they are.
    paused: Nanos,
}

impl World {
    fn new() -> Self {
        Self {
            tally: Tally::default(),
            held: 0,
            given: 0,
            done: 0,
            now: Nanos::from_secs(1_000),
            takes: u64::MAX,
            loses: 0,
            available: |held| 20_000_000_000 - 9_000 * held,
            is_stuck: false,
            pause: None,
            paused: Nanos::ZERO,
        }
    }

    fn carry_out(&mut self, steer: Steer) {
        self.given += 1;
        match steer {
            Steer::Ramp { connections } if connections > self.held => {
                let taken = connections.min(self.takes);
                self.tally.connections.failed += connections - taken;
                self.tally.connections.opened += taken - self.held;
                self.held = taken;
            }
            // Ends every ramp before it.
            Steer::Ramp { .. } => self.is_stuck = false,
            Steer::Trim { connections } => self.held = self.held.min(connections),
            Steer::Sweep { .. } => {
                self.tally.scheduled += self.held;
                self.tally.ok += self.held;
            }
            Steer::Spread { .. } | Steer::Storm { .. } | Steer::Withdraw { .. } => {
                unreachable!("no agent joins, and no storm is made")
            }
        }
    }

    /// Lets the controller steer until it finishes; returns its orders and events.
    fn run(mut self, levels: &[u64], span: Nanos) -> (Vec<Steer>, Vec<Event>, u64, Staircase) {
        let settings = StaircaseSettings {
            levels: levels.to_vec(),
            settle: Nanos::from_secs(1),
            hold: span,
            ends_at_losses: levels.len() > 1,
            ends_when_empty: true,
            cycles: 0,
            reconnects: Vec::new(),
        };
        let (held, events) = (Cell::new(0), RefCell::new(Vec::new()));
        let available = self.available;
        let read = |_| MemoryReading {
            total_bytes: Some(22_000_000_000),
            available_bytes: Some(available(held.get())),
            ..MemoryReading::default()
        };
        let emit = |event| events.borrow_mut().push(event);
        let (server, counted) = (Vec::new, RefCell::new(Tally::default()));
        let (clock, pause) = (Cell::new(self.now), self.pause);
        let is_paused = || pause.is_some_and(|(from, to)| from <= clock.get() && clock.get() < to);
        let context = HoldContext {
            kept: &Kept::new,
            read: &read,
            server: &server,
            emit: &emit,
            counted: &counted,
            is_paused: &is_paused,
        };
        let speed = Speed { connections_per_s: 2_000.0, sweep_per_s: 10_000.0, ..Speed::default() };
        let mut controller =
            ProcedureController::new(Staircase::new(settings), BOUNDS, speed, context);
        let mut orders = Vec::new();
        for _ in 0..10_000 {
            let view = HoldView {
                now: self.now,
                epoch: Nanos::from_secs(1_000),
                total: &self.tally,
                covered: self.now,
                delivered: self.now,
                held: self.held,
                given: self.given,
                done: self.done,
                agents: 1,
            };
            match controller.poll(&view) {
                Some(Order::Finish) => {
                    let Driven { held, paused, procedure, .. } =
                        controller.end(LoadOutcome::default());
                    assert_eq!(paused, self.paused);
                    return (orders, events.into_inner(), held, procedure);
                }
                Some(Order::Steer(steer)) => {
                    orders.push(steer);
                    self.carry_out(steer);
                }
                None => {
                    self.now = self.now + Nanos::from_millis(50);
                    let is_holding = matches!(controller.step, Step::Hold(_));
                    if is_holding && self.loses > 0 {
                        self.tally.failures.lost_held.add(ErrorClass::ClosedByPeer, self.loses);
                        self.held -= self.loses;
                        self.loses = 0;
                    }
                }
            }
            held.set(self.held);
            clock.set(self.now);
            if !self.is_stuck {
                self.done = self.given;
            }
        }
        panic!("the controller never finished: {orders:?}")
    }
}

fn ramps(orders: &[Steer]) -> Vec<u64> {
    let ramp = |steer: &Steer| match steer {
        Steer::Ramp { connections } => Some(*connections),
        _ => None,
    };
    orders.iter().filter_map(ramp).collect()
}

fn pauses(events: &[Event]) -> usize {
    events.iter().filter(|event| **event == Event::HoldStep(HoldStep::Pause)).count()
}

#[test]
fn a_paused_ramp_goes_on_with_its_former_target_and_its_time_leaves_the_pause_out() {
    let mut world = World::new();
    (world.is_stuck, world.takes) = (true, 600);
    world.pause = Some((Nanos::from_secs(1_002), Nanos::from_secs(1_012)));
    world.paused = Nanos::from_secs(10);
    let (orders, events, held, staircase) = world.run(&[1_000], Nanos::from_secs(5));
    // The order of the pause completes that of the ramp, which is no end of the level.
    assert_eq!(ramps(&orders)[..3], [1_000, 0, 1_000]);
    assert_eq!((pauses(&events), held), (1, 600));
    let took = staircase.plateaus()[0].ramp;
    assert!(took >= Nanos::from_secs(2) && took < Nanos::from_secs(3), "{took:?}");
}

#[test]
fn a_pause_that_is_wished_between_ramps_waits_for_the_next_one() {
    let mut world = World::new();
    // The first level is read within this time.
    world.pause = Some((Nanos::from_millis(1_000_500), Nanos::from_secs(1_030)));
    // It settles for half a second more.
    world.paused = Nanos::from_secs(29);
    let (orders, events, held, _) = world.run(&[1_000, 5_000], Nanos::from_secs(5));
    assert_eq!((ramps(&orders), pauses(&events), held), (vec![1_000, 5_000], 1, 5_000));
}

#[test]
fn memory_is_guarded_while_a_ramp_is_paused() {
    let mut world = World::new();
    world.available = |_| 0;
    world.pause = Some((Nanos::from_secs(1_000), Nanos::MAX));
    let (.., held, staircase) = world.run(&[1_000], Nanos::from_secs(5));
    assert_eq!(held, 0);
    assert!(!matches!(staircase.end(), HoldEnd::Complete), "{:?}", staircase.end());
}

#[test]
fn each_level_is_ramped_read_and_swept_and_the_top_is_held() {
    let span = Nanos::from_secs(5);
    let (orders, events, held, staircase) = World::new().run(&[1_000, 5_000, 10_000], span);
    let sweep = |over| Steer::Sweep { over: Nanos::from_millis(over) };
    let ramp = |connections| Steer::Ramp { connections };
    let expected = [
        ramp(1_000),
        sweep(500),
        ramp(5_000),
        sweep(500),
        ramp(10_000),
        sweep(1_000),
        sweep(1_000),
    ];
    assert_eq!(orders, expected);
    assert_eq!((held, staircase.end()), (10_000, HoldEnd::Complete));
    assert_eq!(staircase.last_sweep(), Some(Swept { connections: 10_000, answered: 10_000 }));
    let told = events.iter().filter(|event| matches!(event, Event::PlateauEnded(_))).count();
    assert_eq!(told, 3);
    // The first reading is the baseline.
    let first = events.iter().find_map(|event| match event {
        Event::Memory(memory) => memory.available_bytes,
        _ => None,
    });
    assert_eq!(first, Some(20_000_000_000));
}

#[test]
fn a_ramp_that_eats_the_memory_is_ended_where_it_is() {
    let world = World {
        is_stuck: true,
        available: |held| if held > 0 { 1 } else { 2 << 33 },
        ..World::new()
    };
    let (orders, _, held, staircase) = world.run(&[10_000], Nanos::ZERO);
    assert_eq!(ramps(&orders), [10_000, 0]);
    assert!(matches!(staircase.end(), HoldEnd::CutShort { .. }), "{:?}", staircase.end());
    assert_eq!(held, 10_000);
}

#[test]
fn a_server_that_refuses_everything_is_not_asked_for_long() {
    let world = World { takes: 0, is_stuck: true, ..World::new() };
    let (orders, _, held, staircase) = world.run(&[10_000], Nanos::from_secs(60));
    assert_eq!((ramps(&orders), orders.len()), (vec![10_000, 0], 2));
    assert_eq!((held, staircase.end()), (0, HoldEnd::NothingHeld));
}

#[test]
fn what_is_lost_while_holding_is_not_swept() {
    let world = World { loses: 10, ..World::new() };
    let (_, _, held, staircase) = world.run(&[100], Nanos::from_secs(2));
    assert_eq!(held, 90);
    assert_eq!(staircase.last_sweep(), Some(Swept { connections: 90, answered: 90 }));
    // A hold without connections ends at once.
    let world = World { loses: 100, ..World::new() };
    let (_, _, held, staircase) = world.run(&[100], Nanos::from_secs(100_000));
    assert_eq!((held, staircase.last_sweep().map(|swept| swept.connections)), (0, Some(0)));
}
