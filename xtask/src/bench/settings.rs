//! The flags of `cargo xtask bench`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::bench::server::ServerKind;

/// More than any one machine holds today.
const CONNECTIONS_MAX: u32 = 10_000_000;

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [flags]

  --part PART          memory, cost, serve, hold, truth, lab, capacity, cliffs or alarms;
                       repeatable (default: all but hold)
  --rounds N           interleaved rounds, at least 1 (default 5 in cost, serve and alarms, else 3);
                       in capacity searches of each server (default 1)
  --seconds N          length of one measurement, 1 to 60 (default 5 in cost and serve, 20 in truth,
                       3 in alarms); in cliffs the longest timer (default 120)
  --repeats N          searches of the lab after the first, at least 1 (default 5)
  --connections N      connections of each client, such as 2000, 15k or 1M; repeatable where several
                       sizes are measured, memory and hold (default 100 in cost and serve, 2k and
                       15k in memory; hold has no default)
  --server KIND        nginx, haproxy or plimsoll, for cost (default nginx)
  --sut KIND           embedded or haproxy, for hold (default embedded)
  --plimsoll PATH      the binary to measure (default: build the release binary)
  --out FILE           where to write (default docs/benchmarks.md); sections of parts that are
                       not run are kept

  reference SERVICE SEED
                       only serve, as the server of known service times or capacity: SERVICE is
                       fixed-ms=N, uniform-ms=N (from 0), bucket-per-s=N (a token bucket),
                       metastable-per-s=N (one that an overload slows down until it is left
                       alone) or connections-max=N (others are closed)
";

/// A part of the benchmark: a section of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Memory,
    Cost,
    Serve,
    Hold,
    Truth,
    Lab,
    Capacity,
    Cliffs,
    Alarms,
}

impl Part {
    /// In the order of the page.
    pub(crate) const ALL: [Self; 9] = [
        Self::Memory,
        Self::Cost,
        Self::Serve,
        Self::Hold,
        Self::Truth,
        Self::Lab,
        Self::Capacity,
        Self::Cliffs,
        Self::Alarms,
    ];

    /// Measured when none is named: what leaves the machine usable for others meanwhile.
    const DEFAULT: [Self; 8] = [
        Self::Memory,
        Self::Cost,
        Self::Serve,
        Self::Truth,
        Self::Lab,
        Self::Capacity,
        Self::Cliffs,
        Self::Alarms,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cost => "cost",
            Self::Serve => "serve",
            Self::Hold => "hold",
            Self::Truth => "truth",
            Self::Lab => "lab",
            Self::Capacity => "capacity",
            Self::Cliffs => "cliffs",
            Self::Alarms => "alarms",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Memory => "Memory per held connection",
            Self::Cost => "Cost and pace",
            Self::Serve => "The backend",
            Self::Hold => "Holding",
            Self::Truth => "Truth",
            Self::Lab => "The lab",
            Self::Capacity => "Known capacities",
            Self::Cliffs => "Hidden timers",
            Self::Alarms => "False alarms",
        }
    }
}

/// What `hold` holds its connections through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sut {
    Embedded,
    Haproxy,
}

impl Sut {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::Haproxy => "haproxy",
        }
    }
}

impl FromStr for Sut {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let sut = [Self::Embedded, Self::Haproxy].into_iter().find(|sut| sut.name() == text);
        sut.with_context(|| format!("--sut {text}: give embedded or haproxy"))
    }
}

impl FromStr for Part {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let part = Self::ALL.into_iter().find(|part| part.name() == text);
        part.with_context(|| {
            format!(
                "--part {text}: give memory, cost, serve, hold, truth, lab, capacity, cliffs or \
                 alarms"
            )
        })
    }
}

/// What to measure, and how long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) parts: Vec<Part>,
    rounds: Option<u32>,
    seconds: Option<u32>,
    pub(crate) repeats: u32,
    /// None when none were named.
    sizes: Vec<u32>,
    pub(crate) server: ServerKind,
    pub(crate) sut: Sut,
    pub(crate) plimsoll: Option<PathBuf>,
    pub(crate) out: PathBuf,
}

impl Settings {
    /// Rounds where `default` are enough.
    pub(crate) fn rounds_or(&self, default: u32) -> u32 {
        self.rounds.unwrap_or(default)
    }

    /// The length of a measurement where `default` seconds are enough.
    pub(crate) fn seconds_or(&self, default: u32) -> u32 {
        self.seconds.unwrap_or(default)
    }

    /// Connections where one size is measured and `default` are enough.
    pub(crate) fn connections_or(&self, default: u32) -> u32 {
        self.sizes.first().copied().unwrap_or(default)
    }

    /// Connections where several sizes are measured, ascending.
    pub(crate) fn sizes_or(&self, default: &[u32]) -> Vec<u32> {
        let mut sizes = if self.sizes.is_empty() { default.to_vec() } else { self.sizes.clone() };
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }
}

pub(crate) fn parse(flags: &[&str]) -> Result<Settings> {
    let mut settings = Settings {
        parts: Vec::new(),
        rounds: None,
        seconds: None,
        repeats: 5,
        sizes: Vec::new(),
        server: ServerKind::Nginx,
        sut: Sut::Embedded,
        plimsoll: None,
        out: PathBuf::from("docs/benchmarks.md"),
    };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let value = flags.next().with_context(|| format!("{flag} needs a value\n\n{USAGE}"))?;
        match *flag {
            "--part" => settings.parts.push(value.parse()?),
            "--rounds" => settings.rounds = Some(number(flag, value, 1..=1_000)?),
            "--seconds" => settings.seconds = Some(number(flag, value, 1..=60)?),
            "--repeats" => settings.repeats = number(flag, value, 1..=1_000)?,
            "--connections" => settings.sizes.push(connections(flag, value)?),
            "--server" => settings.server = value.parse()?,
            "--sut" => settings.sut = value.parse()?,
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

/// `2000`, `15k` or `1M`.
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
        let settings = parse(&["--rounds", "7", "--server", "plimsoll", "--out", "x.md"]).unwrap();
        assert_eq!((settings.rounds_or(3), settings.seconds_or(10)), (7, 10));
        assert_eq!(settings.server, ServerKind::Plimsoll);
        assert_eq!(settings.parts, Part::DEFAULT);
        assert_eq!((settings.connections_or(100), settings.sizes_or(&[7])), (100, vec![7]));
        let sizes = ["--part", "hold", "--connections", "2M", "--connections", "15k"];
        let settings = parse(&sizes).unwrap();
        assert_eq!(settings.sizes_or(&[7]), [15_000, 2_000_000]);
        assert_eq!(settings.connections_or(100), 2_000_000);
        let settings = parse(&["--part", "lab", "--part", "truth"]).unwrap();
        assert_eq!(settings.parts, [Part::Lab, Part::Truth]);
        for (flags, text) in [
            (vec!["--rounds"], "--rounds needs a value"),
            (vec!["--rounds", "0"], "--rounds 0: give a number from 1 to 1000"),
            (vec!["--seconds", "3600"], "--seconds 3600: give a number from 1 to 60"),
            (vec!["--server", "iis"], "--server iis: give nginx, haproxy or plimsoll"),
            (vec!["--part", "speed"], "--part speed: give memory, cost, serve, hold,"),
            (vec!["--part", "hold"], "--part hold needs --connections"),
            (vec!["--sut", "nginx"], "--sut nginx: give embedded or haproxy"),
            (vec!["--connections", "5G"], "--connections 5G: give a number from 1 to 10M"),
            (vec!["--connections", "9999M"], "--connections 9999M: give"),
            (vec!["--connections", "0"], "--connections 0: give"),
            (vec!["--fast", "1"], "unknown flag: --fast"),
        ] {
            let error = parse(&flags).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
