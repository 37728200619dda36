//! The cases. Those that wait for something to happen look again until it does, or give up after
//! a time that no healthy machine needs.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use plimsoll_fleet::coordinator::{HoldController, HoldView, LoadControl, Order};
use plimsoll_fleet::message::{
    AgentFault, ExitReason, OwnControlGroup, Readiness, SupervisedProgram, SupervisorPlan,
};
use plimsoll_fleet::relay::{Makers, Relay};
use plimsoll_fleet::{
    AgentCommand, AgentSpec, FleetError, FromAgent, LoadAgents, ServerGroup, Supervisor, ToAgent,
};
use plimsoll_model::event::{Event, LoadEvent};
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{
    DeliveryFaults, Listener, LoadPart, LoadPlan, ServePlan, Spoken, Steer, TlsState,
};
use plimsoll_model::tally::Tally;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_sys::process::{Group, Signal, Ties};
use plimsoll_sys::{clock, process};
use tempfile::TempDir;

use crate::executor::{OPS_PER_SECOND, behaviour};
use crate::roles::{plan, runaway, sleeper};

const PATIENCE: Duration = Duration::from_secs(30);

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

fn agents(count: u32) -> LoadAgents {
    LoadAgents::start(AgentSpec::new(count)).unwrap()
}

pub(crate) fn loads_add_up_and_agents_are_reused() {
    let mut agents = agents(3);
    let pids = agents.pids();
    assert!(agents.descriptors_max() >= 64);
    for _ in 0..2 {
        let mut events = Vec::new();
        let outcome = agents
            .run_load(&plan(behaviour::GOOD), &LoadControl::new(&|| false), &mut |event| {
                events.push(event);
            })
            .unwrap();
        assert!(matches!(events.first(), Some(Event::LoadStarted { .. })));
        let seconds: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::Interval(interval) => Some((interval.second, interval.tally.ok)),
                _ => None,
            })
            .collect();
        assert_eq!(seconds, [0, 1, 2].map(|second| (second, OPS_PER_SECOND)));
        assert_eq!(outcome.tally.scheduled, 3 * OPS_PER_SECOND);
        assert_eq!(outcome.tally.generator.processes, 3);
        assert_eq!(outcome.window, Nanos::from_secs(3));
        assert!(outcome.tally.balances() && !outcome.is_partial());
        assert_eq!(agents.pids(), pids);
    }
    drop(agents);
    assert!(pids.iter().all(|pid| !process::is_alive(*pid)));
}

pub(crate) fn a_killed_agent_costs_its_share_only() {
    let mut agents = agents(2);
    let victim = agents.pids()[1];
    // The first second is only handed out once both agents have delivered it.
    let mut sink = |event| {
        if matches!(event, Event::Interval(interval) if interval.second == 0) {
            process::kill(victim, Signal::KILL).unwrap();
        }
    };
    let control = LoadControl::new(&|| false);
    let outcome = agents.run_load(&plan(behaviour::ONE_FALLS_SILENT), &control, &mut sink).unwrap();
    assert_eq!(outcome.tally.failures.operations.get(ErrorClass::AgentLost), 7);
    assert!(outcome.tally.balances() && outcome.is_partial());
    assert_eq!(outcome.lost_agents, 1);
    assert!(outcome.notes[0].contains("agent 2 ended unexpectedly: killed by signal 9"));
    // The next load has a new agent in its place.
    let outcome = agents.run_load(&plan(behaviour::GOOD), &control, &mut |_| {}).unwrap();
    assert_eq!(outcome.tally.scheduled, 3 * OPS_PER_SECOND);
    assert!(!outcome.is_partial() && agents.pids()[1] != victim);
}

/// Returns the events of a relay of three processes, up to the end of its load; it starts when it is ready. `meanwhile`
/// sees each of them.
fn relayed(behaviour: u64, mut meanwhile: impl FnMut(&FromAgent)) -> Vec<FromAgent> {
    let (sender, events) = mpsc::channel();
    let makers = Makers::default();
    let relay = Relay::start(AgentCommand::this_program(), sender, makers).unwrap();
    let part = LoadPart { shard: Shard { index: 0, of: 3 }, ..LoadPart::WHOLE };
    relay.prepare(Box::new(LoadPlan { threads: 3, part, ..plan(behaviour) }), 3);
    let mut seen = Vec::new();
    loop {
        let event = events.recv_timeout(Duration::from_secs(60)).unwrap();
        if matches!(event, FromAgent::Load(LoadEvent::Ready { .. })) {
            let epoch_monotonic = Nanos(clock::monotonic_ns());
            relay.handle(ToAgent::Start { epoch_monotonic });
        }
        meanwhile(&event);
        let is_last =
            matches!(event, FromAgent::Load(LoadEvent::Ended { .. }) | FromAgent::Failed { .. });
        seen.push(event);
        if is_last {
            return seen;
        }
    }
}

pub(crate) fn a_relay_makes_one_agent_of_many() {
    let seen = relayed(behaviour::GOOD, |_| {});
    assert!(matches!(seen[0], FromAgent::Load(LoadEvent::Ready { failed: 0, .. })), "{seen:?}");
    let mut tally = Tally::default();
    let mut seconds = Vec::new();
    for event in &seen {
        if let FromAgent::Load(LoadEvent::Interval(interval)) = event {
            seconds.push(interval.second);
            tally.merge_following(&interval.tally);
        }
    }
    assert_eq!(seconds, [0, 1, 2]);
    assert_eq!((tally.scheduled, tally.generator.processes), (3 * OPS_PER_SECOND, 3));
    assert!(tally.balances());
    let is_end = |event: &FromAgent| matches!(event, FromAgent::Load(LoadEvent::Ended { .. }));
    assert_eq!(seen.iter().filter(|event| is_end(event)).count(), 1);
}

pub(crate) fn a_relay_says_what_it_lost_and_why_it_cannot() {
    let seen = relayed(behaviour::ONE_REFUSES, |_| {});
    let last = seen.last();
    assert!(
        matches!(last, Some(FromAgent::Failed { fault: AgentFault::Usage, message })
            if message.contains("the plan makes no sense")),
        "{last:?}"
    );
    // Its first second is reported once all have delivered it.
    let mut is_first = true;
    let seen = relayed(behaviour::ONE_FALLS_SILENT, |event| {
        if matches!(event, FromAgent::Load(LoadEvent::Interval(_))) && std::mem::take(&mut is_first)
        {
            let mut pids = process::descendants().unwrap();
            pids.sort_unstable();
            process::kill(pids[1], Signal::KILL).unwrap();
        }
    });
    let lost = seen.iter().filter(|event| **event == FromAgent::PartLost).count();
    assert_eq!(lost, 1, "{seen:?}");
    let is_note =
        |event: &&FromAgent| matches!(event, FromAgent::Note(line) if line.contains("killed"));
    assert_eq!(seen.iter().filter(is_note).count(), 1, "{seen:?}");
    let mut tally = Tally::default();
    for event in &seen {
        if let FromAgent::Load(LoadEvent::Interval(interval)) = event {
            tally.merge_following(&interval.tally);
        }
    }
    assert!(tally.balances() && tally.failures.operations.get(ErrorClass::AgentLost) == 7);
}

pub(crate) fn a_hung_agent_does_not_hang() {
    let mut agents = agents(2);
    let hung = agents.pids()[1];
    let control = LoadControl { overrun: Nanos::from_millis(100), ..LoadControl::new(&|| false) };
    let outcome =
        agents.run_load(&plan(behaviour::ONE_FALLS_SILENT), &control, &mut |_| {}).unwrap();
    assert_eq!((outcome.lost_agents, outcome.tally.balances()), (1, true));
    assert!(!process::is_alive(hung));
}

/// Ramps to a thousand, sweeps them once, and finishes; kills `victim` during the ramp.
struct Script {
    victim: Option<u32>,
    /// Connections that the surviving agents hold after the ramp.
    expected: u64,
    /// Connections held when the ramp was done.
    held: Option<u64>,
    answered: u64,
}

impl HoldController for Script {
    fn poll(&mut self, view: &HoldView<'_>) -> Option<Order> {
        match (view.given, view.done) {
            (0, _) => Some(Order::Steer(Steer::Ramp { connections: 1_000 })),
            (1, 0) => {
                // Lost once the others have reported how many they hold.
                if view.held > 0
                    && let Some(victim) = self.victim.take()
                {
                    process::kill(victim, Signal::KILL).unwrap();
                }
                None
            }
            // Agents report how many they hold shortly after they report that they are done.
            (1, 1) if view.held < self.expected => None,
            (1, 1) => {
                self.held = Some(view.held);
                Some(Order::Steer(Steer::Sweep { over: Nanos::from_millis(1) }))
            }
            // The answers are in a later second than the word that the sweep is done.
            (2, 2) if view.total.ok >= self.held? => {
                self.answered = view.total.ok;
                Some(Order::Finish)
            }
            _ => None,
        }
    }
}

pub(crate) fn a_hundred_agents_are_steered_as_one() {
    let mut agents = agents(100);
    let mut controller = Script { victim: None, expected: 1_000, held: None, answered: 0 };
    let control = LoadControl::new(&|| false);
    let plan = LoadPlan { connections: 1_000, ..plan(behaviour::HOLD) };
    let mut seconds = 0;
    let mut sink = |event| seconds += u32::from(matches!(event, Event::Interval(_)));
    let outcome = agents.run_hold(&plan, &control, &mut controller, &mut sink).unwrap();
    assert_eq!((controller.held, controller.answered), (Some(1_000), 1_000));
    assert_eq!(outcome.tally.ok, 1_000);
    assert_eq!(outcome.tally.generator.processes, 100);
    assert!(!outcome.is_partial() && outcome.tally.balances() && seconds > 0);
}

pub(crate) fn an_agent_lost_in_a_ramp() {
    let mut agents = agents(2);
    let victim = Some(agents.pids()[1]);
    let mut controller = Script { victim, expected: 500, held: None, answered: 0 };
    let control = LoadControl::new(&|| false);
    let plan = LoadPlan { connections: 1_000, ..plan(behaviour::HOLD_ONE_STUCK) };
    let outcome = agents.run_hold(&plan, &control, &mut controller, &mut |_| {}).unwrap();
    // Its half of the connections is missing, and its answer is not awaited.
    assert_eq!((controller.held, controller.answered), (Some(500), 500));
    assert_eq!(outcome.lost_agents, 1);
}

pub(crate) fn an_agent_that_refuses_is_named() {
    let mut agents = agents(2);
    let pids = agents.pids();
    let control = LoadControl::new(&|| false);
    let error = agents.run_load(&plan(behaviour::ONE_REFUSES), &control, &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "agent 2: the plan makes no sense");
    assert_eq!(error.fault(), AgentFault::Usage);
    // Both are still good for another load.
    let outcome = agents.run_load(&plan(behaviour::GOOD), &control, &mut |_| {}).unwrap();
    assert_eq!((outcome.tally.ok, agents.pids()), (3 * OPS_PER_SECOND, pids));
}

pub(crate) fn what_is_no_agent_is_an_error() {
    let start = |program: &str, arguments: &[&str]| {
        let arguments = arguments.iter().map(Into::into).collect();
        let command = AgentCommand { program: program.into(), arguments };
        LoadAgents::start(AgentSpec { command, ..AgentSpec::new(1) }).unwrap_err()
    };
    let missing = start("/nonexistent/plimsoll", &[]).to_string();
    assert!(missing.starts_with("cannot start agent 1: No such file"), "{missing}");
    let silent = start("sh", &["-c", "echo out of luck >&2; exit 3"]).to_string();
    assert_eq!(silent, "agent 1 ended unexpectedly: exit code 3; its last output: out of luck");
    let talker = start("echo", &["Permission denied"]).to_string();
    assert!(talker.contains("not a frame of plimsoll's"), "{talker}");
    // A frame made by hand, as another version would send it.
    let hello = r#"{"hello":{"version":"0.0.0","pid":1,"descriptors_max":9}}"#;
    let print = format!(r"printf '\{:03o}\000\000\000%s' '{hello}'; cat", hello.len());
    let other = start("sh", &["-c", &print]);
    assert!(matches!(&other, FleetError::Version { theirs, .. } if theirs == "0.0.0"), "{other}");
}

pub(crate) fn servers_share_one_port() {
    let listener =
        Listener { address: "127.0.0.1:0".parse().unwrap(), tls: false, spoken: Spoken::Http };
    let serve = ServePlan {
        listeners: vec![listener, Listener { tls: true, ..listener }],
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
    };
    let mut group = ServerGroup::start(&AgentSpec::new(3), &serve).unwrap();
    let [plain, tls] = group.listeners() else { panic!("two were asked for") };
    assert!(plain.address.port() != 0 && tls.address.port() != plain.address.port());
    assert!(!plain.tls && tls.tls);
    TcpStream::connect(plain.address).unwrap();
    until("three processes counted", || {
        let status = group.poll_status(Duration::ZERO);
        assert_eq!(status.lost, Vec::<String>::new());
        status.counters.conns_total == 3
    });
    let pids = group.pids();
    process::kill(pids[2], Signal::KILL).unwrap();
    until("the loss is seen", || {
        let status = group.poll_status(Duration::from_millis(5));
        status.lost == ["server 3 ended unexpectedly: killed by signal 9"]
    });
    // Two report at their end what was counted since; of the third its last report counts.
    assert_eq!(group.stop().conns_total, 2 + 2 + 1);
    assert!(pids.iter().all(|pid| !process::is_alive(*pid)));
}

/// Starts this program in a role, in its own process group.
fn start_role(arguments: &[&OsStr]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(process::own_executable());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    let ties = Ties { group: Group::Own, dies_with_parent: true, ..Ties::default() };
    let mut child = process::spawn(command, &ties).unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    (child, stdout)
}

fn next_line(stdout: &mut impl BufRead) -> String {
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

pub(crate) fn stop_signals_give_a_partial_report() {
    for (signal, exit_code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (mut child, mut stdout) = start_role(&["interruptible".as_ref()]);
        assert_eq!(next_line(&mut stdout), "running");
        // To the group, as a terminal does it: the agents get it too.
        process::kill_group(child.id(), signal).unwrap();
        // Each agent had one operation in flight, and none was lost.
        assert_eq!(next_line(&mut stdout), "[true,true,0,2]");
        assert_eq!(child.wait().unwrap().code(), Some(exit_code));
    }
}

pub(crate) fn the_second_signal_ends_at_once() {
    let (mut child, mut stdout) = start_role(&["stubborn".as_ref()]);
    assert_eq!(next_line(&mut stdout), "running");
    until("the process ended", || {
        process::kill(child.id(), Signal::INT).unwrap();
        process::has_ended(child.id())
    });
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Returns a folder for a scratch directory that does not exist yet; it has the file of a control group that lends CPU.
fn scratch() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cgroup.subtree_control"), "").unwrap();
    let scratch = folder.path().join("scratch");
    (folder, scratch)
}

pub(crate) fn kill_9_of_the_coordinator() {
    let (folder, scratch) = scratch();
    let group = folder.path().join("group");
    let (mut child, mut stdout) = start_role(&["coordinator".as_ref(), scratch.as_ref()]);
    let pids: Vec<u32> = serde_json::from_str(&next_line(&mut stdout)).unwrap();
    // Two agents, the supervisor, two programs, a grandchild that leaves its process group.
    assert_eq!(pids.len(), 6);
    assert!(pids.iter().all(|pid| process::is_alive(*pid)) && scratch.exists() && group.exists());
    process::kill(child.id(), Signal::KILL).unwrap();
    child.wait().unwrap();
    until("every process is gone", || pids.iter().all(|pid| !process::is_alive(*pid)));
    assert!(!scratch.exists() && !group.exists());
    let lent = fs::read_to_string(folder.path().join("cgroup.subtree_control")).unwrap();
    assert_eq!(lent, "-cpu");
}

fn supervisor(plan: SupervisorPlan) -> Result<Supervisor, FleetError> {
    Supervisor::start(&AgentCommand::supervisor(), None, plan)
}

pub(crate) fn a_restart_replaces_every_program() {
    let (_folder, scratch) = scratch();
    let children = vec![sleeper("first"), runaway(&scratch.join("pid"))];
    let plan = SupervisorPlan {
        scratch_dir: Some(scratch.clone()),
        children,
        ..SupervisorPlan::default()
    };
    let mut supervisor = supervisor(plan).unwrap();
    let mut before = supervisor.pids().to_owned();
    // In its own session.
    before.push(fs::read_to_string(scratch.join("pid")).unwrap().trim().parse().unwrap());
    // One has ended before, and is there again afterwards.
    process::kill(before[0], Signal::KILL).unwrap();
    until("the end is reported", || supervisor.poll_exited().unwrap().is_some());
    supervisor.restart().unwrap();
    let after = supervisor.pids().to_owned();
    assert!(before.iter().all(|pid| !process::is_alive(*pid)));
    assert!(after.len() == 2 && after.iter().all(|pid| process::is_alive(*pid)));
    // The end of the old ones is nothing to report, that of a new one is.
    assert_eq!(supervisor.poll_exited().unwrap(), None);
    process::kill(after[0], Signal::INT).unwrap();
    until("the end is reported", || supervisor.poll_exited().unwrap().is_some());
    drop(supervisor);
    assert!(after.iter().all(|pid| !process::is_alive(*pid)));
}

pub(crate) fn a_stopped_supervisor_leaves_nothing() {
    for keep in [false, true] {
        let (folder, scratch) = scratch();
        let children = vec![sleeper("first"), sleeper("second"), runaway(&scratch.join("pid"))];
        let scratch_dir = Some(scratch.clone());
        let group = folder.path().join("group");
        let home = folder.path().to_owned();
        let control_group = Some(OwnControlGroup { dir: group.clone(), home, lend_cpu: true });
        let plan = SupervisorPlan { scratch_dir, keep, control_group, children };
        let mut supervisor = supervisor(plan).unwrap();
        fs::create_dir(group.join("inner")).unwrap();
        let lent = || fs::read_to_string(folder.path().join("cgroup.subtree_control")).unwrap();
        assert_eq!(lent(), "+cpu");
        let pids = supervisor.pids().to_owned();
        assert_eq!(pids.len(), 3);
        let grandchild = fs::read_to_string(scratch.join("pid")).unwrap().trim().parse().unwrap();
        assert_eq!(supervisor.poll_exited().unwrap(), None);
        process::kill(pids[1], Signal::INT).unwrap();
        let mut exited = None;
        until("the end is reported", || {
            exited = supervisor.poll_exited().unwrap();
            exited.is_some()
        });
        let exited = exited.unwrap();
        assert_eq!((exited.name.as_str(), exited.reason), ("second", ExitReason::Signal(2)));
        drop(supervisor);
        assert!(pids.iter().chain([&grandchild]).all(|pid| !process::is_alive(*pid)));
        assert_eq!(scratch.exists(), keep);
        assert!(!group.exists());
        assert_eq!(lent(), "-cpu");
    }
}

pub(crate) fn kill_9_of_the_supervisor() {
    let (_folder, scratch) = scratch();
    let children = vec![sleeper("sleeper")];
    let plan = SupervisorPlan {
        scratch_dir: Some(scratch.clone()),
        children,
        ..SupervisorPlan::default()
    };
    let mut supervisor = supervisor(plan).unwrap();
    let program = supervisor.pids()[0];
    process::kill(supervisor.pid(), Signal::KILL).unwrap();
    until("the loss is seen", || matches!(supervisor.poll_exited(), Err(FleetError::Lost { .. })));
    until("the program is gone", || !process::is_alive(program));
    drop(supervisor);
    assert!(!scratch.exists());
}

pub(crate) fn a_program_that_cannot_start_says_why() {
    let (_folder, scratch) = scratch();
    let broken = SupervisedProgram {
        name: "haproxy".to_owned(),
        argv: ["sh", "-c", "echo bad line 7 >&2; exit 1"].map(str::to_owned).to_vec(),
        cpus: Vec::new(),
        ready: Readiness::Exists(scratch.join("never")),
    };
    let missing =
        SupervisedProgram { argv: vec!["/nonexistent/haproxy".to_owned()], ..broken.clone() };
    let plan = |child| SupervisorPlan {
        scratch_dir: Some(scratch.clone()),
        children: vec![child],
        ..SupervisorPlan::default()
    };
    let error = supervisor(plan(broken)).unwrap_err().to_string();
    assert_eq!(error, "haproxy ended before it was ready: exit code 1\n  bad line 7");
    assert!(!scratch.exists());
    let error = supervisor(plan(missing.clone())).unwrap_err().to_string();
    let expected = "supervisor 1: cannot start haproxy (/nonexistent/haproxy): No such file";
    assert!(error.starts_with(expected), "{error}");
    assert!(!scratch.exists());
    // What was there before is not ours to use, nor to remove.
    fs::create_dir(&scratch).unwrap();
    let error = supervisor(plan(missing)).unwrap_err().to_string();
    assert!(error.contains("cannot create the scratch directory"), "{error}");
    assert!(scratch.exists());
}
