//! `plimsoll serve`, for clients of another make to judge.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::thread;

use crate::process::Guarded;
use crate::{program, wait};

/// A running `plimsoll serve`.
#[derive(Debug)]
pub struct Serve {
    /// Announced URLs: `http://127.0.0.1:1234/`, in the order of the flags.
    pub urls: Vec<String>,
    guarded: Guarded,
    stderr: Receiver<String>,
}

impl Serve {
    /// Starts it with these flags, which make it listen on `listeners` ports.
    pub fn start(flags: &[&str], listeners: usize) -> Self {
        let mut command = Command::new(program::plimsoll());
        command.arg("serve").args(flags).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut guarded = Guarded::start(&mut command);
        let stdout = guarded.child().stdout.take().expect("the pipe was asked for");
        let mut stderr = guarded.child().stderr.take().expect("the pipe was asked for");
        let (said, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = said.send(line);
            }
        });
        let (end, complaints) = mpsc::channel();
        thread::spawn(move || {
            let mut text = String::new();
            let _ = std::io::Read::read_to_string(&mut stderr, &mut text);
            let _ = end.send(text);
        });
        let mut urls = Vec::new();
        while urls.len() < listeners {
            let Ok(line) = lines.recv_timeout(wait::PATIENCE) else {
                panic!("plimsoll serve: {:?}", complaints.recv_timeout(wait::PATIENCE));
            };
            let url = line.strip_prefix("listening on ").and_then(|rest| rest.split(' ').next());
            urls.push(url.unwrap_or_else(|| panic!("unexpected line {line:?}")).to_owned());
        }
        Self { urls, guarded, stderr: complaints }
    }

    /// Returns one plain port.
    pub fn plain() -> Self {
        Self::start(&["--http", "127.0.0.1:0"], 1)
    }

    /// Returns all URLs, in the order in which they were printed.
    pub fn urls(&self) -> &[String] {
        &self.urls
    }

    /// Returns the first URL.
    pub fn url(&self) -> &str {
        &self.urls[0]
    }

    /// Returns the address in the first URL.
    pub fn address(&self) -> SocketAddr {
        let (_, rest) = self.url().split_once("://").expect("a URL");
        rest.trim_end_matches('/').parse().expect("an address and a port")
    }

    /// Returns the number of the coordinating process.
    pub fn pid(&self) -> u32 {
        self.guarded.pid()
    }

    /// Interrupts it, and returns the requests and connections that it has counted.
    pub fn stop(mut self) -> (u64, u64) {
        self.guarded.signal("INT");
        assert_eq!(self.guarded.wait().code(), Some(0));
        let text = self.stderr.recv_timeout(wait::PATIENCE).expect("it ended");
        let last = text.lines().last().unwrap_or_default();
        let numbers: Vec<u64> =
            last.split(' ').filter_map(|word| word.replace(',', "").parse().ok()).collect();
        match numbers[..] {
            [requests, connections, ..] if last.starts_with("served ") => (requests, connections),
            _ => panic!("unexpected last words: {text:?}"),
        }
    }
}
