//! `openssl s_server`: a TLS server of another make that answers one connection after the other.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;

use crate::certificate::Certificate;
use crate::process::Guarded;
use crate::{port, program, wait};

/// A running s_server.
#[derive(Debug)]
pub struct SServer {
    /// Listening address.
    pub address: SocketAddr,
    _guarded: Guarded,
    _folder: tempfile::TempDir,
}

impl SServer {
    /// Starts one with these arguments, in a folder with a `file.txt` and a whole `answer.http`.
    pub fn start(certificate: &Certificate, arguments: &[&str]) -> Self {
        Self::start_with(&certificate.chain(), &certificate.key(), arguments)
    }

    /// Starts one with the first certificate of `chain`.
    pub fn start_with(chain: &Path, key: &Path, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let put = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("an own folder is writable");
        };
        put("file.txt", "pong\n");
        put("answer.http", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\npong\n");
        let address = port::free();
        let mut command = Command::new(program::installed("openssl"));
        command.args(["s_server", "-accept", &address.to_string(), "-cert"]);
        command.arg(chain).arg("-key").arg(key).args(arguments);
        command.current_dir(folder.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut guarded = Guarded::start(&mut command);
        // A test connection would be served first; its output shows when it is ready.
        let stdout = guarded.child().stdout.take().expect("the pipe was asked for");
        let (ready, is_ready) = mpsc::channel();
        thread::spawn(move || {
            // It writes more with every connection, and must not be stopped by a full pipe.
            for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                if line == b"ACCEPT" {
                    let _ = ready.send(());
                }
            }
        });
        is_ready.recv_timeout(wait::PATIENCE).expect("openssl s_server says ACCEPT");
        Self { address, _guarded: guarded, _folder: folder }
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.address)
    }
}
