//! Edge-triggered epoll: one registration per socket's life, a token instead of a look-up.
//!
//! [`Poller::add`] registers a socket once for both directions, edge-triggered: the caller reads or writes until
//! `AGAIN`. Listeners are level-triggered. [`Poller::wait`] fills a batch of events and [`Poller::event`] returns
//! each as a [`Ready`] with the caller's token. Timeouts are nanoseconds; without `epoll_pwait2` they are rounded
//! down to whole milliseconds, so that no timer is late. A [`Waker`] interrupts pollers for good. Start reading at
//! [`Poller::wait`].

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::epoll::EventFlags;
use rustix::event::{EventfdFlags, Timespec, epoll};
use rustix::io::Errno;

use crate::socket::last_errno;

/// The readiness of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token the socket was registered with.
    pub token: u64,
    flags: EventFlags,
}

impl Ready {
    /// Reports whether there are bytes, an end of stream, or an error to read.
    pub fn is_readable(self) -> bool {
        self.flags
            .intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
    }

    /// Reports whether the peer has ended its stream, or the connection is broken: read to the end.
    pub fn is_closing(self) -> bool {
        self.flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
    }

    /// Reports whether both directions have ended: a reset, an error, or a FIN each way.
    pub fn is_broken(self) -> bool {
        self.flags.intersects(EventFlags::HUP | EventFlags::ERR)
    }

    /// Reports whether there is room to write, or an error to collect.
    pub fn is_writable(self) -> bool {
        self.flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR)
    }
}

/// Interrupts every poller that watches it, from any thread, and keeps them awake from then on:
/// a signal to end, not a doorbell.
#[derive(Debug)]
pub struct Waker(OwnedFd);

impl Waker {
    /// Creates a waker that has not been used.
    pub fn new() -> Result<Self, Errno> {
        rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Self)
    }

    /// Makes it readable permanently.
    pub fn wake(&self) {
        // It can only fail when the counter is full, and then it is readable already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

const _: () = assert!(size_of::<epoll::Event>() == size_of::<libc::epoll_event>());

/// An epoll instance with its batch of events.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    /// Kernels before 5.11 lack epoll_pwait2, and some containers refuse it: whole milliseconds
    /// only.
    whole_ms_only: bool,
}

// SAFETY: the pointer in the kernel's event union is never used: every event is registered with a
// number and read as one.
unsafe impl Send for Poller {}

impl std::fmt::Debug for Poller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Poller").field("epoll", &self.epoll).finish_non_exhaustive()
    }
}

impl Poller {
    /// Creates a poller that returns up to `batch` events at a time.
    pub fn new(batch: usize) -> Result<Self, Errno> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(batch.max(1)), whole_ms_only: false })
    }

    /// Watches `socket` for both directions, edge-triggered, until it is closed.
    pub fn add(&self, socket: impl AsFd, token: u64) -> Result<(), Errno> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token), flags)
    }

    /// Watches a listener for incoming connections, level-triggered.
    pub fn add_listener(&self, listener: impl AsFd, token: u64) -> Result<(), Errno> {
        epoll::add(&self.epoll, listener, epoll::EventData::new_u64(token), EventFlags::IN)
    }

    /// Stops watching.
    pub fn delete(&self, socket: impl AsFd) -> Result<(), Errno> {
        epoll::delete(&self.epoll, socket)
    }

    /// Waits up to `timeout_ns` (`None`: until something happens) and returns the number of
    /// events now readable with [`Self::event`]. An interrupted wait returns 0.
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> Result<usize, Errno> {
        if self.whole_ms_only {
            return self.wait_whole_ms(timeout_ns);
        }
        let timeout = timeout_ns.map(|ns| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as _,
        });
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => Ok(0),
            // A container's older seccomp filter returns EPERM for unknown system calls.
            Err(Errno::NOSYS | Errno::PERM) => {
                self.whole_ms_only = true;
                self.wait_whole_ms(timeout_ns)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Rounds the wait down, so that a timer's last millisecond is spent polling, never overslept.
    fn wait_whole_ms(&mut self, timeout_ns: Option<u64>) -> Result<usize, Errno> {
        let timeout_ms =
            timeout_ns.map_or(-1, |ns| i32::try_from(ns / 1_000_000).unwrap_or(i32::MAX));
        self.events.clear();
        let capacity = i32::try_from(self.events.capacity()).unwrap_or(i32::MAX);
        // SAFETY: the buffer has room for `capacity` events of the kernel's layout.
        let count = unsafe {
            let events = self.events.as_mut_ptr().cast::<libc::epoll_event>();
            libc::epoll_wait(self.epoll.as_raw_fd(), events, capacity, timeout_ms)
        };
        let Ok(count) = usize::try_from(count) else {
            return match last_errno() {
                Errno::INTR => Ok(0),
                errno => Err(errno),
            };
        };
        // SAFETY: the kernel has filled `count` events, which is at most the capacity.
        unsafe { self.events.set_len(count) };
        Ok(count)
    }

    /// Returns the event `index` of the last wait.
    pub fn event(&self, index: usize) -> Option<Ready> {
        let event = self.events.get(index)?;
        // Copies, because the kernel's struct is packed.
        let (data, flags) = (event.data, event.flags);
        Some(Ready { token: data.u64(), flags })
    }
}

#[cfg(test)]
mod tests {
    use crate::clock;

    use super::*;

    /// Refuses epoll_pwait2 to the calling thread, as an older seccomp filter does.
    fn refuse_epoll_pwait2() {
        let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut steps = [
            // The number of the system call comes first in what the filter is given.
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_epoll_pwait2 as u32),
            step(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(libc::BPF_RET, 0, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the filter and its steps outlive the calls; the kernel copies them.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
            let mode = libc::SECCOMP_MODE_FILTER;
            assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter), 0);
        }
    }

    #[test]
    fn a_refusal_of_epoll_pwait2_is_a_lack_of_it() {
        let waited = std::thread::spawn(|| {
            refuse_epoll_pwait2();
            let mut poller = Poller::new(4).unwrap();
            (poller.wait(Some(1_000_000)), poller.whole_ms_only)
        });
        assert_eq!(waited.join().unwrap(), (Ok(0), true));
    }

    #[test]
    fn waits_with_and_without_epoll_pwait2() {
        for whole_ms_only in [false, true] {
            let mut poller = Poller::new(4).unwrap();
            poller.whole_ms_only = whole_ms_only;
            let before = clock::monotonic_ns();
            assert_eq!(poller.wait(Some(3_000_000)), Ok(0));
            assert!(clock::monotonic_ns() - before >= 3_000_000);
            let waker = Waker::new().unwrap();
            poller.add_listener(&waker, 7).unwrap();
            waker.wake();
            for _ in 0..2 {
                assert_eq!(poller.wait(None), Ok(1));
                let ready = poller.event(0).unwrap();
                assert!(ready.token == 7 && ready.is_readable() && !ready.is_broken());
            }
        }
    }
}
