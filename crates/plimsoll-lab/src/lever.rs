//! Levers: each changes one limit of a running server, and restores it. No process is restarted, and dropping a lever
//! restores the limit.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use plimsoll_model::confirmation::Intervention;
use plimsoll_probe::haproxy_socket::HaproxySocket;
use plimsoll_probe::server_counters::{CounterSource, command_haproxy};
use plimsoll_sys::listening::Listening;
use plimsoll_sys::namespace::Namespace;
use plimsoll_sys::output_file;
use plimsoll_sys::ports::parse_range;

use crate::control_group::ControlGroup;
use crate::error::{LabError, Result};
use crate::sut::haproxy_lever;

const PORT_RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// Returns the new value of a limit; 0 is no limit.
pub type NewLimit<'a> = &'a dyn Fn(u64) -> Result<u64>;
/// A lever, and the value of its limit before and after the change.
pub type Moved = (Lever, u64, u64);

/// A change of one limit of a running server.
#[derive(Debug)]
pub struct Lever(Acts);

#[derive(Debug)]
enum Acts {
    /// A quota of CPU time, as a number of CPUs.
    Quota(Box<ControlGroup>, f64),
    /// Commands at the server's socket.
    Commands { socket: HaproxySocket, change: Vec<String>, restore: Vec<String> },
    /// The ports that a host connects from.
    Ports { network: Namespace, lower: (u16, u16), restore: (u16, u16) },
    /// Listening sockets, each with its changed and its former queue length.
    Queues(Vec<(Listening, u32, u32)>),
}

impl Lever {
    /// Creates a lever that limits all threads of these processes together to the CPU time of `cpus` CPUs.
    pub fn quota(pids: &[u32], cpus: f64) -> Result<Self> {
        Ok(Self(Acts::Quota(Box::new(ControlGroup::of_processes(pids)?), cpus)))
    }

    /// Creates a lever that limits one thread of process `pid` to the CPU time of `cpus` CPUs.
    pub fn thread_quota(pid: u32, thread: u32, cpus: f64) -> Result<Self> {
        Ok(Self(Acts::Quota(Box::new(ControlGroup::of_thread(pid, thread)?), cpus)))
    }

    /// Creates a lever that changes a limit by commands at the socket from which the server's counters are read.
    pub fn of_commands(
        source: Option<&CounterSource>,
        intervention: Intervention,
        to: NewLimit<'_>,
    ) -> Result<Moved> {
        match source {
            Some(CounterSource::Haproxy(socket)) => haproxy_lever(socket, intervention, to),
            _ => Err(impossible("the server is not one process that takes commands")),
        }
    }

    /// Creates a lever that sends the commands `change` to a server, and `restore` to undo them.
    pub(crate) fn commands(
        socket: &HaproxySocket,
        change: Vec<String>,
        restore: Vec<String>,
    ) -> Self {
        Self(Acts::Commands { socket: socket.clone(), change, restore })
    }

    /// Creates a lever that leaves the host of `network` the share `keep` of its source ports; also returns their
    /// number before and after the change.
    pub fn ports(network: Namespace, keep: f64) -> Result<(Self, u32, u32)> {
        let text = network
            .run(|| fs::read_to_string(PORT_RANGE))
            .and_then(|read| read)
            .map_err(|error| LabError::Lever(format!("cannot read {PORT_RANGE}: {error}")))?;
        let restore = range(&text)
            .ok_or_else(|| LabError::Lever(format!("{PORT_RANGE} holds no range: {text:?}")))?;
        let (first, last) = restore;
        let count = u32::from(last - first) + 1;
        let kept = ((f64::from(count) * keep) as u32).max(1);
        let lower = (first, u16::try_from(u32::from(first) + kept - 1).unwrap_or(last));
        Ok((Self(Acts::Ports { network, lower, restore }), count, kept))
    }

    /// Creates a lever that changes the accept queue of each listening socket of these processes: `to` maps the number
    /// of connections that fill it to the new one. Also returns both numbers of the shortest queue.
    pub fn accept_queues(
        pids: &[u32],
        to: impl Fn(u32) -> Result<u32>,
    ) -> Result<(Self, u32, u32)> {
        let denied =
            |error| LabError::Lever(format!("cannot change the server's sockets: {error}"));
        let mut queues = Vec::new();
        for pid in pids {
            for socket in Listening::of_process(*pid).map_err(denied)? {
                let most = socket.queue_max().map_err(denied)?;
                // A queue of length n is full with n + 1 connections.
                let changed = to(most + 1)?;
                queues.push((socket, changed.saturating_sub(1), most));
            }
        }
        // The others have room when it is full.
        let shortest = queues.iter().map(|(_, changed, restore)| (restore + 1, changed + 1)).min();
        let (from, to) = shortest
            .ok_or_else(|| LabError::Lever("the server has no listening socket".to_owned()))?;
        Ok((Self(Acts::Queues(queues)), from, to))
    }

    /// Sets the CPUs that a CPU quota leaves from the next change on; nothing for other levers.
    pub const fn adjust_quota(&mut self, to: f64) {
        if let Acts::Quota(_, cpus) = &mut self.0 {
            *cpus = to;
        }
    }

    /// Changes the limit, or writes the value that was there: the same steps.
    pub fn set(&mut self, changed: bool) -> Result<()> {
        match &self.0 {
            Acts::Quota(group, cpus) => group.limit(changed.then_some(*cpus)),
            Acts::Commands { socket, change, restore } => {
                command_each(socket, if changed { change } else { restore })
            }
            Acts::Ports { network, lower, restore } => {
                let (first, last) = if changed { lower } else { restore };
                let text = format!("{first} {last}");
                network
                    .run(|| output_file::write_setting(Path::new(PORT_RANGE), &text))
                    .and_then(|written| written)
                    .map_err(|error| LabError::Lever(format!("cannot write {PORT_RANGE}: {error}")))
            }
            Acts::Queues(queues) => queues.iter().try_for_each(|(socket, after, restore)| {
                let most = if changed { *after } else { *restore };
                socket.set_queue_max(most).map_err(|error| LabError::Lever(error.to_string()))
            }),
        }
    }
}

/// Gives HAProxy commands that it answers by an empty line when they are done; stops at the first that it refuses.
pub(crate) fn command_each(socket: &HaproxySocket, commands: &[String]) -> Result<()> {
    commands.iter().try_for_each(|command| {
        let refused = |why: &str| LabError::Lever(format!("HAProxy: {command}: {why}"));
        let answer =
            command_haproxy(socket, command).map_err(|error| refused(&error.to_string()))?;
        if answer.trim().is_empty() { Ok(()) } else { Err(refused(answer.trim())) }
    })
}

impl Drop for Lever {
    fn drop(&mut self) {
        // A control group is removed by its supervisor; a server that has ended has nothing to restore.
        if !matches!(self.0, Acts::Quota(..)) {
            let _ = self.set(false);
        }
    }
}

/// Returns why a limit is not changed.
pub(crate) fn impossible(why: &str) -> LabError {
    LabError::Lever(why.to_owned())
}

fn range(text: &str) -> Option<(u16, u16)> {
    parse_range(text).filter(|range| !range.is_empty()).map(RangeInclusive::into_inner)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use plimsoll_sys::thread;

    use super::*;

    #[test]
    fn what_haproxy_was_told_is_taken_back() {
        let scratch = tempfile::tempdir().expect("a folder");
        let socket = scratch.path().join("stats.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let haproxy = thread::spawn("haproxy", None, move || {
            let mut heard = Vec::new();
            while heard.len() < 4 {
                let (mut stream, _) = listener.accept().expect("a command");
                let mut line = [0; 64];
                let length = stream.read(&mut line).expect("a line");
                let line = String::from_utf8_lossy(&line[..length]).trim().to_owned();
                let answer = if line.ends_with("b2 3") { "No such server.\n" } else { "\n" };
                stream.write_all(answer.as_bytes()).expect("an answer");
                heard.push(line);
            }
            heard
        })
        .expect("a thread");
        let commands = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let change = commands(&["set maxconn server b/b1 3", "set maxconn server b/b2 3"]);
        let restore = commands(&["set maxconn server b/b1 4", "set maxconn server b/b2 4"]);
        let mut lever = Lever::commands(&socket.as_path().into(), change, restore);
        let refused = lever.set(true).expect_err("b2 is not there").to_string();
        assert!(refused.ends_with("set maxconn server b/b2 3: No such server."), "{refused}");
        drop(lever);
        let heard = haproxy.join().expect("four commands");
        let last: Vec<&str> = heard.iter().map(|line| &line[line.len() - 4..]).collect();
        assert_eq!(last, ["b1 3", "b2 3", "b1 4", "b2 4"]);
    }

    #[test]
    fn ranges_of_ports_are_two_numbers() {
        assert_eq!(range("32768\t60999\n"), Some((32_768, 60_999)));
        for broken in ["", "1", "9 8", "1 99999", "a b"] {
            assert_eq!(range(broken), None, "{broken:?}");
        }
    }
}
