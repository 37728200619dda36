//! The thread that reads an agent's output.
//!
//! [`Reader::read_opening`] handles the words of another host's script, which may request a copy of this program,
//! until frames begin. [`Reader::read_frames`] then notes the time of each frame. [`HostReader`] takes the pongs and
//! readings of another host; any other payload goes to the coordinator without being decoded. [`Room`] bounds the
//! payloads that wait, and so slows down an agent that sends too fast. Start reading at [`Reader::read_frames`].

use std::env;
use std::io::Read;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use plimsoll_model::Nanos;
use plimsoll_model::host::Reading;
use plimsoll_sys::clock;
use plimsoll_sys::thread::lock;
use serde::Deserialize;

use super::{Ending, Readings, Received, Step};
use crate::frame;
use crate::hosts::clock::HostClock;
use crate::hosts::{Preamble, Program, Word};
use crate::inbox::Room;

/// The thread that reads an agent's output.
pub(super) struct Reader<R> {
    pub(super) id: u64,
    pub(super) stdout: R,
    pub(super) last_frame_ns: Arc<AtomicU64>,
    /// `None` on this host.
    pub(super) host: Option<HostReader>,
    pub(super) events: Sender<(u64, Received)>,
}

/// The messages of an agent that the link handles as they arrive, whatever the coordinator waits for; see
/// [`FromAgent`](crate::message::FromAgent).
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ForLink {
    Pong { sent: Nanos, arrived: Nanos, answered: Nanos },
    Reading(Box<Reading>),
}

/// Takes the pongs and readings that another host sends.
pub(super) struct HostReader {
    pub(super) name: String,
    pub(super) clock: Arc<Mutex<HostClock>>,
    pub(super) readings: Readings,
}

impl HostReader {
    /// Takes what comes whatever the agent does; `false` where it is for the coordinator.
    fn handle(&self, payload: &[u8], at: Nanos) -> bool {
        match frame::decode(payload) {
            Ok(ForLink::Pong { sent, arrived, answered }) => {
                lock(&self.clock).add(sent, (arrived, answered), at);
                true
            }
            Ok(ForLink::Reading(reading)) => {
                self.take(*reading);
                true
            }
            // Decoding has ended at the name of the message.
            Err(_) => false,
        }
    }

    /// Hands a reading on; one that comes before the clocks were compared belongs to no time here.
    fn take(&self, mut reading: Reading) {
        let (Some(sink), Some(clock)) = (self.readings.get(), lock(&self.clock).best()) else {
            return;
        };
        (reading.begin, reading.end) = (clock.here(reading.begin), clock.here(reading.end));
        // Receivers of readings rely on the order.
        reading.sort();
        (sink.0)(&self.name, reading);
    }
}

impl<R: Read> Reader<R> {
    /// Passes an item on; returns `false` if the receiver is gone.
    pub(super) fn report(&self, received: Received) -> bool {
        self.events.send((self.id, received)).is_ok()
    }

    /// Reads the output before the frames; returns `false` if no frames will come.
    pub(super) fn read_opening(
        &mut self,
        nonce: &str,
        program: &Program,
        steps: &Sender<Step>,
    ) -> bool {
        let mut preamble = Preamble::new(nonce);
        let ending = loop {
            let step = match preamble.next_word(&mut self.stdout) {
                Ok(Some(Word::Agent)) => Step::Frames,
                Ok(Some(Word::Want(machine))) if machine == env::consts::ARCH => {
                    match program.open() {
                        Ok(file) => {
                            self.report(Received::Copying);
                            Step::Program(file)
                        }
                        Err(error) => {
                            break Some(Ending::Refused(format!(
                                "needs a copy of plimsoll, which cannot be read here: {error}"
                            )));
                        }
                    }
                }
                Ok(Some(Word::Want(machine))) => {
                    break Some(Ending::Refused(format!(
                        "is a machine of type {machine}, and this plimsoll is made for {}: put \
                         plimsoll for {machine} there and name it with --remote-path",
                        env::consts::ARCH
                    )));
                }
                Ok(Some(Word::Fail(why))) => {
                    break Some(Ending::Refused(format!("cannot start plimsoll: {why}")));
                }
                Ok(None) => break Some(Ending::Closed),
                Err(error) => break Some(Ending::Frame(error.into())),
            };
            let is_last = matches!(step, Step::Frames);
            if steps.send(step).is_err() {
                break Some(Ending::Closed);
            }
            if is_last {
                break None;
            }
        };
        if let Some(noise) = preamble.noise() {
            self.report(Received::Noise(noise));
        }
        let Some(ending) = ending else {
            self.last_frame_ns.store(clock::monotonic_ns(), Ordering::Relaxed);
            return true;
        };
        self.report(Received::Closed(ending));
        false
    }

    pub(super) fn read_frames(mut self) {
        let room = Room::default();
        loop {
            let read = frame::read_payload(&mut self.stdout, frame::AGENT_FRAME_BYTES_MAX);
            let at = Nanos(clock::monotonic_ns());
            let alive = || self.last_frame_ns.store(clock::monotonic_ns(), Ordering::Relaxed);
            alive();
            let received = match read {
                Ok(Some(payload)) => match &self.host {
                    Some(host) if host.handle(&payload, at) => continue,
                    _ => Received::Payload(room.admit(payload, at, alive)),
                },
                Ok(None) => Received::Closed(Ending::Closed),
                Err(error) => Received::Closed(Ending::Frame(error)),
            };
            let is_last = matches!(received, Received::Closed(_));
            if !self.report(received) || is_last {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::event::LoadEvent;
    use plimsoll_model::tally::{Interval, Tally};

    use super::*;
    use crate::message::FromAgent;

    #[test]
    fn the_link_handles_pongs_and_readings() {
        let is_for_link = |message: FromAgent| {
            let frame = frame::encode(&message).expect("small");
            frame::decode::<ForLink>(&frame[4..]).is_ok()
        };
        let interval = Interval { second: 0, tally: Tally::default() };
        let (sent, arrived, answered) = (Nanos(1), Nanos(2), Nanos(3));
        assert!(is_for_link(FromAgent::Pong { sent, arrived, answered }));
        assert!(is_for_link(FromAgent::Reading(Box::default())));
        assert!(!is_for_link(FromAgent::PartLost));
        assert!(!is_for_link(FromAgent::Note("pong".to_owned())));
        assert!(!is_for_link(FromAgent::Load(LoadEvent::Interval(Box::new(interval)))));
    }
}
