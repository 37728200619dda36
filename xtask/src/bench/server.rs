//! A server that clients are measured against, or that is measured itself: one process with one
//! thread on its own CPU, plain and TLS 1.3 side by side, stopped when dropped.

mod config;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::bench::process::Guarded;
use crate::bench::{SERVER_CPU, process};
use crate::packages;

/// A server to measure against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Nginx,
    Haproxy,
    Plimsoll,
}

impl ServerKind {
    pub(crate) const ALL: [Self; 3] = [Self::Plimsoll, Self::Nginx, Self::Haproxy];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "HAProxy",
            Self::Plimsoll => "plimsoll serve",
        }
    }

    /// Returns the name of its program, and of its flag.
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Plimsoll => "plimsoll",
        }
    }

    /// Returns the words for how it is started, beside its settings.
    pub(crate) fn shown(self) -> String {
        let command = match self {
            Self::Nginx => "nginx -c nginx.conf  # master_process off; return 200 \"pong\"",
            Self::Haproxy => {
                "haproxy -db -f server.cfg  # nbthread 1; http-request return status 200"
            }
            Self::Plimsoll => "plimsoll serve --http ADDRESS --https ADDRESS --threads 1",
        };
        format!("taskset -c {SERVER_CPU} {command}")
    }
}

/// The addresses at which a server accepts connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) plain: SocketAddr,
    /// Every handshake is a full one, but with `plimsoll serve`, which leaves it to the client.
    pub(crate) tls: SocketAddr,
    /// Sessions can be resumed by ticket.
    pub(crate) tickets: SocketAddr,
}

const STARTS_MAX: u32 = 3;

/// A running server.
pub(crate) struct Server {
    /// One process, or one that ends all its children.
    process: Guarded,
    addresses: Addresses,
}

impl Server {
    /// Starts it and waits until it accepts connections. Another program may take a port that was free:
    /// then it is started again with others.
    pub(crate) fn start(kind: ServerKind, plimsoll: &Path, scratch: &Path) -> Result<Self> {
        for _ in 1..STARTS_MAX {
            if let Ok(server) = Self::start_once(kind, plimsoll, scratch) {
                return Ok(server);
            }
        }
        Self::start_once(kind, plimsoll, scratch)
    }

    fn start_once(kind: ServerKind, plimsoll: &Path, scratch: &Path) -> Result<Self> {
        let [plain, tls, tickets] = free_addresses()?;
        let mut addresses = Addresses { plain, tls, tickets };
        let find = |name, package| {
            let missing = || format!("{name}: missing (apt-get install {package})");
            packages::find(name).with_context(missing)
        };
        let mut command = match kind {
            ServerKind::Nginx => {
                let mut command = process::roomy(SERVER_CPU, &find("nginx", "nginx-light")?);
                config::write_certificate(scratch)?;
                fs::write(scratch.join(config::NGINX), config::nginx(addresses))?;
                command.arg("-p").arg(scratch).arg("-c").arg(scratch.join(config::NGINX));
                command
            }
            ServerKind::Haproxy => {
                let mut command = process::roomy(SERVER_CPU, &find("haproxy", "haproxy")?);
                config::write_certificate(scratch)?;
                fs::write(scratch.join(config::HAPROXY), config::haproxy(addresses))?;
                command.args(["-db", "-f", config::HAPROXY]).current_dir(scratch);
                command
            }
            ServerKind::Plimsoll => {
                addresses.tickets = tls;
                serve(plimsoll, addresses, &["--processes", "1"])
            }
        };
        Self::of(&mut command, addresses).with_context(|| kind.name())
    }

    /// Starts `plimsoll serve` with the number of processes that `connections` need.
    pub(crate) fn for_many(plimsoll: &Path, connections: u32) -> Result<Self> {
        let [plain, tls] = free_addresses()?;
        let addresses = Addresses { plain, tls, tickets: tls };
        let mut command = serve(plimsoll, addresses, &["--connections", &connections.to_string()]);
        Self::of(&mut command, addresses)
    }

    /// Starts `plimsoll serve` with one process; also returns its addresses of MQTT, plain and over TLS.
    pub(crate) fn with_mqtt(plimsoll: &Path) -> Result<(Self, [SocketAddr; 2])> {
        let [plain, tls, mqtt, mqtts] = free_addresses()?;
        let addresses = Addresses { plain, tls, tickets: tls };
        let listeners = ["--mqtt", &mqtt.to_string(), "--mqtts", &mqtts.to_string()];
        let flags = [&["--processes", "1"][..], &listeners].concat();
        Ok((Self::of(&mut serve(plimsoll, addresses, &flags), addresses)?, [mqtt, mqtts]))
    }

    fn of(command: &mut Command, addresses: Addresses) -> Result<Self> {
        // HAProxy warns of the descriptors that it does not need.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Guarded::start(command)?;
        for address in [addresses.plain, addresses.tls] {
            process.wait_until_ready(address)?;
        }
        Ok(Self { process, addresses })
    }

    /// Returns the URL for requests.
    pub(crate) fn url(&self, is_tls: bool) -> String {
        let Addresses { plain, tls, .. } = self.addresses;
        if is_tls { format!("https://{tls}/") } else { format!("http://{plain}/") }
    }

    /// Returns the URL at which sessions can be resumed.
    pub(crate) fn tickets_url(&self) -> String {
        format!("https://{}/", self.addresses.tickets)
    }

    pub(crate) const fn port(&self, is_tls: bool) -> u16 {
        if is_tls { self.addresses.tls.port() } else { self.addresses.plain.port() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.child.id()
    }
}

fn serve(plimsoll: &Path, addresses: Addresses, flags: &[&str]) -> Command {
    let mut command = process::roomy(SERVER_CPU, plimsoll);
    command.args(["serve", "--threads", "1", "--no-ui"]).args(flags);
    command.args(["--idle-timeout", "1h", "--request-timeout", "1h"]);
    command.args(["--http", &addresses.plain.to_string(), "--https", &addresses.tls.to_string()]);
    command
}

/// Returns addresses that were free a moment ago.
pub(crate) fn free_addresses<const N: usize>() -> Result<[SocketAddr; N]> {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut addresses = [any; N];
    // All are held until the last is known, or the kernel could give one twice.
    let mut held = Vec::with_capacity(N);
    for address in &mut addresses {
        let listener = TcpListener::bind(any)?;
        *address = listener.local_addr()?;
        held.push(listener);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn servers_answer_and_are_stopped() {
        for kind in [ServerKind::Nginx, ServerKind::Haproxy] {
            let folder = format!("plimsoll-{}-{}", kind.name(), std::process::id());
            let scratch = std::env::temp_dir().join(folder);
            fs::create_dir_all(&scratch).unwrap();
            let server = Server::start(kind, Path::new(""), &scratch).unwrap();
            let Addresses { plain, tickets, .. } = server.addresses;
            let mut stream = TcpStream::connect(plain).unwrap();
            stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert!(answer.ends_with("\r\n\r\npong"), "{answer}");
            assert!(server.url(true).starts_with("https://127.0.0.1:"));
            assert!(TcpStream::connect(tickets).is_ok());
            drop(server);
            assert!(TcpStream::connect(plain).is_err());
            fs::remove_dir_all(&scratch).unwrap();
        }
    }
}
