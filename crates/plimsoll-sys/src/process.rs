//! Child processes: how they are tied to this one, how they are ended, who is left.
//!
//! Mechanism only: which children there are and when they must end is decided elsewhere.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::{CStr, OsString};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Sender, SyncSender};
use std::sync::{Mutex, mpsc};
use std::{env, fs, io};

use rustix::io::Errno;
use rustix::process;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions};

use crate::namespace::Namespace;
use crate::{affinity, thread};

pub use rustix::process::Signal;

/// The process group and session of a new child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// This process's: the terminal's signals reach the child too.
    #[default]
    Same,
    /// A new group, with the child's pid as its number.
    Own,
    /// A new session, out of the terminal's reach; the child's pid is its number.
    Session,
}

/// The ties of a child to this process.
#[derive(Clone, Debug, Default)]
pub struct Ties {
    /// Group and session of the child.
    pub group: Group,
    /// The kernel kills it (SIGKILL) when this process dies, however it dies. Lost when the child
    /// changes its user.
    pub dies_with_parent: bool,
    /// SIGINT, SIGTERM and SIGHUP are ignored from the first instruction on, for a child that is asked to
    /// stop in another way; otherwise the first two have their default effect, and SIGHUP unless this
    /// process ignores it.
    pub ignores_stop_signals: bool,
    /// CPUs it may run on; empty leaves it this process's.
    pub cpus: Vec<u32>,
    /// Added to its nice value; 0 leaves it.
    pub nice: i32,
    /// The network namespace it runs in; `None` leaves it this process's.
    pub network: Option<Namespace>,
}

/// Takes a variable out of this process's environment, so that no child of it inherits the value. To be called before
/// there is a second thread: afterwards the value is read, and stays.
pub fn take_variable(name: &str) -> Option<OsString> {
    let value = env::var_os(name)?;
    let is_alone = fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if is_alone {
        // SAFETY: this is the only thread, so that no other reads or changes the environment meanwhile.
        unsafe { env::remove_var(name) };
    }
    Some(value)
}

/// Starts `command` tied as `ties` says. An error of a tie (a CPU that does not exist) is an error
/// of the start.
///
/// The kernel ties a child to the *thread* that started it, so one thread, which lives as long as
/// the process, starts them all.
pub fn spawn(mut command: Command, ties: &Ties) -> io::Result<Child> {
    let parent = process::getpid();
    let ties = ties.clone();
    // SAFETY: the closure runs between fork and exec, where only async-signal-safe calls are
    // allowed: `apply` makes system calls on memory that exists already, and allocates nothing.
    unsafe { command.pre_exec(move || apply(&ties, parent)) };
    let (reply, answer) = mpsc::sync_channel(1);
    spawner()?.send(Order { command, reply }).map_err(io::Error::other)?;
    answer.recv().map_err(io::Error::other)?
}

/// A child to be started.
struct Order {
    command: Command,
    reply: SyncSender<io::Result<Child>>,
}

/// Returns the way to the thread that starts children.
fn spawner() -> io::Result<Sender<Order>> {
    static ORDERS: Mutex<Option<Sender<Order>>> = Mutex::new(None);
    let mut orders = thread::lock(&ORDERS);
    if let Some(orders) = orders.as_ref() {
        return Ok(orders.clone());
    }
    let (sender, receiver) = mpsc::channel::<Order>();
    // Never joined: it ends with the process, and the children that are tied to it with it.
    let _spawner = thread::spawn("spawner", None, move || {
        for mut order in receiver {
            let child = order.command.spawn();
            // Closes our copies of the pipes that the child was given.
            drop(order.command);
            // The caller may have given up; the child's ties hold all the same.
            let _ = order.reply.send(child);
        }
    })?;
    Ok(orders.insert(sender).clone())
}

/// Runs in the child before exec.
fn apply(ties: &Ties, parent: Pid) -> io::Result<()> {
    match ties.group {
        Group::Same => {}
        Group::Own => process::setpgid(None, None)?,
        Group::Session => {
            process::setsid()?;
        }
    }
    let action = if ties.ignores_stop_signals { libc::SIG_IGN } else { libc::SIG_DFL };
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: both actions are constants that signal() accepts; no handler is involved.
        unsafe { libc::signal(signal, action) };
    }
    if ties.ignores_stop_signals {
        // SAFETY: as above. A terminal that hangs up signals all processes in its foreground.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_IGN) };
    }
    if !ties.cpus.is_empty() {
        affinity::pin_thread(&ties.cpus)?;
    }
    if let Some(network) = &ties.network {
        network.enter()?;
    }
    if ties.nice != 0 {
        process::nice(ties.nice)?;
    }
    if ties.dies_with_parent {
        process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the line above: then no signal is sent.
        if process::getppid() != Some(parent) {
            return Err(Errno::SRCH.into());
        }
    }
    Ok(())
}

/// Returns the path of this program's file, also after it was replaced or deleted.
pub fn own_executable() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// Sets the name that `ps` and `top` show for this process, if called on its main thread; 15 bytes count.
pub fn show_as(name: &CStr) {
    // A process that keeps its old name works just as well.
    let _ = rustix::thread::set_name(name);
}

/// Makes this process the parent of every descendant whose own parent ends (subreaper).
pub fn become_subreaper() -> io::Result<()> {
    Ok(process::set_child_subreaper(Some(process::getpid()))?)
}

pub(crate) fn pid_of(raw: u32) -> Result<Pid, Errno> {
    i32::try_from(raw).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)
}

/// Sends `signal` to the process `pid`.
pub fn kill(pid: u32, signal: Signal) -> io::Result<()> {
    Ok(process::kill_process(pid_of(pid)?, signal)?)
}

/// Sends `signal` to every process of a group.
pub fn kill_group(group: u32, signal: Signal) -> io::Result<()> {
    Ok(process::kill_process_group(pid_of(group)?, signal)?)
}

/// Waits until the child `pid` has ended. Does not reap it, so its pid is not reused.
pub fn wait(pid: u32) -> io::Result<ExitStatus> {
    let id = pid_of(pid)?;
    loop {
        match process::waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(Some(status)) => {
                // As waitpid puts it: the code in the second byte, or the signal in the first.
                let code = status.exit_status().map(|code| code << 8);
                let raw = code.or_else(|| status.terminating_signal()).unwrap_or_default();
                return Ok(ExitStatus::from_raw(raw));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Reaps the child `pid` if it has ended: from then on its number may be another process's.
pub fn reap(pid: u32) {
    if let Ok(pid) = pid_of(pid) {
        // Not, or no longer, a child of ours is as good.
        let _ = process::waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Reports whether the child `pid` has ended. Does not reap it, so its pid is not reused.
pub fn has_ended(pid: u32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match pid_of(pid).map(|pid| process::waitid(WaitId::Pid(pid), options)) {
        Ok(Ok(status)) => status.is_some(),
        // Not, or no longer, a child of ours.
        _ => true,
    }
}

/// Reaps every child that has ended, adopted ones included. A later wait for one of them by its number fails with
/// ECHILD.
pub fn reap_all() {
    while matches!(process::waitpid(None, WaitOptions::NOHANG), Ok(Some(_)) | Err(Errno::INTR)) {}
}

/// Returns the living children, grandchildren and so on of this process.
pub fn descendants() -> io::Result<Vec<u32>> {
    Ok(with_descendants(&[std::process::id()])?.split_off(1))
}

/// Returns `pids`, and then their living children, grandchildren and so on, each process once.
pub fn with_descendants(pids: &[u32]) -> io::Result<Vec<u32>> {
    Ok(families(pids, &process_table()?))
}

/// Returns the living processes among `pids` and their descendants that have no living child: workers, without their
/// masters.
pub fn workers_of(pids: &[u32]) -> io::Result<Vec<u32>> {
    let table = process_table()?;
    let parents: HashSet<u32> = table.iter().map(|entry| entry.parent).collect();
    let living: HashSet<u32> = table.iter().map(|entry| entry.pid).collect();
    let mut workers = families(pids, &table);
    workers.retain(|pid| living.contains(pid) && !parents.contains(pid));
    Ok(workers)
}

/// Returns `pids` and their descendants by this `table`, each once.
fn families(pids: &[u32], table: &[Entry]) -> Vec<u32> {
    let mut children = HashMap::<u32, Vec<u32>>::new();
    for entry in table {
        children.entry(entry.parent).or_default().push(entry.pid);
    }
    let mut found = Vec::new();
    let mut known = HashSet::new();
    let mut next: VecDeque<u32> = pids.iter().copied().collect();
    while let Some(pid) = next.pop_front() {
        if known.insert(pid) {
            found.push(pid);
            next.extend(children.remove(&pid).unwrap_or_default());
        }
    }
    found
}

/// Returns the living processes of a session.
pub fn session_members(session: u32) -> io::Result<Vec<u32>> {
    Ok(process_table()?
        .into_iter()
        .filter(|entry| entry.session == session)
        .map(|entry| entry.pid)
        .collect())
}

/// Reports whether the process `pid` exists and has not ended.
pub fn is_alive(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| Entry::parse(pid, &stat).is_some())
}

/// One line of the process table.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    pid: u32,
    parent: u32,
    session: u32,
}

impl Entry {
    /// Reads `/proc/PID/stat`; `None` for a process that has ended and waits to be reaped.
    fn parse(pid: u32, stat: &str) -> Option<Self> {
        // The name is in parentheses and may itself contain some.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let state = fields.next()?;
        if matches!(state, "Z" | "X") {
            return None;
        }
        let parent = fields.next()?.parse().ok()?;
        let session = fields.nth(1)?.parse().ok()?;
        Some(Self { pid, parent, session })
    }
}

fn process_table() -> io::Result<Vec<Entry>> {
    let mut table = Vec::new();
    for folder in fs::read_dir("/proc")? {
        let Some(pid) = folder?.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
        else {
            continue;
        };
        // A process may end while the table is read.
        if let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) {
            table.extend(Entry::parse(pid, &stat));
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> Command {
        let mut command = Command::new("sleep");
        command.arg("1000");
        command
    }

    #[test]
    fn table_lines() {
        // A name with spaces and parentheses.
        let line = "12 (a) b (c)) S 7 12 5 0 -1 4194560 1 0";
        assert_eq!(Entry::parse(12, line), Some(Entry { pid: 12, parent: 7, session: 5 }));
        // Ended, not yet reaped.
        assert_eq!(Entry::parse(12, "12 (x) Z 7 12 5 0"), None);
        for broken in ["", "12 (x", "12 (x) S", "12 (x) S 7 12"] {
            assert_eq!(Entry::parse(12, broken), None, "{broken:?}");
        }
    }

    #[test]
    fn workers_are_the_processes_without_children() {
        let entry = |pid, parent| Entry { pid, parent, session: 1 };
        // A master 10 with two workers, one of which has a helper, and another program.
        let table = [entry(10, 1), entry(11, 10), entry(12, 10), entry(13, 12), entry(20, 1)];
        assert_eq!(families(&[12, 10, 20], &table), [12, 10, 20, 13, 11]);
        assert_eq!(families(&[99], &table), [99]);
        let me = std::process::id();
        let child = spawn(sleeper(), &Ties::default()).unwrap().id();
        let family = with_descendants(&[me]).unwrap();
        assert!(family[0] == me && family.contains(&child));
        let workers = workers_of(&[me]).unwrap();
        assert!(workers.contains(&child) && !workers.contains(&me));
        kill(child, Signal::KILL).unwrap();
        wait(child).unwrap();
        assert!(!workers_of(&[child]).unwrap().contains(&child));
        reap(child);
    }

    #[test]
    fn ties_hold_from_the_first_instruction_on() {
        let cpu = affinity::usable_cpus()[0];
        let ties = Ties {
            group: Group::Session,
            dies_with_parent: true,
            ignores_stop_signals: true,
            cpus: vec![cpu],
            nice: 3,
            network: None,
        };
        let pid = spawn(sleeper(), &ties).unwrap().id();
        let status = fs::read_to_string(format!("/proc/{}/status", pid)).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_start_matches(':').trim().to_owned()
        };
        assert_eq!(field("Cpus_allowed_list"), cpu.to_string());
        let ignored = u64::from_str_radix(&field("SigIgn"), 16).unwrap();
        let stop_signals =
            1 << (libc::SIGINT - 1) | 1 << (libc::SIGTERM - 1) | 1 << (libc::SIGHUP - 1);
        assert_eq!(ignored & stop_signals, stop_signals);
        assert_eq!(session_members(pid).unwrap(), [pid]);
        assert!(descendants().unwrap().contains(&pid));
        assert!(is_alive(pid) && !has_ended(pid));
        kill_group(pid, Signal::KILL).unwrap();
        assert_eq!(wait(pid).unwrap().signal(), Some(libc::SIGKILL));
        // Its number is reserved until it is reaped: a signal to its group reaches no other process.
        kill_group(pid, Signal::TERM).unwrap();
        reap(pid);
        assert!(!is_alive(pid) && kill_group(pid, Signal::TERM).is_err());
    }

    #[test]
    fn a_child_outlives_the_thread_that_ordered_it() {
        let ties = Ties { dies_with_parent: true, ..Ties::default() };
        let ordered = std::thread::spawn(move || spawn(sleeper(), &ties).unwrap().id());
        let pid = ordered.join().unwrap();
        kill(pid, Signal::TERM).unwrap();
        // SIGKILL here would be the thread's death.
        assert_eq!(wait(pid).unwrap().signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn what_cannot_start_says_why() {
        let missing = spawn(Command::new("/nonexistent/program"), &Ties::default());
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
        let no_such_cpu = Ties { cpus: vec![1_000_000], ..Ties::default() };
        assert_eq!(spawn(sleeper(), &no_such_cpu).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
