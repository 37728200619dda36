//! A real HAProxy that answers by itself and counts.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::process::Guarded;
use crate::{port, program, wait};

/// A running HAProxy with one frontend, called `sut`.
#[derive(Debug)]
pub struct Haproxy {
    /// Listening address.
    pub address: SocketAddr,
    guarded: Guarded,
    folder: TempDir,
}

impl Haproxy {
    /// Starts one; `bind` follows the address in its `bind` line, `rules` stand in the frontend
    /// and `sections` behind it.
    pub fn start(bind: &str, rules: &str, sections: &str) -> Self {
        Self::after("true", bind, rules, sections)
    }

    /// Starts HAProxy by a shell that first does `before`, such as `ulimit -v 100000`.
    pub fn after(before: &str, bind: &str, rules: &str, sections: &str) -> Self {
        let folder = tempfile::tempdir().expect("the temporary directory is writable");
        let address = port::free();
        let socket = folder.path().join("stats.sock");
        let config = format!(
            "global\n    maxconn 4000\n    stats socket {} level admin\n\
             defaults\n    mode http\n    timeout connect 5s\n    timeout client 60s\n    \
             timeout server 60s\n\
             frontend sut\n    bind {address} {bind}\n{rules}\n{sections}\n",
            socket.display()
        );
        let path = folder.path().join("haproxy.cfg");
        fs::write(&path, config).expect("an own folder is writable");
        let output = fs::File::create(folder.path().join("output")).expect("as above");
        let mut command = Command::new(program::installed("bash"));
        command.arg("-c").arg(format!("{before} && exec \"$0\" \"$@\""));
        command.arg(program::installed("haproxy")).arg("-db").arg("-f").arg(&path);
        command.stdin(Stdio::null());
        command.stdout(output.try_clone().expect("a file has many handles")).stderr(output);
        let mut guarded = Guarded::start(&mut command);
        wait::until("HAProxy to listen", || {
            let output = fs::read_to_string(folder.path().join("output")).unwrap_or_default();
            assert!(guarded.ended().is_none(), "haproxy: {output}");
            // By its socket, so that its counters begin with the test's own connections.
            UnixStream::connect(&socket).is_ok().then_some(())
        });
        Self { address, guarded, folder }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.guarded.pid()
    }

    /// Reports whether it still runs.
    pub fn is_alive(&mut self) -> bool {
        self.guarded.ended().is_none()
    }

    /// Returns the URL of its root.
    pub fn url(&self, scheme: &str) -> String {
        format!("{scheme}://{}/", self.address)
    }

    /// Returns the path of its statistics socket.
    pub fn stats_socket(&self) -> PathBuf {
        self.folder.path().join("stats.sock")
    }

    /// Returns the statistics of the frontend, by the names of the CSV's columns.
    pub fn stat(&self) -> BTreeMap<String, String> {
        self.stat_of("sut")
    }

    fn stat_of(&self, frontend: &str) -> BTreeMap<String, String> {
        let mut socket =
            UnixStream::connect(self.stats_socket()).expect("HAProxy's socket is there");
        let question = format!("show stat {frontend} 1 -1\n");
        socket.write_all(question.as_bytes()).expect("HAProxy reads commands");
        let mut text = String::new();
        socket.read_to_string(&mut text).expect("HAProxy answers");
        let mut lines = text.lines();
        let names = lines.next().unwrap_or_default().trim_start_matches("# ").split(',');
        let values = lines.next().unwrap_or_default().split(',');
        names.map(str::to_owned).zip(values.map(str::to_owned)).collect()
    }

    /// One count of the statistics, such as `req_tot`.
    pub fn count(&self, column: &str) -> u64 {
        self.count_of("sut", column)
    }

    fn count_of(&self, frontend: &str, column: &str) -> u64 {
        let stat = self.stat_of(frontend);
        let value = stat.get(column).and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no count {column} in {stat:?}"))
    }

    /// Waits until a count has reached `at_least`.
    pub fn wait_for(&self, column: &str, at_least: u64) {
        wait::until(column, || (self.count(column) >= at_least).then_some(()));
    }

    /// Waits until a count of another frontend has reached `at_least`.
    pub fn wait_for_frontend(&self, frontend: &str, column: &str, at_least: u64) {
        wait::until(column, || (self.count_of(frontend, column) >= at_least).then_some(()));
    }

    /// Ends it and all its connections at once.
    pub fn kill(&mut self) {
        self.guarded.kill();
    }
}
