//! The common parts of the end-to-end tests: the built plimsoll, real servers and clients, and the waits
//! between them. It judges nothing; tests do.
//!
//! Whatever is started here is killed when its handle is dropped, also by a test that panics.
//! Nothing waits for a time to pass: [`wait::until`] waits for something to become true.
#![forbid(unsafe_code)]

pub mod answers;
pub mod browser;
pub mod capped;
pub mod certificate;
pub mod cgroup;
pub mod cliff;
pub mod conversation;
pub mod cutting;
mod described;
pub mod doctor;
pub mod fault;
pub mod haproxy;
pub mod host_setting;
pub mod joined;
pub mod machine;
pub mod mosquitto;
pub mod namespace;
pub mod nginx;
pub mod openssl;
pub mod pictures;
pub mod plimsoll;
pub mod port;
pub mod process;
pub mod program;
pub mod recipe;
pub mod recorder;
pub mod redis;
pub mod reference;
pub mod runs;
pub mod serve;
pub mod silent;
pub mod slurm;
pub mod ssh_hosts;
pub mod summary;
pub mod terminal;
pub mod turn;
pub mod wait;
