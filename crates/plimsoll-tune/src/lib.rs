//! What a number of connections needs of a host, compared with what the host allows.
//!
//! Nothing is read or changed here: the caller has read the host's limits.
#![forbid(unsafe_code)]

pub mod doctor;
