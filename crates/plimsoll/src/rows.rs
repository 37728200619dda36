//! The sink of `load --rows`: keeps single operations until the load is over, then writes them sorted.

use plimsoll_model::event::Event;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::row::Row;
use plimsoll_model::summary::RowSummary;
use plimsoll_report::archive::ClockPair;
use plimsoll_report::exports::{RowHead, RowLatency, RowTarget, write_rows};

use crate::exit::Result;
use crate::output;
use crate::plan::rows::{ROWS_MAX, RowJob};

/// Rows of a load in progress.
pub(crate) struct RowSink {
    pub(crate) job: RowJob,
    clock: ClockPair,
    epoch_unix_ns: u64,
    targets: Vec<RowTarget>,
    rows: Vec<Row>,
    /// Rows that found no room, here or in a thread.
    dropped: u64,
}

impl RowSink {
    pub(crate) fn new(job: RowJob, plan: &LoadPlan, clock: ClockPair) -> Self {
        let targets = plan.targets.iter().map(RowTarget::of).collect();
        let epoch_unix_ns = clock.unix_ns;
        Self { job, clock, epoch_unix_ns, targets, rows: Vec::new(), dropped: 0 }
    }

    pub(crate) fn handle_event(&mut self, event: &Event) {
        match event {
            Event::LoadStarted { epoch, .. } => {
                self.epoch_unix_ns = self.clock.unix_ns_at(*epoch);
            }
            Event::Rows(batch) => {
                let room = (ROWS_MAX as usize).saturating_sub(self.rows.len());
                let kept = batch.rows.len().min(room);
                self.rows.extend_from_slice(&batch.rows[..kept]);
                self.dropped += batch.dropped + (batch.rows.len() - kept) as u64;
            }
            _ => {}
        }
    }

    pub(crate) fn summary(&self) -> RowSummary {
        RowSummary { written: self.rows.len() as u64, every: self.job.every, dropped: self.dropped }
    }

    /// Writes the file.
    pub(crate) fn finish(self) -> Result<()> {
        let head = RowHead {
            name: self.job.name,
            every: self.job.every,
            epoch_unix_ns: self.epoch_unix_ns,
            targets: self.targets,
            latency: RowLatency::Corrected,
        };
        let rows = self.rows;
        output::write("--rows", &self.job.place, |out| {
            write_rows(&head, self.job.format, rows, out)
        })
    }
}
