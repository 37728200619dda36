//! Network namespaces without a name, and the virtual links (veth) between them.
//!
//! One is held by file descriptors and by the processes in it. The kernel removes it, with its interfaces,
//! addresses and routes, when the last holder ends, however it ends: there is nothing to clean up.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::{io, thread};

use rustix::net;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::netlink;

/// NLM_F_REQUEST, NLM_F_ACK, NLM_F_EXCL and NLM_F_CREATE, include/uapi/linux/netlink.h.
const CREATE: u16 = 0x1 | 0x4 | 0x200 | 0x400;
/// The attributes of a link: include/uapi/linux/if_link.h and veth.h.
const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
/// Attributes of an address: include/uapi/linux/if_addr.h.
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// struct nlmsghdr, and struct ifinfomsg.
const LINK_BYTES: usize = 16;
const IPV4: u8 = 2;
/// The first words of an answer: header, and the error number with its sign.
const ANSWER_BYTES: usize = 1024;

/// A network namespace. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Namespace(Arc<OwnedFd>);

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Namespace {}

/// Addresses from `first` on that share their first `bits` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The first of them.
    pub first: Ipv4Addr,
    /// The length of the prefix.
    pub bits: u8,
}

impl Namespace {
    /// Creates a namespace with only loopback, which is up. Needs CAP_SYS_ADMIN.
    pub fn new() -> io::Result<Self> {
        let made = on_thread(|| {
            // SAFETY: only the network namespace is unshared, which holds no descriptors, and only of this
            // thread, which ends here.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
            set_up("lo")?;
            File::open("/proc/thread-self/ns/net")
        })??;
        Ok(Self(Arc::new(made.into())))
    }

    /// Opens the namespace of process `pid`. Entering another one than one's own needs CAP_SYS_ADMIN.
    pub fn of_process(pid: u32) -> io::Result<Self> {
        Ok(Self(Arc::new(File::open(format!("/proc/{pid}/ns/net"))?.into())))
    }

    /// Moves the calling thread into it, and every process that it starts from now on.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Runs `work` in it, on a separate thread.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_thread(|| self.enter().map(|()| work()))?
    }

    /// Joins this namespace and `other` by a link: here it is called `name`, there `other_name`. Both
    /// ends are up.
    pub fn join(&self, name: &str, other: &Self, other_name: &str) -> io::Result<()> {
        self.run(|| {
            let mut link = Message::new(libc::RTM_NEWLINK, CREATE, &[0; LINK_BYTES]);
            link.text(IFLA_IFNAME, name);
            link.nested(IFLA_LINKINFO, |info| {
                info.text(IFLA_INFO_KIND, "veth");
                info.nested(IFLA_INFO_DATA, |data| {
                    data.nested(VETH_INFO_PEER, |peer| {
                        peer.bytes.extend_from_slice(&[0; LINK_BYTES]);
                        peer.text(IFLA_IFNAME, other_name);
                        peer.attribute(IFLA_NET_NS_FD, &other.0.as_raw_fd().to_ne_bytes());
                    });
                });
            });
            link.send()?;
            set_up(name)
        })??;
        other.run(|| set_up(other_name))?
    }

    /// Gives the link `name` an address, and with it the way to the others of its prefix.
    pub fn add_address(&self, name: &str, address: Ipv4Addr, bits: u8) -> io::Result<()> {
        self.run(|| {
            // struct ifaddrmsg: family, prefix length, flags, scope, interface.
            let mut body = vec![IPV4, bits, 0, 0];
            body.extend_from_slice(&index_of(name)?.to_ne_bytes());
            let mut message = Message::new(libc::RTM_NEWADDR, CREATE, &body);
            message.attribute(IFA_LOCAL, &address.octets());
            message.attribute(IFA_ADDRESS, &address.octets());
            message.send()
        })?
    }

    /// Sends what is for `to` by way of the neighbour `via`.
    pub fn add_route(&self, to: Prefix, via: Ipv4Addr) -> io::Result<()> {
        self.run(|| {
            let kind = (libc::RT_TABLE_MAIN, 0, libc::RTN_UNICAST);
            let mut message = route(to, kind);
            message.attribute(libc::RTA_GATEWAY, &via.octets());
            message.send()
        })?
    }

    /// Switches the interface `name` on or off; both ends of a link lose their carrier with one of them. The kernel
    /// drops the routes through an interface that is switched off, and restores only the routes to its own prefixes.
    pub fn switch(&self, name: &str, on: bool) -> io::Result<()> {
        self.run(|| set_flags(name, if on { libc::IFF_UP as u32 } else { 0 }))?
    }

    /// Makes every address of `prefix` one of this namespace, without configuring each ("AnyIP").
    pub fn own(&self, prefix: Prefix) -> io::Result<()> {
        self.run(|| {
            let kind = (libc::RT_TABLE_LOCAL, libc::RT_SCOPE_HOST, libc::RTN_LOCAL);
            let mut message = route(prefix, kind);
            message.attribute(libc::RTA_OIF, &index_of("lo")?.to_ne_bytes());
            message.send()
        })?
    }
}

/// A route to `to`; its table, scope and type are `kind`.
fn route(to: Prefix, (table, scope, kind): (u8, u8, u8)) -> Message {
    // struct rtmsg: family, two prefix lengths, type of service, table, protocol, scope, type, flags.
    let body = [IPV4, to.bits, 0, 0, table, libc::RTPROT_BOOT, scope, kind, 0, 0, 0, 0];
    let mut message = Message::new(libc::RTM_NEWROUTE, CREATE, &body);
    message.attribute(libc::RTA_DST, &to.first.octets());
    message
}

/// Runs `work` on a thread that ends with it: a namespace belongs to a thread.
fn on_thread<T: Send>(work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let thread =
            thread::Builder::new().name("namespace".to_owned()).spawn_scoped(scope, work)?;
        thread.join().map_err(|_| io::Error::other("a thread in a network namespace has failed"))
    })
}

/// Switches the interface `name` of this thread's namespace on.
fn set_up(name: &str) -> io::Result<()> {
    set_flags(name, libc::IFF_UP as u32)
}

/// Sets the flag IFF_UP of the interface `name` of this thread's namespace to its value in `flags`.
fn set_flags(name: &str, flags: u32) -> io::Result<()> {
    // struct ifinfomsg: family, type, index, flags, and which flags change.
    let mut body = vec![0; 4];
    body.extend_from_slice(&index_of(name)?.to_ne_bytes());
    body.extend_from_slice(&flags.to_ne_bytes());
    body.extend_from_slice(&(libc::IFF_UP as u32).to_ne_bytes());
    Message::new(libc::RTM_NEWLINK, 0x1 | 0x4, &body).send()
}

/// The number of the interface `name` in this thread's namespace.
fn index_of(name: &str) -> io::Result<u32> {
    let socket = net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(name_to_index(&socket, name)?)
}

/// One request to the kernel's routing tables.
struct Message {
    bytes: Vec<u8>,
}

impl Message {
    fn new(kind: u16, flags: u16, body: &[u8]) -> Self {
        Self { bytes: netlink::request(kind, flags, body) }
    }

    fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |message| message.bytes.extend_from_slice(value));
    }

    fn text(&mut self, kind: u16, text: &str) {
        self.nested(kind, |message| {
            message.bytes.extend_from_slice(text.as_bytes());
            message.bytes.push(0);
        });
    }

    /// Appends an attribute: its length, its kind, and what `fill` adds, padded to a multiple of 4.
    fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0, 0]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        fill(self);
        let length = (self.bytes.len() - at) as u16;
        self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Sends it in this thread's namespace, and waits for the answer.
    fn send(mut self) -> io::Result<()> {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        let socket = netlink::socket(None)?;
        net::send(&socket, &self.bytes, SendFlags::empty())?;
        let mut answer = [0; ANSWER_BYTES];
        let (received, _) = net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
        let body = answer[..received].get(netlink::HEADER_BYTES..).unwrap_or_default();
        Ok(netlink::acknowledged(body)?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::process::Command;

    use super::*;
    use crate::process;
    use crate::process::{Signal, Ties};

    const HERE: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 2);
    const THERE: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 1);
    const MANY: Prefix = Prefix { first: Ipv4Addr::new(198, 18, 0, 0), bits: 16 };

    /// Two, joined; `None` if this host does not allow it.
    fn pair() -> Option<(Namespace, Namespace)> {
        let here = match Namespace::new() {
            Ok(here) => here,
            Err(error) => {
                eprintln!("SKIPPED: network namespaces need root: {error}");
                return None;
            }
        };
        let there = Namespace::new().expect("the first one was allowed");
        here.join("there", &there, "here").expect("joined");
        here.add_address("there", HERE, 30).expect("an address");
        there.add_address("here", THERE, 30).expect("an address");
        here.own(MANY).expect("addresses of its own");
        there.add_route(MANY, HERE).expect("a route");
        Some((here, there))
    }

    fn established() -> String {
        std::fs::read_to_string("/proc/thread-self/net/sockstat").expect("counters")
    }

    #[test]
    fn joined_namespaces_reach_each_other_from_any_address_and_count_their_own() {
        let Some((here, there)) = pair() else { return };
        let listener = there.run(|| TcpListener::bind((THERE, 0))).unwrap().unwrap();
        let at = listener.local_addr().unwrap();
        // Outside of the namespaces nothing reaches it.
        assert!(TcpStream::connect(at).is_err());
        let from = "198.18.200.7:0".parse().unwrap();
        let connected = here.run(|| {
            let socket = crate::socket::tcp_socket(from).unwrap();
            net::bind(&socket, &from).unwrap();
            rustix::io::ioctl_fionbio(&socket, false).unwrap();
            net::connect(&socket, &at).unwrap();
            TcpStream::from(socket)
        });
        let mut client = connected.unwrap();
        let (mut server, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip(), from.ip());
        server.write_all(b"hello").unwrap();
        let mut text = [0; 5];
        client.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
        // Two here and two there would be one namespace.
        assert!(here.run(established).unwrap().contains("TCP: inuse 1 "));
        assert!(there.run(established).unwrap().contains("TCP: inuse 2 "));
    }

    #[test]
    fn a_process_is_started_in_a_namespace_and_holds_it() {
        let Some((here, _there)) = pair() else { return };
        let ties = Ties { network: Some(here.clone()), ..Ties::default() };
        let mut command = Command::new("sleep");
        command.arg("1000");
        let mut child = process::spawn(command, &ties).unwrap();
        let links = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap();
        drop((ties, here));
        assert!(links(&child.id().to_string()).contains(" there:"));
        // This process never left its own.
        assert!(!links("self").contains(" there:"));
        process::kill(child.id(), Signal::KILL).unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn an_interface_that_is_switched_off_and_on_carries_its_connections_again() {
        let Some((here, there)) = pair() else { return };
        let listener = there.run(|| TcpListener::bind((THERE, 0))).unwrap().unwrap();
        let at = listener.local_addr().unwrap();
        let mut client = here.run(|| TcpStream::connect(at)).unwrap().unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let routes =
            || there.run(|| std::fs::read_to_string("/proc/thread-self/net/route")).unwrap();
        let before = routes().unwrap();
        there.switch("here", false).unwrap();
        assert!(there.run(|| TcpStream::connect((HERE, 1))).unwrap().is_err());
        there.switch("here", true).unwrap();
        there.add_route(MANY, HERE).unwrap();
        assert_eq!(routes().unwrap(), before);
        server.write_all(b"again").unwrap();
        let mut text = [0; 5];
        client.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"again");
    }

    #[test]
    fn what_the_kernel_refuses_is_an_error() {
        let Some((here, there)) = pair() else { return };
        let again = here.join("there", &there, "other").unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert!(here.add_address("missing", HERE, 30).is_err());
        assert!(here.add_route(MANY, Ipv4Addr::new(192, 0, 2, 1)).is_err());
    }
}
