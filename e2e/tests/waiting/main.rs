//! Tests that mostly wait for timers, loads of seconds and processes to end: several at once do not
//! disturb each other, so that `cargo xtask ci` runs them with more threads than CPUs.

mod bad_input;
mod cliffs;
mod compare;
mod connections;
mod doctor;
mod exports;
mod faults;
mod faulty_suts;
mod foreign_servers;
mod handshakes;
mod hold;
mod host_watch;
mod http2;
mod isolation;
mod joined;
mod kubernetes;
mod lab;
mod live_page;
mod load;
mod local_limits;
mod mqtt;
mod page;
mod page_checks;
mod pool;
mod proxy_protocol;
mod published;
mod repeat;
mod rfc9411;
mod screen;
mod script;
mod serve;
mod ssh_hosts;
mod tls_interop;
mod watch;
mod websocket;
