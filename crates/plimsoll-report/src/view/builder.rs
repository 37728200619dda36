//! The builder of a view: events and readings in, the document and its changes out.
//!
//! [`ViewBuilder::handle_event`] and [`ViewBuilder::handle_reading`] update the builder and return the [`Patch`]es
//! for viewers of a running page; [`ViewBuilder::view`] makes the whole document. A second enters its column when the
//! next second arrives or the load ends, because only then is it known to be whole. A document has at most
//! [`COLUMNS_MAX`] columns: [`ViewBuilder::column_for`] gives the seconds per column, and beyond the maximum the
//! oldest column is dropped. Start reading at [`ViewBuilder::handle_event`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::host::Reading;
use plimsoll_model::slo::Slo;
use plimsoll_model::summary::Summary;
use plimsoll_model::tally::Interval;
use plimsoll_model::trial::{Phase, TrialRecord};

use super::columns::columns;
use super::heat::{Heat, Range};
use super::hosts::Host;
use super::number::{instant, short};
use super::seconds::{HeatColumn, Second, Stretch, is_whole};
use super::spectrum::Spectrum;
use super::{Badge, Happened, Head, Level, Patch, SCHEMA, TrialRow, View};
use crate::state::{RunState, Said};

/// Columns of a document; of a longer run in progress the newest are shown.
const COLUMNS_MAX: usize = 3_600;

/// Makes a [`View`] of the events and readings of a run, in the order in which they happened.
#[derive(Debug, Default)]
pub struct ViewBuilder {
    /// The document without the lists that [`Self::view`] makes.
    view: View,
    slo: Option<Slo>,
    /// Seconds that become one column.
    column_s: u32,
    /// CLOCK_MONOTONIC of the run's first second; of its first reading if no load began.
    pub(super) origin: Option<Nanos>,
    pub(super) run: RunState,
    /// The first second of the load that runs, seconds since the run's first one.
    begin_s: f64,
    open: Stretch,
    /// The last second, and how many connections were to be reached in it: whether it is whole shows when the next one
    /// comes.
    last: Option<(Arc<Interval>, Option<u64>)>,
    /// The columns, without the columns of the heat map.
    rows: VecDeque<Second>,
    heats: VecDeque<HeatColumn>,
    /// The oldest columns go from now on.
    pub(crate) is_full: bool,
    /// Start of the first second of each trial.
    begins: BTreeMap<u32, f64>,
    records: Vec<TrialRecord>,
    hosts: BTreeMap<String, Host>,
    phase: Option<Phase>,
}

impl ViewBuilder {
    /// Creates the builder for the run named `run`; `column_s` seconds become one column.
    pub fn new(run: String, version: String, head: Head, column_s: u32) -> Self {
        let slo = head.slo.as_ref().and_then(|slo| slo.parse().ok());
        let column_s = column_s.max(1);
        let (schema, seconds) = (SCHEMA, f64::from(column_s));
        Self {
            view: View { schema, run, version, head, column_s: seconds, ..View::default() },
            slo,
            column_s,
            ..Self::default()
        }
    }

    /// Returns the seconds of one column for a run of `seconds`.
    pub fn column_for(seconds: u64) -> u32 {
        let ladder = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_800, 3_600, 14_400, 86_400];
        let fits = |column: &&u32| seconds.div_ceil(u64::from(**column)) <= COLUMNS_MAX as u64;
        ladder.iter().find(fits).copied().unwrap_or(86_400)
    }

    /// Takes an event; the changes that it makes.
    pub fn handle_event(&mut self, event: &Event) -> Vec<Patch> {
        let mut patches = Vec::new();
        if matches!(event, Event::LoadStarted { .. } | Event::TrialStarted(_)) {
            patches.extend(self.end_seconds());
        }
        // No figure counts from the start of the run.
        self.run.handle_event(event, Nanos::ZERO);
        match event {
            Event::LoadStarted { trial, epoch, .. } => {
                self.begin_load(*epoch);
                patches.extend(trial.as_ref().and_then(|trial| self.enter(trial.phase)));
            }
            Event::TrialStarted(request) => patches.extend(self.enter(request.phase)),
            Event::Interval(interval) => patches.extend(self.handle_second(interval)),
            Event::TrialEnded(record) => return self.handle_trial(record),
            other => match self.run.said(other) {
                Some(Said::Note(text)) => patches.push(self.note(&text)),
                Some(Said::Answer(text)) => {
                    self.view.answer = Some(text.clone());
                    patches.push(Patch::Answer { text });
                }
                Some(Said::Result(_)) | None => {}
            },
        }
        self.count(patches)
    }

    /// Takes a trial that was judged.
    pub(super) fn handle_trial(&mut self, record: &TrialRecord) -> Vec<Patch> {
        let mut patches = self.end_seconds();
        patches.push(self.end_trial(record));
        self.count(patches)
    }

    /// Takes a reading of a host; the changes that it makes.
    pub fn handle_reading(&mut self, host: &str, reading: &Reading) -> Vec<Patch> {
        // What was before the load is where the rates of its first second come from.
        let origin = self.origin.unwrap_or(Nanos::MAX);
        let apart = Nanos::from_secs(u64::from(self.column_s));
        let of = self.hosts.entry(host.to_owned()).or_default();
        let row = of.add(reading, origin, apart).cloned();
        of.keep(COLUMNS_MAX);
        let patch = row.map(|row| Patch::Host { host: host.to_owned(), row: Box::new(row) });
        self.count(patch.into_iter().collect())
    }

    /// Completes the document with the summary of the run.
    pub fn finish(&mut self, summary: &Summary) -> Vec<Patch> {
        let mut patches = self.end_seconds();
        self.view.summary = Some(summary.clone());
        self.view.badge = Badge::of(summary);
        self.view.answer = None;
        patches.push(Patch::End { summary: Box::new(summary.clone()), badge: self.view.badge });
        self.count(patches)
    }

    /// Returns the document so far.
    pub fn view(&self) -> View {
        let rows: Vec<&Second> = self.rows.iter().collect();
        let sentinels = self.view.trials.iter().filter(|trial| trial.phase == Phase::Sentinel);
        let sentinels = sentinels
            .filter_map(|trial| Some((instant(trial.start_s? + trial.seconds), trial.carried?)));
        View {
            seconds: columns(&rows, &&Stretch::default().row(), &["errors"]),
            heat: self.heat(),
            spectrum: self.spectrum(),
            hosts: self.hosts.iter().map(|(name, host)| (name.clone(), host.columns())).collect(),
            sentinels: sentinels.collect(),
            plateaus: self.levels(),
            ..self.view.clone()
        }
    }

    fn count(&mut self, patches: Vec<Patch>) -> Vec<Patch> {
        self.view.seq += patches.len() as u64;
        patches
    }

    fn begin_load(&mut self, epoch: Nanos) {
        let origin = *self.origin.get_or_insert(epoch);
        self.begin_s = epoch.since(origin).as_secs_f64();
    }

    /// Returns the phase that a search enters, when it is another one.
    fn enter(&mut self, phase: Phase) -> Option<Patch> {
        let before = self.phase.replace(phase);
        // Sentinels and usage come between the others all the time.
        let is_between = |phase| matches!(phase, Phase::Sentinel | Phase::Usage);
        if before == Some(phase) || is_between(phase) || before.is_some_and(is_between) {
            return None;
        }
        let text = format!("phase {}", phase.name());
        let happened = Happened { t: instant(self.begin_s), text };
        self.view.events.push(happened.clone());
        Some(Patch::Step(happened))
    }

    /// Takes the second of the load that has just ended.
    fn handle_second(&mut self, interval: &Interval) -> Vec<Patch> {
        let mut patches: Vec<Patch> = self.take_last(Some(interval)).into_iter().collect();
        if let Some(trial) = self.run.trial {
            let begin_s = self.begin_s + f64::from(interval.second);
            self.begins.entry(trial.number).or_insert(begin_s);
        }
        self.last = self.run.second.clone().map(|second| (second, self.run.asked));
        if self.rows.len() == COLUMNS_MAX && !std::mem::replace(&mut self.is_full, true) {
            let hours = COLUMNS_MAX as u64 * u64::from(self.column_s) / 3_600;
            patches.push(self.note(&format!(
                "a page that is opened from now on shows the last {hours} h; one that is open, and the report, keep all"
            )));
        }
        patches
    }

    /// Adds the last second to a column; `next` follows it in the same load.
    fn take_last(&mut self, next: Option<&Interval>) -> Option<Patch> {
        let (last, asked) = self.last.take()?;
        let RunState { trial, planned, .. } = self.run;
        let whole = is_whole(last.second, planned, next);
        let end_s = self.begin_s + f64::from(last.second) + 1.0;
        self.open.add(&last.tally, trial.map(|trial| trial.number), whole, end_s);
        self.open.asked = asked;
        if self.open.seconds >= self.column_s { self.end_stretch() } else { None }
    }

    /// Completes the columns of a load that has ended.
    fn end_seconds(&mut self) -> Vec<Patch> {
        let last = self.take_last(None);
        last.into_iter().chain(self.end_stretch()).collect()
    }

    fn end_stretch(&mut self) -> Option<Patch> {
        let stretch = std::mem::take(&mut self.open);
        if stretch.seconds == 0 || stretch.is_empty() {
            return None;
        }
        let mut second = stretch.row();
        let heat = second.heat.take().unwrap_or_default();
        self.rows.push_back(second.clone());
        second.heat = Some(HeatColumn {
            corrected: Range::LIVE.cells(&heat.corrected),
            uncorrected: Range::LIVE.cells(&heat.uncorrected),
        });
        self.heats.push_back(heat);
        if self.rows.len() > COLUMNS_MAX {
            self.rows.pop_front();
            self.heats.pop_front();
        }
        Some(Patch::Second(Box::new(second)))
    }

    fn end_trial(&mut self, record: &TrialRecord) -> Patch {
        let number = record.measurement.request.number;
        let start_s = self.begins.get(&number).copied();
        let row = TrialRow::new(record, start_s, self.view.head.axis, self.slo.as_ref());
        if let Some(ceiling) = record.measurement.observations.reference {
            self.view.ceiling_per_s = short(ceiling.get());
        }
        self.view.trials.push(row.clone());
        self.records.push(record.clone());
        Patch::Trial(Box::new(row))
    }

    /// Returns the levels of a hold, each at the time when all its connections were open; a later level may have fewer.
    fn levels(&self) -> Vec<Level> {
        let mut rows = self.rows.iter().peekable();
        let mut levels = Vec::new();
        let plateaus = self.run.holding.iter().flat_map(|holding| &holding.plateaus);
        for plateau in plateaus {
            let Some(first) = rows.peek() else { break };
            let is_ramp = first.held < plateau.held;
            let is_there = |row: &&Second| match is_ramp {
                true => row.held >= plateau.held,
                false => row.held <= plateau.held,
            };
            let Some(reached) = rows.find(is_there) else { break };
            let answered = plateau.swept.map(|swept| swept.answered);
            levels.push(Level { t: reached.t, held: plateau.held, answered });
        }
        levels
    }

    fn note(&mut self, text: &str) -> Patch {
        let happened = Happened { t: instant(self.begin_s), text: text.to_owned() };
        self.view.notes.push(text.to_owned());
        self.view.events.push(happened.clone());
        Patch::Note(happened)
    }

    fn heat(&self) -> Heat {
        let columns = || self.heats.iter();
        let both = columns().flat_map(|column| [&column.corrected, &column.uncorrected]);
        let range = if self.view.summary.is_some() { Range::of(both) } else { Range::LIVE };
        Heat {
            rows: range.edges(),
            column_s: self.view.column_s,
            corrected: columns().map(|column| range.cells(&column.corrected)).collect(),
            uncorrected: columns().map(|column| range.cells(&column.uncorrected)).collect(),
        }
    }

    /// Returns the spectrum of the trials at the lower bound of a search, else of everything.
    fn spectrum(&self) -> Spectrum {
        let find = self.view.summary.as_ref().and_then(|summary| summary.result.find());
        let at = find.and_then(|find| find.at_lower_bound(&self.records));
        Spectrum::of(&at.map_or_else(|| self.run.total(), |at| at.tally).spans)
    }
}
