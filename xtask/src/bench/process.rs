//! Programs that a benchmark starts, each on its CPU, and none left behind.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, bail};

/// Timeout of a server to accept connections.
const READY_WAIT: Duration = Duration::from_secs(10);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Returns `program` on one CPU, with as many descriptors as it may have. bash and taskset become the program,
/// so the child's id is the program's.
pub(crate) fn roomy(cpu: u32, program: &Path) -> Command {
    let mut command = Command::new("bash");
    let script = "ulimit -Sn \"$(ulimit -Hn)\"; exec taskset -c \"$0\" \"$@\"";
    command.args(["-c", script, &cpu.to_string()]).arg(program);
    command
}

/// Returns `pid` and all that it started, and what those started.
pub(crate) fn tree(pid: u32) -> Vec<u32> {
    let mut pids = vec![pid];
    let mut next = 0;
    while let Some(pid) = pids.get(next) {
        pids.extend(children(*pid));
        next += 1;
    }
    pids
}

/// A child that is killed with its handle.
pub(crate) struct Guarded {
    pub(crate) child: Child,
}

impl Guarded {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let child = command.spawn();
        let name = || format!("cannot run {}", command.get_program().to_string_lossy());
        Ok(Self { child: child.with_context(name)? })
    }

    /// Waits until it accepts connections at `address`.
    pub(crate) fn wait_until_ready(&mut self, address: SocketAddr) -> Result<()> {
        let deadline = Instant::now() + READY_WAIT;
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended before it accepted connections: {status}");
            }
            if Instant::now() > deadline {
                bail!("the server accepts no connections on {address} after {READY_WAIT:?}");
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Returns its end, or `None` when it has not come by `deadline`.
    pub(crate) fn wait_until(&mut self, deadline: Instant) -> Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Some(status));
            }
            if Instant::now() > deadline {
                return Ok(None);
            }
            thread::sleep(LOOK_AGAIN);
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // Errors mean that it has ended. What plimsoll starts ends with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the processes that the threads of `pid` started.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.map(|thread| fs::read_to_string(thread.path().join("children")));
    let lists: Vec<String> = lists.filter_map(Result::ok).collect();
    lists.iter().flat_map(|list| list.split_ascii_whitespace()).flat_map(str::parse).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Stdio;

    use super::*;

    #[test]
    fn children_of_children_are_found() {
        let mut command = Command::new("bash");
        command.args(["-c", "bash -c 'echo; read -r line'; exit 7"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut outer = Guarded::start(&mut command).unwrap();
        let stdout = outer.child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut [0]).unwrap();
        assert_eq!(tree(outer.child.id()).len(), 2);
        drop(outer.child.stdin.take());
        assert_eq!(outer.child.wait().unwrap().code(), Some(7));
    }
}
