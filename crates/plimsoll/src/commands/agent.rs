//! `plimsoll agent`: connects the fleet, which carries messages, with the engine, which
//! generates or serves load.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use plimsoll_backend::Backend;
use plimsoll_engine::load::{Control, Load};
use plimsoll_fleet::agent::SUT_STOP_WAIT;
use plimsoll_fleet::message::{AgentFault, ServeCounters, SutPlan};
use plimsoll_fleet::relay::{Makers, Relay};
use plimsoll_fleet::{
    AgentCommand, Executor, FromAgent, ToAgent, agent, hosts, joined, relay, supervise,
};
use plimsoll_lab::SutHost;
use plimsoll_model::host::Role;
use plimsoll_model::plan::{LoadPlan, ServePlan};
use plimsoll_probe::sampler::Scope;
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_sys::{clock, limits, memory, process, thread};

use crate::exit::{Result, Stop};
use crate::flags::AgentFlags;
use crate::hosts::DESCRIPTOR_RESERVE;
use crate::session::recorder;
use crate::session::recorder::Recorder;
use crate::survey;

/// Period in which a serving agent reports its counters.
const COUNTERS_PERIOD: Duration = Duration::from_secs(1);

/// Time for which one that has dialled in continues without a message of the coordinator, which sends one per second.
const JOINED_LEASE: Duration = Duration::from_secs(10);

/// Runs until the coordinator ends it or exits.
pub(crate) fn run(flags: &AgentFlags) -> Result<()> {
    if flags.identity {
        return Err(Stop::Asked(format!("{}\n", hosts::identity())));
    }
    if let (Some(dir), Some(count)) = (&flags.write_keys, flags.count) {
        return write_keys(dir, count, flags.valid_for);
    }
    // /proc/self/exe would show as `exe` in top.
    process::show_as(c"plimsoll-agent");
    if flags.supervise {
        return supervise(std::io::stdin(), std::io::stdout()).map_err(Stop::cannot_run);
    }
    memory::keep_large_blocks_apart();
    let coordinator = match (&flags.join, &flags.nonce) {
        (Some(_), _) => Coordinator::Joined,
        (None, Some(_)) => Coordinator::Launcher,
        (None, None) => Coordinator::Parent,
    };
    let engine = EngineExecutor { coordinator, ..EngineExecutor::default() };
    if let Some(nonce) = &flags.nonce {
        hosts::announce(std::io::stdout(), nonce).map_err(Stop::cannot_run)?;
    }
    let ended = match (&flags.join, &flags.keys, flags.index) {
        (Some(to), Some(keys), Some(index)) => {
            let (identity, roots_pem) =
                joined::read_agent(keys, index).map_err(Stop::cannot_run)?;
            let (commands, events) = joined::dial(to, &identity, &roots_pem, flags.join_within)
                .map_err(Stop::cannot_run)?;
            agent::run(engine, commands, events, Some(flags.lease.unwrap_or(JOINED_LEASE)))
        }
        _ => agent::run(engine, std::io::stdin(), std::io::stdout(), flags.lease),
    };
    ended.map_err(Stop::cannot_run)
}

fn write_keys(dir: &Path, count: u32, valid_for_s: u32) -> Result<()> {
    let now_s = clock::unix_seconds();
    let valid = now_s.saturating_sub(3_600)..(now_s + u64::from(valid_for_s)).saturating_sub(1);
    joined::write_keys(dir, count, valid)
        .map_err(|error| Stop::CannotRun(format!("{}: {error}", dir.display())))
}

/// The coordinator, which decides what may be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Coordinator {
    /// The process that has started this one.
    #[default]
    Parent,
    /// Another host's, for a user who may run programs here.
    Launcher,
    /// A coordinator on another host, to which this agent has connected: any owner of its key. It may order load only.
    Joined,
}

/// The executor of this agent's orders.
#[derive(Default)]
struct EngineExecutor {
    coordinator: Coordinator,
    load: Option<Arc<Control>>,
    /// Relay for loads that are too large for this process.
    relay: Option<Relay>,
    /// Asks the thread that reports on the backend for a report; its end ends the backend.
    serving: Option<Sender<()>>,
    /// The server under test of a laboratory elsewhere.
    sut: Option<SutThread>,
    /// Reads this host, where somebody elsewhere wants that.
    recorder: Option<Recorder>,
    parts: Parts,
}

/// The processes and CPUs of the run on this host.
#[derive(Clone, Default)]
struct Parts {
    makers: Makers,
    serves: Arc<AtomicBool>,
    /// The processes of the server under test, and where it reports its figures.
    sut: Arc<Mutex<(Vec<u32>, Option<CounterSource>)>>,
}

impl Parts {
    fn scope(&self) -> Scope {
        let (sut, statistics) = thread::lock(&self.sut).clone();
        let own = match self.serves.load(Ordering::Relaxed) {
            true => vec![(std::process::id(), Role::Backend)],
            false if sut.is_empty() => {
                self.makers.pids().into_iter().map(|pid| (pid, Role::Client)).collect()
            }
            false => Vec::new(),
        };
        let sut = sut.into_iter().map(|pid| (pid, Role::Server));
        recorder::scope(sut.chain(own), statistics)
    }

    fn set_sut(&self, sut: &SutHost) {
        let mut known = thread::lock(&self.sut);
        *known = (sut.pids(), sut.statistics());
    }
}

/// The thread of a server under test.
struct SutThread {
    /// Asks it for a report; its end ends the server.
    asks: Option<Sender<()>>,
    ended: Receiver<()>,
}

impl Executor for EngineExecutor {
    fn handle(&mut self, command: ToAgent, events: &Sender<FromAgent>) {
        let failed = match command {
            ToAgent::Survey(part) => {
                let _ = events.send(FromAgent::Surveyed(Box::new(survey::survey(&part))));
                None
            }
            ToAgent::Watch => {
                self.watch(events.clone());
                None
            }
            ToAgent::Prepare(plan) => self.prepare(*plan, events.clone()).err(),
            order @ (ToAgent::Start { .. } | ToAgent::Stop { .. } | ToAgent::Steer { .. }) => {
                match (&self.load, &self.relay, order) {
                    (Some(load), _, ToAgent::Start { epoch_monotonic }) => {
                        load.start(epoch_monotonic)
                    }
                    (Some(load), _, ToAgent::Stop { grace }) => load.stop(grace),
                    (Some(load), _, ToAgent::Steer { id, steer }) => load.steer(id, steer),
                    (None, Some(relay), order) => relay.handle(order),
                    _ => {}
                }
                None
            }
            ToAgent::Serve(plan) => self.serve(*plan, events.clone()).err(),
            ToAgent::StartSut(plan) => self.start_sut(*plan, events.clone()).err(),
            ToAgent::CountSut => {
                if let Some(asks) = self.sut.as_ref().and_then(|sut| sut.asks.as_ref()) {
                    let _ = asks.send(());
                }
                None
            }
            ToAgent::Count => {
                if let Some(serving) = &self.serving {
                    let _ = serving.send(());
                }
                None
            }
            // The fleet handles these itself.
            ToAgent::Go | ToAgent::Bodies { .. } | ToAgent::Ping { .. } | ToAgent::Exit => None,
        };
        if let Some((fault, message)) = failed {
            let _ = events.send(FromAgent::Failed { fault, message });
        }
    }

    fn stop_now(&mut self) {
        if let Some(load) = &self.load {
            load.stop_now();
        }
        // Its agents end with this process.
        self.relay = None;
        // It holds a sender of events, for whose end this process waits.
        self.recorder = None;
        if let Some(sut) = &mut self.sut {
            sut.asks = None;
            // What keeps it running ends it with this process, if it needs longer.
            let _ = sut.ended.recv_timeout(SUT_STOP_WAIT);
        }
        self.serving = None;
    }
}

type Failure = (AgentFault, String);

fn host_fault(error: impl std::fmt::Display) -> Failure {
    (AgentFault::Host, error.to_string())
}

impl EngineExecutor {
    fn watch(&mut self, events: Sender<FromAgent>) {
        let parts = self.parts.clone();
        // A host that cannot be read is no reason not to measure.
        self.recorder = Recorder::of_agent(
            move || parts.scope(),
            move |reading| {
                // A send fails only when the agent is ending.
                let _ = events.send(FromAgent::Reading(Box::new(reading)));
            },
        );
    }

    fn prepare(&mut self, plan: LoadPlan, events: Sender<FromAgent>) -> Result<(), Failure> {
        // One on another host cannot start more processes here.
        if self.coordinator != Coordinator::Parent {
            let descriptors = limits::raise_descriptor_limit();
            let processes = relay::processes_needed(&plan, descriptors, DESCRIPTOR_RESERVE);
            if processes > 1 {
                self.load = None;
                let relay = match self.relay.take() {
                    Some(relay) => relay,
                    None => {
                        let command = AgentCommand::this_program();
                        let makers = self.parts.makers.clone();
                        Relay::start(command, events, makers).map_err(host_fault)?
                    }
                };
                relay.prepare(Box::new(plan), processes);
                self.relay = Some(relay);
                return Ok(());
            }
        }
        let mut load =
            Load::prepare(plan).map_err(|error| (AgentFault::Usage, error.to_string()))?;
        self.load = Some(load.control());
        thread::spawn("events", None, move || {
            while let Some(event) = load.next_event() {
                // A send fails only when the agent is ending; the load is stopped then, too.
                let _ = events.send(FromAgent::Load(event));
            }
        })
        .map_err(host_fault)?;
        Ok(())
    }

    fn start_sut(&mut self, plan: SutPlan, events: Sender<FromAgent>) -> Result<(), Failure> {
        if self.coordinator != Coordinator::Launcher || self.sut.is_some() {
            let why = "no server is started for a coordinator that did not start this agent, and one at most";
            return Err((AgentFault::Usage, why.to_owned()));
        }
        let parts = self.parts.clone();
        let (asks, asked) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        self.sut = Some(SutThread { asks: Some(asks), ended });
        // What it starts may end with the thread that started it.
        thread::spawn("sut", None, move || {
            run_sut(plan, &parts, &asked, &events);
            let _ = end.send(());
        })
        .map_err(host_fault)?;
        Ok(())
    }

    fn serve(&mut self, plan: ServePlan, events: Sender<FromAgent>) -> Result<(), Failure> {
        if self.coordinator == Coordinator::Joined {
            let why = "no server is started for a coordinator that did not start this agent";
            return Err((AgentFault::Usage, why.to_owned()));
        }
        let backend = plimsoll_backend::start(&plan).map_err(host_fault)?;
        let _ = events.send(FromAgent::Listening(backend.addresses().to_vec()));
        self.parts.serves.store(true, Ordering::Relaxed);
        let (asks, asked) = mpsc::channel();
        self.serving = Some(asks);
        thread::spawn("counters", None, move || {
            while asked.recv_timeout(COUNTERS_PERIOD) != Err(RecvTimeoutError::Disconnected) {
                let _ = events.send(FromAgent::ServeCounters(counters(&backend)));
            }
            // What was counted since the last period.
            let _ = events.send(FromAgent::ServeCounters(counters(&backend)));
            // Before the sender of events, for whose end this process waits: StatsD hears of the last second.
            drop(backend);
        })
        .map_err(host_fault)?;
        Ok(())
    }
}

/// Starts the server and reports on it until the channel of requests is closed.
fn run_sut(plan: SutPlan, parts: &Parts, asked: &Receiver<()>, events: &Sender<FromAgent>) {
    let mut sut = match SutHost::start(plan) {
        Ok(sut) => sut,
        Err(error) => {
            let (fault, message) = host_fault(error);
            let _ = events.send(FromAgent::Failed { fault, message });
            return;
        }
    };
    parts.set_sut(&sut);
    let _ = events.send(FromAgent::SutStarted(Box::new(sut.started())));
    while asked.recv_timeout(COUNTERS_PERIOD) != Err(RecvTimeoutError::Disconnected) {
        // nginx may have other workers by now.
        parts.set_sut(&sut);
        let _ = events.send(FromAgent::SutStatus(Box::new(sut.status())));
    }
}

fn counters(backend: &Backend) -> ServeCounters {
    let seen = backend.counters();
    ServeCounters {
        conns_open: seen.conns_open,
        conns_total: seen.conns_accepted,
        requests_total: seen.requests,
        messages_total: seen.messages,
        deliveries_total: seen.deliveries,
        deliveries_lost_total: seen.deliveries_lost,
        deliveries_repeated_total: seen.deliveries_repeated,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;
    use plimsoll_model::plan::{DeliveryFaults, TlsState};

    use super::*;

    fn nowhere() -> ServePlan {
        ServePlan {
            listeners: Vec::new(),
            identity: None,
            ticket_key: None,
            threads: 1,
            cpus: Vec::new(),
            tls_state: TlsState::Compact,
            statsd: None,
            seed: 1,
            request_timeout: Nanos::from_secs(1),
            idle_timeout: Nanos::from_secs(1),
            acknowledgement_delay: Nanos::ZERO,
            receive_maximum: u16::MAX,
            delivery_faults: DeliveryFaults::default(),
            accept_proxy: false,
        }
    }

    #[test]
    fn a_coordinator_that_an_agent_has_joined_gets_no_server() {
        let coordinator = Coordinator::Joined;
        let mut executor = EngineExecutor { coordinator, ..EngineExecutor::default() };
        let (events, said) = mpsc::channel();
        executor.handle(ToAgent::Serve(Box::new(nowhere())), &events);
        drop((executor, events));
        let said: Vec<_> = said.iter().collect();
        assert!(
            matches!(&said[..], [FromAgent::Failed { fault: AgentFault::Usage, message }]
                if message.contains("no server is started")),
            "{said:?}"
        );
    }
}
