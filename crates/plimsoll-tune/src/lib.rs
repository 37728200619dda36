//! What a number of connections needs of a host, compared with what the host allows, changing a host's
//! settings with a way back, and writing configurations of proxies.
#![forbid(unsafe_code)]

pub mod doctor;
pub mod proxy;
pub mod tune;
