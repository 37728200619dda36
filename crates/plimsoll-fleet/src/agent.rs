//! The agent's side: one thread reads commands, an executor carries them out, another thread writes
//! events.
//!
//! An agent never outlives its coordinator: when its input ends, it stops at once. On another host its input
//! may stay open for minutes after the path has failed: there it also stops when it hears nothing.

use std::io;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{process, thread};

use plimsoll_model::Nanos;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::target::BodyStore;
use plimsoll_sys::thread::spawn;
use plimsoll_sys::{clock, limits};

use crate::bodies::ReceivedBodies;
use crate::error::{FleetError, Result};
use crate::frame::Content;
use crate::message::{AgentFault, FromAgent, Machine, ToAgent, VERSION};
use crate::{frame, programs};

/// Part of the second in which an agent must end that is left for this, after the events were
/// flushed.
const STOP_WAIT: Duration = Duration::from_millis(600);
/// The longest wait for a coordinator to read the last events.
pub(crate) const FLUSH_WAIT: Duration = Duration::from_millis(300);

/// The most time for the end of a server under test.
pub const SUT_STOP_WAIT: Duration = programs::STOP_WAIT;

/// Period of checking whether the coordinator was heard.
const LEASE_CHECKS: Duration = Duration::from_millis(200);

/// Carries out a coordinator's commands: the interface between the fleet and what makes load or
/// serves.
///
/// # Contract
///
/// - `Survey` is answered by `Surveyed`, between loads.
/// - After `Watch`, a `Reading` comes once a second, until the agent ends.
/// - `Prepare` is answered by `Ready` or `Failed`. After it, the load ends with exactly one
///   `Ended` or `Failed`, also when `Stop` comes before `Start`. Then the next `Prepare` may
///   come.
/// - Intervals of a load have strictly ascending seconds. Over all of them,
///   `scheduled = ok + errors + unsent` once `Ended` was sent.
/// - `Stop` without a load does nothing: it may cross `Ended` on the way.
/// - `Steer` comes between `Start` and the end of a hold, and is answered by `Steered` with its
///   number, after the intervals in which it was carried out.
/// - `Serve` is answered by `Listening` or `Failed`, `Count` by `ServeCounters` while it serves.
/// - `StartSut` is answered by `SutStarted` or `Failed`, `CountSut` by `SutStatus` once it runs.
/// - `Bodies`, `Ping`, `Go` and `Exit` never arrive here: the bodies are in the plan.
pub trait Executor: Send + 'static {
    /// Begins to carry out `command` and returns at once: the work belongs on other threads, which
    /// report through clones of `events`.
    fn handle(&mut self, command: ToAgent, events: &Sender<FromAgent>);

    /// Stops everything; no more events are read. Returns within half a second; with a server under test, which has
    /// programs of its own to end, within [`SUT_STOP_WAIT`].
    fn stop_now(&mut self);
}

/// The input of the agent's loop.
enum Input {
    Command(ToAgent),
    /// The large bodies of the next plan, or why they are not here.
    Bodies(io::Result<Arc<dyn BodyStore>>),
    Stop,
}

/// Runs an agent until it receives the exit command, its input ends, or it hears nothing for `lease`. Returns
/// within a second of that (with a server under test: within five); the caller then ends the process, and with it any
/// thread that hangs.
///
/// Raises this process's descriptor limit as far as it goes.
pub fn run(
    executor: impl Executor,
    stdin: impl Read + Send + 'static,
    stdout: impl Write + Send + 'static,
    lease: Option<Duration>,
) -> Result<()> {
    let (events, outbox) = mpsc::channel();
    let (inputs, inbox) = mpsc::channel();
    let (closing, closed) = mpsc::channel();
    let runs_sut = Arc::new(AtomicBool::new(false));
    // The receiver is alive: it is in `outbox`.
    let _ = events.send(hello());

    let flushed = start_writer("agent-out", outbox, stdout, closing.clone())?;
    let heard = Arc::new(AtomicU64::new(clock::monotonic_ns()));
    if let Some(lease) = lease {
        let (heard, closing) = (Arc::clone(&heard), closing.clone());
        start("agent-lease", move || {
            await_silence(&heard, lease);
            let _ = closing.send(Err(FleetError::Silence { lease }));
        })?;
    }
    let (pongs, commands) = (events.clone(), inputs.clone());
    start("agent-in", move || {
        let read = read_commands(stdin, lease.is_some(), &commands, &pongs, &heard);
        let _ = closing.send(read);
    })?;
    let (end, ended) = mpsc::channel();
    let worker_runs_sut = runs_sut.clone();
    start("agent", move || {
        let (runs_sut, is_remote) = (worker_runs_sut, lease.is_some());
        let worker = Worker { executor, events, runs_sut, is_remote, armed: None, bodies: None };
        worker.run(&inbox);
        let _ = end.send(());
    })?;

    // Received when the input ends, when nothing is heard, or when the output fails.
    let result = closed.recv().unwrap_or(Ok(()));
    let _ = inputs.send(Input::Stop);
    let stop_wait =
        if runs_sut.load(Ordering::Acquire) { programs::STOP_WAIT + STOP_WAIT } else { STOP_WAIT };
    let stopped = ended.recv_timeout(stop_wait).map_err(|_| {
        let agent = "this agent".to_owned();
        FleetError::Slow { agent, what: "stop", waited: stop_wait }
    });
    let _ = flushed.recv_timeout(FLUSH_WAIT);
    stopped.and(result)
}

/// Makes the first message of this process.
pub(crate) fn hello() -> FromAgent {
    FromAgent::Hello {
        version: VERSION.to_owned(),
        pid: process::id(),
        descriptors_max: limits::raise_descriptor_limit(),
        machine: Machine::here(),
    }
}

pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = spawn(name, None, work).map(drop);
    started.map_err(|source| FleetError::Start { name: format!("the thread {name}"), source })
}

/// Starts the thread that writes the events of `outbox`. Sends to `closing` when the coordinator does not read any
/// more; the receiver gets the end of the thread.
pub(crate) fn start_writer(
    name: &str,
    outbox: Receiver<FromAgent>,
    mut stdout: impl Write + Send + 'static,
    closing: Sender<Result<()>>,
) -> Result<Receiver<()>> {
    let (written, flushed) = mpsc::channel();
    start(name, move || {
        if outbox.iter().try_for_each(|event| frame::write(&mut stdout, &event)).is_err() {
            // There is nothing left to do.
            let _ = closing.send(Ok(()));
        }
        let _ = written.send(());
    })?;
    Ok(flushed)
}

/// Returns when nothing was heard for `lease`. The time that this host was suspended for does not count.
fn await_silence(heard: &AtomicU64, lease: Duration) {
    loop {
        thread::sleep(LEASE_CHECKS.min(lease));
        let silence = clock::monotonic_ns().saturating_sub(heard.load(Ordering::Relaxed));
        if Duration::from_nanos(silence) > lease {
            return;
        }
    }
}

/// An input that notes when something arrives: a large plan may be on its way for long.
struct Heard<'a, R> {
    stdin: R,
    at_ns: &'a AtomicU64,
}

impl<R: Read> Read for Heard<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stdin.read(buffer);
        self.at_ns.store(clock::monotonic_ns(), Ordering::Relaxed);
        read
    }
}

fn read_commands(
    stdin: impl Read,
    is_remote: bool,
    inputs: &Sender<Input>,
    events: &Sender<FromAgent>,
    heard_at_ns: &AtomicU64,
) -> Result<()> {
    let mut stdin = Heard { stdin, at_ns: heard_at_ns };
    let mut bodies = ReceivedBodies::new(is_remote);
    loop {
        let read = frame::read_any(&mut stdin)?;
        let arrived = Nanos(clock::monotonic_ns());
        let input = match read {
            Some(Content::Raw(part)) => bodies.add(&part).transpose().map(Input::Bodies),
            Some(Content::Message(ToAgent::Bodies { number, bytes, from })) => {
                bodies.open(number, bytes, from).transpose().map(Input::Bodies)
            }
            Some(Content::Message(ToAgent::Ping { sent })) => {
                let answered = Nanos(clock::monotonic_ns());
                // Sending fails once the worker has ended.
                let _ = events.send(FromAgent::Pong { sent, arrived, answered });
                None
            }
            Some(Content::Message(ToAgent::Exit)) | None => return Ok(()),
            Some(Content::Message(command)) => Some(Input::Command(command)),
        };
        if let Some(input) = input
            && inputs.send(input).is_err()
        {
            // The worker has failed.
            return Ok(());
        }
    }
}

/// The agent's loop.
struct Worker<E> {
    executor: E,
    events: Sender<FromAgent>,
    /// Lets the main thread wait longer for the stop.
    runs_sut: Arc<AtomicBool>,
    /// The coordinator is on another host.
    is_remote: bool,
    /// Start of the load. It applies once the coordinator confirms that all agents know it.
    armed: Option<Nanos>,
    /// The large bodies of the last plan that has some, or why they are not here.
    bodies: Option<io::Result<Arc<dyn BodyStore>>>,
}

impl<E: Executor> Worker<E> {
    fn run(mut self, inbox: &Receiver<Input>) {
        loop {
            match inbox.recv() {
                Ok(Input::Command(command)) => self.handle_command(command),
                Ok(Input::Bodies(bodies)) => self.bodies = Some(bodies),
                Ok(Input::Stop) | Err(_) => break,
            }
        }
        self.executor.stop_now();
    }

    /// Gives the plan its large bodies; an error says why they are not here.
    fn attach_bodies(&self, plan: &mut LoadPlan) -> Result<(), String> {
        let cannot =
            |why: &dyn std::fmt::Display| format!("cannot store the request bodies: {why}");
        match &self.bodies {
            Some(Ok(store)) if plan.attach_bodies(Some(store)) => Ok(()),
            None if plan.attach_bodies(None) => Ok(()),
            Some(Err(error)) => Err(cannot(error)),
            Some(Ok(_)) | None => Err(cannot(&"they were not sent")),
        }
    }

    fn handle_command(&mut self, mut command: ToAgent) {
        let now = Nanos(clock::monotonic_ns());
        if let ToAgent::Prepare(plan) = &mut command
            && let Err(message) = self.attach_bodies(plan)
        {
            let _ = self.events.send(FromAgent::Failed { fault: AgentFault::Host, message });
            return;
        }
        match command {
            ToAgent::Start { epoch_monotonic } if self.is_remote => {
                self.armed = Some(epoch_monotonic);
                let _ = self.events.send(FromAgent::Armed { margin: epoch_monotonic.since(now) });
            }
            ToAgent::Go => match self.armed.take() {
                Some(epoch_monotonic) if now < epoch_monotonic => {
                    self.executor.handle(ToAgent::Start { epoch_monotonic }, &self.events);
                }
                // What is due already would all be sent at once.
                armed => {
                    let late = now.since(armed.unwrap_or(now)).as_millis_f64().ceil();
                    let message = format!("the order to start came {late} ms after the start");
                    let failed = FromAgent::Failed { fault: AgentFault::Host, message };
                    let _ = self.events.send(failed);
                }
            },
            other => {
                if matches!(other, ToAgent::StartSut(_)) {
                    // It has programs of its own to end.
                    self.runs_sut.store(true, Ordering::Release);
                }
                self.executor.handle(other, &self.events);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{PipeReader, PipeWriter};
    use std::thread::JoinHandle;

    use super::*;

    /// Reports each command, and when it was stopped.
    struct Echo {
        stopped: Sender<()>,
        hangs: bool,
    }

    impl Executor for Echo {
        fn handle(&mut self, command: ToAgent, events: &Sender<FromAgent>) {
            let message = format!("{command:?}");
            // The way out may be closed already.
            let _ = events.send(FromAgent::Failed { fault: AgentFault::Usage, message });
            if self.hangs {
                loop {
                    thread::park();
                }
            }
        }

        fn stop_now(&mut self) {
            self.stopped.send(()).unwrap();
        }
    }

    struct Harness {
        commands: PipeWriter,
        events: PipeReader,
        stopped: Receiver<()>,
        run: JoinHandle<Result<()>>,
    }

    fn agent(hangs: bool) -> Harness {
        leased(hangs, None)
    }

    fn leased(hangs: bool, lease: Option<Duration>) -> Harness {
        let (stdin, commands) = io::pipe().unwrap();
        let (events, stdout) = io::pipe().unwrap();
        let (sender, stopped) = mpsc::channel();
        let run = thread::spawn(move || run(Echo { stopped: sender, hangs }, stdin, stdout, lease));
        Harness { commands, events, stopped, run }
    }

    fn next(events: &PipeReader) -> Option<FromAgent> {
        frame::read(events).unwrap()
    }

    #[test]
    fn commands_reach_the_executor_and_events_the_coordinator() {
        let agent = agent(false);
        let hello = next(&agent.events);
        assert!(matches!(hello, Some(FromAgent::Hello { version, .. }) if version == VERSION));
        let stop = ToAgent::Stop { grace: Nanos(7) };
        frame::write(&agent.commands, &stop).unwrap();
        let echoed = next(&agent.events);
        assert!(
            matches!(&echoed, Some(FromAgent::Failed { message, .. })
                if *message == format!("{stop:?}")),
            "{echoed:?}"
        );
        frame::write(&agent.commands, &ToAgent::Exit).unwrap();
        agent.run.join().unwrap().unwrap();
        agent.stopped.recv().unwrap();
        assert_eq!(next(&agent.events), None);
    }

    #[test]
    fn the_end_of_the_input_stops_the_executor() {
        let agent = agent(false);
        drop(agent.commands);
        agent.run.join().unwrap().unwrap();
        agent.stopped.recv().unwrap();
    }

    #[test]
    fn garbage_stops_the_executor_and_is_an_error() {
        let mut agent = agent(false);
        agent.commands.write_all(b"what's this?").unwrap();
        let result = agent.run.join().unwrap();
        assert!(matches!(result, Err(FleetError::Frame(frame::FrameError::NotFrames { .. }))));
        agent.stopped.recv().unwrap();
    }

    #[test]
    fn silence_ends_an_agent_that_has_a_lease() {
        let agent = leased(false, Some(Duration::from_millis(50)));
        let _hello = next(&agent.events);
        // Its input stays open.
        let result = agent.run.join().unwrap();
        assert!(matches!(result, Err(FleetError::Silence { .. })), "{result:?}");
        agent.stopped.recv().unwrap();
        drop(agent.commands);
    }

    #[test]
    fn a_start_from_another_host_waits_for_its_word_and_is_refused_when_that_is_late() {
        let agent = leased(false, Some(Duration::from_secs(3600)));
        let _hello = next(&agent.events);
        for (epoch, says) in [(0, "after the start"), (u64::MAX, "Start { ")] {
            let start = ToAgent::Start { epoch_monotonic: Nanos(epoch) };
            frame::write(&agent.commands, &start).unwrap();
            let answer = next(&agent.events);
            let is_ahead = epoch > 0;
            assert!(
                matches!(&answer, Some(FromAgent::Armed { margin }) if (*margin > Nanos::ZERO) == is_ahead),
                "{answer:?}"
            );
            frame::write(&agent.commands, &ToAgent::Go).unwrap();
            let answer = next(&agent.events);
            assert!(
                matches!(&answer, Some(FromAgent::Failed { message, .. }) if message.contains(says)),
                "{answer:?}"
            );
        }
        drop(agent.commands);
        agent.run.join().unwrap().unwrap();
    }

    #[test]
    fn pings_are_answered_with_the_times_of_this_host() {
        let agent = leased(false, Some(Duration::from_secs(3600)));
        let _hello = next(&agent.events);
        let before = clock::monotonic_ns();
        frame::write(&agent.commands, &ToAgent::Ping { sent: Nanos(7) }).unwrap();
        let pong = next(&agent.events);
        let Some(FromAgent::Pong { sent: Nanos(7), arrived, answered }) = pong else {
            panic!("{pong:?}")
        };
        assert!(before <= arrived.0 && arrived <= answered);
        assert!(answered.0 <= clock::monotonic_ns());
        drop(agent.commands);
        agent.run.join().unwrap().unwrap();
    }

    #[test]
    fn an_executor_that_hangs_does_not_keep_the_agent() {
        let agent = agent(true);
        let _hello = next(&agent.events);
        frame::write(&agent.commands, &ToAgent::Stop { grace: Nanos(7) }).unwrap();
        let _echo = next(&agent.events);
        drop(agent.commands);
        assert!(matches!(agent.run.join().unwrap(), Err(FleetError::Slow { .. })));
        assert!(agent.stopped.try_recv().is_err());
    }

    #[test]
    fn a_coordinator_that_reads_no_more_ends_the_agent() {
        let agent = agent(false);
        drop(agent.events);
        // The answer to this cannot be written, if the greeting could.
        let _ = frame::write(&agent.commands, &ToAgent::Stop { grace: Nanos(7) });
        agent.run.join().unwrap().unwrap();
        agent.stopped.recv().unwrap();
    }
}
