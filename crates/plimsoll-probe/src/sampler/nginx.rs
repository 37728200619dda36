//! The connections of an nginx worker against worker_connections. nginx reports neither: its stub_status page has only
//! the sum over all workers, and what they close to stay below the limit is not counted anywhere.

use std::fs;
use std::path::Path;

use crate::{file, nginx_configuration};

/// Default of nginx.
const DEFAULT: u64 = 512;
/// Descriptors of a process from which on the ones that are no connections are not counted; they are few.
const LISTED_MAX: u64 = 256;

/// Returns the open connections of process `pid` and their limit; `None` if it is no nginx worker. `open` is the number
/// of its descriptors.
pub fn connections(root: &Path, pid: u32, open: Option<u64>) -> Option<(u64, u64)> {
    if !file::command_line(root, pid).starts_with("nginx: worker process") {
        return None;
    }
    let used = open_sockets(&root.join("proc").join(pid.to_string()), open?)?;
    Some((used, limit(&nginx_configuration::of_worker(root, pid)?)))
}

/// Sockets of the process whose folder that is; of one with many descriptors, all of these `open`.
pub(super) fn open_sockets(process: &Path, open: u64) -> Option<u64> {
    if open <= LISTED_MAX { sockets(&process.join("fd")) } else { Some(open) }
}

/// Sockets among the descriptors: connections, and what it listens on, which takes a place like a connection.
fn sockets(directory: &Path) -> Option<u64> {
    let entries = fs::read_dir(directory).ok()?;
    let is_socket = |entry: &fs::DirEntry| {
        fs::read_link(entry.path())
            .is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
    };
    Some(entries.flatten().filter(is_socket).count() as u64)
}

/// worker_connections of a configuration.
fn limit(texts: &[String]) -> u64 {
    let mut values = nginx_configuration::values(texts, "worker_connections");
    values.find_map(|value| value.parse().ok()).unwrap_or(DEFAULT)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fixture::tree;

    #[test]
    fn a_worker_is_read_with_the_configuration_of_its_master() {
        let root = tree(&[
            ("proc/8/cmdline", "nginx: worker process"),
            ("proc/8/status", "Name:\tnginx\nPPid:\t7\n"),
            ("proc/7/cmdline", "nginx: master process nginx -p /run/x -c main.conf\0"),
            ("run/x/main.conf", "# worker_connections 9;\ninclude events.conf;\n"),
            ("run/x/events.conf", "events { worker_connections 64; }\n"),
            ("proc/8/fd/README", ""),
        ]);
        for (number, target) in ["socket:[1]", "socket:[2]", "/var/log/x"].iter().enumerate() {
            symlink(target, root.path().join(format!("proc/8/fd/{number}"))).expect("a link");
        }
        assert_eq!(connections(root.path(), 8, Some(4)), Some((2, 64)));
        // The master has none, and no other process is nginx.
        assert_eq!(connections(root.path(), 7, Some(4)), None);
        assert_eq!(connections(root.path(), 9, Some(4)), None);
        let texts =
            nginx_configuration::texts(root.path(), "nginx: master process /usr/sbin/nginx");
        assert_eq!(limit(&texts), DEFAULT);
    }
}
