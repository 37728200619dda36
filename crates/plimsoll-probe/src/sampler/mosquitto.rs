//! The connections of mosquitto against `max_connections` of its listeners, which it reports nowhere.

use std::path::Path;

use super::nginx::open_sockets;
use crate::mosquitto_configuration;

/// Returns the open connections of process `pid` and their limit; `None` if it is no mosquitto, or has no limit. `open`
/// is the number of its descriptors.
pub fn connections(root: &Path, pid: u32, open: Option<u64>) -> Option<(u64, u64)> {
    let configuration = mosquitto_configuration::read(root, pid)?;
    let limit = configuration.connections_max?;
    let used = open_sockets(&root.join("proc").join(pid.to_string()), open?)?;
    // A broker has a few other sockets, and never more connections than its limit.
    Some((used.saturating_sub(configuration.listeners).min(limit), limit))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::fixture::tree;

    #[test]
    fn what_it_listens_on_is_no_connection() {
        let root = tree(&[
            ("proc/7/cmdline", "mosquitto\0-c\0/m.conf\0"),
            ("m.conf", "listener 1883\nmax_connections 20\n"),
            ("proc/7/fd/README", ""),
        ]);
        for (number, target) in ["socket:[1]", "socket:[2]", "/var/log/x"].iter().enumerate() {
            symlink(target, root.path().join(format!("proc/7/fd/{number}"))).expect("a link");
        }
        assert_eq!(connections(root.path(), 7, Some(4)), Some((1, 20)));
        assert_eq!(connections(root.path(), 8, Some(4)), None);
    }
}
