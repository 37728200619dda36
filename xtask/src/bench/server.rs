//! The server that all clients of `cost` talk to: one process on a CPU of its own, plain and
//! TLS 1.3 side by side, stopped when dropped.

use std::fs;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::str::FromStr;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::bench::SERVER_CPU;
use crate::bench::process;
use crate::bench::process::Guarded;
use crate::packages;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Nginx,
    Plimsoll,
}

impl ServerKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Plimsoll => "plimsoll serve",
        }
    }
}

impl FromStr for ServerKind {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "nginx" => Ok(Self::Nginx),
            "plimsoll" => Ok(Self::Plimsoll),
            _ => bail!("--server {text}: give nginx or plimsoll"),
        }
    }
}

/// A running server.
pub(crate) struct Server {
    /// One process, or one that takes all its children with it.
    _process: Guarded,
    plain: SocketAddr,
    tls: SocketAddr,
}

impl Server {
    /// Starts it and waits until it takes connections.
    pub(crate) fn start(kind: ServerKind, plimsoll: &Path, scratch: &Path) -> Result<Self> {
        let [plain, tls] = free_addresses()?;
        let mut command = match kind {
            ServerKind::Nginx => {
                let nginx =
                    packages::find("nginx").context("nginx: apt-get install nginx-light")?;
                prepare_nginx(scratch, plain, tls)?;
                let mut command = process::pinned(SERVER_CPU, &nginx);
                command.arg("-p").arg(scratch).arg("-c").arg(scratch.join("nginx.conf"));
                command
            }
            ServerKind::Plimsoll => {
                let mut command = process::pinned(SERVER_CPU, plimsoll);
                command.args(["serve", "--threads", "1", "--no-ui"]);
                command.args(["--http", &plain.to_string(), "--https", &tls.to_string()]);
                command
            }
        };
        let mut process = Guarded::start(command.stdin(Stdio::null()).stdout(Stdio::null()))?;
        for address in [plain, tls] {
            process.wait_until_ready(address)?;
        }
        Ok(Self { _process: process, plain, tls })
    }

    /// Where to send requests.
    pub(crate) fn url(&self, is_tls: bool) -> String {
        if is_tls { format!("https://{}/", self.tls) } else { format!("http://{}/", self.plain) }
    }
}

/// Addresses that were free a moment ago.
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

/// Writes a certificate and a configuration that answers from memory.
fn prepare_nginx(scratch: &Path, plain: SocketAddr, tls: SocketAddr) -> Result<()> {
    let request = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 \
                   -subj /CN=localhost -keyout key.pem -out cert.pem";
    let output = Command::new("openssl")
        .args(request.split_ascii_whitespace())
        .current_dir(scratch)
        .output()
        .context("openssl: apt-get install openssl")?;
    if !output.status.success() {
        bail!("openssl: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(fs::write(scratch.join("nginx.conf"), nginx_config(plain, tls))?)
}

/// One process without a master, so that killing it leaves nothing behind. No tickets and no
/// cache: every handshake is a full one.
fn nginx_config(plain: SocketAddr, tls: SocketAddr) -> String {
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|kind| format!("  {kind}_temp_path temp_{kind};\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 4096; }}\n\
         http {{\n{paths}  access_log off;\n  keepalive_requests 1000000000;\n\
         \x20 ssl_certificate cert.pem;\n  ssl_certificate_key key.pem;\n\
         \x20 ssl_protocols TLSv1.3;\n  ssl_session_tickets off;\n  ssl_session_cache off;\n\
         \x20 server {{\n    listen {plain};\n    listen {tls} ssl;\n\
         \x20   location / {{ return 200 \"pong\"; }}\n  }}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::io::Write;
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn nginx_answers_and_is_stopped() {
        let scratch = std::env::temp_dir().join(format!("plimsoll-xtask-{}", std::process::id()));
        fs::create_dir_all(&scratch).unwrap();
        let server = Server::start(ServerKind::Nginx, Path::new(""), &scratch).unwrap();
        let mut stream = TcpStream::connect(server.plain).unwrap();
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("\r\n\r\npong"), "{answer}");
        assert!(server.url(true).starts_with("https://127.0.0.1:"));
        let plain = server.plain;
        drop(server);
        assert!(TcpStream::connect(plain).is_err());
        fs::remove_dir_all(&scratch).unwrap();
    }
}
