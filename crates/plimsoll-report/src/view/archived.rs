//! The document of an archive.

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::slo::Slo;
use plimsoll_model::summary::Summary;

use super::{Head, View, ViewBuilder};
use crate::archive::{Archive, IntervalLine, Lines, Manifest, each_reading};
use crate::error::ReportError;

impl Head {
    /// Of the run that `manifest` describes.
    pub fn of(manifest: &Manifest) -> Self {
        let slo = manifest.search.as_ref().map(|search| search.slo.clone());
        let slo = slo.or_else(|| manifest.settings.get("slo").cloned());
        let deadline = slo.as_ref().and_then(|slo| slo.parse::<Slo>().ok()?.deadline());
        Self {
            command: manifest.command.clone(),
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

/// The seconds of an archive, handed on in the order of its events.
struct Seconds<'a> {
    lines: Lines<IntervalLine>,
    /// Read, and not handed on.
    next: Option<IntervalLine>,
    /// The last one that was: its trial and its second.
    last: Option<(Option<u32>, u32)>,
    builder: &'a mut ViewBuilder,
}

impl Seconds<'_> {
    /// Hands on all seconds before the first that `is_later`.
    fn hand_on(
        &mut self,
        is_later: impl Fn(&Self, &IntervalLine) -> bool,
    ) -> Result<(), ReportError> {
        loop {
            let line = match self.next.take() {
                Some(line) => line,
                None => match self.lines.next() {
                    Some(line) => line?,
                    None => return Ok(()),
                },
            };
            if is_later(self, &line) {
                self.next = Some(line);
                return Ok(());
            }
            self.last = Some((line.trial, line.interval.second));
            self.builder.handle_second(Box::new(line.interval));
        }
    }

    /// Whether `line` is the first second of a load, or of the load of trial `number`.
    fn is_first(&self, line: &IntervalLine, number: Option<u32>) -> bool {
        let Some((trial, second)) = self.last else { return true };
        line.interval.second <= second || (trial != number && line.trial == number)
    }

    fn replay(&mut self, events: &[Event]) -> Result<(), ReportError> {
        for event in events {
            match event {
                Event::LoadStarted { trial, .. } => {
                    let number = trial.map(|trial| trial.number);
                    self.hand_on(|seconds, line| seconds.is_first(line, number))?;
                    self.last = None;
                    self.builder.handle_event(event);
                    // Its first second, which is like that of the next load.
                    self.hand_on(|seconds, line| seconds.last.is_some() || line.trial != number)?;
                }
                Event::TrialStarted(request) => {
                    self.hand_on(|_, line| line.trial == Some(request.number))?;
                    self.builder.handle_event(event);
                }
                event => drop(self.builder.handle_event(event)),
            }
        }
        self.hand_on(|_, _| false)
    }
}

impl View {
    /// Of `archive`, whose summary may be one that was rebuilt.
    pub fn of_archive(archive: &Archive, summary: &Summary) -> Result<Self, ReportError> {
        let manifest = archive.manifest();
        let run = archive.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version = manifest.plimsoll_version.clone();
        let column_s = ViewBuilder::column_for(archive.interval_count()?);
        let mut builder = ViewBuilder::new(run, version, Head::of(manifest), column_s);
        let lines = archive.intervals()?;
        let mut seconds = Seconds { lines, next: None, last: None, builder: &mut builder };
        seconds.replay(archive.events())?;
        for record in archive.trials() {
            builder.handle_trial(record);
        }
        if !builder.has_origin() {
            // Archives of versions that did not say when a load began.
            let began =
                archive.trials().iter().find_map(|trial| trial.measurement.observations.began);
            began.into_iter().for_each(|began| builder.set_origin(began));
        }
        let mut first: Option<Nanos> = None;
        each_reading(archive.dir(), &mut |host, reading| {
            if !builder.has_origin() {
                builder.set_origin(*first.get_or_insert(reading.begin));
            }
            builder.handle_reading(host, &reading);
        })?;
        builder.finish(summary);
        Ok(builder.view())
    }
}
