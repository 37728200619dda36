//! Changes a host's settings for a stated number of connections, and takes the changes back.
//!
//! [`Plan::of`] says what would be changed and why. [`apply()`] writes each change into a [`Journal`]
//! before it makes it, and reads back what the kernel made of it. [`revert()`] restores what was there
//! from the journal alone, also after a crash at any point, and leaves alone what somebody else has
//! changed since.

mod apply;
mod disk;
mod error;
mod journal;
mod kept;
mod plan;
mod revert;
#[cfg(test)]
mod tests;

pub use apply::{Applied, apply};
pub use disk::{Disk, HostDisk};
pub use error::TuneError;
pub use journal::{Journal, lock};
pub use kept::StartedBy;
pub use plan::{Change, LeftAlone, Plan, ProcessLimit, Role};
pub use revert::{Reversal, Reverted, revert};

/// Returns the text of a setting without differences that mean nothing: the kernel prints tabs for spaces.
fn normalised(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}
