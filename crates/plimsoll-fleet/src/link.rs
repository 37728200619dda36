//! The coordinator's end of one agent: its process, the pipes to it and the threads on them.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

use plimsoll_model::Nanos;
use plimsoll_sys::process::{Group, Signal, Ties};
use plimsoll_sys::{clock, process};

use crate::error::FleetError;
use crate::frame;
use crate::frame::FrameError;
use crate::message::{ExitReason, FromAgent, ToAgent};
use crate::tail::Tail;

/// How often a process is polled, whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Timeout of a process's exit after it closed its output.
const END_WAIT: Duration = Duration::from_millis(500);
/// An agent's last output in an error message is cut to this many characters.
const OUTPUT_CHARS_MAX: usize = 400;

/// The command that starts an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl AgentCommand {
    /// The subcommand `agent` of this program.
    pub fn this_program() -> Self {
        Self { program: process::own_executable(), arguments: vec!["agent".into()] }
    }
}

/// What comes out of the thread that reads an agent's output.
#[derive(Debug)]
pub(crate) enum Received {
    /// An encoded frame: the histograms of a second have some kilobytes, and a megabyte decoded;
    /// a hundred agents send theirs at the same instant.
    Payload(Vec<u8>),
    /// See [`LinkEvent::Closed`].
    Closed(Option<FrameError>),
}

impl From<Received> for LinkEvent {
    fn from(received: Received) -> Self {
        match received {
            Received::Payload(payload) => match frame::decode(&payload) {
                Ok(message) => Self::Frame(Box::new(message)),
                Err(error) => Self::Closed(Some(error)),
            },
            Received::Closed(error) => Self::Closed(error),
        }
    }
}

/// An event on an agent's output.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    Frame(Box<FromAgent>),
    /// The output ended or could not be decoded. It is the last event.
    Closed(Option<FrameError>),
}

/// One agent. Dropping it kills the process; ask it to exit first.
#[derive(Debug)]
pub(crate) struct Link {
    /// Distinguishes this agent's events from those of an agent that it replaced.
    pub(crate) id: u64,
    /// Its name in messages.
    pub(crate) name: String,
    child: Child,
    is_session_leader: bool,
    /// `None` once nothing more will be sent.
    frames: Option<Sender<Vec<u8>>>,
    stderr: Tail,
    /// When its last frame was received, in nanoseconds of CLOCK_MONOTONIC.
    last_frame_ns: Arc<AtomicU64>,
    ended: Option<ExitReason>,
}

impl Link {
    /// Starts an agent; its events are sent to `events` with `id`.
    pub(crate) fn start(
        id: u64,
        name: String,
        command: &AgentCommand,
        ties: &Ties,
        events: Sender<(u64, Received)>,
    ) -> Result<Self, FleetError> {
        let context = |source| FleetError::Start { name: name.clone(), source };
        let mut start = Command::new(&command.program);
        start
            .arg0("plimsoll")
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = process::spawn(start, ties).map_err(context)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(context(io::ErrorKind::BrokenPipe.into()));
        };
        let (frames, outbox) = mpsc::channel();
        let _writer = thread::Builder::new()
            .name("link-out".to_owned())
            .spawn(move || write_frames(outbox, stdin))
            .map_err(context)?;
        let last_frame_ns = Arc::new(AtomicU64::new(clock::monotonic_ns()));
        let last_frame = Arc::clone(&last_frame_ns);
        let _reader = thread::Builder::new()
            .name("link-in".to_owned())
            .spawn(move || read_frames(id, stdout, &last_frame, &events))
            .map_err(context)?;
        let stderr = Tail::follow(stderr).map_err(context)?;
        let is_session_leader = ties.group == Group::Session;
        let frames = Some(frames);
        Ok(Self { id, name, child, is_session_leader, frames, stderr, last_frame_ns, ended: None })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// When its last frame was received, handled or not.
    pub(crate) fn last_frame_at(&self) -> Nanos {
        Nanos(self.last_frame_ns.load(Ordering::Relaxed))
    }

    /// Sends `command` to the agent; never waits for it. The end of an agent is reported as
    /// [`LinkEvent::Closed`], not here.
    pub(crate) fn send(&self, command: &ToAgent) -> Result<(), FleetError> {
        let frame = frame::encode(command)?;
        if let Some(frames) = &self.frames {
            let _ = frames.send(frame);
        }
        Ok(())
    }

    /// Asks the agent to end, without waiting.
    pub(crate) fn ask_to_exit(&mut self) {
        // Exit is far below the bound of a frame; the end of the input has the same effect.
        let _ = self.send(&ToAgent::Exit);
        self.frames = None;
    }

    /// Waits until `deadline` for the agent to end, then kills it. Afterwards it is gone, and
    /// whatever was left in its session with it.
    pub(crate) fn end_by(&mut self, deadline: Instant) -> ExitReason {
        if let Some(reason) = self.ended {
            return reason;
        }
        while !process::has_ended(self.pid()) && Instant::now() < deadline {
            thread::sleep(LOOK_AGAIN);
        }
        // Without effect on a process that has ended and wasn't reaped.
        let _ = process::kill(self.pid(), Signal::KILL);
        if self.is_session_leader {
            while !process::has_ended(self.pid()) {
                thread::sleep(LOOK_AGAIN);
            }
            // Its number, and so the session's, stays in use until it is reaped below.
            for pid in process::session_members(self.pid()).unwrap_or_default() {
                let _ = process::kill(pid, Signal::KILL);
            }
        }
        let reason = self.child.wait().map_or(ExitReason::Code(-1), ExitReason::from);
        self.ended = Some(reason);
        reason
    }

    /// Kills the agent.
    pub(crate) fn kill(&mut self) {
        self.end_by(Instant::now());
    }

    /// How an agent ended that closed its output: completes *agent 2 …*.
    pub(crate) fn how_it_ended(&mut self, error: Option<FrameError>) -> String {
        let reason = self.end_by(Instant::now() + END_WAIT);
        let mut text = match error {
            Some(error) => format!("sent data that cannot be decoded: {error}"),
            None => format!("ended unexpectedly: {reason}"),
        };
        let words = self.stderr.text(END_WAIT);
        if !words.is_empty() {
            text += "; its last output: ";
            text += &last_words(&words);
        }
        text
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.kill();
    }
}

fn write_frames(outbox: mpsc::Receiver<Vec<u8>>, mut stdin: impl Write) {
    for frame in outbox {
        if stdin.write_all(&frame).and_then(|()| stdin.flush()).is_err() {
            // The agent has ended; the end of its output reports that.
            return;
        }
    }
}

fn read_frames(
    id: u64,
    mut stdout: impl Read,
    last_frame_ns: &AtomicU64,
    events: &Sender<(u64, Received)>,
) {
    loop {
        let received = match frame::read_payload(&mut stdout) {
            Ok(Some(payload)) => Received::Payload(payload),
            Ok(None) => Received::Closed(None),
            Err(error) => Received::Closed(Some(error)),
        };
        last_frame_ns.store(clock::monotonic_ns(), Ordering::Relaxed);
        let is_last = matches!(received, Received::Closed(_));
        if events.send((id, received)).is_err() || is_last {
            return;
        }
    }
}

/// One line of at most [`OUTPUT_CHARS_MAX`] characters, the last ones.
fn last_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let surplus = line.chars().count().saturating_sub(OUTPUT_CHARS_MAX);
    line.chars().skip(surplus).collect()
}
