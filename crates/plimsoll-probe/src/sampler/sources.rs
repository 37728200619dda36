//! The sources of a sampler from one reading to the next: which processes have ended and how, and since when a
//! source is missing.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_model::Nanos;
use plimsoll_model::host::{EndStatus, Reading, Role, Source, SourceKind, SourceState};
use plimsoll_sys::process_handle::ProcessHandle;

use super::scope::WatchedProcess;
use crate::processes::end_status;

/// The time since when each missing source is missing.
#[derive(Debug, Default)]
pub(super) struct Outages(BTreeMap<(SourceKind, String), Nanos>);

impl Outages {
    /// Adds a source to `reading`; `missing` is the reason why it could not be read.
    pub(super) fn add(
        &mut self,
        kind: SourceKind,
        name: &str,
        missing: Option<String>,
        reading: &mut Reading,
    ) {
        let key = (kind, name.to_owned());
        let state = match missing {
            None => {
                self.0.remove(&key);
                SourceState::Reading
            }
            Some(reason) => {
                let since = *self.0.entry(key).or_insert(reading.begin);
                SourceState::Missing { since, reason }
            }
        };
        reading.add_source(Source { kind, name: name.to_owned(), pid: None, state });
    }
}

/// A process that is read until it ends.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) watched: WatchedProcess,
    /// `None` if the process had ended already, or below another root than `/`.
    handle: Option<ProcessHandle>,
    /// Time at which its end was noticed, and its status.
    ended: Option<(Nanos, EndStatus)>,
}

impl Followed {
    fn new(root: &Path, watched: WatchedProcess) -> Self {
        let is_real = root == Path::new("/");
        let handle = is_real.then(|| ProcessHandle::open(watched.pid).ok()).flatten();
        Self { watched, handle, ended: None }
    }

    /// Returns the processes to follow once `wanted` are; those that are followed already stay open.
    pub(super) fn all(root: &Path, wanted: &[WatchedProcess], known: Vec<Self>) -> Vec<Self> {
        let mut known: BTreeMap<u32, Self> =
            known.into_iter().map(|one| (one.watched.pid, one)).collect();
        let follow = |watched: &WatchedProcess| match known.remove(&watched.pid) {
            // The kernel has forgotten the name of one that has ended.
            Some(followed) if followed.ended.is_some() => followed,
            Some(followed) => Self { watched: watched.clone(), ..followed },
            None => Self::new(root, watched.clone()),
        };
        wanted.iter().map(follow).collect()
    }

    /// Adds the process to the sources of `reading`, unless it is one of our own clients. Returns `true` if it runs.
    pub(super) fn add_to(&mut self, root: &Path, reading: &mut Reading) -> bool {
        let pid = self.watched.pid;
        if self.ended.is_none() {
            let end = match &self.handle {
                Some(handle) => handle.ended(),
                None => (!root.join("proc").join(pid.to_string()).exists()).then_some(None),
            };
            self.ended = end.map(|status| (reading.begin, end_status(status)));
        }
        let state = match self.ended {
            None => SourceState::Reading,
            Some((since, status)) => SourceState::Ended { since, status },
        };
        let name = self.watched.name.clone();
        let source = Source { kind: SourceKind::Process, name, pid: Some(pid), state };
        let is_up = source.is_up();
        if self.watched.role != Role::Client {
            reading.add_source(source);
        }
        is_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Reading {
        Reading { begin: Nanos::from_secs(second), ..Reading::default() }
    }

    #[test]
    fn a_source_is_missing_since_the_first_reading_without_it() {
        let mut outages = Outages::default();
        let mut state = |second, missing: Option<&str>| {
            let mut reading = at(second);
            outages.add(SourceKind::Nginx, "nginx:x", missing.map(str::to_owned), &mut reading);
            reading.sources.remove(0).since()
        };
        assert_eq!(state(1, None), None);
        assert_eq!(state(2, Some("refused")), Some(Nanos::from_secs(2)));
        assert_eq!(state(3, Some("timeout")), Some(Nanos::from_secs(2)));
        assert_eq!(state(4, None), None);
        assert_eq!(state(5, Some("refused")), Some(Nanos::from_secs(5)));
    }
}
