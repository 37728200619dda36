//! The document of an archive.

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::slo::Slo;
use plimsoll_model::summary::Summary;

use super::{Head, View, ViewBuilder};
use crate::archive::{Archive, IntervalLine, Lines, Loads, Manifest, each_reading};
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
            is_hold: manifest.plan.pointer("/pacing/hold").is_some(),
            slo,
            deadline_ms: deadline.map(Nanos::as_millis_f64),
        }
    }
}

/// The seconds of an archive, handed on in the order of its events.
struct Seconds<'a> {
    lines: Lines<IntervalLine>,
    loads: Loads,
    /// Read, and not handed on, with the number of its load.
    next: Option<(usize, IntervalLine)>,
    builder: &'a mut ViewBuilder,
}

impl Seconds<'_> {
    /// Hands on all seconds before the first that `is_later`, by its load and its trial.
    fn hand_on(
        &mut self,
        is_later: impl Fn(usize, Option<u32>) -> bool,
    ) -> Result<(), ReportError> {
        loop {
            let (load, line) = match self.next.take() {
                Some(next) => next,
                None => match self.lines.next().transpose()? {
                    Some(line) => (self.loads.place(&line).load, line),
                    None => return Ok(()),
                },
            };
            if is_later(load, line.trial) {
                self.next = Some((load, line));
                return Ok(());
            }
            self.builder.set_asked(line.asked);
            self.builder.handle_event(&Event::Interval(Box::new(line.interval)));
        }
    }

    fn replay(&mut self, events: &[Event]) -> Result<(), ReportError> {
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
    /// Of `archive`, whose summary may be one that was rebuilt.
    pub fn of_archive(archive: &Archive, summary: &Summary) -> Result<Self, ReportError> {
        let manifest = archive.manifest();
        let run = archive.dir().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let version = manifest.plimsoll_version.clone();
        let column_s = ViewBuilder::column_for(archive.interval_count()?);
        let mut builder = ViewBuilder::new(run, version, Head::of(manifest), column_s);
        let lines = archive.intervals()?;
        let loads = Loads::of(archive.events());
        let mut seconds = Seconds { lines, loads, next: None, builder: &mut builder };
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
