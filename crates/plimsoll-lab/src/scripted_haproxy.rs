//! A statistics socket that answers from a script, for tests of what is sent to HAProxy.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

use plimsoll_probe::haproxy_socket::HaproxySocket;
use plimsoll_sys::thread;
use tempfile::TempDir;

/// A listening socket in its own folder.
pub(crate) struct ScriptedHaproxy {
    path: PathBuf,
    commands: JoinHandle<Vec<String>>,
    _folder: TempDir,
}

impl ScriptedHaproxy {
    /// Listens for `count` commands; each gets the answer that `answer` has for it.
    pub(crate) fn start(count: usize, answer: fn(&str) -> &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("stats.sock");
        let listener = UnixListener::bind(&path).expect("a socket");
        let commands = thread::spawn("haproxy", None, move || {
            let receive = |_| {
                let (mut stream, _) = listener.accept().expect("a command");
                let mut line = [0; 64];
                let length = stream.read(&mut line).expect("a line");
                let line = String::from_utf8_lossy(&line[..length]).trim().to_owned();
                stream.write_all(answer(&line).as_bytes()).expect("an answer");
                line
            };
            (0..count).map(receive).collect()
        })
        .expect("a thread");
        Self { path, commands, _folder: folder }
    }

    pub(crate) fn socket(&self) -> HaproxySocket {
        self.path.as_path().into()
    }

    /// Returns the commands in the order of arrival, once all have come.
    pub(crate) fn commands(self) -> Vec<String> {
        self.commands.join().expect("all commands")
    }
}
