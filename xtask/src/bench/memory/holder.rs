//! A client that opens connections and holds them while memory is read.
//!
//! [`Holder::start`] starts a tool in one of two ways (plimsoll holds idle connections, a peer waits for answers) and
//! returns once all connections are established and both client and server are idle: at most 0.025 s of CPU time in
//! each of two windows of 0.5 s. [`Holder::weigh`] then reads the memory of a process beside the number of
//! connections, which the kernel counts at the server's side. Start with [`Holder::start`].

use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::bench::client::words;
use crate::bench::process::Guarded;
use crate::bench::server::Server;
use crate::bench::tool::Tool;
use crate::bench::{Bench, CLIENT_CPU, client, footprint, process};
use anyhow::{Context, Result, bail};

/// Connections of the measurement that the others are compared with.
pub(super) const FEW: u32 = 20;
/// Longer than any measurement.
const HOLD_S: u32 = 600;
/// Longest wait for all connections, and for rest: 18,000 handshakes of 1 ms, three times.
const SETTLE_WAIT: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_millis(500);
/// CPU time per window, in s, below which a program is idle after several such windows in a row. The clock ticks every
/// 0.01 s.
const REST_CPU_S: f64 = 0.025;
const REST_WINDOWS: u32 = 2;
/// Longest wait for the end of a client, and for its connections to be gone.
const END_WAIT: Duration = Duration::from_secs(30);
/// Output of the client, printed if it fails.
const OUTPUT: &str = "holder.txt";

/// Memory with connections.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Load {
    pub(super) connections: usize,
    pub(super) bytes: u64,
}

/// The protocol of plimsoll's idle connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    Http1,
    Http2,
    WebSocket,
}

/// The way in which connections are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// plimsoll, in silence.
    Hold(Spoken),
    /// One request on each, unanswered.
    Awaiting(Tool),
}

impl Way {
    pub(super) const fn tool(self) -> Tool {
        match self {
            Self::Hold(_) => Tool::Plimsoll,
            Self::Awaiting(tool) => tool,
        }
    }

    /// Returns the command line.
    fn words(self, url: &str, connections: u32) -> String {
        match self {
            Self::Hold(spoken) => {
                let (url, more) = match spoken {
                    Spoken::Http1 => (url.to_owned(), ""),
                    Spoken::Http2 => (url.to_owned(), " --http 2"),
                    Spoken::WebSocket => (url.replacen("http", "ws", 1), ""),
                };
                format!(
                    "hold {url} --connections {connections} --rate 2000 --for {HOLD_S}s --heartbeat 0 \
                     --insecure --threads 1 --processes 1 --no-ui --json {}{more}",
                    words::SUMMARY
                )
            }
            Self::Awaiting(tool) => words::await_answers(tool, url, connections, HOLD_S),
        }
    }

    /// Returns the command as a reader would type it.
    pub(super) fn shown(self, url: &str, connections: u32) -> String {
        client::shown(self.tool(), &self.words(url, connections))
    }
}

/// An idle client that holds all its connections.
pub(super) struct Holder {
    process: Guarded,
    /// Held, as the kernel counts them on the server's side.
    connections: usize,
    port: u16,
}

impl Holder {
    /// Starts it and waits until client and server are idle.
    pub(super) fn start(
        bench: &Bench,
        way: Way,
        server: &Server,
        is_tls: bool,
        connections: u32,
    ) -> Result<Self> {
        let url = server.url(is_tls);
        let folder = &bench.scratch;
        let program = bench.tools.path(way.tool()).with_context(|| way.tool().missing())?;
        words::prepare(way.tool(), &url, folder)?;
        let output = File::create(folder.join(OUTPUT)).context(OUTPUT)?;
        let mut command = process::roomy(CLIENT_CPU, program);
        command.args(words::arguments(&way.words(&url, connections))?).current_dir(folder);
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let process = Guarded::start(&mut command)?;
        let mut holder = Self { process, connections: 0, port: server.port(is_tls) };
        if let Err(error) = holder.settle(server.pid(), connections as usize) {
            let said = fs::read_to_string(folder.join(OUTPUT)).unwrap_or_default();
            let last = said.lines().last().unwrap_or_default();
            bail!("{error:#}; it said: {last:?}");
        }
        Ok(holder)
    }

    fn settle(&mut self, server: u32, wanted: usize) -> Result<()> {
        let deadline = Instant::now() + SETTLE_WAIT;
        let client = self.process.child.id();
        let cpu_s = || [client, server].map(footprint::cpu_s);
        let (mut before, mut restful) = (cpu_s(), 0);
        while restful < REST_WINDOWS {
            thread::sleep(WINDOW);
            if let Some(status) = self.process.child.try_wait()? {
                bail!("it ended before it held {wanted} connections: {status}");
            }
            self.connections = footprint::established(self.port)?;
            let now = cpu_s();
            let is_at_rest = now.iter().zip(before).all(|(now, old)| now - old <= REST_CPU_S);
            restful = if is_at_rest && self.connections >= wanted { restful + 1 } else { 0 };
            before = now;
            if Instant::now() > deadline {
                let held = self.connections;
                bail!("{held} of {wanted} connections, and not idle after {SETTLE_WAIT:?}");
            }
        }
        Ok(())
    }

    /// Returns the memory of `pid`, beside the connections that are held.
    pub(super) fn weigh(&self, pid: u32) -> Result<Load> {
        Ok(Load { connections: self.connections, bytes: footprint::pss_bytes(pid)? })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.child.id()
    }

    /// Ends it at once.
    pub(super) fn kill(self) -> Result<()> {
        let port = self.port;
        drop(self);
        wait_until_gone(port)
    }
}

fn wait_until_gone(port: u16) -> Result<()> {
    let deadline = Instant::now() + END_WAIT;
    while footprint::established(port)? > 0 {
        if Instant::now() > deadline {
            bail!("the server still has connections {END_WAIT:?} after its client ended");
        }
        thread::sleep(WINDOW);
    }
    Ok(())
}
