//! The coordinator's end of one agent: its process, the pipes to it and the threads on them.
//!
//! An agent on another host is reached through one more process, such as ssh: the output before its frames is read and
//! removed, and pings keep the link alive and compare the clocks.

mod reader;

use std::collections::hash_map::RandomState;
use std::ffi::OsString;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};
use std::{env, fmt, fs, io, thread};

use plimsoll_model::Nanos;
use plimsoll_model::host::Reading;
use plimsoll_model::target::BodyStore;
use plimsoll_sys::process::{Group, Signal, Ties};
use plimsoll_sys::thread::{lock, spawn as spawn_thread};
use plimsoll_sys::{clock, process};

use crate::bodies::SentBodies;
use crate::error::{FleetError, Result};
use crate::frame;
use crate::frame::FrameError;
use crate::hosts::clock::{HostClock, SAMPLES_NEEDED, Sample};
use crate::hosts::{HostName, Launcher, Program, explained, is_dropped, script};
use crate::inbox::Waiting;
use crate::joined::{Gate, Wire};
use crate::message::{BodiesFrom, ExitReason, FromAgent, ToAgent, ToSupervisor};
use crate::tail::Tail;

use reader::{HostReader, Reader};

/// Period of checking whether a process has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// Timeout of a process's exit after it closed its output.
const END_WAIT: Duration = Duration::from_millis(500);
/// An agent's last output in an error message is cut to this many characters.
const OUTPUT_CHARS_MAX: usize = 400;
/// From one ping to the next, and of the first ones, which compare the clocks before a load.
const PING_EVERY: Duration = Duration::from_secs(1);
const FIRST_PINGS_EVERY: Duration = Duration::from_millis(5);
/// Time for which an agent on another host continues without a message of the coordinator, which sends one per second.
const LEASE: Duration = Duration::from_secs(10);
/// Silence of an agent's host that is allowed beyond the lease: an agent that is given up has stopped before.
const AFTER_LEASE: Duration = Duration::from_secs(5);
/// Timeout of another host's first message.
const OPENING_WAIT: Duration = Duration::from_secs(30);

/// The command that starts an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentCommand {
    /// The program.
    pub program: PathBuf,
    /// Arguments of the command.
    pub arguments: Vec<OsString>,
}

impl AgentCommand {
    /// Returns the subcommand `agent` of this program.
    pub fn this_program() -> Self {
        Self { program: process::own_executable(), arguments: vec!["agent".into()] }
    }

    /// Creates the command of a supervisor: see [`crate::supervise`].
    pub fn supervisor() -> Self {
        let arguments = ["agent", "--supervise"].map(OsString::from).to_vec();
        Self { program: process::own_executable(), arguments }
    }
}

/// The launch of one agent.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// Name in messages.
    pub(crate) name: String,
    pub(crate) ties: Ties,
    pub(crate) place: AgentPlace,
}

impl Launch {
    /// Returns the host of the agent, if it is another one.
    pub(crate) const fn remote(&self) -> Option<&Arc<Remote>> {
        match &self.place {
            AgentPlace::Here(_) => None,
            AgentPlace::There(remote) => Some(remote),
        }
    }

    /// Reports whether the launch starts with a login on another host.
    pub(crate) fn logs_in(&self) -> bool {
        self.remote().is_some_and(|remote| remote.gate.is_none())
    }

    /// Returns the words for the program, in messages: which one is missing.
    fn words(&self) -> String {
        self.remote().map_or_else(
            || self.name.clone(),
            |remote| format!("{} by {}", self.name, remote.words()[0]),
        )
    }

    /// Returns the agent's first action, completing *did not*.
    pub(crate) fn first_step(&self) -> &'static str {
        let connects = self.remote().is_some_and(|remote| remote.gate.is_some());
        if connects { "connect" } else { "start" }
    }
}

/// The place of an agent.
#[derive(Clone, Debug)]
pub(crate) enum AgentPlace {
    /// A child of this process.
    Here(AgentCommand),
    /// Behind a process that reaches another host.
    There(Arc<Remote>),
}

/// An agent on another host.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) host: HostName,
    /// Number among the hosts, from 0.
    pub(crate) rank: usize,
    pub(crate) launcher: Launcher,
    /// The program there, where the user names it.
    pub(crate) path: Option<String>,
    /// Program that is copied there otherwise.
    pub(crate) program: Program,
    /// Gate to which it connects, when nothing is launched.
    pub(crate) gate: Option<Arc<Gate>>,
}

impl Remote {
    /// Returns program and arguments that reach the host.
    fn words(&self) -> Vec<String> {
        self.launcher.shell_on(&self.host, self.rank)
    }

    /// Returns the timeout of the agent's first message.
    pub(crate) fn opening_wait(&self) -> Duration {
        self.gate.as_ref().map_or(OPENING_WAIT, |gate| gate.within)
    }

    fn command(&self) -> Command {
        let words = self.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let drops = |name: &OsString| name.to_str().is_some_and(|name| self.launcher.drops(name));
        for name in env::vars_os().map(|(name, _)| name).filter(drops) {
            command.env_remove(name);
        }
        command
    }
}

/// The end of an agent's output.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The output was closed.
    Closed,
    /// The bytes are no frame.
    Frame(FrameError),
    /// The host cannot take part; completes *client07 …*.
    Refused(String),
    /// No byte was received for this time.
    Silent(Duration),
}

/// An item from the thread that reads an agent's output.
#[derive(Debug)]
pub(crate) enum Received {
    /// An encoded frame: the histograms of a second have some kilobytes, and a megabyte decoded;
    /// a hundred agents send theirs at the same instant.
    Payload(Waiting),
    /// Output of its host before that.
    Noise(String),
    /// The program is copied to its host.
    Copying,
    /// See [`LinkEvent::Closed`].
    Closed(Ending),
}

impl LinkEvent {
    /// Returns the event in a payload.
    pub(crate) fn decoded(payload: &[u8]) -> Self {
        match frame::decode::<FromAgent>(payload) {
            Ok(message) => Self::Frame(Box::new(message.shortened())),
            Err(error) => Self::Closed(Ending::Frame(error)),
        }
    }
}

/// An event on an agent's output.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    Frame(Box<FromAgent>),
    /// The output ended or could not be decoded. It is the last event.
    Closed(Ending),
}

/// The receiver of readings of other hosts, by the name of the host, with times on the clock here. Called from several
/// threads.
#[derive(Clone)]
pub struct ReadingSink(Arc<TakeReading>);

type TakeReading = dyn Fn(&str, Reading) + Send + Sync;

impl ReadingSink {
    /// Creates a sink that calls `take` for each reading.
    pub fn new(take: impl Fn(&str, Reading) + Send + Sync + 'static) -> Self {
        Self(Arc::new(take))
    }
}

impl fmt::Debug for ReadingSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReadingSink")
    }
}

/// The sink of all links; none until somebody asks for readings.
pub(crate) type Readings = Arc<OnceLock<ReadingSink>>;

/// The state of the far side of a link to another host.
#[derive(Debug)]
struct FarSide {
    remote: Arc<Remote>,
    clock: Arc<Mutex<HostClock>>,
    /// `true` if its agent has answered.
    is_open: Arc<AtomicBool>,
    /// The connection of an agent that has come by itself.
    wire: Arc<OnceLock<Arc<Wire>>>,
}

impl FarSide {
    fn clock(&self) -> HostClock {
        lock(&self.clock).clone()
    }
}

/// Something that is written to an agent.
enum Outgoing {
    Frame(Vec<u8>),
    /// Bodies, which are written as raw frames.
    Bodies(Arc<dyn BodyStore>),
}

/// One agent. Dropping it kills the process; ask it to exit first.
#[derive(Debug)]
pub(crate) struct Link {
    /// Distinguishes this agent's events from those of an agent that it replaced.
    pub(crate) id: u64,
    /// Name in messages.
    pub(crate) name: String,
    /// `None` if the agent connects by itself.
    child: Option<Child>,
    is_session_leader: bool,
    /// `None` once nothing more will be sent.
    frames: Option<Sender<Outgoing>>,
    sent_bodies: Mutex<SentBodies>,
    stderr: Option<Tail>,
    /// Time at which the last frame was received, in nanoseconds of CLOCK_MONOTONIC.
    last_frame_ns: Arc<AtomicU64>,
    /// `None` on this host.
    far: Option<FarSide>,
    ended: Option<ExitReason>,
    /// An sshd dropped the connection before the login, as it does where many come at once.
    pub(crate) was_dropped: bool,
}

impl Link {
    /// Starts an agent; its events are sent to `events` with `id`, and what its host does, if it is another one, to
    /// `readings`.
    pub(crate) fn start(
        id: u64,
        launch: &Launch,
        events: Sender<(u64, Received)>,
        readings: &Readings,
    ) -> Result<Self> {
        let name = launch.name.clone();
        if let Some(remote) = launch.remote()
            && let Some(gate) = &remote.gate
        {
            return Self::await_join(id, name.clone(), remote, gate, events, readings)
                .map_err(|source| FleetError::Start { name, source });
        }
        let context = |source| FleetError::Start { name: launch.words(), source };
        let mut start = match &launch.place {
            AgentPlace::Here(command) => {
                let mut start = Command::new(&command.program);
                start.arg0("plimsoll").args(&command.arguments);
                start
            }
            AgentPlace::There(remote) => remote.command(),
        };
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = process::spawn(start, &launch.ties).map_err(context)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(context(io::ErrorKind::BrokenPipe.into()));
        };
        let (frames, outbox) = mpsc::channel();
        let last_frame_ns = Arc::new(AtomicU64::new(clock::monotonic_ns()));
        let mut reader =
            Reader { id, stdout, last_frame_ns: Arc::clone(&last_frame_ns), host: None, events };
        let far = match &launch.place {
            AgentPlace::Here(_) => {
                run("link-out", move || write_frames(&outbox, stdin, false)).map_err(context)?;
                run("link-in", move || reader.read_frames()).map_err(context)?;
                None
            }
            AgentPlace::There(remote) => {
                let nonce = format!("{:016x}", RandomState::new().build_hasher().finish());
                let script = script(&remote.program, remote.path.as_deref(), &nonce, LEASE);
                let (steps, next_steps) = mpsc::channel();
                let clock = Arc::new(Mutex::new(HostClock::default()));
                reader.host = Some(HostReader {
                    name: name.clone(),
                    clock: Arc::clone(&clock),
                    readings: Arc::clone(readings),
                });
                let is_open = Arc::new(AtomicBool::new(false));
                let (opened, of_reader) = (Arc::clone(&is_open), Arc::clone(remote));
                run("link-out", move || write_opening(script, &next_steps, &outbox, stdin))
                    .map_err(context)?;
                run("link-in", move || {
                    if reader.read_opening(&nonce, &of_reader.program, &steps) {
                        opened.store(true, Ordering::Relaxed);
                        reader.read_frames();
                    }
                })
                .map_err(context)?;
                Some(FarSide { remote: Arc::clone(remote), clock, is_open, wire: Arc::default() })
            }
        };
        let mut link = Self::new(id, name, frames, last_frame_ns, far);
        link.stderr = Some(Tail::follow(stderr).map_err(context)?);
        link.child = Some(child);
        link.is_session_leader = launch.ties.group == Group::Session;
        Ok(link)
    }

    /// Creates a link without a child process.
    fn new(
        id: u64,
        name: String,
        frames: Sender<Outgoing>,
        last_frame_ns: Arc<AtomicU64>,
        far: Option<FarSide>,
    ) -> Self {
        Self {
            id,
            name,
            child: None,
            is_session_leader: false,
            frames: Some(frames),
            sent_bodies: Mutex::default(),
            stderr: None,
            last_frame_ns,
            far,
            ended: None,
            was_dropped: false,
        }
    }

    /// Waits for an agent that connects to `gate`.
    fn await_join(
        id: u64,
        name: String,
        remote: &Arc<Remote>,
        gate: &Gate,
        events: Sender<(u64, Received)>,
        readings: &Readings,
    ) -> io::Result<Self> {
        let (frames, outbox) = mpsc::channel();
        let last_frame_ns = Arc::new(AtomicU64::new(clock::monotonic_ns()));
        let far = FarSide {
            remote: Arc::clone(remote),
            clock: Arc::default(),
            is_open: Arc::default(),
            wire: Arc::default(),
        };
        let arrival = gate.expect(remote.rank);
        let (clock, is_open, wire) =
            (Arc::clone(&far.clock), Arc::clone(&far.is_open), Arc::clone(&far.wire));
        let heard = Arc::clone(&last_frame_ns);
        let host = Some(HostReader { name: name.clone(), clock, readings: Arc::clone(readings) });
        run("link-in", move || {
            let Ok(joined) = arrival.recv() else { return };
            heard.store(clock::monotonic_ns(), Ordering::Relaxed);
            // Each link waits for one connection.
            let _ = wire.set(joined.wire);
            is_open.store(true, Ordering::Relaxed);
            let stdout = joined.reader;
            let reader = Reader { id, stdout, last_frame_ns: heard, host, events };
            match run("link-out", move || write_frames(&outbox, joined.writer, true)) {
                Ok(()) => reader.read_frames(),
                Err(error) => drop(reader.report(Received::Closed(Ending::Frame(error.into())))),
            }
        })?;
        Ok(Self::new(id, name, frames, last_frame_ns, Some(far)))
    }

    /// Returns its process on this host, if there is one.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns the time at which the last frame was received, handled or not.
    pub(crate) fn last_frame_at(&self) -> Nanos {
        Nanos(self.last_frame_ns.load(Ordering::Relaxed))
    }

    /// Returns the silence of an agent on another host, if that is so long that the agent has
    /// ended.
    pub(crate) fn silence(&self) -> Option<Duration> {
        let is_open = self.far.as_ref().is_some_and(|far| far.is_open.load(Ordering::Relaxed));
        let silence = Duration::from(Nanos(clock::monotonic_ns()).since(self.last_frame_at()));
        (is_open && silence > LEASE + AFTER_LEASE).then_some(silence)
    }

    /// Reports whether pings enough were answered to translate times; on this host none is needed.
    pub(crate) fn is_clock_settled(&self) -> bool {
        self.far.as_ref().is_none_or(|far| far.clock().is_settled())
    }

    /// Returns the offset of the clock of the agent's host; `None` on this host.
    pub(crate) fn clock(&self) -> Option<Sample> {
        self.far.as_ref()?.clock().best()
    }

    /// Returns the longest round trip of the last minute; zero on this host.
    pub(crate) fn longest_round_trip(&self) -> Nanos {
        self.far.as_ref().map_or(Nanos::ZERO, |far| far.clock().longest_round_trip())
    }

    /// Sends `command` to the agent; never waits for it. The end of an agent is reported as
    /// [`LinkEvent::Closed`], not here.
    pub(crate) fn send(&self, command: &ToAgent) -> Result<()> {
        if let ToAgent::Prepare(plan) = command
            && let Some(store) = plan.bodies()
        {
            self.send_bodies(store)?;
        }
        let frame = match (command, self.clock()) {
            (ToAgent::Start { epoch_monotonic }, Some(clock)) => {
                frame::encode(&ToAgent::Start { epoch_monotonic: clock.there(*epoch_monotonic) })?
            }
            _ => frame::encode(command)?,
        };
        self.write(Outgoing::Frame(frame));
        Ok(())
    }

    /// Sends `order` to a supervisor, as [`Self::send`] does.
    pub(crate) fn send_to_supervisor(&self, order: &ToSupervisor) -> Result<()> {
        debug_assert!(self.far.is_none(), "a supervisor is a child of its coordinator");
        self.write(Outgoing::Frame(frame::encode(order)?));
        Ok(())
    }

    /// Sends the large bodies of the next plan, or where they are.
    fn send_bodies(&self, store: &Arc<dyn BodyStore>) -> Result<()> {
        let mut sent = lock(&self.sent_bodies);
        let (number, is_sent) = sent.number(store);
        let from = match &self.far {
            _ if is_sent => BodiesFrom::Earlier,
            None => BodiesFrom::Path(store.path()),
            Some(_) => BodiesFrom::Parts,
        };
        let (bytes, in_parts) = (store.bytes().len() as u64, from == BodiesFrom::Parts);
        self.write(Outgoing::Frame(frame::encode(&ToAgent::Bodies { number, bytes, from })?));
        if in_parts {
            self.write(Outgoing::Bodies(Arc::clone(store)));
        }
        Ok(())
    }

    fn write(&self, outgoing: Outgoing) {
        if let Some(frames) = &self.frames {
            let _ = frames.send(outgoing);
        }
    }

    /// Asks the agent to end, without waiting.
    pub(crate) fn ask_to_exit(&mut self) {
        // Exit is far below the bound of a frame; the end of the input has the same effect.
        let _ = self.send(&ToAgent::Exit);
        self.frames = None;
    }

    /// Waits until `deadline` for the agent to end, then kills it. Afterwards it is gone, and
    /// whatever was left in its session with it. On another host it ends with its input.
    pub(crate) fn end_by(&mut self, deadline: Instant) -> ExitReason {
        if let Some(reason) = self.ended {
            return reason;
        }
        let Some(pid) = self.pid() else {
            self.cut_by(deadline);
            // Its seat may be another link's from now on.
            self.ended = Some(ExitReason::Code(0));
            return ExitReason::Code(0);
        };
        while !process::has_ended(pid) && Instant::now() < deadline {
            thread::sleep(LOOK_AGAIN);
        }
        // Without effect on a process that has ended and wasn't reaped.
        let _ = process::kill(pid, Signal::KILL);
        if self.is_session_leader {
            while !process::has_ended(pid) {
                thread::sleep(LOOK_AGAIN);
            }
            // Its number, and so the session's, stays in use until it is reaped below.
            for pid in process::session_members(pid).unwrap_or_default() {
                let _ = process::kill(pid, Signal::KILL);
            }
        }
        let status = self.child.as_mut().and_then(|child| child.wait().ok());
        let reason = status.map_or(ExitReason::Code(-1), ExitReason::from);
        self.ended = Some(reason);
        reason
    }

    /// Waits until `deadline` for an agent that has connected to close its connection, then cuts that. The agent
    /// ends with it.
    fn cut_by(&mut self, deadline: Instant) {
        let Some(far) = &self.far else { return };
        if let Some(gate) = &far.remote.gate {
            gate.give_up(far.remote.rank);
        }
        let Some(wire) = far.wire.get() else { return };
        while !wire.is_over() && Instant::now() < deadline {
            thread::sleep(LOOK_AGAIN);
        }
        wire.cut();
    }

    /// Kills the agent.
    pub(crate) fn kill(&mut self) {
        self.end_by(Instant::now());
    }

    /// Returns the end of an agent that closed its output: completes *agent 2 …*.
    pub(crate) fn how_it_ended(&mut self, ending: Ending) -> String {
        // One that is silent or sends no frames does not end by itself.
        let wait = if matches!(ending, Ending::Closed) { END_WAIT } else { Duration::ZERO };
        let reason = self.end_by(Instant::now() + wait);
        let mut words =
            self.stderr.as_ref().map(|stderr| stderr.text(END_WAIT)).unwrap_or_default();
        let far = self.far.as_ref();
        if let Some(user) = far.and_then(|far| far.remote.host.user.as_ref()) {
            // As ssh names the host; reports and archives name it without the login.
            words = words.replace(&format!("{user}@"), "");
        }
        let mut text = match ending {
            Ending::Frame(error) => format!("sent data that cannot be decoded: {error}"),
            Ending::Refused(why) => return why,
            Ending::Silent(silence) => {
                format!("sent nothing for {} s and was given up", silence.as_secs())
            }
            Ending::Closed if self.child.is_none() => "closed its connection".to_owned(),
            Ending::Closed => {
                let unopened = self.far.as_ref().filter(|far| !far.is_open.load(Ordering::Relaxed));
                if let Some(FarSide { remote, .. }) = unopened {
                    self.was_dropped = is_dropped(&remote.launcher, reason, &words);
                    if let Some(line) = explained(&remote.launcher, reason, &words) {
                        return line;
                    }
                }
                format!("ended unexpectedly: {reason}")
            }
        };
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

fn run(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    spawn_thread(name, None, work).map(drop)
}

/// The next bytes to a host before its agent runs, and when it does.
enum Step {
    Program(fs::File),
    Frames,
}

/// Writes what starts an agent on another host, and then its frames; any error ends its output, too.
fn write_opening(
    script: String,
    steps: &Receiver<Step>,
    outbox: &Receiver<Outgoing>,
    mut stdin: impl Write,
) {
    if stdin.write_all(script.as_bytes()).and_then(|()| stdin.flush()).is_err() {
        return;
    }
    for step in steps {
        match step {
            Step::Program(mut file) => {
                if io::copy(&mut file, &mut stdin).and_then(|_| stdin.flush()).is_err() {
                    return;
                }
            }
            Step::Frames => return write_frames(outbox, stdin, true),
        }
    }
}

/// Writes what is sent to an agent, and pings where it is on another host.
fn write_frames(outbox: &Receiver<Outgoing>, mut stdin: impl Write, is_far: bool) {
    let mut pings = Pings { sent: 0, next: is_far.then(Instant::now) };
    loop {
        let until = |next: Instant| next.saturating_duration_since(Instant::now());
        let wait = pings.next.map_or(Duration::MAX, until);
        let written = match outbox.recv_timeout(wait) {
            Ok(Outgoing::Frame(frame)) => stdin.write_all(&frame).and_then(|()| stdin.flush()),
            Ok(Outgoing::Bodies(store)) => {
                store.bytes().chunks(frame::RAW_BYTES_MAX).try_for_each(|part| {
                    pings.write_if_due(&mut stdin)?;
                    frame::write_raw(&mut stdin, part)
                })
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => pings.write_if_due(&mut stdin),
        };
        if written.is_err() {
            // The agent has ended; the end of its output reports that.
            return;
        }
    }
}

/// The pings to an agent.
struct Pings {
    sent: u32,
    /// `None` on this host.
    next: Option<Instant>,
}

impl Pings {
    fn write_if_due(&mut self, mut stdin: impl Write) -> io::Result<()> {
        if self.next.is_none_or(|next| Instant::now() < next) {
            return Ok(());
        }
        self.sent = self.sent.saturating_add(1);
        let is_early = self.sent <= SAMPLES_NEEDED;
        let wait = if is_early { FIRST_PINGS_EVERY } else { PING_EVERY };
        self.next = Some(Instant::now() + wait);
        let ping = frame::encode(&ToAgent::Ping { sent: Nanos(clock::monotonic_ns()) });
        stdin.write_all(&ping.map_err(io::Error::other)?)?;
        stdin.flush()
    }
}

/// Returns one line of at most [`OUTPUT_CHARS_MAX`] characters, the last ones.
fn last_words(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let surplus = line.chars().count().saturating_sub(OUTPUT_CHARS_MAX);
    line.chars().skip(surplus).collect()
}
