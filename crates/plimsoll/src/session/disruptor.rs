//! The disruptor: carries out the events of a load at their instants, on its own thread, and observes their
//! effects.
//!
//! A freeze is made by a child in its own session, which lets the server continue even if this process is killed.
//! Commands of the user end with the thread. What it has changed in a laboratory is as before when it ends, and a
//! laboratory ends with this process.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use plimsoll_capacity::disruptions::{Disrupted, DisruptedSeconds};
use plimsoll_lab::{Controls, LabError, WatchedServer};
use plimsoll_model::Nanos;
use plimsoll_model::disruption::{Disruption, DisruptionKind, DisruptionSummary, OldProcess};
use plimsoll_model::event::Event;
use plimsoll_model::hold::HoldStep;
use plimsoll_model::plan::Pacing;
use plimsoll_probe::memory::private_bytes;
use plimsoll_probe::processes::ProcessUse;
use plimsoll_probe::threads::RunTimes;
use plimsoll_sys::process::{self, Group, Ties};
use plimsoll_sys::thread as sys_thread;

use crate::clock::now;
use crate::kernel_files::PROC;
use crate::plan::load::LoadJob;

/// Period of checking for due events and for old processes that have ended.
const TICK: Duration = Duration::from_millis(50);
/// Time after a reload at which old processes are measured.
const OLD_AFTER: Nanos = Nanos::from_secs(1);

/// Timeout of a server to show a certificate that it has been given.
const CERTIFICATE_WAIT: Nanos = Nanos::from_secs(10);

/// The means to carry out events.
#[derive(Clone, Debug)]
struct Means {
    /// The command that reloads the server; without one, its controls do.
    on_reload: Option<String>,
    controls: Controls,
}

/// An event as it was carried out. Times are on CLOCK_MONOTONIC.
#[derive(Debug)]
struct Done {
    index: usize,
    began: Nanos,
    ended: Nanos,
    failed: Option<String>,
    old: Vec<OldProcess>,
}

/// The events of a load.
pub(crate) struct Disruptor {
    plan: Vec<Disruption>,
    means: Means,
    seconds: DisruptedSeconds,
    epoch: Nanos,
    /// Reconnects, which the procedure of the hold carries out: their beginnings, and ends.
    reconnects: Vec<(Nanos, Option<Nanos>)>,
    done: Vec<Done>,
    running: Option<Running>,
    is_hold: bool,
}

/// The thread. Dropping it ends what it does, and waits for that.
struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    reports: Receiver<Report>,
}

impl Running {
    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has reported what it had done.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A report of the thread.
enum Report {
    /// The event of this index begins.
    Began(usize),
    Done(Done),
}

impl Disruptor {
    /// Creates the disruptor of a load, whose events start with it, or when a hold has reached its highest level.
    /// The server allows each of them.
    pub(crate) fn of(job: &LoadJob, server: &dyn WatchedServer) -> Self {
        let mut plan = job.events.event.clone();
        plan.sort_by_key(|one| one.at);
        let on_reload = job.events.on_reload.clone();
        let means = Means { on_reload, controls: server.controls() };
        Self {
            plan,
            means,
            seconds: DisruptedSeconds::default(),
            epoch: Nanos::ZERO,
            reconnects: Vec::new(),
            done: Vec::new(),
            running: None,
            is_hold: matches!(job.plan.pacing, Pacing::Hold(_)),
        }
    }

    /// Takes an event of the load; returns notes for the reader.
    pub(crate) fn handle_event(&mut self, event: &Event) -> Vec<String> {
        if self.plan.is_empty() {
            return Vec::new();
        }
        let now = now();
        match event {
            Event::LoadStarted { epoch, .. } => {
                self.epoch = *epoch;
                if !self.is_hold {
                    self.start(*epoch);
                }
            }
            Event::HoldStep(HoldStep::Hold { .. }) if self.running.is_none() => self.start(now),
            Event::HoldStep(HoldStep::Hold { .. }) => {
                if let Some((_, end @ None)) = self.reconnects.last_mut() {
                    *end = Some(now);
                }
            }
            Event::HoldStep(HoldStep::Trim { .. }) if self.running.is_some() => {
                self.reconnects.push((now, None));
            }
            Event::Interval(interval) => self.seconds.handle_second(interval, self.is_hold),
            _ => {}
        }
        self.notes()
    }

    /// Takes the reports of the thread; returns a note on each event that has begun.
    fn notes(&mut self) -> Vec<String> {
        let Some(running) = &self.running else { return Vec::new() };
        let mut notes = Vec::new();
        for report in running.reports.try_iter() {
            match report {
                Report::Began(index) => notes.push(format!("event: {}", self.plan[index].kind)),
                Report::Done(done) => self.done.push(done),
            }
        }
        notes
    }

    fn start(&mut self, from: Nanos) {
        let due: Vec<(usize, Disruption)> = self
            .plan
            .iter()
            .enumerate()
            .filter(|(_, one)| !matches!(one.kind, DisruptionKind::Reconnect(_)))
            .map(|(index, one)| (index, Disruption { at: from + one.at, ..one.clone() }))
            .collect();
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, reports) = mpsc::channel();
        let (means, stopped) = (self.means.clone(), Arc::clone(&stop));
        let work = move || carry_out(due, &means, &stopped, &sender);
        // Without a thread no event is carried out, and each is reported as failed.
        let thread = sys_thread::spawn("events", None, work);
        self.running = thread.ok().map(|thread| Running { stop, thread: Some(thread), reports });
    }

    /// Returns the effects of the events. `limit` is the latency that the user asked for.
    pub(crate) fn finish(mut self, limit: Option<Nanos>) -> Vec<DisruptionSummary> {
        if let Some(running) = &mut self.running {
            running.stop();
        }
        // It is too late for a note on an event.
        self.notes();
        let Self { plan, seconds, epoch, reconnects, mut done, .. } = self;
        let now = now();
        let places = plan.iter().enumerate();
        let places = places.filter(|(_, one)| matches!(one.kind, DisruptionKind::Reconnect(_)));
        for ((index, _), (began, ended)) in places.zip(reconnects) {
            let (ended, failed) = match ended {
                Some(ended) => (ended, None),
                None => (now, Some("not all connections were open again".to_owned())),
            };
            done.push(Done { index, began, ended, failed, old: Vec::new() });
        }
        done.sort_by_key(|one| one.began);
        let since = |at: Nanos| at.since(epoch).as_secs_f64();
        let disrupted: Vec<Disrupted> = done
            .iter()
            .map(|one| Disrupted {
                what: plan[one.index].kind.to_string(),
                began_s: since(one.began),
                ended_s: since(one.ended),
                failed: one.failed.clone(),
                old_processes: one.old.clone(),
            })
            .collect();
        let mut effects = seconds.effects(&disrupted, limit);
        let missing = plan.iter().enumerate();
        let missing = missing.filter(|(index, _)| !done.iter().any(|one| one.index == *index));
        effects.extend(missing.map(|(_, one)| not_reached(one)));
        effects
    }
}

/// Returns an event whose instant the load did not reach.
fn not_reached(one: &Disruption) -> DisruptionSummary {
    DisruptionSummary {
        what: one.kind.to_string(),
        at_s: one.at.as_secs_f64(),
        failed: Some("the load ended before".to_owned()),
        ..DisruptionSummary::default()
    }
}

/// Carries out each event when it is due, and watches the processes that a reload has replaced until `stop`.
fn carry_out(
    mut due: Vec<(usize, Disruption)>,
    means: &Means,
    stop: &AtomicBool,
    sender: &Sender<Report>,
) {
    due.reverse();
    let mut reloads: Vec<(Done, Vec<Replaced>)> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let began = now();
        if due.last().is_some_and(|(_, one)| one.at <= began)
            && let Some((index, one)) = due.pop()
        {
            let _ = sender.send(Report::Began(index));
            let is_reload = one.kind.reloads();
            let before = if is_reload { means.controls.replaced_by_reload() } else { Vec::new() };
            let before = before.into_iter().map(Replaced::by_reload).collect();
            let mut pause = || {
                reloads.iter_mut().for_each(|(done, before)| observe_old(done, before));
                thread::sleep(TICK);
                !stop.load(Ordering::Relaxed)
            };
            let failed = act(&one.kind, means, &mut pause).err().map(|error| error.to_string());
            let ended = now();
            let done = Done { index, began, ended, failed, old: Vec::new() };
            match is_reload && done.failed.is_none() {
                true => reloads.push((done, before)),
                false => _ = sender.send(Report::Done(done)),
            }
        }
        reloads.iter_mut().for_each(|(done, before)| observe_old(done, before));
        thread::sleep(TICK);
    }
    for (mut done, before) in reloads {
        done.old = before.into_iter().filter_map(Replaced::seen).collect();
        let _ = sender.send(Report::Done(done));
    }
    // The next hold of the laboratory finds it as this one did. A server that has ended has nothing to restore.
    let _ = means.controls.restore_backends();
}

/// A process that a reload replaces, as far as it was observed.
struct Replaced {
    old: OldProcess,
    /// CPU time that it had used before.
    cpu_before: Option<RunTimes>,
    is_measured: bool,
}

impl Replaced {
    fn by_reload(pid: u32) -> Self {
        let old = OldProcess { pid, ..OldProcess::default() };
        let cpu_before = RunTimes::read(Path::new(PROC), &[pid]);
        Self { old, cpu_before, is_measured: false }
    }

    /// Looks at it `after` the reload. It is measured once, if it is still there after [`OLD_AFTER`].
    fn observe(&mut self, after: Nanos) {
        let Self { old, cpu_before, is_measured } = self;
        if old.ended_after_s.is_some() {
            return;
        }
        if !process::is_alive(old.pid) {
            old.ended_after_s = Some(after.as_secs_f64());
            return;
        }
        let cpu = RunTimes::read(Path::new(PROC), &[old.pid]).zip(*cpu_before);
        old.cpu_s = cpu.map(|(now, before)| now.since(&before).ran.as_secs_f64()).or(old.cpu_s);
        if after >= OLD_AFTER && !*is_measured {
            *is_measured = true;
            old.bytes = private_bytes(Path::new(PROC), &[old.pid]);
            old.open_files = ProcessUse::read(Path::new("/"), old.pid).files.map(|(open, _)| open);
        }
    }

    /// Returns what is known of it; `None` if the run ended before it could be measured.
    fn seen(self) -> Option<OldProcess> {
        (self.is_measured || self.old.ended_after_s.is_some()).then_some(self.old)
    }
}

/// Looks at the processes of before a reload.
fn observe_old(done: &Done, before: &mut [Replaced]) {
    let after = now().since(done.began);
    before.iter_mut().for_each(|one| one.observe(after));
}

/// Carries out one event until it is done, or until `pause` is interrupted.
fn act(kind: &DisruptionKind, means: &Means, pause: &mut Pause<'_>) -> Result<(), Box<dyn Error>> {
    let Means { on_reload, controls } = means;
    match kind {
        DisruptionKind::Reload => match on_reload {
            Some(command) => run(command, Group::Own, pause)?,
            None => controls.reload()?,
        },
        DisruptionKind::Certificate => exchange_certificate(controls, pause)?,
        DisruptionKind::Restart => controls.restart()?,
        DisruptionKind::BackendDown(count) => controls.end_backends(*count)?,
        DisruptionKind::BackendUp => controls.restore_backends()?,
        DisruptionKind::Drain(count) => controls.drain(*count)?,
        DisruptionKind::LinkDown(span) => cut_link(*span, controls, pause)?,
        DisruptionKind::Freeze(span) => freeze(*span, &controls.workers(), pause)?,
        DisruptionKind::Script(command) => run(command, Group::Own, pause)?,
        DisruptionKind::Reconnect(_) => {}
    }
    Ok(())
}

/// The pauses of an event: each is a tick long, in which old processes are observed. `false` if the load has ended.
type Pause<'a> = dyn FnMut() -> bool + 'a;

/// Exchanges the server's certificate, and waits until new connections get it.
fn exchange_certificate(controls: &Controls, pause: &mut Pause<'_>) -> Result<(), LabError> {
    let name = controls.exchange_certificate()?;
    let until = now() + CERTIFICATE_WAIT;
    loop {
        let met = controls.meet_certificate(&name);
        if met.is_ok() || now() > until || !pause() {
            return met;
        }
    }
}

/// Lets `pids` stand still for `span`.
fn freeze(span: Nanos, pids: &[u32], pause: &mut Pause<'_>) -> io::Result<()> {
    let words: Vec<String> = pids.iter().map(u32::to_string).collect();
    let (words, span) = (words.join(" "), span.as_secs_f64());
    let script = format!("kill -STOP {words}; sleep {span}; kill -CONT {words}");
    let done = run(&script, Group::Session, pause);
    // The child may have been stopped before it let them go on.
    pids.iter().for_each(|pid| _ = process::kill(*pid, process::Signal::CONT));
    done
}

/// Switches the link between the clients and the server off for `span`; it is on afterwards. Its network namespaces end
/// with this process and the server.
fn cut_link(span: Nanos, controls: &Controls, pause: &mut Pause<'_>) -> Result<(), LabError> {
    let until = now() + span;
    controls.switch_link(false)?;
    while now() < until && pause() {}
    controls.switch_link(true)
}

/// Runs a command of the shell until it ends. If the load ends before, it is killed with its group.
fn run(script: &str, group: Group, pause: &mut Pause<'_>) -> io::Result<()> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let outlives = group == Group::Session;
    let ties = Ties {
        group,
        ignores_stop_signals: outlives,
        dies_with_parent: !outlives,
        ..Ties::default()
    };
    let mut child = process::spawn(command, &ties)?;
    loop {
        if let Some(status) = child.try_wait()? {
            return match status.success() {
                true => Ok(()),
                false => Err(io::Error::other(format!("the command ended with {status}"))),
            };
        }
        if !pause() {
            process::kill_group(child.id(), process::Signal::KILL)?;
            child.wait()?;
            return Err(io::Error::other("the load ended before the command"));
        }
    }
}
