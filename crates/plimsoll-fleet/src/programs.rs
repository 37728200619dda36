//! The supervisor's own side: starts foreign programs, and ends them and all that they started, even where
//! they detach themselves. It is its own process, and no agent: what an agent hears may come from
//! another host.
//!
//! A restart ends the programs as the stop does, and starts them again from their plans.
//!
//! Three mechanisms ensure that: each program is a child that the kernel kills with this process;
//! orphaned descendants become this process's children; and before this process ends it searches the
//! process table until it has no descendants left.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use plimsoll_sys::process::{Group, Signal, Ties};
use plimsoll_sys::thread::spawn;
use plimsoll_sys::{output_file, private_dir, process};

use crate::agent::{FLUSH_WAIT, hello, start, start_writer};
use crate::error::{FleetError, Result};
use crate::frame;
use crate::message::{
    AgentFault, ExitReason, FromAgent, OwnControlGroup, ProgramExit, Readiness, SupervisedProgram,
    SupervisorPlan, ToSupervisor,
};
use crate::tail::Tail;

/// Timeout of programs after SIGTERM.
const TERM_WAIT: Duration = Duration::from_secs(1);
/// Timeout of programs after SIGKILL: the kernel may have much memory to free.
const KILL_WAIT: Duration = Duration::from_secs(2);
/// Longest time that the end of all programs takes.
pub(crate) const STOP_WAIT: Duration = Duration::from_millis(3500);
/// Period of checking whether programs are ready or have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// Longest wait for one connection to a program that is asked whether it is ready.
const CONNECT_WAIT: Duration = Duration::from_millis(50);
/// Timeout of a control group to be empty: a process that ends leaves it a moment later.
const GROUP_WAIT: Duration = Duration::from_millis(500);
/// The file of a control group's processes, in both versions.
const PROCESSES: &str = "cgroup.procs";
/// Timeout of the last output of a program that ended before its children.
const LAST_OUTPUT_WAIT: Duration = Duration::from_millis(200);

/// Runs a supervisor until it receives the exit command or its input ends, then ends everything that it started. The
/// caller then ends the process.
pub fn supervise(
    stdin: impl Read + Send + 'static,
    stdout: impl Write + Send + 'static,
) -> Result<()> {
    let (events, outbox) = mpsc::channel();
    let (closing, closed) = mpsc::channel();
    // The receiver is alive: it is in `outbox`.
    let _ = events.send(hello());
    let (inputs, ended) = start_supervision(events)
        .map_err(|source| FleetError::Start { name: "the thread supervise".to_owned(), source })?;
    let flushed = start_writer("supervisor-out", outbox, stdout, closing.clone())?;
    let plans = inputs.clone();
    start("supervisor-in", move || {
        let _ = closing.send(read_plans(stdin, &plans));
    })?;
    // Both threads send before they end.
    let result = closed.recv().unwrap_or(Ok(()));
    let _ = inputs.send(Input::Stop);
    let _ = ended.recv_timeout(STOP_WAIT);
    let _ = flushed.recv_timeout(FLUSH_WAIT);
    result
}

fn read_plans(mut stdin: impl Read, inputs: &Sender<Input>) -> Result<()> {
    loop {
        let input = match frame::read(&mut stdin)? {
            Some(ToSupervisor::Supervise(plan)) => Input::Plan(*plan),
            Some(ToSupervisor::Restart) => Input::Restart,
            Some(ToSupervisor::Exit) | None => return Ok(()),
        };
        // The thread ends after Stop only.
        let _ = inputs.send(input);
    }
}

/// An input of the supervising thread.
enum Input {
    /// Start the plan's programs; `ProgramsReady` or `Failed` follows.
    Plan(SupervisorPlan),
    /// End every program and start it again; `ProgramsReady`, `ProgramExited` or `Failed` follows.
    Restart,
    /// The child with this index ended.
    Ended(usize, ExitReason),
    Stop,
}

/// Starts the supervising thread, and makes this process the parent of all its orphaned descendants. Returns the
/// sender of the thread's inputs, and the receiver of its end.
fn start_supervision(events: Sender<FromAgent>) -> io::Result<(Sender<Input>, Receiver<()>)> {
    process::become_subreaper()?;
    let (inputs, inbox) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let supervision = Supervision {
        events,
        inputs: inputs.clone(),
        children: Vec::new(),
        unready: Vec::new(),
        restart: None,
        scratch: None,
        keep: false,
        control_group: None,
    };
    let _supervision = spawn("supervise", None, move || {
        supervision.run(&inbox);
        let _ = end.send(());
    })?;
    Ok((inputs, ended))
}

/// A supervised program.
struct Child {
    plan: SupervisedProgram,
    pid: u32,
    output: Tail,
    is_alive: bool,
}

impl Child {
    fn is_ready(&self) -> bool {
        match &self.plan.ready {
            Readiness::Started => true,
            Readiness::Accepts(address) => {
                TcpStream::connect_timeout(address, CONNECT_WAIT).is_ok()
            }
            Readiness::Exists(path) => path.exists(),
        }
    }
}

/// The state of the supervising thread.
struct Supervision {
    events: Sender<FromAgent>,
    inputs: Sender<Input>,
    children: Vec<Child>,
    /// The programs that were started last, as long as one of them isn't ready.
    unready: Vec<usize>,
    /// Start of a restart, while programs that it asked to exit are still alive.
    restart: Option<Instant>,
    /// The directory that was created here.
    scratch: Option<PathBuf>,
    keep: bool,
    /// The control group that was created here.
    control_group: Option<OwnControlGroup>,
}

impl Supervision {
    fn run(mut self, inbox: &Receiver<Input>) {
        loop {
            let input = if self.unready.is_empty() && self.restart.is_none() {
                inbox.recv().map_err(RecvTimeoutError::from)
            } else {
                inbox.recv_timeout(LOOK_AGAIN)
            };
            match input {
                Ok(Input::Plan(plan)) => self.handle_plan(plan),
                Ok(Input::Restart) => self.begin_restart(),
                Ok(Input::Ended(index, reason)) => self.handle_end(index, reason),
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if self.restart.is_some() => self.continue_restart(),
                Err(RecvTimeoutError::Timeout) => self.look_for_readiness(),
            }
        }
        self.stop();
    }

    fn report(&self, event: FromAgent) {
        // The agent's end is noticed elsewhere.
        let _ = self.events.send(event);
    }

    fn handle_plan(&mut self, plan: SupervisorPlan) {
        if let Err(message) = self.start_all(plan) {
            // What was started keeps running; the coordinator decides whether it ends.
            self.unready.clear();
            self.report(FromAgent::Failed { fault: AgentFault::Host, message });
        } else if self.unready.is_empty() {
            self.report(FromAgent::ProgramsReady { pids: Vec::new() });
        }
    }

    fn start_all(&mut self, plan: SupervisorPlan) -> Result<(), String> {
        if let Some(path) = plan.scratch_dir {
            // The directory must not exist yet, because it is removed later.
            private_dir::create(&path).map_err(|error| {
                format!("cannot create the scratch directory {}: {error}", path.display())
            })?;
            self.scratch = Some(path);
            self.keep = plan.keep;
        }
        if let Some(group) = plan.control_group {
            create_control_group(&group)?;
            self.control_group = Some(group);
        }
        for child in plan.children {
            let index = self.children.len();
            let child = self.start(index, child)?;
            self.children.push(child);
            self.unready.push(index);
        }
        Ok(())
    }

    fn start(&self, index: usize, plan: SupervisedProgram) -> Result<Child, String> {
        let (program, arguments) =
            plan.argv.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
        let context = |error: io::Error| format!("cannot start {} ({program}): {error}", plan.name);
        let (reader, writer) = io::pipe().map_err(context)?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(writer.try_clone().map_err(context)?)
            .stderr(writer);
        let ties = Ties {
            group: Group::Own,
            dies_with_parent: true,
            cpus: plan.cpus.clone(),
            ..Ties::default()
        };
        let pid = process::spawn(command, &ties).map_err(context)?.id();
        let output = Tail::follow(reader).map_err(context)?;
        let inputs = self.inputs.clone();
        let watch = move || {
            if let Ok(status) = process::wait(pid) {
                let _ = inputs.send(Input::Ended(index, status.into()));
            }
        };
        let _watcher = spawn("watch-child", None, watch).map_err(context)?;
        Ok(Child { plan, pid, output, is_alive: true })
    }

    fn handle_end(&mut self, index: usize, reason: ExitReason) {
        let Some(child) = self.children.get_mut(index) else { return };
        child.is_alive = false;
        // Not before: while a signal may go to its group, the number is its own.
        process::reap(child.pid);
        if self.restart.is_some() {
            return;
        }
        let event = FromAgent::ProgramExited(ProgramExit {
            name: child.plan.name.clone(),
            reason,
            output: child.output.text(LAST_OUTPUT_WAIT),
        });
        if self.unready.contains(&index) {
            // The plan failed.
            self.unready.clear();
        }
        self.report(event);
    }

    fn begin_restart(&mut self) {
        self.unready.clear();
        self.signal_programs(Signal::TERM);
        self.restart = Some(Instant::now());
    }

    /// Starts the programs again once all have ended; after a second they are killed.
    fn continue_restart(&mut self) {
        let alive = self.children.iter().any(|child| child.is_alive);
        match self.restart {
            Some(since) if alive && since.elapsed() > TERM_WAIT => {
                self.signal_programs(Signal::KILL);
            }
            _ if alive => {}
            _ => {
                self.restart = None;
                // Workers that outlive their master listen at its port.
                none_left_within(KILL_WAIT, |pid| {
                    let _ = process::kill(pid, Signal::KILL);
                });
                if let Err(message) = self.start_again() {
                    self.unready.clear();
                    self.report(FromAgent::Failed { fault: AgentFault::Host, message });
                }
            }
        }
    }

    fn start_again(&mut self) -> Result<(), String> {
        for index in 0..self.children.len() {
            let plan = self.children[index].plan.clone();
            if let Readiness::Exists(path) = &plan.ready {
                // The last one's: readiness is shown by a new one.
                let _ = fs::remove_file(path);
            }
            self.children[index] = self.start(index, plan)?;
            self.unready.push(index);
        }
        Ok(())
    }

    fn signal_programs(&self, signal: Signal) {
        for child in self.children.iter().filter(|child| child.is_alive) {
            // It may have ended just now.
            let _ = process::kill_group(child.pid, signal);
        }
    }

    fn look_for_readiness(&mut self) {
        if self.unready.iter().all(|index| self.children[*index].is_ready()) {
            let ready = std::mem::take(&mut self.unready);
            let pids = ready.into_iter().map(|index| self.children[index].pid).collect();
            self.report(FromAgent::ProgramsReady { pids });
        }
    }

    fn stop(self) {
        if let Some(group) = &self.control_group {
            remove_control_group(group);
        }
        self.signal_programs(Signal::TERM);
        if !none_left_within(TERM_WAIT, |_| {}) {
            // A process may fork just before it is killed: repeat until there is none.
            none_left_within(KILL_WAIT, |pid| {
                let _ = process::kill(pid, Signal::KILL);
            });
        }
        if let Some(path) = self.scratch.filter(|_| !self.keep) {
            // It stays in the temporary directory: there is no reader left for an error.
            let _ = fs::remove_dir_all(path);
        }
    }
}

/// Creates a control group. The group must not exist yet, because it is removed later.
fn create_control_group(group: &OwnControlGroup) -> Result<(), String> {
    let path = group.dir.display();
    lend_cpu(group, '+')
        .map_err(|error| format!("cannot give CPU quotas to the control group {path}: {error}"))?;
    fs::create_dir(&group.dir).map_err(|error| {
        // The error that counts is the other one.
        let _ = lend_cpu(group, '-');
        format!("cannot create the control group {path}: {error}")
    })
}

/// Has the parent of `group` pass CPU quotas on, or no longer, where it did not before.
fn lend_cpu(group: &OwnControlGroup, sign: char) -> io::Result<()> {
    let parent = group.dir.parent().filter(|_| group.lend_cpu);
    parent.map_or(Ok(()), |parent| {
        output_file::write_setting(&parent.join("cgroup.subtree_control"), &format!("{sign}cpu"))
    })
}

/// Moves the processes of a control group to where they came from, and removes it and the groups in it; what its parent
/// passes on is as before.
fn remove_control_group(group: &OwnControlGroup) {
    let deadline = Instant::now() + GROUP_WAIT;
    loop {
        let inner = fs::read_dir(&group.dir).into_iter().flatten().flatten();
        let inner = inner.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut dirs: Vec<PathBuf> = inner.map(|entry| entry.path()).collect();
        dirs.push(group.dir.clone());
        for dir in dirs {
            for pid in fs::read_to_string(dir.join(PROCESSES)).unwrap_or_default().lines() {
                // It may have ended just now.
                let _ = output_file::write_setting(&group.home.join(PROCESSES), pid);
            }
            let _ = fs::remove_dir(&dir);
        }
        if !group.dir.exists() || Instant::now() > deadline {
            // Refused where another group has come to need it.
            let _ = lend_cpu(group, '-');
            return;
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Calls `each` with every descendant again and again until none is left; `false` when some are
/// left after `wait`.
fn none_left_within(wait: Duration, each: impl Fn(u32)) -> bool {
    let deadline = Instant::now() + wait;
    loop {
        process::reap_all();
        match process::descendants() {
            Ok(left) if left.is_empty() => return true,
            Ok(left) => left.into_iter().for_each(&each),
            // Without a process table nothing can be found; the kernel kills our children with us.
            Err(_) => return false,
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(LOOK_AGAIN);
    }
}
