//! Sums of values that other programs send over StatsD: text in, sums out.
//!
//! Counters add up, and never fall; a gauge keeps its last value; of timers, in seconds, and of histograms and
//! distributions, in the sender's unit, the mean of an interval is kept. The number of names is bounded, since anybody
//! who reaches the port may send.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use plimsoll_model::Nanos;
use plimsoll_model::host::{Label, Metric, Reading, Source, SourceKind, SourceState};

/// The most names that are kept.
const NAMES_MAX: usize = 1000;
/// The longest name that is kept, bytes.
const NAME_BYTES_MAX: usize = 200;
/// Time without a datagram after which the senders are missing: three intervals in which StatsD clients flush.
const SILENT_MAX: Nanos = Nanos::from_secs(30);

/// Values that have arrived so far.
#[derive(Debug, Default)]
pub struct Received {
    counts: BTreeMap<String, f64>,
    gauges: BTreeMap<String, f64>,
    /// Sum in milliseconds, and number, since the last reading.
    timers: BTreeMap<String, (f64, f64)>,
    /// Sum in the sender's unit, and number, since the last reading.
    values: BTreeMap<String, (f64, f64)>,
    refused: u64,
    /// Datagrams since the last reading, whatever was in them.
    datagrams: u64,
    /// Time at which the first reading began; `heard` is the one of the last reading with a datagram.
    first: Option<Nanos>,
    heard: Option<Nanos>,
}

/// One line: `name:value|type`, with `|@rate` and `|#tags` behind it.
struct Line<'a> {
    name: &'a str,
    value: &'a str,
    kind: &'a str,
    /// The fraction of events that was sent.
    rate: f64,
}

fn parse(line: &str) -> Option<Line<'_>> {
    let (name, rest) = line.split_once(':')?;
    let mut fields = rest.split('|');
    let (value, kind) = (fields.next()?, fields.next()?);
    let mut rate = 1.0;
    for field in fields {
        if let Some(text) = field.strip_prefix('@') {
            rate = text.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0)?;
        }
    }
    let is_named = !name.is_empty() && name.len() <= NAME_BYTES_MAX;
    is_named.then_some(Line { name, value, kind, rate })
}

impl Received {
    /// Adds a datagram: lines of text. What is not understood is counted.
    pub fn add(&mut self, datagram: &[u8]) {
        self.datagrams += 1;
        let Ok(text) = std::str::from_utf8(datagram) else {
            self.refused += 1;
            return;
        };
        for line in text.lines().filter(|line| !line.is_empty()) {
            let added = parse(line).is_some_and(|line| self.add_line(&line));
            self.refused += u64::from(!added);
        }
    }

    fn add_line(&mut self, line: &Line<'_>) -> bool {
        let means = self.timers.len() + self.values.len();
        let names = self.counts.len() + self.gauges.len() + means;
        let is_known = match line.kind {
            "c" => self.counts.contains_key(line.name),
            "g" => self.gauges.contains_key(line.name),
            "h" | "d" => self.values.contains_key(line.name),
            _ => self.timers.contains_key(line.name),
        };
        let Some(value) = line.value.parse::<f64>().ok().filter(|value| value.is_finite()) else {
            return false;
        };
        if !is_known && names >= NAMES_MAX {
            return false;
        }
        let name = line.name.to_owned();
        match line.kind {
            // A counter that falls would look like one that began again.
            "c" if value < 0.0 => return false,
            "c" => *self.counts.entry(name).or_default() += value / line.rate,
            // A sign means a change.
            "g" if line.value.starts_with(['+', '-']) => {
                *self.gauges.entry(name).or_default() += value;
            }
            "g" => *self.gauges.entry(name).or_default() = value,
            "ms" | "h" | "d" => {
                let means = if line.kind == "ms" { &mut self.timers } else { &mut self.values };
                let (sum, count) = means.entry(name).or_default();
                *sum += value / line.rate;
                *count += 1.0 / line.rate;
            }
            // Sets and what others have added.
            _ => return false,
        }
        true
    }

    /// Adds what has come to the socket at `at` to `reading`; means begin again.
    pub fn add_to(&mut self, at: SocketAddr, reading: &mut Reading) {
        for (name, value) in &self.counts {
            reading.add(Metric::StatsdCount, &[(Label::Name, name)], *value);
        }
        for (name, value) in &self.gauges {
            reading.add(Metric::StatsdGauge, &[(Label::Name, name)], *value);
        }
        for (metric, means, unit) in [
            (Metric::StatsdTimerSeconds, &mut self.timers, 1e3),
            (Metric::StatsdValue, &mut self.values, 1.0),
        ] {
            for (name, (sum, count)) in means {
                if *count > 0.0 {
                    reading.add(metric, &[(Label::Name, name)], *sum / *count / unit);
                }
                (*sum, *count) = (0.0, 0.0);
            }
        }
        if self.refused > 0 {
            let lines = if self.refused == 1 { "line was" } else { "lines were" };
            reading.miss("StatsD", format!("{} {lines} not understood", self.refused));
        }
        let state = self.state(reading.begin);
        let (kind, name) = (SourceKind::Statsd, format!("statsd:{at}"));
        reading.add_source(Source { kind, name, pid: None, state });
        reading.sort();
    }

    /// Returns the state of the senders in a reading that began at `now`.
    fn state(&mut self, now: Nanos) -> SourceState {
        let first = *self.first.get_or_insert(now);
        if std::mem::take(&mut self.datagrams) > 0 {
            self.heard = Some(now);
        }
        match self.heard {
            None => {
                SourceState::Missing { since: first, reason: "no datagram has come yet".into() }
            }
            Some(heard) if now.since(heard) < SILENT_MAX => SourceState::Reading,
            Some(since) => {
                SourceState::Missing { since, reason: "no datagram has come since".into() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(received: &mut Received) -> Reading {
        read_at(received, 0)
    }

    fn read_at(received: &mut Received, second: u64) -> Reading {
        let mut reading = Reading { begin: Nanos::from_secs(second), ..Reading::default() };
        received.add_to(([127, 0, 0, 1], 8125).into(), &mut reading);
        reading
    }

    fn value(reading: &Reading, metric: Metric, name: &str) -> Option<f64> {
        reading.sum(metric, &[(Label::Name, name)])
    }

    #[test]
    fn every_kind_adds_up_in_its_way() {
        let mut received = Received::default();
        received.add(b"hits:1|c\nhits:2|c|@0.1\nload:7|g\nload:-2|g\nload:+1|g|#env:x\n");
        received.add(b"wait:10|ms\nwait:30|ms|@0.5");
        let reading = read(&mut received);
        assert_eq!(value(&reading, Metric::StatsdCount, "hits"), Some(21.0));
        assert_eq!(value(&reading, Metric::StatsdGauge, "load"), Some(6.0));
        let mean = value(&reading, Metric::StatsdTimerSeconds, "wait").unwrap();
        assert!((mean - 0.070 / 3.0).abs() < 1e-12, "{mean}");
        assert!(reading.missing.is_empty());
        // Counters go on, timers begin again.
        received.add(b"hits:1|c");
        let reading = read(&mut received);
        assert_eq!(value(&reading, Metric::StatsdCount, "hits"), Some(22.0));
        assert_eq!(value(&reading, Metric::StatsdTimerSeconds, "wait"), None);
    }

    #[test]
    fn histograms_and_distributions_keep_their_unit() {
        let mut received = Received::default();
        received.add(b"size:512|h\nsize:1024|h\nrows:7|d\nwait:20|ms");
        let reading = read(&mut received);
        assert_eq!(value(&reading, Metric::StatsdValue, "size"), Some(768.0));
        assert_eq!(value(&reading, Metric::StatsdValue, "rows"), Some(7.0));
        assert_eq!(value(&reading, Metric::StatsdTimerSeconds, "wait"), Some(0.02));
        assert_eq!(value(&reading, Metric::StatsdTimerSeconds, "size"), None);
        // Means begin again.
        assert_eq!(value(&read(&mut received), Metric::StatsdValue, "size"), None);
    }

    #[test]
    fn counters_never_fall() {
        let mut received = Received::default();
        received.add(b"hits:5|c\nhits:-3|c");
        let reading = read(&mut received);
        assert_eq!(value(&reading, Metric::StatsdCount, "hits"), Some(5.0));
        assert_eq!(reading.missing[0].reason, "1 line was not understood");
    }

    #[test]
    fn senders_that_are_silent_are_missing() {
        let mut received = Received::default();
        let state = |reading: Reading| reading.sources[0].since().map(|since| since.as_secs_f64());
        assert_eq!(state(read_at(&mut received, 3)), Some(3.0));
        assert_eq!(state(read_at(&mut received, 4)), Some(3.0));
        received.add(b"hits:1|c");
        assert_eq!(state(read_at(&mut received, 5)), None);
        assert_eq!(state(read_at(&mut received, 34)), None);
        assert_eq!(state(read_at(&mut received, 35)), Some(5.0));
        received.add(b"?");
        assert_eq!(state(read_at(&mut received, 36)), None);
    }

    #[test]
    fn what_is_not_understood_is_counted() {
        let mut received = Received::default();
        for broken in
            ["x", "x:1", ":1|c", "x:1|q", "x:1|s", "x:y|c", "x:1|c|@0", "x:1|c|@2", "x:inf|c"]
        {
            received.add(broken.as_bytes());
        }
        received.add(&[0xff, 0xfe]);
        let reading = read(&mut received);
        assert!(reading.samples.iter().all(|sample| sample.series.metric == Metric::SourceUp));
        assert_eq!(reading.missing[0].reason, "10 lines were not understood");
    }

    #[test]
    fn names_are_bounded() {
        let mut received = Received::default();
        for name in 0..NAMES_MAX + 50 {
            received.add(format!("n{name}:1|c").as_bytes());
        }
        received.add(b"n0:1|c");
        let reading = read(&mut received);
        assert_eq!(reading.of(Metric::StatsdCount, &[]).count(), NAMES_MAX);
        assert_eq!(value(&reading, Metric::StatsdCount, "n0"), Some(2.0));
        assert_eq!(received.refused, 50);
    }
}
