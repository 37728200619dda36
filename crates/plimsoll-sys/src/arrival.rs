//! The time at which the kernel received TCP data (SO_TIMESTAMPING, software), on CLOCK_MONOTONIC.
//!
//! Linux stamps each packet with CLOCK_REALTIME as it enters the stack, before it reaches a socket;
//! a stamped read returns the stamp of the last segment that it has taken bytes from. No privilege
//! is needed, and the loopback interface stamps, too.

use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;

use rustix::io::Errno;

use crate::clock::{monotonic_ns, realtime_ns};
use crate::socket::{Socket, last_errno, set_int_option, tcp_socket};

/// Readings of the two clocks of which the closest one is taken.
const READINGS: u32 = 5;
/// The two clocks are steered alike, so that their difference only moves where somebody sets the
/// time. Less than this is how exactly it can be read.
const STEP_MIN_NS: u64 = 10_000;

/// An instant on CLOCK_REALTIME at which data arrived, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u64);

/// Says what the kernel's stamps are on CLOCK_MONOTONIC.
#[derive(Debug)]
pub struct ArrivalClock {
    offset: Offset,
}

impl ArrivalClock {
    /// Asks the kernel for stamps, from now until this process ends; an error if it has none, or
    /// refuses them. It begins a moment later.
    pub fn new() -> Result<Self, Errno> {
        keep_stamping()?;
        Ok(Self { offset: Offset::read() })
    }

    /// Returns the stamp on CLOCK_MONOTONIC, in nanoseconds.
    pub const fn monotonic_ns(&self, stamp: Stamp) -> u64 {
        stamp.0.saturating_add_signed(-self.offset.ahead_ns)
    }

    /// Compares the clocks again. Returns whether CLOCK_REALTIME was set since the last time: what
    /// was stamped meanwhile may be off by as much.
    pub fn renew(&mut self) -> bool {
        let before = std::mem::replace(&mut self.offset, Offset::read());
        self.offset.differs(before)
    }

    /// Pretends that CLOCK_REALTIME was set back by `ns` since it was read last, for tests.
    pub const fn pretend_set(&mut self, ns: i64) {
        self.offset.ahead_ns += ns;
    }
}

/// The kernel stamps while any socket asks for it. Sockets that come and go would make it begin and
/// end each time, and it rewrites its own code for that: one of this process stays.
fn keep_stamping() -> Result<(), Errno> {
    static KEEPER: OnceLock<Result<OwnedFd, Errno>> = OnceLock::new();
    let keeper = KEEPER.get_or_init(|| {
        let keeper = tcp_socket(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        ask_for_stamps(&keeper)?;
        Ok(keeper)
    });
    keeper.as_ref().map(|_| ()).map_err(|errno| *errno)
}

/// The lead of CLOCK_REALTIME over CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
struct Offset {
    ahead_ns: i64,
    /// Tolerance in both directions.
    error_ns: u64,
}

impl Offset {
    fn read() -> Self {
        let reading = || {
            let (before, real, after) = (monotonic_ns(), realtime_ns(), monotonic_ns());
            let error_ns = (after - before) / 2;
            Self { ahead_ns: real.wrapping_sub(before + error_ns) as i64, error_ns }
        };
        let first = reading();
        (1..READINGS)
            .map(|_| reading())
            .fold(first, |best, next| if next.error_ns < best.error_ns { next } else { best })
    }

    const fn differs(self, other: Self) -> bool {
        let moved = self.ahead_ns.abs_diff(other.ahead_ns);
        moved > self.error_ns + other.error_ns + STEP_MIN_NS
    }
}

impl Socket {
    /// Makes [`Self::recv_stamped`] report from now on when data arrived.
    pub fn ask_for_stamps(&self) -> Result<(), Errno> {
        ask_for_stamps(self)
    }

    /// Receives like [`Self::recv`], and returns the arrival of the last of these bytes if it was stamped.
    pub fn recv_stamped(&self, buffer: &mut [u8]) -> Result<(usize, Option<Stamp>), Errno> {
        let mut control = Control([0; CONTROL_BYTES]);
        let mut iov = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        // SAFETY: all zeros are a valid msghdr: no name, no buffers.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        loop {
            message.msg_control = (&raw mut control).cast();
            message.msg_controllen = CONTROL_BYTES as _;
            // SAFETY: the message describes `buffer` and `control`, which outlive the call.
            let received = unsafe { libc::recvmsg(self.as_fd().as_raw_fd(), &raw mut message, 0) };
            if let Ok(received) = usize::try_from(received) {
                return Ok((received, stamp_of(&message)));
            }
            match last_errno() {
                Errno::INTR => {}
                errno => return Err(errno),
            }
        }
    }
}

/// Room for the three times of one SCM_TIMESTAMPING message, of which software stamps use the
/// first.
// SAFETY: it only computes.
const CONTROL_BYTES: usize =
    unsafe { libc::CMSG_SPACE(size_of::<[libc::timespec; 3]>() as u32) } as usize;

/// Aligned as control messages are.
#[repr(C, align(8))]
struct Control([u8; CONTROL_BYTES]);

fn stamp_of(message: &libc::msghdr) -> Option<Stamp> {
    // A pointer all the way: a reference to the header would not reach the data behind it.
    // SAFETY: the kernel has filled the message; its control buffer lives as long as it.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return None;
    }
    // SAFETY: it lies in the control buffer, as a whole and aligned.
    let head = unsafe { header.read() };
    let is_stamp = head.cmsg_level == libc::SOL_SOCKET
        && head.cmsg_type == libc::SCM_TIMESTAMPING
        && head.cmsg_len as usize >= size_of::<libc::cmsghdr>() + size_of::<libc::timespec>();
    if !is_stamp {
        return None;
    }
    // SAFETY: such a message begins with a timespec, and is long enough for one; it may lie
    // anywhere.
    let at = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
    let ns = at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64;
    (ns > 0).then_some(Stamp(ns))
}

fn ask_for_stamps(fd: impl AsFd) -> Result<(), Errno> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_int_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags as i32)
}

#[cfg(test)]
mod tests {
    use crate::poll::Poller;
    use crate::socket::ListenSocket;

    use super::*;

    /// A client that asks for stamps, and its peer.
    fn pair() -> (Socket, Socket) {
        let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 8).unwrap();
        let (client, _) = Socket::connect(listener.local_address().unwrap(), None).unwrap();
        client.ask_for_stamps().unwrap();
        (client, listener.accept().unwrap())
    }

    fn wait_for(client: &Socket) {
        let mut poller = Poller::new(1).unwrap();
        poller.add(client, 1).unwrap();
        while !(0..poller.wait(Some(5_000_000_000)).unwrap())
            .filter_map(|index| poller.event(index))
            .any(|event| event.is_readable())
        {}
    }

    /// The kernel begins to stamp a moment after it is asked to.
    fn stamped(client: &Socket, server: &Socket, clock: &ArrivalClock) -> (u64, u64, u64) {
        let mut buffer = [0; 16];
        for _ in 0..10_000 {
            let before = monotonic_ns();
            assert_eq!(server.send(b"ping"), Ok(4));
            let after = monotonic_ns();
            wait_for(client);
            let (received, stamp) = client.recv_stamped(&mut buffer).unwrap();
            assert_eq!(&buffer[..received], b"ping");
            if let Some(stamp) = stamp {
                return (before, clock.monotonic_ns(stamp), after);
            }
        }
        panic!("no stamp");
    }

    #[test]
    fn data_is_stamped_when_it_arrives_and_not_when_it_is_read() {
        let clock = ArrivalClock::new().unwrap();
        let (client, server) = pair();
        let (before, arrived, after) = stamped(&client, &server, &clock);
        // On loopback it arrives inside the call that sends it.
        let error = clock.offset.error_ns;
        assert!(before <= arrived + error, "sent at {before}, arrived at {arrived}");
        assert!(arrived <= after + error, "arrived at {arrived}, sent by {after}");
    }

    #[test]
    fn the_stamp_is_that_of_the_last_bytes() {
        let clock = ArrivalClock::new().unwrap();
        let (client, server) = pair();
        stamped(&client, &server, &clock);
        assert_eq!(server.send(b"first"), Ok(5));
        let between = monotonic_ns();
        assert_eq!(server.send(b"last"), Ok(4));
        wait_for(&client);
        let mut buffer = [0; 16];
        let (received, stamp) = client.recv_stamped(&mut buffer).unwrap();
        assert_eq!(&buffer[..received], b"firstlast");
        let arrived = clock.monotonic_ns(stamp.unwrap());
        assert!(between <= arrived + clock.offset.error_ns);
        // An end of stream carries no data, and none that does not come has arrived.
        assert_eq!(client.recv_stamped(&mut buffer), Err(Errno::AGAIN));
        drop(server);
        wait_for(&client);
        assert_eq!(client.recv_stamped(&mut buffer), Ok((0, None)));
    }

    #[test]
    fn a_clock_that_was_set_is_noticed() {
        let mut clock = ArrivalClock::new().unwrap();
        assert!(!clock.renew(), "nobody sets the time during this test");
        clock.pretend_set(1_000_000);
        assert!(clock.renew());
        assert!(!clock.renew());
    }
}
