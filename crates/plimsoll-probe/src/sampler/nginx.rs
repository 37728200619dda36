//! The connections of an nginx worker against worker_connections. nginx reports neither: its stub_status page has only
//! the sum over all workers, and what they close to stay below the limit is not counted anywhere.

use std::fs;
use std::path::Path;

use crate::lines;

/// The configuration where the command line names none.
const CONFIGURATION: &str = "/etc/nginx/nginx.conf";
/// What nginx takes where the configuration says nothing.
const DEFAULT: u64 = 512;
/// Of a worker with more descriptors, those that are no connections are not counted; they are few.
const LISTED_MAX: u64 = 256;
/// Files included from files, so deep.
const INCLUDES_MAX: u32 = 3;

/// Open connections of process `pid` and the most that it may have; `None` of what is no worker of nginx. `open` are its
/// descriptors.
pub(super) fn connections(root: &Path, pid: u32, open: Option<u64>) -> Option<(u64, u64)> {
    let process = root.join("proc").join(pid.to_string());
    let title = fs::read(process.join("cmdline")).ok()?;
    if !title.starts_with(b"nginx: worker process") {
        return None;
    }
    let open = open?;
    let used = if open <= LISTED_MAX { sockets(&process.join("fd"))? } else { open };
    let status = fs::read_to_string(process.join("status")).ok()?;
    let master = lines::word(&status, "PPid:")?;
    let title = fs::read(root.join("proc").join(master).join("cmdline")).unwrap_or_default();
    Some((used, limit(root, &String::from_utf8_lossy(&title))))
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

/// worker_connections of the configuration that the title of the master names:
/// `nginx: master process nginx -p /run/x -c nginx.conf`.
fn limit(root: &Path, title: &str) -> u64 {
    let words: Vec<&str> = title.split([' ', '\0']).collect();
    let after = |flag: &str| words.windows(2).find(|pair| pair[0] == flag).map(|pair| pair[1]);
    let prefix = Path::new(after("-p").unwrap_or("/etc/nginx"));
    let file = prefix.join(after("-c").unwrap_or(CONFIGURATION));
    of_file(root, &file, INCLUDES_MAX).unwrap_or(DEFAULT)
}

fn of_file(root: &Path, file: &Path, depth: u32) -> Option<u64> {
    let text = fs::read_to_string(root.join(file.strip_prefix("/").unwrap_or(file))).ok()?;
    let lines = || text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let own = lines().find_map(|line| {
        let rest = line.split_once("worker_connections")?.1.trim_start();
        rest.split([';', ' ', '\t']).next()?.parse().ok()
    });
    let included = || {
        let named = lines().filter_map(|line| line.trim().strip_prefix("include"));
        let mut files = named.filter_map(|rest| rest.trim().strip_suffix(';'));
        let beside = file.parent().unwrap_or_else(|| Path::new("/"));
        files.find_map(|included| of_file(root, &beside.join(included.trim()), depth - 1))
    };
    own.or_else(|| if depth > 0 { included() } else { None })
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
        assert_eq!(limit(root.path(), "nginx: master process /usr/sbin/nginx"), DEFAULT);
    }
}
