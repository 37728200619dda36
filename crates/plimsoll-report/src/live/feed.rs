//! The bounded queue from the thread of the run to the thread that publishes. The run never waits for it.

use std::cell::Cell;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::host::Reading;
use plimsoll_model::summary::Summary;
use tokio::sync::mpsc;

use super::shared::RunHead;

/// Messages that may wait: more than a minute of a run with four hosts.
const MESSAGES_MAX: usize = 512;
/// Notes that may wait.
const NOTES_MAX: usize = 16;

/// A message to the publishing thread.
#[derive(Debug)]
pub(super) enum Message {
    Begin(Box<RunHead>),
    /// An event and its time on CLOCK_MONOTONIC.
    Event(Box<Event>, Nanos),
    Reading(String, Box<Reading>),
    /// Number of messages that found the queue full.
    Missed(u64),
    /// Summary of the run that began last, which has ended.
    End(Box<Summary>),
}

impl Message {
    /// Returns the time of the event on CLOCK_MONOTONIC.
    pub(super) fn at(&self) -> Option<Nanos> {
        match self {
            Self::Event(_, at) => Some(*at),
            Self::Reading(_, reading) => Some(reading.end),
            Self::Begin(_) | Self::Missed(_) | Self::End(_) => None,
        }
    }
}

/// The end of the queue that the run has.
#[derive(Debug)]
pub struct Feed {
    messages: mpsc::Sender<Message>,
    notes: Receiver<String>,
    missed: Cell<u64>,
}

/// The end of the queue that is published from.
pub struct Inbox {
    pub(super) messages: mpsc::Receiver<Message>,
    pub(super) notes: SyncSender<String>,
}

/// Creates both ends of a feed.
pub fn feed() -> (Feed, Inbox) {
    let (send, receive) = mpsc::channel(MESSAGES_MAX);
    let (note, notes) = sync_channel(NOTES_MAX);
    (Feed { messages: send, notes, missed: Cell::new(0) }, Inbox { messages: receive, notes: note })
}

impl Feed {
    /// Publishes the start of a run.
    pub fn begin(&self, head: RunHead) {
        self.send_first(Message::Begin(Box::new(head)));
    }

    /// Publishes an event that happened `at` an instant of CLOCK_MONOTONIC.
    pub fn handle_event(&self, event: &Event, at: Nanos) {
        // Rows of single operations are for a file.
        if !matches!(event, Event::Rows(_)) {
            self.send(|| Message::Event(Box::new(event.clone()), at));
        }
    }

    /// Publishes a reading of a host.
    pub fn handle_reading(&self, host: &str, reading: &Reading) {
        self.send(|| Message::Reading(host.to_owned(), Box::new(reading.clone())));
    }

    /// Publishes the end of the run that began last.
    pub fn end(&self, summary: &Summary) {
        self.send_first(Message::End(Box::new(summary.clone())));
    }

    /// Ends the feed; the receiver yields the remaining notes.
    pub fn close(self) -> Receiver<String> {
        self.notes
    }

    /// Returns the next note for the user: a new viewer, or metrics that cannot be sent.
    pub fn note(&self) -> Option<String> {
        self.notes.try_recv().ok()
    }

    /// Sends without waiting. What finds no room is not published.
    fn send(&self, message: impl FnOnce() -> Message) {
        let Ok(room) = self.messages.try_reserve() else {
            self.missed.set(self.missed.get() + 1);
            return;
        };
        room.send(message());
        // This needs another place, and may as well be said later.
        let missed = self.missed.get();
        if missed > 0 && self.messages.try_send(Message::Missed(missed)).is_ok() {
            self.missed.set(0);
        }
    }

    /// Sends what nothing else makes sense without. No load runs now, so the thread gets its CPU.
    fn send_first(&self, message: Message) {
        // Sending fails only after the publishing thread has ended.
        let _ = self.messages.blocking_send(message);
    }
}
