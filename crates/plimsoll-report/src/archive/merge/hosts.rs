//! Readings of the hosts of merged runs, on one clock.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_model::Nanos;

use super::{Merge, Part};
use crate::archive::manifest::ClockPair;
use crate::archive::{HostWriter, readings};
use crate::error::Result;

/// Two readings of when a host booted differ by no more than this: clocks are set and disciplined.
const BOOT_SLACK_NS: i128 = 2_000_000_000;

impl Merge<'_> {
    /// Copies the readings of each host once, and says where two runs had the same one.
    pub(super) fn write_hosts(&self, dir: &Path) -> Result<Vec<String>> {
        let mut writer: Option<HostWriter> = None;
        let mut notes = Vec::new();
        // Of each name, when the hosts of that name booted, and the run that has their readings.
        let mut known = BTreeMap::<String, Vec<(i128, String)>>::new();
        for part in &self.parts {
            let mut names = BTreeMap::<String, Option<String>>::new();
            for reading in readings(&part.archive.dir)? {
                let (host, mut reading) = reading?;
                let name = names.entry(host.clone()).or_insert_with(|| {
                    name_of(&host, part, known.entry(host.clone()).or_default(), &mut notes)
                });
                let Some(name) = name else { continue };
                reading.begin = self.moved(reading.begin, &part.clock);
                reading.end = self.moved(reading.end, &part.clock);
                match &mut writer {
                    Some(writer) => writer.push(name, &reading)?,
                    none => none.insert(HostWriter::create(dir)?).push(name, &reading)?,
                }
            }
        }
        Ok(notes)
    }

    /// Returns the instant `at` of `clock` on the monotonic clock of the merged run.
    fn moved(&self, at: Nanos, clock: &ClockPair) -> Nanos {
        let to = &self.parts[0].clock;
        let since = i128::from(clock.unix_ns_at(at)) - i128::from(to.unix_ns);
        let moved = i128::from(to.monotonic.0) + since;
        Nanos(u64::try_from(moved.max(0)).unwrap_or(u64::MAX))
    }
}

/// Returns the name of `host` in the merged run; `None` where another run has its readings.
fn name_of(
    host: &str,
    part: &Part<'_>,
    known: &mut Vec<(i128, String)>,
    notes: &mut Vec<String>,
) -> Option<String> {
    let booted = i128::from(part.clock.unix_ns) - i128::from(part.clock.monotonic.0);
    let same = known.iter().find(|(other, _)| (booted - other).abs() <= BOOT_SLACK_NS);
    if let Some((_, run)) = same {
        notes.push(format!(
            "{host} is the host of {run} and of {}: its readings are those of {run}",
            part.run()
        ));
        return None;
    }
    known.push((booted, part.run()));
    Some(match known.len() {
        1 => host.to_owned(),
        number => format!("{host}-{number}"),
    })
}
