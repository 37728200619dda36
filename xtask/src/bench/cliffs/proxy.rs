//! The servers whose timers are looked for: one HAProxy with a frontend for each timer and place,
//! and what stands behind it.

use std::fmt::Write;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use super::mute;
use crate::bench::process::Guarded;
use crate::bench::server;
use crate::packages;

const CONFIG: &str = "haproxy.cfg";

/// One timer's frontends.
struct Frontends {
    timer_s: u32,
    impatient: SocketAddr,
    muted: SocketAddr,
    probed: SocketAddr,
}

/// All of them, running until dropped.
pub(super) struct Servers {
    _processes: Vec<Guarded>,
    frontends: Vec<Frontends>,
    /// `plimsoll serve` by itself.
    pub(super) sleeper: String,
}

impl Servers {
    pub(super) fn start(plimsoll: &Path, folder: &Path, timers: &[u32]) -> Result<Self> {
        let haproxy = packages::find("haproxy").context("haproxy: apt-get install haproxy")?;
        let [sleeper] = server::free_addresses()?;
        let mut processes = vec![serve(plimsoll, sleeper, 600)?];
        let mut frontends = Vec::new();
        let mut config = String::from(
            "global\n  nbthread 1\n  maxconn 4000\n\
             defaults\n  mode http\n  timeout connect 5s\n  timeout client 600s\n  \
             timeout server 600s\n",
        );
        for &timer_s in timers {
            let [impatient, muted, probed, backend] = server::free_addresses()?;
            processes.push(serve(plimsoll, backend, timer_s)?);
            let mute = mute::start(Duration::from_secs(timer_s.into()))?;
            section(&mut config, impatient, "", sleeper, &format!("timeout server {timer_s}s"));
            section(&mut config, muted, "", mute, "");
            let keep_alive = format!("timeout http-keep-alive {timer_s}s");
            section(&mut config, probed, &keep_alive, backend, "");
            frontends.push(Frontends { timer_s, impatient, muted, probed });
        }
        fs::write(folder.join(CONFIG), config).context(CONFIG)?;
        let mut command = Command::new(haproxy);
        command.args(["-db", "-f", CONFIG]).current_dir(folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Guarded::start(&mut command)?;
        for frontend in &frontends {
            process.wait_until_ready(frontend.impatient)?;
        }
        processes.push(process);
        Ok(Self { _processes: processes, frontends, sleeper: format!("http://{sleeper}/") })
    }

    fn url(&self, timer_s: u32, address: impl Fn(&Frontends) -> SocketAddr) -> String {
        let found = self.frontends.iter().find(|frontend| frontend.timer_s == timer_s);
        found.map(|frontend| format!("http://{}/", address(frontend))).unwrap_or_default()
    }

    /// HAProxy waits so long for its backend.
    pub(super) fn impatient(&self, timer_s: u32) -> String {
        self.url(timer_s, |frontend| frontend.impatient)
    }

    /// The backend waits so long and closes.
    pub(super) fn muted(&self, timer_s: u32) -> String {
        self.url(timer_s, |frontend| frontend.muted)
    }

    /// HAProxy keeps idle connections, and the backend waits for a request, so long.
    pub(super) fn probed(&self, timer_s: u32) -> String {
        self.url(timer_s, |frontend| frontend.probed)
    }
}

fn serve(plimsoll: &Path, address: SocketAddr, request_s: u32) -> Result<Guarded> {
    let mut command = Command::new(plimsoll);
    command.args(["serve", "--threads", "1", "--no-ui", "--http", &address.to_string()]);
    command.args(["--request-timeout", &format!("{request_s}s"), "--idle-timeout", "600s"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Guarded::start(&mut command)?;
    process.wait_until_ready(address)?;
    Ok(process)
}

/// A frontend at `bind` and its backend.
fn section(config: &mut String, bind: SocketAddr, front: &str, server: SocketAddr, back: &str) {
    let name = bind.port();
    let _ = write!(
        config,
        "frontend f{name}\n  bind {bind}\n  {front}\n  default_backend b{name}\n\
         backend b{name}\n  server s {server}\n  {back}\n"
    );
}
