//! The document of the running run, and its changes, for the viewers of the page.
//!
//! [`Document::handle`] applies each message to three [`ViewBuilder`]s, with columns of 1, 10 and 100 s, and stores
//! the patches of the first one in [`Records`]. Once its 3,600 columns are full, the next coarser one takes its place
//! and viewers fetch the document again. [`Document::fetch`] returns the document with the number of its last change,
//! from which a viewer continues. Start reading at [`Document::change`].

use std::collections::VecDeque;
use std::io;
use std::io::Write;
use std::sync::mpsc::SyncSender;

use flate2::Compression;
use flate2::write::GzEncoder;
use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use tokio::sync::watch;

use super::feed::Message;
use super::records::Records;
use super::shared::{RunHead, Shared};
use crate::page;
use crate::view::{Head, Patch, View, ViewBuilder};

/// Question that is asked if a viewer may be on this host: only the user can answer it.
const LOCAL_VIEWER: &str = "does the browser with this page run on this machine? It would take CPU from what is \
                            measured (one that comes through ssh -L looks the same)";

/// The page of a run that has not begun: it asks again.
const EMPTY: &str = "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\">\
                     <meta http-equiv=\"refresh\" content=\"1\"><title>plimsoll</title>\
                     <p>The run has not begun yet.</p></html>";

/// Seconds of one column. A document that is full is followed by one with wider columns: an hour, ten hours and a
/// hundred hours fit.
const COLUMNS_S: [u32; 3] = [1, 10, 100];

/// The document and its changes.
#[derive(Debug)]
pub(super) struct Document {
    /// The one that is shown, and coarser ones, which know the whole run when it is full.
    views: VecDeque<ViewBuilder>,
    pub(super) records: Records,
    /// The last that was known, on CLOCK_MONOTONIC.
    at: Nanos,
    notes: SyncSender<String>,
    has_asked: bool,
    /// Says that there is something new: how often that was.
    changed: watch::Sender<u64>,
    /// Number of fetches of the page or its document after the end.
    fetched_at_end: watch::Sender<u32>,
}

impl Document {
    pub(super) fn new(notes: SyncSender<String>) -> Self {
        Self {
            views: VecDeque::new(),
            records: Records::default(),
            at: Nanos::ZERO,
            notes,
            has_asked: false,
            changed: watch::Sender::new(0),
            fetched_at_end: watch::Sender::new(0),
        }
    }

    pub(super) fn handle(&mut self, message: &Message) {
        self.at = self.at.max(message.at().unwrap_or_default());
        match message {
            Message::Begin(head) => self.begin(head),
            Message::Event(event, _) => self.change(|view| view.handle_event(event)),
            Message::Reading(host, reading) => {
                self.change(|view| view.handle_reading(host, reading));
            }
            Message::End(summary) => self.change(|view| view.finish(summary)),
            Message::Missed(count) => {
                let note = Event::Note(format!(
                    "{count} records are missing on this page: it did not get the CPU to take them"
                ));
                self.change(|view| view.handle_event(&note));
            }
        }
    }

    /// Begins the document of a run, or of its next search; viewers fetch it.
    fn begin(&mut self, head: &RunHead) {
        if !self.views.is_empty() {
            self.records.restart();
        }
        let manifest = &head.manifest;
        let view = |column_s: u32| {
            let version = manifest.plimsoll_version.clone();
            ViewBuilder::new(head.run.clone(), version, Head::of(manifest), column_s)
        };
        self.views = COLUMNS_S.into_iter().map(view).collect();
        self.tell();
    }

    fn change(&mut self, make: impl Fn(&mut ViewBuilder) -> Vec<Patch>) {
        let mut views = self.views.iter_mut();
        let Some(shown) = views.next() else { return };
        let patches = make(shown);
        let is_full = shown.is_full;
        let coarser = views.map(&make).count();
        if is_full && coarser > 0 {
            self.views.pop_front();
            self.records.restart();
        } else {
            for patch in patches {
                // A patch has no key that is not a text.
                let Ok(json) = serde_json::to_string(&patch) else { continue };
                self.records.push(self.at, patch.kind(), json);
            }
        }
        self.tell();
    }

    /// Records that the run has ended.
    pub(super) fn close(&mut self) {
        self.records.is_over = true;
        self.tell();
    }

    /// Wakes viewers.
    fn tell(&self) {
        self.changed.send_modify(|times| *times += 1);
    }

    /// Returns the page as it is now.
    pub(super) fn page(&self) -> String {
        self.see_fetch();
        self.view().map_or_else(|| EMPTY.to_owned(), |view| page::render_live(&view))
    }

    /// Returns the document as JSON, compressed; `None` before a run begins.
    pub(super) fn fetch(&self) -> Option<io::Result<Vec<u8>>> {
        let view = self.view()?;
        self.see_fetch();
        // 1 MB after half an hour: the fastest level makes a third of it.
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        let written = serde_json::to_writer(&mut gzip, &view).map_err(io::Error::from);
        Some(written.and_then(|()| gzip.flush()).and_then(|()| gzip.finish()))
    }

    fn see_fetch(&self) {
        if self.records.is_over {
            self.fetched_at_end.send_modify(|times| *times += 1);
        }
    }

    fn view(&self) -> Option<View> {
        let mut view = self.views.front()?.view();
        view.seq = self.records.seq;
        Some(view)
    }

    /// Asks once whether a viewer from here takes CPU.
    pub(super) fn see_local_viewer(&mut self) {
        if !std::mem::replace(&mut self.has_asked, true) {
            let _ = self.notes.try_send(LOCAL_VIEWER.to_owned());
        }
    }
}

impl Shared<Document> {
    /// Returns a channel that reports every change from now on.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.lock().changed.subscribe()
    }

    /// Waits until the last page and its document were fetched `times` times.
    pub(super) async fn fetched_at_end(&self, times: u32) {
        let mut fetched = self.lock().fetched_at_end.subscribe();
        let _ = fetched.wait_for(|fetched| *fetched >= times).await;
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::tally::Interval;

    use super::*;
    use crate::fixtures;
    use crate::live::records::Next;

    #[test]
    fn a_page_that_is_opened_after_an_hour_begins_where_the_run_began() {
        let (notes, _told) = std::sync::mpsc::sync_channel(1);
        let mut document = Document::new(notes);
        let manifest = fixtures::manifest(false);
        let head = RunHead { run: "load-1".to_owned(), manifest, deadline: None };
        document.handle(&Message::Begin(Box::new(head)));
        let at = |document: &mut Document, second: u32, event| {
            let at = Nanos::from_secs(u64::from(second));
            document.handle(&Message::Event(Box::new(event), at));
        };
        at(&mut document, 0, Event::LoadStarted { trial: None, planned: None, epoch: Nanos::ZERO });
        let run = |document: &mut Document, seconds: std::ops::Range<u32>| {
            for second in seconds {
                let tally = fixtures::tally(10, 1_000, 1);
                at(document, second, Event::Interval(Box::new(Interval { second, tally })));
            }
        };
        let shown = |document: &Document| {
            let view = document.view().expect("it has begun");
            let ends = view.seconds["t"].as_array().expect("a list").clone();
            let first = ends.first().and_then(serde_json::Value::as_f64);
            (view.column_s, ends.len(), first, view.notes.len())
        };
        run(&mut document, 0..3_600);
        assert_eq!(shown(&document), (1.0, 3_599, Some(1.0), 0));
        let seen = document.records.seq;
        run(&mut document, 3_600..3_700);
        assert_eq!(shown(&document), (10.0, 369, Some(10.0), 0));
        // A viewer with the document of seconds fetches the next one, which has columns of ten seconds.
        assert_eq!(document.records.after(seen), Next::Reset);
        assert!(matches!(document.records.after(document.records.seq - 1), Next::Record(_)));
    }
}
