//! The kinds of server that a laboratory can start as its system under test (SUT).

use std::fmt;

named! {
    /// A kind of server that a laboratory can start. For every kind but [`Self::Embedded`] the name is also the name of
    /// the program's file.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum SutKind {
        /// plimsoll's own server, which answers requests itself.
        Embedded = "embedded",
        /// HAProxy.
        Haproxy = "haproxy",
        /// nginx.
        Nginx = "nginx",
        /// Caddy.
        Caddy = "caddy",
    }
}

impl SutKind {
    /// Returns the name in sentences.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Embedded => "plimsoll serve",
            Self::Haproxy => "HAProxy",
            Self::Nginx => "nginx",
            Self::Caddy => "Caddy",
        }
    }

    /// Returns the prefix of the names of its processes.
    pub const fn process(self) -> &'static str {
        match self {
            Self::Embedded => "plimsoll",
            other => other.name(),
        }
    }

    /// Reports whether its runtime moves work between threads, so that the CPU of one thread says nothing about the
    /// others.
    pub const fn moves_work(self) -> bool {
        matches!(self, Self::Caddy)
    }

    /// Reports whether its limits refuse requests with status 503, which other proxies answer if no backend is up.
    pub const fn refuses_with_503(self) -> bool {
        matches!(self, Self::Nginx)
    }

    /// Returns the kind whose processes have such a name.
    pub fn of_process(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| name.starts_with(kind.process()))
    }

    /// Returns the kinds that are installed programs, with servers behind them.
    pub fn proxies() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|kind| *kind != Self::Embedded)
    }
}

impl fmt::Display for SutKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

read_by_name!(SutKind: "a kind of server that a laboratory can start");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_serialised_alike() {
        for kind in SutKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
        assert_eq!(SutKind::of_process("nginx-2"), Some(SutKind::Nginx));
        assert_eq!(SutKind::of_process("python"), None);
        assert!("HAProxy".parse::<SutKind>().is_err());
        assert!(SutKind::proxies().eq(SutKind::ALL[1..].iter().copied()));
    }
}
