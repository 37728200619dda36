//! Agents that connect to their coordinator by themselves, as processes on loopback.

use std::net::SocketAddr;
use std::path::Path;

use crate::plimsoll::{Plimsoll, Running};
use crate::port;

/// A coordinator's address, and the run's keys in the folder `keys` of a run.
#[derive(Debug)]
pub struct Meeting {
    /// Listening address of the coordinator.
    pub address: SocketAddr,
    /// A run that has made the keys, in whose folder they are.
    keys: crate::plimsoll::Finished,
}

impl Meeting {
    /// Creates keys for `agents` agents, valid for `valid_for_s` seconds.
    pub fn new(agents: u32, valid_for_s: u32) -> Self {
        let (agents, valid_for) = (agents.to_string(), valid_for_s.to_string());
        let words =
            ["agent", "--write-keys", "keys", "--count", &agents, "--valid-for", &valid_for];
        let keys = Plimsoll::new(words).run();
        assert_eq!(keys.code, Some(0), "{}", keys.stderr);
        Self { address: port::free(), keys }
    }

    /// Returns the folder with the coordinator's keys.
    pub fn keys(&self) -> String {
        self.folder("coordinator")
    }

    /// Returns the folder with the keys of the agent of this index.
    pub fn agent_keys(&self, index: u32) -> String {
        self.folder(&format!("agent-{index}"))
    }

    fn folder(&self, end: &str) -> String {
        self.keys.folder().join("keys").join(end).display().to_string()
    }

    /// Returns the coordinator of a load by `agents` agents.
    pub fn load(&self, url: &str, agents: u32, flags: &[&str]) -> Plimsoll {
        let (agents, address) = (agents.to_string(), self.address.to_string());
        let always = ["load", url, "--agents", &agents, "--listen", &address];
        let keys = ["--keys", &self.keys(), "--json", "out.json", "--slo", "errors<100%"];
        Plimsoll::new(always.iter().chain(&keys).chain(flags))
    }

    /// Starts the agent of this index.
    pub fn agent(&self, index: u32) -> Running {
        self.agent_with(index, Path::new(&self.agent_keys(index)))
    }

    /// Starts an agent with keys of another folder.
    pub fn agent_with(&self, index: u32, keys: &Path) -> Running {
        let (index, to) = (index.to_string(), self.address.to_string());
        let keys = keys.display().to_string();
        Plimsoll::new(["agent", "--join", &to, "--index", &index, "--keys", &keys]).start()
    }

    /// Starts `count` agents.
    pub fn agents(&self, count: u32) -> Vec<Running> {
        (0..count).map(|index| self.agent(index)).collect()
    }
}
