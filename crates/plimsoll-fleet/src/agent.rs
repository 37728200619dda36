//! The agent's side: one thread reads commands, an executor carries them out, another thread writes
//! events.
//!
//! An agent never outlives its coordinator: when its input ends, it stops at once.

use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{process, thread};

use plimsoll_sys::limits;

use crate::error::FleetError;
use crate::frame::FrameError;
use crate::message::{AgentFault, FromAgent, SupervisorPlan, ToAgent, VERSION};
use crate::programs::Programs;
use crate::{frame, programs};

/// How much of the second in which an agent must end is left for this, after the events were
/// flushed.
const STOP_WAIT: Duration = Duration::from_millis(600);
/// The longest wait for a coordinator to read the last events.
const FLUSH_WAIT: Duration = Duration::from_millis(300);

/// Carries out a coordinator's commands: the interface between the fleet and what makes load or
/// serves.
///
/// # Contract
///
/// - `Prepare` is answered by `Ready` or `Failed`. After it, the load ends with exactly one
///   `LoadEnded` or `Failed`, also when `Stop` comes before `Start`. Then the next `Prepare` may
///   come.
/// - Intervals of a load have strictly ascending seconds. Over all of them,
///   `scheduled = ok + errors + unsent` once `LoadEnded` was sent.
/// - `Stop` without a load does nothing: it may cross `LoadEnded` on the way.
/// - `Steer` comes between `Start` and the end of a hold, and is answered by `Steered` with its
///   number, after the intervals in which it was carried out.
/// - `Serve` is answered by `Listening` or `Failed`, `Count` by `ServeCounters` while it serves.
/// - `Supervise` and `Exit` never arrive here.
pub trait Executor: Send + 'static {
    /// Begins to carry out `command` and returns at once: the work belongs on other threads, which
    /// report through clones of `events`.
    fn handle(&mut self, command: ToAgent, events: &Sender<FromAgent>);

    /// Stops everything; no more events are read. Returns within half a second.
    fn stop_now(&mut self);
}

/// What the agent's loop waits for.
enum Input {
    Command(ToAgent),
    Closed(Option<FrameError>),
}

/// Runs an agent until it receives the exit command or its input ends. Returns within a second of that (a
/// supervisor: within five); the caller then ends the process, and with it any thread that hangs.
///
/// Raises this process's descriptor limit as far as it goes.
pub fn run(
    executor: impl Executor,
    stdin: impl Read + Send + 'static,
    stdout: impl Write + Send + 'static,
) -> Result<(), FleetError> {
    let (events, outbox) = mpsc::channel();
    let (inputs, inbox) = mpsc::channel();
    let (closing, closed) = mpsc::channel();
    let supervises = Arc::new(AtomicBool::new(false));
    let hello = FromAgent::Hello {
        version: VERSION.to_owned(),
        pid: process::id(),
        descriptors_max: limits::raise_descriptor_limit(),
    };
    // The receiver is alive: it is in `outbox`.
    let _ = events.send(hello);

    let (written, flushed) = mpsc::channel();
    let writer_inputs = inputs.clone();
    let writer_closing = closing.clone();
    start("agent-out", move || {
        if write_events(&outbox, stdout).is_err() {
            // The coordinator does not read any more: there is nothing left to do.
            let _ = writer_inputs.send(Input::Closed(None));
            let _ = writer_closing.send(());
        }
        let _ = written.send(());
    })?;
    let reader_closing = closing.clone();
    start("agent-in", move || {
        read_commands(stdin, &inputs);
        let _ = reader_closing.send(());
    })?;
    let (end, ended) = mpsc::channel();
    let is_supervising = supervises.clone();
    start("agent", move || {
        let worker = Worker { executor, events, programs: None, is_supervising };
        let result = worker.run(&inbox);
        let _ = end.send(result);
        let _ = closing.send(());
    })?;

    // Received when the input ends, when the output fails, or when the worker is done.
    let _ = closed.recv();
    let stop_wait = if supervises.load(Ordering::Acquire) {
        programs::STOP_WAIT + STOP_WAIT
    } else {
        STOP_WAIT
    };
    let result = ended.recv_timeout(stop_wait).unwrap_or_else(|_| {
        Err(FleetError::Slow { agent: "this agent".to_owned(), what: "stop", waited: stop_wait })
    });
    let _ = flushed.recv_timeout(FLUSH_WAIT);
    result
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), FleetError> {
    match thread::Builder::new().name(name.to_owned()).spawn(work) {
        Ok(_detached) => Ok(()),
        Err(source) => Err(FleetError::Start { name: format!("the thread {name}"), source }),
    }
}

fn write_events(outbox: &Receiver<FromAgent>, mut stdout: impl Write) -> Result<(), FrameError> {
    outbox.iter().try_for_each(|event| frame::write(&mut stdout, &event))
}

fn read_commands(mut stdin: impl Read, inputs: &Sender<Input>) {
    loop {
        let input = match frame::read(&mut stdin) {
            Ok(Some(command)) => Input::Command(command),
            Ok(None) => Input::Closed(None),
            Err(error) => Input::Closed(Some(error)),
        };
        let is_last = matches!(input, Input::Closed(_) | Input::Command(ToAgent::Exit));
        if inputs.send(input).is_err() || is_last {
            return;
        }
    }
}

/// The agent's loop.
struct Worker<E> {
    executor: E,
    events: Sender<FromAgent>,
    programs: Option<Programs>,
    /// Lets the main thread wait longer for the stop.
    is_supervising: Arc<AtomicBool>,
}

impl<E: Executor> Worker<E> {
    fn run(mut self, inbox: &Receiver<Input>) -> Result<(), FleetError> {
        let result = loop {
            match inbox.recv() {
                Ok(Input::Command(ToAgent::Exit) | Input::Closed(None)) | Err(_) => break Ok(()),
                Ok(Input::Closed(Some(error))) => break Err(error.into()),
                Ok(Input::Command(ToAgent::Supervise(plan))) => self.handle_programs(*plan),
                Ok(Input::Command(command)) => self.executor.handle(command, &self.events),
            }
        };
        self.executor.stop_now();
        if let Some(programs) = self.programs.take() {
            programs.stop();
        }
        result
    }

    fn handle_programs(&mut self, plan: SupervisorPlan) {
        let programs = match self.programs.take() {
            Some(programs) => Ok(programs),
            None => Programs::start(self.events.clone()),
        };
        match programs {
            Ok(programs) => {
                self.is_supervising.store(true, Ordering::Release);
                programs.handle_plan(plan);
                self.programs = Some(programs);
            }
            Err(error) => {
                let message = format!("cannot supervise other programs: {error}");
                let failed = FromAgent::Failed { fault: AgentFault::Host, message };
                let _ = self.events.send(failed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::io::{PipeReader, PipeWriter};
    use std::thread::JoinHandle;

    use plimsoll_model::Nanos;

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
        run: JoinHandle<Result<(), FleetError>>,
    }

    fn agent(hangs: bool) -> Harness {
        let (stdin, commands) = io::pipe().unwrap();
        let (events, stdout) = io::pipe().unwrap();
        let (sender, stopped) = mpsc::channel();
        let run = thread::spawn(move || run(Echo { stopped: sender, hangs }, stdin, stdout));
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
        assert!(matches!(result, Err(FleetError::Frame(FrameError::NotFrames { .. }))));
        agent.stopped.recv().unwrap();
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
