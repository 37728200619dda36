//! CPU time of one connect on loopback when a share of the port range is taken: the kernel's
//! automatic choice beside exact ports from the allocator.
//!
//! The occupancy is of the range that this network namespace has, so give it a small one:
//!
//! ```text
//! cargo build --release -p plimsoll-sys --example connect_cost
//! unshare -n sh -c 'ip link set lo up
//!     sysctl -qw net.ipv4.ip_local_port_range="40000 48999" net.core.somaxconn=16384
//!     target/release/examples/connect_cost'
//! ```
//!
//! Each row fills the range to its share from one source address and then resets and reopens
//! connections at random. Counted is the CPU time (user and system) of the process around socket(),
//! bind() and connect(), which on loopback includes the server's half of the TCP handshake; the base row, at no
//! occupancy, shows how much that is.
#![expect(clippy::unwrap_used, reason = "an experiment that cannot run should say so and end")]

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use plimsoll_sys::outgoing::{Outgoing, OutgoingError};
use plimsoll_sys::ports::{
    Closed, HostPorts, Lease, PortAllocator, PortPlan, Route, Slice, Sources,
};
use plimsoll_sys::socket::{FirstBytes, ListenSocket, Socket};
use plimsoll_sys::{Errno, clock};

/// Connects timed for each row.
const TURNS: usize = 20_000;
/// Connections of a batch are reset first and reopened together, so that the clock is read rarely.
const BATCH: usize = 20;

enum Choice {
    Kernel,
    Exact(Box<PortAllocator>),
}

struct Row {
    server: ListenSocket,
    source: IpAddr,
    choice: Choice,
    held: Vec<(Socket, Option<Lease>)>,
    accepted: Vec<Socket>,
    attempts: u64,
}

impl Row {
    fn new(source: IpAddr, host: &Arc<HostPorts>, exact: bool) -> Self {
        let server = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 16_384).unwrap();
        let remote = server.local_address().unwrap();
        let plan = PortPlan {
            host: Arc::clone(host),
            routes: vec![Route { remote, sources: Sources::Given([source].into()) }],
            slice: Slice::WHOLE,
            seed: 1,
        };
        let choice =
            if exact { Choice::Exact(PortAllocator::new(plan).into()) } else { Choice::Kernel };
        Self { server, source, choice, held: vec![], accepted: vec![], attempts: 0 }
    }

    fn open(&mut self, remote: SocketAddr) {
        let opened = match &mut self.choice {
            Choice::Kernel => {
                self.attempts += 1;
                (Socket::connect(remote, Some(self.source)).unwrap().0, None)
            }
            Choice::Exact(ports) => {
                let mut socket = Outgoing::new(remote, FirstBytes::Later).unwrap();
                loop {
                    let candidate = ports.take(0, 0).unwrap();
                    self.attempts += 1;
                    match socket.connect_from(candidate.source, candidate.port) {
                        Ok(_) => {
                            let lease = ports.connected(candidate);
                            break (socket.into_socket(), Some(lease));
                        }
                        Err(OutgoingError::Taken) => ports.refused(candidate, 0).unwrap(),
                        Err(OutgoingError::Failed(errno)) => panic!("{errno}"),
                    }
                }
            }
        };
        self.held.push(opened);
    }

    fn accept_all(&mut self) {
        loop {
            match self.server.accept() {
                Ok(end) => self.accepted.push(end),
                Err(Errno::AGAIN) => return,
                Err(errno) => panic!("{errno}"),
            }
        }
    }

    fn reset(&mut self, at: usize) {
        let (socket, lease) = self.held.swap_remove(at);
        socket.reset_on_close().unwrap();
        drop(socket);
        if let (Choice::Exact(ports), Some(lease)) = (&mut self.choice, lease) {
            ports.give_back(lease, Closed::Reset, 0);
        }
    }
}

fn cpu_ns() -> u64 {
    let (user, system) = clock::process_cpu_ns();
    user + system
}

fn main() {
    plimsoll_sys::limits::raise_descriptor_limit();
    let host = Arc::new(HostPorts::read(Path::new("/proc")).unwrap());
    println!("{} ports of one source address, {TURNS} connects each", host.available());
    println!("occupancy  choice     CPU us/connect  attempts/connect");
    let mut source = 1_u8;
    for percent in [0_u32, 50, 90, 99] {
        for exact in [false, true] {
            // A separate address, so that no row meets the sockets of the previous one.
            source += 1;
            let mut row = Row::new(IpAddr::from([127, 77, 0, source]), &host, exact);
            let remote = row.server.local_address().unwrap();
            let target = (host.available() * percent / 100).max(BATCH as u32);
            for _ in 0..target {
                row.open(remote);
            }
            row.accept_all();
            let (mut spent_ns, before) = (0, row.attempts);
            let mut random = 1_usize;
            for _ in 0..TURNS / BATCH {
                for _ in 0..BATCH {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    row.reset((random >> 33) % row.held.len());
                }
                let start_ns = cpu_ns();
                for _ in 0..BATCH {
                    row.open(remote);
                }
                spent_ns += cpu_ns() - start_ns;
                row.accept_all();
                // The server's ends of what was reset.
                row.accepted.retain(|end| end.recv(&mut [0; 1]) == Err(Errno::AGAIN));
            }
            println!(
                "{percent:>7} %  {:9}  {:>14.2}  {:>16.4}",
                if exact { "exact" } else { "automatic" },
                spent_ns as f64 / TURNS as f64 / 1000.0,
                (row.attempts - before) as f64 / TURNS as f64,
            );
        }
    }
}
