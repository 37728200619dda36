//! What of a SUT differs from the laboratory's usual one.

use plimsoll_tune::proxy::ProxyGoal;

/// What of a SUT differs from the laboratory's usual one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SutSettings {
    /// Whose configuration a proxy has.
    pub configuration: ProxyConfiguration,
    /// Threads of HAProxy, workers of nginx; else one for each CPU.
    pub threads: Option<u32>,
    /// Lines of HAProxy's section `global`, or of nginx's block `http`.
    pub options: Vec<String>,
    /// Whether a proxy logs each request.
    pub logs: bool,
}

/// Whose configuration a proxy has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProxyConfiguration {
    /// The laboratory's: nothing is logged, and no timer fires while something is measured.
    #[default]
    Laboratory,
    /// What Debian installs, and a frontend and a backend in the fewest words.
    Debian,
    /// What `tune` writes for this goal.
    Tuned(Box<ProxyGoal>),
}

impl SutSettings {
    /// Whether a proxy sends log lines somewhere.
    pub(crate) fn is_logging(&self) -> bool {
        self.logs || self.configuration != ProxyConfiguration::Laboratory
    }
}
