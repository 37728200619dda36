//! What a number of connections needs of a host, compared with what the host allows, and changing a
//! host's settings with a way back.
#![forbid(unsafe_code)]

pub mod doctor;
pub mod tune;
