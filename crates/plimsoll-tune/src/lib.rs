//! Needs of connections compared with the limits of a host, changes of a host's
//! settings with a way back, and writing configurations of proxies.
#![forbid(unsafe_code)]

pub mod doctor;
pub mod proxy;
pub mod tune;
