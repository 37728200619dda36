//! Reads what processes and hosts are doing. Nothing here changes anything, and a value that cannot
//! be read stays missing.
#![forbid(unsafe_code)]

mod answer;
mod file;
#[cfg(test)]
mod fixture;
pub mod haproxy_socket;
pub mod host;
pub mod limits;
mod lines;
pub mod memory;
mod mosquitto_configuration;
mod nginx_configuration;
pub mod processes;
pub mod sampler;
pub mod server_counters;
pub mod server_limits;
pub mod server_timers;
pub mod statsd;
pub mod threads;
pub mod yardstick;
