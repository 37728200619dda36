//! A process that another one started, held by a descriptor (pidfd_open(2)): whether it has ended, and how.
//!
//! The descriptor keeps standing for the same process when its number is given to another one.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{PidfdFlags, geteuid, pidfd_open};

use crate::process::pid_of;

/// PIDFD_GET_INFO: `_IOWR(0xFF, 11, struct pidfd_info)`, include/uapi/linux/pidfd.h.
const GET_INFO: u64 = (3 << 30) | ((size_of::<PidfdInfo>() as u64) << 16) | (0xFF << 8) | 11;
/// PIDFD_INFO_EXIT: how a process ended that was waited for, since Linux 6.15.
const INFO_EXIT: u64 = 1 << 3;
/// The field exit_code of /proc/PID/stat, counted from the one behind the name.
const STAT_EXIT_CODE: usize = 49;

/// struct pidfd_info in its first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    /// pid, tgid, ppid, and the users and groups.
    ids: [u32; 11],
    exit_code: i32,
}

const _: () = assert!(size_of::<PidfdInfo>() == 64);

/// A process.
#[derive(Debug)]
pub struct ProcessHandle {
    pid: u32,
    descriptor: OwnedFd,
}

/// The end of a process, if the kernel reports it.
pub type End = Option<ExitStatus>;

impl ProcessHandle {
    /// Opens the process `pid`.
    ///
    /// # Errors
    ///
    /// There is no such process, or the kernel is older than 5.3.
    pub fn open(pid: u32) -> io::Result<Self> {
        Ok(Self { pid, descriptor: pidfd_open(pid_of(pid)?, PidfdFlags::empty())? })
    }

    /// Returns how the process ended, if it has. Never waits, and reaps nothing.
    pub fn ended(&self) -> Option<End> {
        let mut polled = [PollFd::new(&self.descriptor, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match poll(&mut polled, Some(&at_once)) {
            Ok(1..) => Some(self.status().map(ExitStatus::from_raw)),
            _ => None,
        }
    }

    /// Returns the wait status: from the descriptor, or else from the process table, which lists the process until its
    /// parent has waited for it.
    fn status(&self) -> Option<i32> {
        let in_table = || {
            let directory = format!("/proc/{}", self.pid);
            let code = exit_code(&fs::read_to_string(format!("{directory}/stat")).ok()?)?;
            let user = geteuid().as_raw();
            let is_ours = user == 0 || fs::metadata(directory).is_ok_and(|of| of.uid() == user);
            // Users who may not see it read 0.
            (code != 0 || is_ours).then_some(code)
        };
        self.info().or_else(in_table)
    }

    fn info(&self) -> Option<i32> {
        let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
        // SAFETY: the request writes at most the 64 bytes that it names, which `info` has.
        let done =
            unsafe { libc::ioctl(self.descriptor.as_fd().as_raw_fd(), GET_INFO as _, &mut info) };
        (done == 0 && info.mask & INFO_EXIT != 0).then_some(info.exit_code)
    }
}

/// Returns the wait status of a process that has ended and was not waited for.
fn exit_code(stat: &str) -> Option<i32> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    if fields.clone().next()? != "Z" {
        return None;
    }
    fields.nth(STAT_EXIT_CODE)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell that runs `script` once its input ends.
    fn shell(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("read line; {script}")]);
        command.stdin(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn the_end_of_a_process_is_read_before_and_after_it_is_reaped() {
        for (script, code, signal) in [("exit 3", Some(3), None), ("kill -9 $$", None, Some(9))] {
            let mut child = shell(script);
            let handle = ProcessHandle::open(child.id()).unwrap();
            assert_eq!(handle.ended(), None);
            drop(child.stdin.take());
            let mut polled = [PollFd::new(&handle.descriptor, PollFlags::IN)];
            assert_eq!(poll(&mut polled, None), Ok(1));
            // No parent has waited for it.
            let seen = handle.ended().unwrap().unwrap();
            assert_eq!((seen.code(), seen.signal()), (code, signal));
            child.wait().unwrap();
            // Kernels before 6.15 have forgotten it now.
            if let Some(seen) = handle.ended().unwrap() {
                assert_eq!((seen.code(), seen.signal()), (code, signal));
            }
        }
    }

    #[test]
    fn a_line_of_the_process_table() {
        let after = "0 ".repeat(48);
        assert_eq!(exit_code(&format!("12 (a) b) Z {after}256")), Some(256));
        assert_eq!(exit_code(&format!("12 (a) S {after}256")), None);
        for broken in ["", "12 (a", "12 (a) Z 1 2"] {
            assert_eq!(exit_code(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn no_process_is_an_error() {
        assert!(ProcessHandle::open(0).is_err() && ProcessHandle::open(u32::MAX).is_err());
    }
}
