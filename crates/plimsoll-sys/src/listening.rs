//! Listening TCP sockets of other processes, and the lengths of their accept queues.
//!
//! The length belongs to the socket, not to the process: any process with a descriptor of it may call listen(2) again,
//! which changes nothing else.

use std::fs;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net;
use rustix::net::AddressFamily;
use rustix::net::sockopt::{socket_acceptconn, socket_domain};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::process::pid_of;
use crate::tcp_info;

/// Descriptors of a process that are looked at, the lowest: a server listens before it accepts.
const DESCRIPTORS_MAX: usize = 256;

/// A listening TCP socket of another process.
#[derive(Debug)]
pub struct Listening(OwnedFd);

impl Listening {
    /// Returns the listening sockets of process `pid`, which needs CAP_SYS_PTRACE or its user; none if it has ended.
    pub fn of_process(pid: u32) -> Result<Vec<Self>, Errno> {
        let pid = pid_of(pid)?;
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return Ok(Vec::new()),
            opened => opened?,
        };
        let folder = format!("/proc/{}/fd", pid.as_raw_nonzero());
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => {
                entries.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?
            }
        };
        let mut sockets: Vec<i32> = entries
            .flatten()
            .filter(|entry| {
                let target = fs::read_link(entry.path()).unwrap_or_default();
                target.to_string_lossy().starts_with("socket:")
            })
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        sockets.sort_unstable();
        sockets.truncate(DESCRIPTORS_MAX);
        let mut listening = Vec::new();
        for descriptor in sockets {
            let ours = match pidfd_getfd(&process, descriptor, PidfdGetfdFlags::empty()) {
                Ok(ours) => ours,
                // It was closed just now.
                Err(Errno::BADF) => continue,
                Err(error) => return Err(error),
            };
            let is_tcp = socket_domain(&ours)
                .is_ok_and(|domain| [AddressFamily::INET, AddressFamily::INET6].contains(&domain));
            if is_tcp && socket_acceptconn(&ours)? {
                listening.push(Self(ours));
            }
        }
        Ok(listening)
    }

    /// Returns the most connections that may wait; one more than that makes the queue full.
    pub fn queue_max(&self) -> Result<u32, Errno> {
        tcp_info::queue_max(&self.0)
    }

    /// Sets the most connections that may wait; the kernel allows no more than net.core.somaxconn.
    pub fn set_queue_max(&self, most: u32) -> Result<(), Errno> {
        net::listen(&self.0, i32::try_from(most).unwrap_or(i32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_queue_of_another_process_is_changed() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = OwnedFd::from(listener);
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(socket.try_clone().expect("a descriptor"));
        let mut child = command.stdout(Stdio::null()).spawn().expect("sleep");
        let found = Listening::of_process(child.id()).expect("it is our child");
        assert_eq!(found.len(), 1);
        assert!(found[0].queue_max().expect("it listens") > 3);
        found[0].set_queue_max(3).expect("a small number");
        assert_eq!(Listening(socket).queue_max(), Ok(3));
        child.kill().expect("it runs");
        child.wait().expect("it was killed");
    }

    #[test]
    fn a_process_that_is_gone_has_none() {
        assert!(Listening::of_process(u32::MAX).is_err());
        let mut child = Command::new("true").spawn().expect("true");
        child.wait().expect("it ends");
        assert!(Listening::of_process(child.id()).expect("nothing to read").is_empty());
    }
}
