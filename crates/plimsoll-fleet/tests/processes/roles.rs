//! Processes that the cases start, signal and kill.

use std::path::Path;
use std::process::ExitCode;
use std::{fs, thread};

use plimsoll_fleet::coordinator::LoadControl;
use plimsoll_fleet::message::{OwnControlGroup, Readiness, SupervisedProgram, SupervisorPlan};
use plimsoll_fleet::{AgentCommand, AgentSpec, LoadAgents, Supervisor};
use plimsoll_model::event::Event;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{HoldPlan, LoadPlan, Pacing, Timeouts};
use plimsoll_model::{Nanos, Rate};
use plimsoll_sys::signal::Interrupts;

use crate::executor::behaviour;

/// Returns a load that the executor answers with `behaviour`.
pub(crate) fn plan(behaviour: u64) -> LoadPlan {
    let rate = Rate::per_second(100.0).unwrap();
    let pacing = if behaviour == behaviour::UNTIL_STOPPED {
        Pacing::Closed { duration: None, ops_total: None }
    } else if [behaviour::HOLD, behaviour::HOLD_ONE_STUCK].contains(&behaviour) {
        Pacing::Hold(HoldPlan {
            connections_per_s: 100.0,
            opening_max: 8,
            heartbeat: None,
            replace: false,
        })
    } else {
        let profile = Profile::constant(rate, Nanos::from_millis(100));
        Pacing::Open { profile, arrivals: Arrivals::Poisson }
    };
    LoadPlan {
        connections: 10,
        timeouts: Timeouts { deadline: None, linger: Nanos::ZERO, connect: Nanos::ZERO },
        seed: behaviour,
        ..LoadPlan::plain(&[], pacing)
    }
}

/// Returns a program that nothing but a signal ends.
pub(crate) fn sleeper(name: &str) -> SupervisedProgram {
    SupervisedProgram {
        name: name.to_owned(),
        argv: vec!["sleep".to_owned(), "1000".to_owned()],
        cpus: Vec::new(),
        ready: Readiness::Started,
    }
}

/// Returns a program that ignores SIGTERM and has a child in its own session; the child's pid is in
/// `pid_file`.
pub(crate) fn runaway(pid_file: &Path) -> SupervisedProgram {
    let file = pid_file.display();
    let script = format!(
        "trap '' TERM; \
         setsid sh -c 'echo $$ > {file}.new; mv {file}.new {file}; exec sleep 1000' & \
         while :; do sleep 1000; done"
    );
    SupervisedProgram {
        name: "runaway".to_owned(),
        argv: vec!["sh".to_owned(), "-c".to_owned(), script],
        cpus: Vec::new(),
        ready: Readiness::Exists(pid_file.to_owned()),
    }
}

/// Has two agents under load and a supervisor with two programs; prints all their pids on one line, and
/// runs until it is killed.
pub(crate) fn coordinator(scratch: &Path) -> ExitCode {
    let mut agents = LoadAgents::start(AgentSpec::new(2)).unwrap();
    let home = scratch.parent().unwrap().to_owned();
    let empty = SupervisorPlan {
        scratch_dir: Some(scratch.to_owned()),
        control_group: Some(OwnControlGroup { dir: home.join("group"), home, lend_cpu: true }),
        ..SupervisorPlan::default()
    };
    let mut supervisor = Supervisor::start(&AgentCommand::supervisor(), None, empty).unwrap();
    fs::write(scratch.join("sut.cfg"), "mode http").unwrap();
    let pid_file = scratch.join("runaway.pid");
    supervisor.start_programs(vec![sleeper("sleeper"), runaway(&pid_file)]).unwrap();
    let grandchild: u32 = fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    let mut pids = agents.pids();
    pids.push(supervisor.pid());
    pids.extend_from_slice(supervisor.pids());
    pids.push(grandchild);
    let mut line = Some(serde_json::to_string(&pids).unwrap());
    let mut sink = |event: Event| {
        if let Some(line) = line.take_if(|_| matches!(event, Event::Interval(_))) {
            println!("{line}");
        }
    };
    let endless = plan(behaviour::UNTIL_STOPPED);
    agents.run_load(&endless, &LoadControl::new(&|| false), &mut sink).unwrap();
    ExitCode::FAILURE
}

/// Makes a load until it is ordered to stop, and reports the result as
/// `[interrupted, balances, lost agents, interrupted operations]`.
pub(crate) fn interruptible() -> ExitCode {
    let interrupts = Interrupts::install().unwrap();
    let mut agents = LoadAgents::start(AgentSpec::new(2)).unwrap();
    let mut line = Some("running");
    let mut sink = |event: Event| {
        if let Some(line) = line.take_if(|_| matches!(event, Event::Interval(_))) {
            println!("{line}");
        }
    };
    let interrupted = || interrupts.is_raised();
    let outcome = agents
        .run_load(&plan(behaviour::UNTIL_STOPPED), &LoadControl::new(&interrupted), &mut sink)
        .unwrap();
    println!(
        "[{},{},{},{}]",
        outcome.interrupted,
        outcome.tally.balances(),
        outcome.lost_agents,
        outcome.tally.errors_total()
    );
    ExitCode::from(interrupts.exit_code().unwrap_or(1) as u8)
}

/// Hears the first signal and does nothing about it.
pub(crate) fn stubborn() -> ExitCode {
    let _interrupts = Interrupts::install().unwrap();
    println!("running");
    loop {
        thread::park();
    }
}
