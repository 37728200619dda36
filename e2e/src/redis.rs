//! A real Redis that asks for a password and counts commands.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::Guarded;
use crate::{port, program, wait};

/// A running server.
#[derive(Debug)]
pub struct Redis {
    /// Listening address.
    pub address: SocketAddr,
    _guarded: Guarded,
    _folder: TempDir,
}

impl Redis {
    /// Password that clients must send first.
    pub const PASSWORD: &str = "let-me-in";

    /// Starts one on 127.0.0.1 that keeps nothing.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let address = port::free();
        let output = folder.path().join("output");
        let mut command = Command::new(program::installed("redis-server"));
        command.args(["--bind", "127.0.0.1", "--port", &address.port().to_string()]);
        command.args(["--save", "", "--appendonly", "no", "--requirepass", Self::PASSWORD]);
        command.current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(fs::File::create(&output).expect("an own folder is writable"));
        let mut guarded = Guarded::start(&mut command);
        wait::until("redis-server to listen", || {
            let output = fs::read_to_string(&output).unwrap_or_default();
            assert!(guarded.ended().is_none(), "redis-server: {output}");
            wait::accepts(address).then_some(())
        });
        Self { address, _guarded: guarded, _folder: folder }
    }

    /// Returns the number of calls of a command; its name in lower case.
    pub fn calls(&self, command: &str) -> u64 {
        let start = format!("cmdstat_{command}:calls=");
        let mut counts = self.answer("INFO commandstats").into_iter().filter_map(|line| {
            line.strip_prefix(&start)?.split(',').next().and_then(|count| count.parse().ok())
        });
        counts.next_back().unwrap_or(0)
    }

    /// Returns the keys that there are, sorted.
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.answer("KEYS *");
        keys.retain(|line| !line.starts_with(['+', '*', '$']));
        keys.sort();
        keys
    }

    /// Returns the lines of the answer to a command, among those of logging in and out.
    fn answer(&self, command: &str) -> Vec<String> {
        let mut socket = TcpStream::connect(self.address).expect("Redis listens");
        let asked = format!("AUTH {}\r\n{command}\r\nQUIT\r\n", Self::PASSWORD);
        socket.write_all(asked.as_bytes()).expect("Redis reads commands");
        BufReader::new(socket).lines().map_while(Result::ok).collect()
    }
}
