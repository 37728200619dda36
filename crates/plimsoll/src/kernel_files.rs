//! Roots of the files in which the kernel describes this host.

/// Root of the file system.
pub(crate) const ROOT: &str = "/";
/// The files of processes.
pub(crate) const PROC: &str = "/proc";
