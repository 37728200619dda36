//! Settings of a SUT that differ from the laboratory's default.

use plimsoll_tune::proxy::ProxyGoal;

/// Settings of a SUT that differ from the laboratory's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SutSettings {
    /// Configuration of the proxy.
    pub configuration: ProxyConfiguration,
    /// Threads of HAProxy, workers of nginx; else one for each CPU.
    pub threads: Option<u32>,
    /// Lines of HAProxy's section `global`, or of nginx's block `http`.
    pub options: Vec<String>,
    /// `true` if a proxy logs each request.
    pub logs: bool,
    /// `true` if a proxy can reload its configuration while it runs.
    pub reloads: bool,
    /// Servers behind the proxy may end and start again: each is its own process, and HAProxy checks them.
    pub backends_end: bool,
}

/// The configuration of a proxy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxyConfiguration {
    /// The laboratory's: nothing is logged, and no timer fires while something is measured.
    #[default]
    Laboratory,
    /// Debian's configuration, with a frontend and a backend in the fewest words.
    Debian,
    /// The configuration that `tune` writes for this goal.
    Tuned(Box<ProxyGoal>),
}
