//! Non-blocking sockets: TCP clients and listeners, and clients of Unix sockets.
//!
//! [`Socket`] wraps one descriptor in 4 bytes. [`Socket::connect_to`] starts a connect; if it returns
//! [`Connecting::InProgress`], the poller reports the socket writable later and [`Socket::take_error`] has the
//! result. [`ListenSocket`] shares its port (`SO_REUSEPORT`), so each worker has its own accept queue;
//! [`ReservedPort`] binds without listening. Calls return the kernel's `Errno`, and `AGAIN` means to wait for the
//! poller. Start reading at [`Socket::connect_to`].

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};

use crate::tcp_info::{self, SentSegments};

/// A connected or connecting stream socket, TCP unless it says otherwise. Four bytes; closing is dropping.
#[derive(Debug)]
#[repr(transparent)]
pub struct Socket(OwnedFd);

const _: () = assert!(size_of::<Option<Socket>>() == 4);

/// The progress of a connect when the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connecting {
    /// Established already, as happens on loopback.
    Done,
    /// Writable once it is decided; then ask [`Socket::take_error`].
    InProgress,
}

/// Time at which this end sends its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstBytes {
    /// Immediately after the connection is established: the ACK of the SYN-ACK goes with them.
    AtOnce,
    /// Perhaps never.
    Later,
}

impl Socket {
    /// Begins to connect to `remote`, from `source` if one is given. Nagle is off.
    pub fn connect(
        remote: SocketAddr,
        source: Option<IpAddr>,
    ) -> Result<(Self, Connecting), Errno> {
        Self::connect_to(remote, source, FirstBytes::Later)
    }

    /// Connects like [`Self::connect`]; `first_bytes` says when this end sends first.
    pub fn connect_to(
        remote: SocketAddr,
        source: Option<IpAddr>,
        first_bytes: FirstBytes,
    ) -> Result<(Self, Connecting), Errno> {
        let fd = client_socket(remote, first_bytes)?;
        if let Some(source) = source {
            // Leaves the port to connect(), so that one port can serve several destinations.
            set_int_option(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
            bind_or_freebind(&fd, SocketAddr::new(source, 0))?;
        }
        let progress = begin_connect(&fd, remote)?;
        Ok((Self(fd), progress))
    }

    /// Connects to the Unix socket at `path`, which is done or refused at once.
    ///
    /// # Errors
    ///
    /// `AGAIN` if the server's accept queue is full.
    pub fn connect_unix(path: &Path) -> Result<Self, Errno> {
        let address = net::SocketAddrUnix::new(path)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        net::connect(&fd, &address)?;
        Ok(Self(fd))
    }

    /// Reports whether a connect that was in progress is done, without waiting. An error is reported once.
    pub fn is_connected(&self) -> Result<bool, Errno> {
        match self.send(&[]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Makes the kernel acknowledge received bytes at once from now on, as on a new connection.
    pub fn acknowledge_at_once(&self) {
        // An old kernel without it delays some ACKs, as it does anyway.
        let _ = sockopt::set_tcp_quickack(&self.0, true);
    }

    /// Takes the pending error of a connect, if there is one.
    pub fn take_error(&self) -> Result<(), Errno> {
        sockopt::socket_error(&self.0)?
    }

    /// Sends bytes; returns how many the kernel accepted.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, Errno> {
        retry_on_intr(|| net::send(&self.0, bytes, SendFlags::NOSIGNAL))
    }

    /// Sends like [`Self::send`], but the last segment waits for the next bytes or the FIN.
    pub fn send_more(&self, bytes: &[u8]) -> Result<usize, Errno> {
        retry_on_intr(|| net::send(&self.0, bytes, SendFlags::NOSIGNAL | SendFlags::MORE))
    }

    /// Takes bytes from the kernel; 0 is the peer's end of stream.
    pub fn recv(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        let received = retry_on_intr(|| net::recv(&self.0, &mut *buffer, RecvFlags::empty()));
        received.map(|(received, _)| received)
    }

    /// Sends a FIN and keeps the receiving side open.
    pub fn shutdown_write(&self) -> Result<(), Errno> {
        net::shutdown(&self.0, net::Shutdown::Write)
    }

    /// Makes closing send a RST and leave no TIME_WAIT.
    pub fn reset_on_close(&self) -> Result<(), Errno> {
        sockopt::set_socket_linger(&self.0, Some(Duration::ZERO))
    }

    /// This end's address.
    pub fn local_address(&self) -> Result<SocketAddr, Errno> {
        local_address(&self.0)
    }

    /// Returns the other end's address.
    pub fn peer_address(&self) -> Result<SocketAddr, Errno> {
        match net::getpeername(&self.0)? {
            Some(address) => SocketAddr::try_from(address),
            None => Err(Errno::NOTCONN),
        }
    }

    /// Returns the segments that it has sent, also after its connection has ended.
    pub fn segments(&self) -> Result<SentSegments, Errno> {
        tcp_info::segments(&self.0)
    }

    /// Returns the descriptor's number, for messages.
    pub fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl From<OwnedFd> for Socket {
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A listening TCP socket.
#[derive(Debug)]
pub struct ListenSocket(OwnedFd);

impl ListenSocket {
    /// Listens on `address` (port 0: any free one), sharing the port with other sockets of this user that ask for it,
    /// so that every worker has a separate queue.
    pub fn bind(address: SocketAddr, backlog: i32) -> Result<Self, Errno> {
        let fd = tcp_socket(address)?;
        sockopt::set_socket_reuseaddr(&fd, true)?;
        sockopt::set_socket_reuseport(&fd, true)?;
        // Accepted sockets inherit it.
        sockopt::set_tcp_nodelay(&fd, true)?;
        net::bind(&fd, &address)?;
        net::listen(&fd, backlog)?;
        Ok(Self(fd))
    }

    /// Accepts the next connection; `Errno::AGAIN` if there is none.
    pub fn accept(&self) -> Result<Socket, Errno> {
        loop {
            match net::accept_with(&self.0, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                // The connection was reset in the accept queue: accept the next one.
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                other => return other.map(Socket),
            }
        }
    }

    /// Returns the socket's actual address.
    pub fn local_address(&self) -> Result<SocketAddr, Errno> {
        local_address(&self.0)
    }
}

impl AsFd for ListenSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A port that is kept for programs of this user that will share it (`SO_REUSEPORT`): no other program can listen on
/// it, and until they do connections are refused.
#[derive(Debug)]
pub struct ReservedPort(OwnedFd);

impl ReservedPort {
    /// Binds the port of `address`; port 0 binds any free one.
    pub fn bind(address: SocketAddr) -> Result<Self, Errno> {
        let fd = tcp_socket(address)?;
        // Not SO_REUSEADDR: beside a socket that has it and does not listen, every server may bind.
        sockopt::set_socket_reuseport(&fd, true)?;
        net::bind(&fd, &address)?;
        Ok(Self(fd))
    }

    /// Lets servers without `SO_REUSEPORT` listen on it as well, as long as none does: of those that set
    /// `SO_REUSEADDR`, which servers do, any one may.
    pub fn admit_any(&self) -> Result<(), Errno> {
        sockopt::set_socket_reuseaddr(&self.0, true)
    }

    /// Returns the socket's address.
    pub fn local_address(&self) -> Result<SocketAddr, Errno> {
        local_address(&self.0)
    }
}

/// Binds to `from`. An address of a prefix that is routed to this host without being configured ("AnyIP": `ip -6 route
/// add local PREFIX dev lo`) is bound only if the socket says that it means it.
pub(crate) fn bind_or_freebind(fd: &OwnedFd, from: SocketAddr) -> Result<(), Errno> {
    match net::bind(fd, &from) {
        Err(Errno::ADDRNOTAVAIL) if from.is_ipv6() => {
            set_int_option(fd, libc::IPPROTO_IPV6, libc::IPV6_FREEBIND, 1)?;
            net::bind(fd, &from)
        }
        outcome => outcome,
    }
}

pub(crate) fn begin_connect(fd: &OwnedFd, remote: SocketAddr) -> Result<Connecting, Errno> {
    match net::connect(fd, &remote) {
        Ok(()) => Ok(Connecting::Done),
        Err(Errno::INPROGRESS) => Ok(Connecting::InProgress),
        Err(errno) => Err(errno),
    }
}

pub(crate) fn client_socket(remote: SocketAddr, first_bytes: FirstBytes) -> Result<OwnedFd, Errno> {
    let fd = tcp_socket(remote)?;
    sockopt::set_tcp_nodelay(&fd, true)?;
    if first_bytes == FirstBytes::AtOnce {
        sockopt::set_tcp_quickack(&fd, false)?;
    }
    Ok(fd)
}

pub(crate) fn tcp_socket(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    net::socket_with(
        family,
        SocketType::STREAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        Some(ipproto::TCP),
    )
}

fn local_address(fd: &OwnedFd) -> Result<SocketAddr, Errno> {
    SocketAddr::try_from(net::getsockname(fd)?)
}

pub(crate) fn set_int_option(
    fd: impl AsFd,
    level: i32,
    option: i32,
    value: i32,
) -> Result<(), Errno> {
    // SAFETY: the pointer and length describe `value`, which outlives the call.
    let code = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if code == 0 { Ok(()) } else { Err(last_errno()) }
}

pub(crate) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use crate::poll::Poller;

    use super::*;

    #[test]
    fn a_unix_socket_is_connected_or_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        assert_eq!(Socket::connect_unix(&path).unwrap_err(), Errno::NOENT);
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let socket = Socket::connect_unix(&path).unwrap();
        assert_eq!(socket.send(b"ping").unwrap(), 4);
        assert!(socket.local_address().is_err() && socket.segments().is_err());
        drop(listener);
        assert_eq!(Socket::connect_unix(&path).unwrap_err(), Errno::CONNREFUSED);
        let long = folder.path().join("x".repeat(200));
        assert_eq!(Socket::connect_unix(&long).unwrap_err(), Errno::NAMETOOLONG);
    }

    #[test]
    fn bytes_cross_a_loopback_connection() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let listener = ListenSocket::bind(address.parse().unwrap(), 8).unwrap();
            let mut poller = Poller::new(8).unwrap();
            poller.add_listener(&listener, 1).unwrap();
            let remote = listener.local_address().unwrap();
            let source = remote.is_ipv4().then(|| "127.0.0.7".parse().unwrap());
            let (client, _) = Socket::connect(remote, source).unwrap();
            poller.add(&client, 2).unwrap();
            let mut server = None;
            let mut received = [0; 16];
            while server.is_none() {
                let count = poller.wait(Some(5_000_000_000)).unwrap();
                assert!(count > 0, "nothing became ready");
                for event in (0..count).filter_map(|index| poller.event(index)) {
                    if event.token == 1 {
                        server = Some(listener.accept().unwrap());
                    }
                }
            }
            client.take_error().unwrap();
            assert_eq!(client.send(b"ping"), Ok(4));
            let server = server.unwrap();
            poller.add(&server, 3).unwrap();
            while !(0..poller.wait(Some(5_000_000_000)).unwrap())
                .filter_map(|index| poller.event(index))
                .any(|event| event.token == 3 && event.is_readable())
            {}
            assert_eq!(server.recv(&mut received), Ok(4));
            if let Some(source) = source {
                assert_eq!(client.local_address().unwrap().ip(), source);
            }
            drop(client);
        }
    }

    #[test]
    fn a_reserved_port_is_for_those_who_share_it() {
        let reserved = ReservedPort::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = reserved.local_address().unwrap();
        // This one does not share the port, and so never listens on it.
        let stranger = tcp_socket(address).unwrap();
        sockopt::set_socket_reuseaddr(&stranger, true).unwrap();
        assert_eq!(net::bind(&stranger, &address), Err(Errno::ADDRINUSE));
        // Unless it is admitted.
        reserved.admit_any().unwrap();
        net::bind(&stranger, &address).unwrap();
        drop(stranger);
        let listener = ListenSocket::bind(address, 8).unwrap();
        assert_eq!(listener.local_address(), Ok(address));
        let (client, _) = Socket::connect(address, None).unwrap();
        let mut poller = Poller::new(1).unwrap();
        poller.add(&client, 1).unwrap();
        assert_eq!(poller.wait(Some(5_000_000_000)), Ok(1));
        // The socket that only binds the port gets none of the listener's connections.
        assert!(listener.accept().is_ok());
    }

    #[test]
    fn on_loopback_a_connect_is_decided_when_it_returns() {
        let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 8).unwrap();
        let remote = listener.local_address().unwrap();
        let (client, _) = Socket::connect_to(remote, None, FirstBytes::AtOnce).unwrap();
        assert_eq!(client.is_connected(), Ok(true));
        assert_eq!(client.send(b"hello"), Ok(5));
        client.acknowledge_at_once();
        let mut received = [0; 16];
        assert_eq!(listener.accept().unwrap().recv(&mut received), Ok(5));
        drop(listener);
        let refused = match Socket::connect(remote, None) {
            Ok((socket, _)) => socket.is_connected().unwrap_err(),
            Err(errno) => errno,
        };
        assert_eq!(refused, Errno::CONNREFUSED);
    }

    #[test]
    fn a_refused_connect_says_so() {
        let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 8).unwrap();
        let remote = listener.local_address().unwrap();
        drop(listener);
        let refused = match Socket::connect(remote, None) {
            Err(errno) => errno,
            Ok((socket, _)) => {
                let mut poller = Poller::new(1).unwrap();
                poller.add(&socket, 1).unwrap();
                assert_eq!(poller.wait(Some(5_000_000_000)), Ok(1));
                socket.take_error().unwrap_err()
            }
        };
        assert_eq!(refused, Errno::CONNREFUSED);
    }
}
