//! Controls of a server: the disturbances that are possible while it is loaded, from any thread.
//!
//! [`Controls`] is a set of optional handles (supervisor, backends, HAProxy sockets, network, certificate), and its
//! clones act on one server. A disturbance is one method, which fails with [`LabError::Event`] if the server has no
//! handle for it. [`Ways`] lists the possible disturbances before the server is started. A restart locks the
//! supervisor until the server accepts connections again. Start reading at [`Controls::reload`].

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use plimsoll_fleet::Supervisor;
use plimsoll_probe::haproxy_socket::HaproxySocket;
use plimsoll_sys::process;
use plimsoll_sys::process::Signal;
use plimsoll_sys::thread::lock;

use crate::backend_pool::BackendPool;
use crate::certificate::Certificate;
use crate::error::LabError;
use crate::isolated::Isolated;
use crate::lever::command_each;
use crate::program;

/// The kinds of disturbance that a server allows; known before it is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// Processes of it are on this host, and known.
    pub processes: bool,
    /// `true` if the server can reload its configuration.
    pub reload: bool,
    /// A laboratory has started it, and can start it again.
    pub restart: bool,
    /// Number of backends behind it that can end and start again.
    pub backends: u32,
    /// Number of backends that it can drain.
    pub drained: u32,
    /// The link to its clients can be cut.
    pub link: bool,
    /// A reload reads its certificate again.
    pub certificate: bool,
}

/// The controls of a server. Clones act on the same one.
#[derive(Clone, Debug, Default)]
pub struct Controls {
    /// Processes of a server that has no supervisor.
    pub(crate) named: Vec<u32>,
    pub(crate) programs: Option<Programs>,
    pub(crate) backends: Option<Arc<BackendPool>>,
    pub(crate) drain: Option<Arc<Drain>>,
    pub(crate) link: Option<Isolated>,
    pub(crate) certificate: Option<Arc<Certificate>>,
}

/// The way in which a program reloads its configuration.
#[derive(Clone, Debug)]
pub(crate) enum Reload {
    /// On a signal to its first process.
    Signal(Signal),
    /// By a command: program and arguments.
    Command(Vec<String>),
}

/// The programs of a SUT, under their supervisor.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// Locked for as long as a restart takes.
    pub(crate) supervisor: Arc<Mutex<Supervisor>>,
    /// The session of all its processes: the supervisor's pid.
    pub(crate) session: u32,
    /// The way in which the programs reload; `None` if they do not.
    pub(crate) reload: Option<Reload>,
}

/// The servers behind HAProxy that it drains: the last ones first.
#[derive(Debug)]
pub(crate) struct Drain {
    /// Statistics sockets of its processes.
    pub(crate) sockets: Vec<HaproxySocket>,
    /// Number of the servers, which are named b1, b2, ….
    pub(crate) servers: u32,
    pub(crate) drained: AtomicU32,
}

impl Drain {
    /// Sets the servers of these numbers to `state`.
    fn set(&self, numbers: impl Iterator<Item = u32>, state: &str) -> Result<(), LabError> {
        let command = |number| format!("set server backends/b{number} state {state}");
        let commands: Vec<String> = numbers.map(command).collect();
        self.sockets.iter().try_for_each(|socket| command_each(socket, &commands))
    }

    fn drain(&self, count: u32) -> Result<(), LabError> {
        let before = self.drained.fetch_add(count, Ordering::Relaxed);
        let last = self.servers.saturating_sub(before);
        self.set(last.saturating_sub(count) + 1..=last, "drain")
    }

    fn end(&self) -> Result<(), LabError> {
        let drained = self.drained.swap(0, Ordering::Relaxed);
        self.set(self.servers.saturating_sub(drained) + 1..=self.servers, "ready")
    }
}

impl Controls {
    /// Controls of a server of which these processes are known.
    pub(crate) fn of_processes(named: Vec<u32>) -> Self {
        Self { named, ..Self::default() }
    }

    /// Returns all processes of the server. nginx's workers are children of its master: all of them are in the session.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let Some(Programs { session, .. }) = &self.programs else { return self.named.clone() };
        let mut pids = process::session_members(*session).unwrap_or_default();
        pids.retain(|pid| pid != session);
        pids
    }

    /// Returns the processes of the server that serve, without their masters.
    pub fn workers(&self) -> Vec<u32> {
        process::workers_of(&self.pids()).unwrap_or_default()
    }

    /// Returns the processes that a reload replaces.
    pub fn replaced_by_reload(&self) -> Vec<u32> {
        let reload = self.programs.as_ref().and_then(|programs| programs.reload.as_ref());
        match reload {
            // The command reloads the configuration within the running process.
            Some(Reload::Command(_)) => Vec::new(),
            Some(Reload::Signal(_)) | None => self.workers(),
        }
    }

    /// Makes the server reload its configuration: sends the signal, or waits for the command to exit.
    pub fn reload(&self) -> Result<(), LabError> {
        let Programs { supervisor, reload, .. } = self.programs()?;
        match reload.as_ref().ok_or_else(|| missing("way to reload"))? {
            Reload::Signal(signal) => {
                let supervisor = lock(supervisor);
                let told =
                    supervisor.pids().iter().try_for_each(|pid| process::kill(*pid, *signal));
                told.map_err(|error| LabError::Event(format!("cannot signal the server: {error}")))
            }
            Reload::Command(argv) => {
                let output = program::run(Path::new(&argv[0]), &argv[1..])?;
                if output.status.success() {
                    return Ok(());
                }
                let why = program::alert(&output.stderr, "Error: ");
                Err(LabError::Event(format!("the server does not reload: {why}")))
            }
        }
    }

    /// Ends the server and starts it again with the same configuration; waits until it accepts connections.
    pub fn restart(&self) -> Result<(), LabError> {
        let supervisor = &self.programs()?.supervisor;
        Ok(lock(supervisor).restart()?)
    }

    /// Kills this number of the backends.
    pub fn end_backends(&self, count: u32) -> Result<(), LabError> {
        self.backends.as_ref().ok_or_else(|| missing("backends to end"))?.end(count);
        Ok(())
    }

    /// Has HAProxy drain this number of its servers.
    pub fn drain(&self, count: u32) -> Result<(), LabError> {
        self.drain.as_ref().ok_or_else(|| missing("servers to drain"))?.drain(count)
    }

    /// Starts the backends again that were ended, and ends the draining of the others.
    pub fn restore_backends(&self) -> Result<(), LabError> {
        self.backends.as_ref().map_or(Ok(()), |backends| backends.start_again())?;
        self.drain.as_ref().map_or(Ok(()), |drain| drain.end())
    }

    /// Switches the interface of the SUT to its clients on or off.
    pub fn switch_link(&self, on: bool) -> Result<(), LabError> {
        self.link.as_ref().ok_or_else(|| missing("link to cut"))?.switch_link(on)
    }

    /// Gives the server another certificate, which its clients trust, and has it reload. Returns at once, with a name
    /// that only this certificate has.
    pub fn exchange_certificate(&self) -> Result<String, LabError> {
        let of = self.certificate.as_ref().ok_or_else(|| missing("certificate to exchange"))?;
        let name = of.exchange()?;
        self.reload()?;
        Ok(name)
    }

    /// Opens a connection that gets the certificate with this name; an error if it gets another one, or none.
    pub fn meet_certificate(&self, name: &str) -> Result<(), LabError> {
        let of = self.certificate.as_ref().ok_or_else(|| missing("certificate to exchange"))?;
        match &self.link {
            Some(hosts) => hosts.clients.run(|| of.meet(name)).map_err(LabError::Isolation)?,
            None => of.meet(name),
        }
    }

    fn programs(&self) -> Result<&Programs, LabError> {
        self.programs.as_ref().ok_or_else(|| missing("programs of the laboratory"))
    }
}

fn missing(what: &str) -> LabError {
    LabError::Event(format!("the server has no {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted_haproxy::ScriptedHaproxy;

    #[test]
    fn the_last_servers_are_drained_and_all_get_connections_again() {
        let haproxy = ScriptedHaproxy::start(6, |_| "\n");
        let sockets = vec![haproxy.socket()];
        let drain = Drain { sockets, servers: 4, drained: AtomicU32::new(0) };
        drain.drain(1).expect("drained");
        drain.drain(2).expect("drained");
        drain.end().expect("ready");
        // None is drained any more.
        drain.end().expect("nothing to do");
        let heard = haproxy.commands();
        let states =
            [(4, "drain"), (2, "drain"), (3, "drain"), (2, "ready"), (3, "ready"), (4, "ready")];
        assert_eq!(
            heard,
            states.map(|(b, state)| format!("set server backends/b{b} state {state}"))
        );
    }

    #[test]
    fn a_server_that_was_only_named_has_no_controls_but_its_processes() {
        let controls = Controls::of_processes(vec![std::process::id()]);
        assert!(controls.restart().is_err() && controls.reload().is_err());
        assert!(controls.drain(1).is_err() && controls.end_backends(1).is_err());
        assert!(controls.switch_link(false).is_err() && controls.exchange_certificate().is_err());
        assert!(controls.restore_backends().is_ok());
    }
}
