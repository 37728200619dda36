//! Runs of one load that several machines made at the same time, as one run: an archive like any other.
//!
//! Histograms and counters are added second by second, so the figures are the same as of one run that had recorded all
//! operations. Nothing is resampled, and no percentile is made of percentiles. What a host did stays that host's.

mod hosts;
mod same;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::Path;

use plimsoll_model::event::Event;
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::settings::Settings;
use plimsoll_model::summary::{Summary, SummaryHead};
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::trial::{Check, CheckId, Judgement, Level, Verdict};
use plimsoll_model::units::grouped;
use plimsoll_model::{Fault, Nanos};
use plimsoll_sys::private_dir::ScratchDir;

use super::manifest::{ClockPair, Manifest, MergedPart};
use super::reader::Archive;
use super::{ArchiveWriter, summarise_hosts};
use crate::error::{ReportError, Result};
use crate::reasons;

/// The least part of the longest run's time in which all must have been loading.
const OVERLAP_MIN: f64 = 0.95;

/// Runs that can be merged.
#[derive(Debug)]
pub struct Merge<'a> {
    /// In the order of their starts.
    parts: Vec<Part<'a>>,
}

#[derive(Debug)]
struct Part<'a> {
    archive: &'a Archive,
    /// Rebuilt where the run was killed.
    summary: Summary,
    clock: ClockPair,
    /// Begin of its load, on the wall clock: ns since 1970.
    began: u64,
}

impl<'a> Part<'a> {
    fn of(archive: &'a Archive) -> Result<Self> {
        let manifest = &archive.manifest;
        let refuse = |why: String| ReportError::NotMergeable { why };
        let dir = archive.dir.display();
        if manifest.kind != RunKind::Load {
            return Err(refuse(format!(
                "{dir} is a run of `{}`, and only runs of `load` are merged",
                manifest.command
            )));
        }
        let epoch = archive.events.iter().find_map(|event| match event {
            Event::LoadStarted { epoch, .. } => Some(*epoch),
            _ => None,
        });
        let Some(epoch) = epoch else {
            return Err(refuse(format!("{dir} has no load: it was ended before its load began")));
        };
        let clock = manifest.clock;
        let summary = match &archive.summary {
            Some(summary) => {
                // What the intervals lack would be missing in the sum, too.
                archive.check_agreement(summary)?;
                summary.clone()
            }
            None => archive.rebuild_summary()?,
        };
        Ok(Self { archive, summary, clock, began: clock.unix_ns_at(epoch) })
    }

    fn run(&self) -> String {
        let name = self.archive.dir.file_name();
        name.unwrap_or_else(|| self.archive.dir.as_os_str()).to_string_lossy().into_owned()
    }

    fn ended(&self) -> u64 {
        self.began + Nanos::from_secs_f64(self.summary.seconds).0
    }

    /// Returns the failed checks that made the run INVALID.
    fn faults(&self) -> impl Iterator<Item = &Check> {
        let invalid = self.summary.verdict == Verdict::Invalid;
        self.summary.reasons.iter().filter(move |check| {
            let is_ours = check.id.fault() == Fault::Local || check.id == CheckId::RunComplete;
            invalid && is_ours && check.level == Level::Fail
        })
    }
}

impl<'a> Merge<'a> {
    /// Compares the runs; an error names the first difference that forbids to merge them.
    pub fn of(archives: &'a [Archive]) -> Result<Self> {
        let mut parts = archives.iter().map(Part::of).collect::<Result<Vec<_>, _>>()?;
        // The same result whatever the order on the command line.
        parts.sort_by_key(|part| (part.began, part.run()));
        let [first, others @ ..] = parts.as_slice() else {
            return Err(ReportError::NotMergeable { why: "no run was named".to_owned() });
        };
        for other in others {
            if let Some(why) = same::first_difference(first.archive, other.archive) {
                return Err(ReportError::NotMergeable { why });
            }
        }
        check_overlap(&parts)?;
        Ok(Self { parts })
    }

    /// Returns the description of the merged run.
    pub fn manifest(&self) -> Manifest {
        let mut manifest = self.parts[0].archive.manifest.clone();
        manifest.settings = self.settings();
        manifest.merged_from = self.parts.iter().flat_map(|part| self.made_of(part)).collect();
        manifest
    }

    /// Returns the parts of `part`: itself, unless it was merged, too.
    fn made_of(&self, part: &Part<'_>) -> Vec<MergedPart> {
        let offset_s = self.offset(part).as_secs_f64();
        let manifest = &part.archive.manifest;
        if manifest.merged_from.is_empty() {
            return vec![MergedPart {
                run: part.run(),
                started_at: manifest.started_at.clone(),
                clock: part.clock,
                offset_s,
                scheduled: part.summary.operations.scheduled,
            }];
        }
        let shifted = |made_of: &MergedPart| MergedPart {
            offset_s: made_of.offset_s + offset_s,
            ..made_of.clone()
        };
        manifest.merged_from.iter().map(shifted).collect()
    }

    /// Returns the settings of the first part, with the connections and rates of all.
    fn settings(&self) -> Settings {
        let of_parts = self.parts.iter().map(|part| &part.archive.manifest.settings);
        let parts: Vec<_> = of_parts.flat_map(Settings::of_parts).cloned().collect();
        let mut whole = self.parts[0].archive.manifest.settings.clone();
        if let Some(load) = &mut whole.load {
            let connections = parts.iter().filter_map(|part| Some(part.load.as_ref()?.connections));
            load.connections = connections.sum();
        }
        for (at, step) in whole.rate.iter_mut().enumerate() {
            step.per_s = parts.iter().filter_map(|part| Some(part.rate.get(at)?.per_s)).sum();
        }
        Settings { parts, ..whole }
    }

    /// Returns the time from the first start of a load to the start of `part`.
    fn offset(&self, part: &Part<'_>) -> Nanos {
        Nanos(part.began - self.parts[0].began)
    }

    /// Writes the merged run's archive as `dir`, which appears when it is complete. `judge` says what the sum is,
    /// given the time of sending; a run that was INVALID makes it INVALID.
    pub fn write(&self, dir: &Path, judge: &dyn Fn(&Tally, Nanos) -> Judgement) -> Result<Summary> {
        if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) || dir.is_file() {
            return Err(ReportError::NotEmpty { dir: dir.to_owned() });
        }
        let create = |source| ReportError::Create { dir: dir.to_owned(), source };
        let part = ScratchDir::beside(dir).map_err(create)?;
        let summary = self.write_into(part.path(), dir, judge)?;
        part.rename(dir).map_err(ReportError::write(dir))?;
        Ok(summary)
    }

    fn write_into(
        &self,
        part: &Path,
        dir: &Path,
        judge: &dyn Fn(&Tally, Nanos) -> Judgement,
    ) -> Result<Summary> {
        let manifest = self.manifest();
        let mut writer = ArchiveWriter::create(part, &manifest)?;
        let first = &self.parts[0];
        let epoch = first.clock.monotonic.0 + (first.began - first.clock.unix_ns);
        writer.handle_event(&Event::LoadStarted {
            trial: None,
            planned: self.planned(),
            epoch: Nanos(epoch),
        })?;
        let tally = self.write_seconds(&mut writer)?;
        for note in self.notes(&manifest).into_iter().chain(self.write_hosts(part)?) {
            writer.handle_event(&Event::Note(note))?;
        }
        let window = self.window();
        let Judgement { verdict, reasons, .. } = self.judge(judge(&tally, window));
        let head = SummaryHead {
            command: manifest.command,
            target: manifest.target,
            started_at: manifest.started_at,
            window,
            partial: self.parts.iter().any(|part| part.summary.partial),
            settings: manifest.settings,
            verdict,
            reasons,
            result: RunResult::Load,
            archive: Some(dir.display().to_string()),
        };
        let mut summary = Summary::new(head, &tally);
        summary.machines.hosts = summarise_hosts(part)?;
        writer.finish(&summary)?;
        Ok(summary)
    }

    /// Returns the longest time of sending. All were sending at the same time, so a rate over it is the sum of their
    /// rates.
    fn window(&self) -> Nanos {
        let seconds = self.parts.iter().map(|part| part.summary.seconds);
        Nanos::from_secs_f64(seconds.fold(0.0, f64::max))
    }

    fn planned(&self) -> Option<Nanos> {
        let started = self.parts.iter().flat_map(|part| &part.archive.events);
        let planned = started.filter_map(|event| match event {
            Event::LoadStarted { planned, .. } => *planned,
            _ => None,
        });
        planned.max()
    }

    /// Adds up the seconds that began at the same time, to the next whole second.
    fn write_seconds(&self, writer: &mut ArchiveWriter) -> Result<Tally> {
        let mut whole = Tally::default();
        let mut seconds = Vec::new();
        for part in &self.parts {
            let shift = self.offset(part).as_secs_f64().round() as u32;
            let lines = part.archive.intervals()?.map(move |line| {
                line.map(|line| (line.interval.second + shift, line.interval.tally))
            });
            seconds.push(lines.peekable());
        }
        loop {
            let mut first = None;
            for lines in &mut seconds {
                lines.next_if(Result::is_err).transpose()?;
                let next = lines.peek().and_then(|line| Some(line.as_ref().ok()?.0));
                first = first.into_iter().chain(next).min();
            }
            let Some(second) = first else { return Ok(whole) };
            let mut tally = Tally::default();
            for lines in &mut seconds {
                let same = |line: &Result<_>| matches!(line, Ok((at, _)) if *at == second);
                while let Some(Ok((_, part))) = lines.next_if(same) {
                    tally.merge_parallel(&part);
                }
            }
            whole.merge_following(&tally);
            writer.handle_event(&Event::Interval(Box::new(Interval { second, tally })))?;
        }
    }

    fn notes(&self, manifest: &Manifest) -> Vec<String> {
        let merged = manifest.merged_from.iter().map(|part| {
            format!(
                "merged: {}, {} operations, began {:.3} s after the first by the machines' clocks",
                part.run,
                grouped(part.scheduled),
                part.offset_s
            )
        });
        let mut notes: Vec<_> = merged.collect();
        let mut seeds: Vec<_> = self.parts.iter().map(|part| part.archive.manifest.seed).collect();
        seeds.sort_unstable();
        if seeds.windows(2).any(|pair| pair[0] == pair[1]) {
            notes.push(
                "merged runs have the same seed, so their operations came due at the same instants: \
                 give each machine a --seed of its own"
                    .to_owned(),
            );
        }
        for part in &self.parts {
            let run = part.run();
            notes.extend(part.archive.events.iter().filter_map(|event| match event {
                Event::FirstFailure { class, reason } => {
                    Some(format!("{run}: {}", reasons::first_failure(*class, reason)))
                }
                Event::Note(note) => Some(format!("{run}: {note}")),
                _ => None,
            }));
        }
        notes
    }

    /// Returns the verdict on the sum, and what made runs of it INVALID.
    fn judge(&self, sum: Judgement) -> Judgement {
        let mut checks = sum.reasons;
        for fault in self.parts.iter().flat_map(Part::faults) {
            match checks.iter_mut().find(|check| check.id == fault.id) {
                Some(check) if check.level == Level::Fail => {}
                Some(check) => *check = fault.clone(),
                None => checks.push(fault.clone()),
            }
        }
        let mut judgement = Judgement::of(checks, sum.loss_ratio);
        if self.parts.iter().any(|part| part.summary.verdict == Verdict::Invalid) {
            judgement.verdict = Verdict::Invalid;
        }
        judgement
    }
}

/// Checks that all parts made load at the same time.
fn check_overlap(parts: &[Part<'_>]) -> Result<()> {
    let latest = parts.iter().map(|part| part.began).max().unwrap_or_default();
    let earliest = parts.iter().map(Part::ended).min().unwrap_or_default();
    let shared = Nanos(earliest.saturating_sub(latest)).as_secs_f64();
    let longest = parts.iter().map(|part| part.summary.seconds).fold(0.0, f64::max);
    if shared >= OVERLAP_MIN * longest {
        return Ok(());
    }
    let why = format!(
        "the runs were loading together for {shared:.1} s of {longest:.1} s, and below 95 % they are not one \
         load; start them at the same time"
    );
    Err(ReportError::NotMergeable { why })
}
