//! Child processes that end with their handle, and the process table.
//!
//! A [`Guarded`] child leads a separate process group; its drop kills the whole group and collects the status, so
//! that a failed test leaves nothing behind. [`Process`] is an entry of `/proc`: the start time identifies a process
//! whose number was used again. [`descendants`] and [`with_environment`] find the processes that a test has to
//! account for. Zombies are not listed. Start with [`Guarded`].

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::{fmt, fs};

use crate::wait;

/// A child in its own process group. Dropping it kills the group.
#[derive(Debug)]
pub struct Guarded {
    child: Child,
}

impl Guarded {
    /// Starts `command`.
    pub fn start(command: &mut Command) -> Self {
        let child = command.process_group(0).spawn();
        let child = child.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        Self { child }
    }

    /// Returns the process id, which is also the group's.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The child's pipes.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Returns the status, once it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child of this process can be asked for its status")
    }

    /// Waits for its end; panics when it does not come.
    pub fn wait(&mut self) -> ExitStatus {
        let what = format!("the end of process {}", self.pid());
        wait::until(&what, || self.ended())
    }

    /// Sends `signal`, such as `INT`, to the child alone.
    pub fn signal(&self, signal: &str) {
        send_signal(signal, &self.pid().to_string());
    }

    /// Kills the whole group and waits for the child's end.
    pub fn kill(&mut self) {
        send_signal("KILL", &format!("-{}", self.pid()));
        // Also collects the status, so that no zombie stays.
        let _ = self.child.wait();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Sends `signal` to a process, or to a group when `whom` begins with a minus. That it is gone
/// already is no error.
pub fn send_signal(signal: &str, whom: &str) {
    // The shell's own kill: the program of that name is not installed everywhere.
    let _ = Command::new("/bin/sh")
        .args(["-c", "kill -s \"$1\" -- \"$2\"", "sh", signal, whom])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status();
}

/// A process as the process table showed it.
#[derive(Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent.
    pub ppid: u32,
    /// Name of the process: at most 15 characters.
    pub name: String,
    /// Start of the process in ticks since boot, which distinguishes a new process with an old number.
    start: u64,
    is_zombie: bool,
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pid, self.name)
    }
}

impl Process {
    /// Returns the entry of `pid` in the process table.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name stands in parentheses and may hold any character.
        let (head, tail) = stat.rsplit_once(')')?;
        let (_, name) = head.split_once('(')?;
        let fields: Vec<_> = tail.split_ascii_whitespace().collect();
        Some(Self {
            pid,
            ppid: fields.get(1)?.parse().ok()?,
            name: name.to_owned(),
            start: fields.get(19)?.parse().ok()?,
            is_zombie: *fields.first()? == "Z",
        })
    }

    /// Reports whether it still runs.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).is_some_and(|now| now.start == self.start && !now.is_zombie)
    }

    /// Sends it SIGKILL.
    pub fn kill(&self) {
        if self.is_alive() {
            send_signal("KILL", &self.pid.to_string());
        }
    }
}

/// Returns every process.
fn table() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("/proc is mounted");
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::of).filter(|seen| !seen.is_zombie).collect()
}

/// Returns the living processes below `pid`, at any depth.
pub fn descendants(pid: u32) -> Vec<Process> {
    let table = table();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for seen in table.iter().filter(|seen| seen.ppid == parent) {
            parents.push(seen.pid);
            found.push(seen.clone());
        }
    }
    found
}

/// Returns the processes that inherited `NAME=value` from their parent, wherever they are
/// in the tree now.
pub fn with_environment(name: &str, value: &str) -> Vec<Process> {
    let wanted = format!("{name}={value}");
    let has_it = |seen: &Process| {
        let environment = fs::read(format!("/proc/{}/environ", seen.pid)).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    table().into_iter().filter(has_it).collect()
}

/// Returns the entries of a folder; nothing if there is no such folder.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.flatten().map(|entry| entry.path()).collect()
}
