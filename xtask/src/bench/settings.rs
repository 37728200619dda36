//! The flags of `cargo xtask bench`.
//!
//! [`parse`] reads the words one by one into [`Settings`]: parts, rounds, seconds, connections, programs. A number
//! that was not given stays `None`, because each part has its own default and asks for it with
//! [`Settings::rounds_or`] and the like. [`USAGE`] is the text of `--help`. Values outside their ranges are errors:
//! up to 1,000 rounds, 60 s and 10 million connections. Start with [`parse`].

use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::bench::server::ServerKind;

/// More than any one machine holds today.
const CONNECTIONS_MAX: u32 = 10_000_000;

/// Text of `--help`.
pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [page | PART...] [flags]

  page               only render explanation/benchmarks.md again from the results in benchmarks/
  PART               memory, cost, protocols, serve, look, probes or hold (default: memory, cost, protocols
                     and serve)

  --part PART        the same
  --rounds N         interleaved rounds, 1 to 1000 (default 3 in memory, 10 in probes, else 5)
  --seconds N        length of one measurement in cost, protocols, serve, look and probes, 1 to 60
                     (default 5, in probes 20)
  --connections N    connections of each client, such as 2000, 15k or 1M; repeatable in memory and
                     hold (default 100 in cost, protocols and serve, 2k and 15k in memory, 100k in look, 250k in
                     probes; hold has no default)
  --server KIND      nginx, haproxy or plimsoll, for cost (default nginx)
  --sut KIND         embedded or haproxy, for hold (default embedded)
  --protocol NAME    http or mqtt, for hold (default http)
  --plimsoll PATH    the binary to measure (default: build the release binary)
  --out FOLDER       where explanation/benchmarks.md and benchmarks/ are (default docs); results of parts that are
                     not run are kept
";

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Memory,
    Cost,
    Protocols,
    Serve,
    Look,
    Probes,
    Hold,
}

impl Part {
    pub(crate) const ALL: [Self; 7] = [
        Self::Memory,
        Self::Cost,
        Self::Protocols,
        Self::Serve,
        Self::Look,
        Self::Probes,
        Self::Hold,
    ];
    /// Measured when none is named: what leaves the machine usable for others meanwhile.
    const DEFAULT: [Self; 4] = [Self::Memory, Self::Cost, Self::Protocols, Self::Serve];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cost => "cost",
            Self::Protocols => "protocols",
            Self::Serve => "serve",
            Self::Look => "look",
            Self::Probes => "probes",
            Self::Hold => "hold",
        }
    }
}

/// The server through which `hold` holds its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sut {
    Embedded,
    Haproxy,
}

impl Sut {
    const ALL: [Self; 2] = [Self::Embedded, Self::Haproxy];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Haproxy => "haproxy",
        }
    }
}

/// The protocol that clients of `hold` speak over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    Mqtt,
}

impl Protocol {
    const ALL: [Self; 2] = [Self::Http, Self::Mqtt];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Mqtt => "mqtt",
        }
    }
}

/// The parts to measure, and their durations.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) is_page_only: bool,
    pub(crate) parts: Vec<Part>,
    rounds: Option<u32>,
    seconds: Option<u32>,
    /// Empty when none were named.
    sizes: Vec<u32>,
    pub(crate) server: ServerKind,
    pub(crate) sut: Sut,
    pub(crate) protocol: Protocol,
    pub(crate) plimsoll: Option<PathBuf>,
    pub(crate) out: PathBuf,
}

impl Settings {
    pub(crate) fn rounds_or(&self, default: u32) -> u32 {
        self.rounds.unwrap_or(default)
    }

    pub(crate) fn seconds_or(&self, default: u32) -> u32 {
        self.seconds.unwrap_or(default)
    }

    /// Returns the number of connections where one size is measured.
    pub(crate) fn connections_or(&self, default: u32) -> u32 {
        self.sizes.first().copied().unwrap_or(default)
    }

    /// Returns the numbers of connections at which several sizes are measured, ascending.
    pub(crate) fn sizes_or(&self, default: &[u32]) -> Vec<u32> {
        let mut sizes = if self.sizes.is_empty() { default.to_vec() } else { self.sizes.clone() };
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

pub(crate) fn parse(flags: &[&str]) -> Result<Settings> {
    let mut settings = Settings {
        is_page_only: false,
        parts: Vec::new(),
        rounds: None,
        seconds: None,
        sizes: Vec::new(),
        server: ServerKind::Nginx,
        sut: Sut::Embedded,
        protocol: Protocol::Http,
        plimsoll: None,
        out: PathBuf::from("docs"),
    };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        if *flag == "page" {
            settings.is_page_only = true;
            continue;
        }
        if let Some(part) = Part::ALL.into_iter().find(|part| part.name() == *flag) {
            settings.parts.push(part);
            continue;
        }
        let value = flags.next().with_context(|| format!("{flag} needs a value\n\n{USAGE}"))?;
        match *flag {
            "--part" => settings.parts.push(named(flag, value, &Part::ALL, |part| part.name())?),
            "--rounds" => settings.rounds = Some(number(flag, value, 1..=1_000)?),
            "--seconds" => settings.seconds = Some(number(flag, value, 1..=60)?),
            "--connections" => settings.sizes.push(connections(flag, value)?),
            "--server" => {
                let flag_name = |kind: ServerKind| kind.program();
                settings.server = named(flag, value, &ServerKind::ALL, flag_name)?;
            }
            "--sut" => settings.sut = named(flag, value, &Sut::ALL, |sut| sut.name())?,
            "--protocol" => {
                settings.protocol = named(flag, value, &Protocol::ALL, |protocol| protocol.name())?;
            }
            "--plimsoll" => settings.plimsoll = Some(value.into()),
            "--out" => settings.out = value.into(),
            _ => bail!("unknown flag: {flag}\n\n{USAGE}"),
        }
    }
    if settings.parts.contains(&Part::Hold) && settings.sizes.is_empty() {
        bail!("--part hold needs --connections, such as --connections 1M");
    }
    if settings.parts.is_empty() {
        settings.parts = Part::DEFAULT.to_vec();
    }
    Ok(settings)
}

/// Returns the one of `all` whose name is `value`.
fn named<T: Copy>(
    flag: &str,
    value: &str,
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> Result<T> {
    all.iter().copied().find(|one| name(*one) == value).with_context(|| {
        let names: Vec<_> = all.iter().map(|one| name(*one)).collect();
        format!("{flag} {value}: give one of {}", names.join(", "))
    })
}

/// Returns `2000`, `15k` or `1M`.
fn connections(flag: &str, value: &str) -> Result<u32> {
    let (digits, unit) = match value.strip_suffix(['k', 'M']) {
        Some(digits) if value.ends_with('k') => (digits, 1_000),
        Some(digits) => (digits, 1_000_000),
        None => (value, 1),
    };
    let count = digits.parse::<u32>().ok().and_then(|count| count.checked_mul(unit));
    let count = count.filter(|count| (1..=CONNECTIONS_MAX).contains(count));
    count.with_context(|| format!("{flag} {value}: give a number from 1 to 10M"))
}

fn number(flag: &str, value: &str, range: RangeInclusive<u32>) -> Result<u32> {
    let parsed = value.parse().ok().filter(|number| range.contains(number));
    parsed.with_context(|| {
        format!("{flag} {value}: give a number from {} to {}", range.start(), range.end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_parsed_and_bounded() {
        let settings = parse(&["--rounds", "7", "--server", "plimsoll", "--out", "x"]).unwrap();
        assert_eq!((settings.rounds_or(3), settings.seconds_or(10)), (7, 10));
        assert_eq!(settings.server, ServerKind::Plimsoll);
        assert_eq!(settings.parts, Part::DEFAULT);
        assert_eq!((settings.connections_or(100), settings.sizes_or(&[7])), (100, vec![7]));
        let sizes = ["--part", "hold", "--connections", "2M", "--connections", "15k"];
        let settings = parse(&sizes).unwrap();
        assert_eq!(settings.sizes_or(&[7]), [15_000, 2_000_000]);
        assert!(parse(&["page"]).unwrap().is_page_only);
        let parts = parse(&["look", "--rounds", "1", "--part", "cost"]).unwrap().parts;
        assert_eq!(parts, [Part::Look, Part::Cost]);
        for (flags, text) in [
            (vec!["--rounds"], "--rounds needs a value"),
            (vec!["--rounds", "0"], "--rounds 0: give a number from 1 to 1000"),
            (vec!["--server", "iis"], "--server iis: give one of plimsoll, nginx, haproxy"),
            (
                vec!["--part", "speed"],
                "--part speed: give one of memory, cost, protocols, serve, look, probes, hold",
            ),
            (vec!["--part", "hold"], "--part hold needs --connections"),
            (vec!["--sut", "nginx"], "--sut nginx: give one of embedded, haproxy"),
            (vec!["--connections", "5G"], "--connections 5G: give a number from 1 to 10M"),
            (vec!["--connections", "9999M"], "--connections 9999M: give"),
            (vec!["--fast", "1"], "unknown flag: --fast"),
        ] {
            let error = parse(&flags).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
