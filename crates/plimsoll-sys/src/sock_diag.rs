//! Listening TCP sockets and their accept queues, from the kernel over netlink (sock_diag(7)).
//!
//! Asks for the state LISTEN alone, which costs 0.1 ms also beside millions of connections; it needs
//! no privilege and sees this network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::netlink::SOCK_DIAG;

use crate::netlink;

/// SOCK_DIAG_BY_FAMILY, include/uapi/linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// TCP_LISTEN, include/net/tcp_states.h.
const LISTEN: u32 = 10;
const TCP: u8 = 6;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// struct inet_diag_req_v2.
const REQUEST_BYTES: usize = 56;
/// struct inet_diag_msg.
const SOCKET_BYTES: usize = 72;
/// INET_DIAG_SKMEMINFO, include/uapi/linux/inet_diag.h, and SK_MEMINFO_DROPS in it.
const MEMORY: u16 = 7;
const DROPS_AT: usize = 8 * 4;
/// The most listeners that are returned.
const LISTENERS_MAX: usize = 4096;

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenQueue {
    /// Listening address.
    pub address: SocketAddr,
    /// Connections that wait to be accepted.
    pub waiting: u32,
    /// The most that may wait; one more than that makes the queue full.
    pub limit: u32,
    /// SYNs and connections that it has dropped, for want of room in a queue and for other reasons.
    pub dropped: u32,
    /// The number of the socket, as `/proc/PID/fd` shows it.
    pub inode: u32,
}

/// Returns all listening TCP sockets of this network namespace, at most 4,096. Sockets that share a port (SO_REUSEPORT)
/// are listed one by one.
pub fn listen_queues() -> Result<Vec<ListenQueue>, Errno> {
    let socket = netlink::socket(Some(SOCK_DIAG))?;
    let mut queues = Vec::new();
    for family in [IPV4, IPV6] {
        netlink::dump(&socket, BY_FAMILY, &request(family), &mut |body| {
            if queues.len() < LISTENERS_MAX {
                queues.extend(listen_queue(body));
            }
        })?;
    }
    Ok(queues)
}

fn request(family: u8) -> [u8; REQUEST_BYTES] {
    let mut bytes = [0; REQUEST_BYTES];
    (bytes[0], bytes[1], bytes[2]) = (family, TCP, 1 << (MEMORY - 1));
    bytes[4..8].copy_from_slice(&(1u32 << LISTEN).to_ne_bytes());
    bytes
}

fn listen_queue(message: &[u8]) -> Option<ListenQueue> {
    let (body, attributes) = message.split_first_chunk::<SOCKET_BYTES>()?;
    let word = |at: usize| u32::from_ne_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
    let port = u16::from_be_bytes([body[4], body[5]]);
    let ip = match body[0] {
        IPV4 => IpAddr::V4(Ipv4Addr::new(body[8], body[9], body[10], body[11])),
        IPV6 => IpAddr::V6(Ipv6Addr::from(*body[8..24].first_chunk::<16>()?)),
        _ => return None,
    };
    // Behind state and addresses: expires, rqueue, wqueue, uid, inode.
    Some(ListenQueue {
        address: SocketAddr::new(ip, port),
        waiting: word(56),
        limit: word(60),
        dropped: drops(attributes).unwrap_or(0),
        inode: word(68),
    })
}

/// Returns the count of dropped packets among the attributes behind a socket.
fn drops(attributes: &[u8]) -> Option<u32> {
    let memory = netlink::attribute(attributes, MEMORY)?;
    memory.get(DROPS_AT..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::socket::Socket;

    fn queue_of(address: SocketAddr) -> Option<ListenQueue> {
        listen_queues().unwrap().into_iter().find(|queue| queue.address == address)
    }

    #[test]
    fn a_connection_that_waits_is_seen() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(host) else { continue };
            let address = listener.local_addr().unwrap();
            let empty = queue_of(address).expect("it listens");
            assert_eq!(empty.waiting, 0);
            assert!(empty.limit > 0);
            let _waiting = TcpStream::connect(address).unwrap();
            assert_eq!(queue_of(address).unwrap().waiting, 1);
            drop(listener.accept().unwrap());
            assert_eq!(queue_of(address).unwrap().waiting, 0);
            drop(listener);
            assert_eq!(queue_of(address), None);
        }
    }

    #[test]
    fn a_full_accept_queue_counts_its_own_drops() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        // One fits; the SYNs of the others are dropped, and sent again after a second.
        while queue_of(address).unwrap().dropped == 0 {
            waiting.push(Socket::connect(address, None).unwrap());
            assert!(waiting.len() < 100, "{:?}", queue_of(address));
        }
        assert_eq!(queue_of(other.local_addr().unwrap()).unwrap().dropped, 0);
    }

    #[test]
    fn a_message_that_is_too_short_is_no_socket() {
        assert_eq!(listen_queue(&[IPV4; SOCKET_BYTES - 1]), None);
        assert_eq!(listen_queue(&[0; SOCKET_BYTES]), None);
    }
}
