//! The document of an archive.

use std::iter::Peekable;

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::slo::Slo;
use plimsoll_model::summary::Summary;

use super::{Head, View, ViewBuilder};
use crate::archive::{Archive, IntervalLine, Loads, Manifest, readings};
use crate::error::Result;

impl Head {
    /// Makes the head of the run that `manifest` describes.
    pub fn of(manifest: &Manifest) -> Self {
        let slo = manifest.search.as_ref().map(|search| search.slo.clone());
        let slo = slo.or_else(|| manifest.settings.slo.as_ref().map(Slo::to_string));
        let deadline = slo.as_ref().and_then(|slo| slo.parse::<Slo>().ok()?.deadline());
        Self {
            command: manifest.command.clone(),
            kind: manifest.kind,
            target: manifest.target.clone(),
            started_at: manifest.started_at.clone(),
            args: manifest.command_line.clone(),
            settings: manifest.settings.clone(),
            host: manifest.host.clone(),
            axis: manifest.search.as_ref().map(|search| search.axis),
            slo,
            deadline_ms: deadline.map(Nanos::as_millis_f64),
        }
    }
}

/// A second with the number of its load.
type Placed = Result<(usize, IntervalLine)>;

/// The seconds of an archive, handed on in the order of its events.
struct Seconds<'a> {
    lines: Peekable<Box<dyn Iterator<Item = Placed>>>,
    builder: &'a mut ViewBuilder,
}

impl Seconds<'_> {
    /// Hands on all seconds before the first that `is_later`, by its load and its trial.
    fn hand_on(&mut self, is_later: impl Fn(usize, Option<u32>) -> bool) -> Result<()> {
        let is_next =
            |next: &Placed| next.as_ref().map_or(true, |(load, line)| !is_later(*load, line.trial));
        while let Some(next) = self.lines.next_if(is_next) {
            let (_, line) = next?;
            // The steps of a hold have no place among the seconds.
            self.builder.run.asked = line.asked;
            self.builder.handle_event(&Event::Interval(Box::new(line.interval)));
        }
        Ok(())
    }

    fn replay(&mut self, events: &[Event]) -> Result<()> {
        let mut started = 0;
        for event in events {
            match event {
                Event::LoadStarted { .. } => {
                    self.hand_on(|load, _| load >= started)?;
                    started += 1;
                }
                Event::TrialStarted(request) => {
                    let number = Some(request.number);
                    self.hand_on(|load, trial| load >= started || trial == number)?;
                }
                _ => {}
            }
            self.builder.handle_event(event);
        }
        self.hand_on(|_, _| false)
    }
}

impl View {
    /// Makes the view of `archive`, whose summary may have been rebuilt.
    pub fn of_archive(archive: &Archive, summary: &Summary) -> Result<Self> {
        let manifest = &archive.manifest;
        let run = archive.dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version = manifest.plimsoll_version.clone();
        let column_s = ViewBuilder::column_for(archive.interval_count()?);
        let mut builder = ViewBuilder::new(run, version, Head::of(manifest), column_s);
        let mut loads = Loads::of(&archive.events);
        let mut place = move |line: IntervalLine| (loads.place(&line).load, line);
        let lines: Box<dyn Iterator<Item = _>> =
            Box::new(archive.intervals()?.map(move |line| line.map(&mut place)));
        Seconds { lines: lines.peekable(), builder: &mut builder }.replay(&archive.events)?;
        for record in &archive.trials {
            builder.handle_trial(record);
        }
        for reading in readings(&archive.dir)? {
            let (host, reading) = reading?;
            builder.origin.get_or_insert(reading.begin);
            builder.handle_reading(&host, &reading);
        }
        builder.finish(summary);
        Ok(builder.view())
    }
}
