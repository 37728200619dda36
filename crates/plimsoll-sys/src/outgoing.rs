//! Connecting from one exact (source address, port).
//!
//! On kernels with IP_LOCAL_PORT_RANGE (Linux 6.3 and later) a range of one port is asked
//! for, and the port stays free for other destinations and for the kernel's own choice. Older
//! kernels get an explicit bind with SO_REUSEADDR. The two do not mix in one network namespace: an
//! explicitly bound port is in use for every destination of a socket that binds the other way.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::io::Errno;
use rustix::net::sockopt;

use crate::address::any_like;
use crate::socket::{
    Connecting, FirstBytes, Socket, begin_connect, bind_or_freebind, client_socket, set_int_option,
    tcp_socket,
};

/// include/uapi/linux/in.h; the option's level is IPPROTO_IP for IPv6 sockets, too.
const IP_LOCAL_PORT_RANGE: i32 = 51;

/// The way in which a port is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortChoice {
    /// IP_LOCAL_PORT_RANGE of one port.
    Range,
    /// An explicit bind, on kernels before 6.3.
    Bind,
}

impl PortChoice {
    /// Returns the ability of this kernel; asked once per process.
    pub fn of_kernel() -> Self {
        static CHOICE: OnceLock<PortChoice> = OnceLock::new();
        *CHOICE.get_or_init(|| {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let probe = tcp_socket(any)
                .and_then(|fd| set_int_option(&fd, libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE, 0));
            if probe == Err(Errno::NOPROTOOPT) { Self::Bind } else { Self::Range }
        })
    }
}

/// Why a connect from a chosen port did not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OutgoingError {
    /// The pair is in use, in TIME_WAIT, or bound by another socket: another pair may be tried.
    #[error("the source port is in use")]
    Taken,
    /// Anything else; another port would not help.
    #[error(transparent)]
    Failed(#[from] Errno),
}

/// A TCP socket that is looking for its source port. After [`OutgoingError::Taken`] the same
/// socket is asked again, which saves making a new one for each refusal.
#[derive(Debug)]
pub struct Outgoing {
    fd: OwnedFd,
    remote: SocketAddr,
    choice: PortChoice,
    first_bytes: FirstBytes,
    /// The address that the socket is bound to so far.
    bound: Option<IpAddr>,
    /// The socket has an explicit port and cannot get another.
    spent: bool,
}

impl Outgoing {
    /// Creates a socket for a connection to `remote`. Nagle is off.
    pub fn new(remote: SocketAddr, first_bytes: FirstBytes) -> Result<Self, Errno> {
        Self::with_choice(remote, PortChoice::of_kernel(), first_bytes)
    }

    /// Creates a socket like [`Self::new`], with the given choice of ports.
    pub fn with_choice(
        remote: SocketAddr,
        choice: PortChoice,
        first_bytes: FirstBytes,
    ) -> Result<Self, Errno> {
        let fd = prepared_socket(remote, choice, first_bytes)?;
        Ok(Self { fd, remote, choice, first_bytes, bound: None, spent: false })
    }

    /// Begins to connect from `port` of `source`, or of the address that the routes give. The port
    /// must lie in the host's range: the kernel would silently accept any other.
    pub fn connect_from(
        &mut self,
        source: Option<IpAddr>,
        port: u16,
    ) -> Result<Connecting, OutgoingError> {
        match self.choice {
            PortChoice::Range => self.ask_for_range(source, port)?,
            PortChoice::Bind => self.bind_port(source, port)?,
        }
        begin_connect(&self.fd, self.remote).map_err(taken)
    }

    /// Returns the socket, connected or connecting.
    pub fn into_socket(self) -> Socket {
        Socket::from(self.fd)
    }

    fn ask_for_range(&mut self, source: Option<IpAddr>, port: u16) -> Result<(), OutgoingError> {
        // Bounds are inclusive, the upper one in the high half. The kernel reads the option as
        // unsigned; the bits are what counts.
        let range = (u32::from(port) << 16 | u32::from(port)).cast_signed();
        set_int_option(&self.fd, libc::IPPROTO_IP, IP_LOCAL_PORT_RANGE, range)?;
        if let Some(address) = source
            && self.bound != source
        {
            bind_or_freebind(&self.fd, SocketAddr::new(address, 0))?;
            self.bound = source;
        }
        Ok(())
    }

    fn bind_port(&mut self, source: Option<IpAddr>, port: u16) -> Result<(), OutgoingError> {
        if self.spent {
            self.fd = prepared_socket(self.remote, self.choice, self.first_bytes)?;
        }
        let any = any_like(self.remote).ip();
        let from = SocketAddr::new(source.unwrap_or(any), port);
        match bind_or_freebind(&self.fd, from) {
            Err(Errno::ADDRINUSE) => Err(OutgoingError::Taken),
            outcome => {
                self.spent = outcome.is_ok();
                Ok(outcome?)
            }
        }
    }
}

fn prepared_socket(
    remote: SocketAddr,
    choice: PortChoice,
    first_bytes: FirstBytes,
) -> Result<OwnedFd, Errno> {
    let fd = client_socket(remote, first_bytes)?;
    match choice {
        PortChoice::Range => {
            set_int_option(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)?;
        }
        PortChoice::Bind => sockopt::set_socket_reuseaddr(&fd, true)?,
    }
    Ok(fd)
}

/// connect() names the same error whatever keeps it from the port.
fn taken(errno: Errno) -> OutgoingError {
    match errno {
        Errno::ADDRNOTAVAIL | Errno::ADDRINUSE => OutgoingError::Taken,
        errno => OutgoingError::Failed(errno),
    }
}
