//! The ways in which a server can be disturbed while it is loaded.

/// The kinds of disturbance that a server allows; known before it is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    /// Its processes are on this host, and known.
    pub processes: bool,
    /// It reloads its configuration on a signal.
    pub reload: bool,
}
