//! The kernel's counters of one TCP socket: `TCP_INFO`, tcp(7).

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use crate::socket::last_errno;

/// struct tcp_info, include/uapi/linux/tcp.h, up to the last field below.
const INFO_BYTES: usize = 140;
/// tcpi_sacked, which a listening socket uses for the length of its queue.
const QUEUE_AT: usize = 28;
/// tcpi_total_retrans.
const SENT_AGAIN_AT: usize = 100;
/// tcpi_segs_out, since Linux 4.2.
const SENT_AT: usize = 136;

/// Segments that a socket has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentSegments {
    /// All of them, SYNs and acknowledgements included; 0 before Linux 4.2.
    pub sent: u32,
    /// Segments of `sent` that were retransmissions.
    pub sent_again: u32,
}

/// Returns the segments that `socket` has sent, also after its connection has ended.
pub(crate) fn segments(socket: impl AsFd) -> Result<SentSegments, Errno> {
    let info = read(socket)?;
    Ok(SentSegments { sent: word(&info, SENT_AT), sent_again: word(&info, SENT_AGAIN_AT) })
}

/// Returns the most connections that may wait at a listening socket.
pub(crate) fn queue_max(socket: impl AsFd) -> Result<u32, Errno> {
    Ok(word(&read(socket)?, QUEUE_AT))
}

/// An older kernel fills less of it.
fn read(socket: impl AsFd) -> Result<[u8; INFO_BYTES], Errno> {
    let mut info = [0u8; INFO_BYTES];
    let mut length = INFO_BYTES as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into `info`, which is that long.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    if failed == 0 { Ok(info) } else { Err(last_errno()) }
}

fn word(info: &[u8; INFO_BYTES], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|index| info[at + index]))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn segments_of_one_connection_are_counted_and_no_others() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it listens");
        let open = || {
            let here = TcpStream::connect(address).expect("it listens");
            (here, listener.accept().expect("it connected").0)
        };
        // Both ends stay open: the end of one is a segment that the other acknowledges.
        let ((mut busy, mut there), (idle, _its_other_end)) = (open(), open());
        for _ in 0..20 {
            busy.write_all(b"x").expect("open");
            there.read_exact(&mut [0]).expect("open");
        }
        let (busy, idle) = (segments(&busy).expect("TCP"), segments(&idle).expect("TCP"));
        assert!(busy.sent >= idle.sent + 20, "{busy:?} {idle:?}");
        assert_eq!((busy.sent_again, idle.sent_again), (0, 0));
    }

    #[test]
    fn a_socket_that_is_no_tcp_has_none() {
        let (one, _) = std::os::unix::net::UnixStream::pair().expect("two sockets");
        assert!(segments(&one).is_err());
    }
}
