//! What other programs send over StatsD: text in, sums out.
//!
//! Counters add up; a gauge keeps its last value; of timers and distributions the mean of an interval
//! is kept. The number of names is bounded, since anybody who reaches the port may send.

use std::collections::BTreeMap;

use plimsoll_model::host::{Label, Metric, Reading};

/// The most names that are kept.
const NAMES_MAX: usize = 1000;
/// The longest name that is kept, bytes.
const NAME_BYTES_MAX: usize = 200;

/// What has arrived so far.
#[derive(Debug, Default)]
pub struct Received {
    counts: BTreeMap<String, f64>,
    gauges: BTreeMap<String, f64>,
    /// Sum in milliseconds, and number, since the last reading.
    timers: BTreeMap<String, (f64, f64)>,
    refused: u64,
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
        let names = self.counts.len() + self.gauges.len() + self.timers.len();
        let is_known = match line.kind {
            "c" => self.counts.contains_key(line.name),
            "g" => self.gauges.contains_key(line.name),
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
            "c" => *self.counts.entry(name).or_default() += value / line.rate,
            // A sign means a change.
            "g" if line.value.starts_with(['+', '-']) => {
                *self.gauges.entry(name).or_default() += value;
            }
            "g" => *self.gauges.entry(name).or_default() = value,
            "ms" | "h" | "d" => {
                let (sum, count) = self.timers.entry(name).or_default();
                *sum += value / line.rate;
                *count += 1.0 / line.rate;
            }
            // Sets and what others have added.
            _ => return false,
        }
        true
    }

    /// Adds what is known to `reading`; timers begin again.
    pub fn add_to(&mut self, reading: &mut Reading) {
        for (name, value) in &self.counts {
            reading.add(Metric::StatsdCount, &[(Label::Name, name)], *value);
        }
        for (name, value) in &self.gauges {
            reading.add(Metric::StatsdGauge, &[(Label::Name, name)], *value);
        }
        for (name, (sum, count)) in &mut self.timers {
            if *count > 0.0 {
                let mean = *sum / *count / 1e3;
                reading.add(Metric::StatsdTimerSeconds, &[(Label::Name, name)], mean);
            }
            (*sum, *count) = (0.0, 0.0);
        }
        if self.refused > 0 {
            reading.miss("StatsD", format!("{} lines were not understood", self.refused));
        }
        reading.sort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(received: &mut Received) -> Reading {
        let mut reading = Reading::default();
        received.add_to(&mut reading);
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
    fn what_is_not_understood_is_counted() {
        let mut received = Received::default();
        for broken in
            ["x", "x:1", ":1|c", "x:1|q", "x:1|s", "x:y|c", "x:1|c|@0", "x:1|c|@2", "x:inf|c"]
        {
            received.add(broken.as_bytes());
        }
        received.add(&[0xff, 0xfe]);
        let reading = read(&mut received);
        assert!(reading.samples.is_empty());
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
        assert_eq!(reading.samples.len(), NAMES_MAX);
        assert_eq!(value(&reading, Metric::StatsdCount, "n0"), Some(2.0));
        assert_eq!(received.refused, 50);
    }
}
