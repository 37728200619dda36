//! The header of the PROXY protocol, version 2: which client's connection a proxy passes on. It comes
//! before every other byte of a connection, TLS included.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2, and a connection that is passed on for somebody else.
const PROXIED: u8 = 0x21;
/// A connection of the proxy itself, such as a health check.
const OWN: u8 = 0x20;
const TCP_OVER_IPV4: u8 = 0x11;
const TCP_OVER_IPV6: u8 = 0x21;
/// Type of the field that holds a unique identifier.
const UNIQUE_ID: u8 = 0x05;
/// Longest identifier (proxy-protocol.txt, 2.2.5).
pub const UNIQUE_ID_BYTES_MAX: usize = 128;

/// Appends the header of a connection from `source` to `destination`. An IPv4 address beside an IPv6 one is
/// written as IPv6. `unique_id` is left out if it is empty, and cut if it is too long.
pub fn write_header(
    out: &mut Vec<u8>,
    source: SocketAddr,
    destination: SocketAddr,
    unique_id: &str,
) {
    let id = unique_id.as_bytes();
    let id = &id[..id.len().min(UNIQUE_ID_BYTES_MAX)];
    let field_bytes = if id.is_empty() { 0 } else { 3 + id.len() };
    out.extend_from_slice(&SIGNATURE);
    out.push(PROXIED);
    match (source.ip(), destination.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.push(TCP_OVER_IPV4);
            push_u16(out, 12 + field_bytes);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
        }
        (from, to) => {
            out.push(TCP_OVER_IPV6);
            push_u16(out, 36 + field_bytes);
            for address in [from, to] {
                let address = match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                out.extend_from_slice(&address.octets());
            }
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
    if !id.is_empty() {
        out.push(UNIQUE_ID);
        push_u16(out, id.len());
        out.extend_from_slice(id);
    }
}

/// Bytes that are no header of a connection.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the connection does not begin with a whole header of the PROXY protocol, version 2")]
pub struct NoHeader;

/// Returns the length of the header that `bytes` begin with, which must be complete. The addresses in it, and whether
/// it is a proxy's own health check, make no difference here.
pub fn header_bytes(bytes: &[u8]) -> Result<usize, NoHeader> {
    let (head, rest) = bytes.split_first_chunk::<16>().ok_or(NoHeader)?;
    let [.., version_and_command, family, high, low] = *head;
    let length = usize::from(u16::from_be_bytes([high, low]));
    let addresses = match (version_and_command, family) {
        (OWN, _) | (PROXIED, 0) => 0,
        (PROXIED, TCP_OVER_IPV4) => 12,
        (PROXIED, TCP_OVER_IPV6) => 36,
        _ => return Err(NoHeader),
    };
    let is_whole = head.starts_with(&SIGNATURE) && length >= addresses && rest.len() >= length;
    if is_whole { Ok(16 + length) } else { Err(NoHeader) }
}

/// Lengths here are below 200.
fn push_u16(out: &mut Vec<u8>, length: usize) {
    out.extend_from_slice(&(length as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(source: &str, destination: &str, unique_id: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        write_header(&mut out, address(source), address(destination), unique_id);
        out
    }

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        let v4 = header("10.1.2.3:4660", "192.0.2.1:443", "");
        let signature = b"\x0D\x0A\x0D\x0A\x00\x0D\x0A\x51\x55\x49\x54\x0A";
        let addresses = b"\x21\x11\x00\x0C\x0A\x01\x02\x03\xC0\x00\x02\x01\x12\x34\x01\xBB";
        assert_eq!(v4, [&signature[..], addresses].concat());
        assert_eq!(v4.len(), 28);

        let v6 = header("[2001:db8::1]:1", "[::1]:2", "");
        assert_eq!(v6.len(), 52);
        assert_eq!(v6[12..16], [0x21, 0x21, 0, 36]);
        assert_eq!(v6[16..20], [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(v6[47..], [1, 0, 1, 0, 2]);
    }

    #[test]
    fn an_identifier_is_a_field_behind_the_addresses() {
        let named = header("10.0.0.1:1", "10.0.0.2:2", "run-7");
        assert_eq!(named[14..16], [0, 12 + 3 + 5]);
        assert_eq!(named[28..], *b"\x05\x00\x05run-7");
        let long = header("10.0.0.1:1", "10.0.0.2:2", &"x".repeat(1000));
        assert_eq!(long.len(), 28 + 3 + UNIQUE_ID_BYTES_MAX);
    }

    #[test]
    fn a_header_is_taken_as_a_whole() {
        for (source, destination) in [("10.0.0.1:1", "10.0.0.2:2"), ("[::1]:1", "[::1]:2")] {
            for id in ["", "run-7"] {
                let whole = header(source, destination, id);
                assert_eq!(header_bytes(&whole), Ok(whole.len()));
                let more = [&whole[..], b"GET / HTTP/1.1\r\n"].concat();
                assert_eq!(header_bytes(&more), Ok(whole.len()));
                for cut in 0..whole.len() {
                    assert_eq!(header_bytes(&whole[..cut]), Err(NoHeader), "{cut}");
                }
                for at in 0..14 {
                    let mut wrong = whole.clone();
                    wrong[at] ^= 0x40;
                    assert_eq!(header_bytes(&wrong), Err(NoHeader), "{at}");
                }
            }
        }
        let version_1 = b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\nGET / HTTP/1.1\r\n\r\n";
        assert_eq!(header_bytes(version_1), Err(NoHeader));
        // A health check names no client.
        let check = [&SIGNATURE[..], &[OWN, 0, 0, 0]].concat();
        assert_eq!(header_bytes(&check), Ok(16));
        // Addresses do not fit into the length.
        let short = [&SIGNATURE[..], &[PROXIED, TCP_OVER_IPV4, 0, 4, 1, 2, 3, 4]].concat();
        assert_eq!(header_bytes(&short), Err(NoHeader));
    }

    #[test]
    fn both_addresses_are_of_one_family() {
        let mixed = header("10.0.0.1:1", "[::1]:2", "");
        assert_eq!(mixed.len(), 52);
        assert_eq!(mixed[26..32], [0xff, 0xff, 10, 0, 0, 1]);
    }
}
