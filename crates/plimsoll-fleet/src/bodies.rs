//! Large bodies of plans: written once into memory that all processes of a host share, and sent to other hosts
//! beside the plan.

use std::collections::BTreeMap;
use std::io;
use std::io::Read;
use std::sync::Arc;

use plimsoll_model::target::BodyStore;
use plimsoll_sys::shared_memory::{SharedMemory, Writer};

use crate::message::BodiesFrom;

/// Most bytes of all large bodies of one plan together.
pub const BODIES_BYTES_MAX: u64 = 4 << 30;

/// The name of the memory in `ls -l /proc/PID/fd`.
const NAME: &str = "plimsoll-bodies";

/// Large bodies that are being collected.
#[derive(Debug, Default)]
pub struct BodyWriter(Option<Writer>);

/// A body that was collected: where it begins, and its length.
pub type Collected = (usize, usize);

impl BodyWriter {
    /// Adds what is left in `from`, at most `most` bytes of it.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or the host has no memory for it.
    pub fn add(&mut self, from: &mut dyn Read, most: u64) -> io::Result<Collected> {
        let writer = match &mut self.0 {
            Some(writer) => writer,
            None => self.0.insert(Writer::new(NAME)?),
        };
        let offset = writer.len();
        let bytes = writer.append_from(from, most)?;
        Ok((offset as usize, bytes as usize))
    }

    /// Returns the room that is left for further bodies.
    pub fn room(&self) -> u64 {
        BODIES_BYTES_MAX.saturating_sub(self.0.as_ref().map_or(0, Writer::len))
    }

    /// Returns the store of all bodies; `None` if there are none.
    pub fn finish(self) -> io::Result<Option<Arc<dyn BodyStore>>> {
        self.0.map(|writer| Ok(Arc::new(Bodies(writer.seal()?)) as Arc<dyn BodyStore>)).transpose()
    }
}

#[derive(Debug)]
struct Bodies(SharedMemory);

impl BodyStore for Bodies {
    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    fn path(&self) -> String {
        self.0.path()
    }
}

/// The stores that one agent was sent, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct SentBodies(Vec<Arc<dyn BodyStore>>);

impl SentBodies {
    /// Returns the number of a store, and whether it was sent before.
    pub(crate) fn number(&mut self, store: &Arc<dyn BodyStore>) -> (u32, bool) {
        match self.0.iter().position(|sent| Arc::ptr_eq(sent, store)) {
            Some(place) => (place as u32, true),
            None => {
                self.0.push(Arc::clone(store));
                (self.0.len() as u32 - 1, false)
            }
        }
    }
}

/// The stores that an agent has received.
#[derive(Debug, Default)]
pub(crate) struct ReceivedBodies {
    /// The sender is on another host, and names no file of this one.
    is_remote: bool,
    known: BTreeMap<u32, Arc<dyn BodyStore>>,
    /// The one that comes in parts, and how many bytes of it are still to come.
    incoming: Option<(u32, Writer, u64)>,
    /// The parts that come are of no use, as was reported.
    is_given_up: bool,
}

impl ReceivedBodies {
    /// Creates an empty set of received bodies; `is_remote` if the sender is on another host.
    pub(crate) fn new(is_remote: bool) -> Self {
        Self { is_remote, ..Self::default() }
    }

    /// Returns the store that the next plan uses; `None` if it is still to come in parts.
    pub(crate) fn open(
        &mut self,
        number: u32,
        bytes: u64,
        from: BodiesFrom,
    ) -> io::Result<Option<Arc<dyn BodyStore>>> {
        (self.incoming, self.is_given_up) = (None, from == BodiesFrom::Parts);
        match from {
            BodiesFrom::Earlier => match self.known.get(&number) {
                Some(store) => Ok(Some(Arc::clone(store))),
                None => Err(io::Error::other("the bodies of an earlier plan are not here")),
            },
            BodiesFrom::Path(_) if self.is_remote => {
                Err(io::Error::other("another host cannot name a file of this one"))
            }
            BodiesFrom::Path(path) => {
                let memory = SharedMemory::open(&path)?;
                if memory.bytes().len() as u64 != bytes {
                    return Err(io::Error::other(format!("{path} has another length")));
                }
                Ok(Some(self.keep(number, memory)))
            }
            BodiesFrom::Parts if bytes > BODIES_BYTES_MAX => {
                Err(io::Error::other("the bodies are too large"))
            }
            BodiesFrom::Parts => {
                self.incoming = Some((number, Writer::new(NAME)?, bytes));
                self.is_given_up = false;
                Ok(None)
            }
        }
    }

    /// Takes a part; returns the store when it is complete.
    pub(crate) fn add(&mut self, part: &[u8]) -> io::Result<Option<Arc<dyn BodyStore>>> {
        if self.is_given_up {
            return Ok(None);
        }
        self.is_given_up = true;
        let Some((number, mut writer, left)) = self.incoming.take() else {
            return Err(io::Error::other("a part of bodies comes without them"));
        };
        let Some(left) = left.checked_sub(part.len() as u64) else {
            return Err(io::Error::other("more parts of bodies come than were announced"));
        };
        writer.append(part)?;
        self.is_given_up = false;
        if left > 0 {
            self.incoming = Some((number, writer, left));
            return Ok(None);
        }
        let memory = writer.seal()?;
        Ok(Some(self.keep(number, memory)))
    }

    fn keep(&mut self, number: u32, memory: SharedMemory) -> Arc<dyn BodyStore> {
        let store: Arc<dyn BodyStore> = Arc::new(Bodies(memory));
        self.known.insert(number, Arc::clone(&store));
        store
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(text: &str) -> Arc<dyn BodyStore> {
        let mut writer = BodyWriter::default();
        assert_eq!(writer.add(&mut text.as_bytes(), 1000).unwrap(), (0, text.len()));
        assert_eq!(writer.add(&mut io::repeat(b'x'), 3).unwrap(), (text.len(), 3));
        writer.finish().unwrap().unwrap()
    }

    #[test]
    fn bodies_come_by_path_and_by_parts() {
        let sent = store("bodies ");
        let mut numbers = SentBodies::default();
        assert_eq!(numbers.number(&sent), (0, false));
        assert_eq!(numbers.number(&store("others ")), (1, false));
        assert_eq!(numbers.number(&sent), (0, true));
        let mut received = ReceivedBodies::default();
        let opened = received.open(0, 10, BodiesFrom::Path(sent.path())).unwrap().unwrap();
        assert_eq!(opened.bytes(), b"bodies xxx");
        assert!(received.open(1, 5, BodiesFrom::Parts).unwrap().is_none());
        assert!(received.add(b"par").unwrap().is_none());
        assert_eq!(received.add(b"ts").unwrap().unwrap().bytes(), b"parts");
        let again = received.open(0, 10, BodiesFrom::Earlier).unwrap().unwrap();
        assert!(Arc::ptr_eq(&again, &opened));
        assert!(BodyWriter::default().finish().unwrap().is_none());
    }

    #[test]
    fn wrong_bodies_are_refused() {
        let mut received = ReceivedBodies::default();
        assert!(received.open(0, 10, BodiesFrom::Earlier).is_err());
        assert!(received.open(0, 11, BodiesFrom::Path(store("bodies ").path())).is_err());
        assert!(received.open(0, 10, BodiesFrom::Path("/proc/self/exe".into())).is_err());
        let sent = store("bodies ");
        let path = BodiesFrom::Path(sent.path());
        assert!(ReceivedBodies::new(true).open(0, 10, path.clone()).is_err());
        assert!(received.open(0, 10, path).is_ok());
        assert!(received.open(0, BODIES_BYTES_MAX + 1, BodiesFrom::Parts).is_err());
        assert!(received.add(b"x").unwrap().is_none());
        assert!(received.open(0, 2, BodiesFrom::Parts).unwrap().is_none());
        assert!(received.add(b"abc").is_err());
        // It was reported once.
        assert!(received.add(b"abc").unwrap().is_none());
    }
}
