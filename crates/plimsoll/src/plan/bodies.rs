//! Request bodies, read once: small ones into the plan, large ones into memory that the agents share.
//!
//! [`Bodies`] collects the bodies of one plan. A body of up to 64 KiB is part of the plan; a larger one goes to a
//! [`BodyWriter`], and the target gets its offset and length. [`Bodies::settle`] moves the small ones there too if
//! they exceed 8 MiB together, closes the store and attaches it to the targets. One body has at most 1 GiB, all
//! together at most 4 GiB. A file that several targets name is read once. Start with [`Bodies::settle`].

use std::collections::HashMap;
use std::fs::File;
use std::io::{Error as IoError, ErrorKind, Read, Result as IoResult};
use std::path::{Path, PathBuf};

use plimsoll_fleet::bodies::BodyWriter;
use plimsoll_model::target::{BODY_BYTES_MAX, Body, Protocol, SMALL_BODY_BYTES_MAX, Target};
use plimsoll_model::units::grouped;
use plimsoll_probe::memory::HostMemory;
use plimsoll_proto::websocket;

use super::Inputs;
use crate::exit::Result;
use crate::flags::values::InputFile;

/// Small bodies that lie in the plan, all together; where there are more, they are shared, too.
const IN_PLAN_BYTES_MAX: usize = 8 << 20;

/// The bodies of one plan while it is made.
#[derive(Default)]
pub(super) struct Bodies {
    large: BodyWriter,
    /// Bodies from files, which several targets may name.
    files: HashMap<PathBuf, Body>,
}

impl Bodies {
    /// Reads the body that `flag` names.
    pub(super) fn named(
        &mut self,
        flag: &str,
        from: &InputFile,
        inputs: &mut Inputs,
    ) -> Result<Body> {
        let (body, name) = match from {
            InputFile::File(path) => (self.file(path), format!("{path:?}")),
            InputFile::Stdin => (self.read(inputs.stdin_for(flag)?), from.to_string()),
        };
        body.map_err(|error| usage!("{flag} cannot read {name}: {error}"; "{}", fix(&error)))
    }

    /// Returns the body in a file.
    pub(super) fn file(&mut self, path: &Path) -> IoResult<Body> {
        if let Some(known) = self.files.get(path) {
            return Ok(known.clone());
        }
        let mut file = File::open(path)?;
        check_memory(file.metadata()?.len(), HostMemory::read(Path::new("/proc")).available_bytes)?;
        let body = self.read(&mut file)?;
        self.files.insert(path.to_owned(), body.clone());
        Ok(body)
    }

    fn read(&mut self, from: &mut dyn Read) -> IoResult<Body> {
        let mut start = Vec::new();
        from.take(SMALL_BODY_BYTES_MAX as u64 + 1).read_to_end(&mut start)?;
        if start.len() <= SMALL_BODY_BYTES_MAX {
            return Ok(start.into());
        }
        self.place(&mut start.chain(from), self.large.room())
    }

    /// Stores a body, if the store has `room` bytes for it.
    fn place(&mut self, from: &mut dyn Read, room: u64) -> IoResult<Body> {
        let too_large = |what: &str| Err(IoError::new(ErrorKind::FileTooLarge, what.to_owned()));
        // One byte more shows that a body is too large.
        let (offset, bytes) = self.large.add(from, room.min(BODY_BYTES_MAX as u64) + 1)?;
        if bytes > BODY_BYTES_MAX {
            return too_large("it is larger than 1 GiB, the most that one body may have");
        }
        if bytes as u64 > room {
            return too_large(
                "all bodies together are larger than 4 GiB, the most that a load may have",
            );
        }
        Ok(Body::elsewhere(offset, bytes))
    }

    /// Gives the targets their bodies.
    pub(super) fn settle(mut self, targets: &mut [Target]) -> Result<()> {
        let cannot = |error: IoError| usage!("the request bodies cannot be shared: {error}"; "{}", fix(&error));
        let own = || targets.iter().filter(|target| target.body.is_own());
        let in_plan = own().map(|target| target.body.len()).fold(0, usize::saturating_add);
        let most = if in_plan > IN_PLAN_BYTES_MAX { 0 } else { SMALL_BODY_BYTES_MAX };
        for target in targets.iter_mut() {
            if target.body.is_own() && target.body.len() > most {
                let body = std::mem::take(&mut target.body);
                target.body = self.place(&mut &*body, self.large.room()).map_err(cannot)?;
            }
        }
        let store = self.large.finish().map_err(cannot)?;
        for target in targets {
            if !target.body.attach(store.as_ref()) {
                return Err(cannot(IoError::other("one is missing")));
            }
            if target.url.protocol == Protocol::WebSocket {
                check_message(target)?;
            }
        }
        Ok(())
    }
}

/// A file up to this number of bytes is copied into memory.
fn check_memory(bytes: u64, available: Option<u64>) -> IoResult<()> {
    match available.filter(|available| bytes > *available && bytes <= BODY_BYTES_MAX as u64) {
        None => Ok(()),
        Some(available) => Err(IoError::new(
            ErrorKind::OutOfMemory,
            format!(
                "it has {} bytes, and this host has {} bytes of memory available",
                grouped(bytes),
                grouped(available)
            ),
        )),
    }
}

/// The text or binary of a large message is decided once, and its frames are counted.
fn check_message(target: &mut Target) -> Result<()> {
    let Some(frames) = target.websocket.as_mut().filter(|_| target.body.is_large()) else {
        return Ok(());
    };
    frames.is_binary |= std::str::from_utf8(&target.body).is_err();
    let bytes = websocket::message_bytes(target.body.len() as u64, frames);
    refuse_if!(bytes > u64::from(u32::MAX);
        "the frames of the message have {bytes} bytes, more than 4 GiB";
        "give a larger --ws-fragment");
    Ok(())
}

fn fix(error: &IoError) -> &'static str {
    match error.kind() {
        ErrorKind::FileTooLarge => "give a smaller one",
        ErrorKind::OutOfMemory | ErrorKind::StorageFull => "free memory on this host",
        _ => "name a readable file",
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use plimsoll_model::plan::{LoadPlan, Pacing};

    use super::*;

    fn targets(count: usize) -> Vec<Target> {
        let address = "127.0.0.1:1".parse().unwrap();
        let pacing = Pacing::Closed { duration: None, ops_total: Some(1) };
        let plan = LoadPlan::plain(&[&[address]], pacing);
        vec![plan.targets[0].clone(); count]
    }

    #[test]
    fn a_body_of_up_to_one_gibibyte_is_shared_by_all_targets_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("largest");
        // A hole: nothing is written to the disk.
        File::create(&path).unwrap().set_len(BODY_BYTES_MAX as u64).unwrap();
        let mut targets = targets(2);
        let mut bodies = Bodies::default();
        for target in &mut targets {
            target.body = bodies.file(&path).unwrap();
        }
        bodies.settle(&mut targets).unwrap();
        // The file may change from now on.
        File::create(&path).unwrap();
        assert_eq!(targets[1].body.len(), BODY_BYTES_MAX);
        assert_eq!(targets[0].body.last(), Some(&0));
        assert_eq!(targets[0].body.store().unwrap().bytes().len(), BODY_BYTES_MAX);
        File::create(&path).unwrap().set_len(BODY_BYTES_MAX as u64 + 1).unwrap();
        let refused = Bodies::default().file(&path).unwrap_err();
        assert_eq!(refused.to_string(), "it is larger than 1 GiB, the most that one body may have");
    }

    #[test]
    fn bodies_may_fill_the_room_to_its_last_byte() {
        let mut bodies = Bodies::default();
        assert_eq!(bodies.place(&mut &b"ten bytes."[..], 10).unwrap().len(), 10);
        let refused = bodies.place(&mut &b"eleven byte"[..], 10).unwrap_err();
        let expected = "all bodies together are larger than 4 GiB, the most that a load may have";
        assert_eq!(refused.to_string(), expected);
        assert!(bodies.place(&mut &b"x"[..], 0).is_err());
    }

    #[test]
    fn a_body_fits_into_the_memory_that_is_available() {
        assert!(check_memory(1 << 20, Some(1 << 20)).is_ok());
        assert!(check_memory(1 << 20, None).is_ok());
        let refused = check_memory(1 << 20, Some((1 << 20) - 1)).unwrap_err();
        assert_eq!(fix(&refused), "free memory on this host");
        // Too large anyway, which is what is said.
        assert!(check_memory(u64::MAX, Some(1)).is_ok());
    }

    #[test]
    fn small_bodies_lie_in_the_plan_unless_there_are_many() {
        for (count, is_own) in [(100, true), (1_000, false)] {
            let mut targets = targets(count);
            for (at, target) in targets.iter_mut().enumerate() {
                target.body = vec![at as u8; 10_000].into();
            }
            Bodies::default().settle(&mut targets).unwrap();
            for (at, target) in targets.iter().enumerate() {
                assert_eq!(target.body.is_own(), is_own);
                assert_eq!(*target.body, [at as u8; 10_000]);
            }
        }
        let read = |bytes| Bodies::default().read(&mut io::repeat(b'x').take(bytes)).unwrap();
        assert!(read(SMALL_BODY_BYTES_MAX as u64).is_own());
        assert!(!read(SMALL_BODY_BYTES_MAX as u64 + 1).is_own());
    }
}
