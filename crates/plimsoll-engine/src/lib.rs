//! The event loop: worker threads that make load or serve it.
//!
//! One thread per core, nothing shared while it runs, no async runtime, no allocation in steady
//! state. The clock is read through plimsoll-sys only.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used)]

pub mod load;
mod pump;
pub mod server;
mod sessions;
mod slots;
pub mod timeouts;
pub mod wheel;
