//! Messages to the kernel over netlink(7), and dumps of its tables.

use rustix::io::Errno;
use rustix::net;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};

use std::os::fd::OwnedFd;

/// NLM_F_REQUEST and NLM_F_DUMP, include/uapi/linux/netlink.h.
const DUMP: u16 = 0x1 | 0x300;
/// NLMSG_ERROR and NLMSG_DONE.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Flags in the type of an attribute.
const TYPE_MASK: u16 = 0x3fff;
/// struct nlmsghdr.
pub(crate) const HEADER_BYTES: usize = 16;
/// One part of an answer; the kernel fills at most 32 KiB.
const PART_BYTES: usize = 32 * 1024;

/// Creates a socket of `protocol`; `None` is NETLINK_ROUTE.
pub(crate) fn socket(protocol: Option<Protocol>) -> Result<OwnedFd, Errno> {
    net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)
}

/// Asks for everything of type `kind` that `body` selects, and hands each answer to `add`.
pub(crate) fn dump(
    socket: &OwnedFd,
    kind: u16,
    body: &[u8],
    add: &mut dyn FnMut(&[u8]),
) -> Result<(), Errno> {
    net::send(socket, &request(kind, DUMP, body), SendFlags::empty())?;
    let mut part = vec![0; PART_BYTES];
    loop {
        let (received, _) = net::recv(socket, &mut part[..], RecvFlags::empty())?;
        if received == 0 || add_part(&part[..received], add)? {
            return Ok(());
        }
    }
}

/// Creates a message of this kind, without the attributes behind its `body`.
pub(crate) fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES];
    bytes[..4].copy_from_slice(&((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
    bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
    bytes.extend(body);
    bytes
}

/// Returns the value of the first attribute of type `wanted`.
pub(crate) fn attribute(mut bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let (Some(length), Some(kind)) = (bytes.get(..2), bytes.get(2..4)) {
        let length = usize::from(u16::from_ne_bytes(*length.first_chunk()?));
        let value = bytes.get(4..length)?;
        if u16::from_ne_bytes(*kind.first_chunk()?) & TYPE_MASK == wanted {
            return Some(value);
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

/// Reads the error in a message of type ERROR; 0 acknowledges a request.
pub(crate) fn acknowledged(body: &[u8]) -> Result<(), Errno> {
    match body.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)) {
        Some(0) => Ok(()),
        Some(negative) => Err(Errno::from_raw_os_error(negative.saturating_neg().max(1))),
        None => Err(Errno::BADMSG),
    }
}

/// Hands on the messages of one part of an answer; true after the last part.
fn add_part(mut part: &[u8], add: &mut dyn FnMut(&[u8])) -> Result<bool, Errno> {
    while let Some((length, kind)) = header(part) {
        let Some(body) = part.get(HEADER_BYTES..length) else { return Err(Errno::BADMSG) };
        match kind {
            DONE => return Ok(true),
            ERROR => return acknowledged(body).map(|()| true),
            _ => add(body),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_answers_are_refused() {
        let mut bodies = 0;
        let mut part = |part: &[u8]| add_part(part, &mut |_| bodies += 1);
        assert_eq!(part(&[]), Ok(false));
        assert_eq!(part(&[9, 0, 0]), Ok(false));
        // A length beyond the end.
        let mut message = request(20, DUMP, &[0; 56]);
        message[..4].copy_from_slice(&200u32.to_ne_bytes());
        assert_eq!(part(&message), Err(Errno::BADMSG));
        message[..4].copy_from_slice(&72u32.to_ne_bytes());
        assert_eq!(part(&message), Ok(false));
        let mut refused = message;
        refused[4..6].copy_from_slice(&ERROR.to_ne_bytes());
        refused[16..20].copy_from_slice(&(-1i32).to_ne_bytes());
        assert_eq!(part(&refused), Err(Errno::PERM));
        assert_eq!(bodies, 1);
    }
}
