//! The file that names the hosts of a hold: hosts that are added to it while the hold runs, join it.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use plimsoll_fleet::coordinator::{Newcomers, SurveyedHost};
use plimsoll_fleet::hosts::{HostName, LoadHost, LoadHosts};
use plimsoll_fleet::message::HostPart;
use plimsoll_model::plan::LoadPlan;

use crate::hosts::is_alone;
use crate::plan::hosts::of_file;
use crate::plan::inputs::read_bounded;
use crate::plan::load::LoadJob;
use crate::survey;

/// The file, read again whenever it has changed.
pub(crate) struct HostFile<'a> {
    hosts: &'a LoadHosts,
    path: &'a Path,
    plan: &'a LoadPlan,
    /// Threads of a host for which the file names none.
    threads: Option<u32>,
    /// Modification time of the text that was read last.
    written: Cell<Option<SystemTime>>,
}

impl<'a> HostFile<'a> {
    /// Creates the watch of the file that names the hosts; returns `None` if no file does.
    pub(crate) fn of(job: &'a LoadJob) -> Option<Self> {
        let hosts = job.hosts.as_ref()?;
        let path = hosts.file.as_deref()?;
        let (plan, threads) = (&job.plan, job.threads_each);
        Some(Self { hosts, path, plan, threads, written: Cell::new(None) })
    }
}

impl Newcomers for HostFile<'_> {
    fn poll(&self, known: &[HostName]) -> Result<Option<LoadHosts>, String> {
        // An editor may be about to replace it.
        let Ok(written) = fs::metadata(self.path).and_then(|file| file.modified()) else {
            return Ok(None);
        };
        if self.written.replace(Some(written)) == Some(written) {
            return Ok(None);
        }
        let name = self.path.display();
        let text = read_bounded(self.path).map_err(|error| format!("{name}: {error}"))?;
        let named = of_file(&text).map_err(|why| format!("{name}{why}"))?;
        let is_new = |host: &LoadHost| !known.iter().any(|other| other.is_same_place(&host.name));
        let mut hosts: Vec<_> = named.into_iter().filter(is_new).collect();
        for host in &mut hosts {
            host.threads = host.threads.or(self.threads);
        }
        let (launcher, path) = (self.hosts.launcher.clone(), self.hosts.path.clone());
        let file = Some(PathBuf::from(self.path));
        Ok((!hosts.is_empty()).then_some(LoadHosts { hosts, launcher, path, file }))
    }

    fn part(&self, threads: u32, all: u64) -> HostPart {
        survey::part(self.plan, threads, all, is_alone(self.hosts))
    }

    fn lacks(&self, host: &SurveyedHost) -> Option<String> {
        survey::lacks(host)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::tests::hold_job;

    #[test]
    fn only_hosts_that_are_new_in_a_changed_file_join() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("hosts");
        fs::write(&path, "a\nb threads=3\n").expect("written");
        let named = format!("@{}", path.display());
        let job = hold_job(&["http://192.0.2.1/", "-c", "100", "--hosts", &named]).load;
        let file = HostFile::of(&job).expect("a file names them");
        let mut known: Vec<HostName> = Vec::new();
        let mut poll = |text: Option<(&str, u64)>| {
            if let Some((text, at)) = text {
                fs::write(&path, text).expect("written");
                let written = SystemTime::UNIX_EPOCH + Duration::from_secs(at);
                fs::File::open(&path).and_then(|file| file.set_modified(written)).expect("set");
            }
            let hosts = file.poll(&known)?.map_or(Vec::new(), |hosts| hosts.hosts);
            known.extend(hosts.iter().map(|host| host.name.clone()));
            Ok::<_, String>(
                hosts
                    .iter()
                    .map(|host| format!("{} {:?}", host.name, host.threads))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(poll(None), Ok(vec!["a None".to_owned(), "b Some(3)".to_owned()]));
        assert_eq!(poll(None), Ok(Vec::new()));
        // Hosts that were removed stay, and an unreadable list changes nothing until it is written again.
        assert_eq!(
            poll(Some(("b\nc[1-2]\n", 1_000))),
            Ok(vec!["c1 None".to_owned(), "c2 None".to_owned()])
        );
        assert!(poll(Some(("b\nc[1-\n", 2_000))).is_err_and(|why| why.contains(", line 2: ")));
        assert_eq!(poll(None), Ok(Vec::new()));
        assert_eq!(poll(Some(("d threads=2\n", 3_000))), Ok(vec!["d Some(2)".to_owned()]));
        assert!(
            HostFile::of(&hold_job(&["http://192.0.2.1/", "-c", "9", "--hosts", "a"]).load)
                .is_none()
        );
    }
}
