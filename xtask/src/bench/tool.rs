//! The programs that make load: plimsoll, and the peers it is measured beside.

/// A program that makes load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Plimsoll,
    Wrk,
    Ab,
    H1load,
    H2load,
    Oha,
    Hey,
    Vegeta,
    K6,
}

impl Tool {
    /// All but plimsoll.
    pub(crate) const PEERS: [Self; 8] = [
        Self::Wrk,
        Self::Ab,
        Self::H1load,
        Self::H2load,
        Self::Oha,
        Self::Hey,
        Self::Vegeta,
        Self::K6,
    ];

    /// Returns the name of the tool, by which PATH finds it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plimsoll => "plimsoll",
            Self::Wrk => "wrk",
            Self::Ab => "ab",
            Self::H1load => "h1load",
            Self::H2load => "h2load",
            Self::Oha => "oha",
            Self::Hey => "hey",
            Self::Vegeta => "vegeta",
            Self::K6 => "k6",
        }
    }

    /// Returns the one of this name; plimsoll if there is none.
    pub(crate) fn named(name: &str) -> Self {
        Self::PEERS.into_iter().find(|tool| tool.name() == name).unwrap_or(Self::Plimsoll)
    }

    /// Returns the way to install a missing one.
    pub(crate) const fn advice(self) -> &'static str {
        match self {
            Self::Plimsoll => "cargo build --release",
            Self::Wrk => "apt-get install wrk",
            Self::Ab => "apt-get install apache2-utils",
            Self::H1load => "build github.com/wtarreau/h1load with make",
            Self::H2load => "apt-get install nghttp2-client",
            Self::Oha => "cargo install oha",
            Self::Hey => "go install github.com/rakyll/hey@latest",
            Self::Vegeta => "go install github.com/tsenart/vegeta/v12@latest",
            Self::K6 => "go install go.k6.io/k6@latest",
        }
    }

    /// Returns the argument that prints its version; `None` if there is none.
    pub(crate) const fn version_flag(self) -> Option<&'static str> {
        match self {
            Self::Plimsoll | Self::H2load | Self::Oha => Some("--version"),
            Self::Wrk => Some("-v"),
            Self::Ab => Some("-V"),
            Self::Vegeta => Some("-version"),
            Self::K6 => Some("version"),
            Self::H1load | Self::Hey => None,
        }
    }

    /// Returns the reason why there is no figure of the tool.
    pub(crate) fn missing(self) -> String {
        format!("{}: missing ({})", self.name(), self.advice())
    }
}
