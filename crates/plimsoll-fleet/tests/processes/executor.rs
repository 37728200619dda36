//! An executor without an engine: it reports made-up figures, and misbehaves on request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use plimsoll_fleet::message::{AgentFault, ServeCounters};
use plimsoll_fleet::{Executor, FromAgent, ToAgent};
use plimsoll_model::event::LoadEvent;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{Listener, LoadPlan, Pacing, ServePlan, Steer};
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_sys::socket::ListenSocket;

/// The executor's behaviour in a load, chosen by the plan's seed.
pub(crate) mod behaviour {
    /// Answers its share of 101 operations in each of three seconds.
    pub(crate) const GOOD: u64 = 1;
    /// The second agent delivers one second with operations in flight, then nothing more.
    pub(crate) const ONE_FALLS_SILENT: u64 = 2;
    /// The second agent can't prepare.
    pub(crate) const ONE_REFUSES: u64 = 3;
    /// A "second" every 10 ms, until it is stopped; one operation is always in flight.
    pub(crate) const UNTIL_STOPPED: u64 = 4;
    /// Holds the level of the last ramp, and reports it in a "second" every 10 ms.
    pub(crate) const HOLD: u64 = 5;
    /// Holds; the second agent never reports that a ramp is done.
    pub(crate) const HOLD_ONE_STUCK: u64 = 6;
}

/// Operations in each second of a load, over all agents.
pub(crate) const OPS_PER_SECOND: u64 = 101;

/// The connections that a hold has by its own account.
#[derive(Clone)]
struct Hold {
    shard: Shard,
    is_stuck: bool,
    held: Arc<AtomicU64>,
    /// Requests of sweeps.
    due: Arc<AtomicU64>,
}

impl Hold {
    fn new(plan: &LoadPlan) -> Self {
        let is_stuck = is_odd_one(plan, behaviour::HOLD_ONE_STUCK);
        Self { shard: plan.part.shard, is_stuck, held: Arc::default(), due: Arc::default() }
    }

    fn handle_steer(&self, id: u32, steer: Steer, events: &Sender<FromAgent>) {
        match steer {
            Steer::Ramp { .. } if self.is_stuck => return,
            Steer::Ramp { connections } => {
                self.held.store(self.shard.share(connections), Ordering::SeqCst);
            }
            Steer::Trim { connections } => {
                let share = self.shard.share(connections);
                self.held.fetch_min(share, Ordering::SeqCst);
            }
            Steer::Sweep { .. } => {
                self.due.fetch_add(self.held.load(Ordering::SeqCst), Ordering::SeqCst);
            }
            Steer::Spread { .. } | Steer::Storm { .. } | Steer::Withdraw { .. } => {}
        }
        send(
            events,
            FromAgent::Load(LoadEvent::Steered { id, tried: self.held.load(Ordering::SeqCst) }),
        );
    }

    fn run(&self, events: &Sender<FromAgent>, stop: &AtomicBool) {
        let mut second = 0;
        loop {
            let is_over = stop.load(Ordering::SeqCst);
            let due = self.due.swap(0, Ordering::SeqCst);
            let mut tally = Tally { scheduled: due, ok: due, ..Tally::default() };
            tally.spans.corrected.record_n(Nanos::from_millis(1), due);
            tally.connections.held_end = self.held.load(Ordering::SeqCst);
            send_second(events, second, tally);
            if is_over {
                return send(
                    events,
                    FromAgent::Load(LoadEvent::Ended { window: Nanos::from_secs(1) }),
                );
            }
            second += 1;
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[derive(Default)]
pub(crate) struct Script {
    plan: Option<Box<LoadPlan>>,
    stop: Arc<AtomicBool>,
    hold: Option<Hold>,
    servers: Vec<ListenSocket>,
    /// Receiver of a server's last counters.
    last_words: Option<Sender<FromAgent>>,
}

impl Executor for Script {
    fn handle(&mut self, command: ToAgent, events: &Sender<FromAgent>) {
        match command {
            ToAgent::Prepare(plan) if is_odd_one(&plan, behaviour::ONE_REFUSES) => {
                let message = "the plan makes no sense".to_owned();
                send(events, FromAgent::Failed { fault: AgentFault::Usage, message });
            }
            ToAgent::Prepare(plan) => {
                self.stop = Arc::new(AtomicBool::new(false));
                let opened = plan.part.shard.share(plan.connections);
                self.plan = Some(plan);
                send(
                    events,
                    FromAgent::Load(LoadEvent::Ready { opened, failed: 0, first_error: None }),
                );
            }
            ToAgent::Start { .. } => {
                if let Some(plan) = self.plan.take() {
                    if let Pacing::Hold(_) = plan.pacing {
                        let hold = Hold::new(&plan);
                        self.hold = Some(hold.clone());
                        let (events, stop) = (events.clone(), self.stop.clone());
                        let _hold = thread::spawn(move || hold.run(&events, &stop));
                        return;
                    }
                    let (events, stop) = (events.clone(), self.stop.clone());
                    let _load = thread::spawn(move || load(&plan, &events, &stop));
                }
            }
            ToAgent::Stop { .. } => {
                self.stop.store(true, Ordering::SeqCst);
                if self.plan.take().is_some() {
                    send(events, FromAgent::Load(LoadEvent::Ended { window: Nanos::ZERO }));
                }
            }
            ToAgent::Serve(plan) => self.serve(&plan, events),
            ToAgent::Steer { id, steer } => {
                let hold = self.hold.as_ref().expect("only a hold that runs is steered");
                hold.handle_steer(id, steer, events);
            }
            ToAgent::Survey(_) => send(events, FromAgent::Surveyed(Box::default())),
            // It reports often enough.
            ToAgent::Count => {}
            ToAgent::Watch | ToAgent::StartSut(_) | ToAgent::CountSut => {
                panic!("only an agent on another host is asked for that")
            }
            ToAgent::Go | ToAgent::Bodies { .. } | ToAgent::Ping { .. } | ToAgent::Exit => {
                panic!("the fleet keeps these for itself")
            }
        }
    }

    fn stop_now(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(events) = self.last_words.take() {
            send(&events, serve_counters(2));
        }
    }
}

fn serve_counters(conns_total: u64) -> FromAgent {
    FromAgent::ServeCounters(ServeCounters { conns_total, ..ServeCounters::default() })
}

impl Script {
    fn serve(&mut self, plan: &ServePlan, events: &Sender<FromAgent>) {
        let mut listeners = Vec::new();
        for listener in &plan.listeners {
            let server = ListenSocket::bind(listener.address, 8).unwrap();
            listeners.push(Listener { address: server.local_address().unwrap(), ..*listener });
            self.servers.push(server);
        }
        send(events, FromAgent::Listening(listeners));
        send(events, serve_counters(1));
        self.last_words = Some(events.clone());
    }
}

fn is_odd_one(plan: &LoadPlan, behaviour: u64) -> bool {
    plan.seed == behaviour && plan.part.shard.index == 1
}

fn send(events: &Sender<FromAgent>, event: FromAgent) {
    // The agent may be ending.
    let _ = events.send(event);
}

fn send_second(events: &Sender<FromAgent>, second: u32, tally: Tally) {
    send(events, FromAgent::Load(LoadEvent::Interval(Box::new(Interval { second, tally }))));
}

fn load(plan: &LoadPlan, events: &Sender<FromAgent>, stop: &AtomicBool) {
    let due = plan.part.shard.share(OPS_PER_SECOND);
    let tally = |scheduled, ok| Tally { scheduled, ok, ..Tally::default() };
    if is_odd_one(plan, behaviour::ONE_FALLS_SILENT) {
        return send_second(events, 0, tally(due, due - 7));
    }
    if plan.seed != behaviour::UNTIL_STOPPED {
        for second in 0..3 {
            send_second(events, second, tally(due, due));
        }
        return send(events, FromAgent::Load(LoadEvent::Ended { window: Nanos::from_secs(3) }));
    }
    let mut in_flight = 0;
    let mut second = 0;
    while !stop.load(Ordering::SeqCst) {
        send_second(events, second, tally(due, due - 1 + in_flight));
        in_flight = 1;
        second += 1;
        thread::sleep(Duration::from_millis(10));
    }
    let mut last = Tally::default();
    last.failures.operations.add(ErrorClass::Interrupted, in_flight);
    send_second(events, second, last);
    send(events, FromAgent::Load(LoadEvent::Ended { window: Nanos::from_secs(u64::from(second)) }));
}
