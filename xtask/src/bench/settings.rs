//! The flags of `cargo xtask bench`.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::bench::server::ServerKind;

/// What `--help` prints.
pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [flags]

  --part PART          cost, truth, lab or cliffs; repeatable (default: all)
  --rounds N           interleaved rounds of cost and truth, at least 1 (default 5 and 3)
  --seconds N          length of one measurement, 1 to 60 (default 10 in cost, 20 in truth);
                       in cliffs the longest timer (default 120)
  --repeats N          searches of the lab after the first, at least 1 (default 5)
  --connections N      connections of each client of cost, 1 to 1000 (default 100)
  --server KIND        nginx or plimsoll, for cost (default nginx)
  --plimsoll PATH      the binary to measure (default: build the release binary)
  --out FILE           where to write (default docs/benchmarks.md); sections of parts that are
                       not run are kept

  reference SERVICE SEED
                       only serve, as the server of known service times: SERVICE is fixed-ms=N,
                       uniform-ms=N (from 0) or queue-per-s=N (one request at a time)
";

/// A part of the benchmark: a section of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Cost,
    Truth,
    Lab,
    Cliffs,
}

impl Part {
    /// In the order of the page.
    pub(crate) const ALL: [Self; 4] = [Self::Cost, Self::Truth, Self::Lab, Self::Cliffs];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Cost => "cost",
            Self::Truth => "truth",
            Self::Lab => "lab",
            Self::Cliffs => "cliffs",
        }
    }

    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Cost => "Cost and pace",
            Self::Truth => "Truth",
            Self::Lab => "The lab",
            Self::Cliffs => "Hidden timers",
        }
    }
}

impl FromStr for Part {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let part = Self::ALL.into_iter().find(|part| part.name() == text);
        part.with_context(|| format!("--part {text}: give cost, truth, lab or cliffs"))
    }
}

/// What to measure, and how long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) parts: Vec<Part>,
    rounds: Option<u32>,
    seconds: Option<u32>,
    pub(crate) repeats: u32,
    pub(crate) connections: u32,
    pub(crate) server: ServerKind,
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
}

pub(crate) fn parse(flags: &[&str]) -> Result<Settings> {
    let mut settings = Settings {
        parts: Vec::new(),
        rounds: None,
        seconds: None,
        repeats: 5,
        connections: 100,
        server: ServerKind::Nginx,
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
            "--connections" => settings.connections = number(flag, value, 1..=1_000)?,
            "--server" => settings.server = value.parse()?,
            "--plimsoll" => settings.plimsoll = Some(value.into()),
            "--out" => settings.out = value.into(),
            _ => bail!("unknown flag: {flag}\n\n{USAGE}"),
        }
    }
    if settings.parts.is_empty() {
        settings.parts = Part::ALL.to_vec();
    }
    Ok(settings)
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
        assert_eq!(settings.parts, Part::ALL);
        let settings = parse(&["--part", "lab", "--part", "truth"]).unwrap();
        assert_eq!(settings.parts, [Part::Lab, Part::Truth]);
        for (flags, text) in [
            (vec!["--rounds"], "--rounds needs a value"),
            (vec!["--rounds", "0"], "--rounds 0: give a number from 1 to 1000"),
            (vec!["--seconds", "3600"], "--seconds 3600: give a number from 1 to 60"),
            (vec!["--server", "iis"], "--server iis: give nginx or plimsoll"),
            (vec!["--part", "speed"], "--part speed: give cost, truth, lab or cliffs"),
            (vec!["--fast", "1"], "unknown flag: --fast"),
        ] {
            let error = parse(&flags).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
