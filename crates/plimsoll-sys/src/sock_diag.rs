//! Listening TCP sockets and their accept queues, from the kernel over netlink (sock_diag(7)).
//!
//! Asks for the state LISTEN alone, which costs 0.1 ms also beside millions of connections; it needs
//! no privilege and sees this network namespace.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// SOCK_DIAG_BY_FAMILY, include/uapi/linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// NLM_F_REQUEST and NLM_F_DUMP, include/uapi/linux/netlink.h.
const DUMP: u16 = 0x1 | 0x300;
/// NLMSG_ERROR and NLMSG_DONE.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// TCP_LISTEN, include/net/tcp_states.h.
const LISTEN: u32 = 10;
const TCP: u8 = 6;
const IPV4: u8 = 2;
const IPV6: u8 = 10;
/// struct nlmsghdr.
const HEADER_BYTES: usize = 16;
/// struct inet_diag_req_v2.
const REQUEST_BYTES: usize = 56;
/// struct inet_diag_msg.
const SOCKET_BYTES: usize = 72;
/// One part of an answer; the kernel fills at most 32 KiB.
const PART_BYTES: usize = 32 * 1024;
/// The most listeners that are returned.
const LISTENERS_MAX: usize = 4096;

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenQueue {
    /// Where it listens.
    pub address: SocketAddr,
    /// Connections that wait to be accepted.
    pub waiting: u32,
    /// The most that may wait; one more than that makes the queue full.
    pub limit: u32,
}

/// All listening TCP sockets of this network namespace, at most 4,096. Sockets that share a port
/// (SO_REUSEPORT) are listed one by one.
pub fn listen_queues() -> Result<Vec<ListenQueue>, Errno> {
    let socket = net::socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    let mut queues = Vec::new();
    for family in [IPV4, IPV6] {
        net::send(&socket, &request(family), SendFlags::empty())?;
        let mut part = vec![0; PART_BYTES];
        loop {
            let (received, _) = net::recv(&socket, &mut part[..], RecvFlags::empty())?;
            if received == 0 || add_part(&part[..received], &mut queues)? {
                break;
            }
        }
    }
    Ok(queues)
}

fn request(family: u8) -> [u8; HEADER_BYTES + REQUEST_BYTES] {
    let mut bytes = [0; HEADER_BYTES + REQUEST_BYTES];
    let length = bytes.len() as u32;
    bytes[..4].copy_from_slice(&length.to_ne_bytes());
    bytes[4..6].copy_from_slice(&BY_FAMILY.to_ne_bytes());
    bytes[6..8].copy_from_slice(&DUMP.to_ne_bytes());
    bytes[HEADER_BYTES] = family;
    bytes[HEADER_BYTES + 1] = TCP;
    bytes[HEADER_BYTES + 4..HEADER_BYTES + 8].copy_from_slice(&(1u32 << LISTEN).to_ne_bytes());
    bytes
}

/// Adds the sockets of one part of an answer; true after the last part.
fn add_part(mut part: &[u8], queues: &mut Vec<ListenQueue>) -> Result<bool, Errno> {
    while let Some((length, kind)) = header(part) {
        let Some(body) = part.get(HEADER_BYTES..length) else { return Err(Errno::BADMSG) };
        match kind {
            DONE => return Ok(true),
            ERROR => {
                let errno = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
                return Err(Errno::from_raw_os_error(errno.saturating_neg().max(1)));
            }
            _ if queues.len() < LISTENERS_MAX => queues.extend(listen_queue(body)),
            _ => {}
        }
        // Messages begin at multiples of 4.
        part = part.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Length and type of the message that `part` begins with.
fn header(part: &[u8]) -> Option<(usize, u16)> {
    let length = u32::from_ne_bytes(*part.first_chunk()?) as usize;
    let kind = u16::from_ne_bytes(*part.get(4..6)?.first_chunk()?);
    (length >= HEADER_BYTES && part.len() >= HEADER_BYTES).then_some((length, kind))
}

fn listen_queue(body: &[u8]) -> Option<ListenQueue> {
    let body: &[u8; SOCKET_BYTES] = body.first_chunk()?;
    let word = |at: usize| u32::from_ne_bytes([body[at], body[at + 1], body[at + 2], body[at + 3]]);
    let port = u16::from_be_bytes([body[4], body[5]]);
    let ip = match body[0] {
        IPV4 => IpAddr::V4(Ipv4Addr::new(body[8], body[9], body[10], body[11])),
        IPV6 => IpAddr::V6(Ipv6Addr::from(*body[8..24].first_chunk::<16>()?)),
        _ => return None,
    };
    // Behind state and addresses: expires, rqueue, wqueue.
    Some(ListenQueue { address: SocketAddr::new(ip, port), waiting: word(56), limit: word(60) })
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

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
    fn damaged_answers_are_refused() {
        let mut queues = Vec::new();
        assert_eq!(add_part(&[], &mut queues), Ok(false));
        assert_eq!(add_part(&[9, 0, 0], &mut queues), Ok(false));
        // A length beyond the end.
        let mut message = request(IPV4).to_vec();
        message[..4].copy_from_slice(&200u32.to_ne_bytes());
        assert_eq!(add_part(&message, &mut queues), Err(Errno::BADMSG));
        // A message that is too short for a socket.
        message[..4].copy_from_slice(&72u32.to_ne_bytes());
        assert_eq!(add_part(&message, &mut queues), Ok(false));
        let mut refused = message;
        refused[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        refused[16..20].copy_from_slice(&(-1i32).to_ne_bytes());
        assert_eq!(add_part(&refused, &mut queues), Err(Errno::PERM));
        assert!(queues.is_empty());
    }
}
